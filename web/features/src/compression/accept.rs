//! What a client takes.

use gzip::Coding;
use semantics::Known;

/// What of a request decides how its response may be compressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Accepted(u8);

/// Bits of [`Accepted`], behind those of codings.
const VIA: u8 = 8;
const AUTHORIZATION: u8 = 16;

const fn bit(coding: Coding) -> u8 {
    match coding {
        Coding::Gzip => 1,
        Coding::Brotli => 2,
        Coding::Zstd => 4,
    }
}

impl Accepted {
    /// Requests with the same number are alike; below 32.
    #[must_use]
    pub const fn class(self) -> u8 {
        self.0
    }

    /// Whether a coding is taken.
    #[must_use]
    pub const fn takes(self, coding: Coding) -> bool {
        self.0 & bit(coding) != 0
    }

    /// What takes codings as the first `Accept-Encoding` says, whoever else says
    /// what.
    pub(super) fn of(accept_encoding: &[u8], via: bool, authorization: bool) -> Self {
        let accepted = codings_of(accept_encoding);
        match (accepted, via, authorization) {
            (0, ..) => Self::default(),
            (_, false, _) => Self(accepted),
            // It matters for what came through a proxy alone.
            (_, true, authorized) => Self(accepted | VIA | if authorized { AUTHORIZATION } else { 0 }),
        }
    }

    /// Whether it came through a proxy that says so.
    pub(super) const fn via(self) -> bool {
        self.0 & VIA != 0
    }

    /// Whether it has an Authorization.
    pub(super) const fn authorization(self) -> bool {
        self.0 & AUTHORIZATION != 0
    }
}

/// The number of a request, wherever it leads: what a ready answer is for.
pub fn class_of<'a>(known: impl Fn(Known) -> Option<&'a [u8]>) -> u8 {
    let Some(accept_encoding) = known(Known::AcceptEncoding) else { return Accepted::default().class() };
    let (via, authorization) = (known(Known::Via).is_some(), known(Known::Authorization).is_some());
    Accepted::of(accept_encoding, via, authorization).class()
}

/// What of a request decides how its response may be compressed: values of its
/// first fields of these names.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestFacts<'a> {
    /// Accept-Encoding
    pub accept_encoding: Option<&'a [u8]>,
    /// User-Agent
    pub user_agent: Option<&'a [u8]>,
    /// It has a Via.
    pub via: bool,
    /// It has an Authorization.
    pub authorization: bool,
    /// It is of HTTP/1.0.
    pub old: bool,
}

/// The codings of a field `Accept-Encoding` that are not of quality 0, as bits,
/// read as nginx reads them: the first place of a name counts where it stands
/// after a comma, a blank, or nothing; `*` stands for none.
fn codings_of(field: &[u8]) -> u8 {
    let (mut seen, mut taken, mut begins) = (0, 0, true);
    for (at, byte) in field.iter().enumerate() {
        let coding = match byte {
            _ if !begins => None,
            b'g' | b'G' => Some(Coding::Gzip),
            b'b' | b'B' => Some(Coding::Brotli),
            b'z' | b'Z' => Some(Coding::Zstd),
            _ => None,
        };
        begins = matches!(byte, b',' | b' ');
        let Some(coding) = coding.filter(|coding| seen & bit(*coding) == 0) else { continue };
        let token = coding.token();
        let Some((name, rest)) = field[at..].split_at_checked(token.len()) else { continue };
        if name.eq_ignore_ascii_case(token) {
            seen |= bit(coding);
            taken |= if is_taken(rest) { bit(coding) } else { 0 };
        }
    }
    taken
}

/// Whether what follows a coding's name leaves it a quality.
fn is_taken(rest: &[u8]) -> bool {
    let blanks = |text: &[u8]| text.iter().take_while(|byte| **byte == b' ').count();
    match &rest[blanks(rest)..] {
        [] | [b',', ..] => true,
        [b';', rest @ ..] => match &rest[blanks(rest)..] {
            [] => true,
            [b'q' | b'Q', b'=', quality @ ..] => quality_of(quality) > 0,
            _ => false,
        },
        _ => false,
    }
}

/// A quality (RFC 9110 section 12.4.2): more than 0 where it is; 0 where it is
/// none. nginx adds digits up, which comes to the same.
fn quality_of(text: &[u8]) -> u32 {
    let (mut quality, rest) = match text {
        [b'0', rest @ ..] => (0, rest),
        [b'1', rest @ ..] => (100, rest),
        _ => return 0,
    };
    let digits = match rest {
        [] | [b',' | b' ', ..] => return quality,
        [b'.', digits @ ..] => digits,
        _ => return 0,
    };
    let end = digits.iter().position(|byte| matches!(byte, b',' | b' ')).unwrap_or(digits.len());
    for digit in &digits[..end] {
        if !digit.is_ascii_digit() {
            return 0;
        }
        quality += u32::from(digit - b'0');
    }
    if quality > 100 || end > 3 { 0 } else { quality }
}
