//! Why a root is where it is, and what a change would do.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::ListParams;
use kube::{Api, Client};
use limen_api::dialect::{self, Home};
use limen_api::{Cluster, FederatedType, NAMESPACE, PlacementPolicy, error_text};
use limen_core::federated::{Federated, Kind, ObjectId, OnDelete};
use limen_core::placement::Clusters;
use limen_core::plan::{Plan, plan};
use limen_core::reconcile::{Action, Held, Wanted, decide, differences};
use limen_sync::ObjectApi;
use serde_json::Value;

use crate::clusters::facts;
use crate::connect::{SecretData, member_client};
use crate::kinds::{Source, leaf_kind, sources_of};
use crate::setup::{SetupError, hub_id};
use crate::status::{held, is_held_in, report_id};

/// How many differing fields are named.
const NAMED: usize = 10;

/// Why something could not be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The hub did not answer as it should.
    #[error("cannot {step}: {}", error_text(error))]
    Hub {
        /// What was being done.
        step: String,
        /// Why it failed.
        error: kube::Error,
    },
    /// The hub is not one.
    #[error(transparent)]
    NotAHub(#[from] SetupError),
    /// Nothing of that kind is federated.
    #[error("{0:?} is not a federated kind; kubectl get federatedtypes lists them")]
    UnknownKind(String),
    /// There is no such object.
    #[error("there is no {0} on the hub")]
    NotFound(ObjectId),
}

/// What placement says about one root.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The root.
    pub root: ObjectId,
    /// The policy that governs it.
    pub policy: Option<String>,
    /// Why nothing happens at all, if so.
    pub hindrance: Option<String>,
    /// Why deletions wait for a person, if they do.
    pub held: Option<String>,
    /// Each member.
    pub clusters: Vec<Outlook>,
}

/// What placement says about one root in one member.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// The member.
    pub cluster: String,
    /// Whether the root belongs there.
    pub selected: bool,
    /// The rule that said so.
    pub reason: String,
    /// What would be done there.
    pub action: String,
}

/// The federated kinds of a hub, with what each means.
pub struct Catalogue {
    sources: Vec<(Arc<Kind>, Source)>,
}

impl Catalogue {
    /// Reads it from a hub.
    pub async fn read(hub: &Client) -> Result<Self, ExplainError> {
        let types: Api<FederatedType> = Api::all(hub.clone());
        let types =
            types.list(&ListParams::default()).await.map_err(failed("list federated types"))?;
        let sources =
            types.items.iter().flat_map(|federated| sources_of(&leaf_kind(&federated.spec)));
        Ok(Self { sources: sources.collect() })
    }

    /// The kind that a person means by `ingress`, `ingresses`, `Ingress` or `ingresses.networking.k8s.io`.
    pub fn find(&self, name: &str) -> Result<Arc<Kind>, ExplainError> {
        let wanted = name.to_lowercase();
        let fits = |kind: &Kind| {
            let full = format!("{}.{}", kind.plural, kind.group());
            [kind.kind.to_lowercase(), kind.plural.clone(), full].contains(&wanted)
        };
        let found = self.sources.iter().find(|(kind, _)| fits(kind));
        found
            .map(|(kind, _)| kind.clone())
            .ok_or_else(|| ExplainError::UnknownKind(name.to_owned()))
    }

    /// The kind that a record names; of its API, the version does not matter.
    pub fn exactly(&self, api_version: &str, kind: &str) -> Result<Arc<Kind>, ExplainError> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let fits = |known: &Kind| known.group() == group && known.kind == kind;
        let found = self.sources.iter().find(|(known, _)| fits(known));
        found
            .map(|(kind, _)| kind.clone())
            .ok_or_else(|| ExplainError::UnknownKind(format!("{kind} of {api_version}")))
    }

    fn source(&self, kind: &Kind) -> Option<&Source> {
        self.sources.iter().find(|(known, _)| **known == *kind).map(|(_, source)| source)
    }

    fn part(&self, wanted: &Source) -> Option<&Arc<Kind>> {
        self.sources.iter().find(|(_, source)| source == wanted).map(|(kind, _)| kind)
    }
}

