//! Why a port could not be opened, in words that lead to a remedy.

use core::fmt;
use ebpf::Cause;
use rustix::io::Errno;
use std::io;

/// What opening an interface needs.
const CAPABILITIES: &str = "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF: run as root, or give them to this one process \
                            (AmbientCapabilities= of systemd, or setpriv --ambient-caps; a file that setcap gives \
                            them to hands the network to all who may run it: chgrp GROUP and chmod 0750 first)";

/// Why a port could not be opened. Nothing is left behind.
#[derive(Debug)]
pub enum XdpError {
    /// There is no such interface in this network namespace.
    NoInterface(String),
    /// The host has no address on the interface, whose ports could be served.
    NoAddress(String),
    /// It is no Ethernet interface, or the kernel does not tell about it.
    Interface {
        /// Its name.
        interface: String,
        /// What was asked for.
        what: &'static str,
        /// The answer.
        source: io::Error,
    },
    /// The process lacks rights: the administrator's to grant.
    NotPermitted {
        /// What it may not do.
        what: &'static str,
    },
    /// The interface has another XDP program: who attached it is to take it
    /// off.
    Attached {
        /// The interface.
        interface: String,
        /// The program's number and name, as far as known.
        program: Option<(u32, String)>,
    },
    /// There is no such queue.
    NoQueue {
        /// The interface.
        interface: String,
        /// The queue that was asked for.
        queue: u32,
        /// How many there are.
        has: u32,
    },
    /// Another AF_XDP socket has the queue: retry when it has gone.
    QueueBusy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
    },
    /// The interface's MTU is too large for a frame, or for the driver.
    Mtu {
        /// The interface.
        interface: String,
        /// Its MTU, in bytes.
        mtu: u32,
        /// The largest that would do; `None` if only the driver knows.
        limit: Option<u32>,
        /// Who sets the limit.
        limits: &'static str,
    },
    /// The driver does not do what was asked for by name.
    Refused {
        /// The interface.
        interface: String,
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        source: Errno,
        /// What to write instead.
        advice: &'static str,
    },
    /// Another socket has a port that is to be served.
    PortTaken {
        /// The port.
        port: u16,
        /// The answer.
        source: io::Error,
    },
    /// The limit on locked memory is too small for the frames.
    LockedMemory {
        /// Bytes that are to be locked.
        bytes: usize,
    },
    /// This kernel has no AF_XDP.
    Absent,
    /// The kernel refuses programs or maps.
    Kernel(ebpf::Error),
    /// The program's text is wrong: ours to mend.
    Assembly(ebpf::AssembleError),
    /// Frames are not stamped: a sentence for the user.
    Stamps(String),
    /// What another process hands over cannot be taken.
    Handover(HandoverError),
    /// The operating system refused.
    System {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: Errno,
    },
}

impl XdpError {
    /// Whether a right is missing, rather than something wrong.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::NotPermitted { .. } => true,
            Self::Kernel(error) => matches!(error.cause, Cause::Capability(_) | Cause::Forbidden),
            _ => false,
        }
    }
}

impl XdpError {
    /// Why an interface's driver does not say when frames came, where that is what
    /// is wrong.
    pub(crate) fn unstamped(interface: &str, why: Self) -> Self {
        match why {
            Self::Kernel(ebpf::Error { cause: Cause::System(Errno::OPNOTSUPP), .. }) => {
                Self::Stamps(format!("{interface}: its driver does not tell programs when a frame came"))
            }
            other => other,
        }
    }
}

impl From<HandoverError> for XdpError {
    fn from(error: HandoverError) -> Self {
        Self::Handover(error)
    }
}

