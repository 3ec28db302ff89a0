use super::*;
use app::{Closed, Net};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use link::{Pair, PairConfig, PairLink};
use stack::{Address, LinkOffload, Seeds};
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
