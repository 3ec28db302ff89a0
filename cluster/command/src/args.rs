//! The command line.

use clap::{Args, Parser, Subcommand, ValueHint};
use core::time::Duration;
use std::path::PathBuf;

/// What the exit code says, for the help.
const EXIT_CODES: &str =
    "A file is a LoadTest, or a NodeAudit: then each node is audited by a pod, and all are compared.

Exit code:
  0  measured, and what the test expects is met; or each node has answered, and is as is expected
  1  it could not run, or could not write what it measured
  2  the command line or the test's file makes no sense
  3  an objective is missed, or nodes are not as is expected
  4  nothing to go by: no response came in the measured window, or no connection to the server was left at its end;
     or there is no node to audit
  5  INVALID: a worker was late, lost, throttled, saturated or otherwise not what it was to be; or a node is without
     an answer; it is named
  6  with strict: the figures cannot be trusted
  130  it was interrupted; what was measured until then is printed";

/// What is left open, for the help.
const RENDER_NOTES: &str = "The test's token, its controller's address and the values of secrets are not known
before it runs: words in brackets stand for them.

Exit code:
  0  printed
  1  the test's file, or one that it names, cannot be read
  2  the command line or the test's file makes no sense";

/// What is read of a cluster, for the help.
const EXPLAIN_NOTES: &str = "Without files the four kinds are read from the cluster, as far as it has them: that needs
the right to list performanceprofiles, tuneds, kubeletconfigs and machineconfigs; --audit that to list configmaps.
Nodes are taken to be of the pools that the manifests are for.

Exit code:
  0  explained; and in force on each node, as far as it can be seen
  1  a file, or the cluster, cannot be read
  2  the command line makes no sense
  3  something is not in force on a node
  4  with --strict: something is not known";

/// What a plan is, for the help.
const PLAN_NOTES: &str =
    "A value is for all nodes of the pool: where nodes want different ones, or another one is right
on one of them, it stays as it is, and that is said. Nothing is changed: that is for kubectl apply -f -.

Exit code:
  0  printed
  1  audits cannot be read, or nodes have different profiles of tuned
  2  the command line makes no sense
  4  there is nothing to change";

/// What an operator leaves, for the help.
const OPERATE_NOTES: &str =
    "Its rights are those of the Role that nearside cluster install prints, in that namespace alone.
Of several operators of a namespace one runs its tests, and the others wait for its Lease.

Exit code:
  0  it was stopped (SIGTERM, Ctrl-C): tests go on, for the next operator to go on with
  1  it could not begin, or another operator took its place";

/// Generate one load by many workers, and judge it as one; audit many nodes, and compare them.
#[derive(Parser)]
#[command(name = "nearside cluster", bin_name = "nearside cluster", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One call of the program.
#[derive(Subcommand)]
pub enum Command {
    /// Run a test, or an audit of nodes: make its workers ready, begin at one time, add up what they measure
    #[command(after_help = EXIT_CODES)]
    Run(RunArgs),
    /// Print the objects of Kubernetes that a test would be: nothing is made, and no cluster is asked
    #[command(after_help = RENDER_NOTES)]
    Render(RenderArgs),
    /// Run the tests, or audits, of a namespace that are objects of the cluster, until it is stopped
    #[command(after_help = OPERATE_NOTES)]
    Operate(OperateArgs),
    /// Print the objects of Kubernetes that the operator is: for kubectl apply -f -
    Install(InstallArgs),
    /// Compare audits of many nodes: which are alike, which are not and in what, and what changed
    Audits(AuditsArgs),
    /// Explain manifests of OpenShift's Node Tuning Operator line by line, and say what of them is in force
    #[command(after_help = EXPLAIN_NOTES)]
    Explain(ExplainArgs),
    /// Print a Tuned of OpenShift's operator with what audits of a pool's nodes would have changed
    #[command(after_help = PLAN_NOTES)]
    Plan(PlanArgs),
    /// Audit the node that this pod is on, for whoever asked for it
    #[command(hide = true)]
    AuditNode(AuditNodeArgs),
}

