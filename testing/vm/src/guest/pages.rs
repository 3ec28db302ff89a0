//! Which pages a process writes and reads, and in which domains they are: as
//! the kernel knows it, from its page tables, and not as the process tells it.
//!
//! The kernel marks pages that are written (the soft-dirty bit of
//! `/proc/PID/pagemap`) and mappings that are read (`Referenced` of
//! `/proc/PID/smaps`) since it was last told to forget
//! (`/proc/PID/clear_refs`); a page's frame number tells its domain
//! (`/proc/zoneinfo`). Linux: Documentation/admin-guide/mm/pagemap.rst,
//! soft-dirty.rst, and Documentation/filesystems/proc.rst.

use crate::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of a page, and of its entry in `pagemap`.
const PAGE: u64 = 4096;
const ENTRY: usize = 8;
/// An entry's bits: the frame number, soft-dirty, and whether it is present.
const FRAME: u64 = (1 << 55) - 1;
const SOFT_DIRTY: u64 = 1 << 55;
const PRESENT: u64 = 1 << 63;
/// Entries read at once.
const CHUNK: usize = 1 << 16;

/// Where the frames of memory are.
pub struct Domains {
    /// Frame numbers, and the domain that has them.
    zones: Vec<(Range<u64>, usize)>,
}

impl Domains {
    /// As the kernel numbers them.
    ///
    /// # Errors
    /// If it does not say.
    pub fn read() -> Result<Self, Failure> {
        Ok(Self { zones: zones(&fs::read_to_string("/proc/zoneinfo")?) })
    }

    fn of(&self, frame: u64) -> Option<usize> {
        self.zones.iter().find(|(frames, _)| frames.contains(&frame)).map(|(_, domain)| *domain)
    }
}

/// The zones of `/proc/zoneinfo`: a head `Node 0, zone DMA`, and below it
/// `spanned` and, later, `start_pfn`.
fn zones(text: &str) -> Vec<(Range<u64>, usize)> {
    let mut found = Vec::new();
    let (mut domain, mut spanned) = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split([' ', ',', ':']).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["Node", number, "zone", _] => (domain, spanned) = (number.parse().unwrap_or(usize::MAX), 0),
            ["spanned", pages] => spanned = pages.parse().unwrap_or(0),
            ["start_pfn", first] => {
                let first = first.parse().unwrap_or(0);
                if spanned > 0 {
                    found.push((first..first + spanned, domain));
                }
            }
            _ => {}
        }
    }
    found
}

/// What a process did with its memory since [`forget`].
pub struct Touched {
    /// Pages that were written: the domain of each, and the mapping's name.
    pub written: BTreeMap<u64, (usize, String)>,
    /// Mappings that were read or written, by their start, without those of
    /// program files: pages in each domain, and the mapping's name.
    pub mappings: BTreeMap<u64, (BTreeMap<usize, u64>, String)>,
}

/// Has the kernel forget what `pid` touched.
///
/// # Errors
/// If there is no such process.
pub fn forget(pid: u32) -> Result<(), Failure> {
    let file = format!("/proc/{pid}/clear_refs");
    // The second also flushes translations, without which the processor would
    // not tell of the next access.
    for what in ["1", "4"] {
        fs::write(&file, what).map_err(|why| format!("{file}: {why}"))?;
    }
    Ok(())
}

/// What `pid` touched since then.
///
/// # Errors
/// If there is no such process.
pub fn touched(pid: u32, domains: &Domains) -> Result<Touched, Failure> {
    let mut found = Touched { written: BTreeMap::new(), mappings: BTreeMap::new() };
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
    for mapping in mappings(&fs::read_to_string(format!("/proc/{pid}/smaps"))?) {
        let mut count = BTreeMap::new();
        mapping.each_page(&pagemap, |address, entry| {
            let Some(domain) = domains.of(entry & FRAME) else { return };
            *count.entry(domain).or_insert(0) += 1;
            if entry & SOFT_DIRTY != 0 && mapping.writable {
                found.written.insert(address, (domain, mapping.name.clone()));
            }
        })?;
        if mapping.referenced && !mapping.of_program() {
            found.mappings.insert(mapping.range.start, (count, mapping.name));
        }
    }
    Ok(found)
}

impl Touched {
    /// Leaves out what `other` has too.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        self.written.retain(|page, _| !other.written.contains_key(page));
        self.mappings.retain(|start, _| !other.mappings.contains_key(start));
        self
    }

    /// Leaves out what `other` has not.
    #[must_use]
    pub fn common(mut self, other: &Self) -> Self {
        self.written.retain(|page, _| other.written.contains_key(page));
        self.mappings.retain(|start, _| other.mappings.contains_key(start));
        self
    }

    /// Written pages in each domain.
    pub fn written_in(&self) -> BTreeMap<usize, u64> {
        let mut count = BTreeMap::new();
        for (domain, _) in self.written.values() {
            *count.entry(*domain).or_insert(0) += 1;
        }
        count
    }

    /// The names of mappings with pages that were written outside `domain`,
    /// and of those that were touched and have no page in it.
    pub fn strangers(&self, domain: usize) -> BTreeSet<String> {
        let pages = self.written.iter().filter(|(_, (place, _))| *place != domain);
        let pages = pages.map(|(page, (place, name))| format!("{page:#x} of {name}, written, in domain {place}"));
        let mappings = self.mappings.iter().filter(|(_, (count, _))| !count.is_empty() && !count.contains_key(&domain));
        let mappings = mappings.map(|(start, (count, name))| {
            let domains: Vec<usize> = count.keys().copied().collect();
            format!("{start:#x} {name}, touched, with pages in domains {domains:?} alone")
        });
        pages.chain(mappings).collect()
    }
}

