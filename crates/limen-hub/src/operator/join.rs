//! Joining a cluster to the federation.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use limen_api::{Cluster, ClusterSpec, FederatedType, NAMESPACE, SecretReference, error_text};
use limen_core::locality::Coordinates;
use limen_core::membership::{AccountName, Candidate, Consent, Refusal, Registered, admit};
use limen_sync::ObjectApi;
use serde_json::json;

use super::account::{account_objects, claims, delete_shared_account};
use crate::clusters::UNJOIN_ANNOTATION;
use crate::connect::{SecretData, member_client};
use crate::effects::renewal::{account_of, new_token};
use crate::kinds::federated_types;
use crate::setup::{SetupError, cluster_uid, hub_id};

/// Time for a hub that has just started to serve its own kinds.
const STARTING: Duration = Duration::from_secs(30);

/// How a cluster joins.
#[derive(Clone, Debug, Default)]
pub struct JoinOptions {
    /// Its name.
    pub name: String,
    /// The address of its API, as the hub reaches it.
    pub endpoint: String,
    /// The authority of its API's certificate, as PEM.
    pub ca: Option<Vec<u8>>,
    /// Its region.
    pub region: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Its coordinates.
    pub coordinates: Option<Coordinates>,
    /// Labels that selectors match.
    pub labels: BTreeMap<String, String>,
    /// The name may lead to another address or another cluster than before.
    pub moves: bool,
    /// Another hub may have claimed the cluster.
    pub share: bool,
}

/// Outcome of a join.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The version that the member reports.
    pub version: String,
    /// An unjoin was under way and is cancelled.
    pub stays: bool,
    /// The member is drained, perhaps by that unjoin.
    pub drained: bool,
}

/// Reason for a join or unjoin that failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A request failed.
    #[error("cannot {step}: {}", error_text(error))]
    Step {
        /// The step, and its object.
        step: String,
        /// The cause.
        error: kube::Error,
    },
    /// The hub has no identity.
    #[error(transparent)]
    Hub(#[from] SetupError),
    /// The member rejects the credential that was made.
    #[error(
        "the cluster does not answer at {endpoint} to the account that was made for the hub: {reason}"
    )]
    NotUsable {
        /// The address.
        endpoint: String,
        /// The cause.
        reason: String,
    },
    /// The hub is a Kubernetes without Limen.
    #[error(
        "what answers in place of the hub is a Kubernetes that is no hub; take the kubeconfig that limen hub has written, or make it a hub with limen hub --kubeconfig FILE"
    )]
    NoHub,
    /// The cluster cannot be told from others.
    #[error("cluster {0} has no namespace kube-system to know it by")]
    NoIdentity(String),
    /// The cluster is the hub.
    #[error(
        "this kubeconfig leads to the hub itself, which cannot be its own member; give the kubeconfig of the cluster {0}"
    )]
    HubItself(String),
    /// The cluster is a member under another name.
    #[error(
        "cluster {name} is the same cluster as {known}, which has joined already (kube-system uid {uid}); see whether the kubeconfig and the context are right, or run limen unjoin {known} first"
    )]
    SameCluster {
        /// The name to join under.
        name: String,
        /// The name that it has joined under.
        known: String,
        /// Its uid.
        uid: String,
    },
    /// The name belongs to another address.
    #[error(
        "cluster {name} has joined with the address {known}, and this kubeconfig leads to {given}; see whether the name and the context are right, and use --move if the cluster has moved"
    )]
    Elsewhere {
        /// The member.
        name: String,
        /// The registered address.
        known: String,
        /// The address of this kubeconfig.
        given: String,
    },
    /// The name belongs to another cluster.
    #[error(
        "cluster {name} has joined with the kube-system uid {known}, and this is another cluster with the uid {given}; use --move if it replaces the first"
    )]
    OtherCluster {
        /// The member.
        name: String,
        /// The registered uid.
        known: String,
        /// The uid of this cluster.
        given: String,
    },
    /// The Cluster object is being deleted.
    #[error("cluster {0} is being deleted; join it when limen clusters no longer lists it")]
    Deleting(String),
    /// Another hub claims the cluster.
    #[error(
        "cluster {name} belongs to the federation of another hub ({hub}); unjoin it there, or use --share to let both hubs write to it. If that hub is gone, delete its claim: kubectl delete configmap -n limen-system -l limen.dev/claim=true,limen.dev/hub={hub}"
    )]
    Claimed {
        /// The member.
        name: String,
        /// The id of the other hub.
        hub: String,
    },
    /// There is no such member.
    #[error("there is no cluster {0}; limen clusters lists them")]
    Unknown(String),
    /// A join has cancelled the unjoin.
    #[error("cluster {0} was joined again meanwhile, and stays")]
    JoinedAgain(String),
    /// Clients are still sent there.
    #[error(
        "clients are still sent to cluster {name} for {backends} backends {seconds} s after it was drained; see whether limen hub runs, then try again"
    )]
    StillServing {
        /// The member.
        name: String,
        /// Number of backends that it serves.
        backends: usize,
        /// Time waited.
        seconds: u64,
    },
    /// The member cannot be let go of.
    #[error(
        "cluster {name} does not answer the hub, so the {leaves} leaves that are known there cannot be {}; limen clusters says why it does not answer; try again when it does, or use --abandon to forget it and to leave there what it has",
        if *delete { "deleted" } else { "released" }
    )]
    Unreachable {
        /// The member.
        name: String,
        /// Number of leaves known there.
        leaves: usize,
        /// The leaves were to be deleted, not released.
        delete: bool,
    },
    /// Leaves are still there.
    #[error(
        "the hub has not let go of cluster {name} within {seconds} s ({leaves} leaves are known there); see whether limen hub runs and what kubectl get cluster {name} -o yaml says, then try again"
    )]
    Unfinished {
        /// The member.
        name: String,
        /// Number of leaves left.
        leaves: usize,
        /// Time waited.
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
                // The embedded API becomes a hub by itself; an existing cluster does not.
                let own = is_own(hub).await.unwrap_or(false);
                if !own || started.elapsed() > STARTING {
                    return Err(JoinError::NoHub);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => return Err(step("read the federated types of the hub")(error)),
        }
    }
}

