//! Tools that look at a core's noise, what each is started with, and what it
//! says.

use super::inject::{Made, NAME};
use super::{CORE, aside};
use crate::Failure;
use crate::guest::{output, wait_for};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Disturbances in a run: three seconds.
const TIMES: u64 = 300;
/// A tool looks from before the first to after the last.
const SECONDS: u64 = 11;
/// On a machine that does other things too, a tool may be over before the
/// disturbances are.
const TRIES: usize = 4;
/// Time for a loop to begin.
const PATIENCE: Duration = Duration::from_secs(90);
/// Where the kernel tells of the threads that its tracer of noise saw.
const INSTANCE: &str = "/sys/kernel/tracing/instances/told";

/// Where `node noise` writes every gap.
pub const GAPS: &str = "/tmp/gaps";

/// A tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tool {
    /// `nearside node noise`.
    Noise,
    /// The kernel's tracer, run by rtla.
    Osnoise,
    /// A busy loop of rt-tests.
    Oslat,
    /// Timed sleeps of rt-tests.
    Cyclictest,
}

/// What it found, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Of the thread that disturbs, with what interrupted it: the kernel's account
    /// has both.
    pub thread: u64,
    /// What interrupted it.
    pub within: u64,
    /// How often it found that thread.
    pub times: u64,
    /// The longest.
    pub longest: u64,
    /// All that it calls noise.
    pub all: u64,
    /// Events that it could not hear of.
    pub lost: u64,
}

impl Tool {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noise => "node noise",
            Self::Osnoise => "rtla osnoise",
            Self::Oslat => "oslat",
            Self::Cyclictest => "cyclictest",
        }
    }

    fn words(self) -> Vec<String> {
        let core = CORE;
        let text = match self {
            Self::Noise => format!("nearside node noise --cores {core} --for {SECONDS}s --threshold 2us --json"),
            Self::Osnoise => format!("rtla osnoise top --quiet --cpus {core} --threshold 2 --duration {SECONDS}s"),
            Self::Oslat => format!("oslat --cpu-list {core} --duration {SECONDS}s --cpu-main-thread 0"),
            Self::Cyclictest => {
                format!(
                    "cyclictest --quiet --threads=1 --affinity={core} --priority=40 --interval=1000 --duration={SECONDS}"
                )
            }
        };
        text.split(' ').map(str::to_owned).collect()
    }

    /// The thread of it that looks at the core, by its name.
    fn looker(self) -> String {
        match self {
            Self::Noise => format!("noise {CORE}"),
            Self::Osnoise => format!("osnoise/{CORE}"),
            Self::Oslat => "oslat".to_owned(),
            Self::Cyclictest => "cyclictest".to_owned(),
        }
    }

    fn account(self, said: &str) -> Result<Account, Failure> {
        match self {
            Self::Noise => of_noise(&serde_json::from_str(said)?),
            Self::Osnoise => {
                let mut account = of_osnoise(said)?;
                let trace = fs::read_to_string(format!("{INSTANCE}/trace"))?;
                (account.thread, account.within, account.times) = of_trace(&trace)?;
                Ok(account)
            }
            Self::Oslat => longest(said, "Maximum:"),
            Self::Cyclictest => longest(said, "Max:"),
        }
    }
}

/// Runs a tool, and disturbs while it looks: what was made, and what it found.
///
/// # Errors
/// If one of them fails.
pub fn beside(tool: Tool) -> Result<(Made, Account), Failure> {
    if tool == Tool::Osnoise {
        tell_of_threads()?;
    }
    let more: &[&str] = if tool == Tool::Noise { &["--gaps", GAPS] } else { &[] };
    let (made, said) = looking(tool, more, disturb)?;
    let mut account = tool.account(&said).map_err(|why| format!("{}: {why}\n{said}", tool.name()))?;
    if tool == Tool::Noise {
        // Several may be in one gap.
        let (from, until) = span(&fs::read_to_string(GAPS)?)?;
        account.times = if from <= made.from && made.until <= until { made.times } else { 0 };
    }
    Ok((made, account))
}

