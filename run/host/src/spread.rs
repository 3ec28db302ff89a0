//! How the links spread frames over their queues: where they do by flow and
//! by a key that no stranger knows, nothing need be spread in software.

use crate::plan::HostPlan;
use core::ops::Range;
use steer::{Rss, Spread};

/// How the links of a plan, which have so many queues, spread frames, as far as
/// that is known now. Where they might have spread by flow, also why they are not
/// taken to.
pub fn spread(host: &HostPlan, queues: &[u16]) -> (Spread, Option<String>) {
    // The peer's silos have a queue each, or the kernel keeps a flow in the queue
    // that it was last sent from (tun_automq_select_queue).
    if host.links.iter().any(|link| !link.driver.kind().spreads) {
        return (Spread::Peer, None);
    }
    if host.opens_any() && host.links.len() > 1 {
        return (Spread::Unknown, Some("answers come by the port that the other side chooses".to_owned()));
    }
    // One queue has nothing to spread, and nobody is asked about it.
    for (link, count) in host.links.iter().zip(queues).filter(|(_, count)| **count >= 2) {
        let first = link.driver.first_queue();
        let queues = first..first.saturating_add(*count);
        if let Err(why) = link.driver.spread().and_then(|rss| judge(&rss, &queues, families(host))) {
            return (Spread::Unknown, Some(format!("{}: {why}", link.name())));
        }
    }
    (Spread::Keyed, None)
}

/// Families of addresses whose flows are to be spread: IPv4 and IPv6.
fn families(host: &HostPlan) -> [bool; 2] {
    let any = |v4: bool| host.addresses.is_empty() || host.addresses.iter().any(|cidr| cidr.address.is_ipv4() == v4);
    [any(true), any(false)]
}

/// Whether a port that spreads so spreads connections over all of its queues,
/// and keeps each in one.
fn judge(rss: &Rss, queues: &Range<u16>, [v4, v6]: [bool; 2]) -> Result<(), String> {
    for (wanted, has, name, flow) in [(v4, rss.ports_v4, "IPv4", "tcp4"), (v6, rss.ports_v6, "IPv6", "tcp6")] {
        if wanted && !has {
            return Err(format!(
                "it does not spread TCP over {name} by ports: ethtool -N NAME rx-flow-hash {flow} sdfn"
            ));
        }
    }
    if !rss.table.len().is_power_of_two() {
        return Err(format!("its indirection table has {} entries, which is no power of two", rss.table.len()));
    }
    match queues.clone().find(|queue| !rss.table.contains(queue)) {
        None => Ok(()),
        Some(queue) => {
            Err(format!("its indirection table leaves out queue {queue}: ethtool -X NAME equal {}", queues.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::LinkSpec;
    use core::net::SocketAddr;
    use stack::ReturnPath;
    use steer::ReturnQueue;

    /// What the driver of a NIC with four queues tells.
    fn ours(queues: u16) -> dpdk::Rss {
        let key = [0x6d, 0x5a].repeat(26);
        dpdk::Rss { key, ours: true, reta: (0..128).map(|at| at % queues).collect(), tcp_v4: true, tcp_v6: true }
    }

    fn facts(rss: Option<dpdk::Rss>) -> dpdk::Facts {
        dpdk::Facts {
            driver: "net_ice".to_owned(),
            mac: wire::Mac([2; 6]),
            queues: 4,
            rx_descriptors: 512,
            tx_descriptors: 512,
            domain: None,
            receive_checksum: true,
            transmit_checksum: true,
            segmentation: None,
            vlan_strip: false,
            promiscuous: false,
            interrupts: false,
            rss,
            stamps: None,
        }
    }

    #[test]
    fn ports_with_one_queue_are_not_asked() {
        let of = |text: &str, queues| {
            let link = LinkSpec::parse(text, driver::Role::Server).unwrap();
            spread(&HostPlan::new(vec![link]), &[queues])
        };
        // There is no such interface: who asks about it learns that.
        assert_eq!(of("af_xdp:nearside-none", 1), (Spread::Keyed, None));
        let (spread, why) = of("af_xdp:nearside-none", 2);
        assert_eq!(spread, Spread::Unknown);
        assert!(why.unwrap().contains("does not tell"));
        assert_eq!(of("memif:/run/x.sock", 2), (Spread::Peer, None));
    }

    #[test]
    fn a_port_with_our_key_spreads_by_flow() {
        let rss = facts(Some(ours(4))).spread().unwrap();
        assert_eq!(judge(&rss, &(0..4), [true, true]), Ok(()));
        // The queue of a flow is the one that answers to its mirror image are
        // asked for through: the symmetric key.
        let silos: Vec<ReturnQueue> = (0..4).map(|queue| ReturnQueue::rss(&rss, &[queue]).unwrap()).collect();
        for port in 10_000..10_200 {
            let (remote, local) = (SocketAddr::from(([10, 0, 0, 2], 80)), SocketAddr::from(([10, 0, 0, 1], port)));
            let of = |remote, local| silos.iter().position(|silo| silo.returns_here(remote, local));
            assert_eq!(of(remote, local), of(local, remote));
            assert_eq!(silos.iter().filter(|silo| silo.returns_here(remote, local)).count(), 1);
        }
    }

    #[test]
    fn what_is_not_spread_by_flow_says_why() {
        let refused =
            |rss, queues, families| facts(rss).spread().and_then(|rss| judge(&rss, &queues, families)).unwrap_err();
        let with = |change: fn(&mut dpdk::Rss)| {
            let mut rss = ours(4);
            change(&mut rss);
            Some(rss)
        };
        let both = [true, true];
        for (rss, queues, why) in [
            (None, 0..4, "does not tell"),
            (with(|rss| rss.ours = false), 0..4, "no secret"),
            (with(|rss| rss.tcp_v4 = false), 0..4, "tcp4 sdfn"),
            (with(|rss| rss.tcp_v6 = false), 0..4, "tcp6 sdfn"),
            (with(|rss| rss.reta.truncate(100)), 0..4, "100 entries"),
            (with(|rss| rss.reta.clear()), 0..4, "0 entries"),
            (Some(ours(3)), 0..4, "leaves out queue 3"),
            (Some(ours(4)), 2..6, "leaves out queue 4"),
        ] {
            let said = refused(rss, queues, both);
            assert!(said.contains(why), "{said}");
        }
        // What is not served need not be spread.
        let four = facts(with(|rss| rss.tcp_v6 = false)).spread().unwrap();
        assert_eq!(judge(&four, &(0..4), [true, false]), Ok(()));
    }
}
