//! Two ports as one, with Linux's bonding driver as LACP partner.

use super::Scenario;
use crate::guest::{Guest, Running, fetch_while, ip, nearside, wait_for, write_file};
use crate::machine::{Domain, Machine};
use crate::{Failure, now};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "bond",
    about: "two ports joined by LACP with Linux's bonding driver; connections live through the failure of either",
    machines: &[Machine {
        name: "one domain, two tap ports, the bonding driver at their other end",
        domains: &[Domain { cores: 2, memory: 512 }],
        ports: &[],
    }],
    modules: &["tun", "bonding"],
    limit: Duration::from_secs(600),
    prove,
};

const SERVER: &str = "10.79.0.1";
const PARTNER: &str = "10.79.0.2/24";
const OUR_MAC: &str = "02:4e:62:6f:6e:64";
const PORTS: [&str; 2] = ["near0", "near1"];
const SITE: &str = "/tmp/site";
const SIZE: usize = 100_000;
/// Connections that ask for the file over and over.
const CONNECTIONS: usize = 16;
/// What may pass until both sides agree on a change: three periods of LACP's
/// fast rate and the wait before a port joins, ten times over.
const PATIENCE: Duration = Duration::from_secs(60);
/// Traffic after each change.
const WHILE: Duration = Duration::from_secs(3);

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    write_file(Path::new(SITE), SIZE)?;
    let mut server = serve()?;
    lay_bond()?;
    server.wait_until_said("serving")?;
    let joined = until("both ports are aggregated", &PORTS).and_then(|()| agree());
    joined.map_err(|why| server.blame(with_view(&why)))?;
    guest.say(format!("bonding driver: partner {OUR_MAC}, ports {} aggregated", PORTS.join(" and ")))?;
    let traffic = Traffic::default();
    let told = thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(|| traffic.client())).collect();
        let failures = fail_by_turns(guest, &traffic);
        traffic.over.store(true, Ordering::Relaxed);
        let ends = clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?);
        failures.and(ends.collect::<Result<Vec<_>, Failure>>().map(drop))
    });
    told.map_err(|why| server.blame(with_view(&why)))?;
    let fetched = traffic.fetched.load(Ordering::Relaxed);
    guest.say(format!("{CONNECTIONS} connections lived through all of it: {fetched} files, every byte right"))?;
    server.stop()?;
    Ok(())
}

fn serve() -> Result<Running, Failure> {
    let [first, second] = PORTS.map(|port| format!("tap:{port}"));
    let address = format!("{SERVER}/24");
    let links = ["serve", "--link", &first, "--link", &second, "--bond", "lacp", "--mac", OUR_MAC];
    let mut server =
        Running::start(&mut nearside(links.into_iter().chain(["--addr", &address, "--listen", "80", SITE])))?;
    server.wait("both ports", |_| Ok(PORTS.iter().all(|port| Path::new("/sys/class/net").join(port).exists())))?;
    Ok(server)
}

/// The kernel's own ends of the taps are the members of its bond.
fn lay_bond() -> Result<(), Failure> {
    ip("link add bond0 type bond mode 802.3ad lacp_rate fast miimon 100 xmit_hash_policy layer3+4")?;
    for port in PORTS {
        ip(&format!("link set {port} down"))?;
        ip(&format!("link set {port} master bond0"))?;
    }
    ip(&format!("addr add {PARTNER} dev bond0"))?;
    ip("link set bond0 up")?;
    Ok(())
}

/// Each port fails in each of the ways, and comes back.
fn fail_by_turns(guest: &mut Guest, traffic: &Traffic) -> Result<(), Failure> {
    for (port, other) in [(0, 1), (1, 0)] {
        for (what, fail, mend) in [
            // Seen by the driver at this end only: LACP must tell ours.
            ("loses its carrier", "carrier off", "carrier on"),
            ("is taken down", "down", "up"),
        ] {
            let (port, other) = (PORTS[port], PORTS[other]);
            let [before, other_before] = [carried(port)?, carried(other)?];
            traffic.flows("with both ports")?;
            wait_for("flows on both ports", PATIENCE, || {
                Ok((carried(port)? != before && carried(other)? != other_before).then_some(()))
            })?;
            ip(&format!("link set {port} {fail}"))?;
            until("the port has left", &[other])?;
            let gap = traffic.flows(&format!("while {port} {what}"))?;
            ip(&format!("link set {port} {mend}"))?;
            until("the port is back", &PORTS)?;
            guest.say(format!("{port} {what} and comes back: no answer for {:.1} s at most", gap.as_secs_f64()))?;
        }
    }
    traffic.flows("in the end").map(drop)
}

