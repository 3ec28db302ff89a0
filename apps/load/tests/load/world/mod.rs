//! A data path and a server in one, in simulated time: what the generator's
//! tests run against. Every answer comes from the test's script.

mod reply;
pub mod secured;

pub use reply::{Dial, Reply, Then, response};

use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened, Wake};
use core::cell::{Cell, RefCell};
use core::cmp::Reverse;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use handshake::ServerTls;
use load::{Busy, Figures, Load, Plan, Report, Request};
use secured::{Far, Sealed};
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use wire::Time;

thread_local! {
    static CURRENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static CONNECTION: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// The request that a script answers, when it is asked.
pub fn current_request() -> Vec<u8> {
    CURRENT.with_borrow(Clone::clone)
}

/// The connection that it came on.
pub fn current_connection() -> (usize, u32) {
    CONNECTION.get()
}

/// The length of a turn.
pub const TURN: Duration = Duration::from_micros(1);

enum Happening {
    Open,
    Data(Vec<u8>),
    /// Of a handshake.
    Flight(Vec<u8>),
    End,
    Close(Closed),
}

struct Event {
    at: Time,
    order: u64,
    id: ConnId,
    what: Happening,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    taken: bool,
    open: bool,
    timer: Option<Time>,
    held: Vec<u8>,
    asked: u64,
    we_finished: bool,
    peer_finished: bool,
    aborted: bool,
    /// Where it is secured.
    near: Option<Sealed>,
    far: Far,
    plain: Vec<u8>,
    /// When its last flight arrives.
    flight: Time,
}

enum Action {
    Connect(ConnId),
    Sent(ConnId, Vec<u8>),
    Finish(ConnId),
    Abort(ConnId),
}

/// The data path as the application sees it.
pub struct Path {
    now: Time,
    slots: Vec<Slot>,
    free: Vec<u32>,
    actions: Vec<Action>,
    /// Those that are offered again what they left.
    resumed: Vec<ConnId>,
    /// More than this many connections are refused with `Full`.
    pub limit: usize,
    /// What the next connects fail with, if anything.
    pub refuse: Option<ConnectError>,
    /// A source address without free ports.
    pub portless: Option<IpAddr>,
    /// The arguments of all connects.
    pub connects: Vec<(Option<IpAddr>, SocketAddr)>,
    /// The bytes of the last request.
    pub request: Vec<u8>,
    /// How often each request was sent.
    pub requests: BTreeMap<Vec<u8>, u64>,
    /// Order of what we and the peer did, for tests of closing.
    pub log: Vec<(Time, &'static str)>,
}

impl Path {
    fn slot(&mut self, id: ConnId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index()).filter(|slot| slot.taken && slot.generation == id.generation())
    }

    /// Requests under way on each connection that has any.
    pub fn under_way(&self) -> Vec<u64> {
        self.slots.iter().filter(|slot| slot.taken && slot.asked > 0).map(|slot| slot.asked).collect()
    }

    /// The slots of connections with requests under way.
    pub fn busy_slots(&self) -> Vec<usize> {
        let busy = |(n, slot): (usize, &Slot)| (slot.taken && slot.asked > 0).then_some(n);
        self.slots.iter().enumerate().filter_map(busy).collect()
    }

    pub fn handshakes(&self) -> usize {
        self.slots.iter().filter(|slot| slot.taken && !slot.open).count()
    }

    pub fn taken(&self) -> usize {
        self.slots.iter().filter(|slot| slot.taken).count()
    }
}

impl Net for Path {
    fn now(&self) -> Time {
        self.now
    }

    fn connect(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<ConnId, ConnectError> {
        if let Some(error) = self.refuse {
            return Err(error);
        }
        if from.is_some() && from == self.portless {
            return Err(ConnectError::NoPort);
        }
        if self.free.is_empty() && self.slots.len() >= self.limit {
            return Err(ConnectError::Full);
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        *slot = Slot { generation: slot.generation + 1, taken: true, ..Slot::default() };
        let id = ConnId::new(index, slot.generation);
        self.connects.push((from, to));
        self.actions.push(Action::Connect(id));
        Ok(id)
    }

    fn send_body(&mut self, id: ConnId, body: &Body, range: core::ops::Range<u32>) {
        self.send_bytes(id, &body.as_slice()[range.start as usize..range.end as usize]);
    }

    fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        // The generator sends each request in one piece.
        self.request = bytes.to_vec();
        match self.requests.get_mut(&self.request) {
            Some(times) => *times += 1,
            None => drop(self.requests.insert(self.request.clone(), 1)),
        }
        let sent = self.request.clone();
        if let Some(slot) = self.slot(id).filter(|slot| slot.open && !slot.we_finished && !slot.aborted) {
            let sent = slot.near.as_mut().map_or_else(|| sent.clone(), |near| near.seal(&sent));
            self.actions.push(Action::Sent(id, sent));
        } else {
            panic!("sending on a connection that is not open: {id:?}");
        }
    }

    fn unsent(&self, _: ConnId) -> usize {
        0
    }

    fn finish(&mut self, id: ConnId) {
        if self.slot(id).is_some_and(|slot| slot.open && !slot.we_finished) {
            self.log.push((self.now, "finish"));
            self.actions.push(Action::Finish(id));
        }
    }

    fn abort(&mut self, id: ConnId) {
        if let Some(slot) = self.slot(id)
            && !slot.aborted
        {
            slot.aborted = true;
            self.log.push((self.now, "abort"));
            self.actions.push(Action::Abort(id));
        }
    }

    fn secure(&mut self, id: ConnId, layer: Box<dyn seal::Layer>) -> bool {
        let slot = self.slot(id).filter(|slot| slot.near.is_none() && !slot.we_finished);
        slot.map(|slot| slot.near = Some(Sealed::new(layer))).is_some()
    }

    fn resume(&mut self, id: ConnId) {
        self.resumed.push(id);
    }

    fn set_timer(&mut self, id: ConnId, at: Option<Time>) {
        if let Some(slot) = self.slot(id) {
            slot.timer = at;
        }
    }

    fn was_cut(&self, id: ConnId) -> bool {
        // The server says goodbye to nobody.
        let slot = self.slots.get(id.index()).filter(|slot| slot.taken && slot.generation == id.generation());
        slot.is_some_and(|slot| slot.near.is_some() && slot.peer_finished)
    }

    fn peer(&self, _: ConnId) -> Option<SocketAddr> {
        None
    }

    fn local(&self, _: ConnId) -> Option<SocketAddr> {
        None
    }
}

type DialScript<'a> = Box<dyn FnMut(u64) -> Dial + 'a>;
type ShakeScript<'a> = Box<dyn FnMut(u64) -> (Arc<ServerTls>, Duration) + 'a>;
type ReplyScript<'a> = Box<dyn FnMut(u64, Time) -> Reply + 'a>;

/// A generator, a data path and a server.
pub struct World<'a, A = Load> {
    pub load: A,
    pub path: Path,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    dials: u64,
    flights: u64,
    /// Requests that the server saw.
    pub asked: u64,
    dial: DialScript<'a>,
    reply: ReplyScript<'a>,
    started: Time,
    /// Who shakes hands, and how long that takes.
    shakes: Option<ShakeScript<'a>>,
}

impl<'a> World<'a> {
    /// A world where `reply` answers request number n, at a time.
    pub fn new(plan: &Plan, reply: impl FnMut(u64, Time) -> Reply + 'a) -> Self {
        Self::of(Load::new(plan.clone()).expect("the test's plan is sound"), reply)
    }

    /// Runs until the figures are there, and answers them.
    pub fn run(&mut self) -> Figures {
        while self.load.figures().is_none() {
            self.turn();
            assert!(self.elapsed() < Duration::from_secs(3_600), "the run does not end");
        }
        self.load.figures().expect("just seen").clone()
    }

    /// Runs for a time, or until the figures are there.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.path.now + span;
        while self.path.now < until && self.load.figures().is_none() {
            self.turn();
        }
    }
}

