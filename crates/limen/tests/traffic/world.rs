//! A hub, members with distances between them, gateways that obey the hub, and one application.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use http::Method;
use kube::Client;
use limen_api::dialect::Home;
use limen_apiserver::{MASTERS, Server, ServerOptions};
use limen_core::federated::ObjectId;
use limen_gateway::{Gateway, Options, source};
use limen_hub::{Hub, HubOptions, JoinOptions};
use limen_playground::{Behaviour, Member, MemberOptions, Place};
use limen_store::{RedbOptions, RedbStore};
use limen_sync::ObjectApi;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::ask;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(90);
/// What the application is called.
const APP: &str = "shop";
/// The host it is served at.
pub(crate) const HOST: &str = "shop.test";
/// Pods of the application in each member.
pub(crate) const PODS: usize = 2;

/// The members, the nearest to the gateways first.
pub(crate) const BERLIN: &str = "berlin";
pub(crate) const PARIS: &str = "paris";
pub(crate) const OHIO: &str = "ohio";

/// Each member of this process has loopback addresses of its own; these are far from those that
/// `limen up` takes.
static NEXT_NUMBER: AtomicU8 = AtomicU8::new(120);

fn places() -> [Place; 3] {
    [
        (BERLIN, "europe-west10", 52.52, 13.40),
        (PARIS, "europe-west9", 48.86, 2.35),
        (OHIO, "us-east5", 39.96, -83.0),
    ]
    .map(|(name, region, latitude, longitude)| Place {
        name: name.to_owned(),
        region: region.to_owned(),
        zone: format!("{region}-a"),
        latitude,
        longitude,
    })
}

/// A federation with one application that answers in every member.
pub(crate) struct World {
    pub(crate) hub: Client,
    pub(crate) members: Vec<Member>,
    server: Server,
    running: Hub,
    gateways: Vec<Gateway>,
    _folder: TempDir,
}

impl World {
    /// Starts all of it, and waits until every pod is known to the hub as ready.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = places();
        let members = places.iter().map(|place| {
            Member::start(MemberOptions {
                place: place.clone(),
                folder: folder.path().join(&place.name),
                number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
                api: any(),
                ingress_port: 0,
                one_way: places[0].one_way_to(place),
            })
        });
        let members = try_join_all(members).await.unwrap();
        let (server, hub) = start_hub(&folder).await;
        let api = ObjectApi::new(hub.clone());
        limen_hub::set_up(&api).await.unwrap();
        join_all(members.iter().map(|member| join(&hub, member))).await;
        let running = Hub::start(HubOptions {
            probe_every: Duration::from_secs(1),
            ..HubOptions::new(api, Home::Embedded)
        });
        let running = running.await.unwrap();
        let gateways = Vec::new();
        let world = Self { hub, members, server, running, gateways, _folder: folder };
        for object in application() {
            world.submit(&object).await;
        }
        world.compiled(all_are_ready).await;
        assert_eq!(world.warnings().await, Vec::<String>::new(), "all is well");
        world
    }

    /// A gateway where the first member is; it has loaded what the hub has compiled.
    pub(crate) async fn gateway(&mut self, change: impl FnOnce(&mut Options)) -> SocketAddr {
        let mut options = Options {
            name: format!("edge-{}", self.gateways.len() + 1),
            http: vec![any()],
            admin: Some(any()),
            locality: places()[0].locality(),
            drain: Duration::from_secs(1),
            ..Options::default()
        };
        change(&mut options);
        let source = source::Hub::for_gateway(self.hub.clone(), None);
        let gateway = Gateway::start(options, source).unwrap();
        gateway.ready().await;
        let (address, admin) = (gateway.http()[0], gateway.admin().unwrap());
        self.gateways.push(gateway);
        eventually("the gateway knows every member", async || {
            let (_, targets) = ask(admin, Method::GET, "/targets", &[]).await;
            let order = targets[0]["targets"].as_array().into_iter().flatten();
            let order =
                order.map(|target| (target["cluster"].as_str(), target["readiness"].as_str()));
            let ready = order.eq([BERLIN, PARIS, OHIO].map(|name| (Some(name), Some("ready"))));
            (ready, targets.to_string())
        })
        .await;
        address
    }

    pub(crate) fn member(&self, name: &str) -> &Member {
        self.members.iter().find(|member| member.place().name == name).unwrap()
    }

    /// Requests that the pods of a member have answered, or are answering, so far.
    pub(crate) fn answered_by(&self, member: &str) -> u64 {
        self.member(member).pods().iter().map(|(_, pod)| pod.requests()).sum()
    }

    /// Tells all pods of a member to be different.
    pub(crate) fn behave(&self, member: &str, behaviour: Behaviour) {
        let member = self.member(member);
        for (pod, _) in member.pods() {
            assert!(member.behave(&pod, behaviour));
        }
    }

    /// Attempts of the first gateway at a member that got no answer.
    pub(crate) async fn failed_attempts(&self, member: &str) -> u64 {
        let admin = self.gateways[0].admin().unwrap();
        let (_, metrics) = ask(admin, Method::GET, "/metrics", &[]).await;
        let metrics = metrics.as_str().unwrap_or_default();
        let start = format!(
            "limen_gateway_failures_total{{ingress=\"default/{APP}\",backend=\"{APP}:80\",cluster=\"{member}\"}} "
        );
        let found = metrics.lines().find_map(|line| line.strip_prefix(&start));
        found.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{start}: {metrics}"))
    }

    pub(crate) async fn submit(&self, object: &Value) {
        let id = id_of(object);
        ObjectApi::new(self.hub.clone()).apply(&id, object).await.unwrap();
    }

    /// Puts a policy in force for the application, in place of the one before.
    pub(crate) async fn policy(&self, mut spec: Value) {
        spec["targetRef"] = json!({"kind": "Ingress", "name": APP});
        let object = json!({"apiVersion": "limen.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": APP, "namespace": "default"}, "spec": spec});
        self.submit(&object).await;
    }

    /// What people are warned of about the application's traffic.
    async fn warnings(&self) -> Vec<String> {
        let events = limen_api::kind(("v1", "Event", "events", true));
        let (events, _) = ObjectApi::new(self.hub.clone()).list(&events, "").await.unwrap();
        let about = events.iter().filter(|event| event["reason"] == "Traffic");
        about.map(|event| event["message"].to_string()).collect()
    }

    /// Changes the number of pods in each member.
    pub(crate) async fn scale(&self, replicas: usize) {
        let id = id_of(&application()[0]);
        let patch = json!({"spec": {"replicas": replicas}});
        ObjectApi::new(self.hub.clone()).merge(&id, "", &patch).await.unwrap();
    }

    /// Lets a member run another version than the others.
    pub(crate) async fn run_version(&self, member: &str, image: &str) {
        let image = json!({"path": "/spec/template/spec/containers/0/image", "value": image});
        self.submit(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "PlacementPolicy",
            "metadata": {"name": APP, "namespace": "default"},
            "spec": {"roots": [{"kind": "Deployment", "name": APP}],
                "placement": {"clusterSelector": {}},
                "overrides": [{"clusterName": member, "clusterOverrides": [image]}]}}))
            .await;
    }

    /// Waits until what the application compiles to fits.
    pub(crate) async fn compiled(&self, fits: impl Fn(&Value) -> bool) {
        let id = id_of(&json!({"apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress",
            "metadata": {"name": APP, "namespace": "default"}}));
        let api = ObjectApi::new(self.hub.clone());
        eventually("what is compiled", async || {
            let found = api.get(&id).await.unwrap().unwrap_or_default();
            (fits(&found), found.to_string())
        })
        .await;
    }

    /// Ends everything, from the outside in.
    pub(crate) async fn stop(self) {
        join_all(self.gateways.into_iter().map(Gateway::stop)).await;
        self.running.stop().await;
        join_all(self.members.iter().map(Member::stop)).await;
        self.server.stop().await;
    }
}

