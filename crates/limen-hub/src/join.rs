//! Letting a cluster into the federation, and out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use limen_api::{Cluster, ClusterSpec, FederatedType, NAMESPACE, SecretReference, why};
use limen_core::federated::ObjectId;
use limen_core::global::Verdict;
use limen_core::locality::Coordinates;
use limen_sync::{ObjectApi, is_absent};
use serde_json::{Value, json};

use crate::clusters::{LET_GO, UNJOIN_ANNOTATION};
use crate::connect::member_client;
use crate::farewell::take_traffic_away;
use crate::kinds::federated_types;
use crate::renewal::new_token;
use crate::setup::cluster_object;

/// The account that the hub uses in a member.
pub(crate) const ACCOUNT: &str = "limen-hub";
/// How long its token lasts.
pub(crate) const TOKEN_SECONDS: i64 = 365 * 24 * 3600;

/// How long a hub that has just been started may take until it knows what a cluster is.
const MOMENT: Duration = Duration::from_secs(30);

/// How a cluster joins.
#[derive(Clone, Debug, Default)]
pub struct JoinOptions {
    /// What it is called.
    pub name: String,
    /// The address of its API, as the hub reaches it.
    pub endpoint: String,
    /// The authority of its API's certificate, as PEM.
    pub ca: Option<Vec<u8>>,
    /// Its region.
    pub region: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Its place on Earth.
    pub coordinates: Option<Coordinates>,
    /// What selectors match.
    pub labels: BTreeMap<String, String>,
    /// The cluster of that name may be another than before, or have another address.
    pub moves: bool,
}

/// What came of joining.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The version that the member says it has.
    pub version: String,
    /// It was about to leave, and stays.
    pub stays: bool,
    /// It gets no traffic: somebody has drained it, perhaps by letting it leave.
    pub drained: bool,
}

/// Why a cluster could not join or leave.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Something could not be made or read.
    #[error("cannot {step}: {}", why(error))]
    Step {
        /// What was being done, to what.
        step: String,
        /// Why not.
        error: kube::Error,
    },
    /// The member does not answer to the credential that was made.
    #[error(
        "the cluster does not answer at {endpoint} to the account that was made for the hub: {reason}"
    )]
    NotUsable {
        /// Where.
        endpoint: String,
        /// Why not.
        reason: String,
    },
    /// Whatever answers is a Kubernetes without Limen.
    #[error(
        "what answers in place of the hub is a Kubernetes that is no hub; take the kubeconfig that limen hub has written, or make it a hub with limen hub --kubeconfig FILE"
    )]
    NoHub,
    /// The name belongs to what has another address.
    #[error(
        "cluster {name} has joined with the address {known}, and this kubeconfig leads to {given}; see whether the name and the context are right, and use --move if the cluster has moved"
    )]
    Elsewhere {
        /// The member.
        name: String,
        /// Where it is as the hub knows it.
        known: String,
        /// Where it is to be.
        given: String,
    },
    /// There is no such member.
    #[error("there is no cluster {0}; limen clusters lists them")]
    Unknown(String),
    /// Somebody has joined it again before it had left.
    #[error("cluster {0} was joined again meanwhile, and stays")]
    JoinedAgain(String),
    /// Clients are still sent there.
    #[error(
        "clients are still sent to cluster {name} for {backends} backends {seconds} s after it was drained; see whether limen hub runs, then try again"
    )]
    StillServing {
        /// The member.
        name: String,
        /// How many backends it serves.
        backends: usize,
        /// How long was waited.
        seconds: u64,
    },
    /// Its leaves cannot be deleted.
    #[error(
        "cluster {name} does not answer the hub, so the {leaves} leaves that are known there cannot be deleted; limen clusters says why it does not answer; try again when it does, or use --abandon to forget it and to leave there what it has"
    )]
    Unreachable {
        /// The member.
        name: String,
        /// How many leaves it has.
        leaves: usize,
    },
    /// Leaves are still there.
    #[error(
        "the hub has not let go of cluster {name} within {seconds} s ({leaves} leaves are known there); see whether limen hub runs and what kubectl get cluster {name} -o yaml says, then try again"
    )]
    Unfinished {
        /// The member.
        name: String,
        /// How many leaves are left.
        leaves: usize,
        /// How long was waited.
        seconds: u64,
    },
}

