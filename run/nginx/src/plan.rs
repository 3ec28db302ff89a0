//! What the command line says.

use std::path::PathBuf;

/// One call of `nginx`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NginxPlan {
    /// `-p`: what paths are relative to.
    pub prefix: Option<PathBuf>,
    /// `-c`: the configuration.
    pub configuration: Option<PathBuf>,
    /// `-e`: the error log until the configuration names another.
    pub error_log: Option<PathBuf>,
    /// `-g`: directives that stand before the configuration.
    pub globals: String,
    /// `-q`: nothing but errors is told of a test.
    pub quiet: bool,
    /// What is to be done.
    pub action: NginxAction,
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
        explain: bool,
    },
    /// `-s`: tell the process that serves.
    Signal(NginxSignal),
    /// `-v`, or `-V`.
    Version {
        /// What it is built of, too.
        whole: bool,
    },
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
