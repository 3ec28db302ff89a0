//! Clients of the proxy that speak HTTP/2: each has many requests under way on one connection,
//! and takes each answer as that request's number says.

use super::client::PATIENCE;
use super::frames::{LONGEST, PREFACE, WINDOW, decoded, encoded, next_frame};
use super::plan::{Given, Manner, Plan, stamped};
use crate::rng::Rng;
use app::{App, Closed, ConnId, ConnectError, Net, Opened, SEND_LOW_WATER, Wake};
use core::net::SocketAddr;
use core::time::Duration;
use h2::ErrorCode;
use h2::frame::{self, Frame, FrameHead, Kind, setting};
use hpack::{Decoder, Encoder, Scratch};
use std::collections::{BTreeMap, HashMap, VecDeque};
use wire::Time;

/// A request that is under way on a stream.
#[derive(Debug)]
struct Request {
    plan: Plan,
    began: Time,
    given: Given,
    /// What its answer's head says of its length.
    length: Option<usize>,
    /// Bytes of its body that were sent, and whether that is all.
    sent: usize,
    is_sent: bool,
    /// What may be sent of it, and what the server may still send.
    window: i64,
    theirs: i64,
    /// When it has more done for it: a slow one takes more, another leaves.
    due: Option<Time>,
}

/// One connection, and what is asked on it.
#[derive(Debug)]
struct Connection {
    numbers: VecDeque<u32>,
    at: Option<ConnId>,
    starts: Time,
    /// Streams at a time, and the first window of answers.
    most: usize,
    first: u32,
    arrived: Vec<u8>,
    decoder: Decoder,
    encoder: Encoder,
    open_block: Option<(u32, bool, Vec<u8>)>,
    streams: BTreeMap<u32, Request>,
    next: u32,
    /// What may be sent on all streams, and what the server may still send.
    window: i64,
    theirs: i64,
    /// The server's SETTINGS.
    their_first: i64,
    their_most: usize,
    /// The server takes no more requests here.
    is_leaving: bool,
}

/// All clients of a host.
pub struct StreamClients {
    seed: u64,
    to: SocketAddr,
    connections: Vec<Connection>,
    by_conn: HashMap<ConnId, usize>,
    scratch: Scratch,
    /// What they were given, by kind.
    pub seen: BTreeMap<&'static str, u64>,
    /// Nothing but upstreams goes wrong.
    is_calm: bool,
    /// What must not be.
    pub objections: Vec<String>,
}

/// The window of all answers of a connection.
const TOGETHER: u32 = 1 << 20;

impl StreamClients {
    /// Clients that share so many requests.
    #[must_use]
    pub fn new(seed: u64, to: SocketAddr, (clients, requests): (usize, u32), is_calm: bool) -> Self {
        let rng = &mut Rng::new(seed ^ 0x0c11);
        let mut connections: Vec<Connection> = (0..clients.div_ceil(2)).map(|at| Connection::new(rng, at)).collect();
        for number in 1..=requests {
            let at = number as usize % connections.len();
            connections[at].numbers.push_back(number);
        }
        Self {
            seed,
            to,
            connections,
            by_conn: HashMap::new(),
            scratch: Scratch::default(),
            seen: BTreeMap::new(),
            is_calm,
            objections: Vec::new(),
        }
    }

