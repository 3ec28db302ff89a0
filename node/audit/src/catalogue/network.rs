//! `net.core`, IP, neighbours, connection tracking: what lies below TCP.

use crate::rule::{Area, Counter, Judge, Reading, Role, Roles, Rule, Verdict};
use crate::{Case, Evidence, Finding};

use Judge::{AtLeast, By, NoEffect, Only};
use Verdict::{Dangerous, Improvable, Unnecessary, WorseThanDefault};

const SYSCTL_NET: &str = "Linux Documentation/admin-guide/sysctl/net.rst";
const IP_SYSCTL: &str = "Linux Documentation/networking/ip-sysctl.rst";
const SCALING: &str = "Linux Documentation/networking/scaling.rst";
const CONNTRACK: &str = "Linux Documentation/networking/nf_conntrack-sysctl.rst";

const fn rule(key: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule::sysctl(Area::Network, key, judge, explain).source(IP_SYSCTL)
}

const fn core(key: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule::sysctl(Area::Network, key, judge, explain).source(SYSCTL_NET)
}

pub(super) const RULES: &[Rule] = &[
    core(
        "net.core.somaxconn",
        By(somaxconn),
        "The upper limit of listen(2)'s backlog; 4096 since Linux 5.4, 128 before. Raising it does nothing until the \
         server asks for more: nginx asks for 511 unless its listen directive says backlog=.",
    )
    .roles(Roles::KERNEL_SERVER)
    .counters(&[Counter::Net("TcpExt", "ListenOverflows"), Counter::Net("TcpExt", "ListenDrops")])
    .gain("fewer lost SYNs in bursts, if ListenOverflows rises")
    .risk("a longer queue is a longer wait when the server is late"),
    core(
        "net.core.netdev_max_backlog",
        By(netdev_max_backlog),
        "Length of the queue between a device and the stack where packets change core: RPS, veth, loopback, tunnels. \
         Drivers that poll by NAPI do not use it. Its overflows are column 2 of /proc/net/softnet_stat.",
    )
    .counters(&[Counter::Softnet(1, "dropped on the backlog")])
    .gain("no drops on the backlog, if column 2 rises")
    .risk("a longer queue is more latency under load"),
    core(
        "net.core.netdev_budget",
        By(netdev_budget),
        "Packets that one softirq takes over all devices before it gives way. Column 3 of /proc/net/softnet_stat \
            counts \
         how often it ended with work left.",
    )
    .counters(&[Counter::Softnet(2, "squeezed")])
    .gain("fewer softirq rounds at high packet rates, if column 3 rises")
    .risk("applications on the same core wait longer"),
    core(
        "net.core.netdev_budget_usecs",
        By(netdev_budget_usecs),
        "The same limit in time: two ticks by default (8,000 us at 250 Hz, 2,000 us at 1,000 Hz).",
    )
    .counters(&[Counter::Softnet(2, "squeezed")])
    .gain("fewer softirq rounds at high packet rates, if column 3 rises")
    .risk("applications on the same core wait longer"),
    core(
        "net.core.dev_weight",
        Only("64", Unnecessary, "64 packets per device and poll is the default, and drivers ask for it themselves"),
        "Packets that the backlog's poll takes at once; drivers have a weight of their own since long.",
    ),
    core(
        "net.core.rmem_default",
        By(buffer_default),
        "The receive buffer of sockets that are not TCP: TCP has tcp_rmem. Raised to megabytes it lets each UDP \
            socket \
         hold that much.",
    )
    .counters(&[Counter::Net("Udp", "RcvbufErrors")])
    .risk("memory for each UDP, raw and Unix socket"),
    core(
        "net.core.wmem_default",
        By(buffer_default),
        "The send buffer of sockets that are not TCP: TCP has \
        tcp_wmem.",
    )
    .counters(&[Counter::Net("Udp", "SndbufErrors")])
    .risk("memory for each UDP, raw and Unix socket"),
    core(
        "net.core.rmem_max",
        By(buffer_max),
        "The most that SO_RCVBUF may ask for. TCP's own tuning goes by tcp_rmem; a TCP socket that sets SO_RCVBUF \
            gives \
         that tuning up.",
    )
    .risk("memory, by programs that ask for it"),
    core(
        "net.core.wmem_max",
        By(buffer_max),
        "The most that SO_SNDBUF may ask for. TCP's own tuning goes by tcp_wmem.",
    )
    .risk("memory, by programs that ask for it"),
    core(
        "net.core.optmem_max",
        AtLeast(20_480, WorseThanDefault, "below the default of every kernel; control messages and filters need it"),
        "Memory of a socket for options and control messages: 128 KiB since Linux 6.7, 20 KiB before. Zero-copy \
         transmission (MSG_ZEROCOPY) charges its notifications here.",
    )
    .gain("more zero-copy sends in flight, where they are used"),
    core(
        "net.core.default_qdisc",
        By(default_qdisc),
        "The queue discipline of interfaces that come up from now on; those that are up keep theirs. fq paces what \
         TCP asks to be paced; without it BBR paces by timers of TCP's own since Linux 4.13.",
    )
    .roles(Roles::KERNEL)
    .gain("smoother sending with bbr over the Internet")
    .risk("some per cent of a core at high packet rates; nothing changes for interfaces that are up"),
    core(
        "net.core.busy_read",
        By(busy),
        "Microseconds that a blocking read polls the device before it sleeps; 0 is off. A polling silo asks the \
         device itself; a server on epoll needs busy_poll.",
    )
    .roles(Roles::KERNEL)
    .gain("5 to 20 us less latency with a device that supports it and a core that would be idle")
    .risk("a busy core for each waiting thread; not for real-time kernels")
    .source("Linux Documentation/networking/napi.rst, section Busy polling"),
    core(
        "net.core.busy_poll",
        By(busy),
        "Microseconds that poll, select and epoll poll the devices of their sockets before they sleep; 0 is off.",
    )
    .roles(Roles::KERNEL)
    .gain("5 to 20 us less latency with a device that supports it and a core that would be idle")
    .risk("a busy core for each waiting thread; not for real-time kernels")
    .source("Linux Documentation/networking/napi.rst, section Busy polling"),
    core(
        "net.core.rps_sock_flow_entries",
        By(rfs),
        "Size of the table of receive flow steering (RFS); without rps_flow_cnt of a queue it does nothing, and with \
         one worker bound to each queue's core it is not needed.",
    )
    .roles(Roles::KERNEL)
    .gain("packets on the core of their application, where queues are fewer than workers")
    .risk("a table look-up for each packet")
    .source(SCALING),
    core(
        "net.core.rps_default_mask",
        By(rps_mask),
        "RPS mask of queues that are made from now on; empty or 0 is off. Two queues for each worker need no RPS.",
    )
    .since(6, 3)
    .risk("an interrupt between cores for each batch of packets")
    .source(SCALING),
    core(
        "net.core.flow_limit_table_len",
        NoEffect("it only matters where flow_limit_cpu_bitmap is set"),
        "Buckets by which the backlog drops the largest flows first, on the cores of flow_limit_cpu_bitmap.",
    )
    .source(SCALING),
    core(
        "net.core.gro_normal_batch",
        Only("8", Unnecessary, "8 is the default; GRO passes packets on in batches of it"),
        "Packets that GRO hands to the stack at once.",
    ),
    core(
        "net.core.bpf_jit_enable",
        By(bpf_jit),
        "Whether programs for the kernel are compiled: 1 on all builds with CONFIG_BPF_JIT_ALWAYS_ON. AF_XDP, \
            seccomp and \
         SO_REUSEPORT programs are slower by several times without.",
    )
    .gain("XDP and filter programs at several times the speed"),
    core(
        "net.core.bpf_jit_harden",
        By(bpf_harden),
        "1 blinds constants of programs that users without rights load, 2 of all programs: slower XDP programs.",
    )
    .gain("XDP programs as fast as they are compiled")
    .risk("2 guards against a local attack; keep it where many users load programs"),
    core(
        "net.core.netdev_tstamp_prequeue",
        NoEffect("when a packet's time stamp is taken matters to captures and not to serving"),
        "Whether packets get their time before RPS moved them or after.",
    ),
    core(
        "net.core.high_order_alloc_disable",
        Only("0", WorseThanDefault, "buffers of packets are then made of single pages: more work for each packet"),
        "Whether the network may use blocks of several pages.",
    )
    .since(5, 14),
    core(
        "net.core.txrehash",
        NoEffect("it chooses another path only after timeouts, where the network hashes flow labels"),
        "Whether a connection picks a new hash for its path after a retransmission timeout.",
    )
    .since(6, 0),
    rule(
        "net.ipv4.ip_forward",
        By(ip_forward),
        "Routing between interfaces. Writing it sets other settings of all interfaces back to the defaults of \
            hosts or \
         routers (RFC 1122, RFC 1812), and container networks need it on.",
    )
    .risk("containers lose their network when it goes to 0; other IP settings are reset in any case"),
    Rule::each(
        Area::Network,
        "net.ipv4.conf.*.rp_filter",
        |evidence| interfaces(evidence, "rp_filter"),
        By(rp_filter),
        "Reverse path filter (RFC 3704): the larger of all's value and the interface's counts. 1 (strict) drops what \
         comes in by another interface than answers would go out by; 2 (loose) only what no route leads to.",
    )
    .counters(&[Counter::Net("TcpExt", "IPReversePathFilter")])
    .risk("strict drops asymmetric traffic in silence, but for the counter")
    .source(IP_SYSCTL),
    Rule::each(
        Area::Network,
        "net.ipv4.conf.*.accept_redirects",
        |evidence| interfaces(evidence, "accept_redirects"),
        By(redirects),
        "Whether ICMP redirects change routes. Routers ignore them; on hosts they are a way to divert traffic.",
    )
    .gain("none in speed")
    .source("RFC 1122 section 3.2.2.2; Linux Documentation/networking/ip-sysctl.rst"),
    Rule::each(
        Area::Network,
        "net.ipv4.conf.*.send_redirects",
        |evidence| interfaces(evidence, "send_redirects"),
        NoEffect("only routers send redirects"),
        "Whether a router tells hosts of a better one.",
    )
    .source(IP_SYSCTL),
    Rule::each(
        Area::Network,
        "net.ipv4.conf.*.accept_source_route",
        |evidence| interfaces(evidence, "accept_source_route"),
        By(source_routes),
        "Whether packets with source routes are taken: where all and the interface both say so.",
    )
    .source(IP_SYSCTL),
    Rule::each(
        Area::Network,
        "net.ipv4.conf.*.log_martians",
        |evidence| interfaces(evidence, "log_martians"),
        By(martians),
        "Whether packets with impossible addresses are logged: a line for each, rate-limited.",
    )
    .risk("log lines that a stranger causes")
    .source(IP_SYSCTL),
    Rule::each(
        Area::Network,
        "net.ipv4.conf.*.arp_ignore",
        |evidence| interfaces(evidence, "arp_ignore"),
        NoEffect("it matters to hosts that share a service address behind a director (1 there), and to no others"),
        "Which ARP requests are answered: 0 for any local address on any interface.",
    )
    .source(IP_SYSCTL),
    Rule::each(
        Area::Network,
        "net.ipv4.conf.*.arp_announce",
        |evidence| interfaces(evidence, "arp_announce"),
        NoEffect("it matters to hosts that share a service address behind a director (2 there), and to no others"),
        "Which source address ARP requests name.",
    )
    .source(IP_SYSCTL),
    rule(
        "net.ipv4.ip_local_port_range",
        By(port_range),
        "Ports of connections that this machine opens: 28,232 by default, for each address and port of a \
            destination. \
         A load generator and a proxy may need more; a range that begins at 1024 takes the ports of services.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPTimeWaitOverflow")])
    .gain("more connections to one destination; a proxy's come back sooner by tcp_tw_reuse")
    .risk("a service finds its port taken: reserve it by ip_local_reserved_ports"),
    rule(
        "net.ipv4.ip_local_reserved_ports",
        NoEffect("ports in it are not given out by themselves; services that name their port may have them"),
        "Ports that connections of this machine do not take.",
    ),
    rule(
        "net.ipv4.ip_unprivileged_port_start",
        By(privileged_ports),
        "The first port that needs no capability: 1024, or lower so that a server needs no root to listen on 80.",
    )
    .gain("a server on port 80 without CAP_NET_BIND_SERVICE")
    .risk("every local user may take those ports while they are free"),
    rule(
        "net.ipv4.ip_no_pmtu_disc",
        Only("0", WorseThanDefault, "without path MTU discovery segments are small or fragmented (RFC 1191)"),
        "0 discovers the path's MTU; 1 and up give that up in ways.",
    )
    .counters(&[Counter::Net("Ip", "FragCreates")]),
    rule(
        "net.ipv4.ip_nonlocal_bind",
        NoEffect("programs may bind addresses that are not here (yet): for pairs of machines that share one"),
        "Whether an address that the machine does not have may be bound.",
    ),
    rule(
        "net.ipv4.ip_early_demux",
        Only(
            "1",
            WorseThanDefault,
            "a server then looks its route up for each packet; only a pure router gains \
            by 0",
        ),
        "Whether a packet's socket is looked up before its route, which the socket knows.",
    ),
    rule(
        "net.ipv4.ip_default_ttl",
        AtLeast(64, WorseThanDefault, "below 64 distant peers may be out of reach (RFC 1700)"),
        "Hops that a packet may go.",
    )
    .source("RFC 1122 section 3.2.1.7; IANA IP option numbers"),
    rule(
        "net.ipv4.ipfrag_high_thresh",
        AtLeast(
            262_144,
            WorseThanDefault,
            "below what Linux had in the days of 64 KB datagrams: reassembly fails \
            early",
        ),
        "Memory for fragments that wait; 4 MB by default, for each network namespace.",
    )
    .counters(&[Counter::Net("Ip", "ReasmFails")])
    .risk("memory that strangers can fill"),
    rule(
        "net.ipv4.icmp_echo_ignore_broadcasts",
        Only("1", Dangerous, "the machine answers broadcast pings then and serves to amplify floods (RFC 2644)"),
        "Whether pings to broadcast addresses are ignored.",
    ),
    rule(
        "net.ipv4.icmp_echo_ignore_all",
        By(ping),
        "Whether all pings are ignored: monitoring goes blind, nothing is gained.",
    ),
    rule(
        "net.ipv4.icmp_ignore_bogus_error_responses",
        Only("1", WorseThanDefault, "broken routers' errors are logged then"),
        "Whether wrong answers to broadcasts are logged.",
    ),
    rule(
        "net.ipv4.icmp_ratelimit",
        By(icmp_ratelimit),
        "Milliseconds between ICMP errors to one peer; 1,000 by default, 0 for no limit.",
    )
    .risk("0 lets strangers have errors sent to forged addresses without a limit"),
    rule(
        "net.ipv4.icmp_msgs_per_sec",
        AtLeast(100, WorseThanDefault, "path MTU discovery of many peers needs some"),
        "ICMP messages per second in all; 10,000 since Linux 6.10, 1,000 before.",
    ),
    rule(
        "net.ipv4.fib_multipath_hash_policy",
        NoEffect("it spreads flows over equal routes, where there are several"),
        "What of a packet chooses between equal routes: 0 addresses, 1 ports as well.",
    ),
    rule(
        "net.ipv4.neigh.default.gc_thresh1",
        AtLeast(128, WorseThanDefault, "entries of neighbours are dropped while they are few"),
        "Neighbours below which none is collected; 128 by default.",
    )
    .source("man 7 arp"),
    rule(
        "net.ipv4.neigh.default.gc_thresh3",
        By(neighbour_limit),
        "The most neighbours there may be; 1,024 by default. A machine on a large flat network, or with many pods, \
         needs more: what is beyond is not sent (\"neighbour table overflow\").",
    )
    .gain("no lost packets on networks of more than a thousand hosts")
    .risk("memory for what strangers on the link can cause")
    .source("man 7 arp"),
    rule(
        "net.ipv4.udp_mem",
        By(udp_mem),
        "Pages for all UDP sockets: where none is given back, where it begins to be refused, and the most. The \
            unit is \
         pages, not bytes.",
    )
    .risk("all memory for UDP, where values were meant as bytes"),
    rule(
        "net.ipv4.udp_rmem_min",
        AtLeast(4_096, WorseThanDefault, "one page is the least that the kernel has by default"),
        "What a UDP socket may have even under memory pressure.",
    ),
    rule(
        "net.ipv4.udp_wmem_min",
        NoEffect("the kernel does not use it"),
        "As udp_rmem_min, for sending; said to be unused by the kernel's own documentation.",
    ),
    rule(
        "net.ipv4.route.max_size",
        NoEffect("IPv4 has had no route cache since Linux 3.6"),
        "Once the size of the route cache.",
    ),
    core(
        "net.unix.max_dgram_qlen",
        NoEffect("datagrams of Unix sockets, as syslog's, wait in queues of this length; HTTP goes over streams"),
        "Datagrams that may wait on a Unix socket.",
    ),
    Rule::sysctl(
        Area::Network,
        "net.netfilter.nf_conntrack_max",
        By(conntrack_max),
        "The most connections that the firewall follows; beyond it packets are dropped (\"table full\"). A server \
            that \
         needs no state does without: notrack rules, or no conntrack module.",
    )
    .roles(Roles::KERNEL)
    .counters(&[Counter::File("proc/sys/net/netfilter/nf_conntrack_count")])
    .gain("no drops when the table is full")
    .risk("some 320 bytes for each entry")
    .source(CONNTRACK),
    Rule::sysctl(
        Area::Network,
        "net.netfilter.nf_conntrack_buckets",
        NoEffect("the kernel sizes it with nf_conntrack_max at load; only chains much longer than 4 cost time"),
        "Buckets of the table of followed connections.",
    )
    .roles(Roles::KERNEL)
    .source(CONNTRACK),
    Rule::sysctl(
        Area::Network,
        "net.netfilter.nf_conntrack_tcp_timeout_established",
        By(conntrack_established),
        "Seconds that an established connection is followed without a packet: 432,000 (five days) by default. Dead \
         ones fill the table for as long.",
    )
    .roles(Roles::KERNEL)
    .gain("room in the table")
    .risk("idle connections that live longer are cut in silence: at least 7,440 s (RFC 5382 REQ-5)")
    .source(CONNTRACK),
    Rule::sysctl(
        Area::Network,
        "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
        NoEffect("120 s by default; a shorter one frees entries sooner where the table is short"),
        "Seconds that a connection in TIME-WAIT is followed.",
    )
    .roles(Roles::KERNEL)
    .source(CONNTRACK),
    Rule::each(
        Area::Network,
        "net.ipv6.conf.*.disable_ipv6",
        |evidence| {
            let value = evidence.read("proc/sys/net/ipv6/conf/all/disable_ipv6");
            let reading = |value: Result<&str, &str>| Reading {
                subject: "all".to_owned(),
                value: value.map(str::to_owned).map_err(str::to_owned),
            };
            value.map(reading).into_iter().collect()
        },
        By(no_ipv6),
        "Whether IPv6 is off. No gain in speed was ever shown; clients without IPv4 are shut out.",
    )
    .source(IP_SYSCTL),
];

