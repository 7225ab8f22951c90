//! `limen hub` as a process: started, stopped, killed and started again.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

/// A hub that is killed, at the latest, when the test ends.
struct Hub {
    process: Child,
}

impl Hub {
    fn start(folder: &Path) -> Self {
        let mut process =
            command(folder, 0).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("The hub is ready at https://127.0.0.1:"), "{line}");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || output.read_to_string(&mut String::new()));
        Self { process }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(folder: &Path, port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limen"));
    command
        .arg("hub")
        .arg("--data-dir")
        .arg(folder)
        .args(["--listen", &format!("127.0.0.1:{port}")]);
    command
}

async fn config_maps(folder: &Path) -> Api<ConfigMap> {
    let kubeconfig = Kubeconfig::read_from(folder.join("kubeconfig")).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Api::default_namespaced(Client::try_from(config).unwrap())
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": "value"}})).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_objects_survive_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<String> = Vec::new();
    let mut watched: Option<(String, Vec<String>)> = None;
    for round in 0..5 {
        let hub = Hub::start(folder.path());
        let objects = config_maps(folder.path()).await;
        let found = objects.list(&ListParams::default()).await.unwrap();
        let names: Vec<_> =
            found.items.iter().filter_map(|object| object.metadata.name.clone()).collect();
        for name in &acknowledged {
            assert!(names.contains(name), "{name} was acknowledged and is gone");
        }
        if let Some((version, since)) = &watched {
            assert_resumes(&objects, version, since).await;
        }

        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let objects = objects.clone();
                tokio::spawn(async move {
                    let mut written = Vec::new();
                    for n in 0.. {
                        let name = format!("round-{round}-{writer}-{n}");
                        // The server goes away in the middle of this.
                        let (params, object) = (PostParams::default(), config_map(&name));
                        let create = objects.create(&params, &object);
                        match tokio::time::timeout(Duration::from_secs(5), create).await {
                            Ok(Ok(_)) => written.push(name),
                            _ => break,
                        }
                    }
                    written
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(200)).await;
        hub.kill();
        let mut since = Vec::new();
        for writer in writers {
            since.extend(writer.await.unwrap());
        }
        acknowledged.extend(since.iter().cloned());
        watched = Some((found.metadata.resource_version.unwrap(), since));
    }
    assert!(acknowledged.len() > 20, "only {} objects were written", acknowledged.len());
}

/// A watch from before the kill sees everything that was acknowledged since.
async fn assert_resumes(objects: &Api<ConfigMap>, version: &str, since: &[String]) {
    let events = objects.watch(&WatchParams::default(), version).await.unwrap();
    let mut events = std::pin::pin!(events);
    let mut missing: Vec<&String> = since.iter().collect();
    while !missing.is_empty() {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        let event = event.unwrap_or_else(|_| panic!("the watch does not tell of {missing:?}"));
        match event.expect("the watch goes on").unwrap() {
            WatchEvent::Added(object) => {
                missing.retain(|name| Some(*name) != object.metadata.name.as_ref());
            }
            WatchEvent::Error(status) => panic!("{status:?}"),
            _ => {}
        }
    }
}

#[test]
fn a_hub_ends_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut hub = Hub::start(folder.path());
    let id = hub.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(status) = hub.process.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            break;
        }
        assert!(Instant::now() < deadline, "the hub goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_stops_a_hub_from_starting_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let _running = Hub::start(folder.path());
    let other = tempfile::tempdir().unwrap();
    let somebody = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = somebody.local_addr().unwrap().port();
    let cases = [
        (folder.path(), 0, None, "is in use by another process"),
        (other.path(), taken, None, "cannot listen on"),
        (other.path(), 0, Some("--store=mysql=somewhere"), "it must be etcd=URL"),
    ];
    for (folder, port, argument, expected) in cases {
        let output = command(folder, port).args(argument).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(error.starts_with("limen: ") && error.contains(expected), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}
