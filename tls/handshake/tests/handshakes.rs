//! Handshakes with rustls as the client, and certificates as `openssl` makes them.

use handshake::{
    Acceptor, Cipher, ClientMode, ClientVerdict, Clients, Failure, First, Groups, Hello, Identity, Outcome, Secured,
    ServerRules, ServerTls, SessionCache, Step, Suites, SuitesError, TicketKeys, Version, hello, suite_name_of,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, Resumption};
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS, default_provider, kx_group};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DigitallySignedStruct, Error, ExtractedSecrets, SignatureScheme, SupportedCipherSuite};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use x509::{Certificate, Store, read_certificates, read_key, read_revocations};

#[path = "handshakes/compressed.rs"]
mod compressed;
#[path = "handshakes/connecting.rs"]
mod connecting;
#[path = "handshakes/early.rs"]
mod early;
#[path = "handshakes/names.rs"]
mod names;
#[path = "handshakes/strings.rs"]
mod strings;

/// A folder of certificates, made once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("nearside-handshake-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let script = r#"
            set -e
            ec() { openssl ecparam -name prime256v1 -genkey -noout -out $1.key; }
            ec ec; ec ca; ec client; ec old; ec other
            openssl genrsa -out rsa.key 2048
            # As Debian's configuration has it: version 3 with CA:TRUE.
            for one in ec rsa ca other; do openssl req -x509 -new -key $one.key -subj /O=Test/CN=$one -days 30 -out $one.pem; done
            # Without extensions, as `openssl x509 -req` makes them: version 1.
            for one in client old; do
                openssl req -new -key $one.key -subj /O=Test/CN=$one -out $one.csr
                openssl x509 -req -in $one.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -out $one.pem
            done
            printf '[ca]\ndefault_ca=x\n[x]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=30\n' > conf
            : > index; echo 01 > number
            openssl ca -config conf -keyfile ca.key -cert ca.pem -gencrl -out none.crl
            openssl ca -config conf -keyfile ca.key -cert ca.pem -revoke client.pem
            openssl ca -config conf -keyfile ca.key -cert ca.pem -gencrl -out client.crl
        "#;
        let ran = Command::new("sh").arg("-c").arg(script).current_dir(&folder).output().expect("sh");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        folder
    })
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).expect("a file")
}

fn identity(name: &str) -> Identity {
    let chain = read_certificates(&file(&format!("{name}.pem"))).expect("a certificate");
    let key = read_key(&file(&format!("{name}.key")), &[]).expect("a key");
    chain[0].check_key(&key).expect("its key");
    Identity { chain, key, stapled: None }
}

fn rules(names: &[&str]) -> ServerRules {
    ServerRules {
        identities: names.iter().map(|name| identity(name)).collect(),
        tls12: true,
        tls13: true,
        suites12: Suites::of_tls12("HIGH:!aNULL:!MD5").expect("suites"),
        suites13: Suites::all_tls13(),
        groups: Groups::auto(),
        prefers_own: false,
        kernel: true,
        compresses: None,
        tickets: Some(Arc::new(TicketKeys::rotating())),
        sessions: None,
        early: None,
        lifetime: 300,
        clients: None,
        rejects: false,
        protocols: vec![b"http/1.1".to_vec()],
    }
}

fn server(rules: ServerRules) -> Arc<ServerTls> {
    Arc::new(ServerTls::new(rules).expect("a server"))
}

