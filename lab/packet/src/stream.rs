//! What a stream's frames are: sizes, layers, flows; built once, and only
//! marked and told apart when they are sent.

mod fit;

use crate::layers::{ETHER_PTP, ETHERNET, IPV4, IPV6, Packet, TAG, be16, copy, network, put16};
use crate::mark::{self, Mark, Read};
use crate::ptp;
use crate::replay::{Replayed, Replaying};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::Serialize;
use wire::Mac;
use wire::checksum::{Sum, pseudo_v4, pseudo_v6, sum};

/// Bytes of the frame check sequence, which sizes are told with and links do
/// not carry.
pub const FCS: usize = 4;

/// What a frame takes on a wire beside its bytes: preamble, delimiter and gap
/// (IEEE 802.3).
pub const WIRE_OVERHEAD: usize = 20;

/// The destination port of every frame, which tells them from others': echo
/// (RFC 2544 appendix C.2.6.4).
const PORT: u16 = 7;

/// The source port of a stream's first flow.
const FIRST_PORT: u16 = 49_152;
/// The most networks: those of RFC 2544 section 12, for which an address has a byte.
pub const NETWORKS_LIMIT: u16 = 256;
/// The most flows of a stream: as many source ports as there are from there on.
pub const FLOWS_LIMIT: u16 = 16_384;

const UDP_HEADER: usize = 8;

/// Sizes of RFC 2544 section 9.1.
pub const RFC2544_SIZES: [u16; 7] = [64, 128, 256, 512, 1_024, 1_280, 1_518];

/// What is sent, beside when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Shape {
    /// Sizes with the frame check sequence, in the order that they are sent
    /// in, over and over.
    pub sizes: Vec<u16>,
    /// A VLAN.
    pub vlan: Option<u16>,
    /// From whom, for each direction: 0 and 1.
    pub ends: [End; 2],
    /// How many flows, by source port.
    pub flows: u16,
    /// Whether flows follow each other at random.
    pub random: bool,
    /// How many networks frames are sent to, each drawn at random (RFC 2544
    /// section 12): 1 to [`NETWORKS_LIMIT`].
    pub networks: u16,
    /// Event messages of PTP over Ethernet in place of UDP (IEEE 1588-2008 annex
    /// F): what some NICs stamp, and nothing else.
    pub ptp: bool,
    /// A capture that is sent in place of all that.
    #[serde(skip)]
    pub replay: Option<Replayed>,
}

/// One end of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct End {
    /// Its Ethernet address.
    #[serde(serialize_with = "text")]
    pub mac: Mac,
    /// Its address.
    pub ip: IpAddr,
}

fn text<S: serde::Serializer>(mac: &Mac, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mac)
}

impl Default for Shape {
    fn default() -> Self {
        let (ends, replay) = (Self::ends_v4(), None);
        Self { sizes: vec![64], vlan: None, ends, flows: 1, random: false, networks: 1, ptp: false, replay }
    }
}

impl Shape {
    /// Addresses of RFC 2544's networks (198.18.0.0/15).
    #[must_use]
    pub fn ends_v4() -> [End; 2] {
        let end = |port: u8| End { mac: Mac([2, 0, 0, 0, 2, port]), ip: Ipv4Addr::new(198, 18 + port, 0, 2).into() };
        [end(0), end(1)]
    }

    /// Addresses of RFC 5180's network (2001:2::/48).
    #[must_use]
    pub fn ends_v6() -> [End; 2] {
        let end = |port: u8| End {
            mac: Mac([2, 0, 0, 0, 2, port]),
            ip: Ipv6Addr::new(0x2001, 2, 0, u16::from(port), 0, 0, 0, 2).into(),
        };
        [end(0), end(1)]
    }

    /// 28 frames of 64 bytes, 16 of 570 and 4 of 1,518, spread evenly.
    #[must_use]
    pub fn imix() -> Vec<u16> {
        let mut owed = [(28_i32, 64_u16, 0_i32), (16, 570, 0), (4, 1_518, 0)];
        let total: i32 = owed.iter().map(|kind| kind.0).sum();
        let mut sizes = Vec::new();
        for _ in 0..total {
            owed.iter_mut().for_each(|kind| kind.2 += kind.0);
            if let Some(kind) = owed.iter_mut().max_by_key(|kind| kind.2) {
                kind.2 -= total;
                sizes.push(kind.1);
            }
        }
        sizes
    }

