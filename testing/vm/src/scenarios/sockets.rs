//! Kernel sockets on two domains: a connection goes to a worker of the domain
//! where it came in.

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, Running, fetch, in_namespace, ip, nearside, silos_of, steer_interrupts, write_file};
use crate::machine::{Domain, Machine, Port};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "sockets",
    about: "serve over kernel sockets with --accept local: a connection stays in the domain of its port",
    machines: &[Machine {
        name: "two domains with a port each, a worker in each",
        domains: &[Domain { cores: 2, memory: 384 }; 2],
        ports: &[
            Port { domain: 0, queues: 1 },
            Port { domain: 0, queues: 1 },
            Port { domain: 1, queues: 1 },
            Port { domain: 1, queues: 1 },
        ],
    }],
    modules: &["virtio_net"],
    limit: Duration::from_secs(60),
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
    server.stop()?;
    // All of this could fail: by the kernel's hash it does.
    server = serve(&cores, "reuseport")?;
    let taken = taken(&server, 0).map_err(|why| server.blame(why))?;
    if taken.contains(&0) {
        return Err(server.blame(format!("by hash, {CONNECTIONS} connections went to workers {taken:?}")));
    }
    guest.say(format!("--accept reuseport, for comparison: the workers of the domains have {taken:?}"))?;
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
        let server: SocketAddr = format!("10.78.{domain}.1:80").parse()?;
        (0..CONNECTIONS).try_for_each(|_| fetch(server, SIZE, 2))
    })
}
