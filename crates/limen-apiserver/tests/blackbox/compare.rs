//! What differs between the answers of two subjects to one step.

use regex::Regex;
use serde_json::{Map, Value};

use crate::{
    opaque::{Pairs, Piece, pieces, pieces_without_ages, shape},
    run::{Answer, Content},
};

/// One difference, as one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The part of the answer, with a JSON pointer where there is one: `body/metadata/name`.
    pub(crate) place: String,
    pub(crate) left: String,
    pub(crate) right: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} => {}", self.place, self.left, self.right)
    }
}

const NOTHING: &str = "(nothing)";

/// Compares the steps of one case, in order.
pub(crate) struct Comparison<'a> {
    masks: &'a [Regex],
    pairs: Pairs,
    found: Vec<Difference>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(masks: &'a [Regex]) -> Self {
        Self { masks, pairs: Pairs::default(), found: vec![] }
    }

    pub(crate) fn step(&mut self, left: &Answer, right: &Answer) -> Vec<Difference> {
        let aligned = align(&left.parts, &right.parts, |(name, _)| name.clone());
        for pair in aligned {
            match pair {
                (Some((place, left)), Some((_, right))) => match (left, right) {
                    (Content::Json(left), Content::Json(right))
                        if left.get("kind") == right.get("kind") =>
                    {
                        self.json(place, left, right);
                    }
                    // An object and an error have nothing to compare field by field.
                    (Content::Json(_), Content::Json(_)) => {
                        self.report(place, &left.to_string(), &right.to_string());
                    }
                    _ => self.text(place, &left.to_string(), &right.to_string()),
                },
                (Some((place, left)), None) => self.report(place, &left.to_string(), NOTHING),
                (None, Some((place, right))) => self.report(place, NOTHING, &right.to_string()),
                (None, None) => {}
            }
        }
        std::mem::take(&mut self.found)
    }

    fn report(&mut self, place: &str, left: &str, right: &str) {
        let steady = |text: &str| shape(&pieces(&text.replace('\n', "\\n"), self.masks));
        let (left, right) = (steady(left), steady(right));
        self.found.push(Difference { place: place.to_owned(), left, right });
    }

    fn text(&mut self, place: &str, left: &str, right: &str) {
        let cut = |text: &str| -> Vec<Vec<Piece>> {
            text.lines().map(|line| pieces(&even_columns(line), self.masks)).collect()
        };
        let (left, right) = (cut(left), cut(right));
        let aligned = align(&left, &right, |line| shape(line));
        for pair in pair_up(aligned) {
            match pair {
                (Some(left), Some(right)) => self.pieces(place, left, right),
                (Some(left), None) => self.report(place, &shape(left), NOTHING),
                (None, Some(right)) => self.report(place, NOTHING, &shape(right)),
                (None, None) => {}
            }
        }
    }

    fn pieces(&mut self, place: &str, left: &[Piece], right: &[Piece]) {
        let (left_shape, right_shape) = (shape(left), shape(right));
        if left_shape != right_shape {
            self.report(place, &left_shape, &right_shape);
        } else if !self.pairs.agree(left, right) {
            self.report(place, &left_shape, "the same kind of value, but not the matching one");
        }
    }

    fn json(&mut self, place: &str, left: &Value, right: &Value) {
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => self.object(place, left, right),
            (Value::Array(left), Value::Array(right)) => self.array(place, left, right),
            (Value::String(left), Value::String(right)) => {
                // Outside of tables, 500m is a quantity and no age.
                let cut = |text: &str| match place.contains("/cells/") {
                    true => pieces(text, self.masks),
                    false => pieces_without_ages(text, self.masks),
                };
                self.pieces(place, &cut(left), &cut(right));
            }
            _ if left != right => self.report(place, &left.to_string(), &right.to_string()),
            _ => {}
        }
    }

    fn object(&mut self, place: &str, left: &Map<String, Value>, right: &Map<String, Value>) {
        let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let place = format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
            match (left.get(key), right.get(key)) {
                (Some(one), Some(other)) => {
                    match (opaque(key, one, left), opaque(key, other, right)) {
                        (Some(one), Some(other)) => self.pieces(&place, &[one], &[other]),
                        _ if UNORDERED.contains(&key.as_str()) => {
                            self.json(&place, &sorted(one), &sorted(other));
                        }
                        _ => self.json(&place, one, other),
                    }
                }
                (Some(one), None) => self.report(&place, &one.to_string(), NOTHING),
                (None, Some(other)) => self.report(&place, NOTHING, &other.to_string()),
                (None, None) => {}
            }
        }
    }

    fn array(&mut self, place: &str, left: &[Value], right: &[Value]) {
        if left.len() == right.len() {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                self.json(&format!("{place}/{index}"), left, right);
            }
            return;
        }
        let aligned = align(left, right, |element| shape(&pieces(&label(element), self.masks)));
        for pair in aligned {
            match pair {
                (Some(one), Some(other)) => {
                    self.json(&format!("{place}/{}", label(one)), one, other);
                }
                (Some(one), None) => self.report(place, &one.to_string(), NOTHING),
                (None, Some(other)) => self.report(place, NOTHING, &other.to_string()),
                (None, None) => {}
            }
        }
    }
}

