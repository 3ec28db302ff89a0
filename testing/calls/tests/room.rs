//! Room to send: where it ends, and who is told when there is some again.

use calls::{Call, Kernel, Ours, Place, World, counted};
use core::time::Duration;
use posix::Defaults;

const TOLD: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET).cast_unsigned();

/// A connection from side 1 to side 0, whose end there is handle 1; each side watches its end.
fn connected(world: &mut impl World) {
    let mut steps = vec![
        (0, Call::CreateSet { set: 0 }),
        (1, Call::CreateSet { set: 0 }),
        (0, Call::Socket { handle: 0 }),
        (0, Call::Bind { handle: 0, place: Place::Own, port: Some(0) }),
        (0, Call::Listen { handle: 0, backlog: 16 }),
        (1, Call::Socket { handle: 1 }),
        (1, Call::Connect { handle: 1, port: 0 }),
        (0, Call::Accept { handle: 0, new: 1 }),
    ];
    for side in 0..2 {
        steps.push((side, Call::Control { set: 0, op: libc::EPOLL_CTL_ADD, handle: 1, events: TOLD }));
        steps.push((side, Call::Wait { set: 0, most: 8 }));
    }
    for (side, call) in steps {
        world.call(side, &call);
        world.settle();
    }
}

/// Sends until there is no more room; how many bytes were taken.
fn fill(world: &mut impl World) -> usize {
    let mut sent = 0;
    loop {
        let outcome = world.call(1, &Call::Send { handle: 1, first: (sent % 251) as u8, len: 20_000, flags: 0 });
        world.settle();
        match outcome.errno {
            0 => sent += usize::try_from(outcome.result).expect("bytes"),
            libc::EAGAIN => return sent,
            other => panic!("errno {other}"),
        }
    }
}

/// Reads all there is; the bytes.
fn drain(world: &mut impl World) -> Vec<u8> {
    let mut got = Vec::new();
    for _ in 0..10_000 {
        let outcome = world.call(0, &Call::Recv { handle: 1, len: 30_000, flags: 0 });
        world.settle();
        if outcome.result <= 0 {
            assert_eq!(outcome.errno, libc::EAGAIN);
            return got;
        }
        got.extend_from_slice(&outcome.bytes);
    }
    panic!("the bytes never end");
}

/// What is told of room: nothing while there is none, once when there is some, and nothing twice.
fn room_is_told(world: &mut impl World) {
    let wait = Call::Wait { set: 0, most: 8 };
    connected(world);
    for _ in 0..3 {
        let sent = fill(world);
        assert!(sent > 16 * 1024, "{sent}");
        let events = world.call(1, &wait).events;
        assert!(events.is_empty(), "no room: {events:?}");
        assert_eq!(world.call(1, &Call::Poll { handle: 1, events: libc::POLLOUT }).result, 0);
        let got = drain(world);
        assert_eq!(got.len(), sent, "all that was taken arrives");
        let first: Vec<u8> = counted(0, 5_000);
        assert_eq!(got[..5_000], first);
        assert_eq!(world.call(1, &wait).events, [(1, libc::EPOLLOUT as u32)]);
        assert!(world.call(1, &wait).events.is_empty(), "an edge is told once");
        assert_eq!(world.call(1, &Call::Poll { handle: 1, events: libc::POLLOUT }).result, 1);
    }
}

#[test]
fn the_kernel_tells_of_room() {
    room_is_told(&mut Kernel::new(std::process::id(), Duration::from_millis(2)));
}

#[test]
fn ours_tells_of_room() {
    room_is_told(&mut Ours::new(Defaults::default()));
}

/// Where the queue never is long enough for the stack to tell of its end.
#[test]
fn ours_tells_of_room_in_small_buffers() {
    room_is_told(&mut Ours::new(Defaults { send_limit: 30_000, ..Defaults::default() }));
    room_is_told(&mut Ours::new(Defaults { not_sent_low_water: 25_000, ..Defaults::default() }));
}
