//! What rustls was shown in the place of what a client sent.

/// A ClientHello that rustls was shown in another's place.
pub(crate) struct Shown {
    /// The message that the client sent.
    pub sent: Vec<u8>,
    /// What rustls was shown, of the same length.
    pub shown: Vec<u8>,
    /// Where they differ.
    pub at: usize,
}

impl Shown {
    /// What was sent where `bytes` begin with what was shown, or are a part of it from its front: what a
    /// session's proof is made of ends before the proofs (RFC 8446 section 4.2.11.2).
    pub fn as_sent(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let length = bytes.len().min(self.shown.len());
        let is_shown = length > self.at && bytes[..length] == self.shown[..length];
        is_shown.then(|| [&self.sent[..length], &bytes[length..]].concat())
    }

    /// Whether both clients' messages ask for the same name.
    pub fn has_same_name(&self, other: &Self) -> bool {
        fn name(one: &Shown) -> Option<&[u8]> {
            let [_, _, high, low] = one.sent.get(one.at..one.at + 4)? else { return None };
            one.sent.get(one.at + 4..)?.get(..usize::from(u16::from_be_bytes([*high, *low])))
        }
        name(self).is_some() && name(self) == name(other)
    }
}
