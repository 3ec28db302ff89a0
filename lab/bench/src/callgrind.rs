//! This program under callgrind, and the profile that comes of it.
//!
//! The packet path is inlined into very few functions, so a profile by
//! function says little. Instructions are counted by address instead, and
//! addr2line tells the inlined functions that each address belongs to.

use crate::BenchError;
use demo::scratch::Scratch;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Instructions by place, and what the profiled program said.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// By crate and function.
    places: BTreeMap<(String, String), u64>,
    said: HashMap<String, u64>,
}

impl Profile {
    /// What `program` said, and the instructions that it took, by crate and function.
    pub(crate) fn of_costs(program: &Path, said: &str, costs: Vec<Cost>) -> Result<Self, BenchError> {
        let mut profile = Self { said: said.lines().filter_map(read_said).collect(), ..Self::default() };
        let ours: Vec<u64> = costs.iter().filter(|cost| cost.object == program).map(|cost| cost.address).collect();
        let names = resolve(program, &ours)?;
        for Cost { object, function, address, count } in costs {
            let place = if object == program { names.get(&address).cloned() } else { None };
            *profile.places.entry(place.unwrap_or_else(|| outside(&object, function))).or_default() += count;
        }
        Ok(profile)
    }

    /// All instructions.
    pub(crate) fn total(&self) -> u64 {
        self.places.values().sum()
    }

    /// A number that the program printed after `name`.
    pub(crate) fn said(&self, name: &str) -> Result<u64, BenchError> {
        self.said.get(name).copied().ok_or_else(|| format!("the profiled program does not say its {name}").into())
    }

    /// Those of a crate.
    pub(crate) fn of(&self, krate: &str) -> u64 {
        self.places.iter().filter(|((of, _), _)| of == krate).map(|(_, count)| count).sum()
    }

    /// The most expensive crates first.
    pub(crate) fn by_crate(&self) -> Vec<(String, u64)> {
        let mut sums = BTreeMap::<&str, u64>::new();
        for ((krate, _), count) in &self.places {
            *sums.entry(krate).or_default() += count;
        }
        descending(sums.into_iter().map(|(name, count)| (name.to_owned(), count)))
    }

    /// The most expensive functions first.
    pub(crate) fn by_function(&self) -> Vec<(String, u64)> {
        descending(self.places.iter().map(|((krate, name), count)| (format!("{krate:8} {name}"), *count)))
    }
}

fn descending(items: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut items: Vec<_> = items.collect();
    items.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    items
}

/// Runs this program with `arguments` and counts the instructions of the
/// functions that `pattern` names, with all that they call.
pub(crate) fn profile(arguments: &[String], pattern: &str) -> Result<Profile, BenchError> {
    let this = std::env::current_exe()?;
    let scratch = Scratch::private()?;
    let out = scratch.path().join("callgrind");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(format!("--toggle-collect={pattern}"))
        .arg(&this)
        .args(arguments)
        .output()
        .map_err(|why| format!("cannot run valgrind: {why}"))?;
    let text = std::fs::read_to_string(&out);
    // What cannot be removed does no harm.
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Profile::of_costs(&this, &String::from_utf8_lossy(&output.stdout), read_costs(&text?))
}

fn read_said(line: &str) -> Option<(String, u64)> {
    let (name, number) = line.split_once(' ')?;
    Some((name.to_owned(), number.parse().ok()?))
}

/// A place in a library that is not ours and was not inlined.
fn outside(object: &Path, function: String) -> (String, String) {
    let name = object.file_name().map(|name| name.to_string_lossy().into_owned());
    (name.unwrap_or_else(|| "unknown".into()), function)
}

/// Instructions executed at an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cost {
    pub object: PathBuf,
    /// Its name, where it is known.
    pub function: String,
    /// Within the object, as callgrind writes it and addr2line wants it.
    pub address: u64,
    pub count: u64,
}

/// Reads callgrind's format, as it is with positions `instr line`, the one
/// event `Ir`, and nothing compressed ("Callgrind Format Specification" in
/// valgrind's manual).
pub(crate) fn read_costs(text: &str) -> Vec<Cost> {
    let mut found = Vec::new();
    let (mut object, mut function) = (PathBuf::new(), String::new());
    let mut inclusive = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = name.into();
        } else if let Some(name) = line.strip_prefix("fn=") {
            name.clone_into(&mut function);
        } else if line.starts_with("calls=") {
            // The next line is what the called function costs, which is told
            // there.
            inclusive = true;
        } else if line.starts_with("0x") {
            let mut numbers = line.split(' ');
            let address = numbers.next().and_then(|text| u64::from_str_radix(text.get(2..)?, 16).ok());
            let count = numbers.nth(1).and_then(|text| text.parse().ok());
            if let (Some(address), Some(count), false) = (address, count, inclusive) {
                found.push(Cost { object: object.clone(), function: function.clone(), address, count });
            }
            inclusive = false;
        }
    }
    found
}

