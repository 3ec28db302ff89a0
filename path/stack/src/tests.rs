//! Two stacks that hand each other frames, and a transmit ring that can be
//! full.

mod crowded;
mod fragments;
mod icmp;
mod migrate;
mod narrow;
mod options;
mod presence;
mod sample;
mod sealed;
mod stray;
mod unanswered;

use crate::segments::MAX_PENDING;
use crate::{Address, Arrived, Config, Egress, LinkOffload, Route, Seeds, Stack};
use app::{Closed, ConnId, ConnectError, Net};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;
use wire::tcp::{Flags, TcpHeader};
use wire::{LinkVouched, Mac, Offload, Time};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const PORT: u16 = 80;

/// Frames that were sent, and room for so many of them together.
struct Sent {
    frames: Vec<Vec<u8>>,
    slot: Vec<u8>,
    room: usize,
}

impl Default for Sent {
    fn default() -> Self {
        Self { frames: Vec::new(), slot: Vec::new(), room: usize::MAX }
    }
}

impl Egress for Sent {
    fn room(&self) -> usize {
        self.room.saturating_sub(self.frames.len())
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        self.slot = vec![0; 1518];
        (self.room() > 0).then_some(&mut self.slot)
    }
    fn commit(&mut self, len: usize, _: Offload) {
        self.frames.push(self.slot[..len].to_vec());
    }
}

/// A transmit ring of `room` slots, emptied by hand.
#[derive(Debug)]
struct Slots {
    sent: VecDeque<Vec<u8>>,
    room: usize,
    buffer: Vec<u8>,
}

impl Slots {
    fn new() -> Self {
        Self { sent: VecDeque::new(), room: 64, buffer: vec![0; 2048] }
    }
}

impl Egress for Slots {
    fn room(&self) -> usize {
        self.room.saturating_sub(self.sent.len())
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        (self.room() > 0).then_some(&mut self.buffer[..])
    }
    fn commit(&mut self, len: usize, _: Offload) {
        self.sent.push_back(self.buffer[..len].to_vec());
    }
}

#[derive(Debug)]
struct Host {
    stack: Stack,
    out: Slots,
    opened: Vec<ConnId>,
    closed: Vec<(ConnId, Closed)>,
    /// What comes is answered by its own turn, if at all; the same, where nothing leaves at once.
    answers_later: bool,
    leaves: bool,
}

impl Host {
    fn new(number: u8, ip: Ipv4Addr, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(Mac([2, 0, 0, 0, 0, number]), 1500);
        config.addresses = vec![Address { ip: IpAddr::V4(ip), prefix_len: 24 }];
        config.listen = vec![PORT];
        change(&mut config);
        let seeds = Seeds { table: [u64::from(number); 4], secret: [1, 2, 3, u64::from(number)], timestamps: [9; 2] };
        let stack = Stack::new(config, LinkOffload::default(), &seeds, Time::from_millis(1));
        Self { stack, out: Slots::new(), opened: Vec::new(), closed: Vec::new(), answers_later: false, leaves: false }
    }

    fn take(&mut self, frame: &[u8]) {
        match self.stack.on_frame(frame, false, &mut self.out) {
            Arrived::Segment(arrival) if arrival.outcome.opened => self.opened.push(arrival.id),
            Arrived::Data(id, _) if self.answers_later => self.stack.settle_unanswered(id, &mut self.out),
            Arrived::Data(id, _) if self.leaves => self.stack.settle_or_leave(id, &mut self.out, || true),
            Arrived::Data(id, _) => self.stack.settle(id, &mut self.out),
            // Nobody is idle here.
            Arrived::Full => assert_eq!(self.stack.find_idle(|_| None), None),
            _ => {}
        }
    }

    /// The rest of a turn, after its frames; whether there is more to do.
    fn turn(&mut self) -> bool {
        let due = self.stack.on_timers(&mut self.out);
        let more = self.stack.poll_transmit(&mut self.out);
        self.closed.extend(core::iter::from_fn(|| self.stack.poll_closed()));
        due || more
    }

    fn connect(&mut self, to: Ipv4Addr) -> Result<ConnId, ConnectError> {
        self.stack.connect(None, SocketAddr::new(to.into(), PORT))
    }
}

