//! The C library's own functions, behind the names that this library has taken.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Where a function of the C library is, once it was asked for.
pub struct Next {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Next {
    /// The function of this name that comes after ours.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, at: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address. A program that has called for a name of the C library's has one that has it.
    ///
    /// # Panics
    /// Where nobody has such a function.
    pub fn address(&self) -> *mut c_void {
        let mut at = self.at.load(Ordering::Relaxed);
        if at.is_null() {
            // SAFETY: the name is a string; the handle stands for all that was loaded behind this library.
            at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            assert!(!at.is_null(), "the C library has no {:?}", self.name);
            self.at.store(at, Ordering::Relaxed);
        }
        at
    }
}

/// The C library's function of a name, of this type.
macro_rules! next {
    ($name:literal, $type:ty) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new($name);
        let at = NEXT.address();
        // SAFETY: not null, and the function that the C library has by this name is of this type.
        unsafe { core::mem::transmute::<*mut core::ffi::c_void, $type>(at) }
    }};
}
pub(crate) use next;

/// Functions of the C library's before which something is done: `$first` of it.
macro_rules! before {
    ($first:path:
        $($(#[doc = $what:literal])+ $name:ident, $text:literal, ($($argument:ident: $type:ty),*) -> $result:ty;)+
    ) => {
        $($(#[doc = $what])+
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            $first();
            let next = $crate::next::next!($text, unsafe extern "C" fn($($type),*) -> $result);
            // SAFETY: the arguments are the caller's.
            unsafe { next($($argument),*) }
        })+
    };
}
pub(crate) use before;
