//! Everything of a member that a power cut takes away.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kube::Client;
use limen_apiserver::{MASTERS, Server, ServerOptions};
use limen_gateway::source;
use limen_store::Store;
use limen_sync::ObjectApi;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::MemberError;
use crate::controllers::{Controllers, Pods, furnish};
use crate::topology::Place;

/// What a body grows from.
pub(super) struct Seed {
    pub(super) place: Place,
    pub(super) folder: PathBuf,
    pub(super) store: Arc<dyn Store>,
    pub(super) second: u8,
    pub(super) api: SocketAddr,
    pub(super) ingress: SocketAddr,
    /// Where clients are told to go.
    pub(super) published: SocketAddr,
    pub(super) pods: Pods,
    pub(super) told: Arc<Notify>,
}

/// API server, controllers, pods and way in.
pub(super) struct Body {
    server: Server,
    client: Client,
    gateway: limen_gateway::Gateway,
    _controllers: AbortOnDropHandle<()>,
    /// Ends every pod.
    killed: CancellationToken,
    pods: Pods,
}

impl Body {
    pub(super) async fn start(seed: &Seed) -> Result<Self, MemberError> {
        let name = &seed.place.name;
        let server = Server::start_on_loopback(ServerOptions {
            data_dir: seed.folder.clone(),
            listen: seed.api,
            store: seed.store.clone(),
            extra_names: Vec::new(),
            token_file: None,
            audit_log: None,
        })
        .await
        .map_err(|error| MemberError::Api { name: name.clone(), error })?;
        let client = Client::new(server.in_process("limen:playground", &[MASTERS]), "default");
        let api = ObjectApi::new(client.clone());
        furnish(&api, &seed.place)
            .await
            .map_err(|error| MemberError::Furnish { name: name.clone(), error })?;

        let gateway = limen_gateway::Gateway::start(
            gateway_options(seed),
            source::Member {
                client: client.clone(),
                class: "limen".to_owned(),
                cluster: name.clone(),
                locality: seed.place.locality(),
                addresses: vec![seed.published.to_string()],
            },
        )
        .map_err(|error| MemberError::Ingress { name: name.clone(), error })?;

        let killed = CancellationToken::new();
        let controllers = Controllers::new(
            api,
            &seed.place,
            seed.second,
            seed.pods.clone(),
            seed.told.clone(),
            killed.clone(),
        );
        let controllers = AbortOnDropHandle::new(tokio::spawn(controllers.run()));
        let pods = seed.pods.clone();
        Ok(Self { server, client, gateway, _controllers: controllers, killed, pods })
    }

    pub(super) fn api_address(&self) -> SocketAddr {
        let address = self.server.url().strip_prefix("https://").and_then(|it| it.parse().ok());
        address.expect("a server's URL is its address")
    }

    pub(super) fn ingress_address(&self) -> SocketAddr {
        self.gateway.http()[0]
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig().to_owned()
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Ends everything at once, and returns when it has.
    pub(super) async fn stop(self) {
        self.killed.cancel();
        drop(self._controllers);
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.gateway.stop().await;
        self.server.stop().await;
    }
}

fn gateway_options(seed: &Seed) -> limen_gateway::Options {
    let loopback = ipnet::Ipv4Net::new(std::net::Ipv4Addr::new(127, 0, 0, 0), 8);
    limen_gateway::Options {
        name: format!("limen-{}", seed.place.name),
        http: vec![seed.ingress],
        // A member that lost its power may still be letting go of its sockets when it is back.
        take_over: true,
        locality: seed.place.locality(),
        // The gateway in front says who the client is.
        trusted_proxies: loopback.into_iter().map(Into::into).collect(),
        drain: Duration::from_millis(500),
        ..limen_gateway::Options::default()
    }
}