/// Waits until something holds, and says what it was last when it never does.
pub(crate) async fn eventually(what: &str, mut check: impl AsyncFnMut() -> (bool, String)) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (holds, found) = check().await;
        if holds {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: still {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The targets of the application's only backend, as they are compiled.
pub(crate) fn targets(global: &Value) -> impl Iterator<Item = &Value> {
    global["spec"]["backends"][0]["targets"].as_array().into_iter().flatten()
}

/// Whether every member has all of its pods and a way in.
pub(crate) fn all_are_ready(global: &Value) -> bool {
    let ready = |target: &&Value| {
        target["readyEndpoints"] == PODS
            && target["addresses"].as_array().is_some_and(|all| !all.is_empty())
    };
    targets(global).filter(ready).count() == 3
}

fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

async fn start_hub(folder: &TempDir) -> (Server, Client) {
    let data_dir = folder.path().join("hub");
    std::fs::create_dir_all(&data_dir).unwrap();
    let options = RedbOptions { cache_bytes: 8 << 20, window_bytes: 4 << 20, delta_bytes: 1 << 20 };
    let store = Arc::new(RedbStore::open(data_dir.join("store.redb"), &options).unwrap());
    let options = ServerOptions {
        data_dir,
        listen: any(),
        store,
        extra_names: Vec::new(),
        token_file: None,
        audit_log: None,
    };
    let server = Server::start(options).await.unwrap();
    let client = Client::new(server.in_process("limen:hub", &[MASTERS]), "default");
    (server, client)
}

async fn join(hub: &Client, member: &Member) {
    let place = member.place();
    let options = JoinOptions {
        name: place.name.clone(),
        endpoint: format!("https://{}", member.hub_address()),
        ca: Some(std::fs::read(member.authority()).unwrap()),
        region: Some(place.region.clone()),
        zone: Some(place.zone.clone()),
        coordinates: Some(place.coordinates()),
        labels: Default::default(),
        moves: false,
        share: false,
    };
    limen_hub::join(hub, member.client(), &options).await.unwrap();
}

fn application() -> [Value; 3] {
    let labels = json!({"app": APP});
    let metadata = json!({"name": APP, "namespace": "default"});
    [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": PODS, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
                    "name": "main", "image": "zone-printer:v1",
                    "ports": [{"name": "http", "containerPort": 8080}]}]}}}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": labels,
                "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata,
            "spec": {"rules": [{"host": HOST, "http": {"paths": [{"path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": APP, "port": {"number": 80}}}}]}}]}}),
    ]
}

fn id_of(object: &Value) -> ObjectId {
    let (kind, version) =
        (object["kind"].as_str().unwrap(), object["apiVersion"].as_str().unwrap());
    let plural = match kind {
        "Deployment" => "deployments",
        "Service" => "services",
        "Ingress" => "ingresses",
        "TrafficPolicy" => "trafficpolicies",
        "PlacementPolicy" => "placementpolicies",
        "GlobalIngress" => "globalingresses",
        other => panic!("{other}"),
    };
    ObjectId {
        kind: limen_api::kind((version, kind, plural, true)),
        namespace: Some("default".to_owned()),
        name: object["metadata"]["name"].as_str().unwrap().to_owned(),
    }
}
