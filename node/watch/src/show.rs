//! A change in rows for people: one line, or tables.

use crate::change::{BypassRow, Change, CoreRow, DomainRow, Figure, MallocRow, PortRow, Presence, ProcessRow, TIMES};
use std::collections::BTreeMap;

/// A column of the line: its figure, its head, its width, and what it is divided
/// by.
struct Column {
    key: &'static str,
    head: [&'static str; 2],
    width: usize,
    by: f64,
    places: usize,
}

const fn column(key: &'static str, head: [&'static str; 2], width: usize, by: f64, places: usize) -> Column {
    Column { key, head, width, by, places }
}

/// The line, from left to right.
const COLUMNS: [Column; 16] = [
    column("in_bits", ["Gb/s", "in"], 7, 1e9, 3),
    column("out_bits", ["Gb/s", "out"], 7, 1e9, 3),
    column("in_packets", ["Mpps", "in"], 6, 1e6, 3),
    column("out_packets", ["Mpps", "out"], 6, 1e6, 3),
    column("connections", ["TCP", "conns"], 7, 1.0, 0),
    column("cpu", ["CPU", "%"], 5, 1.0, 1),
    column("syscalls", ["system", "calls/s"], 8, 1.0, 0),
    column("interrupts", ["inter-", "rupts/s"], 7, 1.0, 0),
    column("switches", ["context", "switch/s"], 8, 1.0, 0),
    column("memory_free", ["free", "GiB"], 6, 1_073_741_824.0, 1),
    column("remote", ["remote", "%"], 6, 1.0, 1),
    column("memory_traffic", ["memory", "GB/s"], 6, 1e9, 1),
    column("retransmissions", ["re-", "trans/s"], 7, 1.0, 0),
    column("drops", ["", "drops/s"], 7, 1.0, 0),
    column("overflows", ["accept", "lost/s"], 6, 1.0, 0),
    column("own_cpu", ["own", "CPU %"], 5, 1.0, 2),
];

/// The heads of the line, in two rows.
#[must_use]
pub fn heads() -> String {
    let mut text = String::new();
    for row in 0..2 {
        text += if row == 0 { "        " } else { "UTC     " };
        for column in &COLUMNS {
            text += &format!(" {:>width$}", column.head[row], width = column.width);
        }
        text.push('\n');
    }
    text
}

/// The line of a change; it has the same width always.
#[must_use]
pub fn line(change: &Change) -> String {
    let mut text = clock(change.unix_ms);
    for column in &COLUMNS {
        let value = change.machine.get(column.key).and_then(Figure::value);
        text.push(' ');
        text += &cell(value.map(|value| value / column.by), column.width, column.places);
    }
    text
}

/// The same within so many characters: heads and line in pieces, each of which
/// begins with the time.
#[must_use]
pub fn pieces(change: &Change, width: usize) -> Vec<[String; 3]> {
    const TIME: usize = 8;
    let mut pieces: Vec<[String; 3]> = Vec::new();
    for column in &COLUMNS {
        if pieces.last().is_none_or(|[line, ..]| line.len() + 1 + column.width > width) {
            pieces.push([" ".repeat(TIME), format!("{:<TIME$}", "UTC"), clock(change.unix_ms)]);
        }
        let Some([upper, lower, line]) = pieces.last_mut() else { continue };
        for (text, head) in [(upper, column.head[0]), (lower, column.head[1])] {
            *text += &format!(" {head:>width$}", width = column.width);
        }
        let value = change.machine.get(column.key).and_then(Figure::value);
        *line += " ";
        *line += &cell(value.map(|value| value / column.by), column.width, column.places);
    }
    pieces
}

/// What is missing in the line and why, a line for each.
#[must_use]
pub fn missing(change: &Change) -> Vec<String> {
    let reason = |column: &Column| match change.machine.get(column.key) {
        Some(Figure::Missing(why)) => {
            Some(format!("{} {}: n/a ({why})", column.head[0], column.head[1]).trim().to_owned())
        }
        _ => None,
    };
    COLUMNS.iter().filter_map(reason).chain(change.notes.iter().cloned()).collect()
}

