//! What ICMP errors say of the way to whom a packet of ours was for.

use app::Unreachable;
use wire::icmpv4::Icmpv4;
use wire::icmpv6::Icmpv6;

/// What an error says of the peer; `None` for one that says nothing of it
/// (Linux: `icmp_err_convert` in net/ipv4/icmp.c, `tcp_v4_err` in
/// net/ipv4/tcp_ipv4.c).
pub(crate) const fn of_v4(message: &Icmpv4<'_>) -> Option<Unreachable> {
    Some(match message {
        Icmpv4::DestinationUnreachable { code, .. } => match code {
            0 | 6 | 9 | 11 => Unreachable::Network,
            1 | 10 | 12..=15 => Unreachable::Host,
            2 => Unreachable::Protocol,
            3 => Unreachable::Port,
            5 => Unreachable::SourceRoute,
            7 => Unreachable::NoHost,
            8 => Unreachable::Isolated,
            _ => return None,
        },
        Icmpv4::TimeExceeded { .. } => Unreachable::Host,
        Icmpv4::ParameterProblem { .. } => Unreachable::Header,
        _ => return None,
    })
}

/// The same over IPv6 (`icmpv6_err_convert` in Linux's net/ipv6/icmp.c).
pub(crate) const fn of_v6(message: &Icmpv6<'_>) -> Option<Unreachable> {
    Some(match message {
        Icmpv6::DestinationUnreachable { code, .. } => match code {
            0 => Unreachable::Network,
            1 | 5 | 6 => Unreachable::Prohibited,
            2 | 3 => Unreachable::Host,
            4 => Unreachable::Port,
            _ => Unreachable::Header,
        },
        Icmpv6::TimeExceeded { .. } => Unreachable::Host,
        Icmpv6::ParameterProblem { .. } => Unreachable::Header,
        _ => return None,
    })
}
