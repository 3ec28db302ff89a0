//! The general way beside each short one.
//!
//! Nearly every segment takes a short way: its headers are read and written in
//! one go ([`wire::plain`]), and a connection that is undisturbed takes and
//! gives it with the checks left out that cannot fail
//! ([`tcp::Connection::on_light`], [`tcp::Connection::poll_light`] and those of
//! the connection's end). Each promises to do what the general way would have
//! done. Where frames go through an [`Egress`] that is watched, this is held
//! against it: the stack goes back to what it was before the short way, takes
//! the general one, and what both left is compared: what the application is
//! told, the connection field by field, frames byte by byte, counters, and what
//! the connection is listed for. Then it goes on with what the short way left,
//! so that a run is the same with and without.
//!
//! Only the simulator watches: the default of [`Egress::watched`] is nobody,
//! and the compiler leaves out what would ask further.

use crate::egress::{Frame, opening_of};
use crate::flow::Flow;
use crate::ingress::{Envelope, is_martian_v4};
use crate::slots::Slot;
use crate::timers::DelayedAck;
use crate::wheel::Wheel;
use crate::{Arrival, Arrived, Counters, Egress, LinkOffload, Stack};
use app::{Closed, ConnId, Net};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use tcp::{Connection, Emit, EmitOptions, Outcome};
use wire::ethernet::EthernetHeader;
use wire::plain::{self, Plain};
use wire::tcp::{Opening, TcpHeader};
use wire::{Mac, Offload, Time};

/// Who looks at what goes through an [`Egress`].
pub enum Watched<'a> {
    /// Nobody.
    No,
    /// Short ways are held against the general ones.
    By(&'a mut dyn Shadow),
    /// What comes is of a general way that is taken to compare with.
    Rehearsal(&'a mut Rehearsal),
}

impl Watched<'_> {
    /// Whether short ways are to be held against the general ones.
    #[inline(always)]
    pub(crate) const fn by_anybody(&self) -> bool {
        matches!(self, Self::By(_))
    }

    /// Whether this is a general way that is only tried: nobody else may feel
    /// it.
    #[inline(always)]
    pub(crate) const fn in_rehearsal(&self) -> bool {
        matches!(self, Self::Rehearsal(_))
    }

    /// Whether frames are: those of general ways, too.
    #[inline(always)]
    pub(crate) const fn at_all(&self) -> bool {
        !matches!(self, Self::No)
    }
}

/// Who hears of what short ways did.
pub trait Shadow {
    /// A short way was taken, and left what the general one leaves, or else.
    fn on_compared(&mut self, way: Way, drift: Option<Drift>);

    /// A copy of what a short way left, before it is compared: whoever changes
    /// it sees that this is noticed.
    fn tamper(&mut self, _way: Way, _left: &mut Left<'_>) {}
}

/// A short way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// A frame's headers, read in one go.
    Parse,
    /// A segment of a light connection.
    Light,
    /// The segment that is expected next, of any connection.
    Expected,
    /// A segment that ends one.
    Orderly,
    /// All that a light connection has to send.
    SendLight,
    /// What ends it.
    SendOrderly,
    /// The SYN that opens one.
    SendOpening,
    /// A frame's headers, written in one go.
    Build,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Parse,
        Self::Light,
        Self::Expected,
        Self::Orderly,
        Self::SendLight,
        Self::SendOrderly,
        Self::SendOpening,
        Self::Build,
    ];
}

/// What a short way left, as far as it may be changed.
pub struct Left<'a> {
    /// The connection.
    pub tcp: Option<&'a mut Connection>,
    /// What the application is told.
    pub outcome: Option<&'a mut Outcome>,
    /// What TCP counted.
    pub counters: Option<&'a mut tcp::Counters>,
    /// The frames sent.
    pub frames: &'a mut [Vec<u8>],
}

/// A short way did not do what the general one does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drift {
    /// Which.
    pub way: Way,
    /// Our end of the connection, if it was known by then.
    pub local: Option<SocketAddr>,
    /// The peer's.
    pub remote: Option<SocketAddr>,
    /// What differs, short and general.
    pub what: Vec<String>,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} drifts from the general way", self.way)?;
        if let (Some(local), Some(remote)) = (self.local, self.remote) {
            write!(f, " on {local} with {remote}")?;
        }
        write!(f, " (short / general): {}", self.what.join("; "))
    }
}