/// A value right-aligned in so many characters: with fewer places, then with a
/// prefix, where it is too long.
#[must_use]
pub fn cell(value: Option<f64>, width: usize, places: usize) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return format!("{:>width$}", "n/a") };
    for places in (0..=places).rev() {
        let text = format!("{value:.places$}");
        if text.len() <= width {
            return format!("{text:>width$}");
        }
    }
    for (by, prefix) in [(1e3, 'k'), (1e6, 'M'), (1e9, 'G'), (1e12, 'T')] {
        let text = format!("{:.0}{prefix}", value / by);
        if text.len() <= width {
            return format!("{text:>width$}");
        }
    }
    "#".repeat(width)
}

/// A value within a sentence.
fn free(value: Option<f64>, places: usize) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "n/a".to_owned(), |value| format!("{value:.places$}"))
}

/// The time of day, in UTC.
#[must_use]
pub fn clock(unix_ms: u64) -> String {
    let seconds = unix_ms / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// What the whole machine did beside the line: who waited, and what TCP did.
#[must_use]
pub fn totals(change: &Change) -> String {
    let figure = |key: &str| change.totals.get(key).and_then(Figure::value);
    let cell = |key: &str| free(figure(key), 0);
    // Of a million microseconds in each second.
    let share = |key: &str| free(figure(key).map(|us| us / 1e4), 1);
    format!(
        "tasks: {} running, {} waiting for disks, {} begun/s; some waited for cores {} %, memory {} %, disks {} % of \
         the time\n",
        cell("running"),
        cell("blocked"),
        cell("forks"),
        share("waited for cores, us"),
        share("waited for memory, us"),
        share("waited for disks, us"),
    )
}

/// What the kernel's TCP did.
#[must_use]
pub fn tcp(change: &Change) -> String {
    const COUNTS: [(&str, &str); 11] = [
        ("opened", "ActiveOpens"),
        ("accepted", "PassiveOpens"),
        ("segments in", "InSegs"),
        ("out", "OutSegs"),
        ("again", "RetransSegs"),
        ("of them SYN", "TCPSynRetrans"),
        ("timeouts", "TCPTimeouts"),
        ("resets sent", "OutRsts"),
        ("accept queue full", "ListenOverflows"),
        ("SYN queue full", "TCPReqQFullDrop"),
        ("backlog dropped", "TCPBacklogDrop"),
    ];
    let count = |(word, name): (&str, &str)| {
        let rate = change.totals.get(&format!("tcp.{name}")).and_then(Figure::value);
        format!("{word} {}", free(rate, 0))
    };
    format!("TCP/s: {}\n", COUNTS.map(count).join(", "))
}

fn figure(figure: &Figure, by: f64, width: usize, places: usize) -> String {
    cell(figure.value().map(|value| value / by), width, places)
}

const fn state(presence: Presence, came: &'static str, gone: &'static str) -> &'static str {
    match presence {
        Presence::Here => "",
        Presence::Came => came,
        Presence::Gone => gone,
    }
}

/// Cores, as mpstat has them.
#[must_use]
pub fn cores(rows: &[CoreRow]) -> String {
    let mut text = String::from("core ");
    for name in TIMES {
        text += &format!(" {name:>6}");
    }
    text += "  interr/s  softirq/s  drops/s  squeez/s\n";
    for row in rows {
        text += &format!("{:>4} ", row.core);
        let note = state(row.presence, "came on line", "went off line");
        if !note.is_empty() {
            text += &format!(" {note}\n");
            continue;
        }
        for share in row.times {
            text += &format!(" {:>6.1}", share * 100.0);
        }
        let cells = [(&row.interrupts, 9), (&row.softirqs, 10), (&row.backlog_drops, 8), (&row.squeezed, 9)];
        for (value, width) in cells {
            text += &format!(" {}", figure(value, 1.0, width, 0));
        }
        text.push('\n');
    }
    text
}

