//! Messages of the control channel: 128 bytes each, fields packed in the
//! machine's byte order. Layout: libmemif's `memif.h`, protocol 2.0.

/// The one protocol version there is: 2.0.
pub(crate) const VERSION: u16 = 0x0200;
/// Bytes of every message, whatever its type.
pub(crate) const MESSAGE_SIZE: usize = 128;
/// Interface mode: Ethernet frames, the only one offered.
pub(crate) const MODE_ETHERNET: u8 = 0;

const NAME_SIZE: usize = 32;
const SECRET_SIZE: usize = 24;
const REASON_SIZE: usize = 96;
const RING_TO_SERVER: u16 = 1;

// Zero-terminated fields hold what the configuration lets through.
const _: () = assert!(crate::config::NAME_LIMIT < NAME_SIZE && crate::config::SECRET_LIMIT < SECRET_SIZE);

/// The direction of a ring's frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// A message, with what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    /// The last message was accepted.
    Ack,
    /// Server's first: what it can do. Ring maxima are highest indices.
    Hello { name: String, min_version: u16, max_version: u16, limits: Limits },
    /// Client's first: which interface it wants.
    Init { version: u16, id: u32, mode: u8, secret: String, name: String },
    /// Here is memory; comes with its file descriptor.
    AddRegion { index: u16, size: u64 },
    /// Here is a ring; comes with its eventfd.
    AddRing { direction: Direction, index: u16, region: u16, offset: u32, log2_size: u8 },
    /// Client: all is said.
    Connect { name: String },
    /// Server: frames may flow.
    Connected { name: String },
    /// The end, and why.
    Disconnect { code: u32, reason: String },
}

/// What a server says it can take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) region: u16,
    pub(crate) ring_to_client: u16,
    pub(crate) ring_to_server: u16,
    pub(crate) log2_ring_size: u8,
}

/// A message of no known type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnknownType(pub(crate) u16);

impl Message {
    pub(crate) fn encode(&self) -> [u8; MESSAGE_SIZE] {
        let mut out = Writer { bytes: [0; MESSAGE_SIZE], at: 0 };
        match self {
            Self::Ack => out.u16(1),
            Self::Hello { name, min_version, max_version, limits } => {
                out.u16(2);
                out.text(name, NAME_SIZE);
                out.u16(*min_version);
                out.u16(*max_version);
                out.u16(limits.region);
                out.u16(limits.ring_to_client);
                out.u16(limits.ring_to_server);
                out.u8(limits.log2_ring_size);
            }
            Self::Init { version, id, mode, secret, name } => {
                out.u16(3);
                out.u16(*version);
                out.u32(*id);
                out.u8(*mode);
                out.text(secret, SECRET_SIZE);
                out.text(name, NAME_SIZE);
            }
            Self::AddRegion { index, size } => {
                out.u16(4);
                out.u16(*index);
                out.u64(*size);
            }
            Self::AddRing { direction, index, region, offset, log2_size } => {
                out.u16(5);
                out.u16(if *direction == Direction::ToServer { RING_TO_SERVER } else { 0 });
                out.u16(*index);
                out.u16(*region);
                out.u32(*offset);
                out.u8(*log2_size);
                out.u16(0); // No private header before the buffers.
            }
            Self::Connect { name } => {
                out.u16(6);
                out.text(name, NAME_SIZE);
            }
            Self::Connected { name } => {
                out.u16(7);
                out.text(name, NAME_SIZE);
            }
            Self::Disconnect { code, reason } => {
                out.u16(8);
                out.u32(*code);
                out.text(reason, REASON_SIZE);
            }
        }
        out.bytes
    }

    pub(crate) fn decode(bytes: &[u8; MESSAGE_SIZE]) -> Result<Self, UnknownType> {
        let mut input = Reader { bytes, at: 0 };
        Ok(match input.u16() {
            1 => Self::Ack,
            2 => Self::Hello {
                name: input.text(NAME_SIZE),
                min_version: input.u16(),
                max_version: input.u16(),
                limits: Limits {
                    region: input.u16(),
                    ring_to_client: input.u16(),
                    ring_to_server: input.u16(),
                    log2_ring_size: input.u8(),
                },
            },
            3 => Self::Init {
                version: input.u16(),
                id: input.u32(),
                mode: input.u8(),
                secret: input.text(SECRET_SIZE),
                name: input.text(NAME_SIZE),
            },
            4 => Self::AddRegion { index: input.u16(), size: input.u64() },
            5 => Self::AddRing {
                direction: if input.u16() & RING_TO_SERVER != 0 { Direction::ToServer } else { Direction::ToClient },
                index: input.u16(),
                region: input.u16(),
                offset: input.u32(),
                log2_size: input.u8(),
            },
            6 => Self::Connect { name: input.text(NAME_SIZE) },
            7 => Self::Connected { name: input.text(NAME_SIZE) },
            8 => Self::Disconnect { code: input.u32(), reason: input.text(REASON_SIZE) },
            unknown => return Err(UnknownType(unknown)),
        })
    }
}

