//! The real-time kernel: what `nearside node noise` finds of a thread that is
//! known to disturb, beside the kernel's own tracer of noise (rtla), oslat and
//! cyclictest; and what it calls the interrupts of a network card.

mod inject;
mod tools;

pub use inject::inject;

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, in_namespace, ip, ip_in};
use crate::machine::{Domain, Machine};
use rustix::mount::{MountFlags, mount};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::thread;
use std::time::Duration;
use tools::{Account, Tool};

pub const SCENARIO: Scenario = Scenario {
    name: "noise",
    about: "real-time kernel: node noise beside rtla's osnoise, oslat and cyclictest; e1000e's interrupts by name",
    machines: &[Machine { name: "two cores", domains: &[Domain { cores: 2, memory: 2_048 }], ports: &[] }],
    modules: &["e1000e"],
    limit: Duration::from_secs(1_200),
    prove,
};

/// Two cards on one cable, beside what machines have.
pub const DEVICES: &[&str] = &[
    "-netdev",
    "hubport,id=card0,hubid=9",
    "-device",
    "e1000e,netdev=card0,mac=02:4e:56:4e:00:00,romfile=",
    "-netdev",
    "hubport,id=card1,hubid=9",
    "-device",
    "e1000e,netdev=card1,mac=02:4e:56:4e:00:01,romfile=",
];

/// The kernel may trust the emulated counter of ticks, as the host's is behind it;
/// and the second core is kept for who runs there, as on machines for which noise
/// matters.
pub const WORDS: &str = " tsc=reliable isolcpus=managed_irq,domain,1";

/// What is compared with, and Debian's packages of it.
pub const PROGRAMS: [(&str, &str); 4] =
    [("rtla", "rtla"), ("cyclictest", "rt-tests"), ("oslat", "rt-tests"), ("chrt", "util-linux")];

/// The core that is disturbed.
const CORE: u32 = 1;
/// Both tools by turns, this often.
const ROUNDS: usize = 5;
/// What is found may differ by so much from what was made.
const TIME: f64 = 0.10;
/// Of the packets that raise a card's interrupts, for so many they are to be called so.
const NAMED: f64 = 0.95;
/// Between two packets: not in step with a tick.
const PACKETS: Duration = Duration::from_micros(10_270);

/// Something that is shown by itself.
type Part = fn(&mut Guest) -> Result<(), Failure>;

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    mount("tracefs", "/sys/kernel/tracing", "tracefs", MountFlags::empty(), None)?;
    symlink("/init", "/bin/inject")?;
    let clock = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    let version = fs::read_to_string("/proc/version")?;
    if !version.contains("PREEMPT_RT") {
        return Err(format!("no real-time kernel: {}", version.trim()).into());
    }
    guest.say(format!("PREEMPT_RT, keeping time by {}", clock.trim()))?;
    // What is done here is no noise there.
    let mut here = CpuSet::new();
    here.set(0);
    sched_setaffinity(None, &here)?;
    // Each shows something of its own, whatever became of the others.
    let parts: [Part; 4] = [beside_osnoise, longest, witness, interrupts];
    let mut failed = Vec::new();
    for part in parts {
        if let Err(why) = part(guest) {
            guest.say(format!("not as promised: {why}"))?;
            failed.push(why.to_string());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// Both tools in turns, each in a run of its own with the same disturbances.
fn beside_osnoise(guest: &mut Guest) -> Result<(), Failure> {
    let mut shares: [Vec<f64>; 2] = Default::default();
    let mut off: [Vec<f64>; 2] = Default::default();
    for round in 0..ROUNDS {
        let mut tools = [(Tool::Noise, 0), (Tool::Osnoise, 1)];
        // Neither is always the first.
        if round % 2 == 1 {
            tools.reverse();
        }
        for (tool, at) in tools {
            let (made, found) = tools::beside_all(tool)?;
            let share = found.thread as f64 / made.nanos as f64;
            shares[at].push(share);
            off[at].push(made.off(found.thread));
            guest.say(format!("round {}: {}", round + 1, told(tool, &made, &found)))?;
        }
    }
    let [ours, theirs] = shares.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all
    });
    let middle = |all: &[f64]| all[all.len() / 2];
    for (name, all) in [("node noise", &ours), ("rtla osnoise", &theirs)] {
        guest.say(format!(
            "{name}: {:.3} of what the kernel charges ({:.3} to {:.3})",
            middle(all),
            all[0],
            all[all.len() - 1]
        ))?;
    }
    let within =
        |median: f64, all: &[f64]| median >= all[0] * (1.0 - TIME) && median <= all[all.len() - 1] * (1.0 + TIME);
    let told: Vec<String> = off.iter().map(|all| format!("{all:.3?}")).collect();
    guest.say(format!("outside of what was made, by share: node noise {}; rtla osnoise {}", told[0], told[1]))?;
    let good = off[0].iter().all(|off| off.abs() <= TIME);
    match () {
        () if !good => Err("node noise is more than 10 % off".into()),
        () if !within(middle(&ours), &theirs) || !within(middle(&theirs), &ours) => {
            Err("node noise and rtla's osnoise do not agree".into())
        }
        () => Ok(()),
    }
}