/// Whether an API is the embedded one, and not that of an existing cluster.
pub async fn is_own(api: &Client) -> kube::Result<bool> {
    Ok(api.apiserver_version().await?.git_version.contains("+limen"))
}

/// Makes an account in the member and registers the member with the hub. A member that joins again
/// keeps its attributes, except those that the options set.
pub async fn join(
    hub: &Client,
    member: &Client,
    options: &JoinOptions,
) -> Result<Joined, JoinError> {
    let (name, api) = (&options.name, ObjectApi::new(member.clone()));
    let mut types = types_of(hub).await?;
    let hub_id = hub_id(&ObjectApi::new(hub.clone())).await?;
    let uid = cluster_uid(&api).await;
    let uid = uid.map_err(step(format!("read the namespace kube-system of cluster {name}")))?;
    let uid = uid.ok_or_else(|| JoinError::NoIdentity(name.clone()))?;
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let known = clusters.list(&ListParams::default()).await;
    let known = known.map_err(step("read the clusters of the hub"))?.items;
    refuse(member, &hub_id, &uid, &known, options).await?;
    let known = known.into_iter().find(|cluster| cluster.name_any() == *name);

    // A hub that has just started may not have written all of its types yet.
    types.extend(federated_types());
    let account = AccountName::of_hub(&hub_id);
    for (id, object) in account_objects(&account, &types) {
        api.apply(&id, &object).await.map_err(step(format!("make {id} in cluster {name}")))?;
    }
    let token = new_token(member, &account).await;
    let token = token.map_err(step(format!("get a token for the hub in cluster {name}")))?;

    let secret_name = format!("cluster-{name}");
    let cluster = cluster(options, known, &secret_name, uid);
    let mut data = BTreeMap::from([("token".to_owned(), token.into_bytes())]);
    data.extend(options.ca.clone().map(|ca| ("ca.crt".to_owned(), ca)));
    let not_usable =
        |reason: String| JoinError::NotUsable { endpoint: options.endpoint.clone(), reason };
    let client = member_client(&cluster, Some(&data))
        .await
        .map_err(|error| not_usable(error.to_string()))?;
    let version =
        client.apiserver_version().await.map_err(|error| not_usable(error.to_string()))?;

    let used = store(hub, &secret_name, data).await?;
    let registered = register(&clusters, name, cluster).await?;
    let cleaned = delete_shared_account(&api, &hub_id, used.as_ref(), &types).await;
    cleaned.map_err(step(format!("replace the account limen-hub in cluster {name}")))?;
    let (stays, drained) = (is_leaving(&registered), registered.spec.drain);
    Ok(Joined { version: version.git_version, stays, drained })
}

