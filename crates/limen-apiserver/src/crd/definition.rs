//! Whether a `CustomResourceDefinition` is a good one, and what its author may leave out.
//!
//! The real server keeps what all versions share (schema, subresources, columns) in one place and
//! names that place in its messages: `spec.validation` rather than `spec.versions[0].schema`. A
//! definition with a single version always reads that way.

use serde_json::{Value, json};

use super::schema_json::{flag, is_empty, list, present, text, texts};
use super::{dns, paths, schema_rules};
use crate::field_error::{FieldError, FieldPath};

const MOST_SELECTABLE: usize = 8;
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Fills in what the author left out.
pub(crate) fn default(definition: &mut Value) {
    let storage = storage_version(definition).map(str::to_owned);
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let missing = |name: &str, names: &serde_json::Map<String, Value>| {
            names.get(name).is_none_or(is_empty)
        };
        if missing("singular", names) && !kind.is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if missing("listKind", names) && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let stored = definition.pointer("/status/storedVersions");
    if let Some(storage) = storage.filter(|_| stored.is_none_or(is_empty)) {
        set_stored_versions(definition, vec![storage.into()]);
    }
}

fn set_stored_versions(definition: &mut Value, stored: Vec<Value>) {
    let Some(definition) = definition.as_object_mut() else { return };
    let status = definition.entry("status").or_insert_with(|| json!({}));
    if status.is_null() {
        *status = json!({});
    }
    if let Some(status) = status.as_object_mut() {
        status.insert("storedVersions".to_owned(), stored.into());
    }
}

/// Carries the status over into a changed definition; a new storage version joins those that
/// objects are stored in.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    if let Some(new) = new.as_object_mut() {
        new.insert("status".to_owned(), old.get("status").cloned().unwrap_or_else(|| json!({})));
    }
    let Some(storage) = storage_version(new).map(str::to_owned) else { return };
    if !texts(&new["status"], "storedVersions").any(|stored| stored == storage) {
        let mut stored = list(&new["status"], "storedVersions").to_vec();
        stored.push(storage.into());
        set_stored_versions(new, stored);
    }
}

/// The version that objects are stored in.
pub(super) fn storage_version(definition: &Value) -> Option<&str> {
    let versions = list(definition.get("spec")?, "versions");
    versions.iter().find(|version| flag(version, "storage")).map(|version| text(version, "name"))
}

/// Whether a condition of a definition holds.
pub(super) fn condition_is_true(definition: &Value, kind: &str) -> bool {
    definition.get("status").is_some_and(|status| {
        list(status, "conditions")
            .iter()
            .any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
    })
}

/// What is wrong with a definition. Its metadata is looked at elsewhere, but for the name, which
/// must be that of the resource.
pub(crate) fn validate(definition: &Value, errors: &mut Vec<FieldError>) {
    check(definition, None, errors);
}

/// What is wrong with a changed definition. What the old one got away with is not held against
/// the new one.
pub(crate) fn validate_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    check(new, Some(old), errors);
    let empty = json!({});
    let (spec, old_spec) = (new.get("spec").unwrap_or(&empty), old.get("spec").unwrap_or(&empty));
    let mut immutable = |path: FieldPath, pointer: &str| {
        let value = spec.pointer(pointer).unwrap_or(&Value::Null);
        if Some(value) != old_spec.pointer(pointer) {
            errors.push(FieldError::invalid(&path, value, "field is immutable"));
        }
    };
    let spec_path = FieldPath::new("spec");
    if condition_is_true(old, "Established") {
        immutable(spec_path.child("scope"), "/scope");
        immutable(spec_path.child("names").child("kind"), "/names/kind");
    }
    immutable(spec_path.child("group"), "/group");
    immutable(spec_path.child("names").child("plural"), "/names/plural");
}

/// What to warn the author of: formats that nothing checks.
pub(crate) fn warnings(definition: &Value) -> Vec<String> {
    let empty = json!({});
    let mut warnings = Vec::new();
    for version in list(definition.get("spec").unwrap_or(&empty), "versions") {
        let Some(schema) = version.pointer("/schema/openAPIV3Schema") else { continue };
        super::schema_json::visit(schema, &mut |schema| {
            let format = text(schema, "format");
            if !format.is_empty() && !super::values::format_is_known(text(schema, "type"), format) {
                warnings.push(format!("unrecognized format {format:?}"));
            }
        });
    }
    warnings
}

