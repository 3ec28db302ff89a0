//! How interfaces are read, and what is found of each setting.

use crate::rule::{Reading, Role, Verdict};
use crate::{Case, Evidence, Finding};

use Verdict::{Conflicts, Dangerous, Improvable, Unnecessary, WorseThanDefault};

/// What each interface has for a setting of IPv4.
pub(super) fn interfaces(evidence: &Evidence, name: &str) -> Vec<Reading> {
    let read = |interface: &&str| {
        let value = evidence.read(&format!("proc/sys/net/ipv4/conf/{interface}/{name}"))?;
        Some(Reading { subject: (*interface).to_owned(), value: value.map(str::to_owned).map_err(str::to_owned) })
    };
    let names = evidence.names("proc/sys/net/ipv4/conf");
    names.iter().filter(|name| !matches!(**name, "lo" | "default")).filter_map(read).collect()
}

pub(super) fn somaxconn(case: &Case<'_>) -> Finding {
    let default = if case.kernel_from(5, 4) { 4_096 } else { 128 };
    let overflows = case.evidence.net_counter("TcpExt", "ListenOverflows").unwrap_or(0);
    match case.number() {
        None => case.no_number(),
        Some(value) if value < default => {
            Finding::new(WorseThanDefault, format!("lower than the default of {default}")).want(default.to_string())
        }
        Some(value) if value == default && overflows > 0 => Finding::new(
            Improvable,
            format!(
                "{overflows} connections found a full queue since boot; raise it, and the server's backlog with it"
            ),
        )
        .want("16384"),
        Some(value) if value == default => Finding::ok("the default; no queue has overflowed since boot"),
        Some(_) if overflows == 0 => Finding::new(
            Unnecessary,
            "no listening queue has overflowed since boot, and it does nothing unless the listen backlog is \
                raised too",
        ),
        Some(_) => Finding::ok(format!(
            "{overflows} overflows since boot: see that the listen backlog was raised \
            too"
        )),
    }
}

pub(super) fn netdev_max_backlog(case: &Case<'_>) -> Finding {
    let drops = case.evidence.softnet(1);
    match (case.number(), drops) {
        (None, _) => case.no_number(),
        (Some(value), _) if value < 1_000 => {
            Finding::new(WorseThanDefault, "lower than the default of 1000").want("1000")
        }
        (Some(1_000), Some(drops)) if drops > 0 => {
            Finding::new(Improvable, format!("{drops} packets found the backlog full since boot")).want("4000")
        }
        (Some(1_000), _) => Finding::ok("the default; nothing was dropped on it since boot"),
        (Some(_), Some(0)) => Finding::new(
            Unnecessary,
            "nothing was dropped on the backlog since boot (softnet_stat column 2); only RPS, veth and loopback \
                use it",
        ),
        (Some(value), _) if value > 100_000 => {
            Finding::new(WorseThanDefault, "so many packets wait for longer than any peer does").want("4000")
        }
        _ => Finding::ok("higher than the default, and packets were dropped on it"),
    }
}

pub(super) fn netdev_budget(case: &Case<'_>) -> Finding {
    budget(case, 300)
}

pub(super) fn netdev_budget_usecs(case: &Case<'_>) -> Finding {
    // Two ticks (net/core/hotdata.c).
    let hz = [100, 250, 300, 1_000];
    let defaults = hz.map(|hz| 2_000_000 / hz);
    match case.number() {
        Some(value) if defaults.contains(&value) => Finding::ok("two ticks: the default"),
        _ => budget(case, 2_000),
    }
}

/// A limit of a softirq, against how often one ended with work left.
fn budget(case: &Case<'_>, default: u64) -> Finding {
    let squeezed = case.evidence.softnet(2).unwrap_or(0);
    let packets = case.evidence.softnet(0).unwrap_or(0);
    // One in a thousand polls is nothing that anybody feels.
    let often = squeezed > 100 && squeezed.saturating_mul(1_000) > packets;
    match case.number() {
        None => case.no_number(),
        Some(value) if value < default => {
            Finding::new(WorseThanDefault, format!("lower than the default of {default}")).want(default.to_string())
        }
        Some(value) if value == default && often => Finding::new(
            Improvable,
            format!("{squeezed} softirqs ended with work left (softnet_stat column 3), for {packets} packets"),
        )
        .want((default * 2).to_string()),
        Some(value) if value == default => Finding::ok("the default; softirqs seldom end with work left"),
        Some(_) if !often => {
            Finding::new(Unnecessary, format!("{squeezed} softirqs ended with work left, for {packets} packets"))
        }
        Some(_) => Finding::ok("higher than the default, and softirqs end with work left"),
    }
}

