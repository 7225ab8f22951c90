//! dig, kdig, delv and a resolver as users have them. They need the Debian packages `dnsutils`,
//! `bind9-dnsutils`, `knot-dnsutils`, `knot` and `unbound`.

#[path = "../dns/bed.rs"]
mod bed;
mod dnssec;
mod secondary;

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use limen_core::global::{DnsRules, HealthCheck, Residency, Split, TrafficRules};

use bed::{Bed, global, objects, shop, three};

/// The standard output of a client.
fn run(client: &str, port: u16, arguments: &str) -> String {
    let output = Command::new(client)
        .args(["@127.0.0.1", "-p", &port.to_string()])
        .args(arguments.split(' '))
        .output()
        .unwrap_or_else(|error| panic!("{client} cannot be run: {error}"));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn dig_and_kdig_get_the_answer_of_each_policy() {
    let clusters = [("paris".to_owned(), 1), ("york".to_owned(), 0)].into();
    let split = Some(Split { clusters, ..Split::default() });
    let failover = vec!["tokyo".to_owned()];
    let dns = Some(DnsRules { clusters: 3, ..DnsRules::default() });
    let residency = Residency {
        clients: vec!["asia".into()],
        allow: vec!["america".into()],
        ..Residency::default()
    };
    for (policy, rules, asia, america) in [
        ("nearest", TrafficRules::default(), "192.0.2.3\n", "192.0.2.2\n"),
        (
            "failover",
            TrafficRules { failover, ..TrafficRules::default() },
            "192.0.2.3\n",
            "192.0.2.3\n",
        ),
        (
            "weighted",
            TrafficRules { split, ..TrafficRules::default() },
            "192.0.2.1\n",
            "192.0.2.1\n",
        ),
        (
            "several",
            TrafficRules { dns, ..TrafficRules::default() },
            "192.0.2.3\n192.0.2.1\n192.0.2.2\n",
            "192.0.2.2\n192.0.2.1\n192.0.2.3\n",
        ),
        (
            "residency",
            TrafficRules { residency: vec![residency], ..TrafficRules::default() },
            "192.0.2.2\n",
            "192.0.2.2\n",
        ),
    ] {
        both_see(&Bed::new(shop(rules)), policy, asia, america);
    }
}

/// What dig and kdig get, by UDP and TCP, for clients in Asia and America.
fn both_see(bed: &Bed, policy: &str, asia: &str, america: &str) {
    let port = bed.address().port();
    for client in ["dig", "kdig"] {
        for transport in ["+notcp", "+tcp"] {
            for (network, expected) in [("10.3.0.0/16", asia), ("10.2.0.0/16", america)] {
                let ask = format!("shop.example.com A +short +subnet={network} {transport}");
                assert_eq!(run(client, port, &ask), expected, "{policy}: {client} {ask}");
            }
        }
    }
}

#[test]
fn dig_and_kdig_see_drains_latencies_and_turns() {
    let mut drained = three();
    drained[2].drained_percent = 100;
    let bed = Bed::new(objects(vec![global("shop.example.com", drained, TrafficRules::default())]));
    both_see(&bed, "drain", "192.0.2.1\n", "192.0.2.2\n");

    let bed = Bed::new(shop(TrafficRules::default()));
    bed.measured(&[("gw", "asia", &[("paris", 160.0), ("york", 20.0), ("tokyo", 90.0)])]);
    let ask = "shop.example.com A +short +subnet=10.3.0.0/16";
    bed::until(|| run("dig", bed.address().port(), ask), |seen| seen == "192.0.2.2\n");
    both_see(&bed, "latency", "192.0.2.2\n", "192.0.2.2\n");

    let dns = Some(DnsRules { round_robin: true, ..DnsRules::default() });
    let bed = Bed::with(shop(TrafficRules { dns, ..TrafficRules::default() }), |options| {
        options.workers = 1;
    });
    for client in ["dig", "kdig"] {
        let turns = (0..3).map(|_| run(client, bed.address().port(), ask));
        let turns: std::collections::BTreeSet<String> = turns.collect();
        let all = ["192.0.2.1\n", "192.0.2.2\n", "192.0.2.3\n"].map(str::to_owned);
        assert_eq!(turns, all.into(), "{client}");
    }
}

#[test]
fn dig_understands_everything_else_too() {
    let bed = Bed::new(shop(TrafficRules::default()));
    let port = bed.address().port();
    for (ask, parts) in [
        ("nothing.example.com A", &["status: NXDOMAIN", "IN\tSOA\tns1.example.com."][..]),
        ("shop.example.com MX", &["status: NOERROR", "ANSWER: 0, AUTHORITY: 1"]),
        ("example.org A", &["status: REFUSED"]),
        ("version.bind CH TXT", &["status: REFUSED"]),
        ("example.com SOA +nsid", &["NSID", "(\"here\")", "flags: qr aa rd;"]),
        ("shop.example.com A +subnet=10.1.0.0/24", &["CLIENT-SUBNET: 10.1.0.0/24/17"]),
        ("shop.example.com A +cookie=0123456789abcdef", &["COOKIE: 0123456789abcdef01", "(good)"]),
        ("shop.example.com ANY +notcp", &["HINFO\t\"RFC8482\" \"\""]),
        ("shop.example.com A +edns=1 +noednsneg", &["status: BADVERS"]),
        ("shop.example.com A +opcode=UPDATE", &["status: NOTIMP"]),
    ] {
        let seen = run("dig", port, ask);
        for part in parts {
            assert!(seen.contains(part), "{ask}: no {part:?} in {seen}");
        }
        assert!(!seen.contains("Warning") && !seen.contains("malformed"), "{ask}: {seen}");
    }
}

/// A resolver that asks this server about `example.com`.
struct Resolver {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Resolver {
    fn start(server: u16) -> Self {
        Self::with(server, "iterator", "")
    }

    /// One that also does what a few lines of its configuration say.
    fn with(server: u16, modules: &str, more: &str) -> Self {
        Self::with_stubs(server, modules, more, "")
    }

    /// One that knows more zones, too.
    fn with_stubs(server: u16, modules: &str, more: &str, stubs: &str) -> Self {
        let resolver = Self::start_with(server, modules, more, stubs);
        let port = resolver.port;
        bed::until(
            || run("dig", port, "example.com SOA +short +tries=1"),
            |soa| soa.contains("ns1"),
        );
        resolver
    }

    /// One that may not answer.
    fn unchecked(server: u16, modules: &str, more: &str) -> Self {
        Self::start_with(server, modules, more, "")
    }

    /// One that answers, whatever it says. Somebody else may be given its port before it is there.
    fn start_with(server: u16, modules: &str, more: &str, stubs: &str) -> Self {
        for _ in 0..10 {
            let mut resolver = Self::try_start(server, modules, more, stubs);
            let gone = |process: &mut Child| process.try_wait().unwrap().is_some();
            let answers = |port| run("dig", port, "example.com SOA +tries=1").contains("status:");
            let is_there = bed::until(
                || (answers(resolver.port), gone(&mut resolver.process)),
                |(answers, gone)| *answers || *gone,
            );
            if is_there == (true, false) {
                return resolver;
            }
        }
        panic!("unbound could not be started");
    }

    fn try_start(server: u16, modules: &str, more: &str, stubs: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = folder.path().display();
        let text = format!(
            "server:\n  interface: 127.0.0.1@{port}\n  do-daemonize: no\n  chroot: \"\"\n\
             \x20 username: \"\"\n  directory: \"{at}\"\n  pidfile: \"\"\n  use-syslog: no\n\
             \x20 module-config: \"{modules}\"\n  do-not-query-localhost: no\n  num-threads: 1\n\
             \x20 local-zone: \"example.com.\" nodefault\n{more}\
             stub-zone:\n  name: \"example.com\"\n  stub-addr: 127.0.0.1@{server}\n{stubs}\
             remote-control:\n  control-enable: no\n"
        );
        let file = folder.path().join("unbound.conf");
        std::fs::write(&file, text).unwrap();
        let process = Command::new("unbound")
            .args(["-d", "-c", file.to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .expect("unbound");
        Self { process, port, _folder: folder }
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Something that accepts connections until it is told to stop.
fn cluster(address: &str) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let alive = Arc::new(AtomicBool::new(true));
    let flag = alive.clone();
    std::thread::spawn(move || {
        while flag.load(Ordering::Relaxed) {
            while listener.accept().is_ok() {}
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    (port, alive)
}

/// From the death of a cluster to the first right answer at a client behind a resolver.
#[test]
fn clients_behind_a_resolver_are_led_away_from_a_dead_cluster() {
    let ((first, alive), (second, _second)) = (cluster("127.0.0.2"), cluster("127.0.0.1"));
    let mut targets = three();
    targets.truncate(2);
    for (target, (host, port)) in
        targets.iter_mut().zip([("127.0.0.2", first), ("127.0.0.1", second)])
    {
        target.addresses.truncate(1);
        target.addresses[0].host = host.into();
        target.addresses[0].port = port;
    }
    let rules = |ttl| TrafficRules {
        failover: vec!["paris".into()],
        dns: Some(DnsRules { ttl_seconds: Some(ttl), ..DnsRules::default() }),
        health_check: Some(HealthCheck { interval_milliseconds: 250, ..HealthCheck::default() }),
        ..TrafficRules::default()
    };
    let ttls = [5_u32, 30];
    let hosts: Vec<(String, u32)> = ttls
        .iter()
        .flat_map(|ttl| (0..10).map(move |n| (format!("h{n}-{ttl}.example.com"), *ttl)))
        .collect();
    let globals = hosts.iter().map(|(host, ttl)| global(host, targets.clone(), rules(*ttl)));
    let bed = Bed::new(objects(globals.collect()));
    let resolver = Resolver::start(bed.address().port());
    let killed = Instant::now() + Duration::from_secs(32);
    let waits: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(index, (host, ttl))| {
            let (host, ttl, port) = (host.clone(), *ttl, resolver.port);
            let start = Duration::from_secs(u64::from(ttl)) * (index as u32 % 10) / 10;
            std::thread::spawn(move || {
                std::thread::sleep(start);
                let ask = format!("{host} A +short +tries=1");
                bed::until(|| run("dig", port, &ask), |answer| answer == "127.0.0.2\n");
                while Instant::now() < killed + Duration::from_secs(60) {
                    if run("dig", port, &ask) == "127.0.0.1\n" {
                        assert!(Instant::now() > killed, "{host} moved before anything happened");
                        return (ttl, killed.elapsed());
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                panic!("{host} was never led away");
            })
        })
        .collect();
    std::thread::sleep(killed.saturating_duration_since(Instant::now()));
    alive.store(false, Ordering::Relaxed);
    let waits: Vec<_> = waits.into_iter().map(|wait| wait.join().unwrap()).collect();
    for ttl in ttls {
        let mut times: Vec<f64> =
            waits.iter().filter(|(of, _)| *of == ttl).map(|(_, wait)| wait.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let texts: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
        println!("TTL {ttl}: seconds to the first right answer: {}", texts.join(" "));
    }
}