/// Refuses a cluster that must not join, or not under this name.
async fn refuse(
    member: &Client,
    hub_id: &str,
    uid: &str,
    known: &[Cluster],
    options: &JoinOptions,
) -> Result<(), JoinError> {
    let name = options.name.clone();
    let claims = claims(member).await;
    let claims = claims.map_err(step(format!("read the claims of hubs in cluster {name}")))?;
    let JoinOptions { moves, share, endpoint, .. } = options;
    let candidate = Candidate { name: &name, uid, endpoint, claims: &claims };
    let known: Vec<Registered> = known.iter().map(registered).collect();
    let consent = Consent { moves: *moves, share: *share };
    let refusal = match admit(&candidate, hub_id, &known, consent) {
        Ok(()) => return Ok(()),
        Err(refusal) => refusal,
    };
    let given = uid.to_owned();
    Err(match refusal {
        Refusal::Hub => JoinError::HubItself(name),
        Refusal::SameCluster { name: known } => JoinError::SameCluster { name, known, uid: given },
        Refusal::Deleting => JoinError::Deleting(name),
        Refusal::OtherAddress { known } => {
            let given = endpoint.trim_end_matches('/').to_owned();
            JoinError::Elsewhere { name, known, given }
        }
        Refusal::OtherCluster { known } => JoinError::OtherCluster { name, known, given },
        Refusal::Claimed { hub } => JoinError::Claimed { name, hub },
    })
}

fn registered(cluster: &Cluster) -> Registered {
    let seen = cluster.status.as_ref().and_then(|status| status.uid.clone());
    Registered {
        name: cluster.name_any(),
        endpoint: cluster.spec.endpoint.clone(),
        uids: cluster.spec.uid.clone().into_iter().chain(seen).collect(),
        deleting: cluster.metadata.deletion_timestamp.is_some(),
    }
}

/// Stores a credential on the hub; the account of the one before.
async fn store(
    hub: &Client,
    name: &str,
    data: SecretData,
) -> Result<Option<AccountName>, JoinError> {
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), NAMESPACE);
    let before = secrets.get_opt(name).await;
    let before = before.map_err(step(format!("read the Secret {name} of the hub")))?;
    let token = before.and_then(|secret| secret.data?.remove("token"));
    let bytes = data.into_iter().map(|(key, value)| (key, k8s_openapi::ByteString(value)));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(bytes.collect()),
        ..Secret::default()
    };
    let apply = PatchParams::apply("limen").force();
    let stored = secrets.patch(name, &apply, &Patch::Apply(secret)).await;
    stored.map_err(step(format!("store the Secret {name} on the hub")))?;
    Ok(token.and_then(|token| account_of(&token.0)))
}

/// Registers a member, and cancels an unjoin that is under way; the member as it was registered.
async fn register(
    clusters: &Api<Cluster>,
    name: &str,
    cluster: Cluster,
) -> Result<Cluster, JoinError> {
    let failed = || step(format!("register cluster {name} with the hub"));
    let apply = PatchParams::apply("limen").force();
    let registered = clusters.patch(name, &apply, &Patch::Apply(cluster)).await;
    let registered = registered.map_err(failed())?;
    if is_leaving(&registered) {
        let cancelled = json!({"metadata": {"annotations": {UNJOIN_ANNOTATION: null}}});
        let patch = Patch::Merge(cancelled);
        clusters.patch(name, &PatchParams::default(), &patch).await.map_err(failed())?;
    }
    Ok(registered)
}

/// Whether an unjoin is under way.
pub(crate) fn is_leaving(cluster: &Cluster) -> bool {
    cluster.annotations().contains_key(UNJOIN_ANNOTATION)
}

/// The member that the options describe; attributes that they leave out stay as they were.
fn cluster(options: &JoinOptions, known: Option<Cluster>, secret: &str, uid: String) -> Cluster {
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
            uid: Some(uid),
            region: options.region.clone().or(before.region),
            zone: options.zone.clone().or(before.zone),
            coordinates: options.coordinates.or(before.coordinates),
            ..ClusterSpec::default()
        },
    );
    cluster.metadata.labels = Some(labels).filter(|labels| !labels.is_empty());
    cluster
}
