//! What a server and its generator take of their cores while one asks the other.

use crate::machine::{CpuSample, CpuShare, now};
use page::Reader;
use std::fs;
use std::time::Instant;

/// What was seen between two moments. Shares of a core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Watched {
    /// The server's processes and its core, by the kernel's account: a server that polls takes all of it.
    pub server: CpuShare,
    /// Softirq of the server's core that no process was charged with.
    pub server_softirq: f64,
    /// What the server says of itself, if it does.
    pub server_account: Option<OwnAccount>,
    /// The generator's process and its core, likewise.
    pub client: CpuShare,
    /// Softirq of the generator's core likewise.
    pub client_softirq: f64,
    /// What the generator says of itself, if it does.
    pub client_account: Option<OwnAccount>,
    /// Bytes a second that the server's processes had read from disks, where the kernel counts them.
    pub read: Option<f64>,
}

/// What silos or workers say of themselves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OwnAccount {
    /// The share of its time in which each had something to do, on average.
    pub busy: f64,
    /// Cores' time in which they polled for nothing, of all together.
    pub polled: f64,
    /// Frames sent in a second.
    pub frames: f64,
}

impl Watched {
    /// The share of its time in which the server had something to do: by its own account, or that of its
    /// processes and of softirq on its core.
    #[must_use]
    pub fn server_busy(&self) -> f64 {
        self.server_busy_of(1)
    }

    /// The same, where so many processes have a core each: on average.
    #[must_use]
    pub fn server_busy_of(&self, processes: usize) -> f64 {
        let kernels = ((self.server.process + self.server.softirq) / processes.max(1) as f64).min(1.0);
        self.server_account.map_or(kernels, |account| account.busy)
    }

    /// Cores that the server needed: its processes, and softirq beyond them, without polling for nothing.
    #[must_use]
    pub fn server_cpu(&self) -> f64 {
        needed(self.server, self.server_softirq, self.server_account)
    }

    /// Cores that the generator needed, likewise.
    #[must_use]
    pub fn client_cpu(&self) -> f64 {
        needed(self.client, self.client_softirq, self.client_account)
    }

    /// The most that other programs took of either core.
    #[must_use]
    pub const fn others(&self) -> f64 {
        self.server.others.max(self.client.others)
    }
}

fn needed(kernels: CpuShare, softirq: f64, account: Option<OwnAccount>) -> f64 {
    let polled = account.map_or(0.0, |account| account.polled);
    (kernels.process + softirq - polled).max(0.0)
}

/// What both sides had used up by a moment.
#[derive(Debug)]
pub(crate) struct Moment {
    at: Instant,
    cpu: [CpuSample; 2],
    told: [Option<Told>; 2],
    read: Option<u64>,
}

/// What silos or workers tell on their page, all together.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Nanoseconds with something to do.
    busy: u64,
    /// Nanoseconds of polling for nothing.
    polled: u64,
    /// All nanoseconds.
    time: u64,
    frames: u64,
    silos: usize,
}

impl Moment {
    /// Of the server and the generator: their processes, their cores and their pages.
    pub(crate) fn take(pids: [&[u32]; 2], cores: (u16, u16), pages: [Option<&Reader>; 2]) -> Self {
        Self {
            at: now(),
            cpu: [CpuSample::take(pids[0], cores.0), CpuSample::take(pids[1], cores.1)],
            told: pages.map(|page| page.and_then(Told::read)),
            read: bytes_read(pids[0]),
        }
    }

    /// What lies between this moment and a later one.
    pub(crate) fn until(&self, later: &Self) -> Watched {
        let seconds = later.at.saturating_duration_since(self.at).as_secs_f64().max(1e-3);
        let account = |side: usize| Some(self.told[side]?.until(&later.told[side]?));
        Watched {
            server: self.cpu[0].share_until(&later.cpu[0]),
            server_softirq: self.cpu[0].softirq_beyond_until(&later.cpu[0]),
            server_account: account(0),
            client: self.cpu[1].share_until(&later.cpu[1]),
            client_softirq: self.cpu[1].softirq_beyond_until(&later.cpu[1]),
            client_account: account(1),
            read: self.read.zip(later.read).map(|(from, to)| to.saturating_sub(from) as f64 / seconds),
        }
    }
}

impl Told {
    fn read(page: &Reader) -> Option<Self> {
        let snapshot = page.snapshot().ok()?;
        let of = |name: &str| {
            let index = page.metrics().iter().position(|(known, _)| known == name)?;
            snapshot.silos.iter().map(|silo| silo.values.get(index).copied()).sum::<Option<u64>>()
        };
        let (busy, polled) = (of("silo.busy_ns")?, of("silo.idle_ns")?);
        let time = busy + polled + of("silo.asleep_ns")?;
        Some(Self { busy, polled, time, frames: of("link.tx_frames").unwrap_or(0), silos: snapshot.silos.len() })
    }

    fn until(&self, later: &Self) -> OwnAccount {
        let time = later.time.saturating_sub(self.time).max(1) as f64;
        // All of them together have as many seconds in each.
        let seconds = time / 1e9 / later.silos.max(1) as f64;
        OwnAccount {
            busy: later.busy.saturating_sub(self.busy) as f64 / time,
            polled: later.polled.saturating_sub(self.polled) as f64 / 1e9 / seconds,
            frames: later.frames.saturating_sub(self.frames) as f64 / seconds,
        }
    }
}

/// Bytes that processes had read from disks so far (`read_bytes` of `/proc/PID/io`); nothing where one
/// of them does not tell.
fn bytes_read(pids: &[u32]) -> Option<u64> {
    let of = |pid: &u32| read_bytes(&fs::read_to_string(format!("/proc/{pid}/io")).ok()?);
    pids.iter().map(of).sum()
}

fn read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_for_nothing_is_not_needed() {
        let told = |busy, polled, frames| Told { busy, polled, time: busy + polled + 100_000_000, frames, silos: 2 };
        // Two silos for two seconds, less what they slept.
        let account = told(0, 0, 0).until(&told(1_000_000_000, 3_000_000_000, 4_000));
        assert_eq!((account.busy, account.polled, account.frames), (0.25, 1.5, 2_000.0));
        let share = |process| CpuShare { process, ..CpuShare::default() };
        let mut watched = Watched {
            server: share(2.0),
            server_softirq: 0.1,
            server_account: Some(account),
            client: CpuShare { process: 0.7, softirq: 0.4, others: 0.2, ..CpuShare::default() },
            client_softirq: 0.25,
            client_account: None,
            read: None,
        };
        assert!((watched.server_cpu() - 0.6).abs() < 1e-9, "{watched:?}");
        assert_eq!((watched.server_busy(), watched.client_cpu(), watched.others()), (0.25, 0.95, 0.2));
        watched.server = share(1.2);
        assert_eq!(watched.server_cpu(), 0.0, "a share is never below nothing");
        watched.server_account = None;
        assert_eq!((watched.server_busy(), watched.server_busy_of(2)), (1.0, 0.6));
    }

    #[test]
    fn what_a_process_read_of_disks_is_found() {
        assert_eq!(read_bytes("rchar: 9\nread_bytes: 4096\nwrite_bytes: 7\n"), Some(4_096));
        assert_eq!((read_bytes("rchar: 9\n"), read_bytes("read_bytes: x\n")), (None, None));
        assert_eq!(bytes_read(&[u32::MAX]), None, "nobody there tells nothing");
    }
}
