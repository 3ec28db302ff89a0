//! A server with a client, each on our own stack, with real records between them.

use app::{App, ConnId, Net, Opened};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use cpu::Clock;
use exchange::{Handler, Listeners, Speaks};
use handshake::{ClientRules, ClientTls, ConnectOutcome, Connector, Groups, Identity, ServerRules, ServerTls};
use handshake::{Sought, Suites, TicketKeys};
use link::{Pair, PairConfig, PairLink};
use many::{HEAD, Kind, Many, NAME, frame, read_frame};
use server::{Config, ReaderKind, Server, WallClock};
use silo::Silo;
use stack::{Address, LinkOffload, Seeds, Stack};
use std::process::Command;
use std::sync::Arc;
use wire::Mac;
use x509::{read_certificates, read_key};

pub const PORT: u16 = 443;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of the large file.
pub const LARGE: usize = 10 << 20;

pub fn tls(protocols: &[&[u8]]) -> Arc<ServerTls> {
    let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=a -days 30 \
                  -keyout /dev/stdout 2> /dev/null";
    let made = Command::new("sh").arg("-c").arg(script).output().expect("openssl").stdout;
    let (chain, key) = (read_certificates(&made).expect("one"), read_key(&made, &[]).expect("its key"));
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
        tickets: Some(Arc::new(TicketKeys::rotating())),
        sessions: None,
        early: None,
        lifetime: 300,
        clients: None,
        rejects: false,
        protocols: protocols.iter().map(|name| name.to_vec()).collect(),
    };
    Arc::new(ServerTls::new(rules).expect("a server"))
}

pub fn connector(protocol: &[u8]) -> Connector {
    let rules = ClientRules {
        identity: None,
        tls12: false,
        tls13: true,
        suites12: Suites::none(),
        suites13: Suites::all_tls13(),
        groups: Groups::auto(),
        servers: None,
        tickets: 0,
        protocols: vec![protocol.to_vec()],
    };
    let tls = Arc::new(ClientTls::new(rules).expect("a client"));
    Connector::new(Sought { tls, name: [].into(), told: None, shows: None, peer: [].into() })
}

/// A frame that came.
pub type Frame = (Kind, u32, Vec<u8>);

/// A client of one connection.
#[derive(Default)]
pub struct Client {
    pub connector: Option<Connector>,
    pub is_secured: bool,
    /// What was agreed on.
    pub protocol: Option<Box<[u8]>>,
    pub to_send: Vec<u8>,
    pub ends: bool,
    pub came: Vec<u8>,
    pub frames: Vec<Frame>,
    pub conn: Option<ConnId>,
    pub closed: bool,
}

impl Client {
    pub fn send(&mut self, kind: Kind, stream: u32, content: &[u8]) {
        self.to_send.extend_from_slice(&frame(kind, stream, content));
    }

    /// A request without a body.
    pub fn get(&mut self, stream: u32, urgency: u8, path: &str) {
        self.ask(stream, urgency, (false, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")));
    }

    pub fn ask(&mut self, stream: u32, urgency: u8, (follows, head): (bool, &str)) {
        self.send(Kind::Request, stream, &[&[urgency, u8::from(follows)], head.as_bytes()].concat());
    }

    /// Room for more of an answer: its own, and that of all.
    pub fn room(&mut self, stream: u32, more: usize) {
        for stream in [0, stream] {
            self.send(Kind::Window, stream, &(more as u32).to_be_bytes());
        }
    }

    /// The status of a stream's answer, or of the last interim one before it.
    pub fn status(&self, stream: u32) -> Option<u16> {
        let head = self.frames.iter().rev().find(|(kind, of, _)| *kind == Kind::Head && *of == stream)?;
        Some(u16::from_be_bytes([head.2[0], head.2[1]]))
    }

    pub fn fields(&self, stream: u32) -> String {
        let head = self.frames.iter().find(|(kind, of, _)| *kind == Kind::Head && *of == stream);
        String::from_utf8(head.expect("a head").2[10..].to_vec()).expect("text")
    }

    pub fn body(&self, stream: u32) -> Vec<u8> {
        let some = self.frames.iter().filter(|(kind, of, _)| *kind == Kind::Body && *of == stream);
        some.flat_map(|(_, _, content)| content).copied().collect()
    }

    /// Where among all frames its end is.
    pub fn end(&self, stream: u32) -> Option<usize> {
        self.frames.iter().position(|(kind, of, _)| *kind == Kind::End && *of == stream)
    }

    pub fn has(&self, kind: Kind, stream: u32) -> bool {
        self.frames.iter().any(|(one, of, _)| *one == kind && *of == stream)
    }
}

impl App for Client {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _: Opened) {
        self.conn = Some(id);
        let hello = self.connector.as_mut().expect("a handshake").on_bytes(&[]).out;
        net.send_bytes(id, &hello);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if let Some(mut connector) = self.connector.take() {
            let step = connector.on_bytes(data);
            if !step.out.is_empty() {
                net.send_bytes(id, &step.out);
            }
            match step.outcome {
                ConnectOutcome::Waits => self.connector = Some(connector),
                ConnectOutcome::Done(connected) => {
                    let (layer, session) = connected.into_layer().expect("a layer");
                    assert!(net.secure(id, layer));
                    (self.protocol, self.is_secured) = (session.protocol, true);
                }
                ConnectOutcome::Failed(why) => panic!("{why:?}"),
            }
            return step.consumed;
        }
        self.came.extend_from_slice(data);
        if self.protocol.as_deref() == Some(NAME) {
            let mut used = 0;
            while let Some((kind, stream, content)) = read_frame(&self.came[used..]).expect("frames") {
                self.frames.push((kind, stream, content.to_vec()));
                used += HEAD + content.len();
            }
            self.came.drain(..used);
        }
        data.len()
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> app::Wake {
        if let Some(id) = self.conn.filter(|_| self.is_secured && !self.closed) {
            net.send_bytes(id, &core::mem::take(&mut self.to_send));
            if core::mem::take(&mut self.ends) {
                net.finish(id);
            }
        }
        app::Wake::Idle
    }

    fn on_close<N: Net>(&mut self, _: &mut N, _: ConnId, _: app::Closed) {
        self.closed = true;
    }
}

pub fn address(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))
}

