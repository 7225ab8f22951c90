//! A hub and members of a test's own, all in this process.

use std::collections::BTreeMap;
#[cfg(feature = "e2e")]
use std::path::Path;
use std::time::{Duration, Instant};

use kube::{Client, Config};
use limen_api::dialect::Home;
use limen_core::federated::ObjectId;
use limen_core::membership::AccountName;
use limen_hub::{Hub, HubOptions, JoinOptions, join, set_up};
use limen_sync::ObjectApi;
use serde_json::Value;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

/// An API server: Limen's own in this process, or a real one.
pub(crate) struct ApiServer {
    own: Option<limen_testbed::ApiServer>,
    pub(crate) client: Client,
    pub(crate) config: Config,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let own = limen_testbed::ApiServer::start().await;
        let (client, config) = (own.client.clone(), own.config.clone());
        Self { own: Some(own), client, config }
    }

    /// One that somebody else runs.
    #[cfg(feature = "e2e")]
    pub(crate) async fn running(kubeconfig: &Path) -> Self {
        let config = limen_testbed::config_of(kubeconfig).await;
        let client = Client::try_from(config.clone()).unwrap();
        Self { own: None, client, config }
    }

    pub(crate) async fn stop(&mut self) {
        self.own.as_mut().unwrap().stop().await;
    }

    pub(crate) async fn start_again(&mut self) {
        self.own.as_mut().unwrap().start_again().await;
    }

    pub(crate) fn api(&self) -> ObjectApi {
        ObjectApi::new(self.client.clone())
    }

    /// How it joins under a name.
    pub(crate) fn join_options(&self, name: &str) -> JoinOptions {
        JoinOptions {
            name: name.to_owned(),
            endpoint: self.config.cluster_url.to_string(),
            ca: self.config.root_cert.as_ref().map(|certificates| pem(certificates)),
            ..JoinOptions::default()
        }
    }

    pub(crate) async fn get(&self, id: &ObjectId) -> Option<Value> {
        self.api().get(id).await.unwrap()
    }

    /// Applies what a manifest says, as a person would.
    pub(crate) async fn create(&self, manifest: &Value) -> Value {
        let id = id_of(manifest);
        self.api().create(&id.kind, manifest).await.unwrap()
    }
}

/// A hub that federates, and its members.
pub(crate) struct Rig {
    pub(crate) hub: ApiServer,
    pub(crate) members: BTreeMap<String, ApiServer>,
    home: Home,
    federation: Option<Hub>,
}

impl Rig {
    /// Members have the label `location` with the part of their name before the dash.
    pub(crate) async fn start(names: &[&str]) -> Self {
        let mut rig = Self::around(ApiServer::start().await, Home::Embedded).await;
        for name in names {
            rig.add(name).await;
        }
        rig
    }

    /// A hub on an API, without members.
    pub(crate) async fn around(hub: ApiServer, home: Home) -> Self {
        set_up(&hub.api()).await.unwrap();
        let mut rig = Self { hub, home, members: BTreeMap::new(), federation: None };
        rig.start_federation().await;
        rig
    }

    pub(crate) async fn add(&mut self, name: &str) {
        let member = ApiServer::start().await;
        self.join(name, &member).await;
        self.members.insert(name.to_owned(), member);
    }

    pub(crate) async fn join(&self, name: &str, member: &ApiServer) {
        let location = name.split('-').next().unwrap_or_default().to_owned();
        self.join_with(name, member, [("location".to_owned(), location)].into()).await;
    }

    pub(crate) async fn join_with(
        &self,
        name: &str,
        member: &ApiServer,
        labels: BTreeMap<String, String>,
    ) {
        let options = JoinOptions { labels, moves: true, ..member.join_options(name) };
        join(&self.hub.client, &member.client, &options).await.unwrap();
    }

    /// The name of the objects of the hub's account in members.
    pub(crate) async fn account(&self) -> String {
        let hub = limen_hub::hub_id(&self.hub.api()).await.unwrap();
        AccountName::of_hub(&hub).to_string()
    }

    pub(crate) async fn start_federation(&mut self) {
        self.start_federation_with(|_| {}).await;
    }

    pub(crate) async fn start_federation_with(&mut self, change: impl FnOnce(&mut HubOptions)) {
        let mut options = HubOptions::new(self.hub.api(), self.home);
        options.probe_every = Duration::from_millis(200);
        change(&mut options);
        self.federation = Some(Hub::start(options).await.unwrap());
    }

    pub(crate) async fn stop_federation(&mut self) {
        self.federation.take().unwrap().stop().await;
    }

    /// Ends it without letting it finish anything.
    pub(crate) fn kill_federation(&mut self) {
        drop(self.federation.take());
    }

    pub(crate) fn member(&self, name: &str) -> &ApiServer {
        &self.members[name]
    }

