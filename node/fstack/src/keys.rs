//! What each key means.

use crate::Meaning::{Nothing, Option as Ours, Warning};
use crate::{Entry, Meaning, cores_of_mask, mask, value_of};
use core::net::{Ipv4Addr, Ipv6Addr};

/// F-Stack takes more for this many microseconds (`ff_dpdk_if.c`).
pub(crate) const LONGEST_DELAY: u32 = 100;

/// What an entry means, in the company of the others.
pub(crate) fn meaning(entry: &Entry<'_>, all: &[Entry<'_>]) -> Meaning {
    let (key, value) = (entry.key, entry.value);
    match entry.section {
        "dpdk" => of_dpdk(key, value, all),
        "pcap" => of_pcap(key, value),
        "kni" => of_kni(key, value),
        "freebsd.boot" => of_boot(key, value),
        "freebsd.sysctl" => of_sysctl(key, value),
        "rss_check" => nothing(
            "our own ports are chosen so that answers come back to their silo, by the NIC's own key where it \
                tells it",
        ),
        "stack" => warning(
            "sockets of the host beside those of the stack: run two servers, or serve over af_xdp, which leaves \
                all else to the kernel",
        ),
        "log" => nothing("logs go to standard error and --access-log"),
        section if numbered(section, "port") => of_port(entry, all),
        section if numbered(section, "vlan") => {
            warning("VLANs are not terminated here: make the VLAN's interface, and serve it over af_xdp")
        }
        section if numbered(section, "vdev") => of_vdev(key, value),
        section if numbered(section, "bond") => of_bond(key, value),
        section => Warning(format!("F-Stack does not read a section [{section}]")),
    }
}

fn nothing(why: &str) -> Meaning {
    Nothing(why.to_owned())
}

fn warning(why: &str) -> Meaning {
    Warning(why.to_owned())
}

fn ours(what: impl Into<String>) -> Meaning {
    Ours(what.into())
}

fn unread(key: &str) -> Meaning {
    Warning(format!("F-Stack does not read {key} here: misspelt, or of another version"))
}

