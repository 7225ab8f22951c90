//! A watchdog in real time: a history that does not end ends the program.
//!
//! The clock of a history stands still while any task can run, so a hub that goes round in circles
//! stops it for ever. Only a thread of its own can tell.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::world::Shared;

/// Real time that one history may take, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The exit code of a program whose history did not end.
pub const ENDLESS: i32 = 3;

/// Lines of the trace that are printed.
const LINES: usize = 12;

/// Ends the program unless it is dropped in time.
pub(crate) struct Watchdog {
    /// Its end tells the thread that the history is over.
    _over: Sender<()>,
}

impl Watchdog {
    /// Watches over the history of a seed.
    pub(crate) fn start(seed: u64, shared: Shared, patience: Duration) -> Self {
        let (over, is_over) = channel::<()>();
        std::thread::spawn(move || {
            if is_over.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                let text = overdue(seed, &shared, patience);
                // The macros would write to the buffer of a test that never ends.
                let _ = std::io::stderr().write_all(text.as_bytes());
                std::process::exit(ENDLESS);
            }
        });
        Self { _over: over }
    }
}

/// The last deeds of a history that does not end.
fn overdue(seed: u64, shared: &Shared, patience: Duration) -> String {
    let seconds = patience.as_secs();
    let mut text = format!("the history of seed {seed} has not ended after {seconds} s\n");
    // A loop that holds the lock of the world never gives it back.
    let Some(world) = shared.try_lock() else {
        return text + "the simulator itself is busy\n";
    };
    let requests = world.requests;
    let now = crate::trace::clock(world.now());
    text += &format!("{requests} requests, simulated time {now}; the last lines of its trace:\n");
    let lines: Vec<String> = world.trace.lines().collect();
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        text += &format!("  {line}\n");
    }
    text
}