/// The same, again until the tool has looked at all that was made.
///
/// # Errors
/// If one of them fails, or looks too short whenever it is tried.
pub fn beside_all(tool: Tool) -> Result<(Made, Account), Failure> {
    let mut last = Err("it was never tried".into());
    for _ in 0..TRIES {
        last = beside(tool).and_then(|(made, account)| match account.times {
            times if times >= made.times => Ok((made, account)),
            times => Err(format!("{}: it looked at {times} of {} disturbances", tool.name(), made.times).into()),
        });
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Disturbs the core; what was made.
fn disturb() -> Result<Made, Failure> {
    let [core, times] = [u64::from(CORE), TIMES].map(|number| number.to_string());
    Made::parse(&output(Command::new("/bin/inject").args(["--inject", &core, &times]))?)
}

/// `node noise` that has the kernel's tracer tell what it finds, too, beside the
/// same disturbances; its report.
///
/// # Errors
/// If one of them fails.
pub fn with_witness() -> Result<(Made, Value), Failure> {
    let (made, said) = looking(Tool::Noise, &["--osnoise"], disturb)?;
    Ok((made, serde_json::from_str(&said)?))
}

/// `node noise` with this beside it; its report, and each gap in a file.
///
/// # Errors
/// If one of them fails.
pub fn noise_while(work: impl FnOnce() -> Result<(), Failure>) -> Result<Value, Failure> {
    let ((), said) = looking(Tool::Noise, &["--gaps", GAPS], work)?;
    Ok(serde_json::from_str(&said)?)
}

/// What a tool says of a time in which this is done.
fn looking<T>(tool: Tool, more: &[&str], work: impl FnOnce() -> Result<T, Failure>) -> Result<(T, String), Failure> {
    let words = tool.words();
    let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let mut started = aside(&words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let done = wait_until_busy(&mut started, &tool.looker()).and_then(|()| {
        let done = work()?;
        match started.try_wait()? {
            None => Ok(done),
            Some(_) => Err("it was over before the disturbances were: this machine is too busy for it".into()),
        }
    });
    if done.is_err() {
        // It may have ended.
        let _ = started.kill();
    }
    let ended = started.wait_with_output()?;
    let (said, complaints) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let done = done.map_err(|why| format!("{}: {why}\n{said}\n{complaints}", tool.name()))?;
    if !ended.status.success() {
        return Err(format!("{}: {}\n{said}\n{complaints}", tool.name(), ended.status).into());
    }
    Ok((done, said.into_owned()))
}

/// Waits until a thread of this name has looked for a while.
fn wait_until_busy(started: &mut Child, name: &str) -> Result<(), Failure> {
    // Ticks of processor time, of which there are a hundred in a second.
    const BUSY: u64 = 30;
    wait_for(&format!("the thread {name}"), PATIENCE, || {
        if let Some(status) = started.try_wait()? {
            return Err(format!("it has ended, {status}").into());
        }
        let mut stats = fs::read_dir("/proc")?.flatten().flat_map(|process| {
            let tasks = fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
            // It may end meanwhile.
            tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok())
        });
        // One that sleeps between its looks is there as soon as it is there.
        let least = if name == Tool::Cyclictest.looker() { 0 } else { BUSY };
        Ok(stats.any(|stat| spent(&stat, name).is_some_and(|ticks| ticks >= least)).then_some(()))
    })
}

/// Ticks of processor time of a thread of this name: proc_pid_stat(5).
fn spent(stat: &str, name: &str) -> Option<u64> {
    let (from, until) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<&str> = stat.get(until + 1..)?.split_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
    (stat.get(from + 1..until)? == name).then_some(field(11)? + field(12)?)
}

/// Has the kernel tell what its tracer of noise saw of the thread that disturbs.
fn tell_of_threads() -> Result<(), Failure> {
    fs::create_dir_all(INSTANCE)?;
    fs::write(format!("{INSTANCE}/trace"), "")?;
    fs::write(format!("{INSTANCE}/events/osnoise/thread_noise/filter"), format!("comm == \"{NAME}\""))?;
    for event in ["thread_noise", "irq_noise", "softirq_noise"] {
        fs::write(format!("{INSTANCE}/events/osnoise/{event}/enable"), "1")?;
    }
    Ok(())
}

fn of_noise(report: &Value) -> Result<Account, Failure> {
    let core = &report["cores"][0];
    let causes = core["causes"].as_array().ok_or("a report without causes")?;
    let own = causes
        .iter()
        .filter(|one| one["cause"].as_str().is_some_and(|cause| cause.starts_with(&format!("thread {NAME} ("))));
    let figure = |key: &str| core[key].as_u64().ok_or_else(|| format!("a report without {key}"));
    let sum = |key: &str| own.clone().filter_map(|one| one[key].as_u64()).sum::<u64>();
    Ok(Account {
        thread: sum("nanos") + sum("interrupted_nanos"),
        within: sum("interrupted_nanos"),
        times: sum("parts"),
        longest: figure("longest_nanos")?,
        all: figure("gap_nanos")?,
        lost: core["lost_events"].as_u64().unwrap_or(0),
    })
}

/// The row of the core: period, runtime, noise, share, longest in a period,
/// longest at once; microseconds.
fn of_osnoise(said: &str) -> Result<Account, Failure> {
    let core = CORE.to_string();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (first, rest) = words.split_first()?;
        // The number of periods has a sign before it, and may stand apart from it.
        let rest: Vec<f64> =
            rest.iter().filter(|word| !word.starts_with('#')).filter_map(|word| word.parse().ok()).collect();
        (*first == core && rest.len() >= 5).then(|| [rest[1], rest[4]])
    };
    let [noise, single] = said.lines().find_map(row).ok_or("no row of the core")?;
    Ok(Account { longest: (single * 1e3) as u64, all: (noise * 1e3) as u64, ..Account::default() })
}

/// What its tracer found of the thread and of what came while that had the core,
/// of the latter alone, and how often it found the thread. A line is as in
/// `[001] 12.3: thread_noise: inject:77 start 12.345678901 duration 201234 ns`; it
/// comes when what it tells of is over.
fn of_trace(text: &str) -> Result<(u64, u64, u64), Failure> {
    let (mut thread, mut within, mut times) = (0, 0, 0);
    // Since the last event that was no part of a thread's time, interrupts'.
    let mut interrupts: Vec<(f64, u64)> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let mut after = |word: &str| {
            words.find(|found| *found == word)?;
            words.next()
        };
        let (Some(start), Some(nanos)) = (after("start"), after("duration")) else { continue };
        let (start, nanos): (f64, u64) = (start.parse()?, nanos.parse()?);
        if line.contains("thread_noise:") {
            thread += nanos;
            within += interrupts.iter().filter(|(at, _)| *at >= start).map(|(_, nanos)| nanos).sum::<u64>();
            times += 1;
            interrupts.clear();
        } else {
            interrupts.push((start, nanos));
        }
    }
    if times == 0 { Err("its tracer told of no such thread".into()) } else { Ok((thread + within, within, times)) }
}

