//! The kernel's files, as texts.

use crate::sample::{CoreCounters, DomainCounters, PortCounters};
use std::collections::BTreeMap;

/// Numbers of a line, as many as there are.
pub fn numbers(text: &str) -> impl Iterator<Item = u64> + '_ {
    text.split_ascii_whitespace().map_while(|word| word.parse().ok())
}

/// `/proc/stat`: cores, and interrupts, context switches and forks of the whole
/// machine. Of the long line of interrupts only the sum is read.
pub fn stat(
    text: &str,
    cores: &mut BTreeMap<u16, CoreCounters>,
    counts: &mut BTreeMap<String, u64>,
    levels: &mut BTreeMap<String, u64>,
) {
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(' ') else { continue };
        let first = || numbers(rest).next();
        match key {
            "intr" => counts.extend(first().map(|sum| ("interrupts".to_owned(), sum))),
            "ctxt" => counts.extend(first().map(|sum| ("switches".to_owned(), sum))),
            "processes" => counts.extend(first().map(|sum| ("forks".to_owned(), sum))),
            "procs_running" => levels.extend(first().map(|now| ("running".to_owned(), now))),
            "procs_blocked" => levels.extend(first().map(|now| ("blocked".to_owned(), now))),
            _ => {
                let Some(core) = key.strip_prefix("cpu").and_then(|core| core.parse().ok()) else { continue };
                let core = cores.entry(core).or_default();
                for (to, ticks) in core.ticks.iter_mut().zip(numbers(rest)) {
                    *to = ticks;
                }
            }
        }
    }
}

/// A line of names, then one of values, each with the group's name before it:
/// `/proc/net/snmp`, `/proc/net/netstat`.
pub fn groups<'a>(text: &'a str, mut take: impl FnMut(&'a str, &'a str, i64)) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((group, names)), Some((same, values))) = (names.split_once(':'), values.split_once(':')) else {
            continue;
        };
        if group != same {
            continue;
        }
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            if let Ok(value) = value.parse() {
                take(group, name, value);
            }
        }
    }
}

/// `/proc/net/dev`.
pub fn dev(text: &str) -> BTreeMap<String, PortCounters> {
    let line = |line: &str| {
        let (name, rest) = line.rsplit_once(':')?;
        let all: Vec<u64> = numbers(rest).collect();
        // Sixteen figures: eight in, eight out.
        let [bytes, packets, errors, drops, _, _, _, _, out_bytes, out_packets, out_errors, out_drops, ..] = all[..]
        else {
            return None;
        };
        let port = PortCounters {
            bytes: [bytes, out_bytes],
            packets: [packets, out_packets],
            errors: [errors, out_errors],
            drops: [drops, out_drops],
            speed: None,
            device: false,
        };
        Some((name.trim().to_owned(), port))
    };
    text.lines().filter_map(line).collect()
}

/// `/proc/net/softnet_stat`: a line for each core, in hexadecimal; the core
/// stands in the thirteenth figure since Linux 5.10, and before is the line's
/// number.
pub fn softnet(text: &str) -> BTreeMap<u16, [u64; 3]> {
    let line = |(number, line): (usize, &str)| {
        let all: Vec<u64> =
            line.split_ascii_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok()).collect();
        let core = all.get(12).copied().unwrap_or(number as u64);
        Some((u16::try_from(core).ok()?, [*all.first()?, *all.get(1)?, *all.get(2)?]))
    };
    text.lines().enumerate().filter_map(line).collect()
}

/// A row of a table, and where it lies in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableRow<'a> {
    /// What stands before the colon.
    pub key: &'a str,
    /// Where the line begins, its colon, and its newline.
    pub place: [usize; 3],
}

/// A table with a column for each core: its cores, and of each row the key and
/// the counts. Rows come in by a callback: of a machine with 256 cores there are
/// half a million counts. A line without a colon has neither.
pub fn by_core<'a>(text: &'a [u8], mut row: impl FnMut(TableRow<'a>, &mut dyn Iterator<Item = u64>)) -> Vec<u16> {
    let mut cores = Vec::new();
    let mut start = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let end = start + line.len();
        if start == 0 {
            let head = String::from_utf8_lossy(line);
            let words = head.split_ascii_whitespace();
            cores = words.filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
        } else if let Some(colon) = line.iter().position(|byte| *byte == b':') {
            // A key that is no text is none that is known.
            let key = core::str::from_utf8(line.get(..colon).unwrap_or_default()).unwrap_or_default().trim();
            let counts = line.get(colon + 1..).unwrap_or_default();
            row(TableRow { key, place: [start, start + colon, end] }, &mut counts_of(counts, cores.len()));
        }
        start = end + 1;
    }
    cores
}

/// As [`numbers`], for long lines.
pub fn counts_of(text: &[u8], most: usize) -> impl Iterator<Item = u64> + '_ {
    let mut bytes = text;
    core::iter::from_fn(move || {
        let start = bytes.iter().position(|byte| *byte != b' ')?;
        bytes = &bytes[start..];
        let mut value = 0_u64;
        let mut length = 0;
        while let Some(digit) = bytes.get(length).filter(|byte| byte.is_ascii_digit()) {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            length += 1;
        }
        // What follows the counts is a name, which may begin with digits.
        let is_word = matches!(bytes.get(length), None | Some(b' ' | b'\n'));
        bytes = &bytes[length..];
        (length > 0 && is_word).then_some(value)
    })
    .take(most)
}

