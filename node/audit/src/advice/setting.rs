//! One setting of a file, and why there is none.

use crate::yaml::YamlError;
use core::fmt;

/// What kind of file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileForm {
    /// `sysctl.conf`, or a file of sysctl.d: `key = value`.
    Sysctl,
    /// A profile of tuned: sections with `key=value`.
    Tuned,
    /// `limits.conf`: domain, type, item, value.
    Limits,
    /// A kernel command line.
    CommandLine,
    /// Kubernetes' or OpenShift's manifests.
    Manifest,
    /// Commands of a shell.
    Script,
    /// nginx's configuration.
    Nginx,
    /// Lines of tmpfiles.d that write into files.
    Tmpfiles,
}

/// One setting of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The name of its rule, if there is one.
    pub key: String,
    /// The value advised.
    pub value: String,
    /// What it is about, where there are several: an interface, a user.
    pub subject: String,
    /// Where it stands.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What kind of file that is.
    pub form: FileForm,
}

impl Setting {
    /// File and line.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// Why a file cannot be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdviceError {
    /// It is larger than any file of settings.
    TooLong(String),
    /// Nothing tells what kind of file it is.
    UnknownForm(String),
    /// A line is no setting.
    Line {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It is no YAML, or not any that is read.
    Yaml {
        /// The file.
        file: String,
        /// Where, and what is wrong.
        why: YamlError,
    },
}

impl fmt::Display for AdviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(file) => write!(
                f,
                "{file}: longer than {} KiB, which no file of settings \
                is",
                LONGEST >> 10
            ),
            Self::UnknownForm(file) => write!(
                f,
                "{file}: neither a sysctl.conf nor a tuned.conf, limits.conf, kernel command line, manifest, \
                    nginx.conf \
                    or list of commands, by its name and content"
            ),
            Self::Yaml { file, why } => write!(f, "{file}:{}: {}", why.line, why.why),
            Self::Line { file, line, why } => write!(f, "{file}:{line}: {why}"),
        }
    }
}

impl std::error::Error for AdviceError {}

/// Longer files are refused.
pub(super) const LONGEST: usize = 1 << 20;