/// What each interface has for a setting of IPv4.
fn interfaces(evidence: &Evidence, name: &str) -> Vec<Reading> {
    let read = |interface: &&str| {
        let value = evidence.read(&format!("proc/sys/net/ipv4/conf/{interface}/{name}"))?;
        Some(Reading { subject: (*interface).to_owned(), value: value.map(str::to_owned).map_err(str::to_owned) })
    };
    let names = evidence.names("proc/sys/net/ipv4/conf");
    names.iter().filter(|name| !matches!(**name, "lo" | "default")).filter_map(read).collect()
}

fn somaxconn(case: &Case<'_>) -> Finding {
    let default = if case.kernel_from(5, 4) { 4_096 } else { 128 };
    let overflows = case.evidence.net_counter("TcpExt", "ListenOverflows").unwrap_or(0);
    match case.number() {
        None => Finding::new(WorseThanDefault, "is no number"),
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

fn netdev_max_backlog(case: &Case<'_>) -> Finding {
    let drops = case.evidence.softnet(1);
    match (case.number(), drops) {
        (None, _) => Finding::new(WorseThanDefault, "is no number"),
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

fn netdev_budget(case: &Case<'_>) -> Finding {
    budget(case, 300)
}

fn netdev_budget_usecs(case: &Case<'_>) -> Finding {
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
        None => Finding::new(WorseThanDefault, "is no number"),
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

fn buffer_default(case: &Case<'_>) -> Finding {
    match case.number() {
        None => Finding::new(WorseThanDefault, "is no number"),
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

fn buffer_max(case: &Case<'_>) -> Finding {
    match case.number() {
        None => Finding::new(WorseThanDefault, "is no number"),
        Some(value) if value < 212_992 => {
            Finding::new(WorseThanDefault, "lower than the default of 212992").want("212992")
        }
        Some(value) if value > 256 << 20 => {
            Finding::new(WorseThanDefault, "one socket may then take a quarter of a gigabyte").want("16777216")
        }
        Some(_) => Finding::ok("a limit for programs that ask; TCP's own tuning goes by tcp_rmem and tcp_wmem"),
    }
}

fn default_qdisc(case: &Case<'_>) -> Finding {
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

fn busy(case: &Case<'_>) -> Finding {
    match case.number() {
        None => Finding::new(WorseThanDefault, "is no number"),
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

fn rfs(case: &Case<'_>) -> Finding {
    let names = case.evidence.interfaces();
    let used = names.iter().any(|name| {
        case.evidence.names(&format!("sys/class/net/{name}/queues")).iter().any(|queue| {
            let path = format!("sys/class/net/{name}/queues/{queue}/rps_flow_cnt");
            case.evidence.get(&path).is_some_and(|text| text != "0")
        })
    });
    match case.number() {
        None => Finding::new(WorseThanDefault, "is no number"),
        Some(0) => Finding::ok("off: not needed where a worker sits on each queue's core"),
        Some(_) if !used => Finding::new(
            Verdict::NoEffect,
            "no queue has rps_flow_cnt, without which it does \
            nothing",
        ),
        Some(_) => Finding::ok("RFS is on, with flows for the queues"),
    }
}

fn rps_mask(case: &Case<'_>) -> Finding {
    if case.value.chars().all(|char| matches!(char, '0' | ',')) {
        return Finding::ok("no RPS unless a queue is told to");
    }
    if case.role.polls() {
        return Finding::new(WorseThanDefault, "packets of every new interface interrupt the cores of the mask")
            .want("0");
    }
    Finding::ok("RPS for new interfaces: of use where queues are fewer than cores")
}

fn bpf_jit(case: &Case<'_>) -> Finding {
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

fn bpf_harden(case: &Case<'_>) -> Finding {
    match case.value {
        "2" => Finding::new(Improvable, "constants of root's programs are blinded too, which costs XDP programs time")
            .want("1"),
        "0" => Finding::ok("off; 1 costs root's programs nothing and guards against others'"),
        _ => Finding::ok("on for programs of users without rights"),
    }
}

fn ip_forward(case: &Case<'_>) -> Finding {
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

fn rp_filter(case: &Case<'_>) -> Finding {
    let of = |name: &str| case.evidence.sysctl_number(&format!("net.ipv4.conf.{name}.rp_filter"));
    let dropped = case.evidence.net_counter("TcpExt", "IPReversePathFilter").unwrap_or(0);
    let own = case.number();
    // The larger of the two counts (include/linux/inetdevice.h, IN_DEV_RPFILTER).
    let counts = if case.advised { own } else { own.max(of("all")) };
    match counts {
        None => Finding::new(WorseThanDefault, "is no number"),
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

fn redirects(case: &Case<'_>) -> Finding {
    let router = case.evidence.sysctl("net.ipv4.ip_forward") == Some("1");
    match case.value {
        "0" => Finding::ok("redirects are ignored"),
        _ if router => Finding::ok("a router ignores redirects unless all and the interface both take them"),
        _ => Finding::new(Improvable, "a neighbour can divert connections by redirects; servers have fixed routes")
            .want("0"),
    }
}

fn source_routes(case: &Case<'_>) -> Finding {
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

fn martians(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("not logged"),
        _ => Finding::new(
            Unnecessary,
            "a line for each impossible packet: for looking into something, not for \
            always",
        ),
    }
}

fn port_range(case: &Case<'_>) -> Finding {
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

fn privileged_ports(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(1_024) => Finding::ok("the default"),
        Some(port) if port < 1_024 => Finding::ok(format!(
            "ports from {port} on need no capability; every local user may take them while they are free"
        )),
        _ => Finding::new(WorseThanDefault, "more ports need a capability than by default").want("1024"),
    }
}

fn ping(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("pings are answered, as RFC 1122 section 3.2.2.6 asks"),
        _ => Finding::new(WorseThanDefault, "monitoring goes blind, and no attack is harder for it").want("0"),
    }
}

fn icmp_ratelimit(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(Dangerous, "errors to forged addresses without a limit").want("1000"),
        Some(value) if value <= 1_000 => Finding::ok("a limit for each peer"),
        _ => Finding::new(WorseThanDefault, "fewer errors than by default: path MTU discovery waits for them")
            .want("1000"),
    }
}

fn neighbour_limit(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value < 1_024 => Finding::new(WorseThanDefault, "lower than the default").want("1024"),
        Some(1_024) if case.role == Role::Mixed => {
            Finding::new(Improvable, "a node's pods and services can be more neighbours than that").want("8192")
        }
        Some(value) if value > 1 << 20 => Finding::new(Unnecessary, "no link has a million neighbours"),
        Some(_) => Finding::ok("enough for one network of a thousand hosts"),
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn udp_mem(case: &Case<'_>) -> Finding {
    super::tcp_limits::pages_in_all(case, "UDP")
}

fn conntrack_max(case: &Case<'_>) -> Finding {
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
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn conntrack_established(case: &Case<'_>) -> Finding {
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
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn no_ipv6(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("IPv6 is on"),
        _ => Finding::new(WorseThanDefault, "shuts out clients that have no IPv4, and saves nothing").want("0"),
    }
}
