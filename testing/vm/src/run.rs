//! Boots a machine, hears what it says, and ends it in time.

use crate::image::Image;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::scenarios::{self, Scenario};
use crate::{Failure, now};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
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
        "console=ttyS0 panic=-1 oops=panic quiet mitigations=off no_timer_check vm.scenario={} vm.machine={index}{shell}{}",
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
        show_end_of("what qemu says", &complaints);
        show_end_of("the end of its console", &console);
    }
    Ok(passed)
}

/// qemu with this hardware, on its cables.
fn qemu(machine: &Machine) -> Result<Command, Failure> {
    const QEMU: &str = "qemu-system-x86_64";
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

fn show_end_of(what: &str, file: &Path) {
    let bytes = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    println!("--- {what}, {}:", file.display());
    for line in &lines[lines.len().saturating_sub(CONSOLE_LINES)..] {
        println!("{}", line.trim_end());
    }
    println!("---");
}
