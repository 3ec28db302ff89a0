//! What an interface's driver tells (ioctl SIOCETHTOOL; include/uapi/linux/ethtool.h).

use ::ethtool::TlsOffloads;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// What a driver can do, as far as it tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Abilities {
    /// What the driver calls itself.
    pub driver: Option<String>,
    /// Queue pairs now.
    pub channels: Option<u32>,
    /// Queue pairs that it could have.
    pub channels_limit: Option<u32>,
    /// Checksums of received packets are verified.
    pub receive_checksum: bool,
    /// Checksums of sent packets are completed.
    pub transmit_checksum: bool,
    /// TCP is cut into segments.
    pub segmentation: bool,
    /// The kernel merges received segments.
    pub merging: bool,
    /// Bytes of the key that spreads flows over queues.
    pub rss_key: Option<u32>,
    /// Entries of the table that spreads them.
    pub rss_table: Option<u32>,
    /// What is done of TLS in the kernel's place.
    pub tls: TlsOffloads,
}

const GET_DRIVER: u32 = 0x03;
const GET_COALESCING: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const GET_PAUSE: u32 = 0x12;
const GET_RX_CHECKSUM: u32 = 0x14;
const GET_TX_CHECKSUM: u32 = 0x16;
const GET_SEGMENTATION: u32 = 0x1e;
const GET_FLAGS: u32 = 0x25;
const GET_MERGING: u32 = 0x2b;
const COUNT_RULES: u32 = 0x2e;
const GET_CHANNELS: u32 = 0x3c;
const GET_RSS: u32 = 0x46;
const GET_CORRECTION: u32 = 0x50;

/// Words of `struct ethtool_drvinfo`: the command, five texts of 32 bytes,
/// twelve bytes, and five numbers.
const DRIVER_WORDS: usize = 1 + 5 * 8 + 3 + 5;

/// What the driver of the interface `name` tells: nothing where there is none.
pub fn abilities(name: &str) -> Abilities {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let Ok(socket) = socket else { return Abilities::default() };
    let ask = |command| get::<2>(socket.as_fd(), name, command).is_some_and(|[_, value]| value != 0);
    // Command, limits and values of rx, tx, other and combined.
    let channels = get::<9>(socket.as_fd(), name, GET_CHANNELS);
    // Command, context, sizes of table and key, hash function and reserved words.
    let rss = get::<6>(socket.as_fd(), name, GET_RSS);
    let number = |number: u32| (number > 0).then_some(number);
    Abilities {
        driver: get::<DRIVER_WORDS>(socket.as_fd(), name, GET_DRIVER).as_ref().and_then(driver),
        // Pairs, or as many as there are of the scarcer half.
        channels: channels.and_then(|c| number(c[8] + c[5].min(c[6]))),
        channels_limit: channels.and_then(|c| number(c[4].max(c[1].min(c[2])))),
        receive_checksum: ask(GET_RX_CHECKSUM),
        transmit_checksum: ask(GET_TX_CHECKSUM),
        segmentation: ask(GET_SEGMENTATION),
        merging: ask(GET_MERGING),
        rss_key: rss.and_then(|r| number(r[3])),
        rss_table: rss.and_then(|r| number(r[2])),
        // No ioctl tells; a kernel before 5.6 has no netlink for it.
        tls: ethtool::tls_offloads(name).unwrap_or_default(),
    }
}

/// What the driver of the interface `name` calls itself.
pub fn driver_name(name: &str) -> Option<String> {
    abilities(name).driver
}

/// The bit of the interface's flags that stands for LRO.
const LRO: u32 = 1 << 15;
/// Names of error corrections, from the lowest bit on.
const CORRECTIONS: [&str; 6] = ["none", "auto", "off", "rs", "baser", "llrs"];

