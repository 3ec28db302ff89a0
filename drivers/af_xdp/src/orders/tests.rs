use super::*;
use crate::frames::{ReceiveFrames, Rooms, SendFrames};
use crate::ring::tests::Memory;
use crate::ring::{Consumer, Descriptor, Producer};
use proptest::prelude::*;
use std::collections::BTreeSet;

const SIZE: u32 = 64;
const FRAME: u32 = 2_048;

/// A frame to send is free, in the ring, with the kernel, or done.
fn check_sending(
    sending: &SendFrames,
    (ring, in_flight, done): (&Consumer<Descriptor>, &[u64], u32),
) -> Result<(), TestCaseError> {
    let free: BTreeSet<u64> = sending.free().iter().copied().collect();
    prop_assert_eq!(free.len(), sending.free().len(), "twice free");
    let waiting: Vec<u64> = (0..ring.available()).map(|n| ring.peek(n).address).collect();
    prop_assert!(waiting.iter().chain(in_flight).all(|frame| !free.contains(frame)));
    prop_assert_eq!(free.len() + waiting.len() + in_flight.len() + done as usize, SIZE as usize);
    Ok(())
}

/// A frame to receive into is with the kernel, or waits.
fn check_rooms(empty: &Consumer<u64>, waiting: u32) -> Result<(), TestCaseError> {
    let rooms: BTreeSet<u64> = (0..empty.available()).map(|n| empty.peek(n)).collect();
    prop_assert_eq!(rooms.len(), empty.available() as usize, "twice empty");
    prop_assert_eq!(empty.available() + waiting, SIZE);
    Ok(())
}

proptest! {
    /// A process sends and receives, and stops anywhere between two turns;
    /// another goes on from the rings and the account, several times over.
    /// Each frame is in one place all the while, and none is lost.
    #[test]
    fn no_frame_is_lost_or_used_twice(
        start: u32,
        lives in proptest::collection::vec(proptest::collection::vec((0u8..5, 0u32..24), 0..60), 1..6),
    ) {
        let (mut ring, mut completion) = (Memory::<Descriptor>::new(SIZE, start), Memory::<u64>::new(SIZE, start));
        let (mut arrived, mut fill) = (Memory::<Descriptor>::new(SIZE, start), Memory::<u64>::new(SIZE, start));
        let (ring, completion, arrived, fill) = (ring.parts(), completion.parts(), arrived.parts(), fill.parts());
        // SAFETY: the memory outlives all; the kernel's sides are used here only.
        let (mut to_send, mut done, mut incoming, mut empty) = unsafe {
            (Consumer::new(ring), Producer::new(completion), Producer::new(arrived), Consumer::new(fill))
        };
        let send_base = u64::from(SIZE * FRAME);
        let place = |n: u32| send_base + u64::from(n * FRAME);
        let relay = Relay::create(FRAME).unwrap();
        let mut in_flight = Vec::new();
        for life in lives {
            // SAFETY: our sides, of one process after the other.
            let (send, sent, receive, mut rooms) = unsafe {
                (Producer::new(ring), Consumer::new(completion), Consumer::new(arrived), Producer::new(fill))
            };
            let mut sending = match relay.account(SIZE) {
                None => {
                    (0..u64::from(SIZE)).for_each(|n| rooms.push(n * u64::from(FRAME)));
                    rooms.publish();
                    SendFrames::new(send, sent, (0..SIZE).map(place), Rooms::new(send_base, SIZE, FRAME))
                }
                Some(Account { free, .. }) => {
                    SendFrames::resume(send, sent, free.into_iter().map(place).collect(), Rooms::new(send_base, SIZE, FRAME))
                }
            };
            let mut receiving = ReceiveFrames::new(receive, rooms, Rooms::new(0, SIZE, FRAME));
            for (step, count) in life {
                match step {
                    0 => {
                        let taken = (0..count).take_while(|_| sending.next().is_some() && sending.push(60)).count();
                        prop_assert!(taken as u32 == count || sending.room() == 0);
                        sending.publish();
                    }
                    1 => for _ in 0..count.min(to_send.available()) {
                        in_flight.push(to_send.peek(0).address);
                        to_send.advance(1);
                    },
                    2 => for _ in 0..count.min(in_flight.len() as u32) {
                        done.push(in_flight.remove(0));
                        done.publish();
                    },
                    3 => for _ in 0..count.min(empty.available()) {
                        incoming.push(Descriptor { address: empty.peek(0) + 256, len: 60, options: 0 });
                        incoming.publish();
                        empty.advance(1);
                    },
                    // A burst, taken and given back.
                    _ => {
                        let count = count.min(receiving.waiting());
                        let burst: Vec<u64> = (0..count).filter_map(|n| receiving.look(n)).map(|(at, _)| at).collect();
                        receiving.take(count);
                        burst.into_iter().for_each(|address| receiving.give(address));
                        let _ = receiving.publish();
                    }
                }
                let away = (&to_send, in_flight.as_slice(), done.pending());
                check_sending(&sending, away)?;
                check_rooms(&empty, receiving.waiting())?;
            }
            sending.reap();
            let numbers = sending.free().iter().map(|address| ((address - send_base) / u64::from(FRAME)) as u32);
            relay.write_account(1, numbers);
        }
    }
}

