//! Addresses and ports that Services take from pools.
//!
//! The pools are in the store: a key for each address or port that is taken, written in the same
//! transaction as the Service. So two servers on one store never hand out the same one, and nothing
//! leaks when one of them dies.

use std::collections::HashSet;

use bytes::Bytes;
use limen_store::{Entry, Range};
use serde_json::Value;

use super::{Api, Scope};
use crate::error::{ApiError, ApiResult};
use crate::kinds::service::allocation::{self as service, NODE_PORTS, Wanted};
use crate::storage::store_error;

/// The network that cluster addresses come from: 10.96.0.0/16, less its first and last address.
const NETWORK: [u8; 2] = [10, 96];
/// The address of the API itself, as every cluster has it.
pub(crate) const FIRST_SERVICE_ADDRESS: &str = "10.96.0.1";

const PORTS: &str = "allocations/ports/";

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
    format!("{PORTS}{port}").into()
}

fn health_check_port_taken(port: i64) -> ApiError {
    let what = "failed to allocate requested HealthCheck NodePort";
    ApiError::unexplained(format!("{what} {port}: provided port is already allocated"))
}

fn is_ours(address: &str) -> bool {
    let Ok(address) = address.parse::<std::net::Ipv4Addr>() else { return false };
    let octets = address.octets();
    octets[..2] == NETWORK && octets[2..] != [0, 0] && octets[2..] != [255, 255]
}

/// Node ports as they are handed out to one Service.
struct Ports<'a> {
    /// What it asks for by name, which is not for its other ports.
    named: HashSet<i64>,
    /// What it has got so far.
    own: HashSet<i64>,
    /// What is known to be in use.
    used: &'a HashSet<i64>,
}

impl<'a> Ports<'a> {
    fn new(wants: &service::Wants, used: &'a HashSet<i64>) -> Self {
        let all = wants.node_ports.iter().map(|wanted| &wanted.port);
        let named = all.chain(&wants.health_check_port).filter_map(|wanted| match wanted {
            Wanted::This(port) => Some(*port),
            Wanted::Any => None,
        });
        Self { named: named.collect(), own: HashSet::new(), used }
    }

    /// Whichever is free, as far as is known; somebody else may be about to take it.
    fn any(&self) -> Result<i64, &'static str> {
        let start = rand::random_range(NODE_PORTS);
        let mut all = (start..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..start);
        let is_free = |port: &i64| {
            ![&self.named, &self.own, self.used].into_iter().any(|taken| taken.contains(port))
        };
        all.find(is_free).ok_or("range is full")
    }
}

impl Api {
    /// Gives a Service what it wants from the pools. What is free is guessed, unless the ports in
    /// `used` are known; the transaction finds out, and another guess is made if need be.
    pub(super) fn allocate(
        &self,
        scope: &Scope,
        object: &mut Value,
        old: Option<&Value>,
        used: &HashSet<i64>,
    ) -> ApiResult<Allocation> {
        let mut allocation = Allocation::default();
        if !is_service(scope) {
            return Ok(allocation);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let invalid = |error| ApiError::invalid(scope.kind_subject(), &name, &[error]);
        let wants = service::wants(object, old);
        let mut ports = Ports::new(&wants, used);
        if let Some(wanted) = &wants.cluster_ip {
            let address = match wanted {
                Wanted::Any => {
                    let [a, b] = NETWORK;
                    let rest: u16 = rand::random_range(256..u16::MAX);
                    let [c, d] = rest.to_be_bytes();
                    format!("{a}.{b}.{c}.{d}")
                }
                Wanted::This(address) => {
                    if !is_ours(address) {
                        return Err(invalid(service::cluster_ip_out_of_range(object, address)));
                    }
                    let taken = invalid(service::cluster_ip_taken(object, address));
                    allocation.named.push((address_key(address), taken));
                    address.clone()
                }
            };
            service::set_cluster_ip(object, &address);
            allocation.taken.push(address_key(&address));
        }
        for wanted in &wants.node_ports {
            let at = wanted.ports.first().copied().unwrap_or_default();
            let port = match wanted.port {
                Wanted::Any => ports.any().map_err(|why| {
                    ApiError::internal(format!("failed to allocate a nodePort: {why}"))
                })?,
                Wanted::This(port) => {
                    if !NODE_PORTS.contains(&port) {
                        return Err(invalid(service::node_port_out_of_range(at, port)));
                    }
                    let taken = invalid(service::node_port_taken(at, port));
                    allocation.named.push((port_key(port), taken));
                    port
                }
            };
            if !ports.own.insert(port) {
                return Err(invalid(service::node_port_taken(at, port)));
            }
            service::set_node_port(object, wanted, port);
            allocation.taken.push(port_key(port));
        }
        if let Some(wanted) = wants.health_check_port {
            let port = match wanted {
                Wanted::Any => ports.any().map_err(|why| {
                    ApiError::unexplained(format!(
                        "failed to allocate a HealthCheck NodePort 0: {why}"
                    ))
                })?,
                Wanted::This(port) => {
                    if ports.own.contains(&port) {
                        return Err(health_check_port_taken(port));
                    }
                    allocation.named.push((port_key(port), health_check_port_taken(port)));
                    port
                }
            };
            service::set_health_check_port(object, port);
            allocation.taken.push(port_key(port));
        }
        Ok(allocation)
    }

    /// The node ports that all Services have.
    pub(super) async fn used_node_ports(&self, scope: &Scope) -> ApiResult<HashSet<i64>> {
        if !is_service(scope) {
            return Ok(HashSet::new());
        }
        let page = self.store.range(Range::prefix(PORTS)).await;
        let entries = page.map_err(|error| store_error(&error))?.entries;
        let port = |entry: Entry| std::str::from_utf8(&entry.key[PORTS.len()..]).ok()?.parse().ok();
        Ok(entries.into_iter().filter_map(port).collect())
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
