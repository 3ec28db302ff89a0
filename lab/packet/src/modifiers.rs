//! Frames that a device has to bear beside those of the test: broadcast frames,
//! management queries and routing updates (RFC 2544 sections 11.1 to 11.3). They
//! go in the same stream, each in the place of one of the test's own, and are
//! counted apart from them.

mod frames;
mod snmp;
#[cfg(test)]
mod tests;

use crate::layers::{ETHERNET, Packet, TAG, UDP, be16};
use crate::mark::{self, Mark, Read};
use crate::stream::Shape;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// One frame of so many is a broadcast (section 11.1).
const BROADCAST_EVERY: u32 = 100;

/// Seconds between two queries (section 11.2).
const QUERY_SECONDS: u64 = 1;

/// Seconds between two updates of RIP (RFC 2453 section 3.8) and RIPng.
const UPDATE_SECONDS: u64 = 30;

/// Seconds from an update to two frames which show whether it was taken.
const TAKEN_SECONDS: u64 = 2;

/// Answers to so many of the last queries are still known for what they are.
const QUERIES_KNOWN: u32 = 64;

/// Which frames take the places of some of a stream's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Modifier {
    /// One frame in a hundred has the broadcast address.
    Broadcast,
    /// The first frame of each second asks the device for its `sysUpTime`.
    Management(Managed),
    /// The first frame of a trial, and one every 30 seconds, changes routes to
    /// networks that the test does not send to: from A to B, and back.
    Routing,
}

/// A device that is managed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Managed {
    /// Its addresses at the first port and at the second.
    pub addresses: [IpAddr; 2],
    /// The community of SNMP.
    pub community: String,
}

impl Managed {
    /// The longest community: its length takes one byte, and the query is a
    /// frame of less than 128 bytes even with IPv6.
    pub const COMMUNITY_LIMIT: usize = 16;

    /// What is wrong with it, if anything.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self, shape: &Shape) -> Result<(), String> {
        if self.community.is_empty() || self.community.len() > Self::COMMUNITY_LIMIT {
            return Err(format!("a community has from 1 to {} bytes", Self::COMMUNITY_LIMIT));
        }
        match self.addresses.iter().find(|address| address.is_ipv4() != shape.ends[0].ip.is_ipv4()) {
            Some(address) => Err(format!("{address} is not of the family that the stream has")),
            None => Ok(()),
        }
    }
}

/// What came of such frames: none of it is part of the test's own counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Modified {
    /// Frames that went into the ring.
    pub sent: u64,
    /// Frames that found it full.
    pub refused: u64,
    /// Frames that came by any of the tester's ports: a bridge floods
    /// broadcasts.
    pub came: u64,
    /// Queries that were answered as they should be.
    pub answered: u64,
    /// Answers that were none: an error, another variable, broken.
    pub wrong: u64,
    /// Frames to networks that an update of the other port has just told of; they
    /// are among those sent.
    #[serde(default)]
    pub near: u64,
    /// Of these, came there.
    #[serde(default)]
    pub near_came: u64,
    /// Frames to networks that it said could not be reached any more.
    #[serde(default)]
    pub far: u64,
    /// Of these, came.
    #[serde(default)]
    pub far_came: u64,
}

impl Modified {
    /// Adds what another has.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.refused += other.refused;
        self.came += other.came;
        self.answered += other.answered;
        self.wrong += other.wrong;
        self.near += other.near;
        self.near_came += other.near_came;
        self.far += other.far;
        self.far_came += other.far_came;
    }
}

/// When the next is due.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// After so many frames of the test.
    Frames(u32),
    /// At such a tick, and every so many ticks.
    Tick { at: u64, every: u64 },
}

/// Such frames in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Modifying {
    kind: Modifier,
    due: Due,
    /// In the order that they are sent in, over and over.
    frames: Vec<Vec<u8>>,
    next: usize,
    /// Queries sent so far, and which of the last ones have no answer yet: the
    /// newest has the lowest bit.
    queries: u32,
    open: u64,
    /// The first request number: another trial's answers are none of ours.
    base: u32,
    /// Frames that show whether updates were taken. Boxed: there are none but
    /// with updates of both ports.
    routed: Option<Box<Routed>>,
    pub counts: Modified,
}

/// Frames to networks that updates tell of: a number each, even where the network
/// can be reached.
#[derive(Clone, Debug)]
struct Routed {
    shape: Shape,
    direction: usize,
    /// Whose mark they carry: none that the test's own have.
    mark: Mark,
    /// When the next is due, if one is.
    at: Option<u64>,
    after: u64,
    /// Those on their way, the last of either kind.
    open: [Option<u64>; 2],
}

