//! HTTP/2: connections of many streams, each with a request.
//!
//! What a connection may have under way is handed out as tickets: one for each stream that the
//! plan asks for and the server takes. A ticket waits for a request that is due, or is under
//! way with one; it is taken back where the server takes no more.

use super::{Load, Phase};
use crate::conn::State;
use crate::heads::{UserAgent, choose, number};
use crate::plan::{Plan, Request};
use crate::samples::Class;
use app::{Body, ConnId, Net};
use h1::client::Summary;
use h2::{Asked, ClientConnection, ClientEvent, ClientSettings, ErrorCode};
use hpack::{HeaderField, Indexing, Scratch};
use semantics::Status;

/// Fields that are not kept in tables, as their values seldom come again: those that nghttp2 and
/// browsers leave out.
const NOT_INDEXED: [&str; 7] =
    [":path", "age", "content-length", "etag", "if-modified-since", "if-none-match", "location"];

/// The connections of a silo that speak HTTP/2.
#[derive(Debug)]
pub(super) struct Http2 {
    settings: ClientSettings,
    requests: Vec<Prepared>,
    agents: Vec<UserAgent>,
    seed: u64,
    /// By the connection's slot.
    talks: Vec<Option<Box<Talk>>>,
    scratch: Scratch,
    /// What is to be sent on the connection at hand.
    out: Vec<u8>,
    /// It is sent by who took the event, with what else comes of that.
    holding: bool,
}

/// A request that was taken apart.
#[derive(Debug)]
struct Prepared {
    fields: Vec<(String, Vec<u8>)>,
    content: Body,
    is_head: bool,
}

/// One connection.
#[derive(Debug)]
struct Talk {
    generation: u32,
    client: ClientConnection,
    tickets: u16,
    /// Fields of its own.
    fields: Vec<(String, Vec<u8>)>,
}

impl Http2 {
    /// What a plan needs of it, if it asks for HTTP/2.
    pub fn new(plan: &Plan) -> Option<Box<Self>> {
        let asked = plan.http2?;
        let settings = ClientSettings {
            streams: plan.pipeline,
            stream_window: asked.stream_window,
            connection_window: asked.connection_window,
            decoder_table: asked.decoder_table,
            encoder_table: asked.encoder_table,
        };
        let scheme = if plan.secured.is_some() { "https" } else { "http" };
        let named: Vec<&str> = plan
            .requests
            .iter()
            .flat_map(|request| request.item.headers.iter().map(|(name, _)| name.as_str()))
            .collect();
        Some(Box::new(Self {
            settings,
            requests: plan.requests.iter().map(|request| Prepared::new(&request.item, scheme)).collect(),
            agents: UserAgent::all(plan.heads, &named),
            // As where heads of HTTP/1.1 differ.
            seed: plan.seed ^ 0x6865_6164_7300_0000,
            talks: Vec::new(),
            scratch: Scratch::new(),
            out: Vec::new(),
            holding: false,
        }))
    }

    /// A connection is there.
    fn begin(&mut self, id: ConnId) {
        let mut fields = Vec::new();
        let number = number(self.seed, id);
        if let Some(agent) = choose(&self.agents, number) {
            let mut lines = Vec::new();
            agent.write(number, &mut lines);
            fields = fields_of(&lines);
        }
        let client = ClientConnection::new(self.settings, &mut self.out);
        // Slots are dense, and as many as the plan has connections.
        if id.index() >= self.talks.len() {
            self.talks.resize_with(id.index() + 1, || None);
        }
        self.talks[id.index()] = Some(Box::new(Talk { generation: id.generation(), client, tickets: 0, fields }));
    }

    /// A connection is gone.
    pub fn forget(&mut self, id: ConnId) {
        if self.talk(id).is_some() {
            self.talks[id.index()] = None;
        }
    }

    #[inline]
    fn talk(&self, id: ConnId) -> Option<&Talk> {
        self.talks.get(id.index())?.as_deref().filter(|talk| talk.generation == id.generation())
    }

    #[inline]
    fn talk_mut(&mut self, id: ConnId) -> Option<&mut Talk> {
        self.talks.get_mut(id.index())?.as_deref_mut().filter(|talk| talk.generation == id.generation())
    }

    /// Whether one more request may be sent on a connection now.
    #[inline]
    pub fn has_room(&self, id: ConnId) -> bool {
        self.talk(id).is_some_and(|talk| talk.client.room() > 0)
    }

