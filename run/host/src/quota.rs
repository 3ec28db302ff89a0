//! How many threads a control group's quota keeps busy, and what is said of it.

use std::path::Path;
use topology::CpuQuota;

/// What comes of a quota, or of none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heeded {
    /// How many threads there are to be.
    pub threads: usize,
    /// What there is to be said of it.
    pub note: Option<String>,
    /// What is wrong with it.
    pub warning: Option<String>,
}

/// This process's quota.
pub fn here() -> Option<CpuQuota> {
    CpuQuota::of_this_process(Path::new("/"))
}

/// Heeds a quota for as many threads as are `usual`, or were asked for: then
/// they stay as many. `what` they are is a word in the plural.
pub fn heed(quota: Option<&CpuQuota>, usual: usize, asked: bool, what: &str) -> Heeded {
    let Some(quota) = quota.filter(|quota| quota.share() < usual as f64) else {
        return Heeded { threads: usual, note: None, warning: None };
    };
    let busy = quota.cores();
    let threads = if asked { usual } else { usual.min(busy) };
    let note = format!("this process has {quota}");
    let (note, warning) = match (threads < usual, threads > busy) {
        (true, _) => (format!("{note}: as many {what} as keep that busy, instead of {usual}"), None),
        (_, true) => {
            let stopped =
                format!("{threads} {what} share {quota}: the kernel stops all of them for a part of the time");
            (note, Some(stopped))
        }
        _ => (note, None),
    };
    Heeded { threads, note: Some(note), warning }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_threads_as_the_quota_keeps_busy_unless_a_number_was_asked_for() {
        let quota = |quota| CpuQuota { quota, period: 100_000, file: "/g/cpu.max".into() };
        let heeded = |micros, usual, asked| {
            let Heeded { threads, note, warning } = heed(Some(&quota(micros)), usual, asked, "workers");
            (threads, note.unwrap_or_default(), warning.unwrap_or_default())
        };
        let has = |rest: &str| format!("this process has 1.5 cores by /g/cpu.max{rest}");
        let fewer = ": as many workers as keep that busy, instead of 8";
        assert_eq!(heeded(150_000, 8, false), (2, has(fewer), String::new()));
        assert_eq!(heeded(100_000, 8, false).0, 1);
        assert_eq!(heeded(150_000, 2, true), (2, has(""), String::new()));
        let (threads, note, warning) = heeded(150_000, 3, true);
        assert_eq!((threads, note), (3, has("")));
        assert!(warning.starts_with("3 workers share 1.5 cores by /g/cpu.max: "), "{warning}");
        assert_eq!(heeded(150_000, 2, false), (2, has(""), String::new()));
        // More than there are cores is no limit.
        assert_eq!(heeded(800_000, 2, false), (2, String::new(), String::new()));
        assert_eq!(heed(None, 5, true, "silos"), Heeded { threads: 5, note: None, warning: None });
    }
}