fn told(tool: Tool, made: &inject::Made, found: &Account) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    format!(
        "{}: {} disturbances of {:.1} ms by their own clock and {:.1} ms by the kernel's account, found {:.1} ms ({:.3}), of them {:.1} ms of what \
         interrupted them, longest {:.2} ms; all its noise {:.1} ms; {} events lost",
        tool.name(),
        made.times,
        ms(made.spun),
        ms(made.nanos),
        ms(found.thread),
        found.thread as f64 / made.nanos as f64,
        ms(found.within),
        ms(found.longest),
        ms(found.all),
        found.lost,
    )
}

/// The stall of 5 ms, by every tool.
fn longest(guest: &mut Guest) -> Result<(), Failure> {
    for tool in [Tool::Oslat, Tool::Cyclictest] {
        let (made, found) = tools::beside(tool)?;
        guest.say(format!(
            "{}: the longest {:.2} ms, where {:.2} ms were made",
            tool.name(),
            found.longest as f64 / 1e6,
            made.longest as f64 / 1e6
        ))?;
    }
    Ok(())
}

/// The kernel's tracer as a witness of the same run.
fn witness(guest: &mut Guest) -> Result<(), Failure> {
    let (made, report) = tools::with_witness()?;
    let rows = report["cores"][0]["osnoise"]
        .as_array()
        .ok_or_else(|| format!("the tracer told nothing: {}", report["notes"]))?;
    for row in rows {
        guest.say(format!(
            "node noise --osnoise, {}: {} of {:.1} ms by the kernel's tracer, {:.1} ms here",
            row["kind"].as_str().unwrap_or_default(),
            row["times"],
            row["nanos"].as_f64().unwrap_or(0.0) / 1e6,
            row["here_nanos"].as_f64().unwrap_or(0.0) / 1e6
        ))?;
    }
    let threads = rows.iter().find(|row| row["kind"] == "threads").and_then(|row| row["nanos"].as_u64());
    match threads {
        Some(nanos) if nanos as f64 >= (1.0 - TIME) * made.nanos as f64 => Ok(()),
        _ => Err(format!("of {} ns the tracer told {threads:?}", made.nanos).into()),
    }
}

/// Packets that one card sends to the other, whose interrupts come upon the core.
fn interrupts(guest: &mut Guest) -> Result<(), Failure> {
    for (mac, name) in [("02:4e:56:4e:00:00", "near"), ("02:4e:56:4e:00:01", "far")] {
        let found = tools::interface(mac)?;
        ip(&format!("link set {found} name {name}"))?;
    }
    ip("netns add far")?;
    ip("link set far netns far")?;
    ip("addr add 10.79.0.1/24 dev near")?;
    ip_in("far", "addr add 10.79.0.2/24 dev far")?;
    ip("link set near up")?;
    ip_in("far", "link set far up")?;
    tools::steer("far", CORE)?;
    tools::steer("near", 0)?;
    let receiver = in_namespace("far", || Ok(UdpSocket::bind("10.79.0.2:4000")?))?;
    let sender = UdpSocket::bind("10.79.0.1:0")?;
    sender.connect("10.79.0.2:4000")?;
    let mut sent = Vec::new();
    let report = tools::noise_while(|| {
        for _ in 0..400 {
            sent.push(inject::raw());
            // The first may wait for its neighbour's address.
            let _ = sender.send(&[7; 64]);
            thread::sleep(PACKETS);
        }
        Ok(())
    })?;
    drop(receiver);
    let counted = tools::counted(&report, "far-rx")?;
    let (looked, named) = tools::named(&fs::read_to_string(tools::GAPS)?, "(far-rx", &sent, PACKETS)?;
    let core = &report["cores"][0];
    guest.say(format!(
        "e1000e: of {looked} packets {named} were followed by a gap with an interrupt of far-rx, of which the kernel \
         counted {counted}; {} gaps, {:.1} ms, the longest {:.2} ms; {} events lost",
        core["gaps"],
        core["gap_nanos"].as_f64().unwrap_or(0.0) / 1e6,
        core["longest_nanos"].as_f64().unwrap_or(0.0) / 1e6,
        core["lost_events"]
    ))?;
    if looked < 100 || counted < looked as u64 || (named as f64) < NAMED * looked as f64 {
        return Err(format!("of {looked} packets' interrupts {named} are called what they were").into());
    }
    Ok(())
}

/// Runs a command on the core that is not disturbed.
fn aside(words: &[&str]) -> Command {
    let mut command = Command::new("busybox");
    command.args(["taskset", "1"]).args(words);
    command
}
