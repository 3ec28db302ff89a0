//! What is a program's own: its link, its addresses, its ports.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use core::time::Duration;
use silo::Pace;

/// An address with the prefix of the network that it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subnet {
    /// The address.
    pub address: IpAddr,
    /// Length of the prefix, in bits.
    pub prefix: u8,
}

impl Subnet {
    /// Whether an address is in the network.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let same = |own: u128, other: u128, bits: u8| {
            let rest = bits - self.prefix.min(bits);
            own.checked_shr(rest.into()).unwrap_or(0) == other.checked_shr(rest.into()).unwrap_or(0)
        };
        match (self.address, ip) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same(own.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Subnet {
    type Err = BadTerms;

    fn from_str(text: &str) -> Result<Self, BadTerms> {
        let bad = || BadTerms(format!("'{text}' is no ADDRESS/PREFIX"));
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if prefix > most { Err(bad()) } else { Ok(Self { address, prefix }) }
    }
}

/// What is wrong with a text of [`Terms`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadTerms(pub String);

impl fmt::Display for BadTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for BadTerms {}

/// What is a program's own. As text, words with blanks between them:
/// `tap:near0 10.0.0.2/24 via=10.0.0.1 ports=80,443 idle=spin tx-delay-ns=100000`. What is usual is
/// not written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The link, as it is written on a command line.
    pub link: String,
    /// Our addresses.
    pub addresses: Vec<Subnet>,
    /// Where packets for other networks go.
    pub gateways: Vec<IpAddr>,
    /// Ports whose listeners are ours; none stands for all.
    pub ports: Vec<u16>,
    /// How its workers trade latency for processor time.
    pub pace: Pace,
}

impl Terms {
    /// Whether a listener that is bound to this is ours: to an address of ours, or to all, on a
    /// port of ours.
    #[must_use]
    pub fn takes(&self, ip: IpAddr, port: u16) -> bool {
        let here = ip.is_unspecified() || self.addresses.iter().any(|own| own.address == ip);
        here && (self.ports.is_empty() || self.ports.contains(&port))
    }

    /// Whether an address is one of ours.
    #[must_use]
    pub fn has(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.address == ip)
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.link)?;
        for own in &self.addresses {
            write!(f, " {own}")?;
        }
        for gateway in &self.gateways {
            write!(f, " via={gateway}")?;
        }
        if !self.ports.is_empty() {
            let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
            write!(f, " ports={}", ports.join(","))?;
        }
        let Pace { idle, tx_delay } = self.pace;
        if idle != Pace::default().idle {
            write!(f, " idle={idle}")?;
        }
        if !tx_delay.is_zero() {
            write!(f, " tx-delay-ns={}", tx_delay.as_nanos())?;
        }
        Ok(())
    }
}

impl FromStr for Terms {
    type Err = BadTerms;

    fn from_str(text: &str) -> Result<Self, BadTerms> {
        let mut words = text.split_ascii_whitespace();
        let link = words.next().ok_or_else(|| BadTerms("there is no link".to_owned()))?.to_owned();
        let mut terms =
            Self { link, addresses: Vec::new(), gateways: Vec::new(), ports: Vec::new(), pace: Pace::default() };
        for word in words {
            let bad = || BadTerms(format!("'{word}' is not understood"));
            if let Some(gateway) = word.strip_prefix("via=") {
                terms.gateways.push(gateway.parse().map_err(|_| bad())?);
            } else if let Some(ports) = word.strip_prefix("ports=") {
                for port in ports.split(',') {
                    terms.ports.push(port.parse().map_err(|_| bad())?);
                }
            } else if let Some(policy) = word.strip_prefix("idle=") {
                terms.pace.idle = policy.parse().map_err(|_| bad())?;
            } else if let Some(nanos) = word.strip_prefix("tx-delay-ns=") {
                terms.pace.tx_delay = Duration::from_nanos(nanos.parse().map_err(|_| bad())?);
            } else {
                terms.addresses.push(word.parse()?);
            }
        }
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_what_they_were_written_from() {
        let text = "tap:near0,mtu=1400 10.0.0.2/24 fd00::2/64 via=10.0.0.1 via=fd00::1 ports=80,443";
        let terms: Terms = text.parse().unwrap();
        assert_eq!(terms.to_string(), text);
        assert_eq!(terms.ports, [80, 443]);
        assert_eq!(terms.pace, Pace::default());
        for policy in ["spin", "spin:50us:1s", "adaptive:30us:2ms", "sleep:100us"] {
            let text = format!("memif:/run/link 10.0.0.2/24 ports=80 idle={policy} tx-delay-ns=20500");
            let terms: Terms = text.parse().unwrap();
            assert_eq!(terms.to_string(), text);
            let wanted = Pace { idle: policy.parse().unwrap(), tx_delay: Duration::from_nanos(20_500) };
            assert_eq!(terms.pace, wanted);
        }
        for wrong in [
            "",
            "tap:x 10.0.0.2",
            "tap:x 10.0.0.2/33",
            "tap:x via=here",
            "tap:x ports=",
            "tap:x ports=80,70000",
            "tap:x idle=never",
            "tap:x tx-delay-ns=1us",
        ] {
            assert!(wrong.parse::<Terms>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn listeners_are_ours_by_address_and_port() {
        let terms: Terms = "tap:x 10.0.0.2/24 ports=80".parse().unwrap();
        let ip = |text: &str| text.parse().unwrap();
        assert!(terms.takes(ip("0.0.0.0"), 80) && terms.takes(ip("::"), 80) && terms.takes(ip("10.0.0.2"), 80));
        assert!(
            !terms.takes(ip("127.0.0.1"), 80) && !terms.takes(ip("0.0.0.0"), 81) && !terms.takes(ip("10.0.0.3"), 80)
        );
        let all: Terms = "tap:x 10.0.0.2/24".parse().unwrap();
        assert!(all.takes(ip("0.0.0.0"), 81) && !all.takes(ip("::1"), 81));
    }

    #[test]
    fn networks_end_where_their_prefix_says() {
        let ip = |text: &str| text.parse().unwrap();
        let net: Subnet = "10.0.0.2/24".parse().unwrap();
        assert!(net.contains(ip("10.0.0.255")) && !net.contains(ip("10.0.1.0")) && !net.contains(ip("fd00::1")));
        let all: Subnet = "10.0.0.2/0".parse().unwrap();
        assert!(all.contains(ip("192.0.2.1")));
        let six: Subnet = "fd00::2/0".parse().unwrap();
        assert!(six.contains(ip("2001:db8::1")));
    }
}
