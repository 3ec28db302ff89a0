//! Frames of a capture file, sent again.
//!
//! They are sent as they were captured, so nothing in them says which one it
//! is. What came is told by a frame's bytes behind the Ethernet addresses,
//! which a device may change: of frames that are alike so many were lost as
//! were sent more often than they came. A device that changes more than the
//! addresses makes them strangers, which are counted as such.

use flate2::read::MultiGzDecoder;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

/// The most bytes of frames that a capture may have: they are all in memory.
pub const BYTES_LIMIT: usize = 256 << 20;
/// The most frames.
pub const FRAMES_LIMIT: usize = 4 << 20;
/// A frame as it is read, with what stands before it.
const READ_LIMIT: usize = 1 << 17;
/// What gzip begins with (RFC 1952 section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Shorter than an Ethernet header is no frame.
const LEAST: usize = 14;
/// A tag of a VLAN.
const TAG: usize = 4;
/// Two addresses, which a device may change.
const ADDRESSES: usize = 12;
/// One that has a single frame is looped once in a millisecond.
const ALONE_NS: u64 = 1_000_000;

/// One frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Captured {
    at: usize,
    len: usize,
    /// Nanoseconds after the first one.
    time: u64,
    /// Which of those that are alike behind the addresses.
    kind: u32,
}

/// The frames of a capture.
#[derive(Clone, PartialEq, Eq)]
pub struct Replay {
    bytes: Vec<u8>,
    frames: Vec<Captured>,
    kinds: HashMap<u64, u32>,
    /// Frames of each kind in the capture.
    alike: Vec<u32>,
}

impl core::fmt::Debug for Replay {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Replay of {} frames", self.frames.len())
    }
}

impl Replay {
    /// Reads pcap (with micro- or nanoseconds, of either byte order) or pcapng, also compressed by
    /// gzip.
    ///
    /// # Errors
    /// A sentence for the user: no capture, not of Ethernet, cut off, too large.
    pub fn read(mut source: impl Read + Send) -> Result<Self, String> {
        let mut start = Vec::new();
        source.by_ref().take(GZIP.len() as u64).read_to_end(&mut start).map_err(|why| why.to_string())?;
        let whole = start.as_slice().chain(source);
        if start == GZIP { Self::plain(Whole(MultiGzDecoder::new(whole))) } else { Self::plain(Whole(whole)) }
    }

    fn plain(source: impl Read + Send) -> Result<Self, String> {
        let mut reader = create_reader(READ_LIMIT, source).map_err(|why| told(&why))?;
        let mut building = Building::default();
        let mut clocks = Clocks::default();
        loop {
            match reader.next() {
                Ok((offset, block)) => {
                    building.take(&block, &mut clocks)?;
                    reader.consume(offset);
                }
                Err(PcapError::Eof) => return building.finish(),
                Err(PcapError::Incomplete(_)) => reader.refill().map_err(|why| told(&why))?,
                Err(why) => return Err(told(&why)),
            }
        }
    }

    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// There is none: never, of one that was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of a frame on average, without frame check sequence.
    #[must_use]
    pub fn mean_len(&self) -> f64 {
        self.frames.iter().map(|frame| frame.len as f64).sum::<f64>() / self.frames.len().max(1) as f64
    }

    /// The longest frame that is longer than the IP packet of `mtu` bytes and its header need, with
    /// its number from 1 and its length, and how many are.
    pub(crate) fn longer_than(&self, mtu: usize) -> Option<(usize, usize, usize)> {
        let takes = |frame: &Captured| {
            let tag = self.bytes.get(frame.at + ADDRESSES..frame.at + LEAST).is_some_and(is_tag);
            mtu + LEAST + if tag { TAG } else { 0 }
        };
        let long = self.frames.iter().enumerate().filter(|(_, frame)| frame.len > takes(frame));
        let (number, longest) = long.clone().max_by_key(|(_, frame)| frame.len)?;
        Some((number + 1, longest.len, long.count()))
    }

    /// Nanoseconds from one beginning to the next where it is looped: the last
    /// frame has a mean gap behind it.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        let last = self.frames.last().map_or(0, |frame| frame.time);
        let gaps = self.frames.len().saturating_sub(1) as u64;
        last.checked_div(gaps).map_or(ALONE_NS, |gap| last + gap).max(1)
    }

    /// Which kind a frame that came is of, if it is one of these.
    fn kind(&self, frame: &[u8]) -> Option<usize> {
        let kind = *self.kinds.get(&hash(frame.get(ADDRESSES..)?))?;
        Some(kind as usize)
    }
}

