//! TCP options (RFC 9293 section 3.2).

use super::SeqNum;

/// Blocks that fit into a header beside nothing else (RFC 2018 section 3).
pub const MAX_SACK_BLOCKS: usize = 4;

/// Largest window scale; a larger one is read as this (RFC 7323 section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

/// The options that we understand.
///
/// An option of an impossible length is ignored; where the length leaves the
/// place of the next option in doubt (zero, one, or beyond the header), so is
/// everything behind it. What came before holds. RFC 9293 (MUST-7) asks to be
/// prepared for such options and suggests a reset; we side with Linux, because
/// a middlebox that spoils an option should not cost the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpOptions {
    /// Largest segment that the sender wants to receive (RFC 9293 section
    /// 3.7.1); SYN only.
    pub mss: Option<u16>,
    /// Shift of the sender's window (RFC 7323 section 2.2), at most
    /// [`MAX_WINDOW_SCALE`]; SYN only.
    pub window_scale: Option<u8>,
    /// The sender understands selective acknowledgements (RFC 2018 section
    /// 2); SYN only.
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323 section 3).
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements (RFC 2018 section 3).
    pub sack: SackBlocks,
}

/// The timestamps option (RFC 7323 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The other side's clock, as last seen by the sender.
    pub echo: u32,
}

/// Ranges of a selective acknowledgement: `[left, right)` each.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    len: u8,
    blocks: [(SeqNum, SeqNum); MAX_SACK_BLOCKS],
}

impl SackBlocks {
    /// No blocks.
    pub const EMPTY: Self = Self { len: 0, blocks: [(SeqNum(0), SeqNum(0)); MAX_SACK_BLOCKS] };

    /// Keeps the first `len` blocks.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len.min(MAX_SACK_BLOCKS) as u8);
    }

    /// Adds a block; whether there was room for it.
    #[inline]
    pub fn push(&mut self, left: SeqNum, right: SeqNum) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *slot = (left, right);
        self.len += 1;
        true
    }

    /// The blocks, in the order of the option.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[(SeqNum, SeqNum)] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Number of blocks.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

/// Option kinds (IANA, TCP Option Kind Numbers).
const END: u8 = 0;
pub(super) const NOP: u8 = 1;
pub(super) const MSS: u8 = 2;
pub(super) const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Two NOPs and a timestamps option, aligned as everybody sends it
/// (RFC 7323 appendix A): the usual option block of an established
/// connection.
pub(crate) const ALIGNED_TIMESTAMPS: [u8; 4] = [NOP, NOP, TIMESTAMPS, 10];
/// Bytes of the aligned timestamps option block.
pub(super) const ALIGNED_TIMESTAMPS_LEN: usize = 12;

/// Leave to send selective acknowledgements in the place of the two NOPs, as
/// Linux sends it: in a SYN, both options in three words.
pub(super) const SACK_AND_TIMESTAMPS: [u8; 4] = [SACK_PERMITTED, 2, TIMESTAMPS, 10];
/// Bytes of the option block of nearly every SYN: MSS, selective
/// acknowledgements, timestamps, window scale, in this order and so aligned.
pub(super) const OPENING_LEN: usize = 20;

impl TcpOptions {
    /// No options.
    pub const NONE: Self =
        Self { mss: None, window_scale: None, sack_permitted: false, timestamps: None, sack: SackBlocks::EMPTY };

