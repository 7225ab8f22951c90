//! Standard output, whose reader may go away: `limen crds | head`.
//!
//! The `println!` and `print!` of this crate end here, since those of the standard library panic
//! when nobody reads any more. What has no reader is dropped: a server goes on serving, a command
//! finishes what it has begun, and one that would go on for ever asks [`has_reader`].

use std::fmt::Arguments;
use std::io::{Error, ErrorKind, Write};
use std::sync::OnceLock;

use anyhow::{Context, Result};

/// Why nothing can be written any more.
static FAILURE: OnceLock<Error> = OnceLock::new();

/// Writes to standard output, or remembers why that cannot be.
pub(crate) fn write(text: Arguments<'_>) {
    if FAILURE.get().is_none()
        && let Err(error) = std::io::stdout().lock().write_fmt(text)
    {
        // Another thread may have been first, with the same reason.
        let _ = FAILURE.set(error);
    }
}

/// Whether anybody can still read what is written.
pub(crate) fn has_reader() -> bool {
    FAILURE.get().is_none()
}

/// Writes what is still in memory. A reader that has gone has seen enough, which is no failure; a
/// full disk is one.
pub(crate) fn finish() -> Result<()> {
    if let Err(error) = std::io::stdout().lock().flush() {
        let _ = FAILURE.set(error);
    }
    match FAILURE.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::new(error.kind(), error.to_string()))
                .context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
