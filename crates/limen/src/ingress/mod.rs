//! `limen ingress`: what kubemci did, with its flags and its lines, on top of a hub.
//!
//! A load balancer of kubemci is an Ingress on the hub and a PlacementPolicy that says which
//! clusters it goes to, both labelled with the load balancer's name. The hub does the rest, so
//! nothing here talks to clusters except to ask whether they have the Services.

mod balancer;
mod clusters;
mod create;
mod manifest;
mod progress;
mod remove;
mod show;
mod validate;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use limen_api::Cluster;

use crate::connection::{HubConnection, read_kubeconfig};

/// One Ingress over many clusters, by the commands of kubemci.
#[derive(Subcommand)]
pub(crate) enum Ingress {
    /// Create an Ingress in clusters, as one load balancer
    Create(create::Create),
    /// Delete a load balancer and its Ingress in all clusters
    Delete(remove::Delete),
    /// Say which address a load balancer has, and which clusters it is spread across
    GetStatus(show::GetStatus),
    /// List all load balancers
    List(show::List),
    /// Take a load balancer away from some of its clusters
    RemoveClusters(remove::RemoveClusters),
}

impl Ingress {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Create(create) => create.run(),
            Self::Delete(delete) => delete.run(),
            Self::GetStatus(status) => status.run(),
            Self::List(list) => list.run(),
            Self::RemoveClusters(remove) => remove.run(),
        }
    }
}

/// Which hub, and what scripts say that means nothing here.
#[derive(Args, Clone)]
struct Surroundings {
    /// The kubeconfig with the hub as its current context, and contexts of the clusters; otherwise $KUBECONFIG
    #[arg(long, short = 'k', value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The kubeconfig of the hub, if it is another
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,

    /// The context of the hub, if it is not the current one
    #[arg(long, value_name = "NAME")]
    hub_context: Option<String>,

    /// Taken and not used, so that scripts for kubemci need no change: a hub has no project
    #[arg(long, value_name = "NAME")]
    gcp_project: Option<String>,
}

impl Surroundings {
    async fn hub(&self) -> Result<Client> {
        let file = self.hub_kubeconfig.clone().or(self.kubeconfig.clone());
        HubConnection::to(file, self.hub_context.clone()).client().await
    }

    /// The members that contexts mean; without contexts those that the kubeconfig has contexts of,
    /// or all.
    async fn members(&self, hub: &Client, contexts: &[String]) -> Result<Vec<clusters::Chosen>> {
        let members: Api<Cluster> = Api::all(hub.clone());
        let members = match members.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => bail!(
                "the current context is that of no hub; name the hub with --hub-kubeconfig or --hub-context"
            ),
            members => members.context("cannot list the clusters that have joined")?,
        };
        let members: Vec<clusters::Member> = members
            .iter()
            .map(|member| clusters::Member {
                name: member.name_any(),
                endpoint: member.spec.endpoint.clone(),
            })
            .collect();
        let known = clusters::contexts(&read_kubeconfig(self.kubeconfig.as_deref())?);
        clusters::choose(contexts, &known, &members).map_err(anyhow::Error::msg)
    }
}

/// How long to wait until it is done.
#[derive(Args, Clone, Copy)]
struct Patience {
    /// How long to wait until the clusters have done it, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120")]
    timeout: u64,
}
