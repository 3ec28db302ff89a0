//! What a request's number stands for: what is asked, what becomes of it at its upstream,
//! and what its client does meanwhile. All sides know it by the number alone.

use crate::rng::Rng;
use core::time::Duration;

/// What goes wrong at an upstream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// Nothing does.
    None,
    /// It takes the request, and says nothing.
    Hangs,
    /// It says nothing more behind so many bytes of its answer.
    HangsAt(usize),
    /// It closes there.
    ClosesAt(usize),
    /// It resets there.
    ResetsAt(usize),
    /// It answers what is none.
    Garbage,
    /// It answers a while later, so that it is awaited or not.
    Late(Duration),
    /// It answers in such small pieces, with pauses.
    Slow(usize, Duration),
    /// The body has no end.
    Endless,
    /// The body is shorter than its length, and the connection is closed.
    TooShort,
    /// It is longer.
    TooLong,
    /// There are two lengths.
    TwoLengths,
    /// There are a length and chunks.
    LengthAndChunks,
    /// A chunk's length is none.
    BadChunk,
    /// The head is longer than may be.
    LongHead,
    /// There are many heads before the one that counts.
    Interim(u16),
    /// It answers before all of the request is there, and closes.
    Early,
    /// It answers twice.
    Twice,
    /// Some time after the answer something comes that nobody asked for.
    Unasked,
}

impl Fault {
    /// What it is, for a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hangs => "hangs",
            Self::HangsAt(_) => "hangs within its answer",
            Self::ClosesAt(_) => "closes within its answer",
            Self::ResetsAt(_) => "resets within its answer",
            Self::Garbage => "garbage",
            Self::Late(_) => "late",
            Self::Slow(..) => "slow",
            Self::Endless => "without end",
            Self::TooShort => "shorter than its length",
            Self::TooLong => "longer than its length",
            Self::TwoLengths => "two lengths",
            Self::LengthAndChunks => "a length and chunks",
            Self::BadChunk => "a chunk without length",
            Self::LongHead => "a head too long",
            Self::Interim(_) => "interim answers",
            Self::Early => "early",
            Self::Twice => "twice",
            Self::Unasked => "unasked",
        }
    }
}

/// How an answer tells where it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// By its length.
    Length,
    /// By chunks.
    Chunks,
    /// By the connection's end.
    Close,
}

/// What the client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// It waits for its answer.
    Waits,
    /// It takes so few bytes at a time, with pauses.
    Slow(usize, Duration),
    /// It leaves after a while, by a reset or by its end.
    LeavesAfter(Duration, bool),
    /// It leaves after so many bytes of what comes.
    LeavesAt(usize, bool),
}

/// All of one request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its number.
    pub number: u32,
    /// Where it goes: a location of the proxy.
    pub place: &'static str,
    /// Bytes that are sent along.
    pub sent: usize,
    /// Whether these come in chunks.
    pub chunked: bool,
    /// Bytes of the answer.
    pub length: usize,
    /// How it ends.
    pub ends: Ends,
    /// What goes wrong.
    pub fault: Fault,
    /// Whether the second server that is asked is well.
    pub second_is_well: bool,
    /// What the client does.
    pub manner: Manner,
}

/// What pages of the proxy begin with.
const PAGE: &[u8] = b"<html>";

/// Places of the proxy: see the configuration in the module above.
pub const PLACES: [&str; 6] = ["kept", "new", "streamed", "two", "stays", "paced"];

/// What nothing else has.
#[must_use]
pub fn stamped(number: u32, length: usize) -> Vec<u8> {
    format!("<{number}>").bytes().cycle().take(length).collect()
}

