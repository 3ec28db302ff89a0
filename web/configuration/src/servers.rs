//! Where it is listened, and who answers there.

use crate::ids::{BlockId, ServerId};
use crate::locations::Locations;
use crate::terms::HeadRules;
use exchange::{Http2Terms, LocalAddress, Names};
use features::Value;
use handshake::{CertificateSource, ClientMode, ServerTls};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where it is listened, and which servers answer there.
#[derive(Debug)]
pub struct ListenerRules {
    /// The address; unspecified for all, and nothing for a Unix socket.
    pub address: Option<SocketAddr>,
    /// The path of a Unix socket.
    pub path: Option<PathBuf>,
    /// Which of the servers is asked for by which name: places in `servers`.
    pub names: Names,
    /// The servers here; the first is that of names that no other has.
    pub servers: Vec<ServerId>,
    /// Clients begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// They begin with a handshake of TLS (`ssl`), behind that header.
    pub tls: bool,
    /// HTTP/2 is spoken, if they ask for it: as this says.
    pub http2: Option<Http2Terms>,
}

impl ListenerRules {
    /// Where clients connect to that come to it.
    #[must_use]
    pub fn at(&self) -> LocalAddress {
        match (self.address, &self.path) {
            (Some(address), _) => LocalAddress::Inet(address),
            (None, Some(path)) => LocalAddress::Unix(app::path_number(path.as_os_str().as_bytes())),
            (None, None) => LocalAddress::Unknown,
        }
    }
}

/// Certificates whose paths are known when a client asks.
#[derive(Debug)]
pub struct CertificatesByValue {
    /// Where they are found.
    pub source: Arc<dyn CertificateSource>,
    /// The paths of each and of its key.
    pub files: Vec<(Value, Value)>,
    /// Where a path begins that does not say.
    pub folder: Box<[u8]>,
}

/// A `server`.
#[derive(Debug)]
pub struct VirtualServer {
    /// Its first name, as it is written: `$server_name`.
    pub name: Box<[u8]>,
    /// Its settings, for what has no location; its script is that of its rewrite
    /// phase.
    pub block: BlockId,
    /// What it says and does in handshakes; none, if it has no certificates.
    pub security: Option<Arc<ServerTls>>,
    /// Its certificates, where their paths have variables: `security` is without any then.
    pub certificates: Option<CertificatesByValue>,
    /// `ssl_verify_client`.
    pub verifies: Option<ClientMode>,
    /// Which location a path belongs to: numbers of blocks.
    pub locations: Locations,
    /// `merge_slashes`.
    pub merge_slashes: bool,
    /// `ignore_invalid_headers`.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`.
    pub underscores_in_headers: bool,
    /// What is taken of a request before its location is known.
    pub head: HeadRules,
}

impl VirtualServer {
    /// Whether a field of this name is as if it were not there.
    #[must_use]
    pub fn ignores_field(&self, name: &[u8]) -> bool {
        let valid =
            |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || (*byte == b'_' && self.underscores_in_headers);
        self.ignore_invalid_headers && !name.iter().all(valid)
    }
}