    /// The smallest size that has room for headers and mark.
    #[must_use]
    pub fn smallest(&self) -> u16 {
        let network = if self.ends[0].ip.is_ipv4() { IPV4 } else { IPV6 };
        let tag = if self.vlan.is_some() { TAG } else { 0 };
        let headers = if self.ptp { ptp::HEADER } else { network + UDP_HEADER };
        (ETHERNET + tag + headers + mark::LEN + FCS).max(64) as u16
    }

    /// Bytes of a frame on average, with the frame check sequence.
    #[must_use]
    pub fn mean_size(&self) -> f64 {
        if let Some(replay) = &self.replay {
            return replay.frames.mean_len() + FCS as f64;
        }
        self.sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / self.sizes.len().max(1) as f64
    }
}

/// Bytes that fill a frame up: known, so that a changed one is seen.
pub(crate) fn filler(index: usize) -> u8 {
    (index * 31 + 7) as u8
}

/// A frame of one size, but for its mark, its flow and the UDP checksum.
#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    /// The UDP checksum's sum without mark and flow.
    base: Sum,
}

/// The frames of a stream in one direction.
#[derive(Clone, Debug)]
pub struct Frames {
    templates: Vec<Template>,
    /// Which template is next, over and over.
    order: Vec<u16>,
    at: usize,
    /// Where the UDP header begins, or PTP's.
    udp: usize,
    ptp: bool,
    flows: u16,
    flow: u16,
    random: Option<u64>,
    networks: Option<Networks>,
    tail: Vec<u8>,
    /// Boxed: of the frames that are made here it is nothing.
    pub(crate) replaying: Option<Box<Replaying>>,
}

/// Networks that destinations are drawn from.
#[derive(Clone, Copy, Debug)]
struct Networks {
    count: u16,
    state: u64,
    /// Where the byte is that tells them apart, and the header's checksum, if
    /// it has one.
    byte: usize,
    checksum: Option<usize>,
}

impl Frames {
    /// The frames of `shape` in `direction`: 0 from its first end to its
    /// second, 1 back.
    #[must_use]
    pub fn new(shape: &Shape, direction: usize, seed: u64) -> Self {
        let mut sizes: Vec<u16> = shape.sizes.iter().map(|size| (*size).max(shape.smallest())).collect();
        if sizes.is_empty() {
            sizes.push(shape.smallest());
        }
        let mut known = sizes.clone();
        known.sort_unstable();
        known.dedup();
        let order = sizes.iter().map(|size| known.iter().position(|other| other == size).unwrap_or(0) as u16);
        let tag = if shape.vlan.is_some() { TAG } else { 0 };
        let network = if shape.ends[0].ip.is_ipv4() { IPV4 } else { IPV6 };
        let largest = usize::from(known.last().copied().unwrap_or(64));
        Self {
            templates: known.iter().map(|size| template(shape, direction, usize::from(*size) - FCS)).collect(),
            order: order.collect(),
            at: 0,
            udp: if shape.ptp { ETHERNET + tag } else { ETHERNET + tag + network },
            ptp: shape.ptp,
            flows: shape.flows.clamp(1, FLOWS_LIMIT),
            flow: 0,
            random: shape.random.then_some(seed | 1),
            networks: (shape.networks > 1 && !shape.ptp).then(|| Networks::new(shape, ETHERNET + tag, seed)),
            tail: (0..largest).map(filler).collect(),
            replaying: None,
        }
    }

    /// A capture's frames in their place, if the shape has one, on a clock of so
    /// many ticks per second from such a tick on.
    pub(crate) fn replay(&mut self, shape: &Shape, clock: (u64, u64)) {
        self.replaying = shape.replay.as_ref().map(|how| Box::new(Replaying::new(how, clock)));
    }

