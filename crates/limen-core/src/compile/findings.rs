//! Findings about a root, told to people once they have lasted.
//!
//! A cluster whose pods are ready a moment before its load balancer is has nothing wrong with it.
//! A finding of a compile is therefore told only when it has lasted for a while.

use std::collections::BTreeMap;

/// How many seconds something must have been odd before it is said.
pub const ODD_FOR: i64 = 30;

/// Findings of compiles, each with the time of its first appearance without a break since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(BTreeMap<String, i64>);

impl Findings {
    /// Takes what a compile has found; what it has not found again is forgotten.
    pub fn found(&mut self, findings: Vec<String>, now: i64) {
        let mut before = std::mem::take(&mut self.0);
        self.0 = findings
            .into_iter()
            .map(|finding| {
                let since = before.remove(&finding).unwrap_or(now);
                (finding, since)
            })
            .collect();
    }

    /// Findings that have lasted.
    pub fn lasting(&self, now: i64) -> impl Iterator<Item = &str> {
        let lasted = self.0.iter().filter(move |(_, since)| now - **since >= ODD_FOR);
        lasted.map(|(finding, _)| finding.as_str())
    }

    /// When there will be more to say, if nothing changes until then.
    pub fn due(&self, now: i64) -> Option<i64> {
        self.0.values().map(|since| since + ODD_FOR).filter(|due| *due > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(findings: &mut Findings, found: &[&str], now: i64) -> Vec<String> {
        findings.found(found.iter().map(|text| (*text).to_owned()).collect(), now);
        findings.lasting(now).map(str::to_owned).collect()
    }

    #[test]
    fn what_passes_by_itself_is_never_said() {
        let mut findings = Findings::default();
        assert!(after(&mut findings, &["no way in"], 100).is_empty());
        assert_eq!(findings.due(100), Some(130));
        assert!(after(&mut findings, &[], 129).is_empty());
        assert_eq!(findings.due(129), None);
        // It begins anew.
        assert!(after(&mut findings, &["no way in"], 131).is_empty());
        assert_eq!(findings.due(131), Some(161));
    }

    #[test]
    fn what_lasts_is_said_however_often_it_is_found_and_whatever_else_is() {
        let mut findings = Findings::default();
        after(&mut findings, &["no way in"], 100);
        assert!(after(&mut findings, &["no way in", "no Service"], 120).is_empty());
        assert_eq!(findings.due(120), Some(130));
        assert_eq!(after(&mut findings, &["no Service", "no way in"], 130), ["no way in"]);
        assert_eq!(findings.due(130), Some(150));
        // Time alone is enough.
        assert_eq!(findings.lasting(150).count(), 2);
        assert_eq!(findings.due(150), None);
    }
}