pub(super) fn buffer_default(case: &Case<'_>) -> Finding {
    match case.number() {
        None => case.no_number(),
        Some(value) if value < 65_536 => {
            Finding::new(WorseThanDefault, "below what a burst of datagrams needs").want("212992")
        }
        Some(value) if value > 1 << 20 => Finding::new(
            WorseThanDefault,
            "TCP does not use it, and each UDP socket may hold that \
                much",
        )
        .want("212992"),
        Some(_) => Finding::ok("sockets of UDP and others only; TCP has its own"),
    }
}

pub(super) fn buffer_max(case: &Case<'_>) -> Finding {
    match case.number() {
        None => case.no_number(),
        Some(value) if value < 212_992 => {
            Finding::new(WorseThanDefault, "lower than the default of 212992").want("212992")
        }
        Some(value) if value > 256 << 20 => {
            Finding::new(WorseThanDefault, "one socket may then take a quarter of a gigabyte").want("16777216")
        }
        Some(_) => Finding::ok("a limit for programs that ask; TCP's own tuning goes by tcp_rmem and tcp_wmem"),
    }
}

pub(super) fn default_qdisc(case: &Case<'_>) -> Finding {
    let bbr = case.other("net.ipv4.tcp_congestion_control").is_some_and(|name| name.starts_with("bbr"));
    match case.value {
        "fq" if bbr => Finding::ok("fq paces what bbr asks to be paced"),
        "fq" | "fq_codel" | "cake" if !bbr => {
            Finding::ok("a fair queue; it acts on interfaces that come up from now on")
        }
        "pfifo_fast" | "noqueue" if case.role == Role::Load => Finding::ok("least work for each packet"),
        "pfifo_fast" | "fq_codel" | "cake" if bbr => Finding::new(
            Improvable,
            "bbr paces by timers of its own without fq: right, but at the cost of timers, and unfair in bursts",
        )
        .want("fq"),
        "pfifo_fast" | "fq_codel" | "cake" | "mq" | "noqueue" => Finding::ok("right with cubic"),
        "sch_fq" | "bfifo" | "pfifo" => {
            Finding::new(WorseThanDefault, "a plain queue: one flow delays all").want("fq_codel")
        }
        other => Finding::new(WorseThanDefault, format!("no queue discipline of the kernel is called {other}"))
            .want("fq_codel"),
    }
}

pub(super) fn busy(case: &Case<'_>) -> Finding {
    match case.number() {
        None => case.no_number(),
        Some(0) => Finding::ok("off: right unless cores would be idle and microseconds count"),
        Some(_) if case.evidence.realtime() => {
            Finding::new(Dangerous, "polling in system calls keeps threads of a real-time kernel from running")
                .want("0")
        }
        Some(value) if value > 1_000 => {
            Finding::new(WorseThanDefault, "more than a millisecond of polling for each wait").want("50")
        }
        Some(_) if case.evidence.virtual_machine() => {
            Finding::new(Unnecessary, "in a virtual machine the host's own waiting is longer than what polling saves")
        }
        Some(_) => Finding::ok("latency for processor time, where the driver supports it"),
    }
}

pub(super) fn rfs(case: &Case<'_>) -> Finding {
    let names = case.evidence.interfaces();
    let used = names.iter().any(|name| {
        case.evidence.names(&format!("sys/class/net/{name}/queues")).iter().any(|queue| {
            let path = format!("sys/class/net/{name}/queues/{queue}/rps_flow_cnt");
            case.evidence.get(&path).is_some_and(|text| text != "0")
        })
    });
    match case.number() {
        None => case.no_number(),
        Some(0) => Finding::ok("off: not needed where a worker sits on each queue's core"),
        Some(_) if !used => Finding::new(
            Verdict::NoEffect,
            "no queue has rps_flow_cnt, without which it does \
            nothing",
        ),
        Some(_) => Finding::ok("RFS is on, with flows for the queues"),
    }
}

pub(super) fn rps_mask(case: &Case<'_>) -> Finding {
    if case.value.chars().all(|char| matches!(char, '0' | ',')) {
        return Finding::ok("no RPS unless a queue is told to");
    }
    if case.role.polls() {
        return Finding::new(WorseThanDefault, "packets of every new interface interrupt the cores of the mask")
            .want("0");
    }
    Finding::ok("RPS for new interfaces: of use where queues are fewer than cores")
}

