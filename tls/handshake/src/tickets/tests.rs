use super::*;

fn ticketer(keys: &Arc<TicketKeys>, binding: u8) -> Ticketer {
    Ticketer { keys: Arc::clone(keys), binding: [binding; 32], lifetime: 300 }
}

#[test]
fn a_ticket_is_opened_by_its_server_in_its_time() {
    let keys = Arc::new(TicketKeys::rotating());
    let (one, other) = (ticketer(&keys, 1), ticketer(&keys, 2));
    let ticket = one.seal(b"session", 1_000).expect("sealed");
    assert_eq!(one.open(&ticket, 1_000).as_deref(), Some(&b"session"[..]));
    assert_eq!(one.open(&ticket, 1_299).as_deref(), Some(&b"session"[..]));
    assert_eq!(one.open(&ticket, 1_300), None, "it is too old");
    assert_eq!(one.open(&ticket, 900), None, "it is of the future");
    assert_eq!(other.open(&ticket, 1_000), None, "it is another server's");
    for at in 0..ticket.len() {
        let mut bad = ticket.clone();
        bad[at] ^= 1;
        assert_eq!(one.open(&bad, 1_000), None, "byte {at}");
        assert_eq!(one.open(&ticket[..at], 1_000), None, "cut at {at}");
    }
    assert_ne!(one.seal(b"session", 1_000), Some(ticket), "each has a key of its own");
}

#[test]
fn keys_change_and_the_old_ones_still_open() {
    let keys = Arc::new(TicketKeys::rotating());
    let one = ticketer(&keys, 1);
    let first = one.seal(b"session", 10_000).expect("sealed");
    let late = one.seal(b"session", 10_000 + PERIOD - 1).expect("sealed");
    assert_eq!(first[..NAME], late[..NAME]);
    let now = 10_000 + PERIOD;
    let second = one.seal(b"session", now).expect("sealed");
    assert_ne!(first[..NAME], second[..NAME]);
    assert!(one.open(&late, now + 200).is_some());
    let third = one.seal(b"session", now + PERIOD).expect("sealed");
    assert!(one.open(&third, now + PERIOD).is_some());
    assert_eq!(one.keys.keys.read().expect("read").len(), 2, "what no ticket is left of is gone");
}

#[test]
fn keys_of_files_are_the_same_everywhere() {
    let file = |byte: u8, length: usize| Zeroizing::new((0..length).map(|at| at as u8 ^ byte).collect::<Vec<u8>>());
    for length in [48, 80] {
        let one = ticketer(&Arc::new(TicketKeys::of_files(&[file(1, length)]).expect("a key")), 1);
        let both = [file(2, 80), file(1, length)];
        let other = ticketer(&Arc::new(TicketKeys::of_files(&both).expect("keys")), 1);
        let ticket = one.seal(b"session", 1_000).expect("sealed");
        assert!(other.open(&ticket, 1_000).is_some());
        let theirs = other.seal(b"session", 1_000).expect("sealed");
        assert!(one.open(&theirs, 1_000).is_none(), "the first of the files makes them");
    }
    for length in [0, 47, 49, 64, 81] {
        assert!(TicketKeys::of_files(&[file(1, length)]).is_err());
    }
}
