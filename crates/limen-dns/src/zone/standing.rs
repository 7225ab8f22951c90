//! How well the targets of a host are.
//!
//! Most hosts lead to the same clusters. What there is to find out for them is the same then, and
//! it is the same thing in memory: a cluster that goes away is judged once, and not once for each
//! of ten thousand hosts.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use limen_core::decide::{OwnKnowledge, Readiness, readiness};
use limen_core::global::{Target, TrafficRules, Verdict};

use super::host::Ways;
use crate::knowledge::{Asked, Knowledge, Probe};
use crate::shared::Shared;

/// What hosts have in common with each other.
#[derive(Default)]
pub(super) struct InCommon {
    pub(super) questions: Shared<Questions>,
    pub(super) ways: Shared<[Ways]>,
    probes: Shared<Probe>,
}

/// What is asked of the targets of a host, and what follows from the answers.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Questions {
    /// By target: what is asked of its addresses. Nothing where gateways know already.
    pub(crate) probes: Vec<Vec<Asked>>,
    /// By target: how good a candidate it is if nothing is known of it, if it answers, and if it
    /// does not.
    levels: Vec<[Readiness; 3]>,
    /// Whether somebody takes traffic away from one of them.
    draining: bool,
}

impl Questions {
    pub(super) fn new(
        targets: &[Target],
        rules: &TrafficRules,
        host: &str,
        known: &mut InCommon,
    ) -> Arc<Self> {
        use OwnKnowledge::{Answers, None, Silent};
        let mut asked = |target: &Target| {
            // Only what is asked for: clients may reach what this server does not.
            let check = rules.asked_check().filter(|_| target.verdicts.edge == Verdict::Unknown);
            let addresses = target.addresses.iter().filter(|_| check.is_some());
            let probes = addresses.zip(check.into_iter().cycle());
            let probes = probes.map(|(address, check)| Probe::new(address, check, host));
            probes.map(|probe| Asked::new(known.probes.one(probe))).collect()
        };
        let probes = targets.iter().map(&mut asked).collect();
        let levels = |target| [None, Answers, Silent].map(|own| readiness(target, own));
        let levels = targets.iter().map(levels).collect();
        let draining = targets.iter().any(|target| target.drained_percent > 0);
        known.questions.one(Self { probes, levels, draining })
    }

    /// Whether anything is asked at all.
    pub(super) fn asks(&self) -> bool {
        self.probes.iter().any(|probes| !probes.is_empty())
    }

    fn judge(&self, knowledge: &Knowledge) -> Standing {
        let states = self.levels.iter().zip(&self.probes);
        let readiness: Arc<[Readiness]> =
            states.map(|(levels, probes)| levels[own(probes, knowledge) as usize]).collect();
        let calm = !self.draining && readiness.iter().all(|state| *state == Readiness::Ready);
        Standing { readiness, calm }
    }
}

/// How well the targets of some hosts are.
#[derive(Clone)]
pub(super) struct Standing {
    /// How good a candidate each is.
    pub(super) readiness: Arc<[Readiness]>,
    /// Whether all is well.
    pub(super) calm: bool,
}

/// Judges the targets of one host after the other by what is known now.
pub(super) struct Judge<'a> {
    pub(super) knowledge: &'a Knowledge,
    /// By where the questions are. Those that were asked are kept for as long as the judge sits,
    /// so that no others come to be in the same place.
    judged: HashMap<*const Questions, (Arc<Questions>, Standing), FixedState>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(knowledge: &'a Knowledge) -> Self {
        Self { knowledge, judged: HashMap::default() }
    }

    pub(super) fn judge(&mut self, questions: &Arc<Questions>) -> Standing {
        let new = || (questions.clone(), questions.judge(self.knowledge));
        let (_, standing) = self.judged.entry(Arc::as_ptr(questions)).or_insert_with(new);
        standing.clone()
    }
}

/// What the server has found out about a target: that one address answers, that none does, or
/// nothing yet.
fn own(probes: &[Asked], knowledge: &Knowledge) -> OwnKnowledge {
    let mut own = OwnKnowledge::None;
    for probe in probes {
        match knowledge.answering.get(probe) {
            Some(true) => return OwnKnowledge::Answers,
            Some(false) => own = OwnKnowledge::Silent,
            None => return OwnKnowledge::None,
        }
    }
    own
}
