//! The DNS server of a federation on one machine, and the networks that its clients are in.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use kube::Client;
use limen_dns::{Options, Server, source};
use limen_playground::{Place, Topology};

/// Every host under this domain is answered for. It is a name that nobody owns.
pub(crate) const ZONE: &str = "limen.test";

/// The network of clients that are where a cluster is; they are told apart by the client subnet
/// that they, or their resolvers, send.
pub(crate) fn client_network(cluster: usize) -> String {
    format!("10.{}.0.0/16", cluster + 1)
}

/// Starts the server beside the gateway: who is in no network counts as there.
pub(crate) fn start(
    client: &Client,
    folder: &Path,
    edge: &Place,
    topology: &Topology,
    listen: SocketAddr,
) -> Result<Server> {
    let folder = folder.join("dns");
    let networks = folder.join("networks.yaml");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&networks, table(topology)))
        .with_context(|| format!("cannot write {}", networks.display()))?;
    let options = Options {
        name: "limen-up-dns".to_owned(),
        listen: vec![listen],
        admin: Some(([127, 0, 0, 1], 0).into()),
        zones: vec![ZONE.to_owned()],
        locality: edge.locality(),
        networks: Some(networks),
        ..Options::default()
    };
    Ok(Server::start(&options, source::Hub::for_dns(client.clone(), Some(folder)))?)
}

fn table(topology: &Topology) -> String {
    let mut text = "networks:\n".to_owned();
    for (index, place) in topology.clusters.iter().enumerate() {
        let Place { region, zone, latitude, longitude, .. } = place;
        let _ = writeln!(
            text,
            "- {{ cidr: {}, region: {region:?}, zone: {zone:?}, coordinates: \"{latitude},{longitude}\" }}",
            client_network(index)
        );
    }
    text
}
