//! The dashboard of a hub: where it is served, and by which certificate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::Client;
use limen_apiserver::Server;
use limen_dashboard::{CertificateFiles, Dashboard, DashboardOptions, Recognised, Tls};

use crate::connection::config;

/// Whether and how to serve the dashboard.
#[derive(Args)]
#[command(next_help_heading = "Dashboard")]
pub(super) struct DashboardFlags {
    /// Serve the dashboard here: over TLS with the hub's own certificate, on loopback over plain HTTP
    #[arg(long, value_name = "ADDR")]
    dashboard: Option<SocketAddr>,

    /// Serve it with this certificate instead, also on loopback; it may be renewed meanwhile
    #[arg(long, value_name = "FILE", requires_all = ["dashboard", "dashboard_key"])]
    dashboard_cert: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "dashboard_cert")]
    dashboard_key: Option<PathBuf>,
}

/// A dashboard that is served.
pub(super) struct Served {
    dashboard: Dashboard,
    scheme: &'static str,
    /// The certificate is of an authority that no browser knows.
    own_authority: bool,
}

impl DashboardFlags {
    /// The address that the hub's own certificate has to be good for.
    pub(super) fn name(&self) -> Option<String> {
        let listen = self.dashboard.filter(|listen| !listen.ip().is_unspecified());
        listen.map(|listen| listen.ip().to_string())
    }

    /// Shows a hub, if that is wanted. Without a server of ours the hub is somebody's Kubernetes.
    pub(super) async fn serve(
        &self,
        kubeconfig: &PathBuf,
        server: Option<&Server>,
    ) -> Result<Option<Served>> {
        let Some(listen) = self.dashboard else { return Ok(None) };
        let hub = config(Some(kubeconfig), None).await?;
        let (tls, own_authority) = self.tls(listen, server)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let dashboard = Dashboard::start(DashboardOptions { listen, hub, play: None, tls }).await;
        let dashboard = dashboard.with_context(|| {
            format!("cannot serve the dashboard at {listen}; give another address with --dashboard")
        })?;
        Ok(Some(Served { dashboard, scheme, own_authority }))
    }

    fn tls(&self, listen: SocketAddr, server: Option<&Server>) -> Result<(Option<Tls>, bool)> {
        let own = server.map(of_hub);
        if let (Some(certificate), Some(key)) =
            (self.dashboard_cert.clone(), self.dashboard_key.clone())
        {
            let tls = CertificateFiles { certificate, key }.tls(own);
            return Ok((Some(tls.context("cannot serve the dashboard")?), false));
        }
        if listen.ip().is_loopback() {
            return Ok((None, false));
        }
        if own.is_none() {
            bail!(
                "people would log in to the dashboard at {listen} over plain HTTP; give --dashboard-cert and --dashboard-key, or an address on loopback"
            );
        }
        Ok((own, true))
    }
}

/// As the hub speaks TLS, to people whom it knows by their certificates.
fn of_hub(server: &Server) -> Tls {
    let knows = server.certified();
    let recognise = move |certificate: &[u8]| {
        let certified = knows(certificate)?;
        let client = Client::new(certified.door, "default");
        Some(Recognised { name: certified.name, until: certified.until, client })
    };
    Tls { config: server.tls().clone(), recognise: Some(Arc::new(recognise)) }
}

impl Served {
    /// Where it is and how to get in, for people.
    pub(super) fn lines(&self, folder: Option<&Path>) -> Vec<String> {
        let address = self.dashboard.address();
        let host = match address.ip().is_unspecified() {
            true => format!("localhost:{}", address.port()),
            false => address.to_string(),
        };
        let mut lines =
            vec![format!("{}://{host}    # the dashboard; log in with a token", self.scheme)];
        if let (true, Some(folder)) = (self.own_authority, folder) {
            lines.push(format!(
                "    # its certificate is of the hub's own authority; browsers that are given {} trust it",
                folder.join("pki").join("ca.crt").display()
            ));
        }
        lines
    }
}
