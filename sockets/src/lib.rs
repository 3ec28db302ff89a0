//! The kernel data path: the same [`app::App`] as over our own stack, on
//! kernel sockets.
//!
//! A [`Worker`] is one thread and all it owns: its share of the listening
//! sockets, its connections, its application. It turns readiness (epoll) or
//! completions (`io_uring`) into the calls of [`app::App`], in their order.
//!
//! | module | for |
//! | --- | --- |
//! | `config`, `endpoint` | what can be asked for: accept models, options; where |
//! | `listen` | listening sockets: made, taken over, dealt out |
//! | `worker` | one thread's loop, and its attendant |
//! | `fleet` | threads for workers |
//! | `net`, `connect` | what applications ask for: [`app::Net`] |
//! | `table`, `timers` | the connections |
//! | `dispatch` | calls of the application, the same for every engine |
//! | `half`, `composite`, `routes` | connections beside those of a silo's own stack |
//! | `epoll`, `accept`, `send` | readiness: the engine over epoll |
//! | `secured`, `sealing` | records of secured connections: opened, and sealed |
//! | `farewell` | connections that ended with an alert, until their peers have it |
//! | [`kernel_tls`] | records that the kernel seals in our place |
//! | `pipes`, `passing` | bytes that go from one connection to another |
//! | `luck` | whether a new connection's request is there already |
//! | `blocking` | waiting in accept(2) |
//! | `uring` | completions: the engine over io_uring |
//! | `option` | socket options |
//! | `steer` | the eBPF programs that choose the worker of a new connection |
#![deny(unsafe_op_in_unsafe_fn)]

mod accept;
mod blocking;
mod composite;
mod config;
mod connect;
mod counters;
mod dispatch;
mod endpoint;
mod epoll;
mod farewell;
mod figures;
pub mod fleet;
mod half;
pub mod kernel_tls;
mod listen;
mod luck;
mod net;
mod option;
mod passing;
mod pipes;
mod routes;
mod sealing;
mod secured;
mod send;
pub mod steer;
mod table;
mod timers;
mod uring;
mod worker;

pub use composite::{Composite, CompositeNet};
pub use config::{Config, Engine, EngineError, KeepAlive, ListenOptions, Model, ModelError, OwnOptions, StreamOptions};
pub use counters::Counters;
pub use endpoint::{Endpoint, EndpointError};
pub use half::{HalfConfig, KernelHalf};
pub use listen::{BindError, Listener, Listeners, Origin};
pub use net::Sockets;
pub use option::OptionError;
pub use routes::{ConnectBy, ConnectRoutes};
pub use uring::NoRing;
pub use worker::{ATTEND_IDLE, Attendant, StartError, Worker};