/// Microseconds after a word.
fn longest(said: &str, word: &str) -> Result<Account, Failure> {
    let after = |line: &str| line.split_once(word)?.1.split_whitespace().next()?.parse::<u64>().ok();
    let longest = said.lines().filter_map(after).max().ok_or_else(|| format!("it says no {word}"))?;
    Ok(Account { longest: longest * 1_000, ..Account::default() })
}

/// The interface with this hardware address.
///
/// # Errors
/// If there is none in time.
pub fn interface(mac: &str) -> Result<String, Failure> {
    wait_for(mac, PATIENCE, || {
        let mut all = fs::read_dir("/sys/class/net")?.flatten();
        let found = all.find(|entry| fs::read_to_string(entry.path().join("address")).is_ok_and(|it| it.trim() == mac));
        Ok(found.map(|entry| entry.file_name().to_string_lossy().into_owned()))
    })
}

/// Lets the interrupts whose names begin so arrive at a core.
///
/// # Errors
/// If there are none, or the kernel refuses.
pub fn steer(name: &str, core: u32) -> Result<(), Failure> {
    let table = fs::read_to_string("/proc/interrupts")?;
    let mut found = false;
    for line in table.lines() {
        let number = line.split_once(':').and_then(|(number, _)| number.trim().parse::<u32>().ok());
        let named = line.split_whitespace().next_back().is_some_and(|last| last.starts_with(name));
        if let Some(number) = number.filter(|_| named) {
            fs::write(format!("/proc/irq/{number}/smp_affinity_list"), core.to_string())?;
            found = true;
        }
    }
    if found { Ok(()) } else { Err(format!("no interrupts of {name}:\n{table}").into()) }
}

/// From the first gap to the last.
fn span(gaps: &str) -> Result<(u64, u64), Failure> {
    let gap = |line: Option<&str>| -> Result<[u64; 2], Failure> {
        let gap: Value = serde_json::from_str(line.ok_or("there is no gap")?)?;
        Ok([gap["raw_nanos"].as_u64().unwrap_or(0), gap["nanos"].as_u64().unwrap_or(0)])
    };
    let (first, last) = (gap(gaps.lines().next())?, gap(gaps.lines().next_back())?);
    Ok((first[0], last[0] + last[1]))
}

/// How many interrupts of this name the kernel counted on the core.
///
/// # Errors
/// If the report has no such counts.
pub fn counted(report: &Value, name: &str) -> Result<u64, Failure> {
    let counts = report["cores"][0]["counts"].as_array().ok_or("a report without counts")?;
    let own = counts.iter().filter(|row| row[0].as_str().is_some_and(|text| text.contains(name)));
    Ok(own.filter_map(|row| row[1].as_u64()).sum())
}

