//! A map by name that is cheap to copy and cheap to change.
//!
//! Names are spread over shelves by their hash. A copy shares all shelves with the original, and
//! whoever changes one first makes it its own. So a table of tens of thousands of names is copied
//! in microseconds, and what differs afterwards is what was changed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::decide::hash;

/// With a hundred thousand names there are some four hundred on a shelf.
const SHELVES: u64 = 256;

/// Values by name.
#[derive(Clone, Debug)]
pub struct Shelves<V> {
    /// None before the first name.
    shelves: Vec<Arc<Shelf<V>>>,
    names: usize,
}

type Shelf<V> = HashMap<Arc<str>, V>;

impl<V> Default for Shelves<V> {
    fn default() -> Self {
        Self { shelves: Vec::new(), names: 0 }
    }
}

fn place(name: &str) -> usize {
    usize::try_from(hash(name.as_bytes()) % SHELVES).unwrap_or(0)
}

impl<V> Shelves<V> {
    /// What is there by this name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.shelves.get(place(name))?.get(name)
    }

    /// All values, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.shelves.iter().flat_map(|shelf| shelf.values())
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names == 0
    }
}

impl<V: Clone> Shelves<V> {
    /// Puts a value where the one before it was.
    pub fn insert(&mut self, name: Arc<str>, value: V) {
        let added = self.shelf(&name).insert(name, value).is_none();
        self.names += usize::from(added);
    }

    /// What is there by this name, to be changed; the default if nothing was.
    pub fn entry(&mut self, name: Arc<str>) -> &mut V
    where
        V: Default,
    {
        self.names += usize::from(self.get(&name).is_none());
        self.shelf(&name).entry(name).or_default()
    }

    fn shelf(&mut self, name: &str) -> &mut Shelf<V> {
        if self.shelves.is_empty() {
            let empty: Arc<Shelf<V>> = Arc::default();
            self.shelves = (0..SHELVES).map(|_| empty.clone()).collect();
        }
        Arc::make_mut(&mut self.shelves[place(name)])
    }

    /// Takes away what is there by this name.
    pub fn remove(&mut self, name: &str) {
        if self.get(name).is_some() {
            self.shelf(name).remove(name);
            self.names -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_copy_stays_as_it_was(
            before in proptest::collection::vec((0..40u8, any::<Option<u8>>()), 0..60),
            after in proptest::collection::vec((0..40u8, any::<Option<u8>>()), 0..60),
        ) {
            let (mut shelves, mut plain) = (Shelves::default(), HashMap::new());
            let mut copies = Vec::new();
            for changes in [before, after] {
                for (name, value) in changes {
                    let name = format!("h{name}.test");
                    match value {
                        Some(value) if value % 2 == 0 => {
                            shelves.insert(name.as_str().into(), value);
                            plain.insert(name, value);
                        }
                        Some(value) => {
                            *shelves.entry(name.as_str().into()) = value;
                            plain.insert(name, value);
                        }
                        None => {
                            shelves.remove(&name);
                            plain.remove(&name);
                        }
                    }
                }
                copies.push((shelves.clone(), plain.clone()));
            }
            for (shelves, plain) in copies {
                prop_assert_eq!(shelves.len(), plain.len());
                prop_assert_eq!(shelves.is_empty(), plain.is_empty());
                for name in 0..40u8 {
                    let name = format!("h{name}.test");
                    prop_assert_eq!(shelves.get(&name), plain.get(&name));
                }
                let (mut all, mut expected): (Vec<u8>, Vec<u8>) =
                    (shelves.values().copied().collect(), plain.values().copied().collect());
                all.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(all, expected);
            }
        }
    }
}
