//! Connections that are secured, with a peer that has the same record layer over a plain
//! socket.

use crate::support::puppet::{Do, Securing, Seen, Theatre};
use crate::support::{client, listen};
use app::{Closed, ConnId};
use record::{
    Afterwards, Established, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion, TrafficSecret,
};
use rustix::fs::{MemfdFlags, memfd_create};
use seal::ContentType::{self, ApplicationData, Handshake};
use seal::message::CLOSE_NOTIFY;
use seal::{Ask, Layer, Record, SealError, Unsealed};
use sockets::{Config, Model, kernel_tls};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

const LARGE: usize = 16 << 20;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

fn layer(version: TlsVersion, side: TlsSide) -> RecordLayer {
    layer_of(RecordCipher::Aes128Gcm, version, side)
}

fn layer_of(cipher: RecordCipher, version: TlsVersion, side: TlsSide) -> RecordLayer {
    let secret =
        |of: TlsSide| TrafficSecret::new(cipher, &[of as u8 + 1; 48][..cipher.secret_len()]).expect("a secret");
    let peer = if side == TlsSide::Client { TlsSide::Server } else { TlsSide::Client };
    let (sends, receives) = (secret(side), secret(peer));
    let way = |keys: Option<RecordKeys>| KeyedWay { keys: keys.expect("keys"), number: 0 };
    RecordLayer::new(Established {
        version,
        side,
        sends: way(sends.keys()),
        receives: way(receives.keys()),
        afterwards: Afterwards::Secrets { sends, receives },
        most: seal::MAX_PLAINTEXT,
    })
    .handing_over(true)
}

fn securing(version: TlsVersion) -> Securing {
    Securing(Box::new(move || Box::new(layer(version, TlsSide::Server))))
}

/// One whose keys seal only so many records.
struct Few(RecordLayer, u64);

impl Layer for Few {
    fn overhead(&self) -> usize {
        self.0.overhead()
    }
    fn most_records(&self) -> u64 {
        self.1
    }
    fn updates_keys(&self) -> bool {
        self.0.updates_keys()
    }
    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        assert!(record.number < self.1, "{record:?} is one too many");
        self.0.seal(record, parts, out)
    }
    fn next_epoch(&mut self) -> Result<u8, SealError> {
        self.0.next_epoch()
    }
    fn forget(&mut self, epoch: u8) {
        self.0.forget(epoch);
    }
    fn open(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Unsealed {
        self.0.open(input, plain)
    }
}

/// The other side.
struct Client {
    stream: TcpStream,
    layer: RecordLayer,
    epoch: u8,
    number: u64,
    arrived: Vec<u8>,
    /// Plaintext of each record that came.
    records: Vec<usize>,
    updates: u32,
}

/// How what was said ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Notified,
    Cut,
    Alert,
}

impl Client {
    fn new(stream: TcpStream, version: TlsVersion) -> Self {
        Self::with(stream, layer(version, TlsSide::Client))
    }

    fn with(stream: TcpStream, layer: RecordLayer) -> Self {
        Self { stream, layer, epoch: 0, number: 0, arrived: Vec::new(), records: Vec::new(), updates: 0 }
    }

    fn record(&mut self, kind: ContentType, text: &[u8]) -> Vec<u8> {
        let mut out = vec![0; text.len() + self.layer.overhead()];
        let record = Record { epoch: self.epoch, number: self.number, kind, padding: 0 };
        self.layer.seal(&record, &[text], &mut out).expect("sealed");
        self.number += 1;
        out
    }

    fn say(&mut self, text: &[u8]) {
        self.say_as(ApplicationData, text);
    }

    fn say_as(&mut self, kind: ContentType, text: &[u8]) {
        let record = self.record(kind, text);
        self.stream.write_all(&record).unwrap();
    }

    /// Says what cannot be opened.
    fn spoil(&mut self) {
        let mut bad = self.record(ApplicationData, b"bad");
        *bad.last_mut().expect("a byte") ^= 1;
        self.stream.write_all(&bad).unwrap();
    }

