//! A plan, and its undoing, killed at each of the calls by which they touch
//! anything: strace(1) lets the n-th call of a kind be the process's last.

use super::{SUBJECTS, State, Subject, id, plan};
use crate::Failure;
use crate::guest::{Guest, nearside, output};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// What touches the machine, or the disk: settings of files and lines of the
/// journal, settings of drivers, and what makes a line last.
const CALLS: [&str; 5] = ["write", "sendto", "fsync", "openat", "unlink"];
const TRACE: &str = "/tmp/trace";
const JOURNALS: &str = "/var/lib/nearside-node";

/// One setting of each driver and kind of file.
fn wanted(subjects: &[&Subject]) -> Vec<&'static str> {
    let mut wanted = vec![
        "net.ipv4.tcp_slow_start_after_idle=0",
        "interrupt coalescing@port0=rx-usecs 20",
        "merging of received segments@port2=gro on",
        "channels@port4=combined 2",
    ];
    if subjects.len() == SUBJECTS.len() {
        wanted.push("interrupt coalescing@sim0=rx-usecs 30");
    }
    wanted
}

/// What shows them.
const SHOWN: [(&str, &str); 5] = [
    ("/proc/sys/net/ipv4/tcp_slow_start_after_idle", ""),
    ("port0", "-c"),
    ("port2", "-k"),
    ("port4", "-l"),
    ("sim0", "-c"),
];

/// What is so, of all that the plan touches.
fn glance(subjects: &[&Subject]) -> Result<State, Failure> {
    let there = |(name, _): &&(&str, &str)| name.starts_with('/') || subjects.iter().any(|one| one.interface == *name);
    let settings: Vec<(&str, &str)> = SHOWN.iter().filter(there).copied().collect();
    State::glance(subjects, &settings)
}

/// Applies, and undoes, again and again, each time ended one call later.
pub fn at_every_step(guest: &mut Guest, subjects: &[&Subject]) -> Result<(), Failure> {
    let only: Vec<String> = wanted(subjects).iter().flat_map(|one| ["--only".to_owned(), (*one).to_owned()]).collect();
    let words: Vec<&str> = only.iter().map(String::as_str).collect();
    let plan = plan(&words)?;
    let id = id(&plan)?;
    let (everything, before) = (State::take(subjects)?, glance(subjects)?);
    let apply = || {
        let mut command = vec!["node", "apply", id, "--no-try"];
        command.extend(&words);
        command
    };
    let undo = || vec!["node", "undo"];
    let mut ended = 0;
    for (call, numbers) in calls_of(&apply())? {
        for number in numbers {
            if !killed(&apply(), &call, number)? {
                return Err(format!("apply lived through its {call} {number}").into());
            }
            ended += 1;
            undone(subjects, &before).map_err(|why| format!("apply, killed at its {call} {number}: {why}"))?;
        }
    }
    guest.say(format!("apply killed at each of {ended} calls: undo brings back what ethtool and /proc/sys said"))?;
    output(nearside(["node", "apply", id, "--no-try"]).args(&words))?;
    let mut ended = 0;
    for (call, numbers) in calls_of(&undo())? {
        for number in numbers {
            output(nearside(["node", "apply", id, "--no-try"]).args(&words))?;
            if !killed(&undo(), &call, number)? {
                return Err(format!("undo lived through its {call} {number}").into());
            }
            ended += 1;
            undone(subjects, &before).map_err(|why| format!("undo, killed at its {call} {number}: {why}"))?;
        }
    }
    guest.say(format!("undo killed at each of {ended} calls: the next one finishes it"))?;
    let left = State::take(subjects)?.differences(&everything);
    match left.is_empty() {
        true => guest.say("after all of it ethtool, sysfs and /proc/sys are line by line as before"),
        false => Err(format!("left after all: {}", left.join("\n")).into()),
    }
}

/// Undoes what there may be; afterwards nothing is left, and all is as before.
fn undone(subjects: &[&Subject], before: &State) -> Result<(), Failure> {
    let journals = fs::read_dir(JOURNALS).map_or(0, |entries| {
        entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "journal")).count()
    });
    let told = nearside(["node", "undo"]).output()?;
    let said = format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    // Without a journal nothing was changed, and there is nothing to undo.
    let nothing = journals == 0 || said.contains("there is no plan to undo");
    if !told.status.success() && !nothing {
        return Err(format!("undo: {} {said}", told.status).into());
    }
    let left = glance(subjects)?.differences(before);
    if !left.is_empty() {
        return Err(format!("left: {}\n{said}", left.join("\n")).into());
    }
    Ok(())
}

/// Runs it whole, under strace: the numbers, of each kind, of its calls from
/// the first on that is about the journal. It is undone again.
fn calls_of(words: &[&str]) -> Result<BTreeMap<String, Vec<usize>>, Failure> {
    let mut command = Command::new("strace");
    command.args(["-qq", "-s", "256", "-o", TRACE, "-e", &format!("trace={}", CALLS.join(","))]);
    output(command.arg("/bin/nearside").args(words))?;
    // An undo has nothing left to undo.
    let _ = nearside(["node", "undo"]).output()?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut begun = false;
    for line in fs::read_to_string(TRACE)?.lines() {
        let Some(call) = line.split_once('(').map(|(call, _)| call).filter(|call| CALLS.contains(call)) else {
            continue;
        };
        begun |= line.contains(JOURNALS);
        let count = counts.entry(CALLS.iter().find(|known| **known == call).copied().unwrap_or_default()).or_default();
        *count += 1;
        // What is only looked at need not be the end: it changes nothing.
        let looks = call == "openat" && line.contains("O_RDONLY");
        if begun && !looks {
            found.entry(call.to_owned()).or_default().push(*count);
        }
    }
    let all: usize = found.values().map(Vec::len).sum();
    if all < 10 {
        return Err(format!("{}: only {all} calls touch anything", words.join(" ")).into());
    }
    Ok(found)
}

/// Runs it until its so-manieth call of a kind. Whether that was its end.
fn killed(words: &[&str], call: &str, number: usize) -> Result<bool, Failure> {
    use std::os::unix::process::ExitStatusExt as _;
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-e", &format!("inject={call}:signal=SIGKILL:when={number}")]);
    let status = command.arg("/bin/nearside").args(words).output()?.status;
    // strace ends as its child did.
    Ok(status.signal() == Some(9) || status.code() == Some(137))
}
