//! Control messages: what the kernel says of a frame beside its bytes.

use driver::StampedBy;

/// What was said of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Said {
    /// The kernel's stamp, in nanoseconds of the time of day.
    kernel: Option<u64>,
    /// The NIC's, of its own clock.
    nic: Option<u64>,
    /// The VLAN tag that was taken out of the frame: its type, and itself.
    pub tag: Option<(u16, u16)>,
    /// It is a stamp of a frame that left.
    pub departed: bool,
}

impl Said {
    /// The stamp by this one.
    pub fn stamp(&self, by: Option<StampedBy>) -> Option<u64> {
        match by? {
            StampedBy::Kernel => self.kernel,
            StampedBy::Nic => self.nic,
        }
    }

    /// Reads the messages in `bytes`; what is unknown or cut is passed over.
    pub fn read(mut bytes: &[u8]) -> Self {
        const HEADER: usize = size_of::<libc::cmsghdr>();
        let mut said = Self::default();
        while let Some((head, _)) = bytes.split_first_chunk::<HEADER>() {
            let len = word(head, 0).unwrap_or(0) as usize;
            let (level, kind) = (half(head, 8).unwrap_or(0), half(head, 12).unwrap_or(0));
            let Some(data) = bytes.get(HEADER..len) else { break };
            said.take(level.cast_signed(), kind.cast_signed(), data);
            let Some(rest) = bytes.get(len.next_multiple_of(8)..) else { break };
            bytes = rest;
        }
        said
    }

    fn take(&mut self, level: i32, kind: i32, data: &[u8]) {
        match (level, kind) {
            // Three times: the kernel's, one that is no more, the NIC's.
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                let nanos = |at| {
                    let (seconds, nanos) = (word(data, at)?, word(data, at + 8)?);
                    // Zero is none.
                    seconds.checked_mul(1_000_000_000)?.checked_add(nanos).filter(|nanos| *nanos > 0)
                };
                (self.kernel, self.nic) = (nanos(0), nanos(32));
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                let status = half(data, 0).unwrap_or(0);
                let pair = |at: usize| Some(u16::from_ne_bytes([*data.get(at)?, *data.get(at + 1)?]));
                if status & libc::TP_STATUS_VLAN_VALID != 0 {
                    let kind = pair(18).filter(|_| status & libc::TP_STATUS_VLAN_TPID_VALID != 0);
                    self.tag = pair(16).map(|tag| (kind.unwrap_or(0x8100), tag));
                }
            }
            // sock_extended_err: the number is ENOMSG, and the origin a stamp.
            (libc::SOL_PACKET, PACKET_TX_TIMESTAMP) => {
                self.departed = data.get(4) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING);
            }
            _ => {}
        }
    }
}

/// `include/uapi/linux/if_packet.h`.
const PACKET_TX_TIMESTAMP: i32 = 16;

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(((size_of::<libc::cmsghdr>() + data.len()) as u64).to_ne_bytes());
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn stamps(kernel: (u64, u64), nic: (u64, u64)) -> Vec<u8> {
        let times = [kernel.0, kernel.1, 0, 0, nic.0, nic.1];
        let data: Vec<u8> = times.iter().flat_map(|time| time.to_ne_bytes()).collect();
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &data)
    }

    #[test]
    fn stamps_are_told_apart_and_zero_is_none() {
        let both = Said::read(&stamps((3, 5), (7, 11)));
        assert_eq!(both.stamp(Some(StampedBy::Kernel)), Some(3_000_000_005));
        assert_eq!(both.stamp(Some(StampedBy::Nic)), Some(7_000_000_011));
        assert_eq!(both.stamp(None), None);
        let kernel = Said::read(&stamps((3, 5), (0, 0)));
        assert_eq!((kernel.stamp(Some(StampedBy::Nic)), kernel.departed), (None, false));
    }

    #[test]
    fn a_frame_that_left_has_both_messages() {
        let mut error = [0; 16];
        error[4] = libc::SO_EE_ORIGIN_TIMESTAMPING;
        let mut bytes = stamps((0, 0), (1, 0));
        bytes.extend(message(libc::SOL_PACKET, PACKET_TX_TIMESTAMP, &error));
        let said = Said::read(&bytes);
        assert!(said.departed && said.stamp(Some(StampedBy::Nic)) == Some(1_000_000_000));
        // An error of another origin is no stamp.
        error[4] = 1;
        assert!(!Said::read(&message(libc::SOL_PACKET, PACKET_TX_TIMESTAMP, &error)).departed);
    }

    #[test]
    fn a_tag_that_was_taken_out_is_told() {
        let mut data = [0; 20];
        data[..4].copy_from_slice(&(libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID).to_ne_bytes());
        data[16..18].copy_from_slice(&7_u16.to_ne_bytes());
        data[18..20].copy_from_slice(&0x88a8_u16.to_ne_bytes());
        assert_eq!(Said::read(&message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &data)).tag, Some((0x88a8, 7)));
        data[..4].fill(0);
        assert_eq!(Said::read(&message(libc::SOL_PACKET, libc::PACKET_AUXDATA, &data)).tag, None);
    }

    #[test]
    fn what_is_cut_is_passed_over() {
        let whole = stamps((1, 2), (3, 4));
        for len in 0..whole.len() {
            assert_eq!(Said::read(&whole[..len]), Said::default(), "{len}");
        }
        // A length of nothing would never end.
        assert_eq!(Said::read(&[0; 64]), Said::default());
    }
}
