//! How much of a body may be queued for an exchange of a connection that carries several: its client's
//! windows bound it, and its standing among the others.
//!
//! A stream whose window is shut has nothing queued but its place in the source. Who is served next has
//! as much as keeps the connection busy, who is served behind others half as much as each of these: so
//! what is urgent never waits for its source while others are sent, and all together have at most
//! twice [`HELD`], and [`FLOOR`] each. What was queued before their standing was another counts up to
//! [`HELD_MAX`].

use exchange::ReplyFlow;

/// Bytes that are queued for whom is served next: what a reader of files reads while as much is sent.
const HELD: usize = 256 << 10;

/// What each may have, whoever is before it.
const FLOOR: usize = 8 << 10;

/// Beyond so many of a connection nobody has more.
const HELD_MAX: usize = 4 * HELD;

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
}
