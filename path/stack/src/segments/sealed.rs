//! Secured connections: who seals and opens their records, and what the stack says in them
//! by itself. `tcp` knows where records stand, [`seal::Layer`] knows keys; they meet here.

use super::Tcp;
use super::build::Payload;
use app::{Closed, ConnId};
use core::hint::cold_path;
use seal::message::alert;
use seal::{Ask, Layer, MAX_SEALED, Unsealed};
use tcp::{Connection, Context, Emit, Fixed, Message, Path, Workbench};
use wire::Sum;

/// Records before the last under a key, at which the key is updated: more than one turn
/// sends.
const BEFORE_UPDATE: u64 = 1 << 12;

/// The same where it cannot be updated: from here on the application is told that the connection
/// is to end.
/// [`Tcp::transmit_single`] looks after no keys, and is not for those that wear.
const BEFORE_END: u64 = tcp::KEYS_WEAR;

const _: () = assert!(BEFORE_UPDATE <= tcp::KEYS_WEAR, "what is not worn is not to be updated");

/// A connection is quiet after this, in milliseconds.
pub(super) const QUIET_AFTER: u32 = 1_000;

/// Connections looked at for that in a millisecond, and at most at once.
const LOOKS: u32 = 32;
const MOST_LOOKS: u32 = 1_024;

/// Plaintext that an arrival leaves room for; more is given back.
const KEEP_PLAIN: usize = 128 * 1024;

/// How the peer's side stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    /// Open.
    Open,
    /// It said that it sends no more.
    End,
    /// It ended without that.
    Cut,
    /// Nothing of it can be opened any more.
    Broken,
}

/// How far its keys are used up, where there are no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wear {
    /// Not so far that it matters.
    Little,
    /// The application is to be told.
    Untold,
    /// It was.
    Told,
}

/// What secures a connection.
struct Sealed {
    layer: Box<dyn Layer>,
    /// The oldest of our epochs that the layer still has keys for.
    oldest: u8,
    heard: Heard,
    /// The application knows how the peer's side ended.
    told: bool,
    /// The peer wants us to update our keys.
    owes_update: bool,
    /// The peer is to be told that there will be no other handshake.
    refuses: bool,
    rests: bool,
    wear: Wear,
}

// With its slot (128 bytes), its queue's records (224), and a record layer of 448, a
// connection that rests keeps less than 900 bytes, and leaves 300 to its application.
const _: () = assert!(size_of::<Sealed>() <= 24, "and its place is 8 bytes more");

impl Sealed {
    /// Its keys are used: there is something to give up again.
    #[inline]
    fn wake(&mut self, awake: &mut usize) {
        *awake += usize::from(core::mem::take(&mut self.rests));
    }
}

/// What secures the connections, by slot. Nothing is taken before the first.
#[derive(Default)]
pub(super) struct Seals {
    places: Vec<Option<Box<Sealed>>>,
    bench: Workbench,
    /// Plaintext of what just arrived.
    plain: Vec<u8>,
    /// Those that do not rest.
    awake: usize,
    hand: usize,
    swept_ms: u32,
}

impl core::fmt::Debug for Seals {
    /// Without what they have: there are keys in it, and plaintext.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Seals").field("places", &self.places.len()).field("awake", &self.awake).finish_non_exhaustive()
    }
}

impl Seals {
    fn get_mut(&mut self, index: u32) -> Option<&mut Sealed> {
        self.places.get_mut(index as usize)?.as_deref_mut()
    }

    fn insert(&mut self, index: u32, layer: Box<dyn Layer>, slots: usize) {
        if self.places.capacity() == 0 {
            // As for the slots themselves: address space, of which memory is taken as it is
            // used, so that it never moves.
            self.places.reserve_exact(slots);
        }
        let index = index as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        let heard = Heard::Open;
        let sealed = Sealed {
            layer,
            oldest: 0,
            heard,
            told: false,
            owes_update: false,
            refuses: false,
            rests: false,
            wear: Wear::Little,
        };
        self.places[index] = Some(Box::new(sealed));
        self.awake += 1;
    }

    /// The connection is gone.
    #[inline]
    pub fn remove(&mut self, index: u32) {
        if let Some(place) = self.places.get_mut(index as usize)
            && let Some(sealed) = place.take()
        {
            cold_path();
            self.awake -= usize::from(!sealed.rests);
        }
    }