    /// Writes the next frame with `mark` into `slot` and returns its length;
    /// nothing where it does not fit.
    #[inline]
    pub fn write(&mut self, slot: &mut [u8], mark: &Mark) -> Option<usize> {
        if let Some(replaying) = &mut self.replaying {
            let frame = replaying.frame()?;
            let len = frame.len();
            let sent = copy(frame, slot);
            replaying.pass(sent);
            return sent.then_some(len);
        }
        let template = &self.templates[usize::from(self.order[self.at])];
        let len = template.bytes.len();
        if !copy(&template.bytes, slot) {
            return None;
        }
        self.at = if self.at + 1 == self.order.len() { 0 } else { self.at + 1 };
        if self.ptp {
            return ptp::write_mark(slot, self.udp, mark).map(|()| len);
        }
        let source = FIRST_PORT + self.flow;
        if self.flows > 1 {
            self.flow = next_flow(self.flow, self.flows, &mut self.random);
        }
        let (first, second, check) = mark.words();
        let halves = [(first >> 32) as u32, first as u32, (second >> 32) as u32, second as u32];
        let mut base = template.base.add_u16(source).add_u16(check);
        if let Some(networks) = &mut self.networks {
            base = networks.write(slot, base);
        }
        let sum = halves.into_iter().fold(base, Sum::add_u32).finish();
        let out = slot.get_mut(self.udp..len)?.first_chunk_mut::<{ UDP_HEADER + mark::LEN }>()?;
        out[..2].copy_from_slice(&source.to_be_bytes());
        // Zero would say that there is none (RFC 768).
        out[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
        out[8..16].copy_from_slice(&first.to_be_bytes());
        out[16..24].copy_from_slice(&second.to_be_bytes());
        out[24..].copy_from_slice(&check.to_be_bytes());
        Some(len)
    }

    /// Whether what follows a mark at `at` is what was sent: every byte.
    #[inline]
    #[must_use]
    pub fn is_whole(&self, frame: &[u8], at: usize) -> bool {
        let rest = frame.get(at + mark::LEN..).unwrap_or_default();
        rest.is_empty() || self.tail.get(..rest.len()) == Some(rest)
    }
}

impl Networks {
    /// The third byte of an IPv4 address, in which the template has 0 (198.18.N.2);
    /// of an IPv6 address the seventh (2001:2:0:Nxx::2).
    fn new(shape: &Shape, header: usize, seed: u64) -> Self {
        let count = shape.networks.min(NETWORKS_LIMIT);
        let (byte, checksum) =
            if shape.ends[0].ip.is_ipv4() { (header + 18, Some(header + 10)) } else { (header + 30, None) };
        Self { count, state: seed.rotate_left(17) | 1, byte, checksum }
    }

    /// Draws the frame's network and writes it: into the address, the header's
    /// checksum, and the sum of what UDP's is made of.
    #[inline]
    fn write(&mut self, slot: &mut [u8], base: Sum) -> Sum {
        let number = draw(&mut self.state, self.count);
        if let Some(byte) = slot.get_mut(self.byte) {
            *byte = number as u8;
        }
        // The byte is the first of a word in both families.
        let word = (number & 0xff) << 8;
        if let Some(at) = self.checksum {
            let old = be16(slot, at).unwrap_or(0);
            put16(slot, at, Sum::ZERO.add_u16(!old).add_u16(word).finish());
        }
        base.add_u16(word)
    }
}

fn next_flow(flow: u16, flows: u16, random: &mut Option<u64>) -> u16 {
    match random {
        None if flow + 1 == flows => 0,
        None => flow + 1,
        Some(state) => draw(state, flows),
    }
}

/// A number below `count`, by xorshift64 (Marsaglia: Xorshift RNGs, 2003).
#[inline]
fn draw(state: &mut u64, count: u16) -> u16 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    ((u64::from(*state as u32) * u64::from(count)) >> 32) as u16
}