/// Each reading fills its buffer, but for the last: who parses takes a short one for the end.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < buffer.len() {
            match self.0.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(len)
    }
}

/// The type of a tag of a VLAN (IEEE 802.1Q).
fn is_tag(kind: &[u8]) -> bool {
    matches!(kind, [0x81, 0x00] | [0x88, 0xa8])
}

fn told(why: &PcapError<&[u8]>) -> String {
    match why {
        PcapError::Eof => "it is empty".to_owned(),
        PcapError::BufferTooSmall => format!("it has a block of more than {READ_LIMIT} bytes"),
        PcapError::UnexpectedEof | PcapError::Incomplete(_) => "it ends within a frame".to_owned(),
        PcapError::ReadError => "it cannot be read, or its compression is damaged or cut off".to_owned(),
        _ => "it is neither pcap nor pcapng, or damaged".to_owned(),
    }
}

/// What times in a file mean.
#[derive(Default)]
struct Clocks {
    /// Nanoseconds and not microseconds, in a pcap file.
    nanos: bool,
    /// Ticks per second and seconds to add, of each interface of a pcapng file.
    interfaces: Vec<(u64, i64)>,
}

#[derive(Default)]
struct Building {
    bytes: Vec<u8>,
    frames: Vec<Captured>,
    kinds: HashMap<u64, u32>,
    alike: Vec<u32>,
    first: Option<i128>,
}

impl Building {
    fn take(&mut self, block: &PcapBlockOwned<'_>, clocks: &mut Clocks) -> Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                ethernet(header.network)?;
                clocks.nanos = header.is_nanosecond_precision();
                Ok(())
            }
            PcapBlockOwned::Legacy(block) => {
                let scale = if clocks.nanos { 1 } else { 1_000 };
                let time = i128::from(block.ts_sec) * 1_000_000_000 + i128::from(block.ts_usec) * scale;
                self.add(block.data, (block.caplen, block.origlen), Some(time))
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                clocks.interfaces.clear();
                Ok(())
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                ethernet(interface.linktype)?;
                let ticks = interface.ts_resolution().filter(|ticks| *ticks > 0);
                clocks.interfaces.push((ticks.ok_or("a clock of no resolution")?, interface.ts_offset()));
                Ok(())
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                let clock = usize::try_from(block.if_id).ok().and_then(|id| clocks.interfaces.get(id));
                let (ticks, offset) = *clock.ok_or("a frame of an interface that it does not tell of")?;
                let stamp = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                let time = i128::from(stamp) * 1_000_000_000 / i128::from(ticks) + i128::from(offset) * 1_000_000_000;
                self.add(block.data, (block.caplen, block.origlen), Some(time))
            }
            PcapBlockOwned::NG(Block::SimplePacket(block)) => {
                let len = u32::try_from(block.data.len()).unwrap_or(u32::MAX).min(block.origlen);
                self.add(block.data, (len, block.origlen), None)
            }
            // Names, statistics, comments.
            PcapBlockOwned::NG(_) => Ok(()),
        }
    }

    fn add(&mut self, data: &[u8], (len, whole): (u32, u32), time: Option<i128>) -> Result<(), String> {
        let number = self.frames.len() + 1;
        if len < whole {
            return Err(format!("frame {number} was cut when it was captured: {len} of {whole} bytes (snaplen)"));
        }
        // Padding stands behind it in pcapng.
        let data = data.get(..len as usize).filter(|data| data.len() >= LEAST);
        let data = data.ok_or_else(|| format!("frame {number} has no Ethernet header"))?;
        if self.bytes.len() + data.len() > BYTES_LIMIT || number > FRAMES_LIMIT {
            return Err(format!("it has more than {FRAMES_LIMIT} frames, or {BYTES_LIMIT} bytes of them"));
        }
        let before = self.frames.last().map_or(0, |frame| frame.time);
        let since = time.map(|time| time - *self.first.get_or_insert(time));
        // None leaves before the one that stands before it.
        let time = since.and_then(|since| u64::try_from(since).ok()).unwrap_or(before).max(before);
        let next = self.alike.len() as u32;
        let kind = *self.kinds.entry(hash(&data[ADDRESSES..])).or_insert(next);
        if kind == next {
            self.alike.push(0);
        }
        self.alike[kind as usize] += 1;
        self.frames.push(Captured { at: self.bytes.len(), len: data.len(), time, kind });
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn finish(self) -> Result<Replay, String> {
        let Self { bytes, frames, kinds, alike, .. } = self;
        if frames.is_empty() {
            return Err("it has no frames".to_owned());
        }
        Ok(Replay { bytes, frames, kinds, alike })
    }
}

