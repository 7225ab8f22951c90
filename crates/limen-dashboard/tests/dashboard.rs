//! A dashboard before a real hub API, as browsers use it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client, Config};
use limen_api::Cluster;
use limen_apiserver::{Server, ServerOptions};
use limen_dashboard::{Dashboard, DashboardOptions};
use limen_store::{RedbOptions, RedbStore};
use limen_sync::ObjectApi;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Bed {
    _folder: tempfile::TempDir,
    server: Server,
    client: Client,
    dashboard: Dashboard,
}

impl Bed {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = RedbStore::open(folder.path().join("store"), &RedbOptions::default()).unwrap();
        let server = Server::start(ServerOptions {
            data_dir: folder.path().to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            store: Arc::new(store),
            extra_names: Vec::new(),
            token_file: None,
            audit_log: None,
        })
        .await
        .unwrap();
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let hub = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = Client::try_from(hub.clone()).unwrap();
        limen_hub::set_up(&ObjectApi::new(client.clone())).await.unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let dashboard =
            Dashboard::start(DashboardOptions { listen, hub, play: None }).await.unwrap();
        let bed = Self { _folder: folder, server, client, dashboard };
        bed.apply(
            "limen.dev/v1alpha1",
            "clusters",
            &json!({
                "kind": "Cluster", "metadata": {"name": "asia"}, "spec": {"region": "asia-east1"}}),
        )
        .await;
        bed
    }

    async fn apply(&self, version: &str, plural: &str, object: &Value) {
        let (group, short) = version.rsplit_once('/').unwrap_or(("", version));
        let kind = object["kind"].as_str().unwrap();
        let resource = ApiResource {
            group: group.to_owned(),
            version: short.to_owned(),
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let mut object = object.clone();
        object["apiVersion"] = json!(version);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let how = PatchParams::apply("test").force();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        api.patch(&name, &how, &Patch::Apply(&object)).await.unwrap();
    }

    /// A token of somebody with these rules.
    async fn token(&self, name: &str, rules: Value) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        let account = ServiceAccount {
            metadata: kube::core::ObjectMeta {
                name: Some(name.to_owned()),
                ..kube::core::ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let rbac = "rbac.authorization.k8s.io/v1";
        let role = json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        self.apply(rbac, "clusterroles", &role).await;
        let binding = json!({
            "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]});
        self.apply(rbac, "clusterrolebindings", &binding).await;
        let request = TokenRequest::default();
        let made = accounts.create_token_request(name, &PostParams::default(), &request).await;
        made.unwrap().status.unwrap().token.unwrap()
    }

    async fn log_in(&self, token: &str) -> (Answer, String) {
        let answer = self.post("/api/login", "", &json!({"token": token})).await;
        let cookie = answer.header("set-cookie").unwrap_or_default();
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        (answer, cookie)
    }

    async fn post(&self, path: &str, cookie: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncookie: {cookie}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Answer::to(self.dashboard.address(), &head, None).await
    }

    async fn get(&self, path: &str, cookie: &str) -> Answer {
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncookie: {cookie}\r\n\r\n"
        );
        let until = (path == "/api/live").then_some("data: ");
        Answer::to(self.dashboard.address(), &head, until).await
    }

    /// The first view that a viewer is sent.
    async fn view(&self, cookie: &str) -> Value {
        let answer = self.get("/api/live", cookie).await;
        let line = answer.text.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(line.expect("a view")).unwrap()
    }
}

struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    /// Reads to the end, or to the end of the first line that has `until` in it.
    async fn to(address: SocketAddr, request: &str, until: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let read = async {
            loop {
                let text = String::from_utf8_lossy(&bytes);
                let found = until.and_then(|until| text.find(until).map(|at| &text[at..]));
                if found.is_some_and(|rest| rest.contains('\n')) {
                    return;
                }
                if stream.read_buf(&mut bytes).await.unwrap() == 0 {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), read).await.expect("an answer");
        let text = String::from_utf8(bytes).unwrap();
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Self { status, text }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.text.lines().take_while(|line| !line.is_empty());
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        pairs.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    }

    fn body(&self) -> Value {
        let body = self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }
}

fn limen(verbs: &[&str]) -> Value {
    json!([
        {"apiGroups": ["limen.dev"], "resources": ["*"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]},
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_public_and_nothing_else_is() {
    let bed = Bed::start().await;
    let page = bed.get("/", "").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'self'"));
    // Every file that the page names is there.
    for file in ["style.css", "app.js", "icon.svg"] {
        assert!(page.text.contains(file), "{file}");
        assert_eq!(bed.get(&format!("/{file}"), "").await.status, 200, "{file}");
    }
    for path in ["/api/me", "/api/live", "/api/explain?where=a"] {
        assert_eq!(bed.get(path, "limen-session=0").await.status, 401, "{path}");
    }
    let drain = bed.post("/api/drain", "", &json!({"cluster": "asia"})).await;
    assert_eq!(drain.status, 401);
    assert_eq!(bed.get("/../Cargo.toml", "").await.status, 404);
    bed.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_tokens_and_forms_are_refused_with_a_reason() {
    let bed = Bed::start().await;
    let (refused, cookie) = bed.log_in("made-up").await;
    assert_eq!(refused.status, 401);
    assert!(refused.text.contains("does not know this token"), "{}", refused.text);
    assert!(cookie.is_empty());
    assert_eq!(bed.log_in("  ").await.0.status, 400);
    // A form of another site cannot log anybody in.
    let form = "POST /api/login HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
    let answer = Answer::to(bed.dashboard.address(), form, None).await;
    assert_eq!(answer.status, 400);
    bed.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_can_only_look() {
    let bed = Bed::start().await;
    let token = bed.token("reader", limen(&["get", "list", "watch"])).await;
    let (me, cookie) = bed.log_in(&token).await;
    assert_eq!(me.status, 200);
    assert_eq!(me.body()["user"], "system:serviceaccount:default:reader");
    assert_eq!(me.body()["mayChange"], false);
    assert!(me.header("set-cookie").unwrap().contains("HttpOnly; SameSite=Strict"));
    let update = bed.view(&cookie).await;
    assert_eq!(update["view"]["clusters"][0]["name"], "asia");
    assert_eq!(update["missing"], json!([]));
    let drain = bed.post("/api/drain", &cookie, &json!({"cluster": "asia"})).await;
    assert_eq!(drain.status, 403, "{}", drain.text);
    let play = bed.post("/api/play", &cookie, &json!({"cluster": "asia", "what": "kill"})).await;
    assert_eq!(play.status, 404, "{}", play.text);
    bed.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_look_is_told_what_is_missing() {
    let bed = Bed::start().await;
    let token = bed.token("nobody", json!([])).await;
    let (_, cookie) = bed.log_in(&token).await;
    let update = bed.view(&cookie).await;
    assert_eq!(update["view"]["clusters"], json!([]));
    let missing = update["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 5, "{missing:?}");
    assert_eq!(update["awaySince"], Value::Null, "the hub is there");
    assert!(missing[0].as_str().unwrap().contains("forbidden"), "{missing:?}");
    bed.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_is_previewed_done_and_taken_back() {
    let bed = Bed::start().await;
    let token = bed.token("writer", limen(&["get", "list", "watch", "patch"])).await;
    let (me, cookie) = bed.log_in(&token).await;
    assert_eq!(me.body()["mayChange"], true);
    let clusters: Api<Cluster> = Api::all(bed.client.clone());
    let draining = async || clusters.get("asia").await.unwrap().spec.drain;

    let preview = json!({"cluster": "asia", "preview": true});
    let answer = bed.post("/api/drain", &cookie, &preview).await;
    assert_eq!((answer.status, answer.body()), (200, json!({"backends": 0})));
    assert!(!draining().await);
    let answer = bed.post("/api/drain", &cookie, &json!({"cluster": "asia"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(draining().await);
    let answer = bed.post("/api/undrain", &cookie, &json!({"cluster": "asia"})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(!draining().await);
    let answer = bed.post("/api/drain", &cookie, &json!({"cluster": "mars"})).await;
    assert_eq!(answer.status, 404);
    assert!(answer.body()["message"].as_str().unwrap().contains("asia"), "{}", answer.text);

    assert_eq!(bed.post("/api/logout", &cookie, &json!({})).await.status, 200);
    assert_eq!(bed.get("/api/me", &cookie).await.status, 401);
    bed.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_as_good_as_a_token() {
    let bed = Bed::start().await;
    let kubeconfig = std::fs::read_to_string(bed.server.kubeconfig()).unwrap();
    let answer = bed.post("/api/login", "", &json!({"kubeconfig": kubeconfig})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(
        (&answer.body()["mayChange"], &answer.body()["mayShare"]),
        (&json!(true), &json!(true))
    );
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(bed.view(&cookie).await["view"]["clusters"][0]["name"], "asia");

    let other = Bed::start().await;
    let stranger = std::fs::read_to_string(other.server.kubeconfig()).unwrap();
    let answer = bed.post("/api/login", "", &json!({"kubeconfig": stranger})).await;
    assert!([401, 403, 502].contains(&answer.status), "another hub's certificate: {}", answer.text);
    let answer = bed.post("/api/login", "", &json!({"kubeconfig": "users: []"})).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    bed.server.stop().await;
    other.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_is_told_that_the_hub_is_away() {
    let bed = Bed::start().await;
    let token = bed.token("reader", limen(&["get", "list", "watch"])).await;
    let (_, cookie) = bed.log_in(&token).await;
    let head = format!("GET /api/live HTTP/1.1\r\nhost: x\r\ncookie: {cookie}\r\n\r\n");
    let address = bed.dashboard.address();
    let told = tokio::spawn(async move {
        // A time in seconds since 1970, and not null.
        Answer::to(address, &head, Some("\"awaySince\":1")).await
    });
    // Somebody who looks must have seen something first.
    assert_eq!(bed.view(&cookie).await["awaySince"], Value::Null);
    bed.server.stop().await;
    let told = told.await.unwrap();
    let last =
        told.text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["view"]["clusters"][0]["name"], "asia", "what was known is still shown");
    assert_eq!(last["missing"].as_array().unwrap().len(), 5, "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_are_previewed_and_changed_with_ones_own_rights() {
    let bed = Bed::start().await;
    for name in ["europe", "mars"] {
        let cluster = json!({"kind": "Cluster", "metadata": {"name": name}, "spec": {}});
        bed.apply("limen.dev/v1alpha1", "clusters", &cluster).await;
    }
    let globals: Api<limen_api::GlobalIngress> = Api::default_namespaced(bed.client.clone());
    let target =
        |name: &str| json!({"cluster": name, "addresses": [{"host": "192.0.2.1", "port": 80}]});
    let global = serde_json::from_value(json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "GlobalIngress", "metadata": {"name": "web"},
        "spec": {
            "root": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web"},
            "rules": [{"host": "shop.example", "paths": [{"path": "/", "backend": "web"}]}],
            "backends": [{"name": "web", "targets": [target("asia"), target("europe")]}]}}));
    globals.create(&PostParams::default(), &global.unwrap()).await.unwrap();
    let reader = bed.token("reader", limen(&["get", "list", "watch"])).await;
    let writer = bed.token("writer", limen(&["get", "list", "watch", "create", "patch"])).await;
    let (reader, writer) = (bed.log_in(&reader).await.1, bed.log_in(&writer).await.1);
    let policies: Api<limen_api::TrafficPolicy> = Api::default_namespaced(bed.client.clone());
    let wish = |how: Value, preview: bool| json!({"namespace": "default", "global": "web", "how": how, "preview": preview});
    let weights = json!({"weights": {"asia": 3, "europe": 1}});

    let looked = bed.post("/api/share", &reader, &wish(weights.clone(), true)).await;
    assert_eq!(looked.status, 200, "who may look may preview: {}", looked.text);
    let share = |answer: &Answer, name: &str| {
        let after = answer.body()["after"].as_array().unwrap().clone();
        after
            .iter()
            .find(|odds| odds["cluster"] == name)
            .map(|odds| odds["share"].as_f64().unwrap())
    };
    assert_eq!((share(&looked, "asia"), share(&looked, "europe")), (Some(0.75), Some(0.25)));
    assert_eq!(
        (&looked.body()["policy"], &looked.body()["creates"]),
        (&json!("web"), &json!(true))
    );
    let refused = bed.post("/api/share", &reader, &wish(weights.clone(), false)).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(policies.get_opt("web").await.unwrap().is_none());

    let done = bed.post("/api/share", &writer, &wish(weights, false)).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(policies.get("web").await.unwrap().spec.policy.weights.unwrap().clusters["asia"], 3);
    let canary = json!({"canary": {
        "clusters": ["europe"], "steps": [10, 50], "stepSeconds": 60, "minSuccessPercent": 99.0}});
    let done = bed.post("/api/share", &writer, &wish(canary, false)).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(done.body()["creates"], false);
    let policy = policies.get("web").await.unwrap().spec.policy;
    assert!(policy.weights.is_none(), "one takes the place of the other");
    assert_eq!(policy.canary.unwrap().steps, [10, 50]);
    let done = bed.post("/api/share", &writer, &wish(json!("nearest"), false)).await;
    assert_eq!(done.status, 200, "{}", done.text);
    let policy = policies.get("web").await.unwrap().spec.policy;
    assert!(policy.canary.is_none() && policy.groups.is_empty());

    let nowhere = wish(json!({"weights": {"atlantis": 1}}), true);
    let wrong = bed.post("/api/share", &writer, &nowhere).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
    bed.server.stop().await;
}
