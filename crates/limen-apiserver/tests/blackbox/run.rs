//! Runs one case against one subject and writes down what it answers.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use regex::{Captures, Regex};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    process::Command,
    time::{Instant, sleep},
};

use crate::{
    http, kube_client,
    script::{Action, Case, Request, Step},
    subject::Subject,
};

/// No step takes longer than this many seconds.
const STEP_LIMIT: &str = "60";
const UNTIL_LIMIT: Duration = Duration::from_secs(20);
/// A transcript has this many characters of each part.
const SHOWN: usize = 20_000;
const UNTIL_PAUSE: Duration = Duration::from_millis(100);

/// What a step answered: named parts, such as `status` and `body`.
pub(crate) struct Answer {
    pub(crate) parts: Vec<(String, Content)>,
}

pub(crate) enum Content {
    Text(String),
    Json(Value),
}

impl Answer {
    /// The text that variables are taken from and that `until` looks at.
    fn payload(&self) -> Option<&Content> {
        let payload = self.parts.iter().find(|(name, _)| name == "body" || name == "stdout");
        payload.map(|(_, content)| content)
    }

    fn matches(&self, pattern: &Regex) -> bool {
        self.parts.iter().any(|(_, content)| match content {
            Content::Text(text) => pattern.is_match(text),
            Content::Json(value) => pattern.is_match(&value.to_string()),
        })
    }
}

/// JSON and YAML objects are compared by their structure, whatever else by its lines. A watch is
/// one JSON document per line.
pub(crate) fn content(text: &str) -> Content {
    let json = |text: &str| {
        let value: Option<Value> = serde_json::from_str(text).ok();
        value.filter(|value| value.is_object() || value.is_array())
    };
    if let Some(value) = json(text) {
        return Content::Json(value);
    }
    if text.starts_with("apiVersion:")
        && let Ok(value) = serde_saphyr::from_str(text)
    {
        return Content::Json(value);
    }
    let lines: Option<Vec<Value>> = text.lines().map(json).collect();
    match lines {
        Some(lines) if !lines.is_empty() => Content::Json(Value::Array(lines)),
        _ => Content::Text(text.to_owned()),
    }
}

/// A case under way.
struct Run<'a> {
    subject: &'a Subject,
    home: PathBuf,
    variables: BTreeMap<String, String>,
}

/// The answers of `subject` to the steps of `case`; `home` is a folder of their own.
pub(crate) async fn run(
    case: &Case,
    subject: &Subject,
    tools: &str,
    home: PathBuf,
) -> Result<Vec<Answer>> {
    let namespace = &case.name;
    fs::create_dir_all(&home)?;
    fs::write(home.join("kubeconfig"), subject.kubeconfig_for(namespace, true))?;
    fs::write(home.join("anonymous"), subject.kubeconfig_for(namespace, false))?;
    let path = |name: &str| home.join(name).display().to_string();
    let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/blackbox/clients");
    let variables = BTreeMap::from([
        ("PATH", tools.to_owned()),
        ("HOME", home.display().to_string()),
        ("TMPDIR", home.display().to_string()),
        ("KUBECONFIG", path("kubeconfig")),
        ("KUBECACHEDIR", path("cache")),
        ("KUBERC", "off".to_owned()),
        ("ANONYMOUS", path("anonymous")),
        ("NS", namespace.to_owned()),
        ("CLIENTS", clients.to_owned()),
    ]);
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut run = Run { subject, home, variables };

    run.create_namespace(namespace).await?;
    let mut answers = Vec::new();
    for step in &case.steps {
        let answer = run.step(step).await.with_context(|| step.title.clone())?;
        for (name, pointer) in &step.sets {
            let value = match answer.payload() {
                Some(Content::Json(value)) => value.pointer(pointer).map(|found| match found {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                }),
                Some(Content::Text(text)) if pointer == "/" => Some(text.trim().to_owned()),
                _ => None,
            };
            // A subject that fails here shows it in this answer and the next.
            run.variables.insert(name.clone(), value.unwrap_or_else(|| "missing".to_owned()));
        }
        answers.push(answer);
    }
    Ok(answers)
}

