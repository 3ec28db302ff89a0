//! One turn of a forwarder: a burst each way.

use super::counts::{BURST_LIMIT, Lane, Refused};
use super::flows::Flows;
use super::mode::Mode;
use super::rewrite::{self, Unrouted};
use super::routes::Routes;
use link::{Link, Receive, Transmit};
use wire::{Mac, Offload, Time};

/// What a forwarder does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// To frames.
    pub mode: Mode,
    /// Frames taken at a time, 1 to [`BURST_LIMIT`]; 32, as testpmd has it.
    pub burst: usize,
    /// Bytes of frames that are made here, without the frame check sequence.
    pub size: usize,
    /// Flows of frames that are made here.
    pub flows: u16,
    /// The Ethernet address of each port, and that of whom it sends to.
    pub macs: [(Mac, Mac); 2],
    /// Where packets go, in mode l3.
    pub routes: Routes,
}

impl Default for Settings {
    fn default() -> Self {
        // As testpmd has them: locally administered, the port's number last.
        let mac = |kind, port| Mac([2, 0, 0, 0, kind, port]);
        Self {
            mode: Mode::Io,
            burst: 32,
            size: 60,
            flows: 1_024,
            macs: [(mac(1, 0), mac(0, 0)), (mac(1, 1), mac(0, 1))],
            routes: Routes::default(),
        }
    }
}

/// A forwarder over one link or two.
#[derive(Clone, Debug)]
pub struct Forwarder {
    settings: Settings,
    flows: [Flows; 2],
    /// By the port that frames come by.
    pub lanes: [Lane; 2],
}

impl Forwarder {
    /// A forwarder that has seen nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = Settings { burst: settings.burst.clamp(1, BURST_LIMIT), ..settings };
        let flows = |port: usize| {
            let (own, peer) = settings.macs[port];
            Flows::new(settings.size, settings.flows, peer, own)
        };
        Self { flows: [flows(0), flows(1)], settings, lanes: Default::default() }
    }

    /// Takes a burst from each of `links`, of which there are one or two, and
    /// passes it on. Returns the frames that were received or sent.
    #[inline]
    pub fn turn<L: Link>(&mut self, links: &mut [L], now: Time) -> usize {
        match links {
            [one] => {
                let (mut rx, mut tx) = one.split();
                self.step((0, 0), &mut rx, &mut tx, now)
            }
            [one, other] => {
                let ((mut rx, mut tx), (mut other_rx, mut other_tx)) = (one.split(), other.split());
                if self.settings.mode == Mode::L3 {
                    return self.route((0, &mut rx), (&mut tx, &mut other_tx), now)
                        + self.route((1, &mut other_rx), (&mut tx, &mut other_tx), now);
                }
                if self.settings.mode.answers() {
                    return self.step((0, 0), &mut rx, &mut tx, now)
                        + self.step((1, 1), &mut other_rx, &mut other_tx, now);
                }
                self.step((0, 1), &mut rx, &mut other_tx, now) + self.step((1, 0), &mut other_rx, &mut tx, now)
            }
            _ => 0,
        }
    }

    /// A burst from one port to another, or back.
    #[inline]
    fn step(&mut self, way: (usize, usize), rx: &mut impl Receive, tx: &mut impl Transmit, now: Time) -> usize {
        let (from, to) = way;
        let burst = self.settings.burst;
        let lane = &mut self.lanes[from];
        let (own, peer) = self.settings.macs[to];
        match self.settings.mode {
            Mode::Io => relay(rx, tx, now, (burst, to), lane, |_, _| true),
            Mode::Mac => relay(rx, tx, now, (burst, to), lane, |frame, _| {
                rewrite::set_macs(frame, peer, own);
                true
            }),
            Mode::MacSwap => relay(rx, tx, now, (burst, to), lane, |frame, _| {
                rewrite::swap_macs(frame);
                true
            }),
            Mode::FiveTuple => relay(rx, tx, now, (burst, to), lane, |frame, _| {
                rewrite::swap_tuple(frame);
                true
            }),
            Mode::Csum => relay(rx, tx, now, (burst, to), lane, |frame, refused| {
                rewrite::checksums(frame, refused);
                true
            }),
            Mode::IcmpEcho => relay(rx, tx, now, (burst, to), lane, |frame, refused| {
                let answered = rewrite::answer(frame, own);
                refused.consumed += u64::from(!answered);
                answered
            }),
            Mode::RxOnly => drain(rx, now, burst, lane),
            Mode::TxOnly => make(&mut self.flows[to], tx, now, (burst, to), lane),
            Mode::FlowGen => drain(rx, now, burst, lane) + make(&mut self.flows[to], tx, now, (burst, to), lane),
            Mode::L3 => self.route((from, rx), (tx, &mut Nowhere), now),
        }
    }

    /// A burst of packets, each to the port that its route names.
    fn route(
        &mut self,
        (from, rx): (usize, &mut impl Receive),
        (first, second): (&mut impl Transmit, &mut impl Transmit),
        now: Time,
    ) -> usize {
        let Self { settings, lanes, .. } = self;
        let lane = &mut lanes[from];
        let count = rx.receive(now, settings.burst);
        lane.bursts.add(count);
        let mut sent = [0; 2];
        for index in 0..count {
            let frame = rx.frame(index);
            let Some(hop) = settings.routes.peek(frame) else {
                lane.refused.no_route += 1;
                continue;
            };
            let port = usize::from(hop.port);
            let out = |slot: Option<&mut [u8]>, lane: &mut Lane| write_routed(slot, frame, hop, settings, lane);
            let len = if port == 0 { out(first.slot(), lane) } else { out(second.slot(), lane) };
            let Some(len) = len else { continue };
            if port == 0 {
                first.commit(len, Offload::NONE);
            } else {
                second.commit(len, Offload::NONE);
            }
            sent[port] += 1;
        }
        rx.release();
        first.flush(now);
        second.flush(now);
        lane.received += count as u64;
        lane.sent.iter_mut().zip(sent).for_each(|(all, sent)| *all += sent as u64);
        lane.sent_bursts.add(sent.iter().sum());
        count
    }
}

