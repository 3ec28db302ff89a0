//! `cargo xtask suite`: every test to its end, whatever fails before it, and
//! then what failed; once or many times, on a machine at rest, beside a
//! program that takes half of each core, or on one core.

mod again;
mod overdue;
mod programs;
mod stage;

use crate::busy::{self, Busy, now};
use overdue::Unended;
use programs::{Built, Program};
use stage::Stage;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is to be run, and how.
#[derive(PartialEq, Eq, Debug)]
pub struct Plan {
    rounds: u32,
    busy: bool,
    one_core: bool,
    /// So many tests that failed are run again, each alone; none of them where more failed.
    again: usize,
    /// How long one program may take.
    limit: Duration,
    /// For `cargo test`, and behind `--` for the programs.
    arguments: Vec<String>,
}

impl Plan {
    /// Reads the words of the command line.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let (limit, arguments) = (overdue::USUAL, Vec::new());
        let mut plan = Self { rounds: 1, busy: false, one_core: false, again: 0, limit, arguments };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--busy" => plan.busy = true,
                "--one-core" => plan.one_core = true,
                "--rounds" => {
                    let rounds = words.next().and_then(|word| word.parse().ok()).filter(|rounds| *rounds > 0);
                    plan.rounds = rounds.ok_or("--rounds takes a number of at least 1")?;
                }
                "--again" => {
                    let again = words.next().and_then(|word| word.parse().ok());
                    plan.again = again.ok_or("--again takes a number")?;
                }
                "--limit" => {
                    let minutes = words.next().and_then(|word| word.parse().ok()).filter(|minutes| *minutes > 0);
                    let minutes: u32 = minutes.ok_or("--limit takes minutes, at least 1")?;
                    plan.limit = Duration::from_secs(u64::from(minutes) * 60);
                }
                "--" => plan.arguments.extend(words.by_ref().map(|word| (*word).to_owned())),
                other => return Err(format!("suite: what is {other}? Arguments of cargo test come after --")),
            }
        }
        if plan.arguments.is_empty() {
            plan.arguments = usual();
        }
        Ok(plan)
    }
}

