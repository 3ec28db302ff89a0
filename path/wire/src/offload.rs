//! Work left to the link when a frame is handed over for transmission.

/// What the link is asked to finish. Only asked of a link whose capabilities
/// offer it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// The transport checksum field holds the pseudo-header's sum only; the
    /// link completes it.
    pub checksum: Option<PartialChecksum>,
    /// The payload is longer than one segment; the link cuts it into
    /// segments of at most this many payload bytes. Requires `checksum`.
    pub segment: Option<u16>,
}

/// Where a partial checksum stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartialChecksum {
    /// Offset in the frame of the first byte to be summed (the transport header).
    pub start: u16,
    /// Offset of the 16-bit field from `start`.
    pub field: u16,
}

impl Offload {
    /// The frame is complete as it stands.
    pub const NONE: Self = Self { checksum: None, segment: None };
}
