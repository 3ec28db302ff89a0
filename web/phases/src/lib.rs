//! What becomes of a request, by a configuration: the phases that nginx has.
//!
//! ```text
//!  host ─► rewrite of the server ─► location ─► rewrite ─► limits ─► access
//!                                      ▲           │                   │
//!                                      └── last ───┘            try_files, content
//!                                      ▲                               │
//!                                      └────────── error_page ─────────┤
//!                                                        fields, log ◄─┘
//! ```
//!
//! What the configuration says at each of them is in `configuration`.
#![forbid(unsafe_code)]

mod engine;

pub use engine::{Engine, EngineParts, NewProgram, PrepareError};
