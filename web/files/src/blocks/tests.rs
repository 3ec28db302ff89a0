use super::*;

const FILE: Identity = Identity::NONE;

/// As many blocks as there may be.
fn blocks(count: usize) -> Blocks {
    Blocks::new(count * (BLOCK + ALIGNMENT)).expect("enough")
}

fn read(blocks: &mut Blocks, number: u64) -> bool {
    let Some((id, memory)) = blocks.begin(&FILE, number) else { return false };
    assert_eq!(memory.capacity(), BLOCK + ALIGNMENT, "no memory is lost");
    assert!(blocks.filled(id, memory, 0).is_empty());
    true
}

/// As a stream that comes by.
fn ask(blocks: &mut Blocks, number: u64) -> bool {
    let there = matches!(blocks.find(&FILE, number, true), Lookup::Ready(..));
    there || !read(blocks, number)
}

#[test]
fn a_block_is_read_once_for_all_who_wait() {
    let mut blocks = blocks(16);
    assert!(matches!(blocks.find(&FILE, 7, true), Lookup::Absent));
    let (id, mut memory) = blocks.begin(&FILE, 7).unwrap();
    let works = [1, 2].map(|place| WorkId { place, serial: 1 });
    for work in works {
        let Lookup::Reading(same) = blocks.find(&FILE, 7, true) else { panic!() };
        assert_eq!(same, id);
        blocks.wait(same, work);
    }
    memory[100] = 9;
    assert_eq!(blocks.filled(id, memory, 100), works);
    let Lookup::Ready(body, from) = blocks.find(&FILE, 7, true) else { panic!() };
    assert_eq!(body.as_slice()[from as usize], 9);
    let mut other = FILE;
    other.size = 1;
    assert!(matches!(blocks.find(&other, 7, true), Lookup::Absent), "another state of the file has its own");
}

#[test]
fn what_is_being_sent_or_read_stays() {
    let mut blocks = blocks(16);
    let mut sent = Vec::new();
    for number in 0..8 {
        assert!(read(&mut blocks, number));
        let Lookup::Ready(body, _) = blocks.find(&FILE, number, false) else { panic!() };
        sent.push(body);
    }
    let reading: Vec<_> = (8..12).map(|number| blocks.begin(&FILE, number).unwrap().0).collect();
    for number in 100..200 {
        assert!(read(&mut blocks, number));
    }
    assert!((0..8).all(|number| matches!(blocks.find(&FILE, number, false), Lookup::Ready(..))));
    assert!((8..12).all(|number| matches!(blocks.find(&FILE, number, false), Lookup::Reading(_))));
    // No more than there may be, and nobody waits for ever for one.
    let more: Vec<_> = core::iter::from_fn(|| blocks.begin(&FILE, 1_000 + blocks.by_key.len() as u64)).collect();
    assert!(more.len() <= 4 && blocks.places.len() == 16);
    assert!(blocks.begin(&FILE, 5_000).is_none());
    sent.clear();
    assert!(blocks.begin(&FILE, 5_000).is_some());
    drop(reading);
}

#[test]
fn one_that_cannot_be_read_is_absent_again() {
    let mut blocks = blocks(16);
    for _ in 0..100 {
        let (id, memory) = blocks.begin(&FILE, 1).unwrap();
        blocks.wait(id, WorkId { place: 3, serial: 4 });
        assert_eq!(blocks.failed(id, memory).len(), 1);
        assert!(matches!(blocks.find(&FILE, 1, true), Lookup::Absent));
    }
    assert_eq!((blocks.newcomers.len(), blocks.stayers.len(), blocks.by_key.len()), (0, 0, 0));
    assert_eq!((blocks.places.len(), blocks.vacant.len()), (1, 1));
    // What is late of one that went is nobody's.
    let (old, memory) = blocks.begin(&FILE, 1).unwrap();
    blocks.failed(old, memory);
    let (_new, _memory) = blocks.begin(&FILE, 2).unwrap();
    assert!(blocks.filled(old, Vec::new(), 0).is_empty());
    assert!(matches!(blocks.find(&FILE, 2, true), Lookup::Reading(_)));
}

/// One reader of a long file after the other takes nothing from what many ask for.
#[test]
fn what_is_asked_for_again_outlives_what_goes_by() {
    let mut blocks = blocks(100);
    let popular = 0..60;
    let mut passing = 1_000;
    for _ in 0..5 {
        for number in popular.clone() {
            ask(&mut blocks, number);
        }
    }
    let (mut hits, mut asked) = (0, 0);
    for round in 0..50 {
        for number in popular.clone() {
            asked += 1;
            hits += usize::from(ask(&mut blocks, number));
            // Two that nobody asks for again, for each.
            for _ in 0..2 {
                passing += 1;
                assert!(!ask(&mut blocks, passing), "round {round}");
            }
        }
    }
    assert!(hits * 100 >= asked * 95, "{hits} of {asked}");
    assert!(blocks.gone.len() <= 100 && blocks.gone_keys.len() <= blocks.gone.len() && blocks.by_key.len() <= 100);
}