impl Plan {
    /// What a number stands for in the world of this seed.
    #[must_use]
    pub fn of(seed: u64, number: u32) -> Self {
        let mut rng = Rng::new(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let rng = &mut rng;
        let place = rng.pick(&PLACES);
        let most = rng.pick(&[1, 100, 5_000, 120_000]);
        let sent = if rng.one_in(3) { rng.scale(1, 60_000) as usize } else { 0 };
        let mut plan = Self {
            number,
            place,
            sent,
            chunked: sent > 0 && rng.one_in(3),
            length: rng.range(1, most) as usize,
            ends: rng.pick(&[Ends::Length, Ends::Length, Ends::Chunks, Ends::Close]),
            fault: Fault::None,
            second_is_well: rng.one_in(2),
            manner: Manner::Waits,
        };
        let whole = plan.answer().len();
        plan.fault = plan.any_fault(rng, whole);
        plan.manner = match rng.range(0, 19) {
            0 => Manner::LeavesAfter(rng.millis(0, 4_000), rng.one_in(2)),
            1 => Manner::LeavesAt(rng.range(1, whole as u64) as usize, rng.one_in(2)),
            2 => Manner::Slow((rng.scale(50, 20_000) as usize).max(whole / 300), rng.millis(1, 300)),
            _ => Manner::Waits,
        };
        if plan.fault == Fault::Endless {
            plan.manner = Manner::LeavesAt(rng.scale(1, 400_000) as usize, rng.one_in(2));
        }
        plan
    }

    fn any_fault(&self, rng: &mut Rng, whole: usize) -> Fault {
        // Every other time behind a line: there decisions fall.
        let answer = self.answer();
        let lines: Vec<usize> =
            answer.windows(2).enumerate().filter(|(_, two)| two == b"\r\n").map(|(at, _)| at + 2).collect();
        let at = if rng.one_in(2) { rng.pick(&lines) } else { rng.range(0, whole as u64 - 1) as usize };
        let at = at.min(whole - 1);
        match rng.range(0, 23) {
            0 => Fault::Hangs,
            1 => Fault::HangsAt(at),
            2 | 3 => Fault::ClosesAt(at),
            4 | 5 => Fault::ResetsAt(at),
            6 => Fault::Garbage,
            7 => Fault::Late(rng.millis(1, 5_000)),
            8 | 9 => Fault::Slow(rng.scale(1, 20_000).max(whole as u64 / 40) as usize, rng.millis(1, 4_000)),
            10 => Fault::Endless,
            11 if self.ends == Ends::Length => Fault::TooShort,
            12 if self.ends == Ends::Length => Fault::TooLong,
            13 => Fault::TwoLengths,
            14 => Fault::LengthAndChunks,
            15 => Fault::BadChunk,
            16 => Fault::LongHead,
            17 => Fault::Interim(rng.range(1, 300) as u16),
            18 if self.sent > 0 => Fault::Early,
            // Where only the end of the connection tells, there is nothing behind it.
            19 if self.ends != Ends::Close => Fault::Twice,

            20 if self.ends != Ends::Close => Fault::Unasked,
            _ => Fault::None,
        }
    }

    /// Whether more than the answer is sent on a connection that may be used again. Only in
    /// one segment with it: what comes later could be the answer to the next request for
    /// all that anybody knows.
    #[must_use]
    pub const fn keeps_surplus(&self) -> bool {
        self.length < 400
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        stamped(self.number, self.length)
    }

    /// The answer, as if nothing was wrong with it.
    #[must_use]
    pub fn answer(&self) -> Vec<u8> {
        self.answer_with("")
    }

    /// The same with more fields.
    #[must_use]
    pub fn answer_with(&self, fields: &str) -> Vec<u8> {
        let body = self.body();
        let ends = match self.ends {
            Ends::Length => format!("Content-Length: {}\r\n", body.len()),
            Ends::Chunks => "Transfer-Encoding: chunked\r\n".to_owned(),
            Ends::Close => "Connection: close\r\n".to_owned(),
        };
        let mut out = format!("HTTP/1.1 200 OK\r\nX-Number: {}\r\n{ends}{fields}\r\n", self.number).into_bytes();
        if self.ends != Ends::Chunks {
            out.extend_from_slice(&body);
            return out;
        }
        for chunk in body.chunks(1 + body.len() / 3) {
            out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\n\r\n");
        out
    }

    /// The request, as its client sends it.
    #[must_use]
    pub fn request(&self) -> Vec<u8> {
        let Self { number, place, .. } = self;
        if self.sent == 0 {
            return format!("GET /{place}/{number} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
        }
        let body = stamped(*number, self.sent);
        let head = format!("PUT /{place}/{number} HTTP/1.1\r\nHost: a\r\n");
        if !self.chunked {
            return [format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
        }
        let mut out = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
        for chunk in body.chunks(9_000) {
            out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\n\r\n");
        out
    }
}

/// What a client was given.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The status; none if there was no head.
    pub status: Option<u16>,
    /// Whose answer it says it is.
    pub number: Option<u32>,
    /// The body, as far as it came.
    pub body: Vec<u8>,
    /// It was whole.
    pub is_whole: bool,
    /// The client left before.
    pub left: bool,
    /// Its connection was reset, or timed out: not closed as it is to be.
    pub is_torn: bool,
}

impl Given {
    /// What it is, for a table.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match (self.status, self.is_whole, self.left) {
            (_, _, true) => "left",
            (None, ..) => "closed without an answer",
            (Some(200), true, _) => "200",
            (Some(200), false, _) => "200, not all of it",
            (Some(502), ..) => "502",
            (Some(504), ..) => "504",
            (Some(_), ..) => "another status",
        }
    }
}

impl Plan {
    /// What is wrong with what the client was given, if anything is.
    #[must_use]
    pub fn objection(&self, given: &Given) -> Option<String> {
        let told = |what: &str| {
            let Given { status, number, body, is_whole, .. } = given;
            let length = body.len();
            let start = String::from_utf8_lossy(&body[..length.min(60)]).into_owned();
            Some(format!("{what}: {self:?} was given {status:?} of {number:?}, {length} bytes, {is_whole}: {start:?}"))
        };
        if given.number.is_some_and(|number| number != self.number) {
            return told("another's answer");
        }
        match given.status {
            None => None,
            Some(200) if given.number != Some(self.number) => told("nobody's answer"),
            Some(200) if self.fault == Fault::Endless && !(given.is_whole && self.may_be_seconds()) => {
                (given.is_whole || stamped(self.number, given.body.len()) != given.body).then(|| told("no end"))?
            }
            Some(200) => {
                let whole = self.body();
                let expected = if self.fault == Fault::TooLong { &whole[..whole.len() / 2] } else { &whole[..] };
                if !whole.starts_with(&given.body) {
                    return told("other bytes");
                }
                if !given.is_whole || given.left {
                    return None;
                }
                // Nobody can tell that something is missing.
                let may_lack = self.ends == Ends::Close && matches!(self.fault, Fault::ClosesAt(_));
                let is_right = given.body == expected || given.body == whole || may_lack;
                if is_right { None } else { told("not all, and said to be") }
            }
            // A page of the proxy's own, whole or not.
            Some(502 | 504) if given.body.starts_with(PAGE) || PAGE.starts_with(&given.body) => None,
            Some(502 | 504) => told("no page"),
            Some(_) => told("an unexpected status"),
        }
    }

    /// Whether the second of two servers may have answered, which is well.
    fn may_be_seconds(&self) -> bool {
        self.second_is_well && matches!(self.place, "two" | "paced")
    }

    /// Whether it must have been given all, where nothing but upstreams goes wrong.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let second = self.may_be_seconds();
        let early = matches!(self.fault, Fault::Hangs | Fault::ClosesAt(0) | Fault::ResetsAt(0));
        // A body that nobody keeps cannot be asked with again, where a server has not processed it.
        let is_kept = self.sent == 0 || self.place != "streamed";
        self.manner == Manner::Waits && is_kept && (self.fault == Fault::None || second && early)
    }
}
