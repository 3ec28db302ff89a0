//! Two domains, each with a port and a silo: all that a silo touches on the
//! packet path is in its domain, and replies leave by the port of arrival's.

use super::Scenario;
use crate::guest::pages::{Domains, Touched, forget, touched};
use crate::guest::{
    Guest, Running, fetch, in_namespace, nearside, numa_of, silos_of, steer_interrupts, transmitted, write_file,
};
use crate::machine::{Domain, Machine, Port};
use crate::{Failure, now};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "placement",
    about: "a port and a silo in each of two and four domains: no page of the packet path is in another domain",
    machines: &[
        Machine {
            name: "two domains with a port and a silo each",
            domains: &[Domain { cores: 2, memory: 768 }; 2],
            ports: &[Port::virtio(0, 1), Port::virtio(0, 1), Port::virtio(1, 1), Port::virtio(1, 1)],
        },
        Machine {
            name: "four domains with a port and a silo each",
            domains: &[Domain { cores: 1, memory: 512 }; 4],
            ports: &[
                Port::virtio(0, 1),
                Port::virtio(0, 1),
                Port::virtio(1, 1),
                Port::virtio(1, 1),
                Port::virtio(2, 1),
                Port::virtio(2, 1),
                Port::virtio(3, 1),
                Port::virtio(3, 1),
            ],
        },
        Machine {
            name: "two domains with a port of two queues and two silos each",
            domains: &[Domain { cores: 2, memory: 768 }; 2],
            ports: &[Port::virtio(0, 2), Port::virtio(0, 2), Port::virtio(1, 2), Port::virtio(1, 2)],
        },
    ],
    modules: &["virtio_net"],
    limit: Duration::from_secs(1_800),
    prove,
};

const SITE: &str = "/tmp/site";
/// A file that stays in memory.
const SIZE: usize = 40_000;
const CONNECTIONS: usize = 4;
const REQUESTS: usize = 8;
/// Rounds of load. What the packet path touches it touches in each of them.
const ROUNDS: usize = 5;
/// How long the process is watched at rest, at least: its looks at the clock,
/// its figures and its signals are no part of the packet path. Twice as long
/// as a round, so that what comes by the clock is seen here, or else is too
/// rare to be seen in every round.
const REST: Duration = Duration::from_secs(3);
const RESTS: u32 = 2;
/// Rounds of load before anything is counted.
const WARM_UPS: usize = 2;
/// Pages that may be touched elsewhere by looks at files, which are no part of
/// the packet path: a lock that all domains have in common.
const COMMON: usize = 2;
/// Rounds without a look at the file, to tell whether it was that; and tries
/// to have one, on a machine that is too slow to have them all in time.
const QUIET_ROUNDS: usize = 3;
const QUIET_TRIES: usize = 30;
/// Time for a silo to look where its pages are, which it does the more rarely
/// the longer it takes.
const LOOKS: Duration = Duration::from_secs(600);
/// Longer than a file is not looked at again.
const LOOK_DUE: Duration = Duration::from_secs(2);
/// Until a look has ended, and is on the silo's page.
const LOOKED: Duration = Duration::from_millis(100);
/// Bytes that may leave by a port beside the requests': who has which address.
const CHATTER: u64 = SIZE as u64 / 4;

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    write_file(Path::new(SITE), SIZE)?;
    for domain in domains_of(guest) {
        // The kernel's part is on the domain's last core, the silo on its first.
        steer_interrupts(2 * domain, guest.machine.cores_of(domain).end - 1)?;
        guest.join_client(domain)?;
    }
    let domains = Domains::read()?;
    let mut server = serve(guest, &[])?;
    let before = crossed(&server)?;
    for domain in domains_of(guest) {
        place(guest, &mut server, &domains, domain).map_err(|why| server.blame(why))?;
    }
    agree(guest, &server, &before).map_err(|why| server.blame(why))?;
    server.stop()?;
    // All of this could fail: with memory from everywhere it does. Large pages
    // would have a silo's frames be all at home, or none, by chance.
    fs::write("/sys/kernel/mm/transparent_hugepage/enabled", "never")?;
    let mut server = serve(guest, &["--numa", "off"])?;
    without(guest, &mut server, &domains).map_err(|why| server.blame(why))?;
    server.stop()?;
    Ok(())
}