impl From<ebpf::Error> for XdpError {
    fn from(error: ebpf::Error) -> Self {
        Self::Kernel(error)
    }
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface(name) => write!(f, "there is no interface {name}; ip link shows those there are"),
            Self::NoAddress(name) => {
                write!(f, "the host has no address on {name} to serve at; ip addr add, or give one of our own (--addr)")
            }
            Self::Interface { interface, what, source } => write!(f, "cannot {what} {interface}: {source}"),
            Self::NotPermitted { what } => write!(f, "may not {what}; this needs {CAPABILITIES}"),
            Self::Attached { interface, program } => {
                match program {
                    Some((id, name)) if name.is_empty() => {
                        write!(f, "{interface} has an XDP program already: number {id}")?;
                    }
                    Some((id, name)) => write!(f, "{interface} has an XDP program already: {name} (number {id})")?,
                    None => write!(f, "{interface} has an XDP program already")?,
                }
                write!(
                    f,
                    "; end the process that attached it or, if none did, take it off: ip link set dev {interface} xdp \
                     off"
                )
            }
            Self::NoQueue { interface, queue, has } => write!(
                f,
                "{interface} has no queue {queue}: it has {has}, counted from 0 (ethtool -L {interface} changes that)"
            ),
            Self::QueueBusy { interface, queue } => {
                write!(f, "queue {queue} of {interface} belongs to another AF_XDP socket; end its process first")
            }
            Self::Mtu { interface, mtu, limit, limits } => {
                write!(f, "{interface} has an MTU of {mtu}, too large for {limits}")?;
                match limit {
                    Some(limit) => write!(f, "; ip link set dev {interface} mtu {limit}"),
                    None => write!(f, "; lower it (ip link set dev {interface} mtu 3400), or use mode=generic"),
                }
            }
            Self::Refused { interface, what, source, advice } => {
                write!(f, "{interface} refuses {what} ({source}); {advice}")
            }
            Self::PortTaken { port, source } => write!(
                f,
                "port {port} cannot be had ({source}); ss -tlnp 'sport = :{port}' shows the process that listens there"
            ),
            Self::LockedMemory { bytes } => write!(
                f,
                "the limit on locked memory (ulimit -l) is too small for {bytes} bytes of frames; raise it, or ring=64"
            ),
            Self::Absent => f.write_str("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)"),
            Self::Kernel(error) => {
                error.fmt(f)?;
                if self.is_permission() {
                    write!(f, "; a link of this kind needs {CAPABILITIES}")?;
                }
                Ok(())
            }
            Self::Assembly(error) => write!(f, "the XDP program does not assemble: {error}"),
            Self::Stamps(why) => f.write_str(why),
            Self::Handover(error) => error.fmt(f),
            Self::System { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl core::error::Error for XdpError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Kernel(error) => Some(error),
            Self::Handover(error) => Some(error),
            Self::Assembly(error) => Some(error),
            Self::Interface { source, .. } | Self::PortTaken { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why a port changes hands no further. Nothing has changed.
#[derive(Debug)]
pub enum HandoverError {
    /// What was given is no description of a port, or one of another version.
    Terms,
    /// What was given is not what was described: which part.
    Descriptor(&'static str),
    /// The two processes are not to do the same.
    Differ {
        /// In what.
        what: &'static str,
        /// What the running process has.
        theirs: String,
        /// What the new one was asked for.
        ours: String,
    },
    /// A queue did not do its part in time.
    Silent {
        /// The queue, from 0.
        queue: usize,
        /// What it was to do.
        what: &'static str,
    },
    /// A queue's account does not add up.
    Account {
        /// The queue, from 0.
        queue: usize,
    },
    /// The operating system refused.
    System {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: Errno,
    },
}

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terms => f.write_str("what is handed over is described in a way that this version does not know"),
            Self::Descriptor(what) => write!(f, "what was handed over as {what} is none"),
            Self::Differ { what, theirs, ours } => {
                write!(f, "the {what} must be the same: the running process has {theirs}, the new one {ours}")
            }
            Self::Silent { queue, what } => write!(f, "queue {queue} did not {what} in time"),
            Self::Account { queue } => write!(f, "the frames of queue {queue} do not add up"),
            Self::System { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl core::error::Error for HandoverError {}