/// What the clients have in common.
#[derive(Default)]
struct Traffic {
    over: AtomicBool,
    fetched: AtomicU64,
}

impl Traffic {
    /// One connection, for as long as the scenario lasts.
    fn client(&self) -> Result<(), Failure> {
        let server: SocketAddr = format!("{SERVER}:80").parse()?;
        fetch_while(server, SIZE, || {
            self.fetched.fetch_add(1, Ordering::Relaxed);
            !self.over.load(Ordering::Relaxed)
        })
    }

    /// Traffic for a while; the longest time without an answer to anybody.
    fn flows(&self, when: &str) -> Result<Duration, Failure> {
        let (began, mut last, mut longest) = (now(), now(), Duration::ZERO);
        let mut seen = self.fetched.load(Ordering::Relaxed);
        let first = seen;
        while began.elapsed() < WHILE || (seen == first && began.elapsed() < PATIENCE) {
            thread::sleep(Duration::from_millis(5));
            let fetched = self.fetched.load(Ordering::Relaxed);
            if fetched != seen {
                (seen, last) = (fetched, now());
            }
            longest = longest.max(last.elapsed());
        }
        if seen == first { Err(format!("no file arrives {when}").into()) } else { Ok(longest) }
    }
}

const BONDING: &str = "/proc/net/bonding/bond0";

/// Ports that the bonding driver has in its active aggregator, by what both
/// sides say: synchronised, collecting and distributing.
fn aggregated() -> Result<Vec<String>, Failure> {
    const AT_WORK: u8 = 0x3c;
    let text = fs::read_to_string(BONDING)?;
    let active = after(&text, "Active Aggregator Info:").and_then(|text| after(text, "Aggregator ID: "));
    let active = active.and_then(|text| text.lines().next()).unwrap_or("none");
    let ports = text.split("Slave Interface: ").skip(1).filter(|port| {
        let states: Vec<u8> =
            port.lines().filter_map(|line| line.trim().strip_prefix("port state: ")?.parse().ok()).collect();
        let in_it = after(port, "Aggregator ID: ").and_then(|text| text.lines().next()) == Some(active);
        let up = port.contains("MII Status: up");
        in_it && up && states.len() == 2 && states.iter().all(|state| state & AT_WORK == AT_WORK)
    });
    Ok(ports.filter_map(|port| port.lines().next()).map(str::to_owned).collect())
}

/// A failure, and how the driver sees it.
fn with_view(why: &Failure) -> String {
    format!("{why}\n{}", fs::read_to_string(BONDING).unwrap_or_default())
}

/// Waits until these are the ports at work.
fn until(what: &str, ports: &[&str]) -> Result<(), Failure> {
    wait_for(what, PATIENCE, || Ok((aggregated()? == ports).then_some(())))
}

/// The driver's partner is we.
fn agree() -> Result<(), Failure> {
    let text = fs::read_to_string(BONDING)?;
    let partner = after(&text, "Partner Mac Address: ").and_then(|text| text.lines().next());
    let each = text.matches(&format!("system mac address: {OUR_MAC}")).count();
    if partner != Some(OUR_MAC) || each != PORTS.len() {
        return Err(format!("the partner is not {OUR_MAC}").into());
    }
    Ok(())
}

fn after<'t>(text: &'t str, words: &str) -> Option<&'t str> {
    text.split_once(words).map(|(_, after)| after)
}

/// Bytes that our side has sent through a port, and the kernel received.
fn carried(port: &str) -> Result<u64, Failure> {
    Ok(fs::read_to_string(format!("/sys/class/net/{port}/statistics/rx_bytes"))?.trim().parse()?)
}
