//! A machine's counters at a moment: what is recorded, and replayed.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

/// The form of a recording: another version's that means something else by a name has another number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Schema(u32);

/// The one that is written here. Recordings from before it was written down are of the first.
const SCHEMA: u32 = 1;

impl Default for Schema {
    fn default() -> Self {
        Self(SCHEMA)
    }
}

impl TryFrom<u32> for Schema {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        match number {
            SCHEMA => Ok(Self(number)),
            _ => Err(format!("schema {number} is not known here; {SCHEMA} is")),
        }
    }
}

/// Counters at a moment. What could not be read stands in `missing` and nowhere
/// else.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Of what form this is.
    #[serde(default)]
    pub schema: Schema,
    /// When, nanoseconds of a clock that only goes forward.
    pub at: u64,
    /// When, milliseconds since 1970.
    pub unix_ms: u64,
    /// Ticks of processor time in a second.
    pub ticks_per_second: u64,
    /// Cores that are on line.
    pub cores: BTreeMap<u16, CoreCounters>,
    /// Counters of the whole machine, by name.
    pub counts: BTreeMap<String, u64>,
    /// Levels of the whole machine, by name: what goes up and down.
    pub levels: BTreeMap<String, u64>,
    /// When the tables of interrupts and softirqs were read, where that is not
    /// done for every sample: the counts of cores are as they were then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables_at: Option<u64>,
    /// Network interfaces.
    pub ports: BTreeMap<String, PortCounters>,
    /// NUMA domains.
    pub domains: BTreeMap<u16, DomainCounters>,
    /// Processes of ours that serve or ask, by their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bypass: BTreeMap<u32, Bypass>,
    /// The process that is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// Calls of malloc by process, where they are asked for of the whole machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mallocs: BTreeMap<u32, Mallocs>,
    /// What is missing, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
    /// Processor time of the program that looks, nanoseconds.
    pub own_nanos: u64,
    /// What looking makes others spend, nanoseconds: tracepoints.
    #[serde(default)]
    pub probe_nanos: u64,
}

/// A core.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CoreCounters {
    /// Ticks by kind: user, nice, system, idle, waiting for disks, interrupts,
    /// softirqs, stolen, guest, guest's nice (proc_stat(5)).
    pub ticks: [u64; 10],
    /// Interrupts, where each core's are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
    /// Softirqs by their names' order in `/proc/softirqs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub softirqs: Vec<u64>,
    /// Packets from the backlog; those dropped there; polls that ran out of
    /// their budget.
    #[serde(default)]
    pub backlog: [u64; 3],
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PortCounters {
    /// Bytes in and out.
    pub bytes: [u64; 2],
    /// Packets in and out.
    pub packets: [u64; 2],
    /// Errors in and out.
    pub errors: [u64; 2],
    /// Drops in and out.
    pub drops: [u64; 2],
    /// Bits per second of the link, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u64>,
    /// Whether there is a device behind it.
    pub device: bool,
}

/// A NUMA domain.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DomainCounters {
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of it that are free.
    pub free: u64,
    /// Pages that were given where they were asked for, and elsewhere
    /// (numastat's local_node and other_node).
    pub pages: [u64; 2],
    /// Pages that were wanted here and given elsewhere (numa_foreign).
    #[serde(default)]
    pub foreign: u64,
    /// Bytes between its cores and memory, all and those that went to its own
    /// memory, where resctrl counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<[u64; 2]>,
    /// Bytes that its memory's controllers read and wrote, where they count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u64>,
    /// Bytes of its caches of the third level that are filled, where something
    /// counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<u64>,
    /// Its cores.
    #[serde(default)]
    pub cores: Vec<u16>,
}

/// A process of ours, as its statistics page tells.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Bypass {
    /// What it does.
    pub label: String,
    /// Silos or workers: what each counts, by name.
    pub silos: Vec<BTreeMap<String, u64>>,
}

/// A process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// When it began, in ticks since boot: another process of the same number
    /// has another.
    pub began: u64,
    /// Counters by name.
    pub counts: BTreeMap<String, u64>,
    /// Levels by name.
    pub levels: BTreeMap<String, u64>,
    /// Where the processor was when it was looked, by function.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub symbols: BTreeMap<String, u64>,
    /// The same with who called, by function from the outermost in, `;` between them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub chains: BTreeMap<String, u64>,
    /// What a reader of its figures should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Bytes of its memory by domain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub placed: BTreeMap<u16, u64>,
    /// What is missing, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// What a process asked malloc for, of the whole machine's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mallocs {
    /// Its name.
    pub name: String,
    /// How often since the looking began, from the part of the time that was looked at.
    pub count: u64,
}

/// The most samples of a recording that are read; a week of seconds is fewer.
const SAMPLES_LIMIT: usize = 1_000_000;

/// The longest line of a recording, bytes.
pub const LINE_LIMIT: usize = 16 << 20;

/// Reads a recording, a sample a line, as [`Sample::line`] wrote them.
#[derive(Debug)]
pub struct SampleReader<R> {
    lines: R,
    number: usize,
    last: u64,
}

impl<R: BufRead> SampleReader<R> {
    /// From a file's text.
    pub const fn new(lines: R) -> Self {
        Self { lines, number: 0, last: 0 }
    }