fn check(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let empty = json!({});
    let spec = definition.get("spec").unwrap_or(&empty);
    let status = definition.get("status").unwrap_or(&empty);
    let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if old.is_none() && !name.is_empty() && name != wanted {
        let path = FieldPath::new("metadata").child("name");
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid(&path, &name.into(), detail));
    }
    check_spec(spec, old.and_then(|old| old.get("spec")), errors);
    let status_path = FieldPath::new("status");
    if let Some(names) = status.get("acceptedNames") {
        check_names(names, &status_path.child("acceptedNames"), errors);
    }
    check_stored_versions(spec, status, &status_path.child("storedVersions"), errors);
    check_approval(definition, old, errors);
    let preserved = |definition: &Value| flag(&definition["spec"], "preserveUnknownFields");
    if preserved(definition) && !old.is_some_and(preserved) {
        let path = FieldPath::new("spec").child("preserveUnknownFields");
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&path, &Value::Bool(true), detail));
    }
}

/// A part of the versions that is looked at once if all versions share it.
struct Shared<'a> {
    parts: Vec<(FieldPath, &'a Value)>,
}

impl<'a> Shared<'a> {
    fn of(versions: &'a [Value], field: &str, shared: &FieldPath, own: &str) -> Self {
        let part = |version: &'a Value| version.get(field).filter(|part| !part.is_null());
        let first = versions.first().and_then(part);
        let same = versions.iter().all(|version| {
            let part = part(version);
            part == first || part.is_none_or(is_empty) && first.is_none_or(is_empty)
        });
        let parts = if same {
            first.map(|part| (shared.clone(), part)).into_iter().collect()
        } else {
            let path = |n| FieldPath::new("spec").child("versions").index(n).child(own);
            let own = versions
                .iter()
                .enumerate()
                .filter_map(|(n, version)| Some((path(n), part(version)?)));
            own.collect()
        };
        Self { parts }
    }

    /// The parts that belong to all versions, or to this one.
    fn at(&self, version: Option<usize>) -> impl Iterator<Item = &(FieldPath, &'a Value)> {
        let own = version.map(|n| format!("spec.versions[{n}]."));
        self.parts.iter().filter(move |(path, _)| match &own {
            Some(own) => path.to_string().starts_with(own.as_str()),
            None => !path.to_string().starts_with("spec.versions["),
        })
    }
}

fn check_spec(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec");
    check_group(text(spec, "group"), &path.child("group"), errors);
    let scope = text(spec, "scope");
    one_of(scope, &["Cluster", "Namespaced"], &path.child("scope"), errors);
    let versions = list(spec, "versions");
    let versions_path = path.child("versions");
    for (n, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none_or(Value::is_null) {
            let path = versions_path.index(n).child("schema").child("openAPIV3Schema");
            errors.push(FieldError::required(&path, ""));
        }
    }
    let schemas = Shared::of(versions, "schema", &path.child("validation"), "schema");
    let subresources =
        Shared::of(versions, "subresources", &path.child("subresources"), "subresources");
    let columns_path = path.child("additionalPrinterColumns");
    let columns =
        Shared::of(versions, "additionalPrinterColumns", &columns_path, "additionalPrinterColumns");
    let selectable = Shared::of(
        versions,
        "selectableFields",
        &path.child("selectableFields"),
        "selectableFields",
    );
    let accepted = |schema: &Value| {
        old.is_some_and(|old| {
            list(old, "versions").iter().any(|version| version.get("schema") == Some(schema))
        })
    };
    let has_status =
        |version: &Value| version.pointer("/subresources/status").is_some_and(Value::is_object);
    let check_schemas = |of: Option<usize>, status: bool, errors: &mut Vec<FieldError>| {
        for (path, schema) in schemas.at(of).filter(|(_, schema)| !accepted(schema)) {
            if let Some(schema) = present(schema, "openAPIV3Schema") {
                schema_rules::check(schema, &path.child("openAPIV3Schema"), status, errors);
            }
        }
    };
    let check_rest = |of: Option<usize>, errors: &mut Vec<FieldError>| {
        for (path, subresources) in subresources.at(of) {
            check_subresources(subresources, path, errors);
        }
        for (path, columns) in columns.at(of) {
            for (n, column) in columns.as_array().into_iter().flatten().enumerate() {
                check_column(column, &path.index(n), errors);
            }
        }
        for (path, selectable) in selectable.at(of) {
            let version = &versions[of.unwrap_or(0)];
            let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
            check_selectable(selectable, schema, path, errors);
        }
    };

    for (n, version) in versions.iter().enumerate() {
        let path = versions_path.index(n);
        let name = text(version, "name");
        label(name, &path.child("name"), errors);
        check_deprecation(version, &path.child("deprecationWarning"), errors);
        check_schemas(Some(n), has_status(version), errors);
        check_rest(Some(n), errors);
    }
    check_versions(spec, &versions_path, errors);
    if let Some(first) = versions.first() {
        label(text(first, "name"), &path.child("version"), errors);
    }
    let names = &spec["names"];
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            errors.push(FieldError::required(&path.child("names").child(name), ""));
        }
    }
    check_names(names, &path.child("names"), errors);
    check_schemas(None, versions.iter().any(has_status), errors);
    check_rest(None, errors);
    check_conversion(&spec["conversion"], &path.child("conversion"), errors);
}

