//! Memory and numbers of TCP: where units are mistaken most.

use crate::rule::{Area, Counter, Judge, Role, Roles, Rule, Verdict};
use crate::{Case, Finding};

use Judge::{By, NoEffect};
use Verdict::{Dangerous, Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

const IP_SYSCTL: &str = "Linux Documentation/networking/ip-sysctl.rst";

const fn rule(key: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule::sysctl(Area::Tcp, key, judge, explain).source(IP_SYSCTL).roles(Roles::KERNEL)
}

pub(super) const RULES: &[Rule] = &[
    rule(
        "net.ipv4.tcp_mem",
        By(tcp_mem),
        "Pages, not bytes, for all TCP sockets: below the first all is well, from the second on buffers shrink, \
            at the \
         third allocation fails. The kernel computes it from memory (about 4.7, 6.2 and 9.4 % of it).",
    )
    .counters(&[Counter::Net("TcpExt", "TCPMemoryPressures"), Counter::Net("TcpExt", "PruneCalled")])
    .gain("none, unless TCPMemoryPressures rises")
    .risk("values meant as bytes are 4,096 times too large: TCP may take all memory")
    .source("net/ipv4/tcp.c, tcp_init_mem; Linux Documentation/networking/ip-sysctl.rst"),
    rule(
        "net.ipv4.tcp_rmem",
        By(tcp_rmem),
        "Receive buffer of a TCP socket in bytes: least, first, most. 131,072 to begin with; at most 6 MB, and 32 MB \
         since Linux 6.16. Published sets have 4096 87380 4194304, which is what Linux 3 had.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPRcvCollapsed"), Counter::Net("TcpExt", "TCPRcvQDrop")])
    .gain("uploads as fast as the path: window = rate × round trip")
    .risk("memory for each upload"),
    rule(
        "net.ipv4.tcp_wmem",
        By(tcp_wmem),
        "Send buffer of a TCP socket in bytes: least, first, most: 4096 16384 4194304 by default. It grows by \
            itself up \
         to the most.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPWqueueTooBig")])
    .gain("downloads beyond 4 MB in flight: 1 Gbit/s at 33 ms")
    .risk("memory for each slow client, unless tcp_notsent_lowat is set"),
    rule(
        "net.ipv4.tcp_max_orphans",
        By(max_orphans),
        "Connections that no program has any more and that still send: beyond it they are reset. Up to 64 KB each \
            that \
         cannot be swapped.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPAbortOnMemory")])
    .risk("64 KB of memory for each"),
    rule(
        "net.ipv4.tcp_max_tw_buckets",
        By(max_tw_buckets),
        "The most connections in TIME-WAIT; beyond it they end at once, with a warning, and old segments may meet \
            new \
         connections. Each takes some 256 bytes.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPTimeWaitOverflow"), Counter::Net("TcpExt", "TW")])
    .risk("lowered: what TIME-WAIT guards against (RFC 9293 section 3.6.1)"),
    rule(
        "net.ipv4.tcp_max_syn_backlog",
        By(max_syn_backlog),
        "Half-open connections of a listener, where it is below somaxconn and SYN cookies are off. With cookies, \
            which \
         are the default, it bounds almost nothing.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPReqQFullDrop"), Counter::Net("TcpExt", "TCPReqQFullDoCookies")])
    .gain("fewer cookies in bursts, together with somaxconn and the listen backlog"),
    rule(
        "net.ipv4.tcp_syncookies",
        By(syncookies),
        "1 sends cookies when the queue of half-open connections is full; 2 always; 0 never: then a flood shuts the \
         server.",
    )
    .counters(&[Counter::Net("TcpExt", "SyncookiesSent"), Counter::Net("TcpExt", "SyncookiesFailed")])
    .source("RFC 4987 section 3.6"),
    rule(
        "net.ipv4.tcp_child_ehash_entries",
        NoEffect("a network namespace shares the host's table of connections unless told otherwise"),
        "Size of the table of connections of new network namespaces.",
    )
    .since(6, 1),
    rule(
        "net.ipv4.tcp_available_ulp",
        By(ulp),
        "What may sit on a TCP socket: tls is kTLS, by which sendfile works over TLS.",
    )
    .since(4, 13)
    .roles(Roles::KERNEL_SERVER)
    .gain("sendfile over TLS, and TLS by the NIC where it can")
    .undo("modprobe -r tls")
    .source("Linux Documentation/networking/tls.rst"),
    rule(
        "net.ipv4.tcp_syn_linear_timeouts",
        NoEffect("it concerns connections that this machine opens: SYNs at even distances before the first doubling"),
        "SYN retransmissions before the time doubles: 4.",
    )
    .since(6, 5),
];

