//! How connections were secured.

use super::{Latency, Throughput};
use crate::figures::{Agreed, Figures};
use handshake::Sought;
use serde::Serialize;

/// How connections were secured.
#[derive(Clone, Debug, Serialize)]
pub struct SecuredReport {
    /// Whether the server's certificate was verified.
    pub verified: bool,
    /// The name that the server was told (RFC 6066 section 3).
    pub name: Option<String>,
    /// Connection established to secured.
    pub handshake: Latency,
    /// Handshakes per second in the measured window.
    pub handshakes_per_second: f64,
    /// Handshakes that went on with an earlier session.
    pub resumed: u64,
    /// Requests sent before their handshake was over, where they were to be.
    pub early: Option<EarlyReport>,
    /// What was agreed on, and how often.
    pub agreed: Vec<AgreedReport>,
}

/// What came of requests that were sent before their handshake was over (RFC 8446 section 2.3).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EarlyReport {
    /// Servers took them.
    pub accepted: u64,
    /// Servers did not, and they were sent again when the handshake was over.
    pub rejected: u64,
    /// Answers 425, Too Early (RFC 8470): to those that were taken and not worked on.
    pub too_early: u64,
}

/// What handshakes agreed on.
#[derive(Clone, Debug, Serialize)]
pub struct AgreedReport {
    /// What it was.
    #[serde(flatten)]
    pub agreed: Agreed,
    /// How many did.
    pub handshakes: u64,
}

impl SecuredReport {
    pub(super) fn new(sought: &Sought, figures: &Figures) -> Self {
        let agreed =
            |(agreed, handshakes): &(Agreed, u64)| AgreedReport { agreed: agreed.clone(), handshakes: *handshakes };
        let mut all = figures.before;
        all.add(&figures.counts);
        Self {
            verified: sought.tls.verifies(),
            name: sought.told.as_deref().map(str::to_owned),
            handshake: Latency::of(&figures.handshake),
            handshakes_per_second: Throughput::new(figures).connections_per_second,
            resumed: all.connections.resumed,
            early: sought.tls.sends_early().then_some(EarlyReport {
                accepted: all.connections.early,
                rejected: all.connections.early_refused,
                too_early: all.statuses.too_early,
            }),
            agreed: figures.agreed.iter().map(agreed).collect(),
        }
    }
}
