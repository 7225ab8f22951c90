//! What becomes of targets when members change, go away, or disagree about hosts.

use serde_json::json;

use crate::bed::{
    Bed, ask, cluster_id, eventually_asked, global_id, ingress, own, report, slice, targets,
};
use crate::rig::id_of;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_away_keeps_its_targets_as_stale() {
    let mut bed = Bed::start(&["c1", "c2"]).await;
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    bed.compiled("web", |global| targets(global).len() == 2).await;
    let api = |global: &serde_json::Value, at: usize| {
        global["spec"]["backends"][0]["targets"][at]["verdicts"]["api"].clone()
    };
    bed.compiled("web", |global| api(global, 0) == "Healthy").await;

    bed.rig.members.get_mut("c1").unwrap().stop().await;
    let away = bed.compiled("web", |global| api(global, 0) == "Unhealthy").await;
    assert_eq!(targets(&away), [("c1".to_owned(), 1), ("c2".to_owned(), 1)]);
    assert_eq!(away["spec"]["backends"][0]["targets"][0]["readyEndpoints"], 2);

    // Also a hub that starts meanwhile, and has never seen the member, forgets nothing.
    bed.start_again().await;
    bed.serve("c2", "web", 3).await;
    let endpoints = |global: &serde_json::Value| {
        global["spec"]["backends"][0]["targets"][1]["readyEndpoints"] == 3
    };
    let after = bed.compiled("web", endpoints).await;
    assert_eq!(targets(&after), targets(&away));
    assert_eq!(api(&after, 0), "Unhealthy");

    bed.rig.members.get_mut("c1").unwrap().start_again().await;
    bed.compiled("web", |global| api(global, 0) == "Healthy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_that_go_take_their_traffic_with_them() {
    let bed = Bed::start(&["c1", "c2"]).await;
    bed.submit("web", Some("web.test"), &["c1", "c2"]).await;
    let gateway = bed.gateway(|_| {}).await;
    eventually_asked(&gateway, "web.test", 10, |found| found.len() == 2).await;
    let empty = slice("web", 0);
    bed.rig.member("c1").api().apply(&id_of(&empty), &empty).await.unwrap();
    eventually_asked(&gateway, "web.test", 10, |found| found.keys().eq(["c2"])).await;
    let verdict =
        |cluster: &serde_json::Value| cluster["status"]["verdicts"]["endpoints"]["verdict"].clone();
    for (name, expected) in [("c1", "Unhealthy"), ("c2", "Healthy")] {
        let fits =
            |cluster: Option<&serde_json::Value>| cluster.is_some_and(|c| verdict(c) == expected);
        bed.rig.eventually_on_hub(&cluster_id(name), fits).await;
    }
    // The root goes, and what it compiled to with it.
    bed.rig.delete(&id_of(&ingress("web", None))).await;
    bed.rig.eventually_on_hub(&global_id("web"), |global| global.is_none()).await;
    eventually_asked(&gateway, "web.test", 1, |found| found.keys().eq(["404"])).await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_owner_keeps_a_host() {
    let bed = Bed::start(&["c1"]).await;
    bed.submit("first", Some("shared.test"), &["c1"]).await;
    bed.compiled("first", |global| targets(global).len() == 1).await;
    // Times are whole seconds; the second comes in a later one.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let mut second = ingress("second", Some("shared.test"));
    second["spec"]["defaultBackend"] =
        json!({"service": {"name": "first", "port": {"number": 80}}});
    bed.hub().create(&second).await;
    let id = id_of(&second);
    crate::rig::eventually("an Event about the host", async || {
        let events = bed.rig.events(&id).await;
        let says = "shared.test/ belongs to the Ingress default/first, which is older";
        (events.iter().any(|(_, message)| message == says), format!("{events:?}"))
    })
    .await;
    bed.rig.delete(&id_of(&ingress("first", None))).await;
    bed.rig.eventually_on_hub(&global_id("first"), |global| global.is_none()).await;
    bed.serve("c1", "second", 1).await;
    let global = bed.compiled("second", |global| !global["spec"]["rules"].is_null()).await;
    assert_eq!(global["spec"]["rules"][0]["host"], "shared.test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_without_a_host_gets_one_and_shows_the_gateways() {
    let bed = Bed::under(&["c1"], Some("apps.test")).await;
    bed.submit("web", None, &["c1"]).await;
    let global = bed.compiled("web", |global| targets(global).len() == 1).await;
    let host = global["spec"]["rules"][0]["host"].as_str().unwrap().to_owned();
    assert!(host.starts_with("web-default-") && host.ends_with(".apps.test"), "{host}");
    let root = id_of(&ingress("web", None));
    let written = bed.hub().get(&root).await.unwrap();
    assert_eq!(written["metadata"]["annotations"]["limen.dev/host"], host.as_str());
    let addresses = |root: &serde_json::Value| root["status"]["loadBalancer"]["ingress"].clone();
    // Without gateways these are the members' own.
    let shown = |expected: serde_json::Value| {
        move |root: Option<&serde_json::Value>| root.is_some_and(|root| addresses(root) == expected)
    };
    let port = bed.upstreams["c1"].address.port();
    let leaf = json!([{"ip": "127.0.0.1", "ports": [{"port": port, "protocol": "TCP"}]}]);
    bed.rig.eventually_on_hub(&root, shown(leaf)).await;

    let spec = json!({"kind": "Gateway", "addresses": ["192.0.2.10", "edge.test"]});
    report(bed.hub(), "edge-1", &spec, json!({})).await;
    let gateways = json!([{"ip": "192.0.2.10"}, {"hostname": "edge.test"}, {"hostname": host}]);
    bed.rig.eventually_on_hub(&root, shown(gateways)).await;
    let gateway = bed.gateway(|_| {}).await;
    assert_eq!(ask(&gateway, &host, 1).await.into_keys().next().unwrap(), "c1");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_federated_ingress_leads_to_what_members_already_have() {
    let bed = Bed::start(&["c1", "c2"]).await;
    for (name, upstream) in &bed.upstreams {
        let member = bed.rig.member(name);
        let mut own = ingress("shop", Some("shop.test"));
        own["metadata"]["name"] = json!(format!("shop-{name}"));
        let created = member.create(&own).await;
        let status = json!({"status": {"loadBalancer": {"ingress": [
            {"ip": "127.0.0.1", "ports": [{"port": upstream.address.port(), "protocol": "TCP"}]}]}}});
        member.api().merge(&id_of(&own), "/status", &status).await.unwrap();
        assert!(created["metadata"]["labels"].is_null());
    }
    let id = own(("FederatedIngress", "federatedingresses"), "shop");
    let target = |cluster: &str, weight: u32| json!({"cluster": cluster, "ingress": {"name": format!("shop-{cluster}")}, "weight": weight});
    let manifest = json!({"apiVersion": "limen.dev/v1alpha1", "kind": "FederatedIngress",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"hosts": ["shop.test"],
            "backends": [{"name": "shop", "targets": [target("c1", 75), target("c2", 25)]}]}});
    bed.hub().api().create(&id.kind, &manifest).await.unwrap();
    bed.compiled("federatedingress.shop", |global| targets(global).len() == 2).await;
    let gateway = bed.gateway(|_| {}).await;
    let expected = [("c1".to_owned(), 75), ("c2".to_owned(), 25)].into();
    eventually_asked(&gateway, "shop.test", 100, |found| *found == expected).await;
    // Its targets are kept up to date: this one is served somewhere else from now on.
    let status = json!({"status": {"loadBalancer": {"ingress": [
        {"ip": "127.0.0.1", "ports": [{"port": bed.upstreams["c2"].address.port(), "protocol": "TCP"}]}]}}});
    let mut moved = ingress("shop", None);
    moved["metadata"]["name"] = json!("shop-c1");
    bed.rig.member("c1").api().merge(&id_of(&moved), "/status", &status).await.unwrap();
    eventually_asked(&gateway, "shop.test", 20, |found| found.keys().eq(["c2"])).await;
    let ready = |object: Option<&serde_json::Value>| {
        object.is_some_and(|object| object["status"]["conditions"][0]["status"] == "True")
    };
    bed.rig.eventually_on_hub(&id, ready).await;
    gateway.stop().await;
}
