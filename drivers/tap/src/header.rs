//! The header that the kernel puts before each frame, and expects there:
//! `struct virtio_net_hdr` of include/uapi/linux/virtio_net.h, ten bytes in
//! this machine's byte order.

use wire::Offload;

/// Bytes of the header.
pub(crate) const LEN: usize = 10;

/// The fields as the kernel names them; all zero says "nothing to do".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Header {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

/// The checksum from `csum_start` on is to be completed by whoever needs it.
const NEEDS_CSUM: u8 = 1;
/// The checksum was found right.
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// The frame carries CWR, which belongs to the first segment only.
const GSO_ECN: u8 = 0x80;
const CWR: u8 = 0x80;

impl Header {
    /// What the kernel must do with `frame`.
    #[inline]
    pub(crate) fn for_frame(frame: &[u8], offload: Offload) -> Self {
        let Some(checksum) = offload.checksum else { return Self::default() };
        let header =
            Self { flags: NEEDS_CSUM, csum_start: checksum.start, csum_offset: checksum.field, ..Self::default() };
        match offload.segment {
            Some(size) => header.with_segments(frame, size),
            None => header,
        }
    }

    /// Asks for segments of `size` payload bytes, if `frame` is longer.
    fn with_segments(self, frame: &[u8], size: u16) -> Self {
        let start = usize::from(self.csum_start);
        let Some(tcp) = frame.get(start..start + 14) else { return self };
        let headers = start + usize::from(tcp[12] >> 4) * 4;
        if size == 0 || frame.len() <= headers + usize::from(size) {
            return self;
        }
        // The version says the same as the type field, VLAN tag or not.
        let tagged = frame[12..14] == [0x81, 0x00];
        let v6 = frame[if tagged { 18 } else { 14 }] >> 4 == 6;
        let ecn = if tcp[13] & CWR != 0 { GSO_ECN } else { 0 };
        Self { gso_type: ecn | if v6 { GSO_TCPV6 } else { GSO_TCPV4 }, hdr_len: headers as u16, gso_size: size, ..self }
    }

    /// Writes the header to `out`.
    ///
    /// # Panics
    /// If `out` is not [`LEN`] bytes long.
    #[inline]
    pub(crate) fn write(self, out: &mut [u8]) {
        let out: &mut [u8; LEN] = out.try_into().expect("a slot begins with the header");
        out[0] = self.flags;
        out[1] = self.gso_type;
        out[2..4].copy_from_slice(&self.hdr_len.to_ne_bytes());
        out[4..6].copy_from_slice(&self.gso_size.to_ne_bytes());
        out[6..8].copy_from_slice(&self.csum_start.to_ne_bytes());
        out[8..10].copy_from_slice(&self.csum_offset.to_ne_bytes());
    }

    /// Whether the kernel vouches for the checksum of the frame in `slot`:
    /// it was verified, or the frame comes from a local socket, never was on
    /// a wire and has no checksum yet.
    #[inline]
    pub(crate) fn vouches(slot: &[u8]) -> bool {
        slot[0] & (NEEDS_CSUM | DATA_VALID) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::offload::PartialChecksum;

    fn written(frame: &[u8], segment: Option<u16>) -> [u8; LEN] {
        let checksum = Some(PartialChecksum { start: 34, field: 16 });
        let mut out = [0xff; LEN];
        Header::for_frame(frame, Offload { checksum, segment }).write(&mut out);
        out
    }

    fn frame(version: u8, flags: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; 34 + 20 + payload];
        frame[14] = version << 4;
        frame[34 + 12] = 0x50;
        frame[34 + 13] = flags;
        frame
    }

    fn words(header: [u8; LEN]) -> [u16; 4] {
        core::array::from_fn(|i| u16::from_ne_bytes([header[2 + i * 2], header[3 + i * 2]]))
    }

    #[test]
    fn a_complete_frame_asks_for_nothing() {
        assert_eq!(Header::for_frame(&frame(4, 0, 10), Offload::NONE), Header::default());
    }

    #[test]
    fn a_partial_checksum_is_told() {
        let header = written(&frame(4, 0, 10), None);
        assert_eq!(header[..2], [NEEDS_CSUM, 0]);
        assert_eq!(words(header), [0, 0, 34, 16]);
    }

    #[test]
    fn segments_are_told_by_family_and_with_ecn() {
        for (version, flags, kind) in [(4, 0x10, 1), (6, 0x10, 4), (4, 0x90, 0x81)] {
            let header = written(&frame(version, flags, 3000), Some(1460));
            assert_eq!(header[..2], [NEEDS_CSUM, kind]);
            assert_eq!(words(header), [54, 1460, 34, 16]);
        }
    }

    #[test]
    fn one_segment_is_no_segmentation_and_no_frame_panics() {
        assert_eq!(written(&frame(4, 0, 1460), Some(1460))[1], 0);
        assert_eq!(written(&frame(4, 0, 1461), Some(1460))[1], 1);
        assert_eq!(written(&frame(4, 0, 3000), Some(0))[1], 0);
        assert_eq!(written(&[0; 20], Some(1460))[1], 0);
        assert_eq!(written(&[], Some(1460))[1], 0);
    }
}
