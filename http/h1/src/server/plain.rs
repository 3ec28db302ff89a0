//! The heads that most requests have: found by one short pass that keeps in
//! registers what it finds.

use super::RequestLimits;
use super::head::identify;
use semantics::lines::skip_field;
use semantics::scan::{Name, skip_plain_host, skip_value, split_target, split_value};
use semantics::{Known, Method, Offsets, Request};
use vector::{BLOCK, Blocks, Marks, Work};

/// A GET in origin form by HTTP/1.1, with one Host that is a name or an IPv4
/// address, without a body and without conditions, ranges and
/// expectations: its answer depends on the path alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// Bytes of the head.
    len: u16,
    /// Bytes of the path, which is after the method.
    path: u16,
    /// Where the value of Host begins, and bytes of the name in it.
    host: u16,
    host_name: u16,
    keep_alive: bool,
}

// Returned in two registers.
const _: () = assert!(size_of::<Option<Plain>>() <= 16);

const METHOD: usize = b"GET ".len();
const GET: Name<5> = Name::exact(b"GET /");
// RFC 9110 section 7.2: a client should send Host first.
const VERSION_AND_HOST: Name<VERSION_AND_HOST_LEN> = Name::new(b" HTTP/1.1\r\nhost: ");
const VERSION_AND_HOST_LEN: usize = 17;
const END: Name<4> = Name::exact(b"\r\n\r\n");
/// Bytes of a request line behind its target.
const VERSION_LINE: usize = b" HTTP/1.1\r\n".len();
/// Names that are looked for in plain heads.
const HOST: Name<5> = Name::new(b"host:");
const USER_AGENT: Name<11> = Name::new(b"user-agent:");
const REFERER: Name<8> = Name::new(b"referer:");
const ACCEPT_ENCODING: Name<16> = Name::new(b"accept-encoding:");
const AUTHORIZATION: Name<14> = Name::new(b"authorization:");
const VIA: Name<4> = Name::new(b"via:");

/// What the names of both begin with.
const CONNECTION: Name<8> = Name::new(b"connecti");
const CLOSE: Name<19> = Name::new(b"connection: close\r\n");
const CLOSE_AND_END: Name<21> = Name::new(b"connection: close\r\n\r\n");
const KEEP_ALIVE: Name<24> = Name::new(b"connection: keep-alive\r\n");

impl Plain {
    /// The target's path as sent, without query; begins with `/`. `data` is
    /// what the head was found in.
    #[inline(always)]
    #[must_use]
    pub fn path(self, data: &[u8]) -> &[u8] {
        data.get(METHOD..METHOD + usize::from(self.path)).unwrap_or_default()
    }

    /// The value of Host: a name or IPv4 address, perhaps with a port. `data` is what the head was found in.
    #[must_use]
    pub fn host(self, data: &[u8]) -> &[u8] {
        let value = data.get(usize::from(self.host)..self.len()).unwrap_or_default();
        if let Some((name, [b'\r', b'\n', ..])) = value.split_at_checked(usize::from(self.host_name)) {
            // Most name no port.
            return name;
        }
        split_value(value).map_or(&[], |(host, _)| host)
    }

    /// The same without the port.
    #[inline(always)]
    #[must_use]
    pub fn host_name(self, data: &[u8]) -> &[u8] {
        let start = usize::from(self.host);
        data.get(start..start + usize::from(self.host_name)).unwrap_or_default()
    }

    /// The request, with what of its fields is often looked for by name: its host,
    /// who asks and from where, by which proxy, with which rights, and in which
    /// codings. `data` is what the head was found in.
    #[must_use]
    pub fn request(self, data: &[u8]) -> Request<'_> {
        let head = data.get(..self.len()).unwrap_or_default();
        let mut offsets = Offsets::NONE;
        offsets.method = Method::Get;
        offsets.path_start = METHOD as u16;
        offsets.path_end = METHOD as u16 + self.path;
        // ` HTTP/1.1` and its line's end are behind the target, and Host follows.
        offsets.target_end = self.host - VERSION_AND_HOST_LEN as u16;
        offsets.fields_start = offsets.target_end + VERSION_LINE as u16;
        Request::new(head, vector::run(Noting { head, offsets }))
    }

    /// Whether the target has a query. `data` is what the head was found in.
    #[must_use]
    pub fn has_query(self, data: &[u8]) -> bool {
        data.get(METHOD + usize::from(self.path)) == Some(&b'?')
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

/// A head whose fields are noted.
struct Noting<'a> {
    head: &'a [u8],
    offsets: Offsets,
}