pub(super) fn bpf_jit(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::new(WorseThanDefault, "programs are interpreted: XDP takes several times as long").want("1"),
        "2" => Finding::new(
            Dangerous,
            "the compiled code of every program is printed into the kernel's \
            log",
        )
        .want("1"),
        _ => Finding::ok("programs are compiled"),
    }
}

pub(super) fn bpf_harden(case: &Case<'_>) -> Finding {
    match case.value {
        "2" => Finding::new(Improvable, "constants of root's programs are blinded too, which costs XDP programs time")
            .want("1"),
        "0" => Finding::ok("off; 1 costs root's programs nothing and guards against others'"),
        _ => Finding::ok("on for programs of users without rights"),
    }
}

pub(super) fn ip_forward(case: &Case<'_>) -> Finding {
    let containers = ["kubelet", "crio", "containerd"].iter().any(|name| case.evidence.runs(name))
        || case.evidence.interfaces().iter().any(|name| {
            ["docker", "cni", "veth", "cali", "flannel", "podman"].iter().any(|start| name.starts_with(start))
        });
    match (case.value, case.advised) {
        ("0", true) if containers || case.role == Role::Mixed => {
            Finding::new(Dangerous, "containers on this machine lose their network").want("1")
        }
        (_, true) if case.evidence.sysctl("net.ipv4.ip_forward") == Some(case.value) => Finding::new(
            Unnecessary,
            "it is so already; each write of it resets other settings of IP on all interfaces",
        ),
        (_, true) => Finding::new(Dangerous, "writing it resets other settings of IP on all interfaces"),
        ("0", false) if containers => {
            Finding::new(Improvable, "there are interfaces of containers, which need it").want("1")
        }
        ("1", false) if !containers && case.role != Role::Forwarder => {
            Finding::ok("this machine routes; a server alone needs not")
        }
        _ => Finding::ok("as a host is by default"),
    }
}

pub(super) fn rp_filter(case: &Case<'_>) -> Finding {
    let of = |name: &str| case.evidence.sysctl_number(&format!("net.ipv4.conf.{name}.rp_filter"));
    let dropped = case.evidence.net_counter("TcpExt", "IPReversePathFilter").unwrap_or(0);
    let own = case.number();
    // The larger of the two counts (include/linux/inetdevice.h, IN_DEV_RPFILTER).
    let of_all = case.advised("net.ipv4.conf.all.rp_filter").and_then(|value| value.parse().ok()).or_else(|| of("all"));
    let counts = match case.subject {
        // A template for interfaces that come later, and one side of each pair.
        "all" | "default" | "*" | "" if case.advised => own,
        _ => own.max(of_all),
    };
    match counts {
        Some(mode) if case.advised && own.is_some_and(|own| own < mode) => {
            Finding::new(Conflicts, format!("net.ipv4.conf.all.rp_filter is {mode}, and of the two the larger counts"))
                .want(mode.to_string())
        }
        None => case.no_number(),
        Some(1) if case.evidence.interfaces().len() > 1 || dropped > 0 => Finding::new(
            Improvable,
            format!(
                "strict: what comes in by another interface than answers leave by is dropped ({dropped} \
                packets since boot)"
            ),
        )
        .want("2"),
        Some(1) => Finding::ok("strict, which is harmless with one interface"),
        Some(2) => Finding::ok("loose: only what no route leads to is dropped"),
        Some(0) => Finding::ok("off: each packet is spared a look-up; firewalls and routers before it do the same"),
        Some(_) => Finding::new(WorseThanDefault, "0, 1 and 2 are all there is").want("2"),
    }
}

pub(super) fn redirects(case: &Case<'_>) -> Finding {
    let router = case.evidence.sysctl("net.ipv4.ip_forward").is_some_and(|value| value != "0");
    match case.value {
        "0" => Finding::ok("redirects are ignored"),
        _ if router => Finding::ok("a router ignores redirects unless all and the interface both take them"),
        _ => Finding::new(Improvable, "a neighbour can divert connections by redirects; servers have fixed routes")
            .want("0"),
    }
}

pub(super) fn source_routes(case: &Case<'_>) -> Finding {
    // Both must be on (include/linux/inetdevice.h, IN_DEV_SOURCE_ROUTE).
    let all = case.other("net.ipv4.conf.all.accept_source_route");
    match case.value {
        "0" => Finding::ok("not taken"),
        _ if case.subject != "all" && all == Some("0") => Finding::ok("not taken: net.ipv4.conf.all says 0"),
        _ => {
            Finding::new(Dangerous, "whoever sends a packet chooses its way then, past what filters by path").want("0")
        }
    }
}

