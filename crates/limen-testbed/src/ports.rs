//! Free loopback ports.
//!
//! The kernel is asked for a port by binding to port 0 and closing again, so
//! between that moment and the start of the real server another process may
//! take it. That cannot be prevented from outside the server, only noticed: the
//! server says so in its log, and the start is repeated with other ports.

use std::net::{Ipv4Addr, TcpListener};

use crate::{
    Error,
    server::{Program, Server},
};

const ATTEMPTS: usize = 5;

/// Starts the program that `program` makes for free ports, again with others
/// while it finds one taken.
pub(crate) async fn start_on_free_ports<const N: usize>(
    program: impl Fn([u16; N]) -> Result<Program, Error>,
) -> Result<(Server, [u16; N]), Error> {
    let mut attempt = 1;
    loop {
        let ports = free_ports()?;
        match Server::start(program(ports)?).await {
            Err(Error::PortTaken { .. }) if attempt < ATTEMPTS => attempt += 1,
            outcome => return outcome.map(|server| (server, ports)),
        }
    }
}

fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
    // All are held before the first is let go, so that they differ.
    let held: Vec<TcpListener> = (0..N)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()
        .map_err(Error::FreePort)?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr().map_err(Error::FreePort)?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::probe::Probe;

    #[test]
    fn ports_differ() {
        let [first, second] = free_ports().unwrap();

        assert_ne!(first, second);
        assert!(first != 0 && second != 0);
    }

    /// Starts a program that finds its port taken `times` times, and then fails
    /// for another reason.
    async fn attempts_when_taken(times: usize) -> (usize, Error) {
        let folder = tempfile::tempdir().unwrap();
        let attempts = Cell::new(0);
        let outcome = start_on_free_ports(|[port]| {
            attempts.update(|n| n + 1);
            let trouble = if attempts.get() <= times { "address already in use" } else { "other" };
            Ok(Program {
                name: "script",
                path: "/bin/sh".into(),
                args: vec!["-c".into(), format!("echo {trouble}; exit 1")],
                log: folder.path().join("log"),
                ready: Probe::Http { port, path: "/" },
            })
        });
        let error = outcome.await.err().unwrap();
        (attempts.get(), error)
    }

    #[tokio::test]
    async fn taken_port_leads_to_another_attempt() {
        let (attempts, error) = attempts_when_taken(2).await;

        assert_eq!(attempts, 3);
        assert!(matches!(error, Error::EndedEarly { .. }));
    }

    #[tokio::test]
    async fn attempts_come_to_an_end() {
        let (attempts, error) = attempts_when_taken(usize::MAX).await;

        assert_eq!(attempts, ATTEMPTS);
        assert!(matches!(error, Error::PortTaken { .. }));
    }
}
