//! Upstreams that speak HTTP/2, and fail as their requests' numbers say: many requests share a
//! connection, and each fails by itself, or with all of them.
//!
//! Frames are read and written one by one here, and windows counted, so that what the proxy
//! sends is judged by RFC 9113 and not by its own engine.

mod script;
mod sending;

use super::frames::{LONGEST, PREFACE, WINDOW, decoded, next_frame};
use super::plan::{Fault, PLACES, Plan, stamped};
use crate::rng::Rng;
use app::{App, Closed, ConnId, Net, Opened, Wake};
use h2::ErrorCode;
use h2::frame::{self, Frame, FrameHead, Kind, setting};
use hpack::{Decoder, Encoder, Scratch};
use script::{Step, fault_of, steps};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use wire::Time;

/// A request that is answered.
#[derive(Debug)]
struct Work {
    plan: Plan,
    /// Bytes of its body that came, and whether that was all.
    came: usize,
    has_ended: bool,
    /// Its `content-length`.
    length: Option<usize>,
    /// What may be sent of its answer, and what its client may still send.
    window: i64,
    theirs: i64,
    has_begun: bool,
    steps: VecDeque<Step>,
    until: Option<Time>,
}

/// What a connection's upstream is like.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    streams: u32,
    /// SETTINGS_INITIAL_WINDOW_SIZE.
    window: u32,
    /// SETTINGS_HEADER_TABLE_SIZE.
    table: u32,
    /// So many requests are taken, and then it leaves (GOAWAY).
    most: u32,
    /// DATA has at most so many bytes.
    piece: usize,
    /// Every how manieth request is refused, before anything was done for it.
    refuses: u64,
}

impl Manner {
    /// Where nothing but single requests goes wrong, one connection takes all that a client asks at
    /// a time: what is not processed is asked again a few times, and then no more.
    fn of(rng: &mut Rng, is_calm: bool) -> Self {
        Self {
            streams: rng.pick(&[1, 3, 100]),
            window: rng.pick(&[1_000, 65_535, 200_000]),
            table: rng.pick(&[0, 256, 4_096]),
            most: rng.pick(if is_calm { &[40, 60, 1_000] } else { &[2, 9, 1_000] }),
            piece: rng.pick(&[300, 5_000, LONGEST]),
            refuses: rng.pick(&[0, 0, 4]),
        }
    }
}

#[derive(Debug)]
struct Link {
    manner: Manner,
    arrived: Vec<u8>,
    has_begun: bool,
    decoder: Decoder,
    encoder: Encoder,
    /// A field section whose end is still to come: its stream, whether that ends, its block.
    open_block: Option<(u32, bool, Vec<u8>)>,
    streams: BTreeMap<u32, Work>,
    last: u32,
    taken: u32,
    /// What may be sent on all streams, and what the client may still send on all.
    window: i64,
    theirs: i64,
    /// The client's SETTINGS_INITIAL_WINDOW_SIZE.
    first_window: i64,
    /// It has acknowledged ours: its streams' windows are what we said.
    is_acknowledged: bool,
    /// GOAWAY was sent, with this stream as the last.
    leaves: Option<u32>,
    is_over: bool,
}

/// One server.
pub struct Streams {
    seed: u64,
    /// It is the second of two.
    is_second: bool,
    /// Nothing but single requests goes wrong: connections stay whole, or leave by GOAWAY.
    is_calm: bool,
    rng: Rng,
    links: HashMap<ConnId, Link>,
    /// When it is killed, and when it is there again.
    kills: VecDeque<(Time, Time)>,
    scratch: Scratch,
    /// Requests that were refused, or might have been.
    refused: HashSet<u32>,
    /// What was injected, by kind.
    pub injected: BTreeMap<&'static str, u64>,
    /// What must not be.
    pub objections: Vec<String>,
}

impl Streams {
    /// The first or second server of a world, and when it is killed.
    #[must_use]
    pub fn new(seed: u64, is_second: bool, is_calm: bool, kills: VecDeque<(Time, Time)>) -> Self {
        Self {
            seed,
            is_second,
            is_calm,
            rng: Rng::new(seed.wrapping_add(2) ^ (u64::from(is_second) << 32)),
            links: HashMap::new(),
            kills,
            scratch: Scratch::default(),
            refused: HashSet::new(),
            injected: BTreeMap::new(),
            objections: Vec::new(),
        }
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.links.len()
    }

    fn is_dead(&self, now: Time) -> bool {
        self.kills.front().is_some_and(|(from, until)| *from <= now && now < *until)
    }