/// `port0` and so on.
fn numbered(section: &str, name: &str) -> bool {
    section
        .strip_prefix(name)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// With the domain that DPDK leaves out.
pub(crate) fn pci(device: &str) -> String {
    if device.matches(':').count() == 1 { format!("0000:{device}") } else { device.to_owned() }
}

fn of_dpdk(key: &str, value: &str, all: &[Entry<'_>]) -> Meaning {
    let on = value != "0";
    match key {
        "lcore_mask" => match cores_of_mask(value) {
            None => Warning(format!("{value} is no hexadecimal mask")),
            Some(cores) if cores.is_empty() => warning("no core at all: F-Stack does not start"),
            Some(cores) => {
                let decimal = value.parse::<u16>().ok().filter(|_| value.len() > 1);
                let note = decimal.map_or_else(String::new, |number| {
                    format!("; it is hexadecimal: not core {number}, and not {number} cores")
                });
                let numbers: Vec<String> = cores.iter().map(u16::to_string).collect();
                ours(format!("--silos {} (cores {}){note}", mask::text(&cores), numbers.join(", ")))
            }
        },
        "channel" => nothing(
            "channels of memory that DPDK spreads its pools over, not queues nor cores; our link asks for \
                none",
        ),
        "memory" => ours(format!("memory={value} in --link dpdk:…, in MB")),
        "no_huge" if on => ours("huge=off in --link dpdk:…; slower"),
        "no_huge" => nothing("huge pages are the usual"),
        "base_virtaddr" => nothing("for several processes that share memory; silos are threads of one process"),
        "file_prefix" => ours(format!("file-prefix={value} in --link dpdk:…")),
        "log_level" | "fstack_log_level" | "fstack_log_file_prefix" => nothing("logs go to standard error"),
        "thread_mode" => nothing("silos are threads of one process, always"),
        "allow" | crate::OLD_ALLOW => {
            let links: Vec<String> =
                value.split(',').map(|device| format!("--link dpdk:{}", pci(device.trim()))).collect();
            ours(links.join(" "))
        }
        "port_list" => match mask::list(value) {
            None => Warning(format!("{value} is no list of ports")),
            Some(ports) if ports.len() > 1 => {
                ours("a --link for each: several ports are one link with --bond, or serve each by a process")
            }
            Some(_) => ours("--link, once"),
        },
        "nb_vdev" | "nb_bond" if !on => nothing("none"),
        "nb_vdev" => ours("--link dpdk:virtio_user0,dev.path=… for each"),
        "nb_bond" => ours("--link for each port, and --bond"),
        "vlan_filter" => warning(
            "VLANs are not terminated here: make the VLAN's interface, and serve it over \
            af_xdp",
        ),
        "idle_sleep" => of_idle_sleep(value),
        "pkt_tx_delay" => of_tx_delay(value),
        "mbuf_mode" => nothing("frames are built in transmit slots; there is no such choice"),
        "proc_type" if value_of(all, "dpdk", "lcore_mask").is_some() => nothing("silos are threads of one process"),
        _ => of_offload(key, value),
    }
}

/// What a port does by itself.
fn of_offload(key: &str, value: &str) -> Meaning {
    let on = value != "0";
    match key {
        "promiscuous" if on => ours("promiscuous=on in --link dpdk:…; not needed for an address of the port's own"),
        "promiscuous" => nothing("off is the usual"),
        "numa_on" if on => nothing("silos, queues and memory are kept together by domain (--numa on, the usual)"),
        "numa_on" => ours("--numa off"),
        "tso" if on => nothing("segments are left to ports that cut them (--offload on, the usual)"),
        "tso" => ours("segmentation=off in --link dpdk:…, to be like it; leave it out for downloads"),
        "lro" if on => {
            warning("joined segments are not taken: windows and acknowledgements go by what came on the wire")
        }
        "lro" => nothing("off is the usual"),
        "tx_csum_offoad_skip" if on => ours("checksum=off in --link dpdk:…"),
        "tx_csum_offoad_skip" => nothing("checksums are left to ports that do them"),
        "vlan_strip" if on => ours("vlan-strip=on in --link dpdk:…; frames with a tag are not for us otherwise"),
        "vlan_strip" => nothing("off is the usual"),
        "symmetric_rss" if on => {
            ours("rss=symmetric in --link dpdk:…; its key is public, so whoever knows it can aim flows at one queue")
        }
        "symmetric_rss" => nothing("off is the usual"),
        "mtu_enable" if on => ours("mtu= in --link dpdk:…"),
        "mtu_enable" => nothing("1500"),
        "max_mtu" => nothing("mtu= of each --link says what is needed"),
        _ => unread(key),
    }
}

fn of_idle_sleep(value: &str) -> Meaning {
    match value.parse::<u32>() {
        Ok(0) => nothing("polls on: --idle spin, the usual over a link that polls"),
        Ok(micros) => ours(format!(
            "--idle sleep:{micros}us, or better --idle adaptive, which sleeps until something comes; the unit is \
             microseconds"
        )),
        Err(_) => Warning(format!("{value} is no number of microseconds")),
    }
}

fn of_tx_delay(value: &str) -> Meaning {
    match value.parse::<u32>() {
        Ok(0) => nothing("frames leave at the end of each turn (--tx-delay 0, the usual)"),
        Ok(micros) => Warning(format!(
            "frames are held for up to {0} us while there are fewer than 32: each answer of a lightly loaded server \
             comes that much later. --tx-delay {0}us does the same; leave it out",
            micros.min(LONGEST_DELAY)
        )),
        Err(_) => Warning(format!("{value} is no number of microseconds")),
    }
}

fn of_pcap(key: &str, value: &str) -> Meaning {
    match key {
        "enable" if value == "0" => nothing("no capture"),
        "enable" => ours("--capture FILE (pcapng, a file for each silo)"),
        "snaplen" => Warning(format!(
            "F-Stack keeps the first {value} bytes of each frame; --capture keeps all of it, so that it takes \
                more disk"
        )),
        "savelen" => warning("--capture goes on in one file: stop it, or watch the disk"),
        "savepath" => ours("the folder of --capture FILE"),
        "timestamp_precision" => nothing("nanoseconds"),
        _ => unread(key),
    }
}

fn of_kni(key: &str, value: &str) -> Meaning {
    match key {
        "enable" if value == "0" => nothing("none"),
        "enable" | "method" | "kni_action" | "tcp_port" | "udp_port" => warning(
            "frames for the kernel: --link af_xdp:INTERFACE leaves everything but the ports of --listen to it, \
                with the \
             interface's own driver; with dpdk nothing reaches the kernel",
        ),
        "type" => nothing("how frames reach the kernel; see enable"),
        "console_packets_ratelimit" | "general_packets_ratelimit" | "kernel_packets_ratelimit" => {
            nothing("the kernel has its own limits")
        }
        _ => unread(key),
    }
}

fn of_vdev(key: &str, value: &str) -> Meaning {
    match key {
        "path" => ours(format!("--link dpdk:virtio_user0,dev.path={value}")),
        "queues" => ours(format!("dev.queues={value}, and as many silos")),
        "queue_size" => ours(format!("dev.queue_size={value}")),
        "mac" => ours(format!("dev.mac={value}, or --mac {value}")),
        "cq" => ours(format!("dev.cq={value}")),
        "iface" => nothing("F-Stack says not to set it"),
        _ => unread(key),
    }
}

fn of_bond(key: &str, value: &str) -> Meaning {
    match key {
        "mode" => match value {
            "4" => ours("--bond lacp"),
            "0" | "2" => ours("--bond static: a flow keeps its link, so that its segments stay in order"),
            "1" => warning("active and backup: --bond static uses all links; give one alone to have one at a time"),
            _ => Warning(format!("mode {value} has no counterpart: --bond static or lacp")),
        },
        "slave" => ours("a --link for each"),
        "lsc_poll_period_ms" | "up_delay" | "down_delay" => {
            nothing("a link that fails is left at once, and LACP says when it is back")
        }
        "xmit_policy" => nothing("by addresses and ports, always"),
        "primary" | "socket_id" => nothing("no link is first among equals; each is in its own domain"),
        "mac" => ours(format!("--mac {value}")),
        _ => unread(key),
    }
}

fn of_port(entry: &Entry<'_>, all: &[Entry<'_>]) -> Meaning {
    let (section, value) = (entry.section, entry.value);
    match entry.key {
        "addr" => match value_of(all, section, "netmask").and_then(prefix) {
            Some(prefix) => ours(format!("--addr {value}/{prefix}")),
            None => ours(format!("--addr {value}/PREFIX: netmask says which, and does not say it here")),
        },
        "netmask" => match prefix(value) {
            Some(prefix) => ours(format!("/{prefix} behind the address of --addr")),
            None => Warning(format!(
                "{value} has zeros between its ones: a slip (255.255.225.0 for 255.255.255.0 is a known one); \
                    hosts beyond it are \
                 asked of the gateway, or not found"
            )),
        },
        "broadcast" => nothing("follows from address and prefix"),
        "gateway" | "gateway6" => ours(format!("--gateway {value}")),
        "addr6" => {
            let prefix = value_of(all, section, "prefix_len").unwrap_or("64");
            ours(format!("--addr {value}/{prefix}"))
        }
        "prefix_len" => ours("behind the address of --addr"),
        "vip_addr" => ours("--addr ADDRESS/32 for each"),
        "vip_addr6" => ours("--addr ADDRESS/PREFIX for each"),
        "vip_prefix_len" => ours("behind each address of vip_addr6"),
        "if_name" | "vip_ifname" => nothing("a name inside F-Stack; links have the device's"),
        "lcore_list" => ours("--silos decides for all ports; a silo without a queue of its own shares one"),
        "slave_port_list" => ours("a --link for each, and --bond"),
        "mtu" => ours(format!("mtu={value} in --link dpdk:…")),
        "ipfw_pr" => warning("no packet filter: what is to be refused is refused by the peer or the switch between"),
        _ => unread(entry.key),
    }
}

/// The length of a netmask without gaps.
fn prefix(netmask: &str) -> Option<u32> {
    let bits = u32::from(netmask.parse::<Ipv4Addr>().ok()?);
    (bits.leading_ones() + bits.trailing_zeros() >= 32).then(|| bits.leading_ones())
}

/// Addresses and gateways of a port, as our flags.
pub(crate) fn addresses(all: &[Entry<'_>], port: u16) -> Vec<(&'static str, Vec<String>)> {
    let section = format!("port{port}");
    let of = |key: &str| value_of(all, &section, key);
    let v4 = of("addr").filter(|text| text.parse::<Ipv4Addr>().is_ok());
    let v4 = v4.map(|address| format!("{address}/{}", of("netmask").and_then(prefix).unwrap_or(24)));
    let v6 = of("addr6").filter(|text| text.parse::<Ipv6Addr>().is_ok());
    let v6 = v6.map(|address| format!("{address}/{}", of("prefix_len").unwrap_or("64")));
    let several = |key: &str, prefix: &str| {
        let parts = of(key).unwrap_or_default().split(';').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(|part| format!("{part}/{prefix}")).collect::<Vec<_>>()
    };
    let more = [several("vip_addr", "32"), several("vip_addr6", of("vip_prefix_len").unwrap_or("64"))].concat();
    let gateways = [of("gateway"), of("gateway6")].into_iter().flatten().map(str::to_owned);
    vec![("--addr", v4.into_iter().chain(v6).chain(more).collect()), ("--gateway", gateways.collect())]
}

fn of_boot(key: &str, value: &str) -> Meaning {
    match key {
        "hz" => Nothing(format!(
            "ticks of FreeBSD's timers: at {value} a timer is up to {} ms late. Ours are kept in milliseconds and \
                looked at in each turn",
            value.parse::<u32>().ok().filter(|hz| *hz > 0).map_or(10, |hz| 1_000 / hz)
        )),
        "physmem" | "memsz_MB" => nothing("memory is taken as it is needed, up to --max-connections"),
        "fd_reserve" => nothing("connections are no descriptors here"),
        "tcp_ecn" => warning("ECN is not offered: congestion shows as loss only"),
        "kern.ipc.maxsockets" => ours(format!("--max-connections {value}")),
        "net.inet.tcp.syncache.hashsize" | "net.inet.tcp.syncache.bucketlimit" | "net.inet.tcp.syncache.cachelimit" => {
            nothing("half-open handshakes are records in a queue, and beyond it SYN cookies")
        }
        "net.inet.tcp.tcbhashsize" => nothing("the flow table is sized for --max-connections, at most half full"),
        "kern.ncallout" => nothing("a timer costs an entry of a wheel, not a callout"),
        key if key.starts_with("kern.features") || key.starts_with("net.inet6") => {
            nothing("IPv6 is there if an --addr is one")
        }
        _ => nothing("a knob of FreeBSD's kernel that has no counterpart here"),
    }
}

fn of_sysctl(key: &str, value: &str) -> Meaning {
    match key {
        "kern.ipc.somaxconn" | "kern.ipc.soacceptqueue" => nothing(
            "there is no accept queue: the server takes \
            connections in the turn in which they are established",
        ),
        "kern.ipc.maxsockbuf"
        | "net.inet.tcp.sendbuf_max"
        | "net.inet.tcp.recvbuf_max"
        | "net.inet.tcp.sendspace"
        | "net.inet.tcp.recvspace"
        | "net.inet.tcp.sendbuf_auto"
        | "net.inet.tcp.recvbuf_auto"
        | "net.inet.tcp.sendbuf_inc"
        | "net.inet.tcp.recvbuf_inc" => nothing(
            "the send queue holds slices of shared bodies, not copies, and the receive window is one \
                limit for all connections",
        ),
        "net.link.ether.inet.maxhold" => nothing(
            "packets to a neighbour that is being asked for wait in a \
            bounded queue",
        ),
        "net.inet.tcp.fast_finwait2_recycle" => nothing(
            "a peer in FIN-WAIT-2 that is silent is probed after 60 \
            s, and given up",
        ),
        "net.inet.tcp.nolocaltimewait" => nothing("TIME-WAIT is a record of 72 bytes"),
        key if key.starts_with("net.inet.tcp.") || key == "net.inet.udp.blackhole" => of_tcp(key, value),
        "net.inet.ip.redirect" => nothing("redirects are ignored, and none are sent"),
        "net.inet.ip.forwarding" | "net.inet6.ip6.forwarding" if value == "1" => warning("nothing is forwarded"),
        "net.inet.ip.forwarding" | "net.inet6.ip6.forwarding" => nothing("nothing is forwarded"),
        "net.inet6.ip6.accept_rtadv" | "net.inet6.ip6.auto_linklocal" => warning(
            "IPv6 addresses and gateways are \
            given by --addr and --gateway, not by the network",
        ),
        _ => nothing("a knob of FreeBSD's stack that has no counterpart here"),
    }
}

/// What FreeBSD's TCP is told.
fn of_tcp(key: &str, value: &str) -> Meaning {
    match key {
        "net.inet.tcp.cc.algorithm" => match value {
            "cubic" => nothing("--congestion cubic, the usual"),
            "newreno" => ours("--congestion newreno"),
            other => Warning(format!("{other} is not there: --congestion cubic or newreno")),
        },
        "net.inet.tcp.functions_default" => match value {
            "freebsd" => nothing("FreeBSD's usual stack"),
            "rack" => nothing("RACK-TLP is the only way here"),
            other => Warning(format!("{other} paces by a model of the path: there is no pacing here")),
        },
        "net.inet.tcp.sack.enable" if value == "0" => warning(
            "SACK is always offered; without it each lost \
            segment costs a round trip",
        ),
        "net.inet.tcp.sack.enable" => nothing("SACK is always offered"),
        "net.inet.tcp.blackhole" | "net.inet.udp.blackhole" => Warning(format!(
            "{value}: segments for ports that are closed are dropped in silence. Here they are answered by \
                resets, within a limit for \
             each source; a firewall before it can drop them"
        )),
        "net.inet.tcp.msl" => match value.parse::<u32>() {
            Ok(millis) if millis < 30_000 => Warning(format!(
                "TIME-WAIT of {} s instead of {} s (RFC 9293 section 3.4.1): old segments may meet new \
                    connections. Here it stays, at 72 \
                 bytes a record, and a port is used again when that is safe (RFC 6191)",
                millis / 500,
                60
            )),
            _ => nothing("TIME-WAIT is 60 s"),
        },
        "net.inet.tcp.delayed_ack" if value == "0" => Warning(
            "0: each segment is acknowledged at once, twice as many segments to send. Here a burst has one \
                acknowledgement, and \
             answers carry it"
                .to_owned(),
        ),
        "net.inet.tcp.delayed_ack" => nothing("acknowledgements wait for an answer, at most 40 ms"),
        _ => nothing("a knob of FreeBSD's TCP that has no counterpart here"),
    }
}
