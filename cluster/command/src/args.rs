//! The command line.

use clap::{Args, Parser, Subcommand, ValueHint};
use std::path::PathBuf;

/// What the exit code says, for the help.
const EXIT_CODES: &str = "Exit code:
  0  measured, and what the test expects is met
  1  it could not run, or could not write what it measured
  2  the command line or the test's file makes no sense
  3  an objective is missed
  4  nothing to go by: no response came in the measured window, or no connection to the server was left at its end
  5  INVALID: a worker was late, lost, throttled, saturated or otherwise not what it was to be; it is named
  6  with strict: the figures cannot be trusted
  130  it was interrupted; what was measured until then is printed";

/// Generate one load by many workers, and judge it as one.
#[derive(Parser)]
#[command(name = "nearside cluster", bin_name = "nearside cluster", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One call of the program.
#[derive(Subcommand)]
pub enum Command {
    /// Run a test: make its workers ready, begin at one time, add up what they measure
    #[command(after_help = EXIT_CODES)]
    Run(RunArgs),
}

/// What `run` is asked to do.
#[derive(Args)]
pub struct RunArgs {
    /// The test, a LoadTest in YAML
    #[arg(value_name = "SPEC", value_hint = ValueHint::FilePath)]
    pub spec: PathBuf,

    /// Have processes of this machine as workers
    #[arg(long, required = true)]
    pub local: bool,

    /// Look for secrets in this folder, in files FOLDER/SECRET/KEY, as pods have them
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

    /// Say nothing while it runs
    #[arg(long)]
    pub quiet: bool,
}

/// Reads the process's own command line. Where it asks for help, or makes no sense, this says so and ends the process.
pub fn from_env() -> Command {
    Cli::parse().command
}
