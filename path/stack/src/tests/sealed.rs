//! Secured connections: what stands in slots, what the stack says by itself, and how they end.

use super::{Host, Pair, SERVER};
use crate::{Arrival, Arrived};
use app::{ConnId, Net};
use core::ops::Range;
use core::time::Duration;
use seal::message::{KEY_UPDATE, alert};
use seal::{Ask, ContentType, HEADER_LEN, Layer, Record, SealError, Unsealed};
use std::cell::RefCell;
use std::rc::Rc;
use tcp::Outcome;

const OVERHEAD: usize = 22;

/// What layers of a test did.
#[derive(Debug, Default)]
struct Notes {
    /// Where a peer can write: nothing is to be sealed there.
    shared: Range<usize>,
    sealed: Vec<Record>,
    forgotten: Vec<u8>,
    rested: u32,
}

/// A seal that anybody can open: header, number, inner type, and bytes that are turned over.
struct Glass {
    notes: Rc<RefCell<Notes>>,
    epoch: u8,
    next: u64,
    /// Records under one key.
    records: u64,
    /// Most plaintext of one.
    most: usize,
    /// There are no keys but the first.
    last: bool,
}

impl Glass {
    fn boxed(notes: &Rc<RefCell<Notes>>, (records, most, last): (u64, usize, bool)) -> Box<Self> {
        Box::new(Self { notes: Rc::clone(notes), epoch: 0, next: 0, records, most, last })
    }
}

impl Layer for Glass {
    fn overhead(&self) -> usize {
        OVERHEAD
    }
    fn most(&self) -> usize {
        self.most
    }
    fn most_records(&self) -> u64 {
        self.records
    }
    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        let mut notes = self.notes.borrow_mut();
        let place = out.as_ptr_range();
        assert!(!notes.shared.contains(&place.start.addr()) && !notes.shared.contains(&(place.end.addr() - 1)));
        notes.sealed.push(*record);
        let text = parts.concat();
        out.fill(0);
        out[..3].copy_from_slice(&[23, 3, 3]);
        let len = (out.len() - HEADER_LEN) as u16;
        out[3..5].copy_from_slice(&len.to_be_bytes());
        out[5] = record.epoch;
        out[6..14].copy_from_slice(&record.number.to_be_bytes());
        out[14] = record.kind as u8;
        out[OVERHEAD..].copy_from_slice(&text);
        out[OVERHEAD..].iter_mut().for_each(|byte| *byte = !*byte);
        Ok(())
    }
    fn updates_keys(&self) -> bool {
        !self.last
    }
    fn next_epoch(&mut self) -> Result<u8, SealError> {
        if self.last {
            return Err(SealError::NoUpdate);
        }
        self.epoch += 1;
        Ok(self.epoch)
    }
    fn forget(&mut self, epoch: u8) {
        self.notes.borrow_mut().forgotten.push(epoch);
    }
    fn open(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Unsealed {
        let Some(head) = input.first_chunk::<HEADER_LEN>() else { return Unsealed::Needs(HEADER_LEN) };
        let consumed = HEADER_LEN + usize::from(u16::from_be_bytes([head[3], head[4]]));
        let Some(record) = input.get(..consumed) else { return Unsealed::Needs(consumed) };
        let number = u64::from_be_bytes(record[6..14].try_into().unwrap());
        if number != self.next {
            return Unsealed::Failed(Some(alert::BAD_RECORD_MAC));
        }
        self.next += 1;
        let text: Vec<u8> = record[OVERHEAD..].iter().map(|byte| !byte).collect();
        match record[14] {
            23 => {
                plain.extend_from_slice(&text);
                Unsealed::Data { consumed }
            }
            21 if text == [1, 0] => Unsealed::End { consumed },
            21 => Unsealed::Failed(None),
            _ => {
                self.next = 0;
                let ask = if text == KEY_UPDATE { Ask::Updated } else { Ask::Update };
                Unsealed::Control { consumed, ask }
            }
        }
    }
    fn rest(&mut self) {
        self.notes.borrow_mut().rested += 1;
    }
}

