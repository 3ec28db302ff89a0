//! The interface that requests go by, and how full it is.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::fs;
use std::path::Path;

/// What an interface carried until a moment (sysfs-class-net-statistics).
#[derive(Clone, Debug)]
pub struct PortCount {
    name: String,
    sent: u64,
    received: u64,
}

impl PortCount {
    /// Of this interface, as it is now.
    #[must_use]
    pub fn now(name: &str) -> Option<Self> {
        let number = |file: &str| read(&format!("/sys/class/net/{name}/statistics/{file}"))?.parse().ok();
        Some(Self { name: name.to_owned(), sent: number("tx_bytes")?, received: number("rx_bytes")? })
    }

    /// The same interface now.
    #[must_use]
    pub fn again(&self) -> Option<Self> {
        Self::now(&self.name)
    }

    /// What it carried since `earlier`: its frames, whoever's.
    #[must_use]
    pub fn since(&self, earlier: &Self, span: Duration) -> load::PortUse {
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8.0 / span.as_secs_f64().max(1e-9);
        load::PortUse {
            name: self.name.clone(),
            speed: speed(Path::new("/sys/class/net"), &self.name),
            sent: rate(self.sent, earlier.sent),
            received: rate(self.received, earlier.received),
        }
    }
}

/// The speed of an interface in bits per second, where it is a wire's: a device's own, or that of
/// interfaces that lie on devices alone (VLANs, bonds). A veth says 10 Gbit/s, and a tap 10 Mbit/s,
/// which bound nothing (drivers/net/veth.c, drivers/net/tun.c); a bridge says its fastest port's.
fn speed(net: &Path, name: &str) -> Option<f64> {
    // In Mbit/s; an interface without a speed of its own has -1, or nothing.
    let speed: i64 = fs::read_to_string(net.join(name).join("speed")).ok()?.trim().parse().ok()?;
    (speed > 0 && is_wired(net, name, 0)).then_some(speed as f64 * 1e6)
}

/// How deep interfaces are looked for below interfaces: a VLAN on a VLAN on a bond on ports.
const DEPTH: u32 = 4;

fn is_wired(net: &Path, name: &str, depth: u32) -> bool {
    let folder = net.join(name);
    if folder.join("device").exists() {
        return true;
    }
    if depth >= DEPTH || folder.join("bridge").exists() {
        return false;
    }
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let lower: Vec<String> = names.filter_map(|name| name.strip_prefix("lower_").map(str::to_owned)).collect();
    !lower.is_empty() && lower.iter().all(|lower| is_wired(net, lower, depth + 1))
}

/// The interface of a link by its name, as `af_xdp:eth0`: others have none that the kernel counts.
#[must_use]
pub fn of_link(link: &str) -> Option<String> {
    let name = link.strip_prefix("af_xdp:")?;
    Some(name.split([',', '/']).next().unwrap_or(name).to_owned())
}

