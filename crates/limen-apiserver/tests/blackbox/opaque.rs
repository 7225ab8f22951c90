//! Which parts of an answer differ from run to run, and what is still compared of them.
//!
//! A line is cut into pieces: literal text, which must be equal, and opaque values. Of
//! those the kind must be equal, and for some kinds the identity: where one subject
//! repeats a value, the other repeats its own. The pairs that were seen are kept for the
//! whole case:
//!
//! ```text
//!   real    uid: 11a…   uid: 22b…   uid: 11a…
//!   limen   uid: 77c…   uid: 88d…   uid: 88d…   ← 11a… was 77c…
//! ```

use std::{collections::HashMap, sync::LazyLock};

use regex::{Captures, Regex};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(String),
    Opaque { kind: &'static str, value: String, identity: bool },
}

const AGE: &str = "age";

/// What to look for in text: the kind, whether identity is compared, and the pattern. A group
/// named `value` narrows the match down. The first pattern wins where several match.
const KINDS: &[(&str, bool, &str)] = &[
    ("jwt", false, r"eyJ[\w-]+\.[\w-]+\.[\w-]+"),
    ("server", false, r"127\.0\.0\.1:\d+"),
    ("microtime", false, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"),
    ("time", false, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    ("time", false, r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000"),
    ("file time", false, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"),
    ("log time", false, r"(?m)^[EWI](?<value>\d{4} \d\d:\d\d:\d\d\.\d+ +\d+)"),
    ("uid", true, r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    ("cluster IP", true, r"\b10\.\d+\.\d+\.\d+\b"),
    // Not the two ends of the range, which refusals name.
    (
        "node port",
        true,
        r"\b3(0(00[1-9]|0[1-9]\d|[1-9]\d\d)|1\d{3}|2([0-6]\d\d|7[0-5]\d|76[0-6]))\b",
    ),
    ("resource version", true, r#"\b[rR]esource ?Version\\*"?: *\\*"?(?<value>[1-9]\d*)"#),
    ("revision", false, r"too old resource version: \d+ \((?<value>\d+)\)"),
    ("revision", false, r"Too large resource version: \d+, current: (?<value>\d+)"),
    ("revision", false, r"Expected resource version to be \d+, was (?<value>\d+)"),
    ("revision", false, r"the ResourceVersion in record \((?<value>\d+)\)"),
    ("certificate", true, r"X509SHA256=(?<value>[0-9a-f]{64})"),
    ("hash", false, r"\?hash=(?<value>[0-9A-F]+)"),
    ("file", false, r#"(\$HOME|/tmp)/(?<value>[^\s"']+)"#),
    (AGE, false, r"\b\d+(\.\d+)?(µs|ms|s|m|h|d)(\d+(ms|s|m|h))*\b"),
];

static PATTERNS: LazyLock<Vec<(&str, bool, Regex)>> = LazyLock::new(|| {
    let pattern = |text| Regex::new(text).expect("a valid pattern");
    KINDS.iter().map(|(kind, identity, text)| (*kind, *identity, pattern(text))).collect()
});

/// The pieces of a line; `masks` are further patterns, those of the case.
pub(crate) fn pieces(line: &str, masks: &[Regex]) -> Vec<Piece> {
    cut_by(line, masks, |_| true)
}

/// The pieces of a text in which `5m` is no age.
pub(crate) fn pieces_without_ages(text: &str, masks: &[Regex]) -> Vec<Piece> {
    cut_by(text, masks, |kind| kind != AGE)
}

fn cut_by(line: &str, masks: &[Regex], wanted: impl Fn(&str) -> bool) -> Vec<Piece> {
    let masks = masks.iter().map(|mask| ("masked", true, mask));
    let known = PATTERNS.iter().map(|(kind, identity, pattern)| (*kind, *identity, pattern));
    let known = known.filter(|(kind, ..)| wanted(kind));
    let mut pieces = vec![Piece::Literal(line.to_owned())];
    for (kind, identity, pattern) in masks.chain(known) {
        pieces = pieces.into_iter().flat_map(|piece| cut(piece, kind, identity, pattern)).collect();
    }
    pieces
}

fn cut(piece: Piece, kind: &'static str, identity: bool, pattern: &Regex) -> Vec<Piece> {
    let Piece::Literal(text) = piece else { return vec![piece] };
    let mut pieces = Vec::new();
    let mut end = 0;
    let value = |found: &Captures<'_>| {
        let value = found.name("value").or(found.get(0)).expect("the whole match");
        (value.range(), value.as_str().to_owned())
    };
    for (range, value) in pattern.captures_iter(&text).map(|found| value(&found)) {
        pieces.push(Piece::Literal(text[end..range.start].to_owned()));
        pieces.push(Piece::Opaque { kind, value, identity });
        end = range.end;
    }
    pieces.push(Piece::Literal(text[end..].to_owned()));
    pieces.retain(|piece| *piece != Piece::Literal(String::new()));
    pieces
}

/// The pieces as a person reads them and as lines are aligned by: the values are left out.
pub(crate) fn shape(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Literal(text) => text.clone(),
        Piece::Opaque { kind, .. } => format!("<{kind}>"),
    };
    pieces.iter().map(text).collect()
}

/// The pairs of values that stand for each other, kept for one case.
#[derive(Default)]
pub(crate) struct Pairs {
    right_of: HashMap<(&'static str, String), String>,
    left_of: HashMap<(&'static str, String), String>,
}

impl Pairs {
    /// Whether `left` and `right`, which have the same shape, are the same up to the names
    /// of opaque values.
    pub(crate) fn agree(&mut self, left: &[Piece], right: &[Piece]) -> bool {
        let mut agree = true;
        for pair in left.iter().zip(right) {
            if let (
                Piece::Opaque { kind, value: left, identity: true },
                Piece::Opaque { value: right, identity: true, .. },
            ) = pair
            {
                let known_right = self.right_of.insert((kind, left.clone()), right.clone());
                let known_left = self.left_of.insert((kind, right.clone()), left.clone());
                agree &= known_right.is_none_or(|known| known == *right);
                agree &= known_left.is_none_or(|known| known == *left);
            }
        }
        agree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_from_run_to_run_are_found() {
        let cases = [
            ("2026-01-02T03:04:05Z x", "<time> x"),
            ("at 2026-01-02T03:04:05.000001Z", "at <microtime>"),
            ("uid: 0b8f9c6e-95c0-4a3c-9f61-0e1f7a1b2c3d", "uid: <uid>"),
            ("  resourceVersion: \"123\"", "  resourceVersion: \"<resource version>\""),
            ("resourceVersion: \"\"", "resourceVersion: \"\""),
            (r#"{\"resourceVersion\":\"5\"}"#, r#"{\"resourceVersion\":\"<resource version>\"}"#),
            ("Resource Version:  7", "Resource Version:  <resource version>"),
            ("web  10.0.0.17  80:31234/TCP  2m5s", "web  <cluster IP>  80:<node port>/TCP  <age>"),
            ("valid ports is 30000-32767", "valid ports is 30000-32767"),
            ("E1115 20:19:14.123456   12345 memcache.go:265]", "E<log time> memcache.go:265]"),
            ("https://127.0.0.1:6443/api", "https://<server>/api"),
            ("v1 30 apples", "v1 30 apples"),
        ];
        for (line, expected) in cases {
            assert_eq!(shape(&pieces(line, &[])), expected);
        }
    }

    #[test]
    fn same_value_must_stay_the_same() {
        let line = |text: &str| pieces(text, &[Regex::new("n-[a-z]{3}").unwrap()]);
        let mut pairs = Pairs::default();

        assert!(pairs.agree(&line("n-aaa n-bbb"), &line("n-xxx n-yyy")));
        assert!(pairs.agree(&line("n-bbb"), &line("n-yyy")));
        assert!(!pairs.agree(&line("n-aaa"), &line("n-yyy")));
        assert!(!pairs.agree(&line("n-ccc"), &line("n-xxx")));
    }
}
