//! How many connections one client may have: an IPv4 address, or an IPv6 /64,
//! which is what one subscriber is given (RFC 6177 section 2).

#[cfg(test)]
mod tests;

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use std::collections::BTreeMap;

/// An address, or all that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// Whether it is of addresses of version 4.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether an address begins so.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (a, b) = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()) << 96, u128::from(b.to_bits()) << 96),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits()),
            _ => return false,
        };
        (a ^ b).checked_shr(u128::BITS - u32::from(self.len)).unwrap_or(0) == 0
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Takes `192.0.2.7`, `192.0.2.0/24` and `2001:db8::/32`.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse().map_err(|_| PrefixError)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixError)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = len.unwrap_or(most);
        if len <= most { Ok(Self { address, len }) } else { Err(PrefixError) }
    }
}

/// Not a [`Prefix`]: the user's to mend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefixError;

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write an address, or a network as in 192.0.2.0/24 or 2001:db8::/32")
    }
}

impl core::error::Error for PrefixError {}

/// How many connections each client may have, and who may have any number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceRule {
    /// The most of one client.
    pub limit: u32,
    /// Proxies, behind which there are many clients.
    pub exempt: Vec<Prefix>,
}

/// A client, as far as it is told from others: an IPv4 address, or an IPv6 /64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceKey {
    is_ipv6: bool,
    bits: u64,
}

impl SourceKey {
    /// Whose address it is; one of version 4 in one of version 6 is that of version 4.
    #[must_use]
    pub fn of(client: IpAddr) -> Self {
        match client.to_canonical() {
            IpAddr::V4(ip) => Self { is_ipv6: false, bits: u64::from(ip.to_bits()) },
            IpAddr::V6(ip) => Self { is_ipv6: true, bits: (ip.to_bits() >> 64) as u64 },
        }
    }

    /// The same as two words, the version of IP and the address or network: for a keyed hash.
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        [if self.is_ipv6 { 6 } else { 4 }, self.bits]
    }
}

/// The clients of a data path with their connections, as far as a rule wants
/// them counted. A map in order, not by a hash: nobody can choose addresses
/// that make it slow.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    rule: Option<SourceRule>,
    counts: BTreeMap<SourceKey, u32>,
}

impl Sources {
    /// Nobody yet; without a rule, nobody is counted.
    #[must_use]
    pub const fn new(rule: Option<SourceRule>) -> Self {
        Self { rule, counts: BTreeMap::new() }
    }

    /// Whether anybody is counted.
    #[inline]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.rule.is_some()
    }

    /// Whether a client may have one more connection.
    #[inline]
    #[must_use]
    pub fn admits(&self, client: IpAddr) -> bool {
        self.rule.as_ref().is_none_or(|rule| self.has_room(rule, client))
    }

    #[cold]
    fn has_room(&self, rule: &SourceRule, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.counts.get(&SourceKey::of(client)).is_none_or(|count| *count < rule.limit)
            || rule.exempt.iter().any(|prefix| prefix.contains(client))
    }

    /// A client has one more.
    #[inline]
    pub fn opened(&mut self, client: IpAddr) {
        if self.is_on() {
            *self.counts.entry(SourceKey::of(client)).or_default() += 1;
        }
    }

    /// A client has one less.
    #[inline]
    pub fn closed(&mut self, client: IpAddr) {
        if self.is_on() {
            self.forget(client);
        }
    }

    #[cold]
    fn forget(&mut self, client: IpAddr) {
        let key = SourceKey::of(client);
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    /// Clients that have any.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}
