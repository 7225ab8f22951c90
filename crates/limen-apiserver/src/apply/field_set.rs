//! A set of fields of an object: what somebody owns, or what changed.
//!
//! It is a tree of path elements. A field may be a member itself, have members below it, or both:
//! owning `.data` (that there is such a map) is something else than owning `.data.a`.

use std::collections::{BTreeMap, BTreeSet};

use super::path::PathElement;
use super::types::Type;

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(super) members: BTreeSet<PathElement>,
    /// Fields that have members below them; none of these sets is empty.
    pub(super) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// The set of these paths of named fields.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a field, but not those around it. Nobody owns the object as a whole.
    pub(crate) fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    pub(crate) fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.has(rest)),
        }
    }

    /// What the set has below a field.
    pub(super) fn below(&self, element: &PathElement) -> Option<&Self> {
        self.children.get(element)
    }

    /// Every member, those of a level before those below it.
    pub(crate) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            paths.push(path);
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// What is in either.
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let both = match union.children.get(element) {
                Some(mine) => mine.union(child),
                None => child.clone(),
            };
            union.children.insert(element.clone(), both);
        }
        union
    }

    /// What is in both.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(element, child)| {
            let both = child.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { members, children: children.collect() }
    }

    /// What is in this one only. Taking away a field leaves those below it.
    #[must_use]
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(element, child)| {
            let rest = match other.children.get(element) {
                Some(taken) => child.difference(taken),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { members, children: children.collect() }
    }

    /// What is in this one only, where taking away a field takes those below it too.
    #[must_use]
    pub(crate) fn recursive_difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(element, child)| {
            if other.members.contains(element) {
                return None;
            }
            let rest = match other.children.get(element) {
                Some(taken) => child.recursive_difference(taken),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { members, children: children.collect() }
    }

    /// The set with the fields that the schema names and that have members below them. Sets leave
    /// those out, since owning a part of `.spec` says nothing about `.spec`.
    #[must_use]
    pub(super) fn with_named_fields(&self, schema: Option<Type<'_>>) -> Self {
        let mut members = self.members.clone();
        let mut children = BTreeMap::new();
        for (element, child) in &self.children {
            let below = match element {
                PathElement::Field(name) => schema.and_then(|schema| schema.field(name)),
                PathElement::Key(_) => schema.and_then(Type::items),
                _ => None,
            };
            if let PathElement::Field(name) = element
                && schema.is_some_and(|schema| schema.names(name))
            {
                members.insert(element.clone());
            }
            children.insert(element.clone(), child.with_named_fields(below));
        }
        Self { members, children }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&[&str]]) -> FieldSet {
        FieldSet::of_fields(paths)
    }

    #[test]
    fn a_field_and_what_is_below_it_are_different_members() {
        let both = set(&[&["a"], &["a", "b"], &["c"]]);
        let below = set(&[&["a", "b"]]);
        let cases = [
            (both.difference(&below), set(&[&["a"], &["c"]])),
            (both.difference(&set(&[&["a"]])), set(&[&["a", "b"], &["c"]])),
            (both.recursive_difference(&set(&[&["a"]])), set(&[&["c"]])),
            (both.intersection(&set(&[&["a"], &["c", "d"]])), set(&[&["a"]])),
            (below.union(&set(&[&["a"], &["c"]])), both.clone()),
        ];
        for (made, expected) in cases {
            assert_eq!(made, expected);
        }
        assert!(both.has(&[PathElement::field("a"), PathElement::field("b")]));
        assert!(!below.has(&[PathElement::field("a")]));
        assert!(both.difference(&both).is_empty());
    }
}