fn ethernet(link: Linktype) -> Result<(), String> {
    if link == Linktype::ETHERNET { Ok(()) } else { Err(format!("it is of link type {}, and not of Ethernet", link.0)) }
}

/// Sixty-four bits of all bytes, each word folded in by a product.
fn hash(bytes: &[u8]) -> u64 {
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        (product as u64) ^ (product >> 64) as u64 ^ word.rotate_left(32)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words.iter().fold(bytes.len() as u64 + 1, |state, word| fold(state, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    fold(fold(state, last), 0xd1b5_4a32_d192_ed03)
}

/// How a capture is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// The capture.
    pub frames: Arc<Replay>,
    /// How often; zero: until the trial ends.
    pub times: u64,
    /// At the capture's own times, and not at the stream's rate.
    pub original: bool,
}

/// A capture under way in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Replaying {
    how: Replayed,
    next: usize,
    round: u64,
    /// Frames of each kind that went into the ring, and that came.
    sent: Vec<u64>,
    came: Vec<u64>,
    /// Ticks for a second, and at the beginning.
    hz: u64,
    start: u64,
}

impl Replaying {
    pub fn new(how: &Replayed, (hz, start): (u64, u64)) -> Self {
        let kinds = how.frames.alike.len();
        Self { how: how.clone(), next: 0, round: 0, sent: vec![0; kinds], came: vec![0; kinds], hz, start }
    }

    /// The next frame's bytes; none once all were sent.
    pub fn frame(&self) -> Option<&[u8]> {
        let frame = self.how.frames.frames.get(self.next).filter(|_| !self.is_over())?;
        self.how.frames.bytes.get(frame.at..frame.at + frame.len)
    }

    /// The next frame was sent, or is never sent.
    pub fn pass(&mut self, sent: bool) {
        let Some(frame) = self.how.frames.frames.get(self.next) else { return };
        if sent {
            self.sent[frame.kind as usize] += 1;
        }
        self.next += 1;
        if self.next == self.how.frames.frames.len() {
            (self.next, self.round) = (0, self.round + 1);
        }
    }

    /// All of it was sent as often as was asked for.
    pub fn is_over(&self) -> bool {
        self.how.times > 0 && self.round >= self.how.times
    }

    /// Frames that are still to be sent; none of one that is sent until the trial ends.
    pub fn left(&self) -> u64 {
        let each = self.how.frames.len() as u64;
        let passed = self.round.saturating_mul(each).saturating_add(self.next as u64);
        self.how.times.saturating_mul(each).saturating_sub(passed)
    }

    /// When the next frame is due, where the stream's rate does not say it.
    pub fn due(&self) -> Option<u64> {
        if self.is_over() {
            return Some(u64::MAX);
        }
        let frame = self.how.frames.frames.get(self.next).filter(|_| self.how.original)?;
        let nanos = u128::from(self.round) * u128::from(self.how.frames.period_ns()) + u128::from(frame.time);
        let ticks = nanos * u128::from(self.hz) / 1_000_000_000;
        Some(self.start.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX)))
    }

    /// Whether its times are the capture's.
    pub const fn is_original(&self) -> bool {
        self.how.original
    }

    /// Takes a frame that came, if it is one of these.
    pub fn take(&mut self, frame: &[u8]) -> bool {
        let kind = self.how.frames.kind(frame);
        if let Some(kind) = kind {
            self.came[kind] += 1;
        }
        kind.is_some()
    }

    /// Frames that came of those that were sent, and how many more came.
    pub fn arrivals(&self) -> (u64, u64) {
        let each = self.sent.iter().zip(&self.came);
        each.fold((0, 0), |(once, again), (sent, came)| (once + came.min(sent), again + came.saturating_sub(*sent)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
