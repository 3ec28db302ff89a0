//! When an issuer is asked again, in seconds.

/// How long before the end of an answer another is asked for.
const AHEAD: i64 = 300;

/// An answer is asked for anew after so long, however long it is valid: nginx has the same.
const OFTEN: i64 = 3_600;

/// And no sooner than this.
const SELDOM: i64 = 300;

/// After a failure it is asked again so soon, and each time twice as late, up to [`SELDOM`].
const AGAIN: u64 = 15;

/// Seconds from `now` until the next question, where the answer is valid until `next_update`.
#[must_use]
pub fn after_answer(now: i64, next_update: Option<i64>) -> u64 {
    let until = next_update.map_or(i64::MAX, |next| next.saturating_sub(AHEAD).saturating_sub(now));
    until.clamp(SELDOM, OFTEN).unsigned_abs()
}

/// The same, after so many failures one behind the other.
#[must_use]
pub fn after_failures(failures: u32) -> u64 {
    let doubled = AGAIN.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(SELDOM.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_renewed_before_they_end() {
        assert_eq!(after_answer(1_000, None), 3_600);
        assert_eq!(after_answer(1_000, Some(1_000 + 7 * 86_400)), 3_600);
        assert_eq!(after_answer(1_000, Some(1_000 + 1_800)), 1_500, "five minutes before its end");
        assert_eq!(after_answer(1_000, Some(1_060)), 300, "a responder is not asked without end");
        assert_eq!(after_answer(1_000, Some(i64::MIN)), 300);
    }

    #[test]
    fn a_responder_that_fails_is_asked_ever_later() {
        let waits: Vec<u64> = (1..8).map(after_failures).collect();
        assert_eq!(waits, [15, 30, 60, 120, 240, 300, 300]);
        assert_eq!((after_failures(0), after_failures(u32::MAX)), (15, 300));
    }
}