impl Work for Noting<'_> {
    type Output = Offsets;

    #[inline(always)]
    fn run<B: Blocks>(self, blocks: B) -> Offsets {
        let Self { head, mut offsets } = self;
        let first = usize::from(offsets.fields_start);
        note_line(head, first, &mut offsets);
        let mut at = first;
        while let Some(rest) = head.get(at..).filter(|rest| !rest.is_empty()) {
            let mut stops = match rest.first_chunk::<BLOCK>() {
                Some(block) => blocks.stops(block),
                None => match last_marks(blocks, head, rest.len()) {
                    Some(marks) => marks.stop,
                    None => rest.iter().rev().fold(0, |marks, byte| marks << 1 | u32::from(*byte == b'\n')),
                },
            };
            while stops != 0 {
                let stop = at + stops.trailing_zeros() as usize;
                stops &= stops - 1;
                if head.get(stop) == Some(&b'\n') {
                    note_line(head, stop + 1, &mut offsets);
                }
            }
            at += BLOCK;
        }
        offsets
    }
}

/// Notes the line that begins at `at`, if its name is looked for.
#[inline(always)]
fn note_line(head: &[u8], at: usize, offsets: &mut Offsets) {
    let Some(line) = head.get(at..) else { return };
    let found = match line.first().map(|first| first | 0x20) {
        Some(b'h') => HOST.strip(line).map(|value| (Known::Host, value)),
        Some(b'u') => USER_AGENT.strip(line).map(|value| (Known::UserAgent, value)),
        Some(b'r') => REFERER.strip(line).map(|value| (Known::Referer, value)),
        Some(b'v') => VIA.strip(line).map(|value| (Known::Via, value)),
        Some(b'a') => {
            let encoding = ACCEPT_ENCODING.strip(line).map(|value| (Known::AcceptEncoding, value));
            encoding.or_else(|| AUTHORIZATION.strip(line).map(|value| (Known::Authorization, value)))
        }
        _ => None,
    };
    let Some((known, value)) = found else { return };
    let blanks = match value {
        [b' ', next, ..] if !matches!(next, b' ' | b'\t') => 1,
        _ => value.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count(),
    };
    offsets.note(known, (head.len() - value.len() + blanks) as u16);
}

/// The plain head that `data` begins with. `None` for any other, and for one
/// that is incomplete or that a limit refuses: [`super::head::parse`] is to
/// look at those, and accepts whatever is accepted here.
#[inline(always)]
pub(super) fn parse(data: &[u8], limits: &RequestLimits) -> Option<Plain> {
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
        None => other_fields(data, fields, limits)?,
    };
    let len = data.len() - after.len();
    // The request line is shorter than its head: one that is held against both
    // limits keeps them.
    if len > usize::from(limits.request_line) || len > usize::from(limits.head) || limits.fields == 0 {
        return None;
    }
    // All are below `limits.head`.
    let (path, host_name) = ((target.len() - path_end.len()) as u16, (host.len() - fields.len()) as u16);
    let host = (data.len() - host.len()) as u16;
    Some(Plain { len: len as u16, path, host, host_name, keep_alive })
}

/// What follows the head `data`, whose Host ends before `rest` but for its
/// port, and whether the connection goes on.
#[inline(never)]
fn other_fields<'a>(data: &'a [u8], rest: &'a [u8], limits: &RequestLimits) -> Option<(&'a [u8], bool)> {
    let line = skip_port(rest).strip_prefix(b"\r\n")?;
    // Host is one of them.
    let most = usize::from(limits.fields).checked_sub(1)?;
    let (mut line, mut lines) = (line, 0);
    if CONNECTION.strip(line).is_some() {
        // A client that asks once says no more than that.
        if let Some(after) = CLOSE_AND_END.strip(line)
            && most > 0
        {
            return Some((after, false));
        }
        // Browsers say first that it goes on.
        if let Some(after) = KEEP_ALIVE.strip(line) {
            (line, lines) = (after, 1);
        }
    }
    let mut seen = Seen { keep_alive: true, rights: false };
    loop {
        let found = vector::run(Lines { data, line, lines })?;
        if found.lines > most {
            return None;
        }
        match found.rest {
            [b'\r', b'\n', after @ ..] => return Some((after, seen.keep_alive)),
            rest => (line, seen) = other_line(rest, seen)?,
        }
        lines = found.lines + 1;
    }
}