fn check_group(group: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let wrong = dns::rfc1123_subdomain(group).join(",");
    if group.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(path, &group.into(), &wrong));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid(path, &group.into(), detail));
    }
}

fn one_of(value: &str, allowed: &[&str], path: &FieldPath, errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(path, &value.into(), allowed));
    }
}

fn label(value: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let wrong = dns::rfc1035_label(value).join(",");
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(path, &value.into(), &wrong));
    }
}

fn check_names(names: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for name in ["plural", "singular"] {
        if !text(names, name).is_empty() {
            label(text(names, name), &path.child(name), errors);
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    for (name, value) in [("kind", kind), ("listKind", list_kind)] {
        let wrong = dns::rfc1035_label(&value.to_lowercase()).join(",");
        if !value.is_empty() && !wrong.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {wrong}");
            errors.push(FieldError::invalid(&path.child(name), &value.into(), &detail));
        }
    }
    for (n, name) in texts(names, "shortNames").enumerate() {
        label(name, &path.child("shortNames").index(n), errors);
    }
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), &list_kind.into(), detail));
    }
    for (n, category) in texts(names, "categories").enumerate() {
        label(category, &path.child("categories").index(n), errors);
    }
}

fn check_deprecation(version: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(warning) = present(version, "deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut wrong = |detail: &str| errors.push(FieldError::invalid(path, &warning.into(), detail));
    if !flag(version, "deprecated") {
        return wrong("can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        wrong("must be <= 256 characters long");
    }
    if warning.is_empty() {
        wrong("must not be an empty string");
    }
    if let Some((n, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        wrong(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {n}"
        ));
    }
}

fn check_versions(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let versions = list(spec, "versions");
    let shown = || match present(spec, "versions") {
        Some(_) => internal_versions(versions),
        None => "null".to_owned(),
    };
    let mut names: Vec<&str> = versions.iter().map(|version| text(version, "name")).collect();
    names.sort_unstable();
    let unique = names.windows(2).all(|pair| pair[0] != pair[1]);
    if !unique {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid_shown(path, &shown(), detail));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid_shown(path, &shown(), detail));
    }
}

/// The versions the way messages show them: as the real server keeps them, less what they share.
fn internal_versions(versions: &[Value]) -> String {
    let shown = versions.iter().map(|version| {
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            Value::from(text(version, "name")),
            flag(version, "served"),
            flag(version, "storage"),
            flag(version, "deprecated"),
            present(version, "deprecationWarning").unwrap_or(&Value::Null),
        )
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(","))
}

fn check_column(column: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if text(column, "name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let kind = text(column, "type");
    let detail = "must be one of boolean,date,integer,number,string";
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), detail));
    } else if !["boolean", "date", "integer", "number", "string"].contains(&kind) {
        errors.push(FieldError::invalid(&path.child("type"), &kind.into(), detail));
    }
    let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let format = text(column, "format");
    if !format.is_empty() && !formats.contains(&format) {
        let detail = format!("must be one of {}", formats.join(","));
        errors.push(FieldError::invalid(&path.child("format"), &format.into(), &detail));
    }
    simple_path(text(column, "jsonPath"), &path.child("JSONPath"), errors);
}

/// Whether a required path is there and is one.
fn simple_path(value: &str, path: &FieldPath, errors: &mut Vec<FieldError>) -> bool {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
        return false;
    }
    let wrong = paths::simple(value);
    errors.extend(wrong.map(|detail| FieldError::invalid(path, &value.into(), detail)));
    wrong.is_none()
}