    /// Whether all of them are done, and their connections gone.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.connections.iter().all(|one| one.numbers.is_empty() && one.streams.is_empty() && one.at.is_none())
    }

    /// What is still waited for.
    pub fn under_way(&self) -> impl Iterator<Item = String> {
        self.connections.iter().filter(|one| one.at.is_some() || !one.numbers.is_empty()).map(|one| {
            let plans: Vec<String> =
                one.streams.values().map(|request| format!("{:?} {:?}", request.plan, request.given.status)).collect();
            format!("{plans:?} at {:?}, {} to come", one.at, one.numbers.len())
        })
    }

    /// A request is over, however.
    fn over(&mut self, request: &Request) {
        let given = &request.given;
        *self.seen.entry(given.name()).or_default() += 1;
        self.objections.extend(request.plan.objection(given));
        if given.is_whole && request.length.is_some_and(|length| length != given.body.len()) {
            self.objections.push(format!("not its length: {:?} of {}", request.plan, given.body.len()));
        }
        if self.is_calm && request.plan.is_well() && !(given.status == Some(200) && given.is_whole) {
            self.objections.push(format!("failed for nothing: {:?} was given {:?}", request.plan, given.name()));
        }
    }

    fn fault<N: Net>(&mut self, net: &mut N, id: ConnId, why: String) {
        self.objections.push(why);
        net.abort(id);
    }

    /// Begins requests, sends bodies, and gives windows back where that is due.
    fn go_on<N: Net>(&mut self, net: &mut N, at: usize) {
        let (now, seed) = (net.now(), self.seed);
        let one = &mut self.connections[at];
        let Some(id) = one.at else { return };
        let mut out = Vec::new();
        while !one.is_leaving
            && one.streams.len() < one.most.min(one.their_most)
            && let Some(number) = one.numbers.pop_front()
        {
            one.begin(Plan::of(seed, number), now, &mut out);
        }
        let mut over = Vec::new();
        for (stream, request) in &mut one.streams {
            let room = SEND_LOW_WATER.saturating_sub(net.unsent(id) + out.len());
            request.send_body((*stream, room), &mut one.window, &mut out);
            if request.due.is_some_and(|due| due <= now) {
                match request.plan.manner {
                    Manner::Slow(piece, pause) if now < request.began + PATIENCE => {
                        let piece = piece.min(1 << 20) as u32;
                        frame::write_window_update(&mut out, *stream, piece);
                        request.theirs += i64::from(piece);
                        request.due = Some(now + pause.max(Duration::from_millis(1)));
                    }
                    Manner::LeavesAfter(..) => {
                        request.given.left = true;
                        over.push(*stream);
                    }
                    _ => {
                        self.objections.push(format!("it waits for nothing: {:?}", request.plan));
                        over.push(*stream);
                    }
                }
            }
        }
        let left: Vec<Request> = over.iter().filter_map(|stream| one.streams.remove(stream)).collect();
        for stream in over {
            frame::write_reset(&mut out, stream, ErrorCode::CANCEL);
        }
        let is_done = one.streams.is_empty() && (one.numbers.is_empty() || one.is_leaving);
        let due = one.streams.values().filter_map(|request| request.due).min();
        net.send_bytes(id, &out);
        net.set_timer(id, due);
        left.iter().for_each(|request| self.over(request));
        if is_done {
            net.finish(id);
        }
    }

    /// Takes what there is of frames.
    fn take<N: Net>(&mut self, net: &mut N, at: usize) {
        while let one = &mut self.connections[at]
            && let Some(id) = one.at
        {
            let (head, payload) = match next_frame(&mut one.arrived) {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(why) => return self.fault(net, id, why),
            };
            match one.on_frame(head, &payload, &mut self.scratch) {
                Err(why) => return self.fault(net, id, format!("{why}: {head:?}")),
                Ok(told) => {
                    net.send_bytes(id, &told.out);
                    if let Some(request) = told.over {
                        self.over(&request);
                    }
                }
            }
        }
    }
}

/// What a frame came to.
#[derive(Default)]
struct Told {
    out: Vec<u8>,
    over: Option<Request>,
}

impl Connection {
    fn new(rng: &mut Rng, at: usize) -> Self {
        Self {
            numbers: VecDeque::new(),
            at: None,
            starts: Time::from_millis(at as u64 * 7),
            most: rng.pick(&[1, 4, 30]),
            first: rng.pick(&[0, 1_000, 65_535, 1 << 20]),
            arrived: Vec::new(),
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            open_block: None,
            streams: BTreeMap::new(),
            next: 1,
            window: WINDOW,
            theirs: WINDOW,
            their_first: WINDOW,
            their_most: usize::MAX,
            is_leaving: false,
        }
    }

    /// A new connection: preface, SETTINGS, and the window of all answers.
    fn open(&mut self) -> Vec<u8> {
        self.arrived.clear();
        (self.decoder, self.encoder) = (Decoder::default(), Encoder::default());
        (self.open_block, self.next, self.is_leaving) = (None, 1, false);
        (self.window, self.their_first, self.their_most) = (WINDOW, WINDOW, usize::MAX);
        self.theirs = WINDOW + i64::from(TOGETHER);
        let mut out = PREFACE.to_vec();
        frame::write_settings(&mut out, &[(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, self.first)]);
        frame::write_window_update(&mut out, 0, TOGETHER);
        out
    }

