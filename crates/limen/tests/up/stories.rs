//! `limen play`: every story ends well, also right after the others, and leaves things as they were.

use std::path::Path;

use crate::rig::{Up, limen};

fn play(story: &str, folder: &Path) {
    let output = limen(&["play", story, "--quick", "--data-dir"]).arg(folder).output().unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("--- {story}\n{said}");
    assert!(output.status.success(), "{story}: {complained}");
    assert!(said.ends_with("The story ended well.\n"), "{story}: {said}");
    assert!(!said.contains('\x1b'), "there is no terminal to draw on: {said:?}");
}

#[test]
fn all_stories_end_well_one_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--clusters", "3"]);
    for story in ["failover", "canary", "drain", "rejoin", "split-brain", "overflow", "failover"] {
        play(story, folder.path());
    }
    let (_, answer) = up.ask_gateway();
    assert_eq!(
        (&answer["cluster"], &answer["version"]),
        (&"gce-us-central1a".into(), &"v1".into())
    );
    for cluster in up.state()["clusters"].as_array().unwrap() {
        assert_eq!(cluster["pods"].as_array().unwrap().len(), 2, "{cluster}");
        assert_eq!(cluster["faults"]["killed"], false, "{cluster}");
    }
    up.terminate();
}