/// Takes any certificate.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn client(suites: &[SupportedCipherSuite], certificate: Option<&str>) -> ClientConfig {
    let mut provider = default_provider();
    provider.cipher_suites = suites.to_vec();
    provider.kx_groups = vec![kx_group::X25519MLKEM768, kx_group::X25519];
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let versions: Vec<_> = suites.iter().map(SupportedCipherSuite::version).collect();
    let builder = builder.with_protocol_versions(&versions).expect("versions");
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
    let mut config = match certificate {
        Some(name) => {
            let Identity { chain, key, .. } = identity(name);
            let chain = chain.iter().map(|one| CertificateDer::from(one.der())).collect();
            let key = PrivateKeyDer::Pkcs8(key.secret_bytes().to_vec().into());
            // It would not load one of version 1 otherwise.
            let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).expect("a key");
            let certified = SingleCertAndKey::from(CertifiedKey::new(chain, key));
            builder.with_client_cert_resolver(Arc::new(certified))
        }
        None => builder.with_no_client_auth(),
    };
    config.enable_secret_extraction = true;
    config.resumption = Resumption::in_memory_sessions(8);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Both ends of a handshake, `step` bytes of the client's at a time. The client and what came of it.
fn shake(
    server: &Arc<ServerTls>,
    config: &Arc<ClientConfig>,
    step: usize,
) -> (ClientConnection, Result<Secured, Failure>) {
    let name = ServerName::try_from("one.example").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(config), name).expect("a client");
    let (mut sent, mut acceptor, mut next) = (Vec::new(), None, 0);
    for _ in 0..64 {
        while client.wants_write() {
            client.write_tls(&mut sent).expect("in memory");
        }
        while next < sent.len() {
            next = (next + step).min(sent.len());
            if acceptor.is_none() {
                match hello::first(&sent[..next]) {
                    First::Whole(hello, _) => acceptor = Some(Acceptor::new(Arc::clone(server), hello)),
                    First::Partial(_) => continue,
                    other => panic!("{other:?}"),
                }
            }
            let Some(acceptor) = &mut acceptor else { continue };
            let Step { consumed, out, outcome } = acceptor.on_bytes(&sent[..next]);
            sent.drain(..consumed);
            next -= consumed;
            let _ = client.read_tls(&mut &out[..]);
            let told = client.process_new_packets();
            match outcome {
                Outcome::Waits => _ = told.expect("taken"),
                Outcome::Done(secured) => {
                    told.expect("taken");
                    assert!(sent.is_empty(), "nothing follows it here");
                    return (client, Ok(*secured));
                }
                Outcome::Failed(why) => return (client, Err(why)),
            }
        }
    }
    panic!("it does not end");
}

/// What the client has is what we have.
fn agree(secured: &Secured, client: ClientConnection) {
    let ExtractedSecrets { tx, rx } = client.dangerous_extract_secrets().expect("secrets");
    for ((sequence, theirs), ours) in [(tx, &secured.receive), (rx, &secured.transmit)] {
        let (key, iv) = match &theirs {
            rustls::ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | rustls::ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | rustls::ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => panic!("another cipher"),
        };
        assert_eq!((sequence, key.as_ref()), (ours.sequence, &ours.key[..]));
        let counts = if secured.session.version == Version::Tls12 && secured.cipher != Cipher::ChaCha20Poly1305 {
            4
        } else {
            12
        };
        assert_eq!(iv.as_ref()[..counts], ours.iv[..counts]);
        assert_eq!(ours.secret.is_some(), secured.session.version == Version::Tls13);
    }
}

#[test]
fn each_suite_is_agreed_on_whole_and_byte_by_byte() {
    let server = server(rules(&["ec", "rsa"]));
    for suite in ALL_CIPHER_SUITES {
        for step in [usize::MAX / 2, 7, 1] {
            let config = Arc::new(client(&[*suite], None));
            let (client, secured) = shake(&server, &config, step);
            let secured = secured.expect("a handshake");
            assert_eq!(secured.session.protocol.as_deref(), Some(&b"http/1.1"[..]));
            assert_eq!(secured.session.server_name.as_deref(), Some("one.example"));
            let is_13 = suite.tls13().is_some();
            assert_eq!(secured.session.version == Version::Tls13, is_13);
            assert_eq!(secured.session.group, if is_13 { "X25519MLKEM768" } else { "X25519" });
            assert!(!secured.session.resumed && secured.session.verdict == ClientVerdict::NotAsked);
            let rsa = format!("{:?}", suite.suite()).contains("RSA_WITH");
            if !is_13 {
                let chain = client.peer_certificates().expect("certificates");
                let shown = Certificate::from_der(&chain[0]).expect("one");
                let subject = String::from_utf8(shown.subject(x509::NameForm::Rfc2253)).expect("text");
                assert_eq!(subject, if rsa { "CN=rsa,O=Test" } else { "CN=ec,O=Test" });
            }
            agree(&secured, client);
        }
    }
}

