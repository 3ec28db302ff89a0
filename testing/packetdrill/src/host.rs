//! The host under test: a silo under a virtual clock, and the network around
//! it, which is packetdrill for IP packets and a neighbour that always
//! answers for the rest.

use crate::settings::Settings;
use crate::sockets::Sockets;
use crate::tape::Tape;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use link::Link;
use silo::{Silo, Turn};
use stack::{Config, LinkOffload, Seeds, Stack};
use std::collections::VecDeque;
use wire::arp::{ArpPacket, Operation};
use wire::ethernet::{self, ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv6::{Icmpv6, NEIGHBOR_HOP_LIMIT, NeighborAdvertisement};
use wire::ipv6::{self, Ipv6Header};
use wire::{Mac, Time, protocol};

const OUR_MAC: Mac = Mac([0x02, 0, 0, 0, 0, 0x01]);
/// Everybody else.
const NEIGHBOUR_MAC: Mac = Mac([0x02, 0, 0, 0, 0, 0x02]);
/// Routers to everywhere, so that scripts can choose addresses freely.
const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);
const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Connections of one script.
const MAX_CONNECTIONS: usize = 1024;
/// Turns at one time before it is a livelock.
const MOST_TURNS: u32 = 100_000;
/// Packets waiting for the script to look at them; more are dropped, oldest
/// first, and the script fails on the gap.
const MAX_SENT: usize = 65_536;

/// When the clock starts: well after zero, so that nothing before it is
/// negative.
const START: Time = Time::from_millis(1_000_000);

/// The host.
pub struct Host {
    /// The stack and its application.
    pub silo: Silo<Tape, Sockets>,
    now: Time,
    last: Option<Turn>,
    sent: VecDeque<(Time, Vec<u8>)>,
}

impl Host {
    /// A host at the start of time, whose neighbours are known.
    pub fn new(settings: Settings) -> Self {
        let mut config = Config::new(OUR_MAC, settings.mtu);
        config.addresses = settings.addresses;
        config.gateways = vec![IpAddr::V4(GATEWAY_V4), IpAddr::V6(GATEWAY_V6)];
        config.max_connections = MAX_CONNECTIONS;
        config.max_time_wait = MAX_CONNECTIONS;
        config.max_half_open = settings.max_half_open;
        config.syn_ack_retries = settings.syn_ack_retries;
        config.tcp = settings.tcp;
        let link = Tape::new(settings.mtu, settings.segmentation);
        let offers = link.capabilities();
        let offload = LinkOffload { checksum: offers.transmit_checksum, segmentation: offers.segmentation };
        let seeds = Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] };
        let addresses = config.addresses.clone();
        let stack = Stack::new(config, offload, &seeds, START);
        let app = Sockets::new(settings.send_limit, settings.not_sent_low_water);
        let mut host = Self { silo: Silo { link, stack, app }, now: START, last: None, sent: VecDeque::new() };
        for address in addresses {
            host.introduce(address.ip);
        }
        host.rest();
        host
    }

    /// The virtual time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// An IP packet arrives.
    pub fn receive(&mut self, packet: &[u8]) {
        let ether_type = if packet.first().is_some_and(|first| first >> 4 == 6) { ETHER_IPV6 } else { ETHER_IPV4 };
        self.silo.link.put(frame(OUR_MAC, ether_type, packet));
        self.rest();
    }

    /// The next IP packet that was sent, and when.
    pub fn sent(&mut self) -> Option<(Time, Vec<u8>)> {
        self.sent.pop_front()
    }

    /// Whether a packet waits in [`Host::sent`].
    pub fn has_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    /// When the host does something by itself next.
    pub fn due(&self) -> Option<Time> {
        let turn = self.last.map_or(Time::MAX, |turn| turn.deadline);
        let due = turn.min(self.silo.stack_deadline());
        (due < Time::MAX).then(|| due.max(self.now))
    }

    /// Lets time pass until the host does something by itself, but not beyond
    /// `limit`.
    pub fn pass(&mut self, limit: Time) {
        let due = self.due().map_or(limit, |due| due.min(limit));
        self.now = self.now.max(due);
        self.rest();
    }

    /// Takes turns until nothing is left to do at this time.
    pub fn rest(&mut self) {
        for _ in 0..MOST_TURNS {
            let turn = self.silo.turn(self.now);
            self.last = Some(turn);
            while let Some(frame) = self.silo.link.take() {
                self.on_sent(&frame);
            }
            let due = turn.more || turn.deadline <= self.now || self.silo.stack_deadline() <= self.now;
            if !due && self.silo.link.waiting() == 0 {
                self.note_write_space();
                return;
            }
        }
        panic!("the stack never comes to rest at {:?}", self.now);
    }

    fn on_sent(&mut self, frame: &[u8]) {
        let Ok((header, packet)) = EthernetHeader::parse(frame) else { return };
        let answer = match header.ether_type {
            ETHER_ARP => arp_answer(packet),
            ETHER_IPV6 => solicitation_answer(packet),
            _ => None,
        };
        if let Some(answer) = answer {
            self.silo.link.put(answer);
        } else if header.ether_type != ETHER_ARP {
            if self.sent.len() >= MAX_SENT {
                self.sent.pop_front();
            }
            self.sent.push_back((self.now, packet.to_vec()));
        }
    }

    /// The routers ask for an address of ours, and so make themselves known:
    /// the first packet of a script does not wait for their resolution.
    fn introduce(&mut self, ip: IpAddr) {
        let frame = match ip {
            IpAddr::V4(ip) => {
                let request = ArpPacket {
                    operation: Operation::Request,
                    sender_mac: NEIGHBOUR_MAC,
                    sender_ip: GATEWAY_V4,
                    target_mac: Mac::ZERO,
                    target_ip: ip,
                };
                arp(&request)
            }
            IpAddr::V6(ip) => {
                icmpv6(&Icmpv6::NeighborSolicitation { target: ip, link_layer: Some(NEIGHBOUR_MAC) }, GATEWAY_V6, ip)
            }
        };
        self.silo.link.put(frame);
        self.rest();
        // Our answers to that are not the script's business.
        self.sent.clear();
    }
}

