//! Boots a machine, hears what it says, and ends it in time.

use crate::image::Image;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::scenarios::{self, Scenario};
use crate::{Failure, now};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What the machine does beside the scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Nothing: it is switched off.
    Off,
    /// A shell, and no scenario.
    Shell,
    /// A shell after the scenario.
    Keep,
}

/// Time to boot, for emulated cores on a machine that does other things too.
/// This and every other limit here only ends what hangs: what is fast on a
/// machine at rest takes ten times as long on one that is not.
const BOOT: Duration = Duration::from_secs(180);
/// Lines of the console's end that are shown of a machine that failed.
const CONSOLE_LINES: usize = 60;
/// The most lines that are shown of a kernel that complains, with those before it.
const COMPLAINT_LINES: usize = 240;
const BEFORE_COMPLAINT: usize = 5;
/// How a kernel begins to say what is wrong with it.
const COMPLAINTS: [&str; 8] = [
    "Kernel panic",
    "BUG:",
    "Oops",
    "general protection fault",
    "Call Trace:",
    "rcu: INFO: rcu_",
    "watchdog: ",
    "Out of memory",
];
/// Consoles of machines that failed, of each scenario: as many are kept.
const KEPT: u32 = 20;

/// Runs `scenario` in its machine `index`. Returns whether it passed.
///
/// # Errors
/// If the machine cannot be booted here.
pub fn run(
    folder: &Path,
    kernel: &Kernel,
    image: &Image,
    scenario: &Scenario,
    index: usize,
    after: After,
) -> Result<bool, Failure> {
    let machine = &scenario.machines[index];
    let console = folder.join(format!("console-{}-{index}.log", scenario.name));
    let complaints = folder.join(format!("qemu-{}-{index}.log", scenario.name));
    let mut command = qemu(machine)?;
    let real_time = scenarios::is_real_time(scenario);
    command.args(scenarios::DEVICES.iter().filter(|_| real_time));
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&image.file);
    let shell = match after {
        After::Off => "",
        After::Shell => " vm.shell",
        After::Keep => " vm.keep",
    };
    // Whether the timer ticks is tried within some ten milliseconds, in which
    // an emulated one on a busy machine need not: nothing else is wrong with it.
    let words = format!(
        "console=ttyS0 panic=-1 oops=panic quiet mitigations=off no_timer_check iomem=relaxed vm.scenario={} vm.machine={index}{shell}{}",
        scenario.name,
        if real_time { scenarios::WORDS } else { "" }
    );
    command.arg("-append").arg(words);
    if after == After::Off {
        command.args(["-chardev", &format!("file,id=console,path={}", console.display())]);
        command.args(["-serial", "chardev:console", "-serial", "stdio"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(&complaints)?);
    } else {
        command.args(["-chardev", "stdio,id=console,mux=on,signal=off", "-serial", "chardev:console"]);
        println!("(Ctrl-A x ends the machine)");
    }
    let child = command.spawn().map_err(|why| format!("qemu does not start: {why}"))?;
    let mut power = Power(child);
    if after != After::Off {
        return Ok(power.0.wait()?.success());
    }
    let lines = read_lines(&mut power.0)?;
    let passed = listen(&lines, BOOT + scenario.limit);
    drop(power);
    if !passed {
        show("what qemu says", &complaints);
        show("its console", &console);
        match keep(&console) {
            Ok(kept) => println!("   its console is kept: {}", kept.display()),
            Err(why) => println!("   its console is not kept, and the next run writes over it: {why}"),
        }
    }
    Ok(passed)
}

const QEMU: &str = "qemu-system-x86_64";

/// A device that a machine has and this qemu does not know: igb came with 8.0.
pub fn unknown_device(machine: &Machine) -> Option<&'static str> {
    let knows = |device: &str| {
        let asked = Command::new(QEMU)
            .args(["-machine", "q35", "-nodefaults", "-display", "none", "-device", &format!("{device},help")])
            .stdin(Stdio::null())
            .output();
        // What does not start at all is told when the machine is to be booted.
        asked.map_or(true, |asked| !String::from_utf8_lossy(&asked.stderr).contains("not found"))
    };
    machine.ports.iter().map(|port| port.driver.device()).find(|device| !knows(device))
}