    /// What writes the payload of a connection's segments.
    pub fn payload(&mut self, index: u32) -> Option<Sealing<'_>> {
        let Self { places, bench, awake, .. } = self;
        let sealed = places.get_mut(index as usize)?.as_deref_mut()?;
        bench.clear();
        Some(Sealing { sealed, bench, awake, failed: false })
    }

    /// What writes the only record of a connection, and the epoch of its keys: those of which
    /// nothing is due.
    #[inline(always)]
    pub fn single(&mut self, index: u32) -> Option<(Sealing<'_>, u8)> {
        let Self { places, bench, awake, .. } = self;
        let sealed = places.get_mut(index as usize)?.as_deref_mut()?;
        if sealed.owes_update {
            cold_path();
            return None;
        }
        let epoch = sealed.oldest;
        Some((Sealing { sealed, bench, awake, failed: false }, epoch))
    }

    /// Whether somebody is to be looked at.
    pub const fn is_awake(&self) -> bool {
        self.awake > 0
    }
}

/// Writes payload as records.
pub(super) struct Sealing<'a> {
    sealed: &'a mut Sealed,
    bench: &'a mut Workbench,
    awake: &'a mut usize,
    /// A record could not be sealed: what was written is not to be sent.
    pub failed: bool,
}

impl Payload for Sealing<'_> {
    const SEALED: bool = true;
    /// As many as the longest record takes, where segments are of the usual length.
    const MORE: usize = 11;

    fn poll(connection: &mut Connection, cx: &mut Context<'_>, path: Path, burst: u32) -> Option<Emit> {
        connection.poll_sealed(cx, path, burst)
    }

    fn write(&mut self, connection: &mut Connection, emit: &Emit, out: &mut [u8]) -> Sum {
        self.sealed.wake(self.awake);
        let sum = connection.seal_payload(emit, out, self.bench, &mut *self.sealed.layer);
        sum.unwrap_or_else(|_| {
            cold_path();
            self.failed = true;
            Sum::ZERO
        })
    }

    fn failed(&self) -> bool {
        self.failed
    }

    fn is_amid(&self) -> bool {
        self.bench.is_amid()
    }

    fn end(&mut self, connection: &mut Connection) {
        connection.keep_begun(self.bench);
    }
}

/// The same, where [`Connection::poll_light_sealed`] gave the segment.
pub(super) struct Single<'a> {
    pub sealing: Sealing<'a>,
    /// The record, until it is written.
    pub fixed: Option<Fixed>,
}

impl Payload for Single<'_> {
    const SEALED: bool = true;

    fn poll(_: &mut Connection, _: &mut Context<'_>, _: Path, _: u32) -> Option<Emit> {
        None
    }

    #[inline(always)]
    fn write(&mut self, connection: &mut Connection, _: &Emit, out: &mut [u8]) -> Sum {
        let Sealing { sealed, bench, awake, failed } = &mut self.sealing;
        sealed.wake(awake);
        if let Some(fixed) = self.fixed.take()
            && let Ok(sum) = connection.seal_single(fixed, out, bench, &mut *sealed.layer)
        {
            return sum;
        }
        cold_path();
        *failed = true;
        Sum::ZERO
    }

    fn failed(&self) -> bool {
        self.sealing.failed
    }
}

/// What applications ask.
impl Tcp {
    /// Secures a connection, as [`app::Net::secure`] says.
    pub fn secure(&mut self, id: ConnId, layer: Box<dyn Layer>) -> bool {
        let most = layer.most().clamp(64, seal::MAX_PLAINTEXT) as u16;
        let overhead = u16::try_from(layer.overhead()).unwrap_or(u16::MAX);
        let slots = self.slots.capacity();
        let Some(slot) = self.slots.get_mut(id) else { return false };
        if slot.is_over() || !slot.tcp.secure((overhead, most), layer.most_records()) {
            return false;
        }
        let waits = !slot.tcp.held().is_empty();
        self.seals.insert(id.index() as u32, layer, slots);
        if waits {
            // What is held are records.
            self.events.resumed.push_back(id);
        }
        true
    }

    /// Whether a connection is secured.
    pub fn is_sealed(&self, id: ConnId) -> bool {
        self.slots.get(id).is_some_and(|slot| slot.tcp.is_sealed())
    }

    /// Whether the peer ended without saying so in a record.
    pub fn was_cut(&self, id: ConnId) -> bool {
        self.heard(id).is_some_and(|heard| matches!(heard, Heard::Cut | Heard::Broken))
    }

