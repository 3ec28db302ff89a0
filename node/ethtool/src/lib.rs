//! What drivers of network interfaces can be told, by netlink: rings,
//! channels, coalescing, pause frames, offloads.
//!
//! A setting has a name below its interface, as `rings/rx` or
//! `offloads/rx-gro`; its value is a number, or `on` and `off`. [`settings`]
//! lists those that a driver has, [`get`] and [`set`] are about one.
//!
//! Source: Linux `include/uapi/linux/ethtool_netlink.h` and
//! `Documentation/networking/ethtool-netlink.rst`.

#![forbid(unsafe_code)]

mod message;
mod socket;
#[cfg(test)]
mod tests;

use message::{Attributes, Builder, Kind};
use socket::Socket;
use std::io;

/// A group of settings that one message is about.
struct Group {
    name: &'static str,
    get: u8,
    set: u8,
    fields: &'static [Field],
}

/// One setting of a group, and the attribute that has it.
struct Field {
    name: &'static str,
    attribute: u16,
    kind: Kind,
}

const fn number(name: &'static str, attribute: u16) -> Field {
    Field { name, attribute, kind: Kind::Number }
}

const fn switch(name: &'static str, attribute: u16) -> Field {
    Field { name, attribute, kind: Kind::Switch }
}

const GROUPS: &[Group] = &[
    Group { name: "rings", get: 15, set: 16, fields: &[number("rx", 6), number("tx", 9)] },
    Group { name: "channels", get: 17, set: 18, fields: &[number("rx", 6), number("tx", 7), number("combined", 9)] },
    Group {
        name: "coalescing",
        get: 19,
        set: 20,
        fields: &[
            number("rx-usecs", 2),
            number("rx-frames", 3),
            number("tx-usecs", 6),
            number("tx-frames", 7),
            switch("adaptive-rx", 11),
            switch("adaptive-tx", 12),
        ],
    },
    Group { name: "pause", get: 21, set: 22, fields: &[switch("autoneg", 2), switch("rx", 3), switch("tx", 4)] },
];

/// The group whose settings have the driver's own names.
const OFFLOADS: &str = "offloads";
const GET_PAUSE: u8 = 21;
const GET_FEATURES: u8 = 11;
const SET_FEATURES: u8 = 12;
/// Of a reply about features: those that can be changed, and those in force.
const HARDWARE: u16 = 2;
const ACTIVE: u16 = 4;

/// Offloads that a person may want to change; a driver lists some sixty.
const FEATURES: &[&str] =
    &["rx-gro", "rx-gro-hw", "rx-lro", "rx-checksum", "tx-tcp-segmentation", "tx-generic-segmentation"];

/// Every setting that the interface's driver tells, with its value.
///
/// # Errors
/// If netlink does not answer at all; a group that the driver does not have is
/// left out.
pub fn settings(interface: &str) -> io::Result<Vec<(String, String)>> {
    let mut socket = Socket::open()?;
    let mut found = Vec::new();
    for group in GROUPS {
        let Ok(reply) = socket.ask(&Builder::request(group.get, interface)) else { continue };
        let Some(attributes) = Attributes::of_reply(&reply) else { continue };
        for field in group.fields {
            if let Some(value) = attributes.value(field.attribute, field.kind) {
                found.push((format!("{}/{}", group.name, field.name), value));
            }
        }
    }
    if let Ok(reply) = socket.ask(&Builder::request(GET_FEATURES, interface))
        && let Some(attributes) = Attributes::of_reply(&reply)
    {
        let (can, has) = (attributes.bits(HARDWARE), attributes.bits(ACTIVE));
        for name in FEATURES.iter().filter(|name| can.iter().any(|can| can == *name)) {
            let on = has.iter().any(|has| has == name);
            found.push((format!("{OFFLOADS}/{name}"), (if on { "on" } else { "off" }).to_owned()));
        }
    }
    Ok(found)
}

/// What a network card does of TLS in the kernel's place (Documentation/networking/tls-offload.rst):
/// `None` where its driver cannot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlsOffloads {
    /// It seals records that are sent; whether that is on.
    pub transmit: Option<bool>,
    /// It opens records that arrive.
    pub receive: Option<bool>,
    /// It does TLS and TCP, both as a whole.
    pub record: Option<bool>,
}

/// What the interface's driver can do of TLS.
///
/// # Errors
/// As the kernel says.
pub fn tls_offloads(interface: &str) -> io::Result<TlsOffloads> {
    let reply = Socket::open()?.ask(&Builder::request(GET_FEATURES, interface))?;
    Ok(tls_of(&reply))
}

