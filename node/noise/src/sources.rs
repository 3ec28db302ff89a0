//! The sources of latency that people list, and what was seen of each.

use serde::Serialize;

/// A source of latency.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Source {
    /// Its name.
    pub name: &'static str,
    /// Whether it is the hardware's; else the software's.
    pub hardware: bool,
    /// What was seen of it.
    pub sight: Sight,
}

/// What was seen of a source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sight {
    /// It was there: how often, in words.
    Seen(String),
    /// It was looked for in this way, and not there.
    NotSeen(String),
    /// It cannot be seen here, and why.
    CannotBeSeen(String),
}

impl Sight {
    /// Of a count: what there were so many of, and where that was read.
    #[must_use]
    pub fn of(counted: Result<u64, String>, what: &str, by: &str) -> Self {
        match counted {
            Ok(0) => Self::NotSeen(by.to_owned()),
            Ok(count) => Self::Seen(format!("{} {what}", grouped(count))),
            Err(why) => Self::CannotBeSeen(why),
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Seen(_) => "seen",
            Self::NotSeen(_) => "not seen",
            Self::CannotBeSeen(_) => "cannot be seen",
        }
    }

    /// What more there is to say.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Self::Seen(text) | Self::NotSeen(text) | Self::CannotBeSeen(text) => text,
        }
    }
}

/// A number with its thousands apart.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Their names: ten of the hardware, then eight of the software.
pub const NAMES: [&str; 18] = [
    "device interrupts",
    "system management interrupts",
    "machine checks",
    "frequency changes",
    "idle states",
    "cache misses",
    "branch prediction",
    "threads of one core (SMT)",
    "page faults and TLB misses",
    "sleep states",
    "timers and softirqs",
    "interrupts from other cores (IPI)",
    "noisy neighbours",
    "wake-up delay",
    "context switches",
    "scheduling",
    "lock contention",
    "RCU stalls",
];

/// How many of them are the hardware's.
const HARDWARE: usize = 10;

/// The list, from what was seen of each, in the order of [`NAMES`].
#[must_use]
pub fn sources(sights: [Sight; NAMES.len()]) -> Vec<Source> {
    let named = NAMES.into_iter().zip(sights).enumerate();
    named.map(|(at, (name, sight))| Source { name, hardware: at < HARDWARE, sight }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_seen_or_not_or_cannot_be() {
        assert_eq!(Sight::of(Ok(12_345), "of LOC", "interrupts"), Sight::Seen("12,345 of LOC".into()));
        assert_eq!(Sight::of(Ok(0), "", "interrupts").word(), "not seen");
        assert_eq!(Sight::of(Err("no PMU".into()), "", "").detail(), "no PMU");
        assert_eq!([1, 999, 1_000, 1_234_567].map(grouped), ["1", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn ten_are_the_hardwares() {
        let all = sources(core::array::from_fn(|_| Sight::NotSeen(String::new())));
        assert_eq!(all.iter().filter(|source| source.hardware).count(), 10);
        assert_eq!(all.len(), 18);
    }
}