/// The server with a port and a silo in each domain, and a hot cache.
fn serve(guest: &Guest, more: &[&str]) -> Result<Running, Failure> {
    let mut command = nearside(["serve", "--listen", "80"]);
    let mut silos = Vec::new();
    for domain in domains_of(guest) {
        let first = guest.machine.cores_of(domain).start;
        silos.extend((first..first + guest.machine.ports[2 * domain].queues).map(|core| core.to_string()));
        command.args(["--link", &format!("af_xdp:port{}", 2 * domain), "--addr", &format!("10.78.{domain}.1/24")]);
    }
    let mut server = Running::start(command.args(["--silos", &silos.join(",")]).args(more).arg(SITE))?;
    server.wait_until_said("serving")?;
    // Often enough for each domain to have its copy of what is hot.
    for _ in 0..WARM_UPS {
        domains_of(guest).try_for_each(load).map_err(|why| server.blame(why))?;
    }
    // What it says of its pages is from before: until it looks again.
    let before = looks(&server)?;
    wait_for_looks(&mut server, &before, 1)?;
    Ok(server)
}

/// How often each silo has looked where its pages are.
fn looks(server: &Running) -> Result<Vec<u64>, Failure> {
    let process = numa_of(server)?;
    let looks = process["silos"].as_array().into_iter().flatten().map(|silo| silo["pages"]["looks"].as_u64());
    Ok(looks.collect::<Option<_>>().ok_or("nearside numa tells of no looks")?)
}

/// Waits until each silo has looked that often since it had these.
fn wait_for_looks(server: &mut Running, before: &[u64], more: u64) -> Result<(), Failure> {
    server.wait_long("looks at where its pages are", LOOKS, |server| {
        Ok(looks(server)?.iter().zip(before).all(|(now, before)| *now >= before + more))
    })
}

/// Bytes that crossed, by its own account: of all kinds, and what it sent.
fn crossed(server: &Running) -> Result<(u64, u64), Failure> {
    let process = numa_of(server)?;
    let crossed = process["crossed"].as_object().ok_or("nearside numa tells of no crossings")?;
    let bytes = crossed.values().map(|kind| kind.as_u64().ok_or("no number of bytes"));
    let sent = process["sent_bytes"].as_u64().ok_or("nearside numa tells of nothing sent")?;
    Ok((bytes.sum::<Result<u64, _>>()?, sent))
}

/// Pages in the silos' domains and elsewhere, by its own account.
fn pages(server: &Running) -> Result<(u64, u64), Failure> {
    let process = numa_of(server)?;
    let sum = |kind: &str| -> u64 {
        let silos = process["silos"].as_array().into_iter().flatten();
        silos.filter_map(|silo| silo["pages"][kind].as_u64()).sum()
    };
    Ok((sum("local"), sum("remote")))
}

/// Its own account has no crossing either.
fn agree(guest: &mut Guest, server: &Running, before: &(u64, u64)) -> Result<(), Failure> {
    let after = crossed(server)?;
    let (bytes, sent) = (after.0 - before.0, after.1 - before.1);
    let (local, remote) = pages(server)?;
    let bodies = (guest.machine.domains.len() * CONNECTIONS * REQUESTS * ROUNDS * SIZE) as u64;
    if bytes != 0 || remote != 0 || local == 0 || sent < bodies {
        let account = numa_of(server)?;
        return Err(
            format!("its own account: {bytes} of {sent} bytes crossed, {remote} pages elsewhere\n{account}").into()
        );
    }
    guest.say(format!("nearside numa agrees: 0 of {sent} bytes crossed, {local} pages at home, 0 elsewhere"))
}

/// Without domains, the kernel and its own account both see crossings.
fn without(guest: &mut Guest, server: &mut Running, domains: &Domains) -> Result<(), Failure> {
    // After this, it knows which of its pages are where.
    let rest = at_rest(server, domains, REST, 2)?;
    let (before, through_before) = (crossed(server)?, through_far(server)?);
    let mut count = 0;
    for domain in domains_of(guest) {
        forget(server.pid())?;
        load(domain)?;
        count += touched(server.pid(), domains)?.without(&rest).strangers(domain).len();
    }
    let after = crossed(server)?;
    let (bytes, sent) = (after.0 - before.0, after.1 - before.1);
    let through = through_far(server)? - through_before;
    let told = format!(
        "{count} pages elsewhere were touched, {bytes} bytes crossed with {sent} sent, {through} of these from frames \
         that lay elsewhere"
    );
    if count == 0 || bytes == 0 || through == 0 || through >= sent {
        return Err(format!("with --numa off, {told}\n{}", numa_of(server)?).into());
    }
    guest.say(format!("--numa off, for comparison: {told}"))
}

