//! A server with objects that a test can change.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use limen_api::DnsZoneSpec;
use limen_api::source::{News, Objects, OwnEdge, Running, Source};
use limen_core::edge::{EdgeKind, EdgeReport, Peer, TargetReport};
use limen_core::global::{
    Address, Backend, Global, PathRule, PathType, Rule, Target, TrafficRules,
};
use limen_core::locality::Locality;
use limen_dns::{Options, Server};
use tokio::sync::{mpsc, watch};

/// Networks of three places, one within another.
pub(crate) const NETWORKS: &str = "
networks:
- { cidr: 10.1.0.0/16, region: europe, country: de, coordinates: '50.1,8.7' }
- { cidr: 10.2.0.0/16, region: america, coordinates: '40.7,-74' }
- { cidr: 10.3.0.0/16, region: asia, coordinates: '35.7,139.7' }
- { cidr: 10.1.128.0/24, region: america, coordinates: '40.7,-74' }
- { cidr: '2001:db8:1::/48', region: europe, coordinates: '50.1,8.7' }
- { cidr: '2001:db8:3::/48', region: asia, coordinates: '35.7,139.7' }
";

/// A gateway, the region that it is in, and how far clusters are from it in milliseconds.
pub(crate) type Gateway<'a> = (&'a str, &'a str, &'a [(&'a str, f64)]);

pub(crate) struct Bed {
    pub(crate) server: Server,
    objects: watch::Sender<Objects>,
    edges: watch::Sender<BTreeMap<String, Peer>>,
    _folder: tempfile::TempDir,
}

impl Bed {
    pub(crate) fn new(objects: Objects) -> Self {
        Self::with(objects, |_| {})
    }

    pub(crate) fn with(objects: Objects, change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let networks = folder.path().join("networks.yaml");
        std::fs::write(&networks, NETWORKS).unwrap();
        let mut options = Options {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            zones: vec!["example.com".into()],
            networks: Some(networks),
            rate_limit: 0,
            nsid: "here".into(),
            workers: 2,
            ..Options::default()
        };
        change(&mut options);
        let (objects, objects_told) = watch::channel(objects);
        let (edges, edges_told) = watch::channel(BTreeMap::new());
        let told = Told { objects: objects_told, edges: edges_told };
        let server = Server::start(&options, told).unwrap();
        block_on(server.ready());
        Self { server, objects, edges, _folder: folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.listen()[0]
    }

    /// Changes the objects.
    pub(crate) fn set(&self, objects: Objects) {
        self.objects.send_replace(objects);
    }

    /// Changes what gateways say: where each is, and how far clusters are from it.
    pub(crate) fn measured(&self, gateways: &[Gateway<'_>]) {
        let target = |(cluster, latency): &(&str, f64)| TargetReport {
            cluster: (*cluster).into(),
            healthy: true,
            latency_milliseconds: Some(*latency),
            ..TargetReport::default()
        };
        let gateway = |(name, region, latencies): &Gateway<'_>| {
            let locality = Locality { region: Some((*region).into()), ..Locality::default() };
            let targets = latencies.iter().map(target).collect();
            let report = EdgeReport { targets, ..EdgeReport::default() };
            ((*name).to_owned(), Peer { kind: EdgeKind::Gateway, locality, report })
        };
        self.edges.send_replace(gateways.iter().map(gateway).collect());
    }
}

/// A source that says what a test wants it to.
struct Told {
    objects: watch::Receiver<Objects>,
    edges: watch::Receiver<BTreeMap<String, Peer>>,
}

impl Source for Told {
    fn run(
        mut self: Box<Self>,
        publish: mpsc::Sender<News>,
        _: watch::Receiver<OwnEdge>,
    ) -> Running {
        Box::pin(async move {
            self.objects.mark_changed();
            loop {
                let news = tokio::select! {
                    Ok(()) = self.objects.changed() => {
                        News::Objects(self.objects.borrow_and_update().clone())
                    }
                    Ok(()) = self.edges.changed() => {
                        News::Edges(self.edges.borrow_and_update().clone())
                    }
                    else => return,
                };
                if publish.send(news).await.is_err() {
                    return;
                }
            }
        })
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// Waits until something is so, and says what it was instead if it never is.
pub(crate) fn until<T: std::fmt::Debug>(mut look: impl FnMut() -> T, is: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let seen = look();
        if is(&seen) {
            return seen;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "still {seen:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A cluster with an address of each family, or a host name.
pub(crate) fn target(cluster: &str, region: &str, place: &str, hosts: &[&str]) -> Target {
    Target {
        cluster: cluster.into(),
        locality: Locality {
            region: Some(region.into()),
            zone: None,
            coordinates: Some(place.parse().unwrap()),
        },
        addresses: hosts.iter().map(|host| Address { host: (*host).into(), port: 80 }).collect(),
        ready_endpoints: Some(1),
        ..Target::default()
    }
}

/// One cluster in each place.
pub(crate) fn three() -> Vec<Target> {
    vec![
        target("paris", "europe", "48.9,2.4", &["192.0.2.1", "2001:db8::1"]),
        target("york", "america", "40.7,-74", &["192.0.2.2", "2001:db8::2"]),
        target("tokyo", "asia", "35.7,139.7", &["192.0.2.3", "2001:db8::3"]),
    ]
}

/// A root with one host.
pub(crate) fn global(host: &str, targets: Vec<Target>, traffic: TrafficRules) -> Global {
    let (path, backend) = ("/".to_owned(), "web:80".to_owned());
    let paths = vec![PathRule { path, path_type: PathType::Prefix, backend: backend.clone() }];
    Global {
        rules: vec![Rule { host: host.into(), paths }],
        backends: vec![Backend { name: backend, targets }],
        traffic,
        ..Global::default()
    }
}

pub(crate) fn objects(globals: Vec<Global>) -> Objects {
    let keyed = globals.into_iter().enumerate();
    let keyed =
        keyed.map(|(index, one)| (("default".into(), format!("g{index:05}")), Arc::new(one)));
    Objects { ingresses: keyed.collect(), ..Objects::default() }
}

/// `shop.example.com` in three places.
pub(crate) fn shop(traffic: TrafficRules) -> Objects {
    objects(vec![global("shop.example.com", three(), traffic)])
}

pub(crate) fn with_zone(mut objects: Objects, zone: DnsZoneSpec) -> Objects {
    objects.zones.insert(("default".into(), "zone".into()), Arc::new(zone));
    objects
}
