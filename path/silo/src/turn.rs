//! One pass of a silo's loop: the map of a request's walk.

use crate::placement::{Far, FarRx, FarTx};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::cell::RefCell;
use core::hint::cold_path;
use link::{Link, Load, Receive, Transmit};
use stack::shadow::Shadow;
use stack::{Arrival, Arrived, Egress, Stack, Watched};
use wire::{Offload, Time};

/// Frames taken in one turn. Larger bursts amortise more per turn, and make
/// the last frame of a burst wait longer.
pub const BURST: usize = 32;

/// What a turn did, and what it left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Frames received.
    pub frames: usize,
    /// Frames or slots are left over: take the next turn at once.
    pub more: bool,
    /// When the next turn is due even if nothing arrives.
    pub deadline: Time,
}

/// A core's share of the server: its link queue, stack and application.
#[derive(Debug)]
pub struct Silo<L, A> {
    /// Where frames come from and go to.
    pub link: L,
    /// The TCP/IP stack.
    pub stack: Stack,
    /// The application.
    pub app: A,
}

impl<L: Link, A: App> Silo<L, A> {
    /// Takes a burst through the stack to the application and its answers
    /// back to the link. Allocates nothing, locks nothing, makes no system
    /// call but the driver's, and takes the time from outside.
    pub fn turn(&mut self, now: Time) -> Turn {
        let turn = self.turn_unflushed(now);
        self.flush(now);
        turn
    }

    /// [`Silo::turn`] without its end: what it sends stays in the link until
    /// [`Silo::flush`].
    #[inline(always)]
    pub fn turn_unflushed(&mut self, now: Time) -> Turn {
        let turn = self.take_turn(now);
        let open = self.stack.connections() + self.stack.half_open();
        self.link.set_load(Load { working: self.app.working(), open: open as u32 });
        self.or_when_paced(turn)
    }

    /// [`Silo::turn_unflushed`] that counts the frames which lie in another
    /// NUMA domain: for a silo of which pages are there. Costs some 30
    /// instructions more for each frame.
    #[inline(never)]
    pub fn turn_counted(&mut self, now: Time, far: &mut Far) -> Turn {
        let Self { link, stack, app } = self;
        let turn = {
            let (mut rx, mut tx) = link.split();
            let far = RefCell::new(far);
            let (mut rx, mut tx) = (FarRx::new(rx.as_table(), &far), FarTx::new(tx.as_table(), &far));
            walk_by_table(&mut rx, &mut tx, stack, app, now)
        };
        let open = self.stack.connections() + self.stack.half_open();
        self.link.set_load(Load { working: self.app.working(), open: open as u32 });
        self.or_when_paced(turn)
    }

    /// A turn is due at the latest when the next connection is let go by its pacer.
    #[inline(always)]
    fn or_when_paced(&self, turn: Turn) -> Turn {
        Turn { deadline: turn.deadline.min(self.stack.next_paced()), ..turn }
    }

    /// A turn of the stack alone, while it has no address that anybody could
    /// connect to.
    pub(crate) fn turn_alone(&mut self, now: Time) {
        let Self { link, stack, .. } = self;
        let (mut rx, mut tx) = link.split();
        take_alone(rx.as_table(), tx.as_table(), stack, now);
    }

    #[inline(always)]
    fn take_turn(&mut self, now: Time) -> Turn {
        let Self { link, stack, app } = self;
        let (mut rx, mut tx) = link.split();
        match L::OWN_COPY {
            true => walk(rx, &mut TransmitSlots(tx), stack, app, now),
            false => walk_by_table(rx.as_table(), tx.as_table(), stack, app, now),
        }
    }

    /// [`Silo::turn`] in which each short way is held against the general one,
    /// as the simulator does it (see [`stack::shadow`]).
    pub fn turn_shadowed(&mut self, now: Time, shadow: &mut dyn Shadow) -> Turn {
        let Self { link, stack, app } = self;
        let (rx, tx) = link.split();
        let turn = walk(rx, &mut ShadowedSlots { slots: TransmitSlots(tx), shadow }, stack, app, now);
        let open = self.stack.connections() + self.stack.half_open();
        self.link.set_load(Load { working: self.app.working(), open: open as u32 });
        self.flush(now);
        self.or_when_paced(turn)
    }

    /// Sends what the application has said since the last turn, before that looks at what arrived meanwhile; it stays
    /// in the link until [`Silo::flush`]. For an application whose peers are to hear of an end first, and of what
    /// their own words came to then.
    pub fn send_said(&mut self, now: Time) {
        let Self { link, stack, .. } = self;
        let (_, mut tx) = link.split();
        stack.begin_turn(now);
        _ = stack.poll_transmit(&mut TransmitSlots(tx.as_table()));
    }

