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

impl FileForm {
    /// What people call such a file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sysctl => "a sysctl.conf",
            Self::Tuned => "a tuned.conf",
            Self::Limits => "a limits.conf",
            Self::CommandLine => "a kernel command line",
            Self::Manifest => "a manifest",
            Self::Script => "a list of commands",
            Self::Nginx => "an nginx.conf",
            Self::Tmpfiles => "a file of tmpfiles.d",
        }
    }
}

/// The line by which a file is not what it looks like most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherLine {
    /// What it looks like.
    pub form: FileForm,
    /// From 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
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
    /// The pools of machines and profiles of tuned that it acts in; empty:
    /// wherever the file is applied.
    pub within: Vec<String>,
}

impl Setting {
    /// File and line.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// Whether there may be a machine on which both act.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.within.is_empty() || other.within.is_empty() || self.within.iter().any(|one| other.within.contains(one))
    }
}

/// Why a file cannot be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdviceError {
    /// It is larger than any file of settings.
    TooLong(String),
    /// Nothing tells what kind of file it is.
    UnknownForm {
        /// The file.
        file: String,
        /// What it looks like most, and the line that is otherwise.
        like: Option<OtherLine>,
    },
    /// It is another program's, which something else here reads.
    OfOthers {
        /// The file.
        file: String,
        /// What it is, and what reads it.
        what: &'static str,
    },
    /// A line is no setting.
    Line {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        why: String,
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
            Self::UnknownForm { file, like } => {
                write!(
                    f,
                    "{file}: neither a sysctl.conf nor a tuned.conf, limits.conf, kernel command line, manifest, \
                     nginx.conf or list of commands, by its name and content"
                )?;
                let Some(OtherLine { form, line, text }) = like else { return Ok(()) };
                let text = crate::text::quoted(text);
                write!(f, "; it looks most like {}, but for line {line}: {text}", form.name())
            }
            Self::OfOthers { file, what } => write!(f, "{file}: {what}"),
            Self::Yaml { file, why } => write!(f, "{file}:{}: {}", why.line, why.why),
            Self::Line { file, line, why } => write!(f, "{file}:{line}: {why}"),
        }
    }
}

impl std::error::Error for AdviceError {}

/// Longer files are refused.
pub(super) const LONGEST: usize = 1 << 20;
