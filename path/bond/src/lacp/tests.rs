use super::*;
use core::fmt::Write;
use core::time::Duration;

const A: Mac = Mac([2, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([2, 0, 0, 0, 0, 0xb]);
const C: Mac = Mac([2, 0, 0, 0, 0, 0xc]);

/// How long a data unit is under way.
const FLIGHT: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A cable between two ports: system and port of each end.
type Cable = ((usize, usize), (usize, usize));

/// Systems, the cables between their ports, and a virtual clock.
struct Room {
    now: Time,
    systems: Vec<Lacp>,
    cables: Vec<Cable>,
    under_way: Vec<(Time, (usize, usize), SlowPdu)>,
    /// Whether the data unit that this port has just sent is lost.
    loses: Box<dyn FnMut((usize, usize)) -> bool>,
    /// What changed at system 0, a line each.
    log: String,
    states: Vec<String>,
    /// When each port sent.
    sent: Vec<((usize, usize), Time)>,
}

impl Room {
    fn new(systems: Vec<Lacp>, cables: &[Cable]) -> Self {
        let mut room = Self {
            now: Time::ZERO,
            systems,
            cables: cables.to_vec(),
            under_way: Vec::new(),
            loses: Box::new(|_| false),
            log: String::new(),
            states: Vec::new(),
            sent: Vec::new(),
        };
        for end in cables.iter().flat_map(|(a, b)| [*a, *b]) {
            room.link(end, true);
        }
        room
    }

    /// Two systems of two ports, each joined with the other's.
    fn pair(a: &Settings, b: &Settings) -> Self {
        let cables = [((0, 0), (1, 0)), ((0, 1), (1, 1))];
        Self::new(vec![Lacp::new(a, A, 2), Lacp::new(b, B, 2)], &cables)
    }

    fn link(&mut self, (system, port): (usize, usize), up: bool) {
        self.systems[system].on_link(port, up, self.now);
    }

    fn peer(&self, end: (usize, usize)) -> Option<(usize, usize)> {
        self.cables.iter().find_map(|(a, b)| match () {
            () if *a == end => Some(*b),
            () if *b == end => Some(*a),
            () => None,
        })
    }

    fn send(&mut self) {
        for system in 0..self.systems.len() {
            for port in 0..self.systems[system].ports().len() {
                while let Some(pdu) = self.systems[system].poll_pdu(port, self.now) {
                    self.sent.push(((system, port), self.now));
                    if let Some(peer) = self.peer((system, port))
                        && !(self.loses)((system, port))
                    {
                        self.under_way.push((self.now + FLIGHT, peer, pdu));
                    }
                }
            }
        }
    }

    fn note(&mut self) {
        let state = |port: &Port| format!("{:?} {:?} {:?}", port.receive(), port.selected(), port.mux());
        let states: Vec<_> = self.systems[0].ports().iter().map(state).collect();
        for (port, state) in states.iter().enumerate() {
            if self.states.get(port) != Some(state) {
                let _ = writeln!(self.log, "{:6} port {port}: {state}", self.now.as_millis());
            }
        }
        self.states = states;
    }

    fn run(&mut self, until: Time) {
        loop {
            self.send();
            self.note();
            let timers = self.systems.iter().map(|system| system.deadline(self.now));
            let flights = self.under_way.iter().map(|(at, ..)| *at);
            let next = timers.chain(flights).fold(Time::MAX, Time::min);
            if next > until {
                self.now = until;
                return;
            }
            assert!(next > self.now || self.under_way.iter().any(|(at, ..)| *at <= self.now), "time stands still");
            self.now = next;
            let (arrived, rest) = core::mem::take(&mut self.under_way).into_iter().partition(|(at, ..)| *at <= next);
            self.under_way = rest;
            for (_, (system, port), pdu) in arrived {
                self.systems[system].on_pdu(port, &pdu, next);
            }
            for system in &mut self.systems {
                system.on_time(next);
            }
        }
    }

    fn distributing(&self) -> Vec<u32> {
        self.systems.iter().map(Lacp::distributing).collect()
    }

    fn collecting(&self) -> Vec<u32> {
        self.systems.iter().map(Lacp::collecting).collect()
    }

    /// No port spoke more than three times in any second (802.1AX-2014 clause
    /// 6.4.16).
    fn assert_polite(&self) {
        for (end, first) in &self.sent {
            let within = |(other, at): &&((usize, usize), Time)| {
                other == end && *at >= *first && at.since(*first) < Duration::from_secs(1)
            };
            assert!(self.sent.iter().filter(within).count() <= 3, "{end:?} from {first:?} on");
        }
    }
}

/// The whole life of an aggregation, from nothing over the failure of a port
/// in one direction to its end.
#[test]
fn transitions() {
    let mut room = Room::pair(&Settings::default(), &Settings::default());
    room.run(at(10_500));
    assert_eq!((room.distributing(), room.collecting()), (vec![3, 3], vec![3, 3]));
    room.log.push_str("       system 1 no longer hears port 0\n");
    room.loses = Box::new(|end| end == (0, 0));
    room.run(at(30_000));
    assert_eq!((room.distributing(), room.collecting()), (vec![2, 2], vec![2, 2]));
    room.log.push_str("       and hears it again\n");
    room.loses = Box::new(|_| false);
    room.run(at(40_000));
    assert_eq!(room.distributing(), [3, 3]);
    room.log.push_str("       port 1 has no carrier\n");
    room.link((0, 1), false);
    room.link((1, 1), false);
    assert_eq!(room.distributing(), [1, 1], "at once");
    room.run(at(50_000));
    room.log.push_str("       and again has\n");
    room.link((0, 1), true);
    room.link((1, 1), true);
    room.run(at(60_000));
    assert_eq!(room.distributing(), [3, 3]);
    room.log.push_str("       system 1 is silent\n");
    room.loses = Box::new(|end| end.0 == 1);
    room.run(at(70_000));
    assert_eq!(room.distributing(), [0, 0]);
    room.assert_polite();
    assert_eq!(room.log, include_str!("transitions.txt"));
}

#[test]
fn ports_join_within_the_wait_and_a_round_trip() {
    for rate in [LacpRate::Fast, LacpRate::Slow] {
        let settings = Settings { rate, ..Settings::default() };
        let mut room = Room::pair(&settings, &Settings::default());
        room.run(at(2_500));
        assert_eq!(room.distributing(), [3, 3], "{rate}");
    }
}

/// 802.1AX-2014 clause 6.4.13: two passive sides do not speak; one active side
/// is enough.
#[test]
fn one_side_must_be_active() {
    let passive = Settings { active: false, ..Settings::default() };
    let mut room = Room::pair(&passive, &Settings::default());
    room.run(at(5_000));
    assert_eq!(room.distributing(), [3, 3]);
    let mut room = Room::pair(&passive, &passive);
    room.run(at(100_000));
    assert_eq!(room.distributing(), [0, 0]);
    assert!(room.sent.is_empty());
}

/// Each side speaks at the rate that the other wants, and is believed dead
/// after three times that (802.1AX-2014 clause 6.4.4).
#[test]
fn silence_is_noticed_after_three_periods() {
    for (rate, period) in [(LacpRate::Fast, 1_000), (LacpRate::Slow, 30_000)] {
        let settings = Settings { rate, ..Settings::default() };
        let mut room = Room::pair(&settings, &settings);
        room.run(at(600_000));
        let spoke = room.sent.iter().filter(|(end, at)| *end == (1, 0) && at.as_millis() >= 300_000).count() as u64;
        assert!((300_000 / period - 1..=300_000 / period + 1).contains(&spoke), "{rate}: {spoke}");
        let last = room.sent.iter().filter(|(end, _)| *end == (1, 0)).map(|(_, at)| *at).max().unwrap() + FLIGHT;
        room.run(last);
        room.loses = Box::new(|end| end.0 == 1);
        let dead = last + Duration::from_millis(3 * period);
        room.run(Time::from_nanos(dead.as_nanos() - 1));
        assert_eq!(room.systems[0].ports()[0].receive(), ReceiveState::Current, "{rate}");
        room.run(dead);
        assert_eq!(room.systems[0].ports()[0].receive(), ReceiveState::Expired, "{rate}");
        assert_eq!(room.systems[0].ports()[0].counters().expired, 1);
    }
}

/// The loss of two data units of three in a row changes nothing.
#[test]
fn loss_is_lived_through() {
    let mut room = Room::pair(&Settings::default(), &Settings::default());
    let mut counts = [[0_u64; 2]; 2];
    room.loses = Box::new(move |(system, port)| {
        counts[system][port] += 1;
        counts[system][port] % 3 != 0
    });
    room.run(at(60_000));
    assert_eq!(room.distributing(), [3, 3]);
    let log = room.log.len();
    room.run(at(300_000));
    assert_eq!(room.log[log..], *"");
}

/// Whatever is lost, ports join once nothing is any more, and meanwhile none
/// sends to a side that does not collect for longer than the timeout.
#[test]
fn any_loss_is_recovered_from() {
    for seed in 1..=50_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut room = Room::pair(&Settings::default(), &Settings::default());
        room.loses = Box::new(move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 100 < 60
        });
        let mut black_hole = [0; 2];
        for second in 1..200 {
            room.run(at(second * 1_000));
            for (port, seconds) in black_hole.iter_mut().enumerate() {
                let sends = room.systems[0].distributing() >> port & 1 != 0;
                let takes = room.systems[1].collecting() >> port & 1 != 0;
                *seconds = if sends && !takes { *seconds + 1 } else { 0 };
                assert!(*seconds <= 4, "seed {seed}: port {port} at {second} s");
            }
        }
        room.loses = Box::new(|_| false);
        room.run(at(215_000));
        assert_eq!(room.distributing(), [3, 3], "seed {seed}");
        room.assert_polite();
    }
}

