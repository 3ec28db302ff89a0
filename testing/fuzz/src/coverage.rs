//! Which code an input reaches.
//!
//! LLVM can put a counter of eight bits on every edge of the control flow, and
//! tells where they are when the program starts. No nightly toolchain and no
//! foreign runtime is needed: with
//!
//! ```text
//! RUSTFLAGS="-Cpasses=sancov-module -Ccodegen-units=1
//!   -Cllvm-args=-sanitizer-coverage-level=3
//!   -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
//! cargo run --release --target x86_64-unknown-linux-gnu -p fuzz -- all --seconds 60
//! ```
//!
//! the counters are there (naming a target keeps them out of build scripts);
//! in every other build there are none, and the hunt is blind.

use std::sync::atomic::{AtomicUsize, Ordering};

static START: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Called by the instrumented program for each of its objects before `main`,
/// with the bounds of all counters.
///
/// # Safety
/// `start` and `stop` bound a byte array that lives, and is written to by
/// this thread only, as long as the program.
// SAFETY: LLVM gives the function this name, and nothing else defines it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    START.store(start as usize, Ordering::Relaxed);
    LEN.store(stop as usize - start as usize, Ordering::Relaxed);
}

/// How often each edge was taken, in the classes that matter: an edge taken
/// once, twice, thrice, or up to 7, 15, 31, 127 times or more.
#[derive(Debug)]
pub struct Map {
    /// Bit n of an entry: class n was seen.
    seen: Vec<u8>,
}

impl Map {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self { seen: vec![0; LEN.load(Ordering::Relaxed)] }
    }

    /// Edges in the program; 0 without instrumentation.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.seen.len()
    }

    /// Edges that were taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.seen.iter().filter(|&&classes| classes != 0).count()
    }

    /// Notes what was taken since the last call, and says what of it is new.
    pub fn update(&mut self) -> Progress {
        let mut progress = Progress::None;
        with_counters(self.seen.len(), |counters| {
            for (counter, seen) in counters.iter_mut().zip(&mut self.seen) {
                let count = core::mem::take(counter);
                if count == 0 {
                    continue;
                }
                let class = 1 << class(count);
                if *seen == 0 {
                    let before = if let Progress::Edges(before) = progress { before } else { 0 };
                    progress = Progress::Edges(before + 1);
                } else if *seen & class == 0 {
                    progress = progress.max(Progress::Count);
                }
                *seen |= class;
            }
        });
        progress
    }
}

/// What an input reached that none before it did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Progress {
    /// Nothing.
    None,
    /// A known edge more often, or less.
    Count,
    /// So many edges.
    Edges(u32),
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

const fn class(count: u8) -> u8 {
    match count {
        0..=3 => count.saturating_sub(1),
        4..=7 => 3,
        8..=15 => 4,
        16..=31 => 5,
        32..=127 => 6,
        128..=255 => 7,
    }
}

fn with_counters(len: usize, work: impl FnOnce(&mut [u8])) {
    let start = START.load(Ordering::Relaxed);
    if start == 0 || len > LEN.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: LLVM's own array of counters, alive as long as the program. The
    // instrumented code increments them without Rust's knowledge, on this
    // thread alone and not while `work` runs, except for those of the loop
    // that reads them: plain byte stores, whose lost or repeated increments
    // are of no consequence.
    work(unsafe { core::slice::from_raw_parts_mut(start as *mut u8, len) });
}
