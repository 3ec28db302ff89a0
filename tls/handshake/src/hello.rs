//! What a client says first (RFC 8446 section 4.1.2, RFC 5246 section 7.4.1.2), read before
//! anything is chosen for it: by the name that it asks for a server is found, and rustls is
//! told the same bytes then.
//!
//! Read strictly: what is not as the RFCs have it is refused here, with the alert that they
//! name, and costs neither memory nor a signature.

#[cfg(test)]
pub(crate) mod tests;

/// Bytes of records that a ClientHello may take. Those with keys of ML-KEM have 1,700, those
/// with a ticket that holds a client's certificate some thousands.
pub const HELLO_MAX: usize = 48 << 10;

/// The longest content of a record (RFC 8446 section 5.1).
const RECORD_MAX: usize = 1 << 14;

/// Records that a ClientHello may be cut into: enough for one with keys in several groups of which each
/// record has a byte. All of them are looked at again with each that comes, which costs less, by the
/// packet, than the signatures that a client can have for three.
const RECORDS_MAX: usize = 4_096;

/// The record type that begins a connection: a handshake, and nothing else.
const HANDSHAKE: u8 = 22;

/// What a client says first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hello {
    /// The host that it asks for, in lower case, without a dot or a port behind it.
    pub server_name: Option<Box<str>>,
    /// Its name is none of DNS.
    pub odd_name: Option<OddName>,
    /// The protocols that it speaks (RFC 7301), in its order.
    pub protocols: Vec<Box<[u8]>>,
    /// The versions of TLS that it speaks, in its order.
    pub versions: Vec<u16>,
    /// The groups that it can exchange keys in.
    pub groups: Vec<u16>,
    /// The suites that it takes.
    pub suites: Vec<u16>,
    /// The signatures that it verifies (RFC 8446 section 4.2.3), in its order.
    pub schemes: Vec<u16>,
    /// What it was given to go on with a session by: a ticket, or the first key of those that
    /// it offers (RFC 5077 section 3.2, RFC 8446 section 4.2.11).
    pub ticket: Option<Box<[u8]>>,
    /// It sends data before it has had an answer (RFC 8446 section 4.2.10).
    pub early_data: bool,
}

/// Where a name stands that is none of DNS: rustls would refuse it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OddName {
    /// Where its extension begins in the message, whose own head counts.
    pub at: usize,
    /// A number for it that says nothing to rustls (RFC 8446 section 11 keeps it for private use), and
    /// that no extension of this client has.
    pub number: u16,
}

/// What the first bytes of a connection are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum First {
    /// A part of a ClientHello, perhaps: there are to be so many bytes before it is looked
    /// at again.
    Partial(usize),
    /// A whole one, which takes so many bytes.
    Whole(Hello, usize),
    /// No TLS at all: a request in plain text, perhaps.
    Plain,
    /// None that is taken.
    Refused(HelloError),
}

/// Why a ClientHello is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloError {
    /// It is of a version before TLS, or a record of no version.
    Version,
    /// A record or a message of another kind.
    Unexpected,
    /// Its lengths contradict each other, or a field is there twice.
    Malformed,
    /// A record is longer than any may be.
    Overflow,
    /// Its name has a zero, or more than 255 bytes.
    Name,
    /// It is longer than [`HELLO_MAX`]. Nobody has read it then, so that it is not said that it conforms to
    /// the syntax, which is what illegal_parameter says.
    TooLong,
}

impl HelloError {
    /// The alert that tells of it (RFC 8446 section 6.2), as a record in clear.
    #[must_use]
    pub const fn alert(self) -> [u8; 7] {
        let description = match self {
            Self::Version => 70,
            Self::Unexpected => 10,
            Self::Malformed | Self::TooLong => 50,
            Self::Overflow => 22,
            Self::Name => 112,
        };
        [21, 3, 3, 0, 2, 2, description]
    }
}

impl core::fmt::Display for HelloError {
    /// In OpenSSL's words, which nginx logs.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Version => "error:0A00010B:SSL routines::wrong version number",
            Self::Unexpected => "error:0A0000F4:SSL routines::unexpected message",
            Self::Malformed => "error:0A00009F:SSL routines::length mismatch",
            Self::Overflow => "error:0A0000C6:SSL routines::packet length too long",
            Self::Name => "error:0A00006E:SSL routines::bad extension",
            Self::TooLong => "error:0A000098:SSL routines::excessive message size",
        })
    }
}

