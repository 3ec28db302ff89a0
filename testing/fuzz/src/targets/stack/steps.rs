//! The program that an input is.

use core::time::Duration;
use wire::tcp::Flags;

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// These bytes are a frame.
    Raw(&'a [u8]),
    /// The peer sends a segment.
    Segment(Segment<'a>),
    /// Time passes.
    Wait(Duration),
    /// The application does something.
    Act(Act),
}

/// A segment, in terms of what the peer knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    /// Which flow of the peer.
    pub flow: usize,
    pub flags: Flags,
    /// From the next sequence number of the peer.
    pub seq: i32,
    /// From the next one that the peer expects.
    pub ack: i32,
    pub window: u16,
    pub len: usize,
    pub options: Options<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Options<'a> {
    /// Those that the flow uses.
    Usual,
    /// None at all.
    None,
    /// Selective acknowledgement of bytes that lie this far ahead.
    Sack(u8),
    /// Any bytes.
    Raw(&'a [u8]),
}

/// What the application does. `which` chooses a connection among the open
/// ones.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Connect {
        v6: bool,
    },
    Send {
        which: u8,
        len: usize,
    },
    SendBody {
        which: u8,
        len: usize,
    },
    Finish {
        which: u8,
    },
    Abort {
        which: u8,
    },
    /// From now on, of what is offered, this many of 8 parts are consumed.
    Consume {
        eighths: u8,
    },
    Resume {
        which: u8,
    },
    Timer {
        which: u8,
        after: Duration,
    },
}

const RAW: u8 = 0;
const SEGMENT: u8 = 1;
const WAIT: u8 = 2;
const ACT: u8 = 3;

/// Reads steps from bytes.
pub(super) struct Program<'a> {
    rest: &'a [u8],
}

/// Waits: what timers are set to, and beyond.
const WAITS: [u64; 8] = [1, 10, 41, 201, 1_100, 5_000, 61_000, 130_000];

impl<'a> Program<'a> {
    pub(super) const fn new(input: &'a [u8]) -> Self {
        Self { rest: input }
    }

    /// The next byte, 0 at the end.
    pub(super) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        byte
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    /// The next step, `None` at the end.
    pub(super) fn step(&mut self) -> Option<Step<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        Some(match self.byte() % 4 {
            RAW => {
                let len = usize::from(self.byte());
                Step::Raw(self.bytes(len))
            }
            SEGMENT => Step::Segment(self.segment()),
            WAIT => Step::Wait(Duration::from_millis(WAITS[usize::from(self.byte() % 8)])),
            _ => Step::Act(self.act()),
        })
    }

    fn segment(&mut self) -> Segment<'a> {
        let flow = usize::from(self.byte());
        let flags = Flags(self.byte());
        let seq = distance(self.byte());
        let ack = distance(self.byte());
        // 0 to 65,535 in few bits: mostly open, now and then small or shut.
        let window = match self.byte() {
            0..=127 => u16::MAX,
            byte => u16::from(byte - 128) * 8,
        };
        let len = match self.byte() {
            byte @ 0..=127 => usize::from(byte),
            byte => usize::from(byte - 128) * 11,
        };
        let options = match self.byte() {
            0..=127 => Options::Usual,
            128..=159 => Options::None,
            byte @ 160..=199 => Options::Sack(byte - 160),
            byte => Options::Raw(self.bytes(usize::from(byte - 200).min(40))),
        };
        Segment { flow, flags, seq, ack, window, len, options }
    }

    fn act(&mut self) -> Act {
        let (kind, which) = (self.byte(), self.byte());
        match kind % 8 {
            0 => Act::Connect { v6: which & 1 != 0 },
            1 => Act::Send { which, len: usize::from(self.byte()) * 8 },
            2 => Act::SendBody { which, len: usize::from(self.byte()) * 256 },
            3 => Act::Finish { which },
            4 => Act::Abort { which },
            5 => Act::Consume { eighths: which % 9 },
            6 => Act::Resume { which },
            _ => Act::Timer { which, after: Duration::from_millis(u64::from(self.byte()) * 20) },
        }
    }
}

/// Small ones near 0, large ones at the ends.
fn distance(byte: u8) -> i32 {
    match byte.cast_signed() {
        i8::MIN => i32::MIN,
        i8::MAX => i32::MAX,
        near @ -100..=100 => i32::from(near),
        far => i32::from(far) * 1000,
    }
}