/// One aggregation: the port that leads to another system stands by, and is
/// taken when it is all that is left.
#[test]
fn another_partner_stands_by() {
    let settings = Settings::default();
    let systems = vec![Lacp::new(&settings, A, 3), Lacp::new(&settings, B, 2), Lacp::new(&settings, C, 1)];
    let mut room = Room::new(systems, &[((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 2), (2, 0))]);
    room.run(at(10_000));
    assert_eq!(room.distributing(), [0b011, 0b11, 0]);
    assert_eq!(room.systems[0].ports()[2].selected(), Selected::Standby);
    for end in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        room.link(end, false);
    }
    assert_eq!(room.distributing(), [0, 0, 0]);
    room.run(at(20_000));
    assert_eq!(room.distributing(), [0b100, 0, 1]);
}

/// A port that is plugged in elsewhere lets go of its partner first.
#[test]
fn a_port_that_is_moved_changes_its_partner() {
    let settings = Settings::default();
    let systems = vec![Lacp::new(&settings, A, 2), Lacp::new(&settings, B, 2), Lacp::new(&settings, C, 2)];
    let mut room = Room::new(systems, &[((0, 0), (1, 0)), ((0, 1), (1, 1))]);
    room.run(at(10_000));
    // Without a loss of carrier: a media converter in between.
    room.cables = vec![((0, 0), (2, 0)), ((0, 1), (2, 1))];
    for port in 0..2 {
        room.link((1, port), false);
        room.link((2, port), true);
    }
    room.run(at(10_100));
    assert_eq!(room.distributing(), [0, 0, 0]);
    room.run(at(20_000));
    assert_eq!(room.distributing(), [3, 0, 3]);
    assert_eq!(room.systems[0].ports()[0].partner().system, C);
}

