//! Serving over kernel sockets, as meant, and the values that say so.

use super::values::{BadValue, Size, duration};
use sockets::{Config, Endpoint, KeepAlive, ListenOptions};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What `serve` does over kernel sockets.
#[derive(Clone, Debug)]
pub struct KernelPlan {
    /// What to listen on; empty: systemd's sockets, or else port 80.
    pub listen: Vec<Listen>,
    /// How many workers.
    pub workers: Workers,
    /// Where they run.
    pub cores: Cores,
    /// What each worker is to be, but for `max_connections`: those are all
    /// workers' together.
    pub config: Config,
    /// Options of listening sockets.
    pub options: ListenOptions,
    /// Where the statistics page lies; `None`: the usual place.
    pub status_page: Option<PathBuf>,
    /// How to restart.
    pub restart: RestartPlan,
}

/// How one process follows another.
#[derive(Clone, Debug)]
pub struct RestartPlan {
    /// The process to follow; `None`: nobody.
    pub take_over: Option<TakeOver>,
    /// Where a successor may ask.
    pub control: Control,
    /// How long a successor may take to serve.
    pub timeout: Duration,
    /// How long connections may last after it does.
    pub drain: Duration,
    /// Where the process id goes.
    pub pid_file: Option<PathBuf>,
}

/// Whose sockets to take over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TakeOver {
    /// The only one in the usual place.
    Only,
    /// The one with this control socket.
    At(PathBuf),
}

/// Where a successor may ask.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Control {
    /// In the usual place.
    #[default]
    Usual,
    /// Here.
    At(PathBuf),
    /// Nowhere.
    Off,
}

impl FromStr for Control {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text {
            "" => Err(BadValue::new("write off or a file's name")),
            "off" => Ok(Self::Off),
            path => Ok(Self::At(path.into())),
        }
    }
}

/// What to listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// This port of every address.
    Port(u16),
    /// This endpoint.
    At(Endpoint),
    /// Sockets that systemd opened: those of this name, or all.
    Systemd(Option<String>),
}

impl FromStr for Listen {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        if let Some(rest) = text.strip_prefix("systemd") {
            match rest.strip_prefix(':') {
                None if rest.is_empty() => return Ok(Self::Systemd(None)),
                Some(name) if !name.is_empty() => return Ok(Self::Systemd(Some(name.to_owned()))),
                _ => return Err(BadValue::new("write systemd, or systemd:NAME for the sockets of that name")),
            }
        }
        if let Ok(port) = text.parse::<u16>() {
            return if port > 0 { Ok(Self::Port(port)) } else { Err(BadValue::new("write a port from 1 to 65535")) };
        }
        text.parse().map(Self::At).map_err(|why: sockets::EndpointError| {
            BadValue::new(format!("{why}, or systemd for sockets that systemd opened"))
        })
    }
}

/// How many workers there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workers {
    /// One for each core.
    PerCore,
    /// So many, at least one.
    Count(u16),
}

/// More workers than this help nobody: one statistics page has a column for
/// each.
const WORKERS_MAX: u16 = 1_024;

const _: () = assert!(WORKERS_MAX as usize <= silo::page::SILOS_LIMIT);

impl FromStr for Workers {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        if text == "auto" {
            return Ok(Self::PerCore);
        }
        let count = text.parse().ok().filter(|count| (1..=WORKERS_MAX).contains(count));
        count.map(Self::Count).ok_or_else(|| BadValue::new(format!("write auto, or a number from 1 to {WORKERS_MAX}")))
    }
}

/// Where workers run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cores {
    /// On the cores that this process may use, by turns.
    Allowed,
    /// On these, by turns; at least one.
    List(Vec<u16>),
    /// Wherever the kernel has them run.
    NotPinned,
}

impl FromStr for Cores {
    type Err = BadValue;

    /// Reads `none`, or `0-3,8`.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        if text == "none" {
            return Ok(Self::NotPinned);
        }
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.parse().ok().zip(last.parse().ok());
            let range = range.filter(|(first, last): &(u16, u16)| first <= last && *last < 4_096);
            let (first, last) = range.ok_or_else(|| BadValue::new("write cores as in 0-3,8, or none"))?;
            cores.extend((first..=last).filter(|core| !cores.contains(core)).collect::<Vec<_>>());
        }
        Ok(Self::List(cores))
    }
}

/// Whether silent connections are probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probes {
    /// No.
    Off,
    /// So.
    On(KeepAlive),
}

/// Linux's own (tcp(7)).
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(7_200), interval: Duration::from_secs(75), probes: 9 };

impl FromStr for Probes {
    type Err = BadValue;

    /// Reads `off`, `on`, or `IDLE:INTERVAL:PROBES`, of which each may be
    /// left out, as nginx does.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || BadValue::new("write off, on, or IDLE:INTERVAL:PROBES as in 30m:10s:9, times of at least 1s");
        match text {
            "off" => return Ok(Self::Off),
            "on" => return Ok(Self::On(KEEP_ALIVE)),
            _ => {}
        }
        let parts: Vec<&str> = text.split(':').collect();
        let [idle, interval, probes] = parts[..] else { return Err(bad()) };
        // The kernel's limits: MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL and
        // MAX_TCP_KEEPCNT of include/net/tcp.h.
        let time = |text: &str, usual: Duration| {
            let time = if text.is_empty() { Ok(usual) } else { duration(text) };
            time.ok().filter(|time| (1..=32_767).contains(&time.as_secs())).ok_or_else(bad)
        };
        let probes = if probes.is_empty() { Some(KEEP_ALIVE.probes) } else { probes.parse().ok() };
        Ok(Self::On(KeepAlive {
            idle: time(idle, KEEP_ALIVE.idle)?,
            interval: time(interval, KEEP_ALIVE.interval)?,
            probes: probes.filter(|count| (1..=127).contains(count)).ok_or_else(bad)?,
        }))
    }
}

/// A buffer's size in bytes, as the kernel counts it.
///
/// # Errors
/// If it is no size, or none that the kernel can be told.
pub fn buffer(text: &str) -> Result<u32, BadValue> {
    let Size(bytes) = text.parse()?;
    let fits = u32::try_from(bytes).ok().filter(|bytes| (1..=i32::MAX as u32).contains(bytes));
    fits.ok_or_else(|| BadValue::new("write a size from 1 to 2147483647, as in 64K"))
}

/// Permission bits, as chmod(1) takes them.
///
/// # Errors
/// If they are not three octal digits, or four.
pub fn file_mode(text: &str) -> Result<u32, BadValue> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| text.len() <= 4 && *mode <= 0o777);
    mode.ok_or_else(|| BadValue::new("write permissions in octal, as in 660"))
}
