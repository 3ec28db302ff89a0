//! Results of all our measurements, read and compared by one way: of the load generator, the
//! packet tester, the lab, the noise listener, and recordings of `nearside watch`.
//!
//! Each result says at its head what it is (`kind`), of which form (`schema`), which machine it
//! belongs to (`environment`) and what it is worth (`verdict`: COMPLETE, PARTIAL or INVALID, with
//! reasons). Results of earlier versions lack the head and are known by what they hold.
//!
//! | module | for |
//! | --- | --- |
//! | `read` | files and folders, and what is none of ours |
//! | `place` | where results and pages are written |
//! | `measurement` | one result: kind, verdict, machine, figures |
//! | `figures` | what of each kind is compared, and what must have been asked alike |
//! | `packet` | the same of the packet tester |
//! | `comparison` | two sides: what changed, what did not, what is not alike |
//! | `drawn` | pages of results, and of two sides |
#![forbid(unsafe_code)]

mod cells;
mod comparison;
mod drawn;
mod figures;
mod measurement;
mod packet;
mod place;
mod read;

pub use comparison::{FigureCompared, SidesCompared, compare, unlike};
pub use drawn::{NO_VERDICT, page, page_of, page_of_files, page_of_sides, topology_svg};
pub use environment::ResultKind;
pub use measurement::{KnownResult, OwnVerdict, ResultError, Worth};
pub use place::{expect_writable, refuse_onto, write_whole};
pub use read::{RESULT_LIMIT, RESULTS_LIMIT, of_value, parts, read, read_text, sides, texts};

#[cfg(test)]
mod tests;
