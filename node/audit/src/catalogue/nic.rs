//! Network interfaces, as far as sysfs tells of them.

use crate::rule::{Area, Judge, Reading, Role, Rule, Verdict};
use crate::{Case, Evidence, Finding};

use Judge::{By, NoEffect};
use Verdict::{Improvable, Unnecessary, WorseThanDefault};

const NET: &str = "sys/class/net";
const SYSFS: &str = "Linux Documentation/ABI/testing/sysfs-class-net";
const STATISTICS: &str = "Linux Documentation/networking/statistics.rst";
const NAPI: &str = "Linux Documentation/networking/napi.rst";

const fn each(key: &'static str, probe: fn(&Evidence) -> Vec<Reading>, judge: Judge, explain: &'static str) -> Rule {
    Rule::each(Area::Nic, key, probe, judge, explain).source(SYSFS)
}

pub(super) const RULES: &[Rule] = &[
    each(
        "MTU",
        |evidence| files(evidence, "mtu"),
        By(mtu),
        "Largest packet. 9,000 saves work for each byte within one network where everybody has it, and breaks \
            connections \
         where somebody has not; towards the Internet 1,500 is what arrives.",
    )
    .risk("packets lost in silence where a neighbour has a smaller one")
    .source("RFC 894; RFC 8201"),
    each(
        "link speed",
        |evidence| files(evidence, "speed"),
        By(speed),
        "What the interface and its peer agreed on, in Mbit/s.",
    ),
    each(
        "duplex",
        |evidence| files(evidence, "duplex"),
        By(duplex),
        "Half duplex is what a failed negotiation ends in: collisions, a hundredth of the rate.",
    )
    .gain("the link's own rate")
    .source("IEEE 802.3 clause 28"),
    each(
        "link changes",
        |evidence| files(evidence, "carrier_changes"),
        By(carrier_changes),
        "How often the link came and went since boot: a cable, an optic, or a port that sleeps.",
    ),
    each(
        "received errors",
        |evidence| files(evidence, "statistics/rx_errors"),
        By(errors),
        "Frames that came damaged: cable, optic, or FEC that does not fit.",
    )
    .source(STATISTICS),
    each(
        "received without room",
        missed,
        By(no_room),
        "Packets that the interface had no descriptor for: the ring was full, as nobody emptied it in time. A \
            larger ring \
         holds a longer burst and more cache.",
    )
    .gain("no loss in bursts")
    .risk("a ring larger than the cache is slower for every packet")
    .source(STATISTICS),
    each(
        "received and dropped",
        |evidence| files(evidence, "statistics/rx_dropped"),
        By(dropped),
        "Packets that the kernel threw away: no protocol wanted them, or there was no memory.",
    )
    .source(STATISTICS),
    each(
        "sent with errors",
        |evidence| files(evidence, "statistics/tx_errors"),
        By(errors),
        "Packets that could not be sent.",
    )
    .source(STATISTICS),
    each(
        "dropped before sending",
        |evidence| files(evidence, "statistics/tx_dropped"),
        By(dropped),
        "Packets for which there was no room towards the wire.",
    )
    .source(STATISTICS),
    each(
        "transmit queue length",
        |evidence| files(evidence, "tx_queue_len"),
        By(tx_queue_len),
        "Packets that a plain queue discipline holds: 1,000. fq and fq_codel have limits of their own and ignore it.",
    )
    .source("man 8 ip-link"),
    each(
        "deferred interrupts",
        |evidence| files(evidence, "napi_defer_hard_irqs"),
        By(defer),
        "Polls without a packet before interrupts are turned on again; with gro_flush_timeout busy polling \
            programs do \
         without interrupts.",
    )
    .gain("no interrupts while a program polls")
    .source(NAPI),
    each(
        "GRO flush timeout",
        |evidence| files(evidence, "gro_flush_timeout"),
        By(flush_timeout),
        "Nanoseconds for which packets may wait to be joined, and interrupts stay off when they are deferred.",
    )
    .risk("each packet may wait for so long")
    .source(NAPI),
    each(
        "threaded NAPI",
        |evidence| files(evidence, "threaded"),
        By(threaded),
        "Polling by threads, which can be pinned and given a priority, rather than in softirqs.",
    )
    .gain("receiving on a core of one's choice")
    .risk("a task switch for each poll")
    .source(NAPI),
    each(
        "receive queues",
        |evidence| count(evidence, "rx-"),
        By(receive_queues),
        "Queues that the interface spreads packets over: as many as workers or silos is right.",
    )
    .gain("no passing on between cores")
    .source("Linux Documentation/networking/scaling.rst"),
    each(
        "transmit queues",
        |evidence| count(evidence, "tx-"),
        By(transmit_queues),
        "Queues to send by: one for each core spares them each other's lock.",
    )
    .source("Linux Documentation/networking/scaling.rst"),
    each(
        "byte queue limits",
        |evidence| files_of_queues(evidence, "byte_queue_limits/limit_max"),
        By(queue_limits),
        "The most bytes in a transmit ring, which the kernel finds by itself: it keeps queues short.",
    )
    .source("Linux Documentation/ABI/testing/sysfs-class-net-queues"),
    each(
        "memory domain of the interface",
        |evidence| files(evidence, "device/numa_node"),
        By(domain),
        "The domain that the device is attached to: its silos, rings and memory belong there (nearside serve \
            --plan).",
    )
    .gain("a third to a half of the latency of a miss for each packet, and the links between sockets")
    .source("Linux Documentation/ABI/testing/sysfs-bus-pci"),
    each(
        "PCIe speed",
        |evidence| files(evidence, "device/current_link_speed"),
        By(pcie_speed),
        "What the slot gives, compared with what the device can do.",
    )
    .gain("the port's rate: 100 Gbit/s take 16 lanes of PCIe 3 or 8 of PCIe 4")
    .undo("another slot, or the firmware's settings")
    .source("PCI Express Base Specification, Link Status Register"),
    each(
        "PCIe width",
        |evidence| files(evidence, "device/current_link_width"),
        By(pcie_width),
        "Lanes in use, compared with what the device has.",
    )
    .gain("the port's rate: 100 Gbit/s take 16 lanes of PCIe 3 or 8 of PCIe 4")
    .undo("another slot, or the firmware's settings")
    .source("PCI Express Base Specification, Link Status Register"),
    Rule::file(
        Area::Nic,
        "PCIe power saving",
        "sys/module/pcie_aspm/parameters/policy",
        By(aspm),
        "ASPM lets links sleep between packets: microseconds for the first one after a pause.",
    )
    .gain("up to some 10 us for a packet after a pause")
    .risk("a few watts")
    .source("Linux Documentation/admin-guide/kernel-parameters.txt, pcie_aspm"),
    each(
        "device power saving",
        |evidence| files(evidence, "device/power/control"),
        By(device_power),
        "Whether the device may be put to sleep while it is idle.",
    )
    .source("Linux Documentation/ABI/testing/sysfs-devices-power"),
    each(
        "virtual functions",
        |evidence| files(evidence, "device/sriov_numvfs"),
        NoEffect("functions for guests and pods: each has queues of its own, and takes some of the port's"),
        "SR-IOV functions that are made.",
    )
    .source("Linux Documentation/PCI/pci-iov-howto.rst"),
    each(
        "virtual interface",
        virtual_kind,
        By(virtual_interface),
        "A virtual interface has another program at its other end: what is measured over it is that program too.",
    )
    .source("Linux Documentation/ABI/testing/sysfs-class-net, device"),
];

