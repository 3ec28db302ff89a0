//! Offloads in software: what a NIC would do with [`wire::Offload`], for links
//! that have no NIC.

use wire::offload::PartialChecksum;

/// Completes a checksum whose field holds the pseudo-header's sum. Returns
/// whether the offsets lie inside the frame; it is left alone if not.
pub(crate) fn complete_checksum(frame: &mut [u8], partial: PartialChecksum) -> bool {
    let start = usize::from(partial.start);
    let field = start + usize::from(partial.field);
    if field + 2 > frame.len() {
        return false;
    }
    let sum = fold(sum(&frame[start..], 0));
    put16(frame, field, checksum(sum));
    true
}

/// Cuts one large TCP packet into segments: headers repeated, sequence
/// numbers, lengths, identifications, flags and checksums adjusted, as
/// `tcp_gso_segment` does in Linux (net/ipv4/tcp_offload.c).
pub(crate) struct Cut {
    network: usize,
    transport: usize,
    payload: usize,
    size: usize,
    done: usize,
    index: u16,
}

impl Cut {
    /// A cut of `frame`, whose TCP header starts at `transport`, into
    /// segments of `size` payload bytes; `None` if it is no TCP over IP.
    pub(crate) fn new(frame: &[u8], transport: usize, size: usize) -> Option<Self> {
        let network = network_offset(frame)?;
        let tcp = frame.get(transport..transport + TCP_HEADER)?;
        let payload = transport + usize::from(tcp[12] >> 4) * 4;
        let header = match frame[network] >> 4 {
            4 => 20,
            6 => 40,
            _ => return None,
        };
        let fits = transport >= network + header && payload >= transport + TCP_HEADER;
        (fits && payload <= frame.len() && size > 0).then_some(Self {
            network,
            transport,
            payload,
            size,
            done: 0,
            index: 0,
        })
    }

    /// Writes the next segment to `out` and returns its length; `None` after
    /// the last.
    pub(crate) fn next(&mut self, frame: &[u8], out: &mut [u8]) -> Option<u32> {
        let left = frame.len() - self.payload - self.done;
        if left == 0 && self.index > 0 {
            return None;
        }
        let chunk = left.min(self.size);
        let len = self.payload + chunk;
        let from = self.payload + self.done;
        let out = out.get_mut(..len)?;
        out[..self.payload].copy_from_slice(&frame[..self.payload]);
        out[self.payload..].copy_from_slice(&frame[from..from + chunk]);

        let tcp = self.transport;
        let seq = get32(out, tcp + 4).wrapping_add(self.done as u32);
        out[tcp + 4..tcp + 8].copy_from_slice(&seq.to_be_bytes());
        if chunk < left {
            out[tcp + 13] &= !(FIN | PSH);
        }
        if self.index > 0 {
            out[tcp + 13] &= !CWR;
        }
        let pseudo = self.fix_network(out);
        put16(out, tcp + 16, 0);
        let sum = fold(sum(&out[tcp..], pseudo));
        put16(out, tcp + 16, checksum(sum));

        self.done += chunk;
        self.index = self.index.wrapping_add(1);
        Some(len as u32)
    }

    /// Adjusts the IP header and returns the pseudo-header's sum.
    fn fix_network(&self, out: &mut [u8]) -> u64 {
        let (ip, tcp) = (self.network, self.transport);
        let transport_len = (out.len() - tcp) as u64;
        if out[ip] >> 4 == 4 {
            put16(out, ip + 2, (out.len() - ip) as u16);
            let id = get16(out, ip + 4).wrapping_add(self.index);
            put16(out, ip + 4, id);
            put16(out, ip + 10, 0);
            let header = fold(sum(&out[ip..tcp], 0));
            put16(out, ip + 10, !header);
            sum(&out[ip + 12..ip + 20], transport_len + TCP)
        } else {
            put16(out, ip + 4, (out.len() - ip - 40) as u16);
            sum(&out[ip + 8..ip + 40], transport_len + TCP)
        }
    }
}

const TCP: u64 = 6;
const TCP_HEADER: usize = 20;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Where the IP header starts, behind at most one VLAN tag.
fn network_offset(frame: &[u8]) -> Option<usize> {
    let kind = |at: usize| frame.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    match kind(12)? {
        0x8100 => matches!(kind(16)?, 0x0800 | 0x86dd).then_some(18),
        0x0800 | 0x86dd => Some(14),
        _ => None,
    }
}

/// RFC 1071: the sum of 16-bit words, an odd last byte padded with zero.
fn sum(bytes: &[u8], initial: u64) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let mut total = initial;
    for word in &mut words {
        total += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    if let [last] = words.remainder() {
        total += u64::from(*last) << 8;
    }
    total
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of a sum. Zero is sent as its other form, 0xffff, because to
/// UDP zero means "no checksum" (RFC 768); TCP takes either form.
fn checksum(sum: u16) -> u16 {
    match !sum {
        0 => 0xffff,
        sum => sum,
    }
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
