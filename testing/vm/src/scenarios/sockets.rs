//! Kernel sockets on two domains: a connection goes to a worker of the domain
//! where it came in.

use super::Scenario;
use crate::Failure;
use crate::guest::{
    Guest, Running, fetch, fetch_while, in_namespace, ip, nearside, numa_of, silos_of, steer_interrupts, write_file,
};
use crate::machine::{Domain, Machine, Port};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "sockets",
    about: "serve over kernel sockets with --accept local: a connection stays in the domain of its port",
    machines: &[Machine {
        name: "two domains with a port each, a worker in each",
        domains: &[Domain { cores: 2, memory: 384 }; 2],
        ports: &[Port::virtio(0, 1), Port::virtio(0, 1), Port::virtio(1, 1), Port::virtio(1, 1)],
    }],
    modules: &["virtio_net"],
    limit: Duration::from_secs(300),
    prove,
};

const SITE: &str = "/tmp/site";
const SIZE: usize = 2_649;
/// Connections through each port.
const CONNECTIONS: usize = 20;

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    write_file(Path::new(SITE), SIZE)?;
    let machine = guest.machine;
    let domains = machine.domains.len();
    let mut cores = Vec::new();
    for domain in 0..domains {
        let own = machine.cores_of(domain);
        // Packets come in on the domain's last core, and the worker is on its
        // first: the domain has to bring them together, not the core.
        steer_interrupts(2 * domain, own.end - 1)?;
        cores.push(own.start.to_string());
        guest.join_client(domain)?;
        ip(&format!("addr add 10.78.{domain}.1/24 dev port{}", 2 * domain))?;
    }
    let mut server = serve(&cores, "local")?;
    for domain in 0..domains {
        let taken = taken(&server, domain).map_err(|why| server.blame(why))?;
        let right = taken.iter().enumerate().all(|(worker, &count)| (count > 0) == (worker == domain));
        if !right || taken[domain] != CONNECTIONS as u64 {
            return Err(server.blame(format!("{CONNECTIONS} connections to domain {domain} went to workers {taken:?}")));
        }
        let core = &cores[domain];
        guest.say(format!(
            "{CONNECTIONS} connections that came in by domain {domain}: all on its worker, core {core}"
        ))?;
    }
    for domain in 0..domains {
        let (looks, far) = look(&mut server, domain, domain).map_err(|why| server.blame(why))?;
        if far != 0 {
            return Err(server.blame(format!("domain {domain}: packets came in elsewhere in {far} of {looks} looks")));
        }
        guest.say(format!("nearside numa: in {looks} looks, packets for worker {domain} came in on its domain"))?;
    }
    server.stop()?;
    // All of this could fail: by the kernel's hash it does.
    server = serve(&cores, "reuseport")?;
    let taken = taken(&server, 0).map_err(|why| server.blame(why))?;
    if taken.contains(&0) {
        return Err(server.blame(format!("by hash, {CONNECTIONS} connections went to workers {taken:?}")));
    }
    guest.say(format!("--accept reuseport, for comparison: the workers of the domains have {taken:?}"))?;
    let (looks, far) = look(&mut server, 0, 1).map_err(|why| server.blame(why))?;
    if far == 0 || far != looks {
        return Err(server.blame(format!("domain 1: packets came in elsewhere in {far} of {looks} looks")));
    }
    guest.say(format!("nearside numa: in {looks} looks, all of worker 1's packets came in elsewhere"))?;
    server.stop()?;
    Ok(())
}

fn serve(cores: &[String], accept: &str) -> Result<Running, Failure> {
    let workers = cores.len().to_string();
    let mut command = nearside(["serve", "--listen", "80", "--workers", &workers, "--cores", &cores.join(",")]);
    let mut server = Running::start(command.args(["--accept", accept, SITE]))?;
    server.wait_until_said("serving")?;
    Ok(server)
}

/// Connections through the port of a domain for as long as it takes to have a
/// worker's looked at. How often they were, and how often their packets came
/// in elsewhere.
fn look(server: &mut Running, domain: usize, worker: usize) -> Result<(u64, u64), Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let over = Arc::clone(&over);
            let work = move || fetch_while(address(domain)?, SIZE, || !over.load(Ordering::Relaxed));
            std::thread::spawn(move || in_namespace(&format!("client{domain}"), work))
        })
        .collect();
    let waited = server.wait("a look at where packets come in", |server| Ok(seen(server, worker)?.0 > 0));
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().map_err(|_| "a client panicked")??;
    }
    waited?;
    seen(server, worker)
}

/// How often a worker's connections were looked at, by `nearside numa`, and
/// how often their packets came in on another domain.
fn seen(server: &Running, worker: usize) -> Result<(u64, u64), Failure> {
    let process = numa_of(server)?;
    let worker = &process["workers"][worker];
    let (mut looks, mut far) = (0, 0);
    for place in worker["seen"].as_array().ok_or("nearside numa tells of no looks")? {
        let count = place["connections"].as_u64().ok_or("no count")?;
        looks += count;
        far += if place["domain"] == worker["domain"] { 0 } else { count };
    }
    Ok((looks, far))
}

/// Who takes connections that come in by the port of `domain`.
fn taken(server: &Running, domain: usize) -> Result<Vec<u64>, Failure> {
    let before = accepted(server)?;
    load(domain)?;
    let after = accepted(server)?;
    Ok(after.iter().zip(&before).map(|(after, before)| after - before).collect())
}

/// Connections that each worker has taken.
fn accepted(server: &Running) -> Result<Vec<u64>, Failure> {
    let silos = silos_of(server)?;
    let count = |silo: &serde_json::Value| silo["sockets.accepted"].as_u64().ok_or("no count of accepts");
    Ok(silos.iter().map(count).collect::<Result<_, _>>()?)
}

fn load(domain: usize) -> Result<(), Failure> {
    in_namespace(&format!("client{domain}"), move || {
        let server = address(domain)?;
        (0..CONNECTIONS).try_for_each(|_| fetch(server, SIZE, 2))
    })
}

fn address(domain: usize) -> Result<SocketAddr, Failure> {
    Ok(format!("10.78.{domain}.1:80").parse()?)
}