    fn count(&mut self, kind: &'static str) {
        *self.injected.entry(kind).or_default() += 1;
    }

    fn object(&mut self, what: String) {
        self.objections.push(what);
    }

    /// Takes what there is of frames.
    fn take<N: Net>(&mut self, net: &mut N, id: ConnId) {
        loop {
            let Some(link) = self.links.get_mut(&id) else { return };
            if link.is_over {
                link.arrived.clear();
                return;
            }
            if !link.has_begun {
                if link.arrived.len() < PREFACE.len() {
                    return;
                }
                link.has_begun = true;
                let preface: Vec<u8> = link.arrived.drain(..PREFACE.len()).collect();
                if preface != PREFACE {
                    return self.object(format!("no preface: {:?}", String::from_utf8_lossy(&preface)));
                }
                continue;
            }
            let (head, payload) = match next_frame(&mut link.arrived) {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(why) => {
                    self.object(why);
                    return net.abort(id);
                }
            };
            if let Err(why) = self.on_frame(net, id, head, &payload) {
                self.object(format!("{why}: {head:?}"));
                net.abort(id);
                return;
            }
        }
    }

    fn on_frame<N: Net>(&mut self, net: &mut N, id: ConnId, head: FrameHead, payload: &[u8]) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        if link.open_block.is_some() && head.kind != Kind::Continuation {
            return Err("something within a field section".to_owned());
        }
        if head.kind == Kind::Data {
            return self.on_data_frame(net, id, head, payload);
        }
        match frame::read(head, payload).map_err(|why| format!("{why:?}"))? {
            Frame::Headers { stream, block, ends_stream, ends_headers, .. } => {
                link.open_block = Some((stream, ends_stream, block.to_vec()));
                if ends_headers { self.on_request(net, id) } else { Ok(()) }
            }
            Frame::Continuation { stream, block, ends_headers } => {
                match &mut link.open_block {
                    Some((of, _, whole)) if *of == stream => whole.extend_from_slice(block),
                    _ => return Err("CONTINUATION of nothing".to_owned()),
                }
                if ends_headers { self.on_request(net, id) } else { Ok(()) }
            }
            Frame::Settings { entries } => self.on_settings(net, id, entries),
            Frame::SettingsAck => {
                link.decoder.set_limit(link.manner.table);
                let change = i64::from(link.manner.window) - WINDOW;
                link.is_acknowledged = true;
                link.streams.values_mut().for_each(|work| work.theirs += change);
                Ok(())
            }
            Frame::Ping { data } => {
                let mut out = Vec::new();
                frame::write(&mut out, Kind::Ping, frame::ACK, 0, &data);
                net.send_bytes(id, &out);
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => self.on_window(net, id, (stream, increment)),
            Frame::Reset { stream, .. } => {
                if stream > link.last {
                    return Err("a reset of an idle stream".to_owned());
                }
                link.streams.remove(&stream);
                self.leave_if_done(net, id);
                Ok(())
            }
            Frame::GoAway { code, debug, .. } => {
                // It found fault with us, and may, where we had one.
                if code != ErrorCode::NO_ERROR && self.is_calm {
                    return Err(format!("it leaves: {} {}", code.name(), String::from_utf8_lossy(debug)));
                }
                Ok(())
            }
            Frame::PushPromise { .. } => Err("a client that pushes".to_owned()),
            Frame::PingAck { .. } | Frame::Priority { .. } | Frame::PriorityUpdate { .. } | Frame::Other => Ok(()),
        }
    }

