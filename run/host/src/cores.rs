//! How many workers there are over kernel sockets, and where.

use crate::values::BadValue;
use core::str::FromStr;

/// How many workers there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workers {
    /// One for each core.
    PerCore,
    /// So many, at least one.
    Count(u16),
}

/// More workers than this help nobody: one statistics page has a column for
/// each.
const WORKERS_MAX: u16 = 1_024;

const _: () = assert!(WORKERS_MAX as usize <= ::page::SILOS_LIMIT);

impl FromStr for Workers {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        if text == "auto" {
            return Ok(Self::PerCore);
        }
        let count = text.parse().ok().filter(|count| (1..=WORKERS_MAX).contains(count));
        count.map(Self::Count).ok_or_else(|| BadValue::new(format!("write auto, or a number from 1 to {WORKERS_MAX}")))
    }
}

/// Where workers run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cores {
    /// On the cores that this process may use, by turns.
    Allowed,
    /// On these, by turns; at least one.
    List(Vec<u16>),
    /// The first worker on any of the first cores, the second on any of the second, and
    /// all that are left as the last (nginx's `worker_cpu_affinity`).
    Sets(Vec<Vec<u16>>),
    /// Wherever the kernel has them run.
    NotPinned,
}

impl FromStr for Cores {
    type Err = BadValue;

    /// Reads `none`, or `0-3,8`.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        if text == "none" {
            return Ok(Self::NotPinned);
        }
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.parse().ok().zip(last.parse().ok());
            let range = range.filter(|(first, last): &(u16, u16)| first <= last && *last < 4_096);
            let (first, last) = range.ok_or_else(|| BadValue::new("write cores as in 0-3,8, or none"))?;
            cores.extend((first..=last).filter(|core| !cores.contains(core)).collect::<Vec<_>>());
        }
        Ok(Self::List(cores))
    }
}
