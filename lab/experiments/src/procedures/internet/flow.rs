//! The path while a flow goes over it, and our stack at its far end.

use super::kernel::{PORT, RECEIVER, SENDER};
use crate::Failure;
use app::{App, Body, Closed, ConnId, Net, Opened, Wake};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use cpu::Clock;
use link::{EmulatedPath, FaultCounters, Link, PairLink, Receive, Transmit};
use silo::Silo;
use stack::{Address, Config, LinkOffload, Seeds, Stack};
use stats::Random;
use wire::{Mac, Offload, Time};

/// How long the path sleeps at most: far below a round trip.
const NAP: Duration = Duration::from_micros(200);

/// What our application queues at a time, and at most.
const PIECE: u32 = 64 * 1024;
const QUEUED: usize = 256 * 1024;

/// How a flow went.
pub(super) struct Ran {
    /// From the start to the last byte received.
    pub took: Duration,
    /// What the path did to the frames of the data.
    pub there: FaultCounters,
    /// The longest that nobody looked after the path.
    pub late: Duration,
    /// Bytes that a flow beside it had received by its end, if there was one.
    pub beside: Option<u64>,
}

/// Where two senders meet before the path: what either sends goes to the path, and what comes back
/// goes to both, as a hub does it.
pub(super) struct Hub<A, B> {
    path: PairLink,
    ports: (A, B),
    /// Whose turn is next: a full queue drops what comes last.
    is_others_turn: bool,
}

impl<A: Link, B: Link> Hub<A, B> {
    pub fn new(path: PairLink, one: A, other: B) -> Self {
        Self { path, ports: (one, other), is_others_turn: false }
    }

    /// Passes on what waits; whether anything did.
    pub fn turn(&mut self, now: Time) -> bool {
        let Self { path, ports: (one, other), is_others_turn } = self;
        let (mut sent, mut was_idle) = (0, false);
        for _ in 0..2 * BURST {
            let some = if *is_others_turn { pass(other, path, now) } else { pass(one, path, now) };
            *is_others_turn = !*is_others_turn;
            sent += some;
            if some == 0 && was_idle {
                break;
            }
            was_idle = some == 0;
        }
        let (from, _) = path.split();
        let ((_, mut to_one), (_, mut to_other)) = (one.split(), other.split());
        let back = from.receive(now, BURST);
        for index in 0..back {
            put_frame(from.frame(index), &mut to_one);
            put_frame(from.frame(index), &mut to_other);
        }
        from.release();
        to_one.flush(now);
        to_other.flush(now);
        sent + back > 0
    }
}

/// Frames that a hub takes from the path at a time, and how often each of its ports has its turn.
const BURST: usize = 64;

/// Frames that it takes from a port before the other has its turn.
const FEW: usize = 2;

/// Passes some frames from one link to another; how many there were.
fn pass<A: Link, B: Link>(from: &mut A, to: &mut B, now: Time) -> usize {
    let ((mut rx, _), (_, mut tx)) = (from.split(), to.split());
    let count = rx.receive(now, FEW);
    (0..count).for_each(|index| put_frame(rx.frame(index), &mut tx));
    rx.release();
    tx.flush(now);
    count
}

/// Sends a frame; where there is no room it is lost, and the link has counted that.
fn put_frame(frame: &[u8], to: &mut impl Transmit) {
    if let Some(place) = to.slot().and_then(|slot| slot.get_mut(..frame.len())) {
        place.copy_from_slice(frame);
        to.commit(frame.len(), Offload::NONE);
    }
}

/// Our stack, as a host at the far end.
pub(super) struct Ours {
    silo: Silo<PairLink, End>,
}

impl Ours {
    /// One that sends so many bytes.
    pub fn sender(link: PairLink, bytes: u64, seed: u64) -> Self {
        Self::host(link, SENDER, End::new(bytes, true), seed)
    }

    /// One that receives so many.
    pub fn receiver(link: PairLink, bytes: u64, seed: u64) -> Self {
        Self::host(link, RECEIVER, End::new(bytes, false), seed)
    }