fn template(shape: &Shape, direction: usize, len: usize) -> Template {
    let (from, to) = (shape.ends[direction & 1], shape.ends[!direction & 1]);
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&to.mac.0);
    bytes.extend_from_slice(&from.mac.0);
    if let Some(vlan) = shape.vlan {
        bytes.extend_from_slice(&[0x81, 0]);
        bytes.extend_from_slice(&(vlan & 0xfff).to_be_bytes());
    }
    if shape.ptp {
        ptp::begin(&mut bytes, from.mac, len);
        let filled = bytes.len();
        bytes.extend((0..len - filled).map(filler));
        return Template { bytes, base: Sum::ZERO };
    }
    let network = bytes.len() + 2;
    let pseudo = match (from.ip, to.ip) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = (len - network) as u16;
            bytes.extend_from_slice(&[8, 0, 0x45, 0]);
            bytes.extend_from_slice(&total.to_be_bytes());
            // No fragment, hop limit 64, UDP.
            bytes.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
            bytes.extend_from_slice(&from.octets());
            bytes.extend_from_slice(&to.octets());
            let checksum = sum(&bytes[network..]).finish();
            put16(&mut bytes, network + 10, checksum);
            pseudo_v4(from, to, 17, total - IPV4 as u16)
        }
        (from, to) => {
            let (from, to) = (v6(from), v6(to));
            let payload = (len - network - IPV6) as u16;
            bytes.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend_from_slice(&payload.to_be_bytes());
            bytes.extend_from_slice(&[17, 64]);
            bytes.extend_from_slice(&from.octets());
            bytes.extend_from_slice(&to.octets());
            pseudo_v6(from, to, 17, u32::from(payload))
        }
    };
    let udp = bytes.len();
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&PORT.to_be_bytes());
    bytes.extend_from_slice(&((len - udp) as u16).to_be_bytes());
    bytes.extend_from_slice(&[0; 2 + mark::LEN]);
    let filled = bytes.len();
    bytes.extend((0..len - filled).map(filler));
    let base = pseudo.add(sum(&bytes[udp..]));
    Template { bytes, base }
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// What a received frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// One of ours, and where its mark is.
    Ours(Mark, usize),
    /// One of ours, of which nobody can say which.
    Damaged,
    /// One with the mark of another trial, which has this signature.
    Theirs(u32),
    /// Anything else.
    Other,
}

