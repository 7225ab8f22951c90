//! What is worth remembering of a member's objects. Everything else in them is forgotten at once,
//! so that a hub can know the endpoints of many members.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::global::{Address, Protocol};
use crate::leaf::ROOT_LABEL;

/// A namespace and a name in it.
pub type Key = (String, String);

/// Requests in a second that one endpoint of a Service can take.
const RATE_ANNOTATION: &str = "limen.dev/requests-per-endpoint";
/// The version group that a member's Service belongs to.
const GROUP_ANNOTATION: &str = "limen.dev/version";
/// The label that ties an EndpointSlice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// How a Service is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceKind {
    /// From inside the cluster only.
    #[default]
    ClusterIp,
    /// At a port of every node.
    NodePort,
    /// At a load balancer.
    LoadBalancer,
    /// It is a name for something else.
    ExternalName,
}

/// A Service of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedService {
    /// The root that it is a leaf of, by uid.
    pub root_uid: Option<String>,
    /// How it is reached.
    pub kind: ServiceKind,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Addresses and names of its load balancer.
    pub balancers: Vec<String>,
    /// Its addresses inside the cluster.
    pub cluster_ips: Vec<String>,
    /// What it is a name for.
    pub external_name: Option<String>,
    /// Requests in a second that one endpoint can take.
    pub rate: Option<f64>,
    /// The version group that it says it is of.
    pub group: Option<String>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServicePort {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its number.
    pub port: u16,
    /// The port of nodes that leads to it.
    pub node_port: Option<u16>,
    /// What is spoken there.
    pub protocol: Protocol,
}

/// An EndpointSlice of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    /// The name of its Service.
    pub service: String,
    /// IPv6, in place of IPv4.
    pub v6: bool,
    /// Port numbers by the name that the Service gives them.
    pub ports: BTreeMap<String, u16>,
    /// Addresses of endpoints that are ready.
    pub ready: Vec<String>,
}

/// An Ingress of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedIngress {
    /// The root that it is a leaf of, by uid.
    pub root_uid: Option<String>,
    /// Where it is served.
    pub addresses: Vec<(Address, Protocol)>,
}

/// A node of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Where others reach it: its external address, or else the internal one. None while it is
    /// not ready.
    pub address: Option<String>,
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl ObservedService {
    /// What a Service says.
    pub fn of(object: &Value) -> Self {
        let (spec, annotations) = (&object["spec"], &object["metadata"]["annotations"]);
        let port = |port: &Value| {
            let tcp = port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP");
            Some(ServicePort {
                name: port["name"].as_str().unwrap_or_default().to_owned(),
                port: number(&port["port"]).filter(|_| tcp)?,
                node_port: number(&port["nodePort"]),
                protocol: match port["appProtocol"].as_str() {
                    Some("kubernetes.io/h2c") => Protocol::H2c,
                    Some("https") => Protocol::Https,
                    _ => Protocol::Http,
                },
            })
        };
        let balancer = |entry: &Value| text(&entry["ip"]).or_else(|| text(&entry["hostname"]));
        let rate = annotations[RATE_ANNOTATION].as_str().and_then(|rate| rate.parse::<f64>().ok());
        let inside = |ip: &Value| text(ip).filter(|ip| ip != "None");
        Self {
            root_uid: text(&object["metadata"]["labels"][ROOT_LABEL]),
            cluster_ips: items(&spec["clusterIPs"]).filter_map(inside).collect(),
            kind: match spec["type"].as_str() {
                Some("NodePort") => ServiceKind::NodePort,
                Some("LoadBalancer") => ServiceKind::LoadBalancer,
                Some("ExternalName") => ServiceKind::ExternalName,
                _ => ServiceKind::ClusterIp,
            },
            ports: items(&spec["ports"]).filter_map(port).collect(),
            balancers: items(&object["status"]["loadBalancer"]["ingress"])
                .filter_map(balancer)
                .collect(),
            external_name: text(&spec["externalName"]),
            rate: rate.filter(|rate| rate.is_finite() && *rate > 0.0),
            group: text(&annotations[GROUP_ANNOTATION]),
        }
    }
}

impl Slice {
    /// What an EndpointSlice says; nothing if it has no Service or no addresses.
    pub fn of(object: &Value) -> Option<Self> {
        let service = text(&object["metadata"]["labels"][SERVICE_NAME])?;
        let family = object["addressType"].as_str().unwrap_or("IPv4");
        if family == "FQDN" {
            return None;
        }
        let port = |port: &Value| {
            Some((port["name"].as_str().unwrap_or_default().to_owned(), number(&port["port"])?))
        };
        let ready = |endpoint: &&Value| endpoint["conditions"]["ready"].as_bool().unwrap_or(true);
        let address = |endpoint: &Value| text(&endpoint["addresses"][0]);
        let mut found: Vec<_> =
            items(&object["endpoints"]).filter(ready).filter_map(address).collect();
        found.sort();
        found.dedup();
        Some(Self {
            service,
            v6: family == "IPv6",
            ports: items(&object["ports"]).filter_map(port).collect(),
            ready: found,
        })
    }
}

impl ObservedIngress {
    /// What an Ingress says.
    pub fn of(object: &Value) -> Self {
        let entries = items(&object["status"]["loadBalancer"]["ingress"]);
        Self {
            root_uid: text(&object["metadata"]["labels"][ROOT_LABEL]),
            addresses: entries.filter_map(ingress_address).collect(),
        }
    }
}

/// Where an Ingress is served. Without ports in its status it is port 80, as everybody assumes.
fn ingress_address(entry: &Value) -> Option<(Address, Protocol)> {
    let host = text(&entry["ip"]).or_else(|| text(&entry["hostname"]))?;
    let mut ports: Vec<u16> =
        items(&entry["ports"]).filter_map(|port| number(&port["port"])).collect();
    // The clear port is preferred: what comes from an edge has been decrypted already.
    ports.sort_by_key(|port| (*port != 80, *port == 443));
    let port = ports.first().copied().unwrap_or(80);
    let protocol = if port == 443 { Protocol::Https } else { Protocol::Http };
    Some((Address { host, port }, protocol))
}

impl Node {
    /// What a Node says.
    pub fn of(object: &Value) -> Self {
        let ready = items(&object["status"]["conditions"])
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let of_type = |wanted: &str| {
            let mut all = items(&object["status"]["addresses"]);
            all.find(|address| address["type"] == wanted)
                .and_then(|address| text(&address["address"]))
        };
        let address = of_type("ExternalIP").or_else(|| of_type("InternalIP"));
        Self { address: address.filter(|_| ready) }
    }
}
