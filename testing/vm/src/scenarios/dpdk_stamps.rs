//! Stamps of frames by DPDK's driver of igb: a probe timed by the clocks of two
//! ports, clocks that are set wrong under it, and a driver that was built without.

use super::Scenario;
use super::stamps::{give_free, lanes, line, registers_of, stamped};
use crate::Failure;
use crate::dpdk::{DRIVERS, STAMPING};
use crate::guest::{Guest, Running, nearside, output, wait_for};
use crate::machine::{Domain, Driver, Machine, Port};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "dpdk-stamps",
    about: "a probe is timed by the clocks of two NICs over DPDK (igb); clocks that step or stand are found",
    machines: &[Machine {
        name: "one domain, two igb ports on a cable, for DPDK",
        domains: &[Domain { cores: 3, memory: 1024 }],
        ports: &[IGB, IGB],
    }],
    modules: &["igb", "uio_pci_generic"],
    limit: Duration::from_secs(600),
    prove,
};

const IGB: Port = Port { domain: 0, queues: 1, driver: Driver::Igb };

/// What the program says with a result that is INVALID.
const INVALID: i32 = 2;

/// Two frames a second: between them, the NIC's latch is given free.
const RATE: &str = "76:2";

/// So often it is tried again where few frames of the proof had stamps, as on a host
/// that is busy.
const TRIES: u32 = 3;

/// The register of Intel's 82576 that says how much is added to the clock each 16 ns
/// (its datasheet, section 8.16.12).
const TIMINCA: u64 = 0xb608;
/// Nothing.
const STANDS: &str = "0x01000000";
/// 30 millionths more than DPDK has it. qemu's clock then is as if it had always been
/// so: it is put on at once.
const FASTER: &str = "0x01800100";

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    let driver = Path::new(DRIVERS).join("librte_net_e1000.so");
    if !driver.is_file() {
        return guest.say("left out: the program is built without DPDK (make build DPDK=1)");
    }
    without_device(guest)?;
    fs::write("/proc/sys/vm/nr_hugepages", "160")?;
    let ports = [take(0)?, take(1)?];
    without_stamps(guest, &ports)?;
    if !Path::new(STAMPING).is_file() {
        return guest.say("left out: DPDK's driver that stamps what leaves could not be built");
    }
    output(Command::new("busybox").args(["mount", "-o", "bind", STAMPING]).arg(&driver))?;
    let registers = [registers_of(&ports[0].device)?, registers_of(&ports[1].device)?];
    let _latches = give_free(registers)?;
    two_clocks(guest, &ports)?;
    set_on(guest, &ports, registers[1])?;
    stands(guest, &ports, registers[0])
}

/// While the kernel has the ports: a clock whose device is missing, as in a container.
fn without_device(guest: &mut Guest) -> Result<(), Failure> {
    let device = fs::read_dir("/sys/class/net/port1/device/ptp")?.next().ok_or("port1 has no clock")??.file_name();
    let device = Path::new("/dev").join(device);
    fs::remove_file(&device)?;
    let links = ["--link", "af_packet:port0", "--link", "af_packet:port1", "--clock", "hardware"];
    let ended = nearside(["packet", "load", "--probe", RATE]).args(links).output()?;
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    let why = format!("{} of af_packet:port1: No such file or directory", device.display());
    if ended.status.success() || !told.contains(&why) {
        return Err(format!("a clock without a device: {}, {told}", ended.status).into());
    }
    guest.say(told.trim())
}

/// A port that DPDK has.
struct Taken {
    link: String,
    device: PathBuf,
}

/// Takes a port from the kernel, for DPDK.
fn take(port: usize) -> Result<Taken, Failure> {
    let device = fs::canonicalize(format!("/sys/class/net/port{port}/device"))?;
    let address = device.file_name().and_then(|name| name.to_str()).ok_or("a device without an address")?.to_owned();
    fs::write(device.join("driver/unbind"), &address)?;
    fs::write(device.join("driver_override"), "uio_pci_generic")?;
    fs::write("/sys/bus/pci/drivers_probe", &address)?;
    let uio = format!("/dev/uio{port}");
    wait_for("a device for user space", Duration::from_secs(20), || Ok(Path::new(&uio).exists().then_some(())))?;
    Ok(Taken { link: format!("dpdk:{address}"), device })
}

