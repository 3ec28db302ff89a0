//! Data that comes before a handshake is over, and what steps are said to take.

use super::{client, rules, server, shake};
use handshake::{Acceptor, Effort, First, Hello, Outcome, ServerRules, ServerTls, SessionCache, Version, hello};
use rustls::client::{ClientConfig, ClientConnection};
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::pki_types::ServerName;
use seal::{ContentType, Layer, Record, Unsealed};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) fn early_server() -> Arc<ServerTls> {
    let early = Some(Arc::new(SessionCache::new(1 << 20)));
    server(ServerRules { early, ..rules(&["ec"]) })
}

fn early_client(suite: usize) -> Arc<ClientConfig> {
    let mut config = client(&[ALL_CIPHER_SUITES[suite]], None);
    config.enable_early_data = true;
    Arc::new(config)
}

fn connection(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from("one.example").expect("a name")).expect("a client")
}

fn sent(client: &mut ClientConnection) -> Vec<u8> {
    let mut sent = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut sent).expect("in memory");
    }
    sent
}

fn whole(bytes: &[u8]) -> Hello {
    match hello::first(bytes) {
        First::Whole(hello, _) => hello,
        other => panic!("{other:?}"),
    }
}

/// Opens all that is there.
pub(super) fn open(layer: &mut dyn Layer, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        match layer.open(bytes, &mut plain) {
            Unsealed::Data { consumed } | Unsealed::Control { consumed, .. } => bytes = &bytes[consumed..],
            other => panic!("{other:?}"),
        }
    }
    plain
}

pub(super) fn seal(layer: &mut dyn Layer, number: u64, text: &[u8]) -> Vec<u8> {
    let mut out = vec![0; text.len() + layer.overhead()];
    let record = Record { epoch: 0, number, kind: ContentType::ApplicationData, padding: 0 };
    layer.seal(&record, &[text], &mut out).expect("it is sealed");
    out
}

fn read(client: &mut ClientConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).expect("in memory");
        client.process_new_packets().expect("taken");
        let _ = client.reader().read_to_end(&mut plain);
    }
    plain
}

#[test]
fn data_is_taken_and_answered_before_the_handshake_is_over_and_once() {
    for suite in 0..3 {
        let (server, config) = (early_server(), early_client(suite));
        let (mut client, secured) = shake(&server, &config, 1_000);
        assert!(!secured.expect("a handshake").session.resumed && client.early_data().is_none());

        let mut client = connection(&config);
        client.early_data().expect("a session").write_all(b"GET /").expect("room");
        let first = sent(&mut client);
        let mut acceptor = Acceptor::new(Arc::clone(&server), whole(&first));
        let step = acceptor.on_bytes(&first);
        let Outcome::Done(secured) = step.outcome else { panic!("{:?}", step.outcome) };
        let (mut layer, session) = secured.into_layer().expect("keys");
        let over = session.early.clone().expect("it is early");
        assert!(session.resumed && !over.load(Ordering::Relaxed));
        assert_eq!(open(&mut *layer, &first[step.consumed..]), b"GET /");

        let answer = seal(&mut *layer, 0, b"answer");
        assert_eq!(read(&mut client, &[step.out, answer].concat()), b"answer");
        assert!(client.is_early_data_accepted() && !over.load(Ordering::Relaxed));
        client.writer().write_all(b"more").expect("room");
        assert_eq!(open(&mut *layer, &sent(&mut client)), b"more");
        assert!(over.load(Ordering::Relaxed));
        let more = seal(&mut *layer, 1, b"and more");
        assert_eq!(read(&mut client, &more), b"and more");

        // The same again, by whoever saw it: a whole handshake is asked for, and none of it is opened.
        let mut acceptor = Acceptor::new(Arc::clone(&server), whole(&first));
        let step = acceptor.on_bytes(&first);
        assert!(matches!(step.outcome, Outcome::Waits), "{:?}", step.outcome);
        assert_eq!(step.consumed, first.len(), "it is passed over");
    }
}

