//! Shared immutable bytes.

use core::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use wire::Sum;
use wire::checksum;

/// Bytes that any number of connections of one silo can have in flight
/// without a copy: a cached file, a prepared response, a chunk of a stream.
///
/// A thin pointer, so that a queued slice of it is 16 bytes.
#[derive(Clone, Debug)]
pub struct Body(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Counted twice: by the silo without atomics, for each slice queued; and
    /// here, once for each silo that has a body of the same bytes.
    bytes: Arc<Vec<u8>>,
    sum: Cell<Option<Sum>>,
    /// The sums of pieces of it, by where they begin; none where they are not
    /// kept.
    pieces: Box<[Cell<Piece>]>,
    /// Where its reads are counted, if they are.
    reads: Option<Rc<Reads>>,
}

/// A piece of a body that went into a frame, and its sum.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u32,
    len: u32,
    sum: Sum,
}

/// No piece: none is empty.
const NO_PIECE: Piece = Piece { from: 0, len: 0, sum: Sum::ZERO };

/// Of the pieces that begin within so many bytes one sum is kept: no two
/// segments of one connection do, where they are full.
const PIECE_EVERY: usize = 1 << PIECE_SHIFT;
const PIECE_SHIFT: u32 = 10;

/// Pieces shorter than this are summed as they are copied, which costs no more.
const PIECE_MIN: usize = 512;

/// Small bodies that nobody holds any more, whose memory the next ones have: heads of
/// responses come and go by the million.
const SPARE_MAX: usize = 64;
const SPARE_BYTES: core::ops::RangeInclusive<usize> = 64..=4096;

