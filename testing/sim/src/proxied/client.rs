//! Clients of the proxy: each sends its requests one after the other, on a connection that
//! it keeps as long as it may.

use super::plan::{Given, Manner, Plan};
use app::{App, Closed, ConnId, ConnectError, Net, Opened, Wake};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use wire::Time;

/// A client that waits longer than this waits for nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(400);

/// What comes to a client that has left is taken for so long.
const LINGER: Duration = Duration::from_millis(200);

/// What of an answer there is.
#[derive(Debug, Default)]
struct Parser {
    arrived: Vec<u8>,
    /// Bytes that were taken, of all that came.
    seen: usize,
    given: Given,
    framing: Option<Framing>,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Length(usize),
    Chunks,
    Close,
}

#[derive(Debug)]
struct Request {
    plan: Plan,
    began: Time,
    parser: Parser,
    /// When a slow client takes more.
    next: Time,
}

/// One after the other.
#[derive(Debug, Default)]
struct Client {
    numbers: VecDeque<u32>,
    at: Option<ConnId>,
    request: Option<Request>,
    /// It said that it sends no more, or it was told that this is the last.
    is_last: bool,
    /// All that came is there.
    has_ended: bool,
    starts: Time,
}

/// All clients of a host.
pub struct Clients {
    seed: u64,
    to: SocketAddr,
    clients: Vec<Client>,
    by_conn: HashMap<ConnId, usize>,
    /// What they were given, by kind.
    pub seen: BTreeMap<&'static str, u64>,
    /// Nothing but upstreams goes wrong.
    is_calm: bool,
    /// What must not be.
    pub objections: Vec<String>,
}

impl Clients {
    /// Clients that share so many requests.
    #[must_use]
    pub fn new(seed: u64, to: SocketAddr, (clients, requests): (usize, u32), is_calm: bool) -> Self {
        let mut all: Vec<Client> = Vec::new();
        all.resize_with(clients, Client::default);
        for (at, client) in all.iter_mut().enumerate() {
            client.starts = Time::from_millis(at as u64 * 7);
        }
        for number in 1..=requests {
            all[number as usize % clients].numbers.push_back(number);
        }
        let (by_conn, seen, objections) = (HashMap::new(), BTreeMap::new(), Vec::new());
        Self { seed, to, clients: all, by_conn, seen, is_calm, objections }
    }

    /// Whether all of them are done, and their connections gone.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.clients.iter().all(|client| client.numbers.is_empty() && client.request.is_none() && client.at.is_none())
    }

    /// What is still waited for.
    pub fn under_way(&self) -> impl Iterator<Item = String> {
        self.clients.iter().filter(|client| client.at.is_some() || !client.numbers.is_empty()).map(|client| {
            let Client { numbers, at, request, is_last, has_ended, .. } = client;
            let request =
                request.as_ref().map(|request| format!("{:?} {:?}", request.plan, request.parser.given.status));
            format!("{request:?} at {at:?}, {} to come, {is_last} {has_ended}", numbers.len())
        })
    }

    /// Sends the next request, or closes.
    fn next<N: Net>(&mut self, net: &mut N, at: usize) {
        let (now, seed) = (net.now(), self.seed);
        let client = &mut self.clients[at];
        let Some(id) = client.at else { return };
        let Some(number) = client.numbers.pop_front().filter(|_| !client.is_last) else {
            net.finish(id);
            return;
        };
        let plan = Plan::of(seed, number);
        net.send_bytes(id, &plan.request());
        let leaves = match plan.manner {
            Manner::LeavesAfter(span, _) => span,
            _ => PATIENCE,
        };
        net.set_timer(id, Some(now + leaves));
        client.request = Some(Request { plan, began: now, parser: Parser::default(), next: now });
    }

    fn over(&mut self, at: usize) {
        let Some(request) = self.clients[at].request.take() else { return };
        let given = &request.parser.given;
        *self.seen.entry(given.name()).or_default() += 1;
        self.objections.extend(request.plan.objection(given));
        if self.is_calm && request.plan.is_well() && !(given.status == Some(200) && given.is_whole) {
            self.objections.push(format!("failed for nothing: {:?} was given {:?}", request.plan, given.name()));
        }
    }

    /// All of an answer that ends with its connection is there, or nothing more of any.
    fn end<N: Net>(&mut self, net: &mut N, at: usize) {
        let client = &mut self.clients[at];
        if let Some(request) = &mut client.request {
            request.parser.given.is_whole |= matches!(request.parser.framing, Some(Framing::Close));
        }
        let id = client.at;
        self.over(at);
        if let Some(id) = id {
            net.finish(id);
        }
    }

    /// The client leaves: by a reset, or by its end.
    fn leave<N: Net>(&mut self, net: &mut N, at: usize, by_reset: bool) {
        let client = &mut self.clients[at];
        if let Some(request) = &mut client.request {
            request.parser.given.left = true;
        }
        client.is_last = true;
        let Some(id) = client.at else { return };
        self.over(at);
        if by_reset {
            net.abort(id);
        } else {
            // As after close(2): what comes all the same is answered with a reset.
            net.finish(id);
            net.set_timer(id, Some(net.now() + LINGER));
        }
    }
}