/// Explains where a root goes. `instead` is what it would look like after a change.
pub async fn explain(
    hub: &Client,
    catalogue: &Catalogue,
    id: &ObjectId,
    instead: Option<Value>,
    home: Home,
) -> Result<Explained, ExplainError> {
    let api = ObjectApi::new(hub.clone());
    let hub_name = hub_id(&api).await?;
    let found = api.get(id).await.map_err(failed(format!("read {id}")))?;
    // What is held is about the object as it is.
    let record = match &instead {
        None => {
            api.get(&report_id(id)).await.map_err(failed(format!("read the record of {id}")))?
        }
        Some(_) => None,
    };
    let object = match (instead, found) {
        (Some(mut instead), Some(found)) => {
            instead["metadata"]["uid"] = found["metadata"]["uid"].clone();
            instead
        }
        (Some(instead), None) => instead,
        (None, Some(found)) => found,
        (None, None) => return Err(ExplainError::NotFound(id.clone())),
    };
    let list = ListParams::default();
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let clusters = clusters.list(&list).await.map_err(failed("list clusters"))?.items;
    let facts: Clusters = clusters
        .iter()
        .map(|cluster| (cluster.metadata.name.clone().unwrap_or_default(), facts(cluster)))
        .collect();

    let mut explained = Explained {
        root: id.clone(),
        policy: None,
        hindrance: None,
        held: record.as_ref().and_then(held).map(str::to_owned),
        clusters: Vec::new(),
    };
    let understood = understand(&api, catalogue, id, &object, home, &mut explained).await?;
    let Some(federated) = understood else { return Ok(explained) };
    let plan = plan(&federated, &facts, &hub_name, &std::collections::BTreeMap::new());
    let fate = fate(&object, &federated);
    for cluster in &clusters {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let selection = federated.placement.explain(&name, &facts[&name]);
        let action = match record.as_ref().is_some_and(|record| is_held_in(record, &name)) {
            true => "stays until its deletion is released".to_owned(),
            false => outlook(hub, cluster, &federated, &plan, fate, &hub_name).await,
        };
        explained.clusters.push(Outlook {
            cluster: name,
            selected: selection.selected,
            reason: selection.reason,
            action,
        });
    }
    Ok(explained)
}

async fn understand(
    api: &ObjectApi,
    catalogue: &Catalogue,
    id: &ObjectId,
    object: &Value,
    home: Home,
    explained: &mut Explained,
) -> Result<Option<Federated>, ExplainError> {
    let part = async |source: Source| match catalogue.part(&source) {
        Some(kind) => {
            let id = ObjectId { kind: kind.clone(), ..id.clone() };
            api.get(&id).await.map_err(failed(format!("read {id}")))
        }
        None => Ok(None),
    };
    let understood = match catalogue.source(&id.kind) {
        Some(Source::OneObject(leaf)) => dialect::one_object(object, &id.kind, leaf),
        Some(Source::Template(leaf)) => {
            let placing = part(Source::Placement(id.kind.clone())).await?;
            let overriding = part(Source::Override(id.kind.clone())).await?;
            dialect::three_objects(object, placing.as_ref(), overriding.as_ref(), &id.kind, leaf)
        }
        _ => {
            let policy = governing(api, id, object).await?;
            explained.policy = policy.as_ref().and_then(|policy| policy.metadata.name.clone());
            let labels = namespace_labels(api, id).await?;
            if !dialect::is_root(object, &id.kind, home, policy.is_some(), &labels) {
                let why = "it is not a root: it belongs to its cluster, is annotated limen.dev/federate=false, or was not given to Limen";
                explained.hindrance = Some(why.to_owned());
                return Ok(None);
            }
            dialect::native(object, &id.kind, policy.as_ref())
        }
    };
    match understood {
        Ok(federated) => Ok(Some(federated)),
        Err(error) => {
            explained.hindrance =
                Some(format!("{error}; nothing is changed in any cluster until this is mended"));
            Ok(None)
        }
    }
}

async fn governing(
    api: &ObjectApi,
    id: &ObjectId,
    object: &Value,
) -> Result<Option<PlacementPolicy>, ExplainError> {
    let Some(namespace) = &id.namespace else { return Ok(None) };
    let policies: Api<PlacementPolicy> = Api::namespaced(api.client().clone(), namespace);
    let policies =
        policies.list(&ListParams::default()).await.map_err(failed("list placement policies"))?;
    let governs =
        |policy: &PlacementPolicy| dialect::governs(policy, object, &id.kind).unwrap_or(false);
    Ok(policies.items.into_iter().find(governs))
}

