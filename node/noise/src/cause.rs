//! What takes a core's time from a thread that never gives it away.

use core::fmt;
use std::sync::Arc;

/// A name that many events share.
pub type Name = Arc<str>;

/// What a stretch of time went to.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// A device's interrupt.
    Interrupt {
        /// As in `/proc/interrupts`.
        number: u32,
        /// The handler's name.
        name: Name,
    },
    /// A softirq, by its name in `/proc/softirqs`.
    Softirq(Name),
    /// Another thread.
    Thread {
        /// Its number.
        thread: u32,
        /// Its name.
        name: Name,
        /// What a worker of the kernel did, where that is known.
        work: Option<Name>,
    },
    /// An interrupt from another core.
    Ipi {
        /// Of which kind.
        kind: Vector,
        /// The function that was to be called, where that is known.
        function: Option<Name>,
    },
    /// The scheduler's own timer interrupt.
    Tick,
    /// Another timer's interrupt: the function that it called, where that is
    /// known.
    Timer(Option<Name>),
    /// An interrupt that cannot be masked.
    Nmi,
    /// System management: the firmware had all cores.
    Smi,
    /// Page faults of the thread itself.
    PageFault,
    /// A change of the core's frequency.
    Frequency,
    /// A machine check.
    MachineCheck,
    /// Nothing ran: the thread was not allowed to, or waited.
    Held,
    /// Nothing of this kernel's, in an interval in which the hypervisor took
    /// time for others.
    Stolen,
    /// Nothing that this kernel tells of.
    Unknown,
}

/// Interrupts that come neither from devices nor from a device's line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Vector {
    /// The core's own timer.
    LocalTimer,
    /// Another core wants this one to schedule.
    Reschedule,
    /// Another core wants a function to be called, on several cores.
    CallFunction,
    /// The same, on this one.
    CallFunctionSingle,
    /// The platform's own, such as a hypervisor's.
    Platform,
    /// The core is too hot.
    Thermal,
    /// An error that was corrected.
    Threshold,
    /// An error, or an interrupt that nobody sent.
    Error,
}

impl Vector {
    const fn name(self) -> &'static str {
        match self {
            Self::LocalTimer => "local timer",
            Self::Reschedule => "reschedule",
            Self::CallFunction => "call function (several cores)",
            Self::CallFunctionSingle => "call function",
            Self::Platform => "platform",
            Self::Thermal => "thermal",
            Self::Threshold => "corrected error",
            Self::Error => "error",
        }
    }
}

/// Kinds of causes: a program's word for each.
impl Cause {
    /// The kind, without which it was.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Interrupt { .. } => "interrupt",
            Self::Softirq(_) => "softirq",
            Self::Thread { .. } => "thread",
            Self::Ipi { .. } => "ipi",
            Self::Tick => "tick",
            Self::Timer(_) => "timer",
            Self::Nmi => "nmi",
            Self::Smi => "smi",
            Self::PageFault => "page-fault",
            Self::Frequency => "frequency",
            Self::MachineCheck => "machine-check",
            Self::Held => "held",
            Self::Stolen => "none-of-ours",
            Self::Unknown => "unknown",
        }
    }

    /// Whether `other` says the same more exactly.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ipi { kind, function: None }, Self::Ipi { kind: same, function: Some(_) }) => kind == same,
            (Self::Thread { thread, work: None, .. }, Self::Thread { thread: same, work: Some(_), .. }) => {
                thread == same
            }
            // What an interrupt of the timer does beside calling functions.
            (Self::Timer(None), Self::Timer(Some(_)) | Self::Tick) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupt { number, name } => write!(f, "interrupt {number} ({name})"),
            Self::Softirq(name) => write!(f, "softirq {name}"),
            Self::Thread { thread: u32::MAX, .. } => f.write_str("another thread: which one is not permitted to see"),
            Self::Thread { thread, name, work: None } => write!(f, "thread {name} ({thread})"),
            Self::Thread { name, work: Some(work), .. } => write!(f, "thread {name} ({work})"),
            Self::Ipi { kind, function: None } => write!(f, "IPI {}", kind.name()),
            Self::Ipi { kind, function: Some(function) } => write!(f, "IPI {}: {function}", kind.name()),
            Self::Tick => f.write_str("tick"),
            Self::Timer(None) => f.write_str("timer"),
            Self::Timer(Some(function)) => write!(f, "timer {function}"),
            Self::Nmi => f.write_str("NMI"),
            Self::Smi => f.write_str("SMI"),
            Self::PageFault => f.write_str("page fault"),
            Self::Frequency => f.write_str("frequency change"),
            Self::MachineCheck => f.write_str("machine check"),
            Self::Held => f.write_str("held back: nothing ran (quota, real-time throttling, or it waited)"),
            Self::Stolen => f.write_str("none of ours: steal rose in this interval"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
