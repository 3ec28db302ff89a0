//! Without the feature `tls`: the types that carriers and handlers name, of which there are
//! no values. Nobody can make a [`ServerTls`] or a [`ClientTls`], so nobody shakes hands, and
//! the compiler leaves out what would. What is called has the names and forms of what it
//! stands for.

use crate::effort::Effort;
use crate::hello::Hello;
use core::fmt;
use core::sync::atomic::AtomicBool;
use seal::Layer;
use std::sync::Arc;

/// Has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Never {}

/// What a server says and does: there is none.
#[derive(Clone, Debug)]
pub struct ServerTls(Never);

impl ServerTls {
    /// Whether clients are asked for certificates.
    #[must_use]
    pub const fn asks_clients(&self) -> bool {
        match self.0 {}
    }
}

/// What who connects says and does: there is none.
#[derive(Clone, Debug)]
pub struct ClientTls(Never);

/// Certificates that are to be found first: there are none.
#[derive(Clone, Debug)]
pub struct Demand(Never);

/// Whom a connection is to lead to: nobody.
#[derive(Clone, Debug)]
pub struct Sought {
    /// What is said and done.
    pub tls: Arc<ClientTls>,
}

/// Why a handshake failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No certificate could be had to be shown, as the error log tells it.
    Certificates(Box<str>),
    /// The client said that it sends no more.
    Closed,
    /// There is no handshake.
    Over,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificates(why) => f.write_str(why),
            Self::Closed => f.write_str("peer closed connection in SSL handshake"),
            Self::Over => f.write_str("internal error"),
        }
    }
}

/// A handshake with a client: there is none.
#[derive(Debug)]
pub struct Acceptor(Never);

/// What came of some of its bytes.
#[derive(Debug)]
pub struct Step {
    /// How many of them it took.
    pub consumed: usize,
    /// What is to be sent, whatever the outcome.
    pub out: Vec<u8>,
    /// How it goes on.
    pub outcome: Outcome,
}

/// How a handshake goes on.
#[derive(Debug)]
pub enum Outcome {
    /// It waits for more from its client.
    Waits,
    /// It is over: what follows is sealed.
    Done(Box<Secured>),
    /// It failed.
    Failed(Failure),
}

impl Acceptor {
    /// One with this server.
    #[must_use]
    pub fn new(server: Arc<ServerTls>, _hello: Hello) -> Self {
        match server.0 {}
    }

    /// One with this server, whose certificates are to be found first.
    #[must_use]
    pub fn on_demand(server: Arc<ServerTls>, _hello: Hello, _demand: Demand) -> Self {
        match server.0 {}
    }

    /// How long the next step takes.
    #[must_use]
    pub const fn effort(&self) -> Effort {
        match self.0 {}
    }

    /// Whether `bytes` hold what a handshake is to work on: none does.
    #[must_use]
    pub const fn has_record(_bytes: &[u8]) -> bool {
        false
    }

    /// Takes records.
    pub fn on_bytes(&mut self, _bytes: &[u8]) -> Step {
        match self.0 {}
    }
}

/// A connection whose handshake is over: there is none.
#[derive(Debug)]
pub struct Secured(Never);

impl Secured {
    /// What seals and opens from now on, and what is told of the handshake.
    #[must_use]
    pub fn into_layer(self) -> Option<(Box<dyn Layer>, Session)> {
        match self.0 {}
    }
}

/// What is told of a connection's handshake.
#[derive(Clone, Debug)]
pub struct Session {
    /// Whether it goes on with a session from before.
    pub resumed: bool,
    /// Where data may have come before the handshake was over: whether it is now.
    pub early: Option<Arc<AtomicBool>>,
    /// What was agreed on to be spoken above TLS (ALPN, RFC 7301).
    pub protocol: Option<Box<[u8]>>,
    #[expect(dead_code, reason = "so that there is none of these")]
    never: Never,
}

/// A handshake with a server: there is none.
#[derive(Debug)]
pub struct Connector(Never);

/// What came of some of its bytes.
#[derive(Debug)]
pub struct ConnectStep {
    /// How many of them it took.
    pub consumed: usize,
    /// What is to be sent, whatever the outcome.
    pub out: Vec<u8>,
    /// How it goes on.
    pub outcome: ConnectOutcome,
}

/// How a handshake with a server goes on.
#[derive(Debug)]
pub enum ConnectOutcome {
    /// It waits for more from its server.
    Waits,
    /// It is over: what follows is sealed.
    Done(Box<Connected>),
    /// It failed.
    Failed(Failure),
}

impl Connector {
    /// One that is to be begun.
    #[must_use]
    pub fn new(sought: Sought) -> Self {
        match sought.tls.0 {}
    }

    /// Whether `bytes` hold what a handshake is to work on: none does.
    #[must_use]
    pub const fn has_record(_bytes: &[u8]) -> bool {
        false
    }

    /// Takes records.
    pub fn on_bytes(&mut self, _bytes: &[u8]) -> ConnectStep {
        match self.0 {}
    }
}

/// A connection to a server whose handshake is over: there is none.
#[derive(Debug)]
pub struct Connected(Never);

impl Connected {
    /// What seals and opens from now on, and what is told of the handshake.
    #[must_use]
    pub fn into_layer(self) -> Option<(Box<dyn Layer>, ServerSession)> {
        match self.0 {}
    }
}

/// What is told of a handshake with a server: there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerSession(Never);
