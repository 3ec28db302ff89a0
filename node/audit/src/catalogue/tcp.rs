//! How the kernel's TCP behaves: what of the many switches matters.

mod findings;

use crate::rule::{Area, Counter, Judge, Roles, Rule, Verdict};

use Judge::{AtLeast, By, NoEffect, Only};
use Verdict::{Dangerous, Improvable, Unnecessary, WorseThanDefault};
use findings::{
    adv_win_scale, challenge_limit, congestion, ecn, fastopen, fin_timeout, frto, gone, invalid_ratelimit,
    keepalive_part, keepalive_time, mtu_probing, no_metrics_save, notsent_lowat, orphan_retries, recovery, retries2,
    rto_min, slow_start_after_idle, syn_retries, synack_retries, timestamps, tw_reuse,
};

const IP_SYSCTL: &str = "Linux Documentation/networking/ip-sysctl.rst";

const fn rule(key: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule::sysctl(Area::Tcp, key, judge, explain).source(IP_SYSCTL).roles(Roles::KERNEL)
}

const DEFAULT_ALREADY: &str = "the default; nothing to set";

pub(super) const RULES: &[Rule] = &[
    rule(
        "net.ipv4.tcp_congestion_control",
        By(congestion),
        "What decides how fast a connection sends. cubic is the default; bbr helps on lossy, long paths, and \
            wants fq; \
         inside a data centre and against a link that drops in bursts cubic's figures are steadier.",
    )
    .counters(&[Counter::Net("Tcp", "RetransSegs"), Counter::Net("Tcp", "OutSegs")])
    .gain("times the goodput at a per cent of loss, for bbr; nothing on a clean path")
    .risk("bbr takes more than its share from cubic where buffers are short"),
    rule(
        "net.ipv4.tcp_sack",
        Only("1", WorseThanDefault, "without SACK each lost segment costs a round trip (RFC 2018, RFC 6675)"),
        "Selective acknowledgements; on by default.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPSackRecovery")])
    .source("RFC 2018; Linux Documentation/networking/ip-sysctl.rst"),
    rule(
        "net.ipv4.tcp_dsack",
        Only("1", WorseThanDefault, "needless retransmissions are not found out without (RFC 2883)"),
        "Duplicates are reported by SACK blocks; on by default.",
    )
    .source("RFC 2883; Linux Documentation/networking/ip-sysctl.rst"),
    rule(
        "net.ipv4.tcp_fack",
        NoEffect("the kernel ignores it since Linux 4.15: RACK took its place"),
        "Forward acknowledgement, once.",
    ),
    rule(
        "net.ipv4.tcp_window_scaling",
        Only("1", WorseThanDefault, "a connection then has 64 KiB in flight at most: 5 Mbit/s at 100 ms (RFC 7323)"),
        "Windows beyond 64 KiB; on by default.",
    )
    .source("RFC 7323 section 2"),
    rule(
        "net.ipv4.tcp_timestamps",
        By(timestamps),
        "Times in each segment: 12 bytes, for which round trips are measured for each segment, old duplicates are \
         refused (PAWS), and ports in TIME-WAIT can be used again by tcp_tw_reuse. On by default, with a random offset \
         for each connection since Linux 4.10, so that they tell no uptime.",
    )
    .gain("0.8 % of a full segment, for what is lost with it")
    .risk("0 breaks tcp_tw_reuse, and SYN cookies keep no window scale and no SACK")
    .source("RFC 7323 sections 3 to 5"),
    rule(
        "net.ipv4.tcp_tw_reuse",
        By(tw_reuse),
        "Whether a connection that this machine opens may take a port in TIME-WAIT after a second: 2 (loopback \
            only) by \
         default since Linux 4.19, 1 everywhere, and only with timestamps. It does nothing for connections that come \
         in.",
    )
    .counters(&[Counter::Net("TcpExt", "TWRecycled"), Counter::Net("TcpExt", "TW")])
    .gain("more connections per second from a proxy or generator to one destination")
    .source("RFC 6191; Linux Documentation/networking/ip-sysctl.rst"),
    rule(
        "net.ipv4.tcp_tw_recycle",
        By(gone),
        "Broke clients behind one address, was useless with random timestamp offsets, and is gone.",
    )
    .until(4, 12)
    .risk("before Linux 4.12: clients behind NAT cannot connect"),
    rule(
        "net.ipv4.tcp_fin_timeout",
        By(fin_timeout),
        "Seconds that a connection stays in FIN-WAIT-2 once no program has it: 60. It is not the length of \
            TIME-WAIT, \
         which is fixed at 60 s.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPAbortOnTimeout")])
    .risk("a client whose FIN is lost gets a reset for it"),
    rule(
        "net.ipv4.tcp_keepalive_time",
        By(keepalive_time),
        "Seconds of silence before the first probe (7,200); only for sockets that ask for SO_KEEPALIVE. nginx \
            asks only \
         where listen says so=keepalive.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPKeepAlive")])
    .gain("dead peers are found sooner, where sockets ask for it")
    .source("RFC 1122 section 4.2.3.6"),
    rule(
        "net.ipv4.tcp_keepalive_intvl",
        By(keepalive_part),
        "Seconds between probes (75); only for sockets that ask for SO_KEEPALIVE.",
    ),
    rule(
        "net.ipv4.tcp_keepalive_probes",
        By(keepalive_part),
        "Probes without an answer before a connection is given up (9); only for sockets that ask for SO_KEEPALIVE.",
    ),
    rule(
        "net.ipv4.tcp_syn_retries",
        By(syn_retries),
        "How often a SYN is sent again: 6, that is 127 s (tcp_syn_linear_timeouts aside). A program's own timeout is \
         the better place.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPSynRetrans")])
    .risk("1 gives a peer behind one lost packet three seconds"),
    rule("net.ipv4.tcp_synack_retries", By(synack_retries), "How often a SYN,ACK is sent again: 5, that is 63 s.")
        .counters(&[Counter::Net("TcpExt", "TCPTimeouts")])
        .risk("1 loses clients behind lossy links; floods are what cookies are for"),
    rule(
        "net.ipv4.tcp_retries1",
        AtLeast(3, WorseThanDefault, "RFC 1122 asks for three before the route is looked at"),
        "Retransmissions before the network is asked for another way.",
    )
    .source("RFC 1122 section 4.2.3.5"),
    rule(
        "net.ipv4.tcp_retries2",
        By(retries2),
        "Retransmissions before an established connection is given up: 15, some 15 minutes. RFC 1122 asks for at \
            least \
         100 s, that is 8.",
    )
    .source("RFC 1122 section 4.2.3.5"),
    rule(
        "net.ipv4.tcp_orphan_retries",
        By(orphan_retries),
        "Retransmissions for connections that no program has any more; 0 means 8.",
    )
    .risk("1 cuts the end of answers on lossy links"),
    rule(
        "net.ipv4.tcp_slow_start_after_idle",
        By(slow_start_after_idle),
        "Whether the congestion window falls back after an idle time of an RTO. Keep-alive connections that \
            answer now \
         and then begin each answer with ten segments.",
    )
    .gain("a round trip or two for each large answer on a keep-alive connection")
    .risk("bursts of a window that was right a while ago (RFC 7661 has the middle way)")
    .source("RFC 5681 section 4.1; RFC 7661"),
    rule(
        "net.ipv4.tcp_notsent_lowat",
        By(notsent_lowat),
        "Bytes not yet sent beyond which a socket says that it is full: no limit by default. 128 KiB keeps memory \
            and \
         HTTP/2's priorities in hand; programs may set TCP_NOTSENT_LOWAT themselves.",
    )
    .gain("megabytes per slow client, and priorities that act")
    .risk("more wake-ups; a value below a few segments costs goodput"),
    rule(
        "net.ipv4.tcp_fastopen",
        By(fastopen),
        "Bit 0: clients may send data in a SYN; bit 1: servers take it. Programs must ask for it too.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPFastOpenPassive")])
    .gain("a round trip for clients that come again, where the network lets it through")
    .risk("data in SYNs can come twice: for requests that may be repeated only")
    .source("RFC 7413"),
    rule(
        "net.ipv4.tcp_fastopen_blackhole_timeout_sec",
        NoEffect("it concerns connections that this machine opens with data in the SYN"),
        "How long Fast Open rests for after it was seen to be blocked; 0 is never.",
    ),
    rule(
        "net.ipv4.tcp_mtu_probing",
        By(mtu_probing),
        "Path MTU by probes (RFC 4821): 0 off, 1 when a black hole was found, 2 always. Where ICMP is filtered, 1 \
            lets \
         connections live that would hang.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPMTUPSuccess"), Counter::Net("TcpExt", "TCPMTUPFail")])
    .gain("clients behind tunnels that drop ICMP are served")
    .source("RFC 4821"),
    rule(
        "net.ipv4.tcp_base_mss",
        AtLeast(512, WorseThanDefault, "small segments for everybody whose path is probed"),
        "Where MTU probing begins: 1,024.",
    )
    .source("RFC 4821 section 7.2"),
    rule(
        "net.ipv4.tcp_min_snd_mss",
        AtLeast(48, Dangerous, "a peer that asks for tiny segments makes the kernel send thousands (CVE-2019-11479)"),
        "The least segment size that a peer may ask for.",
    )
    .since(5, 2)
    .source("CVE-2019-11479; Linux Documentation/networking/ip-sysctl.rst"),
    rule(
        "net.ipv4.tcp_moderate_rcvbuf",
        Only("1", WorseThanDefault, "receive buffers stay at tcp_rmem's middle value: uploads crawl on long paths"),
        "Whether receive buffers grow with what a connection needs.",
    ),
    rule(
        "net.ipv4.tcp_adv_win_scale",
        By(adv_win_scale),
        "Which part of a receive buffer is offered as window; measured for each socket since Linux 6.6.",
    ),
    rule(
        "net.ipv4.tcp_app_win",
        NoEffect(
            "it reserves a part of the window for the application's delay; nobody has shown a use for \
            another value",
        ),
        "Window kept back for the application.",
    ),
    rule(
        "net.ipv4.tcp_low_latency",
        NoEffect("the kernel ignores it since Linux 4.14, when the prequeue went"),
        "Once: no prequeue.",
    ),
    rule(
        "net.ipv4.tcp_autocorking",
        Only(
            "1",
            Unnecessary,
            "small writes go out one by one: more packets for the same data; latency is \
            TCP_NODELAY's",
        ),
        "Small writes are joined while a packet of the connection waits in the interface's queue.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPAutoCorking")]),
    rule(
        "net.ipv4.tcp_limit_output_bytes",
        AtLeast(
            131_072,
            WorseThanDefault,
            "a connection cannot keep a fast interface busy with less (TCP small \
            queues)",
        ),
        "Bytes of one connection that may wait in the interface's queue.",
    ),
    rule(
        "net.ipv4.tcp_no_metrics_save",
        By(no_metrics_save),
        "Whether what a connection learnt of a path (ssthresh, RTT) is forgotten at its end. One client's bad \
            luck slows \
         down the next behind the same address.",
    )
    .gain("connections from carrier NAT do not inherit a low ssthresh"),
    rule(
        "net.ipv4.tcp_no_ssthresh_metrics_save",
        Only("1", Improvable, "a connection then begins with the ssthresh of the last one to that address"),
        "Whether ssthresh of a path is not kept; 1 by default.",
    )
    .since(5, 6),
    rule(
        "net.ipv4.tcp_ecn",
        By(ecn),
        "Explicit congestion notification: 2 (if the peer asks) by default, 1 asks too. Since Linux 6.18 values \
            up to 5 \
         for AccECN.",
    )
    .counters(&[Counter::Net("IpExt", "InCEPkts")])
    .gain("congestion without loss, where routers mark")
    .source("RFC 3168; RFC 9768"),
    rule(
        "net.ipv4.tcp_ecn_fallback",
        Only("1", WorseThanDefault, "peers behind broken middle boxes are then never reached with tcp_ecn=1"),
        "Whether a SYN with ECN that finds no answer is tried without (RFC 3168 section 6.1.1.1).",
    ),
    rule(
        "net.ipv4.tcp_early_retrans",
        Only(
            "3",
            WorseThanDefault,
            "3 is the tail loss probe (RFC 8985), without which the last segment's loss \
            waits for the timer",
        ),
        "Tail loss probes; on by default.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPLossProbes")])
    .source("RFC 8985 section 7"),
    rule(
        "net.ipv4.tcp_recovery",
        By(recovery),
        "RACK loss detection: bit 0 on, bit 1 fixed reordering window, bit 2 no duplicate-ACK counting.",
    )
    .source("RFC 8985"),
    rule(
        "net.ipv4.tcp_reordering",
        AtLeast(3, WorseThanDefault, "reordering by two is then taken for loss (RFC 5681)"),
        "Duplicate acknowledgements that mean a loss, to begin with.",
    ),
    rule(
        "net.ipv4.tcp_max_reordering",
        AtLeast(127, WorseThanDefault, "paths over several links reorder by more than that"),
        "How far the reordering measured may go.",
    ),
    rule(
        "net.ipv4.tcp_frto",
        By(frto),
        "Forward RTO recovery: timeouts that were too early are found out and undone (RFC 5682).",
    )
    .counters(&[Counter::Net("TcpExt", "TCPSpuriousRTOs")])
    .source("RFC 5682"),
    rule(
        "net.ipv4.tcp_rfc1337",
        NoEffect("a reset in TIME-WAIT is taken or ignored; sequence numbers are checked in either case"),
        "Whether resets end TIME-WAIT (RFC 1337).",
    )
    .source("RFC 1337"),
    rule(
        "net.ipv4.tcp_abort_on_overflow",
        Only(
            "0",
            WorseThanDefault,
            "a burst is answered by resets where the client would have come through a \
            second later",
        ),
        "Whether a full accept queue resets the client.",
    )
    .counters(&[Counter::Net("TcpExt", "ListenOverflows")]),
    rule("net.ipv4.tcp_stdurg", NoEffect("HTTP has no urgent data"), "How the urgent pointer is read."),
    rule(
        "net.ipv4.tcp_challenge_ack_limit",
        By(challenge_limit),
        "Challenge ACKs per second in all. Low values leaked whose connections exist (CVE-2016-5696); none since \
            5.19, \
         where each connection has a limit of its own.",
    )
    .counters(&[Counter::Net("TcpExt", "TCPChallengeACK")])
    .source("RFC 5961 section 7; CVE-2016-5696"),
    rule(
        "net.ipv4.tcp_invalid_ratelimit",
        By(invalid_ratelimit),
        "Milliseconds between answers to invalid segments of one connection: 500.",
    )
    .risk("0 lets two confused peers answer each other without end"),
    rule(
        "net.ipv4.tcp_min_tso_segs",
        NoEffect("pacing decides how many segments go to the interface at once; 2 is the least"),
        "Segments in one large packet, at least.",
    ),
    rule(
        "net.ipv4.tcp_tso_win_divisor",
        NoEffect("it bounds the share of the window in one large packet; 3 serves everybody"),
        "Share of the congestion window that one large packet may have.",
    ),
    rule(
        "net.ipv4.tcp_pacing_ss_ratio",
        AtLeast(200, WorseThanDefault, "slow start cannot double its window in a round trip with less"),
        "Pacing rate in slow start, in per cent of the current rate.",
    ),
    rule(
        "net.ipv4.tcp_pacing_ca_ratio",
        AtLeast(100, WorseThanDefault, "the connection then sends slower than its window allows"),
        "Pacing rate in congestion avoidance, in per cent of the current rate.",
    ),
    rule(
        "net.ipv4.tcp_thin_linear_timeouts",
        NoEffect("it is for streams of few packets, such as games; answers are windows"),
        "Timeouts that do not double for thin streams.",
    ),
    rule(
        "net.ipv4.tcp_comp_sack_delay_ns",
        NoEffect("acknowledgements of a receiver with losses are joined for up to 1 ms; it matters to uploads alone"),
        "How long a SACK may wait for others.",
    ),
    rule(
        "net.ipv4.tcp_migrate_req",
        NoEffect(
            "servers that pass their sockets on, as nginx and Nearside do, lose no request at a restart \
            without it",
        ),
        "Whether half-open connections move to another listener of a SO_REUSEPORT group.",
    )
    .since(5, 14),
    rule(
        "net.ipv4.tcp_shrink_window",
        NoEffect("it concerns receivers short of memory; RFC 9293 section 3.8.6 discourages it"),
        "Whether an offered window may shrink.",
    )
    .since(6, 6),
    rule(
        "net.ipv4.tcp_rto_min_us",
        By(rto_min),
        "The least that is added to the smoothed round trip before a retransmission by timer: 200,000 us. Routes \
            have \
         rto_min too, which is the better place.",
    )
    .since(6, 11)
    .risk("below a peer's delayed acknowledgement (40 to 200 ms) timeouts are spurious"),
    rule(
        "net.ipv4.tcp_early_demux",
        Only("1", WorseThanDefault, "each packet then has its route looked up, which its socket knows"),
        "Whether a packet's socket is looked up before its route.",
    ),
    rule(
        "net.ipv4.tcp_backlog_ack_defer",
        Only("1", Unnecessary, "acknowledgements for packets that waited while the socket was busy go one by one"),
        "Whether packets that waited are acknowledged together.",
    )
    .since(6, 7),
    rule(
        "net.ipv4.tcp_plb_enabled",
        NoEffect("it changes flow labels on congested paths, with DCTCP alone and switches that hash labels"),
        "Protective load balancing.",
    )
    .since(6, 2),
    rule(
        "net.ipv4.tcp_workaround_signed_windows",
        NoEffect("it is for peers of the last century that took a window for a signed number"),
        "Whether a peer without window scaling is taken to be broken.",
    ),
    rule(
        "net.ipv4.tcp_retrans_collapse",
        NoEffect("it works around printers' bugs; collapsing is rare"),
        "Whether segments are joined when they are sent again.",
    ),
];
