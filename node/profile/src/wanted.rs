//! What is asked for, and whether a machine can have it.

use crate::cores::list;
use crate::shape::{Shape, Vendor};
use core::fmt;
use core::str::FromStr;

/// A version of OpenShift: 4.10 to 5.2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version(pub u8, pub u8);

impl Version {
    /// The first one rendered: the profile is published for it.
    pub const FIRST: Self = Self(4, 10);
    /// The last one that is known here.
    pub const CURRENT: Self = Self(5, 2);
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('.').and_then(|(major, minor)| Some(Self(major.parse().ok()?, minor.parse().ok()?)));
        let version = parts.ok_or_else(|| format!("{text} is no version as 4.18"))?;
        let known = (Self::FIRST..=Self::CURRENT).contains(&version) && !(version.0 == 4 && version.1 > 23);
        if known { Ok(version) } else { Err(format!("{version} is not known here: 4.10 to 4.23, 5.0 to 5.2")) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Sizes of huge pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PageSize {
    /// 2 MiB: at run time, too.
    M2,
    /// 1 GiB: at boot, while memory is in one piece.
    G1,
}

impl PageSize {
    /// As the kernel's command line has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::M2 => "2M",
            Self::G1 => "1G",
        }
    }

    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::M2 => 2 << 20,
            Self::G1 => 1 << 30,
        }
    }
}

/// Huge pages, of the whole machine or of one domain: `1G:20`, `1G:10@0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Huge {
    /// Their size.
    pub size: PageSize,
    /// How many.
    pub count: u64,
    /// Of which domain; else divided evenly.
    pub domain: Option<u32>,
}

impl FromStr for Huge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not SIZE:COUNT or SIZE:COUNT@DOMAIN, as 1G:20 and 2M:512@0");
        let (size, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (count, domain) = rest.split_once('@').map_or((rest, None), |(count, domain)| (count, Some(domain)));
        let size = match size {
            "1G" => PageSize::G1,
            "2M" => PageSize::M2,
            _ => return Err(format!("{size} is no size of huge pages: 1G or 2M")),
        };
        let domain = domain.map(|domain| domain.parse::<u32>().map_err(|_| wrong())).transpose()?;
        Ok(Self { size, count: count.parse().map_err(|_| wrong())?, domain })
    }
}

/// What somebody asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The profile's name: small letters, digits and hyphens.
    pub name: String,
    /// The pool of machines that gets it (OpenShift).
    pub pool: String,
    /// Cores for pollers; empty: all that are not reserved.
    pub isolated: Vec<u32>,
    /// Cores for everything else; empty: the first core of each domain, with
    /// its siblings.
    pub reserved: Vec<u32>,
    /// Huge pages.
    pub huge: Vec<Huge>,
    /// The cluster's version.
    pub version: Version,
    /// Whether nodes get the real-time kernel.
    pub realtime_kernel: bool,
    /// Whether machine checks stay on, which the operator turns off with its
    /// hint for real time.
    pub machine_checks: bool,
    /// Also what switches a laboratory's services off.
    pub laboratory: bool,
    /// An interface to make virtual functions of.
    pub sriov: Option<String>,
    /// An interface whose clock follows PTP.
    pub ptp: Option<String>,
}

/// Why there is no profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProfileError {
    /// The machine's cores are not told.
    NoCores,
    /// A name that an object cannot have.
    Name(String),
    /// A core that the machine does not have.
    NotThere(u32),
    /// A core on two sides.
    Both(u32),
    /// A core on no side.
    Neither(Vec<u32>),
    /// Siblings on two sides.
    Siblings(u32, u32),
    /// No core is left for everything else, or for pollers.
    Empty(&'static str),
    /// Pages that do not divide evenly.
    Uneven(Huge, usize),
    /// More pages than memory.
    Memory(u32, u64, u64),
    /// A domain that the machine does not have.
    NoDomain(u32),
    /// The real-time kernel without the hint for real time.
    Hint,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCores => f.write_str("the machine's cores are not told: no sys/devices/system/cpu/online"),
            Self::Name(name) => {
                write!(f, "{name}: a name has small letters, digits and hyphens, and at most 40 of them")
            }
            Self::NotThere(core) => {
                write!(f, "the machine has no core {core}; --root takes a recording of another one")
            }
            Self::Both(core) => write!(f, "core {core} is both isolated and reserved"),
            Self::Neither(cores) => write!(f, "cores {} are neither isolated nor reserved", list(cores)),
            Self::Siblings(one, other) => write!(
                f,
                "cores {one} and {other} are two threads of one core, on two sides: what the kernel does on one \
                    slows a \
                 poller on the other"
            ),
            Self::Empty(what) => write!(f, "no core is left {what}"),
            Self::Uneven(huge, domains) => write!(
                f,
                "{} pages of {} cannot be divided evenly among {domains} domains: {}:COUNT@DOMAIN for each",
                huge.count,
                huge.size.name(),
                huge.size.name()
            ),
            Self::Memory(domain, asked, has) => write!(
                f,
                "domain {domain} would set {} MiB of its {} aside as huge pages: nine tenths at most",
                asked >> 20,
                has >> 20
            ),
            Self::NoDomain(domain) => write!(f, "the machine has no domain {domain} with cores"),
            Self::Hint => f.write_str(
                "the operator refuses a real-time kernel without its hint for real time, which turns all machine \
                 checks off: of --realtime-kernel and --machine-checks take one",
            ),
        }
    }
}

