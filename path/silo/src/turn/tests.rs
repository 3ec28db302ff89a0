use super::*;
use app::{Closed, Net};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use link::{Capabilities, Counters, LinkState, Pair, PairConfig, PairLink};
use stack::{Address, LinkOffload, Seeds};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use wire::Mac;

const PORT: u16 = 80;

/// Takes a byte at a time, and works on each between two of its own turns, as
/// a server does that has a file read for each request.
#[derive(Debug, Default)]
struct Worker {
    /// Whom the byte under way is for.
    client: Option<ConnId>,
    /// A byte was taken, and the work on it has not begun.
    asked: bool,
    /// The work on it has begun.
    begun: bool,
    /// Bytes worked on.
    done: u32,
}

impl App for Worker {
    fn on_open<N: Net>(&mut self, _net: &mut N, _id: ConnId, _how: Opened) {}

    fn on_data<N: Net>(&mut self, _net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if self.asked || self.begun || data.is_empty() {
            return 0;
        }
        (self.asked, self.client) = (true, Some(id));
        1
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if core::mem::take(&mut self.begun) {
            self.done += 1;
            if let Some(client) = self.client {
                net.resume(client);
            }
        }
        self.begun |= core::mem::take(&mut self.asked);
        if self.begun { Wake::At(net.now() + Duration::from_micros(1)) } else { Wake::Idle }
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, _id: ConnId, _held: usize) {}
    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}
    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}
    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {}
    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

/// Sends its bytes once, in one piece.
#[derive(Debug)]
struct Client(&'static [u8]);

impl App for Client {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        net.send_bytes(id, self.0);
    }

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

fn silo<A>(link: PairLink, host: u8, listen: Vec<u16>, app: A) -> Silo<PairLink, A> {
    with_link(link, host, listen, app)
}

fn with_link<L: Link, A>(link: L, host: u8, listen: Vec<u16>, app: A) -> Silo<L, A> {
    let mut config = stack::Config::new(Mac([2, 0, 0, 0, 0, host]), 1500);
    config.addresses = vec![Address { ip: address(host), prefix_len: 8 }];
    config.listen = listen;
    let seeds = Seeds { table: [host.into(); 4], secret: [host.into(); 4], timestamps: [9; 2] };
    Silo { link, stack: Stack::new(config, LinkOffload::default(), &seeds, Time::from_millis(1)), app }
}

fn address(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))
}

/// What a connection asks for when it is gone on with begins in the same turn,
/// and that turn says when the next is due: else it would wait for whatever
/// comes up next.
#[test]
fn a_resumed_connection_is_taken_on_in_the_same_turn() {
    const BYTES: &[u8] = &[b'x'; 50];
    let (near, far) = Pair::new(PairConfig::default());
    let mut server = silo(near, 1, vec![PORT], Worker::default());
    let mut client = silo(far, 2, Vec::new(), Client(BYTES));
    let opened = client.stack.connect(None, SocketAddr::new(address(1), PORT));
    assert!(opened.is_ok());
    let mut now = Time::from_millis(1);
    let mut turns = 0;
    while server.app.done < BYTES.len() as u32 {
        now = now + Duration::from_micros(10);
        client.turn(now);
        let done = server.app.done;
        let turn = server.turn(now);
        assert!(!server.app.asked, "asked for, and left for a turn that may never come");
        assert!(!server.app.begun || turn.more || turn.deadline <= now + Duration::from_micros(1));
        turns += u32::from(server.app.done > done || done > 0);
        assert!(turns <= BYTES.len() as u32 + 2, "a turn for each byte");
        assert!(now < Time::from_millis(1_000), "it is stuck");
    }
}

/// Goes on with its client in each turn of its own, whether or not anything of that waits.
#[derive(Debug, Default)]
struct Hasty {
    client: Option<ConnId>,
    turns: u32,
}

impl App for Hasty {
    fn on_open<N: Net>(&mut self, _net: &mut N, id: ConnId, _how: Opened) {
        self.client = Some(id);
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        data.len()
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        self.turns += 1;
        if let Some(client) = self.client {
            net.resume(client);
        }
        Wake::Idle
    }
}

