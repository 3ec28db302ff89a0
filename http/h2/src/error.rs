//! What ends a stream or a connection before its end (RFC 9113 sections 5.4 and 7).

/// An error code (RFC 9113 section 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Nothing is wrong: the end that was meant.
    pub const NO_ERROR: Self = Self(0);
    /// The protocol was broken in a way that has no name of its own.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// Something failed within.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More was sent than windows allow.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame came for a stream that its sender had ended.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame has a length that it may not have.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// Nothing was done for the stream: its request may be repeated.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is not wanted any more.
    pub const CANCEL: Self = Self(8);
    /// Fields cannot be decompressed.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer asks for too much.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "NO_ERROR",
            1 => "PROTOCOL_ERROR",
            2 => "INTERNAL_ERROR",
            3 => "FLOW_CONTROL_ERROR",
            4 => "SETTINGS_TIMEOUT",
            5 => "STREAM_CLOSED",
            6 => "FRAME_SIZE_ERROR",
            7 => "REFUSED_STREAM",
            8 => "CANCEL",
            9 => "COMPRESSION_ERROR",
            10 => "CONNECT_ERROR",
            11 => "ENHANCE_YOUR_CALM",
            12 => "INADEQUATE_SECURITY",
            13 => "HTTP_1_1_REQUIRED",
            _ => "unknown",
        }
    }
}

/// What is wrong with a frame, and what ends with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The connection.
    Connection(ErrorCode),
    /// A stream alone.
    Stream(u32, ErrorCode),
}
