//! NUMA placement: where memory is to come from, and where it is.
//!
//! A silo's memory is to be in its own domain, or each access to it crosses
//! to another. A thread that is pinned gets that from the kernel's default
//! policy as long as the domain has memory to spare; [`bind`] also says so for
//! threads that are not pinned to one core, and lets a server that knows
//! nothing of domains be measured for comparison. [`move_to`] is for memory
//! that another thread made. Neither is believed: [`Placement::of`] asks the
//! kernel where the pages are, and [`Watch`] does so now and then, on a thread
//! beside the packet path.
//!
//! What a silo tells of its memory is what frames and requests go through:
//! the link's rings and buffers, the stack's tables, the application's tables
//! and bodies. Not told, and so not verified, are small pieces from the heap
//! (queued chunks, data out of order), which come from the thread's own arena
//! under the same policy; stacks; and what the kernel has of its own.

mod far;
mod kernel;
mod watch;

pub use far::{Far, FarFrames, FarPages};
pub(crate) use far::{FarRx, FarTx};
pub use watch::{Inspector, Pages, Watch};

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io;

/// One past the largest number of a domain (the kernel's `NODES_SHIFT` of 10).
pub const MAX_DOMAINS: u16 = 1_024;

/// Where memory that this thread touches first is to come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPolicy<'a> {
    /// From this domain while it has any, then from the nearest that has.
    Domain(u16),
    /// From these domains by turns, page by page.
    Interleave(&'a [u16]),
    /// From the domain of the core that the thread runs on at the time.
    Local,
}

/// Sets this thread's policy (set_mempolicy(2)); threads that it makes inherit
/// it. Memory touched before stays where it is. A kernel without NUMA has
/// nothing to choose from: that is no error.
///
/// # Errors
/// See [`PlacementError`]; the policy stays as it was.
pub fn bind(policy: MemoryPolicy<'_>) -> Result<(), PlacementError> {
    let wrong = |why| PlacementError { doing: "choose where memory comes from", domain: policy.first(), why };
    let mask = Mask::of(policy).map_err(wrong)?;
    match kernel::set_mempolicy(policy, &mask) {
        Err(why) if why.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        outcome => outcome.map_err(wrong),
    }
}

/// Has a range of memory be in `domain` (mbind(2) with MPOL_MF_MOVE): what of
/// it was touched is moved, what was not will come from there. Whole pages,
/// so that its neighbours on the first and the last come along. Pages that
/// another process has mapped too, or a device has pinned, stay.
///
/// # Errors
/// See [`PlacementError`].
pub fn move_to(range: Range<usize>, domain: u16) -> Result<(), PlacementError> {
    let wrong = |why| PlacementError { doing: "move memory", domain: Some(domain), why };
    if range.is_empty() {
        return Ok(());
    }
    let mask = Mask::of(MemoryPolicy::Domain(domain)).map_err(wrong)?;
    match kernel::mbind(&pages(&range), MemoryPolicy::Domain(domain), &mask) {
        Err(why) if why.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        outcome => outcome.map_err(wrong),
    }
}

/// Why memory is not placed, or it is not known where it is.
#[derive(Debug)]
pub struct PlacementError {
    doing: &'static str,
    domain: Option<u16>,
    why: io::Error,
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.doing)?;
        if let Some(domain) = self.domain {
            write!(f, " (NUMA domain {domain})")?;
        }
        match self.why.raw_os_error() {
            Some(libc::EINVAL) => f.write_str(": there is no such domain, or its memory is not for this process"),
            Some(libc::EPERM) => {
                f.write_str(": a sandbox forbids it (containers: allow set_mempolicy, mbind and move_pages)")
            }
            _ => write!(f, ": {}", self.why),
        }
    }
}

impl core::error::Error for PlacementError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.why)
    }
}

/// Where pages are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// Pages in each domain, by its number.
    domains: Vec<u64>,
    /// Pages that have no memory: not touched yet, swapped out, or gone.
    absent: u64,
}

impl Placement {
    /// Where the pages of `ranges` are (move_pages(2) without a destination).
    /// A page that several ranges touch in a row counts once. Takes about
    /// 100 ns a page, so a gigabyte takes some 30 ms: not for the packet path.
    /// A kernel without NUMA has everything in domain 0.
    ///
    /// Ranges need not be mapped: what is not counts as absent.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn of(ranges: impl IntoIterator<Item = Range<usize>>) -> Result<Self, PlacementError> {
        let mut placement = Self::default();
        let page = rustix::param::page_size();
        let mut batch = kernel::Batch::new();
        let mut last = usize::MAX;
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            for start in pages(&range).step_by(page) {
                if core::mem::replace(&mut last, start) == start {
                    continue;
                }
                if batch.is_full() {
                    placement.take(&mut batch)?;
                }
                batch.push(start);
            }
        }
        placement.take(&mut batch)?;
        Ok(placement)
    }

    /// Adds what `other` has.
    pub fn add(&mut self, other: &Self) {
        if self.domains.len() < other.domains.len() {
            self.domains.resize(other.domains.len(), 0);
        }
        self.domains.iter_mut().zip(&other.domains).for_each(|(sum, more)| *sum += more);
        self.absent += other.absent;
    }

    /// Pages in a domain.
    #[must_use]
    pub fn within(&self, domain: u16) -> u64 {
        self.domains.get(usize::from(domain)).copied().unwrap_or(0)
    }

    /// Pages in other domains.
    #[must_use]
    pub fn outside(&self, domain: u16) -> u64 {
        self.domains.iter().sum::<u64>() - self.within(domain)
    }

    /// Pages that have no memory.
    #[must_use]
    pub const fn absent(&self) -> u64 {
        self.absent
    }

    /// Every domain that has pages of it, and how many.
    pub fn domains(&self) -> impl Iterator<Item = (u16, u64)> {
        let all = (0_u16..).zip(&self.domains);
        all.map(|(domain, pages)| (domain, *pages)).filter(|(_, pages)| *pages > 0)
    }

    fn take(&mut self, batch: &mut kernel::Batch) -> Result<(), PlacementError> {
        for status in batch.ask().map_err(unknown)? {
            match domain(*status) {
                Some(domain) => self.note(domain, 1),
                None => self.absent += 1,
            }
        }
        batch.clear();
        Ok(())
    }

    fn note(&mut self, domain: u16, pages: u64) {
        let domain = usize::from(domain);
        if self.domains.len() <= domain {
            self.domains.resize(domain + 1, 0);
        }
        self.domains[domain] += pages;
    }
}

