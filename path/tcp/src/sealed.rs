//! A secured connection: what it sends are records, and sequence numbers count those.
//!
//! The send queue keeps plaintext and counts as it is sent ([`rope::Rope`]), so that windows,
//! loss and acknowledgements are what they are for any connection. What is done here is
//! what makes a difference: records are fixed for what is about to be sent, messages of
//! the data path go among them, and close_notify precedes the FIN.

use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::Emit;
use crate::flags::Flags;
use crate::state::State;
use rope::{Fixed, Message, Workbench};
use seal::{Layer, SealError};
use wire::Sum;

/// A record has at most the window divided by this.
const LONG_SHARE: u32 = 4;

impl Connection {
    /// Whether what it sends are records.
    #[inline(always)]
    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.flags.has(Flags::SEALED) && !self.state.opening()
    }

    /// What is queued from now on is sent in records, to each of which sealing adds
    /// `overhead`, of `most` bytes of plaintext at most, so many `records` under one key.
    /// Returns whether that begins: the connection is open, not finished, and not sealed yet.
    pub fn secure(&mut self, (overhead, most): (u16, u16), records: u64) -> bool {
        let may = matches!(self.state, State::Established | State::CloseWait)
            && !self.flags.has(Flags::FINISHED)
            && !self.is_sealed();
        if may {
            self.rope.secure((overhead, most), self.mss, records);
            self.flags.set(Flags::SEALED);
        }
        may
    }

    /// Fixes the records of a piece of new data that is about to leave, `len` of the
    /// `waiting` bytes at most, while `pipe` bytes count against the congestion window.
    /// Returns its length, and whether it empties the queue; on a connection that is not
    /// sealed, what it was given.
    #[inline]
    pub(crate) fn fix(&mut self, len: u32, waiting: u32, pipe: u32, burst: u32) -> (u32, bool) {
        if !self.is_sealed() {
            return (len, len == waiting);
        }
        let in_flight = self.in_flight();
        // A long record is sealed as a whole for each segment of it that is lost.
        let calm = self.cold.as_ref().is_none_or(|cold| !cold.recovering());
        let large = calm && burst > u32::from(self.mss);
        let long = calm && !large && len < waiting;
        let ahead = if long { self.record_room(waiting, in_flight, pipe) } else { 0 };
        let len = self.rope.fix(in_flight, len, (ahead, large));
        (len, len == self.rope.len().saturating_sub(in_flight))
    }

    /// Most bytes of a record that takes several segments: all of it may leave now, and it is
    /// no more than a fourth of what may be under way. So it begins with a segment or two and
    /// grows with the window, and its end is never far behind its beginning.
    fn record_room(&self, waiting: u32, in_flight: u32, pipe: u32) -> u32 {
        let by_peer = self.snd_wnd.saturating_sub(in_flight);
        let by_path = self.cwnd.saturating_sub(pipe);
        waiting.min(by_peer).min(by_path).min(self.cwnd / LONG_SHARE)
    }

    /// As [`Connection::poll_light`], for all that waits on a sealed connection if it goes into
    /// one record, and that into one segment: under the keys of `epoch`, which nobody has to
    /// look after yet. [`Connection::seal_single`] writes it.
    #[inline(always)]
    pub fn poll_light_sealed(&mut self, cx: &mut Context<'_>, epoch: u8) -> Option<(Emit, Fixed)> {
        const DISTURBED: u16 = Flags::SLOW | Flags::PROBE | Flags::V6;
        let undisturbed = self.state == State::Established && !self.flags.has(DISTURBED) && self.cold.is_none();
        if !undisturbed || self.nxt != self.una {
            return None;
        }
        let most = u32::from(self.mss).min(self.snd_wnd).min(self.cwnd);
        let fixed = self.rope.fix_single(epoch, most)?;
        Some((self.emit_light(cx, fixed.wire()), fixed))
    }

    /// Writes the payload of what [`Connection::poll_light_sealed`] gave into `out`, and sums
    /// it.
    ///
    /// # Errors
    /// As [`Connection::seal_payload`].
    #[inline(always)]
    pub fn seal_single(
        &mut self,
        fixed: Fixed,
        out: &mut [u8],
        bench: &mut Workbench,
        layer: &mut dyn Layer,
    ) -> Result<Sum, SealError> {
        self.rope.seal_single(fixed, out, bench, layer)
    }

    /// [`Connection::poll_segment`] for a connection that is sealed, apart from the one that
    /// nearly all are asked by.
    #[inline(never)]
    pub fn poll_sealed(&mut self, cx: &mut Context<'_>, path: Path, burst: u32) -> Option<Emit> {
        self.poll_disturbed(cx, path, burst)
    }

    /// Writes the payload of `emit` into `out`, in finished records, and sums it.
    ///
    /// # Errors
    /// See [`rope::Rope::seal_out`]; what stands in `out` is not to be sent.
    pub fn seal_payload(
        &mut self,
        emit: &Emit,
        out: &mut [u8],
        bench: &mut Workbench,
        layer: &mut dyn Layer,
    ) -> Result<Sum, SealError> {
        self.rope.seal_out(emit.offset, out, bench, layer)
    }

    /// Its turn to send is over: what was made for it on the bench, and is sent in parts, is
    /// kept for the next.
    #[inline]
    pub fn keep_begun(&mut self, bench: &mut Workbench) {
        self.rope.keep_begun(bench);
    }

    /// Whether messages of the data path still find a place: nothing has ended what is sent.
    #[must_use]
    pub fn can_say(&self) -> bool {
        self.is_sealed() && self.state.sends() && !self.flags.has(Flags::FIN_SENT) && self.rope.can_say()
    }

    /// All that may be sent under the keys was, and there are no others: what no record has
    /// is not sent any more, and close_notify and the FIN follow.
    pub fn end_used_up(&mut self) {
        if self.rope.is_used_up() {
            self.rope.take_back(u32::MAX);
        }
        self.finish();
    }

    /// Says something behind what was sent, before what no record has.
    pub fn say(&mut self, message: Message) {
        self.rope.say(message);
    }

    /// What no record has waits for the next keys ([`Connection::begin_epoch`]).
    pub fn wait_for_keys(&mut self) {
        self.rope.wait_for_keys();
    }

    /// What follows what was said is under the next keys.
    pub fn begin_epoch(&mut self, epoch: u8) {
        self.rope.begin_epoch(epoch);
    }

    /// Epoch and number of the next record, and the epoch of the oldest one that may be sent
    /// again.
    #[must_use]
    pub fn epochs(&self) -> Option<(u8, u64, u8)> {
        self.rope.epochs()
    }

    /// Nothing that the application queued and no record has is sent any more: a fatal alert
    /// ends it, and the FIN follows.
    pub fn fail(&mut self, description: u8) {
        self.rope.take_back(u32::MAX);
        self.rope.say(Message::Fatal(description));
        // Instead of close_notify, where that was due already.
        self.rope.end_said();
        self.finish();
    }

    /// Whether more was sealed than was sent would explain.
    #[must_use]
    pub fn is_overworked(&self) -> bool {
        self.rope.is_overworked()
    }

    /// Bytes that were sent of records, and bytes that were sealed for that.
    #[must_use]
    pub fn sealing(&self) -> (u64, u64) {
        self.rope.sealing()
    }

    /// Gives up memory that nothing is in, while the connection is quiet.
    pub fn rest(&mut self) {
        if self.is_sealed() && self.is_quiet() {
            self.rope.rest();
        }
    }

    /// How long the peer has sent nothing, in milliseconds.
    #[must_use]
    pub const fn silence(&self, now_ms: u32) -> u32 {
        now_ms.wrapping_sub(self.last_rx)
    }

    /// Keeps plaintext that the application did not consume, and bytes of a record that is
    /// not all there.
    pub fn hold_opened(&mut self, config: &crate::Config, plain: &[u8], sealed: &[u8]) {
        if plain.is_empty() && sealed.is_empty() {
            return;
        }
        let receive = &mut self.cold_mut(config).receive;
        receive.hold(plain);
        receive.note_opened();
        receive.hold(sealed);
        self.flags.set(Flags::SLOW);
    }

    /// Nothing follows: a record that is not all there never will be.
    pub fn drop_sealed(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.receive.drop_sealed();
            self.settle();
        }
    }

    /// Plaintext that waits for the application.
    #[must_use]
    pub fn held_opened(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.receive.opened().len())
    }
}
