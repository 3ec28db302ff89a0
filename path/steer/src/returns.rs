//! Ports whose answers come back to the silo that asks: receive side scaling
//! as NICs do it, and the hash in software.
//!
//! Source: Microsoft, "RSS Hashing Types" and "Verifying the RSS Hash
//! Calculation" (NDIS), which Linux's and DPDK's drivers follow.

use crate::classify::{Hasher, Tuple, owner};
use core::net::{IpAddr, SocketAddr};
use link::Rss;
use stack::ReturnPath;

/// Bytes of a Toeplitz key that are used: as many as an IPv6 tuple has, and
/// four more.
pub const KEY_LEN: usize = 40;

/// Bytes of the longest input: two IPv6 addresses and two ports.
const INPUT: usize = 36;

const _: () = assert!(INPUT + 4 <= KEY_LEN);

/// The Toeplitz hash under one key, prepared: what each value of each input
/// byte adds to it. 36 KiB, and a look-up for each byte.
#[derive(Clone)]
pub struct Toeplitz(Box<[[u32; 256]; INPUT]>);

impl core::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Toeplitz")
    }
}

impl Toeplitz {
    /// Prepares the hash under `key`; a shorter key is repeated.
    ///
    /// Some drivers tell 52 bytes: those behind the first 40 are of no
    /// meaning to TCP and UDP.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        let byte = |at: usize| if key.is_empty() { 0 } else { key[at % key.len()] };
        let mut table = Box::new([[0; 256]; INPUT]);
        for (at, row) in table.iter_mut().enumerate() {
            // The key from this byte on: 32 bits of it for each bit of input.
            let window = (0..5).fold(0_u64, |window, next| window << 8 | u64::from(byte(at + next)));
            for (value, sum) in row.iter_mut().enumerate() {
                for bit in (0..8).filter(|bit| value >> (7 - bit) & 1 != 0) {
                    *sum ^= (window >> (8 - bit)) as u32;
                }
            }
        }
        Self(table)
    }

    /// The hash of a frame's addresses and, if `ports`, its ports. Two
    /// addresses of different families hash to 0.
    #[must_use]
    pub fn hash(&self, src: SocketAddr, dst: SocketAddr, ports: bool) -> u32 {
        let mut input = [0; INPUT];
        let addresses = match (src.ip(), dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                input[..4].copy_from_slice(&src.octets());
                input[4..8].copy_from_slice(&dst.octets());
                8
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                input[..16].copy_from_slice(&src.octets());
                input[16..32].copy_from_slice(&dst.octets());
                32
            }
            _ => return 0,
        };
        let mut len = addresses;
        if ports {
            input[len..len + 2].copy_from_slice(&src.port().to_be_bytes());
            input[len + 2..len + 4].copy_from_slice(&dst.port().to_be_bytes());
            len += 4;
        }
        self.0.iter().zip(&input[..len]).fold(0, |sum, (row, byte)| sum ^ row[usize::from(*byte)])
    }
}

/// Which local ports a silo's outgoing connections may have, so that their
/// answers come to it. To be given to [`stack::Stack::set_return_path`].
#[derive(Clone, Debug)]
pub struct ReturnQueue(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Rss { hash: Toeplitz, table: Vec<bool>, ports_v4: bool, ports_v6: bool },
    Software { hasher: Hasher, silos: Vec<usize>, own: usize },
}

impl ReturnQueue {
    /// By the NIC, to any of a silo's own `queues`. `None` if no choice of a
    /// port could bring an answer there, or all do.
    #[must_use]
    pub fn rss(rss: &Rss, queues: &[u16]) -> Option<Self> {
        let table: Vec<bool> = rss.table.iter().map(|queue| queues.contains(queue)).collect();
        let chooses = table.len().is_power_of_two() && table.contains(&true) && table.contains(&false);
        (chooses && !rss.key.is_empty()).then(|| {
            let Rss { key, ports_v4, ports_v6, .. } = rss;
            Self(Kind::Rss { hash: Toeplitz::new(key), table, ports_v4: *ports_v4, ports_v6: *ports_v6 })
        })
    }