impl Parser {
    /// Takes bytes; whether the answer is whole, or an error.
    fn take(&mut self, data: &[u8]) -> Result<bool, String> {
        self.seen += data.len();
        self.arrived.extend_from_slice(data);
        while self.framing.is_none() {
            let Some(end) = self.arrived.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(false) };
            let head = String::from_utf8_lossy(&self.arrived[..end + 4]).to_lowercase();
            self.arrived.drain(..end + 4);
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            let Some(status) = status.filter(|_| head.starts_with("http/1.1 ")) else {
                return Err(format!("no answer: {head:?}"));
            };
            if (100..200).contains(&status) {
                continue;
            }
            let field = |name: &str| Some(head.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
            self.given.status = Some(status);
            self.given.number = field("x-number:").and_then(|number| number.parse().ok());
            let (length, chunks) = (field("content-length:"), field("transfer-encoding:"));
            self.framing = Some(match (length, chunks) {
                (Some(_), Some(_)) => return Err(format!("two lengths: {head:?}")),
                (Some(length), None) => Framing::Length(length.parse().map_err(|_| format!("no length: {head:?}"))?),
                (None, Some(_)) => Framing::Chunks,
                (None, None) => Framing::Close,
            });
        }
        match self.framing {
            Some(Framing::Length(length)) => {
                self.given.body.append(&mut self.arrived);
                self.given.is_whole = self.given.body.len() >= length;
                if self.given.body.len() > length {
                    return Err("more than was said".to_owned());
                }
            }
            Some(Framing::Chunks) => self.take_chunks()?,
            Some(Framing::Close) | None => self.given.body.append(&mut self.arrived),
        }
        Ok(self.given.is_whole)
    }

    fn take_chunks(&mut self) -> Result<(), String> {
        while let Some(line) = self.arrived.windows(2).position(|two| two == b"\r\n") {
            let text = String::from_utf8_lossy(&self.arrived[..line]).into_owned();
            let length = usize::from_str_radix(&text, 16).map_err(|_| format!("no chunk: {text:?}"))?;
            let end = line + 2 + length + 2;
            if self.arrived.len() < end {
                break;
            }
            self.given.body.extend_from_slice(&self.arrived[line + 2..end - 2]);
            self.arrived.drain(..end);
            if length == 0 {
                self.given.is_whole = true;
                if !self.arrived.is_empty() {
                    return Err("something behind the last chunk".to_owned());
                }
                break;
            }
        }
        Ok(())
    }
}

impl App for Clients {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        if let Some(at) = self.by_conn.get(&id).copied() {
            self.next(net, at);
        }
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let now = net.now();
        let Some(at) = self.by_conn.get(&id).copied() else { return data.len() };
        let client = &mut self.clients[at];
        let Some(request) = &mut client.request else { return data.len() };
        let mut most = data.len();
        match request.plan.manner {
            Manner::Slow(piece, pause) => {
                if request.next > now {
                    return 0;
                }
                most = most.min(piece);
                request.next = now + pause;
                net.set_timer(id, Some(request.next));
            }
            Manner::LeavesAt(bytes, _) => most = most.min(bytes.saturating_sub(request.parser.seen)),
            Manner::Waits | Manner::LeavesAfter(..) => {}
        }
        let taken = request.parser.take(&data[..most]);
        let leaves = match request.plan.manner {
            Manner::LeavesAt(bytes, by_reset) => (request.parser.seen >= bytes).then_some(by_reset),
            _ => None,
        };
        match (taken, leaves) {
            (Err(why), _) => {
                self.objections.push(format!("{why}: {:?}", request.plan));
                self.leave(net, at, true);
            }
            (Ok(true), _) => {
                let whole = most == data.len();
                self.over(at);
                if !whole {
                    self.objections.push("something behind an answer".to_owned());
                }
                self.next(net, at);
            }
            (Ok(false), Some(by_reset)) => {
                self.leave(net, at, by_reset);
                // It takes what comes, and looks at none of it.
                return data.len();
            }
            (Ok(false), None) if client.has_ended && most == data.len() => self.end(net, at),
            (Ok(false), None) => {}
        }
        most
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        if let Some(at) = self.by_conn.get(&id).copied()
            && let client = &mut self.clients[at]
        {
            (client.is_last, client.has_ended) = (true, true);
            // A slow client takes the rest first.
            if client.request.is_none() || held == 0 {
                self.end(net, at);
            }
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(at) = self.by_conn.get(&id).copied() else { return };
        let Some(request) = &self.clients[at].request else { return net.abort(id) };
        match request.plan.manner {
            Manner::LeavesAfter(_, by_reset) => self.leave(net, at, by_reset),
            Manner::Slow(..) if now < request.began + PATIENCE => {
                net.resume(id);
                net.set_timer(id, Some(now + Duration::from_millis(500)));
            }
            _ => {
                self.objections.push(format!("it waits for nothing: {:?}", request.plan));
                self.leave(net, at, true);
            }
        }
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let Some(at) = self.by_conn.remove(&id) else { return };
        let client = &mut self.clients[at];
        (client.at, client.is_last, client.has_ended, client.starts) = (None, false, false, net.now());
        if let Some(request) = &mut client.request {
            request.parser.given.is_torn = why != Closed::Finished;
        }
        self.over(at);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        let mut wake = Wake::Idle;
        for at in 0..self.clients.len() {
            let client = &mut self.clients[at];
            if client.at.is_some() || client.numbers.is_empty() {
                continue;
            }
            if client.starts > now {
                wake = wake.earlier(Wake::At(client.starts));
                continue;
            }
            match net.connect(None, self.to) {
                Ok(id) => {
                    client.at = Some(id);
                    self.by_conn.insert(id, at);
                }
                Err(ConnectError::Full | ConnectError::NoPort) => {
                    client.starts = now + Duration::from_millis(100);
                    wake = wake.earlier(Wake::At(client.starts));
                }
                Err(why) => self.objections.push(format!("cannot connect: {why}")),
            }
        }
        wake
    }
}
