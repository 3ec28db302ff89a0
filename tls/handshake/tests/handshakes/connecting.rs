//! Our own client: with our own server, and with bytes that no server sends.

use super::early::{early_server, open, seal};
use super::{file, identity, rules, server};
use handshake::{
    Acceptor, CertificateFiles, CertificateSource, ClientRules, ClientTls, ConnectOutcome, ConnectStep, Connected,
    Connector, Demand, EarlySent, Effort, Failure, First, Groups, Outcome, Secured, ServerRules, ServerTls,
    ServerVerdict, Servers, Sought, Suites, Version, hello,
};
use seal::{ContentType, Layer, Record, Unsealed};
use std::sync::Arc;
use x509::{Store, read_certificates, read_revocations};

/// A client of these versions, which trusts who is named, but for whom the list has.
fn client((tls12, tls13): (bool, bool), trusted: Option<(&str, Option<&str>)>) -> Arc<ClientTls> {
    let servers = trusted.map(|(authority, revoked)| {
        let authorities = read_certificates(&file(authority)).expect("authorities");
        let lists = revoked.map(|name| read_revocations(&file(name)).expect("lists")).unwrap_or_default();
        Servers { store: Store::new(&authorities, &lists).expect("a store"), depth: 1, by_address: false }
    });
    let rules = ClientRules {
        identity: None,
        tls12,
        tls13,
        suites12: Suites::of_tls12("HIGH:!aNULL:!MD5").expect("suites"),
        suites13: Suites::all_tls13(),
        groups: Groups::auto(),
        servers,
        tickets: 8,
        protocols: vec![b"http/1.1".to_vec()],
    };
    Arc::new(ClientTls::new(rules).expect("a client"))
}

fn sought(tls: &Arc<ClientTls>, name: &str) -> Sought {
    let told = Some("one.example".into());
    Sought { tls: Arc::clone(tls), shows: None, name: name.as_bytes().into(), told, peer: b"there".as_slice().into() }
}

/// The first that a client sends, and its server.
fn begin(server: &Arc<ServerTls>, connector: &mut Connector) -> (Acceptor, Vec<u8>) {
    let ConnectStep { consumed, out, outcome } = connector.on_bytes(&[]);
    assert!(consumed == 0 && matches!(outcome, ConnectOutcome::Waits));
    let First::Whole(hello, _) = hello::first(&out) else { panic!("a ClientHello is whole") };
    assert_eq!(hello.server_name.as_deref(), Some("one.example"));
    (Acceptor::new(Arc::clone(server), hello), out)
}

/// Both ends of a handshake, `step` bytes of the server's at a time; and what the server sent
/// behind it: the tickets of TLS 1.3.
fn shake(server: &Arc<ServerTls>, sought: Sought, step: usize) -> (Box<Connected>, Box<Secured>, Vec<u8>) {
    let mut connector = Connector::new(sought);
    let (mut acceptor, mut to_server) = begin(server, &mut connector);
    let (mut to_client, mut next, mut ends) = (Vec::new(), 0, (None, None));
    for _ in 0..10_000 {
        if ends.1.is_none() && !to_server.is_empty() {
            let answer = acceptor.on_bytes(&to_server);
            to_server.drain(..answer.consumed);
            to_client.extend(answer.out);
            match answer.outcome {
                Outcome::Waits => {}
                Outcome::Done(secured) => ends.1 = Some(secured),
                Outcome::Failed(why) => panic!("{why}"),
            }
        }
        if ends.0.is_none() && next < to_client.len() {
            next = (next + step).min(to_client.len());
            let ConnectStep { consumed, out, outcome } = connector.on_bytes(&to_client[..next]);
            to_client.drain(..consumed);
            next -= consumed;
            to_server.extend(out);
            match outcome {
                ConnectOutcome::Waits => {}
                ConnectOutcome::Done(connected) => ends.0 = Some(connected),
                ConnectOutcome::Failed(why) => panic!("{why}"),
            }
        }
        if let (Some(_), Some(_)) = &ends {
            let (Some(connected), Some(secured)) = ends else { break };
            return (connected, secured, to_client);
        }
    }
    panic!("it does not end");
}

