//! Ports that accept connections, and segments of no flow that is known.

use super::Tcp;
use super::arrive::Arrival;
use super::cookie::Cookie;
use super::flows::Keyed;
use crate::egress::Egress;
use crate::flow::{Envelope, Flow};
use crate::ip::Ip;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tcp::SocketOptions;
use wire::tcp::{Flags, TcpHeader};

/// The listeners.
#[derive(Debug)]
pub(super) struct Listeners {
    /// In order, each once, with those of `at`.
    ports: Vec<u16>,
    /// Where ports accept that do so on some addresses only, in order; one that
    /// is unspecified stands for all of its family.
    at: Vec<(u16, IpAddr)>,
    /// Of ports whose listeners hand options on, few if any.
    options: Vec<(u16, SocketOptions)>,
    /// Other processes of the same addresses have listeners of their own.
    shared: bool,
    /// Whose SYN was taken last: an address that may be a host's. They come in
    /// rows.
    pub last_source: IpAddr,
}

impl Listeners {
    /// On these ports.
    pub fn new(ports: &[u16]) -> Self {
        let last_source = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let mut this = Self { ports: Vec::new(), at: Vec::new(), options: Vec::new(), shared: false, last_source };
        this.set(ports, &[]);
        this
    }

    fn set(&mut self, ports: &[u16], at: &[(u16, IpAddr)]) {
        self.at = at.iter().filter(|(port, _)| !ports.contains(port)).copied().collect();
        self.ports = ports.iter().copied().chain(self.at.iter().map(|(port, _)| *port)).collect();
        self.at.sort_unstable();
        self.at.dedup();
        self.ports.sort_unstable();
        self.ports.dedup();
    }

    /// Whether a port accepts connections, on some address at least.
    #[inline(always)]
    pub fn has(&self, port: u16) -> bool {
        match self.ports.len() {
            // Most have few.
            0..=8 => self.ports.contains(&port),
            _ => self.ports.binary_search(&port).is_ok(),
        }
    }

    /// Whether connections of a flow are accepted.
    #[inline(always)]
    pub fn takes(&self, ip: &Ip, flow: &Flow) -> bool {
        self.has(flow.local_port)
            && (self.at.is_empty() || self.takes_at(ip.addresses.get(flow.local), flow.local_port))
    }

    #[cold]
    fn takes_at(&self, address: Option<IpAddr>, port: u16) -> bool {
        let first = self.at.partition_point(|(of, _)| *of < port);
        if self.at.get(first).is_none_or(|(of, _)| *of != port) {
            // It does so everywhere.
            return true;
        }
        let Some(address) = address else { return false };
        let all: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        [address, all].iter().any(|ip| self.at.binary_search(&(port, *ip)).is_ok())
    }

    /// The options of the listener on a port, if it has any.
    #[inline(always)]
    pub fn options(&self, port: u16) -> Option<&SocketOptions> {
        if self.options.is_empty() {
            return None;
        }
        self.find_options(port)
    }

    #[cold]
    fn find_options(&self, port: u16) -> Option<&SocketOptions> {
        self.options.iter().find(|(of, _)| *of == port).map(|(_, options)| options)
    }
}

impl Tcp {
    /// Stops accepting: further SYNs are answered as on a closed port.
    pub fn stop_listening(&mut self) {
        self.listeners.set(&[], &[]);
        self.listeners.options.clear();
    }

    /// Accepts connections on a further port.
    pub fn listen(&mut self, port: u16) {
        let at = core::mem::take(&mut self.listeners.at);
        let mut ports = core::mem::take(&mut self.listeners.ports);
        ports.retain(|port| !at.iter().any(|(of, _)| of == port));
        ports.push(port);
        self.listeners.set(&ports, &at);
    }

    /// Accepts connections on these ports of every address, and at these
    /// addresses, and nowhere else.
    pub fn listen_on(&mut self, ports: &[u16], at: &[SocketAddr]) {
        let at: Vec<(u16, IpAddr)> = at.iter().map(|door| (door.port(), door.ip())).collect();
        self.listeners.set(ports, &at);
    }

