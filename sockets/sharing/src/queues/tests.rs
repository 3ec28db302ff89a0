//! Seats at queues that all have mapped, in one process.

use super::*;
use std::collections::VecDeque;
use std::sync::Mutex;

/// A queue's two rings.
#[derive(Default)]
struct Rings {
    arrived: VecDeque<u8>,
    sent: Vec<u8>,
    /// Rooms to send from that are free.
    room: usize,
    is_down: bool,
}

#[derive(Clone)]
struct Side(Arc<Mutex<Rings>>);

impl CommonReceive for Side {
    fn has_frames(&self) -> bool {
        !self.0.lock().unwrap().arrived.is_empty()
    }
    fn take(&mut self, max: usize, into: &mut Vec<u8>, each: &mut dyn FnMut(Range<usize>, bool)) {
        let mut rings = self.0.lock().unwrap();
        for _ in 0..max {
            let Some(frame) = rings.arrived.pop_front() else { break };
            let start = into.len();
            into.extend([frame; 60]);
            each(start..into.len(), frame.is_multiple_of(2));
        }
    }
    fn poll_control(&mut self, _now: Time) -> LinkState {
        if self.0.lock().unwrap().is_down { LinkState::Down } else { LinkState::Up }
    }
    fn arm<'q>(&'q mut self, _each: &mut dyn FnMut(BorrowedFd<'q>)) -> Duration {
        Duration::MAX
    }
    fn dropped(&self) -> u64 {
        0
    }
}

impl CommonTransmit for Side {
    fn longest(&self) -> usize {
        60
    }
    fn put(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize {
        let mut rings = self.0.lock().unwrap();
        let before = rings.room;
        while rings.room > 0 {
            let Some(frame) = frames.next() else { break };
            rings.room -= 1;
            rings.sent.push(frame[0]);
        }
        before - rings.room
    }
    fn kick(&mut self) -> bool {
        true
    }
}

/// Seats at so many queues.
struct Scene {
    memory: Arc<SharedMemory>,
    queues: Vec<Side>,
}

impl Scene {
    fn new(queues: usize) -> Self {
        let memory = Arc::new(SharedMemory::create(3, &[7; 14]).unwrap());
        let rings = || Side(Arc::new(Mutex::new(Rings { room: 100, ..Rings::default() })));
        Self { memory, queues: (0..queues).map(|_| rings()).collect() }
    }

    fn seat(&self, seat: usize) -> QueueSet<Side, Side> {
        let queues = self.queues.iter().map(|queue| (queue.clone(), queue.clone())).collect();
        let capabilities = Capabilities {
            mtu: 1_500,
            receive_checksum: true,
            transmit_checksum: false,
            segmentation: None,
            queues: 1,
            shared_frames: false,
        };
        self.memory.join(seat);
        QueueSet::new(queues, capabilities, Arc::clone(&self.memory), seat).unwrap()
    }

