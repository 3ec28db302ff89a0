//! The general way beside each short one of a segment, if somebody watches
//! (see [`crate::shadow`]).

use super::Tcp;
use super::arrive::{Arrival, Arrived};
use super::build::{Frame, Payload, opening_of};
use super::slots::Slot;
use super::timers::DelayedAck;
use crate::counters::{IpCounters, SegmentCounters};
use crate::egress::{Egress, LinkOffload, Rehearsal, Watched};
use crate::flow::Flow;
use crate::ip::Ip;
use crate::shadow::{Drift, Left, Way};
use app::{Closed, ConnId};
use core::net::SocketAddr;
use tcp::{Connection, Emit, EmitOptions, Outcome};
use wheel::{Calendar, Wheel};
use wire::tcp::{Opening, TcpHeader};
use wire::{Offload, Time};

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
    counters: SegmentCounters,
    ip_counters: IpCounters,
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
    counters: SegmentCounters,
    ip_counters: IpCounters,
    tcp_counters: tcp::Counters,
    receive_memory: usize,
    confirmed: Option<Time>,
    ready: Vec<u32>,
    over: Vec<(ConnId, Closed)>,
    delayed_acks: Vec<DelayedAck>,
    /// Connections that came to wait for their pacers: of all short ways, that of steady ones alone
    /// has them wait.
    paced: usize,
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
        for ((name, short), (_, general)) in self.ip_counters.iter().zip(other.ip_counters.iter()) {
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
        differ(self.paced != other.paced, &|| format!("waiting for pacers {} / {}", self.paced, other.paced));
        differ(delayed != other_delayed, &|| format!("delayed acknowledgements {delayed} / {other_delayed}"));
        found
    }
}

impl Tcp {
    fn before(&self, ip: &Ip, index: u32) -> Before {
        let slot = self.slots.at(index).clone();
        Before {
            confirmed: ip.neighbours.confirmed(slot.neighbour),
            slot,
            counters: self.counters,
            ip_counters: *ip.counters(),
            tcp_counters: self.common.counters,
            receive_memory: self.common.budget.total,
            ready: self.outbox.ready.len(),
            over: self.events.over.len(),
            delayed_acks: self.timers.delayed_acks.len(),
        }
    }

    /// Goes back to what was before; returns what had come of it.
    fn go_back(&mut self, ip: &mut Ip, index: u32, before: &Before) -> After {
        let neighbour = before.slot.neighbour;
        let confirmed = ip.neighbours.confirmed(neighbour);
        if let Some(at) = before.confirmed {
            ip.neighbours.confirm(neighbour, at);
        }
        let ip_counters = *ip.counters();
        ip.set_counters(before.ip_counters);
        After {
            slot: core::mem::replace(self.slots.at_mut(index), before.slot.clone()),
            counters: core::mem::replace(&mut self.counters, before.counters),
            ip_counters,
            tcp_counters: core::mem::replace(&mut self.common.counters, before.tcp_counters),
            receive_memory: core::mem::replace(&mut self.common.budget.total, before.receive_memory),
            confirmed,
            ready: self.outbox.ready.split_off(before.ready),
            over: self.events.over.split_off(before.over).into(),
            delayed_acks: self.timers.delayed_acks.split_off(before.delayed_acks).into(),
            paced: 0,
        }
    }

    /// Goes on with what a way left.
    fn go_on(&mut self, ip: &mut Ip, index: u32, after: After) {
        if let Some(at) = after.confirmed {
            ip.neighbours.confirm(after.slot.neighbour, at);
        }
        *self.slots.at_mut(index) = after.slot;
        self.counters = after.counters;
        ip.set_counters(after.ip_counters);
        self.common.counters = after.tcp_counters;
        self.common.budget.total = after.receive_memory;
        self.outbox.ready.extend(after.ready);
        self.events.over.extend(after.over);
        self.timers.delayed_acks.extend(after.delayed_acks);
    }