impl Routes {
    /// The hop of the packet in a frame.
    fn peek(&self, frame: &[u8]) -> Option<super::Hop> {
        let packet = crate::layers::Packet::find(frame)?;
        self.find(frame.get(packet.addresses().1)?)
    }
}

/// Writes a routed frame into a slot; its length, or nothing where it is
/// dropped, which is counted.
fn write_routed(
    slot: Option<&mut [u8]>,
    frame: &[u8],
    hop: super::Hop,
    settings: &Settings,
    lane: &mut Lane,
) -> Option<usize> {
    let Some(slot) = slot else {
        lane.no_room[usize::from(hop.port)] += 1;
        return None;
    };
    if !crate::layers::copy(frame, slot) {
        lane.refused.too_long += 1;
        return None;
    }
    let out = &mut slot[..frame.len()];
    match rewrite::hop(out) {
        Ok(()) => {
            rewrite::set_macs(out, hop.mac, settings.macs[usize::from(hop.port)].0);
            Some(out.len())
        }
        Err(Unrouted::Expired) => {
            lane.refused.expired += 1;
            None
        }
        Err(Unrouted::BadChecksum) => {
            lane.refused.bad_ip_checksum += 1;
            None
        }
        Err(Unrouted::NoPacket) => {
            lane.refused.no_route += 1;
            None
        }
    }
}

/// Passes a burst on, with each frame changed by `act` in its slot; a frame
/// for which that returns false is not sent.
#[inline(always)]
fn relay(
    rx: &mut impl Receive,
    tx: &mut impl Transmit,
    now: Time,
    (burst, to): (usize, usize),
    lane: &mut Lane,
    mut act: impl FnMut(&mut [u8], &mut Refused) -> bool,
) -> usize {
    let count = rx.receive(now, burst);
    lane.bursts.add(count);
    if count == 0 {
        // What was sent before may still have to be told of.
        tx.flush(now);
        return 0;
    }
    let mut sent = 0;
    for index in 0..count {
        let frame = rx.frame(index);
        let Some(slot) = tx.slot() else {
            lane.no_room[to] += (count - index) as u64;
            break;
        };
        if !crate::layers::copy(frame, slot) {
            lane.refused.too_long += 1;
            continue;
        }
        if act(&mut slot[..frame.len()], &mut lane.refused) {
            tx.commit(frame.len(), Offload::NONE);
            sent += 1;
        }
    }
    rx.release();
    tx.flush(now);
    lane.received += count as u64;
    lane.sent[to] += sent as u64;
    lane.sent_bursts.add(sent);
    count
}

/// Drops a burst.
#[inline(always)]
fn drain(rx: &mut impl Receive, now: Time, burst: usize, lane: &mut Lane) -> usize {
    let count = rx.receive(now, burst);
    lane.bursts.add(count);
    rx.release();
    lane.received += count as u64;
    lane.refused.consumed += count as u64;
    count
}

/// Sends a burst of frames made here.
#[inline(always)]
fn make(flows: &mut Flows, tx: &mut impl Transmit, now: Time, (burst, to): (usize, usize), lane: &mut Lane) -> usize {
    let mut sent = 0;
    while sent < burst {
        let Some(slot) = tx.slot() else { break };
        let Some(len) = flows.write(slot) else { break };
        tx.commit(len, Offload::NONE);
        sent += 1;
    }
    tx.flush(now);
    lane.sent[to] += sent as u64;
    lane.sent_bursts.add(sent);
    sent
}

/// A port that is not there: with one link, a route to the other is no room.
struct Nowhere;

impl Transmit for Nowhere {
    fn room(&self) -> usize {
        0
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        None
    }
    fn commit(&mut self, _: usize, _: Offload) {}
    fn flush(&mut self, _: Time) {}
}
