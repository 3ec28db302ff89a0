//! What is spoken where: data of a site, by the addresses that clients connect to.

use crate::{ChosenTls, LocalAddress, Turn};
use app::Prefix;
use core::fmt::Debug;
use core::net::{IpAddr, SocketAddr};
use handshake::{Hello, ServerTls};
use std::rc::Rc;
use std::sync::Arc;

/// What clients that connect to an address speak.
#[derive(Clone, Debug)]
pub enum Speaks {
    /// HTTP, behind what this says.
    Http(HttpOpening),
    /// The protocol of an application of its own, which has the silo together with the web
    /// server: the one with this number.
    Service(u8),
}

impl Speaks {
    /// HTTP, with nothing before it.
    pub const PLAIN: Self = Self::Http(HttpOpening { proxied: false, tls: None, terms: (0, 0), http2: None });

    /// HTTPS, with one server for whatever name a client asks for.
    #[must_use]
    pub fn https(tls: Arc<ServerTls>) -> Self {
        Self::Http(HttpOpening { tls: Some(Rc::new(tls)), ..HttpOpening::default() })
    }
}

/// What stands before the requests of a connection, and how long its client may take.
#[derive(Clone, Default, Debug)]
pub struct HttpOpening {
    /// A header of the PROXY protocol comes first.
    pub proxied: bool,
    /// A handshake of TLS follows, with a server that this chooses.
    pub tls: Option<Rc<dyn ChooseTls>>,
    /// The numbers of the terms that the connection begins with: of heads, and of exchanges.
    pub terms: (u8, u8),
    /// HTTP/2 is spoken, if a client asks for it: in its handshake, or where there is none by what it
    /// sends first (RFC 9113 section 3.3).
    pub http2: Option<Http2Terms>,
}

/// What connections of HTTP/2 differ in by their listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2Terms {
    /// Streams that may be open at a time. Default 128.
    pub streams: u32,
    /// Bytes of a body that may come before its handler has read any of it. Default 65,536.
    pub window: u32,
    /// Bytes of a body that one frame has, at most. Default 16,384.
    pub chunk: u32,
}

impl Default for Http2Terms {
    fn default() -> Self {
        Self { streams: 128, window: 1 << 16, chunk: 1 << 14 }
    }
}

/// With whom clients of a listener shake hands.
pub trait ChooseTls: Debug {
    /// The server for a client that came to `local`; `None`: there is none for it.
    fn choose(&self, local: LocalAddress, hello: &Hello, turn: &Turn) -> Option<ChosenTls>;
}

/// One server for all.
impl ChooseTls for Arc<ServerTls> {
    fn choose(&self, _local: LocalAddress, _hello: &Hello, _turn: &Turn) -> Option<ChosenTls> {
        Some(ChosenTls { tls: Self::clone(self), by_name: false, demand: None })
    }
}

/// A site's listeners. The default is one at every address, for HTTP without TLS.
#[derive(Clone, Debug)]
pub struct Listeners {
    all: Vec<(LocalAddress, Speaks)>,
    is_looked_for: bool,
    other: Speaks,
    /// Whose word is believed when they tell of clients: proxies in front, whose connections
    /// are many clients'.
    pub fronts: Vec<Prefix>,
    /// Connections may be secured: some clients', or those to upstreams.
    pub secures: bool,
}

impl Default for Listeners {
    fn default() -> Self {
        Self::everywhere(Speaks::PLAIN)
    }
}

impl Listeners {
    /// Those at these addresses, in the order in which they are looked for.
    #[must_use]
    pub fn new(all: Vec<(LocalAddress, Speaks)>) -> Self {
        let is_tls = |(_, speaks): &(LocalAddress, Speaks)| matches!(speaks, Speaks::Http(http) if http.tls.is_some());
        let (secures, is_looked_for) = (all.iter().any(is_tls), all.len() != 1);
        Self { all, is_looked_for, other: Speaks::PLAIN, fronts: Vec::new(), secures }
    }

    /// The same at every address.
    #[must_use]
    pub fn everywhere(speaks: Speaks) -> Self {
        Self::new(vec![(LocalAddress::Unknown, speaks)])
    }

    /// There are connections that a listener took which is gone: even the only one is looked
    /// for.
    pub const fn look_for_all(&mut self) {
        self.is_looked_for = true;
    }

