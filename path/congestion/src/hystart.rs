//! HyStart++ (RFC 9406): leaves slow start when the round-trip time grows,
//! before the queue overflows, through a phase of conservative slow start
//! that can be taken back when the growth was noise.

use crate::delivery::Delivery;

/// Least growth of the round-trip time that counts, in microseconds
/// (RFC 9406 section 4.3).
const MIN_RTT_THRESH_US: u32 = 4_000;
/// Growth that always counts, in microseconds.
const MAX_RTT_THRESH_US: u32 = 16_000;
/// Otherwise this fraction of the last round's minimum counts.
const MIN_RTT_DIVISOR: u32 = 8;
/// Samples that a round needs before its minimum is judged.
const N_RTT_SAMPLE: u32 = 8;
/// Conservative slow start grows by this fraction of slow start.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// Rounds of conservative slow start before congestion avoidance.
const CSS_ROUNDS: u32 = 5;
/// Most segments by which one ACK lets the window grow, without pacing; with it
/// there is no bound (RFC 9406 section 4.3).
const L: u32 = 8;

const _: () = assert!(MIN_RTT_THRESH_US <= MAX_RTT_THRESH_US);

/// No minimum known yet.
const NONE: u32 = u32::MAX;

/// What an ACK in slow start amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    /// The window grows by so many bytes.
    By(u32),
    /// The window grows by so many bytes, and slow start is over.
    LastBy(u32),
}

/// Rounds and their minima.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// The round ends when this is acknowledged; `None` before the first ACK.
    window_end: Option<u64>,
    last_round_min: u32,
    current_round_min: u32,
    samples: u32,
    /// The current round's minimum on entering conservative slow start.
    css_baseline: u32,
    /// Rounds of conservative slow start that ended; `None` outside it.
    css_rounds: Option<u32>,
}

impl HyStart {
    pub(super) const fn new() -> Self {
        Self {
            window_end: None,
            last_round_min: NONE,
            current_round_min: NONE,
            samples: 0,
            css_baseline: NONE,
            css_rounds: None,
        }
    }

    /// An ACK in the first slow start. `segment` is in bytes.
    pub(super) fn on_ack(&mut self, delivery: &Delivery, segment: u32) -> Growth {
        let &Delivery { acked, rtt_us, acked_to, sent_to, paced, .. } = delivery;
        let grow = if paced { acked } else { acked.min(L.saturating_mul(segment)) };
        let round_ended = acked_to >= *self.window_end.get_or_insert(sent_to);
        let grow = if self.css_rounds.is_some() { grow / CSS_GROWTH_DIVISOR } else { grow };
        if let Some(rtt) = rtt_us {
            self.current_round_min = self.current_round_min.min(rtt);
            self.samples += 1;
        }
        self.judge();
        if round_ended {
            if let Some(rounds) = &mut self.css_rounds {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    return Growth::LastBy(grow);
                }
            }
            self.start_round(sent_to);
        }
        Growth::By(grow)
    }

    /// Enters conservative slow start when the round-trip time grew, and
    /// takes it back when it shrank again (RFC 9406 section 4.2).
    fn judge(&mut self) {
        if self.samples < N_RTT_SAMPLE || self.current_round_min == NONE {
            return;
        }
        if self.css_rounds.is_some() {
            if self.current_round_min < self.css_baseline {
                self.css_baseline = NONE;
                self.css_rounds = None;
            }
        } else if self.last_round_min != NONE {
            let thresh = (self.last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH_US, MAX_RTT_THRESH_US);
            if self.current_round_min >= self.last_round_min.saturating_add(thresh) {
                self.css_baseline = self.current_round_min;
                self.css_rounds = Some(0);
            }
        }
    }

    fn start_round(&mut self, sent_to: u64) {
        self.window_end = Some(sent_to);
        self.last_round_min = self.current_round_min;
        self.current_round_min = NONE;
        self.samples = 0;
    }

    #[cfg(test)]
    pub(super) const fn conservative(&self) -> bool {
        self.css_rounds.is_some()
    }
}
