//! TLS in simulated time: the handshakes and records are real, what carries them is the world's.

use handshake::{
    Acceptor, ClientRules, ClientTls, First, Groups, Identity, Outcome, ServerRules, ServerTls, SessionCache, Sought,
    Suites, hello,
};
use seal::{ContentType, Layer, Record, Unsealed};
use std::process::Command;
use std::sync::Arc;

/// One end of a connection that is secured.
pub struct Sealed {
    layer: Box<dyn Layer>,
    number: u64,
}

impl Sealed {
    pub fn new(layer: Box<dyn Layer>) -> Self {
        Self { layer, number: 0 }
    }

    pub fn seal(&mut self, text: &[u8]) -> Vec<u8> {
        let record = Record { epoch: 0, number: self.number, kind: ContentType::ApplicationData, padding: 0 };
        self.number += 1;
        let mut out = vec![0; text.len() + self.layer.overhead()];
        self.layer.seal(&record, &[text], &mut out).expect("it is sealed");
        out
    }

    /// Takes the records of `bytes` off, up to the first with data.
    pub fn open(&mut self, bytes: &mut Vec<u8>) -> Vec<u8> {
        let mut plain = Vec::new();
        while !bytes.is_empty() && plain.is_empty() {
            match self.layer.open(bytes, &mut plain) {
                Unsealed::Data { consumed } | Unsealed::Control { consumed, .. } => drop(bytes.drain(..consumed)),
                other => panic!("{other:?}"),
            }
        }
        plain
    }
}

/// The server's end.
#[derive(Default)]
pub struct Far {
    acceptor: Option<Acceptor>,
    pub sealed: Option<Sealed>,
    bytes: Vec<u8>,
}

impl Far {
    /// What it answers by itself, and the requests that came.
    pub fn on_bytes(&mut self, server: &Arc<ServerTls>, bytes: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
        self.bytes.extend_from_slice(bytes);
        let (mut out, mut requests) = (Vec::new(), Vec::new());
        while self.sealed.is_none() && Acceptor::has_record(&self.bytes) {
            let acceptor = self.acceptor.get_or_insert_with(|| match hello::first(&self.bytes) {
                First::Whole(hello, _) => Acceptor::new(Arc::clone(server), hello),
                other => panic!("{other:?}"),
            });
            let step = acceptor.on_bytes(&self.bytes);
            self.bytes.drain(..step.consumed);
            out.extend(step.out);
            match step.outcome {
                Outcome::Waits => {}
                Outcome::Done(secured) => self.sealed = secured.into_layer().map(|(layer, _)| Sealed::new(layer)),
                Outcome::Failed(why) => panic!("{why}"),
            }
        }
        while let Some(sealed) = self.sealed.as_mut().filter(|_| !self.bytes.is_empty()) {
            let request = sealed.open(&mut self.bytes);
            if !request.is_empty() {
                requests.push(request);
            }
        }
        (out, requests)
    }
}

/// A server that takes early data, and keeps its sessions to itself.
pub fn server() -> Arc<ServerTls> {
    let folder = std::env::temp_dir().join(format!("nearside-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let script =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -subj /CN=x -out pem";
    let ran = Command::new("sh").arg("-c").arg(script).current_dir(&folder).output().expect("sh");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let read = |name| std::fs::read(folder.join(name)).expect("a file");
    let chain = x509::read_certificates(&read("pem")).expect("a certificate");
    let key = x509::read_key(&read("key"), &[]).expect("a key");
    std::fs::remove_dir_all(&folder).expect("it goes");
    let rules = ServerRules {
        identities: vec![Identity { chain, key, stapled: None }],
        tls12: false,
        tls13: true,
        suites12: Suites::none(),
        suites13: Suites::all_tls13(),
        groups: Groups::auto(),
        prefers_own: false,
        kernel: false,
        compresses: None,
        tickets: None,
        sessions: None,
        early: Some(Arc::new(SessionCache::new(1 << 20))),
        lifetime: 300,
        clients: None,
        rejects: false,
        protocols: Vec::new(),
    };
    Arc::new(ServerTls::new(rules).expect("a server"))
}

fn tls() -> ClientTls {
    let rules = ClientRules {
        identity: None,
        tls12: false,
        tls13: true,
        suites12: Suites::none(),
        suites13: Suites::all_tls13(),
        groups: Groups::auto(),
        servers: None,
        tickets: 64,
        protocols: Vec::new(),
    };
    ClientTls::new(rules).expect("a client")
}

/// What a client says that sends nothing early.
pub fn client() -> Arc<ClientTls> {
    Arc::new(tls())
}

/// A client that sends early data where it has a session.
pub fn sought() -> Sought {
    let tls = Arc::new(tls().sending_early());
    let name: Box<[u8]> = b"one.example".as_slice().into();
    Sought { tls, shows: None, name: name.clone(), told: Some("one.example".into()), peer: name }
}
