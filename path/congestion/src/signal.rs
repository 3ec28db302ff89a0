//! What tells of congestion.

/// What tells of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Something was lost, and recovery begins: it steers what is sent until
    /// [`crate::Controller::on_recovery_end`].
    Loss,
    /// The retransmission timer ran out for something sent once.
    Timeout,
    /// It ran out again for the same, which leaves ssthresh alone (RFC 5681
    /// section 3.1).
    RepeatedTimeout,
}
