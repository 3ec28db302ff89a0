//! Ports of one aggregation that are not alike: in their speed, or in what their slots carry.

use crate::{Mode, Setup};
use core::fmt::Write as _;

/// Slots that carry this share of a port's speed less than others are told of.
const NEAR: f64 = 0.95;

/// A port, as far as it is known how much it carries, in bits per second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortRates {
    /// What it is called in messages.
    pub name: String,
    /// Its link's.
    pub speed: Option<u64>,
    /// Its slot's.
    pub slot: Option<u64>,
}

impl PortRates {
    /// What leaves by it, at most.
    fn most(&self) -> Option<u64> {
        let speed = self.speed?;
        Some(self.slot.map_or(speed, |slot| slot.min(speed)))
    }
}

/// What is to be told of the ports of an aggregation that is set up like this.
///
/// # Errors
/// A sentence for the user, if they cannot be one: LACP joins ports of one speed, and each port has
/// a weight or none has.
pub fn judge_ports(ports: &[PortRates], setup: &Setup) -> Result<Vec<String>, String> {
    let weighted = setup.weighted();
    let count = ports.len();
    if setup.min_links > count {
        let links = if count == 1 { "link" } else { "links" };
        return Err(format!("--bond min-links={} for {count} {links}: none would ever take part", setup.min_links));
    }
    if weighted > 0 && count == 1 {
        return Err("--bond weights spread flows over several links, and there is one".to_owned());
    }
    if weighted > 0 && weighted != ports.len() {
        return Err(format!("--bond has {weighted} weights for {} links: one for each, or none", ports.len()));
    }
    let known = |port: &&PortRates| port.speed.is_some();
    let slowest = ports.iter().filter(known).min_by_key(|port| port.speed);
    let fastest = ports.iter().filter(known).max_by_key(|port| port.speed);
    if let (Some(slow), Some(fast)) = (slowest, fastest)
        && slow.speed != fast.speed
        && matches!(setup.mode, Mode::Lacp(_))
    {
        return Err(format!(
            "LACP joins ports of one speed: {} has {} and {} has {} (--bond static,weights={} spreads flows over both)",
            slow.name,
            gigabits(slow.speed),
            fast.name,
            gigabits(fast.speed),
            weights(ports)
        ));
    }
    let most: Vec<u64> = ports.iter().filter_map(PortRates::most).collect();
    let (least, greatest) = (most.iter().min(), most.iter().max());
    let unlike = least.zip(greatest).is_some_and(|(least, greatest)| (*least as f64) < NEAR * *greatest as f64);
    if !unlike || weighted > 0 || most.len() < ports.len() {
        return Ok(Vec::new());
    }
    let mut told = "links carry unlike rates, and have the same share of flows:".to_owned();
    for (at, port) in ports.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(told, "{comma} {} {}", port.name, gigabits(port.most()));
        if port.most() < port.speed {
            let _ = write!(told, " (its slot, of {})", gigabits(port.speed));
        }
    }
    let mode = if matches!(setup.mode, Mode::Lacp(_)) { "lacp" } else { "static" };
    let _ = write!(told, "; --bond {mode},weights={} spreads what is sent by what they carry", weights(ports));
    Ok(vec![told])
}

fn gigabits(bits: Option<u64>) -> String {
    bits.map_or_else(|| "an unknown rate".to_owned(), |bits| format!("{} Gbit/s", (bits as f64 / 1e8).round() / 10.0))
}

/// Weights by what ports carry, the greatest of them at most 100; 1 of one that is not known.
fn weights(ports: &[PortRates]) -> String {
    let most = ports.iter().filter_map(PortRates::most).max().unwrap_or(1).max(1) as f64;
    let weight = |port: &PortRates| port.most().map_or(1.0, |bits| (100.0 * bits as f64 / most).round().max(1.0));
    ports.iter().map(|port| weight(port).to_string()).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: u64 = 1_000_000_000;

    fn port(name: &str, speed: u64, slot: Option<u64>) -> PortRates {
        PortRates {
            name: name.to_owned(),
            speed: (speed > 0).then_some(speed * GBIT),
            slot: slot.map(|slot| slot * GBIT),
        }
    }

    fn judged(ports: &[PortRates], bond: &str) -> Result<Vec<String>, String> {
        judge_ports(ports, &bond.parse().unwrap())
    }

    #[test]
    fn a_slot_that_carries_less_than_its_link_is_told_with_weights() {
        let ports = [port("af_xdp:a", 100, Some(126)), port("af_xdp:b", 100, Some(63))];
        let told = judged(&ports, "lacp").unwrap();
        assert_eq!(
            told,
            [
                "links carry unlike rates, and have the same share of flows: af_xdp:a 100 Gbit/s, af_xdp:b 63 Gbit/s (its \
              slot, of 100 Gbit/s); --bond lacp,weights=100:63 spreads what is sent by what they carry"
            ]
        );
        assert_eq!(judged(&ports, "lacp,weights=100:63"), Ok(Vec::new()));
        let alike = [port("a", 100, Some(126)), port("b", 100, Some(252))];
        assert_eq!(judged(&alike, "static"), Ok(Vec::new()));
    }

    /// More links than there are never take part; and one link has nothing to weigh.
    #[test]
    fn what_can_never_hold_is_refused() {
        let ports = [port("a", 100, None), port("b", 100, None)];
        assert_eq!(judged(&ports, "static,min-links=2"), Ok(Vec::new()));
        let told = judged(&ports, "static,min-links=3").unwrap_err();
        assert_eq!(told, "--bond min-links=3 for 2 links: none would ever take part");
        assert!(judged(&ports[..1], "static,weights=5").unwrap_err().contains("there is one"));
        assert!(judged(&ports[..1], "lacp,min-links=2").unwrap_err().contains("for 1 link:"));
        assert_eq!(judged(&ports[..1], "lacp"), Ok(Vec::new()));
    }

    #[test]
    fn unlike_speeds_are_for_static_mode() {
        let ports = [port("a", 25, None), port("b", 100, None)];
        let refused = judged(&ports, "lacp").unwrap_err();
        assert!(
            refused.starts_with("LACP joins ports of one speed: a has 25 Gbit/s and b has 100 Gbit/s"),
            "{refused}"
        );
        assert!(refused.contains("static,weights=25:100"), "{refused}");
        assert!(judged(&ports, "static").unwrap()[0].contains("--bond static,weights=25:100"));
        // Of a port without a link, or in memory, nothing is said.
        assert_eq!(judged(&[port("a", 0, None), port("b", 100, None)], "lacp"), Ok(Vec::new()));
    }

    #[test]
    fn each_port_has_a_weight_or_none_has() {
        let ports = [port("a", 0, None), port("b", 0, None)];
        let refused = judged(&ports, "static,weights=1:2:3").unwrap_err();
        assert_eq!(refused, "--bond has 3 weights for 2 links: one for each, or none");
        assert_eq!(judged(&ports, "static,weights=1:2"), Ok(Vec::new()));
    }
}
