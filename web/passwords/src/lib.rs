//! Users and their passwords, in the files that nginx reads: whether one is
//! right, found out where a silo does not wait.
//!
//! ```text
//! silo ─submit─► ring ─► a line for each client ─► file, hash ─► ring ─take─► silo
//! ```
//!
//! A hash that is made to be slow takes 50 to 100 ms: clients take turns, have
//! only so many in line, and one that is known to be right is not computed again
//! for a moment.

pub mod base64;
mod crypt;
mod file;
mod scheme;
mod verifier;

pub use file::find;
pub use scheme::{Unusable, md5, sha1, verify};
pub use verifier::{Busy, Credentials, Verdict, Verifier, VerifierLimits};
