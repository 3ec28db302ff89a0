//! Received bytes that wait: for the application, or for a gap to fill.

use crate::cold::HolderMark;
use crate::config::Config;
use crate::connection::Connection;
use crate::flags::Flags;
use crate::receive::ReceiveBuffer;
use crate::state::State;
use wire::tcp::SeqNum;

impl Connection {
    /// Memory of bytes that wait for the application or for a gap to fill.
    #[inline]
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.receive.bytes())
    }

    /// Of this, what waits for a gap to fill.
    #[inline]
    #[must_use]
    pub fn buffered_early(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.receive.early_bytes())
    }

    /// Whether a segment that begins there lies ahead of a gap.
    #[must_use]
    pub fn is_ahead(&self, seq: SeqNum) -> bool {
        seq.after(self.rcv_nxt)
    }

    /// Forgets bytes ahead of a gap, which the peer sends again (RFC 2018
    /// section 8).
    pub fn forget_early(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.receive.forget_early();
            self.settle();
        }
    }

    /// Where the connection stands among those that hold received bytes;
    /// `None` if it cannot hold any.
    #[inline]
    #[must_use]
    pub fn holder(&self) -> Option<HolderMark> {
        self.cold.as_ref().map(|cold| cold.holder)
    }

    /// Notes where it stands from now on.
    pub fn set_holder(&mut self, holder: HolderMark) {
        if let Some(cold) = &mut self.cold {
            cold.holder = holder;
        }
    }

    /// Keeps in-order bytes that the application did not consume.
    pub fn hold(&mut self, config: &Config, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.cold_mut(config).receive.hold(bytes);
        self.flags.set(Flags::SLOW);
    }

    /// In-order bytes that wait for the application.
    #[inline]
    #[must_use]
    pub fn held(&self) -> &[u8] {
        self.cold.as_ref().map_or(&[], |cold| cold.receive.contiguous())
    }

    /// Takes the receive buffer out, so that the application can be called
    /// with its bytes and with the stack at the same time.
    pub fn take_held(&mut self) -> Option<ReceiveBuffer> {
        let cold = self.cold.as_mut()?;
        if cold.receive.contiguous().is_empty() {
            return None;
        }
        Some(core::mem::take(&mut cold.receive))
    }

    /// Puts the receive buffer back after the application consumed from it,
    /// or not.
    pub fn put_held(&mut self, config: &Config, receive: ReceiveBuffer) {
        if self.state == State::Closed {
            return;
        }
        // What cannot be told opens nothing.
        let limit = self.receive_limit(config);
        let most = limit.min(0xffff << self.own_shift());
        let free = (limit as usize).saturating_sub(receive.contiguous().len()) as u32;
        self.cold_mut(config).receive = receive;
        if self.state == State::TimeWait {
            return; // No window matters any more.
        }
        // A window that the application's reading has opened much further is
        // told at once (RFC 9293 section 3.8.6.2.2), or a peer stopped by a
        // small window would wait for its own probe.
        let edge = self.rcv_nxt.plus(free.min(most));
        let told = self.rcv_adv.forward_from(self.rcv_nxt);
        let threshold = (most / 2).min(2 * u32::from(self.mss));
        if told < most / 2 && edge.distance_from(self.rcv_adv) >= threshold as i32 {
            self.flags.set(Flags::ACK_NOW);
        }
        self.settle();
    }
}
