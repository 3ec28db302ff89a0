//! Plain frames are read and written as the layers would, or not at all.

use core::net::Ipv4Addr;
use wire::ethernet::{ETHER_IPV4, EthernetHeader};
use wire::ipv4::{self, Ipv4Header};
use wire::plain::{self, Ends, Plain, Station};
use wire::tcp::{Established, Flags, Offer, Opening, SeqNum, TcpHeader, Timestamps};
use wire::{Mac, Sum, checksum, protocol};

const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const ENDS: Ends = Ends {
    to: OWN,
    from: Mac([2, 0, 0, 0, 0, 2]),
    src: Ipv4Addr::new(10, 0, 0, 2),
    dst: Ipv4Addr::new(10, 0, 0, 1),
    ttl: 64,
};

const OFFER: Offer = Offer { mss: 1_460, window_scale: Some(7), sack_permitted: true };

fn opening() -> Opening {
    Opening {
        src_port: 40_000,
        dst_port: 80,
        seq: SeqNum(0x0102_0304),
        ack: SeqNum(7),
        flags: Flags::SYN | Flags::ACK,
        window: 65_535,
        offer: OFFER,
        timestamps: Some(Timestamps { value: 5, echo: 6 }),
    }
}

fn established(timestamps: Option<Timestamps>) -> Established {
    let (seq, ack) = (SeqNum(0xffff_fff0), SeqNum(9));
    Established { src_port: 40_000, dst_port: 80, seq, ack, flags: Flags::ACK | Flags::PSH, window: 512, timestamps }
}

/// What the three layers read, if they take the frame.
fn by_layers(frame: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr, TcpHeader, &[u8])> {
    let (ethernet, packet) = EthernetHeader::parse(frame).ok()?;
    let sound = ethernet.vlan.is_none() && ethernet.dst == OWN && !ethernet.src.is_multicast();
    if !sound || ethernet.ether_type != ETHER_IPV4 {
        return None;
    }
    let (ip, segment) = Ipv4Header::parse(packet).ok()?;
    if ip.protocol != protocol::TCP || ip.is_fragment() {
        return None;
    }
    let pseudo = checksum::pseudo_v4(ip.src, ip.dst, protocol::TCP, segment.len() as u16);
    let (header, payload, _) = TcpHeader::parse(segment, pseudo).ok()?;
    Some((ip.src, ip.dst, header, payload))
}

/// A frame of each kind, with some payload where there may be any.
fn frames() -> Vec<Vec<u8>> {
    let text = b"GET / HTTP/1.1\r\n\r\n";
    let mut frames = Vec::new();
    for timestamps in [None, Some(Timestamps { value: 1, echo: 2 })] {
        let header = established(timestamps);
        let mut frame = vec![0; 100];
        let len = plain::emit(&mut frame, &ENDS, &header, text.len(), checksum::sum(text));
        frame.truncate(len);
        frame.extend_from_slice(text);
        frames.push(frame);
    }
    let mut frame = vec![0; 100];
    let len = plain::emit_opening(&mut frame, &ENDS, &opening());
    frame.truncate(len);
    frames.push(frame);
    frames
}

#[test]
fn written_as_the_layers_read() {
    let [bare, stamped, syn] = frames().try_into().unwrap();
    for (frame, header) in [(&bare, established(None)), (&stamped, established(Some(Timestamps { value: 1, echo: 2 })))]
    {
        let (src, dst, read, payload) = by_layers(frame).unwrap();
        assert_eq!((src, dst, payload), (ENDS.src, ENDS.dst, &b"GET / HTTP/1.1\r\n\r\n"[..]));
        assert_eq!(read.established(), Some(header));
    }
    let (_, _, read, payload) = by_layers(&syn).unwrap();
    let mut head = [0; 60];
    let pseudo = checksum::pseudo_v4(ENDS.src, ENDS.dst, protocol::TCP, 40);
    assert_eq!(opening().emit(&mut head, pseudo), 40);
    assert_eq!((&syn[34..], payload.len()), (&head[..40], 0));
    assert_eq!((read.options.mss, read.established()), (Some(1_460), None));
    // Fewer options are not for this way, nor is a slot that is too short.
    let fewer = Opening { offer: Offer { sack_permitted: false, ..OFFER }, ..opening() };
    assert_eq!(plain::emit_opening(&mut [0; 100], &ENDS, &fewer), 0);
    assert_eq!(plain::emit_opening(&mut [0; 73], &ENDS, &opening()), 0);
    assert_eq!(plain::emit(&mut [0; 53], &ENDS, &established(None), 0, Sum::ZERO), 0);
}

/// Whatever a frame's bytes are: what is taken here, the layers take alike.
#[test]
fn read_as_the_layers_read() {
    let mut state = 11_u64;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut taken, mut left, mut declined) = (0, 0, 0);
    for round in 0..60_000 {
        let mut frame = frames().swap_remove(round % 3);
        for _ in 0..random(3) {
            let at = random(frame.len());
            frame[at] = random(256) as u8;
        }
        if random(4) == 0 {
            frame.truncate(random(frame.len() + 1));
        }
        if random(2) == 0 && frame.len() > 54 {
            mend(&mut frame);
        }
        let wanted = by_layers(&frame);
        let whole = plain::parse_with_options(&frame, Station::of(OWN), false);
        assert!(whole.is_none() || whole == wanted, "{frame:02x?}");
        // IP options, and a reserved bit, are left to the layers.
        declined += u32::from(whole.is_none() && wanted.is_some());
        if let Some(plain) = Plain::parse(&frame, Station::of(OWN), false) {
            assert_eq!(Some((plain.src, plain.dst, plain.tcp_header(), plain.payload)), wanted, "{frame:02x?}");
        }
        *if whole.is_some() { &mut taken } else { &mut left } += 1;
    }
    assert!(taken > 10_000 && left > 10_000 && declined < 1_000, "{taken} {left} {declined}");
}

/// Makes the checksums right, so that more than checksums is tested.
fn mend(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = checksum::sum(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let end = (14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]))).min(frame.len());
    let Some(segment) = frame.get(34..end).filter(|segment| segment.len() >= 20) else { return };
    let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
    let pseudo = checksum::pseudo_v4(address(26), address(30), protocol::TCP, segment.len() as u16);
    let mut segment = segment.to_vec();
    segment[16..18].fill(0);
    let sum = pseudo.add(checksum::sum(&segment)).finish();
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
    const _: () = assert!(ipv4::HEADER_LEN == 20);
}