impl std::error::Error for ProfileError {}

/// What was asked for, on a machine that can have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    pub(crate) wanted: Wanted,
    pub(crate) shape: Shape,
    /// Pages of each domain, by size and domain.
    pub(crate) pages: Vec<(PageSize, u32, u64)>,
}

impl Profile {
    /// A profile for a machine.
    ///
    /// # Errors
    /// [`ProfileError`]: what the node would refuse, or suffer from.
    pub fn new(shape: Shape, mut wanted: Wanted) -> Result<Self, ProfileError> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        for name in [&wanted.name, &wanted.pool] {
            let edges = name.starts_with('-') || name.ends_with('-');
            if name.is_empty() || name.len() > 40 || edges || !name.bytes().all(fits) {
                return Err(ProfileError::Name(name.chars().filter(|char| !char.is_control()).collect()));
            }
        }
        if wanted.realtime_kernel && wanted.machine_checks {
            return Err(ProfileError::Hint);
        }
        divide(&shape, &mut wanted);
        let Wanted { isolated, reserved, .. } = &wanted;
        if let Some(none) = isolated.iter().chain(reserved).find(|core| !shape.cores.contains(core)) {
            return Err(ProfileError::NotThere(*none));
        }
        if let Some(both) = isolated.iter().find(|core| reserved.contains(core)) {
            return Err(ProfileError::Both(*both));
        }
        let left: Vec<u32> =
            shape.cores.iter().copied().filter(|core| !isolated.contains(core) && !reserved.contains(core)).collect();
        if !left.is_empty() {
            return Err(ProfileError::Neither(left));
        }
        match (isolated.is_empty(), reserved.is_empty()) {
            (true, _) => return Err(ProfileError::Empty("for pollers")),
            (_, true) => return Err(ProfileError::Empty("for the kernel and everything else")),
            _ => {}
        }
        for core in isolated {
            if let Some(other) = shape.siblings_of(*core).iter().find(|other| reserved.contains(other)) {
                return Err(ProfileError::Siblings(*core, *other));
            }
        }
        let pages = pages(&shape, &wanted.huge)?;
        Ok(Self { wanted, shape, pages })
    }

    /// Cores for pollers, ascending.
    #[must_use]
    pub fn isolated(&self) -> &[u32] {
        &self.wanted.isolated
    }

    /// Cores for everything else, ascending.
    #[must_use]
    pub fn reserved(&self) -> &[u32] {
        &self.wanted.reserved
    }

    pub(crate) fn x86(&self) -> bool {
        self.shape.vendor != Vendor::Arm
    }

    /// The sizes of pages asked for, the larger first.
    pub(crate) fn sizes(&self) -> Vec<PageSize> {
        let mut sizes: Vec<PageSize> = self.pages.iter().map(|(size, ..)| *size).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        sizes
    }
}

/// Fills in what was left open: the first core of each domain for everything
/// else, the rest for pollers.
fn divide(shape: &Shape, wanted: &mut Wanted) {
    for cores in [&mut wanted.isolated, &mut wanted.reserved] {
        cores.sort_unstable();
        cores.dedup();
    }
    if wanted.reserved.is_empty() && wanted.isolated.is_empty() {
        let first = |domain: &crate::NumaNode| shape.siblings_of(*domain.cores.first()?).to_vec().into();
        wanted.reserved = shape.domains.iter().filter_map(first).flat_map(|set: Vec<u32>| set).collect();
        wanted.reserved.sort_unstable();
    }
    let others = |cores: &[u32]| shape.cores.iter().copied().filter(|core| !cores.contains(core)).collect::<Vec<_>>();
    if wanted.isolated.is_empty() {
        wanted.isolated = others(&wanted.reserved);
    } else if wanted.reserved.is_empty() {
        wanted.reserved = others(&wanted.isolated);
    }
}

/// Pages by domain, as far as memory goes.
fn pages(shape: &Shape, huge: &[Huge]) -> Result<Vec<(PageSize, u32, u64)>, ProfileError> {
    let mut pages: Vec<(PageSize, u32, u64)> = Vec::new();
    for one in huge {
        let domains: Vec<u32> = match one.domain {
            Some(domain) => vec![domain],
            // One without memory has no pages, whoever divides them.
            None => {
                shape.domains.iter().filter(|domain| domain.memory != Some(0)).map(|domain| domain.number).collect()
            }
        };
        if !one.count.is_multiple_of(domains.len() as u64) {
            return Err(ProfileError::Uneven(*one, domains.len()));
        }
        for domain in &domains {
            pages.push((one.size, *domain, one.count / domains.len() as u64));
        }
    }
    for (_, number, _) in &pages {
        let domain = shape.domains.iter().find(|domain| domain.number == *number);
        let domain = domain.ok_or(ProfileError::NoDomain(*number))?;
        let of_it = pages.iter().filter(|(_, other, _)| other == number);
        let asked = of_it.fold(0_u64, |sum, (size, _, count)| sum.saturating_add(size.bytes().saturating_mul(*count)));
        if let Some(has) = domain.memory.filter(|has| asked > has / 10 * 9) {
            return Err(ProfileError::Memory(*number, asked, has));
        }
    }
    Ok(pages)
}