/// Takes the frames of a general way that is only tried.
pub struct Rehearsal {
    buffer: Vec<u8>,
    room: usize,
    frames: Vec<Vec<u8>>,
    /// Segments go no further than to here.
    seeks: bool,
    seen: Option<Seen>,
    /// What differed below what is compared.
    drifts: Vec<Drift>,
}

/// A segment, as the layers below TCP hand it on.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    flow: Flow,
    envelope: Envelope,
    header: TcpHeader,
    /// Where the payload is, and how long.
    payload: (usize, usize),
}

impl Rehearsal {
    fn new(mtu: u16, room: usize) -> Self {
        // Room for the longest headers before what the MTU counts.
        let buffer = vec![0; usize::from(mtu) + 64];
        Self { buffer, room, frames: Vec::new(), seeks: false, seen: None, drifts: Vec::new() }
    }

    /// Takes a segment, where that is all that is asked for.
    pub(crate) fn take(&mut self, flow: &Flow, envelope: &Envelope, header: &TcpHeader, payload: &[u8]) -> bool {
        if self.seeks {
            self.seen = Some(Seen::new(*flow, *envelope, *header, payload));
        }
        self.seeks
    }
}

impl Egress for Rehearsal {
    fn room(&self) -> usize {
        self.room
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        (self.room > 0).then_some(&mut self.buffer)
    }
    fn commit(&mut self, len: usize, _offload: Offload) {
        self.room -= 1;
        self.frames.push(self.buffer[..len].to_vec());
    }
    fn watched(&mut self) -> Watched<'_> {
        Watched::Rehearsal(self)
    }
}

impl Seen {
    fn new(flow: Flow, envelope: Envelope, header: TcpHeader, payload: &[u8]) -> Self {
        Self { flow, envelope, header, payload: (payload.as_ptr().addr(), payload.len()) }
    }
}

/// Keeps a copy of the frames that a short way sends.
struct Tapped<'a> {
    inner: &'a mut dyn Egress,
    frames: Vec<Vec<u8>>,
}

impl Egress for Tapped<'_> {
    fn room(&self) -> usize {
        self.inner.room()
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        self.inner.slot()
    }
    fn commit(&mut self, len: usize, offload: Offload) {
        let built = self.inner.slot().and_then(|slot| slot.get(..len)).map(<[u8]>::to_vec);
        self.frames.extend(built);
        self.inner.commit(len, offload);
    }
}

/// All of the stack that a segment of one connection may change, but the timer
/// wheel, which bears entries that nobody waits for.
struct Before {
    slot: Slot,
    counters: Counters,
    tcp_counters: tcp::Counters,
    receive_memory: usize,
    confirmed: Option<Time>,
    ready: usize,
    over: usize,
    delayed_acks: usize,
}

/// The same, after a way was taken.
struct After {
    slot: Slot,
    counters: Counters,
    tcp_counters: tcp::Counters,
    receive_memory: usize,
    confirmed: Option<Time>,
    ready: Vec<u32>,
    over: Vec<(ConnId, Closed)>,
    delayed_acks: Vec<DelayedAck>,
}

impl After {
    /// Shows a copy of it to whoever watches, who may change it for the
    /// comparison. Returns what to go on with.
    fn lay_open(
        &mut self,
        out: &mut impl Egress,
        way: Way,
        outcome: Option<&mut Outcome>,
        frames: &mut [Vec<u8>],
    ) -> (Slot, tcp::Counters) {
        let kept = (self.slot.clone(), self.tcp_counters);
        if let Watched::By(shadow) = out.watched() {
            let (tcp, counters) = (Some(&mut self.slot.tcp), Some(&mut self.tcp_counters));
            shadow.tamper(way, &mut Left { tcp, outcome, counters, frames });
        }
        kept
    }

    fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = self.slot.tcp.differences(&other.slot.tcp);
        let mut differ = |differs: bool, what: &dyn Fn() -> String| {
            if differs {
                found.push(what());
            }
        };
        differ(!self.slot.is_same(&other.slot), &|| "the slot's mark, neighbour or timer".into());
        for ((name, short), (_, general)) in self.tcp_counters.iter().zip(other.tcp_counters.iter()) {
            differ(short != general, &|| format!("{name} {short} / {general}"));
        }
        for ((name, short), (_, general)) in self.counters.iter().zip(other.counters.iter()) {
            differ(short != general, &|| format!("{name} {short} / {general}"));
        }
        let [memory, other_memory] = [self, other].map(|after| after.receive_memory);
        differ(memory != other_memory, &|| format!("bytes held {memory} / {other_memory}"));
        let [confirmed, other_confirmed] = [self, other].map(|after| after.confirmed);
        differ(confirmed != other_confirmed, &|| {
            format!("the neighbour was confirmed at {confirmed:?} / {other_confirmed:?}")
        });
        differ(self.ready != other.ready, &|| format!("ready {:?} / {:?}", self.ready, other.ready));
        differ(self.over != other.over, &|| format!("over {:?} / {:?}", self.over, other.over));
        let [delayed, other_delayed] = [self, other].map(|after| after.delayed_acks.len());
        differ(delayed != other_delayed, &|| format!("delayed acknowledgements {delayed} / {other_delayed}"));
        found
    }
}

impl Stack {
    fn before(&self, index: u32) -> Before {
        let slot = self.slots.at(index).clone();
        Before {
            confirmed: self.neighbours.confirmed(slot.neighbour),
            slot,
            counters: self.counters,
            tcp_counters: self.tcp_counters,
            receive_memory: self.budget.total,
            ready: self.ready.len(),
            over: self.over.len(),
            delayed_acks: self.delayed_acks.len(),
        }
    }

    /// Goes back to what was before; returns what had come of it.
    fn go_back(&mut self, index: u32, before: &Before) -> After {
        let neighbour = before.slot.neighbour;
        let confirmed = self.neighbours.confirmed(neighbour);
        if let Some(at) = before.confirmed {
            self.neighbours.confirm(neighbour, at);
        }
        After {
            slot: core::mem::replace(self.slots.at_mut(index), before.slot.clone()),
            counters: core::mem::replace(&mut self.counters, before.counters),
            tcp_counters: core::mem::replace(&mut self.tcp_counters, before.tcp_counters),
            receive_memory: core::mem::replace(&mut self.budget.total, before.receive_memory),
            confirmed,
            ready: self.ready.split_off(before.ready),
            over: self.over.split_off(before.over).into(),
            delayed_acks: self.delayed_acks.split_off(before.delayed_acks).into(),
        }
    }

    /// Goes on with what a way left.
    fn go_on(&mut self, index: u32, after: After) {
        let After { slot, counters, tcp_counters, receive_memory, confirmed, ready, over, delayed_acks } = after;
        if let Some(at) = confirmed {
            self.neighbours.confirm(slot.neighbour, at);
        }
        *self.slots.at_mut(index) = slot;
        self.counters = counters;
        self.tcp_counters = tcp_counters;
        self.budget.total = receive_memory;
        self.ready.extend(ready);
        self.over.extend(over);
        self.delayed_acks.extend(delayed_acks);
    }

    /// Takes a general way, and goes back.
    fn rehearse<R>(
        &mut self,
        index: u32,
        before: &Before,
        out: &mut Rehearsal,
        way: impl FnOnce(&mut Self, &mut Rehearsal) -> R,
    ) -> (R, After) {
        let wheel = core::mem::replace(&mut self.wheel, Wheel::new(self.now_ms, 0));
        let result = way(self, out);
        self.wheel = wheel;
        (result, self.go_back(index, before))
    }

    fn drift_of(&self, way: Way, index: u32, what: Vec<String>) -> Option<Drift> {
        if what.is_empty() {
            return None;
        }
        let flow = self.slots.at(index).flow();
        let local = self.addresses.get(flow.local).map(|ip| SocketAddr::new(ip, flow.local_port));
        let remote = SocketAddr::new(flow.remote(), flow.remote_port);
        Some(Drift { way, local, remote: Some(remote), what })
    }

