//! What else this machine does while a run lasts: who worked, and who waited
//! for a core.

use core::time::Duration;
use cpu::Clock;
use cpu::process_stat::{self, ProcessStat};
use load::Surroundings;
use std::collections::HashMap;
use std::fs;
use wire::Time;

/// Processes and threads that are looked at, at most: a look is to take no
/// more than a fraction of a second.
const THREADS_LIMIT: usize = 20_000;

/// A thread that worked less than this share of the time is nobody that a wait
/// could hurt.
const WORKED: f64 = 0.01;

/// The account of all threads at a moment.
#[derive(Debug)]
pub struct Machine {
    at: Time,
    stolen: Duration,
    threads: HashMap<(u32, u32), Thread>,
    /// What children took that have ended, by process.
    reaped: HashMap<u32, Duration>,
}

/// A thread's account (Documentation/scheduler/sched-stats.rst).
#[derive(Clone, Debug, Default)]
struct Thread {
    /// Its process's name: the processes of one server have the same.
    name: String,
    worked: Duration,
    waited: Duration,
}

impl Machine {
    /// As it is now. What cannot be read is left out.
    pub fn look() -> Self {
        let mut machine = Self { at: Clock.now(), stolen: stolen(), threads: HashMap::new(), reaped: HashMap::new() };
        let numbers = |folder: &str| -> Vec<u32> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        };
        for process in numbers("/proc") {
            let Some(stat) = process_stat::line_of(process) else { continue };
            let Some((name, reaped)) = name_and_reaped(&stat) else { continue };
            machine.reaped.insert(process, reaped);
            for thread in numbers(&format!("/proc/{process}/task")) {
                let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).unwrap_or_default();
                let Some((worked, waited)) = schedstat(&text) else { continue };
                machine.threads.insert((process, thread), Thread { name: name.to_owned(), worked, waited });
            }
            if machine.threads.len() > THREADS_LIMIT {
                break;
            }
        }
        machine
    }

    /// What it did since `earlier`, beside what the process `own` did.
    pub fn since(&self, earlier: &Self, own: u32) -> Surroundings {
        let span = self.at.since(earlier.at).as_secs_f64().max(1e-9);
        let share = |time: Duration| time.as_secs_f64() / span;
        let mut worked: HashMap<&str, Duration> = HashMap::new();
        let mut waited = Duration::ZERO;
        for (id, thread) in &self.threads {
            let before = earlier.threads.get(id).cloned().unwrap_or_default();
            let time = thread.worked.saturating_sub(before.worked);
            if share(time) > WORKED {
                waited = waited.max(thread.waited.saturating_sub(before.waited));
            }
            // What the network takes beyond its share is the run's own work.
            if id.0 != own && !thread.name.starts_with("ksoftirqd") {
                *worked.entry(&thread.name).or_default() += time;
            }
        }
        let server = worked.values().max().copied().unwrap_or_default();
        let reaped = |(process, time): (&u32, &Duration)| {
            let before = earlier.reaped.get(process).copied().unwrap_or(*time);
            if *process == own { Duration::ZERO } else { time.saturating_sub(before) }
        };
        let others = worked.values().sum::<Duration>().saturating_sub(server);
        // Who lives for a moment only is seen when its parent has waited for
        // it. A parent of a parent counts it again, which is no harm here.
        let short: Duration = self.reaped.iter().map(reaped).max().unwrap_or_default();
        Surroundings {
            // Ticks that are counted late may be of a time before.
            stolen: share(self.stolen.saturating_sub(earlier.stolen)).min(cores()),
            // A child that is waited for brings the account of its whole life: no more is had of cores
            // than there are.
            others: share(others.max(short)).min(cores()),
            waited: share(waited).min(1.0),
        }
    }
}

/// The cores that are on line.
fn cores() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let cores = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    if cores == 0 { f64::INFINITY } else { cores as f64 }
}

/// Of proc_pid_stat(5): the name, and what children took that were waited for,
/// fields 16 and 17.
fn name_and_reaped(stat: &str) -> Option<(&str, Duration)> {
    let stat = ProcessStat::parse(stat)?;
    Some((stat.name(), in_ticks(stat.field::<u64>(16)? + stat.field::<u64>(17)?)))
}

