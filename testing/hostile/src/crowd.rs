//! A crowd of connections that an attacker holds, each no more than its
//! sequence numbers.

use crate::arena::{ATTACKER_MAC, Arena, CLIENT, SERVER, server_end};
use crate::frames::{End, Segment, arp};
use core::net::{IpAddr, Ipv4Addr};
use std::collections::HashMap;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{ETHER_ARP, EthernetHeader};
use wire::tcp::{Flags, SeqNum, TcpOptions, Timestamps};

/// One connection of the attacker's.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its end.
    pub end: End,
    /// SND.NXT
    pub seq: SeqNum,
    /// RCV.NXT
    pub ack: SeqNum,
    /// The window it tells the server.
    pub window: u16,
    /// The server's window, as last told, not scaled.
    pub server_window: u16,
    /// The server's window shift.
    pub server_shift: u8,
    /// Its timestamp clock and the server's last stamp, if it uses them.
    pub stamps: Option<Timestamps>,
    /// Where it stands.
    pub state: PeerState,
    /// Bytes of text that the server sent in order.
    pub received: u64,
}

/// Where a connection of the attacker's stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// The SYN is sent.
    Opening,
    /// It is established, as far as the attacker knows.
    Open,
    /// The server sent FIN.
    Finished,
    /// The server sent RST.
    Reset,
}

/// What an attacker does with what the server sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Acknowledges all of it.
    Polite,
    /// Acknowledges text, but never a FIN.
    Unfinishing,
    /// Sends not a word.
    Silent,
}

/// The connections.
pub struct Crowd {
    /// By address and port.
    pub peers: HashMap<(IpAddr, u16), Peer>,
    /// What is done with what comes.
    pub manner: Manner,
    /// The window that all peers tell.
    pub window: u16,
    /// Options of their SYNs.
    pub options: TcpOptions,
    /// Whether ARP requests for their addresses are answered.
    pub answers_arp: bool,
}

impl Crowd {
    /// Nobody yet; polite, with windows of 64 KiB and no options.
    #[must_use]
    pub fn new() -> Self {
        Self {
            peers: HashMap::new(),
            manner: Manner::Polite,
            window: 0xffff,
            options: TcpOptions { mss: Some(1460), ..TcpOptions::NONE },
            answers_arp: true,
        }
    }

    /// The `index`th end, in 10.66.0.0/16.
    #[must_use]
    pub fn end(index: u32) -> End {
        let ip = IpAddr::V4(Ipv4Addr::from_bits(0x0a42_0001 + index / 32_768));
        End { mac: ATTACKER_MAC, ip, port: 1024 + (index % 32_768) as u16 }
    }

    /// Opens connections `from..to`, a few in each turn, and answers whatever
    /// comes. Returns how many the server has answered.
    pub fn open(&mut self, arena: &mut Arena, from: u32, to: u32) -> usize {
        const AT_A_TIME: u32 = 16;
        for index in from..to {
            let end = Self::end(index);
            let seq = SeqNum(index.wrapping_mul(0x9e37_79b9));
            let peer = Peer {
                end,
                seq: seq.plus(1),
                ack: SeqNum(0),
                window: self.window,
                server_window: 0,
                server_shift: 0,
                stamps: self.options.timestamps,
                state: PeerState::Opening,
                received: 0,
            };
            self.peers.insert((end.ip, end.port), peer);
            arena.inject(&Segment::new(end, server_end(), Flags::SYN, seq, SeqNum(0)).options(self.options).frame());
            if index % AT_A_TIME == 0 {
                arena.tick();
                self.pump(arena);
            }
        }
        for _ in 0..32 {
            arena.tick();
            self.pump(arena);
        }
        self.count(PeerState::Open)
    }

    /// How many stand there.
    #[must_use]
    pub fn count(&self, state: PeerState) -> usize {
        self.peers.values().filter(|peer| peer.state == state).count()
    }

    /// Takes what the server sent, and answers in the crowd's manner.
    pub fn pump(&mut self, arena: &mut Arena) {
        while let Some(frame) = arena.hear() {
            if let Some(segment) = Segment::parse(&frame) {
                self.on_segment(arena, &segment);
            } else if self.answers_arp && self.manner != Manner::Silent {
                answer_arp(arena, &frame);
            }
        }
    }

    /// Every peer that is open sends this text.
    pub fn say(&mut self, arena: &mut Arena, text: &[u8]) {
        let mut ends: Vec<_> = self.peers.iter().filter(|(_, p)| p.state == PeerState::Open).map(|(k, _)| *k).collect();
        ends.sort_unstable();
        for (n, key) in ends.into_iter().enumerate() {
            let Some(peer) = self.peers.get_mut(&key) else { continue };
            let frame = peer.segment(Flags::ACK, 0, text).frame();
            peer.seq = peer.seq.plus(text.len() as u32);
            arena.inject(&frame);
            if n % 16 == 15 {
                arena.tick();
                self.pump(arena);
            }
        }
        arena.tick();
        self.pump(arena);
    }

    fn on_segment(&mut self, arena: &mut Arena, segment: &Segment) {
        let Some(peer) = self.peers.get_mut(&(segment.dst.ip, segment.dst.port)) else { return };
        if segment.flags.contains(Flags::RST) {
            peer.state = PeerState::Reset;
            return;
        }
        peer.server_window = segment.window;
        if let (Some(stamps), Some(theirs)) = (&mut peer.stamps, segment.options.timestamps) {
            stamps.echo = theirs.value;
        }
        if segment.flags.contains(Flags::SYN) {
            if self.manner == Manner::Silent {
                return;
            }
            peer.ack = segment.seq.plus(1);
            peer.server_shift = segment.options.window_scale.unwrap_or(0);
            peer.state = PeerState::Open;
        } else {
            if segment.seq == peer.ack {
                peer.received += segment.payload.len() as u64;
                peer.ack = peer.ack.plus(segment.payload.len() as u32);
                if segment.flags.contains(Flags::FIN) && peer.state == PeerState::Open {
                    peer.state = PeerState::Finished;
                    peer.ack = peer.ack.plus(u32::from(self.manner == Manner::Polite));
                }
            }
            let says = !segment.payload.is_empty() || segment.flags.contains(Flags::FIN);
            if self.manner == Manner::Silent || !says {
                return;
            }
        }
        let frame = peer.segment(Flags::ACK, 0, b"").frame();
        arena.inject(&frame);
    }
}

impl Default for Crowd {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer {
    /// A segment `ahead` of what is next.
    #[must_use]
    pub fn segment(&self, flags: Flags, ahead: u32, text: &[u8]) -> Segment {
        let mut segment = Segment::new(self.end, server_end(), flags, self.seq.plus(ahead), self.ack).with(text);
        segment.window = self.window;
        segment.options.timestamps = self.stamps;
        segment
    }
}

/// Says that the attacker has the address that is asked for, unless it is a
/// station's own.
fn answer_arp(arena: &mut Arena, frame: &[u8]) {
    let Ok((ethernet, body)) = EthernetHeader::parse(frame) else { return };
    if ethernet.ether_type != ETHER_ARP {
        return;
    }
    let Ok(request) = ArpPacket::parse(body) else { return };
    let wanted = request.target_ip;
    if request.operation != Operation::Request || wanted == CLIENT || wanted == SERVER {
        return;
    }
    let answer = ArpPacket {
        operation: Operation::Reply,
        sender_mac: ATTACKER_MAC,
        sender_ip: wanted,
        target_mac: request.sender_mac,
        target_ip: request.sender_ip,
    };
    arena.inject(&arp(request.sender_mac, &answer));
}