pub(crate) fn step(what: impl Into<String>) -> impl FnOnce(kube::Error) -> JoinError {
    let step = what.into();
    move |error| JoinError::Step { step, error }
}

/// The kinds that a hub federates.
async fn types_of(hub: &Client) -> Result<Vec<FederatedType>, JoinError> {
    let types: Api<FederatedType> = Api::all(hub.clone());
    let started = tokio::time::Instant::now();
    loop {
        match types.list(&ListParams::default()).await {
            Ok(types) => return Ok(types.items),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                // An API of our own becomes a hub by itself, and any other only if somebody does it.
                let own = is_own(hub).await.unwrap_or(false);
                if !own || started.elapsed() > MOMENT {
                    return Err(JoinError::NoHub);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => return Err(step("read the federated types of the hub")(error)),
        }
    }
}

/// Whether an API is Limen's own, and not that of somebody's Kubernetes.
pub async fn is_own(api: &Client) -> kube::Result<bool> {
    Ok(api.apiserver_version().await?.git_version.contains("+limen"))
}

/// Makes an account in the member and registers the member with the hub. What a member that has
/// joined before is known by stays, unless the options say something else.
pub async fn join(
    hub: &Client,
    member: &Client,
    options: &JoinOptions,
) -> Result<Joined, JoinError> {
    let api = ObjectApi::new(member.clone());
    let mut types = types_of(hub).await?;
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let known = clusters.get_opt(&options.name).await;
    let known = known.map_err(step(format!("read cluster {} from the hub", options.name)))?;
    refuse_another(known.as_ref(), options)?;
    // A hub that has just been started may not have written down all that it knows yet.
    types.extend(federated_types());
    for (id, object) in account_objects(&types) {
        api.apply(&id, &object)
            .await
            .map_err(step(format!("make {id} in cluster {}", options.name)))?;
    }
    let token = new_token(member)
        .await
        .map_err(step(format!("get a token for the hub in cluster {}", options.name)))?;

    let secret_name = format!("cluster-{}", options.name);
    let cluster = cluster(options, known, &secret_name);
    let mut data = BTreeMap::from([("token".to_owned(), token.into_bytes())]);
    data.extend(options.ca.clone().map(|ca| ("ca.crt".to_owned(), ca)));
    let not_usable =
        |reason: String| JoinError::NotUsable { endpoint: options.endpoint.clone(), reason };
    let client = member_client(&cluster, Some(&data))
        .await
        .map_err(|error| not_usable(error.to_string()))?;
    let version =
        client.apiserver_version().await.map_err(|error| not_usable(error.to_string()))?;

    let secret: Secret = Secret {
        metadata: ObjectMeta {
            name: Some(secret_name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(
            data.into_iter().map(|(key, value)| (key, k8s_openapi::ByteString(value))).collect(),
        ),
        ..Secret::default()
    };
    let apply = PatchParams::apply("limen").force();
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), NAMESPACE);
    secrets
        .patch(&secret_name, &apply, &Patch::Apply(secret))
        .await
        .map_err(step(format!("store the Secret {secret_name} on the hub")))?;
    let register = || step(format!("register cluster {} with the hub", options.name));
    let registered = clusters.patch(&options.name, &apply, &Patch::Apply(cluster)).await;
    let registered = registered.map_err(register())?;
    // An unjoin that did not come to its end would go on.
    let stays = is_leaving(&registered);
    if stays {
        let unmarked = json!({"metadata": {"annotations": {UNJOIN_ANNOTATION: null}}});
        let patch = Patch::Merge(unmarked);
        clusters.patch(&options.name, &PatchParams::default(), &patch).await.map_err(register())?;
    }
    Ok(Joined { version: version.git_version, stays, drained: registered.spec.drain })
}

/// Whether somebody wants it to leave.
fn is_leaving(cluster: &Cluster) -> bool {
    let annotations = cluster.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(UNJOIN_ANNOTATION))
}

