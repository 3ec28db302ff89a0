//! Network interfaces, as their drivers tell: rings, coalescing, channels,
//! offloads, pause frames, error correction, spreading.
//!
//! Drivers are asked by ioctl, not by a file; whoever takes the evidence puts
//! the answers where files would lie, at `ethtool/INTERFACE/NAME`.

use crate::rule::{Area, Judge, Reading, Roles, Rule, Verdict};
use crate::{Case, Evidence, Finding};

use super::nic::is_device;
use Judge::By;
use Verdict::{Improvable, WorseThanDefault};

const ETHTOOL: &str = "man 8 ethtool; Linux Documentation/networking/ethtool-netlink.rst";
const COALESCING: &str = "Linux Documentation/networking/ethtool-netlink.rst, COALESCE_GET; \
    Documentation/networking/napi.rst";
const OFFLOADS: &str = "Linux Documentation/networking/segmentation-offloads.rst";

/// Microseconds beyond which a fixed delay is what requests wait for.
const LONG_DELAY: u64 = 100;

const fn each(key: &'static str, probe: fn(&Evidence) -> Vec<Reading>, judge: Judge, explain: &'static str) -> Rule {
    Rule::each(Area::Nic, key, probe, judge, explain).source(ETHTOOL)
}

pub(super) const RULES: &[Rule] = &[
    each(
        "ring sizes",
        |evidence| told(evidence, "rings"),
        By(rings),
        "Descriptors of each queue, of how many there can be. A longer ring bridges a longer pause of whoever empties \
         it; it also takes more cache, so it is worth it only where packets found no room. More than the driver's most \
         is refused.",
    )
    .gain("no loss in a pause of some hundred microseconds")
    .risk("the interface is down for a moment; a ring beyond the cache costs a miss for each packet")
    .undo("ethtool -G with the sizes it had, which resets the interface once more"),
    each(
        "interrupt coalescing",
        |evidence| told(evidence, "coalescing"),
        By(coalescing),
        "How long, or for how many packets, the interface waits before it interrupts. Each microsecond is one that a \
         lone request waits; none at all costs an interrupt for each packet, where nobody polls. Adaptive moderation \
         chooses by load, and its choice moves.",
    )
    .gain("its microseconds less for each request that comes alone")
    .risk("more interrupts, and less throughput on a busy core")
    .undo("ethtool -C with the values it had")
    .source(COALESCING),
    each(
        "channels",
        |evidence| told(evidence, "channels"),
        By(channels),
        "Queue pairs of the interface, of how many it could have. A silo or worker wants a queue of its own.",
    )
    .gain("no passing on of frames between cores")
    .risk("the interface is down for a moment, and tables of flows are set anew")
    .undo("ethtool -L with the number it had; the table that spreads flows may be another then"),
    each(
        "pause frames",
        |evidence| told(evidence, "pause"),
        By(pause),
        "Whether a full ring stops the switch's port (tx), and the switch this interface (rx). It turns loss into \
         waiting, for every flow at once, and one slow machine can stop a network.",
    )
    .gain("a slow neighbour's pause is not everybody's")
    .risk("packets are lost where they waited before; storage over Ethernet needs them")
    .undo("ethtool -A with the values it had")
    .source("IEEE 802.3 annex 31B; man 8 ethtool"),
    each(
        "error correction of the link",
        |evidence| told(evidence, "fec"),
        By(correction),
        "Forward error correction. Reed-Solomon adds some 100 to 250 ns for each way at 25 Gbit/s, and is what most \
         cables above a few metres need; off is for short ones that show no errors.",
    )
    .risk("off: frames come damaged, or the link does not come up; both ends must agree")
    .undo("ethtool --set-fec with the mode it had, which takes the link down for a moment")
    .source("IEEE 802.3 clauses 74, 91 and 108; man 8 ethtool"),
    each(
        "checksums by the interface",
        |evidence| told(evidence, "checksums"),
        By(checksums),
        "Whether the interface verifies and completes checksums of TCP and UDP.",
    )
    .roles(Roles::KERNEL)
    .gain("a pass over each byte")
    .undo("ethtool -K NAME rx off tx off")
    .source(OFFLOADS),
    each(
        "segmentation by the interface",
        |evidence| told(evidence, "segmentation"),
        By(segmentation),
        "Whether the kernel hands 64 KiB of TCP down at once (TSO): one pass through the stack for 44 segments.",
    )
    .roles(Roles::KERNEL)
    .gain("several times the throughput of one core when large answers are sent")
    .undo("ethtool -K NAME tso off")
    .source(OFFLOADS),
    each(
        "merging of received segments",
        |evidence| told(evidence, "merging"),
        By(merging),
        "GRO joins segments of a flow and can be undone when they are passed on; LRO, by the interface, cannot: \
         routers and bridges must not have it.",
    )
    .gain("one pass through the stack for many segments")
    .undo("ethtool -K NAME gro off, or lro as it was")
    .source(OFFLOADS),
    each(
        "spreading over queues",
        |evidence| told(evidence, "rss"),
        By(spreading),
        "The table and key by which the interface chooses a flow's queue (RSS).",
    )
    .gain("every queue gets flows")
    .undo("ethtool -X NAME default, which is not what a table of one's own was")
    .source("Linux Documentation/networking/scaling.rst"),
];

