//! Hosts by name: whole names, names with a wildcard at one end, expressions.

use core::fmt;
use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

/// The longest name (RFC 1035 section 2.3.4, as text without the last dot).
const NAME_MAX: usize = 253;

/// Room for a name with a port.
const AUTHORITY_MAX: usize = 264;

/// What most are no longer than.
const SHORT: usize = 32;

/// Places by names. Only the operator adds any, so that no client can choose
/// which share a bucket.
type NameMap = HashMap<Box<[u8]>, u16, BuildHasherDefault<NameHasher>>;

/// Spreads names well, in few instructions.
#[derive(Clone, Copy, Default, Debug)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let last = rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte));
        self.write_u64(last | 1 << 56);
    }

    #[inline]
    fn write_usize(&mut self, length: usize) {
        self.write_u64(length as u64);
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Which host has which name. Names are compared without their case, without
/// port, and without a dot at their end.
///
/// A name is looked for as nginx does it: whole; by the longest wildcard at its
/// start (`*.example.org`), by the longest at its end (`mail.*`); by the first
/// expression that matches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    whole: NameMap,
    /// What stands behind `*.`.
    starts: NameMap,
    /// What stands before `.*`.
    ends: NameMap,
    /// The caller's numbers of expressions, and hosts.
    expressions: Vec<(u32, u16)>,
}

/// A name that cannot be added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameError {
    /// No host can have it.
    None(String),
    /// Another host has it.
    Twice(String),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None(name) => write!(f, "{name:?} is no host's name"),
            Self::Twice(name) => write!(f, "two hosts have the name {name:?}"),
        }
    }
}

impl std::error::Error for NameError {}

impl Names {
    /// The host at `place` has `name`: a whole one, one with a wildcard, or one
    /// that begins with a dot, which is the same with and without another label
    /// before it.
    ///
    /// # Errors
    /// No host can have it, or another has; then nothing is added.
    pub fn add(&mut self, name: &str, place: u16) -> Result<(), NameError> {
        let key = |part: &str| valid(part).ok_or_else(|| NameError::None(name.to_owned()));
        let Self { whole, starts, ends, .. } = self;
        // Where it is added: to one of these, or to two.
        let (key, maps) = match (name.strip_prefix("*."), name.strip_suffix(".*"), name.strip_prefix('.')) {
            (Some(part), ..) => (key(part)?, [Some(starts), None]),
            (_, Some(part), _) => (key(part)?, [Some(ends), None]),
            (.., Some(part)) => (key(part)?, [Some(starts), Some(whole)]),
            _ => (key(name)?, [Some(whole), None]),
        };
        if maps.iter().flatten().any(|map| map.contains_key(&key)) {
            return Err(NameError::Twice(name.to_owned()));
        }
        // Nobody who names such a host is believed.
        if !name.contains("..") {
            maps.into_iter().flatten().for_each(|map| _ = map.insert(key.clone(), place));
        }
        Ok(())
    }

    /// The host at `place` is the one of requests that name none.
    ///
    /// # Errors
    /// Another host is.
    pub fn add_unnamed(&mut self, place: u16) -> Result<(), NameError> {
        if self.whole.contains_key(&b""[..]) {
            return Err(NameError::Twice(String::new()));
        }
        self.whole.insert(Box::default(), place);
        Ok(())
    }

    /// The host at `place` has the names that an expression matches: the
    /// caller's number for it. Those added first are asked first.
    pub fn add_expression(&mut self, expression: u32, place: u16) {
        self.expressions.push((expression, place));
    }

    /// Whether an expression may lead to the host at `place`.
    #[must_use]
    pub fn has_expression(&self, place: u16) -> bool {
        self.expressions.iter().any(|(_, at)| *at == place)
    }

    /// The place of the host whose whole name is `authority` as it is written: in small
    /// letters, without a port. What is no host's name has none.
    #[inline]
    #[must_use]
    pub fn whole(&self, authority: &[u8]) -> Option<u16> {
        self.whole.get(authority).copied().filter(|_| !authority.is_empty())
    }

    /// The place of the host that `authority` names; 0 if none has the name.
    /// `matches` tells whether an expression matches the name, which it gets in
    /// lower case and without port.
    pub fn find(&self, authority: &[u8], matches: impl FnMut(u32, &[u8]) -> bool) -> u16 {
        self.find_known(authority, matches).unwrap_or(0)
    }

