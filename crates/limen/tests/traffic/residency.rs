//! Some clients may be served in some regions only, whatever happens.

use std::sync::Arc;

use limen_playground::Trouble;
use serde_json::json;

use crate::clients::{Answer, Connection, count, none_failed};
use crate::world::{BERLIN, OHIO, PARIS, World, eventually};

const GERMAN: &str = "192.0.2.7";
const AMERICAN: &str = "198.51.100.7";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_served_where_they_may_be_or_not_at_all() {
    let mut world = World::start().await;
    world.policy(json!({"residency": [{"clients": ["de"], "allow": ["europe-*"]}]})).await;
    world.compiled(|global| global["spec"]["traffic"]["residency"][0]["clients"][0] == "de").await;
    let gateway = world
        .gateway(|options| {
            options.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
            let table = "networks:\n\
                - { cidr: 192.0.2.0/24, region: europe-west3, country: DE }\n\
                - { cidr: 198.51.100.0/24, region: us-east4, country: US }\n";
            options.geography = Arc::new(limen_api::parse_networks(table).unwrap());
        })
        .await;
    let mut german = Connection::from_address(gateway, GERMAN);
    let mut american = Connection::from_address(gateway, AMERICAN);
    for client in [&mut german, &mut american] {
        let answers = client.shop_times(20).await;
        let clusters = count(answers.iter().map(Answer::cluster));
        assert_eq!(clusters, [(BERLIN, 20)].into());
    }

    // One European cluster is left.
    world.member(BERLIN).trouble(Trouble::Kill).await.unwrap();
    for client in [&mut german, &mut american] {
        let answers = client.shop_times(20).await;
        let clusters = count(answers.iter().map(Answer::cluster));
        assert_eq!(clusters, [(PARIS, 20)].into());
    }

    // None is left: who may is served far away, and who may not is not served.
    let far = world.answered_by(OHIO);
    world.member(PARIS).trouble(Trouble::Kill).await.unwrap();
    let refused = german.shop_times(20).await;
    assert!(refused.iter().all(Answer::failed), "{refused:?}");
    assert_eq!(world.answered_by(OHIO), far, "a request left the region it may not leave");
    let answers = american.shop_times(20).await;
    none_failed(&answers);
    assert_eq!(count(answers.iter().map(Answer::cluster)), [(OHIO, 20)].into());

    world.member(PARIS).trouble(Trouble::Restore).await.unwrap();
    eventually("it is served again", async || {
        let answer = german.shop().await;
        (answer.cluster() == PARIS, format!("{answer:?}"))
    })
    .await;
    world.stop().await;
}
