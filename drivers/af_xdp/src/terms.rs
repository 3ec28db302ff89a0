//! What the process that has a port and its successor must agree on.

use crate::config::Config;
use crate::error::HandoverError;
use crate::facts::Facts;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use driver::Claim;
use ebpf::XdpMode;
use wire::Mac;

/// What both processes must agree on, as one line of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The link, with its number of queues.
    pub config: Config,
    /// The interface's number.
    pub interface: u32,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its MTU when the link was opened.
    pub mtu: u16,
    /// Bytes of a frame's room.
    pub frame: u32,
    /// Where the program runs.
    pub mode: XdpMode,
    /// What is taken from the interface.
    pub claim: Claim,
}

/// The version of [`Terms`], of the account and of the relay.
const VERSION: &str = "af_xdp-1";

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        write!(f, "{VERSION} {} {} {} {} {} {mode} ", self.config, self.interface, self.mac, self.mtu, self.frame)?;
        match sorted(&self.claim) {
            Claim::Host { ports } => write!(f, "ports={}", list(&ports)),
            Claim::Own { addresses, aggregated: false } => write!(f, "addresses={}", list(&addresses)),
            Claim::Own { addresses, aggregated: true } => write!(f, "aggregated={}", list(&addresses)),
            Claim::Whole => f.write_str("whole="),
        }
    }
}

impl FromStr for Terms {
    type Err = HandoverError;

    fn from_str(text: &str) -> Result<Self, HandoverError> {
        let parts: Vec<&str> = text.split(' ').collect();
        let [VERSION, config, interface, mac, mtu, frame, mode, claim] = parts[..] else {
            return Err(HandoverError::Terms);
        };
        fn read<T: FromStr>(text: &str) -> Result<T, HandoverError> {
            text.parse().map_err(|_| HandoverError::Terms)
        }
        fn each<T: FromStr>(text: &str) -> Result<Vec<T>, HandoverError> {
            text.split(',').filter(|part| !part.is_empty()).map(read).collect()
        }
        let config: Config = read(config)?;
        let frame = read(frame)?;
        if config.queues.is_none() || !crate::config::FRAME_SIZES.contains(&frame) {
            return Err(HandoverError::Terms);
        }
        let claim = match claim.split_once('=') {
            Some(("ports", ports)) => Claim::Host { ports: each(ports)? },
            Some((key @ ("addresses" | "aggregated"), addresses)) => {
                Claim::Own { addresses: each::<IpAddr>(addresses)?, aggregated: key == "aggregated" }
            }
            Some(("whole", "")) => Claim::Whole,
            _ => return Err(HandoverError::Terms),
        };
        let mode = match mode {
            "native" => XdpMode::Native,
            "generic" => XdpMode::Generic,
            _ => return Err(HandoverError::Terms),
        };
        let (interface, mac, mtu) = (read(interface)?, read(mac)?, read(mtu)?);
        Ok(Self { config, interface, mac, mtu, frame, mode, claim })
    }
}

impl Terms {
    pub(crate) fn of(config: &Config, interface: u32, facts: &Facts, claim: &Claim) -> Self {
        let config = Config { queues: Some(facts.queues), ..config.clone() };
        let Facts { mac, mtu, frame, mode, .. } = *facts;
        Self { config, interface, mac, mtu, frame, mode, claim: claim.clone() }
    }

    /// Whether a process that is to open `config` for `claim` can go on from
    /// here.
    pub(crate) fn check(&self, config: &Config, interface: u32, claim: &Claim) -> Result<(), HandoverError> {
        let differ = |what, theirs: String, ours: String| Err(HandoverError::Differ { what, theirs, ours });
        if (&self.config, self.interface) != (config, interface) {
            let theirs = format!("{} (interface {})", self.config, self.interface);
            return differ("link", theirs, format!("{config} (interface {interface})"));
        }
        let (theirs, ours) = (sorted(&self.claim), sorted(claim));
        match (&theirs, &ours) {
            _ if theirs == ours => Ok(()),
            (Claim::Host { ports: theirs }, Claim::Host { ports: ours }) => {
                differ("served ports", list(theirs), list(ours))
            }
            (Claim::Own { addresses: theirs, aggregated: a }, Claim::Own { addresses: ours, aggregated: b })
                if a == b =>
            {
                differ("addresses", list(theirs), list(ours))
            }
            _ => differ("kind of addresses", kind(&theirs).to_owned(), kind(&ours).to_owned()),
        }
    }
}

const fn kind(claim: &Claim) -> &'static str {
    match claim {
        Claim::Host { .. } => "the host's",
        Claim::Own { aggregated: false, .. } => "of its own",
        Claim::Own { aggregated: true, .. } => "of its own, aggregated",
        Claim::Whole => "all there are",
    }
}

fn sorted(claim: &Claim) -> Claim {
    match claim {
        Claim::Host { ports } => {
            let mut ports = ports.clone();
            ports.sort_unstable();
            ports.dedup();
            Claim::Host { ports }
        }
        Claim::Own { addresses, aggregated } => {
            let mut addresses = addresses.clone();
            addresses.sort_unstable();
            addresses.dedup();
            Claim::Own { addresses, aggregated: *aggregated }
        }
        Claim::Whole => Claim::Whole,
    }
}

fn list<T: fmt::Display>(all: &[T]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    all.join(",")
}

#[cfg(test)]
mod tests;