/// Refuses to lead a name to another address than before by mistake.
fn refuse_another(known: Option<&Cluster>, options: &JoinOptions) -> Result<(), JoinError> {
    let known = known.and_then(|cluster| cluster.spec.endpoint.as_deref());
    let plain = |endpoint: &str| endpoint.trim_end_matches('/').to_owned();
    match known.map(plain) {
        Some(known) if known != plain(&options.endpoint) && !options.moves => {
            let (name, given) = (options.name.clone(), plain(&options.endpoint));
            Err(JoinError::Elsewhere { name, known, given })
        }
        _ => Ok(()),
    }
}

/// What the options say of a cluster, and where they say nothing what was known of it.
fn cluster(options: &JoinOptions, known: Option<Cluster>, secret: &str) -> Cluster {
    let (before, mut labels) = match known {
        Some(known) => (known.spec, known.metadata.labels.unwrap_or_default()),
        None => Default::default(),
    };
    labels.extend(options.labels.clone());
    let mut cluster = Cluster::new(
        &options.name,
        ClusterSpec {
            endpoint: Some(options.endpoint.clone()),
            credentials: Some(SecretReference { name: secret.to_owned() }),
            insecure_skip_tls_verify: options.ca.is_none(),
            region: options.region.clone().or(before.region),
            zone: options.zone.clone().or(before.zone),
            coordinates: options.coordinates.or(before.coordinates),
            ..ClusterSpec::default()
        },
    );
    cluster.metadata.labels = Some(labels).filter(|labels| !labels.is_empty());
    cluster
}

/// The account of the hub in a member, with the least rights that its kinds need.
fn account_objects(types: &[FederatedType]) -> Vec<(ObjectId, Value)> {
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
    rules.push(json!({"apiGroups": [""], "resources": ["nodes"], "verbs": watch}));
    rules.push(
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch}),
    );
    // A Namespace is deleted only when a listing of every kind shows nothing foreign in it.
    rules.push(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}));
    rules.push(json!({"nonResourceURLs": ["/readyz", "/version"], "verbs": ["get"]}));
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = cluster_object(rbac, "ClusterRole", "clusterroles", ACCOUNT);
    let binding = cluster_object(rbac, "ClusterRoleBinding", "clusterrolebindings", ACCOUNT);
    let own = |row: (&str, &str, &str, bool)| ObjectId {
        kind: limen_api::kind(row),
        namespace: Some(NAMESPACE.to_owned()),
        name: ACCOUNT.to_owned(),
    };
    let account = own(("v1", "ServiceAccount", "serviceaccounts", true));
    let own_role = own((rbac, "Role", "roles", true));
    let own_binding = own((rbac, "RoleBinding", "rolebindings", true));
    let bound_to = |kind: &str| {
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]})
    };
    // So that it can renew its own token.
    let tokens = json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"],
        "resourceNames": [ACCOUNT], "verbs": ["create"]}]);
    let head = |id: &ObjectId, rest: Value| {
        let mut object = json!({
            "apiVersion": id.kind.api_version, "kind": id.kind.kind,
            "metadata": {"name": id.name, "namespace": id.namespace}});
        if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
            object.extend(rest);
        }
        (id.clone(), object)
    };
    vec![
        head(&cluster_object("v1", "Namespace", "namespaces", NAMESPACE), json!({})),
        head(&account, json!({})),
        head(&role, json!({"rules": rules})),
        head(&binding, bound_to("ClusterRole")),
        head(&own_role, json!({"rules": tokens})),
        head(&own_binding, bound_to("Role")),
    ]
}

/// How a cluster leaves.
#[derive(Clone, Debug)]
pub struct UnjoinOptions {
    /// What it is called.
    pub name: String,
    /// Whether its leaves are deleted; otherwise they stay, and are nobody's any more.
    pub delete_leaves: bool,
    /// Whether a member that cannot be reached is forgotten although its leaves are to be deleted.
    pub abandon: bool,
    /// How long to wait for that.
    pub patience: Duration,
}

