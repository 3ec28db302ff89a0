//! Names of fields, and which are of one connection alone.

/// A set of names of fields, whatever their case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NameSet {
    /// In small letters, the shortest first.
    names: Vec<Box<[u8]>>,
    /// A bit for each [trait](trait_bit) that one of them has. Most names that are looked
    /// for have one that none here has.
    traits: u64,
    /// And one for each name that is [known](KnownName) of fields of answers.
    known: u32,
}

impl NameSet {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { names: Vec::new(), traits: 0, known: 0 }
    }

    /// One more.
    pub fn insert(&mut self, name: &[u8]) {
        if !self.has(name) {
            let at = self.names.partition_point(|known| known.len() < name.len());
            self.traits |= trait_bit(name);
            self.known |= KnownName::of(name).map_or(0, KnownName::bit);
            self.names.insert(at, name.to_ascii_lowercase().into());
        }
    }

    /// One less.
    pub fn remove(&mut self, name: &[u8]) {
        self.names.retain(|known| !known.eq_ignore_ascii_case(name));
        self.traits = self.names.iter().fold(0, |traits, name| traits | trait_bit(name));
        self.known &= !KnownName::of(name).map_or(0, KnownName::bit);
    }

    /// Whether it is among them.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        if self.traits & trait_bit(name) == 0 {
            return false;
        }
        let of_length = self.names.iter().skip_while(|known| known.len() < name.len());
        of_length.take_while(|known| known.len() == name.len()).any(|known| is_lower_of(known, name))
    }
}

/// What tells most names apart: their length and their last letter, whatever its case.
fn trait_bit(name: &[u8]) -> u64 {
    let last = name.last().map_or(0, |byte| usize::from(byte | 0x20));
    1 << ((name.len() + 11 * last) % 64)
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

/// A name that is known of fields of answers: its number among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KnownName(u8);

/// The names that are known, in small letters, and what their fields are to us.
const KNOWN: [(&[u8], AnswerField); 24] = [
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
    (b"cache-control", AnswerField::Other),
    (b"expires", AnswerField::Other),
];

/// A place by length, first and last letter: no two of [`KNOWN`] have one.
const fn place_of(length: usize, first: u8, last: u8) -> usize {
    length.wrapping_add((first | 0x20) as usize * 10 + (last | 0x20) as usize) % PLACES
}

const PLACES: usize = 128;
const NOBODY: u8 = u8::MAX;

/// Which of them may be meant, by its place.
static BY_PLACE: [u8; PLACES] = {
    let mut places = [NOBODY; PLACES];
    let mut at = 0;
    while at < KNOWN.len() {
        let name = KNOWN[at].0;
        let place = place_of(name.len(), name[0], name[name.len() - 1]);
        assert!(places[place] == NOBODY);
        places[place] = at as u8;
        at += 1;
    }
    places
};

impl KnownName {
    /// That of a field, if it is known.
    #[inline(always)]
    fn of(name: &[u8]) -> Option<Self> {
        let place = place_of(name.len(), *name.first()?, *name.last()?);
        let number = *BY_PLACE.get(place)?;
        let (known, _) = KNOWN.get(usize::from(number))?;
        let ends = ENDS.get(usize::from(number))?;
        (known.len() == name.len() && ends.are_of(name) && (name.len() <= 16 || is_lower_of(known, name)))
            .then_some(Self(number))
    }

    const fn bit(self) -> u32 {
        1 << self.0
    }
}

/// The words at both ends of a name in small letters, which has four bytes or more, and where
/// in them letters are: all of it, up to sixteen bytes.
#[derive(Clone, Copy)]
struct Ends {
    words: [u64; 2],
    letters: [u64; 2],
}

/// Those of [`KNOWN`].
static ENDS: [Ends; KNOWN.len()] = {
    let mut all = [Ends { words: [0; 2], letters: [0; 2] }; KNOWN.len()];
    let mut at = 0;
    while at < KNOWN.len() {
        all[at] = Ends::of(KNOWN[at].0);
        at += 1;
    }
    all
};

impl Ends {
    const fn of(name: &[u8]) -> Self {
        assert!(name.len() >= 4);
        let size = if name.len() >= 8 { 8 } else { 4 };
        let (mut words, mut letters) = ([0; 2], [0; 2]);
        let mut at = 0;
        while at < size {
            let both = [name[at], name[name.len() - size + at]];
            let mut end = 0;
            while end < 2 {
                words[end] |= (both[end] as u64) << (8 * at);
                letters[end] |= if both[end].is_ascii_lowercase() { 0x20 << (8 * at) } else { 0 };
                end += 1;
            }
            at += 1;
        }
        Self { words, letters }
    }

    /// Whether a name of the same length has these, whatever its case.
    #[inline]
    fn are_of(&self, name: &[u8]) -> bool {
        let words = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => [u64::from_le_bytes(*first), u64::from_le_bytes(*last)],
            _ => match (name.first_chunk(), name.last_chunk()) {
                (Some(first), Some(last)) => [u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into()],
                _ => return false,
            },
        };
        words[0] | self.letters[0] == self.words[0] && words[1] | self.letters[1] == self.words[1]
    }
}

