//! A connection that a program reads at once and answers is light, as one of an application of ours: what
//! comes and what goes takes the stack's short ways, each held against the general one.

use app::Net;
use calls::{Ours, address};
use core::net::SocketAddr;
use core::time::Duration;
use posix::{Calls, Defaults, Errno, Gather, Scatter};
use stack::shadow::{Drift, Shadow, Way};
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};

const LISTENER: i32 = 10;
const SERVER: i32 = 11;
const CLIENT: i32 = 12;

/// Requests that are counted.
const REQUESTS: u32 = 200;

/// How often each way was taken.
#[derive(Default)]
struct Taken(BTreeMap<Way, u32>);

impl Shadow for Taken {
    fn on_compared(&mut self, way: Way, drift: Option<Drift>) {
        if let Some(drift) = drift {
            panic!("{way:?} does not do what the general way does: {drift}");
        }
        *self.0.entry(way).or_default() += 1;
    }
}

fn write(calls: &mut Calls<'_>, fd: i32, bytes: &[u8]) {
    let slices = [IoSlice::new(bytes)];
    assert_eq!(calls.send(fd, &mut Gather::new(&slices, bytes.len()), 0), Ok(Some(())));
}

fn read(calls: &mut Calls<'_>, fd: i32) -> usize {
    let mut room = [0; 4096];
    let mut slices = [IoSliceMut::new(&mut room)];
    let mut out = Scatter::new(&mut slices, usize::MAX);
    calls.recv(fd, &mut out, 0).unwrap();
    out.filled()
}

#[test]
fn a_request_and_its_answer_take_both_short_ways() {
    let mut world = Ours::new(Defaults::default());
    let place = SocketAddr::new(address(0), 80);
    let mut server = world.ends[0].calls();
    server.socket(LISTENER, false, true);
    server.bind(LISTENER, place).unwrap();
    server.listen(LISTENER, 1).unwrap();
    let mut client = world.ends[1].calls();
    client.socket(CLIENT, false, true);
    assert_eq!(client.connect(CLIENT, place), Err(Errno(libc::EINPROGRESS)));
    world.pass(Duration::from_millis(50));
    assert!(world.ends[0].calls().accept(LISTENER, SERVER, true).unwrap().is_some());

    let mut taken = Taken::default();
    let [server, client] = &mut world.ends;
    let mut now = server.silo.stack.now();
    for at in 0..2 * REQUESTS {
        // The first ones are the connection's beginning.
        if at == REQUESTS {
            taken.0.clear();
        }
        now = now + Duration::from_micros(100);
        write(&mut client.calls(), CLIENT, b"a request");
        client.silo.turn(now);
        server.silo.turn_shadowed(now, &mut taken);
        assert_eq!(read(&mut server.calls(), SERVER), 9);
        write(&mut server.calls(), SERVER, b"its answer");
        server.silo.turn_shadowed(now, &mut taken);
        client.silo.turn(now);
        assert_eq!(read(&mut client.calls(), CLIENT), 10);
    }
    for way in [Way::Light, Way::SendLight] {
        let share = f64::from(taken.0.get(&way).copied().unwrap_or(0)) / f64::from(REQUESTS);
        assert!((0.99..=1.0).contains(&share), "{way:?}: {:?}", taken.0);
    }
}
