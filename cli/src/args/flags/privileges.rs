//! Whom the process that serves is to be, as typed.

use clap::Args;
use serve::Privileges;

/// What it may do.
#[derive(Args)]
#[command(next_help_heading = "Rights")]
pub(super) struct PrivilegeArgs {
    /// Serve as this user: a name, a number, or UID:GID; root gives nothing up
    /// [default: nobody where root starts it, but over dpdk]
    ///
    /// A process that root starts opens what it needs, and then gives its rights
    /// up for good: it becomes this user with its groups, drops all capabilities,
    /// and no program that it could start would have any. From then on it can
    /// read files below the folder that holds the served one (Landlock), and makes
    /// the system calls of serving alone (seccomp). A parent stays that opens for
    /// it, by the configuration, what comes later: see --supervise. What the user
    /// may not read is said at the start; what this kernel does not have of it,
    /// too, and by --check.
    #[arg(long, value_name = "USER")]
    user: Option<String>,

    /// Leave a small parent that opens for the process that serves, and starts
    /// its successors
    ///
    /// Signals go to the parent: SIGHUP, SIGUSR1, SIGUSR2, SIGTERM mean what they
    /// mean to a process alone. It opens folders, logs and links again, passes
    /// them on, and serves nobody. It ends when the process that serves has, with
    /// that one's exit status (128 and the number of a signal), and starts nothing
    /// by itself. It is always there where root gives its rights up, and as
    /// process 1 of a container, where it takes in processes without a parent.
    #[arg(long)]
    supervise: bool,
}

impl PrivilegeArgs {
    pub(super) fn plan(self) -> Privileges {
        Privileges { user: self.user, supervise: self.supervise }
    }
}
