//! `nearside node`, as typed.

use apply::PersistTo;
use audit::{Kernel, Role};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use console::{NodePlan, NodeTask, NoisePlan, Trial, Tuning};
use host::Cores;
use host::values::nonzero_duration;
use std::path::PathBuf;
use std::time::Duration;

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
    /// something is, contradicts another setting, is refused or is not there
    /// any more, 5 if something is dangerous.
    Audit(AuditArgs),
    /// Say what is true of a setting, and where that is written
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
    /// Print what would change on this machine for a role: steps, reasons, commands, risks
    ///
    /// Nothing is changed, and no right is needed. The plan's id is a hash of
    /// its steps and of the values they found.
    Plan {
        #[command(flatten)]
        tuning: TuningArgs,

        /// Look at another machine: a folder with its proc/ and sys/, or what record printed
        #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
        root: Option<PathBuf>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a plan true, as it was printed
    ///
    /// Each change stands in a journal (/var/lib/nearside-node) before it is made
    /// and is read back after it; if one fails, all are undone. Values of run
    /// time end with the boot. On a node that tuned or OpenShift's operators
    /// manage nothing is changed: what they take instead is printed.
    Apply {
        /// The id that plan printed
        #[arg(value_name = "ID")]
        id: String,

        #[command(flatten)]
        tuning: TuningArgs,

        /// Undo it after this time, unless nearside node confirm comes before [default: 120s, if a
        /// step may drop the connection by which you work here; else never]
        #[arg(long = "try", value_name = "TIME", value_parser = nonzero_duration, conflicts_with = "persist")]
        trial: Option<Duration>,

        /// Let it stay whatever happens
        #[arg(long, conflicts_with = "trial")]
        no_try: bool,

        /// Write files for every boot, and show them, instead of changing what is in force
        #[arg(long, value_name = "WHERE", value_enum)]
        persist: Option<TypedPersist>,

        /// Change another machine's files: a folder with its proc/ and sys/
        #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        root: Option<PathBuf>,
    },
    /// Put back what the last plan changed, also if it ended in the middle
    ///
    /// What somebody else wrote since is told and left alone. Exit status: 4 if
    /// something is not as it was before the plan.
    Undo {
        /// Undo every plan, the last first
        #[arg(long)]
        all: bool,

        /// Put back also what somebody else wrote since
        #[arg(long)]
        force: bool,

        /// Change another machine's files: a folder with its proc/ and sys/
        #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        root: Option<PathBuf>,
    },
    /// Let a plan stay that would undo itself
    Confirm {
        /// Change another machine's files: a folder with its proc/ and sys/
        #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        root: Option<PathBuf>,
    },
    /// Name what takes a busy core's time: interrupts, threads, other cores, the hypervisor
    ///
    /// A loop on each core notices when its core was away. With root, or CAP_PERFMON,
    /// tracepoints name every gap; without, only page faults of the loop and other
    /// threads are told apart. Exit status: 3 if a core is not as quiet as --expect asks.
    Noise(NoiseArgs),
    /// Files that make a node one of low latency: written, judged, held against a node
    Profile(super::profile::ProfileArgs),
    /// Wait for a confirmation, and undo a plan that gets none; apply starts it
    #[command(hide = true)]
    Guard {
        #[arg(long)]
        journal: String,
        #[arg(long)]
        seconds: u64,
        #[arg(long)]
        root: Option<PathBuf>,
    },
}

#[derive(Args)]
struct NoiseArgs {
    /// The cores, as in 2,3 or 4-7: each has a thread that is always busy
    #[arg(long, value_name = "LIST", value_parser = pinned)]
    cores: Pinned,

    /// How long
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = nonzero_duration)]
    time: Duration,

    /// What takes longer is a gap
    #[arg(long, value_name = "TIME", default_value = "2us", value_parser = nonzero_duration)]
    threshold: Duration,

    /// How quiet each core must be: max<TIME, share<PERCENT%, rate<GAPS per second; separated by
    /// commas
    #[arg(long, value_name = "BOUNDS", value_parser = bounds)]
    expect: Option<Bounds>,

    /// Run the loops before all that share time (SCHED_FIFO), at this priority
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,

    /// Do not ask for tracepoints: what looking costs is then next to nothing, and gaps have fewer
    /// names
    #[arg(long)]
    plain: bool,

    /// Have the kernel's own tracer osnoise tell what it finds, too: where there is one, and nobody
    /// else runs it. Each disturbance then costs about twice as much
    #[arg(long, conflicts_with = "plain")]
    osnoise: bool,

    /// Write a line of JSON for every gap
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    gaps: Option<PathBuf>,

    /// Write what was found to this file, as one page of HTML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A list, as one value.
#[derive(Clone)]
struct Bounds(Vec<noise::Bound>);

/// Cores that loops are pinned to.
#[derive(Clone)]
struct Pinned(Vec<u16>);

fn pinned(text: &str) -> Result<Pinned, String> {
    match text.parse::<Cores>() {
        Ok(Cores::List(cores)) => Ok(Pinned(cores)),
        _ => Err("write cores as in 0-3,8".to_owned()),
    }
}

