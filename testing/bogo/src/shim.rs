//! One test: its connections, one after the other, on either data path.

use crate::flags::{Asked, DataPath, TLS12, TLS13, Test, Unfit};
use crate::stack_path;
use crate::tls::{self, Kept};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::cell::Cell;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use handshake::{
    Acceptor, ClientTls, ConnectOutcome, Connector, First, Hello, Outcome, ServerTls, ServerVerdict, Sought, Version,
    group_name_of, hello,
};
use seal::{Layer, Record, SealError, SealingKeys, Unsealed};
use silo::Next;
use sockets::{Attendant, Config, Engine, Worker};
use std::rc::Rc;
use std::sync::Arc;
use wire::{Sum, Time};

/// What is sent first where the runner wants that.
const FIRST_WRITE: &[u8] = b"hello";

/// How long an end is waited for: the runner's own patience is longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a test. What was not as it is to be, if anything.
pub fn run(test: Test) -> Result<Option<String>, Unfit> {
    let ends = Ends::new(&test)?;
    let address = if test.ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let runner = SocketAddr::new(address, test.port);
    let data_path = test.data_path;
    let peer = if let DataPath::Stack = data_path { stack_path::FAR } else { runner };
    let app = Shim { test, ends, peer, at: 0, began: false, state: State::Connects, over: false, failure: None };
    match data_path {
        DataPath::Kernel(engine) => on_sockets(app, engine),
        DataPath::Stack => Ok(stack_path::run(app, runner)),
    }
}

fn on_sockets(app: Shim, engine: Engine) -> Result<Option<String>, Unfit> {
    let config = Config { engine, max_connections: 4, ..Config::default() };
    let mut worker = Worker::new(config, Vec::new(), app).map_err(|e| Unfit::Wrong(e.to_string()))?;
    worker.run(&mut Until).map_err(|e| Unfit::Wrong(e.to_string()))?;
    Ok(worker.app.failure)
}

/// Stops the worker when the test is over, and the runner has the last alert.
struct Until;

impl Attendant<Shim> for Until {
    fn attend(&mut self, worker: &mut Worker<Shim>, _now: Time, _usage: &silo::Usage) -> Next {
        if worker.app.over && worker.drain() { Next::Stop } else { Next::Go }
    }
}

/// Who shakes hands, for the first connection and for those after it.
enum Ends {
    Server([Arc<ServerTls>; 2]),
    Client([Arc<ClientTls>; 2]),
}

impl Ends {
    fn new(test: &Test) -> Result<Self, Unfit> {
        let Test { first, later, .. } = test;
        if first.server {
            let kept = Kept::new();
            return Ok(Self::Server([tls::server(first, &kept)?, tls::server(later, &kept)?]));
        }
        let client = tls::client(first)?;
        if test.resumes > 0 && !first.is_said_as(later) {
            return Err(Unfit::Unimplemented("a client that goes on with other settings".into()));
        }
        Ok(Self::Client([Arc::clone(&client), client]))
    }
}

pub struct Shim {
    test: Test,
    ends: Ends,
    /// Who is connected to.
    peer: SocketAddr,
    /// The connection's number.
    at: usize,
    began: bool,
    state: State,
    pub over: bool,
    pub failure: Option<String>,
}

enum State {
    Connects,
    /// A server that has no ClientHello yet.
    Listens,
    Accepts(Box<Acceptor>),
    Asks(Box<Connector>),
    Secured(Rc<Heard>),
    /// It failed, and ends.
    Ends,
}

/// What the record layer heard.
#[derive(Default)]
struct Heard {
    end: Cell<bool>,
    failed: Cell<Option<Option<u8>>>,
}

/// The record layer, looked at.
struct Watched {
    layer: Box<dyn Layer>,
    heard: Rc<Heard>,
}

impl Layer for Watched {
    fn overhead(&self) -> usize {
        self.layer.overhead()
    }
    fn most(&self) -> usize {
        self.layer.most()
    }
    fn pads(&self) -> bool {
        self.layer.pads()
    }
    fn updates_keys(&self) -> bool {
        self.layer.updates_keys()
    }
    fn most_records(&self) -> u64 {
        self.layer.most_records()
    }
    fn seal(&mut self, record: &Record, parts: &[&[u8]], out: &mut [u8]) -> Result<(), SealError> {
        self.layer.seal(record, parts, out)
    }
    fn seal_shared(
        &mut self,
        record: &Record,
        parts: &[&[u8]],
        out: &mut [u8],
        room: &mut [u8],
    ) -> Result<Sum, SealError> {
        self.layer.seal_shared(record, parts, out, room)
    }
    fn next_epoch(&mut self) -> Result<u8, SealError> {
        self.layer.next_epoch()
    }
    fn forget(&mut self, epoch: u8) {
        self.layer.forget(epoch);
    }
    fn hand_over(&mut self, epoch: u8, number: u64, take: &mut dyn FnMut(&SealingKeys<'_>) -> bool) -> bool {
        self.layer.hand_over(epoch, number, take)
    }
    fn open(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Unsealed {
        let unsealed = self.layer.open(input, plain);
        match unsealed {
            Unsealed::End { .. } => self.heard.end.set(true),
            Unsealed::Failed(alert) => self.heard.failed.set(Some(alert)),
            _ => {}
        }
        unsealed
    }
    fn rest(&mut self) {
        self.layer.rest();
    }
}

/// What came of a handshake, whoever began it.
struct Told<'a> {
    version: Version,
    resumed: bool,
    protocol: Option<&'a [u8]>,
    group: Option<&'static str>,
    early: bool,
}

impl Shim {
    const fn asked(&self) -> &Asked {
        if self.at == 0 { &self.test.first } else { &self.test.later }
    }