/// What a side's application heard.
#[derive(Debug, Default)]
struct Heard {
    data: Vec<u8>,
    ends: u32,
}

/// A secured connection between two hosts.
struct Line {
    pair: Pair,
    ids: [ConnId; 2],
    notes: [Rc<RefCell<Notes>>; 2],
    heard: [Heard; 2],
    /// Segments that a side took the short way.
    light: [u32; 2],
    /// Every payload that a side sent.
    payloads: [Vec<Vec<u8>>; 2],
}

impl Line {
    fn new(records: u64) -> Self {
        Self::of(records, seal::MAX_PLAINTEXT)
    }

    fn of(records: u64, most: usize) -> Self {
        Self::with((records, most, false))
    }

    fn with(keys: (u64, usize, bool)) -> Self {
        let mut pair = Pair::new(|_| {});
        let client = pair.client.connect(SERVER).unwrap();
        pair.settle();
        let server = pair.server.opened[0];
        let notes = [Rc::default(), Rc::default()];
        for (host, id, notes) in [(&mut pair.client, client, &notes[0]), (&mut pair.server, server, &notes[1])] {
            let slot = host.out.buffer.as_ptr_range();
            Rc::<RefCell<Notes>>::clone(notes).borrow_mut().shared = slot.start.addr()..slot.end.addr();
            assert!(host.stack.secure(id, Glass::boxed(notes, keys)));
            assert!(!host.stack.secure(id, Glass::boxed(notes, keys)), "once");
        }
        Self {
            pair,
            ids: [client, server],
            notes,
            heard: Default::default(),
            light: [0; 2],
            payloads: Default::default(),
        }
    }

    fn host(&mut self, side: usize) -> &mut Host {
        if side == 0 { &mut self.pair.client } else { &mut self.pair.server }
    }

    fn deliver(&mut self, side: usize, frame: &[u8]) {
        let id = self.ids[side];
        let host = if side == 0 { &mut self.pair.client } else { &mut self.pair.server };
        let (outcome, data, light) = match host.stack.on_frame(frame, false, &mut host.out) {
            Arrived::Segment(Arrival { outcome, data, .. }) => (outcome, data, false),
            Arrived::Records(_, data) => (Outcome { sealed: true, ..Outcome::default() }, data, true),
            _ => return,
        };
        assert!(outcome.sealed || data.is_empty());
        let mut plain = Vec::new();
        let mut held = outcome.readable.then(|| host.stack.take_held(id)).flatten();
        match &mut held {
            None => {
                let taken = host.stack.open_records(id, data, &mut plain);
                host.stack.hold_opened(id, &[], &data[taken..]);
            }
            Some(held) => {
                let taken = host.stack.open_records(id, held.sealed(), &mut plain);
                held.open(taken, &[]);
            }
        }
        if let Some(held) = held {
            host.stack.put_held(id, held, false);
        }
        self.heard[side].data.extend_from_slice(&plain);
        if outcome.finished {
            host.stack.end_sealed(id);
        }
        self.heard[side].ends += u32::from(host.stack.is_live(id) && host.stack.take_end(id));
        if light {
            self.light[side] += 1;
            host.stack.settle_sealed(id, &mut host.out);
        }
    }

    /// Until nobody has anything to say.
    fn settle(&mut self) {
        for _ in 0..64 {
            for side in [0, 1] {
                self.host(side).turn();
                let frames = core::mem::take(&mut self.host(side).out.sent);
                for frame in frames {
                    self.payloads[side].push(frame[34 + usize::from(frame[46] >> 4) * 4..].to_vec());
                    self.deliver(1 - side, &frame);
                }
            }
        }
    }
}

