//! The choice among targets, for one request.

use super::hashing::{fraction, rendezvous};
use super::memory::Memory;
use super::plan::Plan;
use super::readiness::Readiness;

/// What an edge sees of the targets at one moment.
pub trait Sight {
    /// How good a candidate a target is.
    fn readiness(&self, target: usize) -> Readiness;

    /// Whether a target has room for one more request. If it has, the room is taken.
    fn take(&self, _target: usize) -> bool {
        true
    }

    /// The part of clients, between 0 and 1, that a target has room for. Clients that keep to
    /// their target are told apart by this and not request by request.
    fn open(&self, _target: usize) -> f64 {
        1.0
    }
}

impl<F: Fn(usize) -> Readiness> Sight for F {
    fn readiness(&self, target: usize) -> Readiness {
        self(target)
    }
}

/// What is special about a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// The version group that it must go to, whatever the weights say.
    pub group: Option<u16>,
    /// Targets that it has been to already, as bits: others come first.
    pub tried: u64,
    /// The residency rules that hold for its client, as [`Plan::residency`] gives them.
    pub residency: u64,
    /// What is always the same for one client, if clients are kept with their targets.
    pub key: Option<u64>,
    /// The target that its client has been with.
    pub stay: Option<u16>,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which target of the backend.
    pub target: usize,
    /// How good it was; anything but ready means that nothing better was left.
    pub readiness: Readiness,
    /// Whether it is where the request would have gone with room everywhere.
    pub room: Room,
}

/// What room there was for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// Enough where it should go.
    #[default]
    Enough,
    /// A nearer target was full.
    Overflow,
    /// All targets were full.
    None,
}

struct Choice<'a, S> {
    plan: &'a Plan,
    sight: &'a S,
    ask: Ask,
    level: Readiness,
    /// Too few are ready for health to be believed.
    panic: bool,
}

impl Plan {
    /// Where a request goes. Nothing only if the backend has no target that may get any.
    pub fn decide(&self, sight: impl Sight, memory: &mut Memory, ask: Ask) -> Option<Decision> {
        let panic = self.panics(&sight);
        let mut choice = Choice { plan: self, sight: &sight, ask, level: Readiness::Ready, panic };
        loop {
            if let Some((target, room)) = choice.choose(memory) {
                return Some(Decision { target, readiness: sight.readiness(target), room });
            }
            match choice.next_level() {
                Some(level) => choice.level = level,
                None => break,
            }
        }
        if ask.tried == 0 {
            return None;
        }
        // All have been tried. Another go at the best of them is better than none.
        self.decide(sight, memory, Ask { tried: 0, ..ask })
    }

    /// How good a target counts as: while too few are ready, only drains are believed.
    pub fn level(&self, sight: &impl Sight, target: usize) -> Readiness {
        level(sight.readiness(target), self.panics(sight))
    }

    fn panics(&self, sight: &impl Sight) -> bool {
        self.panic_percent > 0 && self.too_few_ready(sight)
    }

    fn too_few_ready(&self, sight: &impl Sight) -> bool {
        let (mut ready, mut all) = (0, 0);
        for target in 0..self.targets() {
            match sight.readiness(target) {
                Readiness::Ready => (ready, all) = (ready + 1, all + 1),
                Readiness::Draining => {}
                Readiness::Stale | Readiness::Unhealthy => all += 1,
            }
        }
        ready * 100 < all * usize::from(self.panic_percent)
    }
}

fn level(readiness: Readiness, panic: bool) -> Readiness {
    match readiness {
        Readiness::Draining => Readiness::Draining,
        _ if panic => Readiness::Ready,
        readiness => readiness,
    }
}

