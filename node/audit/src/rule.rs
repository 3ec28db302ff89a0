//! A rule: one setting, what is true of it, and how that is seen.

use crate::{Case, Evidence, Finding};
use serde::Serialize;

/// What a machine is for. Advice that is right for one is wrong for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A web server on the bypass path: polling silos, few system calls.
    Web,
    /// A web server on kernel sockets, Nearside's or another.
    WebKernel,
    /// A load generator on kernel sockets.
    Load,
    /// A packet forwarder or tester: busy polling, tail latency above all.
    Forwarder,
    /// A Kubernetes node that has pods of several of these kinds.
    Mixed,
}

impl Role {
    /// Every role, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Web, Self::WebKernel, Self::Load, Self::Forwarder, Self::Mixed];

    /// As it is written on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::WebKernel => "web-kernel",
            Self::Load => "load",
            Self::Forwarder => "forwarder",
            Self::Mixed => "mixed",
        }
    }

    /// Whether threads of ours poll without sleeping.
    #[must_use]
    pub const fn polls(self) -> bool {
        matches!(self, Self::Web | Self::Forwarder)
    }

    /// Whether requests pass through the kernel's TCP.
    #[must_use]
    pub const fn kernel_tcp(self) -> bool {
        matches!(self, Self::WebKernel | Self::Load | Self::Mixed)
    }
}

/// A set of roles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Roles(u8);

impl Roles {
    /// Every role.
    pub const ALL: Self = Self(0b1_1111);
    /// Those whose traffic goes through the kernel's TCP.
    pub const KERNEL: Self = Self(0b1_0110);
    /// Those whose threads poll.
    pub const POLLING: Self = Self(0b0_1001);
    /// Those that take connections through the kernel.
    pub const KERNEL_SERVER: Self = Self(0b1_0010);

    /// Whether `role` is one of them.
    #[must_use]
    pub const fn has(self, role: Role) -> bool {
        self.0 & (1 << role as u8) != 0
    }
}

/// What a rule says of a value, from harmless to harmful; the order is that
/// of severity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Says nothing of this machine, for the reason given.
    NotApplicable,
    /// Changes nothing for a server like ours.
    NoEffect,
    /// Right, but it is so already or never matters here.
    Unnecessary,
    /// No rule of the catalogue knows it: nothing is said for or against it.
    Unknown,
    /// The evidence could not be read, for the reason given.
    Unreadable,
    /// Another value would serve this role better.
    Improvable,
    /// The kernel does not have it, or not any more.
    Removed,
    /// No value of this setting: the kernel, or whoever reads it, refuses it.
    Refused,
    /// Contradicts another setting, which is named.
    Conflicts,
    /// What the kernel does by itself is better.
    WorseThanDefault,
    /// Breaks or endangers the machine.
    Dangerous,
}

impl Verdict {
    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotApplicable => "not applicable",
            Self::NoEffect => "no effect",
            Self::Unnecessary => "unnecessary here",
            Self::Unknown => "not known",
            Self::Unreadable => "cannot be read",
            Self::Improvable => "improvable",
            Self::Removed => "removed",
            Self::Refused => "refused",
            Self::Conflicts => "conflicts",
            Self::WorseThanDefault => "worse than default",
            Self::Dangerous => "dangerous",
        }
    }
}

/// What a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// `net.core` and everything below TCP.
    Network,
    /// `net.ipv4.tcp_*` and what belongs to it.
    Tcp,
    /// Memory: huge pages, reclaim, placement.
    Memory,
    /// The scheduler, timers, watchdogs, limits of the kernel.
    Kernel,
    /// Frequencies, idle states, siblings, isolation.
    Processor,
    /// Interrupts and where they go.
    Interrupts,
    /// Network interfaces.
    Nic,
    /// The kernel's command line.
    CommandLine,
    /// Services, processes, cgroups and their limits.
    Services,
}

impl Area {
    /// As it is printed above its rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Tcp => "TCP",
            Self::Memory => "memory",
            Self::Kernel => "kernel",
            Self::Processor => "processor",
            Self::Interrupts => "interrupts",
            Self::Nic => "network interfaces",
            Self::CommandLine => "kernel command line",
            Self::Services => "services and processes",
        }
    }
}