/// What was sent while the tool looked, and how much of it was followed, within a
/// period, by a gap with an interrupt of this name; gaps are a line each. A packet
/// may raise more than one, and those of one gap are one part of it.
///
/// # Errors
/// If a line is no gap.
pub fn named(gaps: &str, name: &str, sent: &[u64], period: Duration) -> Result<(usize, usize), Failure> {
    let (from, until) = span(gaps)?;
    let period = u64::try_from(period.as_nanos())?;
    let mut called: Vec<(u64, u64)> = Vec::new();
    for line in gaps.lines() {
        let gap: Value = serde_json::from_str(line)?;
        let parts = gap["parts"].as_array().ok_or("a gap without parts")?;
        let has = |part: &Value| {
            part[0].as_str().is_some_and(|cause| cause.starts_with("interrupt ") && cause.contains(name))
        };
        if parts.iter().any(has) {
            let begun = gap["raw_nanos"].as_u64().ok_or("a gap without its time")?;
            called.push((begun, begun + gap["nanos"].as_u64().unwrap_or(0)));
        }
    }
    let looked: Vec<u64> = sent.iter().copied().filter(|at| *at >= from && at + period <= until).collect();
    let found = |at: &&u64| called.iter().any(|(begun, over)| *begun < **at + period && *over > **at);
    Ok((looked.len(), looked.iter().filter(found).count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_say_is_read() {
        let row = "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single\n                   \u{20}1 #12         12000000       205000    98.29       22000        5032            1\n";
        let account = of_osnoise(row).expect("a row");
        assert_eq!((account.all, account.longest), (205_000_000, 5_032_000));
        assert!(of_osnoise("  0 #12 1 2 3 4 5\n").is_err());
        let trace = "# tracer: nop\n\
                     x-9 [001] 11.9: irq_noise: local_timer:236 start 11.900000001 duration 70 ns\n\
                     inject-99 [001] 12.1: irq_noise: local_timer:236 start 12.000000101 duration 20 ns\n\
                     inject-99 [001] 12.2: thread_noise:   inject:99 start 12.000000001 duration 201 ns\n\
                     inject-99 [001] 12.3: thread_noise:   inject:99 start 12.100000001 duration 300 ns\n";
        assert_eq!(of_trace(trace).expect("two"), (521, 20, 2));
        assert!(of_trace("# tracer: nop\n").is_err());
        assert_eq!(longest("     Maximum:\t 5032 (us)\n", "Maximum:").expect("one").longest, 5_032_000);
        assert_eq!(spent("7 (noise 1) R 1 2 3 4 5 6 7 8 9 10 11 12 0", "noise 1"), Some(23));
        assert_eq!(spent("7 (noise 10) R 1 2 3 4 5 6 7 8 9 10 11 12 0", "noise 1"), None);
    }

    #[test]
    fn interrupts_are_counted_and_called() {
        let report = serde_json::json!({"cores": [{
            "counts": [["25 PCI-MSIX 1-edge far-rx-0", 600], ["26 far-tx-0", 3]],
            "causes": [
                {"kind": "thread", "cause": "thread injected (77)", "parts": 600, "nanos": 5, "interrupted_nanos": 2}
            ],
            "gap_nanos": 9, "longest_nanos": 4}]});
        assert_eq!(counted(&report, "far-rx").expect("counts"), 600);
        assert_eq!(
            of_noise(&report).expect("an account"),
            Account { thread: 7, within: 2, times: 600, longest: 4, all: 9, lost: 0 }
        );
        let gaps = "{\"raw_nanos\":10,\"nanos\":1,\"parts\":[[\"tick\",1]]}\n\
                    {\"raw_nanos\":100,\"nanos\":9,\"parts\":[[\"interrupt 25 (far-rx-0)\",9]]}\n\
                    {\"raw_nanos\":150,\"nanos\":9,\"parts\":[[\"thread irq/25-far-rx-0 (7)\",9]]}\n\
                    {\"raw_nanos\":190,\"nanos\":25,\"parts\":[[\"unknown\",24],[\"interrupt 25 (far-rx-0)\",1]]}\n\
                    {\"raw_nanos\":400,\"nanos\":1,\"parts\":[[\"tick\",1]]}\n";
        // One before it looked and one after; the third has a thread alone.
        let sent = [5, 90, 140, 200, 390];
        assert_eq!(named(gaps, "(far-rx", &sent, Duration::from_nanos(30)).expect("gaps"), (3, 2));
        let spanned = "{\"raw_nanos\":5,\"nanos\":2}\n{\"raw_nanos\":9,\"nanos\":3}\n";
        assert_eq!(span(spanned).expect("gaps"), (5, 12));
        assert!(span("").is_err());
        assert!(named("x\n", "(far-rx", &sent, Duration::from_millis(10)).is_err());
    }
}
