//! What the command line says.

use core::time::Duration;
use host::HostPlan;
use serve::RestartPlan;
use server::Prefix;
use sockets::Model;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A graceful end takes as long as requests do, unless it is told how long.
pub const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// One call of `nginx`.
#[derive(Clone, Debug)]
pub struct NginxPlan {
    /// `-p`: what paths are relative to.
    pub prefix: Option<PathBuf>,
    /// `-c`: the configuration.
    pub configuration: Option<PathBuf>,
    /// `-e`: the error log until the configuration names another.
    pub error_log: Option<PathBuf>,
    /// `-g`: directives that stand before the configuration.
    pub globals: String,
    /// Where metrics are told over HTTP.
    pub metrics: Option<SocketAddr>,
    /// `-q`: nothing but errors is told of a test.
    pub quiet: bool,
    /// Our own stack, over links; `None`: kernel sockets.
    pub links: Option<Box<NginxLinks>>,
    /// What is of workers over kernel sockets, and in no configuration.
    pub workers: NginxWorkers,
    /// Clients that may have any part of the connections.
    pub exempt: Vec<Prefix>,
    /// What is to be done.
    pub action: NginxAction,
}

/// What no configuration says of links.
#[derive(Clone, Debug)]
pub struct NginxLinks {
    /// Links, addresses and silos; `worker_connections` says how many connections.
    pub host: HostPlan,
    /// How many silos was said, and `worker_processes` has no say.
    pub counted: bool,
    /// How to restart; `None` where another process cannot have the links.
    pub restart: Option<RestartPlan>,
    /// Memory for blocks of large files, for all silos together; 0: each answer has what is read for it.
    pub media_bytes: usize,
}

/// What no configuration says of workers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NginxWorkers {
    /// How long one polls before it sleeps.
    pub spin: Duration,
    /// Congestion control of new connections; `None`: the system's.
    pub congestion: Option<String>,
    /// Most bytes per second that each connection sends; `None`: no limit.
    pub pacing_rate: Option<u64>,
    /// How long sent data may go unacknowledged; `None`: as the system has it.
    pub user_timeout: Option<Duration>,
    /// Where the statistics page lies; `None`: the usual place.
    pub status_page: Option<PathBuf>,
    /// How they come by connections, wherever it is listened; `None`: as each `listen`
    /// says.
    pub accept: Option<Model>,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NginxAction {
    /// Serve.
    Serve,
    /// `-t`: say whether the configuration is good.
    Test {
        /// `-T`: and print it.
        dump: bool,
        /// And explain what becomes of it.
        explain: Option<ExplainForm>,
    },
    /// `-s`: tell the process that serves.
    Signal(NginxSignal),
    /// `--directives`: print all of them, with what becomes of each.
    Directives,
    /// `-v`, or `-V`.
    Version {
        /// What it is built of, too.
        whole: bool,
    },
}

/// In which form a configuration is explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplainForm {
    /// For people.
    Words,
    /// For programs.
    Json,
}

/// What a process that serves is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NginxSignal {
    /// To end at once.
    Stop,
    /// To end when all requests are answered.
    Quit,
    /// To read its configuration again.
    Reload,
    /// To open its logs again.
    Reopen,
}
