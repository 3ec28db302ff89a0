//! What is taken of clients, and waited for, numbered: connections keep a number.

use crate::browsers::KeepAliveDisabled;
use crate::ids::BlockId;
use core::fmt;
use core::time::Duration;

/// Bounds on a request's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadRules {
    /// `client_header_timeout`.
    pub timeout: Duration,
    /// Bytes of the request line or of a field, at most: a buffer of
    /// `large_client_header_buffers`.
    pub line: u64,
    /// Bytes of all of it, at most: all of those buffers, and
    /// `client_header_buffer_size`.
    pub bytes: u64,
    /// `max_headers`.
    pub fields: u32,
}

/// How connections are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionRules {
    /// `keepalive_timeout`; none closes.
    pub keepalive: Duration,
    /// The second value of `keepalive_timeout`, told in `Keep-Alive`.
    pub keepalive_told: Option<Duration>,
    /// `keepalive_requests`.
    pub requests: u32,
    /// `keepalive_time`.
    pub age: Duration,
    /// `keepalive_disable`.
    pub disabled: KeepAliveDisabled,
    /// `client_body_timeout`.
    pub body: Duration,
    /// `send_timeout`.
    pub send: Duration,
    /// `lingering_time`.
    pub lingering: Duration,
    /// `lingering_timeout`.
    pub lingering_pause: Duration,
    /// `lingering_close`, but `off`.
    pub lingers: bool,
}

/// The terms of a program, each once; those of its first listener come first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramTerms {
    /// Those of heads, which the first server of a listener has.
    pub heads: Vec<HeadRules>,
    /// Those of exchanges: the times of [`ConnectionRules`].
    pub exchanges: Vec<ConnectionRules>,
    /// Of each listener, both.
    listeners: Vec<(u8, u8)>,
    /// Of each block.
    blocks: Vec<u8>,
}

/// More terms that differ than connections have numbers for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TooManyTerms {
    /// At the listener with this number.
    Heads(usize),
    /// In this block.
    Exchanges(BlockId),
}

impl fmt::Display for TooManyTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heads(_) => write!(
                f,
                "listeners differ in more than {} ways in \"client_header_timeout\" and header buffers",
                ProgramTerms::HEADS_MAX
            ),
            Self::Exchanges(_) => write!(
                f,
                "places differ in more than {} ways in \"keepalive_timeout\", \"send_timeout\", \
                 \"client_body_timeout\", \"lingering_close\", \"lingering_time\" and \"lingering_timeout\"",
                ProgramTerms::EXCHANGES_MAX
            ),
        }
    }
}

impl ProgramTerms {
    /// Terms of heads that differ, at most.
    pub const HEADS_MAX: usize = exchange::HEAD_TERMS_MAX;

    /// Terms of exchanges that differ, at most.
    pub const EXCHANGES_MAX: usize = exchange::EXCHANGE_TERMS_MAX;

    /// Those of a program: of its listeners, what the first server takes of heads and its
    /// block; and of all blocks.
    ///
    /// # Errors
    /// There are too many.
    pub fn of<B>(
        listeners: impl Iterator<Item = Option<(HeadRules, BlockId)>>,
        blocks: &[B],
        connection: impl Fn(&B) -> ConnectionRules,
    ) -> Result<Self, TooManyTerms> {
        let mut terms = Self { blocks: Vec::with_capacity(blocks.len()), ..Self::default() };
        for (at, first) in listeners.enumerate() {
            let Some((head, block)) = first else {
                terms.listeners.push((0, 0));
                continue;
            };
            let head = number(&mut terms.heads, head, Self::HEADS_MAX).ok_or(TooManyTerms::Heads(at))?;
            let rules = blocks.get(block.0 as usize).map(&connection).unwrap_or_default();
            let exchange = number(&mut terms.exchanges, times(rules), Self::EXCHANGES_MAX);
            terms.listeners.push((head, exchange.ok_or(TooManyTerms::Exchanges(block))?));
        }
        for (at, block) in blocks.iter().enumerate() {
            let exchange = number(&mut terms.exchanges, times(connection(block)), Self::EXCHANGES_MAX);
            terms.blocks.push(exchange.ok_or(TooManyTerms::Exchanges(BlockId(at as u32)))?);
        }
        Ok(terms)
    }

    /// Of a listener, those of heads and those of exchanges.
    #[must_use]
    pub fn of_listener(&self, listener: u16) -> (u8, u8) {
        self.listeners.get(usize::from(listener)).copied().unwrap_or_default()
    }

    /// Of a block, those of exchanges.
    #[must_use]
    pub fn of_block(&self, block: BlockId) -> u8 {
        self.blocks.get(block.0 as usize).copied().unwrap_or_default()
    }
}

/// What of the rules is time that connections are given.
const fn times(rules: ConnectionRules) -> ConnectionRules {
    // A connection that is not kept is given none for the next request.
    let disabled = KeepAliveDisabled::NONE;
    ConnectionRules { keepalive_told: None, requests: 0, age: Duration::ZERO, disabled, ..rules }
}

/// The number of `one` in the list, where it is put if it is not yet.
fn number<T: PartialEq>(list: &mut Vec<T>, one: T, most: usize) -> Option<u8> {
    let at = match list.iter().position(|known| *known == one) {
        Some(at) => at,
        None if list.len() == most => return None,
        None => {
            list.push(one);
            list.len() - 1
        }
    };
    u8::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_numbered_once_and_not_without_end() {
        let block = |at: u64| ConnectionRules {
            send: Duration::from_secs(at % 32),
            requests: at as u32,
            ..ConnectionRules::default()
        };
        let mut blocks: Vec<ConnectionRules> = (0..100).map(block).collect();
        let listeners = || [Some((HeadRules::default(), BlockId(0))), None].into_iter();
        let terms = ProgramTerms::of(listeners(), &blocks, |block| *block).unwrap();
        assert_eq!((terms.exchanges.len(), terms.of_listener(0)), (32, (0, 0)));
        assert_eq!([0, 1, 33, 99].map(|at| terms.of_block(BlockId(at))), [0, 1, 1, 3]);
        assert_eq!(terms.of_block(BlockId(100)), 0);
        blocks[99].send = Duration::from_secs(99);
        assert_eq!(ProgramTerms::of(listeners(), &blocks, |block| *block), Err(TooManyTerms::Exchanges(BlockId(99))));
    }
}
