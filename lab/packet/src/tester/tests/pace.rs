//! Frames that come do not make those late that are due.

use super::*;
use link::{Capabilities, LinkState};
use std::rc::Rc;
use wire::Offload;

/// What a look at the ring takes, a frame that has come, and one that is written.
const LOOK: u64 = 100;
const FRAME: u64 = 120;
const WRITE: u64 = 60;

/// A link whose frames take time.
struct Costly {
    of: PairLink,
    now: Rc<Cell<u64>>,
    /// What each sent frame takes.
    write: u64,
}

struct CostlyRx<'a>(<PairLink as Link>::Rx<'a>, &'a Cell<u64>);
struct CostlyTx<'a>(<PairLink as Link>::Tx<'a>, &'a Cell<u64>, u64);

impl Link for Costly {
    type Rx<'a> = CostlyRx<'a>;
    type Tx<'a> = CostlyTx<'a>;

    fn capabilities(&self) -> Capabilities {
        self.of.capabilities()
    }

    fn split(&mut self) -> (CostlyRx<'_>, CostlyTx<'_>) {
        let (rx, tx) = self.of.split();
        (CostlyRx(rx, &self.now), CostlyTx(tx, &self.now, self.write))
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.of.poll_control(now)
    }

    fn wait(&mut self, other: Option<std::os::fd::BorrowedFd<'_>>, most: Duration) -> std::io::Result<()> {
        self.of.wait(other, most)
    }

    fn counters(&self) -> link::Counters {
        self.of.counters()
    }
}

impl Receive for CostlyRx<'_> {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let count = self.0.receive(now, max);
        self.1.set(self.1.get() + LOOK + FRAME * count as u64);
        count
    }

    fn frame(&self, index: usize) -> &[u8] {
        self.0.frame(index)
    }

    fn release(&mut self) {
        self.0.release();
    }
}

impl Transmit for CostlyTx<'_> {
    fn room(&self) -> usize {
        self.0.room()
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.0.slot()
    }

    fn commit(&mut self, len: usize, offload: Offload) {
        self.1.set(self.1.get() + self.2);
        self.0.commit(len, offload);
    }

    fn flush(&mut self, now: Time) {
        self.0.flush(now);
    }
}

/// A plan over links whose frames take so long to send, through a device.
fn over(write: u64, plan: Plan, faults: Faults) -> TrialResult {
    let clock = Rc::new(Cell::new(0));
    let (near, far): (Vec<_>, Vec<_>) =
        (0..2).map(|_| Pair::new(PairConfig { ring: 1_024, ..PairConfig::default() })).unzip();
    let mut near: Vec<Costly> = near.into_iter().map(|of| Costly { of, now: clock.clone(), write }).collect();
    let (mut far, mut dut) = (far, Dut::new(faults));
    let mut tester = Tester::new(plan, 2, HZ, 1_000);
    while tester.stage(clock.get()) != TrialStage::Over {
        let mut read = || {
            clock.set(clock.get() + 20);
            clock.get()
        };
        tester.turn(&mut near, &mut read, Time::ZERO);
        dut.turn(&mut far, clock.get());
    }
    tester.result(clock.get())
}

/// A million frames a second through a device that stands still for 100 us and
/// gives all of them back at once.
fn through(write: u64) -> TrialResult {
    let eager = Duration::from_nanos(400);
    let plan = Plan { eager, ..plan(vec![stream("load", rate(1_000_000))], millis(4)) };
    over(write, plan, Faults { stall: (1_000_000, 1_100_000), ..Faults::default() })
}

#[test]
fn frames_that_come_make_none_late_that_is_due() {
    let result = through(WRITE);
    let lane = &result.lanes[0];
    assert_eq!((lane.sent.frames, lane.received, lane.lost()), (4_000, 4_000, 0));
    // 64 of them would take 8 us.
    assert!(lane.gaps.behind_max_ns <= 60, "{} ns", lane.gaps.behind_max_ns);
}

#[test]
fn a_link_that_is_slow_to_send_is_still_received_from() {
    // The next frame is due whenever one has been sent.
    let result = through(700);
    let lane = &result.lanes[0];
    assert_eq!((lane.received, lane.lost()), (lane.sent.frames, 0), "{:?}", lane.sent);
    assert!(lane.latency.max_ns < 400_000, "{:?}", lane.latency);
}

#[test]
fn a_frame_of_one_way_does_not_wait_until_that_of_the_other_is_sent() {
    // As over a packet socket, in whose system call the kernel forwards the frame, too.
    const SLOW: u64 = 12_000;
    let both = Stream { ways: [true; 2], ..stream("load", rate(10_000)) };
    let result = over(SLOW, plan(vec![both.clone()], millis(20)), Faults::default());
    for lane in &result.lanes {
        assert_eq!((lane.sent.frames, lane.sent.late, lane.lost()), (200, 0, 0), "{:?}", lane.sent);
        assert!(lane.gaps.behind_max_ns <= 1_000, "{} ns", lane.gaps.behind_max_ns);
    }
    // Also at another rate from some time on, but for the frame that is due just then.
    let stage = Some(RateStep { after: millis(10), share: 0.5 });
    let result = over(SLOW, Plan { stage, ..plan(vec![both.clone()], millis(20)) }, Faults::default());
    for lane in &result.lanes {
        assert!(lane.sent.late <= 1 && lane.sent.frames.abs_diff(150) <= 1, "{:?}", lane.sent);
    }
    // Frames that are no farther apart than that are due together, as they were.
    let dense = Stream { pacing: rate(100_000), ..both };
    let result = over(WRITE, plan(vec![dense], millis(2)), Faults::default());
    assert!(result.lanes.iter().all(|lane| lane.sent.frames == 200));
}