    /// Whether it ended by what could not be opened.
    pub fn was_broken(&self, id: ConnId) -> bool {
        self.heard(id) == Some(Heard::Broken)
    }

    fn heard(&self, id: ConnId) -> Option<Heard> {
        let place = self.seals.places.get(id.index()).and_then(Option::as_deref);
        place.filter(|_| self.slots.get(id).is_some()).map(|sealed| sealed.heard)
    }
}

/// What arrives.
impl Tcp {
    /// Room for the plaintext of what arrived; to be given back.
    #[inline]
    pub fn take_plain(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.seals.plain)
    }

    /// Gives it back.
    #[inline]
    pub fn put_plain(&mut self, mut plain: Vec<u8>) {
        plain.clear();
        if plain.capacity() > KEEP_PLAIN {
            cold_path();
            plain.shrink_to(KEEP_PLAIN);
        }
        self.seals.plain = plain;
    }

    /// Whether the peer has ended, by whatever means, or our keys are nearly used up.
    #[inline]
    pub fn has_news(&self, id: ConnId) -> bool {
        let place = self.seals.places.get(id.index()).and_then(Option::as_deref);
        place.is_some_and(|sealed| sealed.heard != Heard::Open || sealed.wear == Wear::Untold)
    }

    /// Whether the application is to be told that the connection's keys are nearly used up; said once.
    pub fn take_worn(&mut self, id: ConnId) -> bool {
        let Some(sealed) = self.seals.get_mut(id.index() as u32) else { return false };
        let untold = sealed.wear == Wear::Untold;
        if untold {
            sealed.wear = Wear::Told;
        }
        untold
    }

    /// Opens the whole records that stand first in `input`, and appends their plaintext.
    /// Returns how many bytes were taken: all of them once the peer has ended.
    #[inline(always)]
    pub fn open_records(&mut self, id: ConnId, input: &[u8], plain: &mut Vec<u8>) -> usize {
        let index = id.index() as u32;
        let mut at = 0;
        while at < input.len() {
            let Seals { places, awake, .. } = &mut self.seals;
            let Some(sealed) = places.get_mut(index as usize).and_then(Option::as_deref_mut) else { break };
            if sealed.heard != Heard::Open {
                return input.len();
            }
            sealed.wake(awake);
            let consumed = match sealed.layer.open(&input[at..], plain) {
                Unsealed::Needs(most) if most <= MAX_SEALED => break,
                Unsealed::Data { consumed } if consumed > 0 => consumed,
                Unsealed::Control { consumed, ask } if consumed > 0 => {
                    // Several before one of ours have one answer.
                    sealed.owes_update |= ask == Ask::Update;
                    sealed.refuses |= ask == Ask::Refuse;
                    consumed
                }
                Unsealed::End { .. } => {
                    sealed.heard = Heard::End;
                    return input.len();
                }
                Unsealed::Failed(why) => {
                    self.fail(id, why);
                    return input.len();
                }
                // No layer answers so.
                _ => {
                    self.fail(id, Some(alert::INTERNAL_ERROR));
                    return input.len();
                }
            };
            if sealed.owes_update | sealed.refuses {
                self.tend(index);
                self.make_ready(index);
            }
            at += consumed;
        }
        at.min(input.len())
    }

    /// Keeps plaintext that the application did not take, and bytes of a record that is not
    /// all there.
    pub fn hold_opened(&mut self, id: ConnId, plain: &[u8], sealed: &[u8]) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        let before = slot.tcp.buffered();
        slot.tcp.hold_opened(&self.common.config, plain, sealed);
        self.account(id.index() as u32, before);
    }

    /// The peer has sent its FIN.
    pub fn end_sealed(&mut self, id: ConnId) {
        let index = id.index() as u32;
        if let Some(sealed) = self.seals.get_mut(index)
            && sealed.heard == Heard::Open
        {
            sealed.heard = Heard::Cut;
        }
        let Some(slot) = self.slots.get_mut(id) else { return };
        let before = slot.tcp.buffered();
        slot.tcp.drop_sealed();
        self.account(index, before);
    }

    /// Whether the application is to be told that the peer has ended; said once.
    pub fn take_end(&mut self, id: ConnId) -> bool {
        let Some(sealed) = self.seals.get_mut(id.index() as u32) else { return false };
        sealed.heard != Heard::Open && !core::mem::replace(&mut sealed.told, true)
    }

    /// Nothing that follows can be opened: the peer gets an alert and a FIN, or where it sent
    /// an alert itself, a reset.
    #[cold]
    fn fail(&mut self, id: ConnId, why: Option<u8>) {
        self.counters.records_failed += 1;
        if let Some(sealed) = self.seals.get_mut(id.index() as u32) {
            sealed.heard = Heard::Broken;
        }
        let Some(slot) = self.slots.get_mut(id) else { return };
        match why {
            Some(description) if slot.tcp.can_say() => {
                slot.tcp.fail(description);
                self.make_ready(id.index() as u32);
            }
            _ => self.end_sealing(id, Closed::Reset),
        }
    }
}

