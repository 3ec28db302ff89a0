//! A NIC's stamps of frames: a probe timed by the clocks of two igb ports, and
//! clocks that are set wrong under it; and the stamps by XDP's metadata.

mod metadata;

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, Running, ip, nearside, output};
use crate::machine::{Domain, Driver, Machine, Port};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "stamps",
    about: "a probe is timed by the clocks of two NICs (igb), and by the kernel; clocks that step or run wrong are found; igb's stamps come over AF_XDP",
    machines: &[Machine {
        name: "one domain, two igb ports on a cable",
        domains: &[Domain { cores: 3, memory: 768 }],
        ports: &[IGB, IGB],
    }],
    modules: &["igb", "veth", "sch_ingress", "cls_matchall", "act_mirred"],
    limit: Duration::from_secs(600),
    prove,
};

const IGB: Port = Port { domain: 0, queues: 1, driver: Driver::Igb };

/// What the program says with a result that is INVALID (`nearside packet load --help`).
const INVALID: i32 = 2;

/// Two frames a second: between them, the NIC's latch is given free.
const RATE: &str = "76:2";

/// So many of ten frames must have both stamps here; the program itself calls a
/// result INVALID from one of a hundred on. Its NICs are qemu's, whose interrupts
/// wait for emulated cores that wait for real ones.
const STAMPED_OF_TEN: f64 = 5.0;

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    ip("link set port0 up")?;
    ip("link set port1 up")?;
    let registers = |port| registers_of(&Path::new("/sys/class/net").join(port).join("device"));
    let _latches = give_free([registers("port0")?, registers("port1")?])?;
    ip("link add name near type veth peer name far")?;
    ip("link set near up")?;
    ip("link set far up")?;
    metadata::prove(guest)?;
    two_clocks(guest)?;
    faults(guest)?;
    another_rate(guest)?;
    without_hardware(guest)
}

/// A NIC keeps a stamp of one frame that came until it is read. qemu's keeps the
/// first for ever, because it notices the reading of another register alone
/// (`RXSATRH`), which drivers leave: in its place this takes back the bit that
/// says that there is one (`TSYNCRXCTL` of Intel's 82576 datasheet, section
/// 8.16.1: VALID).
///
/// A bit that was seen twice has been there for so long that the driver has read
/// the stamp; the next frame comes after that. A machine that is busy breaks the
/// one or the other at times: a stamp is then missing.
pub(super) fn give_free(registers: [u64; 2]) -> Result<Running, Failure> {
    const TSYNCRXCTL: u64 = 0xb620;
    let mut script = String::from("while :; do busybox usleep 50000; ");
    for (port, base) in registers.iter().enumerate() {
        let register = base + TSYNCRXCTL;
        script += &format!(
            "now=$(( $(busybox devmem {register} 32) )); new=$(( now & 17 )); \
             if [ \"$seen{port}$new\" = 1717 ]; then busybox devmem {register} 32 $(( now & ~1 )); new=0; fi; \
             seen{port}=$new; "
        );
    }
    Running::start(Command::new("busybox").args(["sh", "-c", &(script + "done")]))
}

/// Where the registers of a device are, whose resources these are.
pub(super) fn registers_of(device: &Path) -> Result<u64, Failure> {
    let resources = fs::read_to_string(device.join("resource"))?;
    let base = resources.split_whitespace().next().and_then(|base| base.strip_prefix("0x"));
    Ok(base.and_then(|base| u64::from_str_radix(base, 16).ok()).ok_or("a port without registers")?)
}

/// A probe between the ports, each with a clock of its own.
fn two_clocks(guest: &mut Guest) -> Result<(), Failure> {
    // Far apart, so that a difference that is not measured would be seen.
    set(0, "set", "1000000000")?;
    set(1, "set", "1700000000")?;
    let clocks = [clock_of("port0")?, clock_of("port1")?];
    if clocks[0] == clocks[1] {
        return Err(format!("both ports have the clock {}", clocks[0]).into());
    }
    // What nobody has asked for by name is the best that there is.
    let told = run(&["--link", "af_packet:port0", "--link", "af_packet:port1", "--duration", "12s"])?;
    guest.say(line(&told)?)?;
    for lane in lanes(&told)? {
        stamped(lane, "nic")?;
        if lane["stamped"]["bound_ns"].as_f64().is_none_or(|bound| bound <= 0.0) {
            return Err(format!("two clocks without a bound: {lane}").into());
        }
    }
    let stamps = &told["clock"]["stamps"];
    if told["clock"]["hardware"] != true
        || stamps["only_ptp"] != true
        || stamps["clock_of_port"] != serde_json::json!([0, 1])
    {
        return Err(format!("what was told of the clock: {}", told["clock"]).into());
    }
    // They are off again.
    let config = output(Command::new("hwstamp_ctl").args(["-i", "port0"]))?;
    if !config.contains("tx_type 0") || !config.contains("rx_filter 0") {
        return Err(format!("port0 still stamps: {config}").into());
    }
    Ok(())
}

