//! Whether the values of an object are those that its schema takes.
//!
//! The messages are those of the real server, which come from an OpenAPI library with habits of
//! its own: paths inside sentences (`spec.size in body should be ...`), failures of `anyOf` that
//! show the branch that came closest, and a type check that looks at formats first. They are kept,
//! since clients and people know them.
//!
//! On an update, what is wrong in a part that did not change is let through.

use serde_json::Value;

use super::schema_part::SchemaPart;
use super::{embedded, format, keyed_lists, number};
use crate::crd::schema_json::{flag, list, text};
use crate::crd::{go_regex, rules};
use crate::field_error::{FieldError, FieldPath};
use crate::schema::Node;

/// What is wrong with an object, or with the change of one: its values, the metadata of objects
/// embedded in it, the keys of its lists, and what its rules say. Its own metadata is looked at
/// elsewhere.
pub(crate) fn validate(object: &Value, old: Option<&Value>, node: Node<'_>) -> Vec<FieldError> {
    let mut errors = check_values(object, old, node, &FieldPath::root());
    embedded::check(object, node, &FieldPath::root(), &mut errors);
    if old.is_none_or(|old| keyed_lists::check(old, node).is_empty()) {
        errors.extend(keyed_lists::check(object, node));
    }
    check_rules(object, old, node, errors)
}

/// What is wrong with a change of the status alone. `object` and `old` are whole objects.
pub(crate) fn validate_status(object: &Value, old: &Value, node: Node<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let (Some(status), Some(part)) = (object.get("status"), node.named_field("status")) {
        errors = check_values(status, old.get("status"), part, &FieldPath::new("status"));
    }
    if keyed_lists::check(old, node).is_empty() {
        errors.extend(keyed_lists::check(object, node));
    }
    check_rules(object, Some(old), node, errors)
}

/// Rules may rely on the types that the schema gives, so they wait until those are right.
fn check_rules(
    object: &Value,
    old: Option<&Value>,
    node: Node<'_>,
    mut errors: Vec<FieldError>,
) -> Vec<FieldError> {
    if !rules::are_in(node) {
        return errors;
    }
    let blocking = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    if errors.iter().any(|error| blocking.contains(&error.reason())) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid(&FieldPath::root(), &Value::Null, detail));
    } else {
        errors.extend(rules::run(object, old, node, &FieldPath::root()));
    }
    errors
}

/// What is wrong with a value, by its schema alone.
pub(in crate::crd) fn check_values(
    value: &Value,
    old: Option<&Value>,
    node: Node<'_>,
    base: &FieldPath,
) -> Vec<FieldError> {
    let checker = Checker { base };
    let outcome = checker.ratcheted(value, old, SchemaPart::Node(node), SchemaPart::Node(node), "");
    outcome.errors
}

/// What came of checking a value: what is wrong, and how much was right, which tells the branch
/// of an `anyOf` that came closest.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matches: usize,
}

impl Outcome {
    fn add(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        for error in other.errors {
            self.add(error);
        }
    }
}

struct Checker<'b> {
    base: &'b FieldPath,
}

/// A value, what it was before if that can be told, and where it is.
struct Place<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    /// The schema of the value, also while a branch of it is looked at: it tells which old item
    /// belongs to which new one.
    shape: SchemaPart<'a>,
    path: &'a str,
}

