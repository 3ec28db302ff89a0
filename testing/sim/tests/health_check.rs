//! Something in a silo asks without a client: one silo of a process asks a server whether it is
//! well, by its kernel half, since no link reaches that, and all silos answer by what it says.

use app::{App, ConnId, Net, Opened, Wake};
use asking::{
    AskLink, AskRules, AskSpec, AskTurn, Finding, GroupSpec, Inquiry, InquiryFault, KeptLinks, Protocol, ServerGroups,
    Servers,
};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use cpu::Clock;
use link::{Pair, PairConfig, PairLink};
use semantics::{Method, Request, Status};
use server::exchange::{
    ExchangeId, Handler, Page, Prepared, Replies, RequestBody, UpstreamEvent, UpstreamHandler, UpstreamId,
};
use server::{Config, Respond, Server, WallClock};
use silo::Silo;
use sockets::{Composite, ConnectRoutes, HalfConfig, KernelHalf, StreamOptions};
use stack::{Address, LinkOffload, Seeds, Stack};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use upstream::{Balancing, BalancingKey, Group, GroupServer, IdleRules, PeerAddress};
use wire::{Mac, Time};

const PORT: u16 = 80;

/// How often the server is asked.
const EACH: Duration = Duration::from_millis(5);

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The mark of what is asked.
const MARK: u32 = 1;

/// What all silos know of the server.
#[derive(Debug, Default)]
struct Health {
    is_well: AtomicBool,
    /// How often it was asked.
    asked: AtomicU32,
}

/// Answers by what is known of the server, and finds that out, if it is the one that does.
struct Checked {
    health: Arc<Health>,
    checks: Option<Checks>,
}

/// What it takes to ask.
struct Checks {
    groups: ServerGroups,
    kept: KeptLinks,
    under_way: Option<Inquiry>,
    next: Time,
}

impl Checks {
    fn new(at: SocketAddr) -> Self {
        let server = GroupServer::new(at.to_string().as_bytes(), vec![PeerAddress::Inet(at)]);
        let group = Arc::new(Group::new(b"checked", Balancing::RoundRobin, &[server]).expect("a group"));
        let groups = ServerGroups::new([GroupSpec { group, idle: Some(IdleRules::new(1)), is_named: false }]);
        Self { groups, kept: KeptLinks::default(), under_way: None, next: Time::ZERO }
    }

    fn question() -> AskSpec<'static> {
        AskSpec {
            mark: MARK,
            rules: AskRules { tries: 1, ..AskRules::default() },
            servers: Servers::Group(0),
            key: BalancingKey::None,
            protocol: Protocol::Http,
            seeks: None,
            from: None,
            asked: Method::Get,
            unrepeatable: false,
            head_only: false,
            head: b"GET /health HTTP/1.1\r\nHost: checked\r\n\r\n".to_vec(),
            target: (4, 11),
            body: None,
            stream: None,
            memory: Default::default(),
            tries: Vec::new(),
        }
    }
}

impl Checked {
    fn say(&self, found: &Result<Finding, InquiryFault>) {
        let is_well = found.as_ref().is_ok_and(|found| found.status == 200);
        self.health.is_well.store(is_well, Ordering::Relaxed);
        self.health.asked.fetch_add(1, Ordering::Relaxed);
    }
}

impl Handler for Checked {
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _: RequestBody) {
        let is_well = self.health.is_well.load(Ordering::Relaxed);
        let page = Page::new(if is_well { Status::OK } else { Status::SERVICE_UNAVAILABLE }, b"");
        replies.reply(id, request, &page.reply(), &page.body());
    }

    fn on_turn<R: Replies>(&mut self, replies: &mut R) -> Wake {
        let now = replies.now();
        let Some(checks) = &mut self.checks else { return Wake::Idle };
        let Checks { groups, kept, under_way, next } = checks;
        let mut turn = AskTurn { io: replies, kept, groups, now };
        let mut over = under_way.as_mut().and_then(|inquiry| inquiry.look(&mut turn));
        if over.is_some() {
            *under_way = None;
        }
        if under_way.is_none() && now >= *next {
            *next = now + EACH;
            let (inquiry, fault) = Inquiry::begin(&mut turn, Checks::question(), (1_024, now + PATIENCE));
            *under_way = Some(inquiry).filter(|_| fault.is_none());
            over = fault.or(over);
        }
        let wake = under_way.as_ref().map_or(*next, Inquiry::until);
        if let Some(why) = over {
            self.say(&Err(why));
        }
        Wake::At(wake)
    }
}

impl UpstreamHandler for Checked {
    fn on_upstream<R: Replies>(
        &mut self,
        replies: &mut R,
        id: UpstreamId,
        mark: u32,
        event: UpstreamEvent<'_>,
    ) -> usize {
        let now = replies.now();
        let Some(Checks { groups, kept, under_way, .. }) = &mut self.checks else { return 0 };
        if mark != MARK {
            return kept.on_event(groups, (replies, id, mark), (event, now));
        }
        let Some(inquiry) = under_way.as_mut().filter(|inquiry| inquiry.ask().link() == Some(AskLink::Own(id))) else {
            return 0;
        };
        let (taken, over) = inquiry.on_event(&mut AskTurn { io: replies, kept, groups, now }, event);
        if let Some(found) = over {
            *under_way = None;
            self.say(&found);
        }
        taken
    }
}

