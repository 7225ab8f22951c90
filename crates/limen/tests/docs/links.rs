//! Every link within the project leads somewhere, and every recipe that a page names is there.

use std::path::Path;

use crate::pages::{name, pages, project};

/// What the links of a text lead to; blocks of code have none.
fn links(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let (target, after) = after.split_once(')').unwrap_or((after, ""));
            found.push(target.to_owned());
            rest = after;
        }
    }
    found
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, part) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => page.parent().unwrap().join(file),
    };
    if !target.exists() {
        return Some(format!("there is no {file}"));
    }
    let known = part.is_empty() || anchors(&target).iter().any(|anchor| anchor == part);
    (!known).then(|| format!("{} has no heading #{part}", name(&target)))
}

#[test]
fn every_link_leads_somewhere() {
    let mut problems = Vec::new();
    let mut count = 0;
    for page in pages() {
        for link in links(&std::fs::read_to_string(&page).unwrap()) {
            count += 1;
            if let Some(problem) = broken(&page, &link) {
                problems.push(format!("{}: {problem}", name(&page)));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 20, "only {count} links were found");
}

#[test]
fn a_link_that_leads_nowhere_is_noticed() {
    let readme = project().join("README.md");
    let found = links("see [a](docs/nowhere.md) and [b](#no-such-part)\n```\n[c](d)\n```\n");
    assert_eq!(found, ["docs/nowhere.md", "#no-such-part"]);
    assert!(found.iter().all(|link| broken(&readme, link).is_some()));
    assert_eq!(anchor(" What it is, in short: `limen up`"), "what-it-is-in-short-limen-up");
}

#[test]
fn every_recipe_that_a_page_names_is_there() {
    let justfile = std::fs::read_to_string(project().join("justfile")).unwrap();
    let known = |recipe: &str| {
        justfile
            .lines()
            .any(|line| line.split([' ', ':']).next() == Some(recipe) && line.contains(':'))
    };
    let mut problems = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for after in text.split("`just ").skip(1) {
            let recipe: String =
                after.chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect();
            if !known(&recipe) {
                problems.push(format!("{}: there is no just {recipe}", name(&page)));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(!known("no-such-recipe"));
}
