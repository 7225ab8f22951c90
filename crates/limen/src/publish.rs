//! `limen publish`

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use limen_api::source::{ConfigFiles, Hub, Source};
use limen_cloud::{DnsEndpoints, Place, Rfc2136, Round, Settings};
use limen_core::publish::Limits;
use limen_core::publish::Publisher;
use tokio::signal::unix::{SignalKind, signal};

use crate::gateway::client;
use crate::tsig_key;

/// Publish the names of roots in DNS that others run.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # A primary that takes signed updates: BIND, Knot, ...
  limen publish --hub-kubeconfig ./hub/kubeconfig --zone example.com --owner hub-1 \\
      --rfc2136 ns1.example.com:53 --tsig-key ./publish.key

  # What that would change
  limen publish ... --dry-run

  # Let go of most names at once, which is held back otherwise: the hub might have lost them
  limen publish ... --allow-removal

  # Objects that external-dns publishes wherever it can
  limen publish --hub-kubeconfig ./hub/kubeconfig --zone example.com --owner hub-1 --dns-endpoint

Whose a name is stands in a TXT record beside it, _limen-owner.<name>. Names without one, and those
of other owners who are alive, are left alone. The server must let the key update the zone and
transfer it.")]
pub(crate) struct Publish {
    /// GlobalIngress objects, as a YAML file or a folder of them
    #[arg(long, value_name = "FILE|DIR")]
    config: Option<PathBuf>,

    /// A hub whose GlobalIngress objects are published
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    hub_kubeconfig: Option<PathBuf>,

    /// The zone to publish in; hosts of other zones are left out
    #[arg(long, value_name = "NAME")]
    zone: String,

    /// Who publishes: the same for replicas that do the same, and nobody else's
    #[arg(long, value_name = "NAME")]
    owner: String,

    /// A DNS server that takes updates, with its port
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        requires = "tsig_key",
        conflicts_with = "dns_endpoint"
    )]
    rfc2136: Option<String>,

    /// A file with the key that updates are signed with, from tsig-keygen or keymgr -t
    #[arg(long, value_name = "FILE")]
    tsig_key: Option<PathBuf>,

    /// Write DNSEndpoint objects for external-dns
    #[arg(long)]
    dns_endpoint: bool,

    /// Where DNSEndpoint objects go, if not to the hub
    #[arg(long, value_name = "FILE", requires = "dns_endpoint")]
    endpoint_kubeconfig: Option<PathBuf>,

    /// The namespace of DNSEndpoint objects
    #[arg(long, value_name = "NAME", default_value = limen_api::NAMESPACE)]
    endpoint_namespace: String,

    /// How long answers are remembered where no policy says otherwise, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    ttl: u32,

    /// How long after the last sign of life others may retract what this owner has published
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u32).range(10..))]
    lease: u32,

    /// Print what would be changed, and end
    #[arg(long)]
    dry_run: bool,

    /// Publish once, also where most names would be retracted, print what was changed, and end
    #[arg(long)]
    allow_removal: bool,
}

impl Publish {
    pub(crate) fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.publish())
    }

    async fn publish(self) -> Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (place, settings) = (self.place().await?, self.settings()?);
        match (&self.config, &self.hub_kubeconfig) {
            (Some(files), _) => {
                self.from(
                    place,
                    settings,
                    ConfigFiles(files.clone()),
                    &mut terminate,
                    &mut interrupt,
                )
                .await
            }
            (_, Some(kubeconfig)) => {
                let hub = Hub::for_dns(client(kubeconfig).await?, None);
                self.from(place, settings, hub, &mut terminate, &mut interrupt).await
            }
            _ => bail!("say where names come from: --hub-kubeconfig FILE or --config FILE|DIR"),
        }
    }

    async fn from(
        &self,
        place: Place,
        settings: Settings,
        source: impl Source,
        terminate: &mut tokio::signal::unix::Signal,
        interrupt: &mut tokio::signal::unix::Signal,
    ) -> Result<()> {
        if self.dry_run || self.allow_removal {
            let objects = limen_cloud::first_objects(source).await;
            let objects = objects.map_err(|trouble| anyhow::anyhow!(trouble))?;
            let round = limen_cloud::publish_once(&place, &settings, &objects).await?;
            print(&round, self.dry_run);
            if !round.failed.is_empty() {
                bail!("not published: {}", round.failed.join("; "));
            }
            return Ok(());
        }
        println!("Publishing {} as {}.", settings.publisher.zone, settings.publisher.owner);
        tokio::select! {
            () = limen_cloud::keep_publishing(place, settings, source) => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }

    async fn place(&self) -> Result<Place> {
        if let Some(server) = &self.rfc2136 {
            let path = self.tsig_key.as_ref().context("--rfc2136 needs --tsig-key FILE")?;
            let key = tsig_key::read(path)?;
            return Ok(Place::Rfc2136(Rfc2136 { server: with_port(server), key }));
        }
        if !self.dns_endpoint {
            bail!("say where to publish: --rfc2136 HOST:PORT or --dns-endpoint");
        }
        let kubeconfig = self.endpoint_kubeconfig.as_ref().or(self.hub_kubeconfig.as_ref());
        let kubeconfig = kubeconfig.context("--dns-endpoint needs --endpoint-kubeconfig FILE")?;
        let namespace = self.endpoint_namespace.clone();
        Ok(Place::DnsEndpoints(DnsEndpoints { client: client(kubeconfig).await?, namespace }))
    }

    fn settings(&self) -> Result<Settings> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.owner.is_empty() || self.owner.len() > 40 || !self.owner.bytes().all(allowed) {
            bail!("--owner {:?}: take up to 40 small letters, digits and dashes", self.owner);
        }
        let publisher = Publisher {
            owner: self.owner.clone(),
            zone: self.zone.trim_end_matches('.').to_ascii_lowercase(),
            lease: i64::from(self.lease),
            limits: (!self.allow_removal).then(Limits::default),
        };
        Ok(Settings { publisher, ttl: self.ttl, dry_run: self.dry_run })
    }
}

/// A host with its port; 53 if it has none.
fn with_port(server: &str) -> String {
    if let Ok(address) = server.parse::<std::net::IpAddr>() {
        return std::net::SocketAddr::new(address, 53).to_string();
    }
    let has_port = server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { server.to_owned() } else { format!("{server}:53") }
}

fn print(round: &Round, dry: bool) {
    let (nothing, how) =
        if dry { ("Nothing would be changed.", "would") } else { ("Nothing was changed.", "done") };
    if round.changed.is_empty() {
        println!("{nothing}");
    }
    for change in &round.changed {
        println!("{how}: {change}");
    }
    for lost in &round.overtaken {
        println!("somebody else was faster, run it again: {lost}");
    }
    for remark in &round.remarks {
        println!("note: {remark}");
    }
    if let Some(held) = &round.held {
        println!("held back: {held}; if that is meant, use --allow-removal");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_port_is_asked_at_53() {
        for (server, expected) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5353", "192.0.2.1:5353"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[2001:db8::1]:5353", "[2001:db8::1]:5353"),
            ("ns1.example.com", "ns1.example.com:53"),
        ] {
            assert_eq!(with_port(server), expected);
        }
    }
}