/// What such frames are made for: direction, lane and signature.
pub(crate) type Whose = (usize, u8, u32);

impl Modifying {
    /// The frames of `kind` in a stream of `shape`, on a clock of `hz` ticks per
    /// second, from `start` on.
    pub fn new(kind: &Modifier, shape: &Shape, (direction, lane, signature): Whose, (hz, start): (u64, u64)) -> Self {
        let every = |seconds: u64| Due::Tick { at: start, every: hz.saturating_mul(seconds).max(1) };
        let mark = Mark { signature, lane, sequence: 0, time: 0 };
        // Positive in thirty-two bits, with room for every query of a trial, and another in each lane.
        let base = (signature ^ u32::from(lane) << 24) & 0x3fff_ffff;
        let (due, frames) = match kind {
            Modifier::Broadcast => (Due::Frames(BROADCAST_EVERY - 1), vec![frames::broadcast(shape, direction, &mark)]),
            Modifier::Management(managed) => {
                let query = snmp::query(&managed.community, base);
                (every(QUERY_SECONDS), vec![frames::query(shape, direction, managed.addresses[direction & 1], &query)])
            }
            Modifier::Routing => {
                let updates = [false, true].map(|b| frames::update(shape, direction, b));
                (every(UPDATE_SECONDS), updates.to_vec())
            }
        };
        let (kind, counts) = (kind.clone(), Modified::default());
        Self { kind, due, frames, next: 0, queries: 0, open: 0, base, routed: None, counts }
    }

    /// Updates come by the other port as well, at the same times: whether they were
    /// taken can be seen.
    pub fn verify_routes(&mut self, shape: &Shape, (direction, lane, signature): Whose, hz: u64) {
        if matches!(self.kind, Modifier::Routing) {
            let mark = Mark { signature: !signature, lane, sequence: 0, time: 0 };
            let after = hz.saturating_mul(TAKEN_SECONDS);
            self.routed =
                Some(Box::new(Routed { shape: shape.clone(), direction, mark, at: None, after, open: [None; 2] }));
        }
    }

    /// Whether the next frame is one of these; else it is one of the test's,
    /// which is noted.
    #[inline]
    pub fn is_due(&mut self, now: u64) -> bool {
        if self.routed.as_ref().is_some_and(|routed| routed.at.is_some_and(|at| now >= at)) {
            return true;
        }
        match &mut self.due {
            Due::Frames(left @ 1..) => {
                *left -= 1;
                false
            }
            Due::Frames(_) => true,
            Due::Tick { at, .. } => now >= *at,
        }
    }

    /// Its place was reached: writes it into `slot`, if there is one, and returns
    /// its length. One that finds the ring full is never sent late.
    pub fn write(&mut self, slot: Option<&mut [u8]>, now: u64) -> Option<usize> {
        if self.routed.as_ref().is_some_and(|routed| routed.at.is_some_and(|at| now >= at)) {
            return self.write_routed(slot);
        }
        match &mut self.due {
            Due::Frames(left) => *left = BROADCAST_EVERY - 1,
            Due::Tick { at, every } => {
                // Of those that the tester was away for one is sent.
                let missed = now.saturating_sub(*at) / *every;
                *at = at.saturating_add(every.saturating_mul(missed + 1));
            }
        }
        let frame = &self.frames[self.next];
        let Some(out) = slot.and_then(|slot| slot.get_mut(..frame.len())) else {
            self.counts.refused += 1;
            return None;
        };
        out.copy_from_slice(frame);
        let len = frame.len();
        if let Modifier::Management(managed) = &self.kind {
            self.open = self.open << 1 | 1;
            self.queries = self.queries.wrapping_add(1);
            // The next has the next number.
            let query = snmp::query(&managed.community, self.base.wrapping_add(self.queries));
            frames::put_payload(&mut self.frames[self.next], &query);
        }
        self.next = (self.next + 1) % self.frames.len();
        self.counts.sent += 1;
        if let Some(routed) = &mut self.routed {
            routed.at = Some(now.saturating_add(routed.after));
        }
        Some(len)
    }

    /// Two of them, one after the other: to a network that the last update said can
    /// be reached, and to one that cannot.
    fn write_routed(&mut self, slot: Option<&mut [u8]>) -> Option<usize> {
        let routed = self.routed.as_mut()?;
        let near = routed.mark.sequence.is_multiple_of(2);
        if !near {
            routed.at = None;
        }
        // The update that was sent last, of the two that come by turns.
        let is_b = self.next == 0;
        let frame = frames::routed(&routed.shape, routed.direction, (is_b, near), &routed.mark);
        let number = routed.mark.sequence;
        routed.mark.sequence += 1;
        let Some(out) = slot.and_then(|slot| slot.get_mut(..frame.len())) else {
            self.counts.refused += 1;
            return None;
        };
        out.copy_from_slice(&frame);
        routed.open[usize::from(!near)] = Some(number);
        self.counts.sent += 1;
        *(if near { &mut self.counts.near } else { &mut self.counts.far }) += 1;
        Some(frame.len())
    }

