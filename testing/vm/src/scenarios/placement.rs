//! Two domains, each with a port and a silo: all that a silo touches on the
//! packet path is in its domain, and replies leave by the port of arrival's.

use super::Scenario;
use crate::Failure;
use crate::guest::pages::{Domains, Touched, forget, touched};
use crate::guest::{Guest, Running, fetch, in_namespace, nearside, steer_interrupts, transmitted, write_file};
use crate::machine::{Domain, Machine, Port};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "placement",
    about: "two domains, a port and a silo in each: no page of the packet path is in the other domain",
    machines: &[Machine {
        name: "two domains with a port and a silo each",
        domains: &[Domain { cores: 2, memory: 768 }; 2],
        ports: &[
            Port { domain: 0, queues: 1 },
            Port { domain: 0, queues: 1 },
            Port { domain: 1, queues: 1 },
            Port { domain: 1, queues: 1 },
        ],
    }],
    modules: &["virtio_net"],
    limit: Duration::from_secs(120),
    prove,
};

const SITE: &str = "/tmp/site";
/// A file that stays in memory.
const SIZE: usize = 40_000;
const CONNECTIONS: usize = 8;
const REQUESTS: usize = 10;
/// Rounds of load. What the packet path touches it touches in each of them,
/// and what happens now and then, as a timer of a connection that is long
/// closed, in one.
const ROUNDS: usize = 3;
/// How long the process is watched at rest: its looks at the clock, its
/// figures and its signals are no part of the packet path.
const REST: Duration = Duration::from_secs(3);

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    write_file(Path::new(SITE), SIZE)?;
    let machine = guest.machine;
    let count = machine.domains.len();
    let mut command = nearside(["serve", "--listen", "80", "--idle", "spin"]);
    let mut silos = Vec::new();
    for domain in 0..count {
        let own = machine.cores_of(domain);
        // The kernel's part is on the domain's other core.
        steer_interrupts(2 * domain, own.end - 1)?;
        silos.push(own.start.to_string());
        guest.join_client(domain)?;
        command.args(["--link", &format!("af_xdp:port{}", 2 * domain), "--addr", &format!("10.78.{domain}.1/24")]);
    }
    let mut server = Running::start(command.args(["--silos", &silos.join(","), SITE]))?;
    server.wait_until_said("serving")?;
    let domains = Domains::read()?;
    // The cache is hot, and all that is made once is made.
    (0..count).try_for_each(load).map_err(|why| server.blame(why))?;
    (0..count).try_for_each(|domain| place(guest, &server, &domains, domain).map_err(|why| server.blame(why)))?;
    server.stop()?;
    Ok(())
}

/// Load on the port of one domain, and what the process touched for it.
fn place(guest: &mut Guest, server: &Running, domains: &Domains, domain: usize) -> Result<(), Failure> {
    let rest = at_rest(server, domains)?;
    let before: Vec<u64> = ports(guest).map(transmitted).collect::<Result<_, _>>()?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        forget(server.pid())?;
        load(domain)?;
        rounds.push(touched(server.pid(), domains)?.without(&rest));
    }
    let after: Vec<u64> = ports(guest).map(transmitted).collect::<Result<_, _>>()?;
    let found = rounds.into_iter().reduce(|all, round| all.common(&round)).ok_or("no round")?;
    let strangers = found.strangers(domain);
    if !strangers.is_empty() {
        let names: Vec<String> = strangers.into_iter().collect();
        let count = names.len();
        return Err(format!("domain {domain}: {count} of what it touches is elsewhere\n{}", names.join("\n")).into());
    }
    let pages = found.written_in().get(&domain).copied().unwrap_or(0);
    if pages == 0 {
        return Err(format!("domain {domain}: the kernel saw no page written under load").into());
    }
    let requests = (CONNECTIONS * REQUESTS * ROUNDS) as u64;
    guest.say(format!(
        "domain {domain}: {requests} requests wrote {pages} pages and touched {} mappings: all in it",
        found.mappings.len()
    ))?;
    let sent: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let bytes = requests * SIZE as u64;
    for (port, &sent) in sent.iter().enumerate() {
        // The other port may say who has which address.
        if (port == domain && sent < bytes) || (port != domain && sent > 2_000) {
            return Err(format!("domain {domain}: bytes that left by the ports: {sent:?} for {bytes} of bodies").into());
        }
    }
    guest.say(format!("domain {domain}: its replies left by its own port: {sent:?} bytes by the ports"))
}

/// What the process touches all the time, its silos polling.
fn at_rest(server: &Running, domains: &Domains) -> Result<Touched, Failure> {
    forget(server.pid())?;
    thread::sleep(REST);
    touched(server.pid(), domains)
}

/// The ports that the server has.
fn ports(guest: &Guest) -> impl Iterator<Item = usize> + use<> {
    (0..guest.machine.ports.len()).step_by(2)
}

fn load(domain: usize) -> Result<(), Failure> {
    in_namespace(&format!("client{domain}"), move || {
        let server: SocketAddr = format!("10.78.{domain}.1:80").parse()?;
        (0..CONNECTIONS).try_for_each(|_| fetch(server, SIZE, REQUESTS))
    })
}
