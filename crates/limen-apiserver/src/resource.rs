//! What the server knows of a resource type, built in or custom.
//!
//! A [`ResourceType`] is one version of one kind: its names, where its objects are stored, what
//! they look like, and the rules that its kind adds to those that hold for every object. The rest
//! of the server treats all types alike.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::field_error::FieldError;
use crate::schema::Schema;

/// One version of one kind of object.
pub struct ResourceType {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Ingress`.
    pub kind: String,
    /// The kind of a list of these, such as `IngressList`.
    pub list_kind: String,
    /// The name in URLs, such as `ingresses`.
    pub plural: String,
    /// The name of one of these for people, such as `ingress`.
    pub singular: String,
    /// Names that kubectl takes too, such as `ing`.
    pub short_names: Vec<String>,
    /// Groups of resources that kubectl takes, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether status is written through a subresource of its own.
    pub has_status: bool,
    /// Where the scale subresource finds its numbers.
    pub scale: Option<ScalePaths>,
    /// What kubectl's tables show.
    pub columns: Columns,
    /// The rules of the kind.
    pub rules: Rules,
    /// What objects look like; made on first use, since most kinds are never asked for.
    pub schema: LazySchema,
    /// Whether this is a custom resource: those are pruned and list with their type.
    pub custom: bool,
    /// Fields that field selectors may name besides those of the rules, as `spec.colour`.
    pub selectable_paths: Vec<String>,
    /// The schema of a custom resource as its definition has it, as JSON, for publishing.
    pub published: Option<Arc<str>>,
    /// How a version of a custom resource stands to the others; built-in kinds have but one.
    pub among: Option<AmongVersions>,
}

/// How a version of a custom resource stands to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmongVersions {
    /// The version that objects are stored in.
    pub storage: String,
    /// What everybody is warned of who uses a deprecated version.
    pub deprecation: Option<String>,
    /// Whether objects may have been stored by another schema than this one: there are several
    /// versions, or the definition was changed.
    pub reshaped: bool,
}

impl ResourceType {
    /// Whether objects may have been stored by another schema than that of this type.
    pub(crate) fn is_reshaped(&self) -> bool {
        self.among.as_ref().is_some_and(|among| among.reshaped)
    }
}

/// A schema that is made when it is first needed.
pub struct LazySchema {
    made: OnceLock<Arc<Schema>>,
    make: Box<dyn Fn() -> Arc<Schema> + Send + Sync>,
}

impl LazySchema {
    /// A schema that `make` makes.
    pub fn new(make: impl Fn() -> Arc<Schema> + Send + Sync + 'static) -> Self {
        Self { made: OnceLock::new(), make: Box::new(make) }
    }

    /// The schema.
    pub fn get(&self) -> &Arc<Schema> {
        self.made.get_or_init(|| (self.make)())
    }
}

/// JSON paths of the scale subresource, each like `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The wanted number.
    pub spec: String,
    /// The number that there is.
    pub status: String,
    /// The label selector, in text form or as a selector object.
    pub selector: Option<String>,
}

/// The table that kubectl prints for a type.
pub enum Columns {
    /// Columns with code of their own, of built-in kinds.
    BuiltIn {
        /// The column definitions.
        definitions: &'static [Column],
        /// The cells of one object, in the order of the definitions. `now` is in Unix seconds.
        cells: fn(object: &Value, now: i64) -> Vec<Value>,
    },
    /// Columns that are JSON paths, of custom resources.
    Paths(Vec<PathColumn>),
}

/// A column of a built-in kind.
pub struct Column {
    /// The title.
    pub name: &'static str,
    /// `string`, `integer`, `date`, ...
    pub kind: &'static str,
    /// `name` for the column that identifies the row, else empty.
    pub format: &'static str,
    /// What it shows.
    pub description: &'static str,
    /// 0 is always shown; 1 with `-o wide`.
    pub priority: i32,
}

/// A column of a custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathColumn {
    /// The title.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The format of the value.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// 0 is always shown; 1 with `-o wide`.
    pub priority: i32,
    /// Where the value is, such as `.spec.replicas`.
    pub path: String,
}

/// What a kind adds to the rules for every object. All of them are pure. Name, namespace,
/// generation, finalizers, owner references and the split between spec and status are seen to
/// elsewhere, once for all kinds.
#[derive(Clone, Copy)]
pub struct Rules {
    /// How the name must be made.
    pub name: NameRule,
    /// Fills in what the user left out.
    pub default: fn(&mut Value),
    /// Sets what the server itself gives a new object, such as the status that its life begins
    /// with or a generated selector. Runs on create after defaulting, when the status that the user
    /// sent has been dropped and the name, the uid and the creation timestamp are set.
    pub prepare_create: fn(&mut Value),
    /// What is wrong with an object.
    pub validate: fn(&Value, &mut Vec<FieldError>),
    /// What is wrong with a new object, besides what would be wrong with it after an update.
    pub validate_create: fn(&Value, &mut Vec<FieldError>),
    /// What is wrong with a change, besides what is wrong with the new object. `errors` has what
    /// `validate` found, and nothing else, so that a kind may put its errors first.
    pub validate_update: fn(new: &Value, old: &Value, errors: &mut Vec<FieldError>),
    /// What is wrong with a change of the status subresource.
    pub validate_status: fn(new: &Value, old: &Value, errors: &mut Vec<FieldError>),
    /// Carries over into the new object what a user may leave out of an update (such as a
    /// Service's clusterIP), before it is defaulted.
    pub prepare_update: fn(new: &mut Value, old: &Value),
    /// What to warn the user of.
    pub warnings: fn(&Value) -> Vec<String>,
    /// The fields, besides `metadata.name` and `metadata.namespace`, that field selectors may
    /// name, with the value of each.
    pub selectable: &'static [SelectableField],
}

impl Rules {
    /// A kind without rules of its own.
    pub const NONE: Self = Self {
        name: NameRule::Subdomain,
        default: |_| {},
        prepare_create: |_| {},
        validate: |_, _| {},
        validate_create: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status: |_, _, _| {},
        prepare_update: |_, _| {},
        warnings: |_| Vec::new(),
        selectable: &[],
    };
}

/// A field that field selectors may name, and how to read it.
pub type SelectableField = (&'static str, fn(&Value) -> String);

/// How names of a kind must be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain: most kinds.
    Subdomain,
    /// A DNS label: Namespace.
    Label,
    /// A DNS label that starts with a letter: Service.
    Rfc1035Label,
    /// Anything that can be a part of a path: RBAC kinds.
    PathSegment,
}