#[test]
fn groups_are_as_configured() {
    for (text, told) in [("secp384r1", "secp384r1"), ("P-256:secp384r1", "prime256v1"), ("X25519", "X25519")] {
        let (groups, missing) = Groups::of(text).expect("groups");
        assert!(missing.is_empty());
        let server = server(ServerRules { groups, ..rules(&["ec"]) });
        let mut provider = default_provider();
        // The client sends a key of the first alone: others are asked for (HelloRetryRequest).
        provider.kx_groups = ALL_KX_GROUPS.to_vec();
        let client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        let (_, secured) = shake(&server, &Arc::new(client), 100);
        assert_eq!(secured.expect("a handshake").session.group, told);
    }
}

#[test]
fn sessions_go_on_by_tickets_of_their_own_server() {
    for version in [Version::Tls12, Version::Tls13] {
        let keys = Arc::new(TicketKeys::rotating());
        let with = |names: &[&str]| server(ServerRules { tickets: Some(Arc::clone(&keys)), ..rules(names) });
        let (one, same, other) = (with(&["ec"]), with(&["ec"]), with(&["rsa"]));
        let suites: Vec<_> = ALL_CIPHER_SUITES
            .iter()
            .filter(|suite| suite.tls13().is_some() == (version == Version::Tls13))
            .copied()
            .collect();
        let config = Arc::new(client(&suites, None));
        // What the first has is gone on with by another silo, or after a reload.
        for (server, resumed) in [(&one, false), (&same, true), (&one, true), (&other, false)] {
            let (client, secured) = shake(server, &config, 1_000);
            let secured = secured.expect("a handshake");
            assert_eq!((secured.session.version, secured.session.resumed), (version, resumed));
            agree(&secured, client);
        }
    }
}

#[test]
fn sessions_go_on_from_a_cache() {
    for suite in [ALL_CIPHER_SUITES[0], ALL_CIPHER_SUITES[4]] {
        let sessions = Some(Arc::new(SessionCache::new(1 << 20)));
        let server = server(ServerRules { tickets: None, sessions, ..rules(&["ec"]) });
        let config = Arc::new(client(&[suite], None));
        for resumed in [false, true, true] {
            let (client, secured) = shake(&server, &config, 1_000);
            let secured = secured.expect("a handshake");
            assert_eq!(secured.session.resumed, resumed, "{:?}", suite.suite());
            agree(&secured, client);
        }
    }
}

/// Clients have to show a certificate of our authority, of which those of a list are taken back.
fn clients(revoked: Option<&str>) -> Option<Clients> {
    let authorities = read_certificates(&file("ca.pem")).expect("authorities");
    let lists = revoked.map(|name| read_revocations(&file(name)).expect("lists")).unwrap_or_default();
    Some(Clients {
        mode: ClientMode::Required,
        store: Store::new(&authorities, &lists).expect("a store"),
        authorities: authorities.iter().map(Certificate::subject_der).collect(),
        depth: 1,
    })
}

