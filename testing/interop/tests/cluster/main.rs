//! `nearside cluster run`: processes of this machine as workers, and pods of a cluster whose API server is one of the
//! test's; audits of its nodes, likewise.

mod api_server;
mod audits;
mod local;
mod operator;
mod planted;
mod pods;
mod server;