/// The distribution's driver, which takes no frame that is to be stamped: refused by
/// name, or done without.
fn without_stamps(guest: &mut Guest, ports: &[Taken; 2]) -> Result<(), Failure> {
    const LACKS: &str = "net_e1000_igb takes no frame that is to be stamped as it leaves";
    let ended = load(ports, &["--duration", "2s", "--clock", "hardware"]).output()?;
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    if ended.status.success() || !told.contains(LACKS) {
        return Err(format!("a driver without stamps: {}, {told}", ended.status).into());
    }
    guest.say(told.trim())?;
    let told = run(ports, &["--duration", "2s"])?;
    let refused = told["clock"]["refused"].to_string();
    let by_counter = lanes(&told)?.iter().all(|lane| lane["stamped"].is_null() && lane["latency"]["samples"] != 0);
    if told["clock"]["hardware"] != false || !refused.contains(LACKS) || !by_counter {
        let lane = &lanes(&told)?[0];
        return Err(format!("what is done without stamps: {refused} {} {}", lane["stamped"], lane["latency"]).into());
    }
    Ok(())
}

/// A probe between the ports, each with a clock of its own.
fn two_clocks(guest: &mut Guest, ports: &[Taken; 2]) -> Result<(), Failure> {
    let mut told = run(ports, &["--duration", "12s"])?;
    for _ in 0..TRIES {
        let Some(why) = told["clock"]["stamps"]["given_up"].as_str() else { break };
        guest.say(format!("again, as the NIC's latch was not free: {why}"))?;
        told = run(ports, &["--duration", "12s"])?;
    }
    guest.say(line(&told)?)?;
    for lane in lanes(&told)? {
        stamped(lane, "nic")?;
        if lane["stamped"]["bound_ns"].as_f64().is_none_or(|bound| bound <= 0.0) {
            return Err(format!("two clocks without a bound: {lane}").into());
        }
    }
    let (clock, stamps) = (&told["clock"], &told["clock"]["stamps"]);
    let named = stamps["clocks"][1]["name"] == format!("the clock of {}", ports[1].link);
    let both = stamps["clock_of_port"] == serde_json::json!([0, 1]);
    if clock["hardware"] != true || stamps["only_ptp"] != true || !both || !named {
        return Err(format!("what was told of the clock: {clock}").into());
    }
    Ok(())
}

/// A clock is put on while a probe is timed by it.
fn set_on(guest: &mut Guest, ports: &[Taken; 2], registers: u64) -> Result<(), Failure> {
    let out = "/tmp/set-on.json";
    let mut command = load(ports, &["--duration", "30s", "--clock", "hardware", "--out", out]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // The trial has begun by then: links come up, clocks are looked at, and stamps
    // are tried before.
    thread::sleep(Duration::from_secs(20));
    output(Command::new("busybox").args(["devmem", &(registers + TIMINCA).to_string(), "32", FASTER]))?;
    let ended = child.wait_with_output()?;
    let kept: Value = serde_json::from_str(&fs::read_to_string(out)?)?;
    let doubt = kept["result"]["clock_doubt"].as_str().unwrap_or_default();
    let told = format!("the clock of {}: it stepped by +", ports[1].link);
    if ended.status.code() != Some(INVALID) || !doubt.contains(&told) {
        let complaint = String::from_utf8_lossy(&ended.stderr);
        let clocks = &kept["clock"]["stamps"]["clocks"];
        return Err(format!("a clock that was put on: {}, {doubt:?} {complaint} {clocks}", ended.status).into());
    }
    guest.say(format!("INVALID: {doubt}"))
}

/// A clock that does not run is not used.
fn stands(guest: &mut Guest, ports: &[Taken; 2], registers: u64) -> Result<(), Failure> {
    // DPDK starts it, and each time it is stopped again.
    let script = format!("while :; do busybox devmem {} 32 {STANDS}; busybox usleep 2000; done", registers + TIMINCA);
    let _stopped = Running::start(Command::new("busybox").args(["sh", "-c", &script]))?;
    let ended = load(ports, &["--duration", "2s", "--clock", "hardware"]).output()?;
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    if ended.status.success() || !told.contains(&format!("the clock of {}: it ", ports[0].link)) {
        return Err(format!("a clock that stands: {}, {told}", ended.status).into());
    }
    guest.say(told.trim())
}

/// A probe both ways.
fn load(ports: &[Taken; 2], arguments: &[&str]) -> Command {
    let mut command = nearside(["packet", "load", "--probe", RATE, "--drain", "1s"]);
    for Taken { link, .. } in ports {
        command.args(["--link", link]);
    }
    command.args(arguments);
    command
}

/// Runs a probe. What it tells, which may be INVALID for stamps that are missing,
/// and for nothing else.
fn run(ports: &[Taken; 2], arguments: &[&str]) -> Result<Value, Failure> {
    let ended = load(ports, arguments).arg("--json").output()?;
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