#[test]
fn clients_are_verified_as_openssl_does() {
    for suite in [ALL_CIPHER_SUITES[0], ALL_CIPHER_SUITES[4]] {
        for (revoked, name, told) in [
            (None, None, "none"),
            (None, Some("client"), "trusted"),
            (None, Some("other"), "self-signed certificate"),
            (Some("none.crl"), Some("client"), "trusted"),
            (Some("client.crl"), Some("client"), "certificate revoked"),
            (Some("client.crl"), Some("old"), "trusted"),
        ] {
            let server = server(ServerRules { clients: clients(revoked), ..rules(&["ec"]) });
            let config = Arc::new(client(&[suite], name));
            // The second time it goes on with the session, and with the certificate.
            for resumed in [false, true] {
                let (_, secured) = shake(&server, &config, 1_000);
                let session = secured.expect("a handshake").session;
                let verdict = match session.verdict {
                    ClientVerdict::NotAsked => "not asked".to_owned(),
                    ClientVerdict::None => "none".to_owned(),
                    ClientVerdict::Trusted => "trusted".to_owned(),
                    ClientVerdict::Refused(why) => why.to_string(),
                };
                assert_eq!(verdict, told, "{name:?} {revoked:?}");
                assert_eq!(session.resumed, resumed);
                assert_eq!(session.client.len(), usize::from(name.is_some()));
            }
        }
    }
}

#[test]
fn failures_are_told_as_openssl_tells_them() {
    let tls13: Vec<_> = ALL_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_some()).copied().collect();
    let rejects = ServerRules { rejects: true, ..rules(&[]) };
    let h2 = ServerRules { protocols: vec![b"other".to_vec()], ..rules(&["ec"]) };
    let only12 = ServerRules { tls13: false, ..rules(&["ec"]) };
    let rsa = ServerRules { tls13: false, suites12: Suites::of_tls12("aRSA").expect("suites"), ..rules(&["rsa"]) };
    for (rules, suites, reason, alert) in [
        (rejects, ALL_CIPHER_SUITES, "callback failed", "UnrecognisedName"),
        (h2, ALL_CIPHER_SUITES, "no application protocol", "NoApplicationProtocol"),
        (only12, &tls13[..], "unsupported protocol", "ProtocolVersion"),
        (rsa, &ALL_CIPHER_SUITES[3..6], "no shared cipher", "HandshakeFailure"),
    ] {
        let (mut client, failed) = shake(&server(rules), &Arc::new(client(suites, None)), 1_000);
        let told = failed.expect_err("a failure").to_string();
        assert!(told.contains(reason), "{told}");
        let theirs = client.process_new_packets().expect_err("an alert");
        assert_eq!(format!("{theirs:?}"), format!("AlertReceived({alert})"));
    }
}

#[test]
fn another_hello_than_the_server_was_chosen_by_ends_it() {
    let server = server(rules(&["ec"]));
    let mut client = ClientConnection::new(
        Arc::new(client(ALL_CIPHER_SUITES, None)),
        ServerName::try_from("one.example").expect("a name"),
    )
    .expect("a client");
    let mut sent = Vec::new();
    client.write_tls(&mut sent).expect("in memory");
    let First::Whole(hello, length) = hello::first(&sent) else { panic!("a hello") };
    assert_eq!(length, sent.len());
    for other in [
        Hello { server_name: Some("two.example".into()), ..hello.clone() },
        Hello { server_name: None, ..hello.clone() },
        Hello { protocols: vec![b"http/1.1"[..].into()], ..hello.clone() },
    ] {
        let step = Acceptor::new(Arc::clone(&server), other).on_bytes(&sent);
        assert!(matches!(step.outcome, Outcome::Failed(Failure::Differs)), "{:?}", step.outcome);
    }
    let step = Acceptor::new(server, hello).on_bytes(&sent);
    assert!(matches!(step.outcome, Outcome::Waits) && !step.out.is_empty());
}

