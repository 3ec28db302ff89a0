//! The language of nginx.conf: its words, its directives with what each takes
//! and where it may stand, its files; and nginx's own messages where something
//! is wrong, with file and line.
//!
//! ```text
//! bytes ─lexer─► statements ─reader─► Configuration: directives in blocks, each
//!                               ▲     with its place and its rule
//!                 rules ────────┘
//! ```
//!
//! The reader checks what nginx checks of every directive by its tables: name,
//! context, number of arguments, the form of the value, and that it stands once.
//! What the directives mean together [`compile`] says: a [`configuration::Program`].
#![forbid(unsafe_code)]

mod compile;
mod explain;
mod instead;
mod lexer;
mod listing;
mod message;
mod reader;
mod rules;
mod source;

pub use compile::{
    ACCESS_LOG, AffinityRules, Compiled, DirectiveClass, ErrorLog, ErrorLogTarget, KeepAliveRules, ProcessRules,
    Remark, Resolve, SocketRules,
};
pub use compile::{Surroundings, bring_piped, compile, take_piped};
pub use explain::{
    Accepting, Answers, ExplainedListener, ExplainedPlace, ExplainedServer, Explanation, KeptOff, NoEffect, Slower,
    Whereabouts, explain,
};
pub use features::units::{BadValue, offset, size, time};
pub use features::{Arguments, Context, DirectiveRow, ValueForm};
pub use listing::listing;
pub use message::{ConfError, Level, Message, Place, SourceId};
pub use reader::{Configuration, DEPTH_MAX, Directive, FILES_MAX, ReadFile, TEXT_MAX};
pub use rules::{Rule, rules};
pub use source::{ConfFiles, Disk};
