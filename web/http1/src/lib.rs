//! HTTP/1.1: from a connection's bytes to exchanges with a handler, and back.
//!
//! A GET for content that is ready takes the short way (`ready`): parsed, looked
//! up by the path as it was sent, and answered with one shared body that holds
//! head and content. No allocation, no lock, no system call. Everything else
//! is an exchange (`requests`, `replies`).
//!
//! | module | for |
//! | --- | --- |
//! | [`H1`] | what happens to connections |
//! | `ready` | from a request to a response that is ready |
//! | `requests` | from a request to its handler |
//! | `telling` | what handlers are told |
//! | `replies`, `streamed` | from a handler to a response, whose body may come later |
//! | `upstreams` | connections that handlers ask for |
//! | `tunnel` | connections that are a handler's |
//! | `answering` | the exchange that is answered, and how its connection goes on |
//! | `responses` | whole responses |
//! | [`Door`] | handlers, as protocols reach them that carry several exchanges |
//! | `head` | the heads of responses: a field that all are to have |
//! | `times` | how long requests take |
//!
//! Files call each other one way, from the top down.
#![forbid(unsafe_code)]

mod answering;
mod door;
mod head;
mod protocol;
mod ready;
mod replies;
mod requests;
mod responses;
mod streamed;
mod telling;
mod times;
mod tunnel;
mod upstreams;

pub use answering::H1Replies;
pub use door::Door;
pub use head::head_writer;
pub use protocol::H1;
