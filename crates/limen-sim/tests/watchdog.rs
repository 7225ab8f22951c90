//! A history that does not end ends the program.

use std::process::Command;

use limen_sim::watchdog::ENDLESS;

#[test]
fn a_history_that_takes_too_long_ends_the_program_and_says_what_it_was_doing() {
    let simulator = env!("CARGO_BIN_EXE_simulate-federation");
    let run = Command::new(simulator).args(["--once", "--seed", "7", "--patience", "0"]).output();
    let run = run.unwrap();
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(ENDLESS), "{told}");
    assert!(told.contains("the history of seed 7 has not ended after 0 s"), "{told}");
    let run = Command::new(simulator).args(["--once", "--seed", "7"]).output().unwrap();
    assert!(run.status.success(), "a history that ends is left alone");
}
