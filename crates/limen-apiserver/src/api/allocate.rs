//! Addresses and ports that Services take from pools.
//!
//! The pools are in the store: a key for each address or port that is taken, written in the same
//! transaction as the Service. So two servers on one store never hand out the same one, and nothing
//! leaks when one of them dies.

use bytes::Bytes;
use serde_json::Value;

use super::{Api, Scope};
use crate::error::{ApiError, ApiResult};
use crate::kinds::service::allocation::{self as service, NODE_PORTS, Wanted};

/// The network that cluster addresses come from: 10.96.0.0/16, less its first and last address.
const NETWORK: [u8; 2] = [10, 96];
/// The address of the API itself, as every cluster has it.
pub(crate) const FIRST_SERVICE_ADDRESS: &str = "10.96.0.1";

/// What a Service takes and gives back.
#[derive(Default)]
pub(super) struct Allocation {
    pub(super) taken: Vec<Bytes>,
    /// What to say if one of them is somebody else's already: the Service asked for it by name.
    named: Vec<(Bytes, ApiError)>,
}

impl Allocation {
    /// Why a key that turned out to be taken is an error; `None` if another one will do.
    pub(super) fn refusal(&self, key: &Bytes) -> Option<ApiError> {
        self.named.iter().find(|(named, _)| named == key).map(|(_, error)| error.clone())
    }
}

fn is_service(scope: &Scope) -> bool {
    scope.kind.group.is_empty() && scope.kind.kind == "Service"
}

fn address_key(address: &str) -> Bytes {
    format!("allocations/addresses/{address}").into()
}

fn port_key(port: i64) -> Bytes {
    format!("allocations/ports/{port}").into()
}

fn is_ours(address: &str) -> bool {
    let Ok(address) = address.parse::<std::net::Ipv4Addr>() else { return false };
    let octets = address.octets();
    octets[..2] == NETWORK && octets[2..] != [0, 0] && octets[2..] != [255, 255]
}

impl Api {
    /// Gives a Service what it wants from the pools. What is free is guessed; the transaction finds
    /// out, and another guess is made if need be.
    pub(super) fn allocate(
        &self,
        scope: &Scope,
        object: &mut Value,
        old: Option<&Value>,
    ) -> ApiResult<Allocation> {
        let mut allocation = Allocation::default();
        if !is_service(scope) {
            return Ok(allocation);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let invalid = |error| ApiError::invalid(scope.kind_subject(), &name, &[error]);
        let wants = service::wants(object, old);
        if let Some(wanted) = wants.cluster_ip {
            let address = match wanted {
                Wanted::Any => {
                    let [a, b] = NETWORK;
                    let rest: u16 = rand::random_range(256..u16::MAX);
                    let [c, d] = rest.to_be_bytes();
                    format!("{a}.{b}.{c}.{d}")
                }
                Wanted::This(address) => {
                    if !is_ours(&address) {
                        return Err(invalid(service::cluster_ip_out_of_range(object, &address)));
                    }
                    let taken = invalid(service::cluster_ip_taken(object, &address));
                    allocation.named.push((address_key(&address), taken));
                    address
                }
            };
            service::set_cluster_ip(object, &address);
            allocation.taken.push(address_key(&address));
        }
        for wanted in &wants.node_ports {
            let at = wanted.ports.first().copied().unwrap_or_default();
            let port = match wanted.port {
                Wanted::Any => rand::random_range(NODE_PORTS),
                Wanted::This(port) => {
                    if !NODE_PORTS.contains(&port) {
                        return Err(invalid(service::node_port_out_of_range(at, port)));
                    }
                    allocation
                        .named
                        .push((port_key(port), invalid(service::node_port_taken(at, port))));
                    port
                }
            };
            service::set_node_port(object, wanted, port);
            allocation.taken.push(port_key(port));
        }
        if let Some(wanted) = wants.health_check_port {
            let port = match wanted {
                Wanted::Any => rand::random_range(NODE_PORTS),
                Wanted::This(port) => port,
            };
            service::set_health_check_port(object, port);
            allocation.taken.push(port_key(port));
        }
        // Two guesses of one object may meet.
        allocation.taken.sort();
        allocation.taken.dedup();
        Ok(allocation)
    }

    /// What an object gives back when it becomes `new`, or goes.
    pub(super) fn released(&self, scope: &Scope, old: &Value, new: Option<&Value>) -> Vec<Bytes> {
        if !is_service(scope) {
            return Vec::new();
        }
        let released = service::released(old, new);
        let addresses = released.cluster_ips.iter().map(|address| address_key(address));
        let ports = released.node_ports.iter().map(|port| port_key(*port));
        addresses.chain(ports).collect()
    }
}
