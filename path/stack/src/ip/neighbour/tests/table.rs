//! What the table holds, who gives way, and its books.

use super::*;

#[test]
fn held_frames_are_bounded_and_the_first_are_kept() {
    let mut table = NeighbourTable::new(at(0));
    let id = table.resolve(v4(1), at(0));
    for n in 0..MAX_HELD_FRAMES + 10 {
        table.hold(id, &frame(n as u8));
    }
    assert_eq!(table.counters().held_full, 10);
    // Too short for a destination, and for nobody.
    table.hold(id, &[1, 2, 3]);
    table.hold(NeighbourId::NONE, &frame(1));
    assert_eq!(table.counters().held_full, 12);
    drain(&mut table, at(0));
    reply(&mut table, v4(1), A, at(1));
    let out = drain(&mut table, at(1));
    assert_eq!((out.len(), &out[0], &out[1]), (MAX_HELD_FRAMES, &sent(A, 0), &sent(A, 1)));

    // All together.
    let large = vec![0; 64 * 1024];
    for n in 2..40 {
        let id = table.resolve(v4(n), at(1));
        table.hold(id, &large);
        assert!(table.held_bytes <= MAX_HELD_BYTES);
    }
    assert_eq!(table.held_bytes, MAX_HELD_BYTES);
}

#[test]
fn a_frame_for_a_known_neighbour_goes_at_once() {
    let (mut table, id) = resolved();
    table.hold(id, &frame(3));
    assert_eq!(drain(&mut table, at(1)), [sent(A, 3)]);
}

#[test]
fn a_scan_does_not_displace_those_who_answer() {
    let mut table = NeighbourTable::with_limit(2000, at(0));
    let known = table.resolve_from(v4(1), A, at(0));
    for n in 2..10_000 {
        let id = table.resolve(v4(n), at(0));
        assert_eq!(id == NeighbourId::NONE, n as usize > MAX_INCOMPLETE + 1);
    }
    assert_eq!(table.incomplete, MAX_INCOMPLETE);
    assert_eq!(table.mac(known), Some(A));
    // One who asks for us is known all the same.
    table.on_arp(&arp(Operation::Request, v4(20_000), B), true, at(1));
    let id = table.resolve(v4(20_000), at(1));
    assert_eq!(table.mac(id), Some(B));
    // Solicitations come at their rate: a burst, then one a millisecond.
    assert_eq!(drain(&mut table, at(1)).len(), 100);
    assert!(table.counters().put_off > 0);
    let total: usize = (2..1002).map(|ms| drain(&mut table, at(ms)).len()).sum();
    assert!((900..=1000).contains(&total), "{total}");
}

#[test]
fn the_full_table_gives_up_what_nobody_needs() {
    let mut table = NeighbourTable::with_limit(8, at(0));
    let ids: Vec<_> = (0..8).map(|n| table.resolve_from(v4(n), A, at(0))).collect();
    table.pin(ids[0]);
    // Nobody else is pinned, all were just made: one of them gives way.
    let new = table.resolve_from(v4(100), B, at(0));
    assert_ne!(new, NeighbourId::NONE);
    assert_eq!((table.mac(ids[0]), table.counters().evicted), (Some(A), 1));
    assert_eq!(table.index.len(), 8);
    // All pinned: nobody gives way, and that is said.
    let all: Vec<_> = (0..8).map(NeighbourId).collect();
    all.iter().for_each(|id| table.pin(*id));
    assert_eq!(table.resolve_from(v4(200), B, at(0)), NeighbourId::NONE);
    assert_eq!(table.resolve(v4(200), at(0)), NeighbourId::NONE);
    assert_eq!(table.counters().table_full, 2);
    assert_eq!(table.mac(NeighbourId::NONE), None);
    // Pins are counted.
    table.unpin(ids[0]);
    assert_eq!(table.resolve_from(v4(200), B, at(0)), NeighbourId::NONE);
    table.unpin(ids[0]);
    assert_eq!(table.resolve_from(v4(200), B, at(0)), ids[0]);
    assert_eq!(table.mac(ids[0]), Some(B));
}

#[test]
fn what_is_used_outlives_what_is_not() {
    let mut table = NeighbourTable::with_limit(64, at(0));
    let favourite = table.resolve_from(v4(1), A, at(0));
    for n in 100..1100 {
        // Used between any two others.
        assert_eq!(table.mac(favourite), Some(A));
        assert_eq!(table.resolve(v4(1), at(0)), favourite);
        assert_ne!(table.resolve_from(v4(n), B, at(0)), NeighbourId::NONE);
    }
    assert_eq!(table.mac(favourite), Some(A));
}