#[test]
fn ports_accept_on_the_addresses_that_they_are_told() {
    let second = Ipv4Addr::new(10, 0, 0, 9);
    let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    let any_v6: IpAddr = core::net::Ipv6Addr::UNSPECIFIED.into();
    let at = |ip: IpAddr, port: u16| SocketAddr::new(ip, port);
    for (ports, doors, first_is_taken, second_is_taken) in [
        (&[PORT][..], vec![at(second.into(), PORT)], true, true),
        (&[], vec![at(second.into(), PORT)], false, true),
        (&[], vec![at(SERVER.into(), PORT), at(second.into(), PORT + 1)], true, false),
        (&[PORT + 1], vec![at(second.into(), PORT)], false, true),
        (&[], vec![at(any, PORT)], true, true),
        (&[], vec![at(any_v6, PORT)], false, false),
        (&[], Vec::new(), false, false),
    ] {
        let mut pair = Pair::new(|config| config.addresses.push(Address { ip: IpAddr::V4(second), prefix_len: 24 }));
        pair.server.stack.listen_on(ports, &doors);
        for (to, is_taken) in [(SERVER, first_is_taken), (second, second_is_taken)] {
            pair.client.connect(to).unwrap();
            pair.settle();
            let opened = core::mem::take(&mut pair.client.opened).len();
            assert_eq!(opened, usize::from(is_taken), "{ports:?} {doors:?} {to}");
        }
    }
}

/// A client and a server on one wire.
struct Pair {
    client: Host,
    server: Host,
    now: Time,
}

impl Pair {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let (client, server) = (Host::new(1, CLIENT, |_| {}), Host::new(2, SERVER, change));
        Self { client, server, now: Time::from_millis(1) }
    }

    /// Hands over what each side sent, until there is nothing more.
    fn settle(&mut self) {
        for _ in 0..32 {
            self.client.turn();
            self.server.turn();
            if self.client.out.sent.is_empty() && self.server.out.sent.is_empty() {
                return;
            }
            for frame in core::mem::take(&mut self.client.out.sent) {
                self.server.take(&frame);
            }
            for frame in core::mem::take(&mut self.server.out.sent) {
                self.client.take(&frame);
            }
        }
    }

    fn advance(&mut self, span: Duration) {
        self.now = self.now + span;
        self.client.stack.begin_turn(self.now);
        self.server.stack.begin_turn(self.now);
    }

    /// Hands the server what the client sends now, and nothing back.
    fn deliver_to_server(&mut self) {
        self.client.turn();
        for frame in core::mem::take(&mut self.client.out.sent) {
            self.server.take(&frame);
        }
    }
}

fn flags(frame: &[u8]) -> Flags {
    TcpHeader::parse_trusted(&frame[34..], LinkVouched::new()).map_or(Flags::NONE, |(header, ..)| header.flags)
}

/// A connection each way, so that both know each other's hardware address.
fn acquainted(change: impl FnOnce(&mut Config)) -> Pair {
    let mut pair = Pair::new(change);
    pair.client.connect(SERVER).unwrap();
    pair.settle();
    assert_eq!((pair.client.opened.len(), pair.server.opened.len()), (1, 1));
    pair
}

/// A full ring delays a SYN,ACK to the next turn with a slot; the peer's SYN
/// again, meanwhile, changes nothing, and the silo does not spin.
#[test]
fn a_syn_ack_waits_for_a_slot() {
    let mut pair = acquainted(|_| {});
    pair.server.out.room = 0;
    pair.client.connect(SERVER).unwrap();
    pair.deliver_to_server();
    pair.advance(Duration::from_millis(1_001));
    pair.client.turn();
    assert_eq!(pair.client.out.sent.len(), 1, "the SYN again");
    pair.deliver_to_server();
    assert!(!pair.server.turn(), "there is nothing that could be done at once");
    assert_eq!(pair.server.stack.half_open(), 1);
    let deadline = pair.server.stack.next_deadline().unwrap();
    assert!(deadline > pair.now && deadline <= pair.now + Duration::from_millis(1));
    pair.server.out.room = 64;
    pair.server.turn();
    assert_eq!(pair.server.out.sent.iter().map(|frame| flags(frame)).collect::<Vec<_>>(), [Flags::SYN | Flags::ACK]);
    pair.settle();
    assert_eq!((pair.client.opened.len(), pair.server.opened.len()), (2, 2));
    let counters = pair.server.stack.counters();
    assert_eq!((counters.replies_delayed > 0, counters.replies_dropped), (true, 0));
}

