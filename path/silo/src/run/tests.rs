//! The loop on the real clock: only what no amount of delay can change.

use super::*;
use app::{Closed, ConnId, Net, Opened, Wake};
use link::{Capabilities, Counters, Pair, PairConfig, PairLink, Receive, Transmit};
use stack::{Address, LinkOffload, Seeds, Stack};
use wire::{Mac, Offload};

/// Does nothing, so that all there is to do is the stack's.
struct Nothing;

impl App for Nothing {
    fn on_open<N: Net>(&mut self, _net: &mut N, _id: ConnId, _how: Opened) {}
    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        data.len()
    }
    fn on_end<N: Net>(&mut self, _net: &mut N, _id: ConnId, _held: usize) {}
    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}
    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}
    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {}
    fn on_turn<N: Net>(&mut self, _net: &mut N) -> Wake {
        Wake::Idle
    }
    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

/// A pair's end that counts how often it was waited on, and for how long at
/// most.
struct Watched {
    link: PairLink,
    waits: usize,
    longest: Duration,
    /// Who sends a frame into each wait.
    feeder: Option<PairLink>,
}

impl Link for Watched {
    type Rx<'a> = <PairLink as Link>::Rx<'a>;
    type Tx<'a> = <PairLink as Link>::Tx<'a>;

    fn capabilities(&self) -> Capabilities {
        self.link.capabilities()
    }
    fn split(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        self.link.split()
    }
    fn poll_control(&mut self, now: Time) -> LinkState {
        self.link.poll_control(now)
    }
    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.waits += 1;
        self.longest = self.longest.max(timeout);
        self.feeder.iter_mut().for_each(send_request);
        self.link.wait(wake, timeout)
    }
    fn counters(&self) -> Counters {
        self.link.counters()
    }
}

/// Looks from the other end whether the answer has come.
struct Asker {
    far: PairLink,
    answered: Option<Time>,
    attended: usize,
}

impl<A> Attendant<Watched, A> for Asker {
    fn attend(&mut self, _silo: &mut Silo<Watched, A>, now: Time, _usage: &Usage, _link: LinkState) -> Next {
        self.attended += 1;
        let (rx, _) = self.far.split();
        if rx.receive(now, 1) > 0 {
            self.answered = self.answered.or(Some(now));
        }
        rx.release();
        if self.answered.is_some() { Next::Stop } else { Next::Go }
    }
}

/// An ARP request for 10.0.0.2 (RFC 826).
const REQUEST: [u8; 42] = [
    255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0,
    0, 0, 0, 0, 10, 0, 0, 2,
];

fn send_request(from: &mut PairLink) {
    let (_, tx) = from.split();
    tx.slot().expect("it is empty")[..REQUEST.len()].copy_from_slice(&REQUEST);
    tx.commit(REQUEST.len(), Offload::NONE);
    tx.flush(Clock.now());
}

/// How long the silo took to answer, its usage, and how often it waited.
fn answer(pace: Pace) -> (Duration, Usage, usize) {
    let (near, mut far) = Pair::new(PairConfig::default());
    let begun = Clock.now();
    send_request(&mut far);
    let mut config = stack::Config::new(Mac([2, 0, 0, 0, 0, 1]), near.capabilities().mtu);
    config.addresses = vec![Address { ip: [10, 0, 0, 2].into(), prefix_len: 24 }];
    let offload = LinkOffload { checksum: false, segmentation: None };
    let stack =
        Stack::new(config, offload, &Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] }, begun);
    let mut silo =
        Silo { link: Watched { link: near, waits: 0, longest: Duration::ZERO, feeder: None }, stack, app: Nothing };
    let mut asker = Asker { far, answered: None, attended: 0 };
    let usage = run(&mut silo, pace, &mut asker).expect("a pair can be waited on");
    (asker.answered.expect("it stops for nothing else").since(begun), usage, silo.link.waits)
}

/// Polls for a while, and sleeps then.
const SPIN_FIRST: Idle = Idle::SpinFor { spin_for: Duration::from_micros(50), max_wait: Idle::MAX_WAIT };

/// Tries of what shows only if the machine lets the loop run in time: else the
/// delay is over before there is anything to sleep for.
const TRIES: usize = 50;