#[test]
fn slots_have_no_plaintext_and_nothing_is_sealed_in_them() {
    let mut line = Line::new(1 << 24);
    let text = b"a secret that nobody on the link may see ".repeat(2_000);
    let id = line.ids[0];
    line.pair.client.stack.send_bytes(id, &text);
    assert_eq!(line.pair.client.stack.unsent(id), text.len());
    line.settle();
    assert_eq!(line.heard[1].data, text);
    assert_eq!(line.pair.client.stack.unsent(id), 0);
    let secret = &text[..20];
    assert!(line.payloads[0].iter().all(|payload| !payload.windows(20).any(|part| part == secret)));
    let (sent, sealed) = line.pair.client.stack.sealing(id);
    assert_eq!(sent, sealed, "each record is sealed once");
    let records = line.notes[0].borrow().sealed.len();
    assert!(records < line.payloads[0].len() / 3, "{records} records in {} segments", line.payloads[0].len());
    assert_eq!(line.heard[1].ends, 0);
}

/// A question and its answer, again and again, each one record: both sides take the short way,
/// and the general one once keys wear.
#[test]
fn small_records_take_the_short_way() {
    let mut line = Line::new(100);
    let ids = line.ids;
    let mut asked = Vec::new();
    for round in 0..60_u8 {
        let light = line.light;
        asked.extend([round; 50]);
        line.pair.client.stack.send_bytes(ids[0], &[round; 50]);
        line.settle();
        line.pair.server.stack.send_bytes(ids[1], &[round; 900]);
        line.settle();
        assert!(line.light[0] > light[0] && line.light[1] > light[1], "{round}: {light:?} {:?}", line.light);
        assert_eq!((line.heard[1].data.len(), line.heard[0].data.len()), (asked.len(), 900 * (usize::from(round) + 1)));
    }
    assert_eq!(line.heard[1].data, asked);
    let sent: usize = line.payloads[0].iter().map(Vec::len).sum();
    assert_eq!(line.pair.client.stack.sealing(ids[0]), (sent as u64, sent as u64));
    assert_eq!(
        line.notes[0].borrow().sealed.iter().map(|record| record.number).collect::<Vec<_>>(),
        (0..60).collect::<Vec<_>>()
    );
    // Keys of a hundred records: updated before they are used up.
    for round in 0..60_u8 {
        line.pair.client.stack.send_bytes(ids[0], &[round; 50]);
        line.settle();
    }
    assert_eq!(line.heard[1].data.len(), 120 * 50);
    let notes = line.notes[0].borrow();
    assert!(notes.sealed.iter().any(|record| record.epoch == 1) && notes.forgotten == [0], "{notes:?}");
}

/// What is said last is close_notify, right before the FIN, and the other side hears of the
/// end once, and that it was meant.
#[test]
fn close_notify_precedes_the_end() {
    let mut line = Line::new(1 << 24);
    let [client, server] = line.ids;
    line.pair.client.stack.send_bytes(client, b"bye");
    line.pair.client.stack.finish(client);
    line.settle();
    assert_eq!((line.heard[1].data.as_slice(), line.heard[1].ends), (&b"bye"[..], 1));
    assert!(!line.pair.server.stack.was_cut(server) && !line.pair.server.stack.was_broken(server));
    let kinds: Vec<_> = line.notes[0].borrow().sealed.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [ContentType::ApplicationData, ContentType::Alert]);
    line.pair.server.stack.finish(server);
    line.settle();
    assert_eq!((line.pair.server.stack.connections(), line.pair.client.stack.connections()), (0, 0));
}