/// What the kernel takes a page to be wherever our users are.
const PAGE: u64 = 4_096;

/// Three numbers in pages, against the memory there is.
pub(super) fn pages_in_all(case: &Case<'_>, what: &str) -> Finding {
    let numbers = case.numbers();
    let [_, pressure, most] = numbers.as_slice() else {
        return Finding::new(WorseThanDefault, "is three numbers of pages");
    };
    let Some(memory) = case.evidence.memory() else {
        return Finding::new(Verdict::Unreadable, "the memory of the machine is not known (proc/meminfo)");
    };
    let most = most.saturating_mul(PAGE);
    // The kernel's own: 9.4 % for TCP, 18.8 % for UDP.
    if most > memory {
        return Finding::new(
            Dangerous,
            format!("the unit is pages: {} for {what}, on a machine of {}", bytes(most), bytes(memory)),
        );
    }
    if most > memory / 2 {
        return Finding::new(
            WorseThanDefault,
            format!(
                "{what} may take {} of {}: the kernel's own share is a tenth to a fifth",
                bytes(most),
                bytes(memory)
            ),
        );
    }
    if most < memory / 40 {
        return Finding::new(WorseThanDefault, format!("{what} may take {} of {} only", bytes(most), bytes(memory)));
    }
    let pressure = pressure.saturating_mul(PAGE);
    Finding::ok(format!(
        "{what} may take {} of {}, and is held back from {} on",
        bytes(most),
        bytes(memory),
        bytes(pressure)
    ))
}

/// SI units, as everywhere.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    UNITS
        .iter()
        .find(|(size, _)| number >= *size)
        .map_or_else(|| format!("{number} B"), |(size, unit)| format!("{:.1} {unit}", number as f64 / *size as f64))
}

fn tcp_mem(case: &Case<'_>) -> Finding {
    let pressures = case.evidence.net_counter("TcpExt", "TCPMemoryPressures").unwrap_or(0);
    let finding = pages_in_all(case, "TCP");
    if finding.verdict == Verdict::Ok && pressures > 0 && !case.advised {
        return Finding::new(Improvable, format!("{}; it came to pressure {pressures} times since boot", finding.why));
    }
    finding
}

fn tcp_rmem(case: &Case<'_>) -> Finding {
    let numbers = case.numbers();
    let [_, first, most] = numbers.as_slice() else {
        return Finding::new(WorseThanDefault, "is three numbers of bytes").want("4096 131072 6291456");
    };
    if first > most {
        return Finding::new(WorseThanDefault, "the first size is above the most").want("4096 131072 6291456");
    }
    // net/ipv4/tcp.c: 32 MiB since Linux 6.16.
    let default = if case.kernel_from(6, 16) { 32 << 20 } else { 6_291_456 };
    if *first < 131_072 {
        return Finding::new(WorseThanDefault, "lowers the first size from today's default of 131072")
            .want(format!("4096 131072 {}", default.max(*most)));
    }
    if *most < default {
        return Finding::new(WorseThanDefault, format!("lowers the most from this kernel's default of {default}"))
            .want(format!("4096 131072 {default}"));
    }
    if *first > 1 << 20 {
        return Finding::new(WorseThanDefault, "every connection begins with a buffer of megabytes, idle ones too")
            .want(format!("4096 131072 {most}"));
    }
    Finding::ok(format!("a window of up to {} per connection", bytes(*most)))
}

