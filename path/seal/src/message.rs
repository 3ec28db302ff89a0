//! The messages that a data path sends by itself, as plaintext of records.

/// A key update that asks for none in return (RFC 8446 section 4.6.3), as a record of
/// [`ContentType::Handshake`](crate::ContentType::Handshake): message type 24, a body of one
/// byte, update_not_requested.
pub const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// Most bytes of such a message.
pub const MOST: usize = KEY_UPDATE.len();

/// The peer sends no more (RFC 8446 section 6.1): a warning, close_notify.
pub const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// There will be no other handshake (RFC 5246 section 7.2.2): a warning, no_renegotiation.
pub const NO_RENEGOTIATION: [u8; 2] = [1, 100];

/// A fatal alert (RFC 8446 section 6.2).
#[must_use]
pub const fn fatal(description: u8) -> [u8; 2] {
    [2, description]
}

/// Descriptions of alerts (RFC 8446 section 6).
pub mod alert {
    /// A message that has no place there.
    pub const UNEXPECTED_MESSAGE: u8 = 10;
    /// A record that could not be opened.
    pub const BAD_RECORD_MAC: u8 = 20;
    /// A record that is too long.
    pub const RECORD_OVERFLOW: u8 = 22;
    /// A message that cannot be read.
    pub const DECODE_ERROR: u8 = 50;
    /// It is not the peer's fault.
    pub const INTERNAL_ERROR: u8 = 80;
}