/// Each attempt gives every queue two eventfds.
#[test]
fn a_take_over_that_fails_leaves_nothing_behind() {
    let orders = Orders::new(2);
    let attempt = || {
        let bells: Vec<_> = (0..2).map(|_| (bell().unwrap(), Arc::new(Relay::create(FRAME).unwrap()))).collect();
        for (seat, (bell, relay)) in orders.seats().iter_mut().zip(&bells) {
            // SAFETY: nobody else has these ends, and nothing passes by them.
            let (receiver, sender) = unsafe {
                let receiver = Receiver::new(Arc::clone(relay), Way::Down);
                (receiver, Sender::new(Arc::clone(relay), Way::Up, Arc::clone(bell)))
            };
            seat.ends = Some(Ends { receiver, sender, bell: Arc::clone(bell), relay: Arc::clone(relay) });
            seat.upper_bell = Some(Arc::clone(bell));
        }
        orders.give(|seat| seat.order = Order::Offer);
        orders.resume();
        // Each queue was woken, for it may sleep on that.
        for (bell, _) in &bells {
            assert_eq!(rustix::io::read(bell, &mut [0_u8; 8]), Ok(8));
        }
        bells
    };
    for (bell, relay) in (0..3).flat_map(|_| attempt()) {
        assert_eq!((Arc::strong_count(&bell), Arc::strong_count(&relay)), (1, 1));
    }
    assert!(orders.seats().iter().all(|seat| seat.order == Order::Serve));
    // Queues that are another process's stay so.
    orders.give(|seat| seat.order = Order::Leave);
    orders.resume();
    assert!(orders.seats().iter().all(|seat| seat.order == Order::Leave));
}

/// Of a file that can be shortened, an access could be a SIGBUS.
#[test]
fn memory_that_is_not_sealed_is_not_adopted() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let config: Config = "af_xdp:e,ring=64,hugepages=off".parse().unwrap();
    let file = || {
        let file = memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, u64::from(2 * 64 * FRAME)).unwrap();
        file
    };
    let adopt = |file: OwnedFd| Umem::adopt(file, &config, FRAME, 1).map(drop);
    assert_eq!(adopt(file()), Err(Errno::PERM));
    for seals in [SealFlags::SHRINK, SealFlags::SHRINK | SealFlags::GROW] {
        let file = file();
        fcntl_add_seals(&file, seals).unwrap();
        assert_eq!(adopt(file), Err(Errno::PERM));
    }
    let sealed = file();
    fcntl_add_seals(&sealed, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    assert_eq!(adopt(sealed), Ok(()));
    let own = Umem::new(&config, FRAME, 1).unwrap();
    assert_eq!(adopt(own.file().try_clone_to_owned().unwrap()), Ok(()));
    assert!(adopt(std::fs::File::open("/dev/null").unwrap().into()).is_err());
}