    /// A short way of a segment that arrived for a connection, and the general
    /// one.
    #[inline(never)]
    pub(crate) fn compare_arrival<'f>(
        &mut self,
        way: Way,
        index: u32,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrived<'f>> {
        let flow = self.slots.at(index).flow();
        let take = |stack: &mut Self| {
            header.established().and_then(|header| match way {
                Way::Light => stack.on_light(index, &flow, &header, payload),
                _ => stack.on_orderly(index, &flow, &header, payload).map(Arrived::Segment),
            })
        };
        if self.slots.at(index).tcp.has_cold() {
            // It is no short way's, and what it holds is not copied for that.
            let arrived = take(self);
            self.tell_of_cold(out, way, index, arrived.is_some());
            return arrived;
        }
        let before = self.before(index);
        let arrived = take(self);
        let mut short = self.go_back(index, &before);
        let Some(arrived) = arrived else {
            self.compare_untouched(way, index, &before, short, out);
            return None;
        };
        let (mut outcome, data) = match &arrived {
            Arrived::Segment(arrival) => (arrival.outcome, arrival.data),
            Arrived::Data(_, data) => {
                // Whoever took it lists the connection, or lets it send.
                short.ready.push(index);
                (Outcome { len: data.len() as u32, ..Outcome::default() }, *data)
            }
            Arrived::Nothing | Arrived::Full | Arrived::Stray => (Outcome::default(), &payload[..0]),
        };
        let kept = short.lay_open(out, way, Some(&mut outcome), &mut []);
        let mut aside = Rehearsal::new(self.config.mtu, out.room());
        let (arrival, mut general) = self
            .rehearse(index, &before, &mut aside, |stack, aside| stack.on_connection(index, header, payload, aside));
        // It counts how often it was not.
        general.tcp_counters.fast_path = short.tcp_counters.fast_path;
        let mut what = short.differences(&general);
        what.extend(told_otherwise(&outcome, data, arrival.as_ref()));
        if !aside.frames.is_empty() {
            what.push(format!("frames sent at once 0 / {}", aside.frames.len()));
        }
        if matches!(arrived, Arrived::Data(..)) {
            short.ready.pop();
        }
        (short.slot, short.tcp_counters) = kept;
        self.go_on(index, short);
        self.tell(out, way, index, what);
        Some(arrived)
    }

    /// A short way of what a connection has to send, and the general one.
    #[inline(never)]
    pub(crate) fn compare_sent(&mut self, way: Way, index: u32, out: &mut impl Egress) -> bool {
        let cold = self.slots.at(index).tcp.has_cold();
        let before = (!cold).then(|| self.before(index));
        let room = out.room();
        let mut tapped = Tapped { inner: out, frames: Vec::new() };
        let sent = match way {
            Way::SendLight => self.transmit_light(index, &mut tapped),
            Way::SendOpening => self.transmit_first(index, &mut tapped),
            _ => self.transmit_last(index, &mut tapped),
        };
        let Some(before) = before else {
            self.tell_of_cold(out, way, index, sent);
            return sent;
        };
        let mut frames = tapped.frames;
        let mut short = self.go_back(index, &before);
        if !sent {
            self.compare_untouched(way, index, &before, short, out);
            return false;
        }
        let kept = short.lay_open(out, way, None, &mut frames);
        let mut aside = Rehearsal::new(self.config.mtu, room);
        let (slots, general) = self.rehearse(index, &before, &mut aside, |stack, aside| stack.transmit(index, aside));
        let mut what = short.differences(&general);
        if frames != aside.frames {
            what.push(format!("frames {} / {}", shown(&frames), shown(&aside.frames)));
        }
        if !slots {
            what.push("the general way finds no slot".into());
        }
        what.extend(aside.drifts.into_iter().flat_map(|drift| drift.what));
        (short.slot, short.tcp_counters) = kept;
        self.go_on(index, short);
        self.tell(out, way, index, what);
        true
    }

    /// Connections that wait for a timer and do not stand on the wheel for it,
    /// by our end and the peer's: none, after a turn.
    pub fn off_the_wheel(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        let off = |id: &ConnId| {
            let slot = self.slots.at(id.index() as u32);
            let waits = |at: u32| !self.wheel.covers(slot.tcp.wheel, at);
            slot.tcp.timer().is_some_and(waits) || slot.app_timer().is_some_and(waits)
        };
        self.slots.ids().filter(off).filter_map(|id| self.local(id).zip(self.peer(id)))
    }

    /// A segment that header prediction takes, and the general way.
    #[inline(never)]
    pub(crate) fn compare_expected(
        &mut self,
        index: u32,
        header: &TcpHeader,
        payload: &[u8],
        out: &mut impl Egress,
    ) -> Outcome {
        let taken = self.tcp_counters.fast_path;
        let before = self.slots.at(index).tcp.is_undisturbed().then(|| self.before(index));
        let outcome = self.with(index, |tcp, cx, path| tcp.on_segment(cx, path, header, payload));
        let Some(before) = before.filter(|_| self.tcp_counters.fast_path > taken) else { return outcome };
        let mut short = self.go_back(index, &before);
        let way = Way::Expected;
        let mut told = outcome;
        let kept = short.lay_open(out, way, Some(&mut told), &mut []);
        let general_outcome = self.with(index, |tcp, cx, path| tcp.on_segment_in_full(cx, path, header, payload));
        let mut general = self.go_back(index, &before);
        general.tcp_counters.fast_path += 1;
        let mut what = short.differences(&general);
        if told != general_outcome {
            what.push(format!("the application is told {told:?} / {general_outcome:?}"));
        }
        (short.slot, short.tcp_counters) = kept;
        self.go_on(index, short);
        self.tell(out, way, index, what);
        outcome
    }

    /// A short way that was not taken has changed nothing.
    fn compare_untouched(&mut self, way: Way, index: u32, before: &Before, short: After, out: &mut impl Egress) {
        let untouched = self.go_back(index, before);
        let mut what = short.differences(&untouched);
        self.go_on(index, short);
        if !what.is_empty() {
            what.push("though it was not taken".into());
            self.tell(out, way, index, what);
        }
    }

    /// No short way is for a connection with a cold part.
    fn tell_of_cold(&self, out: &mut impl Egress, way: Way, index: u32, taken: bool) {
        if taken {
            self.tell(out, way, index, vec!["taken with a cold part".into()]);
        }
    }

    /// Tells of a way that was taken, or that changed something though it was
    /// not.
    fn tell(&self, out: &mut impl Egress, way: Way, index: u32, what: Vec<String>) {
        if let Watched::By(shadow) = out.watched() {
            shadow.on_compared(way, self.drift_of(way, index, what));
        }
    }

    /// What is read of a frame in one go, and what its layers say.
    #[inline(never)]
    pub(crate) fn compare_parsed(&mut self, frame: &[u8], verified: bool, out: &mut impl Egress) {
        let Watched::By(shadow) = out.watched() else { return };
        let Some((seen, martian)) = self.read_in_one_go(frame, verified) else { return };
        let before = self.counters;
        let mut aside = Rehearsal { seeks: true, ..Rehearsal::new(self.config.mtu, 0) };
        let arrival = self.on_frame_by_layers(frame, verified, &mut aside);
        let general = core::mem::replace(&mut self.counters, before);
        let mut short = before;
        short.martian += u64::from(martian);
        let mut what = Vec::new();
        if arrival.is_some() || short != general {
            what.push("the frame is dropped otherwise".into());
        }
        let seen = Some(seen).filter(|_| !martian);
        if seen != aside.seen {
            what.push(format!("{seen:?} / {:?}", aside.seen));
        }
        let local =
            seen.and_then(|seen| Some(SocketAddr::new(self.addresses.get(seen.flow.local)?, seen.header.dst_port)));
        let remote = seen.map(|seen| SocketAddr::new(seen.envelope.src, seen.header.src_port));
        let way = Way::Parse;
        shadow.on_compared(way, (!what.is_empty()).then_some(Drift { way, local, remote, what }));
    }

    /// The segment that [`Stack::on_frame`] reads in one go, if it does, and
    /// whether its source is none.
    fn read_in_one_go(&self, frame: &[u8], verified: bool) -> Option<(Seen, bool)> {
        let own = &self.config.mac;
        if self.config.vlan.is_some() {
            return None;
        }
        let plain = Plain::parse(frame, own, verified);
        let is_plain = plain.is_some();
        let (src, dst, header, payload) = match plain {
            Some(plain) => (plain.src, plain.dst, plain.tcp_header(), plain.payload),
            None => plain::parse_with_options(frame, own, verified)?,
        };
        let martian = is_martian_v4(src);
        if martian && !is_plain {
            return None;
        }
        let local = self.addresses.index_v4(dst)?;
        let flow = Flow::v4(src, header.src_port, local, header.dst_port);
        let mac = EthernetHeader::parse(frame).map_or(Mac::ZERO, |(ethernet, _)| ethernet.src);
        let envelope = Envelope { src: IpAddr::V4(src), local, mac };
        Some((Seen::new(flow, envelope, header, payload), martian))
    }
}