/// `/proc/meminfo`, or a domain's: a value in bytes.
pub fn memory(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once(key).map(|(_, rest)| rest))?;
    let kib = line.trim_start_matches(':').split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    kib.checked_mul(1_024)
}

/// A file of `/proc/pressure`: microseconds in which somebody waited.
pub fn pressure(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

/// A domain's `numastat`: a name and a number a line.
pub fn numastat(text: &str, domain: &mut DomainCounters) {
    let find = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    domain.pages = [find("local_node").unwrap_or(0), find("other_node").unwrap_or(0)];
    domain.foreign = find("numa_foreign").unwrap_or(0);
}

/// The kernel's list of numbers: `0-3,8`.
pub fn list(text: &str) -> Vec<u16> {
    const MOST: usize = 4_096;
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(part).flatten().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_counts_are_read() {
        let text = "cpu  9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10 11\ncpu3 1 2\nintr 77 1 2 3\nctxt 5\nbtime 1\nprocesses 6\n\
                    procs_running 2\nprocs_blocked 1\nsoftirq 5 1 2\n";
        let (mut cores, mut counts, mut levels) = Default::default();
        stat(text, &mut cores, &mut counts, &mut levels);
        assert_eq!(cores[&0].ticks, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(cores[&3].ticks[..3], [1, 2, 0]);
        assert_eq!((counts["interrupts"], counts["switches"], counts["forks"]), (77, 5, 6));
        assert_eq!((cores.len(), levels["running"]), (2, 2));
    }

    #[test]
    fn groups_are_names_over_values() {
        let text =
            "Tcp: CurrEstab RetransSegs MaxConn\nTcp: 7 9 -1\nIp: x\nUdp: 1\nTcpExt: ListenOverflows\nTcpExt: 3\n";
        let mut all = Vec::new();
        groups(text, |group, name, value| all.push((group, name, value)));
        assert_eq!(
            all,
            [
                ("Tcp", "CurrEstab", 7),
                ("Tcp", "RetransSegs", 9),
                ("Tcp", "MaxConn", -1),
                ("TcpExt", "ListenOverflows", 3)
            ]
        );
    }

    #[test]
    fn interfaces_are_read_with_any_name() {
        let text = "Inter-|   Receive  | Transmit\n face |bytes packets\n\
                    eth0: 10 20 1 2 0 0 0 0 30 40 3 4 0 0 0 0\n a:1:5 6 0 0 0 0 0 0 7 8 0 0 0 0 0 0\n cut: 1 2\n";
        let ports = dev(text);
        assert_eq!(ports.len(), 2);
        assert_eq!((ports["eth0"].bytes, ports["eth0"].drops, ports["a:1"].packets), ([10, 30], [2, 4], [6, 8]));
    }

    #[test]
    fn backlogs_name_their_core_or_are_in_order() {
        let new = "0000000a 00000001 00000002 0 0 0 0 0 0 0 0 0 00000005 0 0\n";
        assert_eq!(softnet(new), [(5, [10, 1, 2])].into());
        assert_eq!(softnet("0000000a 00000001 00000002\n00000003 0 0\nx\n"), [(0, [10, 1, 2]), (1, [3, 0, 0])].into());
    }

    #[test]
    fn tables_by_core_end_where_names_begin() {
        let text = "      CPU0 CPU2\n 36:   1   20  PCI-MSIX 1-edge disk\nERR:  0\nNMI: 3 4 Non-maskable\n 9: 5 6x\n";
        let mut rows = Vec::new();
        let cores =
            by_core(text.as_bytes(), |row, counts| rows.push((row.key.to_owned(), counts.collect::<Vec<u64>>())));
        assert_eq!(cores, [0, 2]);
        let row = |key: &str, counts: &[u64]| (key.to_owned(), counts.to_vec());
        assert_eq!(rows, [row("36", &[1, 20]), row("ERR", &[0]), row("NMI", &[3, 4]), row("9", &[5])]);
    }

    #[test]
    fn memory_and_lists() {
        assert_eq!(memory("MemTotal:  4 kB\nMemFree: 3 kB\n", "MemFree"), Some(3 << 10));
        assert_eq!(memory("Node 0 MemFree:  3 kB\n", "MemFree"), Some(3 << 10));
        assert_eq!(memory("x", "MemFree"), None);
        let stalled = "some avg10=1.5 avg60=0.6 avg300=0.1 total=77\nfull avg10=0.0 avg60=0.0 avg300=0.0 total=5\n";
        assert_eq!((pressure(stalled), pressure("full total=5\n")), (Some(77), None));
        let mut domain = DomainCounters::default();
        numastat("numa_hit 1\nnuma_foreign 9\nlocal_node 5\nother_node 6\n", &mut domain);
        assert_eq!((domain.pages, domain.foreign), ([5, 6], 9));
        assert_eq!((list("0-2,5\n"), list("x")), (vec![0, 1, 2, 5], vec![]));
        assert_eq!(list("0-65535").len(), 4_096);
    }
}