/// What is done to a clock while a probe is timed by it.
struct Fault {
    clock: &'static str,
    links: [&'static str; 2],
    /// What the result's doubt must say.
    told: &'static str,
    does: fn() -> Result<(), Failure>,
}

const FAULTS: [Fault; 3] = [
    Fault {
        clock: "hardware",
        links: ["port0", "port1"],
        told: "it stepped by +2",
        // A quarter of a second on.
        does: || set(0, "adj", "0.25"),
    },
    Fault {
        clock: "hardware",
        links: ["port0", "port1"],
        told: "/dev/ptp1 of af_packet:port1: it",
        // 0.12 % faster: qemu's clock jumps then, too, as if it had always been.
        does: || set(1, "freq", "1200000"),
    },
    Fault {
        clock: "kernel",
        links: ["near", "far"],
        told: "it stepped by +",
        does: || output(Command::new("busybox").args(["date", "-s", "@1900000000"])).map(drop),
    },
];

/// Clocks are put on and made faster, and the time of day is set.
fn faults(guest: &mut Guest) -> Result<(), Failure> {
    for Fault { clock, links, told, does } in FAULTS {
        let out = format!("/tmp/fault-{clock}.json");
        let links = links.map(|name| format!("af_packet:{name}"));
        let mut command = nearside(["packet", "load", "--probe", RATE, "--duration", "12s", "--drain", "1s"]);
        command.args(["--clock", clock, "--link", &links[0], "--link", &links[1], "--out", &out]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // The trial has begun by then: the clocks were looked at before.
        thread::sleep(Duration::from_secs(7));
        does()?;
        let ended = child.wait_with_output()?;
        [0, 1].iter().try_for_each(|port| set(*port, "freq", "0"))?;
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        let kept: Value = serde_json::from_str(&fs::read_to_string(&out)?)?;
        let doubt = kept["result"]["clock_doubt"].as_str().unwrap_or_default();
        if ended.status.code() != Some(INVALID) || !doubt.contains(told) || !said.contains(doubt) {
            let complaint = String::from_utf8_lossy(&ended.stderr);
            return Err(format!("{clock}, not {told}: {}, {doubt:?}, {complaint} {said}", ended.status).into());
        }
        guest.say(format!("INVALID: {doubt}"))?;
    }
    Ok(())
}

/// A clock that is not used, because it is too fast.
fn another_rate(guest: &mut Guest) -> Result<(), Failure> {
    set(0, "freq", "50000000")?;
    let links = ["--link", "af_packet:port0", "--link", "af_packet:port1", "--duration", "2s"];
    let told = refused(&[&links[..], &["--clock", "hardware"]].concat())?;
    set(0, "freq", "0")?;
    if !told.contains("ppm off the counter's") {
        return Err(format!("a clock that is too fast: {told}").into());
    }
    guest.say(told.trim())?;
    Ok(())
}

/// Interfaces without a clock: refused, or timed by the kernel.
fn without_hardware(guest: &mut Guest) -> Result<(), Failure> {
    let links = ["--link", "af_packet:near", "--link", "af_packet:far", "--duration", "8s"];
    let told = refused(&[&links[..], &["--clock", "hardware"]].concat())?;
    if !told.contains("does not stamp frames of both ways") {
        return Err(format!("veth with a NIC's clock: {told}").into());
    }
    let told = run(&links)?;
    guest.say(line(&told)?)?;
    lanes(&told)?.iter().try_for_each(|lane| stamped(lane, "kernel"))
}

/// Runs a probe. What it tells, which may be INVALID for stamps that are missing,
/// and for nothing else.
fn run(arguments: &[&str]) -> Result<Value, Failure> {
    let mut command = nearside(["packet", "load", "--probe", RATE, "--drain", "1s", "--json"]);
    let ended = command.args(arguments).output()?;
    let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
    let failed = |what: &dyn core::fmt::Display| format!("{arguments:?}: {}, {complaint} {what}", ended.status);
    let told: Value = serde_json::from_slice(&ended.stdout).map_err(|why| failed(&why))?;
    let missing = |lane: &Value| lane["stamped"]["no_arrival"] != 0 || lane["stamped"]["no_departure"] != 0;
    match ended.status.code() {
        Some(0) => Ok(told),
        Some(INVALID) if told["result"]["clock_doubt"].is_null() && lanes(&told)?.iter().any(missing) => Ok(told),
        _ => Err(failed(&told["result"]["clock_doubt"]).into()),
    }
}

/// Runs a probe that is refused. Why.
fn refused(arguments: &[&str]) -> Result<String, Failure> {
    let ended = nearside(["packet", "load", "--probe", RATE]).args(arguments).output()?;
    if ended.status.success() {
        return Err(format!("{arguments:?} was not refused").into());
    }
    Ok(String::from_utf8_lossy(&ended.stderr).into_owned())
}

pub(super) fn lanes(told: &Value) -> Result<&Vec<Value>, Failure> {
    Ok(told["result"]["lanes"].as_array().filter(|lanes| !lanes.is_empty()).ok_or("no stream is told of")?)
}

/// Whether a lane's latencies are by these stamps, and within those of the
/// tester's own clock.
pub(super) fn stamped(lane: &Value, by: &str) -> Result<(), Failure> {
    let stamped = &lane["stamped"];
    let (own, latency) = (&stamped["tester"], &lane["latency"]);
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let bound = number(&stamped["bound_ns"]);
    let frames = number(&stamped["frames"]);
    let all = frames + number(&stamped["no_arrival"]) + number(&stamped["no_departure"]);
    let sound = stamped["by"] == by
        && frames >= 10.0
        && frames * 10.0 >= all * STAMPED_OF_TEN
        && latency["samples"] == stamped["frames"]
        && stamped["impossible"] == 0
        && stamped["stood"] == 0
        && stamped["backwards"] == 0
        && number(&latency["mean_ns"]) > 0.0
        && number(&latency["mean_ns"]) <= number(&own["mean_ns"]) + bound;
    if sound {
        return Ok(());
    }
    let (mut stamped, mean) = (stamped.clone(), &latency["mean_ns"]);
    stamped["tester"] = own["mean_ns"].clone();
    Err(format!("not all by stamps ({by}), mean {mean} ns: {stamped}").into())
}

/// What the reader is told of a run: the clock, and latencies by both.
pub(super) fn line(told: &Value) -> Result<String, Failure> {
    let mut text = told["clock"]["stamps"]["told"].as_str().unwrap_or("no stamps").to_owned();
    for lane in lanes(told)? {
        let stamped = &lane["stamped"];
        text += &format!(
            "\n{} to {}: {} frames, without a stamp {} as they left and {} as they came, min {} mean {:.0} max {} ns; by the tester's own clock min {} mean {:.0} max {}",
            lane["from"],
            lane["to"],
            stamped["frames"],
            stamped["no_departure"],
            stamped["no_arrival"],
            lane["latency"]["min_ns"],
            lane["latency"]["mean_ns"].as_f64().unwrap_or(f64::NAN),
            lane["latency"]["max_ns"],
            stamped["tester"]["min_ns"],
            stamped["tester"]["mean_ns"].as_f64().unwrap_or(f64::NAN),
            stamped["tester"]["max_ns"]
        );
    }
    Ok(text)
}

/// The clock of an interface, by its number.
fn clock_of(name: &str) -> Result<u32, Failure> {
    let text = output(Command::new("ethtool").args(["-T", name]))?;
    let number = text.lines().find_map(|line| {
        let line = line.trim();
        line.strip_prefix("PTP Hardware Clock: ").or_else(|| line.strip_prefix("Hardware timestamp provider index: "))
    });
    Ok(number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| format!("{name} has no clock: {text}"))?)
}

/// Does something to a port's clock.
fn set(port: usize, what: &str, how: &str) -> Result<(), Failure> {
    let device = format!("/dev/ptp{}", clock_of(&format!("port{port}"))?);
    output(Command::new("phc_ctl").args([&device, what, how])).map(drop)
}