impl Prepared for Checked {}

/// Asks its silo, one request for each connection.
#[derive(Debug, Default)]
struct Client {
    received: Vec<u8>,
}

impl App for Client {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _: Opened) {
        self.received.clear();
        net.send_bytes(id, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }

    fn on_data<N: Net>(&mut self, _: &mut N, _: ConnId, data: &[u8]) -> usize {
        self.received.extend_from_slice(data);
        data.len()
    }
}

/// A server that is well or not; it is closed by the end of its listener.
struct Upstream {
    is_well: Arc<AtomicBool>,
    accepted: Arc<AtomicU32>,
    at: SocketAddr,
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Upstream {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let at = listener.local_addr().expect("its address");
        let (is_well, accepted, over) = <(Arc<AtomicBool>, Arc<AtomicU32>, Arc<AtomicBool>)>::default();
        let shared = (Arc::clone(&is_well), Arc::clone(&accepted), Arc::clone(&over));
        let thread = thread::spawn(move || {
            let (is_well, accepted, over) = shared;
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                accepted.fetch_add(1, Ordering::Relaxed);
                let mut buffer = [0; 1_024];
                while let Ok(1..) = stream.read(&mut buffer) {
                    if over.load(Ordering::Relaxed) {
                        let _ = stream.shutdown(Shutdown::Both);
                        return;
                    }
                    let status = if is_well.load(Ordering::Relaxed) { "200 OK" } else { "500 Not well" };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nsaid");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        });
        Self { is_well, accepted, at, over, thread }
    }
}

fn address(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))
}

fn silo<A>(link: PairLink, host: u8, listen: Vec<u16>, app: A) -> Silo<PairLink, A> {
    let mut config = stack::Config::new(Mac([2, 0, 0, 0, 0, host]), 1500);
    config.addresses = vec![Address { ip: address(host), prefix_len: 24 }];
    config.listen = listen;
    let seeds = Seeds { table: [host.into(); 4], secret: [host.into(); 4], timestamps: [9; 2] };
    Silo { link, stack: Stack::new(config, LinkOffload::default(), &seeds, Clock.now()), app }
}

/// A silo of the process, and a client on its link.
struct Served {
    server: Silo<PairLink, Composite<Server<Checked>>>,
    client: Silo<PairLink, Client>,
}

impl Served {
    fn new(health: &Arc<Health>, checks: Option<Checks>) -> Self {
        let (near, far) = Pair::new(PairConfig::default());
        let handler = Checked { health: Arc::clone(health), checks };
        let clock = WallClock::new(Clock.now(), Duration::from_secs(1_800_000_000));
        let server = Server::with_handler(Config::respond(Respond::Text(String::new())), handler, clock);
        let half = HalfConfig { connections: 16, per_source: None, stream: StreamOptions::default() };
        let half = KernelHalf::new(half, Vec::new()).expect("a kernel half");
        let app = Composite::new(server.expect("a server"), half, ConnectRoutes::default());
        Self { server: silo(near, 1, vec![PORT], app), client: silo(far, 2, Vec::new(), Client::default()) }
    }

    fn turn(&mut self) {
        let now = Clock.now();
        self.client.turn(now);
        self.server.turn(now);
    }

    /// The status that a client gets now.
    fn status(&mut self) -> String {
        self.client.app.received.clear();
        self.client.stack.connect(None, SocketAddr::new(address(1), PORT)).expect("a connection");
        let began = Clock.now();
        loop {
            self.turn();
            assert!(Clock.now().since(began) < Duration::from_secs(60), "no answer");
            let text = String::from_utf8_lossy(&self.client.app.received);
            if let Some((line, _)) = text.split_once("\r\n") {
                return line["HTTP/1.1 ".len()..][..3].to_owned();
            }
        }
    }
}

#[test]
fn one_silo_asks_whether_a_server_is_well_and_all_answer_by_it() {
    let upstream = Upstream::start();
    let health = Arc::new(Health::default());
    let mut silos = [Served::new(&health, Some(Checks::new(upstream.at))), Served::new(&health, None)];
    assert_eq!(silos[1].status(), "503", "nothing is known yet");
    let mut until = |what: &str, status: &str| {
        let began = Clock.now();
        let asked = health.asked.load(Ordering::Relaxed);
        // Asked anew, and answered.
        while health.asked.load(Ordering::Relaxed) < asked + 2 {
            silos.iter_mut().for_each(Served::turn);
            assert!(Clock.now().since(began) < Duration::from_secs(60), "{what}: nobody is asked");
        }
        for silo in &mut silos {
            assert_eq!(silo.status(), status, "{what}");
        }
    };
    until("not well", "503");
    upstream.is_well.store(true, Ordering::Relaxed);
    until("well", "200");
    upstream.is_well.store(false, Ordering::Relaxed);
    until("not well again", "503");
    upstream.is_well.store(true, Ordering::Relaxed);
    until("well again", "200");
    assert_eq!(upstream.accepted.load(Ordering::Relaxed), 1, "one silo asks, over one connection");
    upstream.over.store(true, Ordering::Relaxed);
    until("gone", "503");
    upstream.thread.join().expect("its end");
    let connects = silos.each_ref().map(|one| one.server.app.half().counters().connects);
    assert!(connects[0] > 0 && connects[1] == 0, "{connects:?}");
}
