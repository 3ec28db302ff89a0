use core::net::Ipv4Addr;
use wire::tcp::{
    Flags, MAX_WINDOW_SCALE, Offer, Opening, SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps, set_checksum,
    set_partial_checksum,
};
use wire::{LinkVouched, Sum, WireError, checksum, protocol};

/// A SYN with the options that Linux sends on a loopback device.
fn syn() -> TcpHeader {
    TcpHeader {
        src_port: 46_204,
        dst_port: 80,
        seq: SeqNum(0x1122_3344),
        ack: SeqNum(0),
        flags: Flags::SYN,
        window: 65_495,
        urgent: 0,
        options: TcpOptions {
            mss: Some(65_495),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0 }),
            sack: SackBlocks::EMPTY,
        },
    }
}

/// A segment with these bytes of options.
fn with_options(options: &[u8]) -> TcpOptions {
    assert!(options.len().is_multiple_of(4) && options.len() <= 40);
    let mut segment = vec![0; 20];
    segment[12] = (5 + options.len() as u8 / 4) << 4;
    segment.extend_from_slice(options);
    let (header, payload, _) = TcpHeader::parse_trusted(&segment, LinkVouched::new()).unwrap();
    assert!(payload.is_empty());
    header.options
}

#[test]
fn layout() {
    let mut bytes = [0xff; 60];
    assert_eq!(syn().emit(&mut bytes), 40);
    #[rustfmt::skip]
    let expected = [
        0xb4, 0x7c, 0x00, 0x50,
        0x11, 0x22, 0x33, 0x44,
        0x00, 0x00, 0x00, 0x00,
        0xa0, 0x02, 0xff, 0xd7,
        0x00, 0x00, 0x00, 0x00,
        2, 4, 0xff, 0xd7,
        4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0,
        1, 3, 3, 7,
    ];
    assert_eq!(bytes[..40], expected);
}

#[test]
fn the_order_of_options_does_not_matter() {
    // As Linux and we send them, with one byte of padding or another.
    let options = [2, 4, 0xff, 0xd7, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7];
    assert_eq!(with_options(&options), syn().options);
    let options = [2, 4, 0xff, 0xd7, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 3, 3, 7, 0];
    assert_eq!(with_options(&options), syn().options);
    // Each padded for itself, as others do.
    let options = [2, 4, 0xff, 0xd7, 1, 3, 3, 7, 1, 1, 4, 2, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0];
    assert_eq!(with_options(&options), syn().options);
}

/// [`Opening`] is a short way to write what [`TcpHeader`] writes.
#[test]
fn openings_are_headers() {
    let pseudo = Sum::ZERO.add_u16(0x1234);
    for kind in 0..8 {
        let header = syn();
        let options = TcpOptions {
            window_scale: header.options.window_scale.filter(|_| kind & 1 == 0),
            sack_permitted: kind & 2 == 0,
            timestamps: header.options.timestamps.filter(|_| kind & 4 == 0),
            ..header.options
        };
        let header = TcpHeader { options, ..header };
        let mut wanted = [0; 60];
        let len = header.emit(&mut wanted);
        set_checksum(&mut wanted[..len], pseudo);
        let opening = Opening {
            src_port: header.src_port,
            dst_port: header.dst_port,
            seq: header.seq,
            ack: header.ack,
            flags: header.flags,
            window: header.window,
            offer: Offer { mss: 65_495, window_scale: options.window_scale, sack_permitted: options.sack_permitted },
            timestamps: options.timestamps,
        };
        let mut got = [0; 60];
        assert_eq!((opening.emit(&mut got, pseudo), opening.header_len()), (len, len));
        assert_eq!(got, wanted, "{options:?}");
        assert_eq!(opening.emit(&mut got[..len - 1], pseudo), 0);
    }
}

#[test]
fn lengths() {
    let mut segment = [0; 24];
    let parse =
        |segment: &[u8]| TcpHeader::parse_trusted(segment, LinkVouched::new()).map(|(_, payload, _)| payload.len());
    assert_eq!(parse(&segment[..19]), Err(WireError::Truncated));
    for (words, expected) in [(0, None), (4, None), (5, Some(4)), (6, Some(0)), (7, None), (15, None)] {
        segment[12] = words << 4;
        assert_eq!(parse(&segment), expected.ok_or(WireError::BadHeaderLength), "{words} words");
    }
    // A checksum that fits does not make a short segment a segment.
    assert_eq!(TcpHeader::parse(&[], Sum::ZERO.add_u16(0xffff)).err(), Some(WireError::Truncated));
    assert_eq!(TcpHeader::parse(&[], Sum::ZERO).err(), Some(WireError::Truncated));
}

#[test]
fn partial_checksum_is_completed_by_summing_the_segment() {
    let src = Ipv4Addr::new(10, 0, 0, 1);
    let dst = Ipv4Addr::new(10, 0, 0, 2);
    let pseudo = checksum::pseudo_v4(src, dst, protocol::TCP, 40 + 5);
    let mut segment = [0; 45];
    syn().emit(&mut segment);
    segment[40..].copy_from_slice(b"bytes");
    let mut whole = segment;
    set_checksum(&mut whole[..40], pseudo.add(checksum::sum(b"bytes")));

    set_partial_checksum(&mut segment[..40], pseudo);
    // What a link does.
    let completed = checksum::sum(&segment).finish();
    segment[16..18].copy_from_slice(&completed.to_be_bytes());
    assert_eq!(segment, whole);
}