    fn on_settings<N: Net>(&mut self, net: &mut N, id: ConnId, entries: &[u8]) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        for (identifier, value) in frame::settings(entries) {
            match identifier {
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - link.first_window;
                    link.first_window = value.into();
                    link.streams.values_mut().for_each(|work| work.window += change);
                }
                setting::HEADER_TABLE_SIZE => link.encoder.set_limit(value),
                setting::ENABLE_PUSH if value != 0 => return Err("pushes are asked for".to_owned()),
                _ => {}
            }
        }
        let mut out = Vec::new();
        frame::write(&mut out, Kind::Settings, frame::ACK, 0, &[]);
        net.send_bytes(id, &out);
        self.go_on(net, id);
        Ok(())
    }

    /// A window opens: a stream's, or all of them's.
    fn on_window<N: Net>(&mut self, net: &mut N, id: ConnId, (stream, increment): (u32, u32)) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        if stream > link.last {
            return Err("a window of an idle stream".to_owned());
        }
        let window = match stream {
            0 => Some(&mut link.window),
            stream => link.streams.get_mut(&stream).map(|work| &mut work.window),
        };
        if let Some(window) = window {
            *window += i64::from(increment);
            if *window > i64::from(i32::MAX) {
                return Err("a window beyond all".to_owned());
            }
        }
        self.go_on(net, id);
        Ok(())
    }

    /// A whole head is there.
    fn on_request<N: Net>(&mut self, net: &mut N, id: ConnId) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        let Some((stream, ends, block)) = link.open_block.take() else { return Ok(()) };
        let fields = decoded(&mut link.decoder, &block, &mut self.scratch)?;
        if stream.is_multiple_of(2) || stream <= link.last {
            return Err("a stream that cannot begin".to_owned());
        }
        link.last = stream;
        let field = |name: &str| fields.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str());
        let path = field(":path").unwrap_or_default();
        let mut parts = path.trim_start_matches('/').split('/');
        let place = parts.next().filter(|place| PLACES.contains(place));
        let number = parts.next().and_then(|number| number.parse().ok());
        let Some((_, number)) = place.zip(number) else { return Err(format!("no request of ours: {fields:?}")) };
        for forbidden in ["connection", "transfer-encoding", "keep-alive", "upgrade", "proxy-connection"] {
            if field(forbidden).is_some() {
                return Err(format!("a field of connections (RFC 9113 section 8.2.2): {fields:?}"));
            }
        }
        if field(":scheme").is_none() || field(":method").is_none() || field(":authority").is_none() {
            return Err(format!("a request without all of it: {fields:?}"));
        }
        let length = field("content-length").and_then(|length| length.parse().ok());
        let open = link.streams.len();
        // It is one above the last that anything is done for: it is to go elsewhere.
        if link.leaves.is_some() {
            return Ok(());
        }
        if link.is_acknowledged && open >= link.manner.streams as usize {
            return Err(format!("{open} streams are open, and one more comes"));
        }
        link.taken += 1;
        let plan = Plan::of(self.seed, number);
        let refuses = link.manner.refuses;
        // What is to be repeated is kept, and is refused once: else it may be nobody's.
        let is_kept = plan.sent == 0 || plan.place != "streamed";
        let may_refuse = is_kept && !(self.is_calm && plan.fault != Fault::None) && self.refused.insert(number);
        if refuses > 0 && may_refuse && self.rng.one_in(refuses) || open >= link.manner.streams as usize {
            let mut out = Vec::new();
            frame::write_reset(&mut out, stream, ErrorCode::REFUSED_STREAM);
            net.send_bytes(id, &out);
            self.count("refuses");
            self.may_leave(net, id);
            return Ok(());
        }
        let theirs = if link.is_acknowledged { link.manner.window.into() } else { WINDOW };
        let work = Work {
            plan: plan.clone(),
            came: 0,
            has_ended: ends,
            length,
            window: link.first_window,
            theirs,
            has_begun: false,
            steps: VecDeque::new(),
            until: None,
        };
        link.streams.insert(stream, work);
        self.may_leave(net, id);
        self.on_body(net, id, stream, &[])
    }

    fn on_data_frame<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        let padding = frame::data_padding(head, payload.first().copied()).map_err(|why| format!("{why:?}"))?;
        let (before, behind) = padding.ok_or("no padding")?;
        let content = &payload[before as usize..payload.len() - behind as usize];
        link.theirs -= payload.len() as i64;
        if link.theirs < 0 {
            return Err("more than all streams together may send".to_owned());
        }
        // It is given back at once: what is slow here is streams.
        let mut out = Vec::new();
        if !payload.is_empty() {
            link.theirs += payload.len() as i64;
            frame::write_window_update(&mut out, 0, payload.len() as u32);
        }
        let Some(work) = link.streams.get_mut(&head.stream) else {
            if head.stream > link.last {
                return Err("content of an idle stream".to_owned());
            }
            net.send_bytes(id, &out);
            return Ok(());
        };
        work.theirs -= payload.len() as i64;
        if work.theirs < 0 {
            return Err(format!("more than its stream may send: {:?}", work.plan));
        }
        if work.has_ended {
            return Err(format!("content behind the end: {:?}", work.plan));
        }
        work.has_ended = head.has(frame::END_STREAM);
        if !work.has_ended && !payload.is_empty() {
            work.theirs += payload.len() as i64;
            frame::write_window_update(&mut out, head.stream, payload.len() as u32);
        }
        net.send_bytes(id, &out);
        self.on_body(net, id, head.stream, content)
    }

    /// More of a request's body came, or its end.
    fn on_body<N: Net>(&mut self, net: &mut N, id: ConnId, stream: u32, content: &[u8]) -> Result<(), String> {
        let (fault, work) = match self.links.get_mut(&id).and_then(|link| link.streams.get_mut(&stream)) {
            Some(work) => (fault_of(self.is_second, self.is_calm, &work.plan), work),
            None => return Ok(()),
        };
        let plan = &work.plan;
        if stamped(plan.number, plan.sent).get(work.came..work.came + content.len()) != Some(content) {
            return Err(format!("another's body: {plan:?} has {:?}", String::from_utf8_lossy(content)));
        }
        work.came += content.len();
        if work.has_ended && work.came != plan.sent {
            return Err(format!("not all of a body, and said to be: {} of {plan:?}", work.came));
        }
        if work.length.is_some_and(|length| length != plan.sent) {
            return Err(format!("a length that is not its body's: {:?} of {plan:?}", work.length));
        }
        if work.has_begun || !work.has_ended && fault != Fault::Early {
            return Ok(());
        }
        work.has_begun = true;
        work.steps.extend(steps(plan, fault, self.is_calm));
        if fault != Fault::None {
            self.count(fault.name());
        }
        self.go_on(net, id);
        Ok(())
    }

    /// It leaves once it has taken as many requests as it takes: what has begun is answered.
    fn may_leave<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.leaves.is_none() && link.taken >= link.manner.most {
            link.leaves = Some(link.last);
            let mut out = Vec::new();
            frame::write_go_away(&mut out, link.last, ErrorCode::NO_ERROR);
            net.send_bytes(id, &out);
            self.count("leaves");
        }
        self.leave_if_done(net, id);
    }

    fn leave_if_done<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.leaves.is_some() && link.streams.is_empty() && !link.is_over {
            link.is_over = true;
            net.finish(id);
        }
    }

    /// Sends what is due on all streams of a connection.
    fn go_on<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let (now, queued) = (net.now(), net.unsent(id));
        let Some(link) = self.links.get_mut(&id) else { return };
        let sent = link.send(queued, now);
        net.send_bytes(id, &sent.out);
        net.set_timer(id, sent.wakes);
        match sent.end {
            Some(Step::Abort) => net.abort(id),
            Some(_) => net.finish(id),
            None => self.leave_if_done(net, id),
        }
    }
}

