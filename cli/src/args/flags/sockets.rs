//! Serving over kernel sockets, as typed.

use super::Switch;
use super::host::HostArgs;
use crate::args::kernel::{Probes, buffer, file_mode};
use clap::{Args, ValueEnum, ValueHint};
use host::drivers::take_over_is_for;
use host::values::{self, Size};
use host::{Cores, HostPlan, Workers};
use serve::{Control, KernelPlan, Listen, RestartPlan, TakeOver};
use sockets::{Config, Engine, ListenOptions, Model, StreamOptions};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// Workers and their sockets.
#[derive(Args)]
#[command(next_help_heading = "Kernel sockets (without --link)")]
pub(super) struct SocketArgs {
    /// Serve with this many workers: a number, or auto for one per core
    ///
    /// auto counts the cores that this process may use, and no more than a quota
    /// of its control group (cpu.max, cpu.cfs_quota_us) keeps busy, rounded up;
    /// what limits it is said at the start.
    #[arg(long, value_name = "N|auto", default_value = "auto", conflicts_with = "link")]
    workers: Workers,

    /// Pin workers to these cores, by turns, as in 0-3,8; or none, not to pin
    /// [default: all that this process may use; under a quota of processor time none]
    #[arg(long, value_name = "LIST|none", conflicts_with = "link")]
    cores: Option<Cores>,

    /// How workers come by new connections
    #[arg(long, value_enum, value_name = "MODEL", default_value_t = Accept::Reuseport, conflicts_with = "link")]
    accept: Accept,

    /// How a worker learns what its sockets have for it: auto, epoll or
    /// io_uring
    ///
    /// io_uring needs Linux 6.1. It costs more processor time than epoll where
    /// clients open a connection for each request and send it only after a
    /// while. auto takes the faster one that this kernel and the accept model
    /// allow; what was taken, and why, is said at the start.
    #[arg(long, value_name = "ENGINE", default_value = "auto", conflicts_with = "link")]
    engine: Engine,

    /// Let this many connections wait to be accepted, per queue
    ///
    /// The kernel cuts it to net.core.somaxconn. Too small: handshakes are
    /// dropped in a burst, and come again after a second.
    #[arg(long, value_name = "N", default_value_t = 4_096, conflicts_with = "link",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    backlog: u32,

    /// Accept a connection only when its first data is there, or after this
    /// time (TCP_DEFER_ACCEPT, as nginx's deferred)
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration, conflicts_with = "link")]
    defer_accept: Option<Duration>,

    /// Take data with the handshake, for this many handshakes under way
    /// (TCP_FASTOPEN, RFC 7413, as nginx's fastopen=)
    #[arg(long, value_name = "N", conflicts_with = "link",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    fast_open: Option<u32>,

    /// Take no IPv4 on [::] (IPV6_V6ONLY, as nginx's ipv6only=on)
    #[arg(long, conflicts_with = "link")]
    ipv6_only: bool,

    /// The permissions of a Unix socket's file, as in 660 [default: as the
    /// umask says]
    #[arg(long, value_name = "OCTAL", value_parser = file_mode, conflicts_with = "link")]
    unix_mode: Option<u32>,

    /// Let small writes leave at once (TCP_NODELAY, as nginx's tcp_nodelay)
    #[arg(long, value_enum, value_name = "on|off", default_value_t = Switch::On, conflicts_with = "link")]
    no_delay: Switch,

    /// Let a head and the file behind it share packets (TCP_CORK, as nginx's
    /// tcp_nopush)
    #[arg(long, value_enum, value_name = "on|off", default_value_t = Switch::On, conflicts_with = "link")]
    no_push: Switch,

    /// Probe silent connections: off, on, or IDLE:INTERVAL:PROBES as in
    /// 30m:10s:9 (SO_KEEPALIVE, as nginx's so_keepalive)
    #[arg(long, value_name = "off|on|TIMES", default_value = "off", conflicts_with = "link")]
    so_keepalive: Probes,

    /// The send buffer's size (SO_SNDBUF, as nginx's sndbuf=) [default: the
    /// kernel adapts it]
    #[arg(long, value_name = "SIZE", value_parser = buffer, conflicts_with = "link")]
    sndbuf: Option<u32>,

    /// The receive buffer's size (SO_RCVBUF, as nginx's rcvbuf=) [default: the
    /// kernel adapts it]
    #[arg(long, value_name = "SIZE", value_parser = buffer, conflicts_with = "link")]
    rcvbuf: Option<u32>,

    /// Poll the network device for this long where nothing has arrived
    /// (SO_BUSY_POLL)
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration, conflicts_with = "link")]
    busy_poll: Option<Duration>,

    /// Hold at most this many unsent bytes in the kernel (TCP_NOTSENT_LOWAT)
    #[arg(long, value_name = "SIZE", value_parser = buffer, conflicts_with = "link")]
    notsent_lowat: Option<u32>,

    /// Send files that are larger than this by sendfile(2), and hold smaller
    /// ones in memory
    ///
    /// Those in memory are copies of one state of the file. A larger one that
    /// is written over in place while it is sent arrives mixed, as with any
    /// server that uses sendfile(2): replace files by renaming others over them.
    #[arg(long, value_name = "SIZE", default_value = "16K", conflicts_with_all = ["link", "respond"])]
    sendfile_above: Size,
}

