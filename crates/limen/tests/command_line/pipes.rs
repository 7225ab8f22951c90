//! Readers that have seen enough, and disks that are full.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use crate::{err, limen};

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for arguments in [&["crds"][..], &["version"], &["--help"]] {
        let mut process =
            limen(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = process.stdout.take().unwrap();
        reader.read_exact(&mut [0; 5]).unwrap();
        drop(reader);
        let ended = process.wait_with_output().unwrap();
        assert!(ended.status.success(), "{arguments:?} ended with {}", ended.status);
        assert_eq!(err(&ended), "", "{arguments:?}");
    }
}

#[test]
fn nobody_ever_having_read_is_no_failure_either() {
    let mut process =
        limen(&["crds"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(process.stdout.take());
    let ended = process.wait_with_output().unwrap();
    assert!(ended.status.success() && err(&ended).is_empty(), "{ended:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_one() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = limen(&["crds"]).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = err(&ended);
    assert!(said.starts_with("limen: cannot write to standard output: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn pipes_get_no_colours() {
    for arguments in [&["--help"][..], &["clusters", "--help"], &["clusters"]] {
        let ended = limen(arguments).output().unwrap();
        assert!(!ended.stdout.contains(&0x1b) && !ended.stderr.contains(&0x1b), "{ended:?}");
    }
}