#[test]
fn a_frame_held_back_is_not_sent_early_and_is_sent() {
    let delay = Duration::from_millis(20);
    for idle in [Idle::Spin, SPIN_FIRST, Idle::ADAPTIVE, Idle::Sleep(Duration::from_millis(200))] {
        let sleeps = |_| {
            let (took, usage, _) = answer(Pace { idle, tx_delay: delay });
            assert!(took >= delay, "{idle}: {took:?}");
            assert!(usage.turns >= 2, "{idle}: {usage:?}");
            usage.sleeps > 0
        };
        // A sleep ends for it: else one of 200 ms would stand between.
        if idle == Idle::Spin {
            assert!(!(0..2).any(sleeps), "it never sleeps");
        } else {
            assert!((0..TRIES).any(sleeps), "{idle}: it sleeps meanwhile");
        }
    }
}

#[test]
fn who_sleeps_by_the_clock_does_not_wait_for_frames() {
    let idle = Idle::Sleep(Duration::from_micros(100));
    let sleeps = |_| {
        let (_, usage, waits) = answer(Pace { idle, tx_delay: Duration::from_millis(5) });
        assert_eq!(waits, 0);
        // The last one may be cut short.
        usage.sleeps > 1 && usage.asleep_ns >= usage.sleeps * 20_000
    };
    assert!((0..TRIES).any(sleeps));
}

/// Looks up after a while, for as many times.
struct Sleeper {
    pause: Option<Duration>,
    left: usize,
}

impl<A> Attendant<Watched, A> for Sleeper {
    fn attend(&mut self, silo: &mut Silo<Watched, A>, _now: Time, _usage: &Usage, _link: LinkState) -> Next {
        self.left -= 1;
        // No need to go on once it has slept long enough.
        if self.left == 0 || silo.link.longest > ATTEND_ASLEEP { Next::Stop } else { Next::Go }
    }

    fn due(&self, _silo: &Silo<Watched, A>, now: Time, _usage: &Usage) -> Time {
        now + self.pause.unwrap_or(ATTEND_ASLEEP)
    }
}

/// One that has nothing to do is not woken to be looked after: its attendant
/// says when.
#[test]
fn an_idle_silo_sleeps_until_its_attendant_wants_it() {
    let longest = |pause| {
        let (near, _far) = Pair::new(PairConfig::default());
        let config = stack::Config::new(Mac([2, 0, 0, 0, 0, 1]), near.capabilities().mtu);
        let offload = LinkOffload { checksum: false, segmentation: None };
        let stack = Stack::new(
            config,
            offload,
            &Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] },
            Clock.now(),
        );
        let link = Watched { link: near, waits: 0, longest: Duration::ZERO, feeder: None };
        let mut silo = Silo { link, stack, app: Nothing };
        let mut sleeper = Sleeper { pause, left: 1_000 };
        run(&mut silo, Idle::ADAPTIVE, &mut sleeper).expect("a pair can be waited on");
        silo.link.longest
    };
    assert!(longest(Some(Duration::from_secs(60))) > Duration::from_millis(500));
    assert!(longest(None) <= ATTEND_ASLEEP);
}

/// Counts how often it looks, until the link was waited on so many times.
struct Looker {
    looks: usize,
    waits: usize,
}

impl<A> Attendant<Watched, A> for Looker {
    fn attend(&mut self, silo: &mut Silo<Watched, A>, _now: Time, _usage: &Usage, _link: LinkState) -> Next {
        self.looks += 1;
        if silo.link.waits >= self.waits { Next::Stop } else { Next::Go }
    }
}

/// Frames that wake a silo have its attendant look once in a while; whatever else wakes it, at once.
#[test]
fn a_wake_that_brings_frames_is_not_looked_after_by_itself() {
    let looks = |fed: bool| {
        let (near, far) = Pair::new(PairConfig::default());
        let begun = Clock.now();
        let config = stack::Config::new(Mac([2, 0, 0, 0, 0, 1]), near.capabilities().mtu);
        let offload = LinkOffload { checksum: false, segmentation: None };
        let seeds = Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] };
        let stack = Stack::new(config, offload, &seeds, begun);
        // The other end stays, or the link would have none.
        let (feeder, _far) = if fed { (Some(far), None) } else { (None, Some(far)) };
        let link = Watched { link: near, waits: 0, longest: Duration::ZERO, feeder };
        let mut silo = Silo { link, stack, app: Nothing };
        let mut looker = Looker { looks: 0, waits: 300 };
        run(&mut silo, Idle::ADAPTIVE, &mut looker).expect("a pair can be waited on");
        (looker.looks, silo.link.waits, Clock.now().since(begun))
    };
    let (looked, waits, took) = looks(true);
    let due = took.as_millis() as usize;
    assert!(looked <= due + 3, "{looked} times in {waits} waits, {due} ms");
    let (looked, waits, _) = looks(false);
    assert!(looked >= waits, "{looked} times in {waits} waits");
}
