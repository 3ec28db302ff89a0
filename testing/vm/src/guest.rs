//! The other end: this program as the first process of the machine.
//!
//! What it finds out goes to the second serial port, a line each: `say`, and
//! at the end `done` or `fail`. The first is the console.

mod devices;
mod fetch;
pub mod pages;
mod running;

pub use devices::{steer_interrupts, transmitted};
pub use fetch::{fetch, fetch_while, write_file};
pub use running::Running;

use crate::image::{MODULES, ORDER};
use crate::machine::{Machine, mac};
use crate::{Failure, now, scenarios};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use rustix::system::RebootCommand;
use rustix::thread::LinkNameSpaceType;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// A scenario's hands in the machine.
pub struct Guest {
    /// The machine that it is in.
    pub machine: &'static Machine,
    results: File,
    loaded: BTreeSet<String>,
}

impl Guest {
    /// Tells the reader what was proved.
    ///
    /// # Errors
    /// If nobody hears it.
    pub fn say(&mut self, what: impl AsRef<str>) -> Result<(), Failure> {
        self.line("say", what.as_ref())
    }

    fn line(&mut self, tag: &str, text: &str) -> Result<(), Failure> {
        for line in text.lines() {
            writeln!(self.results, "{tag} {line}")?;
        }
        Ok(())
    }

    /// Loads a module that the scenario names, with these parameters.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn load(&mut self, name: &str, parameters: &str) -> Result<(), Failure> {
        let order = fs::read_to_string(ORDER)?;
        let line = order.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words[0] == name);
        for module in line.ok_or_else(|| format!("the scenario does not name the module {name}"))?.iter().skip(1) {
            if self.loaded.insert((*module).to_owned()) {
                let parameters = if module == &name { parameters } else { "" };
                let bytes = fs::read(Path::new(MODULES).join(module))?;
                rustix::system::init_module(&bytes, &CString::new(parameters)?)
                    .map_err(|why| format!("module {module}: {why}"))?;
            }
        }
        Ok(())
    }
}

/// Runs `ip` with these words.
///
/// # Errors
/// What it says if it fails.
pub fn ip(words: &str) -> Result<String, Failure> {
    output(Command::new("ip").args(words.split(' ')))
}

/// Runs `ip` in a named network namespace.
///
/// # Errors
/// As [`ip`].
pub fn ip_in(namespace: &str, words: &str) -> Result<String, Failure> {
    output(Command::new("ip").args(["-n", namespace]).args(words.split(' ')))
}

/// Runs a command to its end; what it writes.
///
/// # Errors
/// If it fails, with what it says.
pub fn output(command: &mut Command) -> Result<String, Failure> {
    let name = format!("{command:?}").replace('"', "");
    let output = command.stdin(Stdio::null()).output().map_err(|why| format!("{name}: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {} {}", output.status, text.trim(), said.trim()).into());
    }
    Ok(text)
}

/// The program under test, with these arguments.
pub fn nearside<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("/bin/nearside");
    for argument in arguments {
        command.arg(&argument);
        // Its process is the one that is started then.
        command.args((argument.as_ref() == "serve").then_some("--user=root"));
    }
    command
}

/// What `nearside numa` tells of a running program.
///
/// # Errors
/// If it tells nothing of this process.
pub fn numa_of(running: &Running) -> Result<serde_json::Value, Failure> {
    let all: serde_json::Value = serde_json::from_str(&output(&mut nearside(["numa", "--json"]))?)?;
    let found = all["processes"].as_array().into_iter().flatten().find(|process| process["pid"] == running.pid());
    Ok(found.ok_or("nearside numa tells nothing of the process")?.clone())
}

/// What the silos or workers of a running program count, as `nearside
/// status` tells it.
///
/// # Errors
/// If it tells nothing of this process.
pub fn silos_of(running: &Running) -> Result<Vec<serde_json::Value>, Failure> {
    let pages: serde_json::Value = serde_json::from_str(&output(&mut nearside(["status", "--json"]))?)?;
    let page = pages.as_array().into_iter().flatten().find(|page| page["pid"] == running.pid());
    let silos = page.and_then(|page| page["silos"].as_array());
    Ok(silos.ok_or("no page of the process")?.clone())
}

/// Runs `work` on a thread of its own in a network namespace that `ip netns
/// add` made.
///
/// # Errors
/// If there is none of the name, and those of `work`.
pub fn in_namespace<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let namespace = File::open(Path::new("/run/netns").join(name))?;
    let thread = thread::spawn(move || {
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    });
    thread.join().map_err(|_| "a thread of the scenario panicked")?
}