impl App for Streams {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        let manner = Manner::of(&mut self.rng, self.is_calm);
        let link = Link {
            manner,
            arrived: Vec::new(),
            has_begun: false,
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            open_block: None,
            streams: BTreeMap::new(),
            last: 0,
            taken: 0,
            window: WINDOW,
            theirs: WINDOW,
            first_window: WINDOW,
            is_acknowledged: false,
            leaves: None,
            is_over: false,
        };
        self.links.insert(id, link);
        if self.is_dead(net.now()) {
            self.count("killed: refuses");
            return net.abort(id);
        }
        let mut out = Vec::new();
        let Manner { streams, window, table, .. } = manner;
        frame::write_settings(
            &mut out,
            &[
                (setting::MAX_CONCURRENT_STREAMS, streams),
                (setting::INITIAL_WINDOW_SIZE, window),
                (setting::HEADER_TABLE_SIZE, table),
            ],
        );
        net.send_bytes(id, &out);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if let Some(link) = self.links.get_mut(&id) {
            link.arrived.extend_from_slice(data);
        }
        self.take(net, id);
        data.len()
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _held: usize) {
        // Who asked has left: nobody waits for the rest.
        if let Some(link) = self.links.get_mut(&id) {
            link.is_over = true;
            link.streams.clear();
        }
        net.finish(id);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.go_on(net, id);
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.go_on(net, id);
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, _why: Closed) {
        self.links.remove(&id);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        while self.kills.front().is_some_and(|(_, until)| *until <= now) {
            self.kills.pop_front();
        }
        if self.is_dead(now) {
            let mut open: Vec<ConnId> =
                self.links.iter().filter(|(_, link)| !link.is_over).map(|(id, _)| *id).collect();
            open.sort_by_key(|id| (id.index(), id.generation()));
            for id in open {
                if let Some(link) = self.links.get_mut(&id) {
                    link.is_over = true;
                    if !link.streams.is_empty() {
                        self.count("killed: at work");
                    }
                }
                net.abort(id);
            }
        }
        self.kills.front().map_or(Wake::Idle, |(from, until)| Wake::At(if *from > now { *from } else { *until }))
    }
}