    fn arrive(&self, queue: usize, frames: impl IntoIterator<Item = u8>) {
        self.queues[queue].0.lock().unwrap().arrived.extend(frames);
    }
}

/// Frames from this number on come by another seat's queue.
const FOREIGN: u8 = 100;

/// A time when nothing is due.
const NOW: Time = Time::from_nanos(1_000_000_000);

/// Takes a burst, as whoever passes on what is another's.
fn turn(set: &mut QueueSet<Side, Side>, memory: &SharedMemory, own: usize, now: Time) -> Vec<u8> {
    let held = set.held();
    let (rx, _) = set.split();
    let count = rx.receive(now, 32);
    let foreign = (0..count).position(|index| rx.frame(index)[0] >= FOREIGN).unwrap_or(count);
    assert_eq!(held.own_frames(), if rx.is_divided { foreign } else { 0 });
    let seen = (0..count).map(|index| {
        assert_eq!(rx.verified(index), rx.frame(index)[0].is_multiple_of(2));
        rx.frame(index)[0]
    });
    let seen = seen.collect();
    rx.release();
    held.let_go(memory, own);
    seen
}

fn send(set: &mut QueueSet<Side, Side>, frames: impl IntoIterator<Item = u8>) {
    let (_, tx) = set.split();
    for frame in frames {
        tx.slot().unwrap()[0] = frame;
        tx.commit(60, Offload::NONE);
    }
    tx.flush(NOW);
}

/// One receives at a time. Who died amid it keeps nobody from it once that is known, and nobody takes
/// it from one that only stands still.
#[test]
fn a_queue_is_received_from_by_one_at_a_time() {
    let scene = Scene::new(1);
    let (mut one, mut other) = (scene.seat(0), scene.seat(1));
    scene.arrive(0, [1, 2]);
    let (rx, _) = one.split();
    assert_eq!(rx.receive(NOW, 32), 2);
    scene.arrive(0, [3]);
    let much_later = NOW + Duration::from_secs(60);
    assert!(turn(&mut other, &scene.memory, 1, much_later).is_empty());
    // The first is killed.
    scene.memory.vacate(0);
    assert_eq!(turn(&mut other, &scene.memory, 1, much_later), [3]);
    // It has let go of it.
    scene.arrive(0, [4]);
    let mut third = scene.seat(2);
    assert_eq!(turn(&mut third, &scene.memory, 2, much_later), [4]);
}

/// One sends at a time; what waits for that, or for room, is tried again, and leaves once and in order.
#[test]
fn what_cannot_be_sent_waits() {
    let scene = Scene::new(1);
    let mut one = scene.seat(0);
    assert!(scene.memory.begin_turn(0, Turn::Send, 1), "another is amid it");
    send(&mut one, [1, 2]);
    assert_eq!(scene.queues[0].0.lock().unwrap().sent, []);
    assert_eq!(one.arm(&mut |_| {}), UNSENT_NAP);
    // It is killed.
    scene.memory.vacate(1);
    scene.queues[0].0.lock().unwrap().room = 3;
    send(&mut one, [3, 4]);
    assert_eq!(scene.queues[0].0.lock().unwrap().sent, [1, 2, 3]);
    assert_eq!(one.arm(&mut |_| {}), UNSENT_NAP);
    scene.queues[0].0.lock().unwrap().room = 3;
    send(&mut one, []);
    assert_eq!(scene.queues[0].0.lock().unwrap().sent, [1, 2, 3, 4]);
    assert_eq!(one.arm(&mut |_| {}), Duration::MAX);
    assert_eq!((one.counters().tx_frames, one.counters().tx_bytes), (4, 240));
    // While the link is down nothing waits for it.
    scene.queues[0].0.lock().unwrap().is_down = true;
    one.poll_control(NOW);
    send(&mut one, [5, 6]);
    assert_eq!(one.arm(&mut |_| {}), Duration::MAX);
    assert_eq!(one.counters().tx_dropped, 2);
    let (_, tx) = one.split();
    for _ in 0..SLOTS {
        assert!(tx.slot().is_some());
        tx.commit(60, Offload::NONE);
    }
    assert!(tx.slot().is_none() && tx.room() == 0);
}

/// Whoever is amid a turn that another wants is told of, by whom it is.
#[test]
fn who_is_in_the_way_is_known() {
    let scene = Scene::new(1);
    let (mut one, mut other) = (scene.seat(0), scene.seat(1));
    assert_eq!((one.in_the_way(), scene.memory.is_amid_turn(1)), (None, false));
    scene.arrive(0, [1]);
    let (rx, _) = other.split();
    assert_eq!(rx.receive(NOW, 32), 1);
    assert_eq!(one.in_the_way(), None, "nothing waits");
    scene.arrive(0, [2]);
    assert_eq!((one.in_the_way(), other.in_the_way(), scene.memory.is_amid_turn(1)), (Some(1), None, true));
    other.held().let_go(&scene.memory, 1);
    assert_eq!((one.in_the_way(), scene.memory.is_amid_turn(1)), (None, false));
    assert_eq!(turn(&mut one, &scene.memory, 0, NOW), [2]);
    // The same of sending.
    assert!(scene.memory.begin_turn(0, Turn::Send, 1));
    assert_eq!(one.in_the_way(), None, "it sends nothing");
    send(&mut one, [3]);
    assert_eq!(one.in_the_way(), Some(1));
    scene.memory.end_turn(0, Turn::Send, 1);
    send(&mut one, []);
    assert_eq!(one.in_the_way(), None);
}

/// Each queue is one's of those that accept connections, and another takes what is left there for long.
#[test]
fn queues_are_divided_among_those_who_accept() {
    let scene = Scene::new(2);
    let mut seats: Vec<_> = (0..3).map(|seat| scene.seat(seat)).collect();
    let mut all = |now| {
        let mut each = seats.iter_mut().enumerate();
        core::array::from_fn(|_| {
            let (seat, set) = each.next().expect("three");
            turn(set, &scene.memory, seat, now)
        })
    };
    // More seats than queues: whoever comes first.
    scene.arrive(0, [1]);
    assert_eq!(all(NOW), [vec![1], vec![], vec![]]);
    // Two accept.
    [1, 2].iter().for_each(|seat| scene.memory.set_doors(*seat, 1));
    scene.memory.note_change();
    [0, 1].iter().for_each(|queue| scene.memory.set_looked(*queue, NOW));
    scene.arrive(0, [2, 3]);
    scene.arrive(1, [4]);
    assert_eq!(all(NOW), [vec![], vec![2, 3], vec![4]]);
    // One of them is away for long.
    scene.arrive(1, [105]);
    scene.arrive(0, [5]);
    let later = NOW + OVERDUE;
    assert_eq!(turn(&mut seats[1], &scene.memory, 1, NOW), [5]);
    assert_eq!(seats[1].arm(&mut |_| {}), LOOK_AFTER_OVERDUE);
    scene.arrive(0, [6]);
    assert_eq!(turn(&mut seats[1], &scene.memory, 1, later), [6, 105]);
    // And ends.
    scene.memory.vacate(2);
    scene.arrive(1, [7]);
    assert_eq!(turn(&mut seats[1], &scene.memory, 1, later), [7]);
}
