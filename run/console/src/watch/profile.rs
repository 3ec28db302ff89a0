//! The functions that a process's time goes to: where its cores were, a hundred
//! times a second, and the names that its files have for those places.

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use perf::{Place, Places, Symbols};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;

/// Looks per second: not in step with ticks.
const HERTZ: u64 = 99;

/// Functions told apart; more are told together.
const FUNCTIONS_LIMIT: usize = 10_000;

/// Callers that are told of a place.
const DEPTH_LIMIT: usize = 32;

/// In the place of callers that frame pointers do not lead to.
const UNKNOWN: &str = "callers not known";

/// Files that are read for names, and the longest of them in bytes.
const FILES_LIMIT: usize = 256;
const LONGEST_FILE: u64 = 512 << 20;

/// Looks at a process.
pub(super) struct Profile {
    pid: u32,
    places: Places,
    kernel: Symbols,
    maps: Vec<Mapped>,
    files: HashMap<String, Functions>,
    graphs: bool,
    found: BTreeMap<String, u64>,
    chains: BTreeMap<String, u64>,
}

/// A part of a file that a process runs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mapped {
    addresses: Range<u64>,
    offset: u64,
    path: String,
}

/// Functions of a file, by their offset in it: start, length, name.
#[derive(Debug, Default)]
struct Functions(Vec<(u64, u64, String)>);

impl Profile {
    /// With `graphs` it is looked who called, too.
    pub(super) fn of(pid: u32, graphs: bool) -> Result<Self, String> {
        let places = Places::of_cores(&perf::thread::online(), HERTZ, graphs)?;
        Ok(Self {
            pid,
            places,
            kernel: Symbols::kernel(),
            maps: Vec::new(),
            files: HashMap::new(),
            graphs,
            found: BTreeMap::new(),
            chains: BTreeMap::new(),
        })
    }

    /// How often it was found in each function so far, and in each chain of callers.
    pub(super) fn look(&mut self) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
        self.maps = mapped(&fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default());
        while let Some(place) = self.places.poll() {
            if place.process != self.pid {
                continue;
            }
            let name = self.name(place.address, place.kernel);
            if self.graphs {
                let chain = self.chain(&place, &name);
                add(&mut self.chains, chain);
            }
            add(&mut self.found, name);
        }
        (self.found.clone(), self.chains.clone())
    }

    /// A place's callers from the outermost in, and itself.
    fn chain(&mut self, place: &Place, name: &str) -> String {
        let mut names: Vec<String> = Vec::new();
        if place.callers.len() > DEPTH_LIMIT {
            names.push("…".to_owned());
        }
        if !place.kernel && place.callers.is_empty() {
            names.push(UNKNOWN.to_owned());
        }
        for caller in place.callers.iter().take(DEPTH_LIMIT).rev() {
            // It goes on behind the call, which may be another function's beginning.
            names.push(self.name(caller.address.saturating_sub(1), caller.kernel));
        }
        names.push(name.to_owned());
        names.iter().map(|name| name.replace(';', ":")).collect::<Vec<_>>().join(";")
    }

    fn name(&mut self, address: u64, kernel: bool) -> String {
        if kernel {
            return self
                .kernel
                .name(address)
                .map_or_else(|| "the kernel".to_owned(), |name| format!("{name} (kernel)"));
        }
        let Some(mapped) = self.maps.iter().find(|mapped| mapped.addresses.contains(&address)) else {
            return "memory of no file".to_owned();
        };
        let file = mapped.path.rsplit('/').next().unwrap_or_default();
        if !self.files.contains_key(&mapped.path) && self.files.len() < FILES_LIMIT {
            let functions = Functions::of(&format!("/proc/{}/root{}", self.pid, mapped.path));
            self.files.insert(mapped.path.clone(), functions);
        }
        let at = address - mapped.addresses.start + mapped.offset;
        match self.files.get(&mapped.path).and_then(|functions| functions.name(at)) {
            Some(name) => format!("{name} ({file})"),
            None => format!("{file}, without a name"),
        }
    }
}

/// One more of a name; beyond the limit they are told together.
fn add(found: &mut BTreeMap<String, u64>, name: String) {
    let name = if found.len() < FUNCTIONS_LIMIT || found.contains_key(&name) { name } else { "others".to_owned() };
    *found.entry(name).or_default() += 1;
}

/// What of `/proc/PID/maps` is run.
fn mapped(text: &str) -> Vec<Mapped> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (from, until) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        words.next()?.contains('x').then_some(())?;
        let offset = hex(words.next()?)?;
        let path = words.nth(2)?;
        Some(Mapped { addresses: hex(from)?..hex(until)?, offset, path: path.to_owned() })
    };
    text.lines().filter_map(line).collect()
}

