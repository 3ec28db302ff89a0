//! Connections that are ready, and what each of the streams on them does.

use crate::load::{OwnFields, Prepared};
use crate::streaming::plan::StreamingPlan;
use app::{ConnId, Net};
use h2::{ClientConnection, ClientEvent, ClientSettings, ErrorCode};
use hpack::Scratch;
use wire::Time;

/// What a stream does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It asks as soon as there is a connection, and the server takes one more: it stands in its carrier's line.
    Waiting,
    /// It asks then: the player has no room, or its request failed.
    Resting { until: Time },
    /// An answer is under way, on this connection at this place.
    Asked { id: ConnId, place: u16 },
}

/// One of the streams.
#[derive(Clone, Copy, Debug)]
struct Sharer {
    turn: Turn,
    /// When something of its answer came last, or was let come.
    heard: Time,
}

/// A connection that is ready.
#[derive(Debug)]
pub struct SharedConnection {
    id: ConnId,
    /// Whose it is.
    pub carrier: usize,
    pub client: ClientConnection,
    /// By place, the stream whose request is there.
    asked: Vec<usize>,
    /// Fields of its own.
    fields: Vec<(String, Vec<u8>)>,
    /// What is to be sent.
    pub out: Vec<u8>,
    /// Requests that were answered.
    pub answers: u32,
    /// When it is looked after.
    timer: Time,
}

impl SharedConnection {
    /// It is to be looked after at this time, or before.
    pub fn call_at<N: Net>(&mut self, net: &mut N, at: Time) {
        if at < self.timer {
            self.set_timer(net, at);
        }
    }

    /// The same, and not before.
    pub fn set_timer<N: Net>(&mut self, net: &mut N, at: Time) {
        self.timer = at;
        net.set_timer(self.id, (at < Time::MAX).then_some(at));
    }

    /// The stream whose request is at a place.
    pub fn at(&self, place: u16) -> usize {
        self.asked[usize::from(place)]
    }

    /// Whether the server takes no further requests, and all are answered.
    pub fn is_done(&self) -> bool {
        self.client.is_leaving() && self.client.open_streams() == 0
    }
}

/// Connections and streams of HTTP/2, of one silo or thread.
#[derive(Debug)]
pub struct Shared {
    settings: ClientSettings,
    requests: Vec<Prepared>,
    own: OwnFields,
    sharers: Vec<Sharer>,
    /// By slot.
    connections: Vec<Option<Box<SharedConnection>>>,
    scratch: Scratch,
}

impl Shared {
    /// What a plan needs of it, if it asks for HTTP/2.
    pub fn new(plan: &StreamingPlan) -> Option<Box<Self>> {
        let asked = plan.load.http2?;
        let settings = ClientSettings {
            streams: plan.load.pipeline,
            stream_window: asked.stream_window,
            held: plan.player.is_some(),
            connection_window: asked.connection_window,
            decoder_table: asked.decoder_table,
            encoder_table: asked.encoder_table,
        };
        Some(Box::new(Self {
            settings,
            requests: Prepared::all(&plan.load),
            own: OwnFields::new(&plan.load),
            sharers: vec![Sharer { turn: Turn::Waiting, heard: Time::ZERO }; plan.streams() as usize],
            connections: Vec::new(),
            scratch: Scratch::new(),
        }))
    }

    /// Bytes that a server may send ahead on a stream, at most, where its window is opened by its player.
    pub fn held(&self) -> Option<u32> {
        self.settings.held.then_some(self.settings.stream_window)
    }

    /// Whether this is a connection that is ready, and not given up.
    pub fn has(&self, id: ConnId) -> bool {
        self.connections.get(id.index()).and_then(Option::as_deref).is_some_and(|connection| connection.id == id)
    }

    /// A connection that is ready.
    pub fn get(&mut self, id: ConnId) -> Option<&mut SharedConnection> {
        self.connections.get_mut(id.index())?.as_deref_mut().filter(|connection| connection.id == id)
    }

