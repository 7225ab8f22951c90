//! Why a real counterpart could not be started, stopped or restarted.
//!
//! The reader is a person in front of a failed test, so the messages carry what
//! would otherwise have to be looked up: the folder searched, the end of the
//! log. The log itself disappears together with the test.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

/// The step that failed, and what was seen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder of the binaries could not be learned.
    #[error(
        "cannot ask {script} where the Kubernetes binaries are: {reason}; \
         set KUBEBUILDER_ASSETS to the folder that has them"
    )]
    LocateAssets {
        /// The script that knows.
        script: PathBuf,
        /// What went wrong with it.
        reason: String,
    },
    /// The folder is known, the binary is not in it.
    #[error(
        "no executable {binary} in {folder}: run tools/kube-assets to build it, \
         or set KUBEBUILDER_ASSETS to a folder that has it"
    )]
    MissingBinary {
        /// The binary's name.
        binary: &'static str,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// No loopback port could be had from the kernel.
    #[error("cannot find a free loopback port")]
    FreePort(#[source] io::Error),
    /// A folder or file of the counterpart could not be written.
    #[error("cannot write {path}")]
    WriteFile {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A key or certificate could not be made.
    #[error("cannot make the certificates of {program}")]
    MakeCertificates {
        /// Whose certificates.
        program: &'static str,
        /// What rcgen said.
        source: rcgen::Error,
    },
    /// The process, or the watchdog beside it, could not be created.
    #[error("cannot start {program}")]
    Spawn {
        /// The program.
        program: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A network namespace could not be made or connected.
    #[error("cannot make a network of its own for the test: {reason}; run it as root")]
    MakeNetwork {
        /// The step that failed, and what the system said.
        reason: String,
    },
    /// Another process took one of the ports first.
    #[error("{program} found its port taken; the end of its log:\n{log_tail}")]
    PortTaken {
        /// The program.
        program: &'static str,
        /// The last lines it wrote.
        log_tail: String,
    },
    /// The process ended before it was ready.
    #[error("{program} ended before it was ready ({status}); the end of its log:\n{log_tail}")]
    EndedEarly {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last lines it wrote.
        log_tail: String,
    },
    /// The process runs, but does not do its work.
    #[error(
        "{program} was not ready after {limit:?}, it last answered: {last_answer}; \
         the end of its log:\n{log_tail}"
    )]
    NotReady {
        /// The program.
        program: &'static str,
        /// How long it was given.
        limit: Duration,
        /// What the last check of its readiness saw.
        last_answer: String,
        /// The last lines it wrote.
        log_tail: String,
    },
    /// The process could not be signalled or waited for.
    #[error("cannot end {program}")]
    End {
        /// The program.
        program: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The process was asked to end and did not.
    #[error("{program} still runs {limit:?} after SIGTERM; the end of its log:\n{log_tail}")]
    StillRunning {
        /// The program.
        program: &'static str,
        /// How long it was given.
        limit: Duration,
        /// The last lines it wrote.
        log_tail: String,
    },
}