impl Functions {
    /// What cannot be read has none.
    fn of(path: &str) -> Self {
        if !fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= LONGEST_FILE) {
            return Self::default();
        }
        let Ok(bytes) = fs::read(path) else { return Self::default() };
        let Ok(file) = object::File::parse(&*bytes) else { return Self::default() };
        let segments: Vec<(u64, (u64, u64))> =
            file.segments().map(|segment| (segment.address(), segment.file_range())).collect();
        let offset = |address: u64| {
            segments.iter().find_map(|(start, (at, length))| {
                let within = address.checked_sub(*start)?;
                (within < *length).then_some(at + within)
            })
        };
        let function = |symbol: object::Symbol<'_, '_>| {
            let is_function = symbol.kind() == SymbolKind::Text && symbol.is_definition();
            let name = symbol.name().ok().filter(|name| is_function && !name.is_empty())?;
            Some((offset(symbol.address())?, symbol.size(), plain(name)))
        };
        let mut all: Vec<(u64, u64, String)> =
            file.symbols().chain(file.dynamic_symbols()).filter_map(function).collect();
        all.sort_by_key(|(start, ..)| *start);
        all.dedup_by_key(|(start, ..)| *start);
        Self(all)
    }

    fn name(&self, at: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, ..)| *start <= at);
        let (start, length, name) = self.0.get(after.checked_sub(1)?)?;
        // Those of assembler have no length.
        (*length == 0 || at < start + length).then_some(name.as_str())
    }
}

/// A Rust name of the older form without its hash and its lengths:
/// `_ZN4core3fmt5write17h0123456789abcdefE` is `core::fmt::write`.
fn plain(name: &str) -> String {
    let parts = || {
        let mut rest = name.strip_prefix("_ZN")?.strip_suffix('E')?;
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let length: usize = rest.get(..digits)?.parse().ok()?;
            parts.push(rest.get(digits..digits.checked_add(length)?)?);
            rest = rest.get(digits + length..)?;
        }
        let hash = parts.pop()?;
        (hash.len() == 17 && hash.starts_with('h')).then(|| parts.join("::"))
    };
    parts().unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_hash() {
        assert_eq!(plain("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        for other in ["malloc", "_ZN3fooEv", "_ZN99xE", "_ZN3foo3barE", "_RNvC1a1b"] {
            assert_eq!(plain(other), other);
        }
    }

    #[test]
    fn what_is_run_is_read_from_maps() {
        let text = "10-20 r-xp 00000005 08:01 77 /bin/a\n20-30 r--p 0 08:01 77 /bin/a\n30-40 r-xp 0 00:00 0 [vdso]\n40-50 r-xp 0 00:00 0\nx\n";
        let all = mapped(text);
        assert_eq!(all[0], Mapped { addresses: 0x10..0x20, offset: 5, path: "/bin/a".into() });
        assert_eq!((all.len(), all[1].path.as_str()), (2, "[vdso]"));
    }

    #[test]
    fn a_chain_begins_with_the_outermost_and_says_where_callers_are_not_known() {
        let places = match Places::of_cores(&[], HERTZ, true) {
            Ok(places) => places,
            Err(why) => panic!("no core is asked for: {why}"),
        };
        let kernel = Symbols::parse("1000 T entry\n2000 T send\n3000 T copy\n");
        let (files, found, chains) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut profile = Profile { pid: 1, places, kernel, maps: vec![], files, graphs: true, found, chains };
        let caller = |address| perf::Caller { address, kernel: true };
        let mut place =
            Place { process: 1, address: 0x3001, kernel: true, callers: vec![caller(0x3000), caller(0x1100)] };
        // The call was the last instruction of what stands before.
        assert_eq!(profile.chain(&place, "copy (kernel)"), "entry (kernel);send (kernel);copy (kernel)");
        place.callers = vec![caller(0x1100); DEPTH_LIMIT + 5];
        let deep = profile.chain(&place, "a;b");
        assert!(deep.starts_with("…;entry") && deep.ends_with(";a:b"), "{deep}");
        assert_eq!(deep.split(';').count(), DEPTH_LIMIT + 2);
        let alone = Place { callers: vec![], kernel: false, ..place };
        assert_eq!(profile.chain(&alone, "x"), "callers not known;x");
    }

    #[test]
    fn functions_end_where_they_end() {
        let functions = Functions(vec![(10, 5, "a".into()), (20, 0, "b".into())]);
        let names = [9, 10, 14, 15, 20, 99].map(|at| functions.name(at));
        assert_eq!(names, [None, Some("a"), Some("a"), None, Some("b"), Some("b")]);
    }
}
