//! The dashboard of a playground: its members can be killed from the page.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use limen_dashboard::{Dashboard, DashboardOptions, Play};
use limen_playground::{Member, Trouble};
use serde_json::{Value, json};

use crate::connection::config;

/// Who looks at the page, for the hub.
const NAME: &str = "limen-dashboard";
const NAMESPACE: &str = "kube-system";
/// As long as a playground may run.
const SECONDS: i64 = 7 * 24 * 60 * 60;

/// A dashboard, and a link that logs in.
pub(crate) struct Page {
    pub(crate) dashboard: Dashboard,
    token: String,
}

impl Page {
    pub(crate) async fn start(
        listen: SocketAddr,
        hub: &Client,
        kubeconfig: &Path,
        members: Vec<Arc<Member>>,
    ) -> Result<Self> {
        let token = token(hub).await.context("cannot make a token for the dashboard")?;
        let hub = config(Some(&kubeconfig.to_owned()), None).await?;
        let options = DashboardOptions { listen, hub, play: Some(play(members)) };
        let dashboard = Dashboard::start(options).await;
        let dashboard = dashboard.with_context(|| format!("cannot listen on {listen}"))?;
        Ok(Self { dashboard, token })
    }

    /// The address, with the token where only the browser sees it.
    pub(crate) fn link(&self) -> String {
        format!("http://{}/#token={}", self.dashboard.address(), self.token)
    }
}

fn play(members: Vec<Arc<Member>>) -> Play {
    Arc::new(move |cluster, what| {
        let member = members.iter().find(|member| member.place().name == cluster).cloned();
        Box::pin(async move {
            let member = member.ok_or_else(|| format!("there is no cluster {cluster}"))?;
            let trouble: Trouble = serde_json::from_value(json!(what))
                .map_err(|_| format!("{what:?} is nothing that can be done to a cluster"))?;
            member.trouble(trouble).await.map_err(|error| error.to_string())
        })
    })
}

/// A token for a person who may do everything: it is their own machine.
async fn token(hub: &Client) -> Result<String> {
    use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
    use k8s_openapi::api::core::v1::ServiceAccount;
    use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

    let ours = PatchParams::apply("limen-up").force();
    let accounts: kube::Api<ServiceAccount> = kube::Api::namespaced(hub.clone(), NAMESPACE);
    let account: Value = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": NAMESPACE}});
    accounts.patch(NAME, &ours, &Patch::Apply(&account)).await?;
    let bindings: kube::Api<ClusterRoleBinding> = kube::Api::all(hub.clone());
    let binding: Value = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]});
    bindings.patch(NAME, &ours, &Patch::Apply(&binding)).await?;
    let spec =
        TokenRequestSpec { expiration_seconds: Some(SECONDS), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let made = accounts.create_token_request(NAME, &PostParams::default(), &request).await?;
    made.status.and_then(|status| status.token).context("the hub gave no token")
}
