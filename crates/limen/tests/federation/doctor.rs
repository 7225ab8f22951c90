//! A federation that is well, and what the doctor says when it is not.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use limen_api::DnsZone;
use limen_core::membership::AccountName;
use limen_sync::ObjectApi;
use serde_json::{Value, json};

use crate::processes::{ApiServer, config_map, eventually};

fn report(hub: &ApiServer) -> (bool, Value) {
    let said = hub.limen(&["doctor", "-o", "json", "--resolver", "127.0.0.1:1"]);
    let value = serde_json::from_str(&said.out());
    (said.succeeded(), value.unwrap_or_else(|error| panic!("{error}: {}", said.all())))
}

/// The verdict of a check.
fn verdict<'a>(report: &'a Value, about: &str, check: &str) -> Option<&'a Value> {
    let checks = report["checks"].as_array()?;
    checks.iter().find(|one| one["about"] == about && one["check"] == check)
}

async fn eventually_finds(hub: &ApiServer, about: &str, check: &str, wanted: &str) -> Value {
    let mut found = Value::Null;
    eventually(&format!("{about}, {check}"), async || {
        let (_, report) = report(hub);
        let fits = verdict(&report, about, check).is_some_and(|one| one["verdict"] == wanted);
        found = report;
        (fits, found.to_string())
    })
    .await;
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_finds_what_is_broken_and_says_what_to_do() {
    let (hub, a, mut b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    hub.join(&[&a, &b]).await;
    for member in ["member a", "member b"] {
        eventually_finds(&hub, member, "api", "ok").await;
    }
    let (well, report) = self::report(&hub);
    assert!(well && report["faults"] == 0, "{report}");
    for (about, check) in [
        ("hub", "answers"),
        ("hub", "certificate"),
        ("hub", "credential"),
        ("hub", "clock"),
        ("hub", "definitions"),
        ("member a", "credential"),
        ("member a", "rights"),
        ("member a", "version"),
        ("member b", "clock"),
        ("roots", "leaves"),
    ] {
        let found = verdict(&report, about, check);
        assert!(found.is_some_and(|one| one["verdict"] == "ok"), "{about} {check}: {report}");
    }

    // A member loses its rights, another one dies, a root is held back.
    let maps: Api<ConfigMap> = hub.config_maps().await;
    maps.create(&PostParams::default(), &config_map("kept", "1")).await.unwrap();
    eventually("the map is everywhere", async || {
        let said = hub.limen(&["status", "configmap/kept"]);
        (said.out().contains("synced 2/2"), said.all())
    })
    .await;
    let nowhere = json!([{"key": "name", "operator": "in", "values": ["nowhere"]}]).to_string();
    let nowhere = json!({"metadata": {"annotations": {
        "federation.alpha.kubernetes.io/cluster-selector": nowhere}}});
    maps.patch("kept", &PatchParams::default(), &Patch::Merge(nowhere)).await.unwrap();
    let held = eventually_finds(&hub, "root default/configmap/kept", "held", "fault").await;
    let advice = &verdict(&held, "root default/configmap/kept", "held").unwrap()["advice"];
    assert!(advice.as_str().unwrap().contains("limen release configmap/kept -n default"));
    let bindings: Api<ClusterRoleBinding> = Api::all(a.client().await);
    let hub_id = limen_hub::hub_id(&ObjectApi::new(hub.client().await)).await.unwrap();
    let account = AccountName::of_hub(&hub_id);
    bindings.delete(account.as_str(), &DeleteParams::default()).await.unwrap();
    let rights = eventually_finds(&hub, "member a", "rights", "fault").await;
    let rights = verdict(&rights, "member a", "rights").unwrap();
    assert!(rights["found"].as_str().unwrap().contains("may not"), "{rights}");
    b.kill();
    eventually_finds(&hub, "member b", "api", "fault").await;
    let said = hub.limen(&["doctor", "--resolver", "127.0.0.1:1"]);
    assert!(!said.succeeded() && said.err().contains("faults"), "{}", said.all());
    let line = said.out().lines().find(|line| line.starts_with("member b")).unwrap().to_owned();
    assert!(line.contains("fault") && line.contains("does not answer the hub"), "{line}");
}

/// A DNS server of the hub, which ends with the test.
struct NameServer(std::process::Child);

impl NameServer {
    fn start(hub: &ApiServer, port: u16) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_limen"))
            .args(["dns", "--listen", &format!("127.0.0.1:{port}"), "--hub-kubeconfig"])
            .arg(hub.kubeconfig())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let server = Self(process);
        assert!(line.contains("is ready"), "{line}");
        std::thread::spawn(move || output.read_to_string(&mut String::new()));
        server
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_asks_the_servers_of_a_zone_and_the_world() {
    let hub = ApiServer::hub();
    let zones: Api<DnsZone> = Api::default_namespaced(hub.client().await);
    let zone: DnsZone = serde_json::from_value(json!({
        "apiVersion": "limen.dev/v1alpha1", "kind": "DnsZone", "metadata": {"name": "shop"},
        "spec": {"zone": "shop.test", "nameservers": [
            {"name": "ns1.shop.test", "addresses": ["127.0.0.1"]}]}}))
    .unwrap();
    eventually("the zone is taken", async || {
        let made = zones.create(&PostParams::default(), &zone).await;
        (made.is_ok(), format!("{made:?}"))
    })
    .await;
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (port_text, server) = (port.to_string(), format!("127.0.0.1:{port}"));
    // The server of the zone stands for the world, too.
    let arguments = ["doctor", "-o", "json", "--dns-port", &port_text, "--resolver", &server];
    let verdicts = || {
        let report: Value = serde_json::from_str(&hub.limen(&arguments).out()).unwrap();
        ["answers", "delegation"].map(|check| {
            let found = verdict(&report, "zone shop.test", check);
            found.map(|one| one["verdict"].clone()).unwrap_or_default()
        })
    };
    assert_eq!(verdicts(), ["fault", "warning"], "nobody serves it yet");
    let _server = NameServer::start(&hub, port);
    eventually("the zone is served and delegated", async || {
        let found = verdicts();
        (found == ["ok", "ok"], format!("{found:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_is_gone_is_a_fault_too() {
    let mut hub = ApiServer::member();
    let (well, report) = report(&hub);
    let missing = verdict(&report, "hub", "definitions").unwrap();
    assert!(!well && missing["verdict"] == "fault", "an API without Limen is no hub: {report}");
    hub.kill();
    let (well, report) = self::report(&hub);
    assert!(!well && report["faults"] == 1, "{report}");
    let found = report["checks"][0]["found"].as_str().unwrap();
    assert!(found.contains("no hub answers"), "{found}");
}
