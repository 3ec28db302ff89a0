//! Why nothing is changed.

use core::fmt;
use std::io;

/// A reason for which nothing was changed. What a person can do about it
/// stands in its text.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// Settings are the host's.
    Container(String),
    /// Somebody else writes them, and would undo or report this.
    Managed(String),
    /// No core would be left for everything else.
    NoHousekeeping(String),
    /// A right is missing.
    Rights {
        /// The file.
        path: String,
        /// What the kernel says.
        why: io::Error,
    },
    /// A file cannot be replaced so that it could be put back.
    File {
        /// The file.
        path: String,
        /// What the file system says, or what it is.
        why: io::Error,
    },
    /// Another process changes settings now.
    Locked,
    /// A value is another than the plan found.
    Changed {
        /// The setting.
        path: String,
        /// As the plan has it.
        found: String,
        /// As it is.
        now: String,
    },
    /// A plan waits for its confirmation.
    Pending(String),
    /// A plan ended in the middle.
    Unfinished(String),
    /// Nothing is to be changed.
    Empty,
    /// Files of the system are not for writing.
    Image,
    /// The next boot cannot be another for once.
    Boot(String),
    /// There is no journal that it could be about.
    NoJournal(&'static str),
    /// A setting cannot be named or have this value.
    Setting(String),
    /// A journal cannot be read or written.
    Journal(io::Error),
    /// The process that would undo it cannot be started.
    Guard(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(by) => write!(
                f,
                "this is a container ({by}): its settings are the host's, set them \
                there; if it is none, a machine that was made of one's image, say --not-a-container"
            ),
            Self::Managed(by) => write!(
                f,
                "{by} manages this node, and would undo the changes or report them as drift: give it a profile \
                    instead"
            ),
            Self::NoHousekeeping(what) => write!(f, "{what} would leave no core for the kernel and other programs"),
            Self::Rights { path, why } => {
                let right = if path.starts_with("systemd/") {
                    "a systemd that runs here, has this unit, and lets this user start and stop it (root)"
                } else if path.starts_with("ethtool/") {
                    "root, or CAP_NET_ADMIN in the user namespace of its network namespace, and a driver that can it"
                } else if path.starts_with("proc/sys/net/") {
                    "root, or CAP_NET_ADMIN in the user namespace of its network namespace"
                } else {
                    "root, on a file system that is not mounted read-only"
                };
                write!(f, "/{path} cannot be written ({why}): it takes {right}")
            }
            Self::File { path, why } => write!(f, "/{path} cannot be replaced and put back: {why}"),
            Self::Locked => f.write_str("another nearside node changes settings now: wait for it to end"),
            Self::Changed { path, found, now } => {
                write!(f, "/{path} is {now} now, where the plan found {found}: make a new plan")
            }
            Self::Pending(plan) => {
                write!(f, "plan {plan} waits for its confirmation: nearside node confirm, or undo")
            }
            Self::Unfinished(plan) => write!(f, "plan {plan} ended in the middle: nearside node undo first"),
            Self::Empty => f.write_str("there is nothing to change"),
            Self::Image => f.write_str(
                "the system is an ostree image: files belong into the image or its configuration's \
                    source",
            ),
            Self::Boot(why) => f.write_str(why),
            Self::NoJournal(what) => f.write_str(what),
            Self::Setting(why) => f.write_str(why),
            Self::Journal(why) => write!(f, "the journal cannot be kept ({why}): nothing was changed"),
            Self::Guard(why) => write!(f, "what would undo it cannot be started ({why}): nothing was changed"),
        }
    }
}

impl std::error::Error for Refusal {}
