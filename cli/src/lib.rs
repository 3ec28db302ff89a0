//! The command line of both programs, and their manual.
//!
//! `nearside` serves: what its process needs is linked into it, and no more. All
//! other commands are in `nearside-tools`, which it becomes where one of them is
//! meant, so that there is one command for people. Their definitions are one tree
//! here ([`args`]), for help, manual and completions.

pub mod args;
pub mod man;
