//! Why a root is where it is, and what a change would do.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use limen_api::dialect::{Home, identity};
use limen_api::{Cluster, FederatedType, NAMESPACE, error_text};
use limen_core::federated::{Federated, Kind, ObjectId};
use limen_core::reconcile::{Action, Held, Wanted, decide, differences};
use limen_sync::ObjectApi;
use serde_json::Value;

use crate::clusters::{Leaving, facts};
use crate::connect::{SecretData, member_client};
use crate::federation::{Federation, LEDGER, Preview, Step};
use crate::kinds::{Source, leaf_kind, sources_of};
use crate::setup::{SetupError, hub_id};
use crate::status::report_id;

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

    fn leaf_kind(&self, kind: &Arc<Kind>) -> Arc<Kind> {
        let source = self.sources.iter().find(|(known, _)| known == kind);
        match source.map(|(_, source)| source) {
            Some(Source::OneObject(leaf) | Source::Template(leaf)) => leaf.clone(),
            _ => kind.clone(),
        }
    }

    /// The leaf of a root.
    fn leaf_of(&self, id: &ObjectId) -> ObjectId {
        let kind = self.leaf_kind(&id.kind);
        let namespace = id.namespace.clone().filter(|_| kind.namespaced);
        ObjectId { kind, namespace, name: id.name.clone() }
    }

    /// Other roots, and parts of roots, that have the name and the kind of leaves of a root.
    fn rivals(&self, id: &ObjectId) -> Vec<ObjectId> {
        let leaf = self.leaf_kind(&id.kind);
        let same = |kind: &Arc<Kind>| match self.sources.iter().find(|(known, _)| known == kind) {
            Some((_, Source::Placement(template) | Source::Override(template))) => {
                self.leaf_kind(template) == leaf
            }
            _ => self.leaf_kind(kind) == leaf,
        };
        let kinds = self.sources.iter().map(|(kind, _)| kind);
        let others = kinds.filter(|kind| **kind != id.kind && same(kind));
        others.map(|kind| ObjectId { kind: kind.clone(), ..id.clone() }).collect()
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
    let object = match (instead, found) {
        (Some(mut instead), Some(found)) => {
            instead["metadata"]["uid"] = found["metadata"]["uid"].clone();
            instead
        }
        (Some(instead), None) => instead,
        (None, Some(found)) => found,
        (None, None) => return Err(ExplainError::NotFound(id.clone())),
    };
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let clusters = clusters.list(&ListParams::default()).await.map_err(failed("list clusters"))?;
    let leaf = catalogue.leaf_of(id);
    let found = clusters.items.iter().map(async |cluster| member_object(hub, cluster, &leaf).await);
    let found = futures::future::join_all(found).await;

    let mut federation = Federation::of_listed(api.clone(), home, hub_name.clone());
    for (kind, source) in &catalogue.sources {
        if *source == Source::Native {
            federation.list_type(kind);
        }
    }
    for (cluster, found) in clusters.items.iter().zip(&found) {
        federation.list_cluster(cluster.clone(), found.as_ref().err().cloned());
    }
    list_context(&api, catalogue, id, &mut federation).await?;
    federation.list(&id.kind, object);
    let record =
        api.get(&report_id(id)).await.map_err(failed(format!("read the record of {id}")))?;
    if let Some(record) = &record {
        federation.list_record(id, record);
    }
    for (cluster, found) in clusters.items.iter().zip(&found) {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        if let Ok(found) = found {
            federation.list_leaf(id, name, found.as_ref());
        }
    }
    let preview = federation.preview(id).ok_or_else(|| ExplainError::NotFound(id.clone()))?;
    Ok(explained(id, &preview, &clusters.items, &found, &hub_name))
}

/// Lists everything beside a root that its plan depends on.
async fn list_context(
    api: &ObjectApi,
    catalogue: &Catalogue,
    id: &ObjectId,
    federation: &mut Federation,
) -> Result<(), ExplainError> {
    let own = |kind, plural, namespaced| {
        limen_api::kind(("limen.dev/v1alpha1", kind, plural, namespaced))
    };
    let namespace = limen_api::kind(("v1", "Namespace", "namespaces", false));
    let home = id.namespace.as_ref().unwrap_or(&id.name);
    let home = ObjectId { kind: namespace.clone(), namespace: None, name: home.clone() };
    let ledger = ObjectId {
        kind: limen_api::kind(("v1", "ConfigMap", "configmaps", true)),
        namespace: Some(NAMESPACE.to_owned()),
        name: LEDGER.to_owned(),
    };
    let same_leaf = catalogue.rivals(id);
    for id in [&home, &ledger].into_iter().chain(&same_leaf) {
        let found = visible(api.get(id).await).map_err(failed(format!("read {id}")))?;
        if let Some(object) = found.flatten() {
            federation.list(&id.kind, object);
        }
    }
    let scaler = federation.scaler_kind();
    let kinds = [
        own("Hold", "holds", false),
        own("PlacementPolicy", "placementpolicies", true),
        scaler.clone(),
    ];
    for kind in kinds {
        let listed = visible(api.list(&kind, "").await);
        let listed = listed.map_err(failed(format!("list {}", kind.plural)))?.unwrap_or_default();
        for object in listed.0 {
            let outside = kind.namespaced
                && object["metadata"]["namespace"].as_str() != id.namespace.as_deref();
            if outside {
                continue;
            }
            let found = identity(&object, &kind);
            federation.list(&kind, object);
            if kind == scaler {
                let record = visible(api.get(&report_id(&found)).await);
                let record = record.map_err(failed(format!("read the record of {found}")))?;
                if let Some(record) = record.flatten() {
                    federation.list_record(&found, &record);
                }
            }
        }
    }
    Ok(())
}

