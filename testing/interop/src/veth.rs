//! A pair of virtual Ethernet interfaces: one in the test's namespace, for the
//! server, and one in a namespace of its own, for its clients.

use crate::{Running, ip, output, wait_for};
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The server's interface.
pub const SERVER: &str = "near0";
/// The clients' interface.
pub const CLIENT: &str = "far0";
/// The host's addresses at the server's interface, as URLs write them.
pub const HOST: [&str; 2] = ["10.7.0.1", "[fd07::1]"];
/// Addresses of our own there, as the command line takes them.
pub const OWN: [&str; 4] = ["--addr", "10.7.0.5/24", "--addr", "fd07::5/64"];
/// The same, as URLs write them.
pub const OWN_HOSTS: [&str; 2] = ["10.7.0.5", "[fd07::5]"];
/// An address of its own for a client beside its kernel's.
pub const CLIENT_OWN: [&str; 4] = ["--addr", "10.7.0.9/24", "--addr", "fd07::9/64"];

/// The clients' end: a namespace that ends with this value.
#[derive(Debug)]
pub struct Far {
    /// A process that does nothing, in that namespace.
    holder: Running,
}

impl Far {
    /// Makes the pair, with so many queues each, and sets it up.
    ///
    /// # Panics
    /// If the kernel does not.
    #[must_use]
    pub fn new(queues: u16) -> Self {
        let holder = Running::start(Command::new("unshare").args(["--net", "sleep", "600"]));
        let this = Self { holder };
        let ours = std::fs::read_link("/proc/thread-self/ns/net").expect("a namespace");
        let theirs = format!("/proc/{}/ns/net", this.holder.id());
        wait_for("a namespace for clients", || std::fs::read_link(&theirs).is_ok_and(|found| found != ours));
        let count = format!("numrxqueues {queues} numtxqueues {queues}");
        ip(&format!("link add {SERVER} {count} type veth peer name {CLIENT} {count}"));
        ip(&format!("link set {CLIENT} netns {}", this.holder.id()));
        ip(&format!("addr add 10.7.0.1/24 dev {SERVER}"));
        ip(&format!("addr add fd07::1/64 dev {SERVER} nodad"));
        ip(&format!("link set {SERVER} up"));
        this.ip("link set lo up");
        this.ip(&format!("addr add 10.7.0.2/24 dev {CLIENT}"));
        this.ip(&format!("addr add fd07::2/64 dev {CLIENT} nodad"));
        this.ip(&format!("link set {CLIENT} up"));
        this
    }

    /// Makes the pair again, after one end, and so both, were deleted.
    ///
    /// # Panics
    /// If the kernel does not.
    pub fn make_again(&self) {
        self.join(SERVER, CLIENT);
        ip(&format!("addr add 10.7.0.1/24 dev {SERVER}"));
        ip(&format!("addr add fd07::1/64 dev {SERVER} nodad"));
        self.ip(&format!("addr add 10.7.0.2/24 dev {CLIENT}"));
        self.ip(&format!("addr add fd07::2/64 dev {CLIENT} nodad"));
    }

    /// Makes one more pair, of one queue and without addresses, and sets it
    /// up.
    ///
    /// # Panics
    /// If the kernel does not.
    pub fn join(&self, server: &str, client: &str) {
        ip(&format!("link add {server} type veth peer name {client}"));
        ip(&format!("link set {client} netns {}", self.holder.id()));
        ip(&format!("link set {server} up"));
        self.ip(&format!("link set {client} up"));
    }

    /// A program in the clients' namespace.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, program: S) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.holder.id().to_string(), "--"]).arg(program);
        command
    }

    /// Runs `ip` there.
    ///
    /// # Panics
    /// If it fails.
    pub fn ip(&self, words: &str) {
        let _ = output(self.command("ip").args(words.split(' ')));
    }

    /// Waits until curl gets an answer from `url`.
    ///
    /// # Panics
    /// If it does not in time, or `server` ends.
    pub fn wait_until_served(&self, server: &mut Running, url: &str) {
        wait_for(&format!("an answer from {url}"), || {
            if let Some(status) = server.ended() {
                panic!("the server ended, {status}: {}", server.said());
            }
            let mut curl = self.command("curl");
            curl.args(["--silent", "--globoff", "--max-time", "2", "--output", "/dev/null", url]);
            curl.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
        });
    }
}
