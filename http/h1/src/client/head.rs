//! One pass over a response head.

use super::{Error, Response, ResponseLimits};
use crate::lines::{Section, canonical, is_complete, section_of_line_feeds};
use crate::{Framing, Version};
use semantics::lines::{skip_field, trim};
use semantics::number;
use semantics::scan::{Name, find, skip_value, split_value};
use semantics::{Method, Status};

const VERSION: Name<9> = Name::exact(b"HTTP/1.1 ");
const CONTENT_LENGTH: Name<15> = Name::new(b"content-length:");
const CONNECTION: Name<11> = Name::new(b"connection:");
const TRANSFER_ENCODING: Name<18> = Name::new(b"transfer-encoding:");

/// Why there is no response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// What is there is valid. The complete lines end at `checked` (0 within
    /// the status line), and `fields` of them are field lines.
    Incomplete { checked: usize, fields: u16 },
    /// Not usable.
    Fail(Error),
}

/// What the fields say, before they are judged together.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    length: Option<u64>,
    bad_length: bool,
    chunked: bool,
    /// A coding other than chunked, or chunked not last.
    other_coding: bool,
    close: bool,
    keep_alive: bool,
    /// A name begins with `x`.
    has_x_field: bool,
}

/// Parses the head that `data` begins with, which is at most
/// [`ResponseLimits::head`] long. Where each line of a field ends, behind where the first begins, is told to `note`.
#[inline(always)]
pub(super) fn parse<'a>(
    data: &'a [u8],
    asked: Method,
    limits: &ResponseLimits,
    mut note: impl FnMut(usize),
) -> Result<Response<'a>, Stop> {
    let Some((version, status, mut rest)) = status_line(data) else { return Err(stop(data, 0, 0)) };
    let fields_start = (data.len() - rest.len()) as u16;
    let mut said = Said::default();
    let mut fields = 0;
    let after = loop {
        if let [b'\r', b'\n', after @ ..] = rest {
            break after;
        }
        let Some(next) = field(rest, &mut said) else { return Err(stop(data, data.len() - rest.len(), fields)) };
        if fields == limits.fields {
            return Err(Stop::Fail(Error::TooLarge));
        }
        fields += 1;
        rest = next;
        note(data.len() - rest.len() - usize::from(fields_start));
    };
    let head = data.get(..data.len() - after.len()).unwrap_or(data);
    let framing = framing(version, status, asked, &said).map_err(Stop::Fail)?;
    // RFC 9112 section 9.3. After 101, and 2xx to CONNECT, what follows is
    // not HTTP.
    let ends = framing == Framing::UntilClose
        || status == Status::SWITCHING_PROTOCOLS
        || asked == Method::Connect && status.code() / 100 == 2;
    let keep_alive = !said.close && !ends && (version == Version::Http11 || said.keep_alive);
    Ok(Response { head, fields_start, status, version, keep_alive, framing, has_x_field: said.has_x_field })
}

/// `HTTP-version SP status-code SP [ reason-phrase ] CR LF` (RFC 9112
/// section 4). The space before an absent reason may be absent, too, as some
/// servers leave it out.
#[inline(always)]
fn status_line(data: &[u8]) -> Option<(Version, Status, &[u8])> {
    let (version, rest) = match VERSION.strip(data) {
        Some(rest) => (Version::Http11, rest),
        None => other_version(data)?,
    };
    let (&[a @ b'1'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9'], rest) = rest.split_first_chunk::<3>()? else {
        return None;
    };
    let digit = |byte: u8| u16::from(byte - b'0');
    let status = Status::from_code(digit(a) * 100 + digit(b) * 10 + digit(c))?;
    match rest.first()? {
        b' ' | b'\r' => Some((version, status, skip_value(rest)?)),
        _ => None,
    }
}

#[cold]
fn other_version(data: &[u8]) -> Option<(Version, &[u8])> {
    match data.strip_prefix(b"HTTP/1.")? {
        [b'0', b' ', rest @ ..] => Some((Version::Http10, rest)),
        [b'2'..=b'9', b' ', rest @ ..] => Some((Version::Http11, rest)),
        _ => None,
    }
}

/// Why the line at `checked` could not be parsed.
#[cold]
fn stop(data: &[u8], checked: usize, fields: u16) -> Stop {
    // Something else than HTTP is told at its first byte: it may never send a
    // line feed.
    let foreign = checked == 0 && data.first().is_some_and(|&byte| byte != b'H');
    if foreign || is_complete(data, checked) {
        Stop::Fail(Error::Malformed)
    } else {
        Stop::Incomplete { checked, fields }
    }
}

/// The field line that `rest` begins with. Returns what follows.
#[inline(always)]
fn field<'a>(rest: &'a [u8], said: &mut Said) -> Option<&'a [u8]> {
    match rest.first()? | 0x20 {
        b'c' | b't' => framing_field(rest, said),
        letter => {
            said.has_x_field |= letter == b'x';
            skip_field(rest)
        }
    }
}

