//! Upstreams that answer wrongly, in any pieces and at any moment, and clients that
//! leave: no exchange hangs, no answer goes to another, and nothing is left over.

use crate::{Engine, EngineParts, NewProgram};
use app::{Closed, ConnId, ConnectError};
use asking::AskRules;
use configuration::UpstreamGroupId;
use configuration::program::{
    Block, BlockId, ContentRules, ListenerRules, Program, ServerId, UpstreamGroup, VirtualServer,
};
use configuration::proxying::{FixedPass, ProxyPass, ProxyRules};
use configuration::variables::VariableTable;
use core::net::IpAddr;
use core::time::Duration;
use exchange::{
    About, ExchangeId, ExchangePlace, ExchangeSettings, Gone, Handler, HeadWriter, Names, Piece, Ready, Replies, Reply,
    ReplyEnd, ReplyFlow, RequestBody, Stop, Totals, UpstreamAddress, UpstreamEvent, UpstreamHandler, UpstreamId,
    Upstreams,
};
use features::Value;
use files::{Directory, FileLimits, ReaderKind};
use h1::server::{RequestEvent, RequestLimits, RequestReader};
use random::SplitMix64 as Random;
use rustix::event::{EventfdFlags, eventfd};
use semantics::Request;
use std::sync::Arc;
use upstream::{Balancing, Group, GroupServer, IdleRules, PeerAddress};
use wire::Time;

mod answers;
mod programs;
mod slices;
mod streams;

/// Clients at a time.
const CLIENTS: usize = 4;

/// What came of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Outcome {
    #[default]
    UnderWay,
    Whole,
    /// Its client can tell that something is missing.
    Cut,
    Left,
}

#[derive(Debug, Default)]
pub(crate) struct Client {
    mark: Option<u32>,
    pub status: u16,
    length: Option<u64>,
    chunked: bool,
    pub body: Vec<u8>,
    finished: bool,
    pub outcome: Outcome,
    /// Bytes that it has not taken.
    unsent: usize,
    /// What belongs to it.
    pub tag: u32,
}

#[derive(Debug)]
struct Link {
    id: UpstreamId,
    mark: u32,
    opened: bool,
    timer: Option<Time>,
    /// Requests that came over it.
    got: Vec<u8>,
    /// What its server will send, and whether it then closes.
    script: Vec<u8>,
    closes: bool,
    /// What was offered and not taken.
    held: Vec<u8>,
    /// What goes to a client by itself: so many bytes more.
    passes: Option<(ExchangeId, u64)>,
    resumed: bool,
    ended: bool,
    /// Who speaks HTTP/2 there.
    origin: Option<Box<streams::Origin>>,
}

struct World {
    now: Time,
    clients: Vec<Client>,
    /// What is said to the client of an exchange that is over.
    nobody: Client,
    links: Vec<Link>,
    dialled: u32,
    refuses: bool,
    /// Bodies that went to their clients by themselves, from somewhere on.
    passed: usize,
    /// Servers speak HTTP/2.
    by_http2: bool,
    /// What requests say beside what belongs to them.
    asks_for: fn(u32) -> String,
}

impl World {
    fn new() -> Self {
        Self {
            now: Time::from_millis(1_000),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            nobody: Client::default(),
            links: Vec::new(),
            dialled: 0,
            refuses: false,
            passed: 0,
            by_http2: false,
            asks_for: |_| String::new(),
        }
    }

    /// The client of an exchange that is not over.
    fn client(&mut self, id: ExchangeId) -> &mut Client {
        match self.place(id) {
            Some(place) => &mut self.clients[place],
            None => {
                self.nobody = Client::default();
                &mut self.nobody
            }
        }
    }

    fn place(&self, id: ExchangeId) -> Option<usize> {
        let ExchangePlace::Connection(place) = id.place() else { return None };
        self.clients.get(place).filter(|client| id_of(place, client.tag) == id).map(|_| place)
    }

    fn link(&mut self, id: UpstreamId) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.id == id)
    }
}