async fn namespace_labels(
    api: &ObjectApi,
    id: &ObjectId,
) -> Result<limen_core::selector::Labels, ExplainError> {
    let name = id.namespace.as_ref().unwrap_or(&id.name);
    let namespaces: Api<Namespace> = Api::all(api.client().clone());
    let found = namespaces.get_opt(name).await.map_err(failed(format!("read namespace {name}")))?;
    Ok(found.and_then(|namespace| namespace.metadata.labels).unwrap_or_default())
}

/// What becomes of the leaves of a root that is being deleted.
fn fate(object: &Value, federated: &Federated) -> Option<OnDelete> {
    let metadata = &object["metadata"];
    let orphaned =
        metadata["finalizers"].as_array().is_some_and(|all| all.contains(&"orphan".into()));
    let fate = if orphaned { OnDelete::Orphan } else { federated.on_delete };
    metadata["deletionTimestamp"].is_string().then_some(fate)
}

/// What would be done in one member, seen with the hub's own eyes.
async fn outlook(
    hub: &Client,
    cluster: &Cluster,
    federated: &Federated,
    plan: &Plan,
    fate: Option<OnDelete>,
    hub_name: &str,
) -> String {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    if let Some(error) = plan.refused.get(name) {
        return format!("left as it is: {error}");
    }
    let held = match member_object(hub, cluster, &federated.leaf).await {
        Ok(held) => held,
        Err(reason) => return format!("unknown: {reason}"),
    };
    let state = held.as_ref().map(Held::of);
    let Some(leaf) = plan.leaves.get(name).filter(|_| fate.is_none()) else {
        let root_uid = federated.root_uid.as_str();
        let wanted = match fate {
            Some(OnDelete::Orphan) => Wanted::Orphan { root_uid },
            _ => Wanted::Nothing { root_uid },
        };
        return match decide(&wanted, state.as_ref(), hub_name) {
            Action::Delete | Action::Wait => "its leaf is deleted".to_owned(),
            Action::Release => "its leaf stays, and is nobody's any more".to_owned(),
            _ if held.is_some() => "nothing: what is there is not a leaf of this hub".to_owned(),
            _ => "nothing".to_owned(),
        };
    };
    let found = held.as_ref().map_or(Vec::new(), |held| differences(&leaf.object, held, NAMED));
    let wanted = Wanted::Leaf {
        leaf,
        root_uid: &federated.root_uid,
        replaces: None,
        on_conflict: federated.on_conflict,
        create: true,
        settled: None,
        contained: found.is_empty(),
    };
    let fields = || {
        let shown: Vec<_> = found
            .iter()
            .filter(|field| !field.contains("limen.dev/"))
            .map(String::as_str)
            .collect();
        if shown.is_empty() { "bookkeeping only".to_owned() } else { shown.join(", ") }
    };
    match decide(&wanted, state.as_ref(), hub_name) {
        Action::Create => "created".to_owned(),
        Action::Update => format!("updated: {}", fields()),
        Action::Adopt => format!("adopted, and changed in: {}", fields()),
        Action::Refuse(refusal) => format!("left alone: {refusal}"),
        Action::Wait => "waits until the old one is gone".to_owned(),
        Action::Keep | Action::Delete | Action::Release => "nothing: as it shall be".to_owned(),
    }
}

async fn member_object(
    hub: &Client,
    cluster: &Cluster,
    leaf: &ObjectId,
) -> Result<Option<Value>, String> {
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), NAMESPACE);
    let mut data: Option<SecretData> = None;
    if let Some(credentials) = &cluster.spec.credentials {
        let secret = secrets.get_opt(&credentials.name).await.map_err(|error| error.to_string())?;
        data = secret
            .and_then(|secret| secret.data)
            .map(|data| data.into_iter().map(|(key, value)| (key, value.0)).collect());
    }
    let client = member_client(cluster, data.as_ref()).await.map_err(|error| error.to_string())?;
    let api = ObjectApi::new(client);
    let limit = std::time::Duration::from_secs(5);
    match tokio::time::timeout(limit, api.get(leaf)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(limen_sync::MemberError::from(error).message),
        Err(_) => Err("no answer within 5 s".to_owned()),
    }
}

fn failed(step: impl Into<String>) -> impl FnOnce(kube::Error) -> ExplainError {
    let step = step.into();
    move |error| ExplainError::Hub { step, error }
}