    /// Deletes a root as kubectl does, or with its leaves left behind.
    pub(crate) async fn delete(&self, id: &ObjectId) {
        let uid = self.hub.get(id).await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        self.hub.api().delete(id, &uid).await.unwrap();
    }

    /// Waits until every named member has the object in a state that fits.
    pub(crate) async fn eventually(
        &self,
        id: &ObjectId,
        names: &[&str],
        fits: impl Fn(Option<&Value>) -> bool,
    ) {
        for name in names {
            eventually(&format!("{id} in {name}"), async || {
                let object = self.member(name).get(id).await;
                (fits(object.as_ref()), format!("{object:#?}"))
            })
            .await;
        }
    }

    /// Waits until the hub has the object in a state that fits.
    pub(crate) async fn eventually_on_hub(
        &self,
        id: &ObjectId,
        fits: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        eventually(&format!("{id} on the hub"), async || {
            let object = self.hub.get(id).await;
            (fits(object.as_ref()), format!("{object:#?}"))
        })
        .await;
        self.hub.get(id).await
    }

    /// The record of a root.
    pub(crate) fn record(root: &ObjectId) -> ObjectId {
        let kind =
            limen_api::kind(("limen.dev/v1alpha1", "FederatedStatus", "federatedstatuses", true));
        let (namespace, name) = limen_api::record_of(root);
        ObjectId { kind, namespace: Some(namespace), name }
    }

    /// Waits until a root's record says what becomes of its leaves: only then does a hub that is
    /// started anew know.
    pub(crate) async fn eventually_recorded(&self, root: &ObjectId) {
        self.eventually_on_hub(&Self::record(root), |record| {
            record.is_some_and(|record| record["spec"]["onDelete"].is_string())
        })
        .await;
    }

    /// All holds, by name.
    pub(crate) async fn holds(&self) -> Vec<(String, Value)> {
        let kind = limen_api::kind(("limen.dev/v1alpha1", "Hold", "holds", false));
        let (holds, _) = self.hub.api().list(&kind, "").await.unwrap();
        let name = |hold: &Value| hold["metadata"]["name"].as_str().unwrap().to_owned();
        holds.into_iter().map(|hold| (name(&hold), hold)).collect()
    }

    /// Waits until there are so many holds, and returns them.
    pub(crate) async fn wait_for_holds(&self, count: usize) -> Vec<(String, Value)> {
        eventually(&format!("{count} holds"), async || {
            let holds = self.holds().await;
            (holds.len() == count, format!("{holds:#?}"))
        })
        .await;
        self.holds().await
    }

    /// Releases a hold, as a person does.
    pub(crate) async fn release(&self, name: &str) {
        let kind = limen_api::kind(("limen.dev/v1alpha1", "Hold", "holds", false));
        let id = ObjectId { kind, namespace: None, name: name.to_owned() };
        let release = serde_json::json!({"spec": {"release": true}});
        self.hub.api().merge(&id, "", &release).await.unwrap();
    }

    /// The reasons of all Events about a root, and their messages.
    pub(crate) async fn events(&self, root: &ObjectId) -> Vec<(String, String)> {
        let kind = limen_api::kind(("v1", "Event", "events", true));
        let (events, _) = self.hub.api().list(&kind, "").await.unwrap();
        let about = |event: &&Value| event["involvedObject"]["name"] == root.name.as_str();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pair = |event: &Value| (text(&event["reason"]), text(&event["message"]));
        events.iter().filter(about).map(pair).collect()
    }
}

/// Waits until something holds, and says what it was last when it never does.
pub(crate) async fn eventually(what: &str, mut check: impl AsyncFnMut() -> (bool, String)) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (fits, found) = check().await;
        if fits {
            return;
        }
        assert!(Instant::now() < deadline, "{what} is still: {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Which object a manifest is about.
pub(crate) fn id_of(manifest: &Value) -> ObjectId {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let api_version = text(&manifest["apiVersion"]).unwrap();
    let kind = text(&manifest["kind"]).unwrap();
    let plural = match kind.as_str() {
        "Ingress" => "ingresses".to_owned(),
        "PlacementPolicy" => "placementpolicies".to_owned(),
        other => format!("{}s", other.to_lowercase()),
    };
    let namespace = text(&manifest["metadata"]["namespace"]);
    ObjectId {
        kind: limen_api::kind((&api_version, &kind, &plural, namespace.is_some())),
        namespace,
        name: text(&manifest["metadata"]["name"]).unwrap(),
    }
}

fn pem(certificates: &[Vec<u8>]) -> Vec<u8> {
    use base64::Engine;
    let mut text = String::new();
    for certificate in certificates {
        let encoded = base64::prelude::BASE64_STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(std::str::from_utf8(line).unwrap());
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text.into_bytes()
}