/// Looks for a mark behind the headers, wherever a device put them, and
/// verifies an IPv4 header's checksum.
#[inline]
#[must_use]
pub fn look(frame: &[u8], signature: u32) -> Seen {
    const PLAIN: usize = ETHERNET + IPV4 + UDP_HEADER;
    // Untagged IPv4 without options, and UDP: nearly all there is.
    let plain = be16(frame, 12) == Some(0x0800)
        && be16(frame, 14).is_some_and(|v| v >> 8 == 0x45)
        && frame.get(23) == Some(&17);
    let (at, header) = match plain {
        true => (PLAIN, Some(ETHERNET..ETHERNET + IPV4)),
        false => match Packet::find(frame).filter(|packet| packet.protocol == 17 && !packet.later_fragment) {
            Some(packet) => (packet.payload.start + UDP_HEADER, packet.v4.then_some(packet.header)),
            None => match network(frame) {
                // A message without a whole mark may be anybody's.
                Some((ETHER_PTP, at)) => {
                    return match ptp::look(frame, at, signature) {
                        Some((Read::Ours(mark), at)) => Seen::Ours(mark, at),
                        Some((Read::Theirs(whose), _)) => Seen::Theirs(whose),
                        Some((Read::Broken(true), _)) => Seen::Damaged,
                        Some((Read::Broken(false), _)) | None => Seen::Other,
                    };
                }
                _ => return Seen::Other,
            },
        },
    };
    let Some(bytes) = frame.get(at..).and_then(|rest| rest.first_chunk::<{ mark::LEN }>()) else { return Seen::Other };
    match Mark::read(bytes, signature) {
        Read::Ours(mark) => {
            let sound = header.is_none_or(|header| sum(&frame[header]).finish() == 0);
            if sound { Seen::Ours(mark, at) } else { Seen::Damaged }
        }
        Read::Theirs(whose) => Seen::Theirs(whose),
        Read::Broken(true) => Seen::Damaged,
        // Ours by the port, which a device may have swapped with the other.
        Read::Broken(false) => match (be16(frame, at - UDP_HEADER), be16(frame, at - UDP_HEADER + 2)) {
            (Some(PORT), Some(other)) | (Some(other), Some(PORT)) if other >= FIRST_PORT => Seen::Damaged,
            _ => Seen::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(sequence: u64) -> Mark {
        Mark { signature: 0xfeed_beef, lane: 5, sequence, time: sequence * 1_000 }
    }

    fn shapes() -> Vec<Shape> {
        let v6 = Shape { ends: Shape::ends_v6(), ..Shape::default() };
        let sizes = vec![64, 65, 76, 128, 1_518];
        [Shape::default(), v6]
            .into_iter()
            .flat_map(|shape| [shape.clone(), Shape { vlan: Some(7), ..shape }])
            .map(|shape| Shape { sizes: sizes.clone(), flows: 3, ..shape })
            .collect()
    }

    #[test]
    fn a_message_is_one_that_nics_stamp_and_is_found_again() {
        for vlan in [None, Some(7)] {
            let shape = Shape { sizes: vec![76, 1_518], vlan, ptp: true, ..Shape::default() };
            assert_eq!(shape.smallest(), if vlan.is_some() { 74 } else { 70 });
            let mut frames = Frames::new(&shape, 0, 1);
            for (sequence, len) in [(0x1_0002, 72), (0x1_0003, 1_514)] {
                let mark = Mark { signature: 9, lane: 3, sequence, time: 5 };
                let mut slot = [0; 1_600];
                assert_eq!(frames.write(&mut slot, &mark), Some(len));
                let tag = if vlan.is_some() { 4 } else { 0 };
                let message = &slot[14 + tag..len];
                assert_eq!(
                    (&slot[12 + tag..14 + tag], message[0] & 0x0f, message[1]),
                    (&[0x88, 0xf7][..], ptp::SYNC, ptp::VERSION)
                );
                assert_eq!(usize::from(u16::from_be_bytes([message[2], message[3]])), message.len());
                assert_eq!(u16::from_be_bytes([message[30], message[31]]), sequence as u16);
                let at = 14 + tag + ptp::HEADER;
                assert_eq!(look(&slot[..len], 9), Seen::Ours(mark, at));
                assert!(frames.is_whole(&slot[..len], at));
                assert_eq!(look(&slot[..len], 8), Seen::Theirs(9));
                slot[at + 9] ^= 1;
                assert_eq!(look(&slot[..len], 9), Seen::Damaged);
                // Cut within the mark, or a message of a clock's.
                assert_eq!(look(&slot[..at + 10], 9), Seen::Other);
                slot[at..at + 18].fill(0);
                assert_eq!(look(&slot[..len], 9), Seen::Other);
            }
        }
    }

    #[test]
    fn frames_are_whole_in_every_layer_and_found_again() {
        for shape in shapes() {
            for direction in 0..2 {
                let mut frames = Frames::new(&shape, direction, 1);
                let mut slot = vec![0xaa; 2_000];
                for sequence in 0..40 {
                    let len = frames.write(&mut slot, &mark(sequence)).expect("it fits");
                    let frame = &slot[..len];
                    let size = shape.sizes[sequence as usize % 5].max(shape.smallest());
                    assert_eq!(len + FCS, usize::from(size));
                    let packet = Packet::find(frame).expect("a packet");
                    assert_eq!((packet.protocol, packet.payload.end), (17, len));
                    let (from, to) = packet.addresses();
                    let pseudo = sum(&frame[from.start..to.end]).add_u16(17);
                    let whole = pseudo.add_u16(packet.payload.len() as u16).add(sum(&frame[packet.payload.clone()]));
                    assert_eq!(whole.finish(), 0, "{shape:?}");
                    let Seen::Ours(seen, at) = look(frame, 0xfeed_beef) else { panic!("{shape:?}") };
                    assert_eq!(seen, mark(sequence));
                    assert!(frames.is_whole(frame, at));
                    assert_eq!(look(frame, 1), Seen::Theirs(0xfeed_beef));
                }
            }
        }
    }

    #[test]
    fn a_byte_that_changes_is_seen_wherever_it_is_behind_the_ethernet_header() {
        let shape = Shape { sizes: vec![128], ..Shape::default() };
        let mut frames = Frames::new(&shape, 0, 1);
        let mut slot = vec![0; 200];
        let len = frames.write(&mut slot, &mark(9)).expect("it fits");
        for at in 14..len {
            let mut frame = slot[..len].to_vec();
            frame[at] ^= 0x10;
            let ours = match look(&frame, 0xfeed_beef) {
                Seen::Ours(_, at) => frames.is_whole(&frame, at),
                _ => false,
            };
            // Ports, length and checksum of UDP may be a device's to change.
            assert_eq!(ours, (34..42).contains(&at), "{at}");
        }
    }

    #[test]
    fn networks_are_drawn_evenly_and_every_checksum_is_right() {
        for ends in [Shape::ends_v4(), Shape::ends_v6()] {
            for vlan in [None, Some(9)] {
                let shape = Shape { sizes: vec![128], ends, vlan, networks: 256, ..Shape::default() };
                let mut frames = Frames::new(&shape, 1, 7);
                let mut slot = vec![0; 200];
                let mut seen = [0_u32; 256];
                for sequence in 0..8_192 {
                    let len = frames.write(&mut slot, &mark(sequence)).expect("it fits");
                    let frame = &slot[..len];
                    let packet = Packet::find(frame).expect("a packet");
                    assert!(!packet.v4 || sum(&frame[packet.header.clone()]).finish() == 0);
                    let (from, to) = packet.addresses();
                    let pseudo = sum(&frame[from.start..to.end]).add_u16(17);
                    let whole = pseudo.add_u16(packet.payload.len() as u16).add(sum(&frame[packet.payload.clone()]));
                    assert_eq!(whole.finish(), 0);
                    assert!(matches!(look(frame, 0xfeed_beef), Seen::Ours(..)));
                    seen[usize::from(frame[to.start + if packet.v4 { 2 } else { 6 }])] += 1;
                }
                // 32 each: none is left out, and none has twice its share and more.
                assert!(seen.iter().all(|count| (8..=72).contains(count)), "{seen:?}");
            }
        }
    }

    #[test]
    fn what_is_not_ours_is_something_else() {
        assert_eq!(look(&[], 1), Seen::Other);
        assert_eq!(look(&[0; 60], 1), Seen::Other);
        let mut frame = vec![0; 60];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[23] = 17;
        assert_eq!(look(&frame, 1), Seen::Other);
        // Our port, and no mark.
        frame[34..38].copy_from_slice(&[0xc0, 0, 0, 7]);
        assert_eq!(look(&frame, 1), Seen::Damaged);
        for len in 0..60 {
            let _ = look(&frame[..len], 1);
        }
    }

    #[test]
    fn the_mix_is_spread_and_exact() {
        let mix = Shape::imix();
        let count = |size: u16| mix.iter().filter(|other| **other == size).count();
        assert_eq!((mix.len(), count(64), count(570), count(1_518)), (48, 28, 16, 4));
        let large: Vec<usize> = (0..48).filter(|at| mix[*at] == 1_518).collect();
        assert!(large.windows(2).all(|pair| (10..=14).contains(&(pair[1] - pair[0]))), "{large:?}");
    }

    #[test]
    fn flows_go_round_or_are_drawn() {
        let of = |random: bool| {
            let shape = Shape { flows: 100, random, ..Shape::default() };
            let mut frames = Frames::new(&shape, 0, 42);
            let mut slot = vec![0; 64];
            let mut port = |sequence| {
                frames.write(&mut slot, &mark(sequence)).expect("it fits");
                u16::from_be_bytes([slot[34], slot[35]]) - FIRST_PORT
            };
            (0..1_000).map(&mut port).collect::<Vec<u16>>()
        };
        assert!(of(false).iter().enumerate().all(|(n, flow)| usize::from(*flow) == n % 100));
        let drawn = of(true);
        assert!(drawn.iter().all(|flow| *flow < 100) && drawn != of(false));
        let mut distinct = drawn;
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 90, "{}", distinct.len());
    }
}
