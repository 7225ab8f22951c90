//! A hub with one cluster, and a dashboard before it.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use limen_dashboard::{Dashboard, DashboardOptions};
use limen_sync::ObjectApi;
use limen_testbed::ApiServer;
use serde_json::{Value, json};

use crate::answer::Answer;

pub(crate) struct Bed {
    pub(crate) hub: ApiServer,
    pub(crate) client: Client,
    pub(crate) dashboard: Dashboard,
}

impl Bed {
    pub(crate) async fn start() -> Self {
        let hub = ApiServer::start().await;
        let client = hub.client.clone();
        limen_hub::set_up(&ObjectApi::new(client.clone())).await.unwrap();
        let listen = ([127, 0, 0, 1], 0).into();
        let options = DashboardOptions { listen, hub: hub.config.clone(), play: None, tls: None };
        let dashboard = Dashboard::start(options).await.unwrap();
        let bed = Self { hub, client, dashboard };
        bed.apply(
            "limen.dev/v1alpha1",
            "clusters",
            &json!({
                "kind": "Cluster", "metadata": {"name": "asia"}, "spec": {"region": "asia-east1"}}),
        )
        .await;
        bed
    }

    pub(crate) async fn apply(&self, version: &str, plural: &str, object: &Value) {
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
    pub(crate) async fn token(&self, name: &str, rules: Value) -> String {
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

    pub(crate) async fn log_in(&self, token: &str) -> (Answer, String) {
        let answer = self.post("/api/login", "", &json!({"token": token})).await;
        let cookie = answer.header("set-cookie").unwrap_or_default();
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        (answer, cookie)
    }

    pub(crate) async fn post(&self, path: &str, cookie: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncookie: {cookie}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Answer::to(self.dashboard.address(), &head, None).await
    }

    pub(crate) async fn get(&self, path: &str, cookie: &str) -> Answer {
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncookie: {cookie}\r\n\r\n"
        );
        let until = (path == "/api/live").then_some("data: ");
        Answer::to(self.dashboard.address(), &head, until).await
    }

    /// The first view that a viewer is sent.
    pub(crate) async fn view(&self, cookie: &str) -> Value {
        let answer = self.get("/api/live", cookie).await;
        let line = answer.text.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(line.expect("a view")).unwrap()
    }
}

/// What readers or writers of Limen's objects may do.
pub(crate) fn limen(verbs: &[&str]) -> Value {
    json!([
        {"apiGroups": ["limen.dev"], "resources": ["*"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]},
    ])
}