pub fn silo<A>(link: PairLink, host: u8, listen: Vec<u16>, app: A) -> Silo<PairLink, A> {
    let mut config = stack::Config::new(Mac([2, 0, 0, 0, 0, host]), 1500);
    config.addresses = vec![Address { ip: address(host), prefix_len: 24 }];
    config.listen = listen;
    let seeds = Seeds { table: [host.into(); 4], secret: [host.into(); 4], timestamps: [9; 2] };
    Silo { link, stack: Stack::new(config, LinkOffload::default(), &seeds, Clock.now()), app }
}

/// A server, and a client of it.
pub struct World<H> {
    pub server: Silo<PairLink, Server<H>>,
    pub client: Silo<PairLink, Client>,
    /// By so much it is later than the clock says.
    pub later: Duration,
}

impl<H: Handler> World<H> {
    pub fn new(server: Server<H>, protocol: &[u8]) -> Self {
        let (near, far) = Pair::new(PairConfig::default());
        let listeners = Listeners::everywhere(Speaks::https(tls(&[b"h2", NAME, b"http/1.1"])));
        let server = server.speaking(listeners).carrying(NAME, Many::begin);
        let client = Client { connector: Some(connector(protocol)), ..Client::default() };
        let (server, client) = (silo(near, 1, vec![PORT], server), silo(far, 2, Vec::new(), client));
        let mut world = Self { server, client, later: Duration::ZERO };
        world.client.stack.connect(None, SocketAddr::new(address(1), PORT)).expect("a connection");
        world.until("secured", |client| client.is_secured);
        assert_eq!(world.client.app.protocol.as_deref(), Some(protocol));
        world
    }

    pub fn turn(&mut self) {
        let now = Clock.now() + self.later;
        self.client.turn(now);
        self.server.turn(now);
    }

    /// Time passes.
    pub fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.later += Duration::from_secs(1);
            (0..20).for_each(|_| self.turn());
        }
    }

    /// The server is to end; whether nothing is left.
    pub fn drain(&mut self) -> bool {
        let Silo { app, stack, .. } = &mut self.server;
        app.drain(stack)
    }

    /// Turns until that is so.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Client) -> bool) {
        let began = Clock.now();
        while !is_so(&mut self.client.app) {
            self.turn();
            assert!(Clock.now().since(began) < PATIENCE, "{what}: {:?}", shown(&self.client.app));
        }
    }

    /// Turns until nothing more comes.
    pub fn settle(&mut self) {
        let (mut quiet, mut frames) = (0, 0);
        while quiet < 2_000 {
            self.turn();
            let now = self.client.app.frames.len();
            quiet = if now == frames { quiet + 1 } else { 0 };
            frames = now;
        }
    }
}

pub fn shown(client: &Client) -> Vec<(Kind, u32, usize)> {
    client.frames.iter().map(|(kind, stream, content)| (*kind, *stream, content.len())).rev().take(20).collect()
}

pub fn clock() -> WallClock {
    WallClock::new(Clock.now(), Duration::from_secs(1_800_000_000))
}

/// A folder that goes away.
pub struct Folder(std::path::PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("nearside-many-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a folder");
        std::fs::write(root.join("large"), large()).expect("a file");
        std::fs::write(root.join("small.txt"), "small").expect("a file");
        Self(root)
    }

    pub fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub fn server(&self) -> Server {
        let mut config = Config::directory(&self.0);
        if let server::Content::Directory(directory) = &mut config.content {
            directory.reader = ReaderKind::Inline;
        }
        Server::new(config, clock()).expect("a server")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn large() -> Vec<u8> {
    (0..LARGE as u32).map(|at| (at ^ at >> 13) as u8).collect()
}
