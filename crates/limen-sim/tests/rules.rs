//! The table of rules names functions, mutants, scenarios and tests that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use limen_sim::directed::DIRECTED;

/// Number of rules.
const RULES: usize = 27;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of functions in a source file.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    source.split("fn ").skip(1).filter_map(|rest| {
        rest.split(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric()).next()
    })
}

/// Names of functions that the attribute above them makes tests, in all sources of a folder.
fn tests(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = read(&path);
            let marked = source.split("#[test]").skip(1);
            let marked = marked.chain(source.split("#[tokio::test").skip(1));
            found.extend(marked.filter_map(|rest| functions(rest).next()).map(str::to_owned));
        }
    }
}

/// Mutants by rule.
fn mutants() -> BTreeMap<usize, BTreeSet<String>> {
    let list = read(&tree().join("tools/mutations.toml"));
    let mut mutants: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    let value = |mutant: &str, key: &str| {
        let line = mutant.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|line| line.strip_suffix('"')).map(str::to_owned)
    };
    for mutant in list.split("[[mutant]]").skip(1) {
        let (name, rules) = (value(mutant, "name").unwrap(), value(mutant, "rule").unwrap());
        for rule in rules.split(' ').filter_map(|rule| rule.strip_prefix('r')) {
            mutants.entry(rule.parse().unwrap()).or_default().insert(name.clone());
        }
    }
    mutants
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_rule_names_what_holds_and_proves_it() {
    let table = read(&tree().join("docs/federation-rules.md"));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| #") && !line.contains("---"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), RULES);
    let scenarios: BTreeSet<&str> = DIRECTED.iter().map(|(name, ..)| *name).collect();
    let (mut tests_found, mutants) = (BTreeSet::new(), mutants());
    tests(&tree().join("crates"), &mut tests_found);
    let mut wrong = Vec::new();
    for (number, row) in (1..).zip(&rows) {
        let [row_number, _, held_by, switched_off, proven_by] = row[..] else {
            panic!("row {number} has {} columns", row.len());
        };
        assert_eq!(row_number, number.to_string());
        let held_by: Vec<&str> = quoted(held_by).collect();
        for pair in held_by.chunks(2) {
            let [file, function] = pair else { panic!("row {number}: a file without a function") };
            let source = read(&tree().join("crates").join(file));
            if !functions(&source).any(|name| name == *function) {
                wrong.push(format!("row {number}: no function {function} in {file}"));
            }
        }
        let named: BTreeSet<String> = quoted(switched_off).map(str::to_owned).collect();
        let listed = mutants.get(&number).cloned().unwrap_or_default();
        for name in named.symmetric_difference(&listed) {
            wrong.push(format!("row {number}: mutant {name} is in one of table and list only"));
        }
        let proofs: Vec<&str> = quoted(proven_by).collect();
        for name in &proofs {
            if !scenarios.contains(name) && !tests_found.contains(*name) {
                wrong.push(format!("row {number}: no scenario or test {name}"));
            }
        }
        if held_by.is_empty() || proofs.is_empty() {
            wrong.push(format!("row {number}: nothing holds or proves it"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
