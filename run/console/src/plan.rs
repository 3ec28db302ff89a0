//! What the commands here are asked to do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What `numa` is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub struct NumaPlan {
    /// The page to read; `None`: those of all running processes.
    pub page: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
    /// Print the machine's topology.
    pub topology: bool,
    /// And measure between its domains first.
    pub measure: bool,
    /// Where its page goes.
    pub html: Option<PathBuf>,
    /// Where its picture goes.
    pub svg: Option<PathBuf>,
    /// Print what sysfs says of it.
    pub record: bool,
    /// Another machine's; `None`: this one's.
    pub root: Option<PathBuf>,
    /// Print what a rate costs.
    pub budget: Option<BudgetPlan>,
}

/// Which rate, and of which machine.
#[derive(Clone, PartialEq, Debug)]
pub struct BudgetPlan {
    /// The rate, and how it is sent.
    pub ask: budget::BudgetAsk,
    /// A machine of published figures: its name, or a file.
    pub published: Option<PathBuf>,
    /// Which ports and disks carry content.
    pub carriers: budget::CarrierChoice,
}

/// What `node` is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub struct NodePlan {
    /// Which of its tasks.
    pub task: NodeTask,
    /// Another machine's files; `None`: this one's.
    pub root: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
}

/// A task of `node`.
#[derive(Clone, PartialEq, Debug)]
pub enum NodeTask {
    /// Judge what is in force, or files.
    Audit {
        /// What the machine is for.
        role: audit::Role,
        /// The files; none: what is in force.
        of: Vec<PathBuf>,
        /// The kernel that the files are for.
        kernel: Option<audit::Kernel>,
        /// Print also what is as it should be.
        all: bool,
        /// What is not known counts as a fault.
        strict: bool,
        /// Write a page to this file instead.
        html: Option<PathBuf>,
    },
    /// Say what is true of a setting; `None`: list them.
    Explain(Option<String>),
    /// Print what audit looks at.
    Record,
    /// Print what would change.
    Plan(Tuning),
    /// Make a plan true.
    Apply {
        /// The plan's id.
        id: String,
        /// Which plan.
        tuning: Tuning,
        /// Whether it undoes itself unless it is confirmed.
        trial: Trial,
        /// Write files instead.
        persist: Option<apply::PersistTo>,
    },
    /// Put back what was changed.
    Undo {
        /// Every plan, not only the last.
        all: bool,
        /// Also what somebody else wrote since.
        force: bool,
    },
    /// Let a plan stay that would undo itself.
    Confirm,
    /// Name what takes busy cores' time.
    Noise(Box<NoisePlan>),
    /// Something of profiles.
    Profile(ProfileTask),
    /// Undo a plan that nobody confirms; what apply starts.
    Guard {
        /// The plan's journal.
        journal: String,
        /// How long to wait.
        seconds: u64,
    },
}

/// What `node noise` is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub struct NoisePlan {
    /// The run.
    pub plan: noise::Plan,
    /// How quiet the cores must be.
    pub expect: Vec<noise::Bound>,
    /// Where each gap is written to.
    pub gaps: Option<PathBuf>,
    /// Where the page goes.
    pub html: Option<PathBuf>,
}

/// A task of `node profile`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProfileTask {
    /// Write files.
    Render {
        /// What for.
        wanted: Box<profile::Wanted>,
        /// For whom.
        target: profile::Target,
        /// Where to; `None`: print them.
        out: Option<PathBuf>,
    },
    /// Judge files as a set.
    Explain(Vec<PathBuf>, Intended, Strictness),
    /// Judge the pods in files.
    Pod(Vec<PathBuf>, Intended, Strictness),
    /// Hold a node against files.
    Check {
        /// The files.
        files: Vec<PathBuf>,
        /// The cluster's version.
        version: profile::Version,
        /// What the node does not tell counts as a fault.
        strictness: Strictness,
    },
}

/// What "not known" is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strictness {
    /// Told and counted.
    #[default]
    Usual,
    /// A fault.
    Strict,
}

/// What somebody's files are for, where that is not the machine at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Intended {
    /// The kernel.
    pub kernel: Option<audit::Kernel>,
    /// The cluster's version.
    pub cluster: Option<profile::Version>,
}

/// Which settings a plan is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// What the machine is for; `None`: web-kernel for a plan, whichever fits
    /// the id for apply.
    pub role: Option<audit::Role>,
    /// Just these settings; none: all that the role's rules would change.
    pub only: Vec<(String, String)>,
    /// Rules that are left out.
    pub except: Vec<String>,
    /// What looks like a container is none.
    pub no_container: bool,
}

/// Whether a plan undoes itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trial {
    /// If a step may cut the connection, after 120 s.
    Default,
    /// After so many seconds.
    Seconds(u64),
    /// Never.
    No,
}

/// What `watch` is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchPlan {
    /// In which form.
    pub form: WatchForm,
    /// The line of each interval.
    pub line: bool,
    /// Each core's row.
    pub cores: bool,
    /// Each domain's.
    pub domains: bool,
    /// Each interface's.
    pub ports: bool,
    /// A process's.
    pub pid: Option<u32>,
    /// What of it costs it time; without a process calls of malloc, of everybody.
    pub tracing: Tracing,
    /// The length of an interval.
    pub interval: Duration,
    /// How many; `None`: until somebody ends it.
    pub count: Option<u64>,
    /// Count the machine's system calls.
    pub syscalls: bool,
    /// Where metrics are asked for.
    pub openmetrics: Option<SocketAddr>,
    /// Where samples are written to.
    pub record: Option<PathBuf>,
    /// Where the page goes, of what is recorded or replayed.
    pub html: Option<PathBuf>,
    /// Where samples come from instead of this machine.
    pub replay: Option<PathBuf>,
    /// Another machine's files.
    pub root: Option<PathBuf>,
}

/// How `watch` shows what it sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchForm {
    /// Live where there is a terminal; else as text.
    Best,
    /// Lines and tables.
    Text,
    /// JSON, a line for each interval.
    Ndjson,
}

/// What is looked at of a process that costs it time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tracing {
    /// Its system calls.
    pub syscalls: bool,
    /// Its receives from sockets.
    pub receives: bool,
    /// Its calls of malloc.
    pub mallocs: bool,
    /// The functions that it is in.
    pub symbols: bool,
    /// Who called them.
    pub graphs: bool,
}