/// What cannot be opened ends the connection: with an alert that the peer gets.
#[test]
fn what_cannot_be_opened_is_answered_by_an_alert() {
    let mut line = Line::new(1 << 24);
    let [client, server] = line.ids;
    line.pair.client.stack.send_bytes(client, b"one");
    line.settle();
    // The server expects another number.
    line.pair.client.stack.send_bytes(client, b"two");
    line.pair.server.stack.send_bytes(server, b"left unsaid");
    line.pair.client.turn();
    let mut frames: Vec<_> = core::mem::take(&mut line.pair.client.out.sent).into();
    let frame = &mut frames[0];
    let at = 34 + usize::from(frame[46] >> 4) * 4;
    frame[at + 13] ^= 1;
    let host = &mut line.pair.server;
    let Arrived::Segment(arrival) = host.stack.on_frame(frame, true, &mut host.out) else { panic!("it is taken") };
    let mut plain = Vec::new();
    assert_eq!(host.stack.open_records(server, arrival.data, &mut plain), arrival.data.len());
    assert!(
        plain.is_empty() && host.stack.was_cut(server) && host.stack.was_broken(server) && host.stack.take_end(server)
    );
    line.settle();
    let notes = line.notes[1].borrow();
    let last = notes.sealed.last().map(|record| record.kind);
    assert_eq!(last, Some(ContentType::Alert), "{:?}", notes.sealed);
    assert_eq!(notes.sealed.len(), 1, "what no record had is not sent: {:?}", notes.sealed);
    assert_eq!(line.pair.server.stack.counters().records_failed, 1);
    assert!(line.pair.client.stack.was_cut(client) || line.pair.client.stack.connections() == 0);
}

/// Keys are updated before they have sealed all that they may, and those before are forgotten
/// once all under them is acknowledged.
#[test]
fn keys_are_updated_in_time() {
    let mut line = Line::of(64, 1_400);
    let id = line.ids[0];
    let text = vec![7; 400_000];
    line.pair.client.stack.send_bytes(id, &text);
    line.settle();
    assert_eq!(line.heard[1].data.len(), text.len());
    let notes = line.notes[0].borrow();
    assert!(notes.sealed.iter().all(|record| record.number < 64));
    let epochs = notes.sealed.last().map_or(0, |record| record.epoch);
    assert!(epochs >= 4, "{epochs}");
    let forgotten: Vec<u8> = (0..notes.forgotten.len() as u8).collect();
    assert_eq!(notes.forgotten, forgotten, "in order, each once");
    assert!(notes.forgotten.len() + 1 >= usize::from(epochs));
}

/// A record of a [`Glass`]: new keys, and the wish that the other side has new ones, too.
fn asks_for_keys() -> Vec<u8> {
    let mut record = vec![0; OVERHEAD];
    record[..HEADER_LEN].copy_from_slice(&[23, 3, 3, 0, (OVERHEAD - HEADER_LEN + KEY_UPDATE.len()) as u8]);
    record[14] = ContentType::Handshake as u8;
    record.extend(KEY_UPDATE.map(|byte| !byte));
    // update_requested.
    *record.last_mut().unwrap() ^= 1;
    record
}

/// RFC 8446 section 4.6.3: whoever is asked for new keys has them before its next data, though those that
/// it had before are not acknowledged.
#[test]
fn new_keys_that_were_asked_for_precede_the_next_data() {
    let mut line = Line::new(1 << 24);
    let server = line.ids[1];
    let mut plain = Vec::new();
    let mut asked = |line: &mut Line| {
        let host = &mut line.pair.server;
        let record = asks_for_keys();
        assert_eq!(host.stack.open_records(server, &record, &mut plain), record.len());
        host.turn();
    };
    asked(&mut line);
    let answered = line.pair.server.out.sent.len();
    assert_eq!(answered, 1);
    for _ in 0..3 {
        asked(&mut line);
    }
    let text = [7; 20_000];
    line.pair.server.stack.send_bytes(server, &text);
    line.pair.server.turn();
    assert_eq!(line.pair.server.out.sent.len(), answered, "no data while an answer is due");
    // The answer is acknowledged after a while, and the second one is sent, and so on.
    for _ in 0..2 {
        line.settle();
        line.pair.advance(Duration::from_millis(60));
    }
    line.settle();
    assert!(line.heard[0].data == text, "{} bytes", line.heard[0].data.len());
    let told = |record: &Record| (record.epoch, record.kind == ContentType::Handshake);
    let mut told: Vec<_> = line.notes[1].borrow().sealed.iter().map(told).collect();
    told.dedup();
    assert_eq!(told, [(0, true), (1, true), (2, false)]);
    // How many records without data may follow one another is the layer's to say.
    for _ in 0..40 {
        asked(&mut line);
    }
    line.pair.server.stack.send_bytes(server, b"more");
    for _ in 0..4 {
        line.settle();
        line.pair.advance(Duration::from_millis(60));
    }
    assert_eq!(line.heard[0].data.len(), text.len() + 4);
}

