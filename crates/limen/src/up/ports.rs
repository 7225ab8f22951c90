//! Which port is whose, and whether it is free.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Result, bail};
use limen_playground::Topology;

/// Hub, dashboard, gateway HTTP, gateway HTTPS, DNS, admin.
const OWN: usize = 6;

/// Ports that count up from a base; from 0 all are picked by the system.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    base: u16,
}

impl Ports {
    pub(crate) fn plan(base: u16, clusters: usize) -> Result<Self> {
        let last = usize::from(base) + OWN + 2 * clusters - 1;
        if base != 0 && last > usize::from(u16::MAX) {
            bail!("--port-base {base}: ports would go up to {last}; choose a lower one");
        }
        Ok(Self { base })
    }

    fn nth(&self, index: usize) -> u16 {
        match self.base {
            0 => 0,
            base => base + u16::try_from(index).unwrap_or_default(),
        }
    }

    pub(crate) fn hub(&self) -> u16 {
        self.nth(0)
    }

    pub(crate) fn dashboard(&self) -> u16 {
        self.nth(1)
    }

    pub(crate) fn http(&self) -> u16 {
        self.nth(2)
    }

    pub(crate) fn https(&self) -> u16 {
        self.nth(3)
    }

    pub(crate) fn admin(&self) -> u16 {
        self.nth(5)
    }

    pub(crate) fn api(&self, cluster: usize) -> u16 {
        self.nth(OWN + 2 * cluster)
    }

    pub(crate) fn ingress(&self, cluster: usize) -> u16 {
        self.nth(OWN + 2 * cluster + 1)
    }

    /// Says which port is taken, if one is.
    pub(crate) fn check(&self, topology: &Topology) -> Result<()> {
        if self.base == 0 {
            return Ok(());
        }
        let here = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut uses = vec![
            (here(self.hub()), "the hub".to_owned()),
            (here(self.dashboard()), "the dashboard".to_owned()),
            (here(self.http()), "the gateway's HTTP".to_owned()),
            (here(self.https()), "the gateway's HTTPS".to_owned()),
            (here(self.admin()), "admin".to_owned()),
        ];
        for (index, place) in topology.clusters.iter().enumerate() {
            uses.push((here(self.api(index)), format!("the API of {}", place.name)));
            let ingress = limen_playground::ingress_address(index);
            let ingress = SocketAddr::from((ingress, self.ingress(index)));
            uses.push((ingress, format!("the ingress of {}", place.name)));
        }
        let mut taken = Vec::new();
        for (address, whose) in uses {
            match TcpListener::bind(address) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    taken.push(format!("{} (for {whose})", address.port()));
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(
                    "no permission to listen on port {} (for {whose}); choose ports above 1024 with --port-base",
                    address.port()
                ),
                Err(error) => bail!("cannot listen on {address} (for {whose}): {error}"),
            }
        }
        let more = taken.len().saturating_sub(3);
        taken.truncate(3);
        let list = taken.join(", ");
        let others = if more > 0 { format!(" and {more} more") } else { String::new() };
        if !taken.is_empty() {
            bail!(
                "taken: port {list}{others}; is another limen up running? Stop it, or choose others with --port-base"
            );
        }
        Ok(())
    }
}
