//! `nearside node`, as typed.

use crate::args::{NodePlan, NodeTask};
use audit::Role;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::args) struct NodeArgs {
    #[command(subcommand)]
    task: TypedTask,
}

#[derive(Subcommand)]
enum TypedTask {
    /// Judge this machine's settings, or somebody's advice, by rules with sources
    ///
    /// Exit status: 0 if nothing is worse than the kernel's defaults, 4 if
    /// something is, contradicts another setting or is not there any more,
    /// 5 if something is dangerous.
    #[command(after_help = "EXAMPLES
  nearside node audit --role web
  nearside node audit --of /etc/sysctl.d/99-tuning.conf --all
  nearside node record > node.txt; nearside node audit --root node.txt --json")]
    Audit(AuditArgs),
    /// Say what is true of a setting, and where that is written
    #[command(after_help = "EXAMPLES
  nearside node explain net.ipv4.tcp_tw_reuse
  nearside node explain 'cmdline idle'")]
    Explain {
        /// The setting, as audit names it [default: list them all]
        #[arg(value_name = "KEY")]
        key: Option<String>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what audit looks at, to be judged elsewhere with --root
    Record {
        /// Look at another machine: a folder with its proc/ and sys/
        #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        root: Option<PathBuf>,
    },
}

#[derive(Args)]
struct AuditArgs {
    /// What the machine is for
    #[arg(long, value_enum, default_value_t = TypedRole::WebKernel)]
    role: TypedRole,

    /// Judge another machine: a folder with its proc/ and sys/, or what record printed
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    root: Option<PathBuf>,

    /// Judge these files instead of what is in force: sysctl.conf, tuned.conf, limits.conf, a
    /// kernel command line
    #[arg(long = "of", value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1..)]
    of: Vec<PathBuf>,

    /// Print also what is as it should be
    #[arg(long, conflicts_with = "json")]
    all: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedRole {
    /// A web server on the bypass path
    Web,
    /// A web server on kernel sockets
    WebKernel,
    /// A load generator on kernel sockets
    Load,
    /// A packet forwarder or tester
    Forwarder,
    /// A Kubernetes node with pods of several kinds
    Mixed,
}

impl NodeArgs {
    pub(super) fn plan(self) -> NodePlan {
        match self.task {
            TypedTask::Audit(AuditArgs { role, root, of, all, json }) => {
                let role = match role {
                    TypedRole::Web => Role::Web,
                    TypedRole::WebKernel => Role::WebKernel,
                    TypedRole::Load => Role::Load,
                    TypedRole::Forwarder => Role::Forwarder,
                    TypedRole::Mixed => Role::Mixed,
                };
                NodePlan { task: NodeTask::Audit { role, of, all }, root, json }
            }
            TypedTask::Explain { key, json } => NodePlan { task: NodeTask::Explain(key), root: None, json },
            TypedTask::Record { root } => NodePlan { task: NodeTask::Record, root, json: false },
        }
    }
}
