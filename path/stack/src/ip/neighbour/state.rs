//! The states of a neighbour, and how long each lasts.

use core::time::Duration;

/// Solicitations per second; more are put off.
pub(super) const SOLICITATIONS_PER_SECOND: u32 = 1_000;
/// By how much, at least.
pub(super) const PUT_OFF: Duration = Duration::from_millis(10);
/// Between two that are put off: the time in which a token grows.
pub(super) const PUT_OFF_STEP: Duration = Duration::from_millis(1_000 / SOLICITATIONS_PER_SECOND as u64);
/// By how much at most: then it is tried again among the others.
pub(super) const PUT_OFF_LONGEST: Duration = Duration::from_secs(1);

/// Who claims another's address is believed when the one that is known stays
/// silent to so many unicast questions, each of which waits this long: a
/// take-over is heard of within [`DISPUTE_LONGEST`], and a forgery steals
/// nothing from a host that answers.
pub(super) const DISPUTE_SOLICIT: u8 = 2;
pub(super) const DISPUTE_WAIT: Duration = Duration::from_millis(3);
/// How long a dispute lasts.
#[cfg(test)]
pub(super) const DISPUTE_LONGEST: Duration = Duration::from_millis(6);
/// After an answer, the next claim is looked into at the earliest after this,
/// so that a flood of them costs ten questions a second.
pub(super) const CLAIM_PAUSE: Duration = Duration::from_millis(100);
/// The same for frames that come from another hardware address: some hosts
/// send from one and answer for another all the time.
pub(super) const FRAME_PAUSE: Duration = Duration::from_secs(1);

/// Protocol constants (RFC 4861 section 10), used for ARP as well.
pub(super) const RETRANSMIT: Duration = Duration::from_secs(1);
pub(super) const MAX_MULTICAST_SOLICIT: u8 = 3;
pub(super) const MAX_UNICAST_SOLICIT: u8 = 3;
pub(super) const REACHABLE: Duration = Duration::from_secs(30);
pub(super) const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
/// How often a stale entry is asked whether it was used: this replaces a
/// branch on each use, and so its delay counts from here.
pub(super) const STALE_CHECK: Duration = Duration::from_secs(5);

/// Timers handled in one call; the rest is still due in the next.
pub(super) const TIMERS_PER_POLL: usize = 64;
/// Entries looked at in search of one that can give way.
pub(super) const EVICTION_STEPS: usize = 256;

/// How a hardware address was heard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// In answer to us: it works both ways.
    Answer,
    /// In an ARP packet or a message of neighbour discovery.
    Claim,
    /// As the source of a frame.
    Frame,
}

/// RFC 4861 section 7.3.2:
///
/// ```text
///             ┌────────── no answer ───────────┐
///             ▼                                │
///  Failed ◄─ Incomplete ── answer ──► Reachable ◄── proof ──┐
///     │        ▲   ▲ └─ learned ─┐       │ 30 s             │
///     └─ use ──┘   │             └──► Stale ── use ──► Delay ── 5 s ──► Probe
///                  └──────────────────── no answer ───────────────────────┘
/// ```
///
/// and beside it Disputed, which a claim to the address of a neighbour that
/// has answered leads to, from any state but the first two; its answer leads
/// to Reachable, its silence to the claimant or to Incomplete.
///
/// The hardware address is known in all states but these three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nobody answered; not asked again before somebody wants it.
    Failed,
    /// Being asked for, `sent` times so far.
    Incomplete { sent: u8 },
    /// Proven to work within the last [`REACHABLE`].
    Reachable,
    /// Worked once, or was heard of.
    Stale,
    /// Used while stale; proof may still come from an upper layer.
    Delay,
    /// Asked whether it is still there, `sent` times so far.
    Probe { sent: u8 },
    /// Asked for under the address that is known, `sent` times so far, while
    /// another one is claimed. What is to be sent waits those milliseconds, so
    /// that nothing goes to the wrong one.
    Disputed { sent: u8 },
}

impl State {
    pub const fn is_known(self) -> bool {
        matches!(self, Self::Reachable | Self::Stale | Self::Delay | Self::Probe { .. })
    }
}
