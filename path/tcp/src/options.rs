//! What an application asks of one connection, beyond what [`Config`] says for
//! all: the socket options of Linux's tcp(7) and ip(7).
//!
//! They lie in the cold part, which stays for as long as one of them differs
//! from its default. Such a connection takes none of the short ways
//! ([`Connection::on_light`], [`Connection::poll_light`]), so that these need
//! not ask.

#[cfg(test)]
mod tests;

use crate::asked::{Asked, SocketOptions};
use crate::config::Config;
use crate::connection::Connection;
use crate::context::{Context, TIMESTAMPS_LEN, Treatment};
use crate::flags::Flags;
use wire::Time;

impl Connection {
    /// The options, as they were set.
    #[must_use]
    pub fn options(&self) -> SocketOptions {
        self.asked().map_or(SocketOptions::default(), |asked| asked.options)
    }

    /// The traffic class of its packets.
    #[inline]
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        self.asked().map_or(0, |asked| asked.options.traffic_class)
    }

    /// How its packets are treated on their way.
    #[inline]
    #[must_use]
    pub fn treatment(&self) -> Treatment {
        match &self.cold {
            Some(_) => Treatment::new(self.traffic_class(), self.may_be_fragmented()),
            None => Treatment::default(),
        }
    }

    /// Sets the options.
    pub fn set_options(&mut self, config: &Config, now: Time, options: SocketOptions) {
        self.ask(config, |asked| asked.options = options.sound());
        self.steer_pacing(config, now);
        if self.cold.is_some() {
            self.settle();
        }
    }

    /// Sets the rate of what is queued from now on, in bytes per second
    /// ([`SocketOptions::pacing_rate`]). `None` leaves what is queued the rate that it
    /// has: it goes when that is acknowledged, which of a secured connection may be a
    /// little sooner, for records are longer than what they carry.
    pub fn set_rate(&mut self, config: &Config, now: Time, rate: Option<u64>) {
        let left = u64::from(self.rope.plain_len());
        let until = self.cold.as_ref().map(|cold| cold.acked_to + left).filter(|_| rate.is_none() && left > 0);
        self.ask(config, |asked| {
            asked.rate_until = until;
            if until.is_none() {
                asked.options.pacing_rate = rate;
            }
        });
        self.steer_pacing(config, now);
        if self.cold.is_some() {
            self.settle();
        }
    }

    /// What was queued with a rate is acknowledged.
    #[cold]
    pub(crate) fn end_rate(&mut self, config: &Config) {
        self.ask(config, |asked| {
            asked.rate_until = None;
            asked.options.pacing_rate = None;
        });
    }

    /// Takes over the options of the listener that accepted the connection:
    /// before anything is sent.
    pub fn inherit(&mut self, config: &Config, now: Time, options: SocketOptions) {
        self.set_options(config, now, options);
        self.clamp_segments();
        self.set_cwnd(congestion::initial_window(u32::from(self.mss)));
        self.begin_pacing(config, now);
    }

    /// Segments grow no longer than what was asked for.
    pub(crate) fn clamp_segments(&mut self) {
        let Some(cold) = &mut self.cold else { return };
        if let Some(most) = cold.asked.as_ref().and_then(|asked| asked.options.max_segment) {
            let options = if self.flags.has(Flags::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
            self.mss = self.mss.min(most.saturating_sub(options)).max(1);
        }
        cold.congestion.set_segment(u32::from(self.mss));
        cold.scoreboard.set_mss(u32::from(self.mss));
    }

    /// Most payload that we announce to take in a segment of this path.
    pub(crate) fn announced(&self, by_path: u16) -> u16 {
        self.options().max_segment.map_or(by_path, |most| most.min(by_path))
    }

    /// Whether small segments wait for acknowledgements (RFC 9293 section
    /// 3.7.4, MUST-17: an application can switch it off). Switching it off lets
    /// go once what [`Connection::set_cork`] holds, as in Linux.
    pub fn set_nagle(&mut self, on: bool) {
        let Some(asked) = self.cold.as_mut().and_then(|cold| cold.asked.as_mut()) else {
            return self.note_nagle(on);
        };
        asked.nagle = on;
        if !on {
            asked.release = true;
            asked.more = false;
        }
        self.apply();
    }

    /// Whether segments that are not full wait until this is taken back, or
    /// for a retransmission timeout while nothing is in flight (`TCP_CORK`).
    pub fn set_cork(&mut self, config: &Config, on: bool) {
        self.ask(config, |asked| {
            asked.release |= asked.corked && !on && !asked.nagle;
            asked.corked = on;
        });
    }

    /// Whether the application said that more follows what it queues now
    /// (`MSG_MORE`): a segment that is not full then waits for it, for a
    /// segment of the peer, or for a retransmission timeout while nothing is
    /// in flight. Its end asks for no PSH.
    pub fn set_more(&mut self, config: &Config, on: bool) {
        if !on && self.asked().is_none() {
            return;
        }
        self.ask(config, |asked| {
            asked.more = on;
            asked.open_end = on;
        });
    }

    /// The user timeout in milliseconds; 0 is none.
    pub(crate) fn user_timeout(&self, config: &Config) -> u32 {
        match self.cold.as_ref().and_then(|cold| cold.asked.as_ref()) {
            Some(asked) => asked.options.user_timeout.unwrap_or(config.user_timeout),
            None => config.user_timeout,
        }
    }

    /// A segment of the peer has come: what waits for more goes with it.
    #[inline]
    pub(crate) fn on_peer_heard(&mut self) {
        if let Some(cold) = &mut self.cold
            && let Some(asked) = &mut cold.asked
            && asked.more
        {
            asked.more = false;
            self.apply();
        }
    }

    /// Whether the last segment, which is not full, may leave although small
    /// ones wait: none that is small is under way, as on Linux (`tcp_minshall_check` in
    /// net/ipv4/tcp_output.c). What is under way in full segments alone is whole ones of them.
    #[cold]
    pub(crate) fn may_send_small(&self, in_flight: u32) -> bool {
        let none_is_small = in_flight.is_multiple_of(self.mss.into());
        // Nothing follows that it could wait for.
        self.flags.has(Flags::FINISHED)
            || match self.asked() {
                Some(asked) => asked.release || (none_is_small && !asked.corked && !asked.more),
                None => none_is_small,
            }
    }

    /// The timer has run out on a segment that only the application holds
    /// back: it goes, as on Linux (`tcp_write_wakeup` in
    /// net/ipv4/tcp_output.c). Whether there is one.
    pub(crate) fn release_held_back(&mut self) -> bool {
        let opens = self.snd_wnd > 0 && !self.flags.has(Flags::FINISHED);
        match self.cold.as_mut().and_then(|cold| cold.asked.as_mut()) {
            Some(asked) if opens && (asked.corked || asked.more) => {
                asked.release = true;
                asked.open_end = false;
                true
            }
            _ => false,
        }
    }

    /// Whether new data that ends the queue asks the peer to hand it on: its
    /// end is that of an application's write.
    #[inline(always)]
    pub(crate) fn ends_write(&self) -> bool {
        self.cold.is_none() || !self.has_open_end()
    }

    #[cold]
    fn has_open_end(&self) -> bool {
        self.asked().is_some_and(|asked| asked.open_end)
    }

    /// Whether new data that does not end the queue asks the peer to hand on
    /// what it has (PSH, RFC 9293 section 3.9.1.2): where an application's
    /// write ends, at each half of the largest window that the peer ever had,
    /// and where the link cuts it into segments, so that the peer's receive
    /// offload holds none back (`forced_push` in Linux's net/ipv4/tcp.c, and
    /// `__tcp_transmit_skb` in tcp_output.c).
    #[inline(always)]
    pub(crate) fn is_push_point(&mut self, cx: &Context<'_>, offset: u32, len: u32) -> bool {
        if len > u32::from(self.mss) || self.rope.ends_within(offset, len) {
            return true;
        }
        let window = self.snd_wnd;
        if self.cold.is_none() && (window > self.cwnd || window >= self.rope.len()) {
            // All of it fits into the window: that the peer has to hand on
            // what it got before it can open its window is not to be feared.
            return false;
        }
        self.is_half_window(cx.config, len)
    }

    /// Whether `len` bytes of new data complete half of the largest window
    /// that the peer ever had, since the last PSH.
    #[inline(never)]
    fn is_half_window(&mut self, config: &Config, len: u32) -> bool {
        let (start, window) = (self.nxt, self.snd_wnd);
        let cold = self.cold_mut(config);
        cold.largest_window = cold.largest_window.max(window);
        let from = *cold.pushed_to.get_or_insert(start);
        start.plus(len).forward_from(from) >= (cold.largest_window / 2).max(1)
    }

    /// New data up to SND.NXT leaves: with PSH or not, and as the last of the
    /// queue or not.
    #[cold]
    pub(crate) fn note_data_sent(&mut self, push: bool, last: bool) {
        let end = self.nxt;
        let Some(cold) = &mut self.cold else { return };
        if push {
            cold.pushed_to = Some(end);
        }
        if last
            && let Some(asked) = &mut cold.asked
            && asked.release
        {
            asked.release = false;
            self.apply();
        }
    }

    fn asked(&self) -> Option<&Asked> {
        self.cold.as_ref()?.asked.as_deref()
    }

    /// Changes what is asked for; without anything asked for, it is given up.
    fn ask(&mut self, config: &Config, change: impl FnOnce(&mut Asked)) {
        let mut asked = match self.asked() {
            Some(asked) => *asked,
            None => Asked { nagle: self.flags.has(Flags::NAGLE), ..Asked::default() },
        };
        change(&mut asked);
        if self.asked().is_none() && asked == (Asked { nagle: asked.nagle, ..Asked::default() }) {
            return;
        }
        self.cold_mut(config).asked = Some(Box::new(asked));
        self.apply();
    }

    /// Makes the flags what is asked for.
    fn apply(&mut self) {
        let Some(asked) = self.asked().copied() else { return };
        self.note_nagle(asked.nagle || asked.corked || asked.more);
        if asked == (Asked { nagle: asked.nagle, ..Asked::default() }) {
            if let Some(cold) = &mut self.cold {
                cold.asked = None;
            }
            if !self.state.opening() {
                self.settle();
            }
        }
    }

    fn note_nagle(&mut self, on: bool) {
        if on {
            self.flags.set(Flags::NAGLE);
        } else {
            self.flags.clear(Flags::NAGLE);
        }
    }
}