/// In what the application is told something else.
fn told_otherwise(outcome: &Outcome, data: &[u8], arrival: Option<&Arrival<'_>>) -> Vec<String> {
    let Some(general) = arrival else { return vec!["the application hears of it / of nothing".into()] };
    let mut what = Vec::new();
    if *outcome != general.outcome {
        what.push(format!("the application is told {outcome:?} / {:?}", general.outcome));
    }
    if data != general.data {
        what.push(format!("the application gets {} bytes / {}", data.len(), general.data.len()));
    }
    what
}

fn shown(frames: &[Vec<u8>]) -> String {
    /// Enough for all headers.
    const MOST: usize = 96;
    let hex = |frame: &Vec<u8>| frame.iter().take(MOST).map(|byte| format!("{byte:02x}")).collect::<String>();
    let each: Vec<_> = frames.iter().map(|frame| format!("{} bytes {}", frame.len(), hex(frame))).collect();
    format!("[{}]", each.join(", "))
}

impl Frame<'_> {
    /// The frame of `len` bytes that stands in the slot was written in one go,
    /// mostly: the same by layers.
    #[inline(never)]
    pub(crate) fn compare_built(
        &self,
        out: &mut impl Egress,
        len: usize,
        flow: &Flow,
        emit: &Emit,
        connection: &mut Connection,
    ) {
        let mut buffer = vec![0; len + usize::from(self.config.mtu)];
        let by_layers = match (opening_of(flow, emit), emit.options) {
            (Some(opening), _) => self.build_opening_by_layers(&mut buffer, flow, &opening),
            (None, EmitOptions::Plain) if self.offload == LinkOffload::default() => {
                self.build_by_layers(&mut buffer, flow, emit, connection).0
            }
            // By layers anyway.
            (None, _) => return,
        };
        self.tell_built(out, flow, len, &buffer[..by_layers]);
    }

    /// The same for a SYN,ACK.
    #[inline(never)]
    pub(crate) fn compare_opening(&self, out: &mut impl Egress, len: usize, flow: &Flow, opening: &Opening) {
        let mut buffer = vec![0; len + usize::from(self.config.mtu)];
        let by_layers = self.build_opening_by_layers(&mut buffer, flow, opening);
        self.tell_built(out, flow, len, &buffer[..by_layers]);
    }

    fn tell_built(&self, out: &mut impl Egress, flow: &Flow, len: usize, by_layers: &[u8]) {
        if !flow.is_v4() || self.config.vlan.is_some() {
            return;
        }
        let way = Way::Build;
        let mut frames = [out.slot().map_or(Vec::new(), |slot| slot[..len].to_vec())];
        if let Watched::By(shadow) = out.watched() {
            shadow.tamper(way, &mut Left { tcp: None, outcome: None, counters: None, frames: &mut frames });
        }
        let mut drift = None;
        if frames[0] != by_layers {
            let local = self.addresses.get(flow.local).map(|ip| SocketAddr::new(ip, flow.local_port));
            let remote = Some(SocketAddr::new(flow.remote(), flow.remote_port));
            let what = vec![format!("frames {} / {}", shown(&frames), shown(&[by_layers.to_vec()]))];
            drift = Some(Drift { way, local, remote, what });
        }
        match out.watched() {
            Watched::No => {}
            Watched::By(shadow) => shadow.on_compared(way, drift),
            Watched::Rehearsal(aside) => aside.drifts.extend(drift),
        }
    }
}