    /// Takes one of them, which came by the port that updates told it to or not.
    fn take_routed(&mut self, frame: &[u8], lane: u8, arrived: bool) -> bool {
        let Some(routed) = &mut self.routed else { return false };
        let mark = frames::routed_mark(frame, routed.mark.signature);
        let Some(mark) = mark.filter(|mark| mark.lane == lane && mark.sequence < routed.mark.sequence) else {
            return false;
        };
        let near = mark.sequence.is_multiple_of(2);
        // Once; and not of an update before the last.
        if arrived && routed.open[usize::from(!near)].take_if(|open| *open == mark.sequence).is_some() {
            *(if near { &mut self.counts.near_came } else { &mut self.counts.far_came }) += 1;
        }
        true
    }

    /// Takes a frame that came and is none of the test's; whether it is one of
    /// these, or an answer to one. It `arrived` if it came by this direction's port.
    pub fn take(&mut self, frame: &[u8], (lane, signature): (u8, u32), arrived: bool) -> bool {
        match &self.kind {
            Modifier::Broadcast => {
                let is_ours = broadcast_mark(frame, signature).is_some_and(|mark| mark.lane == lane);
                self.counts.came += u64::from(is_ours);
                is_ours
            }
            // A bridge passes them, and a device with one port sends them back.
            Modifier::Routing | Modifier::Management(_) if self.frames.iter().any(|sent| is_copy(frame, sent)) => {
                self.counts.came += 1;
                true
            }
            Modifier::Routing => self.take_routed(frame, lane, arrived),
            Modifier::Management(_) => self.take_answer(frame),
        }
    }

    fn take_answer(&mut self, frame: &[u8]) -> bool {
        let Some(packet) = Packet::find(frame).filter(|packet| packet.protocol == UDP && !packet.fragment) else {
            return false;
        };
        let at = packet.payload.start;
        // To where queries come from, or one of those on its way back.
        if be16(frame, at) != Some(snmp::PORT) || be16(frame, at + 2) != Some(frames::QUERY_PORT) {
            let is_ours = self.is_query(frame, &packet);
            self.counts.came += u64::from(is_ours);
            return is_ours;
        }
        let message = frame.get(at + 8..packet.payload.end).unwrap_or_default();
        match snmp::read_answer(message) {
            Some(answer) => {
                let age = self.base.wrapping_add(self.queries).wrapping_sub(1).wrapping_sub(answer.request);
                if age >= QUERIES_KNOWN || self.open & 1 << age == 0 {
                    // Of another trial, direction or tester, or it came again.
                    return false;
                }
                self.open &= !(1 << age);
                let counts = &mut self.counts;
                let place = if answer.is_up_time { &mut counts.answered } else { &mut counts.wrong };
                *place += 1;
            }
            None => self.counts.wrong += 1,
        }
        true
    }

    /// Whether it is a query of this lane, which a router passed on or sent back.
    fn is_query(&self, frame: &[u8], packet: &Packet) -> bool {
        let Some(sent) = self.frames.first() else { return false };
        let tuple = |frame: &[u8], packet: &Packet| {
            let (source, destination) = packet.addresses();
            let ports = packet.payload.start..packet.payload.start + 4;
            Some((frame.get(source)?.to_vec(), frame.get(destination)?.to_vec(), frame.get(ports)?.to_vec()))
        };
        Packet::find(sent).is_some_and(|ours| tuple(sent, &ours) == tuple(frame, packet))
    }
}

/// The mark of a broadcast frame.
fn broadcast_mark(frame: &[u8], signature: u32) -> Option<Mark> {
    let at = [ETHERNET, ETHERNET + TAG].into_iter().find(|at| be16(frame, at - 2) == Some(frames::EXPERIMENTAL))?;
    match Mark::read(frame.get(at..)?.first_chunk::<{ mark::LEN }>()?, signature) {
        Read::Ours(mark) => Some(mark),
        Read::Theirs(_) | Read::Broken(_) => None,
    }
}

/// The same frame, perhaps with bytes behind it that a short frame is filled up
/// with.
fn is_copy(frame: &[u8], sent: &[u8]) -> bool {
    frame.starts_with(sent)
}
