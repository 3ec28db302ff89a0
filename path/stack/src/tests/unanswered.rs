//! An application that answers later than it is told: what its connections send is the same, frame by
//! frame, where a turn brings each of them a segment at most.

use super::acquainted;
use app::Net;
use core::time::Duration;

/// What a server sends that is asked now and then and answers most of it, and how many answers it
/// queued in one go: with `later` by the ways of who answers later, else by those of all; of whom some are left where
/// nothing leaves, if it `leaves` them.
fn sent(later: bool, leaves: bool) -> (Vec<Vec<u8>>, usize) {
    let mut pair = acquainted(|_| {});
    (pair.server.answers_later, pair.server.leaves) = (later, leaves);
    let (client, server) = (pair.client.opened[0], pair.server.opened[0]);
    let (mut all, mut in_one_go) = (Vec::new(), 0);
    for step in 0..420_usize {
        let asked = [0, 35, 1448, 700, 1, 120][step % 6];
        pair.client.stack.send_bytes(client, &vec![step as u8; asked]);
        pair.deliver_to_server();
        // The turn that brings it is over before anything is answered.
        pair.server.turn();
        if step % 5 != 0 {
            let parts: [&[u8]; 2] = [&[1; 80], &[2; 13]];
            let fill = |into: &mut Vec<u8>| parts.iter().for_each(|part| into.extend_from_slice(part));
            if later && pair.server.stack.send_first(server, 93, fill) {
                in_one_go += 1;
            } else {
                parts.iter().for_each(|part| pair.server.stack.send_bytes(server, part));
            }
        }
        pair.server.turn();
        all.extend(pair.server.out.sent.iter().cloned());
        for frame in core::mem::take(&mut pair.server.out.sent) {
            pair.client.take(&frame);
        }
        pair.advance(Duration::from_millis([0, 1, 0, 3, 45, 0, 250][step % 7]));
    }
    (all, in_one_go)
}

#[test]
fn who_answers_later_sends_the_same() {
    let ((as_all, none), (later, in_one_go)) = (sent(false, false), sent(true, false));
    let (left, _) = sent(false, true);
    assert!(as_all == left, "{} frames, and {}", as_all.len(), left.len());
    assert!(as_all == later, "{} frames, and {}", as_all.len(), later.len());
    assert!(as_all.len() > 400 && none == 0 && in_one_go > 100, "{} {none} {in_one_go}", as_all.len());
}
