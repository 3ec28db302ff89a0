//! How much of a body may be queued for an exchange of a connection that carries several: its client's
//! windows bound it, and its standing among the others.
//!
//! A stream whose window is shut has nothing queued but its place in the source. Who is served next has
//! as much as keeps the connection busy, who is served behind others half as much as each of these: so
//! what is urgent never waits for its source while others are sent, and all together have at most
//! twice [`HELD`], and [`FLOOR`] each. What was queued before their standing was another counts up to
//! [`HELD_MAX`].
//!
//! What an upstream answers is read ahead of shut windows, for that does not wait: it may have reset its
//! connection when they open. The first of a connection have [`AHEAD`] for that, all together, and those behind
//! them [`AHEAD_LEAST`] each, which is what comes with a head; the others wait on their upstreams' flow control.

use exchange::ReplyFlow;

/// Bytes that are queued for whom is served next: what a reader of files reads while as much is sent.
const HELD: usize = 256 << 10;

/// What each may have, whoever is before it.
const FLOOR: usize = 8 << 10;

/// Beyond so many of a connection nobody has more.
const HELD_MAX: usize = 4 * HELD;

/// Bytes of what upstreams answer that are queued beyond windows: of a connection as long as it has no more
/// queued in all, and of each, whatever the others have.
const AHEAD: usize = 32 << 10;
const AHEAD_LEAST: usize = 1 << 10;

/// Also where its window is smaller, for a piece costs its reader the same.
const LEAST: usize = 512;

/// Where an exchange stands among the others of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// So many are served before it.
    pub before: usize,
    /// So many take turns with it, itself among them.
    pub beside: usize,
    /// Its protocol says that its own window is open, whatever the connection's is: its client does not
    /// hold it up alone.
    pub is_open: bool,
}

impl Standing {
    /// It has its connection for itself.
    pub const ALONE: Self = Self { before: 0, beside: 1, is_open: false };

    /// Bytes that it may have queued.
    fn share(self) -> usize {
        (HELD >> self.before.min(8)).checked_div(self.beside).unwrap_or(HELD).max(FLOOR)
    }
}

/// Bytes more that may be queued for an exchange of which `queued` are, whose client takes so many in
/// its `window`, and where those of its connection have queued `held`.
pub fn of(queued: usize, window: usize, standing: Standing, held: usize) -> usize {
    match window {
        0 => return 0,
        // Its protocol says nothing of that.
        ReplyFlow::UNBOUNDED => return ReplyFlow::UNBOUNDED,
        _ => {}
    }
    let share = if held < HELD_MAX { standing.share() } else { FLOOR };
    share.min(window.max(LEAST)).saturating_sub(queued)
}

/// The same of what does not wait for its client, whatever the window is.
pub const fn ahead(queued: usize, held: usize) -> usize {
    let (first, least) = (AHEAD.saturating_sub(held), AHEAD_LEAST.saturating_sub(queued));
    if first > least { first } else { least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_before_others_has_most_and_all_together_have_a_bound() {
        let one_by_one = |count: usize| (0..count).map(|before| Standing { before, ..Standing::ALONE }.share());
        assert_eq!(one_by_one(7).collect::<Vec<_>>(), [256, 128, 64, 32, 16, 8, 8].map(|kib| kib << 10));
        let turns = |beside| Standing { beside, ..Standing::ALONE }.share() * beside;
        for count in [1, 5, 128] {
            assert!(one_by_one(count).sum::<usize>() <= 2 * HELD + count * FLOOR);
            assert!(turns(count) <= HELD.max(count * FLOOR));
        }
        assert_eq!(of(0, 1 << 30, Standing::ALONE, 0), HELD);
        assert_eq!(of(HELD - 7, 1 << 30, Standing::ALONE, HELD), 7);
        assert_eq!(of(0, 1 << 30, Standing::ALONE, HELD_MAX), FLOOR);
        assert_eq!([0, 1, 5_000].map(|window| of(100, window, Standing::ALONE, 0)), [0, LEAST - 100, 4_900]);
    }

    #[test]
    fn the_first_are_read_ahead_and_all_others_a_little() {
        let (mut held, mut each) = (0, Vec::new());
        for _ in 0..8 {
            let mut queued = 0;
            while ahead(queued, held) > 0 {
                let some = ahead(queued, held).min(1_000);
                (queued, held) = (queued + some, held + some);
            }
            each.push(queued);
        }
        assert_eq!(
            each,
            [AHEAD, AHEAD_LEAST, AHEAD_LEAST, AHEAD_LEAST, AHEAD_LEAST, AHEAD_LEAST, AHEAD_LEAST, AHEAD_LEAST]
        );
        assert!(held <= AHEAD + 8 * AHEAD_LEAST);
    }
}