/// Restarts without a request lost.
#[derive(Args, Default)]
#[command(next_help_heading = "Restart (without --link, or over af_xdp)")]
pub(super) struct RestartArgs {
    /// Take the listening sockets, or the queues of an interface, over from a
    /// running process: the one whose control socket this is, or the only one
    /// there is
    ///
    /// It serves on until this one does; then it accepts no more, answers each
    /// connection's next request with Connection: close, and ends when there
    /// are none. SIGUSR2 has a running process start its successor like this,
    /// from the same file with the same arguments. Over af_xdp both need the
    /// same links, ports and addresses, Linux 6.4, and a queue for each silo;
    /// nobody receives for the moment between the two, and how long that was is
    /// said. Other links cannot be taken over.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, value_hint = ValueHint::FilePath)]
    take_over: Option<Option<PathBuf>>,

    /// Listen for a successor here; off: there will be none
    /// [default: one per process, where --take-over finds it]
    #[arg(long, value_name = "SOCKET|off", value_hint = ValueHint::FilePath)]
    control: Option<Control>,

    /// Give a successor this long to serve; then it is ended, and this process
    /// serves on [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    restart_timeout: Option<Duration>,

    /// After a successor took over, finish responses and wait for silent
    /// connections for this long, then reset what is left [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    restart_drain: Option<Duration>,

    /// Write the process id into this file once it serves
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) pid_file: Option<PathBuf>,
}

/// How long a successor may take, and the connections that it leaves.
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);
const RESTART_DRAIN: Duration = Duration::from_secs(3_600);

/// Whether another process can have the links.
///
/// # Errors
/// Why it cannot; a sentence for the user.
pub(super) fn hands_over(host: &HostPlan) -> Result<(), String> {
    if !host.links.first().is_some_and(|link| link.driver.kind().hands_over) {
        Err(take_over_is_for())
    } else if host.capture.is_some() {
        Err("--capture cannot go on in another process".to_owned())
    } else if host.faults.is_some() {
        Err("frames that are harmed on purpose stay with a process".to_owned())
    } else if host.speaks_lacp() {
        // The new process would begin to negotiate anew.
        Err("ports of --bond lacp stay with a process".to_owned())
    } else {
        Ok(())
    }
}

impl RestartArgs {
    pub(super) fn plan(self) -> RestartPlan {
        RestartPlan {
            take_over: self.take_over.map(|path| path.map_or(TakeOver::Only, TakeOver::At)),
            control: self.control.unwrap_or_default(),
            timeout: self.restart_timeout.unwrap_or(RESTART_TIMEOUT),
            drain: self.restart_drain.unwrap_or(RESTART_DRAIN),
        }
    }

