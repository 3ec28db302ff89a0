//! Two network namespaces with a veth pair between them, removed when done.

use crate::child::{PREFIX, call, is_stale};
use crate::error::Error;

/// The server's address.
pub const SERVER: &str = "10.77.0.2";
/// The client's address.
pub const CLIENT: &str = "10.77.0.1";
const NET: &str = "10.77.0.0/24";
/// The name of the pair's end in each namespace.
pub const DEVICE: &str = "near0";

/// The two namespaces. Dropping them removes them, and with them the pair.
#[derive(Debug)]
pub struct Namespaces {
    /// The server's, by its name.
    pub server: String,
    /// The client's.
    pub client: String,
}

impl Namespaces {
    /// Makes both, connects them, and sets congestion control to CUBIC on
    /// the routes of both, whatever the machine's default is.
    pub fn make() -> Result<Self, Error> {
        remove_stale();
        let id = std::process::id();
        let this = Self { server: format!("{PREFIX}{id}-server"), client: format!("{PREFIX}{id}-client") };
        for name in [&this.server, &this.client] {
            call(&["ip", "netns", "add", name])?;
        }
        pair((Some(&this.server), DEVICE), (Some(&this.client), DEVICE))?;
        for (name, address) in [(&this.server, SERVER), (&this.client, CLIENT)] {
            let ip = |words: &[&str]| call(&[&["ip", "-netns", name], words].concat());
            ip(&["address", "add", &format!("{address}/24"), "dev", DEVICE])?;
            ip(&["link", "set", "lo", "up"])?;
            ip(&[
                "route", "change", NET, "dev", DEVICE, "proto", "kernel", "scope", "link", "src", address, "congctl",
                "cubic",
            ])?;
            for (key, value) in [
                // A generator's ports must not run out before its core does,
                // and a queue for accept must not overflow where the
                // machine's default is small: both would only harm nginx.
                ("net/ipv4/ip_local_port_range", "1024 65535"),
                ("net/core/somaxconn", "65535"),
                ("net/ipv4/tcp_max_syn_backlog", "65535"),
            ] {
                let script = format!("echo '{value}' > /proc/sys/{key}");
                call(&["ip", "netns", "exec", name, "sh", "-c", &script])?;
            }
        }
        Ok(this)
    }

    /// Has each end's received packets worked on by its own side's core (RPS,
    /// Documentation/networking/scaling.rst): else the core that sends does
    /// the other side's work, and neither side's cost can be told.
    pub fn keep_to_cores(&self, (server, client): (u16, u16)) -> Result<(), Error> {
        self.receive_on(Some((server, client)))
    }

    /// As [`Self::keep_to_cores`]; without cores as the kernel does it by
    /// itself: on the core that sends.
    pub fn receive_on(&self, cores: Option<(u16, u16)>) -> Result<(), Error> {
        let (server, client) = cores.unzip();
        for (name, core) in [(&self.server, server), (&self.client, client)] {
            let mask = core.map_or_else(|| "0".to_owned(), mask);
            let script = format!("for q in /sys/class/net/{DEVICE}/queues/rx-*; do echo {mask} > $q/rps_cpus; done");
            call(&["ip", "netns", "exec", name, "sh", "-c", &script])?;
        }
        Ok(())
    }

    /// The congestion control that the server's connections run, as `ss`
    /// shows it: what was asked for, or not.
    pub fn congestion_control(&self) -> Result<Option<String>, Error> {
        let shown = call(&["ip", "netns", "exec", &self.server, "ss", "-tinH", "state", "established"])?;
        let known = ["cubic", "reno", "bbr", "dctcp", "vegas", "htcp", "bic", "westwood"];
        Ok(shown.split_ascii_whitespace().find(|word| known.contains(word)).map(str::to_owned))
    }
}

/// A core as a mask in hexadecimal, 32 cores to a word, the highest first.
fn mask(core: u16) -> String {
    let words = (0..=core / 32).rev().map(|word| if word == core / 32 { 1_u32 << (core % 32) } else { 0 });
    words.map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        remove(&self.server);
        remove(&self.client);
    }
}

/// One namespace with nothing but its loopback. Dropping it removes it, and
/// with it the devices in it.
#[derive(Debug)]
pub struct Alone(String);

