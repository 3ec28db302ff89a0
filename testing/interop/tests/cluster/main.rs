//! `nearside cluster run`: processes of this machine as workers, and pods of a cluster whose API server is one of the
//! test's.

mod api_server;
mod local;
mod operator;
mod pods;
mod server;
