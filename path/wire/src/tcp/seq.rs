//! Sequence numbers (RFC 9293 section 3.4).

/// A TCP sequence number: a point on a circle of 2³².
///
/// It has no `Ord`, because order on a circle is not transitive, and no
/// operator that can panic: nothing that a peer sends may reach one. Two
/// numbers are compared as if they lay within 2³¹ of each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Whether `self` lies before `other`.
    #[inline]
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// Whether `self` lies after `other`.
    #[inline]
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }

    /// Whether `self` is `other` or lies before it.
    #[inline]
    #[must_use]
    pub const fn at_or_before(self, other: Self) -> bool {
        !self.after(other)
    }

    /// Whether `self` is `other` or lies after it.
    #[inline]
    #[must_use]
    pub const fn at_or_after(self, other: Self) -> bool {
        !self.before(other)
    }

    /// The signed distance `self - other`.
    #[inline]
    #[must_use]
    pub const fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// The unsigned distance forward from `earlier` to `self`, modulo 2³².
    #[inline]
    #[must_use]
    pub const fn forward_from(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The number `bytes` further on.
    #[inline]
    #[must_use]
    pub const fn plus(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// The number `bytes` further back.
    #[inline]
    #[must_use]
    pub const fn minus(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }

    /// Whether `self` lies in `[start, start + len)`.
    #[inline]
    #[must_use]
    pub const fn within(self, start: Self, len: u32) -> bool {
        self.forward_from(start) < len
    }

    /// The later of the two.
    #[inline]
    #[must_use]
    pub const fn latest(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }
}
