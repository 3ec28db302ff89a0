//! Thousands of connections whose time is up at once, and one that asks.

use super::*;

/// Frames that are taken in a turn, as a silo takes them.
const BURST: usize = 32;

/// Slots in each direction of the link.
const RING: usize = 256;

/// Connections that end.
const ENDING: usize = 4_096;

/// Turns in a millisecond.
const TURNS: u64 = 50;

/// The server's turn, whose application answers whatever comes, and ends whoever's time is up: so
/// many did, and whether the burst was full.
fn serve(server: &mut Host, frames: &mut VecDeque<Vec<u8>>, now: Time) -> (usize, bool) {
    let mut ended = 0;
    server.stack.begin_turn(now);
    let burst: Vec<_> = frames.drain(..frames.len().min(BURST)).collect();
    for frame in &burst {
        match server.stack.on_frame(frame, false, &mut server.out) {
            Arrived::Data(id, _) => {
                server.stack.send_bytes(id, b"answer");
                server.stack.settle(id, &mut server.out);
            }
            Arrived::Segment(arrival) if !arrival.data.is_empty() => {
                server.stack.send_bytes(arrival.id, b"answer");
            }
            _ => {}
        }
    }
    server.stack.on_timers_amid(burst.len() == BURST, &mut server.out);
    while let Some(id) = server.stack.poll_app_timer() {
        server.stack.finish(id);
        ended += 1;
    }
    server.stack.poll_transmit(&mut server.out);
    while server.stack.poll_closed().is_some() {}
    (ended, burst.len() == BURST)
}

/// The client's turn: whoever is told the end ends, too. Answers that came.
fn ask(client: &mut Host, sent: &mut VecDeque<Vec<u8>>, now: Time) -> usize {
    let mut answers = 0;
    client.stack.begin_turn(now);
    for frame in sent.drain(..sent.len().min(BURST)) {
        match client.stack.on_frame(&frame, false, &mut client.out) {
            Arrived::Data(id, _) => {
                client.stack.settle(id, &mut client.out);
                answers += 1;
            }
            Arrived::Segment(arrival) if arrival.outcome.finished => client.stack.finish(arrival.id),
            Arrived::Segment(arrival) if !arrival.data.is_empty() => answers += 1,
            _ => {}
        }
    }
    client.stack.on_timers(&mut client.out);
    client.stack.poll_transmit(&mut client.out);
    while client.stack.poll_closed().is_some() {}
    answers
}

#[test]
fn who_asks_is_answered_while_thousands_end() {
    let mut pair = acquainted(|_| {});
    let active = (pair.client.opened[0], pair.server.opened[0]);
    (pair.client.out.room, pair.server.out.room) = (usize::MAX, usize::MAX);
    while pair.server.opened.len() <= ENDING {
        (0..256).for_each(|_| _ = pair.client.connect(SERVER).unwrap());
        pair.settle();
    }
    (pair.client.out.room, pair.server.out.room) = (RING, RING);
    let at = pair.now + Duration::from_secs(1);
    for &id in pair.server.opened.iter().filter(|id| **id != active.1) {
        pair.server.stack.set_timer(id, Some(at));
    }
    pair.advance(Duration::from_secs(1));
    let (mut ended, mut full, mut answered, mut asked_at, mut longest, mut turns) = (0, 0, 0, None, 0, 0);
    while ended < ENDING {
        turns += 1;
        assert!(turns < 1_000_000, "{ended} ended");
        let now = pair.now + Duration::from_micros(turns * 1_000 / TURNS);
        if asked_at.is_none() {
            pair.client.stack.send_bytes(active.0, b"ask");
            asked_at = Some(turns);
        }
        let got = ask(&mut pair.client, &mut pair.server.out.sent, now);
        if got > 0 {
            longest = longest.max(turns - asked_at.take().unwrap_or(turns));
            answered += got;
        }
        let (at_once, crowded) = serve(&mut pair.server, &mut pair.client.out.sent, now);
        assert!(!crowded || at_once <= BURST / 2, "{at_once} ended in a turn that left frames for the next");
        (ended, full) = (ended + at_once, full + usize::from(crowded));
    }
    let took = asked_at.map_or(longest, |at| longest.max(turns - at));
    assert!(took < 16, "an answer took {took} turns of {turns}, of which {answered} brought one");
    assert!(full > 20, "{full} of {turns} turns had a full burst");
    assert!(answered > 20, "{answered} in {turns} turns");
}