/// 802.1AX-2014 clause 6.4.12, port_moved: the partner's port comes in
/// elsewhere.
#[test]
fn a_partner_that_moved_is_forgotten_where_it_was() {
    let mut room = Room::pair(&Settings::default(), &Settings::default());
    room.run(at(10_000));
    room.link((0, 0), false);
    room.link((0, 1), false);
    assert_eq!(room.systems[0].ports()[0].partner().system, B, "remembered for a short interruption");
    room.cables = vec![((0, 1), (1, 0))];
    room.link((0, 1), true);
    room.run(at(15_000));
    assert_eq!(room.systems[0].ports()[0].partner().system, Mac::ZERO);
    assert_eq!(room.systems[0].distributing(), 0b10);
}

/// A cable from one of our ports to another, or a loop behind one.
#[test]
fn a_loop_carries_nothing() {
    let settings = Settings::default();
    let mut room = Room::new(vec![Lacp::new(&settings, A, 2)], &[((0, 0), (0, 1))]);
    room.run(at(30_000));
    assert_eq!((room.distributing(), room.collecting()), (vec![0], vec![0]));
    assert!(room.systems[0].ports().iter().all(|port| port.counters().looped > 20));
    let mut room = Room::new(vec![Lacp::new(&settings, A, 1)], &[((0, 0), (0, 0))]);
    room.run(at(30_000));
    assert_eq!(room.distributing(), [0]);
}

/// Partners that do not aggregate are links of their own: one is used.
#[test]
fn individual_links_are_not_aggregated() {
    let mut room = Room::pair(&Settings::default(), &Settings::default());
    for port in &mut room.systems[1].ports {
        port.alone();
    }
    room.run(at(10_000));
    assert_eq!(room.distributing(), [1, 1]);
}

