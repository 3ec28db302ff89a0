//! What the kernel makes of numbers below zero, where it takes them.
//!
//! Each was seen on Linux 6.18, in a network namespace (`tests::below`, or by a
//! socket's timer in `/proc/net/tcp`). What older ones made of them may be another
//! thing, and the sentences say so.

use crate::{Finding, Verdict};

/// Keys, what a number below zero does there, how bad that is, and what to write in
/// its place.
const BELOW_ZERO: &[(&str, &str, Verdict, &str)] = &[
    (
        "net.ipv4.tcp_max_tw_buckets",
        "is read without its sign, as more than four thousand million: TIME-WAIT has no bound (older kernels kept none \
         at all)",
        Verdict::Dangerous,
        "262144",
    ),
    (
        "net.ipv4.tcp_max_syn_backlog",
        "is read without its sign, as more than four thousand million: half-open connections are bounded by the \
         listener's backlog alone (older kernels refused who was not known to them)",
        Verdict::WorseThanDefault,
        "2048",
    ),
    (
        "net.unix.max_dgram_qlen",
        "is read without its sign: a queue of datagrams that nobody takes is bounded by its senders' buffers alone",
        Verdict::WorseThanDefault,
        "512",
    ),
    (
        "net.ipv4.tcp_fin_timeout",
        "does what 0 does: who closed first forgets the connection after three and a half retransmission timeouts, and \
         a FIN that is late by a lost packet meets a reset",
        Verdict::WorseThanDefault,
        "60",
    ),
    (
        "net.ipv4.tcp_keepalive_time",
        "puts the first probe months away: sockets with SO_KEEPALIVE send none, and peers that are gone are kept",
        Verdict::WorseThanDefault,
        "7200",
    ),
    (
        "net.ipv4.tcp_keepalive_intvl",
        "puts the second probe months away: sockets with SO_KEEPALIVE send one, and peers that are gone are kept",
        Verdict::WorseThanDefault,
        "75",
    ),
    ("net.ipv4.ip_forward", "is not 0, and so the same as 1: the machine forwards", Verdict::WorseThanDefault, "1"),
    (
        "net.ipv4.tcp_fastopen",
        "has every bit: among them 0x400, which opens every listener to data in a SYN, and 0x200, which takes it from \
         peers that never showed a cookie",
        Verdict::Dangerous,
        "3",
    ),
];

/// What is said of a number below zero; `None` of another value, and where nothing
/// was seen.
pub(crate) fn below_zero(key: &str, value: &str) -> Option<Finding> {
    let digits = value.trim().strip_prefix('-')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) || digits.bytes().all(|byte| byte == b'0')
    {
        return None;
    }
    let (_, what, verdict, want) = BELOW_ZERO.iter().find(|(name, ..)| *name == key)?;
    Some(Finding::new(*verdict, format!("is below zero, and {what}")).want(*want))
}
