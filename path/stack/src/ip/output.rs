//! How a packet leaves: what stands below a transport's header, into a slot.

use super::Ip;
use crate::egress::{Egress, LinkOffload};
use crate::flow::Flow;
use core::net::IpAddr;
use tcp::Treatment;
use wire::checksum::{pseudo_v4, pseudo_v6};
use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, Ipv6Header};
use wire::plain::Ends;
use wire::{Mac, Offload, Sum};

/// IPv4 time to live and IPv6 hop limit of what we send (RFC 1700).
pub(crate) const DEFAULT_TTL: u8 = 64;

/// What the packets of one flow to one neighbour have in common below their
/// transport, which writes them through it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    ip: &'a Ip,
    mac: Mac,
    treatment: Treatment,
    /// Goes straight to the link, which does what it can.
    by_link: bool,
}

impl Ip {
    /// The way to a neighbour.
    #[inline(always)]
    pub const fn to(&self, mac: Mac, treatment: Treatment) -> Outgoing<'_> {
        Outgoing { ip: self, mac, treatment, by_link: true }
    }

    /// Writes a frame whose body `fill` writes; nothing is sent if it writes
    /// nothing.
    pub(super) fn emit(
        &mut self,
        out: &mut impl Egress,
        dst: Mac,
        ether_type: u16,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let Some(slot) = out.slot() else {
            self.counters.replies_dropped += 1;
            return;
        };
        let header = EthernetHeader { dst, src: self.mac, vlan: self.vlan, ether_type };
        let at = header.emit(slot);
        let len = fill(&mut slot[at..]);
        if len > 0 {
            out.commit(at + len, Offload::NONE);
        }
    }
}

impl Outgoing<'_> {
    /// The same, but what the link could do is done here: for what is kept
    /// until its neighbour is known.
    #[inline]
    pub fn without_offload(self) -> Self {
        Self { by_link: false, ..self }
    }

    /// Largest packet, in bytes.
    #[inline(always)]
    pub const fn mtu(&self) -> u16 {
        self.ip.mtu
    }

    /// What the link does for packets that go this way.
    #[inline(always)]
    pub const fn offload(&self) -> LinkOffload {
        if self.by_link { self.ip.offload } else { LinkOffload::NONE }
    }

    /// Most payload of one hand-over to the link, in bytes, behind so much of
    /// a transport's header; 0 if the link does not cut it.
    #[inline]
    pub fn burst(&self, v6: bool, header_len: usize) -> u32 {
        let headers = header_len + if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        let LinkOffload { checksum, segmentation } = self.offload();
        match segmentation {
            Some(limit) if checksum => limit.min(0xffff).saturating_sub(headers as u32),
            _ => 0,
        }
    }

    /// Whether nothing below the transport is other than in nearly every
    /// frame.
    #[inline(always)]
    pub const fn is_usual(&self) -> bool {
        self.ip.vlan.is_none() && self.treatment.is_usual()
    }

    /// Whether routers may fragment its packets.
    pub const fn is_fragmented(&self) -> bool {
        self.treatment.is_fragmented()
    }

    /// Whether frames carry no VLAN tag.
    pub const fn is_untagged(&self) -> bool {
        self.ip.vlan.is_none()
    }

    /// Our address in a flow.
    pub fn own(&self, flow: &Flow) -> Option<IpAddr> {
        self.ip.addresses.get(flow.local)
    }

    /// Both ends of a plain frame.
    #[inline(always)]
    pub fn ends(&self, flow: &Flow) -> Ends {
        Ends {
            to: self.mac,
            from: self.ip.mac,
            src: self.ip.addresses.v4(flow.local),
            dst: flow.remote_v4(),
            ttl: DEFAULT_TTL,
        }
    }

    /// Writes what stands before `len` bytes of a transport, its header
    /// included. Returns where they begin, and the pseudo-header's sum.
    #[inline]
    pub fn headers(&self, out: &mut [u8], flow: &Flow, protocol: u8, len: usize) -> (usize, Sum) {
        self.headers_of(out, flow, protocol, len, 0)
    }

    /// The same, of a packet that others of its flow are told from by this
    /// where they are fragmented (RFC 6864 section 4).
    #[inline]
    pub fn headers_of(
        &self,
        out: &mut [u8],
        flow: &Flow,
        protocol: u8,
        len: usize,
        identification: u16,
    ) -> (usize, Sum) {
        let ether_type = if flow.is_v4() { ETHER_IPV4 } else { ETHER_IPV6 };
        let link = EthernetHeader { dst: self.mac, src: self.ip.mac, vlan: self.ip.vlan, ether_type }.emit(out);
        let sum = self.network(&mut out[link..], flow, (protocol, identification), len as u16);
        (link + network_len(flow), sum)
    }

    /// Writes the IP header and returns the pseudo-header's sum.
    #[inline]
    fn network(&self, out: &mut [u8], flow: &Flow, (protocol, identification): (u8, u16), payload_len: u16) -> Sum {
        if flow.is_v4() {
            let header = Ipv4Header {
                src: self.ip.addresses.v4(flow.local),
                dst: flow.remote_v4(),
                protocol,
                ttl: DEFAULT_TTL,
                dscp_ecn: self.treatment.traffic_class(),
                // Atomic datagrams need no identification (RFC 6864 section 4).
                identification,
                dont_fragment: !self.is_fragmented(),
                more_fragments: false,
                fragment_offset: 0,
                header_len: ipv4::HEADER_LEN as u8,
                payload_len,
            };
            header.emit(out);
            return pseudo_v4(header.src, header.dst, protocol, payload_len);
        }
        let header = Ipv6Header {
            src: self.ip.addresses.v6(flow.local),
            dst: flow.remote_v6(),
            next_header: protocol,
            hop_limit: DEFAULT_TTL,
            traffic_class: self.treatment.traffic_class(),
            flow_label: 0,
            payload_len,
        };
        header.emit(out);
        pseudo_v6(header.src, header.dst, protocol, u32::from(payload_len))
    }
}

/// Length of a flow's IP header.
#[inline]
pub(crate) const fn network_len(flow: &Flow) -> usize {
    if flow.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}
