//! Connections that go over to another protocol, which both sides speak as they like.

use crate::ask::{Ask, AskStage, AskTurn};
use crate::link::AskLink;
use crate::sending::SEND_MAX;
use crate::tunnel_pace::{TunnelLate, TunnelLimits, TunnelPace};
use exchange::Piece;
use wire::Time;

impl Ask {
    /// The answer's head has made the connection a tunnel. What was said behind it is offered
    /// again.
    pub fn begin_tunnel(&mut self, turn: &mut AskTurn<'_>) {
        (self.stage, self.reading.complete, self.reading.keeps) = (AskStage::Tunnel, false, false);
        if let Some(link) = self.link {
            self.tunnel = Some(Box::new(TunnelPace::begin(turn.unsent(link), turn.now)));
            // Nothing is late yet.
            let _ = self.look_at_tunnel(turn);
            turn.resume(link);
        }
    }

    /// Of `offered` bytes of the server so many were taken. Whether that was all that it will
    /// say.
    pub fn tunnel_came(&mut self, now: Time, taken: usize, offered: usize) -> bool {
        self.reading.held = taken < offered;
        if let Some(last) = self.tries.last_mut() {
            last.received += taken as u64;
        }
        if let (Some(pace), true) = (&mut self.tunnel, taken > 0) {
            pace.came(now);
        }
        self.reading.ended && !self.reading.held
    }

    /// The server says no more than what waits.
    pub const fn tunnel_ended(&mut self) {
        self.reading.ended = true;
    }

    /// Bytes for the server. How many were taken.
    pub fn tunnel_send(&mut self, turn: &mut AskTurn<'_>, bytes: &[u8]) -> usize {
        let Some(link) = self.link else { return bytes.len() };
        let unsent = turn.unsent(link);
        let taken = bytes.len().min(SEND_MAX.saturating_sub(unsent));
        turn.send(link, Piece::Bytes(bytes.get(..taken).unwrap_or_default()));
        if let Some(pace) = &mut self.tunnel {
            pace.queued(taken, unsent, turn.now);
        }
        if let Some(last) = self.tries.last_mut() {
            last.sent += taken as u64;
        }
        taken
    }

    /// There is room for what waits at the data path, if something does.
    pub fn tunnel_room(&mut self, turn: &mut AskTurn<'_>) -> bool {
        let (Some(link), true) = (self.link, core::mem::take(&mut self.reading.held)) else { return false };
        if let Some(pace) = &mut self.tunnel {
            pace.came(turn.now);
        }
        turn.resume(link);
        true
    }

    /// Sets the server's timer.
    ///
    /// # Errors
    /// It has said nothing for too long, or taken nothing.
    pub fn watch_tunnel(&mut self, turn: &mut AskTurn<'_>) -> Result<(), TunnelLate> {
        let looked = self.look_at_tunnel(turn);
        if looked.is_err() {
            self.note_fault("upstream timed out (110: Connection timed out)");
        }
        looked
    }

    fn look_at_tunnel(&mut self, turn: &mut AskTurn<'_>) -> Result<(), TunnelLate> {
        let limits = TunnelLimits { read: self.rules.read, send: self.rules.send };
        let (Some(link), Some(pace)) = (self.link, &mut self.tunnel) else { return Ok(()) };
        let at = pace.look(turn.now, turn.unsent(link), self.reading.held, limits)?;
        turn.set_timer(link, at);
        Ok(())
    }

    /// It is over: what is queued for the server is its, as long as it takes some of it, unless
    /// it `is_late`.
    pub fn end_tunnel(&mut self, turn: &mut AskTurn<'_>, is_late: bool) {
        self.release(turn.groups, turn.now, false);
        match self.link.take() {
            Some(link) if is_late => turn.cut(link),
            Some(AskLink::Own(link)) => turn.io.let_go(link, self.rules.send),
            Some(link) => turn.let_go(link),
            None => {}
        }
    }
}
