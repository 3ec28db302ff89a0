//! Names of fields, and which are of one connection alone.

/// A set of names of fields, whatever their case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NameSet(Vec<Box<[u8]>>);

impl NameSet {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// One more.
    pub fn insert(&mut self, name: &[u8]) {
        let name = name.to_ascii_lowercase();
        if let Err(at) = self.0.binary_search_by(|known| (**known).cmp(&name)) {
            self.0.insert(at, name.into());
        }
    }

    /// One less.
    pub fn remove(&mut self, name: &[u8]) {
        self.0.retain(|known| !known.eq_ignore_ascii_case(name));
    }

    /// Whether it is among them.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        let lower = |byte: &u8| byte.to_ascii_lowercase();
        self.0.binary_search_by(|known| known.iter().copied().cmp(name.iter().map(lower))).is_ok()
    }
}

impl<'a> FromIterator<&'a [u8]> for NameSet {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(names: I) -> Self {
        let mut set = Self::new();
        names.into_iter().for_each(|name| set.insert(name));
        set
    }
}

/// What of an answer does not go on to clients unless it is asked for
/// (`proxy_pass_header`).
pub const HIDDEN: [&[u8]; 8] = [
    b"Date",
    b"Server",
    b"X-Pad",
    b"X-Accel-Expires",
    b"X-Accel-Redirect",
    b"X-Accel-Limit-Rate",
    b"X-Accel-Buffering",
    b"X-Accel-Charset",
];

/// What a field of an answer is to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerField {
    /// It goes on as it is.
    Other,
    /// It is of the connection to the upstream, or of how the message ends there
    /// (RFC 9110 section 7.6.1).
    OfConnection,
    /// `Content-Type`
    ContentType,
    /// `Last-Modified`
    LastModified,
    /// `ETag`
    ETag,
    /// `Content-Encoding`
    ContentEncoding,
    /// `Location`
    Location,
    /// `Refresh`
    Refresh,
    /// `Set-Cookie`
    SetCookie,
    /// `Vary`
    Vary,
    /// `Accept-Ranges`
    AcceptRanges,
    /// `Upgrade`
    Upgrade,
    /// `Date`, `Server`: in place of ours, if they go on at all.
    OfServer,
    /// `X-Accel-…`
    Accel(Accel),
}

/// What an upstream may ask of us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accel {
    /// Another path of ours answers.
    Redirect,
    /// How long an answer may be kept.
    Expires,
    /// How fast it is sent.
    LimitRate,
    /// Whether it is buffered.
    Buffering,
    /// Its charset.
    Charset,
}

impl AnswerField {
    /// What the field of this name is.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        const NAMES: [(&[u8], AnswerField); 23] = [
            (b"content-type", AnswerField::ContentType),
            (b"last-modified", AnswerField::LastModified),
            (b"etag", AnswerField::ETag),
            (b"content-encoding", AnswerField::ContentEncoding),
            (b"location", AnswerField::Location),
            (b"refresh", AnswerField::Refresh),
            (b"set-cookie", AnswerField::SetCookie),
            (b"vary", AnswerField::Vary),
            (b"accept-ranges", AnswerField::AcceptRanges),
            (b"upgrade", AnswerField::Upgrade),
            (b"date", AnswerField::OfServer),
            (b"server", AnswerField::OfServer),
            (b"x-accel-redirect", AnswerField::Accel(Accel::Redirect)),
            (b"x-accel-expires", AnswerField::Accel(Accel::Expires)),
            (b"x-accel-limit-rate", AnswerField::Accel(Accel::LimitRate)),
            (b"x-accel-buffering", AnswerField::Accel(Accel::Buffering)),
            (b"x-accel-charset", AnswerField::Accel(Accel::Charset)),
            (b"content-length", AnswerField::OfConnection),
            (b"transfer-encoding", AnswerField::OfConnection),
            (b"connection", AnswerField::OfConnection),
            (b"keep-alive", AnswerField::OfConnection),
            (b"proxy-connection", AnswerField::OfConnection),
            (b"trailer", AnswerField::Other),
        ];
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(Self::Other, |(_, what)| *what)
    }

    /// Whether it goes along where another path of ours answers in place of the upstream.
    #[must_use]
    pub fn goes_along(name: &[u8]) -> bool {
        const NAMES: [&[u8]; 5] =
            [b"set-cookie", b"content-disposition", b"cache-control", b"expires", b"accept-ranges"];
        NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The first field line of a head whose name is none: the name up to the byte that may not
/// stand there, and that byte. For people.
#[must_use]
pub fn misnamed(head: &[u8]) -> Option<(&[u8], u8)> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let stands = |byte: &u8| *byte > b' ' && *byte != 0x7f && *byte != b':';
        let end = line.iter().position(|byte| !stands(byte))?;
        let byte = *line.get(end)?;
        // An empty line ends the head, and an end of line the name.
        (byte != b':' && byte != b'\r').then(|| (line.get(..end).unwrap_or_default(), byte))
    })
}

/// Writes a field of a request; what would end its line is a space.
pub fn put(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend(value.iter().map(|byte| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_case() {
        let mut set: NameSet = HIDDEN.into_iter().collect();
        assert!(set.has(b"server") && set.has(b"SERVER") && !set.has(b"Serve") && !set.has(b"Servers"));
        set.remove(b"SERVER");
        set.insert(b"X-B");
        set.insert(b"x-b");
        assert!(!set.has(b"server") && set.has(b"x-B"));
    }

    #[test]
    fn framing_is_the_connections_own() {
        for name in ["Content-Length", "transfer-encoding", "CONNECTION", "Keep-Alive"] {
            assert_eq!(AnswerField::of(name.as_bytes()), AnswerField::OfConnection, "{name}");
        }
        assert_eq!(AnswerField::of(b"X-Accel-Redirect"), AnswerField::Accel(Accel::Redirect));
        assert_eq!(AnswerField::of(b"X-Other"), AnswerField::Other);
        assert!(AnswerField::goes_along(b"Set-Cookie") && !AnswerField::goes_along(b"ETag"));
    }

    #[test]
    fn a_name_that_is_none_is_told_up_to_where_it_ends() {
        let found = |head: &'static str| misnamed(head.as_bytes());
        assert_eq!(found("HTTP/1.1 200 OK\r\nA: b\r\nA B: c\r\n\r\n"), Some((&b"A"[..], b' ')));
        assert_eq!(found("HTTP/1.1 200 OK\r\n\0A: b\r\n\r\n"), Some((&b""[..], 0)));
        assert_eq!(found("HTTP/1.1 200 OK\r\n: a\r\nB: c d\r\n\r\n"), None);
    }

    #[test]
    fn a_value_makes_no_line_of_its_own() {
        let mut out = Vec::new();
        put(b"A", b"b\r\nC: d\0", &mut out);
        assert_eq!(out, b"A: b  C: d \r\n");
    }
}
