//! The socket calls of the kernel and those over our own stack, compared.
//!
//! The same sequence of calls, chosen at random by a seed, is made in two [`World`]s: with
//! sockets of the kernel over loopback ([`Kernel`]) and with two stacks of ours that a link
//! joins ([`Ours`]). In each world there are two sides, so that peers are as random as what is
//! tested. After each call both come to rest; what it returned, its `errno`, the bytes that came
//! and which descriptors are ready must be the same.
//!
//! `cargo test -p calls` takes some thousands of sequences; more of them by
//! `NEARSIDE_SEQUENCES=100000`, and one by `NEARSIDE_SEED=4711`.

mod call;
mod kernel;
mod library;
mod ours;
mod sequence;
mod system;

pub use call::{Call, Choice, HANDLES, LibraryCall, Outcome, Place, SETS, StrayAddress, StrayCall, World, counted};
pub use kernel::{Kernel, raise_limit};
pub use ours::{End, Ours, address};
pub use sequence::{Chooser, Recipe, Step};

use core::time::Duration;
use posix::Defaults;

/// Ports of a sequence: three for each side.
pub const PORTS: u16 = 6;

/// A port's name: those of a sequence by number, others as chosen by the system.
pub(crate) fn port_name(port: u16, base: u16) -> String {
    match port {
        0 => "none".to_owned(),
        port if (base..base + PORTS).contains(&port) => (port - base).to_string(),
        _ => "chosen".to_owned(),
    }
}

/// Where the worlds differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The step of the sequence.
    pub at: usize,
    /// What the kernel said.
    pub kernel: Outcome,
    /// What ours said.
    pub ours: Outcome,
}

/// Makes a sequence of calls in both worlds; the first difference, if there is one. The kernel's
/// world has this number ([`Kernel::new`]), and so long to deliver what was sent.
#[must_use]
pub fn compare(steps: &[Step], number: u32, patience: Duration) -> Option<Difference> {
    let mut kernel = Kernel::new(number, patience);
    let mut ours = Ours::new(Defaults::default());
    for (at, (side, call)) in steps.iter().enumerate() {
        let of_kernel = kernel.call(*side, call);
        kernel.settle();
        let of_ours = ours.call(*side, call);
        ours.settle();
        if lingers(call, &of_kernel, &of_ours) {
            return None;
        }
        if of_kernel != of_ours {
            return Some(Difference { at, kernel: of_kernel, ours: of_ours });
        }
    }
    None
}

/// Whether the kernel refuses a port because of a connection that nobody holds any more, which
/// ours does not (docs/differences.md): from there on the worlds are not the same.
fn lingers(call: &Call, kernel: &Outcome, ours: &Outcome) -> bool {
    matches!(call, Call::Bind { .. }) && kernel.errno == libc::EADDRINUSE && ours.result == 0
}

/// Takes out of a sequence what a difference does not need: as long as one call less still shows
/// one.
#[must_use]
pub fn shortened(steps: &[Step], number: impl Fn() -> u32, patience: Duration) -> Vec<Step> {
    let mut left = steps.to_vec();
    let mut at = left.len();
    while at > 0 {
        at -= 1;
        let mut fewer = left.clone();
        fewer.remove(at);
        if let Some(difference) = compare(&fewer, number(), patience) {
            fewer.truncate(difference.at + 1);
            left = fewer;
            at = at.min(left.len());
        }
    }
    left
}