pub(super) fn martians(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("not logged"),
        _ => Finding::new(
            Unnecessary,
            "a line for each impossible packet: for looking into something, not for \
            always",
        ),
    }
}

pub(super) fn port_range(case: &Case<'_>) -> Finding {
    let numbers = case.numbers();
    let [low, high] = numbers.as_slice() else {
        return Finding::new(WorseThanDefault, "is two numbers: the first port and the last").want("32768 60999");
    };
    if low > high || *high > 65_535 {
        return Finding::new(WorseThanDefault, "is no range of ports; the kernel refuses it").want("32768 60999");
    }
    // The kernel gives ports of one parity to connect() first.
    let reserved = case.other("net.ipv4.ip_local_reserved_ports").is_some_and(|list| !list.is_empty());
    if *low < 10_000 && !reserved {
        return Finding::new(
            Improvable,
            "a connection may take the port of a service that is about to start (8080, 9090 …): reserve those ports",
        )
        .want("10240 65535, and net.ipv4.ip_local_reserved_ports");
    }
    if high - low < 10_000 {
        return Finding::new(WorseThanDefault, "few ports for connections to one destination").want("32768 60999");
    }
    if case.role == Role::Load && high - low < 50_000 {
        return Finding::new(Improvable, "a generator has so many connections to one address and port, and no more")
            .want("10240 65535");
    }
    Finding::ok(format!("{} ports for each destination", high - low + 1))
}

pub(super) fn privileged_ports(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(1_024) => Finding::ok("the default"),
        Some(port) if port < 1_024 => Finding::ok(format!(
            "ports from {port} on need no capability; every local user may take them while they are free"
        )),
        _ => Finding::new(WorseThanDefault, "more ports need a capability than by default").want("1024"),
    }
}

pub(super) fn ping(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("pings are answered, as RFC 1122 section 3.2.2.6 asks"),
        _ => Finding::new(WorseThanDefault, "monitoring goes blind, and no attack is harder for it").want("0"),
    }
}

pub(super) fn icmp_ratelimit(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(Dangerous, "errors to forged addresses without a limit").want("1000"),
        Some(value) if value <= 1_000 => Finding::ok("a limit for each peer"),
        _ => Finding::new(WorseThanDefault, "fewer errors than by default: path MTU discovery waits for them")
            .want("1000"),
    }
}

pub(super) fn neighbour_limit(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value < 1_024 => Finding::new(WorseThanDefault, "lower than the default").want("1024"),
        Some(1_024) if case.role == Role::Mixed => {
            Finding::new(Improvable, "a node's pods and services can be more neighbours than that").want("8192")
        }
        Some(value) if value > 1 << 20 => Finding::new(Unnecessary, "no link has a million neighbours"),
        Some(_) => Finding::ok("enough for one network of a thousand hosts"),
        None => case.no_number(),
    }
}

pub(super) fn udp_mem(case: &Case<'_>) -> Finding {
    crate::catalogue::tcp_limits::pages_in_all(case, "UDP")
}

pub(super) fn conntrack_max(case: &Case<'_>) -> Finding {
    let count = case.evidence.sysctl_number("net.netfilter.nf_conntrack_count").unwrap_or(0);
    match case.number() {
        Some(most) if most < 65_536 => {
            Finding::new(WorseThanDefault, "fewer connections than one client can open").want("262144")
        }
        Some(most) if count.saturating_mul(10) > most.saturating_mul(7) => {
            Finding::new(Improvable, format!("{count} of {most} entries are taken")).want((most * 4).to_string())
        }
        Some(most) if most > 64 << 20 => Finding::new(WorseThanDefault, "some 20 GB when it is full").want("1048576"),
        Some(most) => Finding::ok(format!("{count} of {most} entries are taken")),
        None => case.no_number(),
    }
}

pub(super) fn conntrack_established(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(seconds) if seconds < 7_440 => Finding::new(
            WorseThanDefault,
            "connections that are silent for two hours and four minutes must live (RFC 5382 REQ-5)",
        )
        .want("7440"),
        Some(seconds) if seconds > 86_400 => {
            Finding::new(Improvable, "the table keeps what is dead for more than a day").want("7440")
        }
        Some(_) => Finding::ok("between RFC 5382's least and a day"),
        None => case.no_number(),
    }
}

pub(super) fn no_ipv6(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("IPv6 is on"),
        _ => Finding::new(WorseThanDefault, "shuts out clients that have no IPv4, and saves nothing").want("0"),
    }
}