impl Alone {
    /// Makes it; `what` tells it from others of this process.
    pub fn make(what: &str) -> Result<Self, Error> {
        remove_stale();
        let this = Self(format!("{PREFIX}{}-{what}", std::process::id()));
        call(&["ip", "netns", "add", &this.0])?;
        call(&["ip", "-netns", &this.0, "link", "set", "lo", "up"])?;
        Ok(this)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// A veth pair, both ends up, each in a namespace or in this process's.
fn pair(one: (Option<&str>, &str), other: (Option<&str>, &str)) -> Result<(), Error> {
    fn place<'a>((netns, _): (Option<&'a str>, &str)) -> Vec<&'a str> {
        netns.map_or_else(Vec::new, |netns| vec!["netns", netns])
    }
    let add = ["ip", "link", "add", one.1];
    call(&[&add[..], &place(one), &["type", "veth", "peer", "name", other.1], &place(other)].concat())?;
    for (netns, device) in [one, other] {
        let inside = netns.map_or_else(Vec::new, |netns| vec!["-netns", netns]);
        call(&[&["ip"][..], &inside, &["link", "set", device, "up"]].concat())?;
    }
    Ok(())
}

/// Two veth pairs between a device under test, in a namespace of its own, and
/// who tests it, in another or in this process's. Dropping it removes all.
#[derive(Debug)]
pub struct Wires {
    /// Interfaces of the device.
    pub inner: [String; 2],
    /// Their other ends.
    pub outer: [String; 2],
    inside: Alone,
    outside: Option<Alone>,
}

impl Wires {
    /// Makes them, with their outer ends in a namespace of their own.
    pub fn apart() -> Result<Self, Error> {
        let outside = Alone::make("tester")?;
        Self::connect(Some(outside), ["test0", "test1"].map(str::to_owned))
    }

    /// Makes them, with their outer ends where this process is.
    pub fn here() -> Result<Self, Error> {
        let id = std::process::id();
        Self::connect(None, [format!("np{id}a"), format!("np{id}b")])
    }

    fn connect(outside: Option<Alone>, outer: [String; 2]) -> Result<Self, Error> {
        let inner = ["dut0", "dut1"].map(str::to_owned);
        let this = Self { inner, outer, inside: Alone::make("dut")?, outside };
        for (inner, outer) in this.inner.iter().zip(&this.outer) {
            pair((Some(this.inside()), inner), (this.outside(), outer))?;
        }
        Ok(this)
    }

    /// The device's namespace.
    #[must_use]
    pub fn inside(&self) -> &str {
        self.inside.name()
    }

    /// The tester's, if it has one.
    #[must_use]
    pub fn outside(&self) -> Option<&str> {
        self.outside.as_ref().map(Alone::name)
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        // A namespace ends some time after it was deleted, and its pairs with it: who makes
        // the next ones of these names would find them.
        for inner in &self.inner {
            let _ = call(&["ip", "-netns", self.inside.name(), "link", "delete", inner]);
        }
    }
}

/// One veth pair, both ends in one namespace: a wire with nothing at it.
#[derive(Debug)]
pub struct BareWire {
    /// Its ends.
    pub ends: [String; 2],
    inside: Alone,
}

impl BareWire {
    /// Makes it.
    pub fn make() -> Result<Self, Error> {
        let this = Self { ends: ["test0", "test1"].map(str::to_owned), inside: Alone::make("wire")? };
        let inside = Some(this.inside.name());
        pair((inside, &this.ends[0]), (inside, &this.ends[1]))?;
        Ok(this)
    }

    /// The namespace.
    #[must_use]
    pub fn inside(&self) -> &str {
        self.inside.name()
    }
}

/// Ends what still runs in a namespace of the demo's own, and removes it.
fn remove(name: &str) {
    for pid in call(&["ip", "netns", "pids", name]).unwrap_or_default().split_ascii_whitespace() {
        let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    // Fails only if it was never made.
    let _ = call(&["ip", "netns", "del", name]);
}

/// Removes namespaces of demos that were killed: those whose name holds the
/// process id of no process.
fn remove_stale() {
    for line in call(&["ip", "netns", "list"]).unwrap_or_default().lines() {
        let name = line.split(' ').next().unwrap_or_default();
        if is_stale(name) {
            remove(name);
        }
    }
}
