//! Shared immutable bytes.

use std::rc::Rc;

/// Bytes that any number of connections of one silo can have in flight
/// without a copy: a cached file, a prepared response, a chunk of a stream.
///
/// A thin pointer, so that a queued slice of it is 16 bytes.
#[derive(Clone, Debug)]
pub struct Body(Rc<Vec<u8>>);

/// The largest body: slices are kept as 32-bit offsets. Longer content is
/// sent as several bodies.
pub const MAX_LEN: usize = u32::MAX as usize;

impl Body {
    /// Takes over `bytes`; nothing is copied.
    ///
    /// # Panics
    /// If `bytes` is longer than [`MAX_LEN`]: the caller chose it, no peer can.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        assert!(bytes.len() <= MAX_LEN, "a body is at most 4 GiB");
        Self(Rc::new(bytes))
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The length, in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Whether there are no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes for changing, if no connection holds this body any more:
    /// lets a prepared response be refreshed in place.
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut Vec<u8>> {
        Rc::get_mut(&mut self.0)
    }
}
