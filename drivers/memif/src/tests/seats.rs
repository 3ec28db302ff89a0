//! Interfaces whose queues several processes have, all of them here.

use super::{Random, address, check, config, fill};
use crate::{Config, KeptMemif, MemifSeatRx, MemifSeatTx, Role, SeatMemif};
use core::time::Duration;
use wire::Time;

/// Both ends, and their time.
struct Scene {
    ends: [(KeptMemif, Config); 2],
    now: Time,
}

type Side = (MemifSeatRx, MemifSeatTx);

impl Scene {
    fn new() -> Self {
        let address = address();
        let ends = [Role::Server, Role::Client].map(|role| {
            let config = config(&address, role);
            (KeptMemif::open(config.clone()).expect("open"), config)
        });
        Self { ends, now: Time::ZERO }
    }

    /// Polls both until each has told of another connection.
    fn connect(&mut self) {
        let mut told = [false; 2];
        for _ in 0..20_000 {
            self.now = self.now + Duration::from_millis(1);
            for (end, told) in self.ends.iter_mut().zip(&mut told) {
                *told |= end.0.poll(self.now);
            }
            if told == [true; 2] && self.ends.iter().all(|(kept, _)| kept.share().expect("shared").text.contains(' ')) {
                return;
            }
        }
        panic!("no connection");
    }

    /// A process at one end.
    fn seat(&self, end: usize) -> Side {
        let (kept, config) = &self.ends[end];
        let mut seat = SeatMemif::given(config, kept.share().expect("shared")).expect("given");
        seat.queues.pop().expect("a queue")
    }
}

fn send(side: &mut Side, numbers: &mut core::ops::Range<u64>) -> usize {
    let frames: Vec<Vec<u8>> = numbers
        .clone()
        .map(|number| {
            let mut slot = [0; 2048];
            let len = fill(number, &mut slot);
            slot[..len].to_vec()
        })
        .collect();
    let sent = side.1.put(&mut frames.iter().map(Vec::as_slice));
    side.1.kick();
    numbers.start += sent as u64;
    sent
}

fn receive(side: &mut Side, max: usize, next: &mut u64) {
    let mut bytes = Vec::new();
    let mut found = Vec::new();
    side.0.take(max, &mut bytes, &mut |at| found.push(at));
    for at in found {
        check(*next, &bytes[at]);
        *next += 1;
    }
}

/// Whoever sends and whoever receives, frames come in order and once; a process that is there no more
/// leaves nothing behind.
#[test]
fn processes_take_turns_at_both_ends() {
    let mut scene = Scene::new();
    scene.connect();
    let mut random = Random(1);
    for from in [0, 1] {
        let to = 1 - from;
        let (mut senders, mut receivers) = ([scene.seat(from), scene.seat(from)], [scene.seat(to), scene.seat(to)]);
        let (mut sent, mut next) = (0, 0);
        while sent < 1_000 {
            let mut numbers = sent..(sent + random.below(40)).min(1_000);
            send(&mut senders[random.below(2) as usize], &mut numbers);
            sent = numbers.start;
            receive(&mut receivers[random.below(2) as usize], random.below(50) as usize, &mut next);
            if random.below(10) == 0 {
                senders[0] = scene.seat(from);
                receivers[1] = scene.seat(to);
            }
        }
        while receivers[0].0.has_frames() {
            receive(&mut receivers[0], 64, &mut next);
        }
        assert_eq!(next, 1_000);
    }
}

/// A peer that writes nonsense is found out by whichever process looks, and another connection follows.
#[test]
fn a_peer_that_breaks_the_protocol_is_refused_once() {
    let mut scene = Scene::new();
    scene.connect();
    let mut faults = 0;
    for end in [0, 1] {
        let (mut one, mut other, peer) = (scene.seat(end), scene.seat(end), scene.seat(1 - end));
        peer.1.spoil();
        for side in [&mut one, &mut other] {
            assert!(side.0.has_frames());
            receive(side, 64, &mut 0);
            assert!(side.0.take_fault().is_some() && !side.0.has_frames());
            faults += u32::from(scene.ends[end].0.refuse(epoch(&scene, end)));
        }
        let now = scene.now;
        assert_eq!([(); 2].map(|()| scene.ends[end].0.poll(now)), [true, false], "whoever keeps it hears of that once");
        assert!(scene.seat(end).0.arm().0.is_none(), "there is no peer");
        assert_eq!(send(&mut scene.seat(end), &mut (0..3)), 3, "to nobody");
        scene.connect();
    }
    assert_eq!(faults, 2, "each once");
}

fn epoch(scene: &Scene, end: usize) -> u32 {
    let text = scene.ends[end].0.share().expect("shared").text;
    text.split(' ').next().expect("a word").parse().expect("a number")
}
