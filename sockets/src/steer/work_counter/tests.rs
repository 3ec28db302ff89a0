use super::super::tests::may_load;
use super::*;
use ebpf::{Map, MapKind};

/// A worker's seat, and the map, into which the tests write as the program
/// would.
struct Rig {
    work: Arc<ebpf::Shared>,
    seat: WorkCounter,
    now: Time,
}

impl Rig {
    fn new() -> Self {
        let map = Map::create("work", MapKind::SharedArray, 4, 2 * WORK_LINE as u32, 1).unwrap();
        let work = Arc::new(map.share().unwrap());
        let seat = WorkCounter::new(Arc::clone(&work), 1);
        Self { work, seat, now: Time::from_millis(5) }
    }

    fn choose(&self, n: u32) {
        self.work.word(WORK_LINE + WORK_CHOSEN).fetch_add(n, Relaxed);
    }

    fn outstanding(&self) -> i32 {
        let word = |at| self.work.word(WORK_LINE + at).load(Relaxed);
        word(WORK_CHOSEN).wrapping_sub(word(WORK_FINISHED)).cast_signed()
    }

    /// The worker's loop, with nothing to accept.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now = self.now + LOOK_EVERY;
            self.seat.look(self.now);
        }
    }
}

#[test]
fn handshakes_that_do_not_end_are_written_off() {
    if !may_load() {
        return;
    }
    let mut rig = Rig::new();
    rig.pass(Duration::from_millis(50));
    rig.choose(3);
    rig.seat.taken();
    rig.pass(WRITE_OFF - 2 * LOOK_EVERY);
    assert_eq!(rig.outstanding(), 3, "a handshake may take its time");
    rig.pass(4 * LOOK_EVERY);
    assert_eq!(rig.outstanding(), 1, "two did not come");
    rig.seat.finished();
    assert_eq!(rig.outstanding(), 0);
    // One that comes all the same counts after all.
    rig.seat.taken();
    assert_eq!(rig.outstanding(), 1);
    rig.seat.finished();
    rig.pass(3 * WRITE_OFF);
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn handshakes_under_way_are_not_written_off_while_others_end() {
    if !may_load() {
        return;
    }
    let mut rig = Rig::new();
    rig.pass(Duration::from_millis(50));
    // A new one comes each 20 ms, and is taken after 10; one is lost for ever.
    rig.choose(1);
    for _ in 0..500 {
        rig.choose(1);
        rig.pass(LOOK_EVERY);
        rig.seat.taken();
        rig.pass(LOOK_EVERY);
    }
    assert_eq!(rig.outstanding(), 500, "the lost one is written off, and nothing else");
}

#[test]
fn a_worker_that_was_held_up_writes_nothing_off() {
    if !may_load() {
        return;
    }
    let mut rig = Rig::new();
    rig.pass(Duration::from_millis(50));
    rig.choose(4);
    rig.pass(LOOK_EVERY);
    rig.now = rig.now + Duration::from_secs(60);
    rig.pass(LOOK_EVERY);
    assert_eq!(rig.outstanding(), 4, "two looks are not enough");
}

#[test]
fn connections_that_nobody_was_chosen_for_count() {
    if !may_load() {
        return;
    }
    let mut rig = Rig::new();
    rig.seat.taken();
    assert_eq!(rig.outstanding(), 1);
    rig.choose(1);
    rig.seat.taken();
    assert_eq!(rig.outstanding(), 2);
    rig.seat.finished();
    rig.seat.finished();
    assert_eq!(rig.outstanding(), 0);
}

#[test]
fn counts_wrap() {
    if !may_load() {
        return;
    }
    let mut rig = Rig::new();
    rig.choose(u32::MAX);
    (rig.seat.taken, rig.seat.closed) = (u32::MAX, u32::MAX);
    rig.seat.tell();
    rig.choose(2);
    rig.seat.taken();
    assert_eq!(rig.outstanding(), 2);
    rig.seat.taken();
    rig.seat.finished();
    assert_eq!(rig.outstanding(), 1);
}

#[test]
fn a_seat_that_is_left_is_out_of_service() {
    if !may_load() {
        return;
    }
    let Rig { work, mut seat, .. } = Rig::new();
    let besides = || work.word(WORK_LINE + WORK_BESIDES).load(Relaxed);
    seat.publish(u32::MAX);
    assert_eq!(besides(), BESIDES_MAX);
    seat.set_in_service(false);
    seat.publish(1);
    assert_eq!(besides(), OUT_OF_SERVICE);
    seat.set_in_service(true);
    assert_eq!(besides(), 1);
    drop(seat);
    assert_eq!(besides(), OUT_OF_SERVICE);
}