    /// The same, and `None` for the first host's place where that is so because no other
    /// has the name.
    #[inline]
    #[must_use]
    pub fn find_known(&self, authority: &[u8], matches: impl FnMut(u32, &[u8]) -> bool) -> Option<u16> {
        // Most are short: less is to be cleared for them.
        match authority.len() {
            0..=SHORT => self.find_in(authority, &mut [0; SHORT], matches),
            _ => self.find_in(authority, &mut [0; AUTHORITY_MAX], matches),
        }
    }

    #[inline]
    fn find_in(&self, authority: &[u8], memory: &mut [u8], mut matches: impl FnMut(u32, &[u8]) -> bool) -> Option<u16> {
        let name = key(authority, memory)?;
        if let Some(place) = self.whole.get(name) {
            return Some(*place);
        }
        let dots = || name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        let behind = |at: usize| self.starts.get(&name[at + 1..]);
        let before = |at: usize| self.ends.get(&name[..at]);
        // The longest first.
        let wildcard = (!self.starts.is_empty()).then(|| dots().find_map(behind)).flatten();
        let wildcard = wildcard.or_else(|| if self.ends.is_empty() { None } else { dots().rev().find_map(before) });
        if let Some(place) = wildcard {
            return Some(*place);
        }
        let expression = self.expressions.iter().find(|(number, _)| !name.is_empty() && matches(*number, name));
        expression.map(|(_, place)| *place)
    }
}

/// A name, or a part of one, that a host can have.
fn valid(name: &str) -> Option<Box<[u8]>> {
    let mut memory = [0; AUTHORITY_MAX];
    let valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(byte);
    // What is more than a name has a port, or stands behind an address.
    let whole = name.strip_suffix('.').unwrap_or(name).len();
    key(name.as_bytes(), &mut memory)
        .filter(|key| !key.is_empty() && key.len() == whole && key.iter().all(valid))
        .map(Box::from)
}

/// The name in an authority, in lower case; `None` if it is longer than names
/// are.
fn key<'a>(authority: &[u8], memory: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut name = authority;
    if authority.first() == Some(&b'[') {
        name = authority.iter().position(|&byte| byte == b']').map(|end| &authority[..=end])?;
    }
    let key = memory.get_mut(..name.len())?;
    key.copy_from_slice(name);
    let has_port = lower_name(key) && name.len() == authority.len() && authority.first() != Some(&b'[');
    let end = if has_port { key.iter().position(|&byte| byte == b':').unwrap_or(key.len()) } else { key.len() };
    let key = &key[..end];
    Some(key.strip_suffix(b".").unwrap_or(key)).filter(|key| key.len() <= NAME_MAX)
}