    fn update(&mut self, answer: bool) -> Vec<u8> {
        let out = self.record(Handshake, &[24, 0, 0, 1, u8::from(answer)]);
        let old = self.epoch;
        self.epoch = self.layer.next_epoch().expect("next keys");
        self.layer.forget(old);
        self.number = 0;
        out
    }

    /// Opens what has arrived, and reads more where that is not enough.
    fn hear(&mut self, len: usize) -> (Vec<u8>, Option<End>) {
        let mut plain = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        let mut at = 0;
        while plain.len() < len {
            let before = plain.len();
            match self.layer.open(&self.arrived[at..], &mut plain) {
                Unsealed::Needs(_) => {
                    self.arrived.drain(..at);
                    at = 0;
                    let read = match self.stream.read(&mut buffer) {
                        Err(e) if e.kind() == ErrorKind::ConnectionReset => 0,
                        // A read with a time limit is not begun again by the kernel.
                        Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                        read => read.unwrap(),
                    };
                    if read == 0 {
                        return (plain, Some(End::Cut));
                    }
                    self.arrived.extend_from_slice(&buffer[..read]);
                }
                Unsealed::Data { consumed } => {
                    self.records.push(plain.len() - before);
                    at += consumed;
                }
                Unsealed::Control { consumed, ask } => {
                    assert_eq!(ask, Ask::Updated);
                    self.updates += 1;
                    at += consumed;
                }
                Unsealed::End { .. } => return (plain, Some(End::Notified)),
                Unsealed::Failed(alert) => {
                    assert_eq!(alert, None, "what came can be opened");
                    return (plain, Some(End::Alert));
                }
            }
        }
        self.arrived.drain(..at);
        (plain, None)
    }

    #[track_caller]
    fn hears(&mut self, text: &[u8]) {
        let (plain, end) = self.hear(text.len());
        assert!(plain == text && end.is_none(), "{} bytes, and then {end:?}", plain.len());
    }
}

/// A worker, a connection that is secured, and its client.
fn secured(version: TlsVersion) -> (Theatre, ConnId, Client) {
    let (theatre, id, stream) = plain();
    theatre.tell(Do::Secure(id, securing(version)));
    assert_eq!(theatre.next(), Seen::Secured(true));
    (theatre, id, Client::new(stream, version))
}

fn plain() -> (Theatre, ConnId, TcpStream) {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let stream = client(address);
    let id = theatre.opened();
    (theatre, id, stream)
}

