//! Runs fuzz targets for as long as it is told to.

use clap::Parser;
use fuzz::hunt::{Hunt, breaks};
use fuzz::{TARGETS, Target, corpus};
use rustix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Looks for inputs that break what the stack and the servers promise.
///
/// The exit status is 1 if one was found; it was written to a file, and the
/// command that replays it printed.
#[derive(Parser)]
struct Arguments {
    /// The target, or "all": as many at a time as there are cores, each in a process of its own, for
    /// what an input reaches is counted by process; without one, they are listed.
    target: Option<String>,
    /// How long to look, in seconds, for each target.
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// The same seed takes the same course through the same inputs.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Run this input only.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Write inputs that reach new code here. Begins with those already there.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Add to the committed inputs those below this folder, which --keep
    /// wrote, that reach new code, and end. Needs instrumentation.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["keep", "replay"])]
    merge: Option<PathBuf>,
    /// Write inputs that break a target here.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    artifacts: PathBuf,
    /// Write the seeds into the committed inputs.
    #[arg(long)]
    write_corpus: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.write_corpus {
        return report(write_corpus());
    }
    let Some(name) = &arguments.target else {
        for target in TARGETS {
            println!("{:12} {}", target.name, target.about);
        }
        return ExitCode::SUCCESS;
    };
    let chosen: Vec<_> = TARGETS.iter().filter(|target| name == "all" || target.name == name).collect();
    if chosen.is_empty() {
        eprintln!("there is no target {name}; without a name, they are listed");
        return ExitCode::from(2);
    }
    if name == "all" && arguments.replay.is_none() && arguments.merge.is_none() {
        return hunt_all();
    }
    for target in chosen {
        let result = match (&arguments.replay, &arguments.merge) {
            (Some(path), _) => replay(target, path),
            (None, Some(folder)) => merge(target, &folder.join(target.name)),
            (None, None) => hunt(target, &arguments),
        };
        match result {
            Ok(false) => {}
            Ok(true) => return ExitCode::FAILURE,
            Err(error) => return report(Err(error)),
        }
    }
    ExitCode::SUCCESS
}

/// Every target by this program, each with the arguments that are given here. The worst of what they
/// end with: after one that was broken, no further one begins.
fn hunt_all() -> ExitCode {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).min(TARGETS.len());
    let (next, worst) = (AtomicUsize::new(0), AtomicU8::new(0));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while worst.load(Ordering::Relaxed) == 0
                    && let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let code = hunt_apart(target).unwrap_or_else(|error| {
                        eprintln!("{}: {error}", target.name);
                        2
                    });
                    worst.fetch_max(code, Ordering::Relaxed);
                }
            });
        }
    });
    ExitCode::from(worst.into_inner())
}

/// What the process of one target ended with.
fn hunt_apart(target: &Target) -> std::io::Result<u8> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    for argument in std::env::args_os().skip(1) {
        command.arg(if argument == "all" { target.name.into() } else { argument });
    }
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}

