//! Receive-side scaling, as an interface's driver tells it.
//!
//! `include/uapi/linux/ethtool.h`, `net/ethtool/ioctl.c`.

use crate::interface::{Interface, RSS_HEAD};
use core::fmt;
use link::Rss;
use std::io;

/// Flows (`TCP_V4_FLOW`, `TCP_V6_FLOW`).
const TCP_V4: u32 = 0x01;
const TCP_V6: u32 = 0x05;

/// Both addresses and both ports (`RXH_IP_SRC` to `RXH_L4_B_2_3`), and nothing
/// else.
const FOUR_TUPLE: u64 = 0xf0;

/// `ETH_RSS_HASH_TOP`.
const TOEPLITZ: u8 = 1;

/// Why it is not known how an interface spreads what it receives.
#[derive(Debug)]
pub enum NoRss {
    /// Its driver does not say.
    Untold(io::Error),
    /// What it says makes no sense.
    Malformed,
    /// It has no key, or no table.
    Absent,
    /// It hashes by another function than Toeplitz's.
    Function,
    /// It makes the addresses and ports symmetric before it hashes them.
    Transformed,
}

impl fmt::Display for NoRss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untold(why) => write!(f, "its driver does not tell how it spreads flows over queues ({why})"),
            Self::Malformed => f.write_str("its driver tells nonsense of how it spreads flows over queues"),
            Self::Absent => f.write_str("its driver spreads flows without a key or a table that it would tell"),
            Self::Function => {
                f.write_str("it spreads flows by another hash than Toeplitz's: ethtool -X NAME hfunc toeplitz")
            }
            Self::Transformed => f.write_str("it hashes symmetrically: ethtool -X NAME xfrm none"),
        }
    }
}

impl core::error::Error for NoRss {}

/// How the interface called `name` spreads what it receives over its queues.
///
/// # Errors
/// [`NoRss`]: virtual interfaces seldom know.
pub fn rss(name: &str) -> Result<Rss, NoRss> {
    let interface = Interface::open(name).map_err(NoRss::Untold)?;
    let told = interface.rss().map_err(NoRss::Untold)?;
    // A driver without the request has other rules, which are not ours.
    let by_ports = |flow| interface.hashed_fields(flow).is_ok_and(|fields| fields == FOUR_TUPLE);
    decode(&told, by_ports(TCP_V4), by_ports(TCP_V6))
}

/// Reads a `struct ethtool_rxfh` with its table and key.
fn decode(told: &[u32], ports_v4: bool, ports_v6: bool) -> Result<Rss, NoRss> {
    let (head, rest) = told.split_at_checked(RSS_HEAD).ok_or(NoRss::Malformed)?;
    let (entries, key_len) = (head[2] as usize, head[3] as usize);
    let [function, transformed, ..] = head[4].to_ne_bytes();
    let (table, key) = rest.split_at_checked(entries).ok_or(NoRss::Malformed)?;
    let key: Vec<u8> = key.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let key = key.get(..key_len).ok_or(NoRss::Malformed)?.to_vec();
    let table: Result<Vec<u16>, _> = table.iter().map(|queue| u16::try_from(*queue)).collect();
    let table = table.map_err(|_| NoRss::Malformed)?;
    // A driver that fills in none before Linux 4.4 has that one.
    if function != TOEPLITZ && function != 0 {
        return Err(NoRss::Function);
    }
    if transformed != 0 {
        return Err(NoRss::Transformed);
    }
    if table.is_empty() || key.iter().all(|byte| *byte == 0) {
        return Err(NoRss::Absent);
    }
    Ok(Rss { key, table, ports_v4, ports_v6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a driver with four queues, a table of eight and a key of 42 bytes
    /// tells.
    fn told() -> Vec<u32> {
        let head = [0x46, 0, 8, 42, u32::from_ne_bytes([TOEPLITZ, 0, 0, 0]), 0];
        let key: Vec<u8> = (1..=44).collect();
        let key = key.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word));
        head.into_iter().chain([0, 1, 2, 3, 0, 1, 2, 3]).chain(key).collect()
    }

    #[test]
    fn table_and_key_are_read() {
        let rss = decode(&told(), true, false).unwrap();
        assert_eq!(rss.table, [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(rss.key, (1..=42).collect::<Vec<u8>>());
        assert_eq!((rss.ports_v4, rss.ports_v6), (true, false));
    }

    #[test]
    fn what_is_not_ours_to_foretell_is_refused() {
        let with = |at: usize, word: u32| {
            let mut told = told();
            told[at] = word;
            decode(&told, true, true).unwrap_err()
        };
        // Exclusive or, and CRC32.
        assert!(matches!(with(4, u32::from_ne_bytes([2, 0, 0, 0])), NoRss::Function));
        assert!(matches!(with(4, u32::from_ne_bytes([4, 0, 0, 0])), NoRss::Function));
        assert!(matches!(with(4, u32::from_ne_bytes([TOEPLITZ, 1, 0, 0])), NoRss::Transformed));
        // Longer than what came, also beyond all bounds.
        assert!(matches!(with(2, 20), NoRss::Malformed));
        assert!(matches!(with(2, u32::MAX), NoRss::Malformed));
        assert!(matches!(with(3, 45), NoRss::Malformed));
        assert!(matches!(with(3, u32::MAX), NoRss::Malformed));
        assert!(matches!(with(3, 0), NoRss::Absent));
        assert!(matches!(with(RSS_HEAD, 1 << 16), NoRss::Malformed));
        for len in 0..RSS_HEAD {
            assert!(matches!(decode(&told()[..len], true, true), Err(NoRss::Malformed)));
        }
        assert!(matches!(
            decode(&[0x46, 0, 0, 40, 1, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9], true, true),
            Err(NoRss::Absent)
        ));
    }

    #[test]
    fn an_interface_that_does_not_spread_says_so() {
        assert!(matches!(rss("lo"), Err(NoRss::Untold(_))));
        assert!(matches!(rss("no-such-nic"), Err(NoRss::Untold(why)) if why.kind() == io::ErrorKind::NotFound));
    }
}