const SYN: u8 = Flags::SYN.0;
const ACK: u8 = Flags::ACK.0;
const FIN: u8 = Flags::FIN.0;
const RST: u8 = Flags::RST.0;
const PSH: u8 = Flags::PSH.0;

/// A segment's bytes: flow, flags, and a payload of `len` bytes.
const fn segment(flow: u8, flags: u8, len: u8) -> [u8; 8] {
    [SEGMENT, flow, flags, 0, 0, 0, len, 0]
}

/// Whole steps.
pub(super) const DICTIONARY: &[&[u8]] = &[
    &segment(0, SYN, 0),
    &segment(0, ACK, 0),
    &segment(0, ACK | PSH, 100),
    &segment(0, ACK | FIN, 0),
    &segment(0, RST, 0),
    &segment(0, RST | ACK, 0),
    &segment(1, SYN, 0),
    &segment(1, ACK, 100),
    &segment(4, SYN | ACK, 0),
    &segment(4, ACK, 0),
    &[SEGMENT, 0, ACK, 50, 0, 0, 50, 0],
    &[SEGMENT, 0, ACK, 0, 206, 0, 0, 170],
    &[SEGMENT, 0, ACK, 0, 0, 128, 0, 0],
    &[WAIT, 1],
    &[WAIT, 3],
    &[WAIT, 4],
    &[WAIT, 6],
    &[ACT, 0, 0],
    &[ACT, 1, 0, 20],
    &[ACT, 2, 0, 40],
    &[ACT, 3, 0],
    &[ACT, 4, 0],
    &[ACT, 5, 0],
    &[ACT, 5, 8],
    &[ACT, 6, 0],
];

/// A connection's life, in several ways.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let open = [segment(0, SYN, 0), segment(0, ACK, 0)].concat();
    let data = segment(0, ACK | PSH, 100);
    let fin = segment(0, ACK | FIN, 0);
    let ack = segment(0, ACK, 0);
    let send = [ACT, 1, 0, 20];
    let wait = [WAIT, 3];
    let program = |settings: u8, parts: &[&[u8]]| [&[settings], &parts.concat()[..]].concat();
    let connect = [&[ACT, 0, 0][..], &segment(4, SYN | ACK, 0)].concat();
    let six = [segment(1, SYN, 0), segment(1, ACK, 50), segment(1, FIN | ACK, 0)].concat();
    let raw = |frame: Vec<u8>| [&[RAW, frame.len() as u8][..], &frame].concat();
    let mut seeds = vec![
        program(0, &[&open, &data, &send, &ack, &fin, &[ACT, 3, 0], &ack, &[WAIT, 6]]),
        program(0, &[&open, &send, &wait, &wait, &ack, &[ACT, 2, 0, 40], &ack, &ack, &wait]),
        program(0, &[&open, &[ACT, 5, 0], &data, &data, &[ACT, 5, 8], &[ACT, 6, 0], &data, &fin]),
        program(0, &[&open, &[SEGMENT, 0, ACK, 50, 0, 0, 50, 0], &segment(0, ACK, 100), &[ACT, 4, 0]]),
        program(0, &[&connect, &send, &segment(4, ACK, 60), &[ACT, 3, 0], &segment(4, FIN | ACK, 0)]),
        program(0, &[&six, &[WAIT, 4], &open, &[SEGMENT, 0, RST, 10, 0, 0, 0, 0], &segment(0, RST, 0)]),
        program(8, &[&open, &[WAIT, 6], &ack, &[WAIT, 6]]),
        program(48, &[&open, &[ACT, 2, 0, 200], &[WAIT, 4], &[WAIT, 5], &[WAIT, 6]]),
        program(0, &[&open, &[ACT, 2, 0, 40], &[SEGMENT, 0, ACK, 0, 0, 128, 0, 0], &wait, &[WAIT, 4], &ack]),
    ];
    let mut flood = vec![0];
    for flow in 0..12 {
        flood.extend_from_slice(&segment(8 + flow * 8, SYN, 0));
    }
    for flow in 0..12 {
        flood.extend_from_slice(&segment(8 + flow * 8, ACK, 10));
    }
    seeds.push(flood);
    for frame in (super::super::frame::TARGET.seeds)() {
        if frame.len() < 256 {
            seeds.push(program(0, &[&raw(frame)]));
        }
    }
    seeds
}
