//! The kernel data path: the same [`app::App`] as over our own stack, on
//! kernel sockets.
//!
//! A [`Worker`] is one thread and all it owns: its share of the listening
//! sockets, its connections, its application. It turns readiness (epoll) or
//! completions (`io_uring`) into the calls of [`app::App`], in their order.
//!
//! | module | for |
//! | --- | --- |
//! | `config` | what can be asked for: endpoints, accept models, options |
#![deny(unsafe_op_in_unsafe_fn)]

mod config;

pub use config::{
    Config, Endpoint, EndpointError, Engine, EngineError, KeepAlive, ListenOptions, Model, ModelError, StreamOptions,
};
