//! The known differences between Limen and the real server, one per line:
//!
//! ```text
//! case/step | what differs | why
//! ```
//!
//! The first two are compared with a difference as it is printed, where `*` stands for any
//! text and the end may be left out. A line that matches nothing is out of date, and fails; if it
//! speaks of many cases, only a run of all cases can tell.

use anyhow::{Context, Result};
use regex::Regex;

pub(crate) struct Divergence {
    line: String,
    step: Regex,
    what: Regex,
    case: String,
}

pub(crate) fn parse(text: &str) -> Result<Vec<Divergence>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).with_context(|| format!("divergence {line}"))).collect()
}

fn parse_line(line: &str) -> Result<Divergence> {
    let mut fields = line.split(" | ").map(str::trim);
    let mut field = |name| fields.next().with_context(|| format!("it has no {name}"));
    let (step, what, _why) = (field("case/step")?, field("what differs")?, field("reason")?);
    let case = step.split_once('/').context("not case/step")?.0.to_owned();
    Ok(Divergence { line: line.to_owned(), step: glob(step, "$")?, what: glob(what, "")?, case })
}

fn glob(pattern: &str, end: &str) -> Result<Regex> {
    let pattern = regex::escape(pattern).replace(r"\*", ".*");
    Ok(Regex::new(&format!("^{pattern}{end}"))?)
}

impl Divergence {
    /// Whether the difference `what` of `step` (`case/number`) is this one.
    pub(crate) fn covers(&self, step: &str, what: &str) -> bool {
        self.step.is_match(step) && self.what.is_match(what)
    }

    /// Whether this is about `case` and no other.
    pub(crate) fn concerns(&self, case: &str) -> bool {
        self.case == case
    }
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_covers_what_it_says_and_nothing_else() {
        let listed = parse("# why\nversion/1 | body/build*: | another build\n").unwrap();
        let covers = |step, what| listed[0].covers(step, what);

        assert!(covers("version/1", "body/buildDate: a => b"));
        assert!(!covers("version/1", "body/major: 1 => 2"));
        assert!(!covers("version/12", "body/buildDate: a => b"));
    }

    #[test]
    fn line_about_many_cases_is_judged_by_a_run_of_all() {
        let listed = parse("version/1 | a | why\n*/* | b | why\n").unwrap();
        assert!(listed[0].concerns("version") && !listed[0].concerns("other"));
        assert!(!listed[1].concerns("version"));
    }

    #[test]
    fn line_without_a_reason_is_refused() {
        assert!(parse("version/1 | body\n").is_err());
    }
}
