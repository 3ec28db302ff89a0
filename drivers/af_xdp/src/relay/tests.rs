use super::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use wire::protocol;

const FRAME: u32 = 2_048;

fn ends() -> (Arc<Relay>, Sender, Receiver, Arc<OwnedFd>) {
    let relay = Arc::new(Relay::create(FRAME).unwrap());
    let bell = Arc::new(rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let other = relay.as_fd().try_clone_to_owned().unwrap();
    let other = Arc::new(Relay::open(other, FRAME).expect("the same memory"));
    // SAFETY: each end is made once.
    let (sender, receiver) =
        unsafe { (Sender::new(Arc::clone(&relay), Way::Down, Arc::clone(&bell)), Receiver::new(other, Way::Down)) };
    (relay, sender, receiver, bell)
}

fn bytes_at(receiver: &Receiver, index: u32) -> &[u8] {
    let (start, len) = receiver.look(index);
    // SAFETY: not released while the slice lives.
    unsafe { core::slice::from_raw_parts(start.as_ptr(), len as usize) }
}

fn rings(bell: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(bell, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

#[test]
fn frames_arrive_in_order_and_a_full_ring_says_so() {
    let (_relay, mut sender, mut receiver, _bell) = ends();
    for round in 0..3_u32 {
        for n in 0..SLOTS {
            assert!(sender.push(&[(round + n) as u8; 60]));
        }
        assert_eq!((sender.room(), sender.push(&[0; 60]), receiver.waiting()), (0, false, 0));
        sender.publish();
        assert_eq!(receiver.waiting(), SLOTS);
        for n in 0..SLOTS {
            assert_eq!(bytes_at(&receiver, n), [(round + n) as u8; 60]);
        }
        receiver.release(SLOTS - 1);
        assert_eq!((receiver.waiting(), sender.room()), (1, SLOTS as usize - 1));
        receiver.release(1);
    }
    // What is longer than a slot is none's.
    assert!(!sender.push(&[0; FRAME as usize]));
    let slot = sender.slot().unwrap().len();
    sender.commit(slot + 1);
    sender.publish();
    assert_eq!(bytes_at(&receiver, 0).len(), slot);
}

#[test]
fn whoever_sleeps_is_woken_once() {
    let (_relay, mut sender, receiver, bell) = ends();
    assert!(sender.push(&[1; 60]));
    sender.publish();
    assert!(!rings(&bell), "nobody sleeps");
    assert!(receiver.lie_down(), "a frame waits");
    let mut receiver = receiver;
    receiver.release(1);
    assert!(!receiver.lie_down());
    assert!(sender.push(&[2; 60]));
    sender.publish();
    assert!(rings(&bell));
    hush(&bell);
    assert!(sender.push(&[3; 60]));
    sender.publish();
    assert!(!rings(&bell), "it was woken already");
    assert_eq!(receiver.waiting(), 2);
}

#[test]
fn an_account_says_which_frames_are_free_and_no_others() {
    let relay = Relay::create(FRAME).unwrap();
    assert_eq!(relay.account(512), None, "none was written");
    relay.write_account(7, [511, 0, 64, 63].into_iter());
    assert_eq!(relay.account(512), Some(Account { last: 7, free: vec![0, 63, 64, 511] }));
    // Of a smaller ring, the last does not exist.
    assert_eq!(relay.account(511), None);
    relay.write_account(8, core::iter::empty());
    assert_eq!(relay.account(64), Some(Account { last: 8, free: Vec::new() }));
    relay.write_account(9, 0..16_384);
    assert_eq!(relay.account(16_384).unwrap().free.len(), 16_384);
}

/// Beyond the end of a file lies SIGBUS, and another version is another
/// memory.
#[test]
fn what_is_no_relay_is_refused() {
    let none = || rustix::fs::memfd_create(c"none", MemfdFlags::ALLOW_SEALING).unwrap();
    assert!(Relay::open(none(), FRAME).is_none());
    let short = none();
    rustix::fs::ftruncate(&short, 4_096).unwrap();
    rustix::fs::fcntl_add_seals(&short, SealFlags::SHRINK).unwrap();
    assert!(Relay::open(short, FRAME).is_none());
    let empty = none();
    rustix::fs::ftruncate(&empty, 16 << 20).unwrap();
    assert!(Relay::open(empty.try_clone().unwrap(), FRAME).is_none(), "it could shrink");
    rustix::fs::fcntl_add_seals(&empty, SealFlags::SHRINK).unwrap();
    assert!(Relay::open(empty, FRAME).is_none(), "it is of no version");
    let relay = Relay::create(FRAME).unwrap();
    let copy = || relay.as_fd().try_clone_to_owned().unwrap();
    assert!(Relay::open(copy(), FRAME).is_some() && Relay::open(copy(), 4_096).is_none());
    assert!(Relay::open(std::fs::File::open("/dev/null").unwrap().into(), FRAME).is_none());
}

#[test]
fn answers_errors_and_fragments_concern_both() {
    let ip4 = |protocol: u8, fragment: u16, first: u8| {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        (frame[23], frame[34]) = (protocol, first);
        frame
    };
    let ip6 = |next: u8, first: u8| {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        (frame[20], frame[54]) = (next, first);
        frame
    };
    let arp = |operation: u8| {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[8, 6]);
        frame[21] = operation;
        frame
    };
    for (frame, both) in [
        (ip4(protocol::TCP, 0, 3), false),
        // Do not fragment.
        (ip4(protocol::TCP, 0x4000, 3), false),
        (ip4(protocol::TCP, 0x2000, 0), true),
        (ip4(protocol::TCP, 0x0001, 0), true),
        (ip4(protocol::ICMP, 0, 3), true),
        (ip4(protocol::ICMP, 0, 8), false),
        (ip6(protocol::TCP, 1), false),
        (ip6(protocol::ICMPV6, 2), true),
        (ip6(protocol::ICMPV6, 136), true),
        // A neighbour's question is answered by one.
        (ip6(protocol::ICMPV6, 135), false),
        (ip6(protocol::ICMPV6, 128), false),
        (ip6(44, 0), true),
        (arp(1), false),
        (arp(2), true),
    ] {
        assert_eq!(concerns_both(&frame), both, "{frame:x?}");
        for len in 0..frame.len() {
            let _ = concerns_both(&frame[..len]);
        }
    }
}