/// A file of each interface.
fn files(evidence: &Evidence, file: &str) -> Vec<Reading> {
    let reading = |name: &&str| {
        let value = evidence.read(&format!("{NET}/{name}/{file}"))?;
        Some(Reading { subject: (*name).to_owned(), value: value.map(str::to_owned).map_err(str::to_owned) })
    };
    evidence.interfaces().iter().filter_map(reading).collect()
}

/// The file of each interface's first transmit queue: they are alike.
fn files_of_queues(evidence: &Evidence, file: &str) -> Vec<Reading> {
    files(evidence, &format!("queues/tx-0/{file}"))
}

fn count(evidence: &Evidence, kind: &str) -> Vec<Reading> {
    let reading = |name: &&str| {
        let queues = evidence.names(&format!("{NET}/{name}/queues"));
        let number = queues.iter().filter(|queue| queue.starts_with(kind)).count();
        (number > 0).then(|| Reading { subject: (*name).to_owned(), value: Ok(number.to_string()) })
    };
    evidence.interfaces().iter().filter_map(reading).collect()
}

/// What the interface received, for a share of it.
fn statistic(case: &Case<'_>, name: &str) -> u64 {
    let path = format!("{NET}/{}/statistics/{name}", case.subject);
    case.evidence.get(&path).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Whether it stands for a device, rather than being one end of a program's.
pub(super) fn is_device(evidence: &Evidence, name: &str) -> bool {
    !evidence.names(&format!("{NET}/{name}/device")).is_empty()
}

fn mtu(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(mtu) if mtu < 1_280 => {
            Finding::new(WorseThanDefault, "below what IPv6 needs (RFC 8200 section 5)").want("1500")
        }
        Some(mtu) if mtu < 1_500 => Finding::ok("a tunnel's, or a link of that kind"),
        Some(1_500) => Finding::ok("what every path takes"),
        Some(mtu) => Finding::ok(format!(
            "{mtu}: see that all neighbours have it; af_xdp needs several buffers for a packet then"
        )),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn speed(case: &Case<'_>) -> Finding {
    match case.value.parse::<i64>() {
        Ok(speed) if speed < 1 => Finding::ok("does not say: a virtual interface, or a link that is down"),
        Ok(speed) if speed < 1_000 => {
            Finding::new(Improvable, format!("{speed} Mbit/s: a failed negotiation, or a bad cable"))
                .want("1000 or more")
        }
        Ok(speed) => Finding::ok(format!("{speed} Mbit/s")),
        Err(_) => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn duplex(case: &Case<'_>) -> Finding {
    match case.value {
        "half" => Finding::new(WorseThanDefault, "a failed negotiation: collisions").want("full"),
        "full" => Finding::ok("both ways at once"),
        _ => Finding::ok("does not say"),
    }
}

fn carrier_changes(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(changes) if changes > 20 => {
            Finding::new(Improvable, format!("the link changed {changes} times since it is there"))
        }
        Some(changes) => Finding::ok(format!("{changes} changes since it is there")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn errors(case: &Case<'_>) -> Finding {
    let packets = statistic(case, "rx_packets").max(statistic(case, "tx_packets"));
    match case.number() {
        Some(0) => Finding::ok("none"),
        Some(errors) if errors.saturating_mul(1_000_000) < packets => {
            Finding::ok(format!("{errors} of {packets} packets"))
        }
        Some(errors) => Finding::new(Improvable, format!("{errors} of {packets} packets: cable, optic or peer")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

/// Where drivers count it, which differs.
fn missed(evidence: &Evidence) -> Vec<Reading> {
    let reading = |name: &&str| {
        let of = |file: &str| evidence.get(&format!("{NET}/{name}/statistics/{file}"))?.parse::<u64>().ok();
        let sum = [of("rx_missed_errors"), of("rx_fifo_errors"), of("rx_over_errors")].into_iter().flatten().max()?;
        Some(Reading { subject: (*name).to_owned(), value: Ok(sum.to_string()) })
    };
    evidence.interfaces().iter().filter_map(reading).collect()
}

fn no_room(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::ok("none"),
        Some(missed) => {
            let packets = statistic(case, "rx_packets");
            Finding::new(Improvable, format!("{missed} packets besides the {packets} that were received"))
                .want("a larger ring, or more queues")
        }
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn dropped(case: &Case<'_>) -> Finding {
    let packets = statistic(case, "rx_packets").max(statistic(case, "tx_packets"));
    match case.number() {
        Some(0) => Finding::ok("none"),
        Some(drops) if drops.saturating_mul(1_000) < packets => Finding::ok(format!("{drops} of {packets} packets")),
        Some(drops) => {
            Finding::new(Improvable, format!("{drops} of {packets} packets: see what for by nstat or dropwatch"))
        }
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn tx_queue_len(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(length) if length > 10_000 => {
            Finding::new(WorseThanDefault, "a queue of that length is latency").want("1000")
        }
        Some(1_000) => Finding::ok("the default"),
        Some(0) => Finding::ok("no queue, as for virtual interfaces"),
        Some(length) => Finding::new(Unnecessary, format!("{length}: only plain queue disciplines look at it")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn defer(case: &Case<'_>) -> Finding {
    let timeout = case.evidence.get(&format!("{NET}/{}/gro_flush_timeout", case.subject)).unwrap_or("0");
    match (case.value, timeout) {
        ("0", _) => Finding::ok("interrupts come back as soon as a poll finds nothing"),
        (_, "0") => Finding::new(Verdict::NoEffect, "without gro_flush_timeout interrupts come back at once"),
        _ => Finding::ok("interrupts stay off while a program polls"),
    }
}

fn flush_timeout(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::ok("packets are passed on at the end of each poll"),
        Some(nanos) if nanos > 200_000 => {
            Finding::new(WorseThanDefault, format!("packets may wait for {} us", nanos / 1_000)).want("20000")
        }
        Some(nanos) => Finding::ok(format!("packets may wait for {} us to be joined", nanos / 1_000)),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn threaded(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("softirqs poll"),
        _ => Finding::ok("threads poll: pin them away from silos and workers"),
    }
}

fn receive_queues(case: &Case<'_>) -> Finding {
    let cores = case.evidence.cores().len() as u64;
    match case.number() {
        Some(1) if cores >= 4 && is_device(case.evidence, case.subject) => Finding::new(
            Improvable,
            format!("one queue for {cores} cores: silos must pass frames on, kernel sockets need RPS"),
        ),
        Some(queues) => Finding::ok(format!("{queues} for {cores} cores")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn transmit_queues(case: &Case<'_>) -> Finding {
    let cores = case.evidence.cores().len() as u64;
    match case.number() {
        Some(queues) if queues < cores && is_device(case.evidence, case.subject) => {
            Finding::new(Improvable, format!("{queues} for {cores} cores: some share a queue and its lock"))
        }
        Some(queues) => Finding::ok(format!("{queues} for {cores} cores")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn queue_limits(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(WorseThanDefault, "nothing may be in the ring").want("1879048192"),
        Some(limit) if limit < 65_536 => {
            Finding::new(WorseThanDefault, "less than one large packet").want("1879048192")
        }
        Some(_) => Finding::ok("the kernel finds the limit by itself"),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn domain(case: &Case<'_>) -> Finding {
    let nodes = case.evidence.names("sys/devices/system/node");
    let domains = nodes.iter().filter(|name| name.starts_with("node")).count();
    match case.value.parse::<i64>() {
        _ if domains < 2 => Finding::ok("there is one domain only"),
        Ok(-1) => {
            Finding::new(Improvable, "the firmware does not say which domain it is in: silos cannot be placed by it")
        }
        Ok(node) => Finding::ok(format!("domain {node}: its silos, rings and interrupts belong there")),
        Err(_) => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

/// `8.0 GT/s PCIe` as a number.
fn transfers(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn pcie_speed(case: &Case<'_>) -> Finding {
    let most = case.evidence.get(&format!("{NET}/{}/device/max_link_speed", case.subject));
    match (transfers(case.value), most.and_then(transfers)) {
        (Some(now), Some(most)) if now < most => {
            Finding::new(Improvable, format!("{now} GT/s in a slot, where the device can do {most}"))
                .want(most.to_string())
        }
        (Some(_), _) => Finding::ok("as fast as the device can"),
        _ => Finding::ok("does not say: a virtual machine's slot"),
    }
}

fn pcie_width(case: &Case<'_>) -> Finding {
    let most = case.evidence.get(&format!("{NET}/{}/device/max_link_width", case.subject));
    match (case.number(), most.and_then(|text| text.parse::<u64>().ok())) {
        (Some(now), Some(most)) if now < most && now > 0 => {
            Finding::new(Improvable, format!("{now} lanes, where the device has {most}")).want(most.to_string())
        }
        _ => Finding::ok("as wide as the device is, or it does not say"),
    }
}

fn aspm(case: &Case<'_>) -> Finding {
    match super::memory::chosen(case.value) {
        "performance" => Finding::ok("links do not sleep"),
        _ if case.argument("pcie_aspm") == Some("off") => Finding::ok("turned off on the command line"),
        "default" if case.role == Role::WebKernel => Finding::ok("the firmware's choice"),
        "default" => Finding::new(Improvable, "the firmware's choice: links may sleep").want("performance"),
        other => Finding::new(Improvable, format!("{other}: links sleep between packets")).want("performance"),
    }
}

fn device_power(case: &Case<'_>) -> Finding {
    match case.value {
        "on" => Finding::ok("does not sleep"),
        _ => Finding::new(Improvable, "may sleep while it is idle").want("on"),
    }
}

fn virtual_kind(evidence: &Evidence) -> Vec<Reading> {
    let reading = |name: &&str| Reading {
        subject: (*name).to_owned(),
        value: Ok(if is_device(evidence, name) { "device" } else { "virtual" }.to_owned()),
    };
    evidence.interfaces().iter().map(reading).collect()
}

fn virtual_interface(case: &Case<'_>) -> Finding {
    match case.value {
        "virtual" => Finding::ok("virtual: no claim of absolute latency over it"),
        _ if case.evidence.virtual_machine() => {
            Finding::ok("a device of the host's making: no claim of absolute latency over it")
        }
        _ => Finding::ok("a device"),
    }
}
