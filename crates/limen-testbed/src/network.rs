//! A network of a test's own: a namespace with addresses that are neither loopback nor anybody
//! else's, where a test puts what plays the pods of a cluster.
//!
//! ```text
//!   the machine's namespace                     the test's namespace
//!   test, gateway ── veth, .1/28 ─────────────── eth0, .2 to .14 ── pods
//! ```
//!
//! The namespace has no name: it is held by a process that ends when the test does, however the
//! test ends, and the kernel then removes it with both ends of the cable.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use crate::Error;

/// Networks come from the range that is set aside for benchmarks (RFC 2544): nobody routes it.
const RANGE: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// How many networks of sixteen addresses there are in it.
const NETWORKS: u32 = 8192;
/// Holds the namespace until its input ends.
const HOLD: &str = "echo held; exec cat";

/// A running network; dropping it removes it.
pub struct Network {
    holder: Child,
    first: u32,
}

impl Network {
    /// Makes a network. It needs to be root, `unshare` and `nsenter` of util-linux, and `ip` of iproute2.
    pub fn new() -> Result<Self, Error> {
        let failed = |reason: String| Error::MakeNetwork { reason };
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", HOLD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(format!("unshare: {error}")))?;
        let mut said = String::new();
        if let Some(output) = holder.stdout.take() {
            let _ = BufReader::new(output).read_line(&mut said);
        }
        // One test process has one network, and process ids of one moment differ.
        let first = RANGE + std::process::id() % NETWORKS * 16;
        let network = Self { holder, first };
        if said.trim() != "held" {
            return Err(failed("unshare --net is not permitted here".to_owned()));
        }
        network.lay_cable()?;
        Ok(network)
    }

    fn lay_cable(&self) -> Result<(), Error> {
        let holder = self.holder.id().to_string();
        let cable = format!("lt{holder}");
        run(ip(&["link", "add", &cable, "type", "veth", "peer", "eth0", "netns", &holder]))?;
        run(ip(&["addr", "add", &format!("{}/28", self.address(1)), "dev", &cable]))?;
        run(ip(&["link", "set", &cable, "up"]))?;
        for number in 2..15 {
            let address = format!("{}/28", self.address(number));
            run(self.inside(&ip(&["addr", "add", &address, "dev", "eth0"])))?;
        }
        run(self.inside(&ip(&["link", "set", "eth0", "up"])))?;
        run(self.inside(&ip(&["link", "set", "lo", "up"])))
    }

    /// An address of the network: 1 is the machine's, 2 to 14 are in the namespace.
    pub fn address(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::from(self.first + u32::from(number))
    }

    /// A command that is run in the namespace.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id())).arg(program);
        command
    }

    fn inside(&self, command: &Command) -> Command {
        let mut within = self.command(command.get_program());
        within.args(command.get_args());
        within
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn ip(args: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(args);
    command
}

fn run(mut command: Command) -> Result<(), Error> {
    let said = match command.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Error::MakeNetwork { reason: format!("{command:?}: {said}") })
}