impl Run<'_> {
    async fn create_namespace(&self, name: &str) -> Result<()> {
        let request = Request {
            method: "POST".to_owned(),
            path: "/api/v1/namespaces".to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            ..Request::default()
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let answer = http::send(self.subject, &request, namespace.to_string().into_bytes()).await?;
        let subject = &self.subject.name;
        ensure!(answer.matches(&Regex::new("201")?), "{subject} creates no namespace: {answer}");
        Ok(())
    }

    async fn step(&self, step: &Step) -> Result<Answer> {
        let start = Instant::now();
        loop {
            let answer = self.attempt(step).await?;
            match &step.until {
                Some(pattern) if !answer.matches(pattern) => {
                    let waits = start.elapsed() < UNTIL_LIMIT;
                    // What the real server never says is a mistake in the case.
                    ensure!(waits || self.subject.name != "real", "never {pattern}: {answer}");
                    if !waits {
                        return Ok(answer);
                    }
                    sleep(UNTIL_PAUSE).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    async fn attempt(&self, step: &Step) -> Result<Answer> {
        let body = self.fill(&step.body);
        match &step.action {
            Action::Shell(command) => match command.strip_prefix("kube-rs ") {
                Some(program) => kube_client::run(program, &self.variables).await,
                None => self.shell(command, &body).await,
            },
            Action::Http(request) => {
                let mut request = request.clone();
                request.path = self.fill(&request.path);
                for (_, value) in &mut request.headers {
                    *value = self.fill(value);
                }
                http::send(self.subject, &request, generate(&body)).await
            }
        }
    }

    async fn shell(&self, command: &str, input: &str) -> Result<Answer> {
        // `timeout` ends the whole group, also what the shell has started.
        let mut child = Command::new("timeout")
            .args(["--kill-after=1", STEP_LIMIT, "sh", "-c", command])
            .env_clear()
            .envs(&self.variables)
            .current_dir(&self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdin = child.stdin.take().context("stdin is piped")?;
        // A command that does not read its input has ended before we are done.
        let _ = stdin.write_all(&generate(input)).await;
        drop(stdin);
        let output = child.wait_with_output().await?;
        let exit = output.status.code().map_or("killed".to_owned(), |code| code.to_string());
        let stdout = self.without_home(&String::from_utf8_lossy(&output.stdout));
        let stderr = self.without_home(&String::from_utf8_lossy(&output.stderr));
        let stderr: String =
            stderr.split_inclusive('\n').filter(|line| !is_about_timing(line)).collect();
        Ok(Answer {
            parts: vec![
                ("exit".to_owned(), Content::Text(exit)),
                ("stdout".to_owned(), content(&stdout)),
                ("stderr".to_owned(), Content::Text(stderr)),
            ],
        })
    }

    fn without_home(&self, text: &str) -> String {
        text.replace(&self.home.display().to_string(), "$HOME")
    }

    /// The text with the values of `$VARIABLES` that there are.
    fn fill(&self, text: &str) -> String {
        let variable = Regex::new(r"\$([A-Z]+)").expect("a valid pattern");
        let value = |found: &Captures<'_>| {
            self.variables.get(&found[1]).cloned().unwrap_or_else(|| found[0].to_owned())
        };
        variable.replace_all(text, value).into_owned()
    }
}

/// The bytes of a body: `{{repeat N text}}` and `{{bytes HEX...}}` are written out.
fn generate(body: &str) -> Vec<u8> {
    let generator = Regex::new(r"\{\{(repeat|bytes) (.*?)\}\}").expect("a valid pattern");
    let mut bytes = Vec::new();
    let mut end = 0;
    for found in generator.captures_iter(body) {
        let whole = found.get(0).expect("the whole match");
        bytes.extend_from_slice(&body.as_bytes()[end..whole.start()]);
        end = whole.end();
        match (&found[1], found[2].split_once(' ')) {
            ("repeat", Some((count, text))) => {
                let count = count.parse().expect("a count");
                bytes.extend_from_slice(text.repeat(count).as_bytes());
            }
            _ => bytes.extend(
                found[2].split(' ').map(|hex| u8::from_str_radix(hex, 16).expect("hex digits")),
            ),
        }
    }
    bytes.extend_from_slice(&body.as_bytes()[end..]);
    bytes
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, part) in &self.parts {
            let part: String = part.to_string().chars().take(SHOWN).collect();
            writeln!(f, "  {name}: {}", part.trim_end().replace('\n', "\n    "))?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Json(value) => value.fmt(f),
        }
    }
}

/// Whether kubectl says how its own time-out met a watch, which is a matter of milliseconds.
fn is_about_timing(line: &str) -> bool {
    line.contains("reflector.go") && line.contains("watch ended with error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_written_out() {
        assert_eq!(generate("a{{repeat 3 xy}}b{{bytes ff 00}}"), b"axyxyxyb\xff\x00");
    }

    #[test]
    fn watch_is_a_list_of_its_events() {
        let events = content("{\"type\":\"ADDED\"}\n{\"type\":\"DELETED\"}\n").to_string();
        assert_eq!(events, r#"[{"type":"ADDED"},{"type":"DELETED"}]"#);
    }
}
