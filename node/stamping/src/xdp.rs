//! What drivers tell of XDP: the kernel's generic netlink family `netdev`
//! (Documentation/netlink/specs/netdev.yaml, Linux 6.3).

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

/// What an interface's driver does for XDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Programs run in the driver (native mode), and may redirect to sockets.
    pub native: bool,
    /// AF_XDP sockets without a copy.
    pub zero_copy: bool,
    /// Programs can ask when the NIC received a frame (Linux 6.3).
    pub stamps_arrivals: bool,
    /// AF_XDP sockets can ask when the NIC sent one (Linux 6.8).
    pub stamps_departures: bool,
}

/// NETDEV_XDP_ACT_BASIC, _REDIRECT and _XSK_ZEROCOPY.
const BASIC: u64 = 1;
const REDIRECT: u64 = 2;
const ZERO_COPY: u64 = 8;

/// GENL_ID_CTRL, CTRL_CMD_GETFAMILY and its attributes.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// NETDEV_CMD_DEV_GET and its attributes.
const GET_DEVICE: u8 = 1;
const INTERFACE: u16 = 1;
const XDP_FEATURES: u16 = 3;
const XDP_RX_METADATA_FEATURES: u16 = 5;
const XSK_FEATURES: u16 = 6;

/// NETDEV_XDP_RX_METADATA_TIMESTAMP and NETDEV_XSK_FLAGS_TX_TIMESTAMP.
const TIMESTAMP: u64 = 1;

/// Flags and types of netlink messages (include/uapi/linux/netlink.h).
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

/// Datagrams of one answer: an interface is some hundred bytes.
const ANSWERS_LIMIT: usize = 4096;

/// Features by the interface's number; `None` where the kernel does not tell.
#[must_use]
pub fn features() -> Option<HashMap<u32, Features>> {
    let socket = open().ok()?;
    let family = ask(&socket, &message(CONTROL, REQUEST, GET_FAMILY, FAMILY_NAME, b"netdev\0"), false).ok()?;
    let family = family.first().and_then(|attributes| attributes.get(&FAMILY_ID))?;
    let family = u16::from_ne_bytes(family.get(..2)?.try_into().ok()?);
    let devices = ask(&socket, &message(family, REQUEST | DUMP, GET_DEVICE, 0, b""), true).ok()?;
    Some(devices.iter().filter_map(device).collect())
}

fn device(attributes: &Attributes) -> Option<(u32, Features)> {
    let index = u32::from_ne_bytes(attributes.get(&INTERFACE)?.get(..4)?.try_into().ok()?);
    let flags = |attribute| Some(u64::from_ne_bytes(attributes.get(attribute)?.get(..8)?.try_into().ok()?));
    let bits = flags(&XDP_FEATURES)?;
    let native = bits & (BASIC | REDIRECT) == BASIC | REDIRECT;
    // A kernel that is older does not tell of them.
    let stamps = |attribute| native && flags(attribute).is_some_and(|bits| bits & TIMESTAMP != 0);
    let features = Features {
        native,
        zero_copy: native && bits & ZERO_COPY != 0,
        stamps_arrivals: stamps(&XDP_RX_METADATA_FEATURES),
        stamps_departures: stamps(&XSK_FEATURES),
    };
    Some((index, features))
}

fn open() -> io::Result<OwnedFd> {
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
    rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

type Attributes = HashMap<u16, Vec<u8>>;

/// Sends a request and reads its answers to the last.
fn ask(socket: &OwnedFd, request: &[u8], several: bool) -> io::Result<Vec<Attributes>> {
    rustix::net::send(socket, request, SendFlags::empty())?;
    let mut answers = Vec::new();
    let mut datagram = vec![0; 65_536];
    for _ in 0..ANSWERS_LIMIT {
        let (len, _) = rustix::net::recv(socket, &mut datagram[..], RecvFlags::empty())?;
        let finished = read(&datagram[..len], &mut answers)?;
        if finished || !several {
            break;
        }
    }
    Ok(answers)
}

/// Takes the messages of a datagram; whether the last is among them.
fn read(mut bytes: &[u8], answers: &mut Vec<Attributes>) -> io::Result<bool> {
    while let Some(header) = bytes.get(..HEADER) {
        let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(body) = bytes.get(HEADER..len) else { return Err(io::ErrorKind::InvalidData.into()) };
        match u16::from_ne_bytes([header[4], header[5]]) {
            ERROR => return Err(io::ErrorKind::Unsupported.into()),
            DONE => return Ok(true),
            _ => answers.push(attributes(body.get(GENERIC_HEADER..).unwrap_or_default())),
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn attributes(mut bytes: &[u8]) -> Attributes {
    let mut found = Attributes::new();
    while let Some(header) = bytes.get(..4) {
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let Some(value) = bytes.get(4..len) else { break };
        found.insert(u16::from_ne_bytes([header[2], header[3]]), value.to_owned());
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// A request of `family` with at most one attribute.
fn message(family: u16, flags: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let mut text = vec![0; HEADER];
    text.extend([command, 1, 0, 0]);
    if !value.is_empty() {
        text.extend(u16::try_from(4 + value.len()).unwrap_or(0).to_ne_bytes());
        text.extend(attribute.to_ne_bytes());
        text.extend(value);
        text.resize(text.len().next_multiple_of(4), 0);
    }
    let len = u32::try_from(text.len()).unwrap_or(0);
    text[..4].copy_from_slice(&len.to_ne_bytes());
    text[4..6].copy_from_slice(&family.to_ne_bytes());
    text[6..8].copy_from_slice(&flags.to_ne_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_from_its_attributes() {
        let mut body = vec![GET_DEVICE, 1, 0, 0];
        body.extend([8, 0, 1, 0, 7, 0, 0, 0]);
        body.extend([12, 0, 3, 0, 11, 0, 0, 0, 0, 0, 0, 0]);
        body.extend([12, 0, 5, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        body.extend([12, 0, 6, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let mut datagram = Vec::new();
        datagram.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
        datagram.extend([0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        datagram.extend(&body);
        datagram.extend([20, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut answers = Vec::new();
        assert!(read(&datagram, &mut answers).unwrap());
        let features = Features { native: true, zero_copy: true, stamps_arrivals: true, stamps_departures: false };
        assert_eq!(device(&answers[0]), Some((7, features)));
        for cut in 0..datagram.len() {
            let _ = read(&datagram[..cut], &mut Vec::new());
        }
    }

    #[test]
    fn this_kernel_answers_or_does_not_know() {
        if let Some(features) = features() {
            assert!(features.keys().all(|index| *index > 0), "{features:?}");
        }
    }
}