fn bounds(text: &str) -> Result<Bounds, String> {
    noise::Bound::parse_list(text).map(Bounds).map_err(|why| why.to_string())
}

#[derive(Args)]
struct TuningArgs {
    /// What the machine is for [default: web-kernel; with apply, the role that the id is of]
    #[arg(long, value_enum)]
    role: Option<TypedRole>,

    /// Change just this: a sysctl, a rule that explain lists, of one thing as RULE@THING, or
    /// 'service NAME=start' and stop; the only way to a dangerous value
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, conflicts_with = "except")]
    only: Vec<(String, String)>,

    /// Leave this rule out
    #[arg(long, value_name = "KEY")]
    except: Vec<String>,

    /// This is no container, though it looks like one: a machine that was made of a container's image
    #[arg(long)]
    not_a_container: bool,
}

impl TuningArgs {
    fn meant(self) -> Tuning {
        Tuning {
            role: self.role.map(TypedRole::meant),
            only: self.only,
            except: self.except,
            no_container: self.not_a_container,
        }
    }
}

/// `KEY=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("is not KEY=VALUE".to_owned()),
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedPersist {
    /// Sysctls in /etc/sysctl.d
    #[value(name = "sysctl.d")]
    SysctlD,
    /// The same; what is in sysfs in /etc/tmpfiles.d, what is a driver's in /etc/udev/rules.d
    Systemd,
    /// A profile of tuned, on top of the one in force
    Tuned,
    /// Arguments of the kernel's command line, as a second entry of grub's menu that is booted once
    Grub,
}

#[derive(Args)]
struct AuditArgs {
    /// What the machine is for
    #[arg(long, value_enum, default_value_t = TypedRole::WebKernel)]
    role: TypedRole,

    /// Judge another machine: a folder with its proc/ and sys/, or what record printed
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    root: Option<PathBuf>,

    /// Judge these files instead of what is in force: sysctl.conf, tuned.conf, limits.conf, a kernel
    /// command line, nginx.conf, manifests of Kubernetes and OpenShift, commands of a shell
    #[arg(long = "of", value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1..)]
    of: Vec<PathBuf>,

    /// The kernel that the files are for, as 4.18 [default: this machine's, or that of --root]
    #[arg(long, value_name = "VERSION", requires = "of")]
    kernel: Option<Kernel>,

    /// Print also what is as it should be
    #[arg(long, conflicts_with = "json")]
    all: bool,

    /// End with status 4 also where the catalogue does not know a setting or a command
    #[arg(long)]
    strict: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write everything as a page to this file, and print its name
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["json", "all"])]
    html: Option<PathBuf>,
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

impl TypedRole {
    const fn meant(self) -> Role {
        match self {
            Self::Web => Role::Web,
            Self::WebKernel => Role::WebKernel,
            Self::Load => Role::Load,
            Self::Forwarder => Role::Forwarder,
            Self::Mixed => Role::Mixed,
        }
    }
}

impl NodeArgs {
    pub(super) fn plan(self) -> NodePlan {
        let (task, root, json) = match self.task {
            TypedTask::Audit(AuditArgs { role, root, of, kernel, all, strict, json, html }) => {
                (NodeTask::Audit { role: role.meant(), of, kernel, all, strict, html }, root, json)
            }
            TypedTask::Explain { key, json } => (NodeTask::Explain(key), None, json),
            TypedTask::Record { root } => (NodeTask::Record, root, false),
            TypedTask::Plan { tuning, root, json } => (NodeTask::Plan(tuning.meant()), root, json),
            TypedTask::Apply { id, tuning, trial, no_try, persist, root } => {
                let trial = match trial {
                    // Parts of a second count as one.
                    Some(time) => Trial::Seconds(time.as_secs() + u64::from(time.subsec_nanos() > 0)),
                    None if no_try => Trial::No,
                    None => Trial::Default,
                };
                let persist = persist.map(|to| match to {
                    TypedPersist::SysctlD => PersistTo::SysctlD,
                    TypedPersist::Systemd => PersistTo::Systemd,
                    TypedPersist::Tuned => PersistTo::Tuned,
                    TypedPersist::Grub => PersistTo::Grub,
                });
                (NodeTask::Apply { id, tuning: tuning.meant(), trial, persist }, root, false)
            }
            TypedTask::Noise(NoiseArgs { cores, time, threshold, expect, fifo, plain, osnoise, gaps, html, json }) => {
                let plan = noise::Plan { cores: cores.0, time, threshold, fifo, plain, osnoise };
                let expect = expect.map_or_else(Vec::new, |bounds| bounds.0);
                (NodeTask::Noise(Box::new(NoisePlan { plan, expect, gaps, html })), None, json)
            }
            TypedTask::Undo { all, force, root } => (NodeTask::Undo { all, force }, root, false),
            TypedTask::Confirm { root } => (NodeTask::Confirm, root, false),
            TypedTask::Profile(profile) => {
                let (task, root, json) = profile.meant();
                (NodeTask::Profile(task), root, json)
            }
            TypedTask::Guard { journal, seconds, root } => (NodeTask::Guard { journal, seconds }, root, false),
        };
        NodePlan { task, root, json }
    }
}
