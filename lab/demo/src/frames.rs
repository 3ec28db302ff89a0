//! The link's own limit: two testpmd exchange bare frames over the same kind
//! of memif, one sending and counting what comes back (flowgen), the other
//! returning it (macswap). No request can be faster than the frames it is in.

use crate::child::{Interrupt, Program, Running};
use crate::error::Error;
use crate::machine::{find_program, is_root};
use crate::pages::HugePages;
use crate::summary::median;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Why the row is left out, or that it can be measured.
#[must_use]
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("its huge pages need root".to_owned());
    }
    find_program("dpdk-testpmd").is_none().then(|| "not installed: dpdk-testpmd (package dpdk-dev)".to_owned())
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
