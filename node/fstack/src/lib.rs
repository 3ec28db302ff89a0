//! F-Stack's `config.ini`, key by key: which option of ours does the same,
//! where there is nothing to do, and where its meaning is another than people
//! think.
//!
//! [`read`] parses; [`Import::command`] is the command line that serves the
//! same addresses on the same cores. Sources: F-Stack's `lib/ff_config.c` and
//! `config.ini`; FreeBSD's manual pages tcp(4), inet(4) and tuning(7).

#![forbid(unsafe_code)]

mod keys;
mod mask;
mod nginx;
#[cfg(test)]
mod tests;

pub use mask::cores_of_mask;
#[cfg(test)]
pub use mask::mask_of_cores;
pub use nginx::{CONFIGURATION, Directive, NginxImport, read_nginx};

use core::fmt;
use serde::Serialize;

/// What a key means for us.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", content = "text", rename_all = "kebab-case")]
pub enum Meaning {
    /// An option of ours does it: which, and what there is to know.
    Option(String),
    /// Nothing to do, for this reason.
    Nothing(String),
    /// Not what people think, or not to be had here.
    Warning(String),
}

/// One line of the file that says something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Line {
    /// From 1.
    pub line: usize,
    /// Its section, without brackets.
    pub section: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// What it means for us.
    pub meaning: Meaning,
}

/// A whole file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Import {
    /// Its lines in their order.
    pub lines: Vec<Line>,
    /// The command line that does the same, word by word.
    pub command: Vec<String>,
}

/// Why a file is none of F-Stack's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ImportError {
    /// Longer than any such file.
    TooLong,
    /// A line is neither a section nor `key=value`.
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It has none of the sections that F-Stack reads.
    NoSection,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "longer than {} KiB: no configuration of F-Stack", LONGEST >> 10),
            Self::Line { line, why } => write!(f, "line {line}: {why}"),
            Self::NoSection => write!(f, "has no [dpdk] section: no configuration of F-Stack"),
        }
    }
}

impl std::error::Error for ImportError {}

/// Longer files are refused.
const LONGEST: usize = 1 << 20;

/// What `allow` was called before DPDK 20.11.
pub(crate) const OLD_ALLOW: &str = concat!("pci_", "white", "list");

/// One assignment, before its meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub line: usize,
    pub section: &'a str,
    pub key: &'a str,
    pub value: &'a str,
}

/// Reads a file and says what each key means for us.
///
/// # Errors
/// [`ImportError`], with the line.
pub fn read(text: &str) -> Result<Import, ImportError> {
    if text.len() > LONGEST {
        return Err(ImportError::TooLong);
    }
    let entries = entries(text)?;
    if !entries.iter().any(|entry| entry.section == "dpdk") {
        return Err(ImportError::NoSection);
    }
    let lines = entries.iter().map(|entry| Line {
        line: entry.line,
        section: entry.section.to_owned(),
        key: entry.key.to_owned(),
        value: entry.value.to_owned(),
        meaning: keys::meaning(entry, &entries),
    });
    Ok(Import { lines: lines.collect(), command: command(&entries) })
}

/// Sections in brackets, `key=value`, comments behind `#` and `;`. A value
/// ends at a comment that has white space before it (F-Stack's
/// `ff_ini_parser.c`).
fn entries(text: &str) -> Result<Vec<Entry<'_>>, ImportError> {
    let mut entries = Vec::new();
    let mut section = "";
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let wrong = |why| ImportError::Line { line: at + 1, why };
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            section = rest.split_once(']').ok_or_else(|| wrong("a section without its end"))?.0.trim();
            continue;
        }
        let (key, value) = line.split_once(['=', ':']).ok_or_else(|| wrong("neither a section nor key=value"))?;
        if section.is_empty() {
            return Err(wrong("a key before the first section"));
        }
        let comment = value.char_indices().zip(core::iter::once(' ').chain(value.chars()));
        let end = comment.into_iter().find(|((_, char), before)| matches!(char, ';' | '#') && before.is_whitespace());
        let value = end.map_or(value, |((at, _), _)| &value[..at]);
        entries.push(Entry { line: at + 1, section, key: key.trim(), value: value.trim() });
    }
    Ok(entries)
}

