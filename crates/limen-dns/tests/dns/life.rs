//! Objects that change, are wrong, or describe clusters that come and go.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use limen_api::source::ConfigFiles;
use limen_api::{DnsRecord, DnsZoneSpec, Nameserver};
use limen_core::global::{Address, HealthCheck, HealthCheckKind, TrafficRules};
use limen_dns::{Options, Server};
use rustls::{ServerConfig, ServerConnection};

use crate::bed::{Bed, block_on, global, objects, shop, three, until, with_zone};
use crate::client::*;

const ROUTES: &str = "
kind: GlobalIngress
metadata: { name: shop }
spec:
  rules:
  - { host: shop.example.com, paths: [{ path: /, backend: web }] }
  backends:
  - name: web
    targets:
    - { cluster: paris, addresses: [{ host: 192.0.2.1, port: 80 }] }
";

#[test]
fn files_are_obeyed_and_a_mistake_leaves_the_old_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("routes.yaml");
    std::fs::write(&file, ROUTES).unwrap();
    let options = Options {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        zones: vec!["example.com".into()],
        admin: Some("127.0.0.1:0".parse().unwrap()),
        ..Options::default()
    };
    let server = Server::start(&options, ConfigFiles(folder.path().to_owned())).unwrap();
    block_on(server.ready());
    let look = || ask("shop.example.com", A).udp(server.listen()[0]);
    assert_eq!(look().texts(), ["192.0.2.1"]);

    std::fs::write(&file, "kind: GlobalIngress\nmetadata: { name: shop }\nspec: { rules: 5 }\n")
        .unwrap();
    let admin = server.admin().unwrap();
    until(|| metric(admin, "limen_dns_reloads_failed_total"), |failed| *failed > 0);
    assert_eq!(look().texts(), ["192.0.2.1"]);

    std::fs::write(&file, ROUTES.replace("192.0.2.1", "192.0.2.9")).unwrap();
    until(look, |answer| answer.texts() == ["192.0.2.9"]);
}

