use core::net::{Ipv4Addr, Ipv6Addr};
use wire::checksum;
use wire::first_piece::check_first_piece;
use wire::ipv4::Ipv4Header;
use wire::ipv6::{
    FRAGMENT, FragmentInfo, Ipv6Header, MAX_EXTENSION_HEADERS, MAX_OPTIONS, Upper, multicast_mac, solicited_node,
    walk_extensions, walk_fragmented,
};
use wire::{Mac, WireError, protocol};

fn v4(payload_len: u16) -> Ipv4Header {
    Ipv4Header {
        src: Ipv4Addr::new(192, 168, 0, 1),
        dst: Ipv4Addr::new(192, 168, 0, 199),
        protocol: protocol::UDP,
        ttl: 64,
        dscp_ecn: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        header_len: 20,
        payload_len,
    }
}

fn packet(header: &Ipv4Header) -> Vec<u8> {
    let mut bytes = vec![0; 20 + usize::from(header.payload_len)];
    header.emit(&mut bytes);
    bytes
}

/// Makes the checksum of a header of `len` bytes fit again.
fn put_right(packet: &mut [u8], len: usize) {
    packet[10..12].fill(0);
    let checksum = checksum::sum(&packet[..len]).finish();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn ipv4_known_header() {
    let header = packet(&v4(0x73 - 20));
    let expected = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
        0x00, 0xc7,
    ];
    assert_eq!(header[..20], expected);
}

#[test]
fn ipv4_lengths() {
    let right = packet(&v4(8));
    assert_eq!(Ipv4Header::parse(&right[..19]), Err(WireError::Truncated));
    assert_eq!(Ipv4Header::parse(&right[..27]), Err(WireError::Truncated));

    let mut version = right.clone();
    version[0] = 0x65;
    assert_eq!(Ipv4Header::parse(&version), Err(WireError::BadVersion));

    // RFC 791 section 3.1: the minimum of the header length is five words.
    for words in 0..5 {
        let mut short = right.clone();
        short[0] = 0x40 | words;
        put_right(&mut short, 20);
        assert_eq!(Ipv4Header::parse(&short), Err(WireError::BadHeaderLength));
    }
    // A header of fifteen words in a packet of seven.
    let mut long = right.clone();
    long[0] = 0x4f;
    assert_eq!(Ipv4Header::parse(&long), Err(WireError::Truncated));

    let mut total = right.clone();
    total[3] = 19;
    put_right(&mut total, 20);
    assert_eq!(Ipv4Header::parse(&total), Err(WireError::BadLength));

    let mut checksum = right;
    checksum[8] ^= 1;
    assert_eq!(Ipv4Header::parse(&checksum), Err(WireError::BadChecksum));
}

#[test]
fn ipv4_options_are_passed_over() {
    let mut packet = packet(&v4(12));
    // Eight bytes of options, four of payload.
    packet[0] = 0x47;
    packet[20..28].copy_from_slice(&[1, 1, 1, 1, 1, 1, 1, 0]);
    packet[28..].copy_from_slice(b"data");
    put_right(&mut packet, 28);
    let (header, payload) = Ipv4Header::parse(&packet).unwrap();
    assert_eq!((header.header_len, payload), (28, &b"data"[..]));
    // The checksum covers the options.
    packet[21] ^= 4;
    assert_eq!(Ipv4Header::parse(&packet), Err(WireError::BadChecksum));
}

#[test]
fn ipv4_fragment_beyond_the_largest_packet() {
    let header = Ipv4Header { fragment_offset: 65_528, ..v4(8) };
    assert_eq!(Ipv4Header::parse(&packet(&header)), Err(WireError::BadFragment));
    let last = packet(&Ipv4Header { fragment_offset: 65_528, ..v4(7) });
    let (header, _) = Ipv4Header::parse(&last).unwrap();
    assert!(header.is_fragment());
    assert_eq!(header.fragment_offset, 65_528);
}

#[test]
fn ipv6_refusals() {
    let header = Ipv6Header {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        next_header: protocol::TCP,
        hop_limit: 64,
        traffic_class: 0xb8,
        flow_label: 0x12345,
        payload_len: 4,
    };
    let mut bytes = [0; 44];
    header.emit(&mut bytes);
    assert_eq!(bytes[..8], [0x6b, 0x81, 0x23, 0x45, 0, 4, 6, 64]);
    assert_eq!(Ipv6Header::parse(&bytes[..39]), Err(WireError::Truncated));
    assert_eq!(Ipv6Header::parse(&bytes[..43]), Err(WireError::Truncated));
    bytes[0] = 0x4b;
    assert_eq!(Ipv6Header::parse(&bytes), Err(WireError::BadVersion));
    // RFC 4291 section 2.7: a group is never a source.
    Ipv6Header { src: "ff02::1".parse().unwrap(), ..header }.emit(&mut bytes);
    assert_eq!(Ipv6Header::parse(&bytes), Err(WireError::BadAddress));
}

