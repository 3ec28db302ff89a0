//! Signals to the keeper, which are meant for its program.

use cpu::process_stat::{self, ProcessStat};
use rustix::process::Signal;
use signal_hook::consts;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// The program was asked to end.
    was_asked: bool,
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
        Ok(Self { came, hears, was_asked: false })
    }

    /// Readable when one came.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.hears.as_fd()
    }

    /// What those that came ask for.
    pub fn take(&mut self) -> Vec<Order> {
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
            let again = *ends && core::mem::replace(&mut self.was_asked, true);
            orders.push(if again { Order::EndAtOnce } else { Order::PassOn(*signal) });
        }
        orders
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

    /// The first is the program's, the second ends it; what is no end is passed on as often as it comes.
    #[test]
    fn a_second_signal_ends_at_once() {
        let mut orders = Orders::new().unwrap();
        let mut send = |signal| {
            signal_hook::low_level::raise(signal).unwrap();
            orders.take()
        };
        assert_eq!(send(consts::SIGUSR1), [Order::PassOn(Signal::USR1)]);
        assert_eq!(send(consts::SIGUSR1), [Order::PassOn(Signal::USR1)]);
        assert_eq!(send(consts::SIGTERM), [Order::PassOn(Signal::TERM)]);
        assert_eq!(send(consts::SIGUSR1), [Order::PassOn(Signal::USR1)]);
        assert_eq!(send(consts::SIGTERM), [Order::EndAtOnce]);
    }
}