    /// Shows the link's peer all that turns have sent.
    #[inline]
    pub fn flush(&mut self, now: Time) {
        self.link.split().1.flush(now);
    }

    /// Slots that are free for sending.
    #[inline]
    pub fn room(&mut self) -> usize {
        self.link.split().1.room()
    }

    /// When the stack needs a turn even if nothing arrives. Costs more than a
    /// turn on an idle silo: ask before sleeping, not every turn.
    #[must_use]
    pub fn stack_deadline(&self) -> Time {
        self.stack.next_deadline().unwrap_or(Time::MAX)
    }
}

/// [`Silo::turn_alone`], for whatever link.
#[inline(never)]
fn take_alone(rx: &mut dyn Receive, tx: &mut dyn Transmit, stack: &mut Stack, now: Time) {
    let out = &mut TransmitSlots(tx);
    let frames = rx.receive(now, BURST);
    stack.begin_turn(now);
    for index in 0..frames {
        _ = stack.on_frame(rx.frame(index), rx.verified(index), out);
        rx.taken(index);
    }
    rx.release();
    stack.on_timers(out);
    stack.poll_transmit(out);
    out.0.flush(now);
}

/// The walk over whatever link: one copy of it, and of the stack, for all links that have
/// none of their own.
#[inline(never)]
fn walk_by_table<A: App>(
    rx: &mut dyn Receive,
    tx: &mut dyn Transmit,
    stack: &mut Stack,
    app: &mut A,
    now: Time,
) -> Turn {
    walk(rx, &mut TransmitSlots(tx), stack, app, now)
}

/// The walk of a burst's requests.
#[inline(always)]
fn walk<A: App>(mut rx: impl Receive, out: &mut impl Egress, stack: &mut Stack, app: &mut A, now: Time) -> Turn {
    // What arrived, stamped with the time of its burst.
    let frames = rx.receive(now, BURST);
    stack.begin_turn(now);
    if stack.connections() >= WARM_FROM {
        warm(&rx, frames, stack, app);
    }
    for index in 0..frames {
        let mut other = Arrived::Nothing;
        if let Some((id, data)) = stack.on_frame_first(rx.frame(index), rx.verified(index), &mut other, out) {
            deliver_data(stack, app, id, data);
            match A::ANSWERS_LATER {
                false => stack.settle_or_leave(id, out, || app.answers_later(id)),
                true => stack.settle_unanswered(id, out),
            }
            continue;
        }
        match other {
            Arrived::Data(id, data) => deliver_apart(stack, app, (id, data), out),
            Arrived::Records(id, data) => {
                cold_path();
                deliver_light(stack, app, id, data);
                stack.settle_sealed(id, out);
            }
            Arrived::Segment(arrival) => {
                cold_path();
                deliver(stack, app, &arrival);
            }
            Arrived::Nothing => rx.taken(index),
            Arrived::Stray => {
                cold_path();
                if !rx.stray(index) {
                    stack.refuse(out);
                }
            }
            Arrived::Full => {
                cold_path();
                if make_room(stack, app)
                    && let Arrived::Segment(arrival) = stack.on_frame(rx.frame(index), rx.verified(index), out)
                {
                    deliver(stack, app, &arrival);
                }
            }
        }
    }
    rx.release();

    // What is due.
    let mut more = stack.on_timers_amid(frames == BURST, out);
    while let Some(id) = stack.poll_app_timer() {
        app.on_timer(stack, id);
    }

    // What the application wants to do by itself.
    let wake = own_turn(stack, app);

    // What there is to say, and to whom nothing more.
    more |= stack.poll_transmit(out);
    if stack.has_closed() {
        cold_path();
        more |= tell_closed(stack, app);
    }

    let deadline = match wake {
        Wake::Now => now,
        Wake::At(at) => at,
        Wake::Idle => Time::MAX,
    };
    Turn { frames, more: more || frames == BURST || wake == Wake::Now, deadline }
}

/// Tells the application who is gone. Returns whether that left it something to
/// do, which is not left to whatever wakes the silo next.
#[inline(never)]
fn tell_closed<A: App>(stack: &mut Stack, app: &mut A) -> bool {
    let mut told = false;
    while let Some((id, why)) = stack.poll_closed() {
        app.on_close(stack, id, why);
        told = true;
    }
    told && app.has_work()
}

/// Times that the application is called in one turn, because it went on with a
/// connection since the last call.
const OWN_TURNS: usize = 4;

