//! `limen` as a process.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kube::Client;

/// A process that is killed, at the latest, when the test ends.
pub(crate) struct Process(Child);

impl Process {
    /// Starts it and waits for its first line.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_limen"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.contains("is ready"), "{line}");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || output.read_to_string(&mut String::new()));
        Self(process)
    }

    /// A hub that keeps its things in a folder.
    pub(crate) fn hub(folder: &Path) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        Self::start(&["hub", "--data-dir", folder.to_str().unwrap(), "--listen", &listen])
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn terminate(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A client of the hub that keeps its things in a folder.
pub(crate) async fn client(folder: &Path) -> Client {
    Client::try_from(limen_testbed::config_of(&folder.join("kubeconfig")).await).unwrap()
}
