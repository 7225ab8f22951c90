//! What people type, and what they are told.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use limen_api::Cluster;
use serde_json::{Value, json};

use crate::processes::{ApiServer, eventually};

fn ingress() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}})
}

fn only_in(name: &str) -> Value {
    let selector = json!([{"key": "name", "operator": "in", "values": [name]}]).to_string();
    json!({"metadata": {"annotations": {
        "federation.alpha.kubernetes.io/cluster-selector": selector}}})
}

/// The line of a table that starts with a word.
fn line<'a>(table: &'a str, word: &str) -> &'a str {
    table.lines().find(|line| line.split_whitespace().next() == Some(word)).unwrap_or_default()
}

async fn eventually_says(hub: &ApiServer, arguments: &[&str], words: &[&str]) {
    eventually(&arguments.join(" "), async || {
        let said = hub.limen(arguments).all();
        (words.iter().all(|word| said.contains(word)), said)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_joins_looks_explains_releases_and_unjoins() {
    let (hub, a, b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    let nobody = hub.limen(&["clusters"]);
    assert!(nobody.out().contains("No cluster") || nobody.all().contains("is no hub, or not yet"));
    hub.join(&[&a, &b]).await;
    eventually("both are healthy", async || {
        let said = hub.limen(&["clusters"]).out();
        let well = ["a", "b"].iter().all(|name| line(&said, name).contains("Healthy"));
        (well, said)
    })
    .await;

    let roots: Api<Ingress> = Api::default_namespaced(hub.client().await);
    let root = serde_json::from_value(ingress()).unwrap();
    roots.create(&PostParams::default(), &root).await.unwrap();
    eventually_says(&hub, &["status", "ingress/web"], &["synced 2/2", "├─ a", "└─ b"]).await;
    let explained = hub.limen(&["explain", "placement", "ingress/web"]).out();
    for name in ["a", "b"] {
        assert!(line(&explained, name).contains("yes"), "{explained}");
    }

    // A change is explained before it is made, and nothing is changed by that.
    let mut changed = ingress();
    changed["metadata"]["annotations"] = only_in("a")["metadata"]["annotations"].clone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, changed.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let explained = hub.limen(&["explain", "placement", "--dry-run", "-f", file]).out();
    assert!(line(&explained, "a").contains("yes"), "{explained}");
    assert!(line(&explained, "b").contains("no"), "{explained}");
    assert!(hub.limen(&["status", "ingress/web"]).out().contains("synced 2/2"));

    // A selector that suddenly matches nothing is held until a person says that it is meant.
    let nowhere = Patch::Merge(only_in("nowhere"));
    roots.patch("web", &PatchParams::default(), &nowhere).await.unwrap();
    eventually_says(&hub, &["status", "ingress/web"], &["held: ", "Held"]).await;
    let there: Api<Ingress> = Api::default_namespaced(a.client().await);
    assert!(there.get_opt("web").await.unwrap().is_some());
    let explained = hub.limen(&["explain", "placement", "ingress/web"]).out();
    assert!(explained.contains("held: "), "{explained}");
    assert!(line(&explained, "a").contains("stays until its deletion is released"), "{explained}");
    let released = hub.limen(&["release", "ingress/web"]);
    assert!(released.out().contains("1 released."), "{}", released.all());
    eventually("the leaf is gone", async || {
        let leaf = there.get_opt("web").await.unwrap();
        (leaf.is_none(), format!("{leaf:?}"))
    })
    .await;
    eventually_says(&hub, &["status", "ingress/web"], &["no cluster is selected"]).await;
    let again = hub.limen(&["release", "ingress/web"]);
    assert!(!again.succeeded() && again.all().contains("is held"), "{}", again.all());

    let back = Patch::Merge(json!({"metadata": {"annotations": {
        "federation.alpha.kubernetes.io/cluster-selector": null}}}));
    roots.patch("web", &PatchParams::default(), &back).await.unwrap();
    eventually_says(&hub, &["status", "ingress/web"], &["synced 2/2"]).await;

    // Leaving asks first, and keeps what is there.
    let unasked = hub.limen(&["unjoin", "a"]);
    assert!(
        !unasked.succeeded() && unasked.all().contains("nothing was done"),
        "{}",
        unasked.all()
    );
    let left = hub.limen(&["unjoin", "a", "--yes"]);
    assert!(left.succeeded() && left.out().contains("Cluster a has left"), "{}", left.all());
    let kept = there.get("web").await.unwrap();
    let labels = kept.metadata.labels.unwrap_or_default();
    assert!(!labels.contains_key("limen.dev/hub"), "{labels:?}");
    let said = hub.limen(&["clusters"]).out();
    assert!(line(&said, "a").is_empty() && line(&said, "b").contains("Healthy"), "{said}");
    let stranger = hub.limen(&["unjoin", "nobody", "--yes"]);
    assert!(!stranger.succeeded());
    assert!(stranger.all().contains("there is no cluster nobody"), "{}", stranger.all());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_wonders_why_nobody_is_served_is_told() {
    let (hub, a) = (ApiServer::hub(), ApiServer::member());
    hub.join(&[&a]).await;
    let roots: Api<Ingress> = Api::default_namespaced(hub.client().await);
    for name in ["web", "younger"] {
        let mut root = ingress();
        root["metadata"]["name"] = json!(name);
        let path = json!({"path": "/", "pathType": "Prefix",
            "backend": root["spec"]["defaultBackend"]});
        root["spec"] = json!({"rules": [{"host": "shop.test", "http": {"paths": [path]}}]});
        let root = serde_json::from_value(root).unwrap();
        roots.create(&PostParams::default(), &root).await.unwrap();
        eventually_says(&hub, &["status", &format!("ingress/{name}")], &["synced 1/1"]).await;
    }
    let why = "shop.test/ belongs to the Ingress default/web, which is older";
    eventually_says(&hub, &["status", "ingress/younger"], &["synced 1/1", why]).await;
    let asked = hub.limen(&["explain", "traffic", "shop.test"]);
    assert!(!asked.succeeded(), "{}", asked.all());
    let words = "asks for it, and no cluster is ready for it yet; limen status ingress/";
    assert!(asked.all().contains(words), "{}", asked.all());
    let stranger = hub.limen(&["explain", "traffic", "nowhere.test"]).all();
    assert!(stranger.contains("no Ingress has such a host"), "{stranger}");

    // Once the host is free, nothing is said any more.
    roots.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("it is forgotten", async || {
        let said = hub.limen(&["status", "ingress/younger"]).all();
        (said.contains("synced 1/1") && !said.contains("belongs to"), said)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_released_goes_on_in_members_that_are_slower() {
    let (hub, a, b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    hub.join(&[&a, &b]).await;
    let roots: Api<Ingress> = Api::default_namespaced(hub.client().await);
    let root = serde_json::from_value(ingress()).unwrap();
    roots.create(&PostParams::default(), &root).await.unwrap();
    eventually_says(&hub, &["status", "ingress/web"], &["synced 2/2"]).await;
    let nowhere = Patch::Merge(only_in("nowhere"));
    roots.patch("web", &PatchParams::default(), &nowhere).await.unwrap();
    eventually_says(&hub, &["status", "ingress/web"], &["held: ", "Held"]).await;

    a.signal("-STOP");
    let released = hub.limen(&["release", "ingress/web"]);
    assert!(released.out().contains("1 released."), "{}", released.all());
    let there: Api<Ingress> = Api::default_namespaced(b.client().await);
    eventually("the leaf of b is gone", async || {
        let leaf = there.get_opt("web").await.unwrap();
        (leaf.is_none(), format!("{leaf:?}"))
    })
    .await;
    a.signal("-CONT");
    eventually_says(&hub, &["status", "ingress/web"], &["no cluster is selected"]).await;
    let there: Api<Ingress> = Api::default_namespaced(a.client().await);
    assert!(there.get_opt("web").await.unwrap().is_none(), "and so is that of a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_root_is_being_placed_and_one_that_is_not_there_is_not() {
    let hub = ApiServer::hub();
    let roots: Api<Ingress> = Api::default_namespaced(hub.client().await);
    let mut count = 0;
    // On a slow machine a root may not be new any more when it is asked about.
    eventually("a new root is being placed", async || {
        count += 1;
        let mut root = ingress();
        root["metadata"]["name"] = json!(format!("web-{count}"));
        let made = serde_json::from_value(root).unwrap();
        roots.create(&PostParams::default(), &made).await.unwrap();
        let said = hub.limen(&["status", &format!("ingress/web-{count}")]);
        (said.succeeded() && said.out().contains("being placed"), said.all())
    })
    .await;
    let nobody = hub.limen(&["status", "ingress/nobody"]);
    assert!(!nobody.succeeded() && nobody.all().contains("there is no"), "{}", nobody.all());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_joins_again_stays_what_it_was() {
    let (hub, a, other) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    let (kubeconfig, elsewhere) = (a.kubeconfig(), other.kubeconfig());
    let join = ["join", "a", "--kubeconfig"];
    let join = |kubeconfig: &std::path::Path, rest: &[&str]| {
        hub.limen(&[&join[..], &[kubeconfig.to_str().unwrap()], rest].concat())
    };
    let place = ["--region", "eu", "--zone", "eu-1", "--coordinates", "52.5,13.4"];
    let labels = ["--label", "stage=live", "--label", "tier=one"];
    let joined = join(&kubeconfig, &[&place[..], &labels].concat());
    assert!(joined.succeeded(), "{}", joined.all());
    let clusters: Api<Cluster> = Api::all(hub.client().await);
    let before = clusters.get("a").await.unwrap();

    // What is given counts, and the rest stays.
    let again = join(&kubeconfig, &["--label", "tier=two"]);
    assert!(again.succeeded(), "{}", again.all());
    let after = clusters.get("a").await.unwrap();
    assert_eq!(after.spec, before.spec);
    let labels = after.metadata.labels.unwrap_or_default();
    assert_eq!((labels["stage"].as_str(), labels["tier"].as_str()), ("live", "two"));

    // A wrong kubeconfig does not lead the name elsewhere, unless somebody says that it moves.
    let refused = join(&elsewhere, &[]);
    let (known, given) =
        (before.spec.endpoint.clone().unwrap(), format!(":{}", port_in(&elsewhere)));
    assert!(!refused.succeeded(), "{}", refused.all());
    for word in [known.as_str(), given.as_str(), "--move"] {
        assert!(refused.err().contains(word), "{word}: {}", refused.all());
    }
    assert_eq!(clusters.get("a").await.unwrap().spec, before.spec);
    let namespaces: Api<Namespace> = Api::all(other.client().await);
    let account = namespaces.get_opt("limen-system").await.unwrap();
    assert!(account.is_none(), "nothing was made in the other cluster");
    let moved = join(&elsewhere, &["--move"]);
    assert!(moved.succeeded(), "{}", moved.all());
    let after = clusters.get("a").await.unwrap().spec;
    assert!(after.endpoint.as_ref().is_some_and(|now| now.ends_with(&given)), "{after:?}");
    assert_eq!(after.region, before.spec.region);
}

/// The port of the API that a kubeconfig leads to.
fn port_in(kubeconfig: &std::path::Path) -> String {
    let read: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap();
    let server = read["clusters"][0]["cluster"]["server"].as_str().unwrap();
    server.rsplit_once(':').unwrap().1.to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaves_of_a_cluster_that_does_not_answer_are_not_said_to_be_deleted() {
    let (hub, mut a) = (ApiServer::hub(), ApiServer::member());
    hub.join(&[&a]).await;
    let roots: Api<Ingress> = Api::default_namespaced(hub.client().await);
    let root = serde_json::from_value(ingress()).unwrap();
    roots.create(&PostParams::default(), &root).await.unwrap();
    eventually_says(&hub, &["status", "ingress/web"], &["synced 1/1"]).await;
    a.kill();
    eventually_says(&hub, &["clusters"], &["Unhealthy"]).await;

    let leave = ["unjoin", "a", "--delete-leaves", "--yes"];
    let refused = hub.limen(&leave);
    assert!(!refused.succeeded(), "{}", refused.all());
    assert!(refused.err().contains("cannot be deleted"), "{}", refused.all());
    assert!(refused.err().contains("--abandon"), "{}", refused.all());
    let clusters: Api<Cluster> = Api::all(hub.client().await);
    let there = clusters.get("a").await.unwrap();
    assert!(there.metadata.annotations.unwrap_or_default().is_empty(), "nothing was done");

    let kept = hub.limen(&["unjoin", "a", "--yes"]);
    assert!(!kept.succeeded() && kept.err().contains("cannot be released"), "{}", kept.all());
    let both = hub.limen(&[&leave[..], &["--abandon"]].concat());
    assert!(!both.succeeded() && both.err().contains("cannot be used with"), "{}", both.all());
    let left = hub.limen(&["unjoin", "a", "--abandon", "--yes"]);
    assert!(left.succeeded(), "{}", left.all());
    assert!(left.out().contains("a has left; it was not touched: "), "{}", left.all());
    assert!(clusters.get_opt("a").await.unwrap().is_none());
    a.start_again();
    let there: Api<Ingress> = Api::default_namespaced(a.client().await);
    assert!(there.get_opt("web").await.unwrap().is_some(), "it was abandoned");
}
