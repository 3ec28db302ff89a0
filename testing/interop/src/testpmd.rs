//! dpdk-testpmd as a peer over memif: DPDK's own driver, which nobody here
//! wrote.

use crate::{Running, leave_out, wait_for};
use memif::{MemifLink, Role};
use std::path::Path;
use std::process::Command;

/// What testpmd does with the frames that come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forward {
    /// Returns them as they are.
    Io,
    /// Returns them with their Ethernet addresses swapped.
    MacSwap,
    /// Sends frames of its own, each of three parts of these lengths.
    Send([u16; 3]),
}

/// How testpmd is started.
#[derive(Clone, Copy, Debug)]
pub struct Testpmd {
    /// Its own side of the memif.
    pub role: Role,
    /// Whether it shares its own packet buffers rather than copy.
    pub zero_copy: bool,
    /// Queue pairs.
    pub queues: u16,
    /// What it does.
    pub forward: Forward,
}

impl Testpmd {
    /// Starts it on the socket at `path`. It runs on one core, takes ordinary
    /// memory, and looks for no devices.
    ///
    /// # Returns
    /// The process, which has its memory. Where there is none for it, the test is left out.
    ///
    /// # Panics
    /// If it ends for another reason.
    #[must_use]
    pub fn start(self, path: &Path) -> Running {
        let role = match self.role {
            Role::Server => "server",
            Role::Client => "client",
        };
        let mut command = Command::new("dpdk-testpmd");
        command.args(["--no-telemetry", "--no-huge", "--no-pci", "-m", "256"]);
        // A container may not have core 0.
        let own = rustix::thread::sched_getaffinity(None).expect("a thread knows its cores");
        let core = (0..rustix::thread::CpuSet::MAX_CPU).find(|core| own.is_set(*core)).expect("a core");
        command.arg(format!("--lcores=(0,1)@{core}"));
        // Memory in one file can be shared whole; without telemetry and with a prefix of its own, several may run.
        command.args(["--single-file-segments", "--file-prefix"]);
        command.arg(format!("nearside-{}-{}", std::process::id(), path.display().to_string().replace('/', "-")));
        let zero_copy = if self.zero_copy { "yes" } else { "no" };
        command.arg(format!(
            "--vdev=net_memif0,role={role},socket={},socket-abstract=no,rsize=8,zero-copy={zero_copy}",
            path.display()
        ));
        // What we send before it is ready is not to be thrown away.
        command.args(["--", "--auto-start", "--no-flush-rx", "--total-num-mbufs=4096", "--stats-period=60"]);
        command.args([format!("--rxq={}", self.queues), format!("--txq={}", self.queues)]);
        match self.forward {
            Forward::Io => command.arg("--forward-mode=io"),
            Forward::MacSwap => command.arg("--forward-mode=macswap"),
            Forward::Send([a, b, c]) => command.arg("--forward-mode=txonly").arg(format!("--txpkts={a},{b},{c}")),
        };
        let mut running = Running::start(&mut command);
        wait_for("testpmd to take its memory", || {
            let said = running.said();
            if let Some(status) = running.ended() {
                if WITHOUT_MEMORY.iter().any(|words| said.contains(words)) {
                    leave_out(format!("no memory for dpdk-testpmd (256 MB): {said}"));
                }
                panic!("dpdk-testpmd ended early, {status}");
            }
            said.contains("create a new mbuf pool")
        });
        running
    }
}

/// What DPDK says where there is not enough memory for it.
const WITHOUT_MEMORY: [&str; 3] = ["Cannot init memory", "Cannot allocate memory", "mempool"];

/// What the control channel of `link` has to say, for messages.
#[must_use]
pub fn story(link: &MemifLink) -> String {
    format!("{:?}", link.status())
}
