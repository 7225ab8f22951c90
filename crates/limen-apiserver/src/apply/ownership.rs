//! Who owns what: `metadata.managedFields`, read and written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::field_set::FieldSet;
use super::fields_v1;

/// How somebody came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// By applying a configuration.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// An owner. Somebody who applies is one owner whatever version it uses, so `api_version` is empty
/// then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Owner {
    pub(super) fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

/// What somebody owns, in the names of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
}

/// All owners of an object. Times are kept apart from what is owned: an owner that loses all and
/// gains again keeps its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ownership {
    pub(super) owned: BTreeMap<Owner, Owned>,
    pub(super) times: BTreeMap<Owner, Timestamp>,
}

impl Ownership {
    /// Reads `metadata.managedFields`.
    pub(super) fn read(entries: &Value) -> Result<Self, String> {
        let mut ownership = Self::default();
        for (n, entry) in entries.as_array().into_iter().flatten().enumerate() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if text("apiVersion").is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {n}")),
                other => {
                    return Err(format!(
                        "invalid fieldsType {other:?} in managed fields entry {n}"
                    ));
                }
            }
            let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
            let set = fields_v1::read(fields).map_err(|error| error.to_string())?;
            let api_version = text("apiVersion").to_owned();
            let owner = Owner {
                manager: text("manager").to_owned(),
                operation,
                api_version: match operation {
                    Operation::Apply => String::new(),
                    Operation::Update => api_version.clone(),
                },
                subresource: text("subresource").to_owned(),
            };
            match text("time").parse() {
                Ok(time) => ownership.times.insert(owner.clone(), time),
                Err(_) => ownership.times.remove(&owner),
            };
            ownership.owned.insert(owner, Owned { set, api_version });
        }
        Ok(ownership)
    }

    /// `metadata.managedFields`, in the order of Kubernetes. `None` if nobody owns anything.
    pub(super) fn write(&self) -> Option<Value> {
        let mut entries: Vec<(&Owner, &Owned)> = self.owned.iter().collect();
        entries.sort_by_key(|(owner, owned)| {
            let seconds = self.times.get(owner).map_or(0, |time| time.as_second());
            let Owner { manager, operation, subresource, .. } = owner;
            (*operation, seconds, manager, &owned.api_version, subresource)
        });
        let entries: Vec<Value> =
            entries.into_iter().map(|(owner, owned)| self.entry(owner, owned)).collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    fn entry(&self, owner: &Owner, owned: &Owned) -> Value {
        let mut entry = Map::new();
        let mut set = |name: &str, value: Value| entry.insert(name.to_owned(), value);
        if !owner.manager.is_empty() {
            set("manager", json!(owner.manager));
        }
        set("operation", json!(owner.operation.name()));
        set("apiVersion", json!(owned.api_version));
        if let Some(time) = self.times.get(owner) {
            set("time", json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
        }
        set("fieldsType", json!("FieldsV1"));
        set("fieldsV1", fields_v1::write(&owned.set));
        if !owner.subresource.is_empty() {
            set("subresource", json!(owner.subresource));
        }
        Value::Object(entry)
    }

    /// Keeps the number of updating owners at a limit: the oldest become one. Those that apply are
    /// never merged, since their next apply needs to know what they owned.
    pub(super) fn cap_updaters(&mut self, limit: usize) {
        let mut updaters: Vec<Owner> = self
            .owned
            .keys()
            .filter(|owner| owner.operation == Operation::Update)
            .cloned()
            .collect();
        let mut count = updaters.len();
        if count <= limit {
            return;
        }
        updaters.sort_by_key(|owner| {
            (self.times.get(owner).map_or(0, |time| time.as_second()), owner.clone())
        });
        let mut first_of_version: BTreeMap<String, Owner> = BTreeMap::new();
        for owner in updaters {
            if count <= limit {
                break;
            }
            let version = owner.api_version.clone();
            let bucket = Owner::new("ancient-changes", Operation::Update, &version, "");
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, owner);
                continue;
            };
            if !self.owned.contains_key(&bucket)
                && let Some(owned) = self.owned.remove(first)
            {
                self.owned.insert(bucket.clone(), owned);
            }
            let Some(owned) = self.owned.remove(&owner) else { continue };
            let all = match self.owned.get(&bucket) {
                Some(ancient) => owned.set.union(&ancient.set),
                None => owned.set,
            };
            self.owned.insert(bucket.clone(), Owned { set: all, api_version: version });
            count -= 1;
            match self.times.get(&owner).copied() {
                Some(time) => self.times.insert(bucket, time),
                None => self.times.remove(&bucket),
            };
        }
    }
}

/// Whether a user asks to forget who owns what: an empty list, or a list of one empty entry.
pub(super) fn is_reset(entries: Option<&Value>) -> bool {
    match entries.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(|entry| {
            entry.values().all(|value| value.is_null() || value.as_str() == Some(""))
        }),
        _ => false,
    }
}