/// A value that its key makes opaque.
fn opaque(key: &str, value: &Value, siblings: &Map<String, Value>) -> Option<Piece> {
    let text = match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let (kind, identity) = match key {
        // The version of a list or a bookmark is that of the whole store, which other cases
        // move; only an object's own is a matter of this case.
        "resourceVersion" if all_digits && text != "0" => {
            ("resource version", siblings.contains_key("uid"))
        }
        "continue" => ("continue token", false),
        "nodePort" if all_digits => ("node port", true),
        _ => return None,
    };
    Some(Piece::Opaque { kind, value: text, identity })
}

/// Lists whose order is that of clocks and hash maps.
const UNORDERED: [&str; 3] = ["managedFields", "resourceRules", "nonResourceRules"];

fn sorted(list: &Value) -> Value {
    let mut list = list.clone();
    if let Value::Array(elements) = &mut list {
        // By manager first, so that the same ones meet whatever they manage.
        elements.sort_by_key(|element| {
            let names = ["manager", "operation", "subresource"];
            (names.map(|name| element.get(name).map(Value::to_string)), element.to_string())
        });
    }
    list
}

/// What an element of a list is recognised by.
fn label(element: &Value) -> String {
    let name =
        ["/metadata/name", "/name", "/groupVersion", "/version", "/manager", "/type", "/field"]
            .iter()
            .find_map(|pointer| element.pointer(pointer).and_then(Value::as_str));
    name.map_or_else(|| element.to_string(), str::to_owned)
}

/// The padding between columns depends on the widest value, which may be opaque.
fn even_columns(line: &str) -> String {
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    let mut even = indent.to_owned();
    for (index, column) in text.trim_end().split("  ").filter(|part| !part.is_empty()).enumerate() {
        if index > 0 {
            even.push_str("   ");
        }
        even.push_str(column.trim_start());
    }
    even
}

/// What corresponds to each other on both sides; one of them may have nothing.
type Pair<'t, T> = (Option<&'t T>, Option<&'t T>);

