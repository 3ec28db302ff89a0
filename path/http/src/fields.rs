//! The fields (headers) of a message head, one by one.

/// One field line: `name: value`, value without surrounding whitespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a> {
    /// The name as sent; compare with [`Field::is`].
    pub name: &'a [u8],
    /// The value, optional whitespace around it removed.
    pub value: &'a [u8],
}

impl Field<'_> {
    /// Whether the field has this name; field names are case-insensitive
    /// (RFC 9110 section 5.1).
    #[inline]
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The fields of a head that was already found valid, in order.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    lines: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Over `lines`: the field lines of a valid head, each ended by CR LF.
    /// An empty line, or anything that is no field line, ends the iteration.
    #[inline]
    pub(crate) const fn new(lines: &'a [u8]) -> Self {
        Self { lines }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let end = self.lines.windows(2).position(|pair| pair == b"\r\n")?;
        let (line, rest) = self.lines.split_at(end);
        let colon = line.iter().position(|&byte| byte == b':')?;
        self.lines = &rest[2..];
        Some(Field { name: &line[..colon], value: trim(&line[colon + 1..]) })
    }
}

/// Without optional whitespace (SP and HTAB) around it (RFC 9110
/// section 5.6.3).
#[inline]
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}