/// Looks at the first bytes of a connection.
#[must_use]
pub fn first(bytes: &[u8]) -> First {
    let Some(kind) = bytes.first() else { return First::Partial(1) };
    // nginx tells plain text by this, too: a length of SSL 2 has its first bit set.
    if *kind != HANDSHAKE {
        return if kind & 0x80 == 0 { First::Plain } else { First::Refused(HelloError::Version) };
    }
    let mut message = Vec::new();
    let mut at = 0;
    for _ in 0..RECORDS_MAX {
        let Some([kind, major, _, high, low]) = bytes.get(at..at + 5) else { return First::Partial(at + 5) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind != HANDSHAKE {
            return First::Refused(HelloError::Unexpected);
        }
        if *major != 3 {
            return First::Refused(HelloError::Version);
        }
        // Empty records say nothing, and would never end (RFC 8446 section 5.1).
        if length == 0 {
            return First::Refused(HelloError::Malformed);
        }
        if length > RECORD_MAX {
            return First::Refused(HelloError::Overflow);
        }
        let end = at + 5 + length;
        if end > HELLO_MAX {
            return First::Refused(HelloError::TooLong);
        }
        let Some(content) = bytes.get(at + 5..end) else {
            // What is there of the message may say enough.
            return match whole_length(&message, bytes.get(at + 5..).unwrap_or_default()) {
                Err(why) => First::Refused(why),
                Ok(_) => First::Partial(end),
            };
        };
        at = end;
        let whole = match whole_length(&message, content) {
            Err(why) => return First::Refused(why),
            Ok(whole) => whole,
        };
        if message.is_empty() && whole == Some(content.len()) {
            return read(&content[4..]).map_or_else(First::Refused, |hello| First::Whole(hello, at));
        }
        message.extend_from_slice(content);
        match whole {
            Some(whole) if message.len() == whole => {
                return read(&message[4..]).map_or_else(First::Refused, |hello| First::Whole(hello, at));
            }
            // Nothing may follow it before it is answered.
            Some(whole) if message.len() > whole => return First::Refused(HelloError::Unexpected),
            _ => {}
        }
    }
    First::Refused(HelloError::TooLong)
}

/// The length of the message that begins with these, if they tell it.
fn whole_length(before: &[u8], then: &[u8]) -> Result<Option<usize>, HelloError> {
    let mut head = before.iter().chain(then);
    match head.next() {
        None => return Ok(None),
        // A ClientHello.
        Some(1) => {}
        Some(_) => return Err(HelloError::Unexpected),
    }
    let (Some(a), Some(b), Some(c)) = (head.next(), head.next(), head.next()) else { return Ok(None) };
    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    if length > HELLO_MAX { Err(HelloError::TooLong) } else { Ok(Some(4 + length)) }
}

/// Reads the body of a ClientHello.
fn read(body: &[u8]) -> Result<Hello, HelloError> {
    let mut rest = Fields(body);
    let mut hello = Hello::default();
    let version = rest.number()?;
    // RFC 8446 appendix D.5: not even SSL 3, whatever else it speaks.
    if version <= 0x0300 {
        return Err(HelloError::Version);
    }
    rest.take(32)?;
    let session = rest.short()?;
    let suites = rest.long()?;
    let compressions = rest.short()?;
    let is_odd = suites.is_empty() || !suites.len().is_multiple_of(2);
    if session.len() > 32 || is_odd || compressions.is_empty() {
        return Err(HelloError::Malformed);
    }
    hello.suites = numbers(suites)?;
    if rest.0.is_empty() {
        hello.versions = vec![version];
        return Ok(hello);
    }
    let mut extensions = Fields(rest.long()?);
    if !rest.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    let (mut seen, mut odd_at) = (Vec::new(), None);
    while !extensions.0.is_empty() {
        let at = HEAD + body.len() - extensions.0.len();
        let (kind, data) = (extensions.number()?, Fields(extensions.long()?));
        // RFC 8446 section 4.2: none may be there twice.
        if seen.contains(&kind) || seen.len() >= EXTENSIONS_MAX {
            return Err(HelloError::Malformed);
        }
        seen.push(kind);
        match kind {
            SERVER_NAME => {
                let name = server_name(data)?;
                hello.server_name = host(name);
                odd_at = is_refused(name).then_some(at);
            }
            GROUPS => hello.groups = numbers(data.only_long()?)?,
            PROTOCOLS => hello.protocols = protocols(data)?,
            VERSIONS => hello.versions = numbers(data.only_short()?)?,
            SCHEMES => hello.schemes = numbers(data.only_long()?)?,
            TICKET if hello.ticket.is_none() && !data.0.is_empty() => hello.ticket = Some(data.0.into()),
            EARLY_DATA => hello.early_data = true,
            KEYS => hello.ticket = Some(first_key(data)?),
            _ => {}
        }
    }
    if hello.versions.is_empty() {
        hello.versions = vec![version];
    }
    // There are more of these numbers than extensions.
    let number = PRIVATE.into_iter().find(|number| !seen.contains(number));
    hello.odd_name = odd_at.zip(number).map(|(at, number)| OddName { at, number });
    Ok(hello)
}

/// Bytes before the body of a message: its kind and length.
const HEAD: usize = 4;

/// Numbers of extensions that nobody has but by agreement; some beside them are in use.
const PRIVATE: core::ops::RangeInclusive<u16> = 0xff02..=0xff9f;

/// Extensions of one ClientHello, at most: browsers send some twenty.
const EXTENSIONS_MAX: usize = 128;
const SERVER_NAME: u16 = 0;
const GROUPS: u16 = 10;
const SCHEMES: u16 = 13;
const PROTOCOLS: u16 = 16;
const TICKET: u16 = 35;
const KEYS: u16 = 41;
const EARLY_DATA: u16 = 42;
const VERSIONS: u16 = 43;

/// Whether the library would refuse this name.
#[cfg(feature = "tls")]
fn is_refused(name: &[u8]) -> bool {
    rustls::pki_types::DnsName::try_from(name).is_err()
}

/// Without a library none is refused.
#[cfg(not(feature = "tls"))]
const fn is_refused(_: &[u8]) -> bool {
    false
}

/// RFC 6066 section 3: the name that is asked for, whatever it is, but for what OpenSSL refuses.
fn server_name(data: Fields<'_>) -> Result<&[u8], HelloError> {
    let mut names = Fields(data.only_long()?);
    let kind = *names.take(1)?.first().ok_or(HelloError::Malformed)?;
    let name = names.long()?;
    // One of a kind, and there is but one kind.
    if kind != 0 || !names.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    if name.len() > 255 || name.contains(&0) { Err(HelloError::Name) } else { Ok(name) }
}

/// The host that a name means, as nginx reads it, which is as it reads a Host field (RFC 3986 section 3.2).
/// None, where it is no host: then no name was asked for. No host leads out of a folder where files have
/// their names by it: there is no slash in it, and no two dots stand together.
fn host(name: &[u8]) -> Option<Box<str>> {
    let literal = name.first() == Some(&b'[');
    let end = match literal {
        true => 1 + name.iter().position(|byte| *byte == b']')?,
        false => name.iter().position(|byte| *byte == b':').unwrap_or(name.len()),
    };
    let (host, behind) = name.split_at(end);
    let port = match behind.split_first() {
        None => &[][..],
        Some((b':', port)) => port,
        Some(_) => return None,
    };
    let is_port = port.iter().all(u8::is_ascii_digit)
        && port.iter().fold(0_u32, |number, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
            <= u32::from(u16::MAX);
    let inner = if literal { &host[1..host.len() - 1] } else { host };
    let is_of_host = |byte: &u8| {
        let marks: &[u8] = if literal { b":" } else { b"%" };
        byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) || marks.contains(byte)
    };
    let is_host = inner.iter().all(is_of_host) && !inner.windows(2).any(|two| two == b"..");
    let host = host.strip_suffix(b".").unwrap_or(host);
    let host = core::str::from_utf8(host).ok().filter(|host| is_port && is_host && !host.is_empty())?;
    Some(host.to_ascii_lowercase().into())
}

/// RFC 7301 section 3.1.
fn protocols(data: Fields<'_>) -> Result<Vec<Box<[u8]>>, HelloError> {
    let mut list = Fields(data.only_long()?);
    let mut all = Vec::new();
    while !list.0.is_empty() {
        let name = list.short()?;
        if name.is_empty() {
            return Err(HelloError::Malformed);
        }
        all.push(name.into());
    }
    if all.is_empty() { Err(HelloError::Malformed) } else { Ok(all) }
}

/// RFC 8446 section 4.2.11: keys with their ages, and what proves that they are had. Whoever goes on
/// with the first reads the others, too.
fn first_key(mut data: Fields<'_>) -> Result<Box<[u8]>, HelloError> {
    let mut keys = Fields(data.long()?);
    let first = keys.long()?;
    keys.take(4)?;
    if first.is_empty() { Err(HelloError::Malformed) } else { Ok(first.into()) }
}

fn numbers(list: &[u8]) -> Result<Vec<u16>, HelloError> {
    if list.is_empty() || !list.len().is_multiple_of(2) {
        return Err(HelloError::Malformed);
    }
    Ok(list.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect())
}

/// Fields with their lengths, one behind the other.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u16, HelloError> {
        let two = self.take(2)?;
        Ok(u16::from_be_bytes([two[0], two[1]]))
    }

    /// With a length of one byte.
    fn short(&mut self) -> Result<&'a [u8], HelloError> {
        let length = usize::from(self.take(1)?[0]);
        self.take(length)
    }

    /// With a length of two.
    fn long(&mut self) -> Result<&'a [u8], HelloError> {
        let length = usize::from(self.number()?);
        self.take(length)
    }

    /// As [`Fields::short`], where nothing follows.
    fn only_short(mut self) -> Result<&'a [u8], HelloError> {
        let field = self.short()?;
        if self.0.is_empty() { Ok(field) } else { Err(HelloError::Malformed) }
    }

    /// As [`Fields::long`], where nothing follows.
    fn only_long(mut self) -> Result<&'a [u8], HelloError> {
        let field = self.long()?;
        if self.0.is_empty() { Ok(field) } else { Err(HelloError::Malformed) }
    }
}