/// Bytes sent from frames that lay in another domain than their silo,
/// by its own account.
fn through_far(server: &Running) -> Result<u64, Failure> {
    Ok(numa_of(server)?["crossed"]["sent_memory_bytes"].as_u64().ok_or("nearside numa tells of no frames elsewhere")?)
}

fn domains_of(guest: &Guest) -> core::ops::Range<usize> {
    0..guest.machine.domains.len()
}

/// Load on the port of one domain, and what the process touched for it.
fn place(guest: &mut Guest, server: &mut Running, domains: &Domains, domain: usize) -> Result<(), Failure> {
    let before: Vec<u64> = ports(guest).map(transmitted).collect::<Result<_, _>>()?;
    let looks_before = looks(server)?;
    let (mut rounds, mut rest) = (Vec::new(), REST);
    for _ in 0..ROUNDS {
        forget(server.pid())?;
        let began = now();
        load(domain)?;
        rounds.push(touched(server.pid(), domains)?);
        rest = rest.max(RESTS * began.elapsed());
    }
    let after: Vec<u64> = ports(guest).map(transmitted).collect::<Result<_, _>>()?;
    let found = rounds.into_iter().reduce(|all, round| all.common(&round)).ok_or("no round")?;
    // Looks that may have been in each of the rounds are to be at rest, too;
    // one of them may have been under way.
    let often = looks(server)?.iter().zip(&looks_before).any(|(now, before)| now - before >= ROUNDS as u64);
    let found = found.without(&at_rest(server, domains, rest, if often { 2 } else { 0 })?);
    let mut strangers = found.strangers(domain);
    if (1..=COMMON).contains(&strangers.len()) {
        keep_quiet(server, domains, domain, &mut strangers)?;
    }
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
        if (port == domain && sent < bytes) || (port != domain && sent > CHATTER) {
            return Err(format!("domain {domain}: bytes that left by the ports: {sent:?} for {bytes} of bodies").into());
        }
    }
    guest.say(format!("domain {domain}: its replies left by its own port: {sent:?} bytes by the ports"))
}

/// Keeps of `strangers` those that are touched also while the process does not
/// look at its files, which it does once a second under load.
fn keep_quiet(
    server: &Running,
    domains: &Domains,
    domain: usize,
    strangers: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    let looks = || -> Result<u64, Failure> {
        thread::sleep(LOOKED);
        Ok(silos_of(server)?.iter().filter_map(|silo| silo["app.cache_looks"].as_u64()).sum())
    };
    let mut rounds = 0;
    for _ in 0..QUIET_TRIES {
        let before = looks()?;
        thread::sleep(LOOK_DUE);
        // The look that is due comes with this, and the next a second later.
        load_some(domain, 1, 1)?;
        thread::sleep(LOOKED);
        forget(server.pid())?;
        load_some(domain, 1, 1)?;
        let found = touched(server.pid(), domains)?.strangers(domain);
        if looks()? == before + 1 {
            rounds += 1;
            strangers.retain(|stranger| found.contains(stranger));
            if rounds == QUIET_ROUNDS || strangers.is_empty() {
                return Ok(());
            }
        }
    }
    Err("no request goes without a look at its file".into())
}

/// What the process touches without load: its silos wake up, and it looks where
/// its pages are, the more rarely the longer that takes.
fn at_rest(server: &mut Running, domains: &Domains, rest: Duration, looks: u64) -> Result<Touched, Failure> {
    let before = self::looks(server)?;
    forget(server.pid())?;
    thread::sleep(rest);
    wait_for_looks(server, &before, looks)?;
    touched(server.pid(), domains)
}

/// The ports that the server has.
fn ports(guest: &Guest) -> impl Iterator<Item = usize> + use<> {
    (0..guest.machine.ports.len()).step_by(2)
}

fn load(domain: usize) -> Result<(), Failure> {
    load_some(domain, CONNECTIONS, REQUESTS)
}

/// So many connections, one after the other, of so many requests.
fn load_some(domain: usize, connections: usize, requests: usize) -> Result<(), Failure> {
    in_namespace(&format!("client{domain}"), move || {
        let server: SocketAddr = format!("10.78.{domain}.1:80").parse()?;
        (0..connections).try_for_each(|_| fetch(server, SIZE, requests))
    })
}