/// What lines that matter have said so far.
#[derive(Clone, Copy)]
struct Seen {
    /// The connection goes on.
    keep_alive: bool,
    /// There is an Authorization: another is for the whole parser to refuse.
    rights: bool,
}

/// Field lines.
struct Lines<'a> {
    /// All that there is, from the head's beginning on.
    data: &'a [u8],
    /// The end of it, from the first of the lines on.
    line: &'a [u8],
    /// Those before it.
    lines: usize,
}

/// What follows lines that do not matter here.
struct Found<'a> {
    rest: &'a [u8],
    lines: usize,
}

impl<'a> Work for Lines<'a> {
    type Output = Option<Found<'a>>;

    /// Passes over lines up to the first that ends the head, or matters, or has
    /// a name or a value that is to be looked at byte by byte. Nothing is called
    /// from here, so that what blocks are compared with stays in registers.
    #[inline(always)]
    fn run<B: Blocks>(self, blocks: B) -> Self::Output {
        let Self { data, mut line, mut lines } = self;
        // A block and what ends a line behind it: one look at what is left is
        // enough for all of a short line.
        while let Some(chunk) = line.first_chunk::<{ BLOCK + END_LEN }>() {
            let marks = blocks.marks(block_at::<0>(chunk)?);
            let name = marks.other.trailing_zeros() as usize;
            if chunk[name] != b':' || matters(chunk[1], name) {
                return Some(Found { rest: line, lines });
            }
            let next = if marks.stop != 0 {
                let end = marks.stop.trailing_zeros() as usize;
                if !is_end(chunk[end], chunk[end + 1]) {
                    return Some(Found { rest: line, lines });
                }
                &line[end + END_LEN..]
            } else {
                let next = match end_of_longer(blocks, line) {
                    Some(next) => next,
                    None => end_of_long(blocks, data, line)?,
                };
                match next {
                    Some(next) => next,
                    None => return Some(Found { rest: line, lines }),
                }
            };
            line = next;
            lines = lines.wrapping_add(1);
        }
        // The last lines, of which there is no block, or hardly more.
        loop {
            let [first, second, ..] = line else { return None };
            if *first == b'\r' {
                return Some(Found { rest: line, lines });
            }
            let marks = match line.first_chunk::<BLOCK>() {
                Some(block) => blocks.marks(block),
                None => last_marks(blocks, data, line.len())?,
            };
            let name = marks.other.trailing_zeros() as usize;
            if line.get(name) != Some(&b':') || matters(*second, name) {
                return Some(Found { rest: line, lines });
            }
            if marks.stop == 0 {
                return None;
            }
            let (end, next) = line.get(marks.stop.trailing_zeros() as usize..)?.split_first_chunk::<END_LEN>()?;
            if !is_end(end[0], end[1]) {
                return Some(Found { rest: line, lines });
            }
            line = next;
            lines = lines.wrapping_add(1);
        }
    }
}

/// Bytes of what ends a line.
const END_LEN: usize = b"\r\n".len();

/// Whether a line ends with these: what else stops a value is HTAB, what is no
/// ASCII, or what may not be there.
#[inline(always)]
fn is_end(first: u8, second: u8) -> bool {
    u16::from_ne_bytes([first, second]) == u16::from_ne_bytes(*b"\r\n")
}

/// The block of more bytes that begins at `AT`.
#[inline(always)]
fn block_at<const AT: usize>(bytes: &[u8]) -> Option<&[u8; BLOCK]> {
    bytes.get(AT..)?.first_chunk()
}

