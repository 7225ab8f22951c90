//! One etcd server, alone in its cluster.
//!
//! It syncs to disk as in production unless told otherwise, so that a test which
//! kills it and starts it again sees what a real crash would leave.

use std::path::{Path, PathBuf};

use crate::{
    ClientTls, Error,
    assets::Assets,
    certificates::Authority,
    folder::Folder,
    ports::start_on_free_ports,
    probe::Probe,
    server::{Program, Server},
};

const NAME: &str = "etcd";

/// A running etcd; dropping it ends the process.
pub struct Etcd {
    server: Server,
    endpoint: String,
    client_tls: Option<ClientTls>,
    data_dir: PathBuf,
    /// Dropped after the server that writes to it.
    _folder: Folder,
}

/// How an etcd is to be started.
#[derive(Clone, Debug, Default)]
pub struct EtcdBuilder {
    tls: bool,
    data_dir: Option<PathBuf>,
    unsafe_no_fsync: bool,
}

impl EtcdBuilder {
    /// Serves clients over TLS only, and only those with a certificate.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Keeps the data in `folder`, and keeps `folder`: a later etcd can go on with it.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Writes without waiting for the disk: faster, and no test of durability.
    #[must_use]
    pub fn unsafe_no_fsync(mut self) -> Self {
        self.unsafe_no_fsync = true;
        self
    }

    /// Starts etcd and waits until it serves reads and writes.
    pub async fn start(self) -> Result<Etcd, Error> {
        let binary = Assets::locate().await?.binary(NAME)?;
        let folder = Folder::new()?;
        let data_dir = self.data_dir.clone().unwrap_or_else(|| folder.file("data"));
        let (tls_args, client_tls) = if self.tls {
            let (args, client_tls) = make_tls(&folder)?;
            (args, Some(client_tls))
        } else {
            (Vec::new(), None)
        };
        let endpoint_on =
            |port| format!("{}://127.0.0.1:{port}", if self.tls { "https" } else { "http" });

        let (server, [port, ..]) = start_on_free_ports(|[client, peer, metrics]| {
            let endpoint = endpoint_on(client);
            let peers = format!("http://127.0.0.1:{peer}");
            let mut args = vec![
                format!("--name={NAME}"),
                format!("--data-dir={}", data_dir.display()),
                format!("--listen-client-urls={endpoint}"),
                format!("--advertise-client-urls={endpoint}"),
                format!("--listen-peer-urls={peers}"),
                format!("--initial-advertise-peer-urls={peers}"),
                format!("--initial-cluster={NAME}={peers}"),
                format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"),
                format!("--unsafe-no-fsync={}", self.unsafe_no_fsync),
            ];
            args.extend_from_slice(&tls_args);
            Ok(Program {
                name: NAME,
                path: binary.clone(),
                args,
                log: folder.file("etcd.log"),
                ready: Probe::Http { port: metrics, path: "/readyz" },
            })
        })
        .await?;
        let endpoint = endpoint_on(port);
        Ok(Etcd { server, endpoint, client_tls, data_dir, _folder: folder })
    }
}

impl Etcd {
    /// Starts a plain etcd with data of its own.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts an etcd with options.
    pub fn builder() -> EtcdBuilder {
        EtcdBuilder::default()
    }

    /// Where clients connect: `http://127.0.0.1:port`, or `https` with TLS.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What a client needs to connect, if this etcd was started with TLS.
    pub fn client_tls(&self) -> Option<&ClientTls> {
        self.client_tls.as_ref()
    }

    /// The folder of its data.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Its process id; none after [`kill`](Self::kill) or [`stop`](Self::stop).
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Ends it with SIGKILL and waits until it is gone.
    pub async fn kill(&mut self) -> Result<(), Error> {
        self.server.kill().await
    }

    /// Ends it with SIGTERM and waits until it is gone.
    pub async fn stop(&mut self) -> Result<(), Error> {
        self.server.stop().await
    }

    /// Starts it again with its ports, certificates and data, after stopping it
    /// if it still runs.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.server.restart().await
    }
}

fn make_tls(folder: &Folder) -> Result<(Vec<String>, ClientTls), Error> {
    let certificates = || {
        let authority = Authority::new("limen-testbed etcd")?;
        Ok((authority.serving()?, authority.client("etcd-client", "limen-testbed")?))
    };
    let (serving, client) =
        certificates().map_err(|source| Error::MakeCertificates { program: NAME, source })?;
    let args = vec![
        "--client-cert-auth".into(),
        folder.flag("--trusted-ca-file", "ca.crt", &client.ca_pem)?,
        folder.flag("--cert-file", "server.crt", &serving.cert_pem)?,
        folder.flag("--key-file", "server.key", &serving.key_pem)?,
    ];
    Ok((args, client))
}
