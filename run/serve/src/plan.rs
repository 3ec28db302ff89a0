//! What `serve` is to do, over either data path.

use host::values::BadValue;
use host::{Cores, HostPlan, Workers};
use server::SyslogPlace;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use sockets::{Config, Endpoint, ListenOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What `serve` is asked to do.
#[derive(Clone, Debug)]
pub struct ServePlan {
    /// What is served, and how.
    pub server: server::Config,
    /// By which data path.
    pub path: ServePath,
    /// The options that it is made of.
    pub settings: Settings,
    /// Only say whether all is as it should be.
    pub check: bool,
    /// Whom the process that serves is to be, and under whom.
    pub privileges: Privileges,
    /// What signals mean.
    pub signals: SignalRules,
    /// Where the process id goes.
    pub pid_file: Option<PathBuf>,
    /// Where its own lines go.
    pub error_log: ErrorLogs,
    /// Where metrics, and whether it lives and is ready, are told over HTTP.
    pub metrics: Option<SocketAddr>,
    /// What it is asked to do now, by the same command line and the file that
    /// this names, or the file that is given in its place; or what is wrong with
    /// them, a sentence for the user.
    pub again: fn(Option<File>) -> Result<Self, String>,
}

/// Where lines of the process go beside standard error.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ErrorLogs {
    /// The file that standard error leads to, to be opened again with the logs.
    pub file: Option<PathBuf>,
    /// The servers of logs that are told, too.
    pub syslog: Vec<SyslogErrors>,
    /// The least that standard error is told, by nginx's numbers; `None`: all.
    pub level: Option<u8>,
}

/// A server of logs that is told of the process's own lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyslogErrors {
    /// Where it is, and how it is told.
    pub place: SyslogPlace,
    /// The least that it is told, by nginx's numbers: 4 `error`, 8 `debug`.
    pub level: u8,
}

/// What signals that end a process mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SignalRules {
    /// SIGTERM and SIGINT: once to drain, twice to end.
    #[default]
    Own,
    /// As nginx's: SIGQUIT drains, SIGTERM and SIGINT end.
    Nginx {
        /// It has no terminal, whose window changes its size: SIGWINCH drains.
        daemon: bool,
    },
}

impl SignalRules {
    /// Signals that stop, and how often each counts: once drains, twice ends.
    pub(crate) const fn stops(self) -> &'static [(i32, usize)] {
        match self {
            Self::Own => &[(SIGTERM, 1), (SIGINT, 1)],
            Self::Nginx { daemon: false } => &[(SIGTERM, 2), (SIGINT, 2), (SIGQUIT, 1)],
            Self::Nginx { daemon: true } => &[(SIGTERM, 2), (SIGINT, 2), (SIGQUIT, 1), (SIGWINCH, 1)],
        }
    }
}

impl ServePlan {
    /// Whether it is to serve, and not only to tell.
    #[must_use]
    pub const fn serves(&self) -> bool {
        let plan_only = matches!(&self.path, ServePath::Link { host, .. } if host.plan_only);
        !self.check && !plan_only
    }
}

/// Whom the process that serves is to be, and under whom.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Privileges {
    /// The user, as typed; `None`: nobody in particular, if it is root, or who
    /// it is.
    pub user: Option<String>,
    /// A parent stays that opens what the process that serves may not.
    pub supervise: bool,
}

/// How connections reach the server.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for a process")]
pub enum ServePath {
    /// Over a link and our own stack.
    Link {
        /// Links, addresses and silos.
        host: HostPlan,
        /// What is listened on.
        listen: Box<PortPlan>,
        /// The most bytes of content held in more than one NUMA domain;
        /// `None`: the usual.
        copies: Option<usize>,
        /// How to restart; `None` where another process cannot have the links.
        restart: Option<Box<RestartPlan>>,
        /// Where the plan is only printed: as JSON.
        json: bool,
    },
    /// Over kernel sockets.
    Kernel(KernelPlan),
}

/// What is listened on over links.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortPlan {
    /// These ports, on every address; no port twice.
    pub everywhere: Vec<u16>,
    /// And these of some addresses only; one that is unspecified stands for all
    /// of its family.
    pub at: Vec<SocketAddr>,
}

impl PortPlan {
    /// All ports, each once.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        let all = self.everywhere.iter().copied().chain(self.at.iter().map(SocketAddr::port));
        all.collect::<BTreeSet<u16>>().into_iter().collect()
    }

    /// Whether connections to this address are accepted.
    #[must_use]
    pub fn takes(&self, address: SocketAddr) -> bool {
        let same = |door: &SocketAddr| {
            door.ip() == address.ip() || door.ip().is_unspecified() && door.is_ipv4() == address.is_ipv4()
        };
        self.everywhere.contains(&address.port())
            || self.at.iter().any(|door| door.port() == address.port() && same(door))
    }
}

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
    /// Where the program of the accept model cannot be had, workers take from one queue
    /// (`exclusive`); else the kernel's hash deals connections out.
    pub or_shared: bool,
    /// Niceness of workers' threads, -20 to 19, if it is not this process's own.
    pub nice: Option<i32>,
    /// Options of listening sockets.
    pub options: ListenOptions,
    /// Where the statistics page lies; `None`: the usual place.
    pub status_page: Option<PathBuf>,
    /// The priority of workers' threads, if it is a real-time one.
    pub fifo: Option<u8>,
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

/// Every option as it is set: by the command line, the file, or its default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Where some of them are.
    pub file: Option<PathBuf>,
    /// By name; those not set are not here.
    pub given: BTreeMap<String, Vec<String>>,
}

impl Settings {
    /// The names of those that differ from `other`'s.
    pub fn differing(&self, other: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.given.keys().chain(other.given.keys()).collect();
        names.into_iter().filter(|name| self.given.get(*name) != other.given.get(*name)).cloned().collect()
    }

    /// Takes `name` from `other`.
    pub fn adopt(&mut self, name: &str, other: &Self) {
        match other.given.get(name) {
            Some(values) => _ = self.given.insert(name.to_owned(), values.clone()),
            None => _ = self.given.remove(name),
        }
    }
}