/// Anything in any order: the books stay right, a pinned id keeps its
/// address, and what is sent for an id goes to an address learned for it.
#[test]
fn random_calls_keep_the_books() {
    let mut random = 1_u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % limit
    };
    let mut table = NeighbourTable::with_limit(24, at(0));
    let mut pinned: Vec<(NeighbourId, IpAddr)> = Vec::new();
    let mut now = 0;
    for _ in 0..100_000 {
        now += below(400);
        let n = below(60) as u16;
        let ip = if n < 30 { v4(u32::from(n)) } else { v6(n).into() };
        // Who has an address tells in the last byte of its hardware address.
        let mac = Mac([2, 0, 0, 0, below(2) as u8, n as u8]);
        match below(10) {
            0 | 1 => {
                let id = table.resolve(ip, at(now));
                table.hold(id, &frame(n as u8));
            }
            2 if n % 7 == 3 => drop(table.resolve_off_link(ip, mac, at(now))),
            2 => drop(table.resolve_from(ip, mac, at(now))),
            3 if n < 30 => table.on_arp(&arp(Operation::Request, ip, mac), below(2) == 0, at(now)),
            4 if n < 30 => reply(&mut table, ip, mac, at(now)),
            5 if n >= 30 => {
                let named = (below(3) > 0).then_some(mac);
                table.on_advertisement(&advertisement(v6(n), below(2) == 0, below(2) == 0, named), at(now));
            }
            6 => table.confirm(NeighbourId(n), at(now)),
            7 if pinned.len() < 12 => {
                let id = table.resolve(ip, at(now));
                if id != NeighbourId::NONE {
                    table.pin(id);
                    pinned.push((id, ip));
                }
            }
            8 if !pinned.is_empty() => table.unpin(pinned.swap_remove(below(pinned.len() as u64) as usize).0),
            _ => {}
        }
        for output in drain(&mut table, at(now)) {
            match output {
                Output::Frame(frame) => assert_eq!(frame[5], frame[6], "sent to another's address"),
                Output::Failed { id, ip, .. } => assert_eq!(table.index.get(&ip), Some(&id)),
                Output::Solicit { .. } => {}
            }
        }
        for (id, ip) in &pinned {
            assert_eq!(table.index.get(ip), Some(id));
        }
        check_books(&table, at(now));
    }
    let counters = table.counters();
    let met = [
        counters.evicted,
        counters.failed,
        counters.changed,
        counters.held_lost,
        counters.solicited,
        counters.disputed,
    ];
    assert!(met.iter().all(|count| *count > 0), "{counters:?}");
}

fn check_books(table: &NeighbourTable, now: Time) {
    assert_eq!(table.index.len(), table.entries.len());
    let held = table.entries.iter().flat_map(|entry| &entry.held).map(|frame| frame.len());
    assert_eq!(held.sum::<usize>(), table.held_bytes);
    let incomplete = table.entries.iter().filter(|entry| matches!(entry.state, State::Incomplete { .. }));
    assert_eq!(incomplete.count(), table.incomplete);
    let mut timers = 0;
    for (at, entry) in table.entries.iter().enumerate() {
        assert_eq!(table.index.get(&entry.ip), Some(&NeighbourId(at as u16)));
        assert_eq!(table.hot[at].known, entry.state.is_known());
        // Whoever waits for a timer stands on the list, and in the future.
        // Stale entries are watched only while somebody may use them.
        match entry.state {
            State::Failed => assert_eq!(entry.due, Time::MAX),
            State::Stale => assert!(entry.due < Time::MAX || entry.pins == 0 || entry.off_link),
            _ => assert!(entry.due < Time::MAX),
        }
        if entry.due != Time::MAX {
            assert!(entry.due > now && table.timers.contains(&(entry.due, at as u16)));
            timers += 1;
        }
        assert!(entry.held.is_empty() || matches!(entry.state, State::Incomplete { .. } | State::Disputed { .. }));
    }
    assert_eq!(table.timers.len(), timers);
}

/// A frame of the neighbour of the last one is looked at less, and nothing
/// comes of it but what would have come of it in full, whatever happened before.
#[test]
fn a_frame_from_the_last_neighbour_is_looked_at_less_with_the_same_outcome() {
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for _ in 0..400 {
        let (mut short, mut full) = (NeighbourTable::new(at(1)), NeighbourTable::new(at(1)));
        let mut ms = 1;
        for _ in 0..60 {
            ms += [0, 1, 700, 1_000, 6_000, 31_000][random(6) as usize];
            let (now, ip) = (at(ms), v4(1 + random(2) as u32));
            let mac = [A, A, A, B, Mac::ZERO, Mac([1; 6])][random(6) as usize];
            let (what, flag) = (random(12), random(2) == 0);
            match what {
                0..=4 => {
                    let id = short.resolve_by_frame(ip, mac, flag, now);
                    assert_eq!(full.resolve_news(ip, mac, flag, now), id);
                }
                _ => {
                    for table in [&mut short, &mut full] {
                        match what {
                            5 => _ = table.resolve(ip, now),
                            6 => _ = table.resolve_off_link(ip, mac, now),
                            7 => table.on_host(ip, mac, flag, now),
                            8 => table.on_host_lost(ip, now),
                            9 => reply(table, ip, if flag { A } else { B }, now),
                            10 => _ = table.mac(NeighbourId(0)),
                            _ => _ = drain(table, now),
                        }
                    }
                }
            }
            assert_eq!(format!("{short:?}"), format!("{full:?}"));
        }
    }
}