#[test]
fn records_behind_the_handshake_are_not_touched() {
    let server = server(rules(&["ec"]));
    for suite in [ALL_CIPHER_SUITES[0], ALL_CIPHER_SUITES[4]] {
        let config = Arc::new(client(&[suite], None));
        let mut client =
            ClientConnection::new(config, ServerName::try_from("one.example").expect("a name")).expect("a client");
        let mut sent = Vec::new();
        client.write_tls(&mut sent).expect("in memory");
        let First::Whole(hello, _) = hello::first(&sent) else { panic!("a hello") };
        let mut acceptor = Acceptor::new(Arc::clone(&server), hello);
        let step = acceptor.on_bytes(&sent);
        client.read_tls(&mut &step.out[..]).expect("in memory");
        client.process_new_packets().expect("taken");
        client.writer().write_all(b"GET / HTTP/1.1\r\n\r\n").expect("in memory");
        client.writer().write_all(&[7; 20_000]).expect("in memory");
        sent.clear();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("in memory");
        }
        // TLS 1.2 has no application data before our Finished.
        let step = acceptor.on_bytes(&sent);
        let Outcome::Done(secured) = step.outcome else { panic!("{:?}", step.outcome) };
        assert_eq!(secured.receive.sequence, u64::from(secured.session.version == Version::Tls12));
        let behind = sent.len() - step.consumed;
        if secured.session.version == Version::Tls13 {
            assert!(behind > 20_000, "{behind}");
            assert_eq!(sent[step.consumed], 23);
        }
        client.read_tls(&mut &step.out[..]).expect("in memory");
        client.process_new_packets().expect("taken");
        assert!(client.reader().read(&mut [0]).is_err(), "nothing was sent to it");
    }
}

#[test]
fn what_never_ends_is_ended() {
    let server = server(rules(&["ec"]));
    let mut client = ClientConnection::new(
        Arc::new(client(ALL_CIPHER_SUITES, None)),
        ServerName::try_from("one.example").expect("a name"),
    )
    .expect("a client");
    let mut sent = Vec::new();
    client.write_tls(&mut sent).expect("in memory");
    let First::Whole(hello, _) = hello::first(&sent) else { panic!("a hello") };
    for junk in [
        [20, 3, 3, 0, 1, 1].repeat(600),
        [&[22, 3, 3, 0x40, 0][..], &[0; 0x4000]].concat().repeat(20),
        vec![21, 3, 3, 0, 2, 1, 0],
        vec![21, 3, 3, 0, 2, 2, 46],
        vec![23, 3, 3, 0xff, 0xff],
        [&[23, 3, 3, 0, 50][..], &[9; 50]].concat(),
    ] {
        let mut acceptor = Acceptor::new(Arc::clone(&server), hello.clone());
        assert!(matches!(acceptor.on_bytes(&sent).outcome, Outcome::Waits));
        let step = acceptor.on_bytes(&junk);
        let Outcome::Failed(why) = step.outcome else { panic!("{junk:02x?}") };
        assert!(!why.to_string().is_empty());
        // And it stays over.
        assert!(matches!(acceptor.on_bytes(&sent).outcome, Outcome::Failed(_)));
    }
}

#[test]
fn cipher_strings_mean_what_openssl_has_them_mean() {
    let names = |text: &str| -> Vec<&str> {
        let suites = Suites::of_tls12(text).expect("suites");
        suites.names().collect()
    };
    for text in [
        "HIGH:!aNULL:!MD5",
        "DEFAULT",
        "ECDHE+AESGCM:ECDHE+CHACHA20",
        "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256",
        "AES128+AESGCM:HIGH",
        "ALL:!ECDSA:+AES128",
        "ALL:!CHACHA20:@STRENGTH",
        "AESGCM:-AES256:AES256",
        "EECDH+aRSA+AES256",
    ] {
        let told = Command::new("openssl").args(["ciphers", "-tls1_2", "-s", text]).output().expect("openssl");
        let told = String::from_utf8(told.stdout).expect("text");
        let ours = names(text);
        let known = names("ALL");
        let theirs: Vec<_> = told.trim().split(':').filter(|name| known.contains(name)).collect();
        assert_eq!(ours, theirs, "{text}");
    }
    assert_eq!(Suites::of_tls12("nothing"), Err(SuitesError::NoMatch));
    assert_eq!(Suites::of_tls12("!ALL:HIGH"), Err(SuitesError::NoMatch));
    assert_eq!(Suites::of_tls12("AES128-SHA"), Err(SuitesError::NoneOfOurs));
    assert!(Suites::of_tls13("TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384").is_ok());
    assert_eq!(Suites::of_tls13("TLS_AES_128_CCM_SHA256"), Err(SuitesError::NoneOfOurs));
    let (_, missing) = Suites::of_tls13("TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256").expect("one stays");
    assert_eq!(missing, ["TLS_AES_128_CCM_SHA256"]);
}

