//! In what two connections differ: for whoever runs two ways on copies of one.

use crate::connection::Connection;

/// Most of a cold part that is told.
const MOST_TOLD: usize = 400;

/// Compares the fields that are named, and takes what is left apart by name:
/// a new field is compared too, or it does not compile.
macro_rules! differences {
    ($one:ident, $other:ident, $($field:ident),*) => {{
        let Connection { $($field,)* wheel: _, rope, cold } = $one;
        let mut found = Vec::new();
        $(if *$field != $other.$field {
            found.push(format!(concat!(stringify!($field), " {:?} / {:?}"), $field, $other.$field));
        })*
        if !rope.is_same(&$other.rope) {
            found.push(format!("queue of {} / {} bytes", rope.len(), $other.rope.len()));
        }
        if cold.is_some() || $other.cold.is_some() {
            let [cold, other] = [cold, &$other.cold].map(|cold| format!("{cold:?}"));
            if cold != other {
                // From a little before where they part.
                let alike = cold.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
                let told = |cold: String| {
                    cold.chars().skip(alike.saturating_sub(MOST_TOLD / 2)).take(MOST_TOLD).collect::<String>()
                };
                found.push(format!("cold part {} / {}", told(cold), told(other)));
            }
        }
        found
    }};
}

impl Connection {
    /// The fields in which this one and `other` differ, each with both values.
    /// The mark of the timer wheel does not count: it is the stack's, and says
    /// what was, not what is due.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        differences!(
            self, other, una, nxt, rcv_nxt, rcv_adv, wl1, snd_wnd, cwnd, ts_recent, last_rx, timer_at, rtt, mss, flags,
            unacked, shifts, state, backoff, dupacks
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Context, Counters, Path};
    use wire::Time;
    use wire::tcp::SeqNum;

    /// What was done to a copy is named, and nothing else is.
    #[test]
    fn names_what_differs() {
        let config = Config::default();
        let mut counters = Counters::default();
        let mut cx = Context {
            now: Time::ZERO,
            now_ms: 0,
            ts_offset: 0,
            receive_full: false,
            config: &config,
            counters: &mut counters,
        };
        let one = super::Connection::open(&mut cx, Path { mtu: 1_500, v6: false }, SeqNum(1));
        let mut other = one.clone();
        assert_eq!(one.differences(&other), Vec::<String>::new());
        wheel::Wheel::new(0, 0).schedule(0, &mut other.wheel, 7);
        assert_eq!(one.differences(&other), Vec::<String>::new());
        other.cwnd = 9;
        assert_eq!(one.differences(&other), ["cwnd 0 / 9"]);
        other.cwnd = one.cwnd;
        other.send_bytes(b"text").unwrap();
        assert_eq!(one.differences(&other), ["queue of 0 / 4 bytes"]);
        other = one.clone();
        other.hold(&config, b"text");
        let found = one.differences(&other);
        assert!(
            found.len() == 2 && found[0].starts_with("flags") && found[1].starts_with("cold part None"),
            "{found:?}"
        );
    }
}