    /// What is meant over links; `None`: these cannot change hands.
    ///
    /// # Errors
    /// If it was asked for all the same.
    pub(super) fn plan_over(self, host: &HostPlan) -> Result<Option<RestartPlan>, String> {
        let Err(why) = hands_over(host) else { return Ok(Some(self.plan())) };
        let asked = [
            ("--take-over", self.take_over.is_some()),
            ("--control", self.control.is_some_and(|control| control != Control::Off)),
            ("--restart-timeout", self.restart_timeout.is_some()),
            ("--restart-drain", self.restart_drain.is_some()),
        ];
        match asked.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(format!("{name}: {why}")),
            None => Ok(None),
        }
    }
}

/// Accept models, as they are named here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Accept {
    /// One queue; workers wait in accept and serve one connection at a time, the longest waiting one first
    Blocking,
    /// One queue in every worker's epoll: all that wait are woken for each connection
    Epoll,
    /// One queue with EPOLLEXCLUSIVE (Linux 4.5): the worker that went to sleep last is woken
    Exclusive,
    /// A queue per worker (Linux 3.9), chosen by the kernel's hash of addresses and ports
    Reuseport,
    /// A queue per worker, chosen by eBPF (Linux 4.19): of the receiving core, else of its NUMA domain, else any
    Local,
    /// A queue per worker, chosen by eBPF (Linux 5.5): the least loaded one of the domain
    Least,
}

impl From<Accept> for Model {
    fn from(accept: Accept) -> Self {
        match accept {
            Accept::Blocking => Self::Blocking,
            Accept::Epoll => Self::Epoll,
            Accept::Exclusive => Self::Exclusive,
            Accept::Reuseport => Self::Reuseport,
            Accept::Local => Self::Local,
            Accept::Least => Self::Least,
        }
    }
}

impl SocketArgs {
    /// The largest file to be held in memory.
    pub(super) fn cached_max(&self) -> Result<usize, String> {
        usize::try_from(self.sendfile_above.0).map_err(|_| "--sendfile-above is too large".to_owned())
    }

    pub(super) fn plan(
        self,
        restart: RestartArgs,
        listen: Vec<Listen>,
        host: HostArgs,
        max_connections: u32,
    ) -> Result<KernelPlan, String> {
        host.without_link()?;
        let spin = host.spin()?;
        let keep_alive = match self.so_keepalive {
            Probes::Off => None,
            Probes::On(times) => Some(times),
        };
        let stream = StreamOptions {
            no_delay: self.no_delay == Switch::On,
            no_push: self.no_push == Switch::On,
            keep_alive,
            send_buffer: self.sndbuf,
            receive_buffer: self.rcvbuf,
            pacing_rate: host.max_pacing_rate.map(NonZeroU64::get),
            busy_poll: self.busy_poll,
            congestion: host.congestion,
            user_timeout: host.user_timeout,
            no_keep_alive: false,
            not_sent_low_water: self.notsent_lowat,
        };
        let options = ListenOptions {
            backlog: self.backlog,
            defer_accept: self.defer_accept,
            fast_open: self.fast_open,
            v6_only: self.ipv6_only,
            unix_mode: self.unix_mode,
            ..ListenOptions::default()
        };
        let cores = match self.cores {
            None => Cores::Allowed,
            Some(cores) => cores,
        };
        let mut config = Config { engine: self.engine, model: self.accept.into(), stream, spin, ..Config::default() };
        config.max_connections = max_connections as usize;
        Ok(KernelPlan {
            listen,
            workers: self.workers,
            cores,
            config,
            or_shared: false,
            nice: None,
            options,
            status_page: host.status_page,
            fifo: host.fifo,
            restart: restart.plan(),
        })
    }
}