    /// A ticket has no stream.
    pub fn drop_ticket(&mut self, id: ConnId) {
        if let Some(talk) = self.talk_mut(id) {
            talk.tickets = talk.tickets.saturating_sub(1);
        }
    }

    /// Hands out one more ticket, if the server takes as many streams.
    fn take_ticket(&mut self, id: ConnId) -> bool {
        let Some(talk) = self.talk_mut(id) else { return false };
        let more = usize::from(talk.tickets) < talk.client.room() + talk.client.open_streams();
        talk.tickets += u16::from(more);
        more
    }

    /// The places of requests under way on a connection.
    pub fn places(&self, id: ConnId) -> impl Iterator<Item = u16> {
        self.talk(id).into_iter().flat_map(|talk| talk.client.places())
    }

    /// Writes a request; its place. What of its content may be sent, follows.
    #[inline]
    pub fn ask(&mut self, id: ConnId, number: u16) -> Option<u16> {
        let talk = self.talks.get_mut(id.index())?.as_deref_mut().filter(|talk| talk.generation == id.generation())?;
        let prepared = &self.requests[usize::from(number)];
        let asked = Asked { number: number.into(), content: prepared.content.len().into(), is_head: prepared.is_head };
        let fields = prepared.fields.iter().chain(&talk.fields).map(|(name, value)| {
            let indexing = if NOT_INDEXED.contains(&name.as_str()) { Indexing::Without } else { Indexing::Incremental };
            (HeaderField { name: name.as_bytes(), value, sensitive: name == "authorization" }, indexing)
        });
        talk.client.open(asked, fields, &mut self.out)
    }

    /// Bytes that are to be sent.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    pub fn is_holding(&self) -> bool {
        self.holding
    }
}

impl Prepared {
    fn new(request: &Request, scheme: &str) -> Self {
        let text = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let mut fields = vec![
            text(":method", &request.method),
            text(":scheme", scheme),
            text(":authority", &request.host),
            text(":path", &request.path),
        ];
        fields.extend(request.headers.iter().map(|(name, value)| text(&name.to_ascii_lowercase(), value)));
        if !request.body.is_empty() {
            fields.push(text("content-length", &request.body.len().to_string()));
        }
        Self { fields, content: Body::new(request.body.clone()), is_head: request.is_head() }
    }
}

/// The fields of lines of HTTP/1.1, as HTTP/2 has them: names in lower case (RFC 9113 section
/// 8.2), cookies each by itself (section 8.2.3).
fn fields_of(lines: &[u8]) -> Vec<(String, Vec<u8>)> {
    let lines = String::from_utf8_lossy(lines);
    let pairs = lines.split("\r\n").filter_map(|line| line.split_once(": "));
    let mut fields = Vec::new();
    for (name, value) in pairs {
        let name = name.to_ascii_lowercase();
        let crumbs = if name == "cookie" { "; " } else { "\0" };
        fields.extend(value.split(crumbs).map(|value| (name.clone(), value.as_bytes().to_vec())));
    }
    fields
}

