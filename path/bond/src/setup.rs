//! An aggregation as it is written: `lacp,rate=slow,min-links=2`.

use crate::aggregator::{Aggregator, Config, MAX_PORTS, Mode, PortConfig};
use crate::lacp::Settings;
use core::fmt;
use core::str::FromStr;
use std::sync::Arc;
use wire::Mac;

/// How ports are aggregated, whichever they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// How ports come to take part.
    pub mode: Mode,
    /// See [`Config::min_links`].
    pub min_links: usize,
    /// See [`PortConfig::weight`], in the order of the ports; those behind the
    /// last that is given are zero, and count as 1.
    pub weights: [u8; MAX_PORTS],
}

impl Default for Setup {
    fn default() -> Self {
        Self { mode: Mode::Static, min_links: 1, weights: [0; MAX_PORTS] }
    }
}

impl Setup {
    /// How it is written, for help texts.
    pub const SYNTAX: &str =
        "static|lacp[,rate=fast|slow][,mode=active|passive][,priority=N][,key=N][,min-links=N][,weights=N:N…]";

    /// How many ports have a weight; none where all are alike.
    #[must_use]
    pub fn weighted(&self) -> usize {
        self.weights.iter().filter(|weight| **weight > 0).count()
    }

    /// The aggregation of the ports of these names, in this order, with this
    /// hardware address.
    #[must_use]
    pub fn aggregator(&self, mac: Mac, ports: impl IntoIterator<Item = String>) -> Arc<Aggregator> {
        let weights = self.weights.into_iter().chain(core::iter::repeat(0));
        let ports = ports.into_iter().zip(weights).map(|(name, weight)| PortConfig { name, weight: weight.max(1) });
        let ports = ports.collect();
        Aggregator::new(Config { mac, mode: self.mode, min_links: self.min_links, ports })
    }
}

/// Reads `100:63`, a weight for each port.
fn weights(text: &str) -> Option<[u8; MAX_PORTS]> {
    let mut weights = [0; MAX_PORTS];
    let mut places = weights.iter_mut();
    for part in text.split(':') {
        *places.next()? = part.parse().ok().filter(|weight| *weight > 0)?;
    }
    Some(weights)
}

/// What is wrong with a written [`Setup`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseSetupError(String);

impl fmt::Display for ParseSetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: an aggregation is {}", self.0, Setup::SYNTAX)
    }
}

impl core::error::Error for ParseSetupError {}

impl FromStr for Setup {
    type Err = ParseSetupError;

    fn from_str(text: &str) -> Result<Self, ParseSetupError> {
        let mut parts = text.split(',');
        let mut setup = Self::default();
        match parts.next() {
            Some("static") => {}
            Some("lacp") => setup.mode = Mode::Lacp(Settings::default()),
            _ => return Err(ParseSetupError(format!("\"{text}\" is neither static nor lacp"))),
        }
        let mut seen = Vec::new();
        for part in parts {
            let unknown = || ParseSetupError(format!("\"{part}\" is not understood"));
            let (name, value) = part.split_once('=').ok_or_else(unknown)?;
            if seen.contains(&name) {
                return Err(ParseSetupError(format!("{name} is given twice")));
            }
            seen.push(name);
            match (name, &mut setup.mode) {
                ("min-links", _) => setup.min_links = value.parse().map_err(|_| unknown())?,
                ("weights", _) => setup.weights = weights(value).ok_or_else(unknown)?,
                ("rate", Mode::Lacp(lacp)) => lacp.rate = value.parse().map_err(|_| unknown())?,
                ("priority", Mode::Lacp(lacp)) => lacp.system_priority = value.parse().map_err(|_| unknown())?,
                ("key", Mode::Lacp(lacp)) => lacp.key = value.parse().map_err(|_| unknown())?,
                ("mode", Mode::Lacp(lacp)) => {
                    lacp.active = match value {
                        "active" => true,
                        "passive" => false,
                        _ => return Err(unknown()),
                    }
                }
                _ => return Err(unknown()),
            }
        }
        Ok(setup)
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Settings::default();
        match &self.mode {
            Mode::Static => f.write_str("static")?,
            Mode::Lacp(lacp) => {
                let Settings { system_priority, key, active, rate, .. } = *lacp;
                f.write_str("lacp")?;
                if rate != default.rate {
                    write!(f, ",rate={rate}")?;
                }
                if !active {
                    f.write_str(",mode=passive")?;
                }
                if system_priority != default.system_priority {
                    write!(f, ",priority={system_priority}")?;
                }
                if key != default.key {
                    write!(f, ",key={key}")?;
                }
            }
        }
        if self.min_links != 1 {
            write!(f, ",min-links={}", self.min_links)?;
        }
        let weights = self.weights.iter().take(self.weighted()).enumerate();
        for (at, weight) in weights {
            write!(f, "{}{weight}", if at == 0 { ",weights=" } else { ":" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lacp::LacpRate;

    #[test]
    fn what_is_written_is_what_is_meant() {
        let lacp = Settings { rate: LacpRate::Slow, active: false, system_priority: 7, key: 3, ..Settings::default() };
        let all = Setup { mode: Mode::Lacp(lacp), min_links: 2, ..Setup::default() };
        for (text, setup) in [
            ("static", Setup::default()),
            ("static,min-links=2", Setup { min_links: 2, ..Setup::default() }),
            ("static,weights=100:63", Setup { weights: weights("100:63").unwrap(), ..Setup::default() }),
            ("lacp", Setup { mode: Mode::Lacp(Settings::default()), ..Setup::default() }),
            ("lacp,rate=slow,mode=passive,priority=7,key=3,min-links=2", all),
        ] {
            assert_eq!(text.parse(), Ok(setup));
            assert_eq!(setup.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let many = format!("static,weights={}", ["1"; MAX_PORTS + 1].join(":"));
        for text in [
            "",
            "bond",
            "static,rate=slow",
            "lacp,rate",
            "lacp,rate=medium",
            "lacp,min-links=x",
            "lacp,mode=on",
            "static,weights=",
            "static,weights=1:0",
            "static,weights=256:1",
            "static,weights=1:2,weights=3:4",
            "lacp,rate=fast,min-links=1,rate=fast",
            &many,
        ] {
            let error = text.parse::<Setup>().expect_err(text).to_string();
            assert!(error.contains(Setup::SYNTAX), "{error}");
        }
    }
}
