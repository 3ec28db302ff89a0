//! Routing messages of netlink, as bytes: numbers are in the machine's order, attributes
//! aligned to four bytes.
//!
//! RFC 3549 section 2.3; netlink(7), rtnetlink(7); `include/uapi/linux/{netlink,rtnetlink}.h`.

use core::net::IpAddr;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// Bytes of the largest datagram: what iproute2 reads with.
pub(crate) const DATAGRAM_LIMIT: usize = 32 << 10;

/// Flags of requests (`NLM_F_*`).
pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const CREATE: u16 = 0x400;
const DUMP: u16 = 0x300;

/// The flag of an answer whose table changed while it was dumped (`NLM_F_DUMP_INTR`).
const INTERRUPTED: u16 = 0x10;

/// How often a dump that was interrupted by a change is begun again.
const DUMP_TRIES: usize = 8;

/// Kinds of every netlink's messages (`NLMSG_*`).
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// `struct nlmsghdr`: length, kind, flags, sequence, port.
const HEADER: usize = 16;
const ALIGN: usize = 4;

/// The bits of an attribute's kind that are not flags (`NLA_TYPE_MASK`).
const KIND: u16 = 0x3fff;

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message<'a> {
    /// What it is about (`RTM_*`).
    pub kind: u16,
    flags: u16,
    /// What is behind netlink's header: the kind's own header, and attributes.
    pub body: &'a [u8],
}

/// The number at `at` in a header.
pub(crate) fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// See [`byte`].
pub(crate) fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// See [`byte`].
pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// An address of four or sixteen bytes.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
    v4().or_else(|| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)))
}

/// Each message of a datagram. What lies about its length is left out, with all that is
/// behind it.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    core::iter::from_fn(move || {
        let length = long(bytes, 0)? as usize;
        let body = bytes.get(HEADER..length)?;
        let message = Message { kind: short(bytes, 4)?, flags: short(bytes, 6)?, body };
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some(message)
    })
}

/// Kind and value of each attribute in these bytes, as far as lengths are true.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let length = usize::from(short(bytes, 0)?);
        let (kind, value) = (short(bytes, 2)?, bytes.get(4..length)?);
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((kind & KIND, value))
    })
}

/// The value of the first attribute of a kind.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(other, _)| *other == kind).map(|(_, value)| value)
}

/// Appends an attribute with an address.
pub(crate) fn put_address(body: &mut Vec<u8>, kind: u16, ip: IpAddr) {
    let mut put = |value: &[u8]| {
        body.extend((value.len() as u16 + 4).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
    };
    match ip {
        IpAddr::V4(ip) => put(&ip.octets()),
        IpAddr::V6(ip) => put(&ip.octets()),
    }
}

/// A socket of this thread's network namespace, which hears of these groups (`RTMGRP_*`).
///
/// # Errors
/// The system's.
pub(crate) fn socket(groups: u32) -> io::Result<OwnedFd> {
    // Without a number the protocol is NETLINK_ROUTE, which is 0.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Sends one message to the kernel.
///
/// # Errors
/// The system's.
pub(crate) fn send(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // The kernel answers on the socket that asks: neither number is needed.
    bytes.extend([0; 8]);
    bytes.extend(body);
    rustix::net::sendto(socket, &bytes, SendFlags::DONTWAIT, &SocketAddrNetlink::new(0, 0))?;
    Ok(())
}

/// All that the kernel has of a kind, as far as `take` wants it.
///
/// # Errors
/// The system's; of kind `Interrupted` if the table never stood still.
pub(crate) fn dump<T>(kind: u16, body: &[u8], mut take: impl FnMut(Message<'_>) -> Option<T>) -> io::Result<Vec<T>> {
    let mut buffer = vec![0; DATAGRAM_LIMIT];
    for _ in 0..DUMP_TRIES {
        // One of its own, so that no news are taken for answers.
        let socket = socket(0)?;
        send(&socket, kind, REQUEST | DUMP, body)?;
        let (mut all, mut done, mut interrupted) = (Vec::new(), false, false);
        while !done {
            let (len, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
            if len == 0 || len > buffer.len() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            done = take_answer(&buffer[..len], &mut interrupted, |message| all.extend(take(message)))?;
        }
        if !interrupted {
            return Ok(all);
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

/// One datagram of a dump's answer; whether it is the last.
fn take_answer(bytes: &[u8], interrupted: &mut bool, mut take: impl FnMut(Message<'_>)) -> io::Result<bool> {
    for message in messages(bytes) {
        *interrupted |= message.flags & INTERRUPTED != 0;
        match message.kind {
            // Both begin with an error's number, negative; 0 for none.
            ERROR | DONE => match long(message.body, 0).map_or(0, u32::cast_signed) {
                0 if message.kind == DONE => return Ok(true),
                0 => {}
                number => return Err(io::Error::from_raw_os_error(number.saturating_neg())),
            },
            _ => take(message),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes
    }

    #[test]
    fn datagrams_that_lie_about_lengths_are_left_out() {
        for bytes in [
            &[][..],
            &[0; 3],
            &[0; 16],
            &[15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[255, 255, 255, 255, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[18, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
        ] {
            assert_eq!(messages(bytes).count(), 0, "{bytes:?}");
        }
        let good = [message(28, 0, &[1, 2, 3]), message(29, 2, &[])].concat();
        let all: Vec<_> = messages(&good).map(|message| (message.kind, message.body)).collect();
        assert_eq!(all, [(28, &[1, 2, 3][..]), (29, &[])]);
    }

    #[test]
    fn attributes_end_where_one_lies() {
        let mut body = Vec::new();
        put_address(&mut body, 1, IpAddr::from([192, 0, 2, 7]));
        put_address(&mut body, 0x8002, "2001:db8::7".parse().expect("an address"));
        let all: Vec<_> = attributes(&body).map(|(kind, value)| (kind, address(value))).collect();
        assert_eq!(all, [(1, Some([192, 0, 2, 7].into())), (2, Some("2001:db8::7".parse().expect("an address")))]);
        for (bytes, count) in [(&[3, 0, 1, 0][..], 0), (&[0; 8], 0), (&[9, 0, 1, 0, 1, 2, 3, 4], 0), (&body[..20], 1)] {
            assert_eq!(attributes(bytes).count(), count, "{bytes:?}");
        }
        assert_eq!((address(&[1, 2, 3]), address(&[])), (None, None));
    }

    #[test]
    fn an_answer_ends_as_the_kernel_says() {
        let answer = |bytes: &[u8]| {
            let (mut interrupted, mut taken) = (false, 0);
            let done = take_answer(bytes, &mut interrupted, |_| taken += 1);
            (done.map_err(|why| why.raw_os_error()), interrupted, taken)
        };
        let one = message(24, 0, &[0; 12]);
        assert_eq!(answer(&one), (Ok(false), false, 1));
        assert_eq!(answer(&[one.clone(), message(DONE, 0, &[0; 4]), one.clone()].concat()), (Ok(true), false, 1));
        assert_eq!(answer(&message(DONE, INTERRUPTED, &[0; 4])), (Ok(true), true, 0));
        let failed = (-22_i32).to_ne_bytes();
        assert_eq!(answer(&[one, message(ERROR, 0, &failed)].concat()), (Err(Some(22)), false, 1));
        assert_eq!(answer(&message(DONE, 0, &failed)), (Err(Some(22)), false, 0));
        assert_eq!(answer(&message(ERROR, 0, &i32::MIN.to_ne_bytes())), (Err(Some(i32::MAX)), false, 0));
    }
}
