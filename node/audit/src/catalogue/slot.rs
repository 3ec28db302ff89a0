//! The slot of an interface: what it leaves room for, and how large its
//! packets are; and where its packets land in the cache.

use crate::rule::{Area, Judge, Reading, Roles, Rule, Verdict};
use crate::{Case, Evidence, Finding};

use super::memory::one;
use Judge::By;
use Verdict::Improvable;

const NET: &str = "sys/class/net";
const PCIE: &str = "PCI Express Base Specification, section 7.5.3 (PCI Express Capability Structure)";

pub(super) const RULES: &[Rule] = &[
    Rule::each(
        Area::Nic,
        "room of the slot",
        room,
        By(enough),
        "What the slot carries each way, after its line code, beside the port's rate. Headers of PCIe and descriptors \
         take another fifth of it for full frames, and more than half for the smallest.",
    )
    .gain("the port's rate")
    .risk("none")
    .undo("another slot, or the firmware's settings")
    .source("PCI Express Base Specification, section 4.2 (8b/10b, 128b/130b)"),
    Rule::each(
        Area::Nic,
        "payload of the slot",
        payload,
        By(payload_size),
        "How many bytes a packet of PCIe carries at most (MPS), and a read asks for (MRRS). The smallest size of a \
         path counts; the kernel chooses it (pci=pcie_bus_safe, pcie_bus_perf).",
    )
    .gain("some per cent of the slot's room for each doubling; a read of 4 KB is one request instead of eight")
    .risk("a size that a switch on the way does not take is a lost device")
    .undo("pci=pcie_bus_default, and boot")
    .source(PCIE),
    Rule::each(
        Area::Nic,
        "flow rules",
        |evidence| {
            let told = |name: &&str| {
                let value = evidence.get(&format!("ethtool/{name}/flow rules"))?;
                Some(Reading { subject: (*name).to_owned(), value: Ok(value.to_owned()) })
            };
            evidence.names("ethtool").iter().filter_map(told).collect()
        },
        By(rules),
        "Rules by which the interface steers flows to queues (ntuple): they come before the spreading by hash. One \
         that somebody left sends its flows past the silos.",
    )
    .gain("flows at the queue of their silo")
    .risk("connections that are in flight move to another queue")
    .undo("ethtool -N with the rules that ethtool -n showed")
    .source("man 8 ethtool, --config-nfc"),
    Rule::each(
        Area::Processor,
        "cache that devices write to",
        |evidence| {
            let ways = evidence.get("sys/fs/resctrl/info/L3/shareable_bits");
            let all = evidence.get("sys/fs/resctrl/info/L3/cbm_mask");
            one("L3", ways.zip(all).map(|(ways, all)| format!("{ways} of {all}")))
        },
        By(device_ways),
        "Ways of the last-level cache that devices write packets to (DDIO). More packets in rings than these ways \
         hold go to memory and come back: rings times buffers, of all ports of the socket, is what must fit.",
    )
    .roles(Roles::POLLING)
    .gain("a miss of the last level less for each packet")
    .risk("ways that silos share with devices are lost to them")
    .undo("write the schemata back that the group had")
    .source("Linux Documentation/filesystems/resctrl.rst, shareable_bits"),
];

fn number(evidence: &Evidence, interface: &str, file: &str) -> Option<f64> {
    evidence.get(&format!("{NET}/{interface}/{file}"))?.split_whitespace().next()?.parse().ok()
}

/// Gbit/s of the slot and of the port.
fn room(evidence: &Evidence) -> Vec<Reading> {
    let reading = |name: &&str| {
        let transfers = number(evidence, name, "device/current_link_speed")?;
        let lanes = number(evidence, name, "device/current_link_width").filter(|lanes| *lanes >= 1.0)?;
        let port = number(evidence, name, "speed").filter(|speed| *speed > 0.0)?;
        // Eight bits take ten on the line up to 5 GT/s, from 8 on 128 take 130.
        let code = if transfers < 8.0 { 0.8 } else { 128.0 / 130.0 };
        let slot = transfers * lanes * code;
        let value = format!("{slot:.1} Gbit/s for a port of {:.1}", port / 1_000.0);
        Some(Reading { subject: (*name).to_owned(), value: Ok(value) })
    };
    evidence.interfaces().iter().filter_map(reading).collect()
}