/// What is sent.
impl Tcp {
    /// Has a connection end by a reset.
    pub(super) fn end_sealing(&mut self, id: ConnId, why: Closed) {
        self.reset_connection(id);
        self.note_over(id, why);
    }

    /// Keys whose records are acknowledged are forgotten, and new ones made where they are
    /// due: never while there are two. Before records are fixed.
    pub(super) fn tend(&mut self, index: u32) {
        let Self { seals, slots, .. } = self;
        let slot = slots.at_mut(index);
        let (Some(sealed), Some((epoch, number, oldest))) = (seals.get_mut(index), slot.tcp.epochs()) else { return };
        while sealed.oldest != oldest {
            sealed.layer.forget(sealed.oldest);
            sealed.oldest = sealed.oldest.wrapping_add(1);
        }
        if core::mem::take(&mut sealed.refuses) && slot.tcp.can_say() {
            slot.tcp.say(Message::NoRenegotiation);
        }
        let most = sealed.layer.most_records();
        let worn = number >= most.saturating_sub(BEFORE_UPDATE.min(most / 4));
        let wears = number >= most.saturating_sub(BEFORE_END.min(most / 2));
        if !(sealed.owes_update || wears) || !slot.tcp.can_say() {
            return;
        }
        if oldest != epoch {
            // The answer precedes the next data (RFC 8446 section 4.6.3), and is made as soon as there
            // are no more than one epoch's keys.
            if sealed.owes_update {
                slot.tcp.wait_for_keys();
            }
            return;
        }
        if worn || sealed.owes_update {
            match sealed.layer.next_epoch() {
                Ok(epoch) => {
                    slot.tcp.say(Message::KeyUpdate);
                    slot.tcp.begin_epoch(epoch);
                    sealed.owes_update = false;
                }
                // TLS 1.2 ends: what is queued goes out still.
                Err(_) if worn => slot.tcp.end_used_up(),
                Err(_) => sealed.owes_update = false,
            }
        } else if sealed.wear == Wear::Little && !sealed.layer.updates_keys() {
            sealed.wear = Wear::Untold;
        }
    }

    /// What a turn to send left: a record that could not be sealed ends the connection, and so
    /// does one for whom far more is sealed than sent.
    pub(super) fn after_sealing(&mut self, index: u32, failed: bool) {
        let overworked = self.slots.at(index).tcp.is_overworked();
        if failed || overworked {
            cold_path();
            self.counters.sealing_ended += 1;
            self.end_sealing(self.slots.id(index), Closed::Aborted);
        }
    }

    /// Has quiet connections give up what can be made again.
    pub(super) fn rest_quiet(&mut self) {
        let now_ms = self.common.now_ms;
        let Self { seals, slots, .. } = self;
        let passed = now_ms.wrapping_sub(core::mem::replace(&mut seals.swept_ms, now_ms));
        let looks = passed.saturating_mul(LOOKS).clamp(LOOKS, MOST_LOOKS) as usize;
        let mut tended = None;
        for _ in 0..looks.min(seals.places.len()) {
            seals.hand = if seals.hand + 1 < seals.places.len() { seals.hand + 1 } else { 0 };
            let Some(sealed) = seals.places.get_mut(seals.hand).and_then(Option::as_deref_mut) else { continue };
            let slot = slots.at_mut(seals.hand as u32);
            if sealed.rests || !slot.tcp.is_quiet() || slot.tcp.silence(now_ms) < QUIET_AFTER {
                continue;
            }
            sealed.rests = true;
            sealed.layer.rest();
            slot.tcp.rest();
            seals.awake -= 1;
            if sealed.oldest != slot.tcp.epochs().map_or(sealed.oldest, |(_, _, oldest)| oldest) {
                tended = Some(seals.hand as u32);
            }
        }
        if let Some(index) = tended {
            self.tend(index);
        }
    }
}