/// What one seals the other opens.
fn passes(from: &mut dyn Layer, to: &mut dyn Layer, number: u64, text: &[u8]) {
    let record = Record { epoch: 0, number, kind: ContentType::ApplicationData, padding: 0 };
    let mut out = vec![0; text.len() + from.overhead()];
    from.seal(&record, &[text], &mut out).expect("sealed");
    let mut plain = Vec::new();
    assert_eq!(to.open(&out, &mut plain), Unsealed::Data { consumed: out.len() });
    assert_eq!(plain, text);
}

#[test]
fn our_client_and_our_server_agree_and_go_on() {
    for (versions, version) in [((true, false), Version::Tls12), ((false, true), Version::Tls13)] {
        let server = server(rules(&["ec", "rsa"]));
        let tls = client(versions, None);
        for (step, resumed) in [(usize::MAX / 2, false), (1, true), (7, true)] {
            let (connected, secured, mut tickets) = shake(&server, sought(&tls, ""), step);
            let told = &connected.session;
            assert_eq!((told.version, told.resumed, told.verdict), (version, resumed, ServerVerdict::NotAsked));
            assert_eq!((secured.session.resumed, told.protocol.as_deref()), (resumed, Some(&b"http/1.1"[..])));
            let (mut near, _) = connected.into_layer().expect("a layer");
            let (mut far, _) = secured.into_layer().expect("a layer");
            while !tickets.is_empty() {
                let Unsealed::Control { consumed, .. } = near.open(&tickets, &mut Vec::new()) else {
                    panic!("a ticket")
                };
                tickets.drain(..consumed);
            }
            for number in 0..3 {
                passes(&mut *near, &mut *far, number, b"GET / HTTP/1.1");
                passes(&mut *far, &mut *near, number, &[7; 3_000]);
            }
        }
    }
}

/// A request goes with the first bytes; who does not know the session reads none of it.
#[test]
fn our_client_sends_early_what_our_server_takes() {
    let (server, other) = (early_server(), early_server());
    let tls = Arc::into_inner(client((false, true), None)).expect("nobody else has it");
    let tls = Arc::new(tls.sending_early());
    let early = |server: &Arc<ServerTls>| {
        let mut connector = Connector::new(sought(&tls, "")).with_early(b"GET /".as_slice().into());
        let (acceptor, first) = begin(server, &mut connector);
        (connector, acceptor, first)
    };
    let (connector, ..) = early(&server);
    assert_eq!(connector.sent_early(), 0, "there is no session yet");
    let (connected, _, tickets) = shake(&server, sought(&tls, ""), usize::MAX / 2);
    assert_eq!(connected.session.early, None);
    open(&mut *connected.into_layer().expect("a layer").0, &tickets);

    let (mut connector, mut acceptor, first) = early(&server);
    assert_eq!(connector.sent_early(), 5);
    let step = acceptor.on_bytes(&first);
    let Outcome::Done(secured) = step.outcome else { panic!("{:?}", step.outcome) };
    let (mut far, _) = secured.into_layer().expect("a layer");
    assert_eq!(open(&mut *far, &first[step.consumed..]), b"GET /");
    let answer = seal(&mut *far, 0, b"answer");
    let ConnectStep { out, outcome: ConnectOutcome::Done(connected), .. } = connector.on_bytes(&step.out) else {
        panic!("it is over for the client")
    };
    assert_eq!(connected.session.early, Some(EarlySent { bytes: 5, accepted: true }));
    let (mut near, _) = connected.into_layer().expect("a layer");
    assert_eq!(open(&mut *near, &answer), b"answer");
    let more = [out, seal(&mut *near, 0, b"more")].concat();
    assert_eq!(open(&mut *far, &more), b"more");

    let (mut connector, mut acceptor, first) = early(&other);
    assert_eq!(connector.sent_early(), 5, "the second ticket");
    let step = acceptor.on_bytes(&first);
    assert!(matches!(step.outcome, Outcome::Waits) && step.consumed == first.len(), "{:?}", step.outcome);
    let ConnectStep { out, outcome: ConnectOutcome::Done(connected), .. } = connector.on_bytes(&step.out) else {
        panic!("it is over for the client")
    };
    assert_eq!(connected.session.early, Some(EarlySent { bytes: 5, accepted: false }));
    assert!(matches!(acceptor.on_bytes(&out).outcome, Outcome::Done(_)));
}