/// Makes letters small, eight at a time, and tells whether there is a colon.
pub fn lower_name(text: &mut [u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Of a word: whether a byte is a colon, and the word in small letters.
    let word = |word: u64| {
        let low = word & !HIGH;
        let (from, beyond) = (low + ONES * (0x80 - b'A' as u64), low + ONES * (0x7f - b'Z' as u64));
        let letters = from & !beyond & !word & HIGH;
        let colons = word ^ (ONES * b':' as u64);
        let colons = (!colons & HIGH) & !((colons & !HIGH) + !HIGH);
        (word | letters >> 2, colons != 0)
    };
    let (words, rest) = text.as_chunks_mut::<8>();
    let mut colon = false;
    for bytes in words {
        let (small, found) = word(u64::from_le_bytes(*bytes));
        *bytes = small.to_le_bytes();
        colon |= found;
    }
    if !rest.is_empty() {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        let (small, found) = word(u64::from_le_bytes(bytes));
        rest.copy_from_slice(&small.to_le_bytes()[..rest.len()]);
        colon |= found;
    }
    colon
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expression 7 matches names with an x.
    fn find(names: &Names, authority: &str) -> u16 {
        names.find(authority.as_bytes(), |number, name| number == 7 && name.contains(&b'x'))
    }

    /// As it is written, and no other way.
    #[test]
    fn whole_names_are_found_as_they_are_written() {
        let mut names = Names::default();
        for (name, place) in [("a.example", 1), (".b.example", 2), ("*.c.example", 3), ("d..example", 4)] {
            assert_eq!(names.add(name, place), Ok(()));
        }
        assert_eq!(names.add_unnamed(5), Ok(()));
        for (name, place) in [("a.example", Some(1)), ("b.example", Some(2)), ("x.b.example", None)] {
            assert_eq!(names.whole(name.as_bytes()), place, "{name}");
        }
        for name in ["A.example", "a.example:80", "a.example.", "c.example", "d..example", ""] {
            assert_eq!(names.whole(name.as_bytes()), None, "{name}");
        }
        assert_eq!(find(&names, "d..example"), 0);
    }

    #[test]
    fn the_longest_wildcard_is_found() {
        let mut names = Names::default();
        for (name, place) in [
            ("*.example", 1),
            ("*.a.example", 2),
            ("mail.*", 3),
            ("mail.b.*", 4),
            (".c.example", 5),
            ("d.a.example", 6),
        ] {
            names.add(name, place).expect("a name");
        }
        names.add_expression(7, 8);
        for (authority, place) in [
            ("q.example", 1),
            ("q.r.example", 1),
            ("Q.A.example:80", 2),
            ("d.a.example", 6),
            ("a.example", 1),
            ("c.example", 5),
            ("q.c.example", 5),
            // Wildcards at the start come first.
            ("mail.example", 1),
            ("mail.org", 3),
            ("mail.b.org", 4),
            ("mail.bb.org", 3),
            ("x.org", 8),
            ("example", 8),
            ("mail", 0),
            ("org", 0),
        ] {
            assert_eq!(find(&names, authority), place, "{authority}");
        }
        for name in ["*", "*.", ".*", "a.*.b", "*a.example", "*.*", "."] {
            assert!(matches!(Names::default().add(name, 1), Err(NameError::None(_))), "{name}");
        }
        assert!(matches!(names.add("*.Example", 9), Err(NameError::Twice(_))));
    }

    #[test]
    fn hosts_are_found_by_their_names() {
        let mut names = Names::default();
        for (name, place) in [("a.example", 1), ("B.example.", 2), ("[2001:db8::1]", 3), ("192.0.2.1", 2)] {
            names.add(name, place).expect("a name");
        }
        for (authority, place) in [
            ("a.example", 1),
            ("A.Example:8080", 1),
            ("a.example.", 1),
            ("a.example.:80", 1),
            ("b.example", 2),
            ("192.0.2.1:80", 2),
            ("[2001:DB8::1]:443", 3),
            ("[2001:db8::2]", 0),
            ("aa.example", 0),
            ("example", 0),
            ("", 0),
            (":80", 0),
        ] {
            assert_eq!(find(&names, authority), place, "{authority}");
        }
        assert_eq!(names.find(&[b'a'; 70_000], |_, _| true), 0);
        names.add_unnamed(4).expect("none has it");
        assert_eq!((find(&names, ""), find(&names, ":80"), find(&names, "x")), (4, 4, 0));
        assert!(names.add_unnamed(4).is_err());
    }

    /// The same a byte at a time.
    #[test]
    fn names_are_made_keys_whatever_their_bytes() {
        let mut random = random::SplitMix64::new(5);
        for _ in 0..20_000 {
            let authority: Vec<u8> =
                (0..random.below(30)).map(|_| b"azAZ@[]`{:.-09\x80\xc1\xff\0"[random.below(18)]).collect();
            let name = match authority.first() {
                Some(b'[') => authority.iter().position(|byte| *byte == b']').map(|end| &authority[..=end]),
                _ => authority.split(|byte| *byte == b':').next(),
            };
            let wanted = name.map(|name| name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase());
            let mut memory = [0; AUTHORITY_MAX];
            assert_eq!(key(&authority, &mut memory).map(<[u8]>::to_vec), wanted, "{}", authority.escape_ascii());
        }
        let long = ["a".repeat(NAME_MAX), ".:65535".to_owned()].concat();
        assert_eq!(key(long.as_bytes(), &mut [0; AUTHORITY_MAX]).map(<[u8]>::len), Some(NAME_MAX));
    }

    #[test]
    fn names_that_no_host_can_have_are_refused() {
        for name in ["", ".", "a b", "a.example:80", "a/b", &"a".repeat(254), "[::1]:80"] {
            assert!(matches!(Names::default().add(name, 1), Err(NameError::None(_))), "{name}");
        }
        let mut names = Names::default();
        names.add("a.example", 1).expect("a name");
        assert!(matches!(names.add("A.EXAMPLE.", 2), Err(NameError::Twice(_))));
    }
}