/// The longest common subsequence by `key`, with what is on one side only between.
fn align<'t, T>(left: &'t [T], right: &'t [T], key: impl Fn(&T) -> String) -> Vec<Pair<'t, T>> {
    let left_keys: Vec<_> = left.iter().map(&key).collect();
    let right_keys: Vec<_> = right.iter().map(&key).collect();
    let mut length = vec![vec![0; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            length[i][j] = match left_keys[i] == right_keys[j] {
                true => length[i + 1][j + 1] + 1,
                false => length[i + 1][j].max(length[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut aligned = Vec::new();
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left_keys[i] == right_keys[j] {
            aligned.push((Some(&left[i]), Some(&right[j])));
            (i, j) = (i + 1, j + 1);
        } else if j == right.len() || (i < left.len() && length[i + 1][j] >= length[i][j + 1]) {
            aligned.push((Some(&left[i]), None));
            i += 1;
        } else {
            aligned.push((None, Some(&right[j])));
            j += 1;
        }
    }
    aligned
}

/// Lines that were replaced are shown beside each other: the first that is only left with the
/// first that is only right of the same block, and so on.
fn pair_up<T>(aligned: Vec<Pair<'_, T>>) -> Vec<Pair<'_, T>> {
    let mut pairs = Vec::new();
    let mut block = (vec![], vec![]);
    let flush = |pairs: &mut Vec<_>, block: &mut (Vec<_>, Vec<_>)| {
        let (left, right) = std::mem::take(block);
        for index in 0..left.len().max(right.len()) {
            pairs.push((left.get(index).copied(), right.get(index).copied()));
        }
    };
    for pair in aligned {
        match pair {
            (Some(left), None) => block.0.push(left),
            (None, Some(right)) => block.1.push(right),
            both => {
                flush(&mut pairs, &mut block);
                pairs.push(both);
            }
        }
    }
    flush(&mut pairs, &mut block);
    pairs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::content;

    fn differences(left: &str, right: &str) -> Vec<String> {
        let answer = |text| Answer { parts: vec![("body".to_owned(), content(text))] };
        let found = Comparison::new(&[]).step(&answer(left), &answer(right));
        found.iter().map(Difference::to_string).collect()
    }

    #[test]
    fn equal_up_to_opaque_values_is_equal() {
        let object = |uid: &str, version: &str, time: &str| {
            json!({"metadata": {"uid": uid, "resourceVersion": version, "creationTimestamp": time}})
                .to_string()
        };
        let one = object("0b8f9c6e-95c0-4a3c-9f61-0e1f7a1b2c3d", "5", "2026-01-02T03:04:05Z");
        let other = object("1b8f9c6e-95c0-4a3c-9f61-0e1f7a1b2c3d", "77", "2026-01-02T03:04:06Z");

        assert!(differences(&one, &other).is_empty());
        assert_eq!(differences("a  1s   b\n", "a  22s  b\n"), Vec::<String>::new());
    }

    #[test]
    fn difference_names_its_place_and_both_values() {
        let cases = [
            (r#"{"a":{"b":1}}"#, r#"{"a":{"b":2}}"#, "body/a/b: 1 => 2"),
            (r#"{"a":1}"#, "{}", "body/a: 1 => (nothing)"),
            (
                r#"[{"name":"x"},{"name":"y"}]"#,
                r#"[{"name":"y"}]"#,
                r#"body: {"name":"x"} => (nothing)"#,
            ),
            ("one\ntwo\nthree", "one\n2\nthree", "body: two => 2"),
            (
                r#"{"resourceVersion":"5"}"#,
                r#"{"resourceVersion":""}"#,
                r#"body/resourceVersion: 5 => "#,
            ),
        ];
        for (left, right, expected) in cases {
            assert_eq!(differences(left, right), [expected]);
        }
    }

    #[test]
    fn age_is_opaque_in_a_table_and_nowhere_else() {
        let found = differences(r#"{"cells":["5s"],"cpu":"5m"}"#, r#"{"cells":["6s"],"cpu":"6m"}"#);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("body/cpu"));
    }

    #[test]
    fn version_that_should_not_have_moved_is_a_difference() {
        let object = |version: &str| json!({"uid": "u", "resourceVersion": version}).to_string();
        let answer = |text: &str| Answer { parts: vec![("body".to_owned(), content(text))] };
        let mut comparison = Comparison::new(&[]);

        assert!(comparison.step(&answer(&object("5")), &answer(&object("105"))).is_empty());
        assert_eq!(comparison.step(&answer(&object("5")), &answer(&object("106"))).len(), 1);
    }
}