    fn begin(&mut self, plan: Plan, now: Time, out: &mut Vec<u8>) {
        let stream = self.next;
        self.next += 2;
        let path = format!("/{}/{}", plan.place, plan.number);
        let (method, length) = (if plan.sent == 0 { "GET" } else { "PUT" }, plan.sent.to_string());
        let mut fields = vec![(":method", method), (":scheme", "http"), (":authority", "a"), (":path", &path)];
        if plan.sent > 0 && !plan.chunked {
            fields.push(("content-length", &length));
        }
        let block = encoded(&mut self.encoder, fields);
        frame::write_headers(out, stream, &block, plan.sent == 0, LONGEST);
        let due = match plan.manner {
            Manner::LeavesAfter(span, _) => now + span,
            Manner::Slow(_, pause) => now + pause,
            Manner::Waits | Manner::LeavesAt(..) => now + PATIENCE,
        };
        let mut theirs = i64::from(self.first);
        if self.first == 0 && !matches!(plan.manner, Manner::Slow(..)) {
            // Windows that are shut until each is opened.
            theirs = 20_000;
            frame::write_window_update(out, stream, 20_000);
        }
        let request = Request {
            is_sent: plan.sent == 0,
            plan,
            began: now,
            given: Given::default(),
            length: None,
            sent: 0,
            window: self.their_first,
            theirs,
            due: Some(due),
        };
        self.streams.insert(stream, request);
    }

    fn on_frame(&mut self, head: FrameHead, payload: &[u8], scratch: &mut Scratch) -> Result<Told, String> {
        if self.open_block.is_some() && head.kind != Kind::Continuation {
            return Err("something within a field section".to_owned());
        }
        if head.kind == Kind::Data {
            return self.on_content(head, payload);
        }
        let mut told = Told::default();
        match frame::read(head, payload).map_err(|why| format!("{why:?}"))? {
            Frame::Headers { stream, block, ends_stream, ends_headers, .. } => {
                self.open_block = Some((stream, ends_stream, block.to_vec()));
                if ends_headers {
                    return self.on_head(scratch);
                }
            }
            Frame::Continuation { stream, block, ends_headers } => {
                match &mut self.open_block {
                    Some((of, _, whole)) if *of == stream => whole.extend_from_slice(block),
                    _ => return Err("CONTINUATION of nothing".to_owned()),
                }
                if ends_headers {
                    return self.on_head(scratch);
                }
            }
            Frame::Settings { entries } => {
                for (identifier, value) in frame::settings(entries) {
                    match identifier {
                        setting::INITIAL_WINDOW_SIZE => {
                            let change = i64::from(value) - self.their_first;
                            self.their_first = value.into();
                            self.streams.values_mut().for_each(|request| request.window += change);
                        }
                        setting::MAX_CONCURRENT_STREAMS => self.their_most = value as usize,
                        setting::HEADER_TABLE_SIZE => self.encoder.set_limit(value),
                        _ => {}
                    }
                }
                frame::write(&mut told.out, Kind::Settings, frame::ACK, 0, &[]);
            }
            Frame::Ping { data } => frame::write(&mut told.out, Kind::Ping, frame::ACK, 0, &data),
            Frame::WindowUpdate { stream: 0, increment } => self.window += i64::from(increment),
            Frame::WindowUpdate { stream, increment } => {
                if let Some(request) = self.streams.get_mut(&stream) {
                    request.window += i64::from(increment);
                }
            }
            Frame::Reset { stream, code } => {
                told.over = self.streams.remove(&stream);
                if let (ErrorCode::REFUSED_STREAM, Some(request)) = (code, &told.over) {
                    return Err(format!("it is refused: {:?}", request.plan));
                }
            }
            Frame::GoAway { code: ErrorCode::NO_ERROR, .. } => self.is_leaving = true,
            Frame::GoAway { code, debug, .. } => {
                return Err(format!("it leaves: {} {}", code.name(), String::from_utf8_lossy(debug)));
            }
            Frame::PushPromise { .. } => return Err("a push".to_owned()),
            _ => {}
        }
        Ok(told)
    }

