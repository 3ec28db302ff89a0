//! Whole and in order over links that lose, delay and reorder frames.

use super::Scenario;
use crate::guest::{Guest, Running, fetch, in_namespace, ip, ip_in, nearside, output, write_file};
use crate::machine::{Domain, Machine};
use crate::{Failure, now};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "netem",
    about: "files reach the kernel's TCP whole over links that lose, delay and reorder (sch_netem)",
    machines: &[Machine {
        name: "one domain, a client behind a lossy link",
        domains: &[Domain { cores: 2, memory: 512 }],
        ports: &[],
    }],
    modules: &["veth", "bridge", "tun", "sch_netem", "sch_fq"],
    limit: Duration::from_secs(400),
    prove,
};

const CLIENT: &str = "client";
const SERVER: &str = "10.78.0.1";
const SITE: &str = "/tmp/site";
/// The file: some hundred segments, so that 1 % takes a few of them.
const SIZE: usize = 1 << 20;
/// Connections at once, so that one that waits does not make all wait.
const CONNECTIONS: usize = 4;
/// The same in words.
const FILES: &str = "4 files of 1 MiB";
const _: () = assert!(CONNECTIONS == 4 && SIZE == 1 << 20);

/// The link's ways, in words of tc-netem(8), for each direction.
const LINKS: [(&str, &str); 4] = [
    ("as it is", "limit 1000"),
    ("1 % lost", "limit 1000 loss 1%"),
    ("5 ms, give or take 2 ms", "limit 1000 delay 5ms 2ms"),
    ("1 % lost, 3 ms, one in ten overtakes", "limit 1000 delay 3ms reorder 10% loss 1%"),
];

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    lay_link()?;
    write_file(Path::new(SITE), SIZE)?;
    let mut command = nearside([
        "serve",
        "--link",
        "tap:near,offload=off",
        "--addr",
        &format!("{SERVER}/24"),
        "--listen",
        "80",
        SITE,
    ]);
    let mut server = Running::start(&mut command)?;
    server.wait_until_said("serving")?;
    ip("link set near master middle up")?;
    for (name, link) in LINKS {
        tc("qdisc replace dev outside root netem", link)?;
        in_namespace(CLIENT, move || tc("qdisc replace dev inside root netem", link))?;
        let taken = transfer().map_err(|why| server.blame(why))?;
        let lost = dropped()?;
        if (lost > 0) != link.contains("loss") {
            return Err(format!("{lost} frames were lost on a link that is {link}").into());
        }
        guest.say(format!("link {name}: {FILES} whole in {:.1} s, {lost} frames lost", taken.as_secs_f64()))?;
        // The next one counts from zero.
        tc("qdisc del dev outside", "root")?;
    }
    in_namespace(CLIENT, || tc("qdisc replace dev inside root", "fq"))?;
    let taken = transfer().map_err(|why| server.blame(why))?;
    guest.say(format!("client paced by fq: {FILES} whole in {:.1} s", taken.as_secs_f64()))?;
    server.stop()?;
    Ok(())
}

/// near (our stack) ─ middle (bridge) ─ outside ═ inside (the client's).
fn lay_link() -> Result<(), Failure> {
    ip(&format!("netns add {CLIENT}"))?;
    ip("link add middle type bridge")?;
    ip("link set middle up")?;
    ip(&format!("link add outside type veth peer name inside netns {CLIENT}"))?;
    ip("link set outside master middle up")?;
    ip_in(CLIENT, "addr add 10.78.0.2/24 dev inside")?;
    ip_in(CLIENT, "link set inside up")?;
    Ok(())
}

fn tc(what: &str, how: &str) -> Result<(), Failure> {
    output(Command::new("tc").args(what.split(' ')).args(how.split(' '))).map(drop)
}

/// Frames that netem took away on their way to the client.
fn dropped() -> Result<u64, Failure> {
    let text = output(Command::new("tc").args(["-s", "-j", "qdisc", "show", "dev", "outside"]))?;
    let all: serde_json::Value = serde_json::from_str(&text)?;
    let netem = all.as_array().into_iter().flatten().find(|qdisc| qdisc["kind"] == "netem");
    Ok(netem.and_then(|qdisc| qdisc["drops"].as_u64()).ok_or("tc tells no drops of netem")?)
}

fn transfer() -> Result<Duration, Failure> {
    let began = now();
    in_namespace(CLIENT, || {
        let server: SocketAddr = format!("{SERVER}:80").parse()?;
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(move || fetch(server, SIZE, 1))).collect();
            clients.into_iter().try_for_each(|client| client.join().map_err(|_| "a client panicked")?)
        })
    })?;
    Ok(began.elapsed())
}
