//! Whether some rules give all that others do.
//!
//! Rules are broken down into pieces with one verb, one resource and one name each, so that a
//! piece is either wholly covered by one rule or not at all.

use super::Rule;
use super::rule::url_covers;

/// The pieces of `wanted` that `held` does not cover.
pub(super) fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let pieces = wanted.iter().flat_map(pieces);
    pieces.filter(|piece| !held.iter().any(|rule| covers(rule, piece))).collect()
}

fn pieces(rule: &Rule) -> Vec<Rule> {
    let one = |value: &String| vec![value.clone()];
    let mut pieces = Vec::new();
    for group in &rule.groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let piece = Rule {
                    groups: one(group),
                    resources: one(resource),
                    verbs: one(verb),
                    ..Rule::default()
                };
                if rule.names.is_empty() {
                    pieces.push(piece);
                } else {
                    let named = |name| Rule { names: one(name), ..piece.clone() };
                    pieces.extend(rule.names.iter().map(named));
                }
            }
        }
    }
    for url in &rule.urls {
        for verb in &rule.verbs {
            pieces.push(Rule { urls: one(url), verbs: one(verb), ..Rule::default() });
        }
    }
    pieces
}

fn covers(rule: &Rule, piece: &Rule) -> bool {
    let all = |held: &[String], wanted: &[String]| {
        held.iter().any(|item| item == "*") || wanted.iter().all(|item| held.contains(item))
    };
    let names = rule.names.is_empty()
        || !piece.names.is_empty() && piece.names.iter().all(|name| rule.names.contains(name));
    let urls = piece.urls.iter().all(|path| rule.urls.iter().any(|held| url_covers(held, path)));
    all(&rule.verbs, &piece.verbs)
        && all(&rule.groups, &piece.groups)
        && covers_resources(&rule.resources, &piece.resources)
        && names
        && urls
}

fn covers_resources(held: &[String], wanted: &[String]) -> bool {
    let has = |resource: &str| held.iter().any(|item| item == resource);
    has("*")
        || wanted.iter().all(|resource| {
            let any = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
            has(resource) || any.is_some_and(|any| has(&any))
        })
}

/// Joins the verbs of pieces that are otherwise alike, for people to read.
pub(super) fn compact(pieces: Vec<Rule>) -> Vec<Rule> {
    let mut compacted: Vec<Rule> = Vec::new();
    for piece in pieces {
        let alike = |rule: &&mut Rule| {
            rule.urls.is_empty()
                && (&rule.groups, &rule.resources, &rule.names, &rule.urls)
                    == (&piece.groups, &piece.resources, &piece.names, &piece.urls)
        };
        match compacted.iter_mut().find(alike) {
            Some(rule) => rule.verbs.extend(piece.verbs),
            None => compacted.push(piece),
        }
    }
    compacted
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(rules: &Value) -> Vec<Rule> {
        Rule::all_of(&json!({"rules": rules}))
    }

    fn resources(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
        json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
    }

    #[test]
    fn rules_cover_what_they_give() {
        let named = json!({
            "apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"],
        });
        let url = |path: &str| json!({"nonResourceURLs": [path], "verbs": ["get"]});
        let pods = resources(&[""], &["pods"], &["get"]);
        let cases = [
            (json!([pods]), json!([pods]), true),
            (json!([resources(&["*"], &["*"], &["*"])]), json!([pods, named]), true),
            (json!([pods]), json!([named]), true),
            (json!([named]), json!([pods]), false),
            (
                json!([resources(&[""], &["*/log"], &["get"])]),
                json!([resources(&[""], &["pods/log"], &["get"])]),
                true,
            ),
            (json!([resources(&[""], &["*/log"], &["get"])]), json!([pods]), false),
            (json!([url("/a/*")]), json!([url("/a/b")]), true),
            (json!([url("/a/*")]), json!([url("/a/*")]), true),
            (json!([url("/a/b")]), json!([url("/a/*")]), false),
            (json!([url("*")]), json!([pods]), false),
            (json!([]), json!([]), true),
        ];
        for (held, wanted, expected) in cases {
            let missing = uncovered(&rules(&held), &rules(&wanted));
            assert_eq!(missing.is_empty(), expected, "{held} covers {wanted}");
        }
    }
}