fn tcp_wmem(case: &Case<'_>) -> Finding {
    let numbers = case.numbers();
    let [_, first, most] = numbers.as_slice() else {
        return Finding::new(WorseThanDefault, "is three numbers of bytes").want("4096 16384 4194304");
    };
    if first > most || *first < 16_384 || *most < 4_194_304 {
        return Finding::new(WorseThanDefault, "lower than the default of 4096 16384 4194304")
            .want("4096 16384 4194304");
    }
    match (*first, *most) {
        (16_384, 4_194_304) if case.advised => Finding::new(Nothing, "this is the default"),
        (16_384, 4_194_304) => Finding::ok("the default: up to 4 MB in flight, 1 Gbit/s at 33 ms"),
        (first, _) if first > 1 << 20 => {
            Finding::new(WorseThanDefault, "every connection begins with a buffer of megabytes")
                .want("4096 16384 16777216")
        }
        (_, most) if most > 128 << 20 => {
            Finding::new(WorseThanDefault, "one slow client may hold so much memory").want("4096 16384 16777216")
        }
        (_, most) => Finding::ok(format!("up to {} in flight per connection", bytes(most))),
    }
}

fn max_orphans(case: &Case<'_>) -> Finding {
    let Some(number) = case.number() else { return case.no_number() };
    let most = number.saturating_mul(64 << 10);
    match case.evidence.memory() {
        Some(memory) if most > memory.saturating_mul(2) => {
            Finding::new(WorseThanDefault, format!("64 KB each: {} on a machine of {}", bytes(most), bytes(memory)))
        }
        _ if number < 4_096 => Finding::new(WorseThanDefault, "answers to slow clients are cut when it is reached"),
        _ => Finding::ok(format!("up to {} if all are full, which none is", bytes(most))),
    }
}

fn max_tw_buckets(case: &Case<'_>) -> Finding {
    let overflow = case.evidence.net_counter("TcpExt", "TCPTimeWaitOverflow").unwrap_or(0);
    match case.number() {
        Some(number) if number < 65_536 && case.evidence.memory().is_none_or(|memory| memory > 4 << 30) => {
            Finding::new(
                WorseThanDefault,
                "must not be lowered: old segments may meet new \
                connections",
            )
            .want("262144")
        }
        Some(number) if overflow > 0 && !case.advised => {
            Finding::new(Improvable, format!("{overflow} connections left TIME-WAIT early since boot"))
                .want((number.saturating_mul(4)).to_string())
        }
        Some(number) if number > 16 << 20 => Finding::new(Unnecessary, "four gigabytes of them, when full"),
        Some(_) => Finding::ok("nothing left TIME-WAIT early since boot, as far as is counted"),
        None => case.no_number(),
    }
}

fn max_syn_backlog(case: &Case<'_>) -> Finding {
    let cookies = case.other("net.ipv4.tcp_syncookies") != Some("0");
    let sent = case.evidence.net_counter("TcpExt", "TCPReqQFullDoCookies").unwrap_or(0);
    match case.number() {
        Some(number) if number < 128 => {
            Finding::new(WorseThanDefault, "a burst of a hundred clients meets cookies").want("2048")
        }
        Some(number) if number > 4_096 && cookies && sent == 0 => Finding::new(
            Unnecessary,
            "no queue of half-open connections was full since boot, and with cookies somaxconn is what bounds it",
        ),
        Some(_) if case.role == Role::Load => Finding::ok("a generator does not listen"),
        Some(_) => Finding::ok("bounds half-open connections together with somaxconn and the listen backlog"),
        None => case.no_number().want("2048"),
    }
}

fn syncookies(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::ok("the default: cookies when the queue is full"),
        "0" => Finding::new(Dangerous, "a flood of SYNs shuts the server (RFC 4987)").want("1"),
        "2" => Finding::new(WorseThanDefault, "for tests of the network: every connection loses options").want("1"),
        _ => Finding::new(WorseThanDefault, "0, 1 and 2 are all there is").want("1"),
    }
}

fn ulp(case: &Case<'_>) -> Finding {
    if case.value.split_whitespace().any(|name| name == "tls") {
        return Finding::ok("kTLS is there");
    }
    Finding::new(Improvable, "kTLS is not loaded: files over TLS are read and encrypted in user space")
        .want("modprobe tls")
}
