//! An expression.

use core::ffi::{c_int, c_void};
use core::fmt;
use core::ptr::{self, NonNull};
use pcre2_sys as sys;

/// How an expression is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegexOptions {
    /// Letters match whatever their case (`~*`).
    pub caseless: bool,
}

/// A compiled expression, the same for all threads.
#[derive(Debug)]
pub struct Regex {
    code: NonNull<sys::pcre2_code_8>,
    names: Vec<(Box<str>, u16)>,
    groups: u32,
}

// SAFETY: PCRE2 does not change a compiled expression that it matches with
// (pcre2api(3), MULTITHREADING); it is compiled to machine code before it is
// shared. What a match changes is the matcher's.
unsafe impl Send for Regex {}
// SAFETY: as above.
unsafe impl Sync for Regex {}

/// An expression that is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegexError {
    /// What is wrong, in PCRE2's words.
    pub message: String,
    /// Where, in bytes from the expression's start.
    pub offset: usize,
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.message, self.offset)
    }
}

impl std::error::Error for RegexError {}

impl Regex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(pattern: &[u8], options: RegexOptions) -> Result<Self, RegexError> {
        let flags = if options.caseless { sys::PCRE2_CASELESS } else { 0 };
        let (mut number, mut offset): (c_int, usize) = (0, 0);
        // SAFETY: the pattern is as long as is told, and only read; PCRE2 keeps
        // no pointer to it; the other two are ours.
        let code = unsafe {
            sys::pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                flags,
                &raw mut number,
                &raw mut offset,
                ptr::null_mut(),
            )
        };
        let Some(code) = NonNull::new(code) else { return Err(RegexError { message: message(number), offset }) };
        let mut regex = Self { code, names: Vec::new(), groups: 0 };
        // What cannot be compiled to machine code is interpreted.
        // SAFETY: it was just compiled, and nobody else has it.
        let _ = unsafe { sys::pcre2_jit_compile_8(code.as_ptr(), sys::PCRE2_JIT_COMPLETE) };
        regex.groups = regex.info(sys::PCRE2_INFO_CAPTURECOUNT);
        regex.names = regex.read_names();
        Ok(regex)
    }

    /// How many groups it has, without the whole.
    #[must_use]
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// Names of groups, with their numbers.
    #[must_use]
    pub fn names(&self) -> &[(Box<str>, u16)] {
        &self.names
    }

    pub(crate) const fn code(&self) -> NonNull<sys::pcre2_code_8> {
        self.code
    }

    /// One of the numbers that PCRE2 tells of an expression.
    fn info(&self, what: u32) -> u32 {
        let mut value: u32 = 0;
        // SAFETY: each `what` that is asked for here is told as a uint32_t
        // (pcre2api(3), pcre2_pattern_info); it is ours.
        let _ = unsafe { sys::pcre2_pattern_info_8(self.code.as_ptr(), what, (&raw mut value).cast::<c_void>()) };
        value
    }

    /// The table of names: entries of one size, each the group's number in two
    /// bytes, the name, and a zero (pcre2api(3)).
    fn read_names(&self) -> Vec<(Box<str>, u16)> {
        let (count, size) = (self.info(sys::PCRE2_INFO_NAMECOUNT), self.info(sys::PCRE2_INFO_NAMEENTRYSIZE));
        let mut table: *const u8 = ptr::null();
        // SAFETY: this one is told as a pointer; it is ours.
        let _ = unsafe {
            sys::pcre2_pattern_info_8(self.code.as_ptr(), sys::PCRE2_INFO_NAMETABLE, (&raw mut table).cast::<c_void>())
        };
        let (count, size) = (count as usize, size as usize);
        if table.is_null() || size < 3 {
            return Vec::new();
        }
        // SAFETY: the table has so many entries of that size, and lives as long as
        // the expression, which this borrows.
        let table = unsafe { core::slice::from_raw_parts(table, count * size) };
        let entry = |entry: &[u8]| {
            let name = entry[2..].split(|byte| *byte == 0).next().unwrap_or_default();
            (String::from_utf8_lossy(name).into(), u16::from_be_bytes([entry[0], entry[1]]))
        };
        table.chunks_exact(size).map(entry).collect()
    }
}

impl Drop for Regex {
    fn drop(&mut self) {
        // SAFETY: it was compiled here and is freed once.
        unsafe { sys::pcre2_code_free_8(self.code.as_ptr()) };
    }
}

/// PCRE2's words for one of its errors.
pub(crate) fn message(number: c_int) -> String {
    let mut text = [0_u8; 256];
    // SAFETY: it is told how much room there is, and ends what it writes by a zero
    // within it.
    let length = unsafe { sys::pcre2_get_error_message_8(number, text.as_mut_ptr(), text.len()) };
    let length = usize::try_from(length).map_or(0, |length| length.min(text.len()));
    String::from_utf8_lossy(&text[..length]).into_owned()
}
