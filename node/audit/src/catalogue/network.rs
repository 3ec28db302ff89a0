//! `net.core`, IP, neighbours, connection tracking: what lies below TCP.

mod findings;

use crate::rule::{Area, Counter, Judge, Reading, Roles, Rule, Verdict};

use Judge::{AtLeast, By, NoEffect, Only};
use Verdict::{Dangerous, Unnecessary, WorseThanDefault};
use findings::{
    bpf_harden, bpf_jit, buffer_default, buffer_max, busy, conntrack_established, conntrack_max, default_qdisc,
    icmp_ratelimit, interfaces, ip_forward, martians, neighbour_limit, netdev_budget, netdev_budget_usecs,
    netdev_max_backlog, no_ipv6, ping, port_range, privileged_ports, redirects, rfs, rp_filter, rps_mask, somaxconn,
    source_routes, udp_mem,
};

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
