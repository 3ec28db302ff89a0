//! What a match needs beside the expression.

use crate::regex::{Regex, message};
use crate::{GROUPS_MAX, MATCH_LIMIT};
use core::ffi::c_int;
use core::fmt;
use core::ops::Range;
use core::ptr::{self, NonNull};
use pcre2_sys as sys;

/// Stack of compiled expressions, in bytes: at first, and at most.
const STACK: (usize, usize) = (32 << 10, 1 << 20);

/// Memory for deep expressions that are interpreted, in KiB
/// (pcre2_set_heap_limit(3)).
const HEAP_LIMIT: u32 = 1 << 10;

/// What one thread matches with.
#[derive(Debug)]
pub struct Matcher {
    data: NonNull<sys::pcre2_match_data_8>,
    context: NonNull<sys::pcre2_match_context_8>,
    stack: Option<NonNull<sys::pcre2_jit_stack_8>>,
}

// SAFETY: it is one thread's at a time; PCRE2 ties none of it to a thread.
unsafe impl Send for Matcher {}

/// A match that was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchError {
    /// It took more steps or memory than it may.
    Limit,
    /// Another of PCRE2's errors, by its number.
    Other(c_int),
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit => f.write_str("the expression goes astray in this text: match limit exceeded"),
            Self::Other(number) => write!(f, "pcre2_match() failed: {}", message(*number)),
        }
    }
}

impl std::error::Error for MatchError {}

/// Where groups of a match lie in the subject.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a>(&'a [usize]);

impl Groups<'_> {
    /// A group; 0 is the whole. None if there is no such group, or it has no part
    /// in this match.
    #[must_use]
    pub fn get(&self, group: usize) -> Option<Range<usize>> {
        let (start, end) = (*self.0.get(2 * group)?, *self.0.get(2 * group + 1)?);
        // \K within a look-ahead can have a match end before it starts.
        (start != sys::PCRE2_UNSET && start <= end).then_some(start..end)
    }
}

impl Matcher {
    /// One, if there is memory for it.
    #[must_use]
    pub fn new() -> Option<Self> {
        // SAFETY: both take a context or none.
        let data = NonNull::new(unsafe { sys::pcre2_match_data_create_8(GROUPS_MAX + 1, ptr::null_mut()) })?;
        // SAFETY: as above.
        let Some(context) = NonNull::new(unsafe { sys::pcre2_match_context_create_8(ptr::null_mut()) }) else {
            // SAFETY: it was made above, and nobody else has it.
            unsafe { sys::pcre2_match_data_free_8(data.as_ptr()) };
            return None;
        };
        // SAFETY: the context was made above.
        unsafe {
            sys::pcre2_set_match_limit_8(context.as_ptr(), MATCH_LIMIT);
            sys::pcre2_set_heap_limit_8(context.as_ptr(), HEAP_LIMIT);
        }
        // Without one of its own a match has 32 KiB of the thread's.
        // SAFETY: sizes and no context.
        let stack = NonNull::new(unsafe { sys::pcre2_jit_stack_create_8(STACK.0, STACK.1, ptr::null_mut()) });
        if let Some(stack) = stack {
            // SAFETY: both were made here and end together. Without a function
            // the last is the stack itself (pcre2jit(3)).
            unsafe { sys::pcre2_jit_stack_assign_8(context.as_ptr(), None, stack.as_ptr().cast()) };
        }
        Some(Self { data, context, stack })
    }

    /// Where the expression matches first in `subject`, if anywhere.
    ///
    /// # Errors
    /// It was given up: whether it matches is not known.
    pub fn find(&mut self, regex: &Regex, subject: &[u8]) -> Result<Option<Groups<'_>>, MatchError> {
        // SAFETY: the expression lives while this borrows it; the subject is as
        // long as is told, and is only read; data and context are this thread's,
        // for `self` is borrowed alone. Groups that have no room in `data` are left
        // out (pcre2api(3)).
        let found = unsafe {
            sys::pcre2_match_8(
                regex.code().as_ptr(),
                subject.as_ptr(),
                subject.len(),
                0,
                0,
                self.data.as_ptr(),
                self.context.as_ptr(),
            )
        };
        match found {
            sys::PCRE2_ERROR_NOMATCH => Ok(None),
            sys::PCRE2_ERROR_MATCHLIMIT
            | sys::PCRE2_ERROR_DEPTHLIMIT
            | sys::PCRE2_ERROR_HEAPLIMIT
            | sys::PCRE2_ERROR_JIT_STACKLIMIT => Err(MatchError::Limit),
            ..0 => Err(MatchError::Other(found)),
            _ => {
                // 0: there were more than have room; as many as have are set.
                let set = if found == 0 { GROUPS_MAX as usize + 1 } else { found as usize };
                // SAFETY: the vector has two numbers for each group that `data` was
                // made for, of which PCRE2 has set these; it lives as long as
                // `data`, which the result borrows.
                let groups = unsafe {
                    core::slice::from_raw_parts(sys::pcre2_get_ovector_pointer_8(self.data.as_ptr()), 2 * set)
                };
                Ok(Some(Groups(groups)))
            }
        }
    }
}

impl Drop for Matcher {
    fn drop(&mut self) {
        // SAFETY: all were made in `new`, and are freed once; the context is no
        // longer used when its stack goes.
        unsafe {
            sys::pcre2_match_data_free_8(self.data.as_ptr());
            sys::pcre2_match_context_free_8(self.context.as_ptr());
            self.stack.into_iter().for_each(|stack| sys::pcre2_jit_stack_free_8(stack.as_ptr()));
        }
    }
}
