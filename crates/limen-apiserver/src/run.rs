//! A running server: opened, bootstrapped, listening, and stopped in order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use limen_store::Store;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Api, Turns};
use crate::audit::{AuditError, AuditLog};
use crate::auth::pki::{KubeconfigNames, Pki, PkiError, ServingNames};
use crate::auth::{
    Authenticator, Identity, ServingCertificate, StaticTokens, TlsError, TokenIssuer,
    certificate_end, certificate_identity, server_config,
};
use crate::controllers;
use crate::error::ApiError;
use crate::flow::{Flow, Limits};
use crate::in_process::InProcess;
use crate::metrics::Metrics;
use crate::rbac::Rbac;
use crate::registry::Registry;
use crate::resource::ResourceType;

/// How to run a server.
pub struct ServerOptions {
    /// Where certificates and the kubeconfig are kept; the folder must exist.
    pub data_dir: PathBuf,
    /// The address to serve on; port 0 picks one.
    pub listen: SocketAddr,
    /// Where objects are kept.
    pub store: Arc<dyn Store>,
    /// Names and addresses that the serving certificate has besides the usual ones.
    pub extra_names: Vec<String>,
    /// A file of tokens that are known from the start.
    pub token_file: Option<PathBuf>,
    /// A file to log requests to.
    pub audit_log: Option<PathBuf>,
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The certificates could not be made or read.
    #[error(transparent)]
    Certificates(#[from] PkiError),
    /// The address could not be taken.
    #[error(
        "cannot listen on {address}: {error}; is another server running there? Choose another one with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The audit log could not be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The token file could not be read.
    #[error("the token file {} cannot be used: {reason}", path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The objects that every server has could not be made.
    #[error("cannot set up the first objects: {0}")]
    Bootstrap(#[from] ApiError),
}

/// Who tokens of service accounts are by and for.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How often to see whether the serving certificate is to be renewed.
const RENEWAL: Duration = Duration::from_secs(12 * 3600);

/// Keeps the serving certificate fresh while the server runs.
async fn renew(
    folder: PathBuf,
    names: ServingNames,
    certificate: Arc<ServingCertificate>,
    stopping: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(RENEWAL) => {}
        }
        match Pki::open(&folder, &names, jiff::Timestamp::now()) {
            Ok(pki) => {
                if let Err(error) = certificate.swap(pki.serving()) {
                    tracing::error!(%error, "the serving certificate could not be replaced");
                }
            }
            Err(error) => tracing::error!(%error, "the serving certificate could not be renewed"),
        }
    }
}

