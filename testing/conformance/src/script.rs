//! Packet scripts: what one side of a wire says, and what the other must
//! answer.
//!
//! A script is a text file, a step on each line, `#` starts a comment. The
//! side under test is *ours*; the script plays the *peer*.
//!
//! | step | meaning |
//! | --- | --- |
//! | `on stack linux` | where the script runs; first line, both if left out |
//! | `over ipv4 ipv6` | what it runs over against our stack; both if left out |
//! | `set KEY VALUE` | a setting of the stack under test, before all else |
//! | `listen` | ours accepts connections |
//! | `connect` | ours connects to the peer |
//! | `opened` | ours was told that the connection is open |
//! | `send N` | our application sends N bytes |
//! | `receive N` | our application got N bytes more, and they are right |
//! | `hold`, `release` | our application stops reading, and goes on |
//! | `ended` | our application was told that the peer has finished |
//! | `finish` | our application finishes (FIN) |
//! | `abort` | our application aborts (RST) |
//! | `closed WHY` | our application was told the end: finished, reset, refused, timed-out, aborted |
//! | `wait T` | time passes |
//! | `quiet T` | time passes, and ours sends nothing |
//! | `isn after LOW..HIGH` | our last initial sequence number is so far after the one before it |
//! | `isn apart N` | our last two initial sequence numbers are at least so far apart |
//! | `< SEGMENT` | the peer sends |
//! | `> SEGMENT` | ours sends next; fields left out may be anything |
//!
//! A segment is flags (`S`, `A`, `F`, `R`, `P`, `U`, or `-` for none) and
//! fields: `seq N`, `ack N`, `len N`, `win N`, `mss N`, `wscale N`, `sackok`,
//! `ts VALUE:ECHO`, `sack L-R,L-R`, `corrupt` (a wrong checksum), `port N`
//! (the peer's). Numbers are relative to the initial sequence number of the
//! side that they count: `seq` of the sender, `ack` and `sack` of the other.
//! In what is expected, `len` left out is 0, `P` is not looked at, `has OPTION`
//! and `no OPTION` ask that it be there or not, `*` stands for any number, and `at LOW..HIGH` says
//! how long after the step before; otherwise a segment may take a second.
//! `ts` of the peer may echo `last`, the value that ours sent last.

use crate::family::Family;
use app::{Closed, Unreachable};
use core::fmt;
use core::time::Duration;
use wire::tcp::Flags;

/// A parsed script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// Where it runs.
    pub on: Vec<Place>,
    /// What it runs over, on our stack.
    pub over: Vec<Family>,
    /// Settings of the stack, as written.
    pub settings: Vec<(String, String)>,
    /// What happens, with line numbers.
    pub steps: Vec<(usize, Step)>,
}

/// What a script can run against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Our stack, in virtual time.
    Stack,
    /// The kernel, through a TAP device.
    Linux,
}

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ours accepts connections.
    Listen,
    /// Ours connects.
    Connect,
    /// Our application was told that the connection is open.
    Opened,
    /// Our application sends.
    Send(u32),
    /// Our application got so many bytes more.
    Receive(u32),
    /// Our application stops or starts reading.
    Hold(bool),
    /// Our application was told that the peer finished.
    Ended,
    /// Our application finishes.
    Finish,
    /// Our application aborts.
    Abort,
    /// Our application was told the end.
    Closed(Closed),
    /// Time passes.
    Wait(Duration),
    /// Time passes without a segment.
    Quiet(Duration),
    /// Our last initial sequence number is `low` to `high` after the one
    /// before it.
    IsnAfter(u32, u32),
    /// Our last two initial sequence numbers are so far apart.
    IsnApart(u32),
    /// The peer sends.
    Inject(Segment),
    /// Ours sends.
    Expect(Segment),
}

