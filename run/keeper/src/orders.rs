//! Signals to the keeper, which are meant for its program.

use core::time::Duration;
use cpu::process_stat::{self, ProcessStat};
use rustix::process::Signal;
use signal_hook::consts;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Time;

/// A signal that comes again within this is the same word, said twice: timeout(1) and its like signal their child
/// and then its group, of which that is one, within microseconds; a busy machine makes some 100 ms of them. Who wants
/// a program gone that was asked to end has looked at it for longer.
const SAME_WORD: Duration = Duration::from_secs(1);

/// Signals that are passed on; whether a terminal sends them to each process of its job, and whether a
/// second one ends the program at once.
const PASSED_ON: [(i32, Signal, bool, bool); 6] = [
    (consts::SIGTERM, Signal::TERM, false, true),
    (consts::SIGINT, Signal::INT, true, true),
    (consts::SIGQUIT, Signal::QUIT, true, true),
    (consts::SIGHUP, Signal::HUP, true, false),
    (consts::SIGUSR1, Signal::USR1, false, false),
    (consts::SIGUSR2, Signal::USR2, false, false),
];

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// That the program gets it.
    PassOn(Signal),
    /// That the program ends at once.
    EndAtOnce,
}

/// The signals that came.
pub(crate) struct Orders {
    came: Vec<(Arc<AtomicBool>, Signal, bool, bool)>,
    hears: UnixStream,
    /// The program was asked to end: by which signal first, and when.
    asked: Option<(Signal, Time)>,
}

impl Orders {
    /// Takes the signals from their defaults. What was ignored when this process began (nohup(1)) is
    /// ignored, by the program, too.
    pub fn new() -> io::Result<Self> {
        let (rings, hears) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        hears.set_nonblocking(true)?;
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let mut came = Vec::new();
        for (number, signal, is_jobs, ends) in PASSED_ON {
            if ignored >> (number - 1) & 1 != 0 {
                continue;
            }
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, Arc::clone(&flag))?;
            signal_hook::low_level::pipe::register(number, rings.try_clone()?)?;
            came.push((flag, signal, is_jobs, ends));
        }
        // Ends of children, which somebody takes in: it is enough to be woken.
        signal_hook::low_level::pipe::register(consts::SIGCHLD, rings)?;
        Ok(Self { came, hears, asked: None })
    }

    /// Readable when one came, or a child has ended.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.hears.as_fd()
    }

    /// What those that have come by `now` ask for.
    pub fn take(&mut self, now: Time) -> Vec<Order> {
        while matches!((&self.hears).read(&mut [0; 64]), Ok(64)) {}
        let mut orders = Vec::new();
        for (flag, signal, is_jobs, ends) in &self.came {
            if !flag.swap(false, Ordering::Relaxed) {
                continue;
            }
            let own = if *is_jobs { process_stat::line_of(std::process::id()) } else { None };
            if own.is_some_and(|line| is_foreground(&line)) {
                // The terminal has sent it to the program as well.
                continue;
            }
            orders.extend(order_of((*signal, *ends), &mut self.asked, now));
        }
        orders
    }
}

/// What a signal asks for that comes at `now`, where the program was asked to end by `asked` first, and when; nothing
/// if it says that again. `ends` is whether it is such a one.
fn order_of((signal, ends): (Signal, bool), asked: &mut Option<(Signal, Time)>, now: Time) -> Option<Order> {
    match asked.filter(|_| ends) {
        Some((_, first)) if now.since(first) >= SAME_WORD => Some(Order::EndAtOnce),
        Some((said, _)) if said == signal => None,
        // Another signal means something else (nginx: SIGQUIT and SIGTERM).
        Some(_) => Some(Order::PassOn(signal)),
        None => {
            if ends {
                *asked = Some((signal, now));
            }
            Some(Order::PassOn(signal))
        }
    }
}

/// Signals that a process ignores, as bits, by its status (proc_pid_status(5)).
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether a process is of the job that its terminal has in front (proc_pid_stat(5)): what is typed
/// there is sent to each process of that.
fn is_foreground(stat: &str) -> bool {
    let Some(stat) = ProcessStat::parse(stat) else { return false };
    let (group, terminal, in_front) = (stat.field::<i64>(5), stat.field(7), stat.field(8));
    group.is_some() && group == in_front && terminal != Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_at_a_terminal_the_program_has_already() {
        assert!(is_foreground("12 (a b) c) S 1 12 9 34816 12 4194304 0"));
        assert!(!is_foreground("12 (a b) c) S 1 12 9 34816 9 4194304 0"), "another job is in front");
        assert!(!is_foreground("12 (a) S 1 12 9 0 -1 4194304 0"), "there is no terminal");
        assert!(!is_foreground(""));
    }

    #[test]
    fn ignored_signals_are_known() {
        assert_eq!(ignored("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored(""), 0);
    }

    /// The first is the program's, one that comes a second later ends it; what is no end is passed on as often as it
    /// comes, and what comes twice at once is one word.
    #[test]
    fn a_second_signal_ends_at_once() {
        let mut asked = None;
        let mut send = |signal, millis| {
            let ends = PASSED_ON.iter().any(|(_, known, _, ends)| *known == signal && *ends);
            order_of((signal, ends), &mut asked, Time::ZERO + Duration::from_millis(millis))
        };
        assert_eq!(send(Signal::USR1, 0), Some(Order::PassOn(Signal::USR1)));
        assert_eq!(send(Signal::USR1, 0), Some(Order::PassOn(Signal::USR1)));
        assert_eq!(send(Signal::TERM, 10_000), Some(Order::PassOn(Signal::TERM)));
        assert_eq!(send(Signal::TERM, 10_000), None, "timeout(1) sends two");
        assert_eq!(send(Signal::TERM, 10_999), None);
        assert_eq!(send(Signal::QUIT, 10_999), Some(Order::PassOn(Signal::QUIT)), "another word");
        assert_eq!(send(Signal::USR1, 11_000), Some(Order::PassOn(Signal::USR1)));
        assert_eq!(send(Signal::TERM, 11_000), Some(Order::EndAtOnce));
        assert_eq!(send(Signal::TERM, 11_001), Some(Order::EndAtOnce));
    }

    /// What comes is heard once.
    #[test]
    fn signals_are_heard() {
        let mut orders = Orders::new().unwrap();
        for _ in 0..2 {
            signal_hook::low_level::raise(consts::SIGUSR1).unwrap();
            assert_eq!(orders.take(Time::ZERO), [Order::PassOn(Signal::USR1)]);
            assert_eq!(orders.take(Time::ZERO), []);
        }
    }
}
