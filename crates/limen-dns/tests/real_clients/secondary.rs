//! A real secondary, and clients over TLS and HTTPS.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use limen_core::global::TrafficRules;
use limen_dns::{CertificateFiles, KeyFolder, Secondary, TsigKey};

use crate::bed::{Bed, global, objects, shop, three, until};
use crate::run;

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Knot as a secondary of `example.com`.
struct Knot(Child);

impl Knot {
    fn start(folder: &std::path::Path, port: u16, primary: u16) -> Self {
        let at = folder.display();
        let text = format!(
            "server:\n  rundir: {at}\n  listen: 127.0.0.1@{port}\n\
             database:\n  storage: {at}/db\n\
             key:\n- id: peer\n  algorithm: hmac-sha256\n  secret: {SECRET}\n\
             remote:\n- id: limen\n  address: 127.0.0.1@{primary}\n  key: peer\n\
             acl:\n- id: notify\n  address: 127.0.0.1\n  key: peer\n  action: notify\n\
             zone:\n- domain: example.com\n  storage: {at}\n  master: limen\n  acl: notify\n"
        );
        let file = folder.join("knot.conf");
        std::fs::write(&file, text).unwrap();
        let process = Command::new("knotd")
            .args(["-c", file.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("knotd");
        Self(process)
    }
}

impl Drop for Knot {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    loop {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[test]
fn knot_pulls_the_zone_is_told_of_changes_and_serves_it_signed() {
    let folder = tempfile::tempdir().unwrap();
    let keys = KeyFolder::new(folder.path().join("keys"));
    let port = free_port();
    let all = || {
        objects(vec![
            global("shop.example.com", three(), TrafficRules::default()),
            global("*.wild.example.com", three(), TrafficRules::default()),
        ])
    };
    let key = TsigKey::new("peer", "hmac-sha256", SECRET).unwrap();
    let bed = Bed::with(all(), |options| {
        let address = ([127, 0, 0, 1], port).into();
        options.secondaries = vec![Secondary { address, key }];
        options.dnssec_keys = Some(keys.clone());
    });
    let _knot = Knot::start(folder.path(), port, bed.address().port());
    let shown = |question: &str| run("dig", port, &format!("{question} +short +tries=1"));
    let first = until(|| shown("example.com SOA"), |soa| soa.contains("ns1"));
    let address = shown("shop.example.com A");
    assert!(address.starts_with("192.0.2."), "{address}");
    assert_eq!(shown("x.wild.example.com A"), address);
    assert!(run("dig", port, "nothing.example.com A").contains("NXDOMAIN"));
    for question in ["shop.example.com A", "x.wild.example.com A", "nothing.example.com A"] {
        let seen = delv(folder.path(), port, &keys.list("example.com").unwrap()[0].ds, question);
        assert!(seen.contains("fully validated"), "{question}: {seen}");
    }
    // Another cluster: Knot is told, and asks for what is new.
    let mut moved = three();
    for target in &mut moved {
        target.addresses[0].host = "192.0.2.99".into();
    }
    bed.set(objects(vec![global("shop.example.com", moved, TrafficRules::default())]));
    until(|| shown("shop.example.com A"), |address| address == "192.0.2.99\n");
    assert_ne!(shown("example.com SOA"), first);
}

fn delv(folder: &std::path::Path, port: u16, ds: &str, question: &str) -> String {
    let parts: Vec<&str> = ds.split(' ').collect();
    let [zone, .., tag, algorithm, digest, hash] = parts[..] else { panic!("{ds}") };
    let anchor = folder.join("anchor");
    let text =
        format!("trust-anchors {{ {zone} static-ds {tag} {algorithm} {digest} \"{hash}\"; }};\n");
    std::fs::write(&anchor, text).unwrap();
    let output = Command::new("delv")
        .args(["@127.0.0.1", "-p", &port.to_string(), "-a", anchor.to_str().unwrap()])
        .arg("+root=example.com")
        .args(question.split(' '))
        .output()
        .expect("delv");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn dig_transfers_with_the_secret_and_is_refused_without() {
    let key = TsigKey::new("peer", "hmac-sha256", SECRET).unwrap();
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        let address = "127.0.0.1:1".parse().unwrap();
        options.secondaries = vec![Secondary { address, key }];
    });
    let port = bed.address().port();
    for client in ["dig", "kdig"] {
        let signed = run(client, port, &format!("-y hmac-sha256:peer:{SECRET} example.com AXFR"));
        assert!(signed.contains("shop.example.com."), "{client}: {signed}");
        let plain = run(client, port, "example.com AXFR");
        assert!(!plain.contains("shop.example.com."), "{client}: {plain}");
        // Of changes since an old number the whole zone is told, and of none since the newest.
        let serial = run("dig", port, "example.com SOA +short");
        let serial: u32 = serial.split(' ').nth(2).unwrap().parse().unwrap();
        for (known, whole) in [(serial - 1, true), (serial, false)] {
            let ask = format!("-y hmac-sha256:peer:{SECRET} example.com IXFR={known}");
            let seen = run(client, port, &ask);
            assert_eq!(seen.contains("shop.example.com."), whole, "{client} {known}: {seen}");
            assert!(seen.contains(&serial.to_string()), "{client} {known}: {seen}");
        }
        let plain = run(client, port, &format!("example.com IXFR={serial}"));
        assert!(!plain.contains("hostmaster"), "{client}: {plain}");
    }
}

#[test]
fn kdig_asks_over_tls_and_https() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = CertificateFiles {
        chain: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    std::fs::write(&files.chain, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let ca = files.chain.display().to_string();
    let bed = Bed::with(shop(TrafficRules::default()), |options| {
        options.tls = vec!["127.0.0.1:0".parse().unwrap()];
        options.https = vec!["127.0.0.1:0".parse().unwrap()];
        options.certificate = Some(files);
    });
    let (tls, https) = (bed.server.tls()[0].port(), bed.server.https()[0].port());
    let ask = "shop.example.com A +short +subnet=10.3.0.0/16";
    let trusted = format!("+tls-ca={ca} +tls-hostname=localhost");
    for (port, how) in [
        (tls, format!("+tls {trusted}")),
        (https, format!("+https {trusted}")),
        (https, format!("+https-get {trusted}")),
    ] {
        assert_eq!(run("kdig", port, &format!("{ask} {how}")), "192.0.2.3\n", "{how}");
    }
    let untrusted = run("kdig", tls, &format!("{ask} +tls-ca +tls-hostname=localhost"));
    assert!(!untrusted.contains("192.0.2.3"), "kdig really checks: {untrusted}");
}
