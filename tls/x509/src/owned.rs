//! Pointers of the library, each owned by one value.

use aws_lc_sys::{BIO, BIO_free, BIO_mem_contents, BIO_new, BIO_new_mem_buf, BIO_s_mem};
use core::ptr::NonNull;
use core::{ptr, slice};
use std::marker::PhantomData;

/// Declares an owner of one of the library's values, and what frees it.
macro_rules! owner {
    ($name:ident, $of:ty, $free:path) => {
        #[derive(Debug)]
        pub(crate) struct $name(core::ptr::NonNull<$of>);

        impl $name {
            /// Owns what a function of the library has made; `None` where it is null.
            ///
            /// # Safety
            /// Nobody else frees it.
            pub(crate) unsafe fn of(made: *mut $of) -> Option<Self> {
                core::ptr::NonNull::new(made).map(Self)
            }

            /// It, for a call.
            pub(crate) const fn at(&self) -> *mut $of {
                self.0.as_ptr()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: it is ours alone (see `of`), and this is the last that is done to it.
                unsafe { $free(self.0.as_ptr()) };
            }
        }
    };
}
pub(crate) use owner;

/// Bytes that the library reads from.
pub(crate) struct Input<'a> {
    bio: NonNull<BIO>,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        // A length of -1 would mean a text that ends by a zero; none is that long.
        let length = isize::try_from(bytes.len()).ok()?;
        // SAFETY: the bytes are there for `'a`, longer than what reads them, which never
        // writes to them.
        let bio = unsafe { BIO_new_mem_buf(bytes.as_ptr().cast(), length) };
        Some(Self { bio: NonNull::new(bio)?, bytes: PhantomData })
    }

    pub(crate) const fn at(&self) -> *mut BIO {
        self.bio.as_ptr()
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made by `new`, is freed once, and not used any more.
        unsafe { BIO_free(self.bio.as_ptr()) };
    }
}

/// What `write` writes.
pub(crate) fn written(write: impl FnOnce(*mut BIO)) -> Vec<u8> {
    // SAFETY: makes a value out of nothing.
    let bio = unsafe { BIO_new(BIO_s_mem()) };
    if bio.is_null() {
        return Vec::new();
    }
    write(bio);
    let (mut start, mut length) = (ptr::null(), 0);
    // SAFETY: it was made above, and the results are written to places of ours.
    let is_told = unsafe { BIO_mem_contents(bio, &raw mut start, &raw mut length) } == 1;
    let bytes = if is_told && !start.is_null() && length > 0 {
        // SAFETY: so many bytes lie there until it is written to again or freed.
        unsafe { slice::from_raw_parts(start, length) }.to_vec()
    } else {
        Vec::new()
    };
    // SAFETY: it was made above, is freed once, and not used any more.
    unsafe { BIO_free(bio) };
    bytes
}

/// What a function writes as DER: it is called for the length first (null), then for the bytes.
pub(crate) fn der(mut write: impl FnMut(*mut *mut u8) -> core::ffi::c_int) -> Vec<u8> {
    let length = usize::try_from(write(ptr::null_mut())).unwrap_or(0);
    let mut bytes = vec![0; length];
    let mut at = bytes.as_mut_ptr();
    if length == 0 || usize::try_from(write(&raw mut at)).ok() != Some(length) {
        return Vec::new();
    }
    bytes
}