/// Interfaces, as sar -n DEV and ifutil have them, and links of ours below.
#[must_use]
pub fn ports(rows: &[PortRow], ours: &[BypassRow]) -> String {
    let mut text =
        String::from("port                Mb/s in Mb/s out     pps in    pps out used %   drops/s  errors/s\n");
    for row in rows {
        text += &format!("{:<18}", row.name);
        let note = state(row.presence, "new", "gone");
        if !note.is_empty() {
            text += &format!(" {note}\n");
            continue;
        }
        text += &traffic(&row.bits, &row.packets);
        text += &format!(" {}", cell(row.used.value().map(|share| share * 100.0), 6, 1));
        for pair in [&row.drops, &row.errors] {
            let sum = pair.iter().filter_map(Figure::value).fold(0.0, |sum, value| sum + value);
            text += &format!(" {}", cell(Some(sum), 9, 0));
        }
        text.push('\n');
    }
    for row in ours.iter().filter(|row| row.links) {
        text += &format!("{:<18}", format!("nearside {}", row.pid));
        let note = state(row.presence, "new", "gone");
        if !note.is_empty() {
            text += &format!(" {note}\n");
            continue;
        }
        text += &traffic(&row.bits, &row.packets);
        text += &format!(" {} {}", cell(None, 6, 1), figure(&row.drops, 1.0, 9, 0));
        text += &format!("  busiest silo {} %", free(row.busiest.value().map(|share| share * 100.0), 0));
        if let Some(cycles) = row.cycles.value() {
            text += &format!(", {} cycles/frame", free(Some(cycles), 1));
        }
        text.push('\n');
    }
    text
}

fn traffic(bits: &[Figure; 2], packets: &[Figure; 2]) -> String {
    let [in_bits, out_bits] = [0, 1].map(|way| figure(&bits[way], 1e6, 8, 1));
    let [in_packets, out_packets] = [0, 1].map(|way| figure(&packets[way], 1.0, 10, 0));
    format!(" {in_bits} {out_bits} {in_packets} {out_packets}")
}

/// Domains, as numastat has them.
#[must_use]
pub fn domains(rows: &[DomainRow]) -> String {
    let mut text = String::from(
        "domain  CPU %  memory GiB  free GiB  local pages/s  other pages/s  foreign pages/s  channels GB/s  \
         cores GB/s  remote %  L3 MiB\n",
    );
    for row in rows {
        text += &format!("{:>6}", row.domain);
        if row.presence == Presence::Gone {
            text += "  gone\n";
            continue;
        }
        let gib = |bytes: u64| bytes as f64 / 1_073_741_824.0;
        text += &format!(
            " {} {:>11.1} {:>9.1} {} {} {} {} {} {} {}\n",
            cell(row.busy.value().map(|share| share * 100.0), 6, 1),
            gib(row.memory),
            gib(row.free),
            figure(&row.local_pages, 1.0, 14, 0),
            figure(&row.other_pages, 1.0, 14, 0),
            figure(&row.foreign_pages, 1.0, 16, 0),
            figure(&row.channels, 1e9, 14, 2),
            figure(&row.traffic, 1e9, 11, 2),
            cell(row.remote.value().map(|share| share * 100.0), 9, 1),
            figure(&row.cache, 1_048_576.0, 7, 1),
        );
    }
    let reasons: BTreeMap<&str, ()> = rows
        .iter()
        .flat_map(|row| [&row.busy, &row.channels, &row.traffic, &row.remote, &row.cache])
        .filter_map(|figure| match figure {
            Figure::Missing(why) => Some((why.as_str(), ())),
            Figure::Is(_) => None,
        })
        .collect();
    for why in reasons.into_keys() {
        text += &format!("n/a ({why})\n");
    }
    text
}

