//! `nearside node` on interfaces of four drivers: audit finds what was spoilt,
//! apply changes it, undo brings it back, and so it does after a SIGKILL at
//! any step. What is so, ethtool(8) and sysfs say, not we.

mod killed;
mod state;

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, ip, nearside, output};
use crate::machine::{Domain, Driver, Machine, Port};
use serde_json::Value;
use state::{State, ethtool};
use std::fs;
use std::process::Command;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "node",
    about: "node audit, plan, apply and undo on e1000e, vmxnet3, virtio and netdevsim, also killed at every step",
    machines: &[Machine {
        name: "one domain, two ports of each driver",
        domains: &[Domain { cores: 2, memory: 1024 }],
        ports: &[
            Port { domain: 0, queues: 1, driver: Driver::E1000e },
            Port { domain: 0, queues: 1, driver: Driver::E1000e },
            Port { domain: 0, queues: 1, driver: Driver::Vmxnet3 },
            Port { domain: 0, queues: 1, driver: Driver::Vmxnet3 },
            Port { domain: 0, queues: 2, driver: Driver::Virtio },
            Port { domain: 0, queues: 2, driver: Driver::Virtio },
        ],
    }],
    modules: &["virtio_net", "e1000e", "vmxnet3"],
    limit: Duration::from_secs(1_800),
    prove,
};

/// A setting that an article spoilt, and how it is seen that it is mended.
#[derive(Clone, Copy)]
struct Spoilt {
    /// What is typed: words of ethtool's command line, or a file of sysfs with
    /// its value.
    typed: &'static str,
    /// The rule that finds it.
    rule: &'static str,
    /// What plan writes, below the interface.
    setting: &'static str,
    /// The option by which ethtool shows it; none: a file of sysfs.
    shown_by: &'static str,
    /// The line of ethtool, and what it says when it is mended.
    mended: (&'static str, &'static str),
}

/// An interface, its driver, and what is done to it.
struct Subject {
    interface: &'static str,
    driver: &'static str,
    spoilt: &'static [Spoilt],
}

const GRO: Spoilt = Spoilt {
    typed: "-K gro off",
    rule: "merging of received segments",
    setting: "offloads/rx-gro",
    shown_by: "-k",
    mended: ("generic-receive-offload", "on"),
};
const TSO: Spoilt = Spoilt {
    typed: "-K tso off",
    rule: "segmentation by the interface",
    setting: "offloads/tx-tcp-segmentation",
    shown_by: "-k",
    mended: ("tcp-segmentation-offload", "on"),
};
const COALESCING: Spoilt = Spoilt {
    typed: "-C rx-usecs 400",
    rule: "interrupt coalescing",
    setting: "coalescing/rx-usecs",
    shown_by: "-c",
    mended: ("rx-usecs", "10"),
};
const CHANNELS: Spoilt = Spoilt {
    typed: "-L combined 1",
    rule: "channels",
    setting: "channels/combined",
    shown_by: "-l",
    mended: ("Combined", "2"),
};
/// Interrupts deferred without a timer: packets wait for the next one.
const TIMER: Spoilt = Spoilt {
    typed: "gro_flush_timeout 5000000",
    rule: "GRO flush timeout",
    setting: "gro_flush_timeout",
    shown_by: "",
    mended: ("", ""),
};

const SUBJECTS: &[Subject] = &[
    Subject { interface: "port0", driver: "e1000e", spoilt: &[COALESCING, GRO, TSO, TIMER] },
    Subject { interface: "port2", driver: "vmxnet3", spoilt: &[GRO, TSO] },
    Subject { interface: "port4", driver: "virtio_net", spoilt: &[CHANNELS, GRO, TSO] },
    Subject { interface: SIMULATED, driver: "netdevsim", spoilt: &[COALESCING, CHANNELS] },
];
/// What netdevsim's interface is called here.
const SIMULATED: &str = "sim0";

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    let mut subjects: Vec<&Subject> = SUBJECTS.iter().collect();
    match simulated(guest) {
        Ok(()) => {}
        Err(why) => {
            guest.say(format!("left out: netdevsim: {why}"))?;
            subjects.retain(|subject| subject.interface != SIMULATED);
        }
    }
    for subject in &subjects {
        ip(&format!("link set {} up", subject.interface))?;
        driven(subject)?;
        for spoilt in subject.spoilt {
            spoil(subject.interface, spoilt.typed)?;
        }
    }
    found(guest, &subjects)?;
    let plan = plan(&["--role", "web-kernel"])?;
    changed_and_restored(guest, &subjects, &plan)?;
    refused(guest)?;
    killed::at_every_step(guest, &subjects)
}

/// Makes an interface of netdevsim, with two queues.
fn simulated(guest: &mut Guest) -> Result<(), Failure> {
    guest.load("netdevsim", "")?;
    fs::write("/sys/bus/netdevsim/new_device", "1 1 2")?;
    let names = fs::read_dir("/sys/bus/netdevsim/devices/netdevsim1/net")?;
    let name = names.filter_map(Result::ok).next().ok_or("a device without an interface")?.file_name();
    ip(&format!("link set {} name {SIMULATED}", name.to_string_lossy()))?;
    Ok(())
}

/// The interface has the driver that it stands for.
fn driven(subject: &Subject) -> Result<(), Failure> {
    let said = ethtool("-i", subject.interface)?;
    let driver = said.lines().find_map(|line| line.strip_prefix("driver: ")).unwrap_or_default();
    match driver == subject.driver {
        true => Ok(()),
        false => Err(format!("{} has the driver {driver}, not {}", subject.interface, subject.driver).into()),
    }
}

