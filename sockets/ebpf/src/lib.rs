//! eBPF without a compiler: an assembler for the kernel's instructions, and a
//! loader on bpf(2).
//!
//! Programs are kept as text in the field's own notation, go into the binary
//! as text, and are assembled when they are loaded: so what is read in review
//! is what runs, and a user's machine needs no compiler and no headers.
//!
//! ```text
//! Assembly::new(text, constants) ─► Program::load(name, &assembly, maps) ─► attach
//!                            Map::create ─┘
//! ```
//!
//! | module | for |
//! | --- | --- |
//! | `assemble` | text to instructions; describes the notation |
//! | `map` | maps: create, read, write, share |
//! | `program` | load, attach, run |
//! | `btf` | the kernel's types: numbers of functions that have no fixed one |
//! | `error` | why the kernel refused, in words that lead to a remedy |
#![deny(unsafe_op_in_unsafe_fn)]

mod assemble;
mod btf;
mod error;
mod insn;
mod kernel;
mod lex;
mod map;
mod program;
mod version;

pub use assemble::{AssembleError, Assembly, MAX_INSNS, Mistake};
pub use error::{Cause, Error};
pub use insn::Insn;
pub use map::{MAX_BYTES, Map, MapKind, Shared, possible_cpus};
pub use program::{Program, ProgramType, XdpAttachment, XdpMode, detach_reuseport, has_function, program_name};
pub use version::{Version, VersionError};