/// Whether a name is this one, which is in small letters: eight bytes at a time.
#[inline]
fn is_lower_of(known: &[u8], name: &[u8]) -> bool {
    const WORD: usize = 8;
    if known.len() != name.len() {
        return false;
    }
    let is_word =
        |known: &[u8; WORD], name: &[u8; WORD]| u64::from_le_bytes(*known) == lower(u64::from_le_bytes(*name));
    let (Some(first), Some(last)) =
        (known.first_chunk().zip(name.first_chunk()), known.last_chunk().zip(name.last_chunk()))
    else {
        return known.eq_ignore_ascii_case(name);
    };
    // The words at both ends overlap where there are fewer than sixteen bytes.
    let between = known.len() > 2 * WORD;
    let mut words = known.as_chunks::<WORD>().0.iter().zip(name.as_chunks::<WORD>().0);
    is_word(first.0, first.1)
        && is_word(last.0, last.1)
        && (!between || words.all(|(known, name)| is_word(known, name)))
}

/// Eight bytes, their letters small.
const fn lower(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    // Without their highest bits no sum carries from one to the next.
    let low = word & (ONES * 0x7f);
    let capitals = (low + ONES * (0x80 - b'A' as u64)) ^ (low + ONES * (0x7f - b'Z' as u64));
    word | (capitals & !word & (ONES << 7)) >> 2
}

/// What the name of a field of an answer says: looked up once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerName<'a> {
    name: &'a [u8],
    known: Option<KnownName>,
}

impl<'a> AnswerName<'a> {
    /// That of the field of this name.
    #[inline]
    #[must_use]
    pub fn of(name: &'a [u8]) -> Self {
        Self { name, known: KnownName::of(name) }
    }

    /// What the field is.
    #[inline]
    #[must_use]
    pub fn field(self) -> AnswerField {
        let known = self.known.and_then(|known| KNOWN.get(usize::from(known.0)));
        known.map_or(AnswerField::Other, |(_, field)| *field)
    }

    /// Whether it is among these names.
    #[inline]
    #[must_use]
    pub fn is_among(self, names: &NameSet) -> bool {
        match self.known {
            Some(known) => names.known & known.bit() != 0,
            None => names.has(self.name),
        }
    }
}

impl AnswerField {
    /// What the field of this name is.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        AnswerName::of(name).field()
    }

    /// Whether it goes along where another path of ours answers in place of the upstream.
    #[must_use]
    pub fn goes_along(name: &[u8]) -> bool {
        const NAMES: [&[u8]; 5] =
            [b"set-cookie", b"content-disposition", b"cache-control", b"expires", b"accept-ranges"];
        NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The first field line of a head that is none: the line up to the byte that may not stand
/// there, and that byte. For people.
#[must_use]
pub fn misnamed(head: &[u8]) -> Option<(&[u8], u8)> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.take_while(|line| !matches!(line, [] | [b'\r'])).find_map(|line| {
        let stands = |byte: &u8| *byte > b' ' && *byte != 0x7f && *byte != b':';
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let end = line.iter().position(|byte| !stands(byte)).unwrap_or(line.len());
        let bad = match line.get(end) {
            Some(b':') => {
                let text = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
                end + line.get(end..)?.iter().position(|byte| !text(byte))?
            }
            // The line ends within its name.
            None => return Some((line, b'\r')),
            Some(_) => end,
        };
        Some((line.get(..bad)?, *line.get(bad)?))
    })
}