fn report(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn write_corpus() -> Result<(), String> {
    for target in TARGETS {
        for seed in (target.seeds)() {
            let folder = corpus::folder(target);
            corpus::write(&folder, "", &seed).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
    }
    Ok(())
}

fn merge(target: &Target, from: &Path) -> Result<bool, String> {
    let fail = |error| format!("{}: {error}", from.display());
    let inputs = corpus::read(from).map_err(fail)?;
    let chosen = fuzz::hunt::new_edges(target, inputs).map_err(fail)?;
    for input in &chosen {
        corpus::write(&corpus::folder(target), "", input).map_err(fail)?;
    }
    println!("{:12} {} inputs added", target.name, chosen.len());
    Ok(false)
}

/// Whether the input breaks the target; it says how itself.
fn replay(target: &Target, path: &Path) -> Result<bool, String> {
    let input = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let broken = breaks(target, &input);
    println!("{}: {} {}", target.name, path.display(), if broken { "breaks it" } else { "is harmless" });
    Ok(broken)
}

/// Whether an input broke the target.
#[expect(clippy::disallowed_methods, reason = "how long to look is wall-clock time; no target sees it")]
fn hunt(target: &Target, arguments: &Arguments) -> Result<bool, String> {
    let mut inputs = corpus::committed(target).map_err(|error| format!("{}: {error}", target.name))?;
    if let Some(folder) = arguments.keep.as_ref().map(|folder| folder.join(target.name))
        && folder.is_dir()
    {
        inputs.extend(corpus::read(&folder).map_err(|error| format!("{}: {error}", folder.display()))?);
    }
    let watch = Watch::new(target, arguments.artifacts.clone());
    // An input is tried many times while it is made shorter: it is told once,
    // at the end, how it breaks the target.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let limit = Duration::from_secs(arguments.seconds);
    let outcome = Hunt::new(inputs, arguments.seed).run(
        target,
        |runs, input| {
            watch.look_at(input);
            // The clock is read now and then only.
            runs % 64 != 0 || start.elapsed() < limit
        },
        |input| {
            if let Some(folder) = &arguments.keep
                && let Err(error) = corpus::write(&folder.join(target.name), "", input)
            {
                eprintln!("{}: {error}", folder.display());
            }
        },
    );
    watch.rest();
    std::panic::set_hook(hook);
    let (taken, edges) = outcome.coverage;
    let coverage = if edges == 0 { "not instrumented".to_owned() } else { format!("{taken} of {edges} edges") };
    let seconds = start.elapsed().as_secs_f64();
    println!("{:12} {} inputs in {seconds:.1} s, {coverage}, seed {}", target.name, outcome.runs, arguments.seed);
    match outcome.broken_by {
        None => Ok(false),
        Some(input) => {
            keep_artifact(target, &arguments.artifacts, &input)?;
            Ok(breaks(target, &input))
        }
    }
}

fn keep_artifact(target: &Target, folder: &Path, input: &[u8]) -> Result<(), String> {
    let prefix = format!("fuzz-{}-", target.name);
    let path = corpus::write(folder, &prefix, input).map_err(|error| format!("{}: {error}", folder.display()))?;
    println!("broken by {} bytes: cargo run -p fuzz -- {} --replay {}", input.len(), target.name, path.display());
    Ok(())
}

/// Processor time that no input takes nearly; one that does hangs. On a machine
/// that others keep busy any input can take long by the clock on the wall.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is left to an input that takes no processor time, for it waits.
const PATIENCE_ON_THE_WALL: Duration = Duration::from_mins(10);

/// The input that runs, since when, and what the process had used up by then.
type Running = Mutex<Option<(Instant, Duration, Vec<u8>)>>;

/// Notices an input that does not come to an end: writes it, and ends the
/// process.
struct Watch {
    current: Arc<Running>,
}

impl Watch {
    fn new(target: &Target, folder: PathBuf) -> Self {
        let current = Arc::new(Mutex::new(None));
        let (watched, target) = (Arc::downgrade(&current), *target);
        std::thread::spawn(move || {
            while let Some(current) = watched.upgrade() {
                let hanging = hangs(&current);
                drop(current);
                if let Some((how, input)) = hanging {
                    println!("{}: no end after {how}", target.name);
                    let written = keep_artifact(&target, &folder, &input);
                    std::process::exit(if written.is_ok() { 1 } else { 2 });
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Self { current }
    }

    #[expect(clippy::disallowed_methods, reason = "a hang is a matter of wall-clock time")]
    fn look_at(&self, input: &[u8]) {
        if let Ok(mut current) = self.current.lock() {
            let (at, used, bytes) = current.get_or_insert_with(|| (Instant::now(), Duration::ZERO, Vec::new()));
            *at = Instant::now();
            *used = processor_time();
            bytes.clear();
            bytes.extend_from_slice(input);
        }
    }

    fn rest(&self) {
        if let Ok(mut current) = self.current.lock() {
            *current = None;
        }
    }
}

/// How long an input ran, and which, if it hangs.
fn hangs(current: &Running) -> Option<(String, Vec<u8>)> {
    let current = current.lock().ok()?;
    let (since, used, input) = current.as_ref()?;
    let how = if processor_time().saturating_sub(*used) > PATIENCE {
        format!("{} s of processor time", PATIENCE.as_secs())
    } else if since.elapsed() > PATIENCE_ON_THE_WALL {
        format!("{} s", PATIENCE_ON_THE_WALL.as_secs())
    } else {
        return None;
    };
    Some((how, input.clone()))
}

/// What the process has used up, in all its threads: the watch itself takes next to nothing.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or_default())
}