impl<S: Sight> Choice<'_, S> {
    fn candidate(&self, target: usize) -> bool {
        let untried = target >= 64 || self.ask.tried & (1 << target) == 0;
        untried && self.plan.allows(target, self.ask.residency) && self.level(target) == self.level
    }

    /// The best of what is worse than the level that nothing was found at.
    fn next_level(&self) -> Option<Readiness> {
        let levels = (0..self.plan.targets()).map(|target| self.level(target));
        levels.filter(|level| *level > self.level).min()
    }

    fn level(&self, target: usize) -> Readiness {
        level(self.sight.readiness(target), self.panic)
    }

    fn choose(&self, memory: &mut Memory) -> Option<(usize, Room)> {
        if let Some(target) = self.ask.stay.map(usize::from)
            && self.level == Readiness::Ready
            && target < self.plan.targets()
            && self.plan.has_weight(target)
            && self.candidate(target)
        {
            // Room or not: whoever is there stays.
            self.sight.take(target);
            return Some((target, Room::Enough));
        }
        let group = self.ask.group.and_then(|group| self.plan.members.get(usize::from(group)));
        if let Some(found) = group.and_then(|members| self.nearest(members, memory)) {
            return Some(found);
        }
        if self.plan.shares.is_empty() {
            return self.nearest(&self.plan.order, memory);
        }
        let shares = &self.plan.shares;
        let weight = |share: usize| {
            let (weight, targets) = &shares[share];
            let open = *weight > 0 && targets.iter().any(|index| self.candidate((*index).into()));
            if open { *weight } else { 0 }
        };
        let share = match self.ask.key {
            None => memory.shares.next(weight),
            Some(key) => {
                let name = |share: usize| {
                    shares[share]
                        .1
                        .first()
                        .map_or(0, |first| self.plan.targets[usize::from(*first)].name)
                };
                let all =
                    (0..shares.len()).map(|share| (share, !name(share), weight(share).into()));
                rendezvous(key, all)
            }
        };
        match share {
            Some(share) => self.nearest(&shares[share].1, memory),
            None if self.plan.strict => None,
            // No weighted target is at this level: all candidates of `order` have weight 0.
            None => self.nearest(&self.plan.order, memory),
        }
    }

    /// The nearest candidate of a list that has room; if none has, all take turns.
    fn nearest(&self, list: &[u16], memory: &mut Memory) -> Option<(usize, Room)> {
        memory.decision += 1;
        let (mut any, mut room) = (false, Room::Enough);
        let tier = |index: u16| self.plan.targets[usize::from(index)].tier;
        for equally_near in list.chunk_by(|one, other| tier(*one) == tier(*other)) {
            while let Some(target) = self.next_in_tier(equally_near, memory) {
                any = true;
                match self.admits(target, memory) {
                    Admission::Yes => return Some((target, room)),
                    Admission::Full => room = Room::Overflow,
                    Admission::Drained => {}
                }
                memory.full[target] = memory.decision;
                if equally_near.len() == 1 {
                    break;
                }
            }
        }
        if !any {
            return None;
        }
        let all = || list.iter().map(|index| usize::from(*index));
        // All candidates have turned out to be full by now.
        let Memory { full, decision, crowded, .. } = memory;
        let size = |target: usize| {
            if full[target] == *decision { self.plan.targets[target].size } else { 0 }
        };
        let target = match self.ask.key {
            None => crowded.next_of(all(), size)?,
            Some(key) => {
                let named =
                    |target: usize| (target, self.plan.targets[target].name, size(target).into());
                rendezvous(key, all().map(named))?
            }
        };
        self.sight.take(target);
        Some((target, if room == Room::Enough { room } else { Room::None }))
    }

    /// Whose turn it is among equally near targets, leaving out those that turned out to be full.
    fn next_in_tier(&self, tier: &[u16], memory: &mut Memory) -> Option<usize> {
        let open = |target: usize| !memory.is_full(target) && self.candidate(target);
        if let [only] = tier {
            let only = usize::from(*only);
            return open(only).then_some(only);
        }
        let all = || tier.iter().map(|index| usize::from(*index));
        if let Some(key) = self.ask.key {
            let weighed = all().filter(|target| open(*target)).map(|target| {
                let preference = &self.plan.targets[target];
                (target, preference.name, preference.weight.into())
            });
            return rendezvous(key, weighed);
        }
        let (full, decision) = (&memory.full, memory.decision);
        memory.targets.next_of(all(), |target| {
            let open = full[target] != decision && self.candidate(target);
            if open { self.plan.targets[target].weight } else { 0 }
        })
    }

    fn admits(&self, target: usize, memory: &mut Memory) -> Admission {
        let drained = match self.plan.targets[target].drained_percent {
            // Who gets here although all is drained is fallen back to.
            100.. => 0,
            percent => percent,
        };
        if let Some(key) = self.ask.key {
            let at = fraction(key, self.plan.targets[target].name);
            let kept = 1.0 - f64::from(drained) / 100.0;
            if at >= kept {
                return Admission::Drained;
            }
            if at >= kept * self.sight.open(target) {
                return Admission::Full;
            }
            self.sight.take(target);
            return Admission::Yes;
        }
        if drained > 0 {
            let debt = &mut memory.drained[target];
            *debt += u16::from(drained);
            if *debt >= 100 {
                *debt -= 100;
                return Admission::Drained;
            }
        }
        if self.sight.take(target) { Admission::Yes } else { Admission::Full }
    }
}

enum Admission {
    Yes,
    Full,
    Drained,
}
