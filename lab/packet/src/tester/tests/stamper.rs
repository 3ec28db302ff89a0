//! A link that stamps frames, and a trial whose tagged frame is timed by that.

use super::*;
use core::cell::RefCell;
use link::{Capabilities, Counters, LinkState};
use std::io;
use std::os::fd::BorrowedFd;
use wire::Offload;

/// Frames leave so long after the tester's reading, and come so long before it.
const OUT: u64 = 40;
const IN: u64 = 30;

/// What both halves have.
#[derive(Default)]
struct Stamper {
    now: Cell<u64>,
    wanted: Cell<bool>,
    left: RefCell<Vec<(Vec<u8>, u64)>>,
    asked: Cell<u32>,
    /// Frames that come are stamped.
    stamps_arrivals: Cell<bool>,
}

struct Stamped<'a> {
    inner: &'a mut PairLink,
    by: &'a Stamper,
}

struct Half<'a, T> {
    inner: T,
    by: &'a Stamper,
}

impl Link for Stamped<'_> {
    type Rx<'b>
        = Half<'b, <PairLink as Link>::Rx<'b>>
    where
        Self: 'b;
    type Tx<'b>
        = Half<'b, <PairLink as Link>::Tx<'b>>
    where
        Self: 'b;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn split(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        let (rx, tx) = self.inner.split();
        (Half { inner: rx, by: self.by }, Half { inner: tx, by: self.by })
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.inner.poll_control(now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.inner.wait(wake, timeout)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

impl<R: Receive> Receive for Half<'_, R> {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        self.inner.receive(now, max)
    }

    fn frame(&self, index: usize) -> &[u8] {
        self.inner.frame(index)
    }

    fn stamp(&self, _index: usize) -> Option<u64> {
        self.by.stamps_arrivals.get().then(|| self.by.now.get() - IN)
    }

    fn release(&mut self) {
        self.inner.release();
    }
}

impl<T: Transmit> Transmit for Half<'_, T> {
    fn room(&self) -> usize {
        self.inner.room()
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.inner.slot()
    }

    fn commit(&mut self, len: usize, offload: Offload) {
        if self.by.wanted.take()
            && let Some(slot) = self.inner.slot()
        {
            self.by.left.borrow_mut().push((slot[..len].to_vec(), self.by.now.get() + OUT));
        }
        self.inner.commit(len, offload);
    }

    fn flush(&mut self, now: Time) {
        self.inner.flush(now);
    }

    fn stamp_next(&mut self) {
        self.by.wanted.set(true);
        self.by.asked.set(self.by.asked.get() + 1);
    }

    fn departed(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        self.by.left.borrow_mut().drain(..).for_each(|(frame, stamp)| each(&frame, stamp));
    }
}

/// A million frames a second for 5 ms through a device that delays by 5 us, of
/// which that of the middle is tagged. What was found, and how many departures
/// were asked for.
fn tagged(stamps_arrivals: bool) -> (TrialResult, u32) {
    let mut trial = plan(vec![stream("load", rate(1_000_000))], millis(5));
    trial.tag_after = Some(Duration::from_micros(2_500));
    trial.stamped_by = Some(StampedBy::Nic);
    let mut world = World::new(trial, 2, Faults { delay: 5_000, ..Faults::default() });
    let by = Stamper::default();
    by.stamps_arrivals.set(stamps_arrivals);
    while world.tester.stage(world.now) != TrialStage::Over {
        by.now.set(world.now);
        let mut clock = || {
            by.now.set(by.now.get() + 1);
            by.now.get()
        };
        let mut links: Vec<Stamped<'_>> = world.near.iter_mut().map(|inner| Stamped { inner, by: &by }).collect();
        world.tester.turn(&mut links, &mut clock, Time::ZERO);
        world.now += world.pace;
        world.dut.turn(&mut world.far, world.now);
    }
    (world.tester.result(world.now), by.asked.get())
}

#[test]
fn the_tagged_frame_alone_is_timed_by_stamps() {
    let (result, asked) = tagged(true);
    let lane = &result.lanes[0];
    let by = lane.tagged_by.as_ref().expect("stamps");
    let (stamped, own) = (lane.tagged_ns.expect("a latency"), by.tester_ns.expect("a latency"));
    // The tester's readings lie that far around the stamps.
    assert!(own.abs_diff(stamped + OUT + IN) <= 5, "{stamped} {own}");
    assert_eq!((asked, by.stamped.frames, by.stamped.by, result.stamps_doubt()), (1, 1, StampedBy::Nic, None));
    // All others are by the tester's clock.
    assert_eq!((lane.latency.samples, lane.stamped.as_ref()), (5_000, None));
}

#[test]
fn a_tagged_frame_without_a_stamp_has_no_latency_and_spoils_its_trial() {
    let (result, _) = tagged(false);
    let lane = &result.lanes[0];
    assert_eq!((lane.tagged_ns, lane.lost()), (None, 0));
    assert!(lane.tagged_by.as_ref().is_some_and(|by| by.tester_ns.is_some() && by.stamped.no_arrival == 1));
    let why = crate::verdict::spoilt(&result, 0.001).expect("spoilt");
    assert!(why.contains("1 of 1 frames that came have not both of the NIC's stamps"), "{why}");
}