    pub(crate) fn software(hasher: Hasher, silos: &[usize], own: usize) -> Self {
        Self(Kind::Software { hasher, silos: silos.to_vec(), own })
    }
}

impl ReturnPath for ReturnQueue {
    fn returns_here(&self, remote: SocketAddr, local: SocketAddr) -> bool {
        match &self.0 {
            // Where ports do not count, no port is better than another.
            Kind::Rss { ports_v4: false, .. } if remote.is_ipv4() => true,
            Kind::Rss { ports_v6: false, .. } if remote.is_ipv6() => true,
            Kind::Rss { hash, table, .. } => table[hash.hash(remote, local, true) as usize & (table.len() - 1)],
            Kind::Software { hasher, silos, own } => owner(silos, hasher.hash(&Tuple::of(remote, local))) == *own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of Microsoft's examples.
    const KEY: [u8; KEY_LEN] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca,
        0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
        0xbe, 0xac, 0x01, 0xfa,
    ];

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// "Verifying the RSS Hash Calculation": destination, source, the hash of
    /// the addresses, and with ports.
    #[test]
    fn the_published_examples() {
        let examples = [
            ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
            ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
            ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
            ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
            (
                "[fe80::200:f8ff:fe21:67cf]:38024",
                "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
                0x4b61_e985,
                0x02d1_feef,
            ),
        ];
        let toeplitz = Toeplitz::new(&KEY);
        for (dst, src, addresses, with_ports) in examples {
            assert_eq!(toeplitz.hash(at(src), at(dst), false), addresses, "{src} > {dst}");
            assert_eq!(toeplitz.hash(at(src), at(dst), true), with_ports, "{src} > {dst}");
        }
    }

    /// Each silo finds a port in about as many tries as there are silos, and
    /// no port is two silos'.
    #[test]
    fn each_port_returns_to_one_silo() {
        const SILOS: u16 = 8;
        let rss =
            Rss { key: KEY.into(), table: (0..128).map(|at| at % SILOS).collect(), ports_v4: true, ports_v6: true };
        let all: Vec<usize> = (0..usize::from(SILOS)).collect();
        let by_nic: Vec<_> = (0..SILOS).map(|queue| ReturnQueue::rss(&rss, &[queue]).expect("a choice")).collect();
        let hasher = Hasher::new([1, 2, 3, 4]);
        let by_hash: Vec<_> = all.iter().map(|own| ReturnQueue::software(hasher, &all, *own)).collect();
        for queues in [by_nic, by_hash] {
            for remote in ["192.0.2.1:80", "[2001:db8::1]:80"] {
                let local = if remote.starts_with('[') { "2001:db8::2" } else { "192.0.2.2" };
                let mut counts = [0_u32; SILOS as usize];
                for port in 10_000..18_000 {
                    let local = SocketAddr::new(local.parse().expect("an address"), port);
                    let here = |silo: &&usize| queues[**silo].returns_here(at(remote), local);
                    let silos: Vec<_> = all.iter().filter(here).collect();
                    assert_eq!(silos.len(), 1, "{remote} {port}");
                    counts[*silos[0]] += 1;
                }
                assert!(counts.iter().all(|count| count.abs_diff(1_000) < 300), "{counts:?}");
            }
        }
    }

    #[test]
    fn where_there_is_no_choice_none_is_made() {
        let rss = |table: Vec<u16>, ports| Rss { key: KEY.into(), table, ports_v4: ports, ports_v6: ports };
        assert!(ReturnQueue::rss(&rss(vec![0, 0], true), &[0]).is_none(), "all answers come here");
        assert!(ReturnQueue::rss(&rss(vec![0, 0], true), &[1]).is_none(), "none does");
        assert!(ReturnQueue::rss(&rss(vec![], true), &[0]).is_none());
        assert!(ReturnQueue::rss(&rss(vec![0, 1, 0], true), &[0]).is_none(), "not a power of two");
        let by_addresses = ReturnQueue::rss(&rss(vec![0, 1], false), &[0]).expect("a choice");
        assert!((1..100).all(|port| by_addresses.returns_here(at("192.0.2.1:80"), SocketAddr::new([192, 0, 2, 2].into(), port))));
    }
}
