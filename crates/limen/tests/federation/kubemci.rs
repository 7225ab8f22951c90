//! What scripts for kubemci do, and the lines that they look for.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use limen_api::{FederatedStatus, OnConflictSpec, PlacementPolicy};
use serde_json::{Value, json};

use crate::processes::{ApiServer, Said, eventually};

/// As kubemci's own example has it.
const INGRESS: &str = "\
apiVersion: extensions/v1beta1
kind: Ingress
metadata:
  name: zone-printer
  annotations:
    kubernetes.io/ingress.class: gce-multi-cluster
    kubernetes.io/ingress.global-static-ip-name: zp-kubemci-ip
spec:
  backend:
    serviceName: zone-printer
    servicePort: 80
";

/// One kubeconfig with the hub and all members, the hub being current.
fn together(hub: &ApiServer, members: &[(&str, &ApiServer)]) -> Value {
    let (mut clusters, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for (name, server) in [("federation", hub)].iter().chain(members) {
        let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        clusters.push(json!({"name": name, "cluster": read["clusters"][0]["cluster"]}));
        users.push(json!({"name": name, "user": read["users"][0]["user"]}));
        contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
    }
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "federation",
        "clusters": clusters, "users": users, "contexts": contexts})
}

async fn make_service(member: &ApiServer) {
    let services: Api<Service> = Api::default_namespaced(member.client().await);
    let service = json!({
        "metadata": {"name": "zone-printer"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let service = serde_json::from_value(service).unwrap();
    services.create(&PostParams::default(), &service).await.unwrap();
}

fn fails(said: &Said, words: &str) {
    assert!(!said.succeeded(), "{}", said.all());
    assert!(said.err().contains(words), "{}", said.all());
    assert!(said.err().starts_with("limen: ") && !said.out().contains(words), "{}", said.all());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_for_kubemci_find_what_they_look_for() {
    let (hub, a, b) = (ApiServer::hub(), ApiServer::member(), ApiServer::member());
    hub.join(&[&a, &b]).await;
    let folder = tempfile::tempdir().unwrap();
    let (clusters, file) =
        (folder.path().join("clusters.yaml"), folder.path().join("ingress.yaml"));
    // The second context has a name of its own, and leads to the member by its address.
    std::fs::write(&clusters, together(&hub, &[("a", &a), ("gke_b", &b)]).to_string()).unwrap();
    std::fs::write(&file, INGRESS).unwrap();
    let (kubeconfig, file) =
        (format!("--kubeconfig={}", clusters.display()), file.to_str().unwrap().to_owned());
    let ingress = format!("--ingress={file}");
    let mci = |arguments: &[&str]| hub.limen(&[&["ingress"], arguments, &[&kubeconfig]].concat());

    assert_eq!(mci(&["list"]).out(), "No multicluster ingresses found.\n");
    fails(&mci(&["get-status", "zone-printer"]), "Load balancer zone-printer does not exist");
    fails(&mci(&["delete", "zone-printer", &ingress]), "Load balancer zone-printer does not exist");

    // Every backend is looked for in every cluster.
    make_service(&a).await;
    fails(&mci(&["create", "zone-printer", &ingress]), "zone-printer in b: there is none");
    let roots: Api<Ingress> = Api::default_namespaced(hub.client().await);
    assert!(roots.get_opt("zone-printer").await.unwrap().is_none(), "nothing was made");
    make_service(&b).await;

    let one = ["create", "zone-printer", &ingress, "--gcp-project=p", "--kubecontexts=a"];
    let created = mci(&one);
    assert!(created.succeeded(), "{}", created.all());
    assert_eq!(created.out(), "Created Ingress in cluster: a\n\nSuccess.\n");
    let there: Api<Ingress> = Api::default_namespaced(b.client().await);
    assert!(there.get_opt("zone-printer").await.unwrap().is_none(), "b was not asked for");
    let created = mci(&["create", "zone-printer", &ingress]);
    assert!(created.out().contains("Created Ingress in cluster: b\n"), "{}", created.all());
    assert!(created.out().contains("already exists and matches in cluster: a\n"));
    assert!(created.out().ends_with("\n\nSuccess.\n"), "{}", created.all());
    let leaf = there.get("zone-printer").await.unwrap();
    let backend = leaf.spec.unwrap().default_backend.unwrap().service.unwrap();
    assert_eq!((backend.name.as_str(), backend.port.unwrap().number), ("zone-printer", Some(80)));

    let status = mci(&["get-status", "zone-printer"]).out();
    let (head, tail) = status.split_once(" has IPAddress ").unwrap();
    assert_eq!(head, "Load balancer zone-printer");
    assert!(tail.ends_with(" and is spread across 2 clusters (a,b)\n"), "{status}");
    let list = mci(&["list"]).out();
    let lines: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "IP", "CLUSTERS"]);
    assert_eq!((lines[1][0], lines[1][2]), ("zone-printer", "a, b"));
    let value: Value = serde_json::from_str(&mci(&["list", "-o", "json"]).out()).unwrap();
    assert_eq!(value[0]["clusters"], json!(["a", "b"]));

    // What differs is not overwritten, and clusters are not dropped, without being told to.
    std::fs::write(&file, INGRESS.replace("servicePort: 80", "servicePort: 81")).unwrap();
    let changed = ["create", "zone-printer", &ingress, "--validate=false"];
    fails(&mci(&changed), "differs from the proposed one");
    let forced = mci(&[&changed[..], &["--force"]].concat());
    assert!(forced.out().contains("Updated ingress for cluster: a\n"), "{}", forced.all());
    let fewer = [&changed[..], &["--kubecontexts=a"]].concat();
    fails(&mci(&fewer), "take it away from clusters (b)");
    let forced = mci(&[&fewer[..], &["--force"]].concat());
    assert!(forced.out().ends_with("Deleting Ingress from cluster: b...\n\nSuccess.\n"));
    assert!(there.get_opt("zone-printer").await.unwrap().is_none(), "it is gone from b");
    let created = mci(&changed);
    assert!(created.out().contains("Created Ingress in cluster: b\n"), "{}", created.all());

    fails(
        &mci(&["remove-clusters", "zone-printer", &ingress]),
        "remove the ingress from all clusters",
    );
    let policies: Api<PlacementPolicy> = Api::default_namespaced(hub.client().await);
    let kept = Patch::Merge(json!({"spec": {"onConflict": "Abort"}}));
    let policy = "limen-ingress-zone-printer";
    policies.patch(policy, &PatchParams::default(), &kept).await.unwrap();
    let removed = mci(&["remove-clusters", "zone-printer", "--kubecontexts=gke_b"]);
    assert!(removed.succeeded(), "{}", removed.all());
    let on_conflict = policies.get(policy).await.unwrap().spec.on_conflict;
    assert_eq!(on_conflict, Some(OnConflictSpec::Abort), "it takes over nothing by that");
    assert!(there.get_opt("zone-printer").await.unwrap().is_none(), "it is gone from b");
    let status = mci(&["get-status", "zone-printer"]).out();
    assert!(status.ends_with("is spread across 1 clusters (a)\n"), "{status}");
    let all = mci(&["remove-clusters", "zone-printer", "--force"]);
    assert!(all.succeeded(), "{}", all.all());

    let deleted = mci(&["delete", "zone-printer", &ingress]);
    assert!(deleted.succeeded(), "{}", deleted.all());
    assert_eq!(mci(&["list"]).out(), "No multicluster ingresses found.\n");
    fails(&mci(&["create", "Zone_Printer", &ingress]), "cannot be the name");
    fails(&mci(&["create", "x", &ingress, "--kubecontexts=federation"]), "leads to no cluster");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_has_in_a_cluster_is_kept_without_force() {
    let (hub, a) = (ApiServer::hub(), ApiServer::member());
    hub.join(&[&a]).await;
    eventually("the member is well", async || {
        let said = hub.limen(&["clusters"]);
        (said.out().contains("Healthy"), said.all())
    })
    .await;
    let there: Api<Ingress> = Api::default_namespaced(a.client().await);
    let own = json!({
        "metadata": {"name": "zone-printer"},
        "spec": {"defaultBackend": {"service": {"name": "mine", "port": {"number": 1}}}}});
    let own = serde_json::from_value(own).unwrap();
    there.create(&PostParams::default(), &own).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ingress.yaml");
    std::fs::write(&file, INGRESS).unwrap();
    let arguments = ["ingress", "create", "zp", "-i", file.to_str().unwrap(), "--validate=false"];
    fails(
        &hub.limen(&arguments),
        "will not overwrite Ingress resource in cluster 'a' without --force",
    );
    let kept = there.get("zone-printer").await.unwrap().spec.unwrap().default_backend.unwrap();
    assert_eq!(kept.service.unwrap().name, "mine");
    let forced = hub.limen(&[&arguments[..], &["--force"]].concat());
    assert!(forced.out().ends_with("Success.\n"), "{}", forced.all());
    let taken = there.get("zone-printer").await.unwrap().spec.unwrap().default_backend.unwrap();
    assert_eq!(taken.service.unwrap().name, "zone-printer");
}

/// An API with what `limen ingress` writes, and with records that nobody can read.
async fn with_unreadable_records() -> ApiServer {
    let hub = ApiServer::member();
    let client = hub.client().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for mut definition in limen_api::crds() {
        let loose = json!({"openAPIV3Schema": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true}});
        definition.spec.versions[0].schema = Some(serde_json::from_value(loose).unwrap());
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let unreadable = json!({"apiVersion": "limen.dev/v1alpha1", "kind": "FederatedStatus",
        "metadata": {"name": "ingress.web"}, "spec": "of a later version"});
    let unreadable: DynamicObject = serde_json::from_value(unreadable).unwrap();
    let resource = ApiResource::erase::<FederatedStatus>(&());
    let records: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    eventually("records can be written", async || {
        let made = records.create(&PostParams::default(), &unreadable).await;
        (made.is_ok(), format!("{made:?}"))
    })
    .await;
    hub
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_stays_as_long_as_its_ingress_may_be_there() {
    let hub = with_unreadable_records().await;
    let client = hub.client().await;
    let policies: Api<PlacementPolicy> = Api::default_namespaced(client.clone());
    let policy = json!({"metadata": {"name": "limen-ingress-web"},
        "spec": {"roots": [{"kind": "Ingress", "name": "web"}], "placement": {}}});
    let policy: PlacementPolicy = serde_json::from_value(policy).unwrap();
    eventually("the policy is there", async || {
        let made = policies.create(&PostParams::default(), &policy).await;
        (made.is_ok(), format!("{made:?}"))
    })
    .await;
    let roots: Api<Ingress> = Api::default_namespaced(client);
    let root = json!({
        "metadata": {"name": "web", "labels": {"limen.dev/load-balancer": "web"}},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}});
    let root = serde_json::from_value(root).unwrap();
    roots.create(&PostParams::default(), &root).await.unwrap();

    // What cannot be read is not gone, and neither is what lacks a label.
    let forced = ["ingress", "delete", "web", "--force"];
    fails(&hub.limen(&forced), "cannot read the record of Ingress default/web");
    assert!(policies.get_opt("limen-ingress-web").await.unwrap().is_some());
    let unlabelled = json!({"metadata": {"labels": {"limen.dev/load-balancer": null}}});
    roots.patch("web", &PatchParams::default(), &Patch::Merge(unlabelled)).await.unwrap();
    fails(&hub.limen(&forced), "delete the Ingress first");
    assert!(policies.get_opt("limen-ingress-web").await.unwrap().is_some());

    roots.delete("web", &DeleteParams::default()).await.unwrap();
    let remains = hub.limen(&forced);
    assert!(remains.succeeded(), "{}", remains.all());
    assert!(policies.get_opt("limen-ingress-web").await.unwrap().is_none());
}
