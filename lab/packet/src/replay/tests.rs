use super::*;

/// A pcap file of frames with their times: in micro- or nanoseconds, of either
/// byte order.
pub(crate) fn pcap(frames: &[(u64, Vec<u8>)], nanos: bool, big: bool) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut out = word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    out.extend([half(2), half(4)].concat());
    out.extend([word(0), word(0), word(65_535), word(1)].concat());
    for (time, frame) in frames {
        let part = (time % 1_000_000_000) as u32 / if nanos { 1 } else { 1_000 };
        let len = word(frame.len() as u32);
        out.extend([word((time / 1_000_000_000) as u32), word(part), len, len].concat());
        out.extend_from_slice(frame);
    }
    out
}

/// The same as pcapng, with microseconds.
fn pcapng(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let mut padded = body.to_vec();
        padded.resize(body.len().next_multiple_of(4), 0);
        let len = (padded.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, &padded, &len].concat()
    };
    let mut out = block(0x0a0d_0d0a, &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat());
    out.extend(block(1, &[1, 0, 0, 0, 0, 0, 1, 0]));
    for (time, frame) in frames {
        let stamp = time / 1_000;
        let head = [0, (stamp >> 32) as u32, stamp as u32, frame.len() as u32, frame.len() as u32];
        let head: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        out.extend(block(6, &[&head[..], frame].concat()));
    }
    out
}

pub(crate) fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![number; len];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

fn three() -> Vec<(u64, Vec<u8>)> {
    let base = 1_700_000_000_000_000_000;
    vec![(base, frame(1, 60)), (base + 2_000_000, frame(2, 1_001)), (base + 3_000_000, frame(1, 60))]
}

#[test]
fn compressed_captures_are_the_same_frames() {
    use std::io::Write;
    let plain = pcapng(&three());
    let packed = |bytes: &[u8]| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(bytes).expect("in memory");
        writer.finish().expect("in memory")
    };
    let replay = |bytes: &[u8]| Replay::read(bytes);
    assert_eq!(replay(&packed(&plain)), replay(&plain));
    // As `cat a.gz b.gz` makes them.
    let (start, rest) = plain.split_at(100);
    assert_eq!(replay(&[packed(start), packed(rest)].concat()), replay(&plain));
    let whole = packed(&plain);
    for cut in 0..whole.len() {
        assert!(replay(&whole[..cut]).is_err(), "{cut}");
    }
    assert!(replay(&packed(b"no capture at all, but long enough for a header")).is_err());
}

#[test]
fn captures_of_every_form_are_the_same_frames() {
    for bytes in [
        pcap(&three(), false, false),
        pcap(&three(), true, false),
        pcap(&three(), false, true),
        pcap(&three(), true, true),
        pcapng(&three()),
    ] {
        let replay = Replay::read(bytes.as_slice()).expect("a capture");
        let times: Vec<u64> = replay.frames.iter().map(|frame| frame.time).collect();
        assert_eq!((replay.len(), times), (3, vec![0, 2_000_000, 3_000_000]));
        assert_eq!((replay.alike.as_slice(), replay.period_ns()), ([2, 1].as_slice(), 4_500_000));
        assert_eq!(replay.bytes, [frame(1, 60), frame(2, 1_001), frame(1, 60)].concat());
        // Other addresses, the same frame; another byte, another frame.
        let mut swapped = frame(2, 1_001);
        swapped[..12].fill(9);
        assert_eq!(replay.kind(&swapped), Some(1));
        swapped[1_000] ^= 1;
        assert_eq!(replay.kind(&swapped), None);
    }
}

#[test]
fn what_is_no_capture_says_why() {
    let whole = pcap(&three(), false, false);
    let mut cut = whole.clone();
    cut[24 + 8] = 59;
    let mut other = whole.clone();
    other[20] = 113;
    let (short, empty) = (pcap(&[(0, vec![0; 13])], false, false), pcap(&[], false, false));
    for (bytes, reason) in [
        (&[][..], "it is empty"),
        (&b"no capture at all, but a text"[..], "neither pcap nor pcapng"),
        (&whole[..whole.len() - 1], "ends within a frame"),
        (&cut, "frame 1 was cut"),
        (&other, "link type 113"),
        (&short, "no Ethernet header"),
        (&empty, "no frames"),
    ] {
        let told = Replay::read(bytes).expect_err(reason);
        assert!(told.contains(reason), "{told}");
    }
    // Whatever is in it, it is read to the end, or refused.
    let heads = [whole, pcapng(&three())];
    for (at, whole) in heads.iter().flat_map(|whole| (0..whole.len().min(320)).map(move |at| (at, whole))) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        let _ = Replay::read(bytes.as_slice());
        if at % 16 == 0 {
            let _ = Replay::read(&whole[..at]);
        }
    }
}

#[test]
fn a_loop_keeps_the_captures_times_and_ends_when_it_is_over() {
    let frames = Arc::new(Replay::read(pcap(&three(), true, false).as_slice()).expect("a capture"));
    let how = Replayed { frames, times: 2, original: true };
    let mut replaying = Replaying::new(&how, (1_000_000_000, 50));
    let mut due = Vec::new();
    while let Some(frame) = replaying.frame() {
        due.push((replaying.due().expect("a time") - 50, frame.len()));
        replaying.pass(true);
    }
    let times = [0, 2_000_000, 3_000_000, 4_500_000, 6_500_000, 7_500_000];
    assert_eq!(due, times.into_iter().zip([60, 1_001, 60, 60, 1_001, 60]).collect::<Vec<_>>());
    assert_eq!((replaying.is_over(), replaying.due()), (true, Some(u64::MAX)));
    // Three of four that are alike came, and one that was sent twice came three times.
    for number in [1, 1, 1, 2, 2, 2] {
        assert!(replaying.take(&frame(number, if number == 1 { 60 } else { 1_001 })));
    }
    assert!(!replaying.take(&frame(3, 60)));
    assert_eq!(replaying.arrivals(), (5, 1));
}