thread_local! {
    static SPARE: RefCell<Vec<Body>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Body {
    #[inline(always)]
    fn drop(&mut self) {
        if Rc::strong_count(&self.0) == 1 {
            self.spare();
        }
    }
}

/// How much of some bodies went into frames, as often as it did: for those
/// that lie in another NUMA domain than the silo that sends them.
#[derive(Debug, Default)]
pub struct Reads {
    frames: Cell<u64>,
    bytes: Cell<u64>,
}

impl Reads {
    /// Frames that have bytes of these bodies, repetitions included.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.frames.get()
    }

    /// Those bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Notes that `bytes` went into a frame; `begun` if there are some of
    /// these bodies in it already.
    pub fn note(&self, bytes: usize, begun: bool) {
        self.frames.set(self.frames.get() + u64::from(!begun));
        self.bytes.set(self.bytes.get() + bytes as u64);
    }
}

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
        Self::shared(Arc::new(bytes))
    }

    /// A body with a copy of `bytes`, in memory that another one had, where there is some.
    ///
    /// # Panics
    /// As [`Body::new`].
    #[must_use]
    pub fn copied(bytes: &[u8]) -> Self {
        Self::filled(bytes.len(), |memory| memory.extend_from_slice(bytes))
    }

    /// A body that `fill` writes, of `len` bytes or about as many: it is given an empty buffer, which
    /// another body had, where there is one.
    ///
    /// # Panics
    /// As [`Body::new`].
    #[inline]
    #[must_use]
    pub fn filled(len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Self {
        let fits = len <= *SPARE_BYTES.end();
        let spare = if fits { SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten() } else { None };
        if let Some(mut spare) = spare
            && let Some(shared) = Rc::get_mut(&mut spare.0)
            && let Some(memory) = Arc::get_mut(&mut shared.bytes)
        {
            memory.clear();
            fill(memory);
            return spare;
        }
        let mut memory = Vec::with_capacity(len);
        fill(&mut memory);
        Self::new(memory)
    }

    /// Nobody else holds it, and this is about to go: its memory is the next one's, unless
    /// somebody holds the bytes, be it weakly.
    #[inline(never)]
    fn spare(&mut self) {
        let Some(shared) = Rc::get_mut(&mut self.0) else { return };
        let bytes = Arc::get_mut(&mut shared.bytes).map_or(0, |bytes| bytes.capacity());
        if !SPARE_BYTES.contains(&bytes) || shared.reads.is_some() || !shared.pieces.is_empty() {
            return;
        }
        shared.sum.set(None);
        // At the thread's end there is none.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(Self(Rc::clone(&self.0)));
            }
        });
    }

    /// A body of bytes that other silos may have bodies of, too.
    ///
    /// # Panics
    /// As [`Body::new`].
    #[must_use]
    pub fn shared(bytes: Arc<Vec<u8>>) -> Self {
        Self::make(bytes, None)
    }

    /// The same, and `reads` counts what of it goes into frames.
    ///
    /// # Panics
    /// As [`Body::new`].
    #[must_use]
    pub fn counted(bytes: Arc<Vec<u8>>, reads: Rc<Reads>) -> Self {
        Self::make(bytes, Some(reads))
    }

    fn make(bytes: Arc<Vec<u8>>, reads: Option<Rc<Reads>>) -> Self {
        assert!(bytes.len() <= MAX_LEN, "a body is at most 4 GiB");
        Self(Rc::new(Shared { bytes, sum: Cell::new(None), pieces: Box::default(), reads }))
    }

    /// Its bytes, for a thread that reads them.
    #[must_use]
    pub fn bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.0.bytes)
    }

    /// What its bytes are known by: no others are as long as anybody holds them, be
    /// it weakly.
    #[must_use]
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0.bytes).addr()
    }

    /// The same, for a body that is sent again and again, and in several
    /// segments: the sum of each is made once, as long as connections cut it
    /// alike, as those with the same segment size do. Takes 16 bytes for each
    /// 1,024. For a body that nobody else holds.
    #[must_use]
    pub fn keeping_sums(mut self) -> Self {
        let pieces = self.0.bytes.len().div_ceil(PIECE_EVERY);
        if pieces > 1
            && let Some(shared) = Rc::get_mut(&mut self.0)
        {
            shared.pieces = vec![Cell::new(NO_PIECE); pieces].into();
        }
        self
    }

    /// Copies the bytes from `from` on to `out`, as many as fit there, and
    /// returns their sum.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline(always)]
    pub fn copy_to(&self, from: usize, out: &mut [u8]) -> Sum {
        if self.0.pieces.is_empty() || out.len() < PIECE_MIN {
            return checksum::copy_and_sum(out, &self.0.bytes[from..from + out.len()]);
        }
        let bytes = &self.0.bytes[from..from + out.len()];
        if let Some(place) = self.0.pieces.get(from >> PIECE_SHIFT) {
            let piece = place.get();
            // Both are at most MAX_LEN.
            if piece.from == from as u32 && piece.len == out.len() as u32 {
                out.copy_from_slice(bytes);
                return piece.sum;
            }
        }
        self.copy_first(from, out)
    }

    /// As [`Body::copy_to`], for a piece whose sum is not kept: it is from now
    /// on, in the place of another's.
    #[inline(never)]
    fn copy_first(&self, from: usize, out: &mut [u8]) -> Sum {
        let sum = checksum::copy_and_sum(out, &self.0.bytes[from..from + out.len()]);
        if let Some(place) = self.0.pieces.get(from >> PIECE_SHIFT) {
            place.set(Piece { from: from as u32, len: out.len() as u32, sum });
        }
        sum
    }

    /// Where is counted what of it goes into frames, if anywhere. For whoever
    /// copies it there by pieces: [`Body::sum`] counts the whole.
    #[inline(always)]
    #[must_use]
    pub fn reads(&self) -> Option<&Reads> {
        self.0.reads.as_deref()
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0.bytes
    }

    /// The Internet checksum's sum of all bytes. It is made once: a response
    /// that fits into one segment is the same sum for each connection. Asked
    /// for once for each frame that has the whole body: of a counted one it is
    /// made each time, so that nobody else has to look whether it is counted.
    #[inline(always)]
    #[must_use]
    pub fn sum(&self) -> Sum {
        match self.0.sum.get() {
            Some(sum) => sum,
            None => self.make_sum(),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_sum(&self) -> Sum {
        let sum = checksum::sum(&self.0.bytes);
        match &self.0.reads {
            None => self.0.sum.set(Some(sum)),
            Some(reads) => reads.note(self.0.bytes.len(), false),
        }
        sum
    }

    /// The length, in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.bytes.len() as u32
    }

    /// Whether there are no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.bytes.is_empty()
    }

    /// Whether nothing of this silo holds it but this: no connection sends it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    /// The bytes for changing, if no connection holds this body any more:
    /// lets a prepared response be refreshed in place. Never those of a body
    /// that others share.
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut Vec<u8>> {
        let shared = Rc::get_mut(&mut self.0)?;
        let bytes = Arc::get_mut(&mut shared.bytes)?;
        shared.sum.set(None);
        shared.pieces.fill(Cell::new(NO_PIECE));
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_do_not_change() {
        let bytes = Arc::new(b"common".to_vec());
        let mut body = Body::shared(Arc::clone(&bytes));
        assert_eq!(body.as_slice(), b"common");
        assert!(body.get_mut().is_none());
        drop(bytes);
        assert!(body.get_mut().is_some());
        let other = body.clone();
        assert!(body.get_mut().is_none());
        drop(other);
        assert!(body.get_mut().is_some());
    }

    /// However it is cut, and whatever was cut before.
    #[test]
    fn kept_sums_are_those_of_the_bytes() {
        let bytes: Vec<u8> = (0..5000_u32).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut body = Body::new(bytes.clone()).keeping_sums();
        assert_eq!(body.0.pieces.len(), 5);
        let mut seed = 1_u64;
        let mut below = |most: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % most
        };
        let check = |body: &Body, bytes: &[u8], from: usize, len: usize| {
            let mut out = vec![0; len];
            assert_eq!(body.copy_to(from, &mut out).finish(), checksum::sum(&bytes[from..from + len]).finish());
            assert_eq!(out, bytes[from..from + len], "{len} from {from}");
        };
        for _ in 0..5000 {
            // Often the same cuts.
            let (from, len) = match below(4) {
                0 => (below(4000), below(1000)),
                kind => (below(3) * 1448, [1448, 1400, 600][kind - 1]),
            };
            check(&body, &bytes, from, len);
        }
        check(&body, &bytes, 0, 1448);
        body.get_mut().expect("nobody else holds it")[3] ^= 0xff;
        let mut changed = bytes;
        changed[3] ^= 0xff;
        check(&body, &changed, 0, 1448);
        assert!(Body::new(vec![1; 1024]).keeping_sums().0.pieces.is_empty(), "one segment has the body's own sum");
    }

    #[test]
    fn what_is_counted_is_counted_each_time() {
        let reads = Rc::new(Reads::default());
        let body = Body::counted(Arc::new(b"afar".to_vec()), Rc::clone(&reads));
        let again = body.clone();
        assert_eq!(body.sum().finish(), checksum::sum(b"afar").finish());
        assert_eq!(again.sum().finish(), checksum::sum(b"afar").finish());
        assert_eq!((reads.frames(), reads.bytes()), (2, 8));
        let Some(pieces) = body.reads() else { panic!("it is counted") };
        pieces.note(3, false);
        pieces.note(1, true);
        assert_eq!((reads.frames(), reads.bytes()), (3, 12));
        assert!(Body::new(Vec::new()).reads().is_none());
    }

    /// What is held is no other body's memory.
    #[test]
    fn memory_is_used_again_once_nobody_has_it() {
        let held = Body::copied(&[1; 100]);
        let shared = held.bytes();
        let place = Arc::as_ptr(&shared);
        drop(held);
        let other = Body::copied(&[2; 100]);
        assert_ne!(Arc::as_ptr(&other.0.bytes), place, "a thread reads it still");
        assert_eq!((shared.as_slice(), other.as_slice()), (&[1; 100][..], &[2; 100][..]));
        let place = Arc::as_ptr(&other.0.bytes);
        let again = other.clone();
        drop(other);
        assert_ne!(Arc::as_ptr(&Body::copied(&[3; 80]).0.bytes), place, "a connection sends it still");
        drop(again);
        let next = Body::copied(&[4; 3]);
        assert_eq!((Arc::as_ptr(&next.0.bytes), next.as_slice()), (place, &[4; 3][..]));
        let (sum, weak) = (next.sum().finish(), Arc::downgrade(&next.bytes()));
        drop(next);
        assert!(weak.upgrade().is_none(), "it is known by its place: no other may have that");
        let first = Body::copied(&[5; 70]);
        let place = Arc::as_ptr(&first.0.bytes);
        let _ = first.sum();
        drop(first);
        let second = Body::copied(&[4; 3]);
        assert_eq!((Arc::as_ptr(&second.0.bytes), second.sum().finish()), (place, sum));
        drop(Body::copied(&[5; 5000]));
        assert!(SPARE.with(|spare| spare.borrow().iter().all(|body| body.0.bytes.capacity() <= 4096)));
    }

    /// The sum is that of the bytes as they are, also after a change.
    #[test]
    fn sum_follows_the_bytes() {
        let mut body = Body::new(b"odd".to_vec());
        assert_eq!(body.sum().finish(), checksum::sum(b"odd").finish());
        assert_eq!(body.sum().finish(), checksum::sum(b"odd").finish());
        body.get_mut().expect("nobody else holds it").extend_from_slice(b" no more");
        assert_eq!(body.sum().finish(), checksum::sum(b"odd no more").finish());
    }
}
