//! What paces one connection.

use congestion::Pacer;
use wire::Time;

/// What paces a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacing {
    pub pacer: Pacer,
    /// Something waits for the pacer until then.
    pub until: Option<Time>,
    /// The rate is another since: perhaps it waits for less.
    pub moved: bool,
}