/// Those of the tests' folder, by their names.
#[derive(Debug)]
struct Found;

impl CertificateSource for Found {
    fn find(&self, like: &ServerTls, files: &[CertificateFiles]) -> Result<Arc<ServerTls>, String> {
        let name = String::from_utf8_lossy(&files[0].certificate);
        if name == "none" {
            return Err("cannot load certificate \"none\"".to_owned());
        }
        like.with_identities(&[identity(&name)]).map(Arc::new).map_err(|why| why.to_string())
    }
}

#[test]
fn certificates_are_found_before_anything_is_said() {
    let like = server(rules(&[]));
    for versions in [(true, false), (false, true)] {
        let tls = client(versions, Some(("ec.pem", None)));
        let begin = |name: &str| {
            let mut connector = Connector::new(sought(&tls, "ec"));
            let first = connector.on_bytes(&[]).out;
            let First::Whole(hello, _) = hello::first(&first) else { panic!("it is whole") };
            let files = vec![CertificateFiles { certificate: name.into(), key: Vec::new() }];
            let demand = Demand { source: Arc::new(Found), files };
            (Acceptor::on_demand(Arc::clone(&like), hello, demand), connector, first)
        };
        let (mut acceptor, _, first) = begin("none");
        assert_eq!(acceptor.effort(), Effort::Long, "files are no silo's to read");
        let step = acceptor.on_bytes(&first);
        assert!(matches!(&step.outcome, Outcome::Failed(Failure::Certificates(why)) if why.contains("none")));
        assert_eq!(step.out, [21, 3, 3, 0, 2, 2, 80]);
        for (name, verdict) in [("ec", true), ("other", false)] {
            let (mut acceptor, mut connector, mut first) = begin(name);
            // As far as the client has seen a certificate.
            let told = loop {
                let step = acceptor.on_bytes(&first);
                assert!(matches!(step.outcome, Outcome::Waits | Outcome::Done(_)), "{:?}", step.outcome);
                let answer = connector.on_bytes(&step.out);
                match answer.outcome {
                    ConnectOutcome::Waits => first = answer.out,
                    ConnectOutcome::Done(connected) => break connected.session.verdict,
                    ConnectOutcome::Failed(why) => panic!("{why}"),
                }
            };
            assert_eq!(told == ServerVerdict::Trusted, verdict, "{name}: {told:?}");
        }
    }
    // A session is of one certificate, however often that is read; and of no other.
    let tls = client((false, true), None);
    for (name, resumed) in [("ec", false), ("ec", true), ("other", false)] {
        let one = Arc::new(like.with_identities(&[identity(name)]).expect("a server"));
        let (connected, secured, tickets) = shake(&one, sought(&tls, ""), usize::MAX / 2);
        assert_eq!(secured.session.resumed, resumed, "{name}");
        open(&mut *connected.into_layer().expect("a layer").0, &tickets);
    }
}

/// Whoever is not trusted is told, the second time, too, when the session goes on.
#[test]
fn servers_are_verified_by_who_they_are_and_by_name() {
    // Its certificate has no alternative names, so that its common name counts.
    let server = server(ServerRules { identities: vec![super::identity("client")], ..rules(&[]) });
    for (trusted, name, told) in [
        (("ca.pem", None), "client", "Trusted"),
        (("ca.pem", Some("none.crl")), "client", "Trusted"),
        (("ca.pem", Some("client.crl")), "client", "certificate revoked"),
        (("ca.pem", None), "other", "Misnamed"),
        (("ca.pem", None), "clien", "Misnamed"),
        (("ca.pem", None), "", "Misnamed"),
        (("ca.pem", None), "client\0", "Misnamed"),
        (("other.pem", None), "client", "unable to verify the first certificate"),
    ] {
        for versions in [(true, false), (false, true)] {
            let tls = client(versions, Some(trusted));
            for resumed in [false, versions.0] {
                let (connected, ..) = shake(&server, sought(&tls, name), 1_000);
                let verdict = match connected.session.verdict {
                    ServerVerdict::Refused(why) => why.to_string(),
                    other => format!("{other:?}"),
                };
                assert_eq!((verdict.as_str(), connected.session.resumed), (told, resumed), "{trusted:?} {name:?}");
            }
        }
    }
}