    /// Takes a general way, and goes back.
    fn rehearse<R>(
        &mut self,
        ip: &mut Ip,
        index: u32,
        before: &Before,
        out: &mut Rehearsal,
        way: impl FnOnce(&mut Self, &mut Ip, &mut Rehearsal) -> R,
    ) -> (R, After) {
        let wheel = core::mem::replace(&mut self.timers.wheel, Wheel::new(self.common.now_ms, 0));
        let calendar = core::mem::replace(&mut self.timers.calendar, Calendar::new(0));
        let result = way(self, ip, out);
        self.timers.wheel = wheel;
        let paced = core::mem::replace(&mut self.timers.calendar, calendar).entries();
        (result, After { paced, ..self.go_back(ip, index, before) })
    }

    fn drift_of(&self, ip: &Ip, way: Way, index: u32, what: Vec<String>) -> Option<Drift> {
        if what.is_empty() {
            return None;
        }
        let flow = self.slots.at(index).flow();
        let local = ip.addresses.get(flow.local).map(|ip| SocketAddr::new(ip, flow.local_port));
        let remote = SocketAddr::new(flow.remote(), flow.remote_port);
        Some(Drift { way, local, remote: Some(remote), what })
    }

    /// A short way of a segment that arrived for a connection, and the general
    /// one.
    #[inline(never)]
    pub fn compare_arrival<'f>(
        &mut self,
        ip: &mut Ip,
        way: Way,
        index: u32,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrived<'f>> {
        let flow = self.slots.at(index).flow();
        let take = |this: &mut Self, ip: &mut Ip| {
            header.established().and_then(|header| match way {
                Way::Light => this.on_light(ip, index, &flow, &header, payload).map(|light| light.with(payload, false)),
                Way::LightSealed => {
                    let light = this.on_light_sealed(ip, index, &flow, &header, payload);
                    light.map(|light| light.with(payload, true))
                }
                Way::Steady => this.on_steady(ip, index, &flow, &header, payload).map(Arrived::Segment),
                _ => this.on_orderly(ip, index, &flow, &header, payload).map(Arrived::Segment),
            })
        };
        let tcp = &self.slots.at(index).tcp;
        if tcp.has_cold() && !(way == Way::Steady && tcp.is_paced_alone()) {
            // It is no short way's, and what it holds is not copied for that.
            let arrived = take(self, ip);
            self.tell_of_cold(ip, out, way, index, arrived.is_some());
            return arrived;
        }
        let before = self.before(ip, index);
        let arrived = take(self, ip);
        let mut short = self.go_back(ip, index, &before);
        let Some(arrived) = arrived else {
            self.compare_untouched(ip, way, index, &before, short, out);
            return None;
        };
        let (mut outcome, data) = match &arrived {
            Arrived::Segment(arrival) => (arrival.outcome, arrival.data),
            Arrived::Data(_, data) | Arrived::Records(_, data) => {
                // Whoever took it lists the connection, or lets it send.
                short.ready.push(index);
                let sealed = way == Way::LightSealed;
                (Outcome { len: data.len() as u32, sealed, ..Outcome::default() }, *data)
            }
            Arrived::Nothing | Arrived::Full | Arrived::Stray => (Outcome::default(), &payload[..0]),
        };
        let kept = short.lay_open(out, way, Some(&mut outcome), &mut []);
        let mut aside = Rehearsal::new(ip.mtu(), out.room());
        let (arrival, mut general) = self.rehearse(ip, index, &before, &mut aside, |this, ip, aside| {
            this.on_connection(ip, index, header, payload, aside)
        });
        // It counts how often it was not.
        general.tcp_counters.fast_path = short.tcp_counters.fast_path;
        let mut what = short.differences(&general);
        what.extend(told_otherwise(&outcome, data, arrival.as_ref()));
        if !aside.frames.is_empty() {
            what.push(format!("frames sent at once 0 / {}", aside.frames.len()));
        }
        if matches!(arrived, Arrived::Data(..) | Arrived::Records(..)) {
            short.ready.pop();
        }
        (short.slot, short.tcp_counters) = kept;
        self.go_on(ip, index, short);
        self.tell(ip, out, way, index, what);
        Some(arrived)
    }

    /// A short way of what a connection has to send, and the general one.
    #[inline(never)]
    pub(super) fn compare_sent(&mut self, ip: &mut Ip, way: Way, index: u32, out: &mut impl Egress) -> bool {
        let tcp = &self.slots.at(index).tcp;
        let cold = tcp.has_cold() && !(way == Way::SendSteady && tcp.is_paced_alone());
        let before = (!cold).then(|| self.before(ip, index));
        let room = out.room();
        let mut tapped = Tapped { inner: out, frames: Vec::new() };
        let sent = match way {
            Way::SendLight => self.transmit_light(ip, index, &mut tapped),
            Way::SendFew => self.transmit_few(ip, index, &mut tapped),
            Way::SendSealed => self.transmit_single(ip, index, &mut tapped),
            Way::SendOpening => self.transmit_first(ip, index, &mut tapped),
            Way::SendSteady => self.transmit_steady(ip, index, &mut tapped),
            _ => self.transmit_last(ip, index, &mut tapped),
        };
        let Some(before) = before else {
            self.tell_of_cold(ip, out, way, index, sent);
            return sent;
        };
        let mut frames = tapped.frames;
        let mut short = self.go_back(ip, index, &before);
        if !sent {
            self.compare_untouched(ip, way, index, &before, short, out);
            return false;
        }
        let waits = |at: Time| self.timers.calendar.covers(index, at.as_nanos());
        short.paced = usize::from(short.slot.tcp.paced_until().is_some_and(waits));
        let kept = short.lay_open(out, way, None, &mut frames);
        let mut aside = Rehearsal::new(ip.mtu(), room);
        let (slots, general) =
            self.rehearse(ip, index, &before, &mut aside, |this, ip, aside| this.transmit(ip, index, aside));
        let mut what = short.differences(&general);
        if frames != aside.frames {
            what.push(format!("frames {} / {}", shown(&frames), shown(&aside.frames)));
        }
        if !slots {
            what.push("the general way finds no slot".into());
        }
        what.extend(aside.drifts.into_iter().flat_map(|drift| drift.what));
        (short.slot, short.tcp_counters) = kept;
        self.go_on(ip, index, short);
        self.tell(ip, out, way, index, what);
        true
    }

    /// Connections that wait for a timer, or for their pacer, and are on no list for it: none,
    /// after a turn.
    pub fn off_the_wheel(&self) -> impl Iterator<Item = ConnId> {
        let off = |id: &ConnId| {
            let slot = self.slots.at(id.index() as u32);
            let waits = |at: u32| !self.timers.wheel.covers(slot.tcp.wheel, at);
            let listed = slot.tcp.is_ready() || self.outbox.awaits_neighbour(*id);
            let paced = |at: Time| {
                let near = self.timers.calendar.covers(id.index() as u32, at.as_nanos());
                !listed && !near && waits(at.as_millis() as u32)
            };
            slot.tcp.timer().is_some_and(waits)
                || slot.app_timer().is_some_and(waits)
                || slot.tcp.paced_until().is_some_and(paced)
        };
        self.slots.ids().filter(off)
    }

    /// A segment that header prediction takes, and the general way.
    #[inline(never)]
    pub(super) fn compare_expected(
        &mut self,
        ip: &mut Ip,
        index: u32,
        header: &TcpHeader,
        payload: &[u8],
        out: &mut impl Egress,
    ) -> Outcome {
        let taken = self.common.counters.fast_path;
        let before = self.slots.at(index).tcp.is_undisturbed().then(|| self.before(ip, index));
        let outcome = self.with(ip, index, |tcp, cx, path| tcp.on_segment(cx, path, header, payload));
        let Some(before) = before.filter(|_| self.common.counters.fast_path > taken) else { return outcome };
        let mut short = self.go_back(ip, index, &before);
        let way = Way::Expected;
        let mut told = outcome;
        let kept = short.lay_open(out, way, Some(&mut told), &mut []);
        let general_outcome = self.with(ip, index, |tcp, cx, path| tcp.on_segment_in_full(cx, path, header, payload));
        let mut general = self.go_back(ip, index, &before);
        general.tcp_counters.fast_path += 1;
        let mut what = short.differences(&general);
        if told != general_outcome {
            what.push(format!("the application is told {told:?} / {general_outcome:?}"));
        }
        (short.slot, short.tcp_counters) = kept;
        self.go_on(ip, index, short);
        self.tell(ip, out, way, index, what);
        outcome
    }

    /// A short way that was not taken has changed nothing.
    fn compare_untouched(
        &mut self,
        ip: &mut Ip,
        way: Way,
        index: u32,
        before: &Before,
        short: After,
        out: &mut impl Egress,
    ) {
        let untouched = self.go_back(ip, index, before);
        let mut what = short.differences(&untouched);
        self.go_on(ip, index, short);
        if !what.is_empty() {
            what.push("though it was not taken".into());
            self.tell(ip, out, way, index, what);
        }
    }

    /// No short way but those of steady connections is for one with a cold part.
    fn tell_of_cold(&self, ip: &Ip, out: &mut impl Egress, way: Way, index: u32, taken: bool) {
        if taken {
            self.tell(ip, out, way, index, vec!["taken with a cold part".into()]);
        }
    }

    /// Tells of a way that was taken, or that changed something though it was
    /// not.
    fn tell(&self, ip: &Ip, out: &mut impl Egress, way: Way, index: u32, what: Vec<String>) {
        if let Watched::By(shadow) = out.watched() {
            shadow.on_compared(way, self.drift_of(ip, way, index, what));
        }
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
    pub(super) fn compare_built(
        &self,
        out: &mut impl Egress,
        len: usize,
        flow: &Flow,
        emit: &Emit,
        connection: &Connection,
        payload: &mut impl Payload,
    ) {
        // What is written a second time counts for nothing.
        let connection = &mut connection.clone();
        let mut buffer = vec![0; len + usize::from(self.0.mtu())];
        let by_layers = match (opening_of(flow, emit), emit.options) {
            (Some(opening), _) => self.build_opening_by_layers(&mut buffer, flow, &opening),
            (None, EmitOptions::Plain) if self.0.offload() == LinkOffload::default() => {
                self.build_by_layers(&mut buffer, flow, emit, connection, payload).0
            }
            // By layers anyway.
            (None, _) => return,
        };
        self.tell_built(out, flow, len, &buffer[..by_layers]);
    }

    /// The same for a SYN,ACK.
    #[inline(never)]
    pub(super) fn compare_opening(&self, out: &mut impl Egress, len: usize, flow: &Flow, opening: &Opening) {
        let mut buffer = vec![0; len + usize::from(self.0.mtu())];
        let by_layers = self.build_opening_by_layers(&mut buffer, flow, opening);
        self.tell_built(out, flow, len, &buffer[..by_layers]);
    }

    fn tell_built(&self, out: &mut impl Egress, flow: &Flow, len: usize, by_layers: &[u8]) {
        if !flow.is_v4() || !self.0.is_untagged() {
            return;
        }
        let way = Way::Build;
        let mut frames = [out.slot().map_or(Vec::new(), |slot| slot[..len].to_vec())];
        if let Watched::By(shadow) = out.watched() {
            shadow.tamper(way, &mut Left { tcp: None, outcome: None, counters: None, frames: &mut frames });
        }
        let mut drift = None;
        if frames[0] != by_layers {
            let local = self.0.own(flow).map(|ip| SocketAddr::new(ip, flow.local_port));
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