pub(crate) fn get(admin: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn metric(admin: SocketAddr, name: &str) -> u64 {
    let text = get(admin, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[test]
fn a_wrong_zone_is_refused_and_the_old_one_stays() {
    let zone = |data: &str| DnsZoneSpec {
        zone: "example.com".into(),
        records: vec![DnsRecord {
            name: "mail".into(),
            kind: "A".into(),
            ttl_seconds: None,
            data: vec![data.into()],
        }],
        ..DnsZoneSpec::default()
    };
    let bed = Bed::new(with_zone(shop(TrafficRules::default()), zone("192.0.2.25")));
    let look = |name: &str| ask(name, A).udp(bed.address());
    assert_eq!(look("mail.example.com").texts(), ["192.0.2.25"]);
    let mut changed = with_zone(shop(TrafficRules::default()), zone("not an address"));
    changed.ingresses.insert(
        ("default".into(), "new".into()),
        Arc::new(global("new.example.com", three(), TrafficRules::default())),
    );
    bed.set(changed);
    until(|| look("new.example.com"), |answer| answer.rcode == NOERROR);
    assert_eq!(look("mail.example.com").texts(), ["192.0.2.25"]);
    bed.set(with_zone(shop(TrafficRules::default()), zone("192.0.2.26")));
    until(|| look("mail.example.com"), |answer| answer.texts() == ["192.0.2.26"]);
}

#[test]
fn a_wrong_record_at_the_start_costs_only_itself() {
    let record = |name: &str, kind: &str, data: &str| DnsRecord {
        name: name.into(),
        kind: kind.into(),
        ttl_seconds: None,
        data: vec![data.into()],
    };
    let zone = |records: Vec<DnsRecord>| DnsZoneSpec {
        zone: "example.com".into(),
        records,
        ..DnsZoneSpec::default()
    };
    let wrong = || {
        vec![
            record("mail", "A", "192.0.2.256"),
            record("docs", "A", "192.0.2.7"),
            record("child", "NS", "ns.elsewhere.net"),
            record("below.child", "TXT", "text"),
        ]
    };
    let bed = Bed::with(with_zone(shop(TrafficRules::default()), zone(wrong())), |options| {
        options.zones.clear();
        options.admin = Some("127.0.0.1:0".parse().unwrap());
    });
    let look = |name: &str| ask(name, A).udp(bed.address());
    assert_eq!(look("docs.example.com").texts(), ["192.0.2.7"]);
    assert_eq!(look("shop.example.com").answers.len(), 1);
    assert_eq!(look("mail.example.com").rcode, NXDOMAIN);
    let problems = || get(bed.server.admin().unwrap(), "/problems");
    let left_out =
        |problems: &String, count: usize| problems.matches("; it is left out").count() == count;
    let seen = problems();
    assert!(seen.contains("records[0] (mail A): \"192.0.2.256\" is not"), "{seen}");
    assert!(seen.contains("records[3] (below.child TXT): child.example.com is del"), "{seen}");
    assert!(left_out(&seen, 2), "{seen}");
    // Nothing that was wrong before is better than what is wrong in fewer places.
    let mut better = wrong();
    better.pop();
    better[1].data = vec!["192.0.2.8".into()];
    bed.set(with_zone(shop(TrafficRules::default()), zone(better)));
    until(|| look("docs.example.com"), |answer| answer.texts() == ["192.0.2.8"]);
    assert!(left_out(&problems(), 1), "{}", problems());
    // It is said for as long as it is so, whatever else changes.
    let more = global("new.example.com", three(), TrafficRules::default());
    let mut changed = with_zone(objects(vec![more]), zone(wrong()));
    bed.set(changed.clone());
    until(|| look("new.example.com"), |answer| answer.rcode == NOERROR);
    changed.ingresses.clear();
    bed.set(changed);
    until(|| look("new.example.com"), |answer| answer.rcode == NXDOMAIN);
    assert!(left_out(&problems(), 2), "{}", problems());
}

const ZONE: &str = "
kind: DnsZone
metadata: { name: zone }
spec:
  zone: example.com
  records:
  - { name: mail, type: A, data: [192.0.2.25] }

  - name: docs
    type: CNAME
    data: [pages.example.net]
";

#[test]
fn a_wrong_zone_in_a_file_is_refused_with_its_line_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone.yaml");
    std::fs::write(&file, ZONE).unwrap();
    let options = Options {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        admin: Some("127.0.0.1:0".parse().unwrap()),
        ..Options::default()
    };
    let server = Server::start(&options, ConfigFiles(folder.path().to_owned())).unwrap();
    block_on(server.ready());
    let mail = || ask("mail.example.com", A).udp(server.listen()[0]).texts().join(" ");
    assert_eq!(mail(), "192.0.2.25");
    for (wrong, line, reason) in [
        (("192.0.2.25", "192.0.2.256"), 7, "records[0] (mail A): \"192.0.2.256\" is not an IPv4"),
        (("pages.example.net", "two..dots"), 9, "records[1] (docs CNAME): \"two..dots\" is not"),
        (("type: CNAME", "type: PTR"), 9, "records[1] (docs PTR): type \"PTR\" cannot be served"),
        (("name: docs", "name: mail"), 9, "a CNAME cannot be beside other records"),
        (("zone: example.com", "zone: example..com"), 2, "two dots have nothing between them"),
    ] {
        std::fs::write(&file, ZONE.replace(wrong.0, wrong.1)).unwrap();
        let place = format!("zone.yaml:{line}: DnsZone default/zone: ");
        let is_it = |seen: &String| seen.contains(&place) && seen.contains(reason);
        let seen = until(|| get(server.admin().unwrap(), "/problems"), is_it);
        assert!(seen.contains("; the old zone stays"), "{seen}");
        assert_eq!(mail(), "192.0.2.25", "{reason}");
    }
    std::fs::write(&file, ZONE.replace("192.0.2.25", "192.0.2.26")).unwrap();
    until(mail, |address| address == "192.0.2.26");
}

#[test]
fn a_host_that_is_gone_is_no_longer_answered() {
    let bed = Bed::new(shop(TrafficRules::default()));
    assert_eq!(ask("shop.example.com", A).udp(bed.address()).rcode, NOERROR);
    bed.set(objects(vec![]));
    until(|| ask("shop.example.com", A).udp(bed.address()), |answer| answer.rcode == NXDOMAIN);
}

/// A web server that answers well or not, over TLS or in the clear.
fn web(address: &str, well: &Arc<AtomicBool>, tls: bool) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let well = well.clone();
    let config = server_config();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let status = if well.load(Ordering::Relaxed) { "200 OK" } else { "503 Bad Day" };
            if tls {
                let mut connection = ServerConnection::new(config.clone()).unwrap();
                answer(&mut rustls::Stream::new(&mut connection, &mut stream), status);
            } else {
                answer(&mut stream, status);
            }
        }
    });
    port
}