fn read_tokens(path: Option<&Path>) -> Result<StaticTokens, StartError> {
    let Some(path) = path else { return Ok(StaticTokens::default()) };
    let refuse = |reason: String| StartError::Tokens { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    StaticTokens::parse(&text).map_err(|error| refuse(error.to_string()))
}

/// Somebody who has shown a client certificate.
pub struct Certified {
    /// Their name.
    pub name: String,
    /// When the certificate ends, in seconds since 1970.
    pub until: i64,
    /// A way into the API that is theirs.
    pub door: InProcess,
}

/// A running server.
pub struct Server {
    api: Arc<Api>,
    url: String,
    kubeconfig: PathBuf,
    tls: Arc<ServerConfig>,
    stopping: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    /// Requests from within the process.
    visits: TaskTracker,
}

impl Server {
    /// Starts a server; it is ready when this returns.
    pub async fn start(options: ServerOptions) -> Result<Self, StartError> {
        Self::start_with(options, crate::kinds::builtin_types()).await
    }

    /// Starts a server of a cluster whose pods have loopback addresses, which EndpointSlices may
    /// not have elsewhere.
    pub async fn start_on_loopback(options: ServerOptions) -> Result<Self, StartError> {
        let mut types = crate::kinds::builtin_types();
        crate::kinds::allow_loopback(&mut types);
        Self::start_with(options, types).await
    }

    async fn start_with(
        options: ServerOptions,
        types: Vec<ResourceType>,
    ) -> Result<Self, StartError> {
        let ServerOptions { data_dir, listen, store, extra_names, token_file, audit_log } = options;
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|error| StartError::Listen { address: listen, error })?;
        let address =
            listener.local_addr().map_err(|error| StartError::Listen { address: listen, error })?;
        let now = jiff::Timestamp::now();
        let serving_names = ServingNames::new(address.ip(), extra_names);
        let folder = data_dir.join("pki");
        let pki = Pki::open(&folder, &serving_names, now)?;
        let (tls, certificate) = server_config(pki.ca_pem(), pki.serving())?;
        let audiences = vec![ISSUER.to_owned()];
        let authenticator = Authenticator {
            static_tokens: read_tokens(token_file.as_deref())?,
            issuer: Arc::new(TokenIssuer::new(pki.signing_key()?, ISSUER, audiences)),
            anonymous: true,
        };
        let audit = audit_log.as_deref().map(AuditLog::open).transpose()?;
        let stopping = CancellationToken::new();
        let api = Arc::new(Api {
            store,
            registry: Registry::new(types),
            definitions: tokio::sync::Mutex::default(),
            rbac: ArcSwap::from_pointee(Rbac::default()),
            access_is_stale: tokio::sync::Mutex::new(true),
            authenticator,
            store_answered: tokio::sync::Mutex::default(),
            turns: Turns::new(),
            flow: Flow::new(&Limits::default()),
            audit,
            metrics: Metrics::new(),
            stopping: stopping.clone(),
            address: address.to_string(),
        });
        controllers::bootstrap(&api).await?;
        let mut tasks = controllers::start(&api);

        let url = format!("https://{address}");
        let kubeconfig = data_dir.join("kubeconfig");
        let names = KubeconfigNames { cluster: "limen", user: "limen-admin", context: "limen" };
        pki.write_kubeconfig(&kubeconfig, &url, &names)?;
        let tls = Arc::new(tls);
        let serve = crate::server::serve(api.clone(), listener, tls.clone(), stopping.clone());
        tasks.push(tokio::spawn(serve));
        tasks.push(tokio::spawn(renew(folder, serving_names, certificate, stopping.clone())));
        Ok(Self { api, url, kubeconfig, tls, stopping, tasks, visits: TaskTracker::new() })
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The kubeconfig of its administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A way into the API without a socket, for a user of this process. The user needs no
    /// credential, and may do what the access rules let them and their groups do.
    pub fn in_process(&self, user: &str, groups: &[&str]) -> InProcess {
        let identity = Identity::new(user, groups).authenticated();
        InProcess::new(Arc::downgrade(&self.api), self.visits.clone(), identity)
    }

    /// How it speaks TLS, for whoever serves something else beside it: with the same certificate,
    /// which is renewed, to clients with a certificate of the server's authority or none.
    pub fn tls(&self) -> &Arc<ServerConfig> {
        &self.tls
    }

    /// Says whom a client certificate (DER) names that a handshake of [`tls`](Self::tls) has
    /// verified, if anybody. What says so does not keep the server alive.
    pub fn certified(&self) -> impl Fn(&[u8]) -> Option<Certified> + Send + Sync + use<> {
        let (api, visits) = (Arc::downgrade(&self.api), self.visits.clone());
        move |certificate| {
            let identity = certificate_identity(certificate)?;
            Some(Certified {
                name: identity.name.clone(),
                until: certificate_end(certificate)?,
                door: InProcess::new(api.clone(), visits.clone(), identity),
            })
        }
    }

    /// Ends watches, lets requests finish, and returns when nothing is going on any more.
    pub async fn stop(self) {
        self.stopping.cancel();
        for task in self.tasks {
            // A task that panicked has nothing left to finish.
            let _ = task.await;
        }
        self.visits.close();
        let _ = tokio::time::timeout(crate::server::FAREWELL, self.visits.wait()).await;
    }
}