/// Crate and function of each address: of the functions inlined there, the
/// innermost that is in this workspace.
fn resolve(program: &Path, addresses: &[u64]) -> Result<HashMap<u64, (String, String)>, BenchError> {
    let mut asked = addresses.to_vec();
    asked.sort_unstable();
    asked.dedup();
    let scratch = Scratch::private()?;
    let list = scratch.path().join("addresses");
    let mut file = std::fs::File::create(&list)?;
    for address in &asked {
        writeln!(file, "{address:#x}")?;
    }
    drop(file);
    let output = Command::new("addr2line")
        .args(["--addresses", "--functions", "--inlines", "--demangle", "--exe"])
        .arg(program)
        .stdin(Stdio::from(std::fs::File::open(&list)?))
        .output()
        .map_err(|why| format!("cannot run addr2line: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(read_frames(&text))
}

/// Reads addr2line's answer: an address, then pairs of lines, function and
/// place, from the innermost outwards.
fn read_frames(text: &str) -> HashMap<u64, (String, String)> {
    let mut found = HashMap::new();
    let mut address = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(number) = line.strip_prefix("0x") {
            address = u64::from_str_radix(number, 16).unwrap_or(0);
            continue;
        }
        let place = lines.next().unwrap_or_default();
        let name = match crate_of(place) {
            _ if is_cipher(line, place) => (CIPHER.to_owned(), short(line)),
            Some(krate) => (krate.to_owned(), short(line)),
            // Kept only while nothing better comes.
            None if found.contains_key(&address) => continue,
            None => ("library".to_owned(), short(line)),
        };
        match found.get(&address) {
            Some((krate, _)) if krate != "library" => {}
            _ => _ = found.insert(address, name),
        }
    }
    found
}

/// The workspace's folder.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");

/// Whether a crate lies in a folder of the workspace.
pub(crate) fn has_crate(folder: &str, krate: &str) -> bool {
    Path::new(ROOT).join(folder).join(krate).is_dir()
}

/// The crate of a source file, if it is one of this workspace.
fn crate_of(place: &str) -> Option<&str> {
    let root = Path::new(ROOT).canonicalize().ok()?;
    let inside = place.strip_prefix(&*root.to_string_lossy()).map_or(place, |rest| rest.trim_start_matches('/'));
    let mut parts = inside.split('/');
    let folder = parts.next()?;
    ["path", "drivers", "sockets", "apps", "lab", "http", "web", "tls"]
        .contains(&folder)
        .then(|| parts.next())
        .flatten()
}

/// What the library of ciphers is told as.
pub(crate) const CIPHER: &str = "cipher";

/// Whether a function is that library's, its own names and where its binding lies, or our own
/// cipher's.
fn is_cipher(name: &str, place: &str) -> bool {
    // Without lines, what is static in it has its own names: the AEAD's outermost functions.
    name.starts_with("aws_lc_")
        || name.starts_with("aead_aes_gcm_")
        || name.starts_with("gcm::")
        || place.contains("/aws-lc-")
}

/// A function's name without its hash and what surrounds it, for people.
fn short(name: &str) -> String {
    let name = name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(name, |(name, _)| name);
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inclusive_costs_are_not_counted_twice() {
        let text = "positions: instr line\nevents: Ir\n\nob=/bin/a\nfl=a.rs\nfn=f\n0x10 1 5\ncfn=g\ncalls=1 0x20 3\n\
                    0x12 2 100\n0x14 2 7\n\nob=/lib/c\nfl=???\nfn=memcpy\n0x20 0 93\n";
        let cost = |object: &str, function: &str, address, count| Cost {
            object: object.into(),
            function: function.into(),
            address,
            count,
        };
        let wanted = [cost("/bin/a", "f", 0x10, 5), cost("/bin/a", "f", 0x14, 7), cost("/lib/c", "memcpy", 0x20, 93)];
        assert_eq!(read_costs(text), wanted);
    }

    #[test]
    fn an_address_belongs_to_the_innermost_function_of_ours() {
        let text = "0x0000000000000010\ncore::ptr::read\n/rustc/x/core/ptr.rs:1\ntcp::f\npath/tcp/src/f.rs:3\n\
                    silo::turn\npath/silo/src/turn.rs:9\n0x0000000000000020\nmemchr::find\n/other/memchr.rs:1\n";
        let found = read_frames(text);
        assert_eq!(found[&0x10], ("tcp".into(), "tcp::f".into()));
        assert_eq!(found[&0x20], ("library".into(), "memchr::find".into()));
    }

    #[test]
    fn ciphers_are_told_apart() {
        let text = "0x0000000000000010\naws_lc_rs::aead::seal\n/registry/aws-lc-rs-1.19.0/src/aead.rs:1\nrecord::seal\n\
                    tls/record/src/sealing.rs:3\n0x0000000000000020\naws_lc_0_40_0_aes_hw_encrypt\n??:0\n\
                    0x0000000000000030\nrecord::seal\ntls/record/src/sealing.rs:9\n";
        let found = read_frames(text);
        let crates = [0x10, 0x20, 0x30].map(|address| found[&address].0.as_str());
        assert_eq!(crates, [CIPHER, CIPHER, "record"]);
    }
}
