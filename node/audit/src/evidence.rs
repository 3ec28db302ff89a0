//! The files that settings, counters and the machine's shape are read from.

mod groups;
mod patterns;
mod recorder;

use core::fmt;
use recorder::Recorder;

pub(crate) use patterns::{OURS, SERVICES};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use sysroot::{FileKind, Sysroot};

/// Files by their path below the root: what they say, or why they could not
/// be read. What no file tells, as an interface's driver, lies at a path that
/// no machine has (`ethtool/eth0/rings`), put there by [`Evidence::with`].
///
/// As text, a line for each: the path, a space, and the content, in which a
/// backslash and a line feed are written `\\` and `\n`; before the path of a
/// file that could not be read stands `!`, and the reason behind it. White
/// space and backslashes in a path are written `\s` and `\\`. Lines that begin
/// with `#` are skipped. The form is that of `topology::Recording`, which reads
/// this one too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    files: BTreeMap<String, Result<String, String>>,
}

/// Why there is no evidence at all.
#[derive(Debug)]
pub enum EvidenceError {
    /// The folder cannot be listed.
    Io(PathBuf, io::Error),
    /// The text's line is no line of a recording.
    NotARecording {
        /// Counted from 1.
        line: usize,
    },
    /// More files than any machine has that is meant.
    TooManyFiles,
    /// Their texts are longer together than any machine's.
    TooLong,
    /// Nothing of a machine was found below the root.
    NoMachine(PathBuf),
}

impl fmt::Display for EvidenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, why) => write!(f, "{}: {why}", path.display()),
            Self::NotARecording { line } => write!(f, "line {line} is no line of a recording (path, space, content)"),
            Self::TooManyFiles => write!(f, "a recording has at most {FILES_LIMIT} files"),
            Self::TooLong => write!(f, "a recording has at most {} MiB", TEXT_LIMIT >> 20),
            Self::NoMachine(path) => {
                write!(f, "{}: neither proc/sys nor sys below it, so there is no machine to judge", path.display())
            }
        }
    }
}

impl std::error::Error for EvidenceError {}

/// A version of the kernel: major and minor number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kernel(pub u16, pub u16);

impl core::str::FromStr for Kernel {
    type Err = &'static str;

    /// `4.18`, and what follows: `4.18.0-553.el8`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(|char: char| !char.is_ascii_digit());
        let mut number = || parts.next().filter(|part| !part.is_empty()).and_then(|part| part.parse().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self(major, minor)),
            _ => Err("is no version of the kernel as 4.18"),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// What is known of a machine by what was asked, at paths that none has.
const NAMED: &str = "nearside/named";
const OF_KERNEL: &str = "nearside/kernel";
const CLUSTER: &str = "nearside/cluster";

/// The most files that are recorded.
const FILES_LIMIT: usize = 200_000;

/// The most bytes of them all: what a recording may have that is read.
const TEXT_LIMIT: usize = 256 << 20;

impl Evidence {
    /// Reads the machine below `root`, which is `/`, or a folder that has the
    /// same files.
    ///
    /// # Errors
    /// If there is neither `proc/sys` nor `sys` below it, or too much.
    pub fn take(root: &Path) -> Result<Self, EvidenceError> {
        let root = Sysroot::at(root);
        let has = |path: &str| root.kind(path) == Some(FileKind::Folder);
        if !has("proc/sys") && !has("sys") {
            return Err(EvidenceError::NoMachine(root.path().to_owned()));
        }
        Ok(Self { files: Recorder::new(&root).record()? })
    }

    /// Reads a recording's text.
    ///
    /// # Errors
    /// [`EvidenceError::NotARecording`], [`EvidenceError::TooManyFiles`].
    pub fn parse(text: &str) -> Result<Self, EvidenceError> {
        let mut files = BTreeMap::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let wrong = EvidenceError::NotARecording { line: at + 1 };
            // A file that is empty has nothing behind its path.
            let (path, value) = line.split_once(' ').unwrap_or((line, ""));
            let (path, unreadable) = path.strip_prefix('!').map_or((path, false), |path| (path, true));
            let path = unescaped(path);
            let usual = path.split('/').all(|part| !part.is_empty() && part != "..");
            if !usual || (!path.starts_with('.') && !path.contains('/')) {
                return Err(wrong);
            }
            if files.len() >= FILES_LIMIT {
                return Err(EvidenceError::TooManyFiles);
            }
            let value = unescaped(value);
            files.insert(path, if unreadable { Err(value) } else { Ok(value) });
        }
        Ok(Self { files })
    }