/// What came of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The hub has let go of all leaves, or deleted them.
    LetGo,
    /// The member could not be reached, and keeps its leaves as they are.
    Abandoned {
        /// How many are known.
        leaves: usize,
    },
}

/// Lets go of the leaves of a member, and forgets the member. Leaves that are to be deleted get no
/// more traffic first.
pub async fn unjoin(hub: &Client, options: &UnjoinOptions) -> Result<Left, JoinError> {
    let UnjoinOptions { name, delete_leaves, abandon, patience } = options;
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let read = || step(format!("read cluster {name}"));
    let found = clusters.get_opt(name).await.map_err(read())?;
    let cluster = found.ok_or_else(|| JoinError::Unknown(name.clone()))?;
    let must_answer = *delete_leaves && !abandon;
    if must_answer && verdict(&cluster) == Verdict::Unhealthy {
        return Err(JoinError::Unreachable { name: name.clone(), leaves: leaves_of(&cluster) });
    }
    if *delete_leaves {
        take_traffic_away(hub, name, *patience).await?;
    }
    let how = if *delete_leaves { "delete" } else { "keep" };
    let patch = json!({"metadata": {"annotations": {UNJOIN_ANNOTATION: how}}});
    clusters
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(step(format!("mark cluster {name} as leaving")))?;
    // A count of leaves may be older than what is under way.
    let let_go = |cluster: &Cluster| {
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|known| known.type_ == LET_GO && known.status == "True")
    };
    let started = tokio::time::Instant::now();
    let mut left = Left::LetGo;
    while let Some(cluster) = clusters.get_opt(name).await.map_err(read())? {
        if !is_leaving(&cluster) {
            return Err(JoinError::JoinedAgain(name.clone()));
        }
        let (leaves, answers) = (leaves_of(&cluster), verdict(&cluster) == Verdict::Healthy);
        let done = leaves == 0 && let_go(&cluster);
        if done || !(answers || must_answer) {
            left = if done { Left::LetGo } else { Left::Abandoned { leaves } };
            if remove(&clusters, &cluster).await.map_err(step(format!("remove cluster {name}")))? {
                break;
            }
        } else if started.elapsed() > *patience {
            let (name, seconds) = (name.clone(), patience.as_secs());
            return Err(match answers {
                true => JoinError::Unfinished { name, leaves, seconds },
                false => JoinError::Unreachable { name, leaves },
            });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let absent = |error: kube::Error| if is_absent(&error) { Ok(()) } else { Err(error) };
    let deleting = DeleteParams::default();
    if let Some(credentials) = &cluster.spec.credentials {
        let secrets: Api<Secret> = Api::namespaced(hub.clone(), NAMESPACE);
        secrets
            .delete(&credentials.name, &deleting)
            .await
            .map(drop)
            .or_else(absent)
            .map_err(step(format!("remove the Secret {}", credentials.name)))?;
    }
    Ok(left)
}

/// Whether its API answers the hub.
fn verdict(cluster: &Cluster) -> Verdict {
    let verdicts = cluster.status.as_ref().and_then(|status| status.verdicts.as_ref());
    verdicts.map_or(Verdict::Unknown, |verdicts| verdicts.api.verdict)
}

/// How many leaves are known there.
fn leaves_of(cluster: &Cluster) -> usize {
    cluster.status.as_ref().map_or(0, |status| status.leaves)
}

/// Removes a cluster as it was read; false if it has changed since.
async fn remove(clusters: &Api<Cluster>, cluster: &Cluster) -> kube::Result<bool> {
    let ObjectMeta { name, uid, resource_version, .. } = &cluster.metadata;
    let (uid, resource_version) = (uid.clone(), resource_version.clone());
    let preconditions = Some(Preconditions { uid, resource_version });
    let deleting = DeleteParams { preconditions, ..DeleteParams::default() };
    match clusters.delete(name.as_deref().unwrap_or_default(), &deleting).await {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