fn file(bytes: &[u8]) -> Arc<OwnedFd> {
    let mut file = std::fs::File::from(memfd_create("secured", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(bytes).unwrap();
    Arc::new(file.into())
}

#[test]
fn data_goes_both_ways_and_ends_are_said() {
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let (theatre, id, mut client) = secured(version);
        for round in 0..3 {
            client.say(&[round; 300]);
            assert_eq!(theatre.bytes(300), [round; 300]);
            theatre.tell(Do::Send(id, vec![round; 100]));
            client.hears(&[round; 100]);
        }
        let text = content(LARGE);
        theatre.tell(Do::All(vec![Do::Send(id, b"head".to_vec()), Do::Send(id, text.clone()), Do::Finish(id)]));
        client.hears(&[b"head", &text[..]].concat());
        assert_eq!(client.hear(1), (vec![], Some(End::Notified)));
        // Over loopback a segment holds the longest record.
        let long = client.records.iter().filter(|len| **len == seal::MAX_PLAINTEXT).count();
        assert!(long >= LARGE / seal::MAX_PLAINTEXT - 1, "{long} records are as long as can be");
        client.say_as(ContentType::Alert, &CLOSE_NOTIFY);
        loop {
            match theatre.next() {
                Seen::Sent(_) => {}
                seen => break assert_eq!(seen, Seen::End(id, 0)),
            }
        }
        theatre.tell(Do::WasCut(id));
        assert!(matches!(theatre.next(), Seen::Close(_, Closed::Finished)));
        theatre.close();
    }
}

#[test]
fn what_was_queued_before_goes_as_it_is() {
    let (theatre, id, stream) = plain();
    theatre.tell(Do::All(vec![
        Do::Send(id, b"last of a handshake".to_vec()),
        Do::Secure(id, securing(TlsVersion::V13)),
        Do::Send(id, b"secret".to_vec()),
        Do::Finish(id),
    ]));
    assert_eq!(theatre.next(), Seen::Secured(true));
    let mut client = Client::new(stream, TlsVersion::V13);
    let mut clear = [0; 19];
    client.stream.read_exact(&mut clear).unwrap();
    assert_eq!(&clear, b"last of a handshake");
    client.hears(b"secret");
    assert_eq!(client.hear(1), (vec![], Some(End::Notified)));
    theatre.close();
}

#[test]
fn what_a_handshake_leaves_are_records() {
    // Left in the call in which the connection is secured.
    let (theatre, id, stream) = plain();
    theatre.tell(Do::SecureAfter(5, securing(TlsVersion::V13)));
    // It has heard of that.
    theatre.counters();
    let mut client = Client::new(stream, TlsVersion::V13);
    let both =
        [&b"hello"[..], &client.record(ApplicationData, b"and data"), &client.record(ApplicationData, b", more")];
    client.stream.write_all(&both.concat()).unwrap();
    assert_eq!(theatre.next(), Seen::Data(id, b"hello".to_vec()));
    assert_eq!(theatre.next(), Seen::Secured(true));
    assert_eq!(theatre.bytes(14), b"and data, more");
    client.say(b"!");
    assert_eq!(theatre.bytes(1), b"!");
    theatre.close();

    // Held until another turn, in which it is secured, while part of a record is there.
    let (theatre, id, stream) = plain();
    let mut client = Client::new(stream, TlsVersion::V13);
    theatre.tell(Do::Take(0));
    theatre.counters();
    let record = client.record(ApplicationData, b"early");
    client.stream.write_all(&record[..20]).unwrap();
    assert_eq!(theatre.next(), Seen::Data(id, vec![]));
    theatre.tell(Do::All(vec![Do::Take(usize::MAX), Do::Secure(id, securing(TlsVersion::V13))]));
    assert_eq!(theatre.next(), Seen::Secured(true));
    client.stream.write_all(&record[20..]).unwrap();
    assert_eq!(theatre.bytes(5), b"early");
    theatre.close();

    // Held as a whole: nothing else will arrive.
    let (theatre, id, stream) = plain();
    let mut client = Client::new(stream, TlsVersion::V13);
    theatre.tell(Do::Take(0));
    theatre.counters();
    client.say(b"early");
    assert_eq!(theatre.next(), Seen::Data(id, vec![]));
    theatre.tell(Do::All(vec![Do::Take(usize::MAX), Do::Secure(id, securing(TlsVersion::V13))]));
    assert_eq!(theatre.next(), Seen::Secured(true));
    assert_eq!(theatre.bytes(5), b"early");
    // Once only.
    theatre.tell(Do::Secure(id, securing(TlsVersion::V13)));
    assert_eq!(theatre.next(), Seen::Secured(false));
    theatre.close();
}

#[test]
fn plaintext_that_is_left_is_offered_again() {
    let (theatre, id, mut client) = secured(TlsVersion::V13);
    theatre.tell(Do::Take(3));
    // In pieces, so that records are put together.
    let record = client.record(ApplicationData, b"abcdefgh");
    for piece in record.chunks(7) {
        client.stream.write_all(piece).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(theatre.next(), Seen::Data(id, b"abc".to_vec()));
    client.say(b"ijkl");
    assert_eq!(theatre.next(), Seen::Data(id, b"def".to_vec()));
    theatre.tell(Do::All(vec![Do::Take(usize::MAX), Do::Resume(id)]));
    assert_eq!(theatre.bytes(6), b"ghijkl");
    theatre.close();
}

#[test]
fn files_are_sealed_with_what_stands_before_them() {
    let (theatre, id, mut client) = secured(TlsVersion::V13);
    let bytes = content(LARGE / 3);
    theatre.tell(Do::SendFile(id, b"head".to_vec(), file(&bytes), 10..1_010));
    client.hears(&[b"head", &bytes[10..1_010]].concat());
    assert_eq!(client.records, [1_004], "one record");
    theatre.tell(Do::SendFile(id, b"head".to_vec(), file(&bytes), 0..bytes.len() as u64));
    theatre.tell(Do::Send(id, b"tail".to_vec()));
    client.hears(&[b"head", &bytes[..], b"tail"].concat());
    // One that is shorter than was said ends the connection.
    theatre.tell(Do::SendFile(id, b"head".to_vec(), file(b"short"), 0..1_000));
    let (_, end) = client.hear(1_004);
    assert_eq!(end, Some(End::Cut));
    assert_eq!(theatre.closed(), Closed::Aborted);
    assert_eq!(theatre.close().files_truncated, 1);
}

/// Where the kernel has its record layer it seals from the first long file on; else all is
/// sealed here, and nothing else is different.
#[test]
fn long_files_are_the_kernels_to_seal() {
    const CIPHERS: [RecordCipher; 3] =
        [RecordCipher::Aes128Gcm, RecordCipher::Aes256Gcm, RecordCipher::ChaCha20Poly1305];
    let bytes = content(LARGE / 3);
    for (cipher, version) in
        CIPHERS.into_iter().flat_map(|cipher| [(cipher, TlsVersion::V12), (cipher, TlsVersion::V13)])
    {
        let (theatre, id, stream) = plain();
        let server = move || Box::new(layer_of(cipher, version, TlsSide::Server)) as Box<dyn Layer>;
        theatre.tell(Do::Secure(id, Securing(Box::new(server))));
        assert_eq!(theatre.next(), Seen::Secured(true));
        let mut client = Client::with(stream, layer_of(cipher, version, TlsSide::Client));
        theatre.tell(Do::Send(id, b"first".to_vec()));
        client.hears(b"first");
        assert_eq!(theatre.counters().kernel_tls, 0, "nothing was worth it");
        theatre.tell(Do::SendFile(id, b"head".to_vec(), file(&bytes), 0..bytes.len() as u64));
        client.hears(&[b"head", &bytes[..]].concat());
        assert_eq!(theatre.next(), Seen::Sent(id));
        // It opens as before what it is asked, and answers.
        client.say(b"again");
        assert_eq!(theatre.bytes(5), b"again");
        theatre.tell(Do::Send(id, b"small".to_vec()));
        client.hears(b"small");
        let counters = theatre.counters();
        let kernel = u64::from(kernel_tls::probe().is_ok());
        assert_eq!((counters.kernel_tls, counters.kernel_tls_open), (kernel, kernel), "{cipher:?} {version:?}");
        // Its end waits for all that was sealed.
        theatre.tell(Do::SendFile(id, b"last".to_vec(), file(&bytes), 0..bytes.len() as u64));
        theatre.tell(Do::Finish(id));
        std::thread::sleep(std::time::Duration::from_millis(20));
        client.hears(&[b"last", &bytes[..]].concat());
        assert_eq!(client.hear(1), (vec![], Some(End::Notified)));
        drop(client);
        while !matches!(theatre.next(), Seen::Close(..)) {}
        assert_eq!(theatre.close().kernel_tls_open, 0);
    }
}

/// TLS 1.2 has no other keys: a connection ends before the last record of those it has, and
/// what is under way is sent. The default of applications is to finish.
#[test]
fn keys_that_are_nearly_used_up_end_a_connection_between_two_answers() {
    let (theatre, id, stream) = plain();
    let few = move || Box::new(Few(layer(TlsVersion::V12, TlsSide::Server), 12)) as Box<dyn Layer>;
    theatre.tell(Do::Secure(id, Securing(Box::new(few))));
    assert_eq!(theatre.next(), Seen::Secured(true));
    let mut client = Client::new(stream, TlsVersion::V12);
    for answer in 0..6 {
        theatre.tell(Do::Send(id, vec![answer; 100]));
        client.hears(&[answer; 100]);
    }
    assert_eq!(client.hear(1), (vec![], Some(End::Notified)), "half of the records are left");
    theatre.close();
}

#[test]
fn a_slow_reader_gets_all_of_it() {
    let (theatre, id, mut client) = secured(TlsVersion::V13);
    let text = content(LARGE);
    theatre.tell(Do::Send(id, text.clone()));
    std::thread::sleep(std::time::Duration::from_millis(50));
    theatre.tell(Do::Unsent(id));
    let Seen::Unsent(unsent) = theatre.next() else { panic!("how much is unsent") };
    assert!(unsent > LARGE / 8, "{unsent} are unsent, of which some are sealed");
    theatre.tell(Do::Finish(id));
    client.hears(&text);
    assert_eq!(client.hear(1), (vec![], Some(End::Notified)));
    assert_eq!(theatre.next(), Seen::Sent(id));
    let counters = theatre.close();
    let records = client.records.len() as u64;
    assert_eq!(counters.sent_bytes, LARGE as u64 + records * 22 + 24, "each record once");
}

#[test]
fn keys_are_updated_when_the_peer_wants_that() {
    let (theatre, id, mut client) = secured(TlsVersion::V13);
    let three = [client.update(true), client.update(true), client.update(false)].concat();
    client.stream.write_all(&three).unwrap();
    client.say(b"under the fourth");
    assert_eq!(theatre.bytes(16), b"under the fourth");
    theatre.tell(Do::Send(id, b"and ours".to_vec()));
    client.hears(b"and ours");
    assert_eq!(client.updates, 1, "one answer for all that asked at once");
    // Without data: the answer goes by itself.
    let update = client.update(true);
    client.stream.write_all(&update).unwrap();
    while client.updates < 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        theatre.tell(Do::Send(id, b"x".to_vec()));
        client.hears(b"x");
    }
    theatre.close();
}

#[test]
fn keys_that_have_sealed_enough_are_replaced() {
    for (version, ends) in [(TlsVersion::V13, false), (TlsVersion::V12, true)] {
        let (theatre, id, stream) = plain();
        let few = move || Box::new(Few(layer(version, TlsSide::Server), 5)) as Box<dyn Layer>;
        theatre.tell(Do::Secure(id, Securing(Box::new(few))));
        assert_eq!(theatre.next(), Seen::Secured(true));
        let mut client = Client::new(stream, version);
        let text = content(1 << 20);
        theatre.tell(Do::All(vec![Do::Send(id, text.clone()), Do::Finish(id)]));
        let (plain, end) = client.hear(text.len() + 1);
        assert_eq!(end, Some(End::Notified));
        assert!(text.starts_with(&plain));
        if ends {
            assert_eq!(client.records.len(), 4, "and a last one that says that this is all");
        } else {
            assert_eq!(plain.len(), text.len());
            assert!(client.updates as usize >= client.records.len() / 4, "{} updates", client.updates);
        }
        theatre.close();
    }
}

#[test]
fn what_cannot_be_opened_ends_the_connection() {
    let (theatre, id, mut client) = secured(TlsVersion::V13);
    let mut bad = [client.record(ApplicationData, b"good"), client.record(ApplicationData, b"bad")].concat();
    *bad.last_mut().expect("a byte") ^= 1;
    client.stream.write_all(&bad).unwrap();
    assert_eq!(theatre.bytes(4), b"good");
    assert_eq!(client.hear(1), (vec![], Some(End::Alert)));
    assert_eq!(theatre.next(), Seen::Close(id, Closed::Aborted));
    assert_eq!(theatre.close().records_refused, 1);
}

/// A peer that writes on before it reads gets no reset in place of what it is told.
#[test]
fn a_peer_that_sends_on_reads_why_it_is_refused() {
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let (theatre, id, mut client) = secured(version);
        client.spoil();
        assert_eq!(theatre.next(), Seen::Close(id, Closed::Aborted), "for the application it is over at once");
        client.stream.write_all(&vec![0; LARGE / 4]).expect("what follows is taken");
        assert_eq!(client.hear(1), (vec![], Some(End::Alert)));
        assert_eq!(client.stream.read(&mut [0]).expect("an end, and no reset"), 0);
        drop(client);
        let counters = theatre.close();
        assert_eq!((counters.records_refused, counters.farewells), (1, 1), "{counters:?}");
    }
}

