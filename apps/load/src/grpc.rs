//! Unary calls of gRPC over HTTP/2 (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md): what a call
//! sends beside its message, and what its answer says.

use crate::checks::Wrong;
use crate::samples::Class;
use core::time::Duration;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Bytes before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The longest deadline that `grpc-timeout` has in a unit: eight digits.
const TIMEOUT_DIGITS: u128 = 99_999_999;

/// How much earlier than its deadline a call may come to it by its server's clock: the resolution of
/// timers.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Requests are unary calls: their content is sent as one message, and their answers are judged by
/// `grpc-status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Grpc {
    /// How long a call may take from when it is sent: its server is told so, and the call is
    /// cancelled then. Default: for ever, but for [`crate::Plan::timeout`].
    #[serde(rename = "deadline_ns", serialize_with = "nanos")]
    pub deadline: Option<Duration>,
}

impl Grpc {
    /// Whether a call has come to its deadline after this time, or may have by its server's clock, which
    /// is told how long it has.
    pub(crate) fn is_overdue(self, age: Duration) -> bool {
        self.deadline.is_some_and(|deadline| age + RESOLUTION.min(deadline / 2) >= deadline)
    }
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn nanos<S: Serializer>(deadline: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    deadline.map(|deadline| deadline.as_nanos() as u64).serialize(serializer)
}

/// What became of a call (doc/statuscodes.md), by its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum GrpcStatus {
    /// It came to what it was to.
    Ok,
    /// Whoever made it took it back.
    Cancelled,
    /// Nobody knows: also what answers come to that say no status, or none that there is.
    Unknown,
    /// Its arguments are of no use.
    InvalidArgument,
    /// It took longer than it may.
    DeadlineExceeded,
    /// What it is about is not there.
    NotFound,
    /// What it was to make is there.
    AlreadyExists,
    /// Whoever made it may not.
    PermissionDenied,
    /// There is no more of something.
    ResourceExhausted,
    /// The system is not in the state for it.
    FailedPrecondition,
    /// It was broken off.
    Aborted,
    /// It goes beyond what is there.
    OutOfRange,
    /// There is no such method.
    Unimplemented,
    /// Something is broken.
    Internal,
    /// There is nobody who serves it at present.
    Unavailable,
    /// Data is lost.
    DataLoss,
    /// Nobody knows who made it.
    Unauthenticated,
}

/// The number of [`GrpcStatus`]es.
const STATUSES: usize = 17;

impl GrpcStatus {
    /// All of them, by code.
    pub const ALL: [Self; STATUSES] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// What an answer says: its `grpc-status`, or where it has none, what its status of HTTP
    /// stands for (doc/http-grpc-status-mapping.md).
    #[inline]
    #[must_use]
    pub fn of_answer(http: u16, said: Option<u16>) -> Self {
        match (said, http) {
            (Some(code), _) => Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Unknown),
            (None, 400) => Self::Internal,
            (None, 401) => Self::Unauthenticated,
            (None, 403) => Self::PermissionDenied,
            (None, 404) => Self::Unimplemented,
            (None, 429 | 502..=504) => Self::Unavailable,
            (None, _) => Self::Unknown,
        }
    }

    /// Its name, as gRPC's documents have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// The class of answers that such a call's time counts with: that of the status of HTTP which
    /// google/rpc/code.proto has for it.
    #[inline]
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Ok => Class::Success,
            Self::Unknown
            | Self::DeadlineExceeded
            | Self::Unimplemented
            | Self::Internal
            | Self::Unavailable
            | Self::DataLoss => Class::ServerError,
            _ => Class::ClientError,
        }
    }
}

/// Calls by their status. In JSON, by its name; those that occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GrpcStatuses([u64; STATUSES]);

impl GrpcStatuses {
    /// One more.
    #[inline]
    pub(crate) fn count(&mut self, status: GrpcStatus) {
        self.0[status as usize] += 1;
    }

    /// Calls of a status.
    #[must_use]
    pub const fn of(&self, status: GrpcStatus) -> u64 {
        self.0[status as usize]
    }

    /// Each status that occurred, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (GrpcStatus, u64)> {
        GrpcStatus::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    /// Adds `other`, status by status.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// What was counted since `earlier`, status by status.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(core::array::from_fn(|at| self.0[at] - earlier.0[at]))
    }
}

impl Serialize for GrpcStatuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (status, count) in self.iter() {
            map.serialize_entry(status.name(), &count)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for GrpcStatuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut statuses = Self::default();
        for (name, count) in named {
            let status = GrpcStatus::ALL.into_iter().find(|status| status.name() == name);
            let status = status.ok_or_else(|| serde::de::Error::custom("no status of gRPC"))?;
            statuses.0[status as usize] = count;
        }
        Ok(statuses)
    }
}

/// A message as it is sent: not compressed, with its length before it.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    // Requests have less than 16 MiB.
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
    out
}