/// RFC 9293 section 3.1, MUST-7: the shapes of a broken option, each behind an
/// option that holds.
#[test]
fn malformed_options_cost_only_what_follows_them() {
    let mss = [2, 4, 5, 180];
    let held = TcpOptions { mss: Some(1460), ..TcpOptions::NONE };
    let broken: [&[u8]; 5] = [
        &[8, 0, 3, 3, 7, 1, 1, 1],  // length zero
        &[8, 1, 3, 3, 7, 1, 1, 1],  // length that does not cover itself
        &[8, 10, 1, 2, 3, 4, 5, 6], // beyond the header
        &[1, 1, 1, 1, 1, 1, 1, 8],  // no length at all
        &[0, 3, 3, 7, 8, 10, 1, 2], // behind the end
    ];
    for options in broken {
        assert_eq!(with_options(&[&mss, options].concat()), held, "{options:?}");
    }
}

#[test]
fn options_of_a_wrong_length_are_passed_over() {
    // MSS of three bytes, window scale of four, SACK permitted of three,
    // timestamps of nine; then an MSS that holds.
    let options = [2, 3, 9, 3, 4, 1, 1, 4, 3, 0, 8, 9, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5, 180, 0];
    assert_eq!(with_options(&options), TcpOptions { mss: Some(1460), ..TcpOptions::NONE });
}

#[test]
fn unknown_options_are_passed_over() {
    // RFC 9293 MUST-6.
    let options = [253, 6, 1, 2, 3, 4, 34, 2, 3, 3, 9, 0];
    assert_eq!(with_options(&options), TcpOptions { window_scale: Some(9), ..TcpOptions::NONE });
}

/// RFC 7323 section 2.3: a larger shift is used as 14.
#[test]
fn window_scale_is_clamped() {
    assert_eq!(with_options(&[3, 3, 15, 0]).window_scale, Some(MAX_WINDOW_SCALE));
    assert_eq!(with_options(&[3, 3, 255, 0]).window_scale, Some(MAX_WINDOW_SCALE));
    assert_eq!(with_options(&[3, 3, 14, 0]).window_scale, Some(14));
}

#[test]
fn timestamps_are_found_wherever_they_stand() {
    let expected =
        TcpOptions { timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0x0506_0708 }), ..TcpOptions::NONE };
    let stamps = [8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(with_options(&[&[1, 1][..], &stamps].concat()), expected);
    assert_eq!(with_options(&[&stamps[..], &[0, 0]].concat()), expected);
    assert_eq!(with_options(&[&[1][..], &stamps, &[1]].concat()), expected);
    // Twelve bytes that only look like the usual block.
    assert_eq!(with_options(&[1, 1, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8]), TcpOptions::NONE);
}

/// RFC 2018 section 3.
#[test]
fn sack_blocks() {
    let block = |n: u8| [n, 0, 0, 0, n, 0, 0, 1];
    let sack = |len: u8, blocks: &[u8]| {
        let mut options = vec![1, 1, 5, len];
        options.extend_from_slice(blocks);
        options.resize(options.len().next_multiple_of(4), 0);
        with_options(&options).sack
    };
    let pair = |n: u32| (SeqNum(n << 24), SeqNum(n << 24 | 1));
    assert_eq!(sack(10, &block(1)).as_slice(), [pair(1)]);
    let four = [block(1), block(2), block(3), block(4)].concat();
    assert_eq!(sack(34, &four).as_slice(), [pair(1), pair(2), pair(3), pair(4)]);
    // Half a block, and one that reaches beyond the header.
    assert!(sack(14, &four[..12]).is_empty());
    assert!(sack(42, &four).is_empty());
    assert!(sack(2, &[]).is_empty());
}

#[test]
fn sack_gives_way_to_timestamps() {
    let mut sack = SackBlocks::EMPTY;
    for n in 0..4 {
        assert!(sack.push(SeqNum(n), SeqNum(n + 10)));
    }
    assert!(!sack.push(SeqNum(9), SeqNum(9)));
    assert_eq!(sack.len(), 4);
    let timestamps = Some(Timestamps::default());
    assert_eq!(TcpOptions { sack, ..TcpOptions::NONE }.len(), 36);
    let options = TcpOptions { sack, timestamps, ..TcpOptions::NONE };
    assert_eq!(options.len(), 40);
    let mut bytes = [0; 60];
    assert_eq!(TcpHeader { options, ..syn() }.emit(&mut bytes), 60);
    let (parsed, ..) = TcpHeader::parse_trusted(&bytes, LinkVouched::new()).unwrap();
    assert_eq!(parsed.options.sack.as_slice(), &sack.as_slice()[..3]);
}

#[test]
fn flags() {
    let both = Flags::SYN | Flags::ACK;
    assert!(both.contains(Flags::SYN) && both.contains(both) && !both.contains(Flags::SYN | Flags::FIN));
    assert!(both.intersects(Flags::SYN | Flags::FIN) && !both.intersects(Flags::RST));
    assert_eq!(both.without(Flags::SYN), Flags::ACK);
    assert_eq!(format!("{both:?} {:?}", Flags::NONE), "SYN|ACK .");
}