/// The lowest priority, then address, is preferred among equals.
#[test]
fn the_more_important_partner_is_taken() {
    let of = |system_priority| Settings { system_priority, ..Settings::default() };
    let systems = vec![Lacp::new(&of(9), A, 2), Lacp::new(&of(8), B, 1), Lacp::new(&of(7), C, 1)];
    let mut room = Room::new(systems, &[]);
    // Both are heard before either is chosen.
    room.link((0, 0), true);
    room.link((0, 1), true);
    for (system, port) in [(1, 0), (2, 1)] {
        let actor = *room.systems[system].ports()[0].actor();
        let pdu = LacpPdu { actor, ..LacpPdu::default() };
        room.systems[0].ports[port].on_pdu(&pdu, Time::ZERO);
    }
    room.systems[0].on_time(Time::ZERO);
    let selected: Vec<_> = room.systems[0].ports().iter().map(Port::selected).collect();
    assert_eq!(selected, [Selected::Standby, Selected::Selected]);
}

/// 802.1AX-2014 clause 6.5: a marker is answered with itself, and no more of
/// them are remembered than a partner may have sent.
#[test]
fn markers_are_answered() {
    let mut lacp = Lacp::new(&Settings::default(), A, 1);
    let marker = |transaction| Marker { response: false, requester_port: 5, requester_system: B, transaction };
    lacp.on_pdu(0, &SlowPdu::Marker(marker(0)), Time::ZERO);
    assert_eq!(lacp.poll_pdu(0, Time::ZERO), None, "the link is down");
    lacp.on_link(0, true, Time::ZERO);
    while lacp.poll_pdu(0, Time::ZERO).is_some() {}
    lacp.on_pdu(0, &SlowPdu::Marker(Marker { response: true, ..marker(1) }), Time::ZERO);
    assert_eq!((lacp.poll_pdu(0, Time::ZERO), lacp.speaking(Time::ZERO)), (None, 0));
    for transaction in 0..20 {
        lacp.on_pdu(0, &SlowPdu::Marker(marker(transaction)), Time::ZERO);
    }
    let answers: Vec<_> = core::iter::from_fn(|| lacp.poll_pdu(0, Time::ZERO)).collect();
    let wanted = (0..8).map(|transaction| SlowPdu::Marker(Marker { response: true, ..marker(transaction) }));
    assert_eq!(answers, wanted.collect::<Vec<_>>());
    let LacpCounters { markers_in, markers_out, markers_dropped, .. } = lacp.ports()[0].counters();
    assert_eq!((markers_in, markers_out, markers_dropped), (20, 8, 12));
}

/// 802.1AX-2014 clause 6.4.17: a minute out of sync is churn.
#[test]
fn churn_is_detected() {
    let mut room = Room::pair(&Settings::default(), &Settings::default());
    room.loses = Box::new(|end| end == (1, 0));
    room.run(at(59_000));
    assert_eq!(room.systems[0].ports()[0].churns(), [false, false]);
    room.run(at(70_000));
    assert_eq!(room.systems[0].ports()[0].churns(), [true, true]);
    assert_eq!(room.systems[0].ports()[1].churns(), [false, false]);
    room.loses = Box::new(|_| false);
    room.run(at(80_000));
    assert_eq!(room.systems[0].ports()[0].churns(), [false, false]);
    let counters = room.systems[0].ports()[0].counters();
    assert_eq!((counters.actor_churn, counters.partner_churn), (1, 1));
}

/// A partner that contradicts itself makes nobody speak more than allowed.
#[test]
fn a_restless_partner_is_answered_three_times_a_second() {
    let settings = Settings::default();
    let mut room = Room::new(vec![Lacp::new(&settings, A, 1)], &[]);
    room.link((0, 0), true);
    for step in 0..5_000_u64 {
        room.run(at(step));
        let state = PortState(step as u8);
        let actor = PortInfo { system: B, key: 1, port: 1, state, ..PortInfo::default() };
        let pdu = LacpPdu { actor, ..LacpPdu::default() };
        let now = room.now;
        room.systems[0].on_pdu(0, &SlowPdu::Lacp(pdu), now);
    }
    room.assert_polite();
    assert!(room.sent.len() > 10, "and yet it is answered");
}

#[test]
fn states_are_read_back_from_their_numbers() {
    for state in [ReceiveState::PortDisabled, ReceiveState::Expired, ReceiveState::Defaulted, ReceiveState::Current] {
        assert_eq!(ReceiveState::from_number(state as u8), state);
    }
    for selected in [Selected::Unselected, Selected::Selected, Selected::Standby] {
        assert_eq!(Selected::from_number(selected as u8), selected);
    }
    for state in [Mux::Detached, Mux::Waiting, Mux::Attached, Mux::Collecting, Mux::Distributing] {
        assert_eq!(Mux::from_number(state as u8), state);
    }
    assert_eq!(
        (ReceiveState::from_number(9), Selected::from_number(9), Mux::from_number(9)),
        (ReceiveState::PortDisabled, Selected::Unselected, Mux::Detached)
    );
}
