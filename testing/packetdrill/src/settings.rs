//! What `--so_flags` says.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use stack::Address;

/// Settings of an instance: `key=value` pairs, separated by commas.
///
/// | key | value | default |
/// | --- | --- | --- |
/// | `address` | an address of ours with its prefix length; given once or more, it replaces the defaults | `192.168.0.1/16`, `fd3d:a0b:17d6::1/48` |
/// | `mtu` | largest IP packet, bytes | 1500 |
/// | `tso` | `on`: packets larger than the MTU are shown whole, as Linux shows them ahead of segmentation | `off` |
/// | `receive-limit` | receive buffer of a connection, bytes | 1 MiB |
/// | `send-limit` | send buffer of a socket, bytes | 2.5 MiB |
/// | `notsent-lowat` | bytes not sent yet from which on a socket takes no more | 2³² - 1 |
/// | `sack`, `timestamps` | `on` or `off` | `on` |
/// | `delayed-ack` | milliseconds | 40 |
/// | `syn-retries`, `syn-ack-retries`, `retries` | retransmissions | 6, 5, 15 |
/// | `user-timeout`, `keepalive-idle` | milliseconds, 0 for none | 0 |
/// | `max-half-open` | handshakes before cookies | 64 |
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our addresses.
    pub addresses: Vec<Address>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Whether packets larger than the MTU leave whole.
    pub segmentation: bool,
    /// Bytes that a socket takes before it blocks.
    pub send_limit: usize,
    /// Bytes not sent yet from which on a socket blocks.
    pub not_sent_low_water: u32,
    /// SYN,ACK retransmissions.
    pub syn_ack_retries: u8,
    /// Half-open handshakes.
    pub max_half_open: usize,
    /// TCP's own.
    pub tcp: tcp::Config,
}

/// The addresses that packetdrill's own runner gives to the host under test.
const LOCAL_V4: Address = Address { ip: IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)), prefix_len: 16 };
const LOCAL_V6: Address =
    Address { ip: IpAddr::V6(Ipv6Addr::new(0xfd3d, 0xa0b, 0x17d6, 0, 0, 0, 0, 1)), prefix_len: 48 };

/// Smallest MTU that both families carry (RFC 8200 section 5).
const LEAST_MTU: u16 = 1280;

impl Default for Settings {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            mtu: 1500,
            segmentation: false,
            send_limit: 5 << 19,
            not_sent_low_water: u32::MAX,
            syn_ack_retries: 5,
            max_half_open: 64,
            // Sockets gather small segments unless told otherwise.
            tcp: tcp::Config { nagle: true, ..tcp::Config::default() },
        }
    }
}

impl Settings {
    /// Reads flags.
    ///
    /// # Errors
    /// What is wrong with them, for the one who wrote them.
    pub fn parse(flags: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        for pair in flags.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("'{pair}' is not of the form key=value"))?;
            settings.set(key, value).map_err(|why| format!("'{pair}': {why}"))?;
        }
        if settings.addresses.is_empty() {
            settings.addresses = vec![LOCAL_V4, LOCAL_V6];
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "address" => self.addresses.push(address(value).ok_or("expected ADDRESS/LENGTH")?),
            "mtu" => {
                self.mtu =
                    number(value).and_then(|mtu: u16| if mtu >= LEAST_MTU { Ok(mtu) } else { Err("less than 1280") })?
            }
            "tso" => self.segmentation = switch(value)?,
            "receive-limit" => self.tcp.receive_limit = number(value)?,
            "send-limit" => self.send_limit = number(value)?,
            "notsent-lowat" => self.not_sent_low_water = number(value)?,
            "sack" => self.tcp.sack = switch(value)?,
            "timestamps" => self.tcp.timestamps = switch(value)?,
            "delayed-ack" => self.tcp.delayed_ack = number(value)?,
            "syn-retries" => self.tcp.syn_retries = number(value)?,
            "syn-ack-retries" => self.syn_ack_retries = number(value)?,
            "retries" => self.tcp.retries = number(value)?,
            "user-timeout" => self.tcp.user_timeout = number(value)?,
            "keepalive-idle" => self.tcp.keepalive_idle = number(value)?,
            "max-half-open" => self.max_half_open = number(value)?,
            _ => return Err("there is no such setting"),
        }
        Ok(())
    }
}

fn number<T: FromStr>(value: &str) -> Result<T, &'static str> {
    value.parse().map_err(|_| "expected a number in range")
}

fn switch(value: &str) -> Result<bool, &'static str> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off"),
    }
}

fn address(value: &str) -> Option<Address> {
    let (ip, len) = value.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let prefix_len: u8 = len.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    (prefix_len <= most).then_some(Address { ip, prefix_len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_or_refused() {
        let settings = Settings::parse("timestamps=off, mtu=1420,address=10.0.0.2/24").unwrap();
        assert!(!settings.tcp.timestamps);
        assert_eq!(settings.mtu, 1420);
        assert_eq!(settings.addresses, [Address { ip: "10.0.0.2".parse().unwrap(), prefix_len: 24 }]);
        assert_eq!(Settings::parse("").unwrap().addresses, [LOCAL_V4, LOCAL_V6]);
        for wrong in ["mtu", "mtu=12", "mtu=99999", "sack=yes", "address=10.0.0.2", "address=10.0.0.2/33", "speed=9"] {
            assert!(Settings::parse(wrong).is_err(), "{wrong}");
        }
    }
}
