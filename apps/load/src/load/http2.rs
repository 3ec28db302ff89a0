//! HTTP/2: connections of many streams, each with a request.
//!
//! What a connection may have under way is handed out as tickets: one for each stream that the
//! plan asks for and the server takes. A ticket waits for a request that is due, or is under
//! way with one; it is taken back where the server takes no more.

use super::go_away::Going;
use super::prepared::{OwnFields, Prepared};
use super::{Load, Phase};
use crate::checks::{Wrong, excerpt};
use crate::conn::State;
use crate::figures::Ended;
use crate::grpc::{Grpc, GrpcStatus, Message};
use crate::plan::{Plan, Reuse};
use crate::samples::Class;
use app::{ConnId, Net};
use core::time::Duration;
use h1::client::Summary;
use h2::{ClientConnection, ClientEvent, ClientSettings, ErrorCode};
use hpack::Scratch;
use semantics::Status;
use wire::Time;

/// The connections of a silo that speak HTTP/2.
#[derive(Debug)]
pub(super) struct Http2 {
    settings: ClientSettings,
    grpc: Option<Grpc>,
    /// Why the server cannot be asked.
    pub failure: Option<String>,
    requests: Vec<Prepared>,
    own: OwnFields,
    /// By the connection's slot.
    talks: Vec<Option<Box<Talk>>>,
    pub going: Going,
    scratch: Scratch,
    /// What is to be sent on the connection at hand.
    out: Vec<u8>,
    /// It is sent by who took the event, with what else comes of that.
    holding: bool,
}

/// One connection.
#[derive(Debug)]
struct Talk {
    generation: u32,
    client: ClientConnection,
    tickets: u16,
    /// Whether the server said that it takes no further requests.
    told_to_go: bool,
    /// Whether the server has answered any.
    answered: bool,
    /// Whether it waits to send more.
    waits: bool,
    /// By place, the beginning of an answer's content; of calls alone.
    messages: Vec<Message>,
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
            held: false,
            connection_window: asked.connection_window,
            decoder_table: asked.decoder_table,
            encoder_table: asked.encoder_table,
        };
        Some(Box::new(Self {
            settings,
            grpc: asked.grpc,
            failure: None,
            requests: Prepared::all(plan),
            own: OwnFields::new(plan),
            talks: Vec::new(),
            going: Going::default(),
            scratch: Scratch::new(),
            out: Vec::new(),
            holding: false,
        }))
    }

    /// A connection is there.
    fn begin(&mut self, id: ConnId) {
        let fields = self.own.of(id);
        let client = ClientConnection::new(self.settings, &mut self.out);
        // Slots are dense, and as many as the plan has connections.
        if id.index() >= self.talks.len() {
            self.talks.resize_with(id.index() + 1, || None);
        }
        let messages = if self.grpc.is_some() { usize::from(self.settings.streams) } else { 0 };
        self.talks[id.index()] = Some(Box::new(Talk {
            generation: id.generation(),
            client,
            tickets: 0,
            told_to_go: false,
            answered: false,
            waits: false,
            messages: vec![Message::default(); messages],
            fields,
        }));
    }

    /// A connection is told to go. Whether it is the first time.
    pub fn tell_to_go(&mut self, id: ConnId) -> bool {
        self.talk_mut(id).is_some_and(|talk| !core::mem::replace(&mut talk.told_to_go, true))
    }

    /// Whether a connection was told to go.
    pub fn is_told_to_go(&self, id: ConnId) -> bool {
        self.talk(id).is_some_and(|talk| talk.told_to_go)
    }

    /// Whether no request was answered on a connection, and none will be.
    pub fn came_to_nothing(&self, id: ConnId) -> bool {
        self.talk(id).is_some_and(|talk| !talk.answered && talk.client.open_streams() == 0)
    }

    /// The place of a request that was not processed, on a connection that is told to go.
    pub fn unprocessed(&mut self, id: ConnId) -> Option<u16> {
        self.talk_mut(id)?.client.unprocessed()
    }

    /// A connection waits to send more, if it has room for it and does not wait.
    fn wait(&mut self, id: ConnId) {
        if let Some(talk) = self.talk_mut(id).filter(|talk| !talk.waits && talk.lacks_ticket()) {
            talk.waits = true;
            self.going.wait(id);
        }
    }

    /// The next connection that waits to send more. What it writes is held until it is flushed.
    fn next_short(&mut self) -> Option<ConnId> {
        let id = self.going.next_short()?;
        self.hold();
        if let Some(talk) = self.talk_mut(id) {
            talk.waits = false;
        }
        Some(id)
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
        let more = talk.lacks_ticket();
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
        let place = talk.client.open(prepared.asked(number), prepared.fields(&talk.fields), &mut self.out)?;
        if let Some(message) = talk.messages.get_mut(usize::from(place)) {
            *message = Message::default();
        }
        Some(place)
    }

    /// A connection, and what is to be sent on it.
    fn talk_and_out(&mut self, id: ConnId) -> Option<(&mut Talk, &mut Vec<u8>)> {
        let Self { talks, out, .. } = self;
        let talk = talks.get_mut(id.index())?.as_deref_mut().filter(|talk| talk.generation == id.generation())?;
        Some((talk, out))
    }

    /// The next event of a connection that is of interest here, in the bytes behind `used`; none where they
    /// end the connection.
    #[inline]
    fn next_event<'a>(&mut self, id: ConnId, data: &'a [u8], used: &mut usize) -> Option<ClientEvent<'a>> {
        let Self { talks, scratch, out, .. } = self;
        let talk = talks.get_mut(id.index())?.as_deref_mut()?;
        loop {
            let rest = data.get(*used..).unwrap_or_default();
            let (taken, event) = talk.client.on_bytes(rest, scratch, out).ok()?;
            *used += taken;
            match event {
                ClientEvent::Head { place, grpc_encoding: true, .. } => {
                    if let Some(message) = talk.messages.get_mut(usize::from(place)) {
                        message.may_be_compressed();
                    }
                }
                ClientEvent::Nothing | ClientEvent::Head { .. } => {}
                ClientEvent::Data { place, bytes } => {
                    if let Some(message) = talk.messages.get_mut(usize::from(place)) {
                        message.take(bytes);
                    }
                }
                event => return Some(event),
            }
        }
    }

    /// Bytes that are to be sent.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Whatever is written waits until it is flushed.
    fn hold(&mut self) {
        self.holding = true;
    }

    pub fn is_holding(&self) -> bool {
        self.holding
    }
}

