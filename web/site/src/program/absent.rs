//! Without the feature `phases` nobody can make a [`Program`]: no host is served by one, and
//! the compiler leaves out what would.

use crate::ConfigError;
use core::net::SocketAddr;
use exchange::{
    ExchangeId, Handler, HeadWriter, Listeners, Prepared, Replies, RequestBody, UpstreamHandler, UpstreamId,
};
use files::{Directory, FileLimits, Files};
use latency::SeriesBoard;
use semantics::Request;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Never {}

/// What a configuration says: there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program(Never);

impl Program {
    /// Whether clients of some address begin with a handshake of TLS.
    #[must_use]
    pub const fn speaks_tls(&self) -> bool {
        match self.0 {}
    }

    /// Whether those of this address do.
    #[must_use]
    pub const fn speaks_tls_at(&self, _address: SocketAddr) -> bool {
        match self.0 {}
    }
}

/// A configuration made ready to be taken up: there is none.
#[derive(Debug)]
pub struct NewProgram(Never);

impl NewProgram {
    /// Makes one ready.
    ///
    /// # Errors
    /// None.
    pub fn prepare(program: Arc<Program>, _cpus: &[usize]) -> Result<Self, ConfigError> {
        match program.0 {}
    }
}

/// What the handler of a configuration is made of: there is none.
#[derive(Debug)]
pub struct EngineParts(Never);

impl EngineParts {
    /// Opens what it needs.
    ///
    /// # Errors
    /// None.
    pub fn new(program: NewProgram, _directory: &Directory, _cpus: &[usize]) -> Result<Self, ConfigError> {
        match program.0 {}
    }
}

/// The handler of a configuration: there is none.
#[derive(Debug)]
pub struct Engine(Never);

impl Engine {
    /// The handler.
    #[must_use]
    pub fn new(parts: EngineParts, _limits: FileLimits, _heads: &HeadWriter, _event: &Arc<OwnedFd>) -> Self {
        match parts.0 {}
    }

    /// Looks for what it serves again.
    pub fn reload(&mut self) {
        match self.0 {}
    }

    /// Looks every path up again before it is used.
    pub fn forget(&mut self) {
        match self.0 {}
    }

    /// Takes another configuration up.
    pub fn change(&mut self, _program: NewProgram) {
        match self.0 {}
    }

    /// Latencies are counted with series of this board.
    pub fn count_latencies(&mut self, _board: Option<&SeriesBoard>) {
        match self.0 {}
    }

    /// Opens its logs again.
    pub fn reopen_logs(&self) {
        match self.0 {}
    }

    /// Its files.
    #[must_use]
    pub const fn files(&self) -> &Files {
        match self.0 {}
    }

    /// Lines of logs that were lost.
    #[must_use]
    pub const fn log_drops(&self) -> u64 {
        match self.0 {}
    }

    /// What clients speak, by where they connect.
    #[must_use]
    pub fn listeners(&self) -> Listeners {
        match self.0 {}
    }

    /// Whether a connection to an upstream needs a timer.
    #[must_use]
    pub const fn needs_timer(&self, _mark: u32, _unsent: usize) -> bool {
        match self.0 {}
    }

    /// Whether an exchange is ended by some timer.
    #[must_use]
    pub fn is_timed(&self, _id: ExchangeId, _mark: u32, _is_armed: &dyn Fn(UpstreamId) -> bool) -> bool {
        match self.0 {}
    }
}

impl Handler for Engine {
    fn on_request<R: Replies>(
        &mut self,
        _replies: &mut R,
        _id: ExchangeId,
        _request: &Request<'_>,
        _body: RequestBody,
    ) {
        match self.0 {}
    }
}

impl UpstreamHandler for Engine {}

impl Prepared for Engine {}
