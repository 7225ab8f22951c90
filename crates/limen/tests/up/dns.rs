//! The DNS server of a federation: the nearest cluster for clients wherever they are.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use limen_api::Edge;
use limen_core::edge::EdgeKind;

use crate::rig::{Up, eventually};

const PATIENCE: Duration = Duration::from_secs(10);

/// A question for the address of the sample, by a client in the network 10.N.0.0/16.
fn question(network: u8) -> Vec<u8> {
    let mut packet = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    packet.extend(b"\x05hello\x05limen\x04test\x00\x00\x01\x00\x01");
    // EDNS with a client subnet: family 1, 16 bits.
    packet.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 10, 0, 8, 0, 6, 0, 1, 16, 0, 10, network]);
    packet
}

/// The first address in an answer, if there is one.
fn address(answer: &[u8]) -> Option<Ipv4Addr> {
    let record = 12 + b"\x05hello\x05limen\x04test\x00".len() + 4;
    let data: [u8; 4] = answer.get(record + 12..record + 16)?.try_into().ok()?;
    (answer[7] > 0).then(|| data.into())
}

fn by_udp(server: &str, network: u8) -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&question(network), server).unwrap();
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).ok()?;
    address(&answer[..length])
}

fn by_tcp(server: &str, network: u8) -> Option<Ipv4Addr> {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let question = question(network);
    stream.write_all(&(question.len() as u16).to_be_bytes()).unwrap();
    stream.write_all(&question).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer).unwrap();
    address(&answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_lead_to_the_nearest_cluster_that_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--clusters", "2"]);
    let server = up.address("/dns/address");
    assert_eq!(up.address("/clusters/1/clients"), "10.2.0.0/16");
    let ways: Vec<Ipv4Addr> = [0, 1]
        .map(|index| up.address(&format!("/clusters/{index}/ingress")))
        .map(|way| way.split(':').next().unwrap().parse().unwrap())
        .into();
    for (network, way) in [(1, ways[0]), (2, ways[1])] {
        eventually("a client is sent to the nearest", || {
            let found = by_udp(&server, network);
            (found == Some(way), format!("{network}: {found:?}"))
        });
        assert_eq!(by_tcp(&server, network), Some(way));
    }
    assert_eq!(by_udp(&server, 99), Some(ways[0]), "who is nowhere counts as where the server is");

    up.trouble("gce-europe-west1b", "kill");
    eventually("others stand in for a cluster that is gone", || {
        let found = by_udp(&server, 2);
        (found == Some(ways[0]), format!("{found:?}"))
    });
    up.trouble("gce-europe-west1b", "restore");
    eventually("it is back", || {
        let found = by_udp(&server, 2);
        (found == Some(ways[1]), format!("{found:?}"))
    });

    let kubeconfig = Kubeconfig::read_from(folder.path().join("kubeconfig")).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let edges: Api<Edge> = Api::all(Client::try_from(config).unwrap());
    let edge = edges.get("limen-up-dns").await.unwrap();
    assert_eq!(edge.spec.kind, EdgeKind::Dns);
    assert_eq!(edge.spec.addresses, [server]);
    assert!(edge.status.unwrap().observed_at.is_some());
    up.terminate();
}
