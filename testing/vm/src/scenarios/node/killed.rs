//! A plan, and its undoing, killed before each of the calls by which they touch
//! anything: strace(1) holds the n-th call of a kind until the process is
//! killed.
//!
//! Of strace's filter only those calls come to it, out of some ten thousand that
//! read: stopped at each, in an emulated machine, the process takes many times
//! as long. With the filter it cannot kill, so that it delays and we kill.

use super::{SUBJECTS, State, Subject, id, plan};
use crate::guest::{Guest, nearside, output};
use crate::{Failure, now};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// What touches the machine, or the disk: settings of files, lines of the
/// journal, and settings of drivers. What makes a line last changes nothing for
/// who is killed: the kernel has what was written. Nor is there an end before a
/// file is made: the one before its first line has an empty one.
const CALLS: [&str; 3] = ["write", "sendto", "unlink"];
/// What says that the journal has begun.
const OPENS: &str = "openat";
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
    let began = now();
    let found = calls_of(&apply())?;
    let all: usize = found.values().map(Vec::len).sum();
    guest.say(format!(
        "apply touches something in {all} calls; it and undo took {:.1} s",
        began.elapsed().as_secs_f64()
    ))?;
    let check = || undone(subjects, &before);
    end_each(guest, "apply", &apply(), found, &|| Ok(()), &check)?;
    guest.say("undo brings back what ethtool and /proc/sys said, each time")?;
    let prepare = || output(nearside(["node", "apply", id, "--no-try"]).args(&words)).map(|_| ());
    prepare()?;
    end_each(guest, "undo", &undo(), calls_of(&undo())?, &prepare, &check)?;
    guest.say("the next undo finishes it, each time")?;
    let left = State::take(subjects)?.differences(&everything);
    match left.is_empty() {
        true => guest.say("after all of it ethtool, sysfs and /proc/sys are line by line as before"),
        false => Err(format!("left after all: {}", left.join("\n")).into()),
    }
}

/// Runs the same again and again, each time killed one call later.
fn end_each(
    guest: &mut Guest,
    name: &str,
    words: &[&str],
    found: BTreeMap<String, Vec<usize>>,
    prepare: &dyn Fn() -> Result<(), Failure>,
    check: &dyn Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    for (call, numbers) in found {
        for number in &numbers {
            prepare()?;
            if !killed(words, &call, *number)? {
                return Err(format!("{name} lived through its {call} {number}").into());
            }
            check().map_err(|why| format!("{name}, killed before its {call} {number}: {why}"))?;
        }
        guest.say(format!("{name} killed before each of {} calls of {call}", numbers.len()))?;
    }
    Ok(())
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

/// Strace that sees these calls, and writes them down.
fn strace(calls: &str, more: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-qq", "-f", "--seccomp-bpf", "-s", "256", "-o", TRACE, "-e"]).arg(format!("trace={calls}"));
    command.args(more).arg("/bin/nearside");
    command
}

/// Runs it whole, under strace: the numbers, of each kind, of its calls from
/// the first on that is about the journal. It is undone again.
fn calls_of(words: &[&str]) -> Result<BTreeMap<String, Vec<usize>>, Failure> {
    output(strace(&format!("{OPENS},{}", CALLS.join(",")), &[]).args(words))?;
    // An undo has nothing left to undo.
    let _ = nearside(["node", "undo"]).output()?;
    let found = touching(&fs::read_to_string(TRACE)?);
    let all: usize = found.values().map(Vec::len).sum();
    if all < 10 {
        return Err(format!("{}: only {all} calls touch anything", words.join(" ")).into());
    }
    Ok(found)
}

/// The calls that touch anything, of the first thread, which makes them all.
fn touching(trace: &str) -> BTreeMap<String, Vec<usize>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut begun = false;
    for (call, line) in calls(trace) {
        begun |= line.contains(JOURNALS);
        *counts.entry(call).or_default() += 1;
        // What is only said need not be the end: it changes nothing.
        let says = line.starts_with("write(1,") || line.starts_with("write(2,");
        if begun && !says && call != OPENS {
            found.entry(call.to_owned()).or_default().push(counts[call]);
        }
    }
    found
}

/// Calls of the first thread of a trace, and their lines.
fn calls(trace: &str) -> impl Iterator<Item = (&'static str, &str)> {
    let first = trace.split(' ').next().unwrap_or_default();
    trace.lines().filter_map(move |line| {
        let line = line.strip_prefix(first)?.trim_start();
        let name = line.split_once('(')?.0;
        Some((CALLS.iter().copied().chain([OPENS]).find(|known| *known == name)?, line))
    })
}

/// Runs it until its so-manieth call of a kind, which is not made. Whether that
/// was its end.
fn killed(words: &[&str], call: &str, number: usize) -> Result<bool, Failure> {
    const PATIENCE: Duration = Duration::from_secs(120);
    let _ = fs::remove_file(TRACE);
    let held = format!("inject={call}:delay_enter=600s:when={number}");
    let mut command = strace(call, &["-e", &held]);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut tracing = Tracing(command.spawn()?);
    let until = now() + PATIENCE;
    let process = loop {
        let trace = fs::read_to_string(TRACE).unwrap_or_default();
        if calls(&trace).filter(|(made, _)| *made == call).count() >= number {
            break trace
                .split(' ')
                .next()
                .and_then(|first| first.parse::<i32>().ok())
                .ok_or("a trace without numbers")?;
        }
        if tracing.0.try_wait()?.is_some() {
            return Ok(false);
        }
        if now() > until {
            return Err(format!("no {call} {number} within {} s", PATIENCE.as_secs()).into());
        }
        thread::sleep(Duration::from_millis(2));
    };
    kill_process(Pid::from_raw(process).ok_or("a trace of nobody")?, Signal::KILL)?;
    // Its last stop would wait for strace, which waits for the delay.
    drop(tracing);
    while !has_ended(process) {
        if now() > until {
            return Err(format!("killed at its {call} {number}, it does not end").into());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

/// Gone, or nobody has asked yet how it ended.
fn has_ended(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| matches!(rest.trim_start().as_bytes().first(), Some(b'Z' | b'X')))
}

/// Strace: it does not end by itself when what it delays is killed.
struct Tracing(Child);

impl Drop for Tracing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_touch_anything_are_found() {
        let trace = "7 openat(AT_FDCWD, \"/proc/a\", O_RDONLY) = 3\n\
                     7 write(4, \"x\", 1) = 1\n\
                     8 write(4, \"x\", 1) = 1\n\
                     7 openat(AT_FDCWD, \"/var/lib/nearside-node/lock\", O_RDWR|O_CREAT) = 5\n\
                     7 openat(AT_FDCWD, \"/var/lib/nearside-node\", O_RDONLY) = 6\n\
                     7 write(5, \"x\", 1) = 1\n\
                     7 write(1, \"told\", 4) = 4\n\
                     7 sendto(8, \"x\", 1) = 1\n\
                     7 write(5, \"x\", 1";
        let found = touching(trace);
        assert_eq!(found.get("openat"), None);
        assert_eq!(found.get("write").map(Vec::as_slice), Some(&[2, 4][..]));
        assert_eq!(found.get("sendto").map(Vec::as_slice), Some(&[1][..]));
        assert!(touching("").is_empty());
        assert!(has_ended(i32::MAX) && !has_ended(1));
    }
}
