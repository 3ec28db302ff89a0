//! The connections of a silo: what stands below every protocol that carries exchanges.
//!
//! A protocol ([`Connections`] is what it works on) takes a connection's bytes once whatever
//! stands before them, a proxy's header or a handshake, is over. What is here knows no protocol's
//! heads, and no handler: which connections there are and what their bytes are for, how they are
//! secured, how long their clients may take, what is counted and logged of them.
//!
//! | module | for |
//! | --- | --- |
//! | [`Connections`] | all of them, and what they share |
//! | [`ServedConnection`] | a connection's state, 64 bytes |
//! | [`Counters`] | what comes out |
//! | [`Limits`], [`Timeouts`] | what peers can make us hold, and how long they may take |
//! | [`TermTable`] | the same, by where they connected, and what they asked for |
//! | `timers` | when a wait is over |
//! | `progress` | how exchanges go on and end |
//! | [`Beginnings`] | when connections began, and which they are |
//! | [`ReadingSet`] | those of which a part of a head has come |
//! | [`Security`], [`EarlyConnections`] | how they are secured, and requests that come before that |
//! | [`DialledTable`] | those to upstreams |
//! | [`BodyPace`], [`Traffic`] | how fast bytes come and go |
//! | [`Exchange`] | what there is to know of an exchange, whoever carries it |
//! | [`Multiplexed`], [`Io`] | protocols that carry several exchanges on a connection |
//! | [`CarriedTable`], [`CarriedReplies`] | those exchanges, each with its queue |
//! | [`Asking`], [`page`] | what ready answers may depend on; answers of our own |
//! | `settle` | limits that change |
//! | `drain` | the end of all |
//! | [`trace`] | what tracers are told |
#![forbid(unsafe_code)]

mod asked;
mod beginnings;
mod carried;
mod carried_replies;
mod clock;
mod conn;
mod counters;
mod dialled;
mod drain;
mod early;
mod exchanges;
mod io;
mod limits;
mod pace;
pub mod page;
mod progress;
mod protocol;
mod reading;
mod room;
mod security;
mod settle;
mod table;
mod terms;
mod timers;
pub mod trace;

pub use asked::{Asking, Head};
pub use beginnings::Beginnings;
pub use carried::{CarriedHead, CarriedTable, QueuedHead, Unsent};
pub use carried_replies::CarriedReplies;
pub use clock::WallClock;
pub use conn::{
    DRY, ENDED, FINISHED, FIRST, MARKED, More, PARTIAL, PAUSED, ServedConnection, SpareMore, State, TAKES_BODY, Tick,
};
pub use counters::Counters;
pub use dialled::{Dialled, DialledTable};
pub use drain::DRAINED;
pub use early::EarlyConnections;
pub use exchanges::{Exchange, Traced};
pub use io::{ConnectionIo, ExchangeEvent, ToHandler};
pub use limits::{ConnectionNumbers, ExchangeTerms, HeadTerms, Limits, Timeouts};
pub use pace::{BodyPace, PATIENCE, Traffic};
pub use progress::{record_ready, tell_of_end};
pub use protocol::{CarriedTerms, CarryingConnection, Io, Multiplexed, WriteHead};
pub use reading::ReadingSet;
pub use room::Standing;
pub use security::{Security, asks_clients, transport};
pub use table::{Connections, Drain, Settings};
pub use terms::{TermTable, Terms};
