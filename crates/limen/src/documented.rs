//! Every `limen` command line of the documentation and of the help is one that this binary takes.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Parser};

use crate::Cli;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![project().join("docs"), project().join("examples")];
    for entry in std::fs::read_dir(project().join("crates")).unwrap() {
        pages.push(entry.unwrap().path().join("README.md"));
    }
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { pages.push(path) }
        }
    }
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|page| project().join(page)));
    let readable = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("md" | "yaml")) && path.is_file()
    };
    pages.retain(readable);
    pages
}

/// The command lines of a text: what begins with `limen` or `cargo run`, alone, behind a prompt,
/// behind other commands of its line, or in a comment that gives an example. Pages have them in
/// blocks, other texts anywhere.
fn command_lines(text: &str, page: bool) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let mut inside = !page;
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_start_matches("# ").trim_start();
        if line.starts_with("```") {
            inside = !inside && ["```sh", "```console"].iter().any(|kind| line.starts_with(kind));
            continue;
        }
        if inside {
            let parts = words(line.trim_start_matches("$ "));
            let parts = parts.split(|word| ["|", "&&", ";", "&"].contains(&word.as_str()));
            found.extend(parts.filter_map(arguments));
        }
    }
    found
}

/// What is given to limen by one command, if that is what it runs.
fn arguments(words: &[String]) -> Option<Vec<String>> {
    let assigned = |word: &&String| word.contains('=') && !word.starts_with('-');
    let words: Vec<&String> = words.iter().skip_while(assigned).collect();
    let rest = match words.first()?.as_str() {
        "limen" => &words[1..],
        "cargo" if words.get(1).is_some_and(|word| *word == "run") => {
            &words[words.iter().position(|word| *word == "--")? + 1..]
        }
        _ => return None,
    };
    let rest = rest.iter().take_while(|word| !word.starts_with('>') && !word.starts_with("2>"));
    let command = |word: &&&String| word.starts_with(char::is_lowercase);
    rest.clone().next().filter(command)?;
    // What is left out in the middle of a line cannot be checked.
    if rest.clone().any(|word| *word == "...") {
        return None;
    }
    Some(rest.map(|word| (*word).clone()).collect())
}

/// The words of a line as a shell has them: quotes keep together, `#` begins a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn taken(arguments: &[String]) -> Result<(), String> {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    let line = std::iter::once("limen").chain(arguments.iter().map(String::as_str));
    match Cli::try_parse_from(line) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), DisplayHelp | DisplayVersion) => Ok(()),
        // A file that an example names is not there, and its option is read as it should be.
        Err(error) if error.to_string().contains("No such file or directory") => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn helps(command: &Command, into: &mut Vec<(String, String)>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    into.push((format!("limen {} --help", command.get_name()), help));
    for inner in command.get_subcommands() {
        helps(inner, into);
    }
}

#[test]
fn every_command_line_that_is_shown_is_taken() {
    let mut texts = Vec::new();
    helps(&Cli::command(), &mut texts);
    texts.extend(pages().into_iter().map(|page| {
        let text = std::fs::read_to_string(&page).unwrap();
        (page.strip_prefix(project()).unwrap().display().to_string(), text)
    }));
    let mut count = 0;
    let mut problems = Vec::new();
    for (place, text) in &texts {
        for line in command_lines(text, place.ends_with(".md")) {
            count += 1;
            if let Err(error) = taken(&line) {
                problems.push(format!("{place}: limen {}\n{error}", line.join(" ")));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 40, "only {count} command lines were found");
}

/// `limen status` within a sentence: the command is there, and so are its options.
#[test]
fn every_command_that_a_sentence_names_is_there() {
    let mut problems = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for code in text.split("`limen ").skip(1) {
            let code = code.split('`').next().unwrap_or_default();
            if let Err(problem) = named(&words(code)) {
                problems.push(format!("{}: `limen {code}`: {problem}", page.display()));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn named(words: &[String]) -> Result<(), String> {
    let root = Cli::command();
    let mut command = &root;
    for (index, word) in words.iter().enumerate() {
        if let Some(option) = word.strip_prefix("--") {
            let option = option.split('=').next().unwrap_or_default();
            let known = ["help", "version"].contains(&option)
                || command.get_arguments().any(|known| known.get_long() == Some(option));
            if !known {
                return Err(format!("there is no --{option}"));
            }
        } else if let Some(inner) = command.find_subcommand(word) {
            command = inner;
        } else if index == 0 {
            return Err(format!("there is no command {word}"));
        }
    }
    Ok(())
}

#[test]
fn command_lines_are_found_as_a_shell_would() {
    let text = "```sh\n$ KUBECONFIG=a limen join x --kubeconfig \\\n  y --label 'a=b c'  # z\nls | limen crds\n```\n`limen up`\n";
    let expected: [&[&str]; 2] =
        [&["join", "x", "--kubeconfig", "y", "--label", "a=b c"], &["crds"]];
    assert_eq!(command_lines(text, true), expected);
    assert!(taken(&["up".to_owned(), "--no-such".to_owned()]).is_err());
    assert!(named(&words("fly")).is_err());
    assert!(named(&words("up --no-such")).is_err());
}
