//! What the workers of one load and their controller say to each other, whatever carries it: lines of JSON over a
//! stream. Without I/O.
//!
//! A worker is a process that generates a part of the load, the controller the one that begins and judges the
//! whole. The worker connects, and says who it is with a token of its own ([`Hello`]). Then:
//!
//! | worker | controller |
//! | --- | --- |
//! | | [`ToWorker::Probe`], some times: what does your clock say? |
//! | [`Echo`] | |
//! | [`Readiness`], when its connections are open | |
//! | | [`ToWorker::Start`], at one time for all, by each one's own clock |
//! | [`Beat`], twice a second, from its first word to its last | |
//! | intervals, each with its number and all its buckets ([`Counted`]) | |
//! | | [`ToWorker::Have`]: which of them are here |
//! | [`Measured`]: what it measured in all | |
//! | | [`ToWorker::Kept`]: that is here |
//! | | [`ToWorker::Bye`], when all have measured |
//!
//! [`ToWorker::Stop`] ends the load where it stands, and so does a controller that is gone. A worker says again what
//! is not answered, and each message may come twice: nothing counts twice. A connection that breaks is no end: on the
//! next one the worker says who it is, and then all that is not known to be there.
//!
//! What comes from the other side is anybody's bytes until it is read: a line has a limit ([`Lines`]), and a word that
//! a terminal must not see is changed ([`FromWorker::read`]). What is measured, and what happened in an interval, are
//! types of whoever measures (`M`, `I`), and held against what there can be by whoever adds them up.
#![forbid(unsafe_code)]

mod lines;
mod reporter;
mod token;

pub use lines::{LineTooLong, Lines};
pub use reporter::{BEAT_EVERY, Reporter};
pub use token::{CONTROLLER_FILE, KEY_FILE, KEY_VARIABLE, TOKEN_FILE, TOKEN_VARIABLE, Token};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of this exchange; raised when a message changes its meaning.
const EXCHANGE: u32 = 3;

/// The longest line before a worker has said who it is, in bytes.
pub const HELLO_LIMIT: usize = 1 << 12;

/// The longest line of a worker: distributions with all their buckets, of which a run has some thousands.
pub const LINE_LIMIT: usize = 8 << 20;

/// The longest line of a controller.
pub const ORDER_LIMIT: usize = 1 << 12;

/// The longest words of a worker, in bytes.
const WORDS_LIMIT: usize = 4_096;

/// The version that a worker and its controller are to have in common.
#[must_use]
pub fn version() -> String {
    format!("{}/{EXCHANGE}", env!("CARGO_PKG_VERSION"))
}

/// Who a worker is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The secret of this worker: [`Token::of_worker`].
    pub token: Token,
    /// Which of the workers it is, from zero.
    pub worker: u32,
    /// A number that no other process drew: one that was started again has another.
    pub instance: u64,
    /// [`version`].
    pub version: String,
}

/// How far a worker is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It makes ready.
    #[default]
    Preparing,
    /// It waits for its start.
    Ready,
    /// It knows when to begin, or has begun.
    Loading,
    /// It has measured, and says what.
    Ended,
}

/// A worker is ready.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readiness {
    /// Connections open.
    pub open: u64,
    /// Threads, or silos, that generate its load.
    pub silos: u32,
    /// What it understood that it is to do, as JSON: to be held against what it was to understand.
    pub setup: String,
}

/// The answer to a probe, by the worker's own clock in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Echo {
    /// The probe's number.
    pub number: u32,
    /// When it came.
    pub received_ns: u64,
    /// When this was sent.
    pub sent_ns: u64,
}

/// A sign of life.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// How far it is.
    pub standing: Standing,
    /// When it begins, or began, by its own clock in nanoseconds: once it knows.
    pub start_ns: Option<u64>,
    /// Responses in the window.
    pub responses: u64,
    /// Responses per second at present.
    pub rate: u64,
    /// Failed requests and connects.
    pub errors: u64,
    /// Connections open.
    pub open: u64,
}

/// What happened in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted<I> {
    /// Its number among all that the worker says, from zero: none counts twice.
    pub number: u64,
    /// Its place in the stage of the load that it is of, in lengths of an interval.
    pub place: u64,
    /// What happened.
    pub interval: I,
}

/// How much a worker's group of processes was kept from its cores by a quota (`cpu.stat`), over the measured time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttling {
    /// Periods in which it had used its quota up.
    pub periods: u64,
    /// The time that it was kept from running, in microseconds.
    pub throttled_us: u64,
}

