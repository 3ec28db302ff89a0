//! What a TAP link is made of, and its one-line form.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use driver::BadConfig;
use driver::text::{number, switch};

/// The longest name that Linux takes (IFNAMSIZ without its NUL).
const NAME_LIMIT: usize = 15;

/// Most queues that a device takes: the kernel's MAX_TAP_QUEUES.
pub const QUEUES_LIMIT: u16 = 256;

/// Largest MTU: the kernel's MAX_MTU (65535) less the Ethernet header, and
/// smallest that still carries IPv4 (RFC 791: 68).
const MTU_RANGE: core::ops::RangeInclusive<u16> = 68..=65_521;

/// Slots of the transmit ring, in bounds.
const RING_RANGE: core::ops::RangeInclusive<usize> = 1..=4096;

/// How a TAP link is opened.
///
/// Reads from `tap:NAME[,key=value]…`:
///
/// | key | meaning | default |
/// | --- | --- | --- |
/// | `mtu` | largest IP packet in bytes; sets the interface's | the interface's, 1500 for a new one |
/// | `addr` | address and prefix of the kernel's side, set on the interface; may come several times | none set |
/// | `queues` | queues, one for each silo | 1 |
/// | `offload` | `on` or `off`: checksums and segmentation left to the kernel | on |
/// | `large` | `on` or `off`: receive TCP uncut in frames of up to 64 KiB | off |
/// | `ring` | transmit slots for each queue | 256 |
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The interface's name, 1 to 15 characters.
    pub name: String,
    /// Sets the interface's MTU, in bytes. `None` leaves it as it is.
    pub mtu: Option<u16>,
    /// Addresses for the kernel's side: at most one of IPv4, which replaces
    /// the interface's, and any number of IPv6, which are added.
    pub addresses: Vec<KernelAddress>,
    /// Queues of the device; each is a link of its own. A device made with
    /// one queue cannot be opened with more, nor the other way round.
    pub queues: u16,
    /// Leaves checksums and segmentation to the kernel. On by default: the
    /// cost of a TAP is its system calls, and this needs a fortieth of them
    /// for bulk data. Off shows every frame as a wire would.
    pub offload: bool,
    /// Receives TCP from local sockets uncut, in frames longer than the MTU.
    /// Needs `offload`. Off by default: acknowledgements, loss and captures
    /// are about segments, and a fault that strikes one such frame strikes
    /// forty segments at once. Costs 64 KiB for each of 64 receive slots.
    pub large: bool,
    /// Transmit slots for each queue. Too few makes the stack stop and go
    /// within a turn (`tx_full`); more cost cache: an MTU each, or up to
    /// 64 KiB each with offload, as far as they are used.
    pub ring: usize,
}

impl Config {
    /// The defaults, for the interface called `name`.
    ///
    /// # Errors
    /// If Linux would not take the name.
    pub fn new(name: &str) -> Result<Self, BadConfig> {
        if !is_interface_name(name) {
            return Err(BadConfig(format!(
                "'{name}' names no interface: 1 to {NAME_LIMIT} characters, no blank, slash, colon, \
                 comma or percent sign"
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            mtu: None,
            addresses: Vec::new(),
            queues: 1,
            offload: true,
            large: false,
            ring: 256,
        })
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), BadConfig> {
        match key {
            "mtu" => self.mtu = Some(number(key, value, MTU_RANGE)?),
            "addr" => self.addresses.push(value.parse()?),
            "queues" => self.queues = number(key, value, 1..=QUEUES_LIMIT)?,
            "offload" => self.offload = switch(key, value)?,
            "large" => self.large = switch(key, value)?,
            "ring" => self.ring = number(key, value, RING_RANGE)?,
            _ => {
                return Err(BadConfig(format!(
                    "a tap link has no '{key}': it takes mtu, addr, queues, offload, large and ring"
                )));
            }
        }
        Ok(())
    }
}

impl FromStr for Config {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        let Some(rest) = text.strip_prefix("tap:") else {
            return Err(BadConfig(format!("'{text}' is no tap link; write tap:NAME[,key=value]…")));
        };
        let mut parts = rest.split(',');
        let mut config = Self::new(parts.next().unwrap_or(""))?;
        let mut seen = Vec::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(BadConfig(format!("'{part}': expected key=value")));
            };
            if key != "addr" && seen.contains(&key) {
                return Err(BadConfig(format!("{key} is given twice")));
            }
            seen.push(key);
            config.set(key, value)?;
        }
        if config.addresses.iter().filter(|a| a.address.is_ipv4()).count() > 1 {
            return Err(BadConfig("addr: at most one IPv4 address".into()));
        }
        if config.large && !config.offload {
            return Err(BadConfig("large=on needs offload=on".into()));
        }
        Ok(config)
    }
}