/// Where nothing is held of a connection that is gone on with, an application has no second turn for it.
#[test]
fn who_goes_on_with_nothing_has_one_turn() {
    let (near, far) = Pair::new(PairConfig::default());
    let mut server = silo(near, 1, vec![PORT], Hasty::default());
    let mut client = silo(far, 2, Vec::new(), Client(b"x"));
    client.stack.connect(None, SocketAddr::new(address(1), PORT)).expect("a connection");
    for turn in 1..50 {
        let now = Time::from_millis(turn);
        client.turn(now);
        let done = server.turn(now);
        assert_eq!((server.app.turns, done.more), (turn as u32, false));
    }
    assert!(server.app.client.is_some());
}

/// A link without a copy of the stack, whose halves are there to be called through the
/// table and not by themselves.
struct ByTable(PairLink);

struct Unasked<T>(T);

impl Link for ByTable {
    const OWN_COPY: bool = false;

    type Rx<'a> = Unasked<<PairLink as Link>::Rx<'a>>;
    type Tx<'a> = Unasked<<PairLink as Link>::Tx<'a>>;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn split(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        let (rx, tx) = self.0.split();
        (Unasked(rx), Unasked(tx))
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.0.poll_control(now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.0.wait(wake, timeout)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

impl<R: Receive> Receive for Unasked<R> {
    fn receive(&mut self, _now: Time, _max: usize) -> usize {
        panic!("received from beside the table")
    }

    fn frame(&self, _index: usize) -> &[u8] {
        panic!("read beside the table")
    }

    fn release(&mut self) {
        panic!("released beside the table")
    }

    fn as_table(&mut self) -> &mut dyn Receive {
        &mut self.0
    }
}

impl<T: Transmit> Transmit for Unasked<T> {
    fn room(&self) -> usize {
        panic!("asked for room beside the table")
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        panic!("asked for a slot beside the table")
    }

    fn commit(&mut self, _len: usize, _offload: Offload) {
        panic!("committed beside the table")
    }

    /// Once in a turn, by whoever has the link as a type.
    fn flush(&mut self, now: Time) {
        self.0.flush(now);
    }

    fn as_table(&mut self) -> &mut dyn Transmit {
        &mut self.0
    }
}

/// Both copies of the walk do the same, turn by turn and frame by frame; so does a turn
/// that counts far pages, and a stack's alone, which all links have by the table.
#[test]
fn a_link_without_a_copy_of_the_stack_is_served_alike() {
    const BYTES: &[u8] = &[b'x'; 50];
    let direct = serve(BYTES, |link| link, |server, now| server.turn(now));
    let by_table = serve(BYTES, ByTable, |server, now| server.turn(now));
    let counted = serve(BYTES, ByTable, |server, now| {
        let turn = server.turn_counted(now, &mut Far::new(Arc::default()));
        server.flush(now);
        turn
    });
    assert_eq!(direct.1.rx_frames.min(direct.1.tx_frames).min(3), 3);
    assert_eq!(by_table, direct);
    assert_eq!(counted, direct);

    // A segment for a port that nobody listens on is refused by a stack alone, too.
    let (near, far) = Pair::new(PairConfig::default());
    let mut server = with_link(ByTable(near), 1, vec![PORT], Worker::default());
    let mut client = silo(far, 2, Vec::new(), Client(BYTES));
    let mut now = Time::from_millis(1);
    assert!(client.stack.connect(None, SocketAddr::new(address(1), PORT + 1)).is_ok());
    for _ in 0..8 {
        now = now + Duration::from_micros(10);
        client.turn(now);
        server.turn_alone(now);
    }
    assert!(server.link.counters().tx_frames >= 2, "an ARP reply and a reset");
    assert_eq!(client.stack.connections(), 0, "it was refused");
}

/// What each turn was like until all bytes were worked on, and what passed.
fn serve<L: Link>(
    bytes: &'static [u8],
    make: impl FnOnce(PairLink) -> L,
    turn: impl Fn(&mut Silo<L, Worker>, Time) -> Turn,
) -> (Vec<Turn>, Counters) {
    let (near, far) = Pair::new(PairConfig::default());
    let mut server = with_link(make(near), 1, vec![PORT], Worker::default());
    let mut client = silo(far, 2, Vec::new(), Client(bytes));
    client.stack.connect(None, SocketAddr::new(address(1), PORT)).expect("a connection");
    let mut now = Time::from_millis(1);
    let mut turns = Vec::new();
    while server.app.done < bytes.len() as u32 {
        now = now + Duration::from_micros(10);
        client.turn(now);
        turns.push(turn(&mut server, now));
        assert!(now < Time::from_millis(1_000), "it is stuck");
    }
    (turns, server.link.counters())
}