    fn fail(&mut self, why: impl Into<String>) {
        self.failure.get_or_insert(why.into());
        self.state = State::Ends;
    }

    /// The handshake cannot be gone on with.
    fn refuse<N: Net>(&mut self, net: &mut N, id: ConnId, out: &[u8], why: impl Into<String>) {
        net.send_bytes(id, out);
        self.fail(why);
        net.set_timer(id, Some(net.now() + PATIENCE));
        net.finish(id);
    }

    /// Takes what comes before the connection is secured. How many bytes were taken.
    fn on_handshake<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> usize {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            match core::mem::replace(&mut self.state, State::Ends) {
                State::Listens => match hello::first(rest) {
                    First::Whole(hello, _) => self.accept(net, id, hello),
                    First::Partial(_) => {
                        self.state = State::Listens;
                        return taken;
                    }
                    First::Plain => self.refuse(net, id, &[], "plain text"),
                    First::Refused(why) => self.refuse(net, id, &why.alert(), why.to_string()),
                },
                State::Accepts(acceptor) => {
                    if !Acceptor::has_record(rest) {
                        self.state = State::Accepts(acceptor);
                        return taken;
                    }
                    taken += self.work(net, id, acceptor, rest);
                }
                State::Asks(connector) => {
                    if !Connector::has_record(rest) {
                        self.state = State::Asks(connector);
                        return taken;
                    }
                    taken += self.ask(net, id, connector, rest);
                }
                // What follows is the record layer's.
                secured @ State::Secured(_) => {
                    self.state = secured;
                    return taken;
                }
                State::Connects | State::Ends => return bytes.len(),
            }
        }
    }

    fn accept<N: Net>(&mut self, net: &mut N, id: ConnId, hello: Hello) {
        let asked = self.asked();
        let (name, offered) = (asked.expects.server_name.clone(), asked.expects.offered.clone());
        if name.is_some() && name.as_deref() != hello.server_name.as_deref() {
            return self.refuse(net, id, &[], format!("another name: {:?}", hello.server_name));
        }
        let protocols = offered.as_deref().map(tls::protocols);
        if protocols
            .is_some_and(|protocols| !protocols.iter().map(Vec::as_slice).eq(hello.protocols.iter().map(|one| &**one)))
        {
            return self.refuse(net, id, &[], format!("other protocols: {:?}", hello.protocols));
        }
        let Ends::Server(servers) = &self.ends else { return };
        self.state = State::Accepts(Box::new(Acceptor::new(Arc::clone(&servers[self.at.min(1)]), hello)));
    }

    fn work<N: Net>(&mut self, net: &mut N, id: ConnId, mut acceptor: Box<Acceptor>, bytes: &[u8]) -> usize {
        let step = acceptor.on_bytes(bytes);
        match step.outcome {
            Outcome::Waits => {
                net.send_bytes(id, &step.out);
                self.state = State::Accepts(acceptor);
            }
            Outcome::Failed(why) => self.refuse(net, id, &step.out, why.to_string()),
            Outcome::Done(secured) => {
                net.send_bytes(id, &step.out);
                let without = self.asked().requires_certificate && secured.session.client.is_empty();
                match secured.into_layer() {
                    // The application's to say, as nginx has it: by status 400.
                    Some(_) if without => self.refuse(net, id, &[], "no certificate"),
                    Some((layer, session)) => {
                        let told = Told {
                            version: session.version,
                            resumed: session.resumed,
                            protocol: session.protocol.as_deref(),
                            group: Some(session.group),
                            early: session.early.is_some(),
                        };
                        self.secure(net, id, layer, &told);
                    }
                    None => self.refuse(net, id, &[], "keys"),
                }
            }
        }
        step.consumed
    }