    /// A connection is ready.
    pub fn begin(&mut self, id: ConnId, carrier: usize) {
        let mut out = Vec::new();
        let client = ClientConnection::new(self.settings, &mut out);
        // Slots are dense.
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.connections[id.index()] = Some(Box::new(SharedConnection {
            id,
            carrier,
            client,
            asked: vec![usize::MAX; usize::from(self.settings.streams)],
            fields: self.own.of(id),
            out,
            answers: 0,
            timer: Time::MAX,
        }));
    }

    /// Takes a connection out that is over, or given up.
    pub fn remove(&mut self, id: ConnId) -> Option<Box<SharedConnection>> {
        if self.has(id) { self.connections[id.index()].take() } else { None }
    }

    /// What a stream does.
    pub fn turn(&self, stream: usize) -> Turn {
        self.sharers[stream].turn
    }

    /// It does something else now.
    pub fn set_turn(&mut self, stream: usize, turn: Turn) {
        self.sharers[stream].turn = turn;
    }

    /// When something of a stream's answer came last, or was let come.
    pub fn heard(&self, stream: usize) -> Time {
        self.sharers[stream].heard
    }

    /// Something came, or is let come.
    pub fn set_heard(&mut self, stream: usize, now: Time) {
        self.sharers[stream].heard = now;
    }

    /// The connection and the place of a stream whose answer is under way.
    pub fn asked(&mut self, stream: usize) -> Option<(&mut SharedConnection, u16)> {
        let Turn::Asked { id, place } = self.sharers[stream].turn else { return None };
        Some((self.get(id)?, place))
    }

    /// Whether the server may send of a stream's answer: its head, or as far as its window is open.
    pub fn is_let_come(&mut self, stream: usize) -> bool {
        let held = self.settings.held;
        self.asked(stream).is_some_and(|(connection, place)| !held || connection.client.window(place) > 0)
    }

    /// Writes a request, of this number, for a stream. Whether the server took one more.
    pub fn ask(&mut self, id: ConnId, stream: usize, number: u16, now: Time) -> bool {
        let Self { connections, requests, .. } = self;
        let connection = connections.get_mut(id.index()).and_then(Option::as_deref_mut);
        let Some(connection) = connection.filter(|connection| connection.id == id) else { return false };
        let prepared = &requests[usize::from(number)];
        let fields = prepared.fields(&connection.fields);
        let Some(place) = connection.client.open(prepared.asked(number), fields, &mut connection.out) else {
            return false;
        };
        connection.asked[usize::from(place)] = stream;
        self.sharers[stream] = Sharer { turn: Turn::Asked { id, place }, heard: now };
        true
    }

    /// The next event in the bytes behind `used`; none on a connection that is not ready, or given up.
    pub fn next_event<'a>(
        &mut self,
        id: ConnId,
        data: &'a [u8],
        used: &mut usize,
    ) -> Option<Result<ClientEvent<'a>, ErrorCode>> {
        let Self { connections, scratch, .. } = self;
        let connection = connections.get_mut(id.index())?.as_deref_mut().filter(|connection| connection.id == id)?;
        let rest = data.get(*used..).unwrap_or_default();
        Some(connection.client.on_bytes(rest, scratch, &mut connection.out).map(|(taken, event)| {
            *used += taken;
            event
        }))
    }

    /// Sends what was written on a connection, and of requests' content what the server's windows are open for;
    /// `numbers` says which request a stream makes.
    pub fn flush<N: Net>(&mut self, net: &mut N, id: ConnId, numbers: impl Fn(usize) -> u16) {
        let Self { connections, requests, .. } = self;
        let connection = connections.get_mut(id.index()).and_then(Option::as_deref_mut);
        let Some(connection) = connection.filter(|connection| connection.id == id) else { return };
        while let Some(piece) = connection.client.poll_data(&mut connection.out) {
            net.send_bytes(id, &connection.out);
            connection.out.clear();
            let number = numbers(connection.at(piece.place));
            // Content has less than 16 MiB.
            let range = piece.range.start as u32..piece.range.end as u32;
            net.send_body(id, &requests[usize::from(number)].content, range);
        }
        if !connection.out.is_empty() {
            net.send_bytes(id, &connection.out);
            connection.out.clear();
        }
    }
}