/// What `audit-node` is asked to do.
#[derive(Args)]
pub struct AuditNodeArgs {
    /// The node's name
    #[arg(long, value_name = "NAME")]
    pub node: String,

    /// What it is for, as nearside node audit has it
    #[arg(long, value_name = "ROLE")]
    pub role: String,

    /// A folder with the node's proc/ and sys/
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,

    /// The folder with the token, and with where its controller is
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub controller_folder: PathBuf,

    /// How long the controller may be away
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub patience: Duration,
}

fn patience(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').and_then(|digits| digits.parse().ok());
    seconds.map(Duration::from_secs).ok_or_else(|| "write seconds, as in 120s".to_owned())
}

/// What `audits` is asked to do.
#[derive(Args)]
pub struct AuditsArgs {
    /// What nearside node audit --json printed on each node, in a file named after the node
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
    pub audits: Vec<PathBuf>,

    /// Say what changed since earlier audits, in files of the same names in this folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub before: Option<PathBuf>,

    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Whose audits are looked at.
#[derive(Args)]
pub struct NodesArgs {
    /// Nodes whose audits are in this folder, in files named after the nodes
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub reports: Option<PathBuf>,

    /// Nodes of this NodeAudit, by what its operator keeps of each
    #[arg(long, value_name = "NAME", value_parser = spec::name, conflicts_with = "reports")]
    pub audit: Option<String>,

    /// The namespace of that audit [default: the context's, else default]
    #[arg(long, value_name = "NAME", value_parser = spec::name, requires = "audit")]
    pub namespace: Option<String>,

    /// Where the cluster is [default: KUBECONFIG, a pod's own account, or ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,

    /// Which context of it, in place of the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// What `plan` is asked to do.
#[derive(Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub nodes: NodesArgs,

    /// The pool of these nodes, as in machineconfiguration.openshift.io/role
    #[arg(long, value_name = "NAME", value_parser = spec::name, default_value = "worker")]
    pub pool: String,

    /// The name of the Tuned, and of its profile
    #[arg(long, value_name = "NAME", value_parser = spec::name, default_value = "nearside")]
    pub name: String,

    /// Print JSON, in place of YAML
    #[arg(long)]
    pub json: bool,
}

/// What `explain` is asked to do.
#[derive(Args)]
pub struct ExplainArgs {
    /// PerformanceProfiles, Tuneds, KubeletConfigs, MachineConfigs in YAML [default: those of the cluster]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub nodes: NodesArgs,

    /// Print only what is not in force somewhere, or not known
    #[arg(long)]
    pub differing: bool,

    /// End with status 4 also where something is not known
    #[arg(long)]
    pub strict: bool,

    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `operate` is asked to do.
#[derive(Args)]
pub struct OperateArgs {
    /// Where the cluster is [default: KUBECONFIG, a pod's own account, or ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,

    /// Which context of it, in place of the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// The namespace whose tests are run [default: the account's or context's, else default]
    #[arg(long, value_name = "NAME", value_parser = spec::name)]
    pub namespace: Option<String>,

    /// The image with the programs, where a test names none
    #[arg(long, value_name = "IMAGE", value_parser = spec::image)]
    pub image: Option<String>,

    /// Run its audits of nodes, in place of its tests
    #[arg(long)]
    pub audits: bool,

    /// A name by which pods find this process, and the next one in its place [default: its own address]
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub host: Option<String>,
}

/// What `install` is asked to do.
#[derive(Args)]
pub struct InstallArgs {
    /// The namespace of the operator and of its tests
    #[arg(long, value_name = "NAME", value_parser = spec::name, default_value = "nearside")]
    pub namespace: String,

    /// Install the operator of audits of nodes, in place of that of tests
    #[arg(long)]
    pub audits: bool,

