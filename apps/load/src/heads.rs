//! What heads carry beside what was asked for: the fields of one kind of client
//! or another, with values that differ between two of a kind.

mod agents;
mod wrk;

pub(crate) use agents::UserAgent;
pub use wrk::{WRK_USERS_LIMIT, wrk_script};

use app::ConnId;
use random::mix;
use serde::Serialize;

/// What requests carry beside method, target, Host and what
/// [`Request::headers`](crate::Request::headers) names. A field that is named there is left out here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heads {
    /// Nothing: all connections send the same bytes.
    #[default]
    Equal,
    /// What programs send: `User-Agent`, `Cookie` and `Accept`, with values of
    /// its own on each connection. Heads are from 40 to 150 bytes long, where
    /// path and host have some 20; one connection in eight sends neither
    /// `User-Agent` nor `Cookie`. Memory: some 300 bytes for each connection.
    Short,
    /// What browsers send: twelve fields, Host included, some 600 bytes, with
    /// values of its own on each connection. Memory: some 800 bytes for each
    /// connection.
    Browser,
}

impl Heads {
    /// The field lines of a client, CR LF included, without the empty line;
    /// `number` says which client.
    #[must_use]
    pub fn fields(self, number: u64) -> Vec<u8> {
        let agents = UserAgent::all(self, &[]);
        let mut out = Vec::new();
        if let Some(agent) = choose(&agents, number) {
            agent.write(number, &mut out);
        }
        out
    }
}

/// Each connection's number, the same as long as it lives: different ones for
/// different connections of a silo, because each step of the mixing can be undone.
pub(crate) fn number(seed: u64, id: ConnId) -> u64 {
    let connection = u64::from(id.generation()) << 32 | id.index() as u64;
    mix(connection.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Which client it is, by the number's upper half.
pub(crate) fn choose(agents: &[UserAgent], number: u64) -> Option<&UserAgent> {
    agents.get((((number >> 32) * agents.len() as u64) >> 32) as usize)
}