/// Appends fields. The longest message ends at byte 102, so nothing here can
/// run past the end.
struct Writer {
    bytes: [u8; MESSAGE_SIZE],
    at: usize,
}

const _: () = assert!(2 + 4 + REASON_SIZE <= MESSAGE_SIZE && 2 + 2 + 4 + 1 + SECRET_SIZE + NAME_SIZE <= MESSAGE_SIZE);

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_ne_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_ne_bytes());
    }

    /// A zero-terminated field of `size` bytes; what does not fit is cut off.
    fn text(&mut self, text: &str, size: usize) {
        let len = text.floor_char_boundary(size - 1);
        self.bytes[self.at..self.at + len].copy_from_slice(&text.as_bytes()[..len]);
        self.at += size;
    }
}

struct Reader<'a> {
    bytes: &'a [u8; MESSAGE_SIZE],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    /// The bytes before the first zero. What is no UTF-8 or a control
    /// character is replaced: the text is shown to people.
    fn text(&mut self, size: usize) -> String {
        let field = &self.bytes[self.at..self.at + size];
        self.at += size;
        let len = field.iter().position(|&byte| byte == 0).unwrap_or(size);
        let text = String::from_utf8_lossy(&field[..len]);
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_type() -> Vec<Message> {
        let limits = Limits { region: 255, ring_to_client: 3, ring_to_server: 2, log2_ring_size: 14 };
        vec![
            Message::Ack,
            Message::Hello { name: "DPDK 22.11".into(), min_version: VERSION, max_version: VERSION, limits },
            Message::Init { version: VERSION, id: 7, mode: 0, secret: "s".repeat(23), name: "n".repeat(31) },
            Message::AddRegion { index: 1, size: 1 << 40 },
            Message::AddRing {
                direction: Direction::ToServer,
                index: 2,
                region: 1,
                offset: 0x1234_5678,
                log2_size: 10,
            },
            Message::AddRing { direction: Direction::ToClient, index: 0, region: 0, offset: 0, log2_size: 8 },
            Message::Connect { name: "net_memif0".into() },
            Message::Connected { name: String::new() },
            Message::Disconnect { code: 3, reason: "Secret required".into() },
        ]
    }

    #[test]
    fn every_message_survives_the_trip() {
        for message in every_type() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn offsets_are_the_protocols() {
        let ring = Message::AddRing {
            direction: Direction::ToServer,
            index: 0x0102,
            region: 0x0304,
            offset: 0x0506_0708,
            log2_size: 9,
        };
        assert_eq!(ring.encode()[..15], [5, 0, 1, 0, 2, 1, 4, 3, 8, 7, 6, 5, 9, 0, 0]);
        let init = Message::Init { version: VERSION, id: 1, mode: 0, secret: "x".into(), name: "y".into() }.encode();
        assert_eq!((init[2..9].to_vec(), init[9], init[33]), (vec![0, 2, 1, 0, 0, 0, 0], b'x', b'y'));
    }

    #[test]
    fn overlong_and_hostile_text_is_cut_and_cleaned() {
        let message = Message::Disconnect { code: 0, reason: "é".repeat(100) };
        let Ok(Message::Disconnect { reason, .. }) = Message::decode(&message.encode()) else { panic!("type") };
        assert_eq!(reason, "é".repeat(47), "95 bytes hold 47 whole characters");
        let mut bytes = Message::Connect { name: String::new() }.encode();
        bytes[2..34].fill(0x1B);
        let Ok(Message::Connect { name }) = Message::decode(&bytes) else { panic!("type") };
        assert_eq!(name, "\u{FFFD}".repeat(32), "no escape sequences reach a terminal");
    }

    #[test]
    fn any_bytes_decode_or_are_refused() {
        let mut state = 1_u64;
        for round in 0..2_000_u16 {
            let mut bytes = [0; MESSAGE_SIZE];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 33) as u8;
            }
            bytes[..2].copy_from_slice(&(round % 12).to_ne_bytes());
            let known = (1..=8).contains(&(round % 12));
            assert_eq!(Message::decode(&bytes).is_ok(), known);
        }
    }
}