    /// The head of an answer, or its trailers.
    fn on_head(&mut self, scratch: &mut Scratch) -> Result<Told, String> {
        let Some((stream, ends, block)) = self.open_block.take() else { return Ok(Told::default()) };
        let fields = decoded(&mut self.decoder, &block, scratch)?;
        let Some(request) = self.streams.get_mut(&stream) else { return Ok(Told::default()) };
        let field = |name: &str| fields.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str());
        match field(":status").and_then(|status| status.parse::<u16>().ok()) {
            Some(100..=199) if !ends => return Ok(Told::default()),
            Some(status) if request.given.status.is_none() => {
                request.given.status = Some(status);
                request.given.number = field("x-number").and_then(|number| number.parse().ok());
                request.length = field("content-length").and_then(|length| length.parse().ok());
            }
            None if request.given.status.is_some() && ends => {}
            _ => return Err(format!("no head of an answer: {fields:?} of {:?}", request.plan)),
        }
        Ok(Told { out: Vec::new(), over: self.ended(stream, ends) })
    }

    /// Some content of an answer.
    fn on_content(&mut self, head: FrameHead, payload: &[u8]) -> Result<Told, String> {
        let padding = frame::data_padding(head, payload.first().copied()).map_err(|why| format!("{why:?}"))?;
        let (before, behind) = padding.ok_or("no padding")?;
        let content = &payload[before as usize..payload.len() - behind as usize];
        let length = payload.len() as i64;
        self.theirs -= length;
        if self.theirs < 0 {
            return Err("more than all streams together may send".to_owned());
        }
        let mut told = Told::default();
        if length > 0 {
            self.theirs += length;
            frame::write_window_update(&mut told.out, 0, payload.len() as u32);
        }
        let Some(request) = self.streams.get_mut(&head.stream) else { return Ok(told) };
        request.theirs -= length;
        if request.theirs < 0 {
            return Err(format!("more than its stream may send: {:?}", request.plan));
        }
        if request.given.status.is_none() {
            return Err(format!("content without a head: {:?}", request.plan));
        }
        request.given.body.extend_from_slice(content);
        let ends = head.has(frame::END_STREAM);
        let leaves = matches!(request.plan.manner, Manner::LeavesAt(bytes, _) if request.given.body.len() >= bytes);
        if leaves && !ends {
            request.given.left = true;
            frame::write_reset(&mut told.out, head.stream, ErrorCode::CANCEL);
            told.over = self.streams.remove(&head.stream);
            return Ok(told);
        }
        if !ends && length > 0 && !matches!(request.plan.manner, Manner::Slow(..)) {
            request.theirs += length;
            frame::write_window_update(&mut told.out, head.stream, payload.len() as u32);
        }
        told.over = self.ended(head.stream, ends);
        Ok(told)
    }

    /// The request, if its answer is whole.
    fn ended(&mut self, stream: u32, ends: bool) -> Option<Request> {
        let mut request = if ends { self.streams.remove(&stream)? } else { return None };
        request.given.is_whole = true;
        Some(request)
    }
}

impl Request {
    /// Sends of its body what windows and the queue let.
    fn send_body(&mut self, (stream, mut queue): (u32, usize), together: &mut i64, out: &mut Vec<u8>) {
        while !self.is_sent {
            let left = self.plan.sent - self.sent;
            let room = (*together).min(self.window).max(0) as usize;
            let some = left.min(room).min(LONGEST).min(queue);
            if some == 0 {
                return;
            }
            let whole = stamped(self.plan.number, self.plan.sent);
            self.is_sent = some == left;
            let flags = if self.is_sent { frame::END_STREAM } else { 0 };
            frame::write(out, Kind::Data, flags, stream, &whole[self.sent..self.sent + some]);
            self.sent += some;
            queue -= some;
            *together -= some as i64;
            self.window -= some as i64;
        }
    }
}

impl App for StreamClients {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        if let Some(at) = self.by_conn.get(&id).copied() {
            let out = self.connections[at].open();
            net.send_bytes(id, &out);
            self.go_on(net, at);
        }
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if let Some(at) = self.by_conn.get(&id).copied() {
            self.connections[at].arrived.extend_from_slice(data);
            self.take(net, at);
            self.go_on(net, at);
        }
        data.len()
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _held: usize) {
        net.finish(id);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if let Some(at) = self.by_conn.get(&id).copied() {
            self.go_on(net, at);
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if let Some(at) = self.by_conn.get(&id).copied() {
            self.go_on(net, at);
        }
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let Some(at) = self.by_conn.remove(&id) else { return };
        let one = &mut self.connections[at];
        (one.at, one.starts) = (None, net.now());
        for (_, mut request) in core::mem::take(&mut one.streams) {
            request.given.is_torn = why != Closed::Finished;
            self.over(&request);
        }
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        let mut wake = Wake::Idle;
        for at in 0..self.connections.len() {
            let one = &mut self.connections[at];
            if one.at.is_some() || one.numbers.is_empty() {
                continue;
            }
            if one.starts > now {
                wake = wake.earlier(Wake::At(one.starts));
                continue;
            }
            match net.connect(None, self.to) {
                Ok(id) => {
                    one.at = Some(id);
                    self.by_conn.insert(id, at);
                }
                Err(ConnectError::Full | ConnectError::NoPort) => {
                    one.starts = now + Duration::from_millis(100);
                    wake = wake.earlier(Wake::At(one.starts));
                }
                Err(why) => self.objections.push(format!("cannot connect: {why}")),
            }
        }
        wake
    }
}
