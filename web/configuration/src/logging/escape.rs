//! How what a variable stands for is written in a log.

/// How what a variable stands for is written in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogEscape {
    /// What is not printable ASCII, `"` and `\` as `\xXX`; nothing as `-`.
    #[default]
    Default,
    /// As in a JSON string; nothing as nothing.
    Json,
    /// As it is; nothing as nothing.
    None,
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The same byte eight times.
const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

impl LogEscape {
    /// Escapes what stands in `out` from `start` on, in its place.
    #[inline]
    pub fn apply(self, out: &mut Vec<u8>, start: usize) {
        let clean = match self {
            Self::None => true,
            Self::Default => !any::<true>(out, start),
            Self::Json => !any::<false>(out, start),
        };
        if !clean {
            self.expand(out, start);
        }
    }

    /// Whether all of a text is written as it is, whichever this is.
    pub fn leaves(text: &[u8]) -> bool {
        !any::<true>(text, 0)
    }

    /// Whether a byte is not written as it is.
    const fn is_escaped(self, byte: u8) -> bool {
        match self {
            Self::Default => byte < 0x20 || byte > 0x7e || byte == b'"' || byte == b'\\',
            Self::Json => byte < 0x20 || byte == b'"' || byte == b'\\',
            Self::None => false,
        }
    }

    /// How long a byte's escape is.
    const fn len(self, byte: u8) -> usize {
        match (self.is_escaped(byte), self, byte) {
            (false, ..) => 1,
            (true, Self::Json, b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12) => 2,
            (true, Self::Json, _) => 6,
            (true, ..) => 4,
        }
    }

    #[cold]
    fn expand(self, out: &mut Vec<u8>, start: usize) {
        let (from, len) = (out.len(), out[start..].iter().map(|byte| self.len(*byte)).sum::<usize>());
        out.resize(start + len, 0);
        // From the end, so that nothing is written over what is not read yet.
        let mut to = out.len();
        for at in (start..from).rev() {
            let byte = out[at];
            let len = self.len(byte);
            to -= len;
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            match (len, self) {
                (1, _) => out[to] = byte,
                (2, _) => {
                    let letter = match byte {
                        b'\n' => b'n',
                        b'\r' => b'r',
                        b'\t' => b't',
                        8 => b'b',
                        12 => b'f',
                        other => other,
                    };
                    out[to..to + 2].copy_from_slice(&[b'\\', letter]);
                }
                (4, _) => out[to..to + 4].copy_from_slice(&[b'\\', b'x', high, low]),
                _ => out[to..to + 6].copy_from_slice(&[b'\\', b'u', b'0', b'0', high, low]),
            }
        }
    }
}

/// Whether a byte from `start` on is escaped: sixteen at a time, all of which are
/// looked at, for that takes less than stopping early; of short texts eight, of
/// which those before count as blanks.
#[inline]
fn any<const DEFAULT: bool>(out: &[u8], start: usize) -> bool {
    let text = out.get(start..).unwrap_or_default();
    let word = |bytes: &[u8; 8]| found::<DEFAULT>(u64::from_le_bytes(*bytes));
    if let Some(last) = text.last_chunk::<16>() {
        let (blocks, _) = text.as_chunks::<16>();
        return blocks.iter().fold(block::<DEFAULT>(last), |any, next| any | block::<DEFAULT>(next));
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return word(first) | word(last);
    }
    let Some(last) = out.last_chunk().map(|last| u64::from_le_bytes(*last)) else {
        // The first text of a buffer.
        let escape = if DEFAULT { LogEscape::Default } else { LogEscape::Json };
        return text.iter().any(|byte| escape.is_escaped(*byte));
    };
    // The last bytes of the text are the highest.
    let ours = u64::MAX.checked_shl(64 - 8 * text.len() as u32).unwrap_or(0);
    found::<DEFAULT>(last & ours | all(b' ') & !ours)
}

/// Whether one of sixteen bytes is escaped.
#[inline]
fn block<const DEFAULT: bool>(bytes: &[u8; 16]) -> bool {
    let escape = if DEFAULT { LogEscape::Default } else { LogEscape::Json };
    let mut any = false;
    for byte in bytes {
        any |= escape.is_escaped(*byte);
    }
    any
}

/// Whether one of eight bytes is escaped. A borrow may tell of a byte above
/// another that is escaped, and of no other.
const fn found<const DEFAULT: bool>(word: u64) -> bool {
    let small = word.wrapping_sub(all(0x20)) & !word;
    let (quote, slash) = (word ^ all(b'"'), word ^ all(b'\\'));
    let quote = quote.wrapping_sub(all(1)) & !quote;
    let slash = slash.wrapping_sub(all(1)) & !slash;
    let large = if DEFAULT { word | (word & all(0x7f)).wrapping_add(all(1)) } else { 0 };
    (small | quote | slash | large) & all(0x80) != 0
}