/// Where there are no other keys, the application is told in time, and once; it goes on until
/// then, and what it does not end ends with the keys.
#[test]
fn who_has_no_other_keys_is_told_in_time() {
    let mut line = Line::with((400, 1_400, true));
    let ids = line.ids;
    let (mut told, mut sent) = (Vec::new(), 0);
    for round in 0..1_000 {
        line.pair.client.stack.send_bytes(ids[0], b"question");
        line.settle();
        if !line.pair.server.stack.is_live(ids[1]) || line.heard[1].ends > 0 {
            break;
        }
        sent += 8;
        assert_eq!(line.heard[1].data.len(), sent, "{round}");
        line.pair.server.stack.send_bytes(ids[1], &[1; 100]);
        line.settle();
        if line.pair.client.stack.has_news(ids[0]) && line.pair.client.stack.take_worn(ids[0]) {
            told.push(round);
        }
    }
    // With half of the keys left, as there are few records.
    assert!(matches!(told[..], [round] if (198..=201).contains(&round)), "{told:?}");
    assert!((290 * 8..=400 * 8).contains(&sent), "{sent}");
    let notes = line.notes[0].borrow();
    assert_eq!(notes.sealed.last().map(|record| record.kind), Some(ContentType::Alert), "close_notify is last");
    assert!(notes.sealed.iter().all(|record| record.number < 400 && record.epoch == 0));
}

/// A connection that is quiet has its layer give up what can be made again, once.
#[test]
fn quiet_connections_rest() {
    let mut line = Line::new(1 << 24);
    let id = line.ids[0];
    line.pair.client.stack.send_bytes(id, b"hello");
    line.settle();
    for _ in 0..3 {
        line.pair.advance(Duration::from_millis(1_100));
        line.settle();
    }
    assert_eq!((line.notes[0].borrow().rested, line.notes[1].borrow().rested), (1, 1));
    line.pair.client.stack.send_bytes(id, b"again");
    line.settle();
    assert_eq!(line.heard[1].data, b"helloagain");
    for _ in 0..3 {
        line.pair.advance(Duration::from_millis(1_100));
        line.settle();
    }
    assert_eq!(line.notes[0].borrow().rested, 2);
}

/// A segment of which nothing can be sealed is not sent, and its connection ends.
#[test]
fn what_cannot_be_sealed_is_not_sent() {
    struct Broken;
    impl Layer for Broken {
        fn overhead(&self) -> usize {
            OVERHEAD
        }
        fn seal(&mut self, _: &Record, _: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
            out.fill(b'!');
            Err(SealError::Cipher)
        }
        fn next_epoch(&mut self) -> Result<u8, SealError> {
            Err(SealError::NoUpdate)
        }
        fn forget(&mut self, _: u8) {}
        fn open(&mut self, _: &[u8], _: &mut Vec<u8>) -> Unsealed {
            Unsealed::Failed(None)
        }
    }
    let mut pair = Pair::new(|_| {});
    let id = pair.client.connect(SERVER).unwrap();
    pair.settle();
    assert!(pair.client.stack.secure(id, Box::new(Broken)));
    pair.client.stack.send_bytes(id, b"plain");
    pair.client.turn();
    assert!(pair.client.out.sent.iter().all(|frame| !frame.contains(&b'!') && !frame.ends_with(b"plain")));
    pair.settle();
    assert_eq!(pair.client.stack.counters().sealing_ended, 1);
    assert_eq!(pair.client.closed, [(id, app::Closed::Aborted)]);
}