impl Checker<'_> {
    /// Checks a value; nothing is wrong with it if it did not change.
    fn ratcheted(
        &self,
        value: &Value,
        old: Option<&Value>,
        part: SchemaPart<'_>,
        shape: SchemaPart<'_>,
        path: &str,
    ) -> Outcome {
        let mut outcome = self.check(part, &Place { value, old, shape, path });
        if !outcome.errors.is_empty() && old.is_some_and(|old| unchanged(value, old, shape)) {
            outcome.errors.clear();
        }
        outcome
    }

    fn check(&self, part: SchemaPart<'_>, place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let types = part.types();
        let wanted_format = format::of(part);
        if place.value.is_null() {
            outcome.merge(self.type_of(part, &types, wanted_format, place));
            outcome.errors.extend(self.enumerated(part, place));
            return outcome;
        }
        let mut step = |found: Outcome| {
            outcome.merge(found);
            outcome.matches += 1;
        };
        if !types.is_empty() || wanted_format.is_some() {
            step(self.type_of(part, &types, wanted_format, place));
        }
        step(self.branches(part, place));
        if let Value::String(text) = place.value {
            step(self.text(part, text, place));
            if let Some(format) = wanted_format.filter(|_| !format::is_numeric(wanted_format)) {
                step(self.formatted(format, text, place));
            }
        }
        if place.value.is_number() {
            let mut found = Outcome { matches: 1, ..Outcome::default() };
            number::check(part, wanted_format, place.value, place.path, &mut |error| {
                found.add(match error {
                    number::Wrong::Value(shown, sentence) => {
                        FieldError::invalid(&self.at(place.path), &shown, &sentence)
                    }
                    number::Wrong::Schema(sentence) => self.sentence(&sentence),
                });
            });
            step(found);
        }
        if let Value::Array(items) = place.value {
            step(self.items(part, items, place));
        }
        step(Outcome { errors: self.enumerated(part, place).into_iter().collect(), matches: 0 });
        if let Value::Object(fields) = place.value {
            step(self.fields(part, fields, place));
        }
        outcome.matches += 1;
        outcome
    }

    fn at(&self, path: &str) -> FieldPath {
        match path.strip_prefix('.').unwrap_or(path) {
            "" => self.base.clone(),
            path => self.base.child(path),
        }
    }

    fn sentence(&self, sentence: &str) -> FieldError {
        FieldError::invalid(self.base, &"".into(), sentence)
    }

    fn invalid(&self, path: &str, shown: &Value, sentence: &str) -> FieldError {
        FieldError::invalid(&self.at(path), shown, &format!("{path} in body {sentence}"))
    }

    fn type_of(
        &self,
        part: SchemaPart<'_>,
        types: &[&str],
        wanted_format: Option<&str>,
        place: &Place<'_>,
    ) -> Outcome {
        let mut outcome = Outcome { matches: 1, ..Outcome::default() };
        let mut wrong = |wanted: &str, got: &str| {
            let sentence = format!("{} in body must be of type {wanted}: {got:?}", place.path);
            outcome.matches = 0;
            outcome.add(FieldError::wrong_type(&self.at(place.path), &got.into(), &sentence));
        };
        let (kind, own_format) = match place.value {
            Value::Null if types.is_empty() || flag(part.raw(), "nullable") => return outcome,
            Value::Null => {
                wrong(&types.join(","), "null");
                return outcome;
            }
            Value::Bool(_) => ("boolean", ""),
            Value::Number(number) if number.is_i64() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let whole = place.value.as_f64().is_some_and(|n| n.fract() == 0.0 && n.abs() < 9.0e15);
        let fits = types.contains(&kind)
            || (kind == "number" && whole && types.contains(&"integer"))
            || (kind == "integer" && types.contains(&"number"));
        let plain = matches!(kind, "string" | "array");
        let numeric = types.contains(&"number") || types.contains(&"integer");
        match wanted_format {
            Some(format) if !plain && !fits && format != own_format => wrong(format, own_format),
            Some(_) if plain && !numeric => {}
            _ if !fits => wrong(&types.join(","), kind),
            _ => {}
        }
        outcome
    }

    fn branches(&self, part: SchemaPart<'_>, place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome { matches: 1, ..Outcome::default() };
        let path = place.path;
        let closest = |outcomes: Vec<Outcome>| {
            outcomes
                .into_iter()
                .reduce(|best, next| if next.matches > best.matches { next } else { best })
        };
        let mut failed = Vec::new();
        let mut fits = None;
        let mut any_of = part.branches("anyOf").peekable();
        let has_any_of = any_of.peek().is_some();
        for branch in any_of {
            let found = self.check(branch, place);
            if found.errors.is_empty() {
                fits = Some(found);
                break;
            }
            failed.push(found);
        }
        match fits {
            Some(found) => outcome.merge(found),
            None if has_any_of => {
                outcome.add(
                    self.sentence(&format!("{path:?} must validate at least one schema (anyOf)")),
                );
                closest(failed).into_iter().for_each(|found| outcome.merge(found));
            }
            None => {}
        }

        let found: Vec<Outcome> =
            part.branches("oneOf").map(|branch| self.check(branch, place)).collect();
        if !found.is_empty() {
            let (mut fits, failed): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|found| found.errors.is_empty());
            let sentence = format!("{path:?} must validate one and only one schema (oneOf).");
            match fits.len() {
                0 => {
                    outcome.add(self.sentence(&format!("{sentence} Found none valid")));
                    closest(failed).into_iter().for_each(|found| outcome.merge(found));
                }
                1 => fits.drain(..).for_each(|found| outcome.merge(found)),
                n => {
                    outcome.add(self.sentence(&format!("{sentence} Found {n} valid alternatives")));
                }
            }
        }

        let found: Vec<Outcome> =
            part.branches("allOf").map(|branch| self.check(branch, place)).collect();
        let valid = found.iter().filter(|found| found.errors.is_empty()).count();
        if valid != found.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            found.into_iter().for_each(|found| outcome.merge(found));
            outcome.add(
                self.sentence(&format!("{path:?} must validate all the schemas (allOf){none}")),
            );
        } else {
            found.into_iter().for_each(|found| outcome.merge(found));
        }

        if part.not().is_some_and(|not| self.check(not, place).errors.is_empty()) {
            outcome.add(self.sentence(&format!("{path:?} must not validate the schema (not)")));
        }
        outcome
    }

    fn text(&self, part: SchemaPart<'_>, value: &str, place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let length = value.chars().count();
        let pattern = text(part.raw(), "pattern");
        if let Some(most) = part.count("maxLength").filter(|most| length > *most) {
            outcome.add(FieldError::too_long(&self.at(place.path), most));
        } else if let Some(least) = part.count("minLength").filter(|least| length < *least) {
            let sentence = format!("should be at least {least} chars long");
            outcome.add(self.invalid(place.path, place.value, &sentence));
        } else if !pattern.is_empty() {
            let sentence = match go_regex::compile(pattern) {
                Ok(regex) if regex.is_match(value) => return outcome,
                Ok(_) => format!("should match '{pattern}'"),
                Err(why) => format!("should match '{pattern}, but pattern is invalid: {why}'"),
            };
            outcome.add(self.invalid(place.path, place.value, &sentence));
        }
        outcome
    }

    fn formatted(&self, format: &str, value: &str, place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if !format::matches(format, value) {
            let sentence = format!("{} in body must be of type {format}: {value:?}", place.path);
            outcome.add(FieldError::wrong_type(&self.at(place.path), place.value, &sentence));
        }
        outcome
    }

    fn enumerated(&self, part: SchemaPart<'_>, place: &Place<'_>) -> Option<FieldError> {
        let allowed = list(part.raw(), "enum");
        let same = |allowed: &Value| match (allowed.as_f64(), place.value.as_f64()) {
            (Some(allowed), Some(value)) => (allowed - value).abs() < f64::EPSILON,
            _ => allowed == place.value,
        };
        if allowed.is_empty() || !place.value.is_null() && allowed.iter().any(same) {
            return None;
        }
        let shown: Vec<String> = allowed
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        Some(FieldError::not_supported(&self.at(place.path), place.value, &shown))
    }

    fn items(&self, part: SchemaPart<'_>, items: &[Value], place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome { matches: 1, ..Outcome::default() };
        if let Some(item_part) = part.items() {
            let shape = place.shape.items().unwrap_or(item_part);
            for (n, item) in items.iter().enumerate() {
                let old =
                    place.old.and_then(|old| keyed_lists::counterpart(item, old, place.shape));
                let path = format!("{}[{n}]", place.path);
                outcome.merge(self.ratcheted(item, old, item_part, shape, &path));
            }
        }
        let count = items.len();
        if let Some(least) = part.count("minItems").filter(|least| count < *least) {
            let sentence = format!("should have at least {least} items");
            outcome.add(self.invalid(place.path, &count.into(), &sentence));
        }
        if let Some(most) = part.count("maxItems").filter(|most| count > *most) {
            outcome.add(FieldError::too_many(&self.at(place.path), count, most));
        }
        let repeated = || (1..count).any(|n| items[..n].contains(&items[n]));
        if flag(part.raw(), "uniqueItems") && repeated() {
            outcome.add(self.invalid(place.path, &"".into(), "shouldn't contain duplicates"));
        }
        outcome
    }

    fn fields(
        &self,
        part: SchemaPart<'_>,
        fields: &serde_json::Map<String, Value>,
        place: &Place<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let count = fields.len();
        if let Some(least) = part.count("minProperties").filter(|least| count < *least) {
            let sentence = format!("should have at least {least} properties");
            outcome.add(self.invalid(place.path, &count.into(), &sentence));
        }
        if let Some(most) = part.count("maxProperties").filter(|most| count > *most) {
            outcome.add(FieldError::too_many(&self.at(place.path), count, most));
        }
        let old_of = |name: &str| {
            // Types are converted before they are compared, so they never count as unchanged.
            let hidden = place.path.is_empty() && matches!(name, "apiVersion" | "kind");
            place.old.and_then(|old| old.get(name)).filter(|_| !hidden)
        };
        let shape_of = |name: &str, part| match place.shape {
            SchemaPart::Node(node) => node.field(name).map_or(part, SchemaPart::Node),
            SchemaPart::Branch(_) => part,
        };
        if let Some(values) = part.additional() {
            for (name, value) in fields.iter().filter(|(name, _)| !part.names(name)) {
                let path = format!("{}.{name}", place.path);
                let shape = shape_of(name, values);
                outcome.merge(self.ratcheted(value, old_of(name), values, shape, &path));
            }
        }
        for (name, field) in part.named_fields() {
            let Some(value) = fields.get(name) else { continue };
            let path = match place.path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            let shape = shape_of(name, field);
            outcome.merge(self.ratcheted(value, old_of(name), field, shape, &path));
        }
        for name in part.required() {
            if !fields.contains_key(name) {
                let path = self.at(&format!("{}.{name}", place.path));
                outcome.add(FieldError::required(&path, ""));
            }
        }
        outcome
    }
}

/// Whether a value is what it was, as far as the schema lets the two be compared.
pub(super) fn unchanged(value: &Value, old: &Value, shape: SchemaPart<'_>) -> bool {
    match (value, old) {
        (Value::Array(items), Value::Array(old_items)) => {
            if items.len() != old_items.len() {
                return false;
            }
            let keyed = text(shape.raw(), "x-kubernetes-list-type") == "map";
            match shape.items().filter(|_| keyed) {
                None => items == old_items,
                Some(part) => items.iter().all(|item| {
                    keyed_lists::counterpart(item, old, shape)
                        .is_some_and(|old| unchanged(item, old, part))
                }),
            }
        }
        (Value::Object(fields), Value::Object(old_fields)) => {
            let part = |name: &str| match shape {
                SchemaPart::Node(node) => node.field(name).map(SchemaPart::Node),
                SchemaPart::Branch(_) => None,
            };
            fields.len() == old_fields.len()
                && fields.iter().all(|(name, value)| match (part(name), old_fields.get(name)) {
                    (Some(part), Some(old)) => unchanged(value, old, part),
                    _ => false,
                })
        }
        _ => value == old,
    }
}
