//! What plays a pod: a process in the test's network that answers every request with its name.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

use limen_testbed::Network;

const ROLE: &str = "LIMEN_TEST_POD";
/// Where all pods listen.
pub(crate) const PORT: u16 = 8080;

/// A running pod; it ends when this is dropped, or with the test.
pub(crate) struct Pod {
    process: Child,
    pub(crate) address: Ipv4Addr,
}

impl Pod {
    /// Starts a pod at one of the network's addresses and waits until it listens.
    pub(crate) fn start(network: &Network, number: u8, name: &str) -> Self {
        let address = network.address(number);
        let mut process = network
            .command(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "pod::plays_a_pod", "--nocapture"])
            .env(ROLE, format!("{address}:{PORT} {name}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let ready = output.lines().map_while(Result::ok).any(|line| line.contains("listening"));
        assert!(ready, "the pod {name} did not start");
        Self { process, address }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "a program: the other tests start it as a pod"]
fn plays_a_pod() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (address, name) = role.split_once(' ').unwrap();
    let listener = TcpListener::bind(address.parse::<SocketAddr>().unwrap()).unwrap();
    println!("listening");
    let name = name.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let name = name.clone();
            std::thread::spawn(move || serve(stream, &name));
        }
    });
    // The end of the test closes the pipe, however it comes.
    let _ = std::io::stdin().read(&mut [0]);
}

fn serve(mut stream: TcpStream, name: &str) {
    let mut seen = Vec::new();
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut part) {
        seen.extend_from_slice(&part[..length]);
        while let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
            seen.drain(..end + 4);
            let length = name.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}