/// The answer, or nothing where a person may not look or there is no such kind.
fn visible<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(None),
        other => other.map(Some),
    }
}

/// A plan in words.
fn explained(
    id: &ObjectId,
    preview: &Preview,
    clusters: &[Cluster],
    found: &[Result<Option<Value>, String>],
    hub: &str,
) -> Explained {
    let hindrance = match &preview.federated {
        _ if preview.is_no_root => Some(
            "it is not a root: it belongs to its cluster, is annotated limen.dev/federate=false, or was not given to Limen".to_owned(),
        ),
        Err(error) => {
            Some(format!("{error}; nothing is changed in any cluster until this is mended"))
        }
        Ok(_) => None,
    };
    let held = preview.steps.values().find_map(|step| match step {
        Step::Removal { held, .. } => held.clone(),
        _ => None,
    });
    let mut explained = Explained {
        root: id.clone(),
        policy: preview.policy.clone(),
        hindrance,
        held: held.or(preview.kept.clone()),
        clusters: Vec::new(),
    };
    let Ok(federated) = &preview.federated else { return explained };
    if preview.is_no_root && preview.steps.values().all(|step| matches!(step, Step::Nothing)) {
        return explained;
    }
    for (cluster, found) in clusters.iter().zip(found) {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let selection = federated.placement.explain(&name, &facts(cluster));
        let step = preview.steps.get(name.as_str()).unwrap_or(&Step::Nothing);
        explained.clusters.push(Outlook {
            cluster: name,
            selected: selection.selected,
            reason: selection.reason,
            action: action(step, federated, found, hub),
        });
    }
    explained
}

/// The next action in one member.
fn action(
    step: &Step,
    federated: &Federated,
    found: &Result<Option<Value>, String>,
    hub: &str,
) -> String {
    let (leaf, on_conflict, create, replaces) = match step {
        Step::Refused(error) => return format!("left as it is: {error}"),
        Step::Waits => return "waits for an earlier wave".to_owned(),
        Step::Removal { held: Some(_), .. } => {
            return "stays until its deletion is released".to_owned();
        }
        Step::Leaves(Leaving::Abandon) => return "forgotten: the cluster is abandoned".to_owned(),
        Step::Leaves(Leaving::Keep) => return removed(federated, true, found, hub),
        Step::Leaves(Leaving::Delete) => return removed(federated, false, found, hub),
        Step::Removal { orphan, held: None } => return removed(federated, *orphan, found, hub),
        Step::Nothing => return removed(federated, false, found, hub),
        Step::Leaf { leaf, on_conflict, create, replaces } => (leaf, on_conflict, create, replaces),
    };
    let held = match found {
        Ok(held) => held.as_ref(),
        Err(error) => return format!("unknown: {error}"),
    };
    let differing = held.map_or(Vec::new(), |held| differences(&leaf.object.value(), held, NAMED));
    let wanted = Wanted::Leaf {
        leaf,
        root_uid: &federated.root_uid,
        replaces: replaces.as_deref(),
        on_conflict: *on_conflict,
        create: *create,
        settled: None,
        contained: differing.is_empty(),
    };
    let fields = || {
        let shown: Vec<_> = differing
            .iter()
            .filter(|field| !field.contains("limen.dev/"))
            .map(String::as_str)
            .collect();
        if shown.is_empty() { "bookkeeping only".to_owned() } else { shown.join(", ") }
    };
    match decide(&wanted, held.map(Held::of).as_ref(), hub) {
        Action::Create => "created".to_owned(),
        Action::Update => format!("updated: {}", fields()),
        Action::Adopt => format!("adopted, and changed in: {}", fields()),
        Action::Refuse(refusal) => format!("left alone: {refusal}"),
        Action::Wait => "waits until the old one is gone".to_owned(),
        Action::Keep if held.is_none() && !create => {
            "nothing: it has ended there and does not run again".to_owned()
        }
        Action::Keep | Action::Delete | Action::Release => "nothing: as it shall be".to_owned(),
    }
}

/// The next action in a member that is to hold no leaf.
fn removed(
    federated: &Federated,
    orphan: bool,
    found: &Result<Option<Value>, String>,
    hub: &str,
) -> String {
    let held = match found {
        Ok(held) => held.as_ref(),
        Err(error) => return format!("unknown: {error}"),
    };
    let root_uid = federated.root_uid.as_str();
    let wanted = match orphan {
        true => Wanted::Orphan { root_uid },
        false => Wanted::Nothing { root_uid },
    };
    match decide(&wanted, held.map(Held::of).as_ref(), hub) {
        Action::Delete | Action::Wait => "its leaf is deleted".to_owned(),
        Action::Release => "its leaf stays, and is nobody's any more".to_owned(),
        _ if held.is_some() => "nothing: what is there is not a leaf of this hub".to_owned(),
        _ => "nothing".to_owned(),
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
