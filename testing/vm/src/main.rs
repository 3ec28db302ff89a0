//! `make test-vm`: what the kernel that runs here cannot show is shown in a
//! machine that is booted for it: NUMA domains, ports of several queues that
//! belong to them, lossy links, aggregation with the kernel as partner.
//!
//! The machine is made from Debian's packages: a kernel, unpacked and never
//! installed, qemu without KVM, and an initial RAM disk with `nearside` and
//! this very program, which runs in it as the first process.
//!
//! | module | for |
//! | --- | --- |
//! | [`scenarios`] | what is shown; each of them both machine and proof |
//! | [`machine`] | domains, ports and cables, and qemu's words for them |
//! | [`kernel`] | Debian's kernel and its modules |
//! | [`built`] | modules that Debian has as source only |
//! | [`dpdk`] | drivers of DPDK, and one that Debian builds otherwise |
//! | [`image`] | what the machine finds in its memory |
//! | [`run`] | boots a machine and hears what it says |
//! | [`guest`] | the other end: the first process in the machine |
#![forbid(unsafe_code)]

mod built;
mod dpdk;
mod guest;
mod image;
mod kernel;
mod machine;
mod run;
mod scenarios;

use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// What ends a run: a sentence for the user.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Boots machines with several NUMA domains, and proves in them what this
/// machine cannot show.
#[derive(Parser)]
struct Arguments {
    /// Which scenarios [default: all that need no host at rest]
    scenario: Vec<String>,
    /// The program under test [default: nearside beside this program]
    #[arg(long, value_name = "PROGRAM")]
    nearside: Option<PathBuf>,
    /// Say what scenarios there are, and end
    #[arg(long)]
    list: bool,
    /// A shell in the scenario's machine, in place of the scenario
    #[arg(long)]
    shell: bool,
    /// Disturb a core so many times: in the machine
    #[arg(long, hide = true, num_args = 2)]
    inject: Vec<u64>,
    /// A shell in the machine when the scenario has run
    #[arg(long, conflicts_with = "shell")]
    keep: bool,
}

fn main() -> ExitCode {
    if std::process::id() == 1 {
        return guest::main();
    }
    let arguments = Arguments::parse();
    if let [core, times] = arguments.inject[..] {
        return scenarios::inject(usize::try_from(core).unwrap_or(usize::MAX), times);
    }
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(why) => {
            eprintln!("vm: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every scenario passed.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    if arguments.list {
        for scenario in scenarios::every() {
            println!("{:14} {}", scenario.name, scenario.about);
        }
        return Ok(true);
    }
    let chosen = scenarios::choose(&arguments.scenario)?;
    let program = std::env::current_exe()?;
    let nearside = arguments.nearside.clone().unwrap_or_else(|| program.with_file_name("nearside"));
    // Beside the folder of the profile, so that all profiles share a kernel.
    let folder = program.parent().and_then(|profile| profile.parent()).ok_or("this program lies in no folder")?;
    let folder = folder.join("vm");
    let after = match (arguments.shell, arguments.keep) {
        (true, _) => run::After::Shell,
        (_, true) => run::After::Keep,
        _ => run::After::Off,
    };
    let mut good = true;
    for real_time in [false, true] {
        let chosen: Vec<_> = chosen.iter().filter(|one| scenarios::is_real_time(one) == real_time).collect();
        if chosen.is_empty() {
            continue;
        }
        let mut kernel = kernel::Kernel::get(&folder, real_time)?;
        println!("{}, in qemu without KVM", kernel.release);
        if chosen.iter().any(|scenario| built::WANTED_BY.contains(&scenario.name)) {
            match built::get(&folder, &kernel.release) {
                Ok(modules) => kernel.add(modules),
                Err(why) => println!("left out: netdevsim cannot be built: {why}"),
            }
        }
        let wanted = chosen.iter().any(|scenario| scenario.name == dpdk::WANTED_BY);
        let stamping = wanted.then(|| dpdk::stamping(&folder)).transpose().unwrap_or_else(|why| {
            println!("left out: DPDK's driver that stamps what leaves cannot be built: {why}");
            None
        });
        let image = image::Image::build(&folder, &kernel, real_time, &program, (&nearside, stamping.as_deref()))?;
        good &= run_all(&folder, &kernel, &image, &chosen, after)?;
    }
    Ok(good)
}

/// Runs these in their machines. Whether every one passed.
fn run_all(
    folder: &Path,
    kernel: &kernel::Kernel,
    image: &image::Image,
    chosen: &[&&'static scenarios::Scenario],
    after: run::After,
) -> Result<bool, Failure> {
    let mut good = true;
    for scenario in chosen {
        for (index, machine) in scenario.machines.iter().enumerate() {
            println!("== {}: {}", scenario.name, machine.name);
            if let Some(device) = run::unknown_device(machine) {
                println!("left out: this qemu has no device {device} (igb is in 8.0 and later)");
                continue;
            }
            let began = now();
            let passed = run::run(folder, kernel, image, scenario, index, after)?;
            println!("{} in {:.0} s", if passed { "passed" } else { "FAILED" }, began.elapsed().as_secs_f64());
            good &= passed;
        }
    }
    Ok(good)
}

/// The clock of everything here that takes time.
#[expect(clippy::disallowed_methods, reason = "a machine boots in its own time")]
pub fn now() -> Instant {
    Instant::now()
}