fn tls_of(reply: &[u8]) -> TlsOffloads {
    let Some(attributes) = Attributes::of_reply(reply) else { return TlsOffloads::default() };
    let (can, has) = (attributes.bits(HARDWARE), attributes.bits(ACTIVE));
    let state = |name: &str| {
        let on = has.iter().any(|one| one == name);
        (on || can.iter().any(|one| one == name)).then_some(on)
    };
    TlsOffloads {
        transmit: state("tls-hw-tx-offload"),
        receive: state("tls-hw-rx-offload"),
        record: state("tls-hw-record"),
    }
}

/// One setting's value.
///
/// # Errors
/// `NotFound` if the driver does not have it; else as the kernel says.
pub fn get(interface: &str, setting: &str) -> io::Result<String> {
    let mut socket = Socket::open()?;
    let none = || io::Error::new(io::ErrorKind::NotFound, format!("the driver of {interface} has no {setting}"));
    let (group, name) = setting.split_once('/').ok_or_else(none)?;
    if group == OFFLOADS {
        let reply = socket.ask(&Builder::request(GET_FEATURES, interface))?;
        let attributes = Attributes::of_reply(&reply).ok_or_else(none)?;
        if !attributes.bits(HARDWARE).iter().any(|can| can == name) {
            return Err(none());
        }
        let on = attributes.bits(ACTIVE).iter().any(|has| has == name);
        return Ok((if on { "on" } else { "off" }).to_owned());
    }
    let (group, field) = field(group, name).ok_or_else(none)?;
    let reply = socket.ask(&Builder::request(group.get, interface)).map_err(|why| match why.raw_os_error() {
        // EOPNOTSUPP: the driver has nothing of the kind.
        Some(95) => none(),
        _ => why,
    })?;
    Attributes::of_reply(&reply).and_then(|attributes| attributes.value(field.attribute, field.kind)).ok_or_else(none)
}

/// Pause frames (IEEE 802.3x) that the interface has sent and received since it
/// was set up; `None` if its driver does not count them.
///
/// # Errors
/// As the kernel says.
pub fn pause_frames(interface: &str) -> io::Result<Option<(u64, u64)>> {
    let reply = Socket::open()?.ask(&Builder::counting(GET_PAUSE, interface));
    match reply {
        Ok(reply) => Ok(paused(&reply)),
        // EOPNOTSUPP: it has nothing of the kind.
        Err(why) if why.raw_os_error() == Some(95) => Ok(None),
        Err(why) => Err(why),
    }
}

/// The counts of a reply about pause frames (`ETHTOOL_A_PAUSE_STATS`).
fn paused(reply: &[u8]) -> Option<(u64, u64)> {
    const COUNTS: u16 = 5;
    const SENT: u16 = 2;
    const RECEIVED: u16 = 3;
    let counts = Attributes::of_reply(reply)?.nested(COUNTS)?;
    Some((counts.count(SENT)?, counts.count(RECEIVED)?))
}

/// Changes one setting.
///
/// # Errors
/// `InvalidInput` if the value is none of its kind; else as the kernel says.
/// That a driver took another value than it was told, only [`get`] tells.
pub fn set(interface: &str, setting: &str, value: &str) -> io::Result<()> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{value} is no {what}"));
    let none = || io::Error::new(io::ErrorKind::NotFound, format!("there is no {setting}"));
    let (group, name) = setting.split_once('/').ok_or_else(none)?;
    let on = match value.trim() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    let mut socket = Socket::open()?;
    let mut request;
    if group == OFFLOADS {
        request = Builder::request(SET_FEATURES, interface);
        request.feature(name, on.ok_or_else(|| wrong("on or off"))?);
    } else {
        let (group, field) = field(group, name).ok_or_else(none)?;
        request = Builder::request(group.set, interface);
        match field.kind {
            Kind::Number => request.number(field.attribute, value.trim().parse().map_err(|_| wrong("number"))?),
            Kind::Switch => request.switch(field.attribute, on.ok_or_else(|| wrong("on or off"))?),
        }
    }
    socket.ask(&request).map(|_| ())
}

fn field(group: &str, name: &str) -> Option<(&'static Group, &'static Field)> {
    let group = GROUPS.iter().find(|one| one.name == group)?;
    Some((group, group.fields.iter().find(|field| field.name == name)?))
}
