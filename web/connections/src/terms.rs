//! How long clients may take, and how much they may say: by where they connected, and
//! by what they asked for last.

use crate::limits::{ExchangeTerms, HeadTerms, Limits, Timeouts};
use core::time::Duration;
use h1::server::{RequestLimits, Waiting};

/// Which terms a connection has: of heads in the upper three bits, of exchanges in the
/// others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms(u8);

impl Terms {
    /// The first of both.
    pub const FIRST: Self = Self(0);

    const EXCHANGES: u8 = (EXCHANGE_TERMS_MAX - 1) as u8;

    /// Of both numbers; heads beyond the last have the first.
    pub const fn of(head: u8, exchange: u8) -> Self {
        Self::of_heads(head % HEAD_TERMS_MAX as u8).with_exchange(exchange)
    }

    const fn of_heads(number: u8) -> Self {
        Self(number << Self::EXCHANGES.count_ones())
    }

    const fn head(self) -> usize {
        (self.0 >> Self::EXCHANGES.count_ones()) as usize
    }

    /// Those of exchanges.
    #[inline(always)]
    pub const fn exchange(self) -> u8 {
        self.0 & Self::EXCHANGES
    }

    /// The same heads, other exchanges.
    pub const fn with_exchange(self, number: u8) -> Self {
        Self(self.0 & !Self::EXCHANGES | number & Self::EXCHANGES)
    }
}

/// Terms of heads, and of exchanges, at most: those of [`Terms`].
const HEAD_TERMS_MAX: usize = exchange::HEAD_TERMS_MAX;
const EXCHANGE_TERMS_MAX: usize = exchange::EXCHANGE_TERMS_MAX;

const _: () = assert!(HEAD_TERMS_MAX * EXCHANGE_TERMS_MAX == 1 << u8::BITS && EXCHANGE_TERMS_MAX.is_power_of_two());

/// All terms; where fewer are told, the first in place of the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TermTable {
    heads: [HeadTerms; HEAD_TERMS_MAX],
    exchanges: [ExchangeTerms; EXCHANGE_TERMS_MAX],
    /// What no terms of heads fall below.
    pub plain: RequestLimits,
}

impl TermTable {
    /// Those that are told, by their numbers; limits and times of all others.
    #[must_use]
    pub fn of(
        (limits, timeouts): (&Limits, &Timeouts),
        head_terms: &[HeadTerms],
        exchange_terms: &[ExchangeTerms],
    ) -> Self {
        let (http, times) = (&limits.http, &timeouts.http);
        let head = HeadTerms { limits: *http, timeout: times.header };
        let exchange = ExchangeTerms {
            body: times.body,
            send: times.send,
            keep_alive: times.keep_alive,
            linger: timeouts.linger,
            linger_most: timeouts.linger,
            lingers: true,
        };
        let mut table = Self { heads: [head; HEAD_TERMS_MAX], exchanges: [exchange; EXCHANGE_TERMS_MAX], plain: *http };
        for (place, told) in table.heads.iter_mut().zip(head_terms) {
            *place = *told;
            let (plain, told) = (&mut table.plain, &told.limits);
            plain.request_line = plain.request_line.min(told.request_line);
            // What is longer may have a field that is too long.
            plain.head = plain.head.min(told.head).min(told.request_line);
            plain.fields = plain.fields.min(told.fields);
        }
        for (place, told) in table.exchanges.iter_mut().zip(exchange_terms) {
            *place = *told;
        }
        table
    }

    /// Of heads.
    #[inline]
    pub const fn head(&self, terms: Terms) -> &HeadTerms {
        &self.heads[terms.head() % HEAD_TERMS_MAX]
    }

    /// Of exchanges.
    #[inline]
    pub const fn exchange(&self, terms: Terms) -> &ExchangeTerms {
        &self.exchanges[terms.exchange() as usize % EXCHANGE_TERMS_MAX]
    }

    /// Of exchanges, by their number.
    #[must_use]
    pub const fn of_exchange(&self, number: u8) -> &ExchangeTerms {
        &self.exchanges[number as usize % EXCHANGE_TERMS_MAX]
    }

    /// How long a client may take for what is waited for; `None` when nothing is.
    pub const fn after(&self, terms: Terms, waiting: Waiting) -> Option<Duration> {
        match waiting {
            Waiting::FirstHead | Waiting::Head => Some(self.head(terms).timeout),
            Waiting::Body => Some(self.exchange(terms).body),
            Waiting::KeepAlive => Some(self.exchange(terms).keep_alive),
            Waiting::Nothing => None,
        }
    }

    /// The time after which the next wait that begins may be over.
    pub fn soonest(&self, terms: Terms) -> Duration {
        self.exchange(terms).keep_alive.min(self.head(terms).timeout)
    }

    /// Whether anybody is to wait for less long than by `old`.
    pub fn is_shorter(&self, old: &Self) -> bool {
        let heads = self.heads.iter().zip(&old.heads).any(|(new, old)| new.timeout < old.timeout);
        let times = |terms: &ExchangeTerms| [terms.body, terms.send, terms.keep_alive];
        let mut exchanges = self.exchanges.iter().zip(&old.exchanges);
        heads || exchanges.any(|(new, old)| times(new).iter().zip(times(old)).any(|(new, old)| *new < old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_of_both_kinds_are_kept_apart() {
        for head in 0..HEAD_TERMS_MAX as u8 {
            for exchange in 0..EXCHANGE_TERMS_MAX as u8 {
                let terms = Terms::of_heads(head).with_exchange(9).with_exchange(exchange);
                assert_eq!((terms.head(), terms.exchange()), (usize::from(head), exchange));
            }
        }
        assert_eq!(Terms::FIRST, Terms::of_heads(0).with_exchange(0));
    }

    #[test]
    fn where_none_are_told_the_first_hold() {
        let (limits, timeouts) = (Limits::default(), Timeouts::default());
        let plain = TermTable::of((&limits, &timeouts), &[], &[]);
        assert_eq!(plain.plain, limits.http);
        let first = HeadTerms { limits: limits.http, timeout: Duration::from_secs(60) };
        let mut other = first;
        (other.limits.head, other.timeout) = (1_000, Duration::from_secs(1));
        let table = TermTable::of((&limits, &timeouts), &[first, other], &[]);
        assert_eq!(table.plain.head, 1_000);
        assert_eq!(table.head(Terms::of_heads(1)), &other);
        assert_eq!(table.head(Terms::of_heads(7)), plain.head(Terms::FIRST));
        assert!(table.is_shorter(&plain) && !plain.is_shorter(&table));
    }
}
