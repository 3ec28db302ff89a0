use super::*;

fn pair(size: usize) -> (Producer, Consumer) {
    let (region, parts) = Region::new([size].into_iter()).unwrap();
    ring(&Arc::new(region), parts[0])
}

/// The bytes of record `number`: its length and contents follow from it.
fn contents(number: u64) -> Vec<u8> {
    let len = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 700;
    (0..len).map(|at| (number + at) as u8).collect()
}

#[test]
fn a_record_lies_in_one_piece_and_never_on_another() {
    let size = 256;
    let mut state = 7_u64;
    let (mut head, mut tail) = (u64::MAX - 500, u64::MAX - 500);
    let mut under_way = std::collections::VecDeque::new();
    for _ in 0..100_000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        let len = (state >> 33) as usize % 150;
        match fit(size, head, tail, len) {
            Some(Fit { skip, at, bytes }) => {
                assert_eq!(at, head.wrapping_add(skip as u64) as usize % size);
                assert!(at + bytes <= size, "in one piece");
                head = head.wrapping_add((skip + bytes) as u64);
                under_way.push_back(skip + bytes);
                assert!(under_way.iter().sum::<usize>() <= size, "within the ring");
            }
            None => {
                assert!(!under_way.is_empty() || taken(len) * 2 > size, "an empty ring has room for half of it");
                let Some(first) = under_way.pop_front() else { continue };
                tail = tail.wrapping_add(first as u64);
            }
        }
    }
}

#[test]
fn records_come_out_as_they_went_in() {
    let (mut tx, mut rx) = pair(RING_MIN);
    let (mut sent, mut seen, mut full) = (0, 0, 0);
    while seen < 50_000 {
        while tx.push(&contents(sent), (sent % 200) as u8, (sent % 7) as u8, sent) {
            sent += 1;
        }
        full += 1;
        assert!(rx.take().is_none() || seen > 0 || !tx.publish(), "nothing is seen before it is published");
        tx.publish();
        let mut records = Vec::new();
        while let Some(record) = rx.take() {
            records.push(record);
        }
        for record in &records {
            assert_eq!(record.head.note, seen);
            assert_eq!((record.head.kind, record.head.flags), ((seen % 200) as u8, (seen % 7) as u8));
            assert_eq!(rx.bytes(record), contents(seen));
            seen += 1;
        }
        rx.release();
    }
    assert!(full > 1_000, "the ring was filled up many times");
}

#[test]
fn a_shorter_record_takes_what_it_needs() {
    let (mut tx, mut rx) = pair(RING_MIN);
    for number in 0..500_u64 {
        let slot = tx.reserve(1_518).expect("an empty ring has room");
        slot[..8].copy_from_slice(&number.to_be_bytes());
        assert_eq!(tx.reserve(1_518).expect("the same slot")[..8], number.to_be_bytes());
        tx.commit(Head { len: 8, ..Head::default() });
        tx.commit(Head { len: 9, ..Head::default() });
        assert!(tx.publish() && !tx.publish());
        let record = rx.take().expect("a record");
        assert_eq!(rx.bytes(&record), number.to_be_bytes());
        assert!(rx.take().is_none() && !rx.has_more());
        rx.put_back(&record);
        assert!(rx.has_more());
        assert_eq!(rx.take(), Some(record));
        rx.release();
    }
}

#[test]
fn room_is_never_overstated() {
    let (mut tx, mut rx) = pair(RING_MIN);
    for round in 0..300 {
        let room = tx.room(600);
        for _ in 0..room {
            assert!(tx.push(&[1; 600], 0, 0, 0), "round {round}");
        }
        tx.publish();
        for _ in 0..round % 7 {
            rx.take();
        }
        rx.release();
    }
}

/// Two threads, the ring nearly always full or empty: nothing is lost, seen
/// twice or torn.
#[test]
fn two_threads_hand_over_every_record() {
    const RECORDS: u64 = if cfg!(miri) { 300 } else { 60_000 };
    let (mut tx, mut rx) = pair(RING_MIN);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..RECORDS {
                while !tx.push(&contents(number), 1, 0, number) {
                    tx.publish();
                    std::thread::yield_now();
                }
                if number % 3 == 0 {
                    tx.publish();
                }
            }
            tx.publish();
        });
        let mut seen = 0;
        while seen < RECORDS {
            while let Some(record) = rx.take() {
                assert_eq!(record.head.note, seen);
                assert_eq!(rx.bytes(&record), contents(seen));
                seen += 1;
            }
            rx.release();
            std::thread::yield_now();
        }
    });
}