impl<'a, A: App> World<'a, A> {
    /// The same with another generator.
    pub fn of(load: A, reply: impl FnMut(u64, Time) -> Reply + 'a) -> Self {
        // Not zero: clocks do not start with the run.
        let started = Time::from_millis(123_456);
        let path = Path {
            now: started,
            slots: Vec::new(),
            free: Vec::new(),
            actions: Vec::new(),
            resumed: Vec::new(),
            limit: usize::MAX,
            refuse: None,
            portless: None,
            connects: Vec::new(),
            request: Vec::new(),
            requests: BTreeMap::new(),
            log: Vec::new(),
        };
        Self {
            load,
            path,
            events: BinaryHeap::new(),
            order: 0,
            dials: 0,
            flights: 0,
            asked: 0,
            dial: Box::new(|_| Dial::Accept(Duration::from_micros(50))),
            reply: Box::new(reply),
            started,
            shakes: None,
        }
    }

    /// How connect number n fares.
    #[must_use]
    pub fn dial(mut self, dial: impl FnMut(u64) -> Dial + 'a) -> Self {
        self.dial = Box::new(dial);
        self
    }

    /// Flight number n of a client is answered by this server, after this time.
    #[must_use]
    pub fn shakes(mut self, shakes: impl FnMut(u64) -> (Arc<ServerTls>, Duration) + 'a) -> Self {
        self.shakes = Some(Box::new(shakes));
        self
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.path.now.since(self.started)
    }