impl Upstreams for World {
    fn dial(&mut self, _: UpstreamAddress<'_>, _: Option<IpAddr>, mark: u32) -> Result<UpstreamId, ConnectError> {
        if self.refuses {
            return Err(ConnectError::Full);
        }
        self.dialled += 1;
        let id = UpstreamId::of(ConnId::new(1000 + self.dialled % 8, self.dialled));
        let link = Link {
            id,
            mark,
            opened: false,
            timer: None,
            got: Vec::new(),
            script: Vec::new(),
            closes: false,
            held: Vec::new(),
            passes: None,
            resumed: false,
            ended: false,
            origin: None,
        };
        self.links.push(link);
        Ok(id)
    }
    fn set_upstream_mark(&mut self, id: UpstreamId, mark: u32) {
        if let Some(link) = self.link(id) {
            link.mark = mark;
        }
    }
    fn send_upstream(&mut self, id: UpstreamId, piece: Piece<'_>) -> bool {
        if let (Some(link), Piece::Bytes(bytes)) = (self.link(id), piece) {
            assert!(link.opened, "sent before it was opened");
            link.got.extend_from_slice(bytes);
            return true;
        }
        false
    }
    fn pass_on(&mut self, id: UpstreamId, to: ExchangeId, bytes: u64) -> bool {
        // Not all can have it.
        let Some(link) = self.link(id).filter(|_| !bytes.is_multiple_of(3)) else { return false };
        assert!(link.passes.is_none() && bytes > 0, "once at a time");
        link.passes = Some((to, bytes));
        self.passed += 1;
        true
    }
    fn receive_upstream(&mut self, id: UpstreamId, most: usize) {
        if let Some(link) = self.link(id) {
            link.resumed |= most == usize::MAX;
        }
    }
    fn set_upstream_timer(&mut self, id: UpstreamId, at: Option<Time>) {
        if let Some(link) = self.link(id) {
            link.timer = at;
        }
    }
    fn let_go(&mut self, id: UpstreamId, _: Duration) {
        self.links.retain(|link| link.id != id);
    }
}

impl Replies for World {
    fn now(&self) -> Time {
        self.now
    }
    fn reply(&mut self, id: ExchangeId, _: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) -> u64 {
        let client = self.client(id);
        assert_eq!((client.outcome, client.status), (Outcome::UnderWay, 0), "answered twice");
        client.status = reply.status.code();
        for piece in body {
            match piece {
                Piece::Bytes(bytes) => client.body.extend_from_slice(bytes),
                Piece::Body(body, (start, end)) => {
                    client.body.extend_from_slice(&body.as_slice()[*start as usize..*end as usize]);
                }
                Piece::File(..) => panic!("a whole answer has no files"),
            }
        }
        assert_eq!(reply.length.unwrap_or(0), client.body.len() as u64, "a length is that of the body");
        client.outcome = Outcome::Whole;
        1
    }
    fn reply_ready(&mut self, _: ExchangeId, _: &Request<'_>, _: &Ready) {
        panic!("nothing is ready");
    }
    fn begin(&mut self, id: ExchangeId, _: &Request<'_>, reply: &Reply<'_>, end: ReplyEnd) -> u64 {
        assert!(!reply.status.is_interim(), "nothing goes before an answer");
        let client = self.client(id);
        assert_eq!((client.outcome, client.status), (Outcome::UnderWay, 0), "answered twice");
        (client.status, client.chunked) = (reply.status.code(), end == ReplyEnd::Chunk);
        client.length = reply.length.filter(|_| end == ReplyEnd::Length);
        1
    }
    fn body(&mut self, id: ExchangeId, piece: Piece<'_>) -> bool {
        let bytes = match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::Body(body, (start, end)) => &body.as_slice()[start as usize..end as usize],
            Piece::File(..) => return false,
        };
        let client = self.client(id);
        assert!(!client.finished, "sent after the end");
        client.unsent += bytes.len();
        client.body.extend_from_slice(bytes);
        true
    }
    fn take_back(&mut self, _: ExchangeId, _: usize) -> usize {
        0
    }
    fn finish(&mut self, id: ExchangeId, _: &[u8]) {
        self.client(id).finished = true;
    }
    fn pace(&mut self, _: ExchangeId, _: u64) -> bool {
        false
    }
    fn end(&mut self, id: ExchangeId) {
        let client = self.client(id);
        assert!(client.finished && client.outcome == Outcome::UnderWay);
        if let Some(length) = client.length {
            assert_eq!(length, client.body.len() as u64, "what is whole is as long as was told");
        }
        client.outcome = Outcome::Whole;
    }
    fn stop(&mut self, id: ExchangeId, _: Stop) {
        self.client(id).outcome = Outcome::Cut;
    }
    fn read(&mut self, _: ExchangeId, _: Option<u64>) {}
    fn about(&self, _: ExchangeId) -> About {
        About { goes_on: true, ..About::default() }
    }
    fn totals(&self) -> Totals {
        Totals::default()
    }
    fn flow(&self, id: ExchangeId) -> ReplyFlow {
        let unsent = self.place(id).map_or(0, |place| self.clients[place].unsent);
        ReplyFlow { unsent, room: ReplyFlow::UNBOUNDED, ..ReplyFlow::default() }
    }
    fn set(&mut self, id: ExchangeId, settings: &ExchangeSettings) {
        self.client(id).mark = settings.mark;
    }
    fn mark(&self, id: ExchangeId) -> Option<u32> {
        let client = &self.clients[self.place(id)?];
        client.mark.filter(|_| client.outcome == Outcome::UnderWay)
    }
}

