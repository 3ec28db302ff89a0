//! Whether a process was stopped (SIGSTOP, SIGTSTP).

use core::time::Duration;
use cpu::process_stat::{self, ProcessStat};
use rustix::process::{Pid, Signal, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::thread;

/// Steps in which a stopped process is brought out of its turn, at most: it may begin another before it
/// is stopped again.
const MOST_STEPS: usize = 20;

/// Between two looks at a process that is to go on, or to stop.
const NAP: Duration = Duration::from_micros(50);

/// Looks at it, at most: a busy machine may have it wait for its core.
const LOOKS: usize = 2_000;

/// Has a process that was stopped amid something go on until it is over, and stops it again.
pub(crate) fn bring_out(process: &OwnedFd, number: Pid, is_amid: impl Fn() -> bool) {
    for _ in 0..MOST_STEPS {
        if !is_amid() || !is_stopped(number) {
            return;
        }
        // It may have ended by now.
        let went_on = pidfd_send_signal(process, Signal::CONT);
        wait_for(|| !is_amid());
        if went_on.is_ok() && pidfd_send_signal(process, Signal::STOP).is_ok() {
            wait_for(|| is_stopped(number));
        }
    }
}

/// Whether a process is stopped, and by nobody who traces it (state T of proc(5)).
fn is_stopped(process: Pid) -> bool {
    let line = process_stat::line_of(process.as_raw_nonzero().get().cast_unsigned());
    line.as_deref().and_then(ProcessStat::parse).and_then(|stat| stat.state()) == Some('T')
}

/// Waits until something is so, for a tenth of a second at most.
fn wait_for(is_so: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, kill_process, pidfd_open};
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn started() -> std::process::Child {
        let _alone = crate::STARTS.write();
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn a_process_that_was_stopped_is_known() {
        let mut child = started();
        let pid = Pid::from_child(&child);
        assert!(!is_stopped(pid));
        kill_process(pid, Signal::STOP).unwrap();
        while !is_stopped(pid) {
            thread::sleep(NAP);
        }
        kill_process(pid, Signal::CONT).unwrap();
        while is_stopped(pid) {
            thread::sleep(NAP);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// One that is amid something is let go on as often as it takes, and stands still afterwards.
    #[test]
    fn a_process_goes_on_until_it_is_out_and_is_stopped_again() {
        let mut child = started();
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let runs = || !is_stopped(pid);
        // Nobody who runs is touched.
        bring_out(&process, pid, || true);
        assert!(runs());
        kill_process(pid, Signal::STOP).unwrap();
        while runs() {
            thread::sleep(NAP);
        }
        // It is out when it has run, and amid the next as it is stopped: twice.
        let (was_running, steps) = (AtomicUsize::new(0), AtomicUsize::new(0));
        bring_out(&process, pid, || {
            let now = usize::from(runs());
            if was_running.swap(now, Ordering::Relaxed) == 0 && now == 1 {
                steps.fetch_add(1, Ordering::Relaxed);
            }
            now == 0 && steps.load(Ordering::Relaxed) < 2
        });
        assert_eq!((steps.into_inner(), runs()), (2, false));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