/// The same form that is read, with what differs from the defaults.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tap:{}", self.name)?;
        if let Some(mtu) = self.mtu {
            write!(f, ",mtu={mtu}")?;
        }
        for address in &self.addresses {
            write!(f, ",addr={address}")?;
        }
        if self.queues != 1 {
            write!(f, ",queues={}", self.queues)?;
        }
        if !self.offload {
            f.write_str(",offload=off")?;
        }
        if self.large {
            f.write_str(",large=on")?;
        }
        if self.ring != 256 {
            write!(f, ",ring={}", self.ring)?;
        }
        Ok(())
    }
}

/// An address of the kernel's side with its prefix, as `10.9.0.1/24`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelAddress {
    /// The address.
    pub address: IpAddr,
    /// Bits of the address that name the network.
    pub prefix: u8,
}

impl FromStr for KernelAddress {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        let parsed = text.split_once('/').and_then(|(address, prefix)| {
            let address: IpAddr = address.parse().ok()?;
            let prefix: u8 = prefix.parse().ok()?;
            let bits = if address.is_ipv4() { 32 } else { 128 };
            (prefix <= bits).then_some(Self { address, prefix })
        });
        parsed.ok_or_else(|| BadConfig(format!("addr '{text}': expected address/prefix, as 10.9.0.1/24")))
    }
}

impl fmt::Display for KernelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// What Linux takes (`dev_valid_name`), without what would be read otherwise:
/// a comma ends the name here, and the kernel numbers names with a percent
/// sign.
fn is_interface_name(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_graphic() && !b"/:,%".contains(&b));
    (1..=NAME_LIMIT).contains(&name.len()) && plain && name != "." && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_gives_the_defaults() {
        let config: Config = "tap:ns0".parse().unwrap();
        assert_eq!(config, Config::new("ns0").unwrap());
        assert!(config.offload && !config.large && config.queues == 1 && config.mtu.is_none());
    }

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            "tap:ns0",
            "tap:ns0,mtu=9000,addr=10.9.0.1/24,addr=fd00::1/64,queues=2,offload=off,ring=64",
            "tap:n,large=on",
        ] {
            assert_eq!(text.parse::<Config>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("tap", "no tap link"),
            ("memif:x", "no tap link"),
            ("tap:", "1 to 15 characters"),
            ("tap:sixteen-letters-", "1 to 15 characters"),
            ("tap:a b", "1 to 15 characters"),
            ("tap:..", "1 to 15 characters"),
            ("tap:n%d", "percent"),
            ("tap:n,", "expected key=value"),
            ("tap:n,speed=1", "has no 'speed'"),
            ("tap:n,mtu=67", "68 to 65521"),
            ("tap:n,mtu=x", "68 to 65521"),
            ("tap:n,mtu=1500,mtu=1500", "given twice"),
            ("tap:n,queues=0", "1 to 256"),
            ("tap:n,ring=0", "1 to 4096"),
            ("tap:n,offload=yes", "on or off"),
            ("tap:n,large=on,offload=off", "needs offload"),
            ("tap:n,addr=10.0.0.1", "address/prefix"),
            ("tap:n,addr=10.0.0.1/33", "address/prefix"),
            ("tap:n,addr=10.0.0.1/8,addr=10.0.0.2/8", "at most one IPv4"),
            ("tap:n,addr=fd00::1/129", "address/prefix"),
        ] {
            let message = text.parse::<Config>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