/// The application's own turn. Connections that it goes on with are offered
/// what is held of theirs, and whatever it asks for meanwhile (a file, say)
/// begins in this turn: its last word on when to wake it comes after that.
#[inline(always)]
fn own_turn<A: App>(stack: &mut Stack, app: &mut A) -> Wake {
    for _ in 0..OWN_TURNS {
        let wake = app.on_turn(stack);
        if stack.resumed_len() == 0 {
            return wake;
        }
        cold_path();
        if !offer_resumed(stack, app) {
            // Nothing is held of theirs: nothing happened since.
            return wake;
        }
    }
    Wake::Now
}

/// From this many connections on their state no longer fits the second-level
/// cache (128 bytes each, and as much again for the application): then it
/// pays to touch a burst's state ahead, so that its misses overlap.
const WARM_FROM: usize = 8_192;

/// Has what a burst will need fetched: table buckets first, then connections,
/// then the application's state where it will be asked. Each pass's misses are
/// independent of each other.
#[inline(never)]
fn warm<A: App>(rx: &impl Receive, frames: usize, stack: &Stack, app: &A) {
    let mut glances = [None; BURST];
    for (index, glance) in glances.iter_mut().enumerate().take(frames) {
        *glance = stack.glance(rx.frame(index), prefetch);
    }
    let mut places = [0; BURST];
    let mut count = 0;
    for glance in glances.into_iter().take(frames).flatten() {
        if let Some(place) = stack.second_glance(glance, prefetch)
            && let Some(next) = places.get_mut(count)
        {
            *next = place;
            count += 1;
        }
    }
    for place in places.into_iter().take(count) {
        core::hint::black_box(app.warm(stack.id_at(place)));
    }
}

/// Has the cache line at an address fetched, and does not wait for it.
#[inline(always)]
fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: it reads nothing, and no address makes it fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Gives the application what arrived in order, and keeps what it leaves.
#[inline(always)]
fn deliver_data<A: App>(stack: &mut Stack, app: &mut A, id: ConnId, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let consumed = app.on_data(stack, id, data).min(data.len());
    if consumed < data.len() {
        cold_path();
        leave_data(stack, app, id, &data[consumed..]);
    }
}

/// The same, for what is not told at first sight: its connection has its turn to send with the
/// others, for it has no records.
#[cold]
#[inline(never)]
fn deliver_apart<A: App>(stack: &mut Stack, app: &mut A, (id, data): (ConnId, &[u8]), out: &mut impl Egress) {
    deliver_data(stack, app, id, data);
    stack.settle_sealed(id, out);
}

/// Keeps what the application left.
#[cold]
#[inline(never)]
fn leave_data<A: App>(stack: &mut Stack, app: &mut A, id: ConnId, data: &[u8]) {
    stack.hold(id, data);
    if stack.is_sealed(id) {
        // Since this call: what was left are records.
        offer_held(stack, app, id);
    }
}

/// The same for a secured connection: what arrived are records, and the application is given
/// what they carry.
#[inline(never)]
fn deliver_records<A: App>(stack: &mut Stack, app: &mut A, id: ConnId, data: &[u8]) {
    open_and_deliver(stack, app, id, data);
}

/// The same where nothing else came.
#[inline(never)]
fn deliver_light<A: App>(stack: &mut Stack, app: &mut A, id: ConnId, data: &[u8]) {
    open_and_deliver(stack, app, id, data);
    if stack.has_news(id) {
        cold_path();
        end_records(stack, app, id, false);
    }
}

#[inline(always)]
fn open_and_deliver<A: App>(stack: &mut Stack, app: &mut A, id: ConnId, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let mut plain = stack.take_plain();
    let taken = stack.open_records(id, data, &mut plain);
    let mut consumed = plain.len();
    if !plain.is_empty() && stack.is_live(id) {
        consumed = app.on_data(stack, id, &plain).min(plain.len());
    }
    if consumed < plain.len() || taken < data.len() {
        stack.hold_opened(id, &plain[consumed..], &data[taken..]);
    }
    stack.put_plain(plain);
}

/// Tells the application that a secured connection is to end after what is under way, as its
/// keys are nearly used up, and that its peer sends no more, if that is news.
#[inline(never)]
fn end_records<A: App>(stack: &mut Stack, app: &mut A, id: ConnId, finished: bool) {
    if finished {
        stack.end_sealed(id);
    }
    if stack.is_live(id) && stack.take_worn(id) {
        app.on_worn(stack, id);
    }
    if stack.is_live(id) && stack.take_end(id) {
        let held = stack.held(id);
        app.on_end(stack, id, held);
    }
}