/// A segment, or a pattern for one: what is `None` is not given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Control bits.
    pub flags: Flags,
    /// Relative to the sender's initial sequence number.
    pub seq: Option<u32>,
    /// Relative to the other side's.
    pub ack: Option<u32>,
    /// Payload bytes.
    pub len: u32,
    /// The window field as on the wire.
    pub window: Option<u16>,
    /// MSS option.
    pub mss: Option<u16>,
    /// Window scale option.
    pub scale: Option<u8>,
    /// SACK permitted option.
    pub sack_permitted: bool,
    /// Timestamps option.
    pub timestamps: Option<(Stamp, Stamp)>,
    /// SACK blocks, relative to the initial sequence number acknowledged.
    pub sack: Vec<(u32, u32)>,
    /// Options that must be there, whatever they say.
    pub present: Vec<OptionKind>,
    /// Options that must be absent.
    pub absent: Vec<OptionKind>,
    /// Carries a wrong checksum.
    pub corrupt: bool,
    /// The peer's port, other than the usual.
    pub port: Option<u16>,
    /// How long after the step before.
    pub at: Option<(Duration, Duration)>,
}

/// A TCP option, by its name in a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// `mss`
    Mss,
    /// `wscale`
    Scale,
    /// `sackok`
    SackPermitted,
    /// `ts`
    Timestamps,
    /// `sack`
    Sack,
}

const OPTIONS: [(&str, OptionKind); 5] = [
    ("mss", OptionKind::Mss),
    ("wscale", OptionKind::Scale),
    ("sackok", OptionKind::SackPermitted),
    ("ts", OptionKind::Timestamps),
    ("sack", OptionKind::Sack),
];

/// A number in a timestamps option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// This.
    Is(u32),
    /// The value that ours sent last.
    Last,
    /// Any.
    Any,
}

/// A line that is no step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl core::error::Error for ScriptError {}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first line that makes no sense.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let (on, over) = (vec![Place::Stack, Place::Linux], vec![Family::V4, Family::V6]);
        let mut script = Self { on, over, settings: Vec::new(), steps: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or("").trim();
            if code.is_empty() {
                continue;
            }
            script.line(index + 1, code).map_err(|what| ScriptError { line: index + 1, what })?;
        }
        Ok(script)
    }

    fn line(&mut self, number: usize, code: &str) -> Result<(), String> {
        let mut words = Words(code.split_whitespace().collect::<Vec<_>>().into_iter());
        match words.next()? {
            "on" => self.on = words.rest().map(place).collect::<Result<_, _>>()?,
            "over" => self.over = words.rest().map(family).collect::<Result<_, _>>()?,
            "set" if self.steps.is_empty() => {
                let (key, value) = (words.next()?.to_owned(), words.next()?.to_owned());
                self.settings.push((key, value));
            }
            verb => {
                let step = step(verb, &mut words)?;
                self.steps.push((number, step));
            }
        }
        match words.0.next() {
            Some(word) => Err(format!("'{word}' is too much")),
            None => Ok(()),
        }
    }
}

/// The words of a line.
struct Words<'a>(std::vec::IntoIter<&'a str>);

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "a word is missing".to_owned())
    }

    fn number<T: core::str::FromStr>(&mut self) -> Result<T, String> {
        number(self.next()?)
    }

    fn rest(&mut self) -> impl Iterator<Item = &'a str> {
        self.0.by_ref()
    }
}

fn number<T: core::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("'{word}' is not a number that fits"))
}

fn place(word: &str) -> Result<Place, String> {
    match word {
        "stack" => Ok(Place::Stack),
        "linux" => Ok(Place::Linux),
        _ => Err(format!("'{word}': expected stack or linux")),
    }
}

fn family(word: &str) -> Result<Family, String> {
    match word {
        "ipv4" => Ok(Family::V4),
        "ipv6" => Ok(Family::V6),
        _ => Err(format!("'{word}': expected ipv4 or ipv6")),
    }
}

