//! One pass over a request head.

use super::{RequestLimits, Transfer, framing};
use crate::Version;
use crate::lines::is_complete;
use semantics::lines::{skip_field, trim};
use semantics::scan::{
    Name, find, host_len, is_token, plain_host_len, skip_value, split_target, split_value, token_len,
};
use semantics::{Form, Known, Method, Offsets, Request, Status, authority};

const GET: Name<4> = Name::exact(b"GET ");
const VERSION: Name<11> = Name::exact(b" HTTP/1.1\r\n");

/// Why there is no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// What is there is valid. The complete lines end at `checked` (0 within
    /// the request line), and `fields` of them are field lines.
    Incomplete { checked: usize, fields: u16 },
    /// Not to be served.
    Reject(Status),
}

/// Parses the head that `data` begins with. `data` is at most
/// [`RequestLimits::head`] long.
///
/// A malformed line is only judged once it is complete, and what several
/// lines mean together only once the head is: so the answer does not depend
/// on how the bytes arrived.
#[inline(always)]
pub(super) fn parse<'a>(
    data: &'a [u8],
    limits: &RequestLimits,
    request: &mut Request<'a>,
    transfer: &mut Transfer,
) -> Result<(), Stop> {
    let at = request.offsets();
    let Some(mut rest) = request_line(data, at, transfer) else { return Err(request_line_stop(data, limits)) };
    let line = data.len() - rest.len();
    if line - 2 > usize::from(limits.request_line) {
        return Err(Stop::Reject(Status::URI_TOO_LONG));
    }
    at.fields_start = line as u16;
    let mut fields = 0;
    let after = loop {
        if let [b'\r', b'\n', after @ ..] = rest {
            break after;
        }
        let Some(next) = field(data, rest, at, transfer) else { return Err(field_stop(data, rest, fields)) };
        if fields == limits.fields {
            return Err(Stop::Reject(Status::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        fields += 1;
        rest = next;
    };
    request.set_image(data.get(..data.len() - after.len()).unwrap_or(data));
    framing::judge(request, transfer, limits).map_err(Stop::Reject)
}

/// `method SP request-target SP HTTP-version CR LF` (RFC 9112 section 3).
/// Returns what follows.
#[inline(always)]
fn request_line<'a>(data: &'a [u8], at: &mut Offsets, transfer: &mut Transfer) -> Option<&'a [u8]> {
    let rest = target(data, method(data, at)?, at)?;
    let (version, rest) = rest.split_first_chunk::<11>()?;
    if !VERSION.equals(version) {
        transfer.version = other_version(version)?;
    }
    Some(rest)
}

/// The method and its space; names are case-sensitive (RFC 9110 section 9.1).
/// Returns what follows.
#[inline(always)]
fn method<'a>(data: &'a [u8], at: &mut Offsets) -> Option<&'a [u8]> {
    match GET.strip(data) {
        Some(rest) => {
            at.method = Method::Get;
            Some(rest)
        }
        None => other_method(data, at),
    }
}

#[cold]
#[inline(never)]
fn other_method<'a>(data: &'a [u8], at: &mut Offsets) -> Option<&'a [u8]> {
    let (name, rest) = data.split_at_checked(token_len(data))?;
    if name.is_empty() {
        return None;
    }
    at.method = Method::from_name(name);
    match rest.strip_prefix(b" ")? {
        // RFC 9112 section 3.2.3: CONNECT has the authority form alone.
        [b'/', ..] if at.method == Method::Connect => None,
        rest => Some(rest),
    }
}

/// The request target (RFC 9112 section 3.2). Returns what follows it, from
/// the space on.
///
/// Bytes from 0x80 on are let through, as clients send them unencoded; none
/// of them is a delimiter.
#[inline(always)]
fn target<'a>(data: &'a [u8], start: &'a [u8], at: &mut Offsets) -> Option<&'a [u8]> {
    let path = if start.first() == Some(&b'/') { start } else { other_form(start, at)? };
    let (end, mut stop) = split_target(path)?;
    at.path_start = position(data, path);
    at.path_end = position(data, end);
    let mut end = end;
    while stop == b'?' {
        (end, stop) = split_target(end.get(1..)?)?;
    }
    at.target_end = position(data, end);
    if stop == b' ' { Some(end) } else { None }
}

/// The forms of a target that begin with something else than `/`. Returns
/// the rest from the path on; where there is none, from the target's end.
#[cold]
#[inline(never)]
fn other_form<'a>(start: &'a [u8], at: &mut Offsets) -> Option<&'a [u8]> {
    if at.method == Method::Connect {
        let (host, end) = start.split_at_checked(host_len(start))?;
        at.form = Form::Authority;
        return (authority::is_valid(host) && end.first() == Some(&b' ')).then_some(end);
    }
    if start.starts_with(b"* ") {
        // RFC 9112 section 3.2.4: for OPTIONS alone.
        at.form = Form::Asterisk;
        return if at.method == Method::Options { start.get(1..) } else { None };
    }
    // RFC 9112 section 3.2.2: a server accepts the absolute form in requests,
    // although only proxies are sent it.
    let host = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
        let (sent, host) = start.split_at_checked(scheme.len())?;
        sent.eq_ignore_ascii_case(scheme).then_some(host)
    })?;
    let (host, end) = host.split_at_checked(host_len(host))?;
    at.form = Form::Absolute;
    // Userinfo is refused with the `@` that follows (RFC 9110 section 4.2.4).
    (authority::is_valid(host) && matches!(end.first(), Some(b'/' | b'?' | b' '))).then_some(end)
}