    /// What a client speaks that connected to `local`. Nothing stands before the requests of
    /// one whose listener is gone.
    #[inline]
    pub fn speaks(&self, local: impl FnOnce() -> LocalAddress) -> &Speaks {
        match self.all.as_slice() {
            [(_, speaks)] if !self.is_looked_for => speaks,
            _ => self.find(local()),
        }
    }

    /// As [`Listeners::speaks`], if that is HTTP.
    pub fn opening(&self, local: impl FnOnce() -> LocalAddress) -> Option<&HttpOpening> {
        match self.speaks(local) {
            Speaks::Http(opening) => Some(opening),
            Speaks::Service(_) => None,
        }
    }

    #[inline(never)]
    fn find(&self, local: LocalAddress) -> &Speaks {
        let at = listener_at(self.all.iter().map(|(at, _)| *at), local);
        at.and_then(|at| self.all.get(at)).map_or(&self.other, |(_, speaks)| speaks)
    }

    /// Whether an address is that of somebody who is believed when he tells of clients.
    #[must_use]
    pub fn is_front(&self, address: IpAddr) -> bool {
        self.fronts.iter().any(|prefix| prefix.contains(address))
    }
}

/// Which of these listeners took a connection to `local`: the one at that address, or one for
/// all addresses at its port, of its family before the other. A connection outlives the
/// listener that took it: nobody else answers there. Where an address cannot be told, it is the
/// first that has none.
pub fn listener_at(mut all: impl Iterator<Item = LocalAddress> + Clone, local: LocalAddress) -> Option<usize> {
    let local = match local {
        LocalAddress::Inet(local) => SocketAddr::new(local.ip().to_canonical(), local.port()),
        LocalAddress::Unix(_) => return all.position(|at| at == local),
        LocalAddress::Unknown => return Some(all.position(|at| at.inet().is_none()).unwrap_or(0)),
    };
    let at = |wanted: &dyn Fn(&SocketAddr) -> bool| all.clone().position(|at| at.inet().is_some_and(|at| wanted(&at)));
    let for_all = |address: &SocketAddr| address.port() == local.port() && address.ip().is_unspecified();
    let exact = at(&|address| *address == local);
    let family = || at(&|address| for_all(address) && address.is_ipv4() == local.is_ipv4());
    exact.or_else(family).or_else(|| at(&for_all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(text: &str) -> LocalAddress {
        LocalAddress::Inet(text.parse().expect("an address"))
    }

    /// Listeners that differ in the number of their terms.
    fn listeners(all: &[LocalAddress]) -> Listeners {
        let speaks = |number| Speaks::Http(HttpOpening { terms: (number, 0), ..HttpOpening::default() });
        Listeners::new(all.iter().zip(1..).map(|(at, number)| (*at, speaks(number))).collect())
    }

    #[test]
    fn a_listener_is_found_by_the_address_that_is_nearest() {
        let all = [
            inet("[::]:80"),
            inet("0.0.0.0:80"),
            inet("192.0.2.1:80"),
            inet("[::]:81"),
            LocalAddress::Unix(7),
            inet("192.0.2.1:82"),
        ];
        let listeners = listeners(&all);
        for (local, found) in [
            (inet("192.0.2.1:80"), 3),
            (inet("[::ffff:192.0.2.1]:80"), 3),
            (inet("192.0.2.2:80"), 2),
            (inet("[2001:db8::1]:80"), 1),
            (inet("192.0.2.2:81"), 4),
            (LocalAddress::Unix(7), 5),
            (LocalAddress::Unknown, 5),
            // Nobody's: their listeners are gone.
            (inet("192.0.2.2:82"), 0),
            (inet("192.0.2.1:83"), 0),
            (LocalAddress::Unix(8), 0),
        ] {
            assert_eq!(listeners.opening(|| local).map(|opening| opening.terms.0), Some(found), "{local:?}");
        }
    }

    #[test]
    fn the_only_listener_is_not_looked_for_while_no_other_was_there() {
        let mut one = listeners(&[inet("192.0.2.1:80")]);
        let number = |listeners: &Listeners| listeners.opening(|| inet("192.0.2.1:81")).map(|opening| opening.terms.0);
        assert_eq!(one.opening(|| panic!("it is known")).map(|opening| opening.terms.0), Some(1));
        one.look_for_all();
        assert_eq!(number(&one), Some(0));
        let everywhere = Listeners::everywhere(Speaks::Service(3));
        assert!(everywhere.opening(|| inet("192.0.2.1:81")).is_none());
    }
}