/// An engine that passes everything on to two servers from a place that is changed by
/// `change`, and keeps connections to them.
pub(crate) fn engine(keeps: bool, change: impl FnOnce(&mut Block)) -> Engine {
    let server = |port: u16| {
        let mut server = GroupServer::new(b"s", vec![PeerAddress::Inet(([127, 0, 0, 1], port).into())]);
        server.max_fails = 0;
        server
    };
    let group = Group::new(b"group", Balancing::RoundRobin, &[server(1), server(2)]).expect("two servers");
    let idle = keeps.then(|| IdleRules::new(3));
    let upstreams = vec![UpstreamGroup { group: Arc::new(group), key: None, idle, port: None, names: None }];
    let pass = FixedPass {
        secured: false,
        group: UpstreamGroupId(0),
        url: b"http://group"[..].into(),
        uri: Box::default(),
        host: b"group"[..].into(),
        port: None,
        location: Some(1),
    };
    let mut rules = ProxyRules {
        version: configuration::proxying::UpstreamVersion::Http11,
        ask: AskRules { ahead: 5_000, ..AskRules::default() },
        ..ProxyRules::default()
    };
    rules.set_fields.push((b"Connection"[..].into(), Value::literal(b"")));
    rules.prepare();
    let mut block = Block {
        content: ContentRules::Proxy(Arc::new(ProxyPass::Fixed(pass))),
        proxy: Arc::new(rules),
        ..Block::default()
    };
    change(&mut block);
    let server = VirtualServer {
        name: Box::default(),
        block: BlockId(0),
        security: None,
        certificates: None,
        verifies: None,
        locations: configuration::Locations::default(),
        merge_slashes: true,
        ignore_invalid_headers: true,
        underscores_in_headers: false,
        head: configuration::program::HeadRules::default(),
    };
    let listener = ListenerRules {
        address: None,
        path: None,
        names: Names::default(),
        servers: vec![ServerId(0)],
        proxy_protocol: false,
        http2: None,
        tls: false,
    };
    let mut variables = VariableTable::default();
    // The only one that values of a block may have.
    assert_eq!(variables.number(b"slice_range"), Some(0));
    let program = Program {
        variables,
        listeners: vec![listener],
        servers: vec![server],
        blocks: vec![block],
        upstreams,
        ..Program::default()
    };
    let directory = Directory { reader: ReaderKind::Inline, ..Directory::new("/") };
    let program = NewProgram::prepare(Arc::new(program), &[]).expect("nothing to open");
    let parts = EngineParts::new(program, &directory, &[]).expect("a root");
    let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an event"));
    let limits = FileLimits { streams: 1, stream_bytes: 1 << 20, stream_window: 1 << 20, waiting: 1 };
    Engine::new(parts, limits, &HeadWriter::nothing(), &event)
}

fn id_of(client: usize, generation: u32) -> ExchangeId {
    ExchangeId::of_connection(ConnId::new(client as u32, 1), generation)
}

fn ask(engine: &mut Engine, world: &mut World, client: usize, tag: u32) {
    world.clients[client] = Client { tag, ..Client::default() };
    let more = (world.asks_for)(tag);
    let head = format!("GET /{tag} HTTP/1.1\r\nHost: a\r\nX-Tag: {tag}\r\n{more}\r\n").into_bytes();
    let limits = RequestLimits::default();
    let RequestEvent::Request { request, .. } = RequestReader::new().on_bytes(&head, &limits) else {
        panic!("a request")
    };
    engine.on_request(world, id_of(client, tag), &request, RequestBody::None);
}

/// Tells the engine of a link's event, if it is still there.
fn tell(engine: &mut Engine, world: &mut World, id: UpstreamId, event: UpstreamEvent<'_>) -> usize {
    match world.link(id).map(|link| link.mark) {
        Some(mark) => engine.on_upstream(world, id, mark, event),
        None => 0,
    }
}