/// A mapping of a process.
#[derive(PartialEq, Eq, Debug)]
struct Mapping {
    range: Range<u64>,
    writable: bool,
    referenced: bool,
    name: String,
}

impl Mapping {
    /// Whether it is the text or constants of a program or library.
    fn of_program(&self) -> bool {
        !self.writable && (self.name.starts_with('/') || self.name.starts_with("[v"))
    }

    fn each_page(&self, pagemap: &File, mut each: impl FnMut(u64, u64)) -> Result<(), Failure> {
        let mut buffer = vec![0; CHUNK * ENTRY];
        let mut page = self.range.start / PAGE;
        let end = self.range.end / PAGE;
        while page < end {
            let want = usize::try_from(end - page)?.min(CHUNK) * ENTRY;
            let got = pagemap.read_at(&mut buffer[..want], page * ENTRY as u64)?;
            if got < ENTRY {
                // Beyond what the kernel tells, as [vsyscall].
                return Ok(());
            }
            for entry in buffer[..got].chunks_exact(ENTRY) {
                let entry = u64::from_le_bytes(entry.try_into()?);
                if entry & PRESENT != 0 {
                    each(page * PAGE, entry);
                }
                page += 1;
            }
        }
        Ok(())
    }
}

/// The mappings of a `/proc/PID/smaps`.
fn mappings(text: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let range = words.first().and_then(|word| word.split_once('-'));
        let range = range.and_then(|(start, end)| Some((hexadecimal(start)?, hexadecimal(end)?)));
        if let Some((start, end)) = range {
            let writable = words.get(1).is_some_and(|permissions| permissions.contains('w'));
            let name = words.get(5).map_or_else(|| "anonymous memory".to_owned(), |_| words[5..].join(" "));
            found.push(Mapping { range: start..end, writable, referenced: false, name });
        } else if let (["Referenced:", kib, "kB"], Some(mapping)) = (words.as_slice(), found.last_mut()) {
            mapping.referenced = *kib != "0";
        }
    }
    found
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_tell_the_domain_of_a_frame() {
        let text = "Node 0, zone      DMA\n  per-node stats\n        spanned  4095\n        present  3998\n  start_pfn:           1\n\
                    Node 1, zone   Normal\n        spanned  0\n  start_pfn:           0\n\
                    Node 1, zone    DMA32\n        spanned  1024\n  start_pfn:           98304\n";
        let domains = Domains { zones: zones(text) };
        assert_eq!(domains.of(1), Some(0));
        assert_eq!(domains.of(4096), None);
        assert_eq!(domains.of(98304 + 1023), Some(1));
    }

    #[test]
    fn mappings_are_read_with_their_references() {
        let text = "7f00-7f02 rw-p 00000000 00:00 0 \nSize: 8 kB\nReferenced:            4 kB\n\
                    8000-9000 r--p 00000000 00:00 0   /lib/a file\nReferenced:            0 kB\nVmFlags: rd mr\n";
        let got = mappings(text);
        assert_eq!(
            got[0],
            Mapping { range: 0x7f00..0x7f02, writable: true, referenced: true, name: "anonymous memory".into() }
        );
        assert_eq!(
            got[1],
            Mapping { range: 0x8000..0x9000, writable: false, referenced: false, name: "/lib/a file".into() }
        );
        assert!(got[1].of_program() && !got[0].of_program());
    }

    #[test]
    fn what_is_touched_at_rest_does_not_count_and_strangers_are_named() {
        let page = |domain| (domain, "anonymous memory".to_owned());
        let rest = Touched { written: BTreeMap::from([(0x1000, page(0))]), mappings: BTreeMap::new() };
        let load = Touched {
            written: BTreeMap::from([(0x1000, page(0)), (0x2000, page(1)), (0x3000, page(0))]),
            mappings: BTreeMap::from([(0x9000, (BTreeMap::from([(0, 7)]), "[heap]".to_owned()))]),
        };
        let load = load.without(&rest);
        assert_eq!(load.written_in(), BTreeMap::from([(0, 1), (1, 1)]));
        let strangers: Vec<String> = load.strangers(1).into_iter().collect();
        assert!(strangers.len() == 2 && strangers[0].starts_with("0x3000") && strangers[1].contains("[heap]"));
    }
}
