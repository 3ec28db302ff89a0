//! What a test is to be like.

use core::time::Duration;
use messages::Token;

/// What a test is to be like.
#[derive(Clone, Debug)]
pub struct ControlRules {
    /// The secret of which each worker's own token comes ([`Token::of_worker`]).
    pub token: Token,
    /// The version that they are to have.
    pub version: String,
    /// What each worker is to understand that it does; as many as there are workers.
    pub setups: Vec<String>,
    /// How long they may make ready.
    pub prepare: Duration,
    /// How long the load is to be on.
    pub load: Duration,
    /// How much later than set a worker may begin.
    pub start_tolerance: Duration,
}
