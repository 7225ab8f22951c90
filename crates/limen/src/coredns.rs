//! `limen dns coredns-config`

use std::net::SocketAddr;

use anyhow::{Result, bail};
use clap::Args;

/// Print what a member's CoreDNS needs to answer for federated Services.
///
/// Clients in the member ask for SERVICE.NAMESPACE.FEDERATION.svc.CLUSTER-DOMAIN. They get
/// the address of the Service in their own cluster while it has ready endpoints there, and the
/// nearest others when it has none.
#[derive(Args)]
#[command(after_help = "\
Example:
  limen dns coredns-config --cluster paris --federation fed --zone example.com \\
      --server 192.0.2.53 >> Corefile")]
pub(crate) struct CorednsConfig {
    /// The member whose CoreDNS it is
    #[arg(long, value_name = "NAME")]
    cluster: String,

    /// The federation, as the DNS servers call it
    #[arg(long, value_name = "NAME")]
    federation: String,

    /// The zone that the names of the federation are in
    #[arg(long, value_name = "NAME")]
    zone: String,

    /// A DNS server of Limen, with or without a port
    #[arg(long, value_name = "ADDR", required = true, value_delimiter = ',')]
    server: Vec<String>,

    /// The port that CoreDNS listens on
    #[arg(long, value_name = "PORT", default_value_t = 53)]
    port: u16,

    /// The domain of the cluster
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    cluster_domain: String,
}

impl CorednsConfig {
    /// Two servers for a Corefile.
    pub(crate) fn stanza(&self) -> Result<String> {
        let Self { cluster, federation, port, .. } = self;
        let zone = self.zone.trim_end_matches('.');
        let domain = self.cluster_domain.trim_end_matches('.');
        for name in [cluster, federation, &zone.to_owned(), &domain.to_owned()] {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
            if name.is_empty() || !name.bytes().all(allowed) {
                bail!("{name:?} is not a DNS name");
            }
        }
        for server in &self.server {
            let is_address =
                server.parse::<std::net::IpAddr>().is_ok() || server.parse::<SocketAddr>().is_ok();
            if !is_address {
                bail!("{server:?} is not an address; CoreDNS forwards to addresses");
            }
        }
        let servers = self.server.join(" ");
        Ok(format!(
            "\
# Services of the federation {federation}, for clients in the cluster {cluster}.
{federation}.svc.{domain}:{port} {{
    errors
    cache 5
    rewrite name suffix .{federation}.svc.{domain}. .{federation}.svc.{cluster}.cluster.{zone}. answer auto
    forward . {servers}
}}
# Names of the federation as everybody else writes them.
{zone}:{port} {{
    errors
    cache 5
    forward . {servers}
}}
"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(server: &str) -> CorednsConfig {
        CorednsConfig {
            cluster: "paris".into(),
            federation: "fed".into(),
            zone: "example.com.".into(),
            server: vec![server.into()],
            port: 53,
            cluster_domain: "cluster.local".into(),
        }
    }

    #[test]
    fn names_of_the_cluster_become_names_of_the_zone() {
        let stanza = config("192.0.2.53").stanza().unwrap();
        let rewrite = "rewrite name suffix .fed.svc.cluster.local. .fed.svc.paris.cluster.example.com. answer auto";
        assert!(stanza.contains(rewrite), "{stanza}");
        assert!(stanza.starts_with("# Services of the federation fed"), "{stanza}");
        assert!(stanza.contains("\nexample.com:53 {\n"), "{stanza}");
    }

    #[test]
    fn what_coredns_would_not_take_is_refused() {
        assert!(config("ns.example.com").stanza().is_err());
        let broken = CorednsConfig { zone: "a }\n.:53 {".into(), ..config("192.0.2.53") };
        assert!(broken.stanza().is_err());
    }
}