/// Microseconds, and full segments: the window that RFC 6928 begins with.
#[test]
fn paths_are_told_in_units_of_the_kernels() {
    let mut pair = acquainted(|_| {});
    pair.client.connect(SERVER).unwrap();
    pair.deliver_to_server();
    pair.server.turn();
    pair.advance(Duration::from_millis(30));
    pair.settle();
    let id = pair.server.opened[1];
    let told = pair.server.stack.path_figures(id).expect("it is open");
    assert!((29_000..=31_000).contains(&told.rtt_us) && (14_000..=16_000).contains(&told.rttvar_us), "{told:?}");
    assert!(told.cwnd == 10 && told.receive_space >= 10_000, "{told:?}");
    assert_eq!(pair.server.stack.path_figures(ConnId::new(999, 0)), None);
}

/// What waits is bounded; a handshake that gives up while it waits is not
/// answered any more.
#[test]
fn waiting_replies_are_bounded() {
    let mut pair = acquainted(|config| config.max_half_open = 2 * MAX_PENDING);
    pair.server.out.room = 0;
    for _ in 0..MAX_PENDING + 10 {
        pair.client.connect(SERVER).unwrap();
        pair.deliver_to_server();
    }
    assert_eq!(pair.server.stack.tcp.pending_replies(), MAX_PENDING);
    assert_eq!(pair.server.stack.counters().replies_dropped, 10);
    // The first is given up by its peer.
    let id = pair.client.stack.connection_ids().nth(1).unwrap();
    let entry = 0;
    pair.client.stack.abort(id);
    let Stack { ip, tcp, .. } = &mut pair.server.stack;
    tcp.drop_half_open(ip, entry);
    pair.server.out.room = 4 * MAX_PENDING;
    pair.server.turn();
    assert_eq!(pair.server.out.sent.len(), MAX_PENDING - 1);
}

/// The last acknowledgement of a connection leaves late rather than never:
/// its peer must not wait for its own retransmission.
#[test]
fn a_last_acknowledgement_waits_for_a_slot() {
    let mut pair = acquainted(|_| {});
    let (client, server) = (pair.client.opened[0], pair.server.opened[0]);
    pair.server.stack.finish(server);
    pair.settle();
    pair.client.stack.finish(client);
    pair.server.out.room = 0;
    pair.deliver_to_server();
    pair.server.turn();
    assert_eq!(pair.server.closed, [(server, Closed::Finished)]);
    assert_eq!((pair.server.stack.time_wait(), pair.client.closed.len()), (1, 0));
    pair.server.out.room = 64;
    pair.settle();
    assert_eq!(pair.client.closed, [(client, Closed::Finished)]);
    assert_eq!(pair.client.stack.tcp_counters().retransmits, 0);
}

/// At the connection limit, an acknowledgement that proves a cookie leaves the
/// half-open handshake that stands in its place as it is.
#[test]
fn a_deferred_cookie_leaves_the_handshake() {
    let mut pair = acquainted(|config| {
        config.max_half_open = 1;
        config.max_connections = 2;
    });
    // The queue is taken: the next SYN is answered by a cookie.
    let first = pair.client.connect(SERVER).unwrap();
    pair.deliver_to_server();
    pair.server.turn();
    pair.server.out.sent.clear();
    pair.client.connect(SERVER).unwrap();
    pair.deliver_to_server();
    pair.server.turn();
    assert_eq!(pair.server.stack.counters().cookies_sent, 1);
    let cookie = core::mem::take(&mut pair.server.out.sent);
    // The queue has room again, and the same SYN comes a second time.
    pair.client.stack.abort(first);
    let Stack { ip, tcp, .. } = &mut pair.server.stack;
    tcp.drop_half_open(ip, 0);
    pair.advance(Duration::from_millis(1_001));
    pair.deliver_to_server();
    pair.server.turn();
    assert_eq!(pair.server.stack.half_open(), 1);
    pair.server.out.sent.clear();
    // Another connection takes the last place.
    let mut other = Host::new(3, Ipv4Addr::new(10, 0, 0, 3), |_| {});
    other.stack.begin_turn(pair.now);
    pair.server.stack.tcp.set_max_half_open(2);
    other.connect(SERVER).unwrap();
    for _ in 0..4 {
        other.turn();
        for frame in core::mem::take(&mut other.out.sent) {
            pair.server.take(&frame);
        }
        pair.server.turn();
        for frame in core::mem::take(&mut pair.server.out.sent) {
            other.take(&frame);
        }
    }
    assert_eq!(pair.server.stack.connections(), 2);
    // Now the cookie is answered.
    for frame in cookie {
        pair.client.take(&frame);
    }
    pair.deliver_to_server();
    let counters = pair.server.stack.counters();
    assert_eq!((counters.accept_deferred, counters.cookies_accepted), (1, 0));
    assert_eq!(pair.server.stack.half_open(), 1, "it may still be completed");
}

