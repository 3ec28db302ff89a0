//! Whether polling threads may have a real-time priority on this machine, and
//! what that means here.

use say::Failure;
use std::path::Path;
use sysroot::Sysroot;
use topology::parse_list;

/// No file that is looked at is longer.
const FILE_LIMIT: u64 = 1 << 20;

/// More cores than machines have (`CONFIG_NR_CPUS` is at most 8,192).
const MOST_CORES: usize = 8_192;

/// What of a machine decides it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scheduling {
    /// Cores on line.
    pub online: Vec<u16>,
    /// Cores that the scheduler does not balance: isolcpus, or an isolated
    /// partition of cpusets.
    pub isolated: Vec<u16>,
    /// The FIFO priority of RCU's threads (rcutree.kthread_prio); 0: ordinary.
    pub rcu: u8,
    /// kernel.sched_rt_runtime_us and kernel.sched_rt_period_us.
    pub bandwidth: Option<(i64, i64)>,
    /// Whether a deadline server gives ordinary threads their share instead
    /// (Linux 6.12).
    pub fair_server: bool,
}

/// Gives the calling thread this priority.
///
/// # Errors
/// In words: it takes CAP_SYS_NICE.
pub fn of_thread(priority: u8) -> Result<(), String> {
    cpu::sched::fifo(priority).map_err(|why| format!("--sched fifo:{priority}: {why}; it takes CAP_SYS_NICE"))
}

impl Scheduling {
    /// As the machine below `root` has it.
    pub fn read(root: &Path) -> Self {
        let root = Sysroot::at(root);
        let text = |path: &str| root.text(path, FILE_LIMIT).ok().map(|text| text.trim().to_owned());
        let cores = |path: &str| text(path).and_then(|text| parse_list(&text, MOST_CORES)).unwrap_or_default();
        let number = |path: &str| text(path).and_then(|text| text.parse::<i64>().ok());
        let mut isolated = cores("sys/devices/system/cpu/isolated");
        isolated.extend(cores("sys/fs/cgroup/cpuset.cpus.isolated"));
        let runtime = number("proc/sys/kernel/sched_rt_runtime_us");
        Self {
            online: cores("sys/devices/system/cpu/online"),
            isolated,
            rcu: number("sys/module/rcutree/parameters/kthread_prio").and_then(|n| u8::try_from(n).ok()).unwrap_or(0),
            bandwidth: runtime.zip(number("proc/sys/kernel/sched_rt_period_us")),
            fair_server: text("proc/sys/kernel/osrelease").is_some_and(|release| from_6_12(&release)),
        }
    }

    /// What is to be said of threads at FIFO:`priority` on these cores.
    ///
    /// # Errors
    /// If a core is not named or not isolated, none would be left, or RCU's
    /// threads would not come before them.
    pub fn allows(&self, priority: u8, cores: &[Option<u16>]) -> Result<String, Failure> {
        let pinned: Option<Vec<u16>> = cores.iter().copied().collect();
        let Some(pinned) = pinned else {
            return Err("--sched: a thread at FIFO must be pinned: name its core (--core, --cores or --silos)".into());
        };
        if !self.online.is_empty() && self.online.iter().all(|core| pinned.contains(core)) {
            return Err(
                "--sched: threads at FIFO on all cores would leave none to the kernel and to whoever would end \
                        them: leave one out"
                    .into(),
            );
        }
        if let Some(core) = pinned.iter().find(|core| !self.isolated.contains(core)) {
            return Err(format!(
                "--sched: core {core} is not isolated: whatever else the kernel puts there would never run. \
                    isolcpus= \
                 on the command line isolates cores, or cpuset.cpus.partition=isolated (nearside node profile)"
            )
            .into());
        }
        match self.rcu {
            0 => Err(format!(
                "--sched: RCU's threads have no real-time priority here, so a thread at FIFO:{priority} that polls \
                 would stall grace periods: boot with rcutree.kthread_prio={}",
                priority.saturating_add(1).max(11)
            )
            .into()),
            rcu if priority >= rcu => Err(format!(
                "--sched: RCU's threads are at FIFO:{rcu} (rcutree.kthread_prio), and must come before threads that \
                 poll: fifo:{} at most",
                rcu - 1
            )
            .into()),
            rcu => Ok(format!("FIFO:{priority}, below RCU's FIFO:{rcu}; {}", self.taken())),
        }
    }