/// As OpenSSL has it: by the order of suites where TLS 1.2 is spoken, and the last of those with keys of one
/// type.
#[test]
fn a_certificate_is_chosen_by_suites_and_the_later_of_two_counts() {
    let ecdsa_first = [ALL_CIPHER_SUITES[3], ALL_CIPHER_SUITES[6]];
    let rsa_first = [ALL_CIPHER_SUITES[6], ALL_CIPHER_SUITES[3]];
    for (names, prefers_own, own, theirs, chosen) in [
        (["ec", "rsa"], false, "ALL", &ecdsa_first[..], "ec"),
        (["ec", "rsa"], false, "ALL", &rsa_first, "rsa"),
        (["ec", "rsa"], true, "aRSA:ALL", &ecdsa_first, "rsa"),
        (["ec", "rsa"], true, "ECDSA:ALL", &rsa_first, "ec"),
        (["ec", "other"], false, "ALL", &ecdsa_first, "other"),
        (["other", "ec"], false, "ALL", &ecdsa_first, "ec"),
        (["ec", "other"], false, "ALL", &ALL_CIPHER_SUITES[..1], "other"),
    ] {
        let suites12 = Suites::of_tls12(own).expect("suites");
        let server = server(ServerRules { suites12, prefers_own, ..rules(&names) });
        let (client, secured) = shake(&server, &Arc::new(client(theirs, None)), 1_000);
        assert!(secured.is_ok(), "{names:?}");
        let shown = client.peer_certificates().and_then(|chain| chain.first()).expect("a certificate");
        assert_eq!(shown.as_ref(), identity(chosen).chain[0].der(), "{names:?} {own} {prefers_own}");
    }
}

/// What each side seals the other opens: the keys, numbers and secrets are handed over whole.
#[test]
fn records_go_both_ways_after_the_handshake() {
    let server = server(rules(&["ec", "rsa"]));
    for suite in ALL_CIPHER_SUITES {
        let (mut client, secured) = shake(&server, &Arc::new(client(&[*suite], None)), 1_000);
        let (mut layer, session) = secured.expect("a handshake").into_layer().expect("a layer");
        assert_eq!(session.suite, suite_name_of(suite.suite().into()).unwrap());
        for round in 0..3_u64 {
            let text = [&b"GET / HTTP/1.1"[..], &[round as u8; 3_000]].concat();
            client.writer().write_all(&text).expect("in memory");
            if round == 1 && session.version == Version::Tls13 {
                // New keys of the client's, from here on.
                client.refresh_traffic_keys().expect("TLS 1.3");
                client.writer().write_all(b"behind").expect("in memory");
            }
            let mut sent = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut sent).expect("in memory");
            }
            let (mut plain, mut at) = (Vec::new(), 0);
            while at < sent.len() {
                at += match layer.open(&sent[at..], &mut plain) {
                    seal::Unsealed::Data { consumed } | seal::Unsealed::Control { consumed, .. } => consumed,
                    other => panic!("{other:?}"),
                };
            }
            assert!(plain.starts_with(&text), "{:?}, round {round}", suite.suite());
            let kind = seal::ContentType::ApplicationData;
            let record = seal::Record { epoch: 0, number: round, kind, padding: 0 };
            let mut out = vec![0; 10 + layer.overhead()];
            layer.seal(&record, &[b"12345", b"67890"], &mut out).expect("sealed");
            client.read_tls(&mut &out[..]).expect("in memory");
            client.process_new_packets().expect("taken");
            let mut got = [0; 16];
            assert_eq!(client.reader().read(&mut got).expect("data"), 10);
            assert_eq!(&got[..10], b"1234567890");
        }
    }
}