/// RFC 1122 section 4.2.3.9, and as Linux does (EHOSTUNREACH): who connects
/// to an address that nobody has hears of it when resolution gives up, long
/// before the SYN does.
#[test]
fn connecting_to_nobody_fails_soon() {
    let mut pair = acquainted(|_| {});
    let established = pair.client.opened[0];
    let ids = [pair.client.connect(NOBODY).unwrap(), pair.client.connect(NOBODY).unwrap()];
    for _ in 0..31 {
        pair.client.turn();
        pair.client.out.sent.clear();
        pair.advance(Duration::from_millis(100));
    }
    pair.client.turn();
    assert_eq!(pair.client.closed, ids.map(|id| (id, Closed::Unreachable(app::Unreachable::Host))));
    assert!(pair.client.stack.is_live(established));
}

/// While nothing can be sent, a silo has nothing to do at once; when slots
/// come, all goes on.
#[test]
fn a_full_ring_does_not_spin() {
    let mut pair = acquainted(|_| {});
    let id = pair.client.opened[0];
    pair.client.out.room = 0;
    pair.client.stack.send_bytes(id, b"some");
    assert!(!pair.client.turn());
    assert!(pair.client.stack.next_deadline().unwrap() > pair.now);
    pair.client.stack.abort(id);
    assert!(!pair.client.turn());
    assert!(pair.client.stack.next_deadline().unwrap() > pair.now, "resets wait, too");
    pair.client.out.room = 64;
    pair.settle();
    assert_eq!(pair.server.closed.len(), 1);
}

/// The timer by which an application reads what is held is not lost where it
/// runs out in the very turn in which the connection closes.
#[test]
fn a_timer_outlives_the_close_of_its_turn() {
    let mut pair = acquainted(|_| {});
    let (client, server) = (pair.client.opened[0], pair.server.opened[0]);
    pair.client.stack.finish(client);
    pair.settle();
    pair.server.stack.send_bytes(server, b"unread");
    pair.server.turn();
    for frame in core::mem::take(&mut pair.server.out.sent) {
        let Arrived::Segment(arrival) = pair.client.stack.on_frame(&frame, false, &mut pair.client.out) else {
            panic!("text arrives");
        };
        let data = arrival.data.to_vec();
        pair.client.stack.hold(client, &data);
    }
    let at = pair.now + Duration::from_millis(5);
    pair.client.stack.set_timer(client, Some(at));
    pair.server.stack.finish(server);
    pair.server.turn();
    pair.advance(Duration::from_millis(5));
    for frame in core::mem::take(&mut pair.server.out.sent) {
        pair.client.take(&frame);
    }
    pair.client.stack.on_timers(&mut pair.client.out);
    assert_eq!(pair.client.stack.poll_app_timer(), None);
    pair.client.stack.poll_transmit(&mut pair.client.out);
    assert_eq!(pair.client.stack.poll_closed(), None);
    pair.advance(Duration::from_millis(2));
    pair.client.stack.on_timers(&mut pair.client.out);
    assert_eq!(pair.client.stack.poll_app_timer(), Some(client));
    assert_eq!(pair.client.stack.held(client), 6);
}