/// The value of `grpc-timeout`: in the smallest unit that has a number of eight digits for it.
pub(crate) fn timeout(deadline: Duration) -> String {
    let nanos = deadline.as_nanos();
    let units = [(1, 'n'), (1_000, 'u'), (1_000_000, 'm')];
    let fitting = units.into_iter().find(|(unit, _)| nanos.div_ceil(*unit) <= TIMEOUT_DIGITS);
    match fitting {
        Some((unit, name)) => format!("{}{name}", nanos.div_ceil(unit)),
        None => format!("{}S", deadline.as_secs().min(TIMEOUT_DIGITS as u64)),
    }
}

/// The beginning of an answer's content, as it comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Message {
    prefix: [u8; PREFIX],
    have: u8,
    /// Whether its head says how it may be compressed.
    encoded: bool,
}

impl Message {
    /// Takes the next bytes of content.
    #[inline]
    pub fn take(&mut self, bytes: &[u8]) {
        for (place, byte) in self.prefix.iter_mut().skip(self.have.into()).zip(bytes) {
            *place = *byte;
            self.have += 1;
        }
    }

    /// The answer's head has a `grpc-encoding`.
    pub fn may_be_compressed(&mut self) {
        self.encoded = true;
    }

    /// What is wrong with content of this length. It is right as one whole message; one that is
    /// compressed is not unpacked.
    #[inline]
    pub fn wrong(self, content: u64) -> Option<Wrong> {
        let [flag, length @ ..] = self.prefix;
        let whole = content == PREFIX as u64 + u64::from(u32::from_be_bytes(length));
        match flag {
            _ if usize::from(self.have) < PREFIX || !whole => Some(Wrong::Message),
            0 => None,
            1 if self.encoded => None,
            1 => Some(Wrong::Encoding),
            _ => Some(Wrong::Flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_what_is_said_or_what_http_stands_for() {
        let of = |http, said| GrpcStatus::of_answer(http, said).name();
        assert_eq!([of(200, Some(0)), of(200, Some(14)), of(503, Some(5))], ["OK", "UNAVAILABLE", "NOT_FOUND"]);
        assert_eq!([of(200, Some(17)), of(200, Some(u16::MAX)), of(200, None)], ["UNKNOWN"; 3]);
        let mapped = [400, 401, 403, 404, 429, 502, 503, 504, 500, 418].map(|http| of(http, None));
        let [internal, unauthenticated, denied, unimplemented, unavailable @ .., unknown, teapot] = mapped;
        assert_eq!([internal, unauthenticated], ["INTERNAL", "UNAUTHENTICATED"]);
        assert_eq!([denied, unimplemented], ["PERMISSION_DENIED", "UNIMPLEMENTED"]);
        assert_eq!((unavailable, [unknown, teapot]), (["UNAVAILABLE"; 4], ["UNKNOWN"; 2]));
        for (code, status) in GrpcStatus::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, code);
        }
    }

    #[test]
    fn a_timeout_has_eight_digits_at_most_and_is_not_shorter() {
        let of = |nanos| timeout(Duration::from_nanos(nanos));
        assert_eq!([of(1_000_000), of(99_999_999)], ["1000000n", "99999999n"]);
        assert_eq!([of(100_000_000), of(100_000_001)], ["100000u", "100001u"]);
        assert_eq!([of(100_000_000_000), of(1_000_000_000_000)], ["100000m", "1000000m"]);
        assert_eq!(timeout(Duration::from_secs(1_000_000)), "1000000S");
    }

    #[test]
    fn an_answer_is_one_whole_message_however_it_is_cut() {
        let bytes = framed(b"hello");
        assert_eq!(bytes, b"\0\0\0\0\x05hello");
        for step in 1..bytes.len() {
            let mut message = Message::default();
            bytes.chunks(step).for_each(|chunk| message.take(chunk));
            assert_eq!(message.wrong(bytes.len() as u64), None, "{step}");
            assert_eq!([bytes.len() - 1, 2 * bytes.len()].map(|n| message.wrong(n as u64)), [Some(Wrong::Message); 2]);
        }
    }

    #[test]
    fn a_flag_says_whether_a_message_is_compressed_and_a_field_how() {
        let of = |bytes: &[u8], encoded| {
            let mut message = Message::default();
            message.take(bytes);
            if encoded {
                message.may_be_compressed();
            }
            message.wrong(bytes.len() as u64)
        };
        for encoded in [false, true] {
            assert_eq!(of(b"\0\0\0\0\0", encoded), None);
            assert_eq!(of(b"\x02\0\0\0\0", encoded), Some(Wrong::Flag));
            let cut: [&[u8]; 3] = [b"", b"\0\0\0\0", b"\x01\0\0\0\x01"];
            assert_eq!(cut.map(|bytes| of(bytes, encoded)), [Some(Wrong::Message); 3]);
        }
        assert_eq!(of(b"\x01\0\0\0\x01x", true), None);
        assert_eq!(of(b"\x01\0\0\0\x01x", false), Some(Wrong::Encoding));
    }
}