/// The reply to an ARP request of ours: whoever is asked for is there.
fn arp_answer(packet: &[u8]) -> Option<Vec<u8>> {
    let asked = ArpPacket::parse(packet).ok().filter(|packet| packet.operation == Operation::Request)?;
    Some(arp(&ArpPacket {
        operation: Operation::Reply,
        sender_mac: NEIGHBOUR_MAC,
        sender_ip: asked.target_ip,
        target_mac: asked.sender_mac,
        target_ip: asked.sender_ip,
    }))
}

/// The answer to a neighbour solicitation of ours; likewise.
fn solicitation_answer(packet: &[u8]) -> Option<Vec<u8>> {
    let (header, payload) = Ipv6Header::parse(packet).ok()?;
    if header.next_header != protocol::ICMPV6 || header.src.is_unspecified() {
        return None;
    }
    match Icmpv6::parse(payload, header.src, header.dst, header.hop_limit).ok()? {
        Icmpv6::NeighborSolicitation { target, .. } => {
            let answer = NeighborAdvertisement {
                target,
                router: true,
                solicited: true,
                replace: true,
                link_layer: Some(NEIGHBOUR_MAC),
            };
            Some(icmpv6(&Icmpv6::NeighborAdvertisement(answer), target, header.src))
        }
        _ => None,
    }
}

fn arp(packet: &ArpPacket) -> Vec<u8> {
    let mut bytes = [0; wire::arp::PACKET_LEN];
    packet.emit(&mut bytes);
    frame(OUR_MAC, ETHER_ARP, &bytes)
}

fn icmpv6(message: &Icmpv6<'_>, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    let mut packet = vec![0; ipv6::MIN_MTU];
    let (head, body) = packet.split_at_mut(ipv6::HEADER_LEN);
    let len = message.emit(src, dst, body);
    let header = Ipv6Header {
        src,
        dst,
        next_header: protocol::ICMPV6,
        hop_limit: NEIGHBOR_HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        payload_len: len as u16,
    };
    header.emit(head);
    frame(OUR_MAC, ETHER_IPV6, &packet[..ipv6::HEADER_LEN + len])
}

fn frame(dst: Mac, ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    EthernetHeader { dst, src: NEIGHBOUR_MAC, vlan: None, ether_type }.emit(&mut frame);
    frame.extend_from_slice(packet);
    frame
}