/// Offers what a link holds, and `more`.
fn offer(engine: &mut Engine, world: &mut World, id: UpstreamId, more: &[u8]) {
    let Some(link) = world.link(id) else { return };
    link.held.extend_from_slice(more);
    loop {
        let Some(link) = world.link(id) else { return };
        link.resumed = false;
        let held = link.held.clone();
        if held.is_empty() {
            return;
        }
        if let Some((to, left)) = link.passes {
            let some = usize::try_from(left).unwrap().min(held.len());
            link.held.drain(..some);
            link.passes = (left > some as u64).then_some((to, left - some as u64));
            let client = world.client(to);
            assert!(client.outcome == Outcome::UnderWay && !client.finished, "nobody gets another's");
            client.body.extend_from_slice(&held[..some]);
            tell(engine, world, id, UpstreamEvent::Passed(some as u64));
            continue;
        }
        let taken = tell(engine, world, id, UpstreamEvent::Data(&held));
        let Some(link) = world.link(id) else { return };
        link.held.drain(..taken);
        if !link.resumed {
            return;
        }
    }
}

/// One step.
fn step(engine: &mut Engine, world: &mut World, random: &mut Random) {
    world.now = world.now + Duration::from_millis(1 + random.below(30) as u64);
    match random.below(10) {
        // A client takes some of what is queued, or all.
        0 | 1 => {
            let client = random.below(CLIENTS);
            let most = world.clients[client].unsent;
            world.clients[client].unsent -= random.below(most + 1);
            let id = id_of(client, world.clients[client].tag);
            if world.clients[client].outcome == Outcome::UnderWay {
                engine.on_room(world, id);
            }
        }
        2 if random.below(6) == 0 => {
            let client = random.below(CLIENTS);
            if world.clients[client].outcome == Outcome::UnderWay {
                world.clients[client].outcome = Outcome::Left;
                let (id, mark) = (id_of(client, world.clients[client].tag), world.clients[client].mark);
                engine.on_gone(id, mark, Gone::Cut);
            }
        }
        _ if world.links.is_empty() => {}
        _ => {
            let at = random.below(world.links.len());
            step_of_link(engine, world, random, at);
        }
    }
    engine.on_turn(world);
    // What was resumed is offered again in the same turn.
    let resumed: Vec<UpstreamId> = world.links.iter().filter(|link| link.resumed).map(|link| link.id).collect();
    for id in resumed {
        offer(engine, world, id, b"");
    }
}

fn step_of_link(engine: &mut Engine, world: &mut World, random: &mut Random, at: usize) {
    let is_http2 = world.by_http2;
    let link = &mut world.links[at];
    let id = link.id;
    if !link.opened {
        if random.below(8) == 0 {
            let why = [Closed::Refused, Closed::TimedOut, Closed::Reset][random.below(3)];
            tell(engine, world, id, UpstreamEvent::Closed(why));
            world.links.retain(|link| link.id != id);
        } else {
            link.opened = true;
            if is_http2 {
                link.origin = Some(Box::new(streams::Origin::begin(random, &mut link.script)));
            }
            tell(engine, world, id, UpstreamEvent::Opened);
        }
        return;
    }
    if is_http2 {
        streams::step(engine, world, random, id);
    } else if link.script.is_empty() && !link.got.is_empty() {
        let text = String::from_utf8_lossy(&std::mem::take(&mut link.got)).into_owned();
        let count = text.matches("X-Tag: ").count() + text.matches("HTTP_X_TAG").count();
        assert_eq!(count, 1, "one request at a time: {text}");
        let script = slices::answer(random, &text);
        (link.script, link.closes) = match text.split_once("X-Tag: ").and_then(|(_, rest)| rest.split("\r\n").next()) {
            Some(_) if script.is_some() => script.unwrap_or_default(),
            Some(tag) => answers::answer(random, tag.parse().expect("a number")),
            None => programs::answer(random, &text),
        };
        return;
    }
    if random.below(40) == 0 {
        tell(engine, world, id, UpstreamEvent::Closed(Closed::Reset));
        world.links.retain(|link| link.id != id);
        return;
    }
    let Some(link) = world.link(id) else { return };
    if !link.script.is_empty() {
        let length = 1 + random.below(link.script.len().min(3_000));
        let piece: Vec<u8> = link.script.drain(..length).collect();
        offer(engine, world, id, &piece);
    } else if link.closes && !link.ended {
        link.ended = true;
        let held = link.held.len();
        tell(engine, world, id, UpstreamEvent::End { held });
    }
    let now = world.now;
    if let Some(link) = world.link(id)
        && link.timer.is_some_and(|at| at <= now)
    {
        link.timer = None;
        tell(engine, world, id, UpstreamEvent::Timer);
    }
}

