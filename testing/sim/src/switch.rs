//! A learning Ethernet switch between the hosts' links.

use core::net::IpAddr;
use link::{Link, PairLink, Receive, Transmit};
use wire::checksum::LinkVouched;
use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::tcp::TcpHeader;
use wire::{Mac, Offload, Time, protocol};

/// Frames taken from a port at a time.
const BURST: usize = 64;

/// Addresses learned at most: the oldest is forgotten.
const ADDRESSES: usize = 1_024;

/// The switch.
#[derive(Default)]
pub struct Switch {
    ports: Vec<PairLink>,
    /// Where an address was last seen as a source.
    learned: Vec<(Mac, usize)>,
    frame: Vec<u8>,
    /// Frames forwarded.
    pub forwarded: u64,
    /// Frames dropped because the port's ring was full.
    pub dropped: u64,
    /// Every frame is printed as it comes by.
    pub trace: bool,
}

impl Switch {
    /// Connects a link; what is sent on its other end comes in here.
    pub fn connect(&mut self, port: PairLink) {
        self.ports.push(port);
    }

    /// Whether frames wait to be forwarded.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.ports.iter().any(|port| port.waiting() > 0)
    }

    /// Forwards what waits at each port, a burst of it.
    pub fn turn(&mut self, now: Time) {
        for from in 0..self.ports.len() {
            let count = self.ports[from].split().0.receive(now, BURST);
            for index in 0..count {
                self.frame.clear();
                self.frame.extend_from_slice(self.ports[from].split().0.frame(index));
                if self.trace {
                    println!("{:13.6} s  {}", now.since(Time::ZERO).as_secs_f64(), summary(&self.frame));
                }
                self.forward(from);
            }
            self.ports[from].split().0.release();
        }
        for port in &mut self.ports {
            port.split().1.flush(now);
        }
    }

    fn forward(&mut self, from: usize) {
        let (Some(dst), Some(src)) = (mac(&self.frame, 0), mac(&self.frame, 6)) else { return };
        if !src.is_multicast() {
            self.learn(src, from);
        }
        let known = self.learned.iter().find(|(mac, _)| *mac == dst).map(|(_, port)| *port);
        match known.filter(|_| !dst.is_multicast()) {
            Some(to) if to == from => {}
            Some(to) => self.send(to),
            None => {
                for to in (0..self.ports.len()).filter(|&to| to != from) {
                    self.send(to);
                }
            }
        }
    }

    fn learn(&mut self, mac: Mac, port: usize) {
        if let Some(entry) = self.learned.iter_mut().find(|(known, _)| *known == mac) {
            entry.1 = port;
            return;
        }
        if self.learned.len() >= ADDRESSES {
            self.learned.remove(0);
        }
        self.learned.push((mac, port));
    }

    fn send(&mut self, to: usize) {
        let tx = self.ports[to].split().1;
        let Some(slot) = tx.slot().and_then(|slot| slot.get_mut(..self.frame.len())) else {
            self.dropped += 1;
            return;
        };
        slot.copy_from_slice(&self.frame);
        tx.commit(self.frame.len(), Offload::NONE);
        self.forwarded += 1;
    }
}

/// A frame in a line.
fn summary(frame: &[u8]) -> String {
    let Ok((ethernet, packet)) = EthernetHeader::parse(frame) else { return "no Ethernet frame".into() };
    let (src, dst, protocol, payload) = match ethernet.ether_type {
        ETHER_IPV4 => match Ipv4Header::parse(packet) {
            Ok((ip, payload)) => (IpAddr::V4(ip.src), IpAddr::V4(ip.dst), ip.protocol, payload),
            Err(error) => return format!("IPv4: {error}"),
        },
        ETHER_IPV6 => match Ipv6Header::parse(packet) {
            Ok((ip, payload)) => (IpAddr::V6(ip.src), IpAddr::V6(ip.dst), ip.next_header, payload),
            Err(error) => return format!("IPv6: {error}"),
        },
        other => return format!("{} > {} type {other:#06x}", ethernet.src, ethernet.dst),
    };
    if protocol != protocol::TCP {
        return format!("{src} > {dst} protocol {protocol}");
    }
    // As the receiver will, or not: a damaged segment is shown all the same.
    match TcpHeader::parse_trusted(payload, LinkVouched::new()) {
        Ok((tcp, text, _)) => format!(
            "{src} {} > {dst} {} {:?} seq {} ack {} win {} len {} ts {:?} sack {:?}",
            tcp.src_port,
            tcp.dst_port,
            tcp.flags,
            tcp.seq.0,
            tcp.ack.0,
            tcp.window,
            text.len(),
            tcp.options.timestamps.map(|ts| (ts.value, ts.echo)),
            tcp.options.sack.as_slice().iter().map(|(l, r)| (l.0, r.0)).collect::<Vec<_>>(),
        ),
        Err(error) => format!("TCP: {error}"),
    }
}

fn mac(frame: &[u8], at: usize) -> Option<Mac> {
    frame.get(at..)?.first_chunk::<6>().map(|bytes| Mac(*bytes))
}
