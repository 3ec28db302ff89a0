//! What `load` is asked to do.

use clap::ValueEnum;
use host::{Cores, HostPlan};
use load::{FindMaxConfig, Objective, Plan, PlayRate, PlayerPlan, StreamingPlan};
use sockets::Engine;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What `load` is asked to do.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// What requests travel over.
    pub path: LoadPath,
    /// What is asked for, and how hard: checked. Where a name is still to be
    /// resolved, its one target address only holds the place.
    pub load: load::Plan,
    /// What is to be found out.
    pub task: Task,
    /// What is to be met.
    pub expect: Vec<Objective>,
    /// What is printed and written.
    pub output: OutputPlan,
    /// What is said before the run.
    pub notes: Vec<String>,
    /// Which part of it is generated, and who wants its figures; none: all of it, and they are printed.
    pub worker: Option<WorkerPlan>,
}

/// The place of a worker among those that generate a load together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerPlan {
    /// Which it is, from zero.
    pub index: u32,
    /// How many there are.
    pub workers: u32,
    /// Where their controller is.
    pub controller: ControllerPlan,
}

/// Where a controller is, with its key and the worker's own token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControllerPlan {
    /// On this machine, at this address; key and token are in the environment.
    Address(SocketAddr),
    /// As files in this folder say, all three of them.
    Folder(PathBuf),
}

/// What requests travel over.
#[derive(Clone, Debug)]
pub enum LoadPath {
    /// A link and our own stack.
    Link(Box<HostPlan>),
    /// Kernel sockets.
    Kernel(LoadSockets),
}

/// Where a server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// At an address and port.
    Address(SocketAddr),
    /// Where name resolution says, at this port.
    Name(String, u16),
    /// Behind a Unix socket.
    Unix(PathBuf),
}

/// Load over kernel sockets.
#[derive(Clone, Debug)]
pub struct LoadSockets {
    /// Where the server is.
    pub place: Place,
    /// Threads; `None`: one for each core.
    pub threads: Option<u32>,
    /// Where they run.
    pub cores: Cores,
    /// How they learn of work.
    pub engine: Engine,
    /// How long they poll before they sleep.
    pub spin: Duration,
    /// Congestion control; `None`: the system's.
    pub congestion: Option<String>,
    /// Most bytes per second that each connection sends; `None`: no limit.
    pub pacing_rate: Option<u64>,
    /// How long sent data may go unacknowledged; `None`: the system's say.
    pub user_timeout: Option<Duration>,
    /// The priority of its threads, if it is a real-time one.
    pub fifo: Option<u8>,
    /// Whether the generator's own floor is measured first.
    pub floor: bool,
}

/// What is to be found out.
#[derive(Clone, Debug)]
pub enum Task {
    /// How one run goes.
    Once,
    /// The highest rate that meets objectives.
    FindMax {
        /// All of them are to be met.
        objectives: Vec<Objective>,
        /// How to search.
        config: FindMaxConfig,
        /// Whose threads are watched, beside our own.
        server: ServerPlan,
    },
    /// How runs differ by connections and threads.
    Sweep(SweepPlan),
    /// What a link carries.
    Bulk(BulkTask),
    /// Whether streams have their rate.
    Stream(StreamTask),
}

/// Streams that are to have a rate: as many as connections.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamTask {
    /// The rate of each.
    pub rate: PlayRate,
    /// How each plays; none: it is held against its rate alone.
    pub player: Option<PlayerPlan>,
    /// Whether each begins with another request.
    pub spread: bool,
}

impl StreamTask {
    /// The same, with what is asked for and where.
    #[must_use]
    pub fn plan(&self, load: &Plan) -> StreamingPlan {
        StreamingPlan { load: load.clone(), rate: self.rate, player: self.player, spread: self.spread }
    }
}

/// Streams without end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BulkTask {
    /// Streams that send.
    pub up: u32,
    /// Streams that receive.
    pub down: u32,
    /// Time before the measured one.
    pub omit: Duration,
    /// The measured time.
    pub duration: Duration,
}

/// A table of runs.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    /// Numbers of connections.
    pub connections: Vec<u32>,
    /// Numbers of threads; empty: as usual.
    pub procs: Vec<u32>,
    /// Where the table goes, comma-separated.
    pub csv: Option<PathBuf>,
    /// Where the server's CPU time is read.
    pub server: ServerPlan,
}

/// Where a server's CPU time is read, or whose waits are watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerPlan {
    /// From the page of the only `nearside serve` on this machine, if there
    /// is one; a search over kernel sockets watches who listens.
    Usual,
    /// From this page.
    Page(PathBuf),
    /// From this process.
    Process(u32),
}

/// What is printed and written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputPlan {
    /// The form of the report.
    pub form: Form,
    /// Where intervals go as JSON.
    pub ndjson: Option<PathBuf>,
    /// Where intervals go as histograms.
    pub hdr_log: Option<PathBuf>,
    /// Where the distribution goes.
    pub hgrm: Option<PathBuf>,
    /// Where the curves are drawn.
    pub svg: Option<PathBuf>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
    /// The length of an interval.
    pub interval: Duration,
    /// How the run is shown while it lasts.
    pub progress: ProgressKind,
    /// Whether figures that cannot be trusted are a failure.
    pub strict: bool,
}

/// The form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Form {
    /// For people, with all that was measured
    Text,
    /// As ApacheBench prints it
    Ab,
    /// As wrk prints it
    Wrk,
    /// Latencies by powers of two
    Histogram,
    /// One JSON object (as --json)
    Json,
}

/// How a run is shown while it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ProgressKind {
    /// Live on a terminal, else lines
    Auto,
    /// The whole terminal
    Live,
    /// A line each second
    Lines,
    /// Nothing
    None,
}