    pub fn now(&self) -> Time {
        self.path.now
    }

    /// The generator is not called for a time, as if its core were taken.
    pub fn pause(&mut self, span: Duration) {
        self.path.now = self.path.now + span;
    }

    /// One turn; the time moves to the next at which anything is to do.
    pub fn turn(&mut self) {
        let now = self.path.now;
        while self.events.peek().is_some_and(|Reverse(event)| event.at <= now) {
            if let Some(Reverse(event)) = self.events.pop() {
                self.deliver(event.id, event.what);
            }
        }
        for index in 0..self.path.slots.len() {
            let slot = &mut self.path.slots[index];
            if slot.taken && slot.timer.is_some_and(|at| at <= now) {
                slot.timer = None;
                let id = ConnId::new(index as u32, slot.generation);
                self.load.on_timer(&mut self.path, id);
            }
        }
        for id in core::mem::take(&mut self.path.resumed) {
            self.offer_again(id);
        }
        let wake = self.load.on_turn(&mut self.path);
        self.act();
        let mut next = match wake {
            Wake::Now => now + TURN,
            Wake::At(at) => at,
            Wake::Idle => Time::MAX,
        };
        if let Some(Reverse(event)) = self.events.peek() {
            next = next.min(event.at);
        }
        for slot in &self.path.slots {
            next = next.min(slot.timer.filter(|_| slot.taken).unwrap_or(Time::MAX));
        }
        if next == Time::MAX {
            next = now + Duration::from_millis(1);
        }
        self.path.now = next.max(now + TURN);
    }

    fn deliver(&mut self, id: ConnId, what: Happening) {
        let Some(slot) = self.path.slot(id) else { return };
        if slot.aborted && !matches!(what, Happening::Close(_)) {
            return;
        }
        match what {
            Happening::Open => {
                slot.open = true;
                self.load.on_open(&mut self.path, id, Opened::Connected);
            }
            Happening::Data(bytes) => {
                slot.asked = slot.asked.saturating_sub(1);
                self.bring(id, &bytes);
            }
            Happening::Flight(bytes) => self.bring(id, &bytes),
            Happening::End => {
                slot.peer_finished = true;
                let held = slot.held.len();
                let done = slot.we_finished;
                self.path.log.push((self.path.now, "end"));
                self.load.on_end(&mut self.path, id, held);
                if done {
                    self.after(Duration::ZERO, id, Happening::Close(Closed::Finished));
                }
            }
            Happening::Close(why) => {
                self.load.on_close(&mut self.path, id, why);
                self.path.slots[id.index()].taken = false;
                self.path.free.push(id.index() as u32);
            }
        }
    }

    /// Offers what was left.
    fn offer_again(&mut self, id: ConnId) {
        let Some(slot) = self.path.slot(id) else { return };
        let was_secured = slot.near.is_some();
        let mut data = core::mem::take(if was_secured { &mut slot.plain } else { &mut slot.held });
        let used = self.load.on_data(&mut self.path, id, &data);
        data.drain(..used);
        if let Some(slot) = self.path.slot(id) {
            *(if was_secured { &mut slot.plain } else { &mut slot.held }) = data;
        }
    }

    /// Offers what came, and what waits before it.
    fn bring(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(slot) = self.path.slot(id) else { return };
        slot.held.extend_from_slice(bytes);
        loop {
            let Some(slot) = self.path.slot(id) else { return };
            let was_secured = slot.near.is_some();
            let mut data = core::mem::take(if was_secured { &mut slot.plain } else { &mut slot.held });
            if let Some(near) = &mut slot.near {
                let opened = near.open(&mut slot.held);
                if opened.is_empty() {
                    slot.plain = data;
                    return;
                }
                data.extend(opened);
            }
            let used = self.load.on_data(&mut self.path, id, &data);
            let Some(slot) = self.path.slot(id) else { return };
            let rest = data.split_off(used);
            *(if was_secured { &mut slot.plain } else { &mut slot.held }) = rest;
            // What follows a handshake is offered at once.
            if slot.near.is_none() || slot.held.is_empty() {
                return;
            }
        }
    }

