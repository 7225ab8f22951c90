//! Which port is whose, and whether it is free.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

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

    pub(crate) fn dns(&self) -> u16 {
        self.nth(4)
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
            (here(self.dns()), "DNS by TCP".to_owned()),
            (here(self.admin()), "admin".to_owned()),
        ];
        for (index, place) in topology.clusters.iter().enumerate() {
            uses.push((here(self.api(index)), format!("the API of {}", place.name)));
            let ingress = limen_playground::ingress_address(index);
            let ingress = SocketAddr::from((ingress, self.ingress(index)));
            uses.push((ingress, format!("the ingress of {}", place.name)));
        }
        let by_udp = (here(self.dns()), "DNS by UDP".to_owned());
        let mut tried = vec![(UdpSocket::bind(by_udp.0).map(drop), by_udp)];
        tried.extend(uses.into_iter().map(|one| (TcpListener::bind(one.0).map(drop), one)));
        judge(tried)
    }
}

/// An attempt to take an address, and what for.
type Attempt = (std::io::Result<()>, (SocketAddr, String));

/// Says what is wrong with the addresses that could not be taken, if there are any.
fn judge(attempts: Vec<Attempt>) -> Result<()> {
    let mut taken = Vec::new();
    for (outcome, (address, whose)) in attempts {
        match outcome {
            Ok(()) => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(port: u16, error: Option<ErrorKind>) -> Attempt {
        let outcome = error.map_or(Ok(()), |kind| Err(kind.into()));
        (outcome, (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), format!("number {port}")))
    }

    #[test]
    fn who_may_not_listen_is_told_what_to_choose() {
        let attempts = [attempt(80, Some(ErrorKind::PermissionDenied)), attempt(81, None)];
        let error = judge(attempts.into()).unwrap_err().to_string();
        assert!(error.starts_with("no permission to listen on port 80 (for number 80)"), "{error}");
        assert!(error.contains("--port-base"), "{error}");
    }

    #[test]
    fn some_of_many_that_are_taken_are_named() {
        let taken = |port| attempt(port, Some(ErrorKind::AddrInUse));
        let error = judge((1..=5).map(taken).collect()).unwrap_err().to_string();
        let expected =
            "taken: port 1 (for number 1), 2 (for number 2), 3 (for number 3) and 2 more";
        assert!(error.starts_with(expected), "{error}");
        assert!(judge(vec![attempt(1, None)]).is_ok());
    }
}
