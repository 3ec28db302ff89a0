//! Responses that are always alike: `stub_status`, `empty_gif`.

use crate::silos::Silos;

/// What `stub_status` tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StubStatus {
    /// Connections now, those that wait among them.
    pub active: u64,
    /// Connections so far.
    pub accepted: u64,
    /// Those that were not closed because there were too many.
    pub handled: u64,
    /// Requests so far.
    pub requests: u64,
    /// Connections whose request is read.
    pub reading: u64,
    /// Connections whose response is written.
    pub writing: u64,
    /// Connections that wait for a request.
    pub waiting: u64,
}

impl StubStatus {
    /// What all silos have told. A request counts from the first byte of its head on, as for
    /// nginx; whose handshake is under way waits.
    #[must_use]
    pub fn of(silos: &Silos) -> Self {
        let (totals, writing) = silos.totals();
        Self {
            active: totals.open,
            accepted: totals.connections,
            handled: totals.connections,
            requests: totals.requests + totals.reading + writing,
            reading: totals.reading,
            writing,
            waiting: totals.open.saturating_sub(writing + totals.reading),
        }
    }

    /// Its media type.
    pub const MEDIA_TYPE: &[u8] = b"text/plain";

    /// The text.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { active, accepted, handled, requests, reading, writing, waiting } = self;
        format!(
            "Active connections: {active} \nserver accepts handled requests\n {accepted} {handled} {requests} \n\
             Reading: {reading} Writing: {writing} Waiting: {waiting} \n"
        )
    }
}

/// A picture of one point that cannot be seen (GIF89a).
pub const EMPTY_GIF: &[u8; 43] = b"GIF89a\
    \x01\x00\x01\x00\x80\x00\x00\
    \x00\x00\x00\xff\xff\xff\
    \x21\xf9\x04\x01\x00\x00\x00\x00\
    \x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\
    \x02\x02\x44\x01\x00\
    \x3b";

/// When it was modified, in seconds since 1970: 28 September 1970, as nginx has
/// it.
pub const EMPTY_GIF_MODIFIED: u64 = 23_349_600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_where_nginx_has_them() {
        let status = StubStatus { active: 1, accepted: 2, handled: 3, requests: 4, reading: 5, writing: 6, waiting: 7 };
        let text =
            "Active connections: 1 \nserver accepts handled requests\n 2 3 4 \nReading: 5 Writing: 6 Waiting: 7 \n";
        assert_eq!(status.text(), text);
    }

    /// Its parts (CompuServe: Graphics Interchange Format, version 89a).
    #[test]
    fn the_picture_is_one_point_of_a_color_that_is_not_shown() {
        let gif = EMPTY_GIF;
        assert_eq!((&gif[..6], &gif[6..10]), (&b"GIF89a"[..], &[1, 0, 1, 0][..]));
        // Two colors; the first is not shown; one picture of one point.
        assert_eq!((gif[10] & 0x87, gif[19], gif[22] & 1, gif[25], gif[27]), (0x80, 0x21, 1, 0, 0x2c));
        // In codes of three bits: begin, color 0, end.
        let codes = u16::from_le_bytes([gif[39], gif[40]]);
        assert_eq!([codes & 7, codes >> 3 & 7, codes >> 6], [4, 0, 5]);
        assert_eq!((gif[37], gif[38], gif[41], gif[42]), (2, 2, 0, 0x3b));
    }
}