/// Asks for so many answers, of which many are faulty, and shows what comes of each.
pub(crate) fn ask_for(engine: &mut Engine, (seed, requests): (u64, u32), show: impl FnMut(&Client)) -> usize {
    ask_with(engine, (seed, requests), |_| String::new(), show)
}

/// By requests that say more.
pub(crate) fn ask_with(
    engine: &mut Engine,
    (seed, requests): (u64, u32),
    asks_for: fn(u32) -> String,
    show: impl FnMut(&Client),
) -> usize {
    ask_in(engine, (seed, requests), |world| world.asks_for = asks_for, show)
}

/// The same, in a world that is changed first.
fn ask_in(
    engine: &mut Engine,
    (seed, requests): (u64, u32),
    change: impl FnOnce(&mut World),
    mut show: impl FnMut(&Client),
) -> usize {
    let mut random = Random::new(seed);
    let mut world = World::new();
    change(&mut world);
    let mut tag = 0;
    while tag < requests {
        for client in 0..CLIENTS {
            tag += 1;
            ask(engine, &mut world, client, tag);
        }
        world.refuses = random.below(30) == 0;
        let mut steps = 0;
        let is_over = |engine: &Engine, world: &World| {
            let waits = world.clients.iter().any(|client| client.outcome == Outcome::UnderWay);
            // Copies of requests outlive these.
            !waits && engine.rest.requests.waiting() == 0 && engine.rest.subs.is_idle()
        };
        while !is_over(engine, &world) {
            step(engine, &mut world, &mut random);
            steps += 1;
            if steps % 400 == 0 {
                // Nobody waits for longer than the time limits say.
                world.now = world.now + Duration::from_secs(61);
                for id in world.links.iter().map(|link| link.id).collect::<Vec<_>>() {
                    let now = world.now;
                    if world.link(id).is_some_and(|link| link.timer.is_some_and(|at| at <= now)) {
                        tell(engine, &mut world, id, UpstreamEvent::Timer);
                    }
                }
                world.clients.iter_mut().for_each(|client| client.unsent = 0);
            }
            assert!(steps < 80_000, "it hangs: {:?} {:?}", world.clients, world.links);
        }
        engine.on_turn(&mut world);
        world.clients.iter().for_each(&mut show);
        let idle = world.links.iter().filter(|link| link.mark & asking::IDLE != 0).count();
        assert!(world.links.len() == idle && idle <= 3, "idle connections are left, as many as may be kept");
        assert!(engine.rest.requests.waiting() == 0, "no request is left");
    }
    world.passed
}

#[test]
fn a_thousand_faulty_answers_harm_nobody() {
    let passed = faulty_answers_harm_nobody(engine(true, |_| {}));
    assert!(passed > 20, "{passed}");
}

/// How many bodies went to their clients by themselves.
fn faulty_answers_harm_nobody(mut engine: Engine) -> usize {
    let (mut whole, mut cut, mut errors) = (0, 0, 0);
    let passed = ask_for(&mut engine, (0x0b5e_55ed, 1_000), |client| {
        let own = format!("<{}>", client.tag);
        let text = String::from_utf8_lossy(&client.body);
        if client.status == 200 {
            assert!(own.repeat(text.len() / own.len() + 1).starts_with(&*text), "{own}: {text}");
            whole += usize::from(client.outcome == Outcome::Whole);
            cut += usize::from(client.outcome == Outcome::Cut);
            if client.outcome == Outcome::Whole {
                assert_eq!(text.len() % own.len(), 0, "what is whole ends with a whole part");
            }
        } else {
            errors += usize::from(matches!(client.status, 502 | 504));
        }
    });
    assert!(whole > 200 && cut > 20 && errors > 50, "{whole} {cut} {errors}");
    // And none counts as asked any more.
    let loaded = std::rc::Rc::clone(&engine.loaded);
    let groups = loaded.groups.list.borrow();
    let balancer = &groups[0].balancer;
    let mut attempts = balancer.begin(upstream::BalancingKey::None);
    let mut again = upstream::Balancer::new(Arc::clone(balancer.group()));
    let peer = again.choose(&mut attempts, 1, &mut || 0).expect("a server");
    assert_eq!(balancer.connections(peer), 0);
    let _ = again.release(&mut attempts, 1, false);
    passed
}
