//! The known differences between Limen and the real server, one per line:
//!
//! ```text
//! case/step | what differs | why
//! ```
//!
//! The first two are compared with a difference as it is printed, where `*` stands for any
//! text and the end may be left out. A line that matches nothing is out of date, and fails; if it
//! speaks of many cases, only a run of all cases can tell.
//!
//! Where a difference is about one of many things, these have a line of their own, before the
//! lines that say `$name` in their place:
//!
//! ```text
//! name = this, that
//! ```

use anyhow::{Context, Result};
use regex::Regex;

pub(crate) struct Divergence {
    line: String,
    step: Regex,
    what: Regex,
    case: String,
}

pub(crate) fn parse(text: &str) -> Result<Vec<Divergence>> {
    let mut names = Names::new();
    let mut divergences = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(" = ") {
            Some((name, things)) if !line.contains(" | ") => {
                let things = things.split(", ").map(regex::escape).collect::<Vec<_>>().join("|");
                names.push((name.to_owned(), things));
            }
            _ => {
                let parsed = parse_line(line, &names);
                divergences.push(parsed.with_context(|| format!("divergence {line}"))?);
            }
        }
    }
    Ok(divergences)
}

/// What names stand for, as regular expressions.
type Names = Vec<(String, String)>;

fn parse_line(line: &str, names: &Names) -> Result<Divergence> {
    let mut fields = line.split(" | ").map(str::trim);
    let mut field = |name| fields.next().with_context(|| format!("it has no {name}"));
    let (step, what, _why) = (field("case/step")?, field("what differs")?, field("reason")?);
    let case = step.split_once('/').context("not case/step")?.0.to_owned();
    let (step, what) = (glob(step, "$", names)?, glob(what, "", names)?);
    Ok(Divergence { line: line.to_owned(), step, what, case })
}

fn glob(pattern: &str, end: &str, names: &Names) -> Result<Regex> {
    let mut pattern = regex::escape(pattern).replace(r"\*", ".*");
    for (name, things) in names {
        pattern = pattern.replace(&regex::escape(&format!("${name}")), &format!("({things})"));
    }
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
    fn name_stands_for_any_of_its_things() {
        let text = "kinds = pods, nodes.k8s.io\nlist/1 | stdout: $kinds => | left out\n";
        let listed = parse(text).unwrap();
        let covers = |what| listed[0].covers("list/1", what);

        assert!(covers("stdout: pods => (nothing)"));
        assert!(covers("stdout: nodes.k8s.io => (nothing)"));
        assert!(!covers("stdout: nodesXk8s.io => (nothing)"));
        assert!(!covers("stdout: services => (nothing)"));
    }

    #[test]
    fn line_without_a_reason_is_refused() {
        assert!(parse("version/1 | body\n").is_err());
    }
}
