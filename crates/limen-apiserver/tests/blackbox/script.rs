//! The text format of cases.
//!
//! ```text
//! # A comment.
//! == configmap-lifecycle          a case; its name is also its namespace. `alone`: nothing beside it
//! mask copy [a-z0-9]{5}           what matches differs from run to run; the text before it is kept
//!
//! $ kubectl apply -f -            a step: a shell command, with what is indented as its input
//!   kind: ConfigMap
//! $ [until: created] kubectl ...  repeated until the output matches
//!
//! > POST /api/v1/namespaces/$NS/configmaps      a step: an HTTP request
//! > Content-Type: application/yaml
//!   kind: ConfigMap
//! > [no-cert] [lines: 2] GET ...  without the admin's certificate; ends after two lines
//!
//! set RV /metadata/resourceVersion      a variable from the last answer, by JSON pointer
//! ```
//!
//! `$NAME` stands for a variable in commands, requests and bodies. A body may hold
//! `{{repeat 1000 text}}` and `{{bytes ff fe}}` for what is no fun to write down.

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;

/// A named sequence of steps in a namespace of its own.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Whether it looks at what other cases change, such as the list of all APIs.
    pub(crate) alone: bool,
    pub(crate) masks: Vec<Regex>,
    pub(crate) steps: Vec<Step>,
}

pub(crate) struct Step {
    /// What the reader of a difference sees.
    pub(crate) title: String,
    pub(crate) action: Action,
    pub(crate) until: Option<Regex>,
    pub(crate) body: String,
    /// Variables taken from the answer, with the JSON pointer of each.
    pub(crate) sets: Vec<(String, String)>,
}

pub(crate) enum Action {
    Shell(String),
    Http(Request),
}

#[derive(Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) without_certificate: bool,
    /// A watch is left after this many lines.
    pub(crate) lines: Option<usize>,
}

/// The cases of one file.
pub(crate) fn parse(text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        parse_line(&mut cases, line).with_context(|| format!("line {}: {line}", number + 1))?;
    }
    Ok(cases)
}

fn parse_line(cases: &mut Vec<Case>, line: &str) -> Result<()> {
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(());
    }
    if let Some(title) = line.strip_prefix("== ") {
        let (name, flags) = title.split_once(' ').unwrap_or((title, ""));
        ensure!(matches!(flags, "" | "alone"), "unknown flag {flags}");
        let alone = flags == "alone";
        cases.push(Case { name: name.to_owned(), alone, masks: vec![], steps: vec![] });
        return Ok(());
    }
    let case = cases.last_mut().context("a case begins with ==")?;
    if let Some(mask) = line.strip_prefix("mask ") {
        case.masks.push(Regex::new(mask)?);
    } else if let Some(command) = line.strip_prefix("$ ") {
        case.steps.push(shell_step(command)?);
    } else if let Some(request) = line.strip_prefix("> ") {
        match case.steps.last_mut().map(|step| (&mut step.action, request.split_once(": "))) {
            Some((Action::Http(open), Some((name, value)))) if !name.contains([' ', '/', '[']) => {
                open.headers.push((name.to_owned(), value.to_owned()));
            }
            _ => case.steps.push(http_step(request)?),
        }
    } else {
        let step = case.steps.last_mut().context("no step yet")?;
        if let Some(set) = line.strip_prefix("set ") {
            let (name, pointer) = set.split_once(' ').context("set NAME /pointer")?;
            step.sets.push((name.to_owned(), pointer.to_owned()));
        } else if let Some(body) = line.strip_prefix("  ") {
            step.body.push_str(body);
            step.body.push('\n');
        } else {
            bail!("neither a case nor a step");
        }
    }
    Ok(())
}

/// `[option] [name: value] rest`.
fn options(mut text: &str) -> (Vec<(&str, &str)>, &str) {
    let mut found = Vec::new();
    while let Some((option, rest)) = text.strip_prefix('[').and_then(|text| text.split_once("] ")) {
        found.push(option.split_once(": ").unwrap_or((option, "")));
        text = rest;
    }
    (found, text)
}

fn shell_step(text: &str) -> Result<Step> {
    let (options, command) = options(text);
    let mut until = None;
    for (name, value) in options {
        ensure!(name == "until", "a command has no option {name}");
        until = Some(Regex::new(value)?);
    }
    let action = Action::Shell(command.to_owned());
    Ok(Step { title: format!("$ {command}"), action, until, body: String::new(), sets: vec![] })
}

fn http_step(text: &str) -> Result<Step> {
    let (options, line) = options(text);
    let (method, path) = line.split_once(' ').context("METHOD /path")?;
    let mut request =
        Request { method: method.to_owned(), path: path.to_owned(), ..Request::default() };
    let mut until = None;
    for (name, value) in options {
        match name {
            "no-cert" => request.without_certificate = true,
            "lines" => request.lines = Some(value.parse()?),
            "until" => until = Some(Regex::new(value)?),
            _ => bail!("a request has no option {name}"),
        }
    }
    let action = Action::Http(request);
    Ok(Step { title: format!("> {line}"), action, until, body: String::new(), sets: vec![] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_has_its_steps_with_headers_bodies_and_variables() {
        let text = "\
# nothing
== one alone
$ [until: ok] kubectl apply -f -
  kind: A
    b: c
> [no-cert] POST /api?x=1
> Accept: a/b
  {}
set RV /metadata/resourceVersion
> GET /second
";

        let cases = parse(text).unwrap();

        let [Case { name, alone: true, steps, .. }] = &cases[..] else { panic!("one case") };
        assert_eq!(name, "one");
        assert_eq!(steps.len(), 3);
        assert_eq!(steps[0].body, "kind: A\n  b: c\n");
        assert!(steps[0].until.is_some());
        let Action::Http(post) = &steps[1].action else { panic!("a request") };
        assert!(post.without_certificate);
        assert_eq!(post.path, "/api?x=1");
        assert_eq!(post.headers, [("Accept".to_owned(), "a/b".to_owned())]);
        assert_eq!(steps[1].sets, [("RV".to_owned(), "/metadata/resourceVersion".to_owned())]);
    }

    #[test]
    fn line_that_belongs_nowhere_is_named() {
        let error = parse("== one\nkubectl get\n").err().unwrap();
        assert_eq!(format!("{error:#}").split(':').next(), Some("line 2"));
    }
}
