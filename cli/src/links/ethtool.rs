//! What an interface's driver tells (ioctl SIOCETHTOOL; include/uapi/linux/ethtool.h).

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
}

const GET_DRIVER: u32 = 0x03;
const GET_RX_CHECKSUM: u32 = 0x14;
const GET_TX_CHECKSUM: u32 = 0x16;
const GET_SEGMENTATION: u32 = 0x1e;
const GET_MERGING: u32 = 0x2b;
const GET_CHANNELS: u32 = 0x3c;
const GET_RSS: u32 = 0x46;

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
    }
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
}