/// qemu with this hardware, on its cables.
fn qemu(machine: &Machine) -> Result<Command, Failure> {
    let mut command = if machine.needs_taps() {
        // The namespace, and all in it, ends with qemu, however that ends.
        let script = format!("set -e\n{}exec \"$@\"", machine.lay_cables());
        let mut command = Command::new("unshare");
        command.args(["--net", "--map-root-user", "--", "sh", "-c", &script, "sh", QEMU]);
        command
    } else {
        Command::new(QEMU)
    };
    command.args(["-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max"]);
    command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
    command.args(machine.words());
    Ok(command)
}

/// A machine that is switched off with this value.
struct Power(Child);

impl Drop for Power {
    fn drop(&mut self) {
        // One that is off already takes no harm.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_lines(child: &mut Child) -> Result<Receiver<String>, Failure> {
    let stream = child.stdout.take().ok_or("qemu has no output")?;
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(lines)
}

/// Prints what the machine tells until it has passed or not.
fn listen(lines: &Receiver<String>, limit: Duration) -> bool {
    let end = now() + limit;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(now())) {
            Ok(line) => match line.split_once(' ').unwrap_or((&line, "")) {
                ("done", _) => return true,
                ("fail", why) => {
                    println!("   failed: {why}");
                    return false;
                }
                ("say", what) => println!("   {what}"),
                // Firmware writes to every serial port that it finds.
                _ => {}
            },
            Err(RecvTimeoutError::Timeout) => {
                println!("   failed: the machine has not finished within {} s", limit.as_secs());
                return false;
            }
            Err(RecvTimeoutError::Disconnected) => {
                println!("   failed: the machine went off before the scenario ended");
                return false;
            }
        }
    }
}

fn show(what: &str, file: &Path) {
    let bytes = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    println!("--- {what}, {}:", file.display());
    for line in telling(&lines) {
        println!("{}", line.trim_end());
    }
    println!("---");
}

/// From where the kernel begins to complain on, or else the end.
fn telling<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let complains = |line: &&str| COMPLAINTS.iter().any(|words| line.contains(words));
    match lines.iter().position(complains) {
        Some(at) => {
            let from = at.saturating_sub(BEFORE_COMPLAINT);
            &lines[from..lines.len().min(from + COMPLAINT_LINES)]
        }
        None => &lines[lines.len().saturating_sub(CONSOLE_LINES)..],
    }
}

/// Keeps the console of a machine that failed where no later run writes: what happens
/// once in many runs is not to be lost. The last place is written again when all are taken.
fn keep(console: &Path) -> io::Result<PathBuf> {
    let place = |number: u32| console.with_extension(format!("failed-{number}.log"));
    let free = (1..KEPT).map(place).find(|place| !place.exists()).unwrap_or_else(|| place(KEPT));
    fs::copy(console, &free)?;
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_complains_is_shown_from_there_on() {
        let mut lines: Vec<String> = (0..500).map(|at| format!("line {at}")).collect();
        let shown = |lines: &[String]| {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let shown = telling(&lines);
            (shown.len(), shown[0].to_owned(), shown[shown.len() - 1].to_owned())
        };
        assert_eq!(shown(&lines), (CONSOLE_LINES, "line 440".to_owned(), "line 499".to_owned()));
        "[   12.3] BUG: unable to handle page fault for address: 0".clone_into(&mut lines[100]);
        "[   12.4] Kernel panic - not syncing: Fatal exception".clone_into(&mut lines[180]);
        assert_eq!(shown(&lines), (COMPLAINT_LINES, "line 95".to_owned(), "line 334".to_owned()));
        "[    0.1] Kernel panic - not syncing".clone_into(&mut lines[2]);
        assert_eq!(shown(&lines[..50]), (50, "line 0".to_owned(), "line 49".to_owned()));
    }

    #[test]
    fn consoles_of_failed_machines_are_not_written_over() {
        let folder = std::env::temp_dir().join(format!("nearside-vm-console-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let console = folder.join("console-noise-0.log");
        let mut kept = Vec::new();
        for number in 0..KEPT + 2 {
            fs::write(&console, number.to_string()).expect("a console");
            kept.push(keep(&console).expect("kept"));
        }
        assert_eq!(fs::read_to_string(&kept[0]).expect("the first"), "0");
        assert_eq!(fs::read_to_string(&kept[KEPT as usize]).expect("the last"), (KEPT + 1).to_string());
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), KEPT as usize + 1);
        fs::remove_dir_all(&folder).expect("what was made");
    }
}