    fn ask<N: Net>(&mut self, net: &mut N, id: ConnId, mut connector: Box<Connector>, bytes: &[u8]) -> usize {
        let step = connector.on_bytes(bytes);
        match step.outcome {
            ConnectOutcome::Waits => {
                net.send_bytes(id, &step.out);
                self.state = State::Asks(connector);
            }
            ConnectOutcome::Failed(why) => self.refuse(net, id, &step.out, why.to_string()),
            ConnectOutcome::Done(connected) => {
                net.send_bytes(id, &step.out);
                match connected.into_layer() {
                    Some((_, session)) if matches!(session.verdict, ServerVerdict::Refused(_)) => {
                        self.refuse(net, id, &[], format!("{:?}", session.verdict));
                    }
                    Some((layer, session)) => {
                        let told = Told {
                            version: session.version,
                            resumed: session.resumed,
                            protocol: session.protocol.as_deref(),
                            group: None,
                            early: false,
                        };
                        self.secure(net, id, layer, &told);
                    }
                    None => self.refuse(net, id, &[], "keys"),
                }
            }
        }
        step.consumed
    }

    /// The handshake is over.
    fn secure<N: Net>(&mut self, net: &mut N, id: ConnId, layer: Box<dyn Layer>, told: &Told<'_>) {
        if let Some(why) = differs(self.asked(), self.at, told) {
            return self.refuse(net, id, &[], why);
        }
        let heard = Rc::new(Heard::default());
        if !net.secure(id, Box::new(Watched { layer, heard: Rc::clone(&heard) })) {
            return self.fail("not secured");
        }
        self.state = State::Secured(heard);
        let asked = self.asked();
        if asked.writes_first {
            net.send_bytes(id, FIRST_WRITE);
        }
        if asked.shuts_down {
            net.finish(id);
        }
    }

    /// What a connection's end says of it.
    fn judge(&mut self, why: Closed) {
        let failure = match &self.state {
            State::Secured(heard) => match heard.failed.get() {
                Some(alert) => Some(format!("records that cannot be opened, alert {alert:?}")),
                None if self.asked().check_close_notify && !heard.end.get() => Some("no close_notify".to_owned()),
                None if why == Closed::TimedOut => Some("no end".to_owned()),
                None => None,
            },
            _ => Some(format!("the connection ended before its handshake: {why:?}")),
        };
        if let Some(failure) = failure {
            self.failure.get_or_insert(failure);
        }
    }
}

/// What is not as it is to be.
fn differs(asked: &Asked, at: usize, told: &Told<'_>) -> Option<String> {
    let expects = &asked.expects;
    let version = if told.version == Version::Tls13 { TLS13 } else { TLS12 };
    if expects.version.is_some_and(|expected| expected != version) {
        return Some(format!("another version: {version:#x}"));
    }
    // Of our client it is not told; the runner looks at its own.
    if let Some((expected, group)) = expects.group.zip(told.group)
        && group_name_of(expected) != Some(group)
    {
        return Some(format!("another group: {group}"));
    }
    if expects.protocol.as_deref().is_some_and(|expected| expected != told.protocol.unwrap_or_default()) {
        return Some(format!("another protocol: {:?}", told.protocol));
    }
    if at > 0 && told.resumed == expects.misses_session {
        return Some(format!("resumed: {}", told.resumed));
    }
    if at > 0 && expects.early_accepted.is_some_and(|expected| expected != told.early) {
        return Some(format!("early data: {}", told.early));
    }
    None
}

impl App for Shim {
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if !self.began && !self.over {
            self.began = true;
            if let Err(why) = net.connect(None, self.peer) {
                self.fail(why.to_string());
                self.over = true;
            }
        }
        Wake::Idle
    }

    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        net.send_bytes(id, &self.test.shim_id.to_le_bytes());
        self.state = State::Listens;
        let Ends::Client(clients) = &self.ends else { return };
        let tls = Arc::clone(&clients[self.at.min(1)]);
        let told = self.asked().host.as_deref().map(Into::into);
        let sought = Sought { tls, shows: None, name: Box::default(), told, peer: b"runner".as_slice().into() };
        let mut connector = Box::new(Connector::new(sought));
        let step = connector.on_bytes(&[]);
        net.send_bytes(id, &step.out);
        match step.outcome {
            ConnectOutcome::Waits => self.state = State::Asks(connector),
            _ => self.refuse(net, id, &[], "no ClientHello"),
        }
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        match &self.state {
            State::Secured(_) => {
                if !self.asked().shuts_down {
                    let turned: Vec<u8> = data.iter().map(|byte| byte ^ 0xff).collect();
                    net.send_bytes(id, &turned);
                }
                data.len()
            }
            _ => self.on_handshake(net, id, data),
        }
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _held: usize) {
        net.finish(id);
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        net.abort(id);
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, why: Closed) {
        self.judge(why);
        if self.failure.is_some() || self.at == self.test.resumes {
            self.over = true;
            return;
        }
        self.at += 1;
        (self.began, self.state) = (false, State::Connects);
    }
}
