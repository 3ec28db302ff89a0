//! What a ready answer may depend on, of a head and the connection that it came by.

use crate::security::{Security, asks_clients, transport};
use app::{ConnId, Net};
use exchange::{Asked, LocalAddress, Transport};
use semantics::{Known, Request};
use wire::Time;

/// A head, as it was found.
pub trait Head: Copy {
    /// The path as sent.
    fn path(&self) -> &[u8];
    /// Whether its client speaks HTTP/1.0.
    fn is_http10(&self) -> bool;
    /// Whether there is a query.
    fn has_query(&self) -> bool;
    /// The host and port asked for.
    fn authority(&self) -> &[u8];
    /// The first value of a field.
    fn known(&self, field: Known) -> Option<&[u8]>;
}

/// One that was parsed as a whole.
impl Head for &Request<'_> {
    fn is_http10(&self) -> bool {
        self.line().ends_with(b"/1.0")
    }

    #[inline(always)]
    fn path(&self) -> &[u8] {
        (**self).path()
    }

    fn has_query(&self) -> bool {
        self.query().is_some()
    }

    fn authority(&self) -> &[u8] {
        (**self).authority()
    }

    fn known(&self, field: Known) -> Option<&[u8]> {
        (**self).known(field)
    }
}

/// A head, and the connection that it came by.
#[derive(Debug)]
pub struct Asking<'a, V, N: ?Sized> {
    /// The head.
    pub head: V,
    /// The data path.
    pub net: &'a N,
    /// The connection.
    pub id: ConnId,
    /// How connections are secured, behind one word: few ask for it.
    pub security: &'a Vec<Security>,
}

impl<V: Head, N: Net + ?Sized> Asked for Asking<'_, V, N> {
    fn is_http10(&self) -> bool {
        self.head.is_http10()
    }

    #[inline(always)]
    fn path(&self) -> &[u8] {
        self.head.path()
    }

    fn has_query(&self) -> bool {
        self.head.has_query()
    }

    fn authority(&self) -> &[u8] {
        self.head.authority()
    }

    fn known(&self, field: Known) -> Option<&[u8]> {
        self.head.known(field)
    }

    fn local(&self) -> LocalAddress {
        LocalAddress::of(self.net, self.id)
    }

    fn transport(&self) -> Transport {
        transport(self.security, self.id)
    }

    fn asks_clients(&self) -> bool {
        asks_clients(self.security, self.id)
    }

    fn now(&self) -> Time {
        self.net.now()
    }
}