fn spoil(interface: &str, typed: &str) -> Result<(), Failure> {
    let (first, rest) = typed.split_once(' ').ok_or("words without a value")?;
    if first.starts_with('-') {
        output(Command::new("ethtool").args([first, interface]).args(rest.split(' ')))?;
    } else {
        fs::write(format!("/sys/class/net/{interface}/{first}"), rest)?;
    }
    Ok(())
}

/// Audit has a row of each setting that asks for another value.
fn found(guest: &mut Guest, subjects: &[&Subject]) -> Result<(), Failure> {
    let said = Command::new("/bin/nearside").args(["node", "audit", "--role", "web-kernel", "--json"]).output()?;
    let report: Value = serde_json::from_slice(&said.stdout)?;
    let rows = report["rows"].as_array().ok_or("no rows")?;
    for subject in subjects {
        let mut keys = Vec::new();
        for spoilt in subject.spoilt {
            let row = rows.iter().find(|row| row["key"] == spoilt.rule && row["subject"] == subject.interface);
            let row = row.ok_or_else(|| format!("{}: audit has no row on {}", subject.interface, spoilt.rule))?;
            if row["want"].is_null() || row["verdict"] == "ok" {
                return Err(format!("{}: audit finds nothing wrong: {row}", subject.interface).into());
            }
            keys.push(format!("{} ({})", spoilt.rule, row["verdict"].as_str().unwrap_or_default()));
        }
        guest.say(format!("{}: audit finds {}", subject.driver, keys.join(", ")))?;
    }
    Ok(())
}

/// A plan as `nearside node plan` has it.
fn plan(words: &[&str]) -> Result<Value, Failure> {
    Ok(serde_json::from_str(&output(nearside(["node", "plan"]).args(words).arg("--json"))?)?)
}

fn id(plan: &Value) -> Result<&str, Failure> {
    plan["id"].as_str().ok_or_else(|| "a plan without an id".into())
}

/// The whole plan of a role: after apply ethtool and sysfs say what it wanted,
/// after undo everything is as it was, what was never named included.
fn changed_and_restored(guest: &mut Guest, subjects: &[&Subject], plan: &Value) -> Result<(), Failure> {
    let steps = plan["steps"].as_array().ok_or("no steps")?;
    let before = State::take(subjects)?;
    output(nearside(["node", "apply", id(plan)?, "--no-try"]).arg("--role").arg("web-kernel"))?;
    for subject in subjects {
        for spoilt in subject.spoilt {
            mended(subject.interface, spoilt, steps)?;
        }
    }
    let after = State::take(subjects)?;
    if after.differences(&before).is_empty() {
        return Err("apply changed nothing that is seen from outside".into());
    }
    guest.say(format!("{} steps applied; ethtool and sysfs say what the plan wanted", steps.len()))?;
    let told = output(&mut nearside(["node", "undo"]))?;
    let left = State::take(subjects)?.differences(&before);
    if !left.is_empty() {
        return Err(format!("undo left {}\n{told}", left.join("\n")).into());
    }
    guest.say("undo: ethtool, sysfs and /proc/sys are line by line as before")
}

/// What was spoilt is in the plan, and is mended by the words of others.
fn mended(interface: &str, spoilt: &Spoilt, steps: &[Value]) -> Result<(), Failure> {
    let (driver, file) =
        (format!("ethtool/{interface}/{}", spoilt.setting), format!("sys/class/net/{interface}/{}", spoilt.setting));
    let step = steps.iter().find(|step| step["path"] == *driver || step["path"] == *file);
    let step = step.ok_or_else(|| format!("{interface}: the plan has no step for {}", spoilt.setting))?;
    let wanted = step["wanted"].as_str().unwrap_or_default();
    let (line, value) = spoilt.mended;
    let said = match spoilt.shown_by {
        "" => fs::read_to_string(format!("/{file}"))?.trim().to_owned(),
        option => {
            let text = ethtool(option, interface)?;
            // Of rings and channels the second block is what is in force.
            let found = text.lines().rev().find_map(|row| row.trim().strip_prefix(line)?.strip_prefix(':'));
            let found = found.and_then(|rest| rest.split_whitespace().next()).unwrap_or("nothing").to_owned();
            if found != value {
                return Err(format!("{interface}: ethtool {option} says {line}: {found}, not {value}").into());
            }
            return Ok(());
        }
    };
    match said == wanted {
        true => Ok(()),
        false => Err(format!("{interface}: /{file} says {said}, not {wanted}").into()),
    }
}

/// What drivers refuse ends with everything as it was: more descriptors than
/// e1000e has, in the middle of a plan.
fn refused(guest: &mut Guest) -> Result<(), Failure> {
    let subjects = [&SUBJECTS[0]];
    let before = State::take(&subjects)?;
    let words = ["--only", "interrupt coalescing@port0=rx-usecs 3", "--only", "ring sizes@port0=rx 8192"];
    let plan = plan(&words)?;
    let said = nearside(["node", "apply", id(&plan)?, "--no-try"]).args(words).output()?;
    let why = String::from_utf8_lossy(&said.stderr).into_owned();
    if said.status.success() || !why.contains("everything is as it was") {
        return Err(format!("a ring of 8192 was not refused: {} {why}", said.status).into());
    }
    let left = State::take(&subjects)?.differences(&before);
    if !left.is_empty() {
        return Err(format!("a refused step left {}", left.join("\n")).into());
    }
    guest.say(format!("e1000e refuses rx 8192, and what came before it is undone: {}", why.trim()))
}
