//! The kernel's network interfaces, from sysfs.

use super::ethtool::Abilities;
use stamping::Features;
use std::path::Path;
use sysroot::Sysroot;

/// ARPHRD_ETHER: what carries Ethernet frames.
const ETHERNET: &str = "1";

const FOLDER: &str = "sys/class/net";

/// No file that is looked at is longer.
const FILE_LIMIT: u64 = 1 << 16;

/// An Ethernet interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// The driver of its device; of virtual ones what the driver calls itself.
    pub driver: Option<String>,
    /// As the kernel names it: up, down, unknown.
    pub state: String,
    /// Megabits per second, while there is a carrier.
    pub speed_mbps: Option<u64>,
    /// The NUMA domain of its slot.
    pub domain: Option<u32>,
    /// Largest IP packet.
    pub mtu: u32,
    /// Receive queues.
    pub queues: u32,
    /// The bond or bridge that it is a member of.
    pub master: Option<String>,
    /// What its driver tells.
    pub abilities: Abilities,
    /// What the kernel tells of XDP; `None`: nothing.
    pub xdp: Option<Features>,
}

/// The Ethernet interfaces below `root`, by name.
pub fn read(root: &Path) -> Vec<Interface> {
    let root = Sysroot::at(root);
    let names = root.names(FOLDER).unwrap_or_default().into_iter();
    names.filter_map(|name| interface(&root, name)).collect()
}

fn interface(root: &Sysroot, name: String) -> Option<Interface> {
    let folder = format!("{FOLDER}/{name}");
    let text = |file: &str| Some(root.text(&format!("{folder}/{file}"), FILE_LIMIT).ok()?.trim().to_owned());
    let target = |file: &str| {
        let target = root.link(&format!("{folder}/{file}")).ok()?;
        Some(Path::new(&target).file_name()?.to_string_lossy().into_owned())
    };
    if text("type")? != ETHERNET {
        return None;
    }
    let queues = root.names(&format!("{folder}/queues")).unwrap_or_default();
    let queues = queues.iter().filter(|name| name.starts_with("rx-")).count();
    Some(Interface {
        index: text("ifindex").and_then(|text| text.parse().ok()).unwrap_or(0),
        driver: target("device/driver"),
        state: text("operstate").unwrap_or_else(|| "unknown".to_owned()),
        // -1 without a carrier; an error while down.
        speed_mbps: text("speed").and_then(|text| text.parse().ok()),
        // -1 where the machine has one domain.
        domain: text("device/numa_node").and_then(|text| text.parse().ok()),
        mtu: text("mtu").and_then(|text| text.parse().ok()).unwrap_or(0),
        queues: u32::try_from(queues).unwrap_or(u32::MAX),
        master: target("master"),
        abilities: Abilities::default(),
        xdp: None,
        name,
    })
}
