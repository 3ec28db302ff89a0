//! Records of TLS 1.2 and 1.3 after the handshake (RFC 5246 section 6.2, RFC 8446
//! section 5): the [`seal::Layer`] that data paths seal and open with.
//!
//! A handshake, whoever does it, leaves [`Established`] behind; [`RecordLayer::new`] takes
//! over, and from then on all is here: KeyUpdates, alerts, tickets that arrive, and what a
//! peer may not send. Ciphers are our own (`gcm`) or aws-lc's, and only the primitive: nonces,
//! numbers, types,
//! padding, limits and keys are ours.
//!
//! | module | for |
//! | --- | --- |
//! | `suite` | ciphers and versions |
//! | `keys` | keys, traffic secrets, and the next ones of them |
//! | `contexts` | keys made ready, of those that were used last |
//! | `ready` | one of them: our own, or the library's |
//! | `sealing`, `opening` | one record |
//! | `messages`, `alert` | what is in records that are not the application's |
//! | `layer` | one connection |
#![forbid(unsafe_code)]

mod alert;
mod contexts;
mod keys;
mod layer;
mod messages;
mod opening;
mod ready;
mod sealing;
mod suite;

pub use keys::{RecordKeys, TrafficSecret};
pub use layer::{Afterwards, Established, Keeper, KeyedWay, RecordLayer, WITHOUT_DATA_MAX};
pub use messages::TlsSide;
pub use suite::{RecordCipher, TlsVersion};