    /// The next sample; `None` at the end.
    ///
    /// # Errors
    /// Which line is no sample, and why.
    pub fn read(&mut self) -> Result<Option<Sample>, String> {
        loop {
            let mut line = Vec::new();
            self.number += 1;
            let place = |why: String| format!("line {}: {why}", self.number);
            let read = (&mut self.lines).take(LINE_LIMIT as u64 + 1).read_until(b'\n', &mut line);
            match read.map_err(|why| place(why.to_string()))? {
                0 => return Ok(None),
                length if length > LINE_LIMIT => return Err(place("longer than 16 MiB".to_owned())),
                _ if self.number > SAMPLES_LIMIT => return Err(place("more samples than are read".to_owned())),
                _ => {}
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let whole = line.last() == Some(&b'\n');
            let mut sample: Sample = serde_json::from_slice(&line).map_err(|why| match whole {
                true => place(format!("not a sample of nearside watch: {why}")),
                false => place("cut off: the last sample is not whole".to_owned()),
            })?;
            if sample.at < self.last {
                return Err(place("its time is before the line above's".to_owned()));
            }
            self.last = sample.at;
            sample.make_plain();
            return Ok(Some(sample));
        }
    }
}

/// Whether it does something to a terminal, or to the order in which a text is read.
fn is_odd(char: char) -> bool {
    char.is_control() || matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn plain(text: &mut String) {
    if text.contains(is_odd) {
        *text = text.replace(is_odd, "?");
    }
}

fn plain_names<V>(map: &mut BTreeMap<String, V>) {
    if map.keys().any(|name| name.contains(is_odd)) {
        let all = std::mem::take(map).into_iter();
        map.extend(all.map(|(name, value)| (name.replace(is_odd, "?"), value)));
    }
}

impl Sample {
    /// Takes out of names and reasons what is not for a terminal: processes name themselves, and a recording may be
    /// anybody's.
    pub fn make_plain(&mut self) {
        plain_names(&mut self.counts);
        plain_names(&mut self.levels);
        plain_names(&mut self.ports);
        plain_names(&mut self.missing);
        self.missing.values_mut().for_each(plain);
        for page in self.bypass.values_mut() {
            plain(&mut page.label);
            page.silos.iter_mut().for_each(plain_names);
        }
        self.mallocs.values_mut().for_each(|process| plain(&mut process.name));
        if let Some(process) = &mut self.process {
            plain(&mut process.name);
            plain_names(&mut process.counts);
            plain_names(&mut process.levels);
            plain_names(&mut process.symbols);
            plain_names(&mut process.chains);
            process.notes.iter_mut().for_each(plain);
            plain_names(&mut process.missing);
            process.missing.values_mut().for_each(plain);
        }
    }

    /// A line of a recording, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        // Of numbers, texts and maps with such keys there is always JSON.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64) -> Sample {
        let mut sample = Sample { at, ticks_per_second: 100, ..Sample::default() };
        sample.cores.insert(3, CoreCounters::default());
        sample.ports.insert("eth0".into(), PortCounters { bytes: [1, 2], ..PortCounters::default() });
        sample.missing.insert("syscalls".into(), "not permitted".into());
        sample
    }

    fn all(text: &str) -> Result<Vec<Sample>, String> {
        let mut recording = SampleReader::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(sample) = recording.read()? {
            all.push(sample);
        }
        Ok(all)
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        let text = sample(1).line() + "\n" + &sample(2).line();
        assert_eq!(all(&text), Ok(vec![sample(1), sample(2)]));
    }

    #[test]
    fn a_line_that_is_no_sample_is_named() {
        let good = sample(5).line();
        assert!(
            all(&(good.clone() + "{\"at\":1}\n")).expect_err("fields are missing").starts_with("line 2: not a sample")
        );
        let cut = &sample(6).line()[..40];
        assert_eq!(all(&(good.clone() + cut)).expect_err("cut"), "line 2: cut off: the last sample is not whole");
        assert_eq!(
            all(&(good + &sample(4).line())).expect_err("backwards"),
            "line 2: its time is before the line above's"
        );
        assert!(all("x\n").is_err() && all("").is_ok_and(|all| all.is_empty()));
    }

    #[test]
    fn another_versions_recording_is_refused_and_an_older_one_is_read() {
        let text = sample(1).line();
        let other = text.replace("\"schema\":1", "\"schema\":2");
        let why = all(&other).expect_err("another schema");
        assert!(why.starts_with("line 1: not a sample of nearside watch: schema 2 is not known here; 1 is"), "{why}");
        let older = text.replace("\"schema\":1,", "");
        assert!(older.len() < text.len());
        assert_eq!(all(&older), Ok(vec![sample(1)]));
    }

    #[test]
    fn names_that_do_something_to_a_terminal_are_made_plain() {
        let mut evil = sample(1);
        let name = "\u{1b}]0;x\u{7}\n\u{202e}";
        evil.ports.insert(name.into(), PortCounters::default());
        evil.counts.insert(name.into(), 1);
        evil.missing.insert(name.into(), name.into());
        evil.process = Some(Process { name: name.into(), ..Process::default() });
        evil.process.as_mut().expect("it").symbols.insert(name.into(), 1);
        let read = all(&evil.line()).expect("a sample").remove(0);
        assert!(!read.line().contains("\\u00") && !read.line().contains(is_odd_but_for_the_end), "{read:?}");
        assert_eq!(read.process.expect("it").name, "?]0;x???");
    }

    fn is_odd_but_for_the_end(char: char) -> bool {
        char != '\n' && is_odd(char)
    }
}
