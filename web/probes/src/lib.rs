//! Static tracepoints (USDT): places that bpftrace, perf, SystemTap and gdb find in
//! the program by name, and that cost nothing while nobody traces them.
//!
//! A probe is one `nop` of one byte, a note of the section `.note.stapsdt` that says
//! where it stands and in which registers its arguments are, and a semaphore: 16 bits
//! that the kernel counts up for each who attaches. Who has something to tell asks
//! [`request_end::is_traced`] first, which is one comparison with memory, and only
//! then makes the arguments. The form is SystemTap's, version 3
//! (<https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>).
//!
//! The kernel puts a breakpoint in the place of the `nop`, so the program makes no
//! system call for it: its seccomp filters and Landlock's rules do not matter.
//!
//! The crate `probe` writes the same notes. A semaphore of its is known to the one
//! place that it stands in, where here a way of requests is chosen by one; and its
//! arguments are signed. So it is not taken.

use core::sync::atomic::{AtomicU16, Ordering};

/// Modules of probes: each with `is_traced`, and `fire` with its arguments, which a
/// tracer sees as `arg0`, `arg1` and so on. bpftrace before 0.21 knows six of them.
macro_rules! probes {
    ($($(#[$doc:meta])* $name:ident($first:ident: $first_type:ty $(, $arg:ident: $type:ty)*);)*) => {
        /// The names of all.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            $(#[$doc])*
            pub mod $name {
                use super::{AtomicU16, Ordering};

                /// How many trace it: written by the kernel, in this process's memory.
                #[cfg_attr(target_os = "linux", unsafe(link_section = ".probes"))]
                pub(crate) static SEMAPHORE: AtomicU16 = AtomicU16::new(0);

                /// Whether somebody traces it.
                #[inline(always)]
                #[must_use]
                pub fn is_traced() -> bool {
                    SEMAPHORE.load(Ordering::Relaxed) != 0
                }

                /// The place that is traced. A function, so that the program has it once.
                #[cold]
                #[inline(never)]
                pub fn fire($first: $first_type $(, $arg: $type)*) {
                    use super::{Argument, Word};
                    let $first = $first.keep();
                    $(let $arg = $arg.keep();)*
                    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
                    probes!(@note $name, (att_syntax, readonly, nostack, preserves_flags), $first $(, $arg)*);
                    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
                    probes!(@note $name, (readonly, nostack, preserves_flags), $first $(, $arg)*);
                    let _ = ($first, $($arg,)*);
                }
            }
        )*
    };
    (@note $name:ident, ($($option:ident),*), $first:ident $(, $arg:ident)*) => {
        // SAFETY: The instruction does nothing; the rest is of sections that the program
        // does not read. A tracer that replaces it puts registers and flags back.
        unsafe {
            core::arch::asm!(
                concat!(
                    "990: nop\n",
                    ".pushsection .note.stapsdt, \"?\", \"note\"\n",
                    ".balign 4\n",
                    // Lengths of the owner's name and of what follows it, and its kind.
                    ".4byte 992f - 991f, 994f - 993f, 3\n",
                    "991: .asciz \"stapsdt\"\n",
                    "992: .balign 4\n",
                    "993: .8byte 990b, _.stapsdt.base, {semaphore}\n",
                    ".asciz \"nearside\"\n",
                    ".asciz \"", stringify!($name), "\"\n",
                    // An unsigned value of 8 bytes in a register, each.
                    ".asciz \"8@{}", $(probes!(@more $arg),)* "\"\n",
                    "994: .balign 4\n",
                    ".popsection\n",
                    // By its address tools see how far the program was moved since it
                    // was linked.
                    ".ifndef _.stapsdt.base\n",
                    ".pushsection .stapsdt.base, \"aGR\", \"progbits\", .stapsdt.base, comdat\n",
                    ".weak _.stapsdt.base\n",
                    ".hidden _.stapsdt.base\n",
                    "_.stapsdt.base: .space 1\n",
                    ".size _.stapsdt.base, 1\n",
                    ".popsection\n",
                    ".endif",
                ),
                in(reg) $first.word(),
                $(in(reg) $arg.word(),)*
                semaphore = sym SEMAPHORE,
                options($($option),*),
            );
        }
    };
    (@more $arg:ident) => { " 8@{}" };
}

/// What a tracer is given.
trait Argument {
    type Kept: Word;

    /// Has it stand where the tracer looks.
    fn keep(self) -> Self::Kept;
}

/// One register of it.
trait Word {
    fn word(&self) -> u64;
}

impl Argument for u64 {
    type Kept = Self;

    fn keep(self) -> Self {
        self
    }
}

impl Word for u64 {
    fn word(&self) -> u64 {
        *self
    }
}

/// Text ends with a zero byte, so that one argument is all of it.
impl Argument for &[u8] {
    type Kept = Vec<u8>;

    fn keep(self) -> Vec<u8> {
        [self, b"\0"].concat()
    }
}

impl Word for Vec<u8> {
    fn word(&self) -> u64 {
        self.as_ptr().expose_provenance() as u64
    }
}

probes! {
    /// A connection was accepted: its number, as in `$connection` and all others below;
    /// the peer's address as text, empty for a Unix socket; how many are open now.
    connection_accepted(connection: u64, peer: &[u8], open: u64);

    /// A connection is over: how many requests it had; 1 where its end was orderly.
    connection_closed(connection: u64, requests: u64, orderly: u64);

    /// A request's head was read: `Host`, and the path as it was sent.
    request_begin(connection: u64, host: &[u8], path: &[u8]);

    /// The last byte of its response was queued, or its client has left: the status
    /// (499 where there was none yet), bytes with the head, nanoseconds since the head
    /// was read (0 for an answer within the same turn).
    request_end(connection: u64, host: &[u8], path: &[u8], status: u64, bytes: u64, nanoseconds: u64);

    /// A location of an nginx.conf or site.toml was found for a request: the server's
    /// name, and the location as it is written.
    location_chosen(connection: u64, server: &[u8], location: &[u8]);

    /// The reader of files looked at a path, and read what goes into memory: the path
    /// (below the root, without the slash in front), what it leads to (0 a file, 1 a
    /// folder, 2 nothing, 3 what may not be read, 4 a failure), nanoseconds.
    file_opened(path: &[u8], found: u64, nanoseconds: u64);

    /// The reader of files read a piece of one that is streamed: where it begins, bytes,
    /// nanoseconds.
    file_read(path: &[u8], offset: u64, bytes: u64, nanoseconds: u64);

    /// Lines of an access log were lost: how many; 1 where they could not be written, 0
    /// where the thread that writes them is behind.
    log_lost(lines: u64, unwritten: u64);

    /// A reload began: its number in this process.
    reload_begin(number: u64);

    /// It is over: 1 where all took it up, 0 where nothing changed; nanoseconds.
    reload_end(number: u64, taken: u64, nanoseconds: u64);
}

/// Has probes be traced, for tests of who tells.
#[doc(hidden)]
pub fn trace_requests(on: bool) {
    for semaphore in [&request_begin::SEMAPHORE, &request_end::SEMAPHORE] {
        semaphore.store(u16::from(on), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_nobody_traces_is_off_and_one_that_fires_changes_nothing() {
        assert!(!file_read::is_traced());
        file_read::SEMAPHORE.fetch_add(1, Ordering::Relaxed);
        assert!(file_read::is_traced() && !file_opened::is_traced());
        file_read::fire(b"a/path", 1, 2, 3);
        file_read::SEMAPHORE.fetch_sub(1, Ordering::Relaxed);
        assert!(!file_read::is_traced());
    }
}
