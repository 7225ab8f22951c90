//! What people submit to a member becomes pods that answer.

use std::time::{Duration, Instant};

use limen_core::federated::ObjectId;
use limen_playground::{Behaviour, Member, MemberOptions, Topology, Trouble};
use limen_sync::ObjectApi;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    member: Member,
    _folder: TempDir,
}

impl Rig {
    /// A member; tests that run at the same time have different numbers.
    async fn start(number: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let member = Member::start(MemberOptions {
            place: Topology::of(1).unwrap().clusters.remove(0),
            folder: folder.path().to_owned(),
            number,
            api: ([127, 0, 0, 1], 0).into(),
            ingress_port: 0,
            one_way: Duration::ZERO,
        })
        .await
        .unwrap();
        Self { member, _folder: folder }
    }

    fn api(&self) -> ObjectApi {
        ObjectApi::new(self.member.client().clone())
    }

    async fn create(&self, object: Value) {
        let kind = id(object["kind"].as_str().unwrap(), "").kind;
        self.api().create(&kind, &object).await.unwrap();
    }

    /// Waits until an object fits.
    async fn until(&self, kind: &str, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.api().get(&id(kind, name)).await.unwrap().unwrap_or_default();
            if fits(&found) {
                return found;
            }
            assert!(Instant::now() < deadline, "{kind} {name} is still {found:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn pods(&self) -> Vec<Value> {
        self.api().list(&id("Pod", "").kind, "").await.unwrap().0
    }

    /// The answer of the way in; nothing while there is none.
    async fn ask(&self) -> Option<Value> {
        let address = self.member.ingress_address();
        let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let request = format!(
            "GET / HTTP/1.1\r\nhost: {address}\r\naccept: application/json\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| serde_json::from_str(body).ok())?
    }

    async fn until_answer(&self, fits: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.ask().await;
            if found.as_ref().is_some_and(&fits) {
                return;
            }
            assert!(Instant::now() < deadline, "the answer is still {found:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn id(kind: &str, name: &str) -> ObjectId {
    let (version, plural) = match kind {
        "Pod" => ("v1", "pods"),
        "Service" => ("v1", "services"),
        "Ingress" => ("networking.k8s.io/v1", "ingresses"),
        "Job" => ("batch/v1", "jobs"),
        "HorizontalPodAutoscaler" => ("autoscaling/v2", "horizontalpodautoscalers"),
        "Deployment" => ("apps/v1", "deployments"),
        "StatefulSet" => ("apps/v1", "statefulsets"),
        "DaemonSet" => ("apps/v1", "daemonsets"),
        other => panic!("{other}"),
    };
    let kind = limen_api::kind((version, kind, plural, true));
    ObjectId { kind, namespace: Some("default".to_owned()), name: name.to_owned() }
}

fn workload(kind: &str, name: &str, image: &str, spec: Value) -> Value {
    let labels = json!({"app": name});
    let mut spec = spec;
    if kind != "Job" {
        spec["selector"] = json!({"matchLabels": labels});
    }
    let restart = if kind == "Job" { "Never" } else { "Always" };
    spec["template"] = json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": restart,
        "containers": [{"name": "main", "image": image,
            "ports": [{"name": "http", "containerPort": 8080}]}]}});
    let version = id(kind, name).kind.api_version.clone();
    json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": "http"}]}})
}

fn ingress(name: &str) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"defaultBackend": {"service": {"name": name, "port": {"number": 80}}}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_answers_changes_version_and_survives_a_power_cut() {
    let rig = Rig::start(201).await;
    rig.create(workload("Deployment", "web", "zone-printer:v1", json!({"replicas": 2}))).await;
    rig.create(service("web")).await;
    rig.create(ingress("web")).await;
    rig.until_answer(|it| it["version"] == "v1" && it["cluster"] == "gce-us-central1a").await;
    let found =
        rig.until("Ingress", "web", |it| it["status"]["loadBalancer"]["ingress"].is_array()).await;
    let published = &found["status"]["loadBalancer"]["ingress"][0];
    assert_eq!(published["ip"], "127.217.0.1");
    assert_eq!(published["ports"][0]["port"], rig.member.ingress_address().port());

    let image = json!([{"name": "main", "image": "zone-printer:v2",
        "ports": [{"name": "http", "containerPort": 8080}]}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": image}}}});
    rig.api().merge(&id("Deployment", "web"), "", &patch).await.unwrap();
    let done = |it: &Value| {
        let status = &it["status"];
        status["observedGeneration"] == it["metadata"]["generation"]
            && status["updatedReplicas"] == 2
            && status["replicas"] == 2
            && status["readyReplicas"] == 2
    };
    rig.until("Deployment", "web", done).await;
    rig.until_answer(|it| it["version"] == "v2").await;
    assert_eq!(rig.pods().await.len(), 2);

    rig.member.trouble(Trouble::Kill).await.unwrap();
    assert_eq!(rig.ask().await, None);
    assert!(rig.member.pods().is_empty());
    rig.member.trouble(Trouble::Restore).await.unwrap();
    rig.until_answer(|it| it["version"] == "v2").await;
    rig.member.stop().await;
    assert_eq!(rig.ask().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_workload_does_what_it_is_for() {
    let rig = Rig::start(202).await;
    rig.create(workload(
        "StatefulSet",
        "db",
        "zone-printer:v1",
        json!({"replicas": 2, "serviceName": "db"}),
    ))
    .await;
    rig.create(workload("DaemonSet", "agent", "zone-printer:v1", json!({}))).await;
    rig.create(workload(
        "Job",
        "once",
        "zone-printer:v1",
        json!({"completions": 2, "parallelism": 2}),
    ))
    .await;
    rig.create(workload("Deployment", "strange", "nginx:1.27", json!({"replicas": 1}))).await;

    rig.until("StatefulSet", "db", |it| it["status"]["readyReplicas"] == 2).await;
    rig.until("Pod", "db-1", |it| it["status"]["phase"] == "Running").await;
    rig.until("DaemonSet", "agent", |it| it["status"]["numberReady"] == 2).await;
    rig.until("Job", "once", |it| {
        it["status"]["succeeded"] == 2 && it["status"]["completionTime"].is_string()
    })
    .await;
    let strange = rig
        .pods()
        .await
        .into_iter()
        .find(|it| it["metadata"]["labels"]["app"] == "strange")
        .unwrap();
    let name = strange["metadata"]["name"].as_str().unwrap();
    let waits = |it: &Value| {
        it["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    };
    rig.until("Pod", name, waits).await;
    rig.member.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_what_they_are_told_to_be() {
    let rig = Rig::start(203).await;
    rig.create(workload("Deployment", "web", "zone-printer:v1", json!({"replicas": 1}))).await;
    rig.create(service("web")).await;
    rig.create(ingress("web")).await;
    rig.create(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minReplicas": 1, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}]}}))
        .await;
    rig.until_answer(|it| it["version"] == "v1").await;
    let tell = |behaviour: Behaviour| {
        for (key, _) in rig.member.pods() {
            assert!(rig.member.behave(&key, behaviour));
        }
    };

    tell(Behaviour { load_percent: Some(150), ..Behaviour::default() });
    rig.until("Deployment", "web", |it| it["status"]["readyReplicas"] == 3).await;

    tell(Behaviour { fail_percent: 100, ..Behaviour::default() });
    let deadline = Instant::now() + PATIENCE;
    while rig.ask().await.is_some() {
        assert!(Instant::now() < deadline);
    }
    tell(Behaviour { unready: true, ..Behaviour::default() });
    rig.until("Deployment", "web", |it| it["status"]["readyReplicas"].as_i64().unwrap_or(0) == 0)
        .await;
    tell(Behaviour::default());
    rig.until_answer(|it| it["version"] == "v1").await;
    assert!(!rig.member.behave(&("default".to_owned(), "none".to_owned()), Behaviour::default()));
    rig.member.stop().await;
}