fn enough(case: &Case<'_>) -> Finding {
    let numbers: Vec<f64> = case.value.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [slot, port] = numbers.as_slice() else { return Finding::new(Verdict::Unreadable, "is no rate") };
    match slot / port {
        // What headers and descriptors take of full frames.
        share if share < 1.2 => {
            Finding::new(Improvable, "the slot is narrower than the port with its headers: it is the limit")
                .want("a slot with more lanes, or of a later generation")
        }
        share if share < 2.0 => Finding::ok("enough for full frames; small ones may come up against the slot"),
        _ => Finding::ok("enough, for small frames too"),
    }
}

/// Bytes of a device's configuration as hexadecimal digits.
fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks_exact(2).filter_map(pair).collect()
}

/// Sizes in use, and the most that the device can, from its PCI Express
/// capability: `payload 256 of 512, reads 512`.
fn sizes(config: &[u8]) -> Option<String> {
    const EXPRESS: u8 = 0x10;
    const LIST: usize = 0x34;
    let word = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
    let mut at = usize::from(*config.get(LIST)? & 0xfc);
    // A list that leads back into itself ends, too.
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        if *config.get(at)? == EXPRESS {
            let (can, control) = (word(at + 4)? & 7, word(at + 8)?);
            let size = |code: u16| 128_u32 << (code & 7);
            let (payload, reads) = (size(control >> 5), size(control >> 12));
            return Some(format!("payload {payload} of {}, reads {reads}", size(can)));
        }
        at = usize::from(*config.get(at + 1)? & 0xfc);
    }
    None
}

fn payload(evidence: &Evidence) -> Vec<Reading> {
    let reading = |name: &&str| {
        let text = evidence.get(&format!("{NET}/{name}/device/config"))?;
        let config = bytes(text);
        // Who is not root sees the first 64 bytes, which name no capability.
        let value = match config.len() {
            0..=64 => Err("only root reads a device's configuration beyond 64 bytes".to_owned()),
            _ => Ok(sizes(&config)?),
        };
        Some(Reading { subject: (*name).to_owned(), value })
    };
    evidence.interfaces().iter().filter_map(reading).collect()
}

fn payload_size(case: &Case<'_>) -> Finding {
    let text = case.value.replace(',', " ");
    let numbers: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [payload, most, reads] = numbers.as_slice() else { return Finding::new(Verdict::Unreadable, "are no sizes") };
    let port = number(case.evidence, case.subject, "speed").unwrap_or(0.0);
    if case.evidence.virtual_machine() {
        return Finding::ok("of a virtual slot: no wire has packets of that size");
    }
    match (payload < most, *reads < 512) {
        (true, _) if *payload < 256 && port >= 25_000.0 => {
            Finding::new(Improvable, format!("{payload} bytes a packet: a sixth of the slot is headers"))
                .want("pci=pcie_bus_perf on the command line, if all of the path can more")
        }
        (_, true) if port >= 25_000.0 => {
            Finding::new(Improvable, format!("reads of {reads} bytes: a full frame takes several"))
                .want("reads of 512 or more")
        }
        _ => Finding::ok("large enough for the port"),
    }
}