/// Tells the application what a segment brought, in the order in which it
/// happened to the connection.
#[inline]
fn deliver<A: App>(stack: &mut Stack, app: &mut A, arrival: &Arrival<'_>) {
    let Arrival { id, outcome, data, accepted } = *arrival;
    // A connection that delivers is live, unless this very segment changed
    // that: its last may deliver and end it.
    let mut live = outcome.closed.is_none() || stack.is_live(id);
    if outcome.opened {
        cold_path();
        app.on_open(stack, id, if accepted { Opened::Accepted } else { Opened::Connected });
        live = stack.is_live(id);
    }
    // It may have been secured as it was opened: then what came with that are records.
    let sealed = outcome.sealed || (outcome.opened && stack.is_sealed(id));
    if live && sealed {
        cold_path();
        deliver_records(stack, app, id, data);
    } else if live {
        deliver_data(stack, app, id, data);
    }
    if outcome.readable {
        cold_path();
        offer_held(stack, app, id);
    }
    if outcome.drained | outcome.finished {
        cold_path();
    }
    if outcome.drained && stack.is_live(id) {
        app.on_sent(stack, id);
    }
    if sealed || (outcome.finished && stack.is_sealed(id)) {
        cold_path();
        return end_records(stack, app, id, outcome.finished);
    }
    if outcome.finished && stack.is_live(id) {
        let held = stack.held(id);
        app.on_end(stack, id, held);
    }
}

/// Ends a connection that is idle, for one that is new. Whether there is one.
#[inline(never)]
fn make_room<A: App>(stack: &mut Stack, app: &mut A) -> bool {
    let now = stack.now();
    let Some(id) = stack.find_idle(|id| app.idle(id, now)) else { return false };
    stack.displace(id);
    app.on_close(stack, id, Closed::Aborted);
    true
}

/// Offers a connection's held bytes, in one piece.
fn offer_held<A: App>(stack: &mut Stack, app: &mut A, id: ConnId) {
    if !stack.is_live(id) {
        return;
    }
    let Some(mut held) = stack.take_held(id) else { return };
    if stack.is_sealed(id) {
        let mut plain = stack.take_plain();
        let taken = stack.open_records(id, held.sealed(), &mut plain);
        let waited = !held.opened().is_empty();
        if waited {
            held.open(taken, &plain);
        }
        let offered = if waited { held.opened() } else { &plain };
        let len = offered.len();
        let offer = len > 0 && stack.is_live(id);
        let consumed = if offer { app.on_data(stack, id, offered).min(len) } else { 0 };
        if waited {
            held.consume(consumed);
        } else {
            // What was taken where it was opened is not copied.
            held.open(taken, &plain[consumed..]);
        }
        stack.put_plain(plain);
        stack.put_held(id, held, consumed > 0);
        return end_records(stack, app, id, false);
    }
    let len = held.contiguous().len();
    let consumed = app.on_data(stack, id, held.contiguous()).min(len);
    held.consume(consumed);
    stack.put_held(id, held, consumed > 0);
    if consumed < len && stack.is_sealed(id) {
        // Since this call: what was left are records.
        offer_held(stack, app, id);
    }
}

/// Offers held bytes again where the application asked for it, once each; whether there were any.
fn offer_resumed<A: App>(stack: &mut Stack, app: &mut A) -> bool {
    let mut offered = false;
    for _ in 0..stack.resumed_len() {
        let Some(id) = stack.poll_resumed() else { break };
        offer_held(stack, app, id);
        offered = true;
    }
    offered
}

/// The link's transmit half, as the stack wants it.
struct TransmitSlots<T>(T);

impl<T: Transmit> Egress for TransmitSlots<T> {
    #[inline]
    fn room(&self) -> usize {
        self.0.room()
    }
    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        self.0.slot()
    }
    #[inline(always)]
    fn commit(&mut self, len: usize, offload: Offload) {
        self.0.commit(len, offload);
    }
}

/// The same, watched.
struct ShadowedSlots<'s, T> {
    slots: TransmitSlots<T>,
    shadow: &'s mut dyn Shadow,
}

impl<T: Transmit> Egress for ShadowedSlots<'_, T> {
    fn room(&self) -> usize {
        self.slots.room()
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        self.slots.slot()
    }
    fn commit(&mut self, len: usize, offload: Offload) {
        self.slots.commit(len, offload);
    }
    fn watched(&mut self) -> Watched<'_> {
        Watched::By(self.shadow)
    }
}

#[cfg(test)]
mod tests;
