//! Why a connection ends, as its peer is told (RFC 8446 section 6).

/// The description of an alert that ends a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Alert {
    UnexpectedMessage = 10,
    BadRecordMac = 20,
    RecordOverflow = 22,
    IllegalParameter = 47,
    DecodeError = 50,
    ProtocolVersion = 70,
    InternalError = 80,
}

/// An alert's level.
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// What an alert of the peer means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AlertMeaning {
    /// It sends no more.
    Close,
    /// Nothing, for this side.
    Warning,
    /// The connection is over.
    Fatal,
}

/// Reads an alert that was authenticated. `leveled`: levels mean something, as in TLS 1.2;
/// in TLS 1.3 all but two end the connection, whatever their level (RFC 8446 section 6).
pub(crate) fn read(bytes: &[u8], leveled: bool) -> Result<AlertMeaning, Alert> {
    // RFC 8446 section 5.4.
    if bytes.is_empty() {
        return Err(Alert::UnexpectedMessage);
    }
    let &[level, description] = bytes else { return Err(Alert::DecodeError) };
    Ok(match description {
        0 => AlertMeaning::Close,
        90 => AlertMeaning::Warning,
        _ if leveled && level == WARNING => AlertMeaning::Warning,
        _ if leveled && level != FATAL => return Err(Alert::IllegalParameter),
        _ => AlertMeaning::Fatal,
    })
}