/// RFC 4291 section 2.7.1 and RFC 2464 section 7, with their examples.
#[test]
fn ipv6_groups() {
    let address: Ipv6Addr = "4037::01:800:200e:8c6c".parse().unwrap();
    let group: Ipv6Addr = "ff02::1:ff0e:8c6c".parse().unwrap();
    assert_eq!(solicited_node(address), group);
    assert_eq!(multicast_mac(group), Mac([0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]));
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;

/// An extension header of eight bytes with one PadN option.
fn padded(next: u8) -> [u8; 8] {
    [next, 0, 1, 4, 0, 0, 0, 0]
}

#[test]
fn no_extension_headers() {
    let upper = walk_extensions(protocol::TCP, b"segment").unwrap();
    assert_eq!(
        upper,
        Upper { protocol: protocol::TCP, payload: b"segment", fragment: None, offset: 0, protocol_at: 6 }
    );
}

#[test]
fn extension_headers_are_walked() {
    let routing_done = [DESTINATION, 0, 0, 0, 0, 0, 0, 0];
    let bytes = [&padded(ROUTING)[..], &routing_done, &padded(protocol::TCP), b"segment"].concat();
    let upper = walk_extensions(HOP_BY_HOP, &bytes).unwrap();
    assert_eq!(
        upper,
        Upper { protocol: protocol::TCP, payload: b"segment", fragment: None, offset: 24, protocol_at: 56 }
    );
}

#[test]
fn extension_headers_are_bounded() {
    let chain = |count: usize| {
        let mut bytes = vec![padded(DESTINATION); count - 1].concat();
        bytes.extend(padded(protocol::TCP));
        bytes
    };
    assert!(walk_extensions(DESTINATION, &chain(MAX_EXTENSION_HEADERS)).is_ok());
    assert_eq!(walk_extensions(DESTINATION, &chain(MAX_EXTENSION_HEADERS + 1)), Err(WireError::TooManyHeaders));
}

#[test]
fn extension_header_beyond_the_packet() {
    let bytes = [protocol::TCP, 1, 1, 4, 0, 0, 0, 0];
    assert_eq!(walk_extensions(DESTINATION, &bytes), Err(WireError::Truncated));
    assert_eq!(walk_extensions(DESTINATION, &bytes[..7]), Err(WireError::Truncated));
}

/// RFC 8200 section 4.1.
#[test]
fn hop_by_hop_stands_first() {
    let bytes = [padded(HOP_BY_HOP), padded(protocol::TCP)].concat();
    assert_eq!(walk_extensions(DESTINATION, &bytes), Err(WireError::BadOption));
}

/// RFC 5095: type 0 is not forwarded, and we are the last hop or none.
#[test]
fn routing_header_with_segments_left() {
    let bytes = [protocol::TCP, 2, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    assert_eq!(walk_extensions(ROUTING, &bytes), Err(WireError::BadOption));
}

/// RFC 8200 section 4.2: the two high bits of an unknown option.
#[test]
fn unknown_options() {
    for (kind, passes) in [(0x1e, true), (0x5e, false), (0x9e, false), (0xde, false)] {
        let bytes = [protocol::TCP, 0, kind, 4, 0, 0, 0, 0];
        assert_eq!(walk_extensions(DESTINATION, &bytes).is_ok(), passes, "{kind:#x}");
    }
    let beyond = [protocol::TCP, 0, 0x1e, 5, 0, 0, 0, 0];
    assert_eq!(walk_extensions(DESTINATION, &beyond), Err(WireError::Truncated));
    let without_length = [protocol::TCP, 0, 0, 0, 0, 0, 0, 0x1e];
    assert_eq!(walk_extensions(DESTINATION, &without_length), Err(WireError::Truncated));
}

/// RFC 8504 section 5.3.
#[test]
fn options_are_bounded() {
    let empty_options = |count: usize| {
        // Options of length zero, and Pad1 to fill the header.
        let mut bytes = vec![protocol::TCP, 4];
        bytes.extend([0x1e, 0].repeat(count));
        bytes.resize(40, 0);
        bytes
    };
    assert!(walk_extensions(DESTINATION, &empty_options(MAX_OPTIONS)).is_ok());
    assert_eq!(walk_extensions(DESTINATION, &empty_options(MAX_OPTIONS + 1)), Err(WireError::BadOption));
}

/// RFC 8200 section 4.5.
#[test]
fn fragments() {
    let fragment = |offset_and_more: u16, len: usize| {
        let [a, b] = offset_and_more.to_be_bytes();
        [&[protocol::TCP, 0, a, b, 1, 2, 3, 4][..], &vec![7; len]].concat()
    };
    let first = fragment(1, 16);
    let expected = FragmentInfo { identification: 0x0102_0304, offset: 0, more: true };
    let upper = walk_extensions(FRAGMENT, &first).unwrap();
    let whole =
        Upper { protocol: protocol::TCP, payload: &[7; 16], fragment: Some(expected), offset: 8, protocol_at: 40 };
    assert_eq!(upper, whole);
    let last = fragment(16, 5);
    let upper = walk_extensions(FRAGMENT, &last).unwrap();
    assert_eq!(upper.fragment, Some(FragmentInfo { offset: 16, more: false, ..expected }));

    assert_eq!(walk_extensions(FRAGMENT, &fragment(1, 15)), Err(WireError::BadFragment));
    assert_eq!(walk_extensions(FRAGMENT, &fragment(1, 0)), Err(WireError::BadFragment));
    assert_eq!(walk_extensions(FRAGMENT, &fragment(0xfff8, 8)), Err(WireError::BadFragment));
}

/// RFC 6946 section 4: a whole packet with a fragment header is a whole packet.
#[test]
fn atomic_fragment() {
    let bytes = [&[DESTINATION, 0, 0, 0, 1, 2, 3, 4][..], &padded(protocol::UDP), b"x"].concat();
    let upper = walk_extensions(FRAGMENT, &bytes).unwrap();
    assert_eq!(upper, Upper { protocol: protocol::UDP, payload: b"x", fragment: None, offset: 16, protocol_at: 48 });
}

/// What is read of a packet with these options: the header's length, the payload's.
fn with_options(options: &[u8]) -> Result<(usize, usize), WireError> {
    let words = options.len().div_ceil(4);
    let mut bytes = packet(&v4(8 + words as u16 * 4));
    bytes[0] = 0x45 + words as u8;
    bytes[20..20 + options.len()].copy_from_slice(options);
    put_right(&mut bytes, 20 + words * 4);
    Ipv4Header::parse(&bytes).map(|(header, payload)| (usize::from(header.header_len), payload.len()))
}

/// RFC 791 section 3.1: what is recorded has room, or there is none left.
#[test]
fn ipv4_options_that_may_be() {
    for right in [
        &[0, 0, 0, 0][..],
        // Nothing counts behind the end.
        &[0, 7, 0, 0],
        &[1, 1, 1, 1],
        &[7, 7, 4, 0, 0, 0, 0, 0],
        // One that is full, and room for one more.
        &[7, 7, 8, 1, 2, 3, 4, 0],
        &[7, 3, 4, 0],
        &[7, 11, 8, 1, 2, 3, 4, 0, 0, 0, 0, 0],
        &[68, 8, 9, 0xe0, 0, 0, 0, 0],
        &[68, 8, 9, 0xf3, 0, 0, 0, 0],
        &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[134, 8, 0, 0, 0, 1, 1, 2],
        &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[148, 4, 0, 0],
        &[130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        // Unknown to all.
        &[30, 2, 1, 0],
        &[1, 7, 7, 4, 0, 0, 0, 0],
    ] {
        let len = 20 + right.len();
        assert_eq!(with_options(right), Ok((len, 8)), "{right:?}");
    }
}

/// RFC 791 section 3.1: options that cannot be make a packet that cannot be, as
/// on Linux; so does a route by the source (RFC 7126 section 4.3).
#[test]
fn ipv4_options_that_cannot_be() {
    for wrong in [
        // A length of 0 or 1, and one beyond the header.
        &[7, 0, 0, 0][..],
        &[7, 1, 4, 0],
        &[30, 0, 0, 0],
        &[30, 1, 0, 0],
        &[30, 5, 0, 0],
        &[1, 1, 1, 30],
        &[7, 40, 4, 0],
        // Too short for what they say, or recorded over themselves.
        &[7, 2, 0, 0],
        &[7, 3, 3, 0],
        &[7, 7, 0, 0, 0, 0, 0, 0],
        &[68, 3, 5, 0],
        &[68, 4, 4, 0],
        &[148, 2, 0, 0],
        // No room for what is recorded next.
        &[7, 5, 4, 0, 0, 0, 0, 0],
        &[7, 7, 5, 0, 0, 0, 0, 0],
        &[68, 7, 5, 0, 0, 0, 0, 0],
        &[68, 8, 5, 1, 0, 0, 0, 0],
        &[68, 8, 5, 3, 0, 0, 0, 0],
        // More than can be counted had none.
        &[68, 8, 9, 0xf0, 0, 0, 0, 0],
        // A label without whose.
        &[134, 2, 0, 0],
        &[134, 7, 0, 0, 0, 1, 1, 0],
        // Twice.
        &[134, 8, 0, 0, 0, 1, 1, 2, 134, 8, 0, 0, 0, 1, 1, 2],
        &[7, 3, 4, 7, 3, 4, 0, 0],
        &[68, 4, 5, 0, 68, 4, 5, 0],
        // By the source's way.
        &[131, 3, 4, 0],
        &[131, 7, 4, 10, 0, 0, 1, 0],
        &[137, 7, 4, 10, 0, 0, 1, 0],
    ] {
        assert_eq!(with_options(wrong), Err(WireError::BadOption), "{wrong:?}");
    }
}

/// RFC 8200 section 4.1: a packet has one fragment header at most, also where
/// that says that it is whole (RFC 6946).
#[test]
fn a_fragment_within_a_fragment_is_none() {
    let whole = |next: u8| [next, 0, 0, 0, 0, 0, 0, 9];
    let piece = |next: u8| [next, 0, 0, 1, 0, 0, 0, 9];
    let once = [&whole(protocol::TCP)[..], b"segment"].concat();
    assert_eq!(walk_extensions(FRAGMENT, &once).map(|upper| upper.payload), Ok(&b"segment"[..]));
    assert_eq!(walk_fragmented(protocol::TCP, b"segment").map(|upper| upper.payload), Ok(&b"segment"[..]));
    let options = [&padded(protocol::TCP)[..], b"segment"].concat();
    assert_eq!(walk_fragmented(DESTINATION, &options).map(|upper| upper.payload), Ok(&b"segment"[..]));
    // Nor hop-by-hop options, which stand first.
    const HOP_BY_HOP: u8 = 0;
    assert_eq!(walk_fragmented(HOP_BY_HOP, &options), Err(WireError::BadOption));
    for inner in [whole(protocol::TCP), piece(protocol::TCP)] {
        let behind = [&inner[..], &[7; 16]].concat();
        assert_eq!(walk_extensions(FRAGMENT, &[&whole(FRAGMENT)[..], &behind].concat()), Err(WireError::BadFragment));
        let apart = [&whole(DESTINATION)[..], &padded(FRAGMENT), &behind].concat();
        assert_eq!(walk_extensions(FRAGMENT, &apart), Err(WireError::BadFragment));
        assert_eq!(walk_fragmented(FRAGMENT, &behind), Err(WireError::BadFragment));
        let options = [&padded(FRAGMENT)[..], &behind].concat();
        assert_eq!(walk_fragmented(DESTINATION, &options), Err(WireError::BadFragment));
    }
}

/// RFC 7112 section 5: all headers are in the first piece.
#[test]
fn a_first_piece_has_all_headers() {
    let missing = |next: u8, piece: &[u8]| {
        let wrong = check_first_piece(next, piece).err()?;
        assert_eq!(wrong.error, WireError::Truncated, "{next}: {piece:?}");
        Some(wrong.problem.map(|problem| (problem.code, problem.pointer)))
    };
    let told = Some(Some((3, 0)));
    for (next, least) in [(protocol::TCP, 20), (protocol::UDP, 8), (protocol::ICMPV6, 8)] {
        let upper = vec![200; least];
        let behind = [&padded(next)[..], &upper].concat();
        assert_eq!((missing(next, &upper), missing(DESTINATION, &behind)), (None, None), "{next}");
        for len in 0..least {
            assert_eq!(missing(next, &upper[..len]), told, "{next}, {len} bytes");
        }
        for len in 0..behind.len() {
            assert_eq!(missing(DESTINATION, &behind[..len]), told, "{next}, {len} bytes");
        }
    }
    // Of an error nobody is told; what has no upper header lacks none.
    assert_eq!(missing(protocol::ICMPV6, &[1, 0, 0, 0]), Some(None));
    assert_eq!((missing(59, &[]), missing(253, &[])), (None, None));
    assert_eq!(check_first_piece(FRAGMENT, &[6, 0, 0, 0, 0, 0, 0, 0]).unwrap_err().error, WireError::BadFragment);
}
