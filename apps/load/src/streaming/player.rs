//! What plays: a rate, and a buffer that holds so much of it.

use core::time::Duration;
use wire::Time;

/// The payload of a full segment on Ethernet, without options (RFC 9293 section 3.7.1): what a
/// second's bytes may be off by that is nobody's fault.
pub const SEGMENT: u64 = 1_460;

/// A time as recorders have it.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Bits per second at which content plays, or is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlayRate(u64);

impl PlayRate {
    /// Of so many bits per second; zero is one.
    #[must_use]
    pub const fn new(bits: u64) -> Self {
        Self(if bits == 0 { 1 } else { bits })
    }

    /// In bits per second.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Bytes that play in a time, rounded down.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> u64 {
        const BIT_NANOS: u128 = 8_000_000_000;
        u64::try_from(u128::from(self.0).saturating_mul(time.as_nanos()) / BIT_NANOS).unwrap_or(u64::MAX)
    }

    /// How long so many bytes play, rounded up.
    #[must_use]
    pub fn time_of(self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Whether content plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Playback {
    /// The buffer fills for the first time.
    Filling,
    /// It plays: at `since` all before `from` had been played.
    Playing { since: Time, from: u64 },
    /// All of `from` bytes was played at `since`, and the buffer fills again.
    Dry { since: Time, from: u64 },
}

/// What bytes that came have changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Nothing: it plays on, or still fills.
    Same,
    /// It plays for the first time.
    Started,
    /// It plays again, after so long a pause.
    Resumed(Duration),
}

/// A player: its buffer fills as fast as content comes, and is played at the rate.
///
/// ```text
/// Filling ─ so much is there ─► Playing ─ all is played ─► Dry
///                                  ▲                        │
///                                  └── so much is there ────┘
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Player {
    rate: PlayRate,
    /// Bytes that the buffer holds.
    holds: u64,
    /// Bytes in it with which playing begins.
    begins: u64,
    received: u64,
    playback: Playback,
    /// When it played for the first time.
    started: Option<Time>,
}

impl Player {
    /// One whose buffer holds `buffer` of content, and that plays when `share` of it (0 to 1) is there.
    pub fn new(rate: PlayRate, buffer: Duration, share: f64) -> Self {
        let holds = rate.bytes_in(buffer).max(SEGMENT);
        let begins = ((holds as f64 * share.clamp(0.0, 1.0)) as u64).clamp(1, holds);
        Self { rate, holds, begins, received: 0, playback: Playback::Filling, started: None }
    }

    /// Bytes of content that it was given.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// When it first played.
    pub const fn started(&self) -> Option<Time> {
        self.started
    }

    /// Whether it plays.
    pub const fn is_playing(&self) -> bool {
        matches!(self.playback, Playback::Playing { .. })
    }

    /// Since when it has nothing to play.
    pub const fn dry_since(&self) -> Option<Time> {
        if let Playback::Dry { since, .. } = self.playback { Some(since) } else { None }
    }

    /// Bytes that were played by `now`.
    fn played(&self, now: Time) -> u64 {
        match self.playback {
            Playback::Filling => 0,
            Playback::Dry { from, .. } => from,
            Playback::Playing { since, from } => {
                self.received.min(from.saturating_add(self.rate.bytes_in(now.since(since))))
            }
        }
    }

    /// Looks whether it has run dry by `now`: whether it has since the last look.
    pub fn look(&mut self, now: Time) -> bool {
        let Playback::Playing { since, from } = self.playback else { return false };
        let at = since + self.rate.time_of(self.received.saturating_sub(from));
        if now <= at {
            return false;
        }
        self.playback = Playback::Dry { since: at, from: self.received };
        true
    }

    /// Room in the buffer, in bytes.
    pub fn room(&self, now: Time) -> u64 {
        self.holds.saturating_sub(self.received - self.played(now))
    }

    /// Bytes of room that are worth reading for: an eighth of the buffer.
    pub fn worth(&self) -> u64 {
        (self.holds / 8).max(1)
    }

    /// When there is room again for so much.
    pub fn has_room_at(&self, now: Time) -> Time {
        now + self.rate.time_of(self.worth())
    }

    /// When so many bytes more are played; none where nothing plays.
    pub fn plays_until(&self, now: Time, bytes: u64) -> Option<Time> {
        self.is_playing().then(|| now + self.rate.time_of(bytes))
    }

    /// Content came; [`Player::look`] was called for the same time.
    pub fn on_content(&mut self, now: Time, bytes: u64) -> Heard {
        let played = self.played(now);
        self.received = self.received.saturating_add(bytes);
        if self.is_playing() || self.received - played < self.begins {
            return Heard::Same;
        }
        let was = core::mem::replace(&mut self.playback, Playback::Playing { since: now, from: played });
        if let Playback::Dry { since, .. } = was {
            return Heard::Resumed(now.since(since));
        }
        self.started = Some(now);
        Heard::Started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn rates_are_of_bytes_and_times() {
        let rate = PlayRate::new(5_000_000);
        assert_eq!((rate.bytes_in(Duration::from_secs(2)), rate.bytes_in(Duration::from_nanos(1_599))), (1_250_000, 0));
        assert_eq!(rate.time_of(625_000), Duration::from_secs(1));
        assert_eq!(PlayRate::new(3).time_of(1), Duration::from_nanos(2_666_666_667), "rounded up");
        // Nothing overflows, whatever is asked for.
        assert_eq!(PlayRate::new(u64::MAX).bytes_in(Duration::MAX), u64::MAX);
        assert_eq!(PlayRate::new(0).time_of(u64::MAX), Duration::from_nanos(u64::MAX));
    }

    /// A buffer of one second at 8 kbit/s has 1,460 bytes at least; at 80 kbit/s it has 10,000.
    #[test]
    fn it_plays_when_the_buffer_is_filled_and_has_room_as_it_plays() {
        let mut player = Player::new(PlayRate::new(80_000), Duration::from_secs(1), 1.0);
        assert_eq!(player.room(at(0)), 10_000);
        assert_eq!(player.on_content(at(0), 9_999), Heard::Same);
        assert_eq!((player.room(at(5_000)), player.look(at(5_000))), (1, false), "it does not play yet");
        assert_eq!(player.on_content(at(5_000), 1), Heard::Started);
        assert_eq!((player.room(at(5_000)), player.room(at(5_250)), player.started()), (0, 2_500, Some(at(5_000))));
        assert_eq!(player.has_room_at(at(5_000)), at(5_125));
        assert_eq!(Player::new(PlayRate::new(8_000), Duration::from_secs(1), 1.0).room(at(0)), 1_460);
    }

    /// An under-run begins when the last byte was played, whenever that is seen, and ends when it
    /// plays again.
    #[test]
    fn an_under_run_is_as_long_as_nothing_plays() {
        let mut player = Player::new(PlayRate::new(80_000), Duration::from_secs(1), 0.5);
        assert_eq!(player.on_content(at(0), 5_000), Heard::Started);
        assert!(!player.look(at(500)), "the last byte ends here");
        assert!(player.look(at(700)) && !player.look(at(800)), "it is told once");
        assert_eq!((player.dry_since(), player.room(at(900))), (Some(at(500)), 10_000));
        assert_eq!(player.on_content(at(900), 4_999), Heard::Same);
        assert_eq!(player.on_content(at(1_000), 1), Heard::Resumed(Duration::from_millis(500)));
        assert!(player.is_playing() && player.room(at(1_100)) == 6_000);
        assert_eq!((player.received(), player.started()), (10_000, Some(at(0))), "the first time stays");
    }
}