/// Who aborts in the very turn in which both sides have finished, with bytes
/// unread, hears of the end all the same: whether the text came with the
/// peer's FIN (TIME-WAIT) or before our own was acknowledged (LAST-ACK).
#[test]
fn an_abort_in_the_turn_of_the_end_is_one() {
    for last_ack in [false, true] {
        let mut pair = acquainted(|_| {});
        let (client, server) = (pair.client.opened[0], pair.server.opened[0]);
        if !last_ack {
            pair.client.stack.finish(client);
            pair.settle();
        }
        pair.server.stack.send_bytes(server, b"unread");
        pair.server.stack.finish(server);
        pair.server.turn();
        for frame in core::mem::take(&mut pair.server.out.sent) {
            let Arrived::Segment(arrival) = pair.client.stack.on_frame(&frame, false, &mut pair.client.out) else {
                panic!("text and FIN arrive");
            };
            let data = arrival.data.to_vec();
            if !last_ack {
                pair.client.stack.abort(client);
            }
            pair.client.stack.hold(client, &data);
        }
        if last_ack {
            pair.client.stack.finish(client);
            pair.deliver_to_server();
            pair.server.turn();
            for frame in core::mem::take(&mut pair.server.out.sent) {
                pair.client.take(&frame);
            }
            pair.client.stack.abort(client);
        }
        pair.client.turn();
        assert_eq!(pair.client.closed, [(client, Closed::Aborted)], "LAST-ACK: {last_ack}");
        let stack = &pair.client.stack;
        assert_eq!((stack.connections(), stack.receive_memory(), stack.time_wait()), (0, 0, 0));
        pair.client.stack.abort(client);
        assert_eq!(pair.client.stack.poll_closed(), None, "once");
    }
}

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const ROUTER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x54]);

fn on_the_hosts_neighbours(config: &mut Config) {
    config.host_neighbours = true;
    config.routes =
        vec![Route { destination: Ipv4Addr::UNSPECIFIED.into(), prefix_len: 0, gateway: Some(ROUTER.into()) }];
}

/// The host is asked for a neighbour in place of the network; what waited goes
/// when it knows, and goes elsewhere when that changes.
#[test]
fn neighbours_of_the_host_are_asked_for_there() {
    let mut host = Host::new(1, CLIENT, on_the_hosts_neighbours);
    host.connect(Ipv4Addr::new(192, 0, 2, 1)).unwrap();
    host.turn();
    assert!(host.out.sent.is_empty(), "neither ARP nor a segment to nobody");
    assert_eq!(host.stack.poll_neighbour_wanted(), Some(ROUTER.into()));
    assert_eq!(host.stack.poll_neighbour_wanted(), None);
    // Another neighbour is no concern of ours, and no group is one.
    host.stack.learn_neighbour(NOBODY.into(), ROUTER_MAC, true);
    host.stack.learn_neighbour(ROUTER.into(), Mac::BROADCAST, true);
    host.turn();
    assert!(host.out.sent.is_empty());
    host.stack.learn_neighbour(ROUTER.into(), ROUTER_MAC, true);
    host.turn();
    let syn = host.out.sent.pop_front().expect("what waited");
    assert_eq!((&syn[..6], flags(&syn)), (&ROUTER_MAC.0[..], Flags::SYN));
    // The host loses it: the SYN again waits, and is not sent where nobody is.
    host.stack.forget_neighbour(ROUTER.into());
    host.stack.begin_turn(Time::from_millis(1_002));
    host.turn();
    assert!(host.out.sent.is_empty());
    assert_eq!(host.stack.poll_neighbour_wanted(), Some(ROUTER.into()));
    host.stack.learn_neighbour(ROUTER.into(), Mac([2, 0, 0, 0, 0, 0x55]), false);
    host.turn();
    assert_eq!(host.out.sent.pop_front().map(|frame| frame[5]), Some(0x55));
}

/// The host may say again and again that it found nobody: that is one failure,
/// and the question is asked as often as of the network.
#[test]
fn a_neighbour_that_the_host_does_not_find_is_given_up() {
    let mut host = Host::new(1, CLIENT, on_the_hosts_neighbours);
    host.connect(NOBODY).unwrap();
    let mut asked = 0;
    for second in 0..10 {
        host.stack.begin_turn(Time::from_millis(1 + second * 1_000));
        host.turn();
        asked += core::iter::from_fn(|| host.stack.poll_neighbour_wanted()).count();
        host.stack.forget_neighbour(NOBODY.into());
    }
    assert!((3..=6).contains(&asked), "{asked}");
    assert_eq!(
        host.closed.iter().map(|(_, why)| *why).collect::<Vec<_>>(),
        [Closed::Unreachable(app::Unreachable::Host)]
    );
    assert!(host.out.sent.is_empty());
}

