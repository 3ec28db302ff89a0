//! The heads that most requests have: found by one short pass that keeps in
//! registers what it finds.

use super::Limits;
use super::head::identify;
use super::request::Known;
use crate::lines::skip_field;
use crate::scan::{Name, skip_plain_host, skip_value, split_target};

/// A GET in origin form by HTTP/1.1, with one Host that is a name or an IPv4
/// address, without a body and without conditions, ranges and
/// expectations: its answer depends on the path alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// Bytes of the head.
    len: u16,
    /// Bytes of the path, which is after the method.
    path: u16,
    keep_alive: bool,
}

// Returned in a register.
const _: () = assert!(size_of::<Option<Plain>>() <= 8);

const METHOD: usize = b"GET ".len();
const GET: Name<5> = Name::exact(b"GET /");
// RFC 9110 section 7.2: a client should send Host first.
const VERSION_AND_HOST: Name<17> = Name::new(b" HTTP/1.1\r\nhost: ");
const END: Name<4> = Name::exact(b"\r\n\r\n");
const CLOSE: Name<19> = Name::new(b"connection: close\r\n");
const KEEP_ALIVE: Name<24> = Name::new(b"connection: keep-alive\r\n");

impl Plain {
    /// The target's path as sent, without query; begins with `/`. `data` is
    /// what the head was found in.
    #[inline(always)]
    #[must_use]
    pub fn path(self, data: &[u8]) -> &[u8] {
        data.get(METHOD..METHOD + usize::from(self.path)).unwrap_or_default()
    }

    /// The length of the head.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "no head is empty")]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Whether the connection goes on after the response (RFC 9112
    /// section 9.3).
    #[inline(always)]
    #[must_use]
    pub const fn keep_alive(self) -> bool {
        self.keep_alive
    }
}

/// The plain head that `data` begins with. `None` for any other, and for one
/// that is incomplete or that a limit refuses: [`super::head::parse`] is to
/// look at those, and accepts whatever is accepted here.
#[inline(never)]
pub(super) fn parse(data: &[u8], limits: &Limits) -> Option<Plain> {
    GET.strip(data)?;
    let target = data.get(METHOD..)?;
    let (path_end, mut stop) = split_target(target)?;
    let mut target_end = path_end;
    while stop == b'?' {
        (target_end, stop) = split_target(target_end.get(1..)?)?;
    }
    // It begins with the space that ends a target.
    let host = VERSION_AND_HOST.strip(target_end)?;
    let fields = skip_plain_host(host)?;
    let (after, keep_alive) = match END.strip(fields) {
        Some(after) => (after, true),
        // A port is that of some host.
        None if fields.first() == Some(&b':') && fields.len() == host.len() => return None,
        None => other_fields(fields, limits)?,
    };
    let len = data.len() - after.len();
    // The request line is shorter than its head: one that is held against both
    // limits keeps them.
    if len > usize::from(limits.request_line) || len > usize::from(limits.head) || limits.fields == 0 {
        return None;
    }
    // Both are below `limits.head`.
    Some(Plain { len: len as u16, path: (target.len() - path_end.len()) as u16, keep_alive })
}

/// What follows the head whose Host, but for its port, ends before `rest`, and
/// whether the connection goes on.
#[inline(never)]
fn other_fields<'a>(rest: &'a [u8], limits: &Limits) -> Option<(&'a [u8], bool)> {
    let mut rest = skip_port(rest).strip_prefix(b"\r\n")?;
    let mut keep_alive = true;
    // With Host.
    let mut fields = 1;
    loop {
        if let [b'\r', b'\n', after @ ..] = rest {
            return Some((after, keep_alive));
        }
        if fields >= limits.fields {
            return None;
        }
        fields += 1;
        rest = match CLOSE.strip(rest) {
            Some(after) => {
                keep_alive = false;
                after
            }
            None => other_field(rest)?,
        };
    }
}

/// What follows a colon and a port of up to four digits, which is below 65,536;
/// `rest` where none is there.
#[inline(always)]
fn skip_port(rest: &[u8]) -> &[u8] {
    let digit = |at| rest.get(at).is_some_and(u8::is_ascii_digit);
    if rest.first() != Some(&b':') {
        return rest;
    }
    let digits = (1..=4).take_while(|&at| digit(at)).count();
    rest.get(1 + digits..).unwrap_or_default()
}

/// What follows a field of no consequence.
#[inline(always)]
fn other_field(rest: &[u8]) -> Option<&[u8]> {
    match identify(rest) {
        None => skip_field(rest),
        Some((None | Some(Known::AcceptEncoding | Known::UserAgent | Known::Referer), value)) => skip_value(value),
        Some((Some(Known::Connection), _)) => KEEP_ALIVE.strip(rest),
        Some(_) => None,
    }
}