/// A process.
#[must_use]
pub fn process(row: &ProcessRow) -> String {
    let mut text = format!("process {} {}", row.pid, row.name);
    match row.presence {
        Presence::Gone => return text + ": it has ended\n",
        Presence::Came => text += ": it has begun, or was not looked at before",
        Presence::Here => {}
    }
    text.push('\n');
    for (name, figure) in &row.figures {
        match figure {
            Figure::Is(value) => text += &format!("  {name:<44} {}\n", cell(Some(*value), 16, 2)),
            Figure::Missing(why) => text += &format!("  {name:<44} {:>16} ({why})\n", "n/a"),
        }
    }
    if !row.symbols.is_empty() {
        text += "  where its processor time went\n";
    }
    for (name, share) in &row.symbols {
        text += &format!("    {:>5.1} %  {name}\n", share * 100.0);
    }
    if !row.chains.is_empty() {
        text += "  by whom it came there, as far as frame pointers lead\n";
    }
    for (chain, share) in &row.chains {
        let inwards: Vec<&str> = chain.rsplit(';').collect();
        text += &format!("    {:>5.1} %  {}\n", share * 100.0, inwards.join(" ← "));
    }
    if !row.placed.is_empty() {
        let all: Vec<String> =
            row.placed.iter().map(|(domain, share)| format!("domain {domain} {:.1} %", share * 100.0)).collect();
        text += &format!("  memory: {}\n", all.join(", "));
    }
    text
}

/// Processes that are told of, of those that ask malloc.
const MALLOCS_SHOWN: usize = 20;