    /// A SYN that nobody here listens for may be another process's to answer.
    pub const fn share_listeners(&mut self) {
        self.listeners.shared = true;
    }

    /// Sets the options of the listener on a port, which count for its SYN,ACKs
    /// and for the connections that it accepts from now on.
    pub fn set_listener_options(&mut self, port: u16, options: SocketOptions) {
        self.listeners.options.retain(|(of, _)| *of != port);
        if options != SocketOptions::default() {
            self.listeners.options.push((port, options.sound()));
        }
    }

    /// No connection, handshake or record has this flow.
    pub(super) fn on_unknown<'f>(
        &mut self,
        ip: &mut Ip,
        key: Keyed,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let flow = key.flow;
        if envelope.src != self.listeners.last_source && ip.is_forged(envelope.src) {
            // RFC 9293 section 3.9.2.3 (MUST-57), RFC 1122 section 4.2.3.10;
            // an address of our own would have us talk to ourselves.
            ip.drop_martian();
            return None;
        }
        let listening = self.listeners.takes(ip, &flow) && flow.remote_port != 0;
        const KIND: Flags = Flags(Flags::SYN.0 | Flags::ACK.0 | Flags::RST.0);
        let kind = header.flags.0 & KIND.0;
        if listening && kind == Flags::SYN.0 && !header.flags.contains(Flags::FIN) {
            self.on_syn(ip, key, envelope, header, None, out);
            return None;
        }
        if listening && kind == Flags::ACK.0 && self.cookies_in_use() {
            match self.accept_cookie(ip, key, envelope, header) {
                Cookie::Accepted(id) => return self.on_accepted(ip, id, header, payload, out),
                // The peer sends again, and by then there may be room.
                Cookie::Deferred => return None,
                Cookie::Refused => {
                    self.reset_unknown(ip, &flow, envelope.mac, header, payload, out);
                    return None;
                }
                // It may be a cookie's second segment, whose first was lost or
                // overtaken: the proof comes with the first, if it is let. A
                // reset would end a connection that the peer holds for open.
                Cookie::Wrong => {
                    self.counters.cookies_failed += 1;
                    self.note_stray(&flow, envelope, None);
                    return None;
                }
            }
        }
        if listening && kind & (Flags::ACK.0 | Flags::RST.0) == 0 {
            // RFC 9293 section 3.10.7.2, fourth: what carries neither RST, ACK
            // nor SYN is dropped; and so is a SYN that would end what it
            // begins, which only port scanners send.
            self.counters.listen_dropped += 1;
            return None;
        }
        let asks_here = kind == Flags::SYN.0 && !self.listeners.shared;
        self.counters.refused += u64::from(asks_here);
        if asks_here {
            self.reset_unknown(ip, &flow, envelope.mac, header, payload, out);
        } else {
            self.refuse_or_note(ip, &flow, envelope, header, payload, out);
        }
        None
    }

    /// A client has one connection more, if anybody counts.
    #[inline(always)]
    pub(super) fn note_opened(&mut self, flow: &Flow) {
        if self.sources.is_on() {
            self.sources.opened(flow.remote());
        }
    }

    /// A client has one connection less, if anybody counts.
    #[inline(always)]
    pub(super) fn note_closed(&mut self, flow: &Flow) {
        if self.sources.is_on() {
            self.sources.closed(flow.remote());
        }
    }

    /// Whether a flow's client may have one more connection; counted if not.
    #[inline(always)]
    pub(super) fn admits(&mut self, flow: &Flow) -> bool {
        !self.sources.is_on() || self.has_room_for(flow)
    }

    #[cold]
    fn has_room_for(&mut self, flow: &Flow) -> bool {
        let admits = self.sources.admits(flow.remote());
        self.counters.source_limited += u64::from(!admits);
        admits
    }
}