/// What follows a line of more than a block that ends within two more, in one
/// step, because those that are longer mostly are much longer: `None` if it ends
/// behind them, or they are not all there, and the inner one if it is to be
/// looked at byte by byte.
#[inline(always)]
fn end_of_longer<B: Blocks>(blocks: B, line: &[u8]) -> Option<Option<&[u8]>> {
    let chunk = line.first_chunk::<{ 3 * BLOCK + END_LEN }>()?;
    let (lower, upper) = (block_at::<{ BLOCK }>(chunk)?, block_at::<{ 2 * BLOCK }>(chunk)?);
    let stops = u64::from(blocks.stops(lower)) | u64::from(blocks.stops(upper)) << BLOCK;
    if stops == 0 {
        return None;
    }
    let end = BLOCK + stops.trailing_zeros() as usize;
    Some(is_end(chunk[end], chunk[end + 1]).then(|| &line[end + END_LEN..]))
}

/// The same for any line of more than a block: `None` if there is no end in all
/// of `data`, which it is the last of.
#[inline(always)]
fn end_of_long<'a, B: Blocks>(blocks: B, data: &[u8], line: &'a [u8]) -> Option<Option<&'a [u8]>> {
    let mut behind = line.get(BLOCK..)?;
    let end = loop {
        let stops = match behind.first_chunk::<BLOCK>() {
            Some(block) => blocks.stops(block),
            None => match last_marks(blocks, data, behind.len())?.stop {
                0 => return None,
                stops => stops,
            },
        };
        if stops != 0 {
            break stops.trailing_zeros() as usize;
        }
        behind = &behind[BLOCK..];
    };
    let (end, next) = behind.get(end..)?.split_first_chunk::<END_LEN>()?;
    Some(is_end(end[0], end[1]).then_some(next))
}

/// The marks of the last `len` bytes of `data`, fewer than a block; beyond them
/// there are none.
#[inline(always)]
fn last_marks<B: Blocks>(blocks: B, data: &[u8], len: usize) -> Option<Marks> {
    let Marks { other, stop } = blocks.marks(data.last_chunk::<BLOCK>()?);
    let before = BLOCK.saturating_sub(len) as u32;
    let behind = |marks: u32| marks.checked_shr(before).unwrap_or(0);
    Some(Marks { other: behind(other), stop: behind(stop) })
}

/// The fields that a plain head may not have, or not twice, and those that say how the
/// connection goes on: by the length of the name, a bit for its second letter, which
/// tells them from what many send (`Cache-Control`). All letters where the length is 0,
/// or a whole block.
const MATTERS: [u32; BLOCK + 1] = {
    let names: [&[u8]; 13] = [
        b"connection",
        b"content-length",
        b"transfer-encoding",
        b"expect",
        b"host",
        b"range",
        b"if-range",
        b"if-match",
        b"if-none-match",
        b"if-modified-since",
        b"if-unmodified-since",
        b"authorization",
        b"content-range",
    ];
    let mut lengths = [0; BLOCK + 1];
    lengths[0] = u32::MAX;
    lengths[BLOCK] = u32::MAX;
    let mut at = 0;
    while at < names.len() {
        lengths[names[at].len()] |= 1 << (names[at][1] & 31);
        at += 1;
    }
    lengths
};

/// Whether the field line whose second byte this is, and whose name has this
/// length, of up to a block, may be one of those: [`identify`] knows.
#[inline(always)]
fn matters(second: u8, name: usize) -> bool {
    MATTERS[name] >> (second & 31) & 1 == 1
}

/// What follows a line of any name, and what was seen with it.
#[inline(never)]
fn other_line(line: &[u8], seen: Seen) -> Option<(&[u8], Seen)> {
    match CLOSE.strip(line) {
        Some(after) => Some((after, Seen { keep_alive: false, ..seen })),
        None => other_field(line, seen),
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

/// What follows a field of no consequence, and what was seen with it.
#[inline(always)]
fn other_field(rest: &[u8], seen: Seen) -> Option<(&[u8], Seen)> {
    let after = match identify(rest) {
        None => skip_field(rest),
        Some((None | Some(Known::AcceptEncoding | Known::UserAgent | Known::Referer | Known::Via), value)) => {
            skip_value(value)
        }
        Some((Some(Known::Connection), _)) => KEEP_ALIVE.strip(rest),
        Some((Some(Known::Authorization), value)) if !seen.rights => {
            return Some((skip_value(value)?, Seen { rights: true, ..seen }));
        }
        Some(_) => None,
    };
    Some((after?, seen))
}