/// What the driver of the interface `name` tells of its settings, by the names
/// that the audit's rules ask for; what it does not tell is left out.
pub fn settings(name: &str) -> Vec<(&'static str, String)> {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let Ok(socket) = socket else { return Vec::new() };
    let on = |word: bool| if word { "on" } else { "off" };
    let flag = |command| get::<2>(socket.as_fd(), name, command).map(|[_, value]| value != 0);
    let abilities = abilities(name);
    // Limits of rx, mini, jumbo and tx, then values in that order.
    let rings = get::<9>(socket.as_fd(), name, GET_RINGS);
    let rings = rings.map(|r| format!("rx {} of {}, tx {} of {}", r[5], r[1], r[8], r[4]));
    // Delays and frames of rx and tx, then what is adaptive (struct ethtool_coalesce).
    let coalescing = get::<23>(socket.as_fd(), name, GET_COALESCING).map(|c| {
        let (rx, tx) = (on(c[10] != 0), on(c[11] != 0));
        format!(
            "rx-usecs {}, rx-frames {}, tx-usecs {}, tx-frames {}, adaptive-rx {rx}, adaptive-tx {tx}",
            c[1], c[2], c[5], c[6]
        )
    });
    let channels = abilities.channels.zip(abilities.channels_limit).map(|(now, most)| format!("pairs {now} of {most}"));
    let pause = get::<4>(socket.as_fd(), name, GET_PAUSE)
        .map(|p| format!("autoneg {}, rx {}, tx {}", on(p[1] != 0), on(p[2] != 0), on(p[3] != 0)));
    let correction = get::<4>(socket.as_fd(), name, GET_CORRECTION).map(|c| {
        let set = |(bit, name): (usize, &&'static str)| (c[1] >> bit & 1 == 1).then_some(*name);
        CORRECTIONS.iter().enumerate().filter_map(set).collect::<Vec<_>>().join(" ")
    });
    let checksums = flag(GET_RX_CHECKSUM).zip(flag(GET_TX_CHECKSUM));
    let merging = flag(GET_MERGING).zip(get::<2>(socket.as_fd(), name, GET_FLAGS));
    // Of `struct ethtool_rxnfc`, whose specification of a flow has 168 bytes, the count behind it.
    let rules = get::<48>(socket.as_fd(), name, COUNT_RULES).map(|words| words[46].to_string());
    let rss = abilities.rss_table.map(|table| format!("table {table}, key {}", abilities.rss_key.unwrap_or(0)));
    [
        ("rings", rings),
        ("coalescing", coalescing),
        ("channels", channels),
        ("pause", pause),
        ("fec", correction.filter(|text| !text.is_empty())),
        ("checksums", checksums.map(|(rx, tx)| format!("rx {}, tx {}", on(rx), on(tx)))),
        ("segmentation", flag(GET_SEGMENTATION).map(|tso| on(tso).to_owned())),
        ("merging", merging.map(|(gro, [_, flags])| format!("gro {}, lro {}", on(gro), on(flags & LRO != 0)))),
        ("rss", rss),
        ("flow rules", rules),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((name, text?)))
    .collect()
}

/// The driver's name: the text behind the command.
fn driver(words: &[u32; DRIVER_WORDS]) -> Option<String> {
    let bytes: Vec<u8> = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8(bytes).ok().filter(|name| !name.is_empty())
}

/// Asks `command` of the interface; the answer has N words, its own first.
fn get<const N: usize>(socket: BorrowedFd<'_>, name: &str, command: u32) -> Option<[u32; N]> {
    let mut answer = [0; N];
    *answer.first_mut()? = command;
    // SAFETY: an `ifreq` is plain bytes and pointers; all zero is valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // A name is shorter than the field, which keeps its NUL at the end.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL reads and writes the `ifreq` and what it points to: the structure of this command, which
    // has N words. Sizes of variable parts in it are zero, so none is written. Both live during the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut request) };
    (result == 0).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_interface_tells_what_it_does() {
        let loopback = abilities("lo");
        assert!(loopback.transmit_checksum && loopback.segmentation, "{loopback:?}");
        assert_eq!(abilities("no-such-one"), Abilities::default());
    }

    #[test]
    fn settings_have_the_form_that_the_rules_read() {
        let loopback = settings("lo");
        let of = |key: &str| loopback.iter().find(|(name, _)| *name == key).map(|(_, text)| text.as_str());
        assert_eq!(of("segmentation"), Some("on"));
        assert_eq!(of("checksums"), Some("rx on, tx on"));
        assert!(of("merging").is_some_and(|text| text.starts_with("gro ") && text.contains(", lro ")), "{loopback:?}");
        assert_eq!(of("rings"), None, "it has none");
        assert_eq!(settings("no-such-one"), []);
    }
}
