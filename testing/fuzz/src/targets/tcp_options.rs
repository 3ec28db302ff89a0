//! TCP options: whatever stands there, what is read is what was meant.

use crate::Target;
use wire::tcp::{Flags, SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps};
use wire::{LinkVouched, WireError};

pub(crate) const TARGET: Target = Target {
    name: "tcp_options",
    about: "options are read as RFC 9293 says, and again as they were written",
    run,
    seeds,
    dictionary: &[
        &[1, 1, 8, 10],
        &[2, 4],
        &[3, 3],
        &[4, 2],
        &[5, 10],
        &[5, 34],
        &[0],
        &[1],
        &[8, 10, 0, 0, 0, 1, 0, 0],
    ],
    test_runs: 20_000,
    max_len: 44,
};

/// The input is an option block: as much of it as a header has room for,
/// padded to whole words.
fn run(input: &[u8]) {
    let mut block = input.get(..40).unwrap_or(input).to_vec();
    block.resize(block.len().next_multiple_of(4), 0);
    let mut segment = vec![0; 20];
    segment[12] = ((20 + block.len()) as u8 / 4) << 4;
    segment[13] = Flags::ACK.0;
    segment.extend_from_slice(&block);
    segment.extend_from_slice(b"payload");

    let (header, payload, _) = TcpHeader::parse_trusted(&segment, LinkVouched::new()).expect("a whole header");
    assert_eq!(payload, b"payload", "options do not move the payload");
    assert_eq!(header.options, reference(&block));

    // What is written is read as it was meant, but for the blocks that had no
    // room.
    let mut out = [0xa5; 60];
    let len = header.emit(&mut out);
    assert_eq!(len, 20 + header.options.len());
    assert!(len <= 60 && len % 4 == 0);
    let (again, rest, _) = TcpHeader::parse_trusted(&out[..len], LinkVouched::new()).expect("our own header");
    assert!(rest.is_empty());
    let written = again.options.sack.as_slice();
    assert_eq!(written, &header.options.sack.as_slice()[..written.len()]);
    assert_eq!(TcpHeader { options: TcpOptions { sack: header.options.sack, ..again.options }, ..again }, header);
    for short in 0..len {
        assert_eq!(header.emit(&mut [0; 60][..short]), 0, "nothing is written where it does not fit");
    }

    // A header that says it is longer than the segment.
    segment.truncate(20 + block.len());
    if let Some(missing) = segment.len().checked_sub(21) {
        let cut = &segment[..missing + 20];
        assert_eq!(TcpHeader::parse_trusted(cut, LinkVouched::new()).err(), Some(WireError::BadHeaderLength));
    }
}

/// The options of a block, byte by byte (RFC 9293 section 3.1).
fn reference(block: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::NONE;
    let mut at = 0;
    while at < block.len() {
        let kind = block[at];
        if kind == 0 {
            break;
        }
        if kind == 1 {
            at += 1;
            continue;
        }
        let len = block.get(at + 1).map_or(0, |&len| usize::from(len));
        if len < 2 || at + len > block.len() {
            break;
        }
        let data = &block[at + 2..at + len];
        let word = |at: usize| u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
        match (kind, len) {
            (2, 4) => options.mss = Some(u16::from(data[0]) << 8 | u16::from(data[1])),
            (3, 3) => options.window_scale = Some(data[0].min(14)),
            (4, 2) => options.sack_permitted = true,
            (8, 10) => options.timestamps = Some(Timestamps { value: word(0), echo: word(4) }),
            (5, len) if len % 8 == 2 => {
                options.sack = SackBlocks::EMPTY;
                for at in (0..len - 2).step_by(8).take(4) {
                    options.sack.push(SeqNum(word(at)), SeqNum(word(at + 4)));
                }
            }
            _ => {}
        }
        at += len;
    }
    options
}

fn seeds() -> Vec<Vec<u8>> {
    let timestamps = Some(Timestamps { value: 0x0102_0304, echo: 0x0506_0708 });
    let mut sack = SackBlocks::EMPTY;
    for at in 0..4 {
        sack.push(SeqNum(at * 1000), SeqNum(at * 1000 + 500));
    }
    let of = |options: TcpOptions| {
        let header = TcpHeader {
            src_port: 0,
            dst_port: 0,
            seq: SeqNum(0),
            ack: SeqNum(0),
            flags: Flags::ACK,
            window: 0,
            urgent: 0,
            options,
        };
        let mut out = [0; 60];
        let len = header.emit(&mut out);
        out[20..len].to_vec()
    };
    let syn = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps,
        sack: SackBlocks::EMPTY,
    };
    vec![
        Vec::new(),
        of(syn),
        of(TcpOptions { timestamps, ..TcpOptions::NONE }),
        of(TcpOptions { timestamps, sack, ..TcpOptions::NONE }),
        of(TcpOptions { sack, ..TcpOptions::NONE }),
        vec![1, 1, 1, 0],
        vec![2, 0, 3, 1, 5, 255, 8, 9],
    ]
}
