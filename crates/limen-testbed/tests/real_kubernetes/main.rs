//! The testbed against the real binaries. Needs `--features e2e` and the
//! binaries of `tools/kube-assets`; without them these tests fail.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    networking::v1::Ingress,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use limen_testbed::ControlPlane;
use serde_json::json;
use tokio::time::sleep;

mod etcd;
mod etcd_client;

#[tokio::test]
async fn control_plane_serves_the_api_and_leaves_nothing_behind() -> Result<()> {
    let start = Instant::now();
    let cluster = ControlPlane::builder().with_controller_manager().start().await?;
    eprintln!("control plane with controller manager ready after {:?}", start.elapsed());
    let client = client(&cluster).await?;

    let version = client.apiserver_version().await?;
    assert!(version.git_version.starts_with("v1."), "{version:?}");

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}}))?;
    namespaces.create(&PostParams::default(), &shop).await?;
    assert_eq!(namespaces.get("shop").await?.name_any(), "shop");

    let ingresses: Api<Ingress> = Api::namespaced(client.clone(), "shop");
    let created = ingresses.create(&PostParams::default(), &ingress("front")?).await?;
    assert_eq!(ingresses.get("front").await?, created);

    let accounts: Api<ServiceAccount> = Api::namespaced(client, "shop");
    let start = Instant::now();
    while accounts.get_opt("default").await?.is_none() {
        ensure!(start.elapsed() < Duration::from_secs(60), "the controllers do nothing");
        sleep(Duration::from_millis(100)).await;
    }
    eprintln!("default service account there after {:?}", start.elapsed());

    let listed = kubectl(&cluster, &["get", "ingress", "-n", "shop", "-o", "name"]).await?;
    assert_eq!(listed, "ingress.networking.k8s.io/front\n");

    let mut programs = BTreeMap::new();
    programs.insert("etcd", cluster.etcd().pid().context("etcd runs")?);
    programs.insert("kube-apiserver", cluster.apiserver_pid());
    programs
        .insert("kube-controller", cluster.controller_manager_pid().context("controllers run")?);
    for (name, pid) in &programs {
        // The kernel keeps the first 15 characters of a name.
        assert!(fs::read_to_string(format!("/proc/{pid}/comm"))?.starts_with(name));
    }
    let ports = [port_of(cluster.url())?, port_of(cluster.etcd().endpoint())?];
    let folders = [cluster.data_dir().to_owned(), cluster.etcd().data_dir().to_owned()];

    let start = Instant::now();
    drop(cluster);
    eprintln!("control plane gone after {:?}", start.elapsed());

    for (name, pid) in programs {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{name} still runs as {pid}");
    }
    for port in ports {
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "{port} is open");
    }
    for folder in folders {
        assert!(!folder.exists(), "{} is still there", folder.display());
    }
    Ok(())
}

#[tokio::test]
async fn api_comes_back_after_its_etcd_was_killed() -> Result<()> {
    let start = Instant::now();
    let mut cluster = ControlPlane::start().await?;
    eprintln!("control plane ready after {:?}", start.elapsed());
    kubectl(&cluster, &["create", "namespace", "shop"]).await?;

    cluster.etcd_mut().kill().await?;
    cluster.etcd_mut().restart().await?;

    let start = Instant::now();
    // Repeated until one is confirmed, so it must be a write that may be repeated.
    let write = ["label", "namespace", "shop", "open=yes", "--overwrite"];
    while let Err(error) = kubectl(&cluster, &write).await {
        ensure!(start.elapsed() < Duration::from_secs(60), "no write succeeds: {error:#}");
    }
    eprintln!("first write after etcd's restart took {:?}", start.elapsed());
    let found = kubectl(&cluster, &["get", "namespaces", "-l", "open=yes", "-o", "name"]).await?;
    assert_eq!(found, "namespace/shop\n");
    Ok(())
}

async fn client(cluster: &ControlPlane) -> Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(cluster.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn kubectl(cluster: &ControlPlane, args: &[&str]) -> Result<String> {
    let output = cluster.kubectl().args(args).output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn ingress(name: &str) -> Result<Ingress> {
    let backend = json!({"service": {"name": "front", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"rules": [{"host": "shop.example", "http": {"paths": [path]}}]},
    }))?)
}

fn port_of(url: &str) -> Result<u16> {
    Ok(url.rsplit_once(':').context("an address with a port")?.1.parse()?)
}
