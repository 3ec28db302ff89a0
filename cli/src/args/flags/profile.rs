//! `nearside node profile`, as typed.

use audit::Kernel;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use console::{Intended, ProfileTask, Strictness};
use profile::{Huge, Target, Version, Wanted};
use std::path::PathBuf;

#[derive(Args)]
pub(in crate::args) struct ProfileArgs {
    #[command(subcommand)]
    task: TypedProfile,
}

#[derive(Subcommand)]
enum TypedProfile {
    /// Write the files of a low-latency node, each line with its reason
    ///
    /// Cores, siblings, domains and memory are this machine's, or those of --root.
    /// What a node would refuse is refused here: cores in two sets or in none,
    /// siblings on two sides, more pages than a domain has memory for.
    Render(RenderArgs),
    /// Judge a set of somebody's files as one: each line, and what contradicts what
    Explain(FilesArgs),
    /// Hold a node against the files that were to make it: command line, cores, pages, services
    ///
    /// Exit status: 4 if something is not as the files want it; with --strict also if the node does not tell.
    Check {
        /// The files, or a folder of them
        #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath, num_args = 1.., required = true)]
        files: Vec<PathBuf>,

        /// The node: what record printed there, or a folder with its proc/ and sys/ [default: this machine]
        #[arg(long = "node", alias = "root", value_name = "PATH", value_hint = ValueHint::AnyPath)]
        root: Option<PathBuf>,

        /// The cluster's version, for what its operator writes by itself
        #[arg(long = "cluster", value_name = "VERSION", default_value_t = Version::CURRENT)]
        version: Version,

        /// End with status 4 also where the node does not tell
        #[arg(long)]
        strict: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Judge pods for a node of low latency: whole cores, annotations, pages of one domain
    ///
    /// With the PerformanceProfile among the files, pods are held against it, too.
    Pod(FilesArgs),
}

#[derive(Args)]
struct FilesArgs {
    /// The files, or a folder of them
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath, num_args = 1.., required = true)]
    files: Vec<PathBuf>,

    /// The machine that it is for: what record printed there, or a folder with its proc/ and sys/
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    root: Option<PathBuf>,

    /// The kernel that the files are for, as 5.14 [default: this machine's, or that of --root]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<Kernel>,

    /// The cluster's version: what came and went with it (OpenShift) [default: whichever is the later]
    #[arg(long, value_name = "VERSION")]
    cluster: Option<Version>,

    /// End with status 4 also where the catalogue does not know a setting or a command
    #[arg(long)]
    strict: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct RenderArgs {
    /// Who takes the files
    #[arg(long = "for", value_name = "TARGET", value_enum)]
    target: TypedTarget,

    /// The folder to write them to; it must be empty or not be there [default: print them]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Cores for pollers [default: all that are not reserved]
    #[arg(long, value_name = "CORES", value_parser = cores, default_value = "", hide_default_value = true)]
    isolated: Cores,

    /// Cores for everything else [default: the first core of each domain]
    #[arg(long, value_name = "CORES", value_parser = cores, default_value = "", hide_default_value = true)]
    reserved: Cores,

    /// Huge pages: SIZE:COUNT, divided among domains, or SIZE:COUNT@DOMAIN; several with commas
    #[arg(long, value_name = "PAGES", value_delimiter = ',')]
    huge: Vec<Huge>,

    /// The profile's name
    #[arg(long, value_name = "NAME", default_value = "low-latency")]
    name: String,

    /// The pool of machines that gets it (OpenShift)
    #[arg(long, value_name = "POOL", default_value = "worker-cnf")]
    pool: String,

    /// The cluster's version: 4.10 to 5.2 (OpenShift)
    #[arg(long = "cluster", value_name = "VERSION", default_value_t = Version::CURRENT)]
    version: Version,

    /// With the real-time kernel (OpenShift)
    #[arg(long)]
    realtime_kernel: bool,

    /// Do without the operator's hint for real time, which turns all machine checks off, and write out what else it
    /// stands for (OpenShift)
    #[arg(long)]
    machine_checks: bool,

    /// Also switch monitoring, network diagnostics and console off, in files of their own (OpenShift)
    #[arg(long)]
    laboratory: bool,

    /// Make virtual functions of this interface (OpenShift)
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    sriov: Option<String>,

    /// Set the clock by PTP over this interface, and stop chronyd (OpenShift)
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    ptp: Option<String>,

    /// For another machine: what record printed there, or a folder with its proc/ and sys/
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    root: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedTarget {
    /// Manifests: PerformanceProfile and what it leaves open
    Openshift,
    /// A profile of tuned
    Tuned,
    /// Units, sysctl.d, tmpfiles.d
    Systemd,
    /// Arguments of the kernel's command line
    Grub,
}

#[derive(Clone)]
struct Cores(Vec<u32>);

fn cores(text: &str) -> Result<Cores, String> {
    audit::cpu_list(text).map(Cores).ok_or_else(|| format!("{text} is no list of cores as 2-15,18-31"))
}

/// A name that the kernel would take, and that means nothing else in YAML.
fn interface(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match !text.is_empty() && text.len() < 16 && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("is no interface's name".to_owned()),
    }
}

impl ProfileArgs {
    /// The task, the machine, and whether JSON is asked for.
    pub(super) fn meant(self) -> (ProfileTask, Option<PathBuf>, bool) {
        match self.task {
            TypedProfile::Render(typed) => {
                let target = match typed.target {
                    TypedTarget::Openshift => Target::OpenShift,
                    TypedTarget::Tuned => Target::Tuned,
                    TypedTarget::Systemd => Target::Systemd,
                    TypedTarget::Grub => Target::Grub,
                };
                let wanted = Wanted {
                    name: typed.name,
                    pool: typed.pool,
                    isolated: typed.isolated.0,
                    reserved: typed.reserved.0,
                    huge: typed.huge,
                    version: typed.version,
                    realtime_kernel: typed.realtime_kernel,
                    machine_checks: typed.machine_checks,
                    laboratory: typed.laboratory,
                    sriov: typed.sriov,
                    ptp: typed.ptp,
                };
                (ProfileTask::Render { wanted: Box::new(wanted), target, out: typed.out }, typed.root, false)
            }
            TypedProfile::Explain(FilesArgs { files, root, kernel, cluster, strict, json }) => {
                (ProfileTask::Explain(files, Intended { kernel, cluster }, strictness(strict)), root, json)
            }
            TypedProfile::Pod(FilesArgs { files, root, kernel, cluster, strict, json }) => {
                (ProfileTask::Pod(files, Intended { kernel, cluster }, strictness(strict)), root, json)
            }
            TypedProfile::Check { files, root, version, strict, json } => {
                (ProfileTask::Check { files, version, strictness: strictness(strict) }, root, json)
            }
        }
    }
}

const fn strictness(strict: bool) -> Strictness {
    if strict { Strictness::Strict } else { Strictness::Usual }
}