fn in_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

/// Time on a core, and time waiting for one, in nanoseconds.
fn schedstat(text: &str) -> Option<(Duration, Duration)> {
    let mut fields = text.split_whitespace().map(|field| field.parse().map(Duration::from_nanos));
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// What the hypervisor took from all cores (proc_stat(5): the eighth figure).
pub fn stolen() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = text.lines().next().unwrap_or_default();
    in_ticks(all.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn machine(at: Time, stolen: u64, threads: &[(u32, u32, &str, u64, u64)], reaped: &[(u32, u64)]) -> Machine {
        let thread = |&(process, thread, name, worked, waited): &(u32, u32, &str, u64, u64)| {
            ((process, thread), Thread { name: name.to_owned(), worked: ms(worked), waited: ms(waited) })
        };
        Machine {
            at,
            stolen: ms(stolen),
            threads: threads.iter().map(thread).collect(),
            reaped: reaped.iter().map(|(process, time)| (*process, ms(*time))).collect(),
        }
    }

    #[test]
    fn others_are_neither_we_nor_the_server() {
        let start = Time::from_millis(5);
        let before = machine(start, 0, &[(1, 1, "load", 5, 0), (2, 2, "nginx", 100, 7), (9, 9, "tick", 50, 1)], &[]);
        let later = start + ms(1_000);
        let all = [
            (1, 1, "load", 805, 3),
            (2, 2, "nginx", 400, 9),
            (3, 3, "nginx", 300, 20),
            (4, 4, "ksoftirqd/0", 200, 30),
            (9, 9, "tick", 52, 400),
        ];
        let quiet = machine(later, 0, &all, &[]).since(&before, 1);
        assert!((quiet.others - 0.002).abs() < 1e-9 && quiet.stolen == 0.0, "{quiet:?}");
        assert!((quiet.waited - 0.03).abs() < 1e-9, "who did not work did not matter: {quiet:?}");
        let mut taken = all.to_vec();
        taken.push((10, 10, "burst", 480, 90));
        let taken = machine(later, 20, &taken, &[]).since(&before, 1);
        assert!((taken.others - 0.482).abs() < 1e-9 && (taken.waited - 0.09).abs() < 1e-9, "{taken:?}");
        assert!((taken.stolen - 0.02).abs() < 1e-9);
        // A shell whose programs live for a moment.
        let with = |time| machine(later, 0, &all, &[(7, time), (1, time)]);
        let before = machine(start, 0, &[], &[(7, 100), (1, 100)]);
        assert!(with(350).since(&before, 1).others >= 0.25);
        // Of a long life that ended just now, no more than all cores' time counts.
        assert!(with(900_000).since(&before, 1).others <= cores());
    }

    /// Ticks and waits that are counted late may be of a time before: a share is of what there is.
    #[test]
    fn no_share_is_of_more_than_there_is() {
        let start = Time::from_millis(5);
        let before = machine(start, 0, &[(2, 2, "nginx", 0, 0)], &[]);
        let late = machine(start + ms(1_000), 90_000_000, &[(2, 2, "nginx", 900, 5_000)], &[]).since(&before, 1);
        assert_eq!((late.stolen, late.waited), (cores(), 1.0));
        assert!(late.others <= cores() && cores().is_finite(), "{late:?}");
    }

    #[test]
    fn the_kernels_files_are_read() {
        let stat = "77 (a) S 1 (b) R 5 0 0 0 0 0 0 0 0 0 30 12 100 50 20 0 1 0 100 1 1\n";
        let (name, reaped) = name_and_reaped(stat).expect("a line");
        assert_eq!((name, reaped), ("a) S 1 (b", in_ticks(150)));
        assert_eq!(schedstat("5 6 7\n"), Some((Duration::from_nanos(5), Duration::from_nanos(6))));
        assert_eq!((name_and_reaped("1 (x"), schedstat("")), (None, None));
    }

    #[test]
    fn this_very_thread_is_seen() {
        let me = std::process::id();
        let before = Machine::look();
        assert!(before.threads.keys().any(|(process, _)| *process == me));
        let now = Machine::look().since(&before, me);
        assert!(now.others >= 0.0 && now.waited >= 0.0 && now.stolen >= 0.0, "{now:?}");
    }
}
