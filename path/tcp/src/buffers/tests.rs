use super::*;
use crate::agreed::Agreed;
use crate::{Counters, Outcome, Path};
use wire::Time;
use wire::tcp::{Flags as Bits, SackBlocks, SeqNum, TcpHeader, TcpOptions};

const PATH: Path = Path { mtu: 1_500, v6: false };
const SEGMENT: u32 = 1_460;

struct Host {
    connection: Connection,
    config: Config,
    counters: Counters,
    now_ms: u64,
    full: bool,
}

impl Host {
    /// With a round trip of 100 ms.
    fn new(config: Config) -> Self {
        Self::after(100, config)
    }

    fn after(round_trip_ms: u32, config: Config) -> Self {
        let mut counters = Counters::default();
        let mut cx = context(1_000, false, &config, &mut counters);
        let agreed = Agreed { sack: true, peer_shift: Some(7), ..Agreed::bare(SeqNum(0), SeqNum(0), 1_460) };
        let mut connection = Connection::accept(&mut cx, PATH, &agreed, 65_535);
        connection.on_handshake_time(round_trip_ms);
        Self { connection, config, counters, now_ms: 1_000, full: false }
    }

    fn take(&mut self, seq: u32, ack: u32, text: &[u8]) -> Outcome {
        let header = TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags: Bits::ACK,
            window: 0xffff,
            urgent: 0,
            options: TcpOptions { sack: SackBlocks::EMPTY, ..TcpOptions::default() },
        };
        let mut cx = context(self.now_ms, self.full, &self.config, &mut self.counters);
        self.connection.on_segment(&mut cx, PATH, &header, text)
    }

    /// What it sends now: the end of the last segment, and the window told.
    fn poll(&mut self) -> Option<(u32, u32)> {
        let mut cx = context(self.now_ms, self.full, &self.config, &mut self.counters);
        let connection = &mut self.connection;
        let shift = connection.info().own_shift;
        core::iter::from_fn(|| connection.poll_segment(&mut cx, PATH, 0))
            .last()
            .map(|emit| (emit.seq.0 + emit.len, u32::from(emit.window) << shift))
    }

    /// The peer sends `bytes` in a round trip, and the application takes them,
    /// or has them wait. Returns the window.
    fn round(&mut self, from: u32, bytes: u32, takes: bool) -> u32 {
        let text = [7; SEGMENT as usize];
        let mut window = 0;
        for segment in 0..bytes / SEGMENT {
            self.now_ms += u64::from(segment % 2 == 0 && segment > 0 && segment % (bytes / SEGMENT / 50).max(2) == 0);
            self.take(from + segment * SEGMENT, 1, &text);
            if !takes {
                self.connection.hold(&self.config, &text);
            }
            window = self.poll().map_or(window, |(_, window)| window);
        }
        self.now_ms = self.now_ms / 100 * 100 + 100;
        window
    }
}

fn context<'a>(now_ms: u64, full: bool, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    let now = Time::from_millis(now_ms);
    Context { now, now_ms: now_ms as u32, ts_offset: 0, receive_full: full, config, counters }
}

/// A sender that fills the window in each round trip has it doubled, up to the
/// limit; one that does not leaves it.
#[test]
fn the_window_opens_to_twice_what_comes_in_a_round_trip() {
    let mut host = Host::new(Config::default());
    let mut from = 1;
    for (bytes, least, most) in [
        (200_000, 1 << 20, 1 << 20),
        (1_000_000, 1 << 20, 2_100_000),
        (1_000_000, 1_900_000, 2_100_000),
        (1_900_000, 1_900_000, 4_000_000),
        (1_900_000, 3_600_000, 4_000_000),
        (100_000, 3_600_000, 4_000_000),
    ] {
        let window = host.round(from, bytes, true);
        assert!((least..=most).contains(&window), "{bytes}: {window}");
        from += bytes / SEGMENT * SEGMENT;
    }
    for _ in 0..20 {
        let bytes = host.round(from, 3_000_000, true).min(7_000_000);
        from += 3_000_000 / SEGMENT * SEGMENT;
        assert!(bytes <= 8 << 20);
    }
}