/// Asks again and again until `ready` gives something.
///
/// # Errors
/// If the time is up, with `what` it was; or what `ready` fails with.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut ready: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let end = now() + limit;
    loop {
        if let Some(it) = ready()? {
            return Ok(it);
        }
        if now() > end {
            return Err(format!("{what}: not within {} s", limit.as_secs()).into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The first process. It never returns: its end would be the kernel's.
pub fn main() -> ExitCode {
    match work() {
        Ok(()) => {}
        // The second port may be what failed: the console hears it too.
        Err(why) => println!("init: {why}"),
    }
    rustix::fs::sync();
    if let Err(why) = rustix::system::reboot(RebootCommand::PowerOff) {
        println!("init: the machine does not go off: {why}");
    }
    loop {
        thread::park();
    }
}

fn work() -> Result<(), Failure> {
    mounts()?;
    let line = fs::read_to_string("/proc/cmdline")?;
    let word = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let flag = |key: &str| line.split_whitespace().any(|word| word == key);
    let scenario = scenarios::named(word("vm.scenario").ok_or("no scenario is named")?)?;
    let index: usize = word("vm.machine").ok_or("no machine is named")?.parse()?;
    let machine = scenario.machines.get(index).ok_or("the scenario has no such machine")?;
    let shell = flag("vm.shell") || flag("vm.keep");
    // Who uses the shell reads the results too.
    let results = if shell { console()? } else { raw_port("/dev/ttyS1")? };
    let mut guest = Guest { machine, results, loaded: BTreeSet::new() };
    let outcome = if flag("vm.shell") { Ok(()) } else { prove(&mut guest, scenario) };
    match &outcome {
        Ok(()) => guest.line("done", "-")?,
        Err(why) => {
            // A program's own words come before, so that the reason is last.
            let why = why.to_string();
            let mut lines: Vec<&str> = why.lines().collect();
            let first = if lines.is_empty() { "" } else { lines.remove(0) };
            guest.line("say", &lines.join("\n"))?;
            guest.line("fail", first)?;
        }
    }
    if shell {
        run_shell(&mut guest, scenario)?;
    }
    Ok(())
}

fn prove(guest: &mut Guest, scenario: &scenarios::Scenario) -> Result<(), Failure> {
    load_all(guest, scenario)?;
    (scenario.prove)(guest)
}

fn load_all(guest: &mut Guest, scenario: &scenarios::Scenario) -> Result<(), Failure> {
    for name in scenario.modules {
        // By default it makes a bond of its own.
        guest.load(name, if *name == "bonding" { "max_bonds=0" } else { "" })?;
    }
    ip("link set lo up")?;
    for port in 0..guest.machine.ports.len() {
        let found = wait_for(&format!("port {port}"), DEVICES, || interface_of(&mac(port)))?;
        ip(&format!("link set {found} name port{port}"))?;
    }
    Ok(())
}

/// Time for drivers to find their devices.
const DEVICES: Duration = Duration::from_secs(60);

/// The interface with this hardware address.
fn interface_of(mac: &str) -> Result<Option<String>, Failure> {
    for entry in fs::read_dir("/sys/class/net")? {
        let entry = entry?;
        // It may come and go.
        if fs::read_to_string(entry.path().join("address")).is_ok_and(|found| found.trim() == mac) {
            return Ok(Some(entry.file_name().to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

fn run_shell(guest: &mut Guest, scenario: &scenarios::Scenario) -> Result<(), Failure> {
    load_all(guest, scenario)?;
    output(Command::new("busybox").args(["--install", "-s", "/bin"]))?;
    let console = console()?;
    let status = Command::new("busybox")
        .args(["setsid", "-c", "sh"])
        .stdin(console.try_clone()?)
        .stdout(console.try_clone()?)
        .stderr(console)
        .status()?;
    println!("the shell has ended: {status}");
    Ok(())
}

fn mounts() -> Result<(), Failure> {
    let none = MountFlags::empty();
    mount("proc", "/proc", "proc", none, None)?;
    mount("sysfs", "/sys", "sysfs", none, None)?;
    mount("devtmpfs", "/dev", "devtmpfs", none, None)?;
    mount("tmpfs", "/run", "tmpfs", none, None)?;
    mount("tmpfs", "/tmp", "tmpfs", none, None)?;
    // Where status pages of running processes lie.
    fs::create_dir("/dev/shm")?;
    mount("tmpfs", "/dev/shm", "tmpfs", none, None)?;
    mount("bpf", "/sys/fs/bpf", "bpf", none, None)?;
    Ok(())
}

fn console() -> Result<File, Failure> {
    Ok(File::options().read(true).write(true).open("/dev/ttyS0")?)
}

/// A serial port that sends bytes as they are.
fn raw_port(path: &str) -> Result<File, Failure> {
    let port = rustix::fs::openat(CWD, path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    let mut mode = rustix::termios::tcgetattr(&port)?;
    mode.make_raw();
    rustix::termios::tcsetattr(&port, rustix::termios::OptionalActions::Now, &mode)?;
    Ok(port.into())
}
