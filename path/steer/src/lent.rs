//! A half of a link, lent to the half that is built around it.
//!
//! [`link::Link::split`] lends out two values of the wrapper's own, each of
//! which must reach one half of the wrapped link. Rust has no safe way to put
//! a borrow of one field into another, so the half is reached by a pointer
//! that each `split` makes anew.

use core::ptr::NonNull;

/// A `T` that was lent for the time of a `split`.
#[derive(Debug)]
pub(crate) struct Lent<T> {
    half: NonNull<T>,
    /// Where this value lay when it was lent to.
    home: *const Self,
}

// SAFETY: between two calls of `split` the pointers are never followed, and
// during one the value is mutably borrowed, so it moves to another thread
// together with what it leads to, or not at all.
unsafe impl<T: Send> Send for Lent<T> {}

impl<T> Lent<T> {
    /// Nothing is lent yet.
    pub const fn nothing() -> Self {
        Self { half: NonNull::dangling(), home: core::ptr::null() }
    }

    /// Lends a half.
    ///
    /// # Safety
    /// Until the next call of this on the same value, `get` may be reached
    /// only through a borrow that also keeps `half` borrowed mutably and both
    /// of them in place.
    #[inline]
    pub unsafe fn lend(&mut self, half: &mut T) {
        self.half = NonNull::from(half);
        self.home = &raw const *self;
    }

    /// The half.
    ///
    /// # Panics
    /// If this value was exchanged with another's since it was lent to: then
    /// the borrow that leads here is not the one that keeps the half.
    #[inline]
    pub fn get(&self) -> &T {
        self.check();
        // SAFETY: this value lies where it was lent to, so whoever reaches it
        // does so through the borrow that `lend` was promised.
        unsafe { self.half.as_ref() }
    }

    /// As [`Lent::get`].
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.check();
        // SAFETY: as for `get`; and `self` is borrowed mutably, so there is no
        // other reference made from it.
        unsafe { self.half.as_mut() }
    }

    #[inline]
    fn check(&self) {
        assert!(core::ptr::eq(self.home, self), "halves of two links were exchanged");
    }
}