/// What a worker measured: figures, and what only its surroundings know.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured<F, O> {
    /// When each silo's load began, by the worker's own clock in nanoseconds; none of one that never did.
    pub begun_ns: Vec<u64>,
    /// What was counted.
    pub figures: F,
    /// What only its surroundings know.
    pub outside: O,
    /// What a quota kept it from, where it has one.
    pub throttling: Option<Throttling>,
}

/// What a worker says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromWorker<M, I> {
    /// Who it is: its first word.
    Hello(Hello),
    /// It waits for its start.
    Ready(Readiness),
    /// The answer to a probe.
    Echo(Echo),
    /// It is alive.
    Beat(Beat),
    /// What happened in an interval.
    Interval(Counted<I>),
    /// What it measured in all.
    Measured(M),
    /// It cannot do what it is to, and why.
    Failed(String),
}

/// What a controller says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToWorker {
    /// What does your clock say?
    Probe {
        /// To tell the answers apart.
        number: u32,
    },
    /// Begin.
    Start {
        /// When, by the worker's own clock in nanoseconds.
        at_ns: u64,
    },
    /// The worker's intervals with lower numbers are here: they need not be kept.
    Have {
        /// The number of the next one.
        intervals: u64,
    },
    /// End the load where it is, and say what was measured.
    Stop,
    /// What was measured is here, and need not be said again on this connection. Another controller may want it.
    Kept,
    /// The test is over: there is nothing more to do.
    Bye,
}

/// Why a line is no message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadMessage(pub String);

impl core::fmt::Display for BadMessage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadMessage {}

impl<M: DeserializeOwned, I: DeserializeOwned> FromWorker<M, I> {
    /// Reads a line of a worker.
    ///
    /// # Errors
    /// What is wrong with it, in words that may be shown.
    pub fn read(line: &[u8]) -> Result<Self, BadMessage> {
        let message: Self = serde_json::from_slice(line).map_err(|why| {
            // Not what serde quotes of the line: that is anybody's.
            BadMessage(format!("no message at column {} of its line ({:?})", why.column(), why.classify()))
        })?;
        match message {
            Self::Failed(why) => Ok(Self::Failed(shown(&why))),
            Self::Hello(hello) => Ok(Self::Hello(Hello { version: shown(&hello.version), ..hello })),
            Self::Ready(ready) if ready.setup.len() > WORDS_LIMIT => {
                Err(BadMessage("longer words than there are".into()))
            }
            other => Ok(other),
        }
    }
}

impl<M, I> FromWorker<M, I> {
    /// The same with another kind of intervals.
    #[must_use]
    pub fn map_interval<J>(self, of: impl FnOnce(I) -> J) -> FromWorker<M, J> {
        match self {
            Self::Hello(hello) => FromWorker::Hello(hello),
            Self::Ready(ready) => FromWorker::Ready(ready),
            Self::Echo(echo) => FromWorker::Echo(echo),
            Self::Beat(beat) => FromWorker::Beat(beat),
            Self::Interval(Counted { number, place, interval }) => {
                FromWorker::Interval(Counted { number, place, interval: of(interval) })
            }
            Self::Measured(measured) => FromWorker::Measured(measured),
            Self::Failed(why) => FromWorker::Failed(why),
        }
    }
}

impl<M: Serialize, I: Serialize> FromWorker<M, I> {
    /// The message as a line, its end included.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }
}

impl ToWorker {
    /// Reads a line of a controller.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(line: &[u8]) -> Result<Self, BadMessage> {
        serde_json::from_slice(line).map_err(|why| BadMessage(format!("no message: {why}")))
    }

    /// The message as a line, its end included.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        line(self)
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = match serde_json::to_vec(message) {
        Ok(line) => line,
        Err(_) => unreachable!("messages have only string keys and plain values"),
    };
    line.push(b'\n');
    line
}

/// Words of a worker as they may be shown on a terminal, in one line, and not too many.
#[must_use]
pub fn shown(words: &str) -> String {
    let mut shown = String::new();
    for letter in words.trim_end().chars() {
        let letter = if letter.is_control() { ' ' } else { letter };
        if shown.len() + letter.len_utf8() > WORDS_LIMIT {
            break;
        }
        shown.push(letter);
    }
    shown
}

#[cfg(test)]
mod tests;