fn rules(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::ok("none: flows are spread by hash"),
        Some(count) if case.role.polls() => Finding::new(
            Improvable,
            format!(
                "{count} rules come before the spreading: see whether each leads to a silo (ethtool -n {})",
                case.subject
            ),
        ),
        Some(count) => Finding::ok(format!("{count} rules come before the spreading by hash")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn device_ways(case: &Case<'_>) -> Finding {
    let mask = |text: &str| u64::from_str_radix(text.trim(), 16).ok();
    let (ways, all) = case.value.split_once(" of ").map_or((None, None), |(ways, all)| (mask(ways), mask(all)));
    match (ways, all) {
        (Some(0), Some(_)) => Finding::ok("none apart: devices write to memory, or the processor does not say"),
        (Some(ways), Some(all)) => Finding::ok(format!(
            "{} of {} ways: leave them out of what silos have for themselves",
            ways.count_ones(),
            all.count_ones()
        )),
        _ => Finding::new(Verdict::Unreadable, "is no mask of ways"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, find};

    fn one_of(evidence: &Evidence, key: &str, role: Role) -> (String, Verdict) {
        let rule = find(key).expect(key);
        let reading = rule.read(evidence).into_iter().next().expect("a reading");
        let value = reading.value.expect("a value");
        let case = Case { value: &value, subject: &reading.subject, advised: false, role, evidence, others: &[] };
        let verdict = rule.judge(&case).verdict;
        (value, verdict)
    }

    fn port(transfers: &str, lanes: &str, speed: &str) -> Evidence {
        Evidence::of(&[
            ("sys/class/net/eth0/device/current_link_speed", transfers),
            ("sys/class/net/eth0/device/current_link_width", lanes),
            ("sys/class/net/eth0/speed", speed),
        ])
    }

    #[test]
    fn a_slot_is_held_against_its_port() {
        let of = |evidence: &Evidence| one_of(evidence, "room of the slot", Role::Web);
        assert_eq!(
            of(&port("8.0 GT/s PCIe", "8", "100000")),
            ("63.0 Gbit/s for a port of 100.0".to_owned(), Improvable)
        );
        assert_eq!(of(&port("16.0 GT/s PCIe", "16", "100000")).1, Verdict::Ok);
        assert_eq!(of(&port("2.5 GT/s PCIe", "1", "1000")), ("2.0 Gbit/s for a port of 1.0".to_owned(), Verdict::Ok));
        // What is not told is no row: a virtual slot, a port without a cable.
        let rule = find("room of the slot").expect("a rule");
        assert_eq!(rule.read(&port("Unknown", "0", "-1")), []);
    }

    /// A configuration with power management at 0x40, and PCI Express at 0x60.
    fn config(capable: u8, control: u16) -> String {
        let mut bytes = vec![0_u8; 256];
        (bytes[0x34], bytes[0x40], bytes[0x41], bytes[0x60]) = (0x40, 1, 0x60, 0x10);
        bytes[0x64] = capable;
        bytes[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn payload_sizes_are_read_from_the_devices_capability() {
        let of = |config: &str, speed: &str| {
            let evidence = port("8.0 GT/s", "8", speed).with("sys/class/net/eth0/device/config", config);
            one_of(&evidence, "payload of the slot", Role::Web)
        };
        // 512 can be had, 128 is in use, reads of 512.
        assert_eq!(of(&config(2, 0x2000), "100000"), ("payload 128 of 512, reads 512".to_owned(), Improvable));
        assert_eq!(of(&config(1, 0x2020), "100000"), ("payload 256 of 256, reads 512".to_owned(), Verdict::Ok));
        assert_eq!(of(&config(2, 0x2000), "1000").1, Verdict::Ok);
        // Lists that end nowhere, or come back, have none.
        let mut circle = vec![0_u8; 128];
        (circle[0x34], circle[0x40], circle[0x41]) = (0x40, 1, 0x40);
        assert_eq!(sizes(&circle), None);
        assert_eq!(sizes(&[0xff; 70]), None);
        assert_eq!(bytes("zz1"), []);
    }

    #[test]
    fn rules_left_on_a_port_are_told_to_who_polls() {
        let evidence = Evidence::of(&[("ethtool/eth0/flow rules", "2")]);
        assert_eq!(one_of(&evidence, "flow rules", Role::Web).1, Improvable);
        assert_eq!(one_of(&evidence, "flow rules", Role::Load).1, Verdict::Ok);
        let cache = Evidence::of(&[
            ("sys/fs/resctrl/info/L3/shareable_bits", "600"),
            ("sys/fs/resctrl/info/L3/cbm_mask", "7ff"),
        ]);
        assert_eq!(one_of(&cache, "cache that devices write to", Role::Web), ("600 of 7ff".to_owned(), Verdict::Ok));
    }
}