/// A figure that shows whether a setting matters on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counter {
    /// A field of `/proc/net/netstat` or `/proc/net/snmp`: protocol and name.
    Net(&'static str, &'static str),
    /// A column of `/proc/net/softnet_stat`, from 0 on, summed over cores, and
    /// what it counts.
    Softnet(usize, &'static str),
    /// A field of `/proc/vmstat`.
    Vm(&'static str),
    /// A field of `/proc/meminfo`, in kB.
    Mem(&'static str),
    /// A whole file, if it is short.
    File(&'static str),
}

/// One thing that a rule was found to apply to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Which one, where there are several: an interface, a process, a domain.
    pub subject: String,
    /// The value in force, or why it cannot be told.
    pub value: Result<String, String>,
}

/// How the value in force is read.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
    /// The file below `/proc/sys` that the rule's key names.
    Sysctl,
    /// One file, by its path below the root.
    File(&'static str),
    /// An argument of `/proc/cmdline`; the value of one that is not there is
    /// empty, and of one without a value its own name.
    Argument(&'static str),
    /// Nothing of a machine has it: it stands in advice only.
    Advice,
    /// Whatever the function finds; nothing found is "not applicable".
    Each(fn(&Evidence) -> Vec<Reading>),
}

/// How a value is judged.
#[derive(Clone, Copy, Debug)]
pub enum Judge {
    /// One value is right; every other deserves the verdict.
    Only(&'static str, Verdict, &'static str),
    /// A number at least so high.
    AtLeast(u64, Verdict, &'static str),
    /// Whatever it is, it changes nothing for a server like ours.
    NoEffect(&'static str),
    /// What it takes to say.
    By(fn(&Case<'_>) -> Finding),
}

/// One setting and what is true of it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name that people know it by; unique in the catalogue.
    pub key: &'static str,
    /// What it is about.
    pub area: Area,
    /// Whom it concerns.
    pub roles: Roles,
    /// First kernel that has it, as (major, minor); (0, 0): all.
    pub since: (u16, u16),
    /// First kernel that has it no more, if any.
    pub until: Option<(u16, u16)>,
    /// How the value in force is read.
    pub probe: Probe,
    /// How it is judged.
    pub judge: Judge,
    /// What shows whether it matters here.
    pub counters: &'static [Counter],
    /// What a better value brings.
    pub gain: &'static str,
    /// What a change may break.
    pub risk: &'static str,
    /// How a change is undone.
    pub undo: &'static str,
    /// Where this is written: kernel file, RFC and section, manual page.
    pub source: &'static str,
    /// What is true of it, for a person.
    pub explain: &'static str,
}

/// Undo of what has one value that can be written back.
pub(crate) const WRITE_BACK: &str = "write the value back that it had";
/// Undo of what is read once, at boot.
pub(crate) const REBOOT: &str = "take it off the command line; the next boot is without it";

/// What is said of a setting whose change nobody would notice.
const NO_GAIN: &str = "none";

impl Rule {
    /// A rule on a sysctl, by its name with dots.
    pub(crate) const fn sysctl(area: Area, key: &'static str, judge: Judge, explain: &'static str) -> Self {
        Self {
            key,
            area,
            roles: Roles::ALL,
            since: (0, 0),
            until: None,
            probe: Probe::Sysctl,
            judge,
            counters: &[],
            gain: NO_GAIN,
            risk: NO_GAIN,
            undo: WRITE_BACK,
            source: "",
            explain,
        }
    }

    /// A rule on a file below the root.
    pub(crate) const fn file(
        area: Area,
        key: &'static str,
        path: &'static str,
        judge: Judge,
        explain: &'static str,
    ) -> Self {
        Self { probe: Probe::File(path), ..Self::sysctl(area, key, judge, explain) }
    }

    /// A rule on an argument of the kernel's command line.
    pub(crate) const fn argument(key: &'static str, name: &'static str, judge: Judge, explain: &'static str) -> Self {
        let rule = Self::sysctl(Area::CommandLine, key, judge, explain);
        Self { probe: Probe::Argument(name), undo: REBOOT, ..rule }
    }

    /// A rule on whatever `probe` finds.
    pub(crate) const fn each(
        area: Area,
        key: &'static str,
        probe: fn(&Evidence) -> Vec<Reading>,
        judge: Judge,
        explain: &'static str,
    ) -> Self {
        Self { probe: Probe::Each(probe), ..Self::sysctl(area, key, judge, explain) }
    }

    pub(crate) const fn roles(self, roles: Roles) -> Self {
        Self { roles, ..self }
    }

    pub(crate) const fn since(self, major: u16, minor: u16) -> Self {
        Self { since: (major, minor), ..self }
    }

    pub(crate) const fn until(self, major: u16, minor: u16) -> Self {
        Self { until: Some((major, minor)), ..self }
    }

    pub(crate) const fn counters(self, counters: &'static [Counter]) -> Self {
        Self { counters, ..self }
    }

    pub(crate) const fn gain(self, gain: &'static str) -> Self {
        Self { gain, ..self }
    }

    pub(crate) const fn risk(self, risk: &'static str) -> Self {
        Self { risk, ..self }
    }

    pub(crate) const fn undo(self, undo: &'static str) -> Self {
        Self { undo, ..self }
    }

    pub(crate) const fn source(self, source: &'static str) -> Self {
        Self { source, ..self }
    }
}
