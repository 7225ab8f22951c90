//! The hub's account in a member: its objects, their rights, and the account that hubs shared.
//!
//! Every hub has objects of its own name, so that several hubs in one member leave each other's
//! rights alone. Members that joined before have an account that all hubs share; joining again
//! replaces it, and deletes it if it was this hub's alone.

use std::collections::BTreeSet;

use kube::Client;
use kube::api::{Api, ListParams};
use limen_api::{FederatedType, NAMESPACE};
use limen_core::federated::ObjectId;
use limen_core::leaf::HUB_LABEL;
use limen_core::membership::{AccountName, SharedAccount, is_own_account};
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::kinds::leaf_kind;
use crate::setup::cluster_object;

/// Marks a ConfigMap in a member by which a hub claims it; [`HUB_LABEL`] names the hub.
pub(crate) const CLAIM_LABEL: &str = "limen.dev/claim";

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Ids of an account's objects, in the order in which they are made.
struct Objects {
    account: ObjectId,
    role: ObjectId,
    binding: ObjectId,
    own_role: ObjectId,
    own_binding: ObjectId,
}

impl Objects {
    fn named(name: &str) -> Self {
        let own = |row: (&str, &str, &str, bool)| ObjectId {
            kind: limen_api::kind(row),
            namespace: Some(NAMESPACE.to_owned()),
            name: name.to_owned(),
        };
        Self {
            account: own(("v1", "ServiceAccount", "serviceaccounts", true)),
            role: cluster_object(RBAC, "ClusterRole", "clusterroles", name),
            binding: cluster_object(RBAC, "ClusterRoleBinding", "clusterrolebindings", name),
            own_role: own((RBAC, "Role", "roles", true)),
            own_binding: own((RBAC, "RoleBinding", "rolebindings", true)),
        }
    }
}

/// The account of a hub in a member, with the least rights that its kinds need.
pub(crate) fn account_objects(
    name: &AccountName,
    types: &[FederatedType],
) -> Vec<(ObjectId, Value)> {
    let objects = Objects::named(name.as_str());
    let bound_to = |kind: &str| {
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind,
                "name": name.as_str()},
            "subjects": [{"kind": "ServiceAccount", "name": name.as_str(),
                "namespace": NAMESPACE}]})
    };
    // For renewing its own token.
    let tokens = json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"],
        "resourceNames": [name.as_str()], "verbs": ["create"]}]);
    let object = |id: ObjectId, rest: Value| {
        let mut object = json!({
            "apiVersion": id.kind.api_version, "kind": id.kind.kind,
            "metadata": {"name": id.name, "namespace": id.namespace}});
        if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
            object.extend(rest);
        }
        (id, object)
    };
    vec![
        object(cluster_object("v1", "Namespace", "namespaces", NAMESPACE), json!({})),
        object(objects.account, json!({})),
        object(objects.role, json!({"rules": rules(types)})),
        object(objects.binding, bound_to("ClusterRole")),
        object(objects.own_role, json!({"rules": tokens})),
        object(objects.own_binding, bound_to("Role")),
    ]
}

fn rules(types: &[FederatedType]) -> Vec<Value> {
    let resources: BTreeSet<(&str, &str)> = types
        .iter()
        .map(|federated| {
            let spec = &federated.spec;
            let group = spec.api_version.split_once('/').map_or("", |(group, _)| group);
            (group, spec.plural.as_str())
        })
        .collect();
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    let rule = |(group, plural): (&str, &str)| json!({"apiGroups": [group], "resources": [plural], "verbs": verbs});
    let mut rules: Vec<Value> = resources.into_iter().map(rule).collect();
    let watch = ["get", "list", "watch"];
    rules.extend([
        json!({"apiGroups": [""], "resources": ["nodes"], "verbs": watch}),
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch}),
        // The uid of kube-system tells one cluster from another.
        json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}),
        // A Namespace is deleted only if a list of every kind shows nothing foreign in it.
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}),
        json!({"nonResourceURLs": ["/readyz", "/version"], "verbs": ["get"]}),
    ]);
    rules
}