/// What each interface's driver tells of one thing.
fn told(evidence: &Evidence, name: &str) -> Vec<Reading> {
    let reading = |interface: &&str| {
        let value = evidence.read(&format!("ethtool/{interface}/{name}"))?;
        Some(Reading { subject: (*interface).to_owned(), value: value.map(str::to_owned).map_err(str::to_owned) })
    };
    evidence.names("ethtool").iter().filter_map(reading).collect()
}

/// The number behind a word: `rx 256 of 4096` has 256 for rx.
fn after(text: &str, name: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.trim_end_matches(',').parse().ok()
}

/// The number behind a word's own and `of`.
fn limit(text: &str, name: &str) -> Option<u64> {
    let mut words = text.split_whitespace().skip_while(|word| *word != name).skip(2);
    if words.next()? != "of" {
        return None;
    }
    words.next()?.trim_end_matches(',').parse().ok()
}

fn has(text: &str, phrase: &str) -> bool {
    text.split(',').any(|part| part.trim() == phrase)
}

fn statistic(case: &Case<'_>, name: &str) -> u64 {
    let path = format!("sys/class/net/{}/statistics/{name}", case.subject);
    case.evidence.get(&path).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn rings(case: &Case<'_>) -> Finding {
    let (Some(now), Some(most)) = (after(case.value, "rx"), limit(case.value, "rx")) else {
        return Finding::new(Verdict::Unreadable, "does not say how many there are");
    };
    let lost = statistic(case, "rx_missed_errors").saturating_add(statistic(case, "rx_fifo_errors"));
    match lost {
        0 => Finding::ok("no packet found the ring full since boot"),
        lost if now < most => {
            let why = format!("{lost} packets found the ring full since boot");
            Finding::new(Improvable, why).want(format!("ethtool -G {} rx {}", case.subject, (now * 2).min(most)))
        }
        lost => Finding::new(
            Improvable,
            format!(
                "{lost} packets found the ring full since boot, and it is as long as it can be: more queues or cores"
            ),
        ),
    }
}

fn coalescing(case: &Case<'_>) -> Finding {
    let adaptive = has(case.value, "adaptive-rx on");
    match after(case.value, "rx-usecs") {
        Some(micros) if micros > LONG_DELAY && !adaptive => {
            Finding::new(WorseThanDefault, format!("a request that comes alone waits {micros} us for its interrupt"))
                .want(format!("ethtool -C {} rx-usecs 10", case.subject))
        }
        _ if adaptive && case.role.polls() => {
            Finding::new(Improvable, "the delay moves with the load, and latency with it")
                .want(format!("ethtool -C {} adaptive-rx off rx-usecs 0", case.subject))
        }
        _ if adaptive => Finding::ok("chosen by load"),
        Some(micros) => Finding::ok(format!("at most {micros} us")),
        None => Finding::ok("by packets only, or not told"),
    }
}

fn channels(case: &Case<'_>) -> Finding {
    let cores = case.evidence.cores().len() as u64;
    match (after(case.value, "pairs"), limit(case.value, "pairs")) {
        (Some(now), Some(most)) if now < most.min(cores) => Finding::new(
            Improvable,
            format!("{now} for {cores} cores, where {most} are possible"),
        )
        .want(format!("ethtool -L {} combined {}", case.subject, most.min(cores))),
        (Some(now), Some(most)) => Finding::ok(format!("{now} of {most}, for {cores} cores")),
        _ => Finding::new(Verdict::Unreadable, "does not say how many there are"),
    }
}

fn pause(case: &Case<'_>) -> Finding {
    match (has(case.value, "rx on"), has(case.value, "tx on")) {
        (false, false) => Finding::ok("none are sent or obeyed"),
        _ if case.role.polls() => {
            Finding::new(Improvable, "one full ring, here or elsewhere, makes all flows of the link wait")
                .want(format!("ethtool -A {} autoneg off rx off tx off", case.subject))
        }
        _ => Finding::ok("loss becomes waiting; see rx_pause of ethtool -S when tails are long"),
    }
}

fn correction(case: &Case<'_>) -> Finding {
    let errors = statistic(case, "rx_crc_errors");
    match case.value {
        "off" | "none" if errors > 0 => {
            Finding::new(WorseThanDefault, format!("off, and {errors} frames came damaged since boot"))
                .want(format!("ethtool --set-fec {} encoding auto", case.subject))
        }
        other => Finding::ok(format!("{other}, and {errors} frames came damaged since boot")),
    }
}

fn checksums(case: &Case<'_>) -> Finding {
    match (has(case.value, "rx on"), has(case.value, "tx on")) {
        (true, true) => Finding::ok("both ways"),
        _ if !is_device(case.evidence, case.subject) => Finding::ok("a virtual interface: there is no device to do it"),
        (receive, _) => {
            let way = if receive { "sent" } else { "received" };
            Finding::new(Improvable, format!("the processor reads every byte of what is {way}, if the device can it"))
                .want(format!("ethtool -K {} rx on tx on", case.subject))
        }
    }
}

fn segmentation(case: &Case<'_>) -> Finding {
    match case.value {
        "on" => Finding::ok("large answers go down as one"),
        _ if !is_device(case.evidence, case.subject) => Finding::ok("a virtual interface: there is no device to do it"),
        _ => Finding::new(Improvable, "each segment passes the stack on its own, if the device can it")
            .want(format!("ethtool -K {} tso on", case.subject)),
    }
}

fn merging(case: &Case<'_>) -> Finding {
    let forwards = case.evidence.sysctl("net.ipv4.ip_forward").is_some_and(|value| value != "0");
    if has(case.value, "lro on") && forwards {
        return Finding::new(
            Verdict::Conflicts,
            "net.ipv4.ip_forward=1: what LRO joined cannot be passed on as it was",
        )
        .want(format!("ethtool -K {} lro off", case.subject));
    }
    match has(case.value, "gro on") {
        true => Finding::ok("the kernel joins segments"),
        false if case.role.kernel_tcp() => {
            Finding::new(WorseThanDefault, "each received segment passes the stack on its own")
                .want(format!("ethtool -K {} gro on", case.subject))
        }
        false => Finding::ok("off: frames that a silo takes are not the kernel's to join"),
    }
}

fn spreading(case: &Case<'_>) -> Finding {
    let pairs = case.evidence.get(&format!("ethtool/{}/channels", case.subject)).and_then(|text| after(text, "pairs"));
    match after(case.value, "table") {
        Some(entries) if pairs.is_some_and(|pairs| entries < pairs) => Finding::new(
            WorseThanDefault,
            format!("{entries} entries: not every queue gets flows"),
        )
        .want(format!("ethtool -X {} equal {}", case.subject, pairs.unwrap_or(1))),
        Some(entries) => Finding::ok(format!("{entries} entries")),
        None => Finding::new(Verdict::Unreadable, "does not say how long the table is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, find};

    fn machine() -> Evidence {
        Evidence::of(&[
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/class/net/eth0/statistics/rx_missed_errors", "70"),
            ("sys/class/net/eth0/statistics/rx_crc_errors", "3"),
            ("proc/sys/net/ipv4/ip_forward", "1"),
            ("sys/class/net/eth0/device/vendor", "0x8086"),
            ("ethtool/eth0/channels", "pairs 2 of 8"),
        ])
    }

    fn of(key: &str, role: Role, value: &str) -> (Verdict, Option<String>) {
        let evidence = machine();
        let case = Case { value, subject: "eth0", advised: false, role, evidence: &evidence, others: &[] };
        let finding = find(key).expect(key).judge(&case);
        (finding.verdict, finding.want)
    }

    #[test]
    fn what_drivers_tell_is_judged_by_what_was_lost_and_by_role() {
        use Role::{Forwarder, WebKernel};
        for (key, role, value, verdict, want) in [
            ("ring sizes", WebKernel, "rx 256 of 4096, tx 256 of 4096", Improvable, "ethtool -G eth0 rx 512"),
            ("ring sizes", WebKernel, "rx 4096 of 4096, tx 1 of 1", Improvable, ""),
            (
                "interrupt coalescing",
                WebKernel,
                "rx-usecs 400, adaptive-rx off",
                WorseThanDefault,
                "ethtool -C eth0 rx-usecs 10",
            ),
            ("interrupt coalescing", WebKernel, "rx-usecs 400, adaptive-rx on", Verdict::Ok, ""),
            (
                "interrupt coalescing",
                Forwarder,
                "rx-usecs 3, adaptive-rx on",
                Improvable,
                "ethtool -C eth0 adaptive-rx off rx-usecs 0",
            ),
            ("channels", WebKernel, "pairs 2 of 8", Improvable, "ethtool -L eth0 combined 4"),
            ("channels", WebKernel, "pairs 4 of 8", Verdict::Ok, ""),
            (
                "pause frames",
                Forwarder,
                "autoneg on, rx on, tx off",
                Improvable,
                "ethtool -A eth0 autoneg off rx off tx off",
            ),
            ("pause frames", WebKernel, "autoneg on, rx off, tx off", Verdict::Ok, ""),
            (
                "error correction of the link",
                WebKernel,
                "off",
                WorseThanDefault,
                "ethtool --set-fec eth0 encoding auto",
            ),
            ("checksums by the interface", WebKernel, "rx off, tx on", Improvable, "ethtool -K eth0 rx on tx on"),
            ("segmentation by the interface", WebKernel, "off", Improvable, "ethtool -K eth0 tso on"),
            (
                "merging of received segments",
                WebKernel,
                "gro on, lro on",
                Verdict::Conflicts,
                "ethtool -K eth0 lro off",
            ),
            ("merging of received segments", WebKernel, "gro off, lro off", WorseThanDefault, "ethtool -K eth0 gro on"),
            ("spreading over queues", WebKernel, "table 1, key 40", WorseThanDefault, "ethtool -X eth0 equal 2"),
            ("spreading over queues", WebKernel, "table 128, key 40", Verdict::Ok, ""),
            ("ring sizes", WebKernel, "garbage", Verdict::Unreadable, ""),
            ("channels", WebKernel, "pairs of", Verdict::Unreadable, ""),
        ] {
            let want = Some(want.to_owned()).filter(|want| !want.is_empty());
            assert_eq!(of(key, role, value), (verdict, want), "{key}: {value}");
        }
    }

    #[test]
    fn virtual_interfaces_are_not_told_to_do_what_a_device_does() {
        let evidence = machine();
        for key in ["checksums by the interface", "segmentation by the interface"] {
            let value = "rx off, tx off";
            let case = Case {
                value,
                subject: "veth0",
                advised: false,
                role: Role::WebKernel,
                evidence: &evidence,
                others: &[],
            };
            assert_eq!(find(key).expect(key).judge(&case).verdict, Verdict::Ok, "{key}");
        }
    }

    #[test]
    fn interfaces_that_tell_nothing_have_no_row() {
        assert_eq!(told(&machine(), "rings"), []);
        assert_eq!(told(&machine(), "channels").len(), 1);
    }
}