fn framing_field<'a>(rest: &'a [u8], said: &mut Said) -> Option<&'a [u8]> {
    if let Some(value) = CONTENT_LENGTH.strip(rest) {
        let (value, after) = split_value(value)?;
        let length = number::parse(trim(value));
        // RFC 9112 section 6.3, rule 5. A repeated length is refused even if
        // both agree.
        said.bad_length |= length.is_none() || said.length.is_some();
        said.length = length;
        return Some(after);
    }
    if let Some(value) = TRANSFER_ENCODING.strip(rest) {
        let (value, after) = split_value(value)?;
        for coding in value.split(|&byte| byte == b',').map(trim) {
            let chunked = coding.eq_ignore_ascii_case(b"chunked");
            said.other_coding |= !chunked || said.chunked;
            said.chunked |= chunked;
        }
        return Some(after);
    }
    if let Some(value) = CONNECTION.strip(rest) {
        let (value, after) = split_value(value)?;
        for option in value.split(|&byte| byte == b',').map(trim) {
            said.close |= option.eq_ignore_ascii_case(b"close");
            said.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
        return Some(after);
    }
    skip_field(rest)
}

/// RFC 9112 section 6.3, in its order.
fn framing(version: Version, status: Status, asked: Method, said: &Said) -> Result<Framing, Error> {
    // Rules 1 and 2: no body, whatever the fields say.
    let tunnel = asked == Method::Connect && status.code() / 100 == 2;
    if asked == Method::Head || status.is_bodiless() || tunnel {
        return Ok(Framing::None);
    }
    if said.chunked || said.other_coding {
        // Rule 3, and section 6.1: both fields, or a coding in HTTP/1.0,
        // where it is not defined, are an attempt at response splitting.
        return if said.length.is_some() || said.bad_length || version == Version::Http10 {
            Err(Error::Malformed)
        } else if said.other_coding {
            Err(Error::UnsupportedCoding)
        } else {
            Ok(Framing::Chunked)
        };
    }
    match said.length {
        _ if said.bad_length => Err(Error::Malformed),
        Some(0) => Ok(Framing::None),
        Some(length) => Ok(Framing::Length(length)),
        // Rule 8.
        None => Ok(Framing::UntilClose),
    }
}

/// A head that is none of lines that end in CR LF, where they may end in LF alone: its
/// length, or why there is none. `None` where line ends are not what is wrong with it.
#[cold]
#[inline(never)]
pub(super) fn of_line_feeds(window: &[u8], asked: Method, limits: &ResponseLimits) -> Option<Result<usize, Stop>> {
    let first = find(window, 0, b'\n')? + 1;
    match parse(&canonical(window.get(..first)?), asked, limits, drop) {
        Err(Stop::Incomplete { checked, .. }) if checked > 0 => {}
        Ok(_) | Err(Stop::Incomplete { .. }) => return None,
        Err(stop) => return Some(Err(stop)),
    }
    Some(match section_of_line_feeds(window, first, limits.fields)? {
        Section::Complete(end) => Ok(end),
        Section::Incomplete(checked, fields) => Err(Stop::Incomplete { checked, fields }),
        Section::Malformed => Err(Stop::Fail(Error::Malformed)),
        Section::TooMany => Err(Stop::Fail(Error::TooLarge)),
    })
}