    /// Reads an option block. Never fails: see [`TcpOptions`].
    #[inline]
    pub(super) fn parse(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::NONE;
        }
        if let Ok(block) = <&[u8; ALIGNED_TIMESTAMPS_LEN]>::try_from(bytes)
            && let [n0, n1, kind, len, v0, v1, v2, v3, e0, e1, e2, e3] = *block
            && [n0, n1, kind, len] == ALIGNED_TIMESTAMPS
        {
            let timestamps =
                Timestamps { value: u32::from_be_bytes([v0, v1, v2, v3]), echo: u32::from_be_bytes([e0, e1, e2, e3]) };
            return Self { timestamps: Some(timestamps), ..Self::NONE };
        }
        if let Ok(block) = bytes.try_into()
            && let Some(options) = Self::parse_opening(block)
        {
            return options;
        }
        Self::parse_any(bytes)
    }

    /// The options of a SYN, if they stand as in nearly every SYN.
    fn parse_opening(block: &[u8; OPENING_LEN]) -> Option<Self> {
        let [k0, l0, m0, m1, k1, l1, k2, l2, v0, v1, v2, v3, e0, e1, e2, e3, n3, k3, l3, shift] = *block;
        let usual =
            [k0, l0] == [MSS, 4] && [k1, l1, k2, l2] == SACK_AND_TIMESTAMPS && [n3, k3, l3] == [NOP, WINDOW_SCALE, 3];
        let timestamps =
            Timestamps { value: u32::from_be_bytes([v0, v1, v2, v3]), echo: u32::from_be_bytes([e0, e1, e2, e3]) };
        usual.then_some(Self {
            mss: Some(u16::from_be_bytes([m0, m1])),
            window_scale: Some(shift.min(MAX_WINDOW_SCALE)),
            sack_permitted: true,
            timestamps: Some(timestamps),
            sack: SackBlocks::EMPTY,
        })
    }

    /// Each round takes at least one byte, so the loop is bounded by the 40
    /// bytes that a header has for options.
    fn parse_any(bytes: &[u8]) -> Self {
        let mut options = Self::NONE;
        let mut rest = bytes;
        while let Some((&kind, after)) = rest.split_first() {
            match kind {
                END => break,
                NOP => {
                    rest = after;
                    continue;
                }
                _ => {}
            }
            // The length counts kind and length too: 0 and 1 are impossible.
            let Some(&len) = after.first() else { break };
            let Some(data) = rest.get(2..usize::from(len)) else { break };
            options.take(kind, data);
            rest = &rest[usize::from(len)..];
        }
        options
    }

    fn take(&mut self, kind: u8, data: &[u8]) {
        match (kind, data) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(MAX_WINDOW_SCALE)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
                self.timestamps = Some(Timestamps {
                    value: u32::from_be_bytes([v0, v1, v2, v3]),
                    echo: u32::from_be_bytes([e0, e1, e2, e3]),
                });
            }
            (SACK, data) => {
                let (blocks, rest) = data.as_chunks::<8>();
                if !rest.is_empty() {
                    return;
                }
                self.sack = SackBlocks::EMPTY;
                for &[l0, l1, l2, l3, r0, r1, r2, r3] in blocks {
                    let left = SeqNum(u32::from_be_bytes([l0, l1, l2, l3]));
                    let right = SeqNum(u32::from_be_bytes([r0, r1, r2, r3]));
                    if !self.sack.push(left, right) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }

    /// The timestamps or none, if there is no other option.
    #[inline(always)]
    pub(super) const fn only_timestamps(&self) -> Option<Option<Timestamps>> {
        match self {
            Self { mss: None, window_scale: None, sack_permitted: false, timestamps, sack } if sack.is_empty() => {
                Some(*timestamps)
            }
            _ => None,
        }
    }

    /// Bytes of the option block that [`TcpOptions::emit`] writes: a multiple
    /// of four, at most 40.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        let mut len = self.syn_len();
        if self.timestamps.is_some() {
            len += ALIGNED_TIMESTAMPS_LEN;
        }
        len + self.sack_len(len)
    }

    /// Whether there are no options.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Options of a SYN, each padded to four bytes, but leave to send
    /// selective acknowledgements, which is itself the timestamps' padding.
    #[inline]
    fn syn_len(&self) -> usize {
        let words = usize::from(self.mss.is_some())
            + usize::from(self.window_scale.is_some())
            + usize::from(self.sack_permitted && self.timestamps.is_none());
        words * 4
    }

    /// Selective acknowledgements come last and give way: as many blocks as
    /// fit behind the `used` bytes (three beside timestamps).
    #[inline]
    fn sack_len(&self, used: usize) -> usize {
        match self.sack_fitting(used) {
            0 => 0,
            blocks => 4 + blocks * 8,
        }
    }

    #[inline]
    fn sack_fitting(&self, used: usize) -> usize {
        self.sack.len().min((MAX_OPTIONS_LEN - used).saturating_sub(4) / 8)
    }

    /// Writes the option block into `out`, which is [`TcpOptions::len`] long.
    pub(super) fn emit(&self, out: &mut [u8]) {
        let mut writer = Writer { out };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            writer.word([MSS, 4, a, b]);
        }
        match (self.sack_permitted, self.timestamps) {
            (true, None) => writer.word([NOP, NOP, SACK_PERMITTED, 2]),
            (false, None) => {}
            (sack, Some(Timestamps { value, echo })) => {
                writer.word(if sack { SACK_AND_TIMESTAMPS } else { ALIGNED_TIMESTAMPS });
                writer.word(value.to_be_bytes());
                writer.word(echo.to_be_bytes());
            }
        }
        if let Some(shift) = self.window_scale {
            writer.word([NOP, WINDOW_SCALE, 3, shift.min(MAX_WINDOW_SCALE)]);
        }
        let used = self.syn_len() + if self.timestamps.is_some() { ALIGNED_TIMESTAMPS_LEN } else { 0 };
        let blocks = self.sack_fitting(used);
        if blocks > 0 {
            writer.word([NOP, NOP, SACK, 2 + blocks as u8 * 8]);
        }
        for (left, right) in self.sack.as_slice().iter().take(blocks) {
            writer.word(left.0.to_be_bytes());
            writer.word(right.0.to_be_bytes());
        }
    }
}

/// A header is at most fifteen words long.
pub(super) const MAX_OPTIONS_LEN: usize = 40;

// The block that never gives way always fits: three SYN options of a word each
// and timestamps.
const _: () = assert!(3 * 4 + ALIGNED_TIMESTAMPS_LEN <= MAX_OPTIONS_LEN);
// All blocks that a value can hold fit into a header with nothing else.
const _: () = assert!(4 + MAX_SACK_BLOCKS * 8 <= MAX_OPTIONS_LEN);

/// Writes words one behind the other.
struct Writer<'a> {
    out: &'a mut [u8],
}

impl Writer<'_> {
    fn word(&mut self, word: [u8; 4]) {
        if let Some((head, rest)) = core::mem::take(&mut self.out).split_first_chunk_mut::<4>() {
            *head = word;
            self.out = rest;
        }
    }
}