/// Ids of the hubs that claim a member; empty for a claim without one.
pub(crate) async fn claims(member: &Client) -> kube::Result<Vec<String>> {
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(member.clone(), NAMESPACE);
    let labelled = ListParams::default().labels(&format!("{CLAIM_LABEL}=true"));
    let hub = |labels: Option<std::collections::BTreeMap<String, String>>| {
        labels.and_then(|mut labels| labels.remove(HUB_LABEL)).unwrap_or_default()
    };
    let claims = maps.list(&labelled).await?;
    Ok(claims.items.into_iter().map(|claim| hub(claim.metadata.labels)).collect())
}

/// Deletes the shared account in a member, if it was this hub's alone: `used` is the account of the
/// credential that the hub had before.
pub(crate) async fn delete_shared_account(
    member: &ObjectApi,
    hub: &str,
    used: Option<&AccountName>,
    types: &[FederatedType],
) -> kube::Result<()> {
    let Objects { account, role, binding, own_role, own_binding } =
        Objects::named(AccountName::SHARED);
    let Some(bound) = member.get(&binding).await? else { return Ok(()) };
    let own = format!("{NAMESPACE}/{}", AccountName::SHARED);
    let mut evidence =
        SharedAccount { used, bound: &subjects(&bound), own: &own, other_hubs: false };
    if !is_own_account(&evidence) {
        return Ok(());
    }
    evidence.other_hubs = other_hubs(member, hub, types).await?;
    if !is_own_account(&evidence) {
        return Ok(());
    }
    // The binding last: while it is there, an attempt that failed half-way is made again.
    for id in [own_binding, own_role, role, account, binding] {
        let Some(found) = member.get(&id).await? else { continue };
        if let Some(uid) = found["metadata"]["uid"].as_str() {
            member.delete(&id, uid).await?;
        }
    }
    Ok(())
}

/// Subjects of a binding, as `namespace/name` where they are service accounts.
fn subjects(binding: &Value) -> Vec<String> {
    let subject = |subject: &Value| match subject["kind"].as_str() {
        Some("ServiceAccount") => {
            let text = |field: &str| subject[field].as_str().unwrap_or_default();
            format!("{}/{}", text("namespace"), text("name"))
        }
        _ => String::new(),
    };
    binding["subjects"].as_array().into_iter().flatten().map(subject).collect()
}

/// Whether another hub claims a member or has leaves there. Hubs of older versions make no claim.
async fn other_hubs(member: &ObjectApi, hub: &str, types: &[FederatedType]) -> kube::Result<bool> {
    if claims(member.client()).await?.iter().any(|claim| claim != hub) {
        return Ok(true);
    }
    let others = format!("{HUB_LABEL},{HUB_LABEL}!={hub}");
    for federated in types {
        match member.list(&leaf_kind(&federated.spec), &others).await {
            Ok((leaves, _)) if leaves.is_empty() => {}
            Ok(_) => return Ok(true),
            // A kind that the member does not have.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_two_hubs_share_nothing_but_the_namespace() {
        let types = crate::kinds::federated_types();
        let ids = |hub: &str| -> BTreeSet<String> {
            let objects = account_objects(&AccountName::of_hub(hub), &types);
            objects.into_iter().map(|(id, _)| id.to_string()).collect()
        };
        let (one, other) = (ids("11111111-1"), ids("22222222-2"));
        assert_eq!(one.len(), 6);
        let shared: Vec<&String> = one.intersection(&other).collect();
        assert_eq!(shared, ["Namespace limen-system"]);
    }

    #[test]
    fn the_account_may_list_everything_and_read_one_namespace_at_a_time() {
        let rules = rules(&[]);
        let has = |group: &str, resource: &str, verb: &str| {
            let names = |rule: &Value, field: &str, name: &str| {
                rule[field].as_array().is_some_and(|all| all.iter().any(|one| one == name))
            };
            rules.iter().any(|rule| {
                names(rule, "apiGroups", group)
                    && names(rule, "resources", resource)
                    && names(rule, "verbs", verb)
            })
        };
        assert!(has("*", "*", "list"));
        assert!(has("", "namespaces", "get"));
        for verb in ["get", "watch", "create", "patch", "delete", "*"] {
            assert!(!has("*", "*", verb), "{verb}");
        }
    }

    #[test]
    fn subjects_that_are_no_service_accounts_are_not_taken_for_one() {
        let binding = json!({"subjects": [
            {"kind": "ServiceAccount", "namespace": "limen-system", "name": "limen-hub"},
            {"kind": "User", "namespace": "limen-system", "name": "limen-hub"}]});
        assert_eq!(subjects(&binding), ["limen-system/limen-hub", ""]);
    }
}
