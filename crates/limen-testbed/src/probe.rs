//! How a program is asked whether it is ready.

use std::{net::Ipv4Addr, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    time::timeout,
};

use crate::kubectl::Kubectl;

/// Longer than any healthy answer, so that only a program that accepts
/// connections and never answers meets it.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

pub(crate) enum Probe {
    /// A plain HTTP page on a loopback port, as etcd has for its metrics.
    Http { port: u16, path: &'static str },
    /// An HTTPS page, fetched by kubectl: it speaks TLS with the certificates of
    /// the kubeconfig already, and spares this crate a client of its own.
    Kubectl { kubectl: Kubectl, server: String, path: &'static str },
}

impl Probe {
    /// Ready, or what was seen instead.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let answer = async {
            match self {
                Self::Http { port, path } => http(*port, path).await,
                Self::Kubectl { kubectl, server, path } => {
                    let mut command = kubectl.command();
                    command.args(["--server", server, "get", "--raw", path]);
                    run(command).await
                }
            }
        };
        timeout(ANSWER_LIMIT, answer)
            .await
            .unwrap_or_else(|_| Err(format!("nothing within {ANSWER_LIMIT:?}")))
    }
}

async fn http(port: u16, path: &str) -> Result<(), String> {
    let exchange = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = exchange.await.map_err(|error| error.to_string())?;
    if answer.split(' ').nth(1) == Some("200") { Ok(()) } else { Err(answer) }
}

async fn run(mut command: Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().await.map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpListener, thread};

    use super::*;

    async fn ask_server_that_says(answer: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            std::io::Read::read(&mut stream, &mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let seen = Probe::Http { port, path: "/readyz" }.check().await;
        server.join().unwrap();
        seen
    }

    #[tokio::test]
    async fn only_status_200_is_ready() {
        let ready = ask_server_that_says("HTTP/1.0 200 OK\r\n\r\nok").await;
        let unready =
            ask_server_that_says("HTTP/1.0 503 Service Unavailable\r\n\r\nno leader").await;

        assert_eq!(ready, Ok(()));
        assert!(unready.unwrap_err().ends_with("no leader"));
    }

    #[tokio::test]
    async fn closed_port_is_not_ready() {
        let port_nobody_can_listen_on = 0;

        let probe = Probe::Http { port: port_nobody_can_listen_on, path: "/readyz" };

        assert!(probe.check().await.is_err());
    }
}