/// An application that takes nothing, and a host without memory, open nothing.
#[test]
fn what_is_not_taken_opens_nothing() {
    let mut host = Host::new(Config::default());
    host.round(1, 500_000, false);
    host.round(1 + 500_000 / SEGMENT * SEGMENT, 500_000, false);
    assert_eq!(host.connection.receive_limit(&host.config), 1 << 20);
    let mut host = Host::new(Config::default());
    host.full = true;
    host.round(1, 1_000_000, true);
    host.round(1 + 1_000_000 / SEGMENT * SEGMENT, 1_000_000, true);
    assert_eq!(host.connection.receive_limit(&host.config), 1 << 20);
}

/// RFC 7323 section 2.3: the shift is one for the limit, whatever the window
/// begins with; a limit below that is what counts.
#[test]
fn the_shift_is_that_of_the_limit() {
    for (limit, shift, first) in [(8 << 20, 8, 1 << 20), (1 << 30, 14, 1 << 20), (65_535, 0, 65_535), (0, 0, 0)] {
        let config = Config { receive_limit: limit, ..Config::default() }.settled();
        assert_eq!((config.window_shift(), config.first_window()), (shift, first));
    }
}

/// What is under way counts as sent as far as there is room, but for half of
/// the low-water mark.
#[test]
fn what_is_under_way_counts_as_sent() {
    // So short that nothing waits for a pacer.
    let mut host = Host::after(1, Config { receive_limit: 1 << 20, ..Config::default() });
    host.connection.send_bytes(&vec![7; 1 << 20]).expect("there is room");
    let (mut acked, mut end) = (1, host.poll().expect("it sends").0);
    while host.connection.in_flight() < 200_000 {
        host.now_ms += 1;
        assert!(host.now_ms < 2_000, "it sends no more");
        let flight = end;
        while acked < flight {
            acked = flight.min(acked + 2 * SEGMENT);
            host.take(1, acked, &[]);
            end = host.poll().map_or(end, |(end, _)| end);
        }
    }
    let queued = host.connection.info().unsent;
    let flight = host.connection.in_flight();
    assert_eq!(host.connection.unsent(), queued);
    for (most, room) in [(0, 0), (100_000, 100_000), (4 << 20, flight - 32 * 1024)] {
        let (_, wanted) = host.connection.send_room(most);
        assert_eq!(wanted, room);
        host.connection.set_send_room(wanted);
        assert_eq!(host.connection.unsent(), queued - room);
    }
    // A peer that is silent gets no more than it has.
    host.connection.set_send_room(50_000);
    host.connection.backoff = 1;
    assert_eq!(host.connection.send_room(4 << 20), (50_000, 50_000));
    // What is acknowledged takes no room.
    host.connection.backoff = 0;
    host.take(1, end, &[]);
    assert_eq!((host.connection.unsent(), host.connection.send_room(4 << 20).1), (queued - flight, 0));
}

/// `--mss`: what is announced, and what is sent, whatever the peer takes; never
/// less than Linux lets an application ask for.
#[test]
fn segments_are_clamped_on_both_sides() {
    for (asked, peer, announced, sends) in [
        (None, 1_460, 1_460, 1_460),
        (Some(1_400), 1_460, 1_400, 1_400),
        (Some(1_400), 600, 1_400, 600),
        (Some(1), 1_460, 88, 88),
    ] {
        let config = Config { max_segment: asked, ..Config::default() };
        let agreed = Agreed::bare(SeqNum(0), SeqNum(0), peer);
        assert_eq!(agreed.offer(&config, 1_460).mss, announced);
        let mut counters = Counters::default();
        let mut cx = context(1_000, false, &config, &mut counters);
        let mut connection = Connection::accept(&mut cx, PATH, &agreed, 65_535);
        assert_eq!(connection.mss(), sends);
        connection = Connection::open(&mut cx, PATH, SeqNum(7));
        let syn = connection.poll_segment(&mut cx, PATH, 0).expect("a SYN");
        assert!(matches!(syn.options, crate::EmitOptions::Syn(offer) if offer.mss == announced), "{syn:?}");
    }
}
