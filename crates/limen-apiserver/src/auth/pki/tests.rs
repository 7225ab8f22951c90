use std::fs;
use std::os::unix::fs::PermissionsExt;

use jiff::SignedDuration;
use rustls::pki_types::CertificateDer;
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::auth::server_config;
use crate::auth::x509::certificate_identity;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn in_days(days: i32) -> Timestamp {
    now() + SignedDuration::from_hours(24) * days
}

fn names(others: &[&str]) -> ServingNames {
    ServingNames::new([10, 0, 0, 7].into(), others.iter().map(|&name| name.to_owned()))
}

fn open(folder: &TempDir, names: &ServingNames, now: Timestamp) -> Pki {
    Pki::open(folder.path(), names, now).unwrap()
}

fn texts(pki: &Pki) -> [String; 6] {
    let ((serving, serving_key), (admin, admin_key)) = (pki.serving(), pki.admin());
    [pki.ca_pem(), serving, serving_key, admin, admin_key, pki.signing_key_pem.expose()]
        .map(str::to_owned)
}

#[test]
fn a_restart_keeps_everything() {
    let folder = TempDir::new().unwrap();
    let first = texts(&open(&folder, &names(&[]), now()));
    assert_eq!(texts(&open(&folder, &names(&[]), in_days(200))), first);
    for key in ["ca.key", "serving.key", "admin.key", "service-accounts.key"] {
        let mode = fs::metadata(folder.path().join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    assert!(
        fs::read_dir(folder.path())
            .unwrap()
            .all(|file| { !file.unwrap().file_name().to_string_lossy().ends_with(".new") })
    );
}

#[test]
fn the_serving_certificate_is_renewed_when_it_ages_or_is_renamed() {
    let folder = TempDir::new().unwrap();
    let first = texts(&open(&folder, &names(&[]), now()));
    let renamed = texts(&open(&folder, &names(&["api.example.org", "fd00::1"]), now()));
    assert_ne!(renamed[1], first[1]);
    let again = texts(&open(&folder, &names(&["api.example.org", "fd00:0::1"]), now()));
    assert_eq!(again, renamed);
    let aged = texts(&open(&folder, &names(&["api.example.org", "fd00::1"]), in_days(320)));
    assert_ne!(aged[1], renamed[1]);
    assert_ne!(aged[3], renamed[3]);
    // The authority and all keys stay.
    for kept in [0, 2, 4, 5] {
        assert_eq!(aged[kept], first[kept]);
    }
}

#[test]
fn a_start_that_was_cut_short_is_finished_by_the_next() {
    let certificates_written_last = ["ca.crt", "serving.crt", "admin.crt", "service-accounts.key"];
    for cut_before in 0..certificates_written_last.len() {
        let folder = TempDir::new().unwrap();
        let before = texts(&open(&folder, &names(&[]), now()));
        for file in &certificates_written_last[cut_before..] {
            fs::remove_file(folder.path().join(file)).unwrap();
            fs::write(folder.path().join(format!("{file}.new")), "half").unwrap();
        }
        let pki = open(&folder, &names(&[]), now());
        assert_eq!(pki.ca_pem() == before[0], cut_before > 0);
        server_config(pki.ca_pem(), pki.serving()).unwrap();
        pki.signing_key().unwrap();
    }
}

#[test]
fn a_certificate_of_another_key_is_not_used() {
    let folder = TempDir::new().unwrap();
    open(&folder, &names(&[]), now());
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    fs::write(folder.path().join("serving.key"), &key).unwrap();
    let pki = open(&folder, &names(&[]), now());
    assert_eq!(pki.serving().1, key);
    server_config(pki.ca_pem(), pki.serving()).unwrap();
}

#[test]
fn an_authority_is_never_replaced() {
    let cases: [(&str, Option<&str>, &str); 4] = [
        (
            "ca.key",
            None,
            "ca.key cannot be used: it is missing; restore it from a backup, or delete the folder",
        ),
        ("ca.key", Some("x"), "ca.crt cannot be used: its key file holds no private key"),
        ("ca.crt", Some("x"), "ca.crt cannot be used: it holds no certificate"),
        (
            "service-accounts.key",
            Some("x"),
            "service-accounts.key cannot be used: it holds no private key in PEM form; restore it",
        ),
    ];
    for (file, text, message) in cases {
        let folder = TempDir::new().unwrap();
        open(&folder, &names(&[]), now());
        let path = folder.path().join(file);
        match text {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let error = Pki::open(folder.path(), &names(&[]), now()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let folder = TempDir::new().unwrap();
    open(&folder, &names(&[]), now());
    let error = Pki::open(folder.path(), &names(&[]), in_days(4000)).unwrap_err();
    assert!(error.to_string().contains("ca.crt cannot be used: it has expired"));
}

#[test]
fn the_admin_is_a_master() {
    let folder = TempDir::new().unwrap();
    let pki = open(&folder, &names(&[]), now());
    let der = CertificateDer::from_pem_slice(pki.admin().0.as_bytes()).unwrap();
    let admin = certificate_identity(&der).unwrap();
    assert_eq!(admin.name, "kubernetes-admin");
    assert_eq!(admin.groups, ["system:masters", "system:authenticated"]);
}

#[test]
fn a_kubeconfig_has_all_that_a_client_needs() {
    let folder = TempDir::new().unwrap();
    let pki = open(&folder, &names(&[]), now());
    let path = folder.path().join("kubeconfig");
    let called = KubeconfigNames { cluster: "hub: \"1\"", user: "admin", context: "hub" };
    pki.write_kubeconfig(&path, "https://127.0.0.1:6443", &called).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let read: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(read["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
    assert_eq!(read["contexts"][0]["context"]["cluster"], "hub: \"1\"");
    assert_eq!(read["current-context"], "hub");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn keys_that_others_can_read_are_tightened() {
    let folder = TempDir::new().unwrap();
    open(&folder, &names(&[]), now());
    let path = folder.path().join("ca.key");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    open(&folder, &names(&[]), now());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn no_key_is_shown() {
    let folder = TempDir::new().unwrap();
    let pki = open(&folder, &names(&[]), now());
    let shown = format!("{pki:?} {:?}", pki.signing_key().unwrap());
    assert!(!shown.contains("PRIVATE"));
}