    fn host(link: PairLink, address: &str, app: End, seed: u64) -> Self {
        let mut config = Config::new(Mac([2, 0, 0, 0x79, 0, 1]), link.capabilities().mtu);
        config.addresses.extend(address.parse().map(|ip: IpAddr| Address { ip, prefix_len: 24 }));
        config.listen = vec![PORT];
        let mut random = Random::new(seed);
        let mut keys = || core::array::from_fn(|_| random.bits());
        let seeds = Seeds { table: keys(), secret: keys(), timestamps: [seed, !seed] };
        let stack = Stack::new(config, LinkOffload::default(), &seeds, Clock.now());
        Self { silo: Silo { link, stack, app } }
    }

    /// Whether all was received, or the connection is gone.
    pub fn is_done(&self) -> bool {
        self.silo.app.done
    }
}

/// Passes frames on until `done`; an error if `until` says so before. `aside` does what else is to be
/// done in each turn, and says whether there was any. The data goes from far to near where it is
/// `reversed`.
pub(super) fn drive<A: Link, B: Link>(
    mut path: EmulatedPath<A, B>,
    mut ours: Option<Ours>,
    done: impl Fn(Option<&Ours>) -> bool,
    until: impl Fn(Duration) -> bool,
    mut aside: impl FnMut(Time) -> bool,
    reversed: bool,
) -> Result<Ran, Failure> {
    let begun = Clock.now();
    let (mut late, mut last) = (Duration::ZERO, begun);
    loop {
        let now = Clock.now();
        late = late.max(now.since(last));
        last = now;
        let passed = path.turn(now) > 0;
        let mut busy = aside(now) || passed;
        if let Some(ours) = &mut ours {
            let turn = ours.silo.turn(now);
            busy |= turn.more || turn.frames > 0;
            if let Some(why) = ours.silo.app.broken {
                return Err(format!("the connection of ours ended: {why:?}").into());
            }
        }
        if done(ours.as_ref()) {
            let there = path.counters()[usize::from(reversed)];
            return Ok(Ran { took: now.since(begun), there, late, beside: None });
        }
        if !until(now.since(begun)) {
            return Err("the transfer takes too long, or was interrupted".into());
        }
        if !busy {
            path.wait(now, NAP)?;
        }
    }
}

/// The application of our stack.
struct End {
    left: u64,
    sends: bool,
    conn: Option<ConnId>,
    body: Body,
    done: bool,
    broken: Option<Closed>,
}

impl End {
    fn new(bytes: u64, sends: bool) -> Self {
        let body = Body::new(vec![7; PIECE as usize]);
        Self { left: bytes, sends, conn: None, body, done: false, broken: None }
    }

    fn fill<N: Net>(&mut self, net: &mut N, id: ConnId) {
        while self.left > 0 && net.unsent(id) < QUEUED {
            let len = u64::from(PIECE).min(self.left);
            net.send_body(id, &self.body, 0..len as u32);
            self.left -= len;
            if self.left == 0 {
                net.finish(id);
            }
        }
    }
}

impl App for End {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        if self.sends {
            self.fill(net, id);
        }
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        if !self.sends {
            self.left = self.left.saturating_sub(data.len() as u64);
            self.done |= self.left == 0;
        }
        data.len()
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.sends {
            self.fill(net, id);
        }
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, why: Closed) {
        if why != Closed::Finished && !self.done {
            self.broken = Some(why);
        }
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if self.sends && self.conn.is_none() {
            let to = RECEIVER.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
            self.conn = to.and_then(|to| net.connect(None, to).ok());
        }
        Wake::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{Impairment, Pair, PairConfig};

    /// What takes too long is given up, and says so.
    #[test]
    fn a_path_without_a_flow_is_given_up() {
        let pair = || Pair::new(PairConfig::default());
        let ((near, _a), (far, _b)) = (pair(), pair());
        let path = EmulatedPath::new(near, far, Impairment::default(), Impairment::default(), 1);
        let ran = drive(path, None, |_| false, |now| now < Duration::from_millis(5), |_| false, false);
        assert!(ran.is_err_and(|why| why.to_string().contains("too long")));
    }
}