#[test]
fn peers_that_were_refused_have_a_share_and_give_way() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config { max_connections: 16, ..Config::default() }, listeners.for_worker(0));
    let refused = || {
        let stream = client(address);
        let id = theatre.opened();
        theatre.tell(Do::Secure(id, securing(TlsVersion::V13)));
        assert_eq!(theatre.next(), Seen::Secured(true));
        let mut client = Client::new(stream, TlsVersion::V13);
        client.spoil();
        assert_eq!(theatre.next(), Seen::Close(id, Closed::Aborted));
        assert_eq!(client.hear(1), (vec![], Some(End::Alert)));
        client
    };
    let both = [refused(), refused()];
    let counters = theatre.counters();
    assert_eq!((counters.records_refused, counters.farewells), (2, 1), "the second of one client");
    let mut others = Vec::new();
    for count in 1..=16 {
        others.push(client(address));
        theatre.opened();
        assert_eq!(theatre.counters().farewells_cut, u64::from(count == 16), "beside {count} others");
    }
    drop(both);
    theatre.close();
}

/// What an alert is sealed by follows from the last of the handshake.
#[test]
fn an_alert_goes_behind_the_last_of_a_handshake() {
    let (theatre, id, stream) = plain();
    let mut client = Client::new(stream, TlsVersion::V13);
    theatre.tell(Do::Take(0));
    theatre.counters();
    client.spoil();
    assert_eq!(theatre.next(), Seen::Data(id, vec![]));
    let last = || Do::Send(id, b"last of a handshake".to_vec());
    theatre.tell(Do::All(vec![Do::Take(usize::MAX), last(), Do::Secure(id, securing(TlsVersion::V13))]));
    let mut clear = [0; 19];
    client.stream.read_exact(&mut clear).unwrap();
    assert_eq!(&clear, b"last of a handshake");
    assert_eq!(client.hear(1), (vec![], Some(End::Alert)));
    theatre.close();
}