/// What is cut waits, and what was changed on its way never comes to a secured connection.
#[test]
fn what_a_server_sends_is_whole_or_nothing() {
    let server = server(rules(&["ec"]));
    for versions in [(true, false), (false, true)] {
        let tls = client(versions, None);
        let flight = |connector: &mut Connector| {
            let (mut acceptor, first) = begin(&server, connector);
            acceptor.on_bytes(&first).out
        };
        let len = flight(&mut Connector::new(sought(&tls, ""))).len();
        for at in 0..len {
            let mut connector = Connector::new(sought(&tls, ""));
            let mut bytes = flight(&mut connector);
            // Signatures differ in length by a byte or two.
            bytes.truncate(at.min(bytes.len() - 1));
            let step = connector.on_bytes(&bytes);
            assert!(matches!(step.outcome, ConnectOutcome::Waits) && step.consumed <= at, "cut at {at}");
        }
        let mut failed = 0;
        for at in 0..len {
            let mut connector = Connector::new(sought(&tls, ""));
            let mut bytes = flight(&mut connector);
            let Some(byte) = bytes.get_mut(at) else { continue };
            *byte ^= 0x21;
            match connector.on_bytes(&bytes).outcome {
                // A length that grew, or what TLS 1.2 finds out by the last message alone.
                ConnectOutcome::Waits => {}
                ConnectOutcome::Failed(_) => failed += 1,
                // The version that a record in the clear names is ignored (RFC 8446 section 5.1).
                ConnectOutcome::Done(_) => assert!(names_version(&bytes, at), "byte {at} was changed"),
            }
        }
        assert!(failed > len / 4, "{failed} of {len}");
    }
    let mut connector = Connector::new(sought(&client((true, true), None), ""));
    assert!(!connector.on_bytes(&[]).out.is_empty());
    assert!(matches!(connector.on_bytes(b"HTTP/1.1 400 Bad Request\r\n").outcome, ConnectOutcome::Failed(_)));
}

/// Whether the byte at `at` is the lower one of a record's version.
fn names_version(records: &[u8], at: usize) -> bool {
    let mut begin = 0;
    while let Some([_, _, _, high, low]) = records.get(begin..begin + 5) {
        if at == begin + 2 {
            return true;
        }
        begin += 5 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    false
}

/// A message that is refused has others behind it, in the same record: they are not looked at.
#[test]
fn a_client_fails_by_a_message_that_others_stand_behind() {
    let server = server(rules(&["ec"]));
    for behind in [&[][..], &[20, 0, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &[0, 0, 0, 0], &[16, 0, 0, 1, 0]] {
        let mut connector = Connector::new(sought(&client((true, false), None), ""));
        let (mut acceptor, mut bytes) = begin(&server, &mut connector);
        let step = acceptor.on_bytes(&bytes);
        assert!(matches!(step.outcome, Outcome::Waits));
        bytes.drain(..step.consumed);
        // A key that is on no curve, by its length.
        let messages = [&[16, 0, 0, 2, 1, 9][..], behind].concat();
        bytes.extend([22, 3, 3, 0, messages.len() as u8]);
        bytes.extend(messages);
        let step = acceptor.on_bytes(&bytes);
        assert!(matches!(step.outcome, Outcome::Failed(_)), "{:?}", step.outcome);
        // A record with the alert.
        assert_eq!(step.out.first(), Some(&21), "{behind:?}");
    }
}
