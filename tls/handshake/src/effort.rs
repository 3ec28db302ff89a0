//! How long a step of a handshake takes, told before it is done: whoever has other things to do
//! decides by it where it is done.

/// The processor time of one step, roughly. The figures are of AWS-LC at 3 GHz.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Effort {
    /// Some 10 us: a session that goes on in TLS 1.2, a last word that is compared.
    Short,
    /// Some 100 us: keys are exchanged, and signed with a key on P-256 or of Ed25519.
    Middle,
    /// More, up to some milliseconds: any other signature, and certificates of clients.
    Long,
}