    /// What a client of TLS sends: flights of its handshake, and requests.
    fn server_opens(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(shakes) = &mut self.shakes else { return };
        let Some(slot) = self.path.slot(id) else { return };
        self.flights += 1;
        let (server, span) = shakes(self.flights);
        let (out, requests) = slot.far.on_bytes(&server, bytes);
        if !out.is_empty() {
            self.after(span, id, Happening::Flight(out));
            let at = self.path.now + span;
            if let Some(slot) = self.path.slot(id) {
                slot.flight = at;
            }
        }
        for request in requests {
            self.server_reads(id, request);
        }
    }

    fn after(&mut self, span: Duration, id: ConnId, what: Happening) {
        self.order += 1;
        let at = self.path.now + span;
        self.events.push(Reverse(Event { at, order: self.order, id, what }));
    }

    fn act(&mut self) {
        for action in core::mem::take(&mut self.path.actions) {
            match action {
                Action::Connect(id) => {
                    self.dials += 1;
                    match (self.dial)(self.dials) {
                        Dial::Accept(span) => self.after(span, id, Happening::Open),
                        Dial::Refuse(span) => self.after(span, id, Happening::Close(Closed::Refused)),
                        Dial::Unreachable(span) => {
                            self.after(span, id, Happening::Close(Closed::Unreachable(app::Unreachable::Host)))
                        }
                        Dial::Ignore => {}
                    }
                }
                Action::Sent(id, bytes) if self.shakes.is_some() => self.server_opens(id, &bytes),
                Action::Sent(id, request) => self.server_reads(id, request),
                Action::Finish(id) => {
                    let Some(slot) = self.path.slot(id) else { continue };
                    slot.we_finished = true;
                    if slot.peer_finished {
                        self.after(TURN, id, Happening::Close(Closed::Finished));
                    } else if slot.asked == 0 {
                        self.after(TURN, id, Happening::End);
                    }
                }
                Action::Abort(id) => self.after(Duration::ZERO, id, Happening::Close(Closed::Aborted)),
            }
        }
    }

    fn server_reads(&mut self, id: ConnId, request: Vec<u8>) {
        let head = request.starts_with(b"HEAD");
        CURRENT.set(request);
        CONNECTION.set((id.index(), id.generation()));
        let Some(slot) = self.path.slot(id) else { return };
        slot.asked += 1;
        let flight = slot.flight;
        self.asked += 1;
        let reply = (self.reply)(self.asked, self.path.now);
        // Nothing overtakes a flight.
        let first = flight.since(self.path.now);
        let mut last = first;
        for (span, mut bytes) in reply.parts {
            let span = span.max(first);
            if head && let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                bytes.truncate(end + 4);
            }
            last = last.max(span);
            if let Some(sealed) = self.path.slot(id).and_then(|slot| slot.far.sealed.as_mut()) {
                bytes = sealed.seal(&bytes);
            }
            self.after(span, id, Happening::Data(bytes));
        }
        match reply.then {
            Then::Keep => {}
            Then::Finish => self.after(last, id, Happening::End),
            Then::Reset => self.after(last, id, Happening::Close(Closed::Reset)),
            Then::TimeOut => self.after(last, id, Happening::Close(Closed::TimedOut)),
        }
    }
}

/// A plan for tests: 4 connections, 100 ms warm-up, a window of 1 s.
pub fn plan() -> Plan {
    let mut plan = Plan::new("10.0.0.2:80".parse().expect("an address"), Request::get("10.0.0.2", "/"));
    plan.connections = 4;
    plan.warm_up = Duration::from_millis(100);
    plan.stop = load::Stop::After(Duration::from_secs(1));
    plan
}

/// The report, of a silo that slept most of the time as this world's does.
pub fn report(plan: &Plan, figures: &Figures) -> Report {
    let busy = Busy { busy: ms(10), total: ms(1_000) };
    Report::new(plan, figures, Some(busy))
}

pub const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Nothing is lost in the accounts: every request sent was answered, has
/// failed or is under way.
pub fn assert_accounts(figures: &Figures) {
    let sent = figures.before.traffic.sent + figures.counts.traffic.sent;
    let responses = figures.before.traffic.responses + figures.counts.traffic.responses;
    let failed = figures.before.errors.failed_requests() + figures.counts.errors.failed_requests();
    let taken_back = figures.before.traffic.unprocessed + figures.counts.traffic.unprocessed;
    assert_eq!(sent, responses + failed + taken_back + figures.in_flight, "{figures:#?}");
}
