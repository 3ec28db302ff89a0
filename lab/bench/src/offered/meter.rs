//! Processor time of processes, to the nanosecond, and what else a server at rest is known by.

use crate::BenchError;
use crate::program::processor_time;
use cpu::Clock;
use demo::child::{Program, Running};
use demo::machine::CpuSample;
use demo::stand::Stand;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Watches a server's processes and its core.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    processes: Vec<u32>,
    core: u16,
}

/// What was used in a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cost {
    /// Of the processes, as a share of a core.
    pub(super) process: f64,
    /// Softirq of the core that no process was charged with.
    pub(super) softirq: f64,
    /// Times that a thread of theirs went to sleep, in a second.
    pub(super) wakeups: f64,
    /// Other programs' share of the core.
    pub(super) others: f64,
}

impl Meter {
    pub(super) fn new(processes: &[u32], core: u16) -> Self {
        Self { processes: processes.to_vec(), core }
    }

    /// Waits for `before`, then watches for `span`.
    pub(super) fn over(&self, before: Duration, span: Duration) -> Cost {
        thread::sleep(before);
        let (began, first, core) = (Clock.now(), self.used(), CpuSample::take(&self.processes, self.core));
        thread::sleep(span);
        let (seconds, last) = (Clock.now().since(began).as_secs_f64(), self.used());
        let later = CpuSample::take(&self.processes, self.core);
        Cost {
            process: last.0.saturating_sub(first.0).as_secs_f64() / seconds,
            softirq: core.softirq_beyond_until(&later),
            wakeups: last.1.saturating_sub(first.1) as f64 / seconds,
            others: core.share_until(&later).others,
        }
    }

    /// Processor time of all of them, and how often their threads went to sleep.
    fn used(&self) -> (Duration, u64) {
        let time = self.processes.iter().filter_map(|pid| processor_time(*pid).ok()).sum();
        let tasks = self.processes.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
        let status = tasks.flatten().flatten().map(|task| fs::read_to_string(task.path().join("status")));
        (time, status.filter_map(|status| sleeps(&status.ok()?)).sum())
    }
}

/// Times that a task went to sleep (proc(5), status: voluntary_ctxt_switches).
fn sleeps(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// Has the system calls of processes counted until it is ended.
pub(super) fn strace(processes: &[u32], into: &Path, stand: &Stand) -> Result<Running, BenchError> {
    let mut words: Vec<String> = ["strace", "-c", "-f", "-qq", "-o"].map(str::to_owned).into();
    words.push(into.display().to_string());
    words.extend(processes.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]));
    let running = Program { name: "strace", netns: None, core: None, words }.start(stand.folder())?;
    thread::sleep(Duration::from_millis(300));
    Ok(running)
}

/// Calls in a summary of `strace -c`: those of its last line.
pub(super) fn calls(summary: &str) -> Option<u64> {
    let total = summary.lines().rfind(|line| line.ends_with(" total"))?;
    // "100.00 0.123456 12 345 total", with a count of errors before "total" where there are any.
    total.split_ascii_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_the_kernel_writes_is_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(sleeps(status), Some(42));
        assert_eq!(sleeps("Name:\tx\n"), None);
    }

    #[test]
    fn a_summary_of_strace_is_read_with_errors_and_without() {
        let head =
            "% time     seconds  usecs/call     calls    errors syscall\n------ -----\n 60.00 0.1 12 300  7 read\n";
        assert_eq!(calls(&format!("{head}100.00    0.123456          12       345         7 total\n")), Some(345));
        assert_eq!(calls(&format!("{head}100.00    0.123456          12       345           total\n")), Some(345));
        assert_eq!(calls(head), None);
    }

    #[test]
    fn time_on_a_core_is_counted_finely() {
        let meter = Meter::new(&[std::process::id()], 0);
        let over = AtomicBool::new(false);
        let cost = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    core::hint::spin_loop();
                }
            });
            let cost = meter.over(Duration::ZERO, Duration::from_millis(60));
            over.store(true, Ordering::Relaxed);
            cost
        });
        assert!(cost.process > 0.02, "{cost:?}");
        assert!(cost.process < 64.0, "{cost:?}");
    }
}