fn step(verb: &str, words: &mut Words<'_>) -> Result<Step, String> {
    Ok(match verb {
        "listen" => Step::Listen,
        "connect" => Step::Connect,
        "opened" => Step::Opened,
        "send" => Step::Send(words.number()?),
        "receive" => Step::Receive(words.number()?),
        "hold" => Step::Hold(true),
        "release" => Step::Hold(false),
        "ended" => Step::Ended,
        "finish" => Step::Finish,
        "abort" => Step::Abort,
        "closed" => Step::Closed(reason(words.next()?)?),
        "wait" => Step::Wait(duration(words.next()?)?),
        "quiet" => Step::Quiet(duration(words.next()?)?),
        "isn" => isn(words)?,
        "<" => Step::Inject(segment(words)?),
        ">" => Step::Expect(segment(words)?),
        _ => return Err(format!("'{verb}' is no step")),
    })
}

fn isn(words: &mut Words<'_>) -> Result<Step, String> {
    match words.next()? {
        "after" => {
            let (low, high) = words.next()?.split_once("..").ok_or("isn after LOW..HIGH")?;
            Ok(Step::IsnAfter(number(low)?, number(high)?))
        }
        "apart" => Ok(Step::IsnApart(words.number()?)),
        word => Err(format!("'{word}': expected after or apart")),
    }
}

fn reason(word: &str) -> Result<Closed, String> {
    Ok(match word {
        "finished" => Closed::Finished,
        "reset" => Closed::Reset,
        "refused" => Closed::Refused,
        "timed-out" => Closed::TimedOut,
        "unreachable" => Closed::Unreachable(Unreachable::Host),
        "aborted" => Closed::Aborted,
        _ => return Err(format!("'{word}' is no way to end")),
    })
}

/// `250us`, `40ms`, `3s`.
fn duration(word: &str) -> Result<Duration, String> {
    let split = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(split);
    let count: u64 = number(digits)?;
    Ok(match unit {
        "us" => Duration::from_micros(count),
        "ms" => Duration::from_millis(count),
        "s" => Duration::from_secs(count),
        _ => return Err(format!("'{word}': a time is a number with us, ms or s")),
    })
}

fn segment(words: &mut Words<'_>) -> Result<Segment, String> {
    let mut segment = Segment { flags: flags(words.next()?)?, ..Segment::default() };
    while let Some(field) = words.0.next() {
        match field {
            "seq" => segment.seq = any_or(words)?,
            "ack" => segment.ack = any_or(words)?,
            "len" => segment.len = words.number()?,
            "win" => segment.window = any_or(words)?,
            "mss" => segment.mss = Some(words.number()?),
            "wscale" => segment.scale = Some(words.number()?),
            "sackok" => segment.sack_permitted = true,
            "ts" => {
                let word = words.next()?;
                let (value, echo) = word.split_once(':').ok_or("ts VALUE:ECHO")?;
                segment.timestamps = Some((stamp(value)?, stamp(echo)?));
            }
            "sack" => segment.sack = words.next()?.split(',').map(block).collect::<Result<_, _>>()?,
            "has" => segment.present.push(option(words.next()?)?),
            "no" => segment.absent.push(option(words.next()?)?),
            "corrupt" => segment.corrupt = true,
            "port" => segment.port = Some(words.number()?),
            "at" => {
                let word = words.next()?;
                let (low, high) = word.split_once("..").ok_or("at LOW..HIGH")?;
                segment.at = Some((duration(low)?, duration(high)?));
            }
            _ => return Err(format!("'{field}' is no field of a segment")),
        }
    }
    Ok(segment)
}

fn any_or<T: core::str::FromStr>(words: &mut Words<'_>) -> Result<Option<T>, String> {
    match words.next()? {
        "*" => Ok(None),
        word => number(word).map(Some),
    }
}

fn option(word: &str) -> Result<OptionKind, String> {
    let known = OPTIONS.iter().find(|(name, _)| *name == word);
    known.map(|(_, kind)| *kind).ok_or_else(|| format!("'{word}' is no option"))
}

