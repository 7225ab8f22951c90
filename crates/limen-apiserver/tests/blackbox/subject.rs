//! The servers that are compared, and how to reach them.

use std::{
    any::Any,
    env, fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use limen_testbed::ControlPlane;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{process::Command, time::sleep};

const READY_LIMIT: Duration = Duration::from_secs(60);

/// A running API server.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// TLS as the admin of the kubeconfig.
    pub(crate) admin: Arc<ClientConfig>,
    /// TLS as nobody.
    pub(crate) anonymous: Arc<ClientConfig>,
    kubeconfig: Value,
    _server: Server,
}

/// What runs as long as it is kept.
type Server = Box<dyn Any + Send + Sync>;

impl Subject {
    pub(crate) async fn start(kind: &str) -> Result<Self> {
        match kind {
            "real" => start_real().await.context("start the real control plane"),
            "limen" => start_limen().await.context("start limen hub"),
            _ => bail!("LIMEN_BLACKBOX_SUBJECTS names {kind}, there are `real` and `limen`"),
        }
    }

    fn new(name: &str, kubeconfig: &str, server: Server) -> Result<Self> {
        let kubeconfig: Value = serde_saphyr::from_str(kubeconfig).context("read kubeconfig")?;
        let text = |pointer: &str| {
            let value = kubeconfig.pointer(pointer).and_then(Value::as_str);
            value.with_context(|| format!("the kubeconfig has no {pointer}"))
        };
        let pem = |pointer: &str| anyhow::Ok(BASE64_STANDARD.decode(text(pointer)?)?);
        let address = text("/clusters/0/cluster/server")?
            .trim_start_matches("https://")
            .parse()
            .context("the kubeconfig's server is not https://ADDRESS:PORT")?;
        let mut roots = RootCertStore::empty();
        let authority = pem("/clusters/0/cluster/certificate-authority-data")?;
        for certificate in CertificateDer::pem_slice_iter(&authority) {
            roots.add(certificate?)?;
        }
        let roots = Arc::new(roots);
        let certificates = pem("/users/0/user/client-certificate-data")?;
        let certificates =
            CertificateDer::pem_slice_iter(&certificates).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&pem("/users/0/user/client-key-data")?)?;
        let tls = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider);
            let builder = builder.with_safe_default_protocol_versions()?;
            anyhow::Ok(builder.with_root_certificates(roots.clone()))
        };
        Ok(Self {
            name: name.to_owned(),
            address,
            admin: Arc::new(tls()?.with_client_auth_cert(certificates, key)?),
            anonymous: Arc::new(tls()?.with_no_client_auth()),
            kubeconfig,
            _server: server,
        })
    }

    /// The kubeconfig with a namespace to work in; without the admin's
    /// certificate if so wished.
    pub(crate) fn kubeconfig_for(&self, namespace: &str, with_certificate: bool) -> String {
        let mut config = self.kubeconfig.clone();
        config["contexts"][0]["context"]["namespace"] = json!(namespace);
        if !with_certificate {
            config["users"][0]["user"] = json!({});
        }
        config.to_string()
    }
}

async fn start_real() -> Result<Subject> {
    // Limen collects garbage and ends namespaces by itself, and runs no
    // workloads; the real one does as much with these.
    let controllers = [
        "garbage-collector-controller",
        "namespace-controller",
        "clusterrole-aggregation-controller",
    ];
    let plane = ControlPlane::builder().with_controllers(&controllers).start().await?;
    let kubeconfig = plane.kubeconfig().to_owned();
    Subject::new("real", &kubeconfig, Box::new(plane))
}

async fn start_limen() -> Result<Subject> {
    let binary = limen_binary()?;
    let folder = tempfile::Builder::new().prefix("limen-blackbox-hub-").tempdir()?;
    let data = folder.path().join("data");
    let log = folder.path().join("log");
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let output = fs::File::create(&log)?;
    let mut process = Command::new(&binary)
        .args(["hub", "--api-only"])
        .arg("--data-dir")
        .arg(&data)
        .arg("--listen")
        .arg(format!("127.0.0.1:{port}"))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("run {}", binary.display()))?;
    let kubeconfig = data.join("kubeconfig");
    let start = Instant::now();
    loop {
        let said = || fs::read_to_string(&log).unwrap_or_default();
        if let Some(status) = process.try_wait()? {
            bail!("{} ended with {status}:\n{}", binary.display(), said());
        }
        if kubeconfig.exists() && std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        ensure!(start.elapsed() < READY_LIMIT, "not ready after {READY_LIMIT:?}:\n{}", said());
        sleep(Duration::from_millis(50)).await;
    }
    let text = fs::read_to_string(&kubeconfig)?;
    Subject::new("limen", &text, Box::new((process, folder)))
}

/// `LIMEN_BIN`, or what cargo built next to this test.
fn limen_binary() -> Result<PathBuf> {
    if let Some(path) = env::var_os("LIMEN_BIN").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "LIMEN_BIN={} is not a file", path.display());
        return Ok(path);
    }
    let test = env::current_exe()?;
    let target = test.ancestors().nth(3).context("the test is in target/PROFILE/deps")?;
    let places = ["debug", "release"].map(|profile| target.join(profile).join("limen"));
    let found = places.iter().find(|path| path.is_file());
    found.cloned().with_context(|| {
        format!("no limen binary in {} (build it first, or set LIMEN_BIN)", target.display())
    })
}

/// The folders of kubectl and of the Python client, for the PATH of commands.
pub(crate) async fn tools() -> Result<String> {
    let kubectl = ask("kube-assets", "kubectl").await?;
    let python = ask("python-client", "bin/python").await?;
    Ok(format!("{}:{}/bin:/usr/bin:/bin", kubectl.display(), python.display()))
}

/// Where `tools/NAME` puts things, which must have `needed` in it.
async fn ask(name: &str, needed: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools").join(name);
    let answer = Command::new(&script).arg("--where").output().await;
    let answer = answer.with_context(|| format!("run {}", script.display()))?;
    let folder = PathBuf::from(String::from_utf8(answer.stdout)?.trim_end());
    let found = folder.join(needed);
    ensure!(found.exists(), "no {}: run tools/{name} first", found.display());
    Ok(folder)
}
