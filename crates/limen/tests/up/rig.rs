//! A federation of a test's own, in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take: far longer than it does, since machines are slow at times.
const PATIENCE: Duration = Duration::from_secs(120);

/// A `limen up` that is killed, at the latest, when the test ends.
pub(crate) struct Up {
    process: Child,
    /// All that it said when it was ready. Only tests with real tools try what it says.
    #[cfg_attr(not(feature = "e2e"), expect(dead_code))]
    pub(crate) welcome: String,
    pub(crate) addresses: Value,
}

/// `limen` with arguments.
pub(crate) fn limen(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limen"));
    command.args(arguments);
    command
}

impl Up {
    /// Starts a federation on a folder, and waits until it is ready.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = limen(&["up", "--port-base", "0", "--data-dir"]);
        let mut process =
            command.arg(folder).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let welcome = wait_for_end_of_welcome(&mut process);
        let text = std::fs::read_to_string(folder.join("up.json")).unwrap();
        Self { process, welcome, addresses: serde_json::from_str(&text).unwrap() }
    }

    pub(crate) fn address(&self, pointer: &str) -> String {
        self.addresses.pointer(pointer).and_then(Value::as_str).unwrap().to_owned()
    }

    /// Status and JSON of what the gateway answers.
    pub(crate) fn ask_gateway(&self) -> (u16, Value) {
        ask(&self.address("/gateway/http"), "GET", "/")
    }

    /// Makes trouble for a cluster.
    pub(crate) fn trouble(&self, cluster: &str, what: &str) {
        let path = format!("/clusters/{cluster}/{what}");
        let (status, answer) = ask(&self.address("/admin"), "POST", &path);
        assert_eq!(status, 200, "{answer}");
    }

    /// Everything that the control says.
    pub(crate) fn state(&self) -> Value {
        ask(&self.address("/admin"), "GET", "/").1
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn terminate(mut self) {
        terminate(&mut self.process);
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads what a new federation says until it has said all.
pub(crate) fn wait_for_end_of_welcome(process: &mut Child) -> String {
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("Press Ctrl-C") {
        let read = output.read_line(&mut said).unwrap();
        assert!(read > 0, "it ended before it was ready: {said}");
    }
    // What it says later must not fill the pipe.
    std::thread::spawn(move || output.read_to_string(&mut String::new()));
    said
}

/// Ends a process as Ctrl-C does; it must end well.
pub(crate) fn terminate(process: &mut Child) {
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let status = process.wait().unwrap();
    assert!(status.success(), "{status}");
}

/// Asks something on this machine; nothing is 0 and null.
pub(crate) fn ask(address: &str, method: &str, path: &str) -> (u16, Value) {
    use std::io::Write;
    let Ok(mut stream) = TcpStream::connect(address) else { return (0, Value::Null) };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\naccept: application/json\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).is_err() || stream.read_to_string(&mut answer).is_err()
    {
        return (0, Value::Null);
    }
    let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Waits until something holds, and says what it was last when it never does.
pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> (bool, String)) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (holds, found) = check();
        if holds {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: still {found}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