/// Calls of malloc by process.
#[must_use]
pub fn mallocs(rows: &[MallocRow]) -> String {
    let mut text = String::from("     pid  name               mallocs/s\n");
    if rows.is_empty() {
        text += "  nobody asked malloc for anything in the time that was looked at\n";
    }
    for row in rows.iter().take(MALLOCS_SHOWN) {
        let rate = cell(row.per_second.value(), 10, 0);
        text += &format!("{:>8}  {:<16} {rate}\n", row.pid, row.name);
    }
    if let Some(more) = rows.len().checked_sub(MALLOCS_SHOWN).filter(|more| *more > 0) {
        text += &format!("  and {more} more\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Change {
        Change {
            unix_ms: 86_400_000 + 3_723_004,
            seconds: 1.0,
            machine: BTreeMap::new(),
            totals: BTreeMap::new(),
            cores: vec![],
            ports: vec![],
            domains: vec![],
            bypass: vec![],
            process: None,
            mallocs: vec![],
            notes: vec![],
        }
    }

    #[test]
    fn cells_keep_their_width() {
        let all = [0.0, 1.25, 99.999, 12_345.678, 1_234_567.0, 9.9e9, 8e15, f64::NAN];
        let texts = all.map(|value| cell(Some(value), 6, 3));
        assert_eq!(texts, [" 0.000", " 1.250", "99.999", " 12346", " 1235k", " 9900M", " 8000T", "   n/a"]);
        assert_eq!((cell(None, 5, 1), cell(Some(8e30), 5, 1)), ("  n/a".to_owned(), "#####".to_owned()));
    }

    #[test]
    fn the_line_has_one_width_whatever_is_in_it() {
        let mut change = empty();
        let width = line(&change).len();
        assert!(heads().lines().all(|row| row.len() == width), "{}\n{}", heads(), line(&change));
        for (at, column) in COLUMNS.iter().enumerate() {
            change.machine.insert(column.key, Figure::Is(10_f64.powi(at as i32 - 2) * 1.7));
        }
        assert_eq!(line(&change).len(), width, "{}", line(&change));
        assert!(line(&change).starts_with("01:02:03 "), "{}", line(&change));
        // In pieces it is the same, and none is wider than asked.
        let [upper, lower, whole] = &pieces(&change, width)[0];
        assert_eq!((format!("{upper}\n{lower}\n"), whole), (heads(), &line(&change)));
        let narrow = pieces(&change, 80);
        assert_eq!(narrow.len(), 2);
        assert!(narrow.iter().flatten().all(|row| row.len() <= 80 && row.len() == row.trim_end().len()), "{narrow:#?}");
        let joined: String = narrow.iter().map(|[.., line]| &line[8..]).collect();
        assert_eq!(joined, whole[8..]);
        assert_eq!(pieces(&change, 0).len(), COLUMNS.len());
        change.machine.insert("remote", Figure::Missing("one domain".into()));
        assert_eq!(missing(&change), ["remote %: n/a (one domain)"]);
        assert_eq!(line(&change).len(), width);
    }

    #[test]
    fn sentences_have_every_figure_or_say_that_there_is_none() {
        let mut change = empty();
        let text = totals(&change) + &tcp(&change);
        assert_eq!(text.matches("n/a").count(), 17, "{text}");
        change.totals.insert("running".into(), Figure::Is(1_234.0));
        change.totals.insert("waited for cores, us".into(), Figure::Is(125_000.0));
        change.totals.insert("tcp.RetransSegs".into(), Figure::Is(7.0));
        assert!(totals(&change).starts_with("tasks: 1234 running, n/a"), "{}", totals(&change));
        assert!(totals(&change).contains("waited for cores 12.5 %") && tcp(&change).contains("again 7,"));
    }

    #[test]
    fn rows_that_come_and_go_say_so() {
        let none = || Figure::Missing("x".into());
        let core = |core, presence| CoreRow {
            core,
            presence,
            times: [0.5, 0.0, 0.25, 0.0, 0.0, 0.05, 0.0, 0.0, 0.2],
            interrupts: Figure::Is(1_000.0),
            softirqs: none(),
            backlog_drops: Figure::Is(0.0),
            squeezed: Figure::Is(0.0),
        };
        let text = cores(&[core(0, Presence::Here), core(1, Presence::Gone), core(2, Presence::Came)]);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(
            rows[1],
            "   0    50.0    0.0   25.0    0.0    0.0    5.0    0.0    0.0   20.0      1000        n/a        0         0"
        );
        assert_eq!((rows[2], rows[3]), ("   1  went off line", "   2  came on line"));
        let link = BypassRow {
            pid: 7,
            label: "serve".into(),
            presence: Presence::Here,
            links: true,
            bits: [Figure::Is(1e9), Figure::Is(2e9)],
            packets: [none(), none()],
            connections: none(),
            requests: none(),
            drops: Figure::Is(0.0),
            retransmissions: none(),
            busiest: Figure::Is(0.953),
            cycles: none(),
        };
        let text = ports(&[], core::slice::from_ref(&link));
        assert!(text.ends_with("busiest silo 95 %\n"), "{text}");
        let text = ports(&[], &[BypassRow { cycles: Figure::Is(81.25), ..link }]);
        assert!(text.ends_with("busiest silo 95 %, 81.2 cycles/frame\n"), "{text}");
        let ended = ProcessRow {
            pid: 7,
            name: "web".into(),
            presence: Presence::Gone,
            figures: BTreeMap::new(),
            symbols: vec![],
            chains: vec![],
            placed: BTreeMap::new(),
        };
        assert_eq!(process(&ended), "process 7 web: it has ended\n");
        let chains = vec![("main (web);serve (web);copy (libc.so.6)".to_owned(), 0.25)];
        let text = process(&ProcessRow { presence: Presence::Here, chains, ..ended });
        assert!(text.ends_with("     25.0 %  copy (libc.so.6) ← serve (web) ← main (web)\n"), "{text}");
    }

    #[test]
    fn who_asks_malloc_most_stands_first_and_what_is_left_out_is_counted() {
        assert!(mallocs(&[]).contains("nobody asked malloc"));
        let row = |pid| MallocRow { pid, name: "web".into(), per_second: Figure::Is(1_500.0) };
        let rows: Vec<MallocRow> = (1..=23).map(row).collect();
        let text = mallocs(&rows);
        assert!(text.contains("       1  web                    1500\n"), "{text}");
        assert!(text.ends_with("      20  web                    1500\n  and 3 more\n"), "{text}");
        assert!(!mallocs(&rows[..20]).contains("more"), "{text}");
    }

    #[test]
    fn what_a_reader_should_know_stands_with_what_is_missing() {
        let change = Change { notes: vec!["a child serves".into()], ..empty() };
        assert_eq!(missing(&change), ["a child serves"]);
    }
}
