//! Hubs and members as processes, which end with the test.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tempfile::TempDir;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(120);

/// An API server in a process of its own.
pub(crate) struct ApiServer {
    process: Option<Child>,
    folder: TempDir,
    /// 0 until it is started for the first time.
    port: u16,
    /// Federates nothing: a member.
    api_only: bool,
}

impl ApiServer {
    /// A hub.
    pub(crate) fn hub() -> Self {
        Self::start(false)
    }

    /// A member.
    pub(crate) fn member() -> Self {
        Self::start(true)
    }

    fn start(api_only: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { process: None, folder, port: 0, api_only };
        server.start_again();
        server
    }

    /// Starts it where it was.
    pub(crate) fn start_again(&mut self) {
        self.run(Command::new(env!("CARGO_BIN_EXE_limen")));
    }

    /// Starts it where it was, with files that can grow to this many bytes at most.
    pub(crate) fn start_with_little_room(&mut self, bytes: u64) {
        let mut shell = Command::new("sh");
        let limit = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512);
        shell.args(["-c", &limit, env!("CARGO_BIN_EXE_limen")]);
        self.run(shell);
    }

    fn run(&mut self, mut command: Command) {
        command.args(["hub", "--listen", &format!("127.0.0.1:{}", self.port), "--data-dir"]);
        command.arg(self.folder.path());
        if self.api_only {
            command.arg("--api-only");
        }
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        self.process = Some(process);
        let port = line.strip_prefix("The hub is ready at https://127.0.0.1:");
        let port = port.and_then(|rest| rest.split(' ').next()?.parse().ok());
        self.port = port.unwrap_or_else(|| panic!("{line}"));
        // What it says later must not fill the pipe.
        std::thread::spawn(move || output.read_to_string(&mut String::new()));
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Ends it as a person would.
    pub(crate) fn stop(&mut self) {
        self.signal("-TERM");
        self.process.take().unwrap().wait().unwrap();
    }

    /// Makes it hang, or go on.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Another one with all that this one has at the moment, to be started in its place.
    #[cfg(feature = "e2e")]
    pub(crate) fn copy(&self) -> Self {
        assert!(self.process.is_none(), "a store that is written to cannot be copied");
        let folder = tempfile::tempdir().unwrap();
        copy_folder(self.folder.path(), folder.path());
        Self { process: None, folder, port: self.port, api_only: self.api_only }
    }

    /// How much its store takes on disk.
    pub(crate) fn store_size(&self) -> u64 {
        std::fs::metadata(self.folder.path().join("store.redb")).unwrap().len()
    }

    pub(crate) async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }

    pub(crate) async fn config_maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client().await)
    }

    /// Runs a command against this hub.
    pub(crate) fn limen(&self, arguments: &[&str]) -> Said {
        limen(&self.kubeconfig(), arguments)
    }

    /// Lets members in, named a, b and so on, perhaps right after the hub was started.
    pub(crate) async fn join(&self, members: &[&ApiServer]) {
        for (member, name) in members.iter().zip(["a", "b", "c"]) {
            join(&self.kubeconfig(), name, &member.kubeconfig());
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Runs a command against the hub of a kubeconfig.
pub(crate) fn limen(hub: &Path, arguments: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_limen"))
        .args(arguments)
        .env("KUBECONFIG", hub)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Said(output)
}

/// Lets a member in, with its name as a label.
pub(crate) fn join(hub: &Path, name: &str, member: &Path) {
    let label = format!("name={name}");
    let arguments = ["join", name, "--kubeconfig", member.to_str().unwrap(), "--label", &label];
    let said = limen(hub, &arguments);
    assert!(said.succeeded(), "{}", said.all());
}

/// Copies a folder with all that is in it.
#[cfg(feature = "e2e")]
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// What a command said.
pub(crate) struct Said(Output);

impl Said {
    pub(crate) fn succeeded(&self) -> bool {
        self.0.status.success()
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.out(), self.err())
    }
}

/// Waits until something holds, and says what it was last when it never does.
pub(crate) async fn eventually(what: &str, mut check: impl AsyncFnMut() -> (bool, String)) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (fits, found) = check().await;
        if fits {
            return;
        }
        assert!(Instant::now() < deadline, "{what} is still: {found}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until a server has these ConfigMaps.
pub(crate) async fn eventually_holds(maps: &Api<ConfigMap>, names: &[String]) {
    eventually("what the member holds", async || {
        let held = maps.list_metadata(&Default::default()).await;
        let Ok(held) = held else { return (false, format!("{held:?}")) };
        let held: Vec<_> = held.items.into_iter().filter_map(|map| map.metadata.name).collect();
        let missing: Vec<_> = names.iter().filter(|name| !held.contains(name)).collect();
        (missing.is_empty(), format!("without {missing:?}"))
    })
    .await;
}

pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": value}})).unwrap()
}