/// What is wrong with what a head says of its body, in nginx's words: a length that is none,
/// or is there twice or beside chunks, and a coding that is not known.
#[must_use]
pub fn misframed(head: &[u8]) -> Option<String> {
    let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let (mut length, mut coding) = (None, None);
    let lines = head.split(|byte| *byte == b'\n').skip(1).map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    for line in lines.take_while(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?.trim_ascii());
        let place = match name {
            name if name.eq_ignore_ascii_case(b"content-length") => &mut length,
            name if name.eq_ignore_ascii_case(b"transfer-encoding") => &mut coding,
            _ => continue,
        };
        if let Some(before) = place.replace(value) {
            let (name, value, before) = (shown(name), shown(value), shown(before));
            return Some(format!(
                "upstream sent duplicate header line: \"{name}: {value}\", previous value: \"{name}: {before}\""
            ));
        }
    }
    match (length, coding) {
        (Some(length), _) if semantics::number::parse(length).is_none() => {
            Some(format!("upstream sent invalid \"Content-Length\" header: \"{}\"", shown(length)))
        }
        (_, Some(coding)) if !coding.eq_ignore_ascii_case(b"chunked") => {
            Some(format!("upstream sent unknown \"Transfer-Encoding\": \"{}\"", shown(coding)))
        }
        (Some(_), Some(_)) => {
            Some("upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time".to_owned())
        }
        // RFC 9112 section 6.1: such a message's framing is faulty.
        (None, Some(coding)) if head.starts_with(b"HTTP/1.0") => {
            Some(format!("upstream sent \"Transfer-Encoding\" header in an HTTP/1.0 response: \"{}\"", shown(coding)))
        }
        _ => None,
    }
}

/// Writes a field of a request; what would end its line is a space.
pub fn put(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    end_line(start, out);
}