impl Talk {
    /// Whether the server takes more streams than there are tickets for.
    #[inline]
    fn lacks_ticket(&self) -> bool {
        usize::from(self.tickets) < self.client.room() + self.client.open_streams()
    }
}

impl Load {
    /// A connection is there: what it begins with, and its first requests.
    pub(super) fn begin_http2<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(http2) = &mut self.http2 else { return };
        http2.begin(id);
        http2.going.fill(net.now());
        http2.holding = true;
        self.hand_out(net, id);
        self.flush(net, id);
    }

    /// Hands out the tickets that a connection lacks.
    fn hand_out<N: Net>(&mut self, net: &mut N, id: ConnId) {
        while !matches!(self.phase, Phase::Ended)
            && !self.is_full()
            && self.http2.as_mut().is_some_and(|http2| http2.take_ticket(id))
        {
            self.again(net, id);
        }
        if self.is_full()
            && let Some(http2) = &mut self.http2
        {
            http2.wait(id);
        }
    }

    /// Requests ended on connections that were told to go: others send in their place.
    pub(super) fn hand_out_freed<N: Net>(&mut self, net: &mut N, starts: &mut u32) {
        while *starts > 0
            && self.is_short()
            && let Some(id) = self.http2.as_mut().and_then(|http2| http2.next_short())
        {
            *starts -= 1;
            self.hand_out(net, id);
            self.flush(net, id);
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
            http2.hold();
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
            let before = used;
            let next = http2.next_event(id, data, &mut used);
            self.counts.traffic.received_bytes += (used - before) as u64;
            match next {
                Some(ClientEvent::NeedMore) => break,
                Some(ClientEvent::Room) => self.hand_out(net, id),
                Some(ClientEvent::Over { place, status, content, grpc_status }) => {
                    self.on_over(net, id, (place, grpc_status), (status, content));
                }
                Some(event) => self.on_stream_failed(net, id, event),
                None => {
                    self.flush(net, id);
                    if !self.on_no_http2(net, id, data) {
                        self.on_malformed(net, id);
                    }
                    return data.len();
                }
            }
        }
        self.flush(net, id);
        used
    }

    #[inline]
    fn on_over<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        (place, said): (u16, Option<u16>),
        (status, body): (u16, u64),
    ) {
        let Some(status) = Status::from_code(status) else {
            return self.on_stream_failed(net, id, ClientEvent::Malformed { place });
        };
        self.table.set_oldest(id, place);
        let talk = self.http2.as_mut().and_then(|http2| http2.talk_mut(id));
        if talk.is_some_and(|talk| !core::mem::replace(&mut talk.answered, true)) {
            self.backoff = Duration::ZERO;
        }
        // The last answer of a connection that is to go.
        let keep_alive = !self.is_done_with(id);
        let summary = Summary { status, keep_alive, body };
        if self.http2.as_ref().is_some_and(|http2| http2.grpc.is_some()) {
            return self.on_call_answered(net, id, (place, said), summary);
        }
        self.on_response(net, id, summary);
    }

    /// The server takes no further requests on a connection, and all are answered.
    fn is_done_with(&self, id: ConnId) -> bool {
        let talk = self.http2.as_ref().and_then(|http2| http2.talk(id));
        talk.is_some_and(|talk| talk.client.is_leaving() && talk.client.open_streams() == 0)
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

/// Requests that come to no answer, and calls of gRPC.
impl Load {
    /// A call is answered: what it came to is what `grpc-status` said, and no call is right without
    /// its message. In all classes it is of that which its status stands for.
    #[inline]
    fn on_call_answered<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        (place, said): (u16, Option<u16>),
        summary: Summary,
    ) {
        let status = GrpcStatus::of_answer(summary.status.code(), said);
        self.counts.grpc.count(status);
        self.count_class(status.class());
        let wrong = if status == GrpcStatus::Ok { self.wrong_with(id, place, summary.body) } else { None };
        if let Some(wrong) = wrong {
            let errors = &mut self.counts.errors;
            *(if wrong == Wrong::Message { &mut errors.wrong_message } else { &mut errors.wrong_flag }) += 1;
            self.sample_wrong(self.table.kind_at(id, place), wrong, &summary);
        }
        self.on_classed(net, id, summary, (status.class(), wrong.is_some()));
    }

    /// What is wrong with the content of an answer.
    #[inline]
    fn wrong_with(&self, id: ConnId, place: u16, content: u64) -> Option<Wrong> {
        let talk = self.http2.as_ref().and_then(|http2| http2.talk(id));
        talk.and_then(|talk| talk.messages.get(usize::from(place)))?.wrong(content)
    }

    /// A request came to nothing, or several.
    #[cold]
    fn on_stream_failed<N: Net>(&mut self, net: &mut N, id: ConnId, event: ClientEvent<'_>) {
        match event {
            ClientEvent::Reset { place, beyond_limit: true, .. } => {
                self.take_back(net.now(), id, place);
                self.hand_out(net, id);
            }
            ClientEvent::Reset { place, code, .. }
                if code == ErrorCode::CANCEL && self.is_overdue(net.now(), id, place) =>
            {
                self.on_deadline(net, id, place);
            }
            ClientEvent::Reset { place, code, .. } => {
                let (errors, refused) = (&mut self.counts.errors, code == ErrorCode::REFUSED_STREAM);
                *(if refused { &mut errors.refused_streams } else { &mut errors.reset_streams }) += 1;
                self.end_stream(net, id, (place, Class::Failed));
            }
            ClientEvent::Malformed { place } => {
                self.counts.errors.malformed += 1;
                self.end_stream(net, id, (place, Class::Failed));
            }
            _ => self.on_go_away(net.now(), id),
        }
        let here = self.table.get(id).is_some_and(|conn| conn.state != State::Leaving);
        if here && self.is_done_with(id) {
            self.leave(net, id);
        }
    }

    /// Whether a call has come to its deadline, by the server's clock.
    fn is_overdue(&self, now: Time, id: ConnId, place: u16) -> bool {
        let age = now.since(Time::from_nanos(self.table.sent_at(id, place)));
        self.plan.grpc().is_some_and(|grpc| grpc.is_overdue(age))
    }

    /// A call came to its deadline: its time is the one that it was waited for.
    fn on_deadline<N: Net>(&mut self, net: &mut N, id: ConnId, place: u16) {
        self.counts.errors.deadlines += 1;
        self.counts.grpc.count(GrpcStatus::DeadlineExceeded);
        self.end_stream(net, id, (place, Class::TimedOut));
    }

    /// The server takes no further requests on a connection, and may say so twice (RFC 9113 section 6.8).
    fn on_go_away(&mut self, now: Time, id: ConnId) {
        let Some(http2) = &mut self.http2 else { return };
        if http2.tell_to_go(id) {
            http2.going.begin(now);
            self.counts.connections.go_aways += 1;
            self.lost += u64::from(self.reuse == Reuse::KeepAlive);
            if let Some(open) = &mut self.open_loop {
                open.forget(id);
            }
        }
        while let Some(place) = self.http2.as_mut().and_then(|http2| http2.unprocessed(id)) {
            self.take_back(now, id, place);
        }
        // Else one could follow the other as fast as connects succeed.
        if self.http2.as_ref().is_some_and(|http2| http2.came_to_nothing(id)) {
            self.back_off(now);
        }
    }

    /// A request was not processed: it is no failure, and one is sent in its place (RFC 9113 section
    /// 8.7). In an open loop that is due since this one was.
    fn take_back(&mut self, now: Time, id: ConnId, place: u16) {
        self.table.set_oldest(id, place);
        let due = self.table.oldest_due(id);
        let sent = self.table.pop(id);
        self.progress.taken_back(sent, now);
        self.counts.traffic.unprocessed += 1;
        if let Some(http2) = &mut self.http2 {
            http2.drop_ticket(id);
        }
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        self.allowance = self.allowance.saturating_add(1);
        if let (Some(open), Some(due)) = (&mut self.open_loop, due) {
            open.take_back(Time::from_nanos(due));
        }
    }

    /// A request failed by itself: its ticket is free for another.
    fn end_stream<N: Net>(&mut self, net: &mut N, id: ConnId, (place, class): (u16, Class)) {
        let now = net.now();
        self.table.set_oldest(id, place);
        self.end_oldest(id, now, class);
        self.done(now, 1);
        self.again(net, id);
    }

    /// Ends the calls of a connection whose deadline is over, and looks again when the next is.
    pub(super) fn end_overdue_calls<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let (now, patience) = (net.now(), self.plan.patience());
        let places: Vec<u16> = self.http2.iter().flat_map(|http2| http2.places(id)).collect();
        if let Some(http2) = &mut self.http2 {
            http2.hold();
        }
        for place in places {
            if now.since(Time::from_nanos(self.table.sent_at(id, place))) < patience {
                continue;
            }
            let Some((talk, out)) = self.http2.as_mut().and_then(|http2| http2.talk_and_out(id)) else { continue };
            talk.client.cancel(place, out);
            self.on_deadline(net, id, place);
        }
        self.flush(net, id);
        if self.is_done_with(id) {
            return self.leave(net, id);
        }
        self.refresh_oldest(id);
        if let Some(conn) = self.table.get_mut(id).filter(|conn| conn.state == State::Busy) {
            conn.timed = true;
            net.set_timer(id, Some(Time::from_nanos(conn.since) + patience));
        }
    }

    /// What came on a connection is not HTTP/2, or its end is not: whether that is because the
    /// server does not speak it. What it sends first are its settings (RFC 9113 section 3.4). If it
    /// never did, no other connection will do better.
    #[cold]
    pub(super) fn on_no_http2<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> bool {
        let talk = self.http2.as_ref().and_then(|http2| http2.talk(id));
        let conn = self.table.get(id).filter(|conn| matches!(conn.state, State::Idle | State::Busy));
        let Some(conn) = conn.filter(|_| talk.is_some_and(|talk| !talk.client.is_settled())) else { return false };
        let asked = conn.asked;
        self.counts.errors.misspoken += u64::from(asked);
        self.give_up(net, id);
        if self.counts.traffic.responses == 0 && !matches!(self.phase, Phase::Ended) {
            let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
            let what = if line.is_empty() { "a few bytes".to_owned() } else { format!("\"{}\"", excerpt(line)) };
            let why = format!("the server does not speak HTTP/2: what came first are not its settings, but {what}");
            if let Some(http2) = &mut self.http2 {
                http2.failure = Some(why);
            }
            self.end(net.now(), Ended::NotHttp2);
        }
        true
    }
}
