//! How long it takes to compile 10,000 roots over 20 clusters, and one of them again.
//!
//! `just bench-traffic`

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use limen_core::compile::{
    Digest, Key, Member, Members, ObservedKind, Policy, Root, Touched, compile,
};
use limen_core::global::Global;
use serde_json::{Value, json};

const ROOTS: usize = 10_000;
const CLUSTERS: usize = 20;

fn ingress(root: usize) -> Value {
    json!({"metadata": {"name": format!("web-{root}"), "namespace": "shop", "uid": format!("u-{root}"),
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"rules": [{"host": format!("web-{root}.example"), "http": {"paths": [
            {"path": "/", "pathType": "Prefix",
             "backend": {"service": {"name": format!("web-{root}"), "port": {"number": 80}}}}]}}]}})
}

/// What one cluster holds for one root.
fn held(cluster: usize, root: usize, ready: usize) -> [(ObservedKind, Value); 3] {
    let endpoint =
        |at: usize| json!({"addresses": [format!("10.{cluster}.{}.{}", root % 250, at + 1)]});
    let endpoints: Vec<Value> = (0..ready).map(endpoint).collect();
    let name = format!("web-{root}");
    [
        (
            ObservedKind::Service,
            json!({"metadata": {"name": name, "namespace": "shop"},
            "spec": {"type": "ClusterIP", "ports": [{"name": "http", "port": 80}]}}),
        ),
        (
            ObservedKind::Slice,
            json!({"metadata": {"name": format!("{name}-1"), "namespace": "shop",
                "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": endpoints}),
        ),
        (
            ObservedKind::Ingress,
            json!({"metadata": {"name": name, "namespace": "shop",
                "labels": {"limen.dev/root-uid": format!("u-{root}")}},
            "status": {"loadBalancer": {"ingress": [{"ip": format!("192.0.2.{cluster}")}]}}}),
        ),
    ]
}

fn learn(member: &mut Member, (kind, object): &(ObservedKind, Value)) -> Vec<Touched> {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let key: Key = (text("namespace"), text("name"));
    Digest::of(*kind, object).map(|digest| member.changed(key, digest)).unwrap_or_default()
}

fn main() {
    let roots: Vec<Root> =
        (0..ROOTS).filter_map(|root| Root::of_ingress(&ingress(root)).ok()).collect();
    let mut members = Members::new();
    let mut observing = Duration::ZERO;
    for cluster in 0..CLUSTERS {
        let mut member = Member::default();
        for kind in
            [ObservedKind::Service, ObservedKind::Slice, ObservedKind::Ingress, ObservedKind::Node]
        {
            member.state(kind, Vec::new());
        }
        for root in 0..ROOTS {
            let objects = held(cluster, root, 3);
            let start = Instant::now();
            for object in &objects {
                learn(&mut member, object);
            }
            observing += start.elapsed();
        }
        members.insert(Arc::from(format!("cluster-{cluster:02}")), member);
    }
    let policy = Policy::default();
    let (start, cpu) = (Instant::now(), cpu_time());
    let globals: Vec<Option<Global>> =
        roots.iter().map(|root| compile(root, &policy, None, &members, None, 1).global).collect();
    let (scratch, scratch_cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    let targets: usize =
        globals.iter().flatten().flat_map(|global| &global.backends).map(|b| b.targets.len()).sum();
    assert_eq!(targets, ROOTS * CLUSTERS, "every cluster is a target of every root");

    let start = Instant::now();
    for (root, before) in roots.iter().zip(&globals) {
        let again = compile(root, &policy, None, &members, before.as_ref(), 2);
        assert!(black_box(again.global) == *before, "nothing has changed");
    }
    let again = start.elapsed();

    let mut one = Vec::new();
    for round in 0..200 {
        let root = round * 37 % ROOTS;
        let [_, slice, _] = held(7, root, 4 + round % 2);
        let start = Instant::now();
        let member = members.get_mut("cluster-07").map(|member| learn(member, &slice));
        let touched = member.unwrap_or_default();
        assert_eq!(touched.len(), 1, "one Service is touched, and nothing else");
        black_box(compile(&roots[root], &policy, None, &members, globals[root].as_ref(), 3));
        one.push(start.elapsed());
    }
    one.sort();
    println!("{ROOTS} roots x {CLUSTERS} clusters, 3 endpoints each:");
    println!(
        "  observations taken in   {:>8.0} ms ({} objects)",
        ms(observing),
        ROOTS * CLUSTERS * 3
    );
    println!(
        "  compiled from scratch   {:>8.0} ms ({:.0} ms of CPU)",
        ms(scratch),
        ms(scratch_cpu)
    );
    println!("  compiled, no change     {:>8.0} ms", ms(again));
    println!("  one changed observation {:>8.3} ms p50, {:.3} ms p99", ms(one[100]), ms(one[197]));
}

/// The time that this thread has had a processor for; nothing where the system does not say.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
