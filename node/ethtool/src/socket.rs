//! A socket of generic netlink, and one question at a time.

use crate::message::{Attributes, Builder, GENERIC, HEADER};
use rustix::net::netlink::{GENERIC as GENERIC_NETLINK, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// The family that knows the others, and what is asked of it.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
/// A message that is an error, or with 0 an acknowledgement.
const ERROR: u16 = 2;
/// Longer than the kernel's answers here: a set of features has some 4 KB.
const BUFFER: usize = 64 << 10;
/// Messages that a question may bring before its acknowledgement.
const MOST_ANSWERS: usize = 64;

pub(crate) struct Socket {
    socket: OwnedFd,
    family: u16,
    sequence: u32,
}

impl Socket {
    pub(crate) fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(GENERIC_NETLINK),
        )?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut own = Self { socket, family: CONTROLLER, sequence: 0 };
        let mut question = Builder::new(GET_FAMILY);
        question.text(FAMILY_NAME, "ethtool");
        let reply = own.ask(&question)?;
        let id = Attributes::of_reply(&reply).and_then(|attributes| attributes.find(FAMILY_ID));
        let id = id.and_then(|id| Some(u16::from_ne_bytes(*id.first_chunk()?)));
        own.family = id.ok_or_else(|| io::Error::other("the kernel has no netlink for ethtool: older than 5.6"))?;
        Ok(own)
    }

    /// Asks, and waits for the acknowledgement; the answer is the first message
    /// before it, or nothing.
    pub(crate) fn ask(&mut self, question: &Builder) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let length = HEADER + GENERIC + question.attributes.len();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
        bytes.extend(self.family.to_ne_bytes());
        bytes.extend((REQUEST | ACKNOWLEDGE).to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        // The kernel knows who asks.
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend([question.command, 1, 0, 0]);
        bytes.extend(&question.attributes);
        rustix::net::sendto(&self.socket, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = Vec::new();
        let mut buffer = vec![0; BUFFER];
        for _ in 0..MOST_ANSWERS {
            let (length, _) = rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            for message in messages(buffer.get(..length).unwrap_or_default()) {
                if message.sequence != self.sequence {
                    continue;
                }
                if message.kind != ERROR {
                    if answer.is_empty() {
                        answer = message.bytes.to_vec();
                    }
                    continue;
                }
                return match message.error() {
                    0 => Ok(answer),
                    error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
                };
            }
        }
        Err(io::Error::other("the kernel does not come to the end of its answer"))
    }
}

pub(crate) struct Message<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub bytes: &'a [u8],
}

impl Message<'_> {
    /// The number behind the header of an error.
    fn error(&self) -> i32 {
        self.bytes.get(HEADER..).and_then(|rest| rest.first_chunk()).map_or(-1, |bytes| i32::from_ne_bytes(*bytes))
    }
}

/// The messages of a datagram, as far as lengths are true.
pub(crate) fn messages(mut rest: &[u8]) -> impl Iterator<Item = Message<'_>> {
    core::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk()?)).ok()?;
        let bytes = rest.get(..length).filter(|bytes| bytes.len() >= HEADER)?;
        let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
        let sequence = u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, sequence, bytes })
    })
}
