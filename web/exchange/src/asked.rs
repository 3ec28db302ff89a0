//! What a ready answer may depend on.

use crate::{LocalAddress, Transport};
use semantics::Known;
use wire::Time;

/// A plain request, as far as a ready answer may depend on it: it is looked at
/// where it lies, as little of it as an answer takes.
pub trait Asked {
    /// The path as sent, without query.
    fn path(&self) -> &[u8];

    /// Whether the client speaks HTTP/1.0.
    fn is_http10(&self) -> bool;

    /// Whether there is a query.
    fn has_query(&self) -> bool;

    /// The host and port asked for.
    fn authority(&self) -> &[u8];

    /// The first value of a field that is looked for in every head.
    fn known(&self, field: Known) -> Option<&[u8]>;

    /// Where the client connected to.
    fn local(&self) -> LocalAddress;

    /// How its connection is secured.
    fn transport(&self) -> Transport {
        Transport::Plain
    }

    /// Whether its client was asked for a certificate.
    fn asks_clients(&self) -> bool {
        false
    }

    /// The time of this turn.
    fn now(&self) -> Time;
}

/// As what it refers to.
impl<A: Asked + ?Sized> Asked for &A {
    fn path(&self) -> &[u8] {
        (**self).path()
    }

    fn is_http10(&self) -> bool {
        (**self).is_http10()
    }

    fn has_query(&self) -> bool {
        (**self).has_query()
    }

    fn authority(&self) -> &[u8] {
        (**self).authority()
    }

    fn known(&self, field: Known) -> Option<&[u8]> {
        (**self).known(field)
    }

    fn local(&self) -> LocalAddress {
        (**self).local()
    }

    fn transport(&self) -> Transport {
        (**self).transport()
    }

    fn asks_clients(&self) -> bool {
        (**self).asks_clients()
    }

    fn now(&self) -> Time {
        (**self).now()
    }
}
