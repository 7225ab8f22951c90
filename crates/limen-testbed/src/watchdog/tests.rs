//! The watchdog with `sleep` in the place of a server, and with an owner that
//! is killed: this test binary, started a second time.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    thread,
    time::Instant,
};

use super::*;

const OWNER: &str = "LIMEN_TESTBED_OWNS_A_PROCESS";
const PATIENCE: Duration = Duration::from_secs(20);

fn sleeper() -> Guarded {
    let log = tempfile::tempfile().unwrap();
    Guarded::spawn(Path::new("/bin/sleep"), &["600".into()], log).unwrap()
}

/// A zombie whose parent died is the business of process 1, and counts as gone.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn becomes_true(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn pid_is_that_of_the_program_and_not_of_a_shell() {
    let process = sleeper();

    let name = || fs::read_to_string(format!("/proc/{}/comm", process.pid())).unwrap();

    assert!(becomes_true(|| name() == "sleep\n"), "{}", name());
}

#[test]
fn dropping_ends_the_program_and_its_watchdog() {
    let process = sleeper();
    let (pid, watchdog) = (process.pid(), process.watchdog.id());
    assert!(runs(pid) && runs(watchdog));

    drop(process);

    assert!(!runs(pid));
    assert!(!runs(watchdog));
}

#[test]
fn panic_ends_the_program() {
    let process = sleeper();
    let pid = process.pid();

    let panicked = thread::spawn(move || {
        let _held = process;
        panic!("on purpose");
    });

    assert!(panicked.join().is_err());
    assert!(!runs(pid));
}

#[test]
fn program_survives_the_thread_that_started_it() {
    let process = thread::spawn(sleeper).join().unwrap();

    thread::sleep(Duration::from_millis(100));

    assert!(runs(process.pid()));
}

#[test]
fn killing_the_owner_ends_the_program_and_its_watchdog() {
    if env::var_os(OWNER).is_some() {
        own_a_process_until_killed();
    }
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("watchdog::tests::killing_the_owner_ends_the_program_and_its_watchdog")
        .env(OWNER, "")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(owner.stdout.take().unwrap());
    let pids: Vec<u32> = output
        .lines()
        .find_map(|line| Some(line.unwrap().split_once("owns ")?.1.to_owned()))
        .expect("the owner names its processes")
        .split(' ')
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| runs(*pid)));

    owner.kill().unwrap();
    owner.wait().unwrap();

    assert!(becomes_true(|| !pids.iter().any(|pid| runs(*pid))), "{pids:?} still run");
}

fn own_a_process_until_killed() -> ! {
    let process = sleeper();
    println!("owns {} {}", process.pid(), process.watchdog.id());
    loop {
        thread::park();
    }
}

#[tokio::test]
async fn stopping_asks_first_and_reports_who_does_not_listen() {
    let mut polite = sleeper();
    assert!(polite.stop(PATIENCE).await.unwrap());
    assert!(polite.stop(PATIENCE).await.unwrap(), "ended already");

    let log = tempfile::NamedTempFile::new().unwrap();
    let script = "trap '' TERM; echo deaf; while :; do sleep 1; done";
    let args = ["-c".into(), script.into()];
    let mut deaf = Guarded::spawn(Path::new(SHELL), &args, log.reopen().unwrap()).unwrap();
    assert!(becomes_true(|| fs::read_to_string(log.path()).unwrap() == "deaf\n"));

    assert!(!deaf.stop(Duration::from_millis(100)).await.unwrap());
    let pid = deaf.pid();
    deaf.kill().await.unwrap();
    assert!(!runs(pid));
}

#[test]
fn program_that_cannot_be_executed_ends_and_says_so_in_the_log() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let nowhere = Path::new("/nowhere/etcd");
    let mut process = Guarded::spawn(nowhere, &[], log.reopen().unwrap()).unwrap();

    let status = process.process.wait().unwrap();

    assert!(!status.success());
    let said = fs::read_to_string(log.path()).unwrap();
    assert!(said.contains("/nowhere/etcd"), "{said}");
    assert!(process.ended().unwrap().is_some());
}