fn answer(stream: &mut (impl Read + Write), status: &str) {
    // A prober that has gone needs no answer.
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes());
}

fn server_config() -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["shop.example.com".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key);
    Arc::new(config.unwrap())
}

#[test]
fn own_probes_decide_where_no_gateway_has_a_verdict() {
    for kind in [HealthCheckKind::Http, HealthCheckKind::Https] {
        let well = [Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true))];
        let mut targets = three();
        targets.truncate(2);
        for (index, host) in ["127.0.0.2", "127.0.0.1"].into_iter().enumerate() {
            let port = web(host, &well[index], kind == HealthCheckKind::Https);
            targets[index].addresses = vec![Address { host: host.into(), port }];
        }
        let health_check = Some(HealthCheck {
            kind,
            interval_milliseconds: 20,
            timeout_milliseconds: 5000,
            ..HealthCheck::default()
        });
        let rules = TrafficRules { health_check, ..TrafficRules::default() };
        let bed = Bed::new(objects(vec![global("shop.example.com", targets, rules)]));
        let look = || ask("shop.example.com", A).subnet("10.1.0.0", 16).udp(bed.address());
        let is = |address: &'static str| move |answer: &Answer| answer.texts() == [address];
        until(look, is("127.0.0.2"));
        well[0].store(false, Ordering::Relaxed);
        let moved = until(look, is("127.0.0.1"));
        assert_eq!(moved.answers[0].ttl, 5);
        well[0].store(true, Ordering::Relaxed);
        until(look, is("127.0.0.2"));
    }
}

#[test]
fn the_example_is_answered_from() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let options = Options {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        networks: Some(examples.join("networks.yaml")),
        probe: false,
        ..Options::default()
    };
    let server = Server::start(&options, ConfigFiles(examples.join("dns"))).unwrap();
    block_on(server.ready());
    let look = |name: &str, network: &str| {
        let answer = ask(name, A).subnet(network, 16).udp(server.listen()[0]);
        answer.texts().join(" ")
    };
    assert_eq!(look("shop.example.com", "10.1.0.0"), "192.0.2.1");
    assert_eq!(look("any.shop.example.com", "10.3.0.0"), "192.0.2.3");
    assert!(look("beta.example.com", "10.3.0.0").starts_with("192.0.2."));
    assert_eq!(look("ns1.example.com", "10.3.0.0"), "192.0.2.53");
}

#[test]
fn a_server_of_the_zone_without_an_address_is_a_problem_that_can_be_seen() {
    let server = |addresses: &[&str]| Nameserver {
        name: "ns1.example.com".into(),
        addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
    };
    for (addresses, problems) in [(&[][..], true), (&["192.0.2.53"], false)] {
        let bed = Bed::with(shop(TrafficRules::default()), |options| {
            options.nameservers = vec![server(addresses)];
            options.admin = Some("127.0.0.1:0".parse().unwrap());
        });
        let seen = get(bed.server.admin().unwrap(), "/problems");
        assert_eq!(seen.contains("ns1.example.com has no address"), problems, "{seen}");
    }
}