    /// Let the account of audits list what OpenShift's Node Tuning Operator reads and writes: for explain in its pod
    #[arg(long, requires = "audits")]
    pub explain: bool,

    /// The image with the programs: the operator's, and that of workers whose test names none
    #[arg(long, value_name = "IMAGE", value_parser = spec::image)]
    pub image: String,

    /// Print a List in JSON, in place of documents of YAML
    #[arg(long)]
    pub json: bool,
}

/// What `render` is asked to do.
#[derive(Args)]
pub struct RenderArgs {
    /// The test or audit, a LoadTest or NodeAudit in YAML
    #[arg(value_name = "SPEC", value_hint = ValueHint::FilePath)]
    pub spec: PathBuf,

    /// The image with the programs, in place of the test's
    #[arg(long, value_name = "IMAGE", value_parser = spec::image)]
    pub image: Option<String>,

    /// The namespace [default: the test's, else default]
    #[arg(long, value_name = "NAME", value_parser = spec::name)]
    pub namespace: Option<String>,

    /// Print a List in JSON, in place of documents of YAML
    #[arg(long)]
    pub json: bool,
}

/// What `run` is asked to do.
#[derive(Args)]
pub struct RunArgs {
    /// The test or audit, a LoadTest or NodeAudit in YAML
    #[arg(value_name = "SPEC", value_hint = ValueHint::FilePath)]
    pub spec: PathBuf,

    /// Have processes of this machine as workers, in place of pods of a cluster
    #[arg(long)]
    pub local: bool,

    /// Where the cluster is [default: KUBECONFIG, a pod's own account, or ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "local")]
    pub kubeconfig: Option<PathBuf>,

    /// Which context of it, in place of the current one
    #[arg(long, value_name = "NAME", conflicts_with = "local")]
    pub context: Option<String>,

    /// The namespace [default: the test's, else the context's, else default]
    #[arg(long, value_name = "NAME", value_parser = spec::name, conflicts_with = "local")]
    pub namespace: Option<String>,

    /// The image with the programs, in place of the test's
    #[arg(long, value_name = "IMAGE", value_parser = spec::image, conflicts_with = "local")]
    pub image: Option<String>,

    /// Where pods find this process, which listens on that port [default: its own address towards the API server]
    #[arg(long, value_name = "HOST:PORT", value_parser = address, conflicts_with = "local")]
    pub address: Option<String>,

    /// Look for secrets in this folder, in files FOLDER/SECRET/KEY, as pods have them [default: the cluster's]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub secrets: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// Write one JSON object per interval of all workers to this file, as the run goes on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ndjson: Option<PathBuf>,

    /// Write the result to this file, as one page of HTML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Write the audit of each node to this folder, in a file named after the node
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub reports: Option<PathBuf>,

    /// Say what changed since earlier audits of nodes, which --reports wrote to this folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub before: Option<PathBuf>,

    /// Say nothing while it runs
    #[arg(long)]
    pub quiet: bool,
}

fn host(text: &str) -> Result<String, String> {
    port_of(&format!("{text}:1"))
        .ok()
        .filter(|_| !text.contains(':'))
        .map(|_| text.to_owned())
        .ok_or_else(|| format!("{text:?} is no name as in nearside-operator.load.svc"))
}

fn address(text: &str) -> Result<String, String> {
    port_of(text).map(|_| text.to_owned())
}

/// The port of a place where workers look for their controller, which has a name or an address before it.
///
/// # Errors
/// If it has none.
pub fn port_of(place: &str) -> Result<u16, String> {
    let parts =
        place.rsplit_once(':').filter(|(host, _)| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic()));
    let port = parts.and_then(|(_, port)| port.parse().ok()).filter(|port| *port > 0);
    port.ok_or_else(|| format!("{place:?} is no address as in 192.0.2.7:7000"))
}

/// Reads the process's own command line. Where it asks for help, or makes no sense, this says so and ends the process.
pub fn from_env() -> Command {
    Cli::parse().command
}