fn check_subresources(subresources: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(scale) = present(subresources, "scale") else { return };
    for (name, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = path.child("scale").child(name);
        let value = text(scale, name);
        if simple_path(value, &path, errors) && !value.starts_with(&format!("{root}.")) {
            let detail = format!("should be a json path under {root}");
            errors.push(FieldError::invalid(&path, &value.into(), &detail));
        }
    }
    let selector = text(scale, "labelSelectorPath");
    let path = path.child("scale").child("labelSelectorPath");
    let under = selector.starts_with(".spec.") || selector.starts_with(".status.");
    if !selector.is_empty() && simple_path(selector, &path, errors) && !under {
        let detail = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(&path, &selector.into(), detail));
    }
}

fn check_selectable(
    selectable: &Value,
    schema: &Value,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let mut seen: Vec<String> = Vec::new();
    for (n, field) in selectable.as_array().into_iter().flatten().enumerate() {
        let value = text(field, "jsonPath");
        let path = path.index(n).child("jsonPath");
        let mut invalid =
            |detail: &str| errors.push(FieldError::invalid(&path, &value.into(), detail));
        if value.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let (found, schema) = match paths::find(value, schema, false) {
            Ok(found) => found,
            Err(why) => {
                invalid(&format!("is an invalid path: {why}"));
                continue;
            }
        };
        let found = found.to_string();
        if found == "metadata" || found.starts_with("metadata.") {
            invalid("must not point to fields in metadata");
        }
        if !["string", "boolean", "integer"].contains(&text(schema, "type")) {
            invalid(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            );
        }
        if seen.contains(&found) {
            errors.push(FieldError::duplicate(&path, &value.into()));
        } else {
            seen.push(found);
        }
    }
    if seen.len() > MOST_SELECTABLE {
        errors.push(FieldError::too_many(path, seen.len(), MOST_SELECTABLE));
    }
}

/// Objects are converted by changing their version only; webhooks are not called.
fn check_conversion(conversion: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if conversion.is_null() {
        return;
    }
    let strategy = text(conversion, "strategy");
    one_of(strategy, &["None", "Webhook"], &path.child("strategy"), errors);
    if strategy == "Webhook" {
        let detail = "conversion webhooks are not supported: use None, with which only the apiVersion of objects changes";
        errors.push(FieldError::forbidden(&path.child("strategy"), detail));
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if let Some(webhook) = present(conversion, "webhook") {
        if present(webhook, "clientConfig").is_some() {
            errors.push(FieldError::forbidden(&path.child("webhookClientConfig"), detail));
        }
        if !list(webhook, "conversionReviewVersions").is_empty() {
            errors.push(FieldError::forbidden(&path.child("conversionReviewVersions"), detail));
        }
    }
}

fn check_stored_versions(
    spec: &Value,
    status: &Value,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let stored = list(status, "storedVersions");
    let shown = if stored.is_empty() { Value::Null } else { stored.into() };
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid(path, &shown, detail));
        return;
    }
    let versions = list(spec, "versions");
    for version in versions.iter().filter(|version| flag(version, "storage")) {
        let name = text(version, "name");
        if !stored.iter().any(|stored| stored == name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(path, &shown, &detail));
        }
    }
    for (n, name) in stored.iter().filter_map(Value::as_str).enumerate() {
        if !versions.iter().any(|version| text(version, "name") == name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&path.index(n), &name.into(), &detail));
        }
    }
}

/// Groups of the Kubernetes project need to say who approved them.
fn check_approval(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let group = text(&definition["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let annotation = |definition: &Value| {
        let annotations = definition.pointer("/metadata/annotations");
        annotations.map(|all| text(all, APPROVAL).to_owned()).unwrap_or_default()
    };
    let approval = annotation(definition);
    let unchanged = old.is_some_and(|old| annotation(old) == approval);
    let is_url = approval.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
    });
    if !protected || unchanged || approval.starts_with("unapproved") || is_url {
        return;
    }
    let path = FieldPath::new("metadata").child("annotations").key(APPROVAL);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if approval.is_empty() {
        let detail = format!("protected groups must have approval annotation {APPROVAL:?}, {see}");
        errors.push(FieldError::required(&path, &detail));
    } else {
        let detail = format!(
            "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \"unapproved\", {see}"
        );
        errors.push(FieldError::invalid(&path, &approval.into(), &detail));
    }
}