/// As much as a ticket allows, whatever stands behind it.
#[test]
fn data_of_a_session_that_is_not_known_is_passed_over() {
    for suite in 0..3 {
        let config = early_client(suite);
        let _ = shake(&early_server(), &config, 1_000);
        let mut client = connection(&config);
        client.early_data().expect("a session").write_all(&[7; 15_000]).expect("room");
        let first = sent(&mut client);
        let mut acceptor = Acceptor::new(early_server(), whole(&first));
        let step = acceptor.on_bytes(&first);
        assert!(matches!(step.outcome, Outcome::Waits) && step.consumed == first.len(), "{:?}", step.outcome);
        assert_eq!(read(&mut client, &step.out), b"");
        assert!(!client.is_early_data_accepted());
        client.writer().write_all(b"again").expect("room");
        let rest = sent(&mut client);
        let step = acceptor.on_bytes(&rest);
        let Outcome::Done(secured) = step.outcome else { panic!("{:?}", step.outcome) };
        let (mut layer, _) = secured.into_layer().expect("keys");
        assert_eq!(open(&mut *layer, &rest[step.consumed..]), b"again");
    }
}

#[test]
fn early_data_that_is_changed_ends_the_connection() {
    let (server, config) = (early_server(), early_client(0));
    let _ = shake(&server, &config, 1_000);
    let mut client = connection(&config);
    client.early_data().expect("a session").write_all(b"GET /").expect("room");
    let mut first = sent(&mut client);
    let mut acceptor = Acceptor::new(Arc::clone(&server), whole(&first));
    let step = acceptor.on_bytes(&first);
    let Outcome::Done(secured) = step.outcome else { panic!("{:?}", step.outcome) };
    let (mut layer, session) = secured.into_layer().expect("keys");
    *first.last_mut().expect("a byte") ^= 1;
    let (mut plain, mut rest) = (b"before".to_vec(), &first[step.consumed..]);
    let failed = loop {
        match layer.open(rest, &mut plain) {
            Unsealed::Control { consumed, .. } => rest = &rest[consumed..],
            other => break other,
        }
    };
    assert_eq!((failed, &plain[..]), (Unsealed::Failed(Some(20)), &b"before"[..]));
    assert!(!session.early.expect("it is early").load(Ordering::Relaxed));
}

/// Who is not there any more, or sends too much, gets no further.
#[test]
fn early_data_has_its_limits() {
    let (server, config) = (early_server(), early_client(0));
    let _ = shake(&server, &config, 1_000);
    // Of another server, which has no such session.
    let mut client = connection(&config);
    let first = sent(&mut client);
    let mut acceptor = Acceptor::new(early_server(), whole(&first));
    assert!(matches!(acceptor.on_bytes(&first).outcome, Outcome::Waits));
    // Without data it is a session as any other.
    let (_, secured) = shake(&server, &Arc::new(client_without_data(&config)), 1_000);
    let session = secured.expect("a handshake").session;
    assert!(session.early.is_none() && session.version == Version::Tls13);
}

fn client_without_data(config: &Arc<ClientConfig>) -> ClientConfig {
    let mut config = ClientConfig::clone(config);
    config.enable_early_data = false;
    config
}

#[test]
fn each_step_tells_what_it_takes() {
    let efforts = |server: &Arc<ServerTls>, config: &Arc<ClientConfig>| {
        let mut client = connection(config);
        let mut bytes = sent(&mut client);
        let mut acceptor = Acceptor::new(Arc::clone(server), whole(&bytes));
        let mut efforts = Vec::new();
        loop {
            efforts.push(acceptor.effort());
            let step = acceptor.on_bytes(&bytes);
            let _ = client.read_tls(&mut &step.out[..]);
            client.process_new_packets().expect("taken");
            match step.outcome {
                Outcome::Waits => bytes = sent(&mut client),
                Outcome::Done(_) => return efforts,
                Outcome::Failed(why) => panic!("{why}"),
            }
        }
    };
    let of = |at: usize| Arc::new(client(&[ALL_CIPHER_SUITES[at]], None));
    let ec = server(rules(&["ec"]));
    let newer = of(0);
    assert_eq!(efforts(&ec, &newer), [Effort::Middle, Effort::Short]);
    assert_eq!(efforts(&ec, &newer), [Effort::Middle, Effort::Short], "it goes on with a session");
    let older = of(4);
    assert_eq!(efforts(&ec, &older), [Effort::Middle, Effort::Middle]);
    assert_eq!(efforts(&ec, &older), [Effort::Middle, Effort::Short]);
    let rsa = server(rules(&["rsa"]));
    let newer = of(0);
    assert_eq!(efforts(&rsa, &newer), [Effort::Long, Effort::Short]);
    assert_eq!(efforts(&rsa, &newer), [Effort::Middle, Effort::Short], "a ticket saves the signature");
    // Of two keys the one counts that the client likes best.
    assert_eq!(efforts(&server(rules(&["rsa", "ec"])), &of(0)), [Effort::Middle, Effort::Short]);
}
