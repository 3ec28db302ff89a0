//! How a connection is secured, and what is known of that.

use core::fmt;
use handshake::{Demand, Failure, HelloError, ServerTls, Session};
use std::sync::Arc;

/// How a connection is secured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Transport {
    /// It is not.
    #[default]
    Plain,
    /// It is not, and its client connected to where others begin with a handshake.
    Misplaced,
    /// By TLS.
    Tls,
}

/// The server that a client shakes hands with.
#[derive(Clone, Debug)]
pub struct ChosenTls {
    /// Its certificates, and what belongs to them.
    pub tls: Arc<ServerTls>,
    /// The client asked for it by one of its names.
    pub by_name: bool,
    /// The certificates that are to be found first, until the handshake begins.
    pub demand: Option<Box<Demand>>,
}

/// What a handshake came to.
#[derive(Debug)]
pub struct ClientSession {
    /// With whom it was.
    pub chosen: ChosenTls,
    /// What was agreed on.
    pub session: Session,
}

/// Why a handshake came to nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum HandshakeFault {
    /// What came first is no ClientHello that is taken.
    Hello(HelloError),
    /// It failed.
    Failed(Failure),
    /// Its client took too long.
    Late,
    /// Its client left.
    Left,
    /// Nobody answers here by TLS.
    NoServer,
}

/// Why a connection ends that no request of it says.
#[derive(Clone, Copy, Debug)]
pub enum ConnectionFault<'a> {
    /// It is to begin with what a proxy says of it, and began with these bytes.
    ProxyHeader(&'a [u8]),
    /// Its handshake came to nothing.
    Handshake(&'a HandshakeFault),
    /// Its client broke the protocol of this name, in these words.
    Protocol(&'static str, fmt::Arguments<'a>),
}

/// In nginx's words.
impl fmt::Display for HandshakeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello(why) => write!(f, "SSL_do_handshake() failed (SSL: {why})"),
            Self::Failed(Failure::Closed) | Self::Left => f.write_str("peer closed connection in SSL handshake"),
            Self::Failed(Failure::Certificates(why)) => f.write_str(why),
            Self::Failed(why) => write!(f, "SSL_do_handshake() failed (SSL: {why})"),
            Self::Late => f.write_str("client timed out (110: Connection timed out)"),
            Self::NoServer => {
                f.write_str("SSL_do_handshake() failed (SSL: error:0A0000C1:SSL routines::no shared cipher)")
            }
        }
    }
}