    /// A recording that has just these files.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Ok((*text).to_owned())));
        Self { files: files.collect() }
    }

    /// The same with one file more, or another content of it.
    #[must_use]
    pub fn with(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), Ok(text.to_owned()));
        self
    }

    /// What a file says, without white space around it; `None` where it is
    /// missing or could not be read.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_ref().ok().map(|text| text.trim())
    }

    /// What a file says, or why it could not be read; `None` where it is
    /// missing.
    #[must_use]
    pub fn read(&self, path: &str) -> Option<Result<&str, &str>> {
        Some(self.files.get(path)?.as_ref().map(|text| text.trim()).map_err(String::as_str))
    }

    /// What a sysctl is, by its name with dots.
    #[must_use]
    pub fn sysctl(&self, key: &str) -> Option<&str> {
        self.get(&sysctl_path(key))
    }

    /// A sysctl that is one number.
    #[must_use]
    pub fn sysctl_number(&self, key: &str) -> Option<u64> {
        self.sysctl(key)?.parse().ok()
    }

    /// The names in a folder, each once, ascending as text.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<&str> {
        let start = format!("{folder}/");
        let below = self.files.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
        let mut names: Vec<&str> = below.filter_map(|(path, _)| path.get(start.len()..)?.split('/').next()).collect();
        names.dedup();
        names
    }

    /// The kernel's version.
    #[must_use]
    pub fn kernel(&self) -> Option<Kernel> {
        let mut parts = self.sysctl("kernel.osrelease")?.split(|char: char| !char.is_ascii_digit());
        Some(Kernel(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// The value of an argument of the kernel's command line, the last if it
    /// is there several times; of one without a value its own name.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&str> {
        arguments(self.get("proc/cmdline")?).rfind(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Memory in all, in bytes.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        self.meminfo("MemTotal")
    }

    /// A field of `/proc/meminfo`, in bytes.
    #[must_use]
    pub fn meminfo(&self, name: &str) -> Option<u64> {
        let line = self.get("proc/meminfo")?.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split(':').nth(1)?.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// A field of `/proc/vmstat`.
    #[must_use]
    pub fn vmstat(&self, name: &str) -> Option<u64> {
        let mut lines = self.get("proc/vmstat")?.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
    }

    /// A field of `/proc/net/netstat` or `/proc/net/snmp`, which have two lines
    /// for each protocol: names and values.
    #[must_use]
    pub fn net_counter(&self, protocol: &str, name: &str) -> Option<i64> {
        ["proc/net/netstat", "proc/net/snmp"].iter().find_map(|path| {
            let mut lines = self.get(path)?.lines().filter(|line| line.split(':').next() == Some(protocol));
            let (names, values) = (lines.next()?, lines.next()?);
            let at = names.split_whitespace().position(|field| field == name)?;
            values.split_whitespace().nth(at)?.parse().ok()
        })
    }

    /// A column of `/proc/net/softnet_stat`, added up over cores.
    #[must_use]
    pub fn softnet(&self, column: usize) -> Option<u64> {
        let rows = self.get("proc/net/softnet_stat")?.lines();
        let value = |row: &str| u64::from_str_radix(row.split_whitespace().nth(column)?, 16).ok();
        rows.map(value).try_fold(0_u64, |sum, value| Some(sum.saturating_add(value?)))
    }

    /// The same, as that of a machine that was named: the one that advice is
    /// for, and not only the one that it is read on.
    #[must_use]
    pub fn of_named_node(self) -> Self {
        self.with(NAMED, "1")
    }

    /// The same, with another kernel: of which is known what came and went, and
    /// not which files it has.
    #[must_use]
    pub fn of_kernel(self, kernel: Kernel) -> Self {
        self.with(&sysctl_path("kernel.osrelease"), &format!("{kernel}.0")).with(OF_KERNEL, &kernel.to_string())
    }

    /// The same, with the version of OpenShift that manifests are for.
    #[must_use]
    pub fn of_cluster(self, major: u16, minor: u16) -> Self {
        self.with(CLUSTER, &format!("{major}.{minor}"))
    }

    pub(crate) fn named(&self) -> bool {
        self.files.contains_key(NAMED)
    }

    pub(crate) fn other_kernel(&self) -> bool {
        self.files.contains_key(OF_KERNEL)
    }

    /// Major and minor number, if it was named.
    pub(crate) fn cluster(&self) -> Option<(u16, u16)> {
        let (major, minor) = self.get(CLUSTER)?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// Cores that the machine has, on line or not.
    pub(crate) fn present(&self) -> Vec<u32> {
        let present = self.get("sys/devices/system/cpu/present").and_then(cpu_list);
        present.filter(|cores| !cores.is_empty()).unwrap_or_else(|| self.cores())
    }

    /// Cores on line.
    #[must_use]
    pub fn cores(&self) -> Vec<u32> {
        self.get("sys/devices/system/cpu/online").and_then(cpu_list).unwrap_or_default()
    }

    /// NUMA domains with their cores, ascending by number; none where it is not recorded.
    #[must_use]
    pub fn domains(&self) -> Vec<(u32, Vec<u32>)> {
        const FOLDER: &str = "sys/devices/system/node";
        let names = self.names(FOLDER).into_iter();
        let numbered = names.filter_map(|name| Some((name.strip_prefix("node")?.parse::<u32>().ok()?, name)));
        let mut found: Vec<(u32, &str)> = numbered.collect();
        found.sort_unstable();
        let cores = |name: &str| self.get(&format!("{FOLDER}/{name}/cpulist")).and_then(cpu_list).unwrap_or_default();
        found.into_iter().map(|(number, name)| (number, cores(name))).collect()
    }

    /// Cores that the scheduler leaves alone (`isolcpus=` or an isolated
    /// partition), or where ticks are left out (`nohz_full=`).
    #[must_use]
    pub fn isolated(&self) -> Vec<u32> {
        let list = |name: &str| self.get(&format!("sys/devices/system/cpu/{name}")).and_then(cpu_list);
        let mut all = list("isolated").unwrap_or_default();
        all.extend(list("nohz_full").unwrap_or_default());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the kernel preempts nearly everywhere (PREEMPT_RT).
    #[must_use]
    pub fn realtime(&self) -> bool {
        self.get("sys/kernel/realtime") == Some("1")
            || self.sysctl("kernel.version").is_some_and(|version| version.contains("PREEMPT_RT"))
    }

    /// Whether this is a virtual machine, as its processor says.
    #[must_use]
    pub fn virtual_machine(&self) -> bool {
        let flags = self.get("proc/cpuinfo").into_iter().flat_map(str::lines).find(|line| line.starts_with("flags"));
        flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
    }

    /// Interfaces that stand for a device, or all but loopback where none does.
    #[must_use]
    pub fn interfaces(&self) -> Vec<&str> {
        let mut all = self.names("sys/class/net");
        // A file is among them where bonding is loaded.
        all.retain(|name| *name != "lo" && *name != "bonding_masters");
        all
    }

    /// Processes whose limits were recorded: number and name.
    #[must_use]
    pub fn processes(&self) -> Vec<(u32, &str)> {
        let numbers = self.names("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        numbers.filter_map(|number| Some((number, self.get(&format!("proc/{number}/comm"))?))).collect()
    }

    /// Whether a process of this name runs; the kernel cuts names at 15
    /// characters.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        self.processes().iter().any(|(_, comm)| *comm == name)
    }

    /// Every file and what it says, in the order of paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, Result<&str, &str>)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_deref().map_err(String::as_str)))
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, text) in &self.files {
            let (mark, text) = match text {
                Ok(text) => ("", text),
                Err(why) => ("!", why),
            };
            let path = path.replace('\\', "\\\\").replace(' ', "\\s").replace('\t', "\\t").replace('\n', "\\n");
            let text = text.trim_end().replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
            writeln!(f, "{mark}{path} {text}")?;
        }
        Ok(())
    }
}

/// Where a sysctl lies. A dot that is part of a name, as in that of a VLAN's
/// interface, is written as a slash (sysctl(8)).
#[must_use]
pub fn sysctl_path(key: &str) -> String {
    let swapped = key.chars().map(|char| match char {
        '.' => '/',
        '/' => '.',
        char => char,
    });
    format!("proc/sys/{}", swapped.collect::<String>())
}

/// A key with slashes as separators is written with dots, and the other way
/// round: whichever comes first is the separator (man 5 sysctl.d).
pub(crate) fn dotted(key: &str) -> String {
    match key.find(['.', '/']).and_then(|at| key.as_bytes().get(at)) {
        Some(b'/') => key
            .chars()
            .map(|char| match char {
                '/' => '.',
                '.' => '/',
                char => char,
            })
            .collect(),
        _ => key.to_owned(),
    }
}

/// Arguments of a command line with their values; quotes keep spaces together
/// (kernel/params.c). What stands behind `--` is for the first process.
pub(crate) fn arguments(line: &str) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    let mut quoted = false;
    let parts = line.split(move |char: char| {
        quoted ^= char == '"';
        !quoted && char.is_ascii_whitespace()
    });
    let words: Vec<&str> = parts.filter(|word| !word.is_empty()).take_while(|word| *word != "--").collect();
    words.into_iter().map(|word| match word.split_once('=') {
        Some((name, value)) => (name, value.trim_matches('"')),
        None => (word, word),
    })
}

/// `0-3,8,10-14:2/4` as numbers; `None` where it is no list.
#[must_use]
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    const MOST: usize = 65_536;
    Some(topology::parse_list(text, MOST)?.into_iter().map(u32::from).collect())
}

/// A mask as the kernel prints it: words of eight hexadecimal digits with
/// commas between them, the highest first.
#[must_use]
pub fn cpu_mask(text: &str) -> Option<Vec<u32>> {
    let mut cores = Vec::new();
    for (word, digits) in text.trim().split(',').rev().enumerate() {
        let bits = u32::from_str_radix(digits.trim().trim_start_matches("0x"), 16).ok()?;
        let first = u32::try_from(word).ok()?.checked_mul(32)?;
        cores.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
    }
    Some(cores)
}

fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(char) = rest.next() {
        match char {
            '\\' => text.extend(rest.next().map(|escaped| match escaped {
                'n' => '\n',
                'r' => '\r',
                's' => ' ',
                't' => '\t',
                other => other,
            })),
            char => text.push(char),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_of_cores() {
        assert_eq!(cpu_list("0-3,8,10-14:2/4"), Some(vec![0, 1, 2, 3, 8, 10, 11, 14]));
        assert_eq!(cpu_list(""), Some(vec![]));
        for wrong in ["3-1", "a", "1-", "0-4294967295", "0-3:0/2", "0-3:3/2", "0-3:1"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
        assert_eq!(cpu_mask("1,00000003"), Some(vec![0, 1, 32]));
        assert_eq!(cpu_mask("ff"), Some((0..8).collect()));
        assert_eq!(cpu_mask("xyz"), None);
    }

    #[test]
    fn arguments_with_quotes_and_repetitions() {
        let evidence = Evidence::of(&[("proc/cmdline", "quiet a=1 dyndbg=\"file x +p\" a=2 -- a=3")]);
        assert_eq!(evidence.argument("a"), Some("2"));
        assert_eq!(evidence.argument("quiet"), Some("quiet"));
        assert_eq!(evidence.argument("dyndbg"), Some("file x +p"));
        assert_eq!(evidence.argument("nohz_full"), None);
    }

    #[test]
    fn a_recording_reads_back_as_it_was() {
        let evidence = Evidence::of(&[
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
            ("etc/sysctl.d/a b.conf", "one = 1\ntwo = \\2\n\n# three"),
            ("proc/empty", ""),
        ]);
        let evidence =
            Evidence { files: evidence.files.into_iter().chain([("sys/x".into(), Err("no".into()))]).collect() };
        let again = Evidence::parse(&evidence.to_string()).expect("what was written is a recording");
        assert_eq!(again, evidence);
        assert_eq!(again.read("sys/x"), Some(Err("no")));
    }

    #[test]
    fn hostile_recordings_are_refused_by_line() {
        for wrong in [
            "proc/a 1\n../etc/shadow x",
            "proc/a 1\n/etc/shadow x",
            "proc/a 1\nproc//b x",
            "proc/a \
            1\nword x",
        ] {
            let why = Evidence::parse(wrong).expect_err(wrong);
            assert!(matches!(why, EvidenceError::NotARecording { line: 2 }), "{wrong}: {why}");
        }
    }

    #[test]
    fn counters_by_name() {
        let evidence = Evidence::of(&[
            ("proc/net/netstat", "TcpExt: A ListenOverflows B\nTcpExt: 1 42 3\nIpExt: X\nIpExt: 7"),
            ("proc/net/snmp", "Tcp: RtoMin MaxConn\nTcp: 200 -1"),
            ("proc/net/softnet_stat", "00000001 00000002 00000000\n0000000f 00000010 00000000"),
            ("proc/vmstat", "numa_hit 5\nnuma_miss 6"),
        ]);
        assert_eq!(evidence.net_counter("TcpExt", "ListenOverflows"), Some(42));
        assert_eq!(evidence.net_counter("Tcp", "MaxConn"), Some(-1));
        assert_eq!(evidence.net_counter("Tcp", "Nothing"), None);
        assert_eq!(evidence.softnet(1), Some(18));
        assert_eq!(evidence.softnet(9), None);
        assert_eq!(evidence.vmstat("numa_miss"), Some(6));
    }
}
