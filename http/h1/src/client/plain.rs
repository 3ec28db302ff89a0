//! The heads that most responses have under load: found by one short pass that
//! keeps in registers what it finds. Nothing is remembered of other responses.

use super::ResponseLimits;
use semantics::lines::skip_field;
use semantics::scan::{Name, skip_value};

/// A 200 by HTTP/1.1 on a connection that goes on, with one Content-Length and
/// no transfer coding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plain {
    /// Bytes of the head.
    pub head: u32,
    /// Bytes of the body.
    pub body: u32,
}

// Returned in registers.
const _: () = assert!(size_of::<Option<Plain>>() <= 16);

const STATUS: Name<17> = Name::exact(b"HTTP/1.1 200 OK\r\n");
const KEEP_ALIVE: Name<24> = Name::new(b"connection: keep-alive\r\n");

/// The plain head that `data` begins with. `None` for any other, and for one
/// that is incomplete or that a limit refuses: [`super::head::parse`] is to
/// look at those, and accepts whatever is accepted here.
#[inline(never)]
pub(super) fn parse(data: &[u8], limits: &ResponseLimits) -> Option<Plain> {
    let mut rest = STATUS.strip(data)?;
    let mut body = None;
    let mut fields = 0;
    let after = loop {
        if let [b'\r', b'\n', after @ ..] = rest {
            break after;
        }
        fields += 1;
        rest = field(rest, &mut body)?;
    };
    let head = data.len() - after.len();
    if head > usize::from(limits.head) || fields > limits.fields {
        return None;
    }
    // It is below `limits.head`.
    Some(Plain { head: head as u32, body: body? })
}

/// What follows the field line that `rest` begins with; `body` is set by a
/// Content-Length.
#[inline(always)]
fn field<'a>(rest: &'a [u8], body: &mut Option<u32>) -> Option<&'a [u8]> {
    macro_rules! skip_any_of {
        ($($text:literal,)*) => {{
            $({
                const NAME: Name<{ $text.len() }> = Name::new($text);
                if let Some(value) = NAME.strip(rest) {
                    return skip_value(value);
                }
            })*
        }};
    }
    // The first letter decides among the names, and their order is that of how
    // often they are sent.
    match rest.first()? | 0x20 {
        b'c' => {
            const LENGTH: Name<16> = Name::new(b"content-length: ");
            if let Some(value) = LENGTH.strip(rest) {
                let (length, after) = number(value)?;
                // RFC 9112 section 6.3, rule 5: once.
                return body.replace(length).is_none().then_some(after);
            }
            skip_any_of! { b"content-type:", b"cache-control:", }
            if let Some(after) = KEEP_ALIVE.strip(rest) {
                return Some(after);
            }
            return other_c(rest);
        }
        b'd' => skip_any_of! { b"date:", },
        b's' => skip_any_of! { b"server:", },
        b'l' => skip_any_of! { b"last-modified:", },
        b'e' => skip_any_of! { b"etag:", },
        b'a' => skip_any_of! { b"accept-ranges:", },
        b't' => return other_t(rest),
        _ => {}
    }
    skip_field(rest)
}

/// A number of up to nine digits and the CR LF behind it, as all write it; of
/// any other form, `None`.
#[inline(always)]
fn number(value: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0;
    let mut rest = value;
    while let [digit @ b'0'..=b'9', next @ ..] = rest {
        if value.len() - rest.len() == 9 {
            return None;
        }
        number = number * 10 + u32::from(digit - b'0');
        rest = next;
    }
    match rest {
        [b'\r', b'\n', after @ ..] if rest.len() < value.len() => Some((number, after)),
        _ => None,
    }
}

/// A field that begins with `c`, of no consequence.
#[cold]
#[inline(never)]
fn other_c(rest: &[u8]) -> Option<&[u8]> {
    const LENGTH: Name<15> = Name::new(b"content-length:");
    const CONNECTION: Name<11> = Name::new(b"connection:");
    if LENGTH.strip(rest).is_some() || CONNECTION.strip(rest).is_some() { None } else { skip_field(rest) }
}

/// A field that begins with `t`, of no consequence.
#[cold]
#[inline(never)]
fn other_t(rest: &[u8]) -> Option<&[u8]> {
    const TRANSFER_ENCODING: Name<18> = Name::new(b"transfer-encoding:");
    if TRANSFER_ENCODING.strip(rest).is_some() { None } else { skip_field(rest) }
}