/// HTTP/1.0, and HTTP/1.2 to 1.9, which are handled as HTTP/1.1 (RFC 9110
/// section 2.5).
#[cold]
fn other_version(version: &[u8; 11]) -> Option<Version> {
    match version.strip_prefix(b" HTTP/1.")? {
        b"0\r\n" => Some(Version::Http10),
        [b'1'..=b'9', b'\r', b'\n'] => Some(Version::Http11),
        _ => None,
    }
}

/// Where `rest`, the end of `data`, begins. Heads are at most 65535 bytes
/// long.
#[inline(always)]
const fn position(data: &[u8], rest: &[u8]) -> u16 {
    (data.len() - rest.len()) as u16
}

/// Why the request line could not be parsed.
#[cold]
#[inline(never)]
fn request_line_stop(data: &[u8], limits: &RequestLimits) -> Stop {
    // Something else than HTTP is told at its first byte: it may never send a
    // line feed.
    if data.first().is_some_and(|&byte| !is_token(byte)) {
        return Stop::Reject(Status::BAD_REQUEST);
    }
    let end = find(data, 0, b'\n');
    // A line feed and a carriage return may still follow the longest line.
    if end.unwrap_or(data.len()) > usize::from(limits.request_line) + 1 {
        return Stop::Reject(Status::URI_TOO_LONG);
    }
    let Some(end) = end else { return Stop::Incomplete { checked: 0, fields: 0 } };
    let Some(line) = data[..end].strip_suffix(b"\r") else { return Stop::Reject(Status::BAD_REQUEST) };
    let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    // RFC 9112 section 2.3: digits; RFC 9110 section 15.6.6: another major
    // version is not supported.
    match version {
        [b'H', b'T', b'T', b'P', b'/', b'0' | b'2'..=b'9', b'.', b'0'..=b'9'] => {
            Stop::Reject(Status::HTTP_VERSION_NOT_SUPPORTED)
        }
        _ => Stop::Reject(Status::BAD_REQUEST),
    }
}

/// Why the field line that `rest` begins with could not be parsed.
#[cold]
#[inline(never)]
fn field_stop(data: &[u8], rest: &[u8], fields: u16) -> Stop {
    let checked = data.len() - rest.len();
    if is_complete(data, checked) { Stop::Reject(Status::BAD_REQUEST) } else { Stop::Incomplete { checked, fields } }
}

/// The field line that `rest` begins with: notes where its value is if the
/// name is a known one. Returns what follows the line.
#[inline(always)]
fn field<'a>(data: &[u8], rest: &'a [u8], at: &mut Offsets, transfer: &mut Transfer) -> Option<&'a [u8]> {
    // Host mostly comes first, and as written here: a name or an IPv4 address,
    // without a port.
    const HOST: Name<6> = Name::new(b"host: ");
    if let Some(value) = HOST.strip(rest)
        && let Some([b'\r', b'\n', next @ ..]) = value.get(plain_host_len(value)..)
    {
        at.note(Known::Host, position(data, value));
        return Some(next);
    }
    other_field(data, rest, at, transfer)
}

fn other_field<'a>(data: &[u8], rest: &'a [u8], at: &mut Offsets, transfer: &mut Transfer) -> Option<&'a [u8]> {
    match identify(rest) {
        None => skip_field(rest),
        Some((None, value)) => skip_value(value),
        Some((Some(Known::Host), value)) => host(data, value, at, transfer),
        Some((Some(known), value)) => {
            at.note(known, position(data, value));
            skip_value(value)
        }
    }
}

/// The known field whose name and colon `rest` begins with, and what follows
/// them. `Some(None)` for a frequent name of no interest.
#[inline(always)]
pub(super) fn identify(rest: &[u8]) -> Option<(Option<Known>, &[u8])> {
    macro_rules! any_of {
        ($($text:literal => $known:expr,)*) => {{
            $({
                const NAME: Name<{ $text.len() }> = Name::new($text);
                if let Some(value) = NAME.strip(rest) {
                    return Some(($known, value));
                }
            })*
        }};
    }
    // The first letter decides among the names, and their order is that of
    // how often they are sent.
    match rest.first()? | 0x20 {
        b'a' => any_of! {
            b"accept:" => None,
            b"accept-encoding:" => Some(Known::AcceptEncoding),
            b"authorization:" => Some(Known::Authorization),
        },
        b'u' => any_of! { b"user-agent:" => Some(Known::UserAgent), },
        b'c' => any_of! {
            b"connection:" => Some(Known::Connection),
            b"content-length:" => Some(Known::ContentLength),
            b"content-range:" => Some(Known::ContentRange),
        },
        b'i' => any_of! {
            b"if-none-match:" => Some(Known::IfNoneMatch),
            b"if-modified-since:" => Some(Known::IfModifiedSince),
            b"if-range:" => Some(Known::IfRange),
            b"if-match:" => Some(Known::IfMatch),
            b"if-unmodified-since:" => Some(Known::IfUnmodifiedSince),
        },
        b'r' => any_of! {
            b"referer:" => Some(Known::Referer),
            b"range:" => Some(Known::Range),
        },
        b't' => any_of! { b"transfer-encoding:" => Some(Known::TransferEncoding), },
        b'h' => any_of! { b"host:" => Some(Known::Host), },
        b'e' => any_of! { b"expect:" => Some(Known::Expect), },
        b'v' => any_of! { b"via:" => Some(Known::Via), },
        _ => {}
    }
    None
}

/// Host, however it is written. Its value must be a host and port, or empty
/// (RFC 9112 section 3.2).
#[cold]
#[inline(never)]
fn host<'a>(data: &[u8], rest: &'a [u8], at: &mut Offsets, transfer: &mut Transfer) -> Option<&'a [u8]> {
    at.note(Known::Host, position(data, rest));
    let (value, after) = split_value(rest)?;
    let host = trim(value);
    transfer.bad_host |= !host.is_empty() && !authority::is_valid(host);
    Some(after)
}
