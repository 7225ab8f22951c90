//! The dashboard of a playground: its members can be killed from the page.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use limen_apiserver::MASTERS;
use limen_dashboard::{Dashboard, DashboardOptions, Play};
use limen_playground::{Member, Trouble};
use serde_json::json;

use crate::connection::config;

/// Who looks at the page, for the hub.
const NAME: &str = "limen-up";

/// A token for a person who may do everything: it is their own machine. A new one for each run, and
/// short, since it is part of a link that people copy.
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn new() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()))
    }

    /// The line of a token file that makes the hub know it.
    pub(crate) fn line(&self) -> String {
        format!("{},{NAME},{NAME},\"{MASTERS}\"\n", self.0)
    }
}

/// A dashboard, and a link that logs in.
pub(crate) struct Page {
    pub(crate) dashboard: Dashboard,
    token: Token,
}

impl Page {
    pub(crate) async fn start(
        listen: SocketAddr,
        token: Token,
        kubeconfig: &Path,
        members: Vec<Arc<Member>>,
    ) -> Result<Self> {
        let hub = config(Some(&kubeconfig.to_owned()), None).await?;
        let options = DashboardOptions { listen, hub, play: Some(play(members)), tls: None };
        let dashboard = Dashboard::start(options).await;
        let dashboard = dashboard.with_context(|| format!("cannot listen on {listen}"))?;
        Ok(Self { dashboard, token })
    }

    /// The address, with the token where only the browser sees it.
    pub(crate) fn link(&self) -> String {
        format!("http://{}/#token={}", self.dashboard.address(), self.token.0)
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