/// Ends the line of a field whose value begins at `start`, likewise.
pub fn end_line(start: usize, out: &mut Vec<u8>) {
    let value = out.get_mut(start..).unwrap_or_default();
    if has_control(value) {
        for byte in value {
            // Written whatever it is, so that many go at once.
            *byte = if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte };
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether a byte below 0x20 is among these: eight at a time.
#[inline]
fn has_control(value: &[u8]) -> bool {
    const WORD: usize = 8;
    const ONES: u64 = u64::MAX / 255;
    let controls = |word: &[u8; WORD]| {
        let word = u64::from_le_bytes(*word);
        // A borrow goes out of such a byte alone.
        word.wrapping_sub(ONES * 0x20) & !word & (ONES << 7)
    };
    let Some(last) = value.last_chunk() else { return value.iter().any(|byte| *byte < b' ') };
    // The last word overlaps the one before it.
    let whole = value.as_chunks::<WORD>().0;
    whole.iter().fold(controls(last), |found, word| found | controls(word)) != 0
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
        for name in [&b"Server"[..], b"DATE", b"ETag", b"x-b", b"X-C"] {
            assert_eq!(AnswerName::of(name).is_among(&set), set.has(name), "{}", name.escape_ascii());
        }
        let long = [b'a'; 100];
        set.insert(&long);
        assert!(set.has(&long) && !set.has(&long[1..]));
        set.remove(&long);
        assert!(!set.has(&long) && set.has(b"x-accel-limit-rate"));
    }

    /// Each known name, with each byte at each place.
    #[test]
    fn known_names_are_found_whatever_their_case() {
        for (number, (known, field)) in KNOWN.iter().enumerate() {
            let found = |name: &[u8]| KnownName::of(name).map(|known| usize::from(known.0));
            assert_eq!(found(&known.to_ascii_uppercase()), Some(number));
            assert_eq!(AnswerField::of(known), *field);
            assert_eq!(found(&known[1..]).filter(|found| *found == number), None);
            for (at, byte) in (0..known.len()).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
                let mut other = known.to_vec();
                other[at] = byte;
                assert_eq!(
                    found(&other) == Some(number),
                    other.eq_ignore_ascii_case(known),
                    "{}",
                    other.escape_ascii()
                );
            }
        }
    }

    /// What would end a line is blank, wherever it stands in values of any length.
    #[test]
    fn a_value_ends_no_line() {
        const BYTES: [u8; 11] = *b"\0\x01\t\n\r\x1f \x7f\x80\x8d\xff";
        for length in 0..40_usize {
            for (at, byte) in (0..length).flat_map(|at| BYTES.map(|byte| (at, byte))) {
                let mut value: Vec<u8> = (0..length).map(|at| b"a \xff\x7f:"[at % 5]).collect();
                value[at] = byte;
                let mut line = b"A: ".to_vec();
                line.extend_from_slice(&value);
                end_line(3, &mut line);
                let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { *byte };
                let wanted: Vec<u8> = b"A: ".iter().copied().chain(value.iter().map(blank)).chain(*b"\r\n").collect();
                assert_eq!(line, wanted, "{}", value.escape_ascii());
            }
        }
    }

    /// Whatever stands where.
    #[test]
    fn names_are_compared_as_the_library_does() {
        for length in 0..40_usize {
            let name: Vec<u8> = (0..length).map(|at| b"aZ-_09bY~^"[at % 10]).collect();
            let known = name.to_ascii_lowercase();
            assert!(is_lower_of(&known, &name) && is_lower_of(&known, &known), "{length}");
            for (at, byte) in (0..length).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
                let mut other = name.clone();
                other[at] = byte;
                assert_eq!(
                    is_lower_of(&known, &other),
                    known.eq_ignore_ascii_case(&other),
                    "{byte} at {at} of {length}"
                );
            }
            assert!(!is_lower_of(&known, &[&name[..], b"a"].concat()));
        }
    }

    #[test]
    fn framing_is_the_connections_own() {
        for name in ["Content-Length", "transfer-encoding", "CONNECTION", "Keep-Alive"] {
            assert_eq!(AnswerField::of(name.as_bytes()), AnswerField::OfConnection, "{name}");
        }
        for (name, field) in KNOWN {
            assert_eq!(AnswerField::of(&name.to_ascii_uppercase()), field, "{}", name.escape_ascii());
            for at in 0..name.len() {
                let mut other = name.to_vec();
                other[at] = if name[at] == b'-' { b'\r' } else { b'_' };
                assert_eq!(AnswerField::of(&other), AnswerField::Other, "{}", other.escape_ascii());
            }
        }
        assert_eq!(AnswerField::of(b"X-Accel-Redirect"), AnswerField::Accel(Accel::Redirect));
        assert_eq!(AnswerField::of(b"X-Accel-Limit-Rate"), AnswerField::Accel(Accel::LimitRate));
        assert_eq!(AnswerField::of(b"X-Other"), AnswerField::Other);
        assert_eq!(AnswerField::of(b"X-Accel-Limit-Rates"), AnswerField::Other);
        assert_eq!(AnswerField::of(b""), AnswerField::Other);
        assert!(AnswerField::goes_along(b"Set-Cookie") && !AnswerField::goes_along(b"ETag"));
    }

    #[test]
    fn a_name_that_is_none_is_told_up_to_where_it_ends() {
        let found = |head: &'static str| misnamed(head.as_bytes());
        assert_eq!(found("HTTP/1.1 200 OK\r\nA: b\r\nA B: c\r\n\r\n"), Some((&b"A"[..], b' ')));
        assert_eq!(found("HTTP/1.1 200 OK\r\n\0A: b\r\n\r\n"), Some((&b""[..], 0)));
        assert_eq!(found("HTTP/1.1 200 OK\r\n: a\r\nB: c d\r\n\r\n"), None);
        // A value that is none is told with its name; what is behind the head is not looked at.
        assert_eq!(found("HTTP/1.1 200 OK\r\nA: b\r\nB: c\0d\r\n\r\n"), Some((&b"B: c"[..], 0)));
        assert_eq!(found("HTTP/1.1 200 OK\nA: b\rc\n\n"), Some((&b"A: b"[..], b'\r')));
        assert_eq!(found("HTTP/1.1 200 OK\r\nno field\r\n\r\n"), Some((&b"no"[..], b' ')));
        assert_eq!(found("HTTP/1.1 200 OK\r\nnone\r\n\r\n"), Some((&b"none"[..], b'\r')));
        assert_eq!(found("HTTP/1.1 200 OK\r\nA: b\r\n\r\n\0"), None);
    }

    #[test]
    fn what_is_said_wrongly_of_a_body_is_told_with_its_value() {
        for (fields, told) in [
            ("Content-Length: x", "upstream sent invalid \"Content-Length\" header: \"x\""),
            (
                "Content-Length: 1\r\ncontent-length: 2",
                "upstream sent duplicate header line: \"content-length: 2\", previous value: \"content-length: 1\"",
            ),
            ("Transfer-Encoding: gzip", "upstream sent unknown \"Transfer-Encoding\": \"gzip\""),
            (
                "Content-Length: 1\r\nTransfer-Encoding: chunked",
                "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
            ),
        ] {
            assert_eq!(misframed(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes()).as_deref(), Some(told));
        }
        let told = "upstream sent \"Transfer-Encoding\" header in an HTTP/1.0 response: \"chunked\"";
        assert_eq!(misframed(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").as_deref(), Some(told));
        assert_eq!(misframed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nContent-Length: x\r\n"), None);
    }

    #[test]
    fn a_value_makes_no_line_of_its_own() {
        let mut out = Vec::new();
        put(b"A", b"b\r\nC: d\0", &mut out);
        assert_eq!(out, b"A: b  C: d \r\n");
    }
}
