//! A question to a server, and its answer: whom it goes to, over which connection, in which
//! protocol, and what becomes of it where that server fails.
//!
//! ```text
//!  who asks: an exchange, a request within one, or nobody's (a check)
//!     │ AskSpec: servers, head, body, protocol, times, what to try again
//!     ▼
//!  Ask ── choose ─► a kept connection, or dial (and secure) one ─► the head, the body
//!   ▲  ◄─ failed ──────────────┐                                        │
//!   │                          │ another is asked, as AskRules allow    ▼
//!   └─ on_event, read_head, read_body ◄──────────── what happens at the connection
//!         │
//!         └─► AskStep, HeadEvent, BodyEnd: what who asked is to know of it
//! ```
//!
//! An [`Ask`] is a value of whoever asks, who hands it what happens at its connection, and
//! has back what that comes to. What a silo has for all of them is in [`ServerGroups`] (whose turn
//! it is, and kept connections by group) and [`KeptLinks`] (the marks of these). Nothing
//! here knows what the question is asked for, nor what will be done with the answer; what
//! there is to say to people is left with the ask ([`AskNote`]).
//!
//! HTTP/1.1, HTTP/2, FastCGI, uwsgi and SCGI are equals: who asks sees a head, a body and an end,
//! and is told of the protocol by nothing else.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `rules` | what is asked of whom, and by which rules |
//! | `groups`, `kept` | what a silo knows of servers; connections that are kept |
//! | `ask` | one question under way |
//! | `choosing` | servers are asked one after the other, until one answers |
//! | `securing` | connections are secured before anything is asked |
//! | `question`, `sending` | the head and the body of a question, on their way |
//! | `head`, `body` | an answer's head, and its body |
//! | `inquiry` | a question that nobody's exchange waits for |
//! | `program` | answers of programs (FastCGI, uwsgi, SCGI) |
//! | `shared` | connections that carry many questions (HTTP/2) |
//! | `answer`, `sharing` | answers on their streams |
//! | `link`, `marks`, `clock` | what carries a question, how connections are known, times as numbers |
//! | `pace` | bodies that are read at a rate |
//! | `tunnel`, `tunnel_pace` | connections that go over to another protocol |
//! | `tries`, `words` | what became of each server that was asked; faults in words |
#![forbid(unsafe_code)]

mod answer;
mod ask;
mod body;
mod choosing;
mod clock;
mod groups;
mod head;
mod inquiry;
mod kept;
mod link;
mod marks;
mod pace;
mod program;
mod question;
mod rules;
mod securing;
mod sending;
mod shared;
mod sharing;
mod tries;
mod tunnel;
mod tunnel_pace;
mod words;

pub use answer::StreamAnswer;
pub use ask::{Ask, AskStage, AskStep, AskTurn};
pub use body::{BodyEnd, BodyStep};
pub use groups::{GroupSpec, ServerGroups, SiloGroup};
pub use head::HeadEvent;
pub use inquiry::{Finding, Inquiry, InquiryFault};
pub use kept::KeptLinks;
pub use link::AskLink;
pub use marks::{IDLE, SHARED};
pub use program::{ProgramAnswer, ProgramProtocol, ProgramRules};
pub use question::BodyStream;
pub use rules::{AskRules, AskSpec, NamedHost, Protocol, Servers};
pub use sending::SEND_MAX;
pub use shared::{Inbox, LinkFigures, SharedLinks, StreamEvent, StreamId};
pub use tries::{AskNote, AskTry, NoteLevel};
pub use tunnel_pace::TunnelLate;

#[cfg(test)]
mod tests;