fn stamp(word: &str) -> Result<Stamp, String> {
    Ok(match word {
        "*" => Stamp::Any,
        "last" => Stamp::Last,
        word => Stamp::Is(number(word)?),
    })
}

fn block(word: &str) -> Result<(u32, u32), String> {
    let (left, right) = word.split_once('-').ok_or("a block is LEFT-RIGHT")?;
    Ok((number(left)?, number(right)?))
}

const LETTERS: [(char, Flags); 6] =
    [('S', Flags::SYN), ('F', Flags::FIN), ('R', Flags::RST), ('P', Flags::PSH), ('A', Flags::ACK), ('U', Flags::URG)];

fn flags(word: &str) -> Result<Flags, String> {
    if word == "-" {
        return Ok(Flags::NONE);
    }
    let mut flags = Flags::NONE;
    for letter in word.chars() {
        let (_, bit) = LETTERS.iter().find(|(l, _)| *l == letter).ok_or(format!("'{letter}' is no flag"))?;
        flags = flags | *bit;
    }
    Ok(flags)
}

impl fmt::Display for Segment {
    /// As a script writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters: String = LETTERS.iter().filter(|(_, bit)| self.flags.intersects(*bit)).map(|(l, _)| *l).collect();
        f.write_str(if letters.is_empty() { "-" } else { &letters })?;
        if let Some(seq) = self.seq {
            write!(f, " seq {seq}")?;
        }
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if self.len > 0 {
            write!(f, " len {}", self.len)?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        if let Some(mss) = self.mss {
            write!(f, " mss {mss}")?;
        }
        if let Some(scale) = self.scale {
            write!(f, " wscale {scale}")?;
        }
        if self.sack_permitted {
            f.write_str(" sackok")?;
        }
        if let Some((value, echo)) = self.timestamps {
            write!(f, " ts {value}:{echo}")?;
        }
        for (index, (left, right)) in self.sack.iter().enumerate() {
            write!(f, "{}{left}-{right}", if index == 0 { " sack " } else { "," })?;
        }
        for (verb, kinds) in [("has", &self.present), ("no", &self.absent)] {
            for (name, _) in OPTIONS.iter().filter(|(_, kind)| kinds.contains(kind)) {
                write!(f, " {verb} {name}")?;
            }
        }
        if let Some((low, high)) = self.at {
            write!(f, " at {low:?}..{high:?}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(value) => write!(f, "{value}"),
            Self::Last => f.write_str("last"),
            Self::Any => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read() {
        let text = "# Doc.\non stack\nset mtu 1500\nlisten # now\n\n< S seq 0 win 65535 mss 1460 sackok\n\
                    > SA seq 0 ack 1 no ts at 0ms..5ms\nquiet 250us\nclosed timed-out\n";
        let script = Script::parse(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(script.on, [Place::Stack]);
        assert_eq!(script.settings, [("mtu".to_owned(), "1500".to_owned())]);
        let lines: Vec<_> = script.steps.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [4, 6, 7, 8, 9]);
        let Step::Expect(segment) = &script.steps[2].1 else { panic!("no expectation") };
        assert_eq!(segment.to_string(), "SA seq 0 ack 1 no ts at 0ns..5ms");
        assert_eq!(script.steps[4].1, Step::Closed(Closed::TimedOut));
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        for (text, line) in [
            ("dance", 1),
            ("listen\nsend", 2),
            ("< X seq 1", 1),
            ("< S seq", 1),
            ("\n\n> A at 1..2", 3),
            ("listen twice", 1),
            ("wait 3", 1),
            ("on mars", 1),
            ("over ipv5", 1),
            ("isn after 5", 1),
            ("isn under 5", 1),
            ("listen\nset mtu 9", 2),
            ("< A sack 1", 1),
            ("closed happily", 1),
            ("> A no magic", 1),
        ] {
            assert_eq!(Script::parse(text).map_err(|e| e.line), Err(line), "{text}");
        }
    }
}
