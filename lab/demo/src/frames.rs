//! The link's own limit: two testpmd exchange bare frames over the same kind
//! of memif, one sending and counting what comes back (flowgen), the other
//! returning it (macswap). No request can be faster than the frames it is in.

use crate::child::{Interrupt, Program, Running, call};
use crate::error::Error;
use crate::machine::{find_program, is_root};
use crate::summary::median;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Huge pages of 2 MiB that two testpmd need: 256 MiB each.
const PAGES: u64 = 256;
const MOUNT: &str = "hugepages";
const ADDED: &str = "hugepages-added";
const PAGES_FILE: &str = "/proc/sys/vm/nr_hugepages";

/// Why the row is left out, or that it can be measured.
#[must_use]
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("its huge pages need root".to_owned());
    }
    find_program("dpdk-testpmd").is_none().then(|| "not installed: dpdk-testpmd (package dpdk-dev)".to_owned())
}

/// Huge pages of the demo's own: taken when made, given back when dropped.
#[derive(Debug)]
pub struct HugePages {
    mount: PathBuf,
    added: u64,
}

impl HugePages {
    /// Takes as many pages as are missing, and mounts a folder for them.
    ///
    /// # Errors
    /// If the machine has not so many.
    pub fn take(dir: &Path) -> Result<Self, Error> {
        let free = meminfo("HugePages_Free");
        let added = PAGES.saturating_sub(free);
        let mount = dir.join(MOUNT);
        fs::create_dir(&mount).map_err(Error::io("cannot make a folder for huge pages"))?;
        // Should this process be killed, the next demo gives them back.
        fs::write(dir.join(ADDED), added.to_string()).map_err(Error::io("cannot note the huge pages taken"))?;
        change_pages(|pages| pages + added)?;
        let this = Self { mount, added };
        if meminfo("HugePages_Free") < PAGES {
            return Err(Error::Machine(format!("fewer than {PAGES} huge pages of 2 MiB are free")));
        }
        call(&["mount", "-t", "hugetlbfs", "-o", "pagesize=2M", "none", &this.mount.to_string_lossy()])?;
        Ok(this)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        give_back(&self.mount, self.added);
    }
}

fn give_back(mount: &Path, added: u64) {
    // Fails only if it was never mounted.
    let _ = call(&["umount", &mount.to_string_lossy()]);
    let _ = change_pages(|pages| pages.saturating_sub(added));
}

/// Gives back what a demo that was killed had taken, by its folder.
pub(crate) fn give_back_stale(dir: &Path) {
    let added = fs::read_to_string(dir.join(ADDED)).ok().and_then(|text| text.trim().parse().ok());
    if let Some(added) = added {
        give_back(&dir.join(MOUNT), added);
    }
}

fn change_pages(change: impl FnOnce(u64) -> u64) -> Result<(), Error> {
    let now = fs::read_to_string(PAGES_FILE).map_err(Error::io(format!("cannot read {PAGES_FILE}")))?;
    let pages = change(now.trim().parse().unwrap_or(0));
    fs::write(PAGES_FILE, pages.to_string()).map_err(Error::io(format!("cannot write {PAGES_FILE}")))
}

fn meminfo(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Seconds that testpmd may be late by.
const LATE: u32 = 60;

/// Frames per second, the one way and the other together, as the median of
/// the seconds measured.
pub(crate) fn measure(
    dir: &Path,
    pages: &HugePages,
    cores: (u16, u16),
    duration: Duration,
    interrupt: &Interrupt,
) -> Result<f64, Error> {
    let socket = dir.join("testpmd.sock");
    let _ = fs::remove_file(&socket);
    let started = |role, mode, core| Testpmd { role, mode, socket: &socket, core, further: &[] }.start(dir, pages);
    let mut server = started("server", "macswap", cores.0)?;
    server.wait_until("open its socket", Duration::from_secs(20), interrupt, || socket.exists())?;
    let mut client = started("client", "flowgen", cores.1)?;
    // A second for each to start up, one more that is not whole; on a busy machine they take longer.
    interrupt.sleep(duration + Duration::from_secs(3))?;
    let mut rates = rates(&client.output());
    for _ in 0..LATE {
        if rates.len() > 1 {
            break;
        }
        client.still_runs()?;
        server.still_runs()?;
        interrupt.sleep(Duration::from_secs(1))?;
        rates = self::rates(&client.output());
    }
    client.end();
    server.end();
    // The first that is not zero is not a whole second.
    let whole = rates.get(1..).unwrap_or_default();
    if whole.is_empty() { Err(Error::output("dpdk-testpmd", "frame rates")) } else { Ok(median(whole)) }
}

/// A testpmd with one memif.
#[derive(Clone, Copy, Debug)]
pub struct Testpmd<'a> {
    /// `server` or `client`.
    pub role: &'a str,
    /// Its forwarding mode.
    pub mode: &'a str,
    /// The memif's socket.
    pub socket: &'a Path,
    /// The core that it runs on.
    pub core: u16,
    /// Further options of its own.
    pub further: &'a [&'a str],
}

impl Testpmd<'_> {
    /// Starts it, with its output in `dir`.
    ///
    /// # Errors
    /// If it is not there.
    pub fn start(self, dir: &Path, pages: &HugePages) -> Result<Running, Error> {
        let Self { role, mode, socket, core, further } = self;
        let program = find_program("dpdk-testpmd").ok_or_else(|| Error::Machine("dpdk-testpmd is gone".to_owned()))?;
        let name = format!("testpmd {role}");
        let eal = [
            program,
            "--no-pci".to_owned(),
            "--no-telemetry".to_owned(),
            format!("--file-prefix=nearside-{}-{role}", std::process::id()),
            format!("--huge-dir={}", pages.mount.display()),
            "-m=256".to_owned(),
            format!("--lcores=(0,1)@{core}"),
            format!("--vdev=net_memif0,role={role},id=0,socket={},socket-abstract=no", socket.display()),
            "--".to_owned(),
            format!("--forward-mode={mode}"),
            "--auto-start".to_owned(),
            "--stats-period=1".to_owned(),
            "--total-num-mbufs=16384".to_owned(),
        ];
        let mut words = eal.to_vec();
        words.extend(further.iter().map(|word| (*word).to_owned()));
        Program { name: &name, netns: None, core: None, words }.start(dir)
    }
}

/// Received and sent frames per second of each report that has any.
#[must_use]
pub fn rates(output: &str) -> Vec<f64> {
    let values = |name: &'static str| {
        let after =
            move |line: &str| line.trim_start().strip_prefix(name)?.split_ascii_whitespace().next()?.parse().ok();
        output.lines().filter_map(after).collect::<Vec<f64>>()
    };
    let (received, sent) = (values("Rx-pps:"), values("Tx-pps:"));
    received.iter().zip(&sent).map(|(r, s)| r + s).filter(|rate| *rate > 0.0).collect()
}
