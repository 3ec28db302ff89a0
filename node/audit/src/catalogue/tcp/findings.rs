//! What is found of each switch.

use crate::rule::{Role, Verdict};
use crate::{Case, Finding};

use super::DEFAULT_ALREADY;

use Verdict::{Conflicts, Dangerous, Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

pub(super) fn congestion(case: &Case<'_>) -> Finding {
    let available = case.evidence.sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    let known = available.split_whitespace().any(|name| name == case.value);
    let fq = case.other("net.core.default_qdisc") == Some("fq");
    if case.advised && !known {
        return Finding::new(
            Improvable,
            format!("the kernel here has {available}; others must be loaded as modules first"),
        );
    }
    match case.value {
        "cubic" => Finding::ok("the default (RFC 9438)"),
        "bbr" if case.role == Role::Load => Finding::new(
            Improvable,
            "a generator under bbr measures its own model of the path; cubic sends what the server's window takes",
        )
        .want("cubic"),
        "bbr" if !fq => Finding::ok("paced by TCP's own timers, as default_qdisc is not fq"),
        "bbr" => Finding::ok("with fq, as it is meant to be"),
        "reno" => Finding::new(
            Improvable,
            "grows a segment per round trip: minutes on long, fast \
            paths",
        )
        .want("cubic"),
        "dctcp" => Finding::new(
            Dangerous,
            "for networks whose switches mark early; on the Internet it starves others (RFC 8257 section 6)",
        )
        .want("cubic"),
        other => Finding::ok(format!("{other}: chosen on purpose, no doubt; cubic is what others are measured by")),
    }
}

pub(super) fn timestamps(case: &Case<'_>) -> Finding {
    match case.value {
        "0" if case.other("net.ipv4.tcp_tw_reuse").is_some_and(|value| value == "1") => Finding::new(
            Conflicts,
            "net.ipv4.tcp_tw_reuse=1 needs timestamps and does nothing without \
                them",
        )
        .want("1"),
        "0" => Finding::new(WorseThanDefault, "no PAWS, one round-trip sample per window, cookies without options")
            .want("1"),
        "2" => Finding::new(Improvable, "without random offsets they tell how long the machine runs").want("1"),
        _ => Finding::ok(DEFAULT_ALREADY),
    }
}

pub(super) fn tw_reuse(case: &Case<'_>) -> Finding {
    let timestamps = case.other("net.ipv4.tcp_timestamps") != Some("0");
    match case.value {
        "1" if !timestamps => {
            Finding::new(Conflicts, "net.ipv4.tcp_timestamps=0: without timestamps no port is used again").want("2")
        }
        "1" if case.role == Role::WebKernel => Finding::new(
            Unnecessary,
            "only connections that this machine opens are concerned: for proxies and generators",
        ),
        "1" => Finding::ok("ports in TIME-WAIT are used again after a second"),
        "0" if case.role == Role::Load => {
            Finding::new(Improvable, "a generator that opens connections runs out of ports").want("1")
        }
        "2" if case.role == Role::Load => {
            Finding::new(Improvable, "only over loopback; a generator opens connections to other machines").want("1")
        }
        "0" | "2" => Finding::ok("as it is by default: over loopback at most"),
        _ => Finding::new(WorseThanDefault, "0, 1 and 2 are all there is").want("2"),
    }
}

pub(super) fn gone(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("off"),
        _ => Finding::new(Dangerous, "clients behind one address with different clocks cannot connect").want("0"),
    }
}

pub(super) fn fin_timeout(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(60) => Finding::ok(DEFAULT_ALREADY),
        Some(seconds) if seconds < 5 => Finding::new(
            WorseThanDefault,
            "only FIN-WAIT-2 without a program, not TIME-WAIT; a FIN that is late by a lost packet meets a reset",
        )
        .want("60"),
        Some(seconds) if seconds < 60 => {
            Finding::new(Unnecessary, "only FIN-WAIT-2 without a program is shorter by it, not TIME-WAIT")
        }
        Some(_) => Finding::new(WorseThanDefault, "longer than the default: memory for peers that are gone").want("60"),
        None => case.no_number().want("60"),
    }
}

pub(super) fn keepalive_time(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(7_200) => Finding::ok(DEFAULT_ALREADY),
        Some(seconds) if seconds < 60 => Finding::new(
            Nothing,
            "only sockets that ask for SO_KEEPALIVE are probed, and those so often that phones never sleep",
        ),
        Some(_) => Finding::new(Nothing, "only for sockets that ask for SO_KEEPALIVE"),
        None => case.no_number(),
    }
}

pub(super) fn keepalive_part(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(WorseThanDefault, "connections with SO_KEEPALIVE end at the first silence"),
        None => case.no_number(),
        Some(_) => Finding::new(Nothing, "only for sockets that ask for SO_KEEPALIVE"),
    }
}

pub(super) fn syn_retries(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value < 3 => {
            Finding::new(WorseThanDefault, "for laboratories: two lost packets, and a peer counts as gone").want("6")
        }
        Some(value) if value <= 6 => Finding::ok("between 15 s and two minutes"),
        _ => Finding::new(WorseThanDefault, "longer than the default's 127 s").want("6"),
    }
}

pub(super) fn synack_retries(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value < 2 => {
            Finding::new(WorseThanDefault, "for laboratories: a client behind two lost packets is dropped").want("5")
        }
        Some(value) if value <= 5 => Finding::ok("between 7 and 63 s"),
        _ => Finding::new(WorseThanDefault, "half-open connections stay for longer than by default").want("5"),
    }
}