#[test]
fn an_end_that_was_not_said_is_told_from_one_that_was() {
    for said in [true, false] {
        let (theatre, id, mut client) = secured(TlsVersion::V13);
        client.say(b"last");
        if said {
            client.say_as(ContentType::Alert, &CLOSE_NOTIFY);
            // What follows is not heard.
            client.stream.write_all(b"anything").unwrap();
        } else {
            client.stream.write_all(&[23, 3, 3]).unwrap();
        }
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(theatre.bytes(4), b"last");
        assert_eq!(theatre.next(), Seen::End(id, 0));
        theatre.tell(Do::WasCut(id));
        assert_eq!(theatre.next(), Seen::WasCut(!said));
        theatre.tell(Do::All(vec![Do::Send(id, b"answer".to_vec()), Do::Finish(id)]));
        client.hears(b"answer");
        assert_eq!(client.hear(1), (vec![], Some(End::Notified)));
        assert_eq!(theatre.closed(), Closed::Finished);
        theatre.close();
    }
}

#[test]
fn records_are_not_passed_on() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let streams = [client(address), client(address)];
    let [one, other] = [theatre.opened(), theatre.opened()];
    theatre.tell(Do::Secure(one, securing(TlsVersion::V13)));
    assert_eq!(theatre.next(), Seen::Secured(true));
    for (from, to) in [(one, other), (other, one)] {
        theatre.tell(Do::Pass(from, to, 100));
        assert_eq!(theatre.next(), Seen::Passes(false));
    }
    drop(streams);
    let _ = theatre.close();
}