    /// What is taken from a thread that never sleeps.
    fn taken(&self) -> String {
        match self.bandwidth {
            Some((runtime, _)) if runtime < 0 => {
                "nothing throttles it (kernel.sched_rt_runtime_us=-1): an ordinary thread on its core never runs"
                    .to_owned()
            }
            _ if self.fair_server => {
                "where an ordinary thread waits on its core, the deadline server gives that 50 ms \
                                      of each second (/sys/kernel/debug/sched/fair_server)"
                    .to_owned()
            }
            Some((runtime, period)) if runtime < period => format!(
                "throttling takes {} ms of each {} ms from it (kernel.sched_rt_runtime_us={runtime}), whether \
                    anybody \
                 waits or not",
                (period - runtime) / 1_000,
                period / 1_000
            ),
            _ => "nothing throttles it: an ordinary thread on its core never runs".to_owned(),
        }
    }
}

fn from_6_12(release: &str) -> bool {
    let mut parts = release.split(|char: char| !char.is_ascii_digit()).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 12),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine() -> Scheduling {
        Scheduling {
            online: (0..4).collect(),
            isolated: vec![2, 3],
            rcu: 11,
            bandwidth: Some((950_000, 1_000_000)),
            fair_server: false,
        }
    }

    #[test]
    fn what_would_stop_a_machine_is_refused() {
        let why = |machine: &Scheduling, priority, cores: &[Option<u16>]| {
            machine.allows(priority, cores).expect_err("refused").to_string()
        };
        let machine = machine();
        assert!(machine.allows(10, &[Some(2), Some(3)]).is_ok());
        assert!(why(&machine, 2, &[Some(1)]).contains("core 1 is not isolated"));
        assert!(why(&machine, 2, &[None]).contains("pinned"));
        assert!(why(&machine, 11, &[Some(2)]).contains("fifo:10 at most"));
        let all = Scheduling { isolated: (0..4).collect(), ..machine.clone() };
        assert!(why(&all, 2, &[Some(0), Some(1), Some(2), Some(3)]).contains("all cores"));
        let ordinary = Scheduling { rcu: 0, ..machine };
        assert!(why(&ordinary, 2, &[Some(2)]).contains("rcutree.kthread_prio=11"));
        assert!(why(&ordinary, 50, &[Some(2)]).contains("rcutree.kthread_prio=51"));
    }

    #[test]
    fn it_says_what_throttling_takes() {
        let said = |machine: &Scheduling| machine.allows(2, &[Some(2)]).expect("allowed");
        assert!(said(&machine()).contains("50 ms of each 1000 ms"));
        assert!(said(&Scheduling { fair_server: true, ..machine() }).contains("deadline server"));
        assert!(said(&Scheduling { bandwidth: Some((-1, 1_000_000)), ..machine() }).contains("never runs"));
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let root = std::env::temp_dir().join(format!("nearside-sched-{}", std::process::id()));
        for (path, text) in [
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/cpu/isolated", "2-3"),
            ("sys/module/rcutree/parameters/kthread_prio", "11"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000"),
            ("proc/sys/kernel/osrelease", "6.11.9-amd64"),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        assert_eq!(Scheduling::read(&root), machine());
        fs::remove_dir_all(&root).expect("removed");
        assert_eq!(Scheduling::read(&root), Scheduling::default());
        assert!(from_6_12("6.12.41+deb13") && from_6_12("7.0") && !from_6_12("x"));
    }
}