pub(super) fn retries2(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value < 8 => {
            Finding::new(WorseThanDefault, "less than the 100 s that RFC 1122 section 4.2.3.5 asks for").want("8")
        }
        Some(value) if value <= 15 => Finding::ok("between 100 s and a quarter of an hour"),
        _ => Finding::new(
            WorseThanDefault,
            "peers that are gone are kept for more than a quarter of an \
                hour",
        )
        .want("15"),
    }
}

pub(super) fn orphan_retries(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::ok("the default, which means 8"),
        Some(value) if value < 3 => {
            Finding::new(WorseThanDefault, "an answer's end is given up after a lost packet or two").want("0")
        }
        Some(_) => Finding::ok("enough for a lossy link"),
        None => case.no_number(),
    }
}

pub(super) fn slow_start_after_idle(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("keep-alive connections keep their window"),
        _ if case.role == Role::Load => Finding::ok("requests are small: a generator has no window to keep"),
        _ => Finding::new(Improvable, "each answer after a pause begins with ten segments again").want("0"),
    }
}

pub(super) fn notsent_lowat(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value < 16_384 => {
            Finding::new(WorseThanDefault, "a few segments: the sender waits for the program at each of them")
                .want("131072")
        }
        Some(value) if value >= u64::from(u32::MAX) && case.role == Role::WebKernel => Finding::new(
            Improvable,
            "a slow client may have megabytes in its socket that could not be sent yet (nginx has postpone_output \
                and \
             sendfile_max_chunk against it)",
        )
        .want("131072"),
        Some(_) => Finding::ok("sockets are filled so far beyond what is sent, and no further"),
        None => case.no_number(),
    }
}

pub(super) fn fastopen(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value & 0x400 != 0 || value & 0x200 != 0 => Finding::new(
            Dangerous,
            "data in SYNs is taken without a cookie: anybody can send requests under forged addresses (RFC 7413 \
                section 5)",
        )
        .want("1"),
        Some(1) => Finding::ok("clients may, where programs ask for it"),
        Some(0) => Finding::ok("off"),
        Some(3) => Finding::ok("both sides; the server must ask for it too (nginx: listen … fastopen=)"),
        Some(_) => Finding::ok("servers may, where programs ask for it"),
        None => case.no_number().want("1"),
    }
}

pub(super) fn mtu_probing(case: &Case<'_>) -> Finding {
    match case.value {
        "0" if case.role == Role::WebKernel => Finding::new(
            Improvable,
            "clients behind tunnels that drop ICMP hang at their first large \
                answer",
        )
        .want("1"),
        "2" => Finding::new(
            WorseThanDefault,
            "every connection then begins with small segments and \
            probes",
        )
        .want("1"),
        "0" | "1" => Finding::ok("probes at most where a black hole was found"),
        _ => Finding::new(WorseThanDefault, "0, 1 and 2 are all there is").want("1"),
    }
}

pub(super) fn adv_win_scale(case: &Case<'_>) -> Finding {
    if case.kernel_from(6, 6) {
        return Finding::new(
            Nothing,
            "since Linux 6.6 the kernel measures the share for each socket and ignores \
            this",
        );
    }
    match case.value.parse::<i32>() {
        Ok(1) => Finding::ok(DEFAULT_ALREADY),
        Ok(value) if (-31..=31).contains(&value) => {
            Finding::new(Unnecessary, "1 is the default: half of the buffer is window")
        }
        _ => Finding::new(WorseThanDefault, "is not between -31 and 31").want("1"),
    }
}

pub(super) fn no_metrics_save(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::ok("nothing is inherited from another connection"),
        _ => Finding::ok("the default; ssthresh is not kept since Linux 5.6 (tcp_no_ssthresh_metrics_save)"),
    }
}

pub(super) fn ecn(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(WorseThanDefault, "peers that ask for it are refused").want("2"),
        Some(2) => Finding::ok("the default: if the peer asks"),
        Some(1 | 3..=5) => Finding::ok("asks too; tcp_ecn_fallback is the way out where that is blocked"),
        _ => Finding::new(WorseThanDefault, "is no value of it").want("2"),
    }
}

pub(super) fn recovery(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value & 1 == 1 && value < 8 => Finding::ok("RACK is on"),
        _ => Finding::new(
            WorseThanDefault,
            "without RACK lost retransmissions wait for the timer (RFC \
                8985)",
        )
        .want("1"),
    }
}

pub(super) fn frto(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::new(WorseThanDefault, "a delay spike of a mobile link is taken for loss of all in flight")
            .want("2"),
        _ => Finding::ok("spurious timeouts are found out"),
    }
}

pub(super) fn challenge_limit(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value < 1_000 && case.kernel_from(5, 19) => Finding::new(
            Dangerous,
            "a limit for all connections together tells strangers whose connections exist (CVE-2016-5696)",
        )
        .want("2147483647"),
        Some(_) => Finding::ok("each connection has a limit of its own (tcp_invalid_ratelimit)"),
        None => case.no_number(),
    }
}

pub(super) fn invalid_ratelimit(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => {
            Finding::new(WorseThanDefault, "two peers that disagree answer each other at the link's rate").want("500")
        }
        Some(_) => Finding::ok("one answer to invalid segments of a connection in so many milliseconds"),
        None => case.no_number(),
    }
}

pub(super) fn rto_min(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value < 5_000 => Finding::new(
            WorseThanDefault,
            "shorter than any peer's delayed acknowledgement (40 ms in Linux): retransmissions of what arrived",
        )
        .want("200000"),
        Some(value) if value <= 200_000 => Finding::ok("at most the default"),
        _ => Finding::new(
            WorseThanDefault,
            "a loss at the end of an answer costs longer than by \
                default",
        )
        .want("200000"),
    }
}