/// What `make test` gives cargo: all packages, with DPDK where it is installed. The
/// tests over DPDK fail for a program that was built without it.
fn usual() -> Vec<String> {
    let mut words = vec!["--workspace", "--locked"];
    let library = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    if library.is_ok_and(|status| status.success()) {
        words.extend(["--features", "cli/dpdk"]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// A test that failed, and the arguments of cargo that run its program alone.
type Failed = (String, String);

/// Builds the tests, runs them, and says what failed.
///
/// # Errors
/// If they cannot be run.
pub fn run(plan: &Plan) -> Result<ExitCode, String> {
    let wrong = |why: io::Error| format!("suite: {why}");
    // Neither busy nor on one core: what is built is no part of the proof.
    let Some(built) = programs::build(&plan.arguments).map_err(wrong)? else {
        return Ok(ExitCode::FAILURE);
    };
    if plan.one_core {
        let core = *busy::cores().map_err(wrong)?.first().ok_or("suite: no core to run on")?;
        busy::keep_on(core).map_err(wrong)?;
    }
    let _busy = if plan.busy { Some(Busy::start().map_err(wrong)?) } else { None };
    let mut failed: BTreeMap<Failed, u32> = BTreeMap::new();
    let mut rounds = Vec::new();
    for number in 1..=plan.rounds {
        if plan.rounds > 1 {
            println!("== round {number} of {}", plan.rounds);
        }
        let began = now();
        let mut round = round_of(plan, &built).map_err(wrong)?;
        let unstable = again::those_that_failed(plan.again, &mut round.failed, &built.programs, |program, name| {
            let words = ["--", "--exact", name].map(str::to_owned);
            let stage = Mutex::new(Stage::new(io::stdout()));
            run_one(program, built.command(program, &words, 1), plan.limit, &stage).map(|failed| failed.is_empty())
        });
        print!("{}", again::told(&unstable.map_err(wrong)?));
        rounds.push((began.elapsed(), round.failed.is_empty()));
        print!("{}", longest(&round.took));
        for failure in round.failed {
            *failed.entry(failure).or_default() += 1;
        }
    }
    print!("{}", summary(&rounds, &failed));
    let good = rounds.iter().all(|(_, good)| *good);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Most of what takes long waits: for timers, for peers, for processes.
const THREADS_PER_CORE: usize = 2;

/// How many programs run at once on so many cores, and how many tests of each. One whose last tests wait
/// leaves its core to others: so there are half as many programs again as cores, and fewer tests of
/// each, so that no more of them want a core at a time.
fn at_once(cores: usize) -> (usize, usize) {
    let programs = cores + cores / 2;
    (programs, (cores * THREADS_PER_CORE * cores).div_ceil(programs))
}

/// One run of all tests.
#[derive(Default)]
struct Round {
    failed: Vec<Failed>,
    /// How long each program took, by its target.
    took: Vec<(Duration, String)>,
}

/// Runs all programs once, some at a time.
fn round_of(plan: &Plan, built: &Built) -> io::Result<Round> {
    let (programs, tests) = at_once(std::thread::available_parallelism().map_or(1, core::num::NonZero::get));
    let queue = Mutex::new(built.programs.iter());
    let stage = Mutex::new(Stage::new(io::stdout()));
    let round = Mutex::new(Round::default());
    let lane = || -> io::Result<()> {
        loop {
            let Some(program) = lock(&queue).next() else { return Ok(()) };
            let command = built.command(program, &plan.arguments, tests);
            let began = now();
            let failed = run_one(program, command, plan.limit, &stage)?;
            let mut round = lock(&round);
            round.failed.extend(failed);
            round.took.push((began.elapsed(), program.target.clone()));
        }
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..programs).map(|_| scope.spawn(lane)).collect();
        let ended = lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
        ended.collect::<io::Result<()>>()
    })?;
    Ok(round.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one program to its end, or until `limit` is over, and says what of it failed.
fn run_one(
    program: &Program,
    mut command: Command,
    limit: Duration,
    stage: &Mutex<Stage<io::Stdout>>,
) -> io::Result<Vec<Failed>> {
    command.env(overdue::END, overdue::end_after(limit).to_string());
    let number = lock(stage).begin();
    let say = |line: &[u8]| lock(stage).say(number, line);
    say(format!("     Running {}", program.title).as_bytes())?;
    let (reads, writes) = io::pipe()?;
    // Both in one pipe, so that they stay in order.
    let mut child = command.stdin(Stdio::null()).stdout(writes.try_clone()?).stderr(writes).spawn()?;
    // It holds the pipe's other end, too.
    drop(command);
    let mut reader = Reader::default();
    let (read, killed) = overdue::within(child.id(), limit, || -> io::Result<()> {
        for line in BufReader::new(reads).split(b'\n') {
            let line = line?;
            reader.read(&String::from_utf8_lossy(&line));
            say(&line)?;
        }
        Ok(())
    });
    read?;
    let status = child.wait()?;
    if killed {
        let minutes = limit.as_secs() / 60;
        say(format!("error: killed after {minutes} min: what it waited for did not come").as_bytes())?;
        reader.names.extend(core::mem::take(&mut reader.unended).names());
    }
    // Where several libraries' examples are one program, cargo has said which failed.
    if !status.success() && reader.failed.is_empty() {
        let told = format!("error: test failed ({status}), to rerun pass `{}`", program.target);
        reader.read(&told);
        say(told.as_bytes())?;
    }
    lock(stage).end(number)?;
    Ok(reader.failed)
}

/// Finds in the output what failed: a test program lists the names of its
/// tests that failed in the end, and then cargo says how it is run again.
#[derive(Default)]
struct Reader {
    unended: Unended,
    listing: bool,
    names: Vec<String>,
    failed: Vec<Failed>,
}

impl Reader {
    fn read(&mut self, line: &str) {
        self.unended.read(line);
        if let Some((_, rest)) = line.split_once("to rerun pass `") {
            let target = rest.trim_end_matches('`').to_owned();
            if self.names.is_empty() {
                self.names.push(again::THE_PROGRAM.to_owned());
            }
            self.failed.extend(self.names.drain(..).map(|name| (target.clone(), name)));
            self.listing = false;
        } else if line == "failures:" {
            // The first of the two comes before what the tests said.
            (self.listing, self.names) = (true, Vec::new());
        } else if let (true, Some(name)) = (self.listing, line.strip_prefix("    ")) {
            self.names.push(name.to_owned());
        } else {
            self.listing = false;
        }
    }
}

/// How many of the programs that took longest are told.
const TOLD: usize = 8;

/// What is to be made shorter first where the suite takes too long.
fn longest(took: &[(Duration, String)]) -> String {
    let mut took: Vec<_> = took.iter().collect();
    took.sort_by_key(|(time, _)| core::cmp::Reverse(*time));
    let mut text = String::from("== what took longest\n");
    for (time, target) in took.into_iter().take(TOLD) {
        text += &format!("{:6.1} s  cargo test {target}\n", time.as_secs_f64());
    }
    text
}

fn summary(rounds: &[(Duration, bool)], failed: &BTreeMap<Failed, u32>) -> String {
    let bad = rounds.iter().filter(|(_, good)| !good).count();
    let mut text = String::from("== tests that failed\n");
    for ((target, name), times) in failed {
        let often = if rounds.len() > 1 { format!("  {times} of {} times", rounds.len()) } else { String::new() };
        text += &format!("cargo test {target}: {name}{often}\n");
    }
    if failed.is_empty() {
        text += if bad == 0 { "none\n" } else { "see above: they were not all run\n" };
    }
    let seconds: Vec<String> = rounds.iter().map(|(took, _)| format!("{:.0}", took.as_secs_f64())).collect();
    text += &format!("{} of {} rounds were good; seconds: {}\n", rounds.len() - bad, rounds.len(), seconds.join(" "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let plan =
            Plan::parse(&["--rounds", "3", "--busy", "--limit", "2", "--", "-p", "nearside-wire", "--busy"]).unwrap();
        let arguments = ["-p", "nearside-wire", "--busy"].map(str::to_owned).into();
        let limit = Duration::from_secs(120);
        assert_eq!(plan, Plan { rounds: 3, busy: true, one_core: false, again: 0, limit, arguments });
        for wrong in
            [&["--rounds"][..], &["--rounds", "0"], &["--again"], &["--again", "-1"], &["--limit", "0"], &["-p"]]
        {
            assert!(Plan::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    /// What cargo and its test programs print, cut to what matters.
    const SAID: &str = "
     Running unittests src/lib.rs (target/debug/deps/sockets-1)
test steer::tests::a ... ok
test result: ok. 1 passed
     Running tests/all/main.rs (target/debug/deps/all-2)
test files::a ... FAILED
test files::b ... FAILED

failures:

---- files::a stdout ----
    indented
failures: none of this

failures:
    files::a
    files::b

test result: FAILED. 0 passed; 2 failed
error: test failed, to rerun pass `-p nearside-sockets --test all`
     Running tests/ring/main.rs (target/debug/deps/ring-3)
error: test failed, to rerun pass `-p nearside-sockets --test ring`

Caused by:
  process didn't exit successfully: `ring-3` (signal: 11, SIGSEGV: invalid memory reference)
error: 2 targets failed:
    `-p nearside-sockets --test all`
    `-p nearside-sockets --test ring`";

    #[test]
    fn what_failed_is_found() {
        let mut reader = Reader::default();
        SAID.lines().for_each(|line| reader.read(line));
        let failed = |target: &str, name: &str| (format!("-p nearside-sockets --test {target}"), name.to_owned());
        let wanted = [failed("all", "files::a"), failed("all", "files::b"), failed("ring", "(the program itself)")];
        assert_eq!(reader.failed, wanted);
    }

    #[test]
    fn more_programs_run_than_there_are_cores_and_about_as_many_tests() {
        assert_eq!([1, 2, 4, 16].map(at_once), [(1, 2), (3, 3), (6, 6), (24, 22)]);
    }

    #[test]
    fn what_takes_longest_is_told_first() {
        let took: Vec<_> = (1..=9).map(|n| (Duration::from_millis(n * 100), format!("-p p{n} --lib"))).collect();
        let text = longest(&took);
        assert!(text.starts_with("== what took longest\n   0.9 s  cargo test -p p9 --lib\n"), "{text}");
        assert!(text.lines().count() == TOLD + 1 && !text.contains("p1 "), "{text}");
    }

    #[test]
    fn the_summary_says_how_often() {
        let rounds = [(Duration::from_secs(61), false), (Duration::from_secs(60), true)];
        let failed = BTreeMap::from([(("-p nearside-sockets --lib".to_owned(), "a::b".to_owned()), 1)]);
        let text = summary(&rounds, &failed);
        assert!(text.contains("cargo test -p nearside-sockets --lib: a::b  1 of 2 times\n"), "{text}");
        assert!(text.ends_with("1 of 2 rounds were good; seconds: 61 60\n"), "{text}");
        assert!(summary(&rounds[1..], &BTreeMap::new()).contains("\nnone\n"));
    }
}
