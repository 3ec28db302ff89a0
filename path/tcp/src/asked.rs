//! What an application can ask of one connection, beyond what [`Config`] says
//! for all: the socket options of Linux's tcp(7) and ip(7).

#[cfg(doc)]
use crate::config::Config;
use crate::config::MIN_ASKED_MSS;

/// Options of one connection. Those of a listener are handed on to the
/// connections that it accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketOptions {
    /// The MSS to announce, and the most payload of a segment with its options,
    /// in bytes (`TCP_MAXSEG`); `None`, the default, is what the MTU allows.
    /// Counts while the connection opens. Taken as 88 if it is less.
    pub max_segment: Option<u16>,
    /// The DS field (RFC 2474) in the upper six bits of the octet that IPv4
    /// calls type of service and IPv6 traffic class (`IP_TOS`, `IPV6_TCLASS`);
    /// 0 by default. The lower two are ECN's (RFC 3168) and left out.
    pub traffic_class: u8,
    /// User timeout in milliseconds instead of [`Config::user_timeout`]
    /// (`TCP_USER_TIMEOUT`, RFC 5482); `None` is the configured one, 0 none.
    pub user_timeout: Option<u32>,
    /// Most bytes per second to send, paced (`SO_MAX_PACING_RATE`), beside
    /// [`Config::max_pacing_rate`]; `None` by default, 0 is taken for 1.
    pub pacing_rate: Option<u64>,
}

/// The bits of a traffic class that are not ECN's.
const DS_FIELD: u8 = 0xfc;

impl SocketOptions {
    /// The same within their bounds.
    #[must_use]
    pub fn sound(self) -> Self {
        Self {
            max_segment: self.max_segment.map(|most| most.max(MIN_ASKED_MSS)),
            traffic_class: self.traffic_class & DS_FIELD,
            ..self
        }
    }
}

/// What was asked of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Asked {
    pub options: SocketOptions,
    /// The rate among them goes once so many bytes are acknowledged, as the cold part counts them.
    pub rate_until: Option<u64>,
    /// Nagle's algorithm, while small segments wait for another reason too.
    pub nagle: bool,
    /// Small segments wait until they are let go (`TCP_CORK`).
    pub corked: bool,
    /// They wait for what the application said follows (`MSG_MORE`), or for
    /// the next segment of the peer.
    pub more: bool,
    /// What is queued last is to be continued: its end asks for no PSH.
    pub open_end: bool,
    /// What is queued goes once, whatever stands against small segments.
    pub release: bool,
}