impl Load {
    /// A connection is there: what it begins with, and its first requests.
    pub(super) fn begin_http2<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(http2) = &mut self.http2 else { return };
        http2.begin(id);
        http2.holding = true;
        self.hand_out(net, id);
        self.flush(net, id);
    }

    /// Hands out the tickets that a connection lacks.
    fn hand_out<N: Net>(&mut self, net: &mut N, id: ConnId) {
        while !matches!(self.phase, Phase::Ended) && self.http2.as_mut().is_some_and(|http2| http2.take_ticket(id)) {
            self.again(net, id);
        }
    }

    /// Sends what was written, and as much content as the server's windows are open for.
    pub(super) fn flush<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(http2) = &mut self.http2 else { return };
        http2.holding = false;
        let Http2 { talks, out, requests, .. } = &mut **http2;
        if let Some(talk) = talks.get_mut(id.index()).and_then(Option::as_deref_mut) {
            while let Some(piece) = talk.client.poll_data(out) {
                let number = self.table.kind_at(id, piece.place);
                self.counts.traffic.sent_bytes += (piece.range.end - piece.range.start) + h2::frame::HEAD as u64;
                net.send_bytes(id, out);
                out.clear();
                // Bodies have less than 16 MiB.
                let range = piece.range.start as u32..piece.range.end as u32;
                net.send_body(id, &requests[usize::from(number)].content, range);
            }
        }
        if !out.is_empty() {
            net.send_bytes(id, out);
            out.clear();
        }
    }

    /// As `on_data`, over HTTP/2.
    pub(super) fn on_frames<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let mut used = 0;
        if let Some(http2) = &mut self.http2 {
            http2.holding = true;
        }
        loop {
            match self.table.get(id).map(|conn| conn.state) {
                Some(State::Securing) => return self.on_handshake_bytes(net, id, data),
                Some(State::Idle | State::Busy) => {}
                // What comes after the end is of no interest.
                _ => {
                    self.flush(net, id);
                    return data.len();
                }
            }
            let Some(http2) = &mut self.http2 else { return data.len() };
            let Http2 { talks, scratch, out, .. } = &mut **http2;
            let Some(talk) = talks.get_mut(id.index()).and_then(Option::as_deref_mut) else { return data.len() };
            let rest = data.get(used..).unwrap_or_default();
            let Ok((taken, event)) = talk.client.on_bytes(rest, scratch, out) else {
                self.flush(net, id);
                self.on_malformed(net, id);
                return data.len();
            };
            used += taken;
            self.counts.traffic.received_bytes += taken as u64;
            match event {
                ClientEvent::NeedMore => break,
                ClientEvent::Nothing | ClientEvent::Head { .. } | ClientEvent::Data { .. } => {}
                ClientEvent::Room => self.hand_out(net, id),
                ClientEvent::Over { place, status, content } => self.on_over(net, id, place, (status, content)),
                event => self.on_stream_failed(net, id, event),
            }
        }
        self.flush(net, id);
        used
    }

    #[inline]
    fn on_over<N: Net>(&mut self, net: &mut N, id: ConnId, place: u16, (status, body): (u16, u64)) {
        let Some(status) = Status::from_code(status) else {
            return self.on_stream_failed(net, id, ClientEvent::Malformed { place });
        };
        self.table.set_oldest(id, place);
        // The last answer of a connection that is to go.
        let keep_alive = !self.is_done_with(id);
        self.on_response(net, id, Summary { status, keep_alive, body });
    }

    /// The server takes no further requests on a connection, and all are answered.
    fn is_done_with(&self, id: ConnId) -> bool {
        let talk = self.http2.as_ref().and_then(|http2| http2.talk(id));
        talk.is_some_and(|talk| talk.client.is_leaving() && talk.client.open_streams() == 0)
    }

    /// A request came to nothing, or several.
    #[cold]
    fn on_stream_failed<N: Net>(&mut self, net: &mut N, id: ConnId, event: ClientEvent<'_>) {
        let errors = &mut self.counts.errors;
        match event {
            ClientEvent::Reset { place, code } => {
                let refused = code == ErrorCode::REFUSED_STREAM;
                *(if refused { &mut errors.refused_streams } else { &mut errors.reset_streams }) += 1;
                self.end_stream(net, id, place);
            }
            ClientEvent::Malformed { place } => {
                errors.malformed += 1;
                self.end_stream(net, id, place);
            }
            _ => {
                self.counts.connections.go_aways += 1;
                while let Some(place) = self.http2.as_mut().and_then(|http2| http2.talk_mut(id)?.client.unprocessed()) {
                    self.counts.errors.unprocessed += 1;
                    self.end_stream(net, id, place);
                }
            }
        }
        let here = self.table.get(id).is_some_and(|conn| conn.state != State::Leaving);
        if here && self.is_done_with(id) {
            self.leave(net, id);
        }
    }

    /// A request failed by itself: its ticket is free for another.
    fn end_stream<N: Net>(&mut self, net: &mut N, id: ConnId, place: u16) {
        let now = net.now();
        self.table.set_oldest(id, place);
        self.end_oldest(id, now, Class::Failed);
        self.done(now, 1);
        self.again(net, id);
    }

    /// Since when the oldest request of a connection is under way: with many at a time, that is
    /// looked for when it is asked for.
    pub(super) fn refresh_oldest(&mut self, id: ConnId) {
        let Some(http2) = &self.http2 else { return };
        if let Some(oldest) = http2.places(id).map(|place| self.table.sent_at(id, place)).min() {
            self.table.set_since(id, oldest);
        }
    }

    /// Says good bye on a connection that is to be finished.
    pub(super) fn say_goodbye<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if let Some(http2) = &mut self.http2 {
            let Http2 { talks, out, .. } = &mut **http2;
            if let Some(talk) = talks.get(id.index()).and_then(Option::as_deref) {
                talk.client.leave(out);
            }
            self.flush(net, id);
        }
    }
}