/// What of a silo's memory is looked at, and when to leave off.
#[derive(Clone, Copy, Debug)]
struct Scope<'a> {
    /// Pages that are asked about, at most: of more, every second, third and so
    /// on, each for those up to the next.
    pages: usize,
    /// Nobody waits for the answer any more.
    called_off: &'a AtomicBool,
}

impl FarPages {
    /// Those of `ranges`, which do not overlap, that are in other domains than
    /// `home`, and where all are; `None` if it was called off.
    fn beyond(
        home: u16,
        ranges: &[Range<usize>],
        scope: Scope<'_>,
    ) -> Result<Option<(Self, Placement)>, PlacementError> {
        let mut found = Self::new();
        let mut placement = Placement::default();
        let page = rustix::param::page_size();
        let all: usize = ranges.iter().map(|range| pages(range).len() / page).sum();
        let step = all.div_ceil(scope.pages).max(1) * page;
        let mut batch = kernel::Batch::new();
        for range in ranges.iter().map(pages).filter(|range| !range.is_empty()) {
            let mut places = Vec::with_capacity(range.len().div_ceil(step));
            let mut rest = range.clone().step_by(step).peekable();
            while let Some(first) = rest.peek().copied() {
                if scope.called_off.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                rest.by_ref().take(kernel::BATCH).for_each(|start| batch.push(start));
                for (start, status) in (first..).step_by(step).zip(batch.ask().map_err(unknown)?) {
                    let place = domain(*status);
                    let stands_for = (step.min(range.end - start) / page) as u64;
                    match place {
                        Some(domain) => placement.note(domain, stands_for),
                        None => placement.absent += stands_for,
                    }
                    places.push(place.filter(|domain| *domain != home));
                }
                batch.clear();
            }
            found.add_steps(range.start, step, &places);
        }
        Ok(Some((found, placement)))
    }
}

/// The same memory in ranges of whole pages, in order and apart: what links,
/// stacks and applications tell may overlap, and be told many times over.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.iter_mut().for_each(|range| *range = pages(range));
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let meet = next.start <= range.end;
        if meet {
            range.end = range.end.max(next.end);
        }
        meet
    });
    ranges
}

/// Has the kernel move pages to `domain` (move_pages(2)), as far as it can:
/// those that another process has mapped too, or a device has pinned, stay, as
/// do all where the domain has no memory left.
///
/// # Errors
/// If the kernel moves none.
fn bring(pages: &FarPages, domain: u16) -> Result<(), PlacementError> {
    let mut starts = pages.starts().peekable();
    let mut batch = kernel::Batch::new();
    while starts.peek().is_some() {
        starts.by_ref().take(kernel::BATCH).for_each(|start| batch.push(start));
        batch.bring(domain).map_err(|why| PlacementError { doing: "move memory", domain: Some(domain), why })?;
        batch.clear();
    }
    Ok(())
}

/// The domain in the kernel's answer for a page. ENOENT: not touched; EFAULT:
/// not mapped, or the page of zeros that every read of untouched memory shows.
fn domain(status: core::ffi::c_int) -> Option<u16> {
    u16::try_from(status).ok().filter(|domain| *domain < MAX_DOMAINS)
}

fn unknown(why: io::Error) -> PlacementError {
    PlacementError { doing: "ask where memory is", domain: None, why }
}

/// The whole pages that a range is on.
fn pages(range: &Range<usize>) -> Range<usize> {
    let page = rustix::param::page_size();
    let end = range.end.checked_next_multiple_of(page).unwrap_or(usize::MAX & !(page - 1));
    range.start & !(page - 1)..end
}

/// A set of domains, as the kernel takes it.
struct Mask([u64; MAX_DOMAINS as usize / 64]);

impl Mask {
    fn of(policy: MemoryPolicy<'_>) -> io::Result<Self> {
        let mut mask = Self([0; MAX_DOMAINS as usize / 64]);
        let domains = match &policy {
            MemoryPolicy::Domain(domain) => core::slice::from_ref(domain),
            MemoryPolicy::Interleave(domains) => domains,
            MemoryPolicy::Local => &[],
        };
        for domain in domains {
            let word = mask.0.get_mut(usize::from(domain / 64));
            *word.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))? |= 1 << (domain % 64);
        }
        Ok(mask)
    }
}

impl MemoryPolicy<'_> {
    const fn first(&self) -> Option<u16> {
        match self {
            Self::Domain(domain) => Some(*domain),
            Self::Interleave(_) | Self::Local => None,
        }
    }
}

#[cfg(test)]
mod tests;