/// The last value of a key.
pub(crate) fn value_of<'a>(entries: &[Entry<'a>], section: &str, key: &str) -> Option<&'a str> {
    entries.iter().rfind(|entry| entry.section == section && entry.key == key).map(|entry| entry.value)
}

/// Ports in the order of `port_list`, which F-Stack reads as `0-3,5`.
pub(crate) fn ports(entries: &[Entry<'_>]) -> Vec<u16> {
    let list = value_of(entries, "dpdk", "port_list").unwrap_or_default();
    mask::list(list).unwrap_or_default()
}

fn command(entries: &[Entry<'_>]) -> Vec<String> {
    let mut words = vec!["nearside".to_owned(), "serve".to_owned(), "./site".to_owned()];
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    let dpdk = |key: &str| value_of(entries, "dpdk", key);
    let devices = dpdk("allow").or_else(|| dpdk(OLD_ALLOW)).unwrap_or_default();
    let devices: Vec<&str> = devices.split(',').map(str::trim).filter(|device| !device.is_empty()).collect();
    let ports = ports(entries);
    for (at, port) in ports.iter().enumerate() {
        let device = devices.get(at).map_or_else(|| format!("PCI-ADDRESS-OF-PORT-{port}"), |device| keys::pci(device));
        let mut link = format!("dpdk:{device}");
        for (key, option) in
            [("symmetric_rss", ",rss=symmetric"), ("promiscuous", ",promiscuous=on"), ("vlan_strip", ",vlan-strip=on")]
        {
            if dpdk(key) == Some("1") {
                link.push_str(option);
            }
        }
        if dpdk("tx_csum_offoad_skip") == Some("1") {
            link.push_str(",checksum=off");
        }
        if dpdk("tso") != Some("1") {
            link.push_str(",segmentation=off");
        }
        let mtu = value_of(entries, &format!("port{port}"), "mtu");
        link.extend(mtu.map(|mtu| format!(",mtu={mtu}")));
        if dpdk("no_huge") == Some("1") {
            link.push_str(",huge=off");
        }
        link.extend(dpdk("memory").map(|memory| format!(",memory={memory}")));
        link.extend(dpdk("file_prefix").map(|prefix| format!(",file-prefix={prefix}")));
        add("--link", link);
        for (flag, values) in keys::addresses(entries, *port) {
            for value in values {
                add(flag, value);
            }
        }
    }
    let cores = dpdk("lcore_mask").and_then(cores_of_mask).unwrap_or_default();
    if !cores.is_empty() {
        add("--silos", mask::text(&cores));
    }
    if let Some(delay) = dpdk("pkt_tx_delay").and_then(|value| value.parse::<u32>().ok()).filter(|delay| *delay > 0) {
        add("--tx-delay", format!("{}us", delay.min(keys::LONGEST_DELAY)));
    }
    match dpdk("idle_sleep").and_then(|value| value.parse::<u32>().ok()) {
        Some(0) | None => {}
        Some(micros) => add("--idle", format!("sleep:{micros}us")),
    }
    if let Some(name) = value_of(entries, "freebsd.sysctl", "net.inet.tcp.cc.algorithm")
        .filter(|name| matches!(*name, "cubic" | "newreno"))
    {
        add("--congestion", name.to_owned());
    }
    if let Some(sockets) =
        value_of(entries, "freebsd.boot", "kern.ipc.maxsockets").filter(|value| value.parse::<u32>().is_ok())
    {
        add("--max-connections", sockets.to_owned());
    }
    if value_of(entries, "pcap", "enable") == Some("1") {
        let folder = value_of(entries, "pcap", "savepath").unwrap_or(".");
        add("--capture", format!("{}/nearside.pcapng", folder.trim_end_matches('/')));
    }
    words
}
