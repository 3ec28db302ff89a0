//! Requests that are passed on to upstreams: what is asked for them ([`asking`]), and by which
//! settings.

use asking::Ask;
use configuration::proxying::ProxyRules;
use std::sync::Arc;

/// A request that is passed on.
#[derive(Debug)]
pub(crate) struct Relay {
    pub ask: Ask,
    /// The settings of the place that passes it on.
    pub rules: Arc<ProxyRules>,
    /// Bytes of the answer that are to come, where it is a slice.
    pub expects: Option<u64>,
}

#[cfg(test)]
pub(crate) mod tests;