/// The interface that leads to an address, by the kernel's main table; none for addresses of this
/// host, which no wire carries.
#[must_use]
pub fn towards(address: IpAddr) -> Option<String> {
    // Only what is this host's own can be bound to.
    if std::net::UdpSocket::bind((address, 0)).is_ok() {
        return None;
    }
    match address {
        IpAddr::V4(v4) => by_table(&read("/proc/net/route")?, v4),
        IpAddr::V6(v6) => by_table_v6(&read("/proc/net/ipv6_route")?, v6),
    }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// `/proc/net/route`: interface, destination, gateway, flags, …, mask, in hexadecimal as this
/// machine's memory has them.
fn by_table(text: &str, address: Ipv4Addr) -> Option<String> {
    let address = u32::from_ne_bytes(address.octets());
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let (destination, flags, mask) = (number(1)?, number(3)?, number(7)?);
        // RTF_UP.
        (flags & 1 == 1 && address & mask == destination).then(|| (mask.count_ones(), fields[0].to_owned()))
    };
    text.lines().skip(1).filter_map(row).max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

/// `/proc/net/ipv6_route`: destination, its length, source, its length, next hop, metric, …, flags,
/// interface. Addresses of this host are there, too, by `lo`.
fn by_table_v6(text: &str, address: Ipv6Addr) -> Option<String> {
    let address = u128::from(address);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let destination = u128::from_str_radix(fields.first()?, 16).ok()?;
        let length = u32::from_str_radix(fields.get(1)?, 16).ok().filter(|length| *length <= 128)?;
        let flags = u32::from_str_radix(fields.get(8)?, 16).ok()?;
        let mask = if length == 0 { 0 } else { u128::MAX << (128 - length) };
        // RTF_UP, and not RTF_REJECT.
        let usable = flags & 0x201 == 1 && address & mask == destination & mask;
        usable.then(|| fields.get(9).map(|name| (length, (*name).to_owned()))).flatten()
    };
    let best = text.lines().filter_map(row).max_by_key(|(length, _)| *length);
    best.map(|(_, name)| name).filter(|name| name != "lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_leads() {
        let route = |name: &str, to: [u8; 4], mask: [u8; 4], flags: &str| {
            let hex = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
            format!("{name}\t{}\t00000000\t{flags}\t0\t0\t0\t{}\t0\t0\t0\n", hex(to), hex(mask))
        };
        let text = "Iface\tDestination\n".to_owned()
            + &route("eth0", [0; 4], [0; 4], "0003")
            + &route("eth1", [10, 0, 0, 0], [255, 0, 0, 0], "0001")
            + &route("eth2", [10, 9, 0, 0], [255, 255, 0, 0], "0000");
        let to = |text: &str, address: [u8; 4]| by_table(text, address.into());
        assert_eq!(to(&text, [10, 9, 0, 1]).as_deref(), Some("eth1"), "the other is down");
        assert_eq!(to(&text, [192, 0, 2, 1]).as_deref(), Some("eth0"));
        assert_eq!((to("", [10, 0, 0, 1]), to("a\nb c\n\0\tx\n", [10, 0, 0, 1])), (None, None));
        let line = |destination: &str, length: &str, flags: &str, name: &str| {
            format!("{destination} {length} {:032} 00 {:032} 00000400 00000001 00000000 {flags} {name}\n", 0, 0)
        };
        let text = line("fd000000000000000000000000000000", "40", "00000001", "eth0")
            + &line("fd000000000000000000000000000007", "80", "80200001", "lo")
            + &line("00000000000000000000000000000000", "00", "00200200", "lo");
        let to = |address: &str| by_table_v6(&text, address.parse().expect("an address"));
        assert_eq!((to("fd00::1").as_deref(), to("fd00::7"), to("fe80::1")), (Some("eth0"), None, None));
        assert_eq!(by_table_v6("x\n1 2\nfd 999 0 0 0 0 0 0 1 e\n", Ipv6Addr::LOCALHOST), None);
    }

    #[test]
    fn links_have_the_interface_of_their_name() {
        assert_eq!(of_link("af_xdp:eth0,queues=2").as_deref(), Some("eth0"));
        assert_eq!(towards([127, 0, 0, 1].into()), None, "no wire carries it");
        assert_eq!((of_link("memif:/run/x.sock"), of_link("tap:near0")), (None, None));
    }

    #[test]
    fn speeds_are_those_of_wires() {
        let net = std::env::temp_dir().join(format!("nearside-speeds-{}", std::process::id()));
        let put = |name: &str, speed: &str, beside: &[&str]| {
            fs::create_dir_all(net.join(name)).expect("a folder");
            fs::write(net.join(name).join("speed"), speed).expect("a file");
            beside.iter().for_each(|other| fs::create_dir_all(net.join(name).join(other)).expect("a folder"));
        };
        put("eth0", "25000\n", &["device"]);
        put("eth1", "-1\n", &["device"]);
        put("veth0", "10000\n", &[]);
        put("bond0", "50000\n", &["bonding", "lower_eth0", "lower_eth1"]);
        put("bond0.7", "50000\n", &["lower_bond0"]);
        put("br0", "25000\n", &["bridge", "lower_eth0"]);
        put("team0", "20000\n", &["lower_eth0", "lower_veth0"]);
        put("loop0", "1000\n", &["lower_loop0"]);
        let of = |name: &str| speed(&net, name);
        assert_eq!((of("eth0"), of("bond0"), of("bond0.7")), (Some(25e9), Some(50e9), Some(50e9)));
        for name in ["eth1", "veth0", "br0", "team0", "loop0", "none"] {
            assert_eq!(of(name), None, "{name}");
        }
        fs::remove_dir_all(net).expect("it was made");
    }

    #[test]
    fn this_hosts_loopback_counts() {
        let before = PortCount::now("lo").expect("every host has one");
        let later = PortCount { sent: before.sent + 125, received: before.received, ..before.clone() };
        let used = later.since(&before, Duration::from_micros(1));
        assert_eq!((used.sent, used.received, used.speed), (1e9, 0.0, None));
        assert!(PortCount::now("nothing/../..").is_none());
    }
}