/// A SYN through a router is answered through it at once, before the host is
/// asked who that is.
#[test]
fn a_handshake_does_not_wait_for_the_host() {
    let mut pair = acquainted(on_the_hosts_neighbours);
    assert!(pair.server.stack.neighbour_counters().all(|(name, count)| name != "solicited" || count == 0));
    // The client's frames, as if they came from beyond a router.
    pair.client.connect(SERVER).unwrap();
    pair.client.turn();
    let mut syn = pair.client.out.sent.pop_front().expect("a SYN");
    syn[26..30].copy_from_slice(&[192, 0, 2, 7]);
    syn[6..12].copy_from_slice(&ROUTER_MAC.0);
    syn[24..26].fill(0);
    let words = syn[14..34].as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    let sum: u32 = words.sum();
    let sum = !((sum >> 16) + (sum & 0xffff)) as u16;
    syn[24..26].copy_from_slice(&sum.to_be_bytes());
    pair.server.stack.on_frame(&syn, true, &mut pair.server.out);
    let answer = pair.server.out.sent.pop_back().expect("an answer");
    assert_eq!((&answer[..6], flags(&answer)), (&ROUTER_MAC.0[..], Flags::SYN | Flags::ACK));
}

/// Routes and addresses that come later count from then on, as does a smaller
/// MTU, for connections that exist too.
#[test]
fn what_changes_at_the_host_counts() {
    let mut pair = acquainted(|config| config.host_neighbours = true);
    let other = Ipv4Addr::new(10, 0, 0, 77);
    pair.server.stack.add_address(Address { ip: other.into(), prefix_len: 24 });
    pair.server.stack.add_address(Address { ip: other.into(), prefix_len: 24 });
    let router = Some(IpAddr::V4(ROUTER));
    pair.server.stack.set_routes(&[Route {
        destination: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 0)),
        prefix_len: 24,
        gateway: router,
    }]);
    let next_hop = |stack: &Stack, to: [u8; 4]| stack.ip.next_hop(IpAddr::V4(to.into()));
    assert_eq!(next_hop(&pair.server.stack, [198, 51, 100, 9]), router);
    assert_eq!(next_hop(&pair.server.stack, [10, 0, 0, 9]), Some(NOBODY.into()));
    pair.server.stack.set_routes(&[]);
    assert_eq!(next_hop(&pair.server.stack, [198, 51, 100, 9]), None);
    assert_eq!(pair.server.stack.ip.addresses.index_v4(other), Some(1));

    let server = pair.server.opened[0];
    pair.server.stack.set_mtu(9_000);
    assert_eq!(pair.server.stack.config().mtu, 1_500, "slots are made for no more");
    pair.server.stack.set_mtu(600);
    pair.server.stack.send_bytes(server, &[7; 4_000]);
    pair.server.turn();
    let longest = pair.server.out.sent.iter().map(Vec::len).max();
    assert_eq!(longest, Some(600 + wire::ethernet::HEADER_LEN));
}

/// RFC 4861 section 7.3.1: an acknowledgement proves that the neighbour is
/// there, also where another segment came just before it.
#[test]
fn the_second_segment_of_a_millisecond_confirms_the_neighbour() {
    let mut pair = acquainted(|_| {});
    let (client, server) = (pair.client.opened[0], pair.server.opened[0]);
    pair.advance(Duration::from_secs(1));
    pair.server.stack.send_bytes(server, b"meanwhile");
    pair.server.turn();
    let sent = pair.server.out.sent.pop_front().unwrap();
    pair.client.stack.send_bytes(client, b"first");
    pair.client.turn();
    pair.client.take(&sent);
    pair.client.stack.send_bytes(client, b"second");
    pair.client.turn();
    pair.advance(Duration::from_millis(20));
    let neighbour = pair.server.stack.tcp.slots().get(server).unwrap().neighbour;
    let frames = core::mem::take(&mut pair.client.out.sent);
    assert_eq!(frames.len(), 2);
    for (frame, confirmed) in frames.iter().zip([false, true]) {
        pair.server.take(frame);
        assert_eq!(pair.server.stack.ip.neighbours.confirmed(neighbour) == Some(pair.now), confirmed);
    }
}
