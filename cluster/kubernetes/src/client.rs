//! One question to an API server, and its answer: a connection each, so that none is left half used, and each has an
//! end in time.

use crate::access::{Access, Credentials, Server};
use core::fmt;
use core::time::Duration;
use cpu::Clock;
use h1::client::{RequestHead, ResponseEvent, ResponseLimits, ResponseReader};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use serde_json::Value;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Time;

/// One try to connect, and one wait for bytes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A question and its answer in all.
const CALL_PATIENCE: Duration = Duration::from_secs(20);

/// The longest answer: a thousand pods have some 10 MiB.
const ANSWER_LIMIT: usize = 64 << 20;

/// The longest event of a watch: an object has two mebibytes at most.
const EVENT_LIMIT: usize = 8 << 20;

/// Between two events of a watch: a bookmark comes once a minute.
const WATCH_PATIENCE: Duration = Duration::from_secs(90);

/// What a program for credentials says at most.
const PROGRAM_LIMIT: u64 = 1 << 20;

/// Where machines have the certificates that they trust.
const MACHINE_ROOTS: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// What is done with what a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Read it.
    Get,
    /// Make one below it.
    Post,
    /// Put another in its place.
    Put,
    /// Change fields of it (RFC 7396).
    Patch,
    /// Have fields of it as the object says, as one who has those alone (server-side apply): it is made if it is not
    /// there.
    Apply,
    /// Delete it.
    Delete,
}

/// Why a question has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApiError {
    /// The server cannot be reached, or said what makes no sense.
    Unreachable(String),
    /// It refuses.
    Refused {
        /// The status.
        status: u16,
        /// In a word, as `AlreadyExists`.
        reason: String,
        /// In a sentence.
        message: String,
    },
}

impl ApiError {
    /// Whether what was asked for is not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404 | 410, .. })
    }

    /// Whether it is there already, or was changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }

    /// Whether the same question may have an answer a moment later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => *status == 429 || *status >= 500,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "the API server cannot be asked: {why}"),
            Self::Refused { status, reason, message } => write!(f, "{message} ({status} {reason})"),
        }
    }
}

impl std::error::Error for ApiError {}

/// A client of one API server.
pub struct Client {
    server: Server,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    credentials: Credentials,
    /// What a program said, until that is refused.
    said: Mutex<Option<String>>,
}

impl Client {
    /// A client of the server that `access` says; nothing is asked yet.
    ///
    /// # Errors
    /// If certificates or keys make no sense, or a program for credentials does not say any.
    pub fn new(access: Access) -> Result<Self, String> {
        let Access { server, roots, mut credentials, .. } = access;
        let mut said = None;
        if let Credentials::Program { words, variables } = &credentials {
            let status = run(words, variables)?;
            let text = |field: &str| status[field].as_str().map(str::to_owned);
            said = text("token");
            if let (Some(chain), Some(key)) = (text("clientCertificateData"), text("clientKeyData")) {
                credentials = Credentials::Certificate { chain: chain.into_bytes(), key: key.into_bytes() };
            } else if said.is_none() {
                return Err(format!("{} said no token and no certificate", words.join(" ")));
            }
        }
        let tls = if server.tls { Some(tls(&server, roots, &credentials)?) } else { None };
        Ok(Self { server, tls, credentials, said: Mutex::new(said) })
    }

    /// The address that the server sees of this machine.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub fn own_address(&self) -> io::Result<std::net::IpAddr> {
        Ok(self.connect()?.local_addr()?.ip())
    }

    /// Asks for what `path` names (`/api/v1/…`), with an object where one is said.
    ///
    /// # Errors
    /// If there is no answer, or it is a refusal.
    pub fn call(&self, method: Method, path: &str, object: Option<&Value>) -> Result<Value, ApiError> {
        let answer = self.ask(method, path, object)?;
        let (Credentials::Program { words, variables }, 401) = (&self.credentials, answer.0) else {
            return read(answer);
        };
        // What it said before is of no more use.
        let status = run(words, variables).map_err(ApiError::Unreachable)?;
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = status["token"].as_str().map(str::to_owned);
        read(self.ask(method, path, object)?)
    }

    /// Asks for what becomes of what `path` names (`watch=1`), and hands each event to `on`, until that says that it
    /// is enough, or the server that it is over. An event, a bookmark among them, has to come once in 90 s.
    ///
    /// # Errors
    /// If there is no answer, or it is a refusal, or no event.
    pub fn watch(&self, path: &str, on: &mut dyn FnMut(Value) -> bool) -> Result<(), ApiError> {
        let request = self.request(Method::Get, path, None).map_err(|why| self.unreachable(&why))?;
        let (mut held, mut refusal) = (Vec::new(), Vec::new());
        let mut take = |status: u16, bytes: &[u8]| {
            if !(200..=299).contains(&status) {
                refusal.extend_from_slice(bytes);
                return if refusal.len() > ANSWER_LIMIT {
                    Err(wrong("its answer is longer than any"))
                } else {
                    Ok(true)
                };
            }
            held.extend_from_slice(bytes);
            let mut at = 0;
            while let Some(end) = held.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n')) {
                let line = held.get(at..at + end).unwrap_or_default();
                at += end + 1;
                let event = serde_json::from_slice(line).map_err(|_| wrong("an event is no JSON"))?;
                if !on(event) {
                    return Ok(false);
                }
            }
            held.drain(..at);
            if held.len() > EVENT_LIMIT { Err(wrong("an event is longer than any")) } else { Ok(true) }
        };
        let patience = Patience { read: WATCH_PATIENCE, until: Time::MAX };
        let status = self.converse(&request, Method::Get, patience, &mut take);
        match status.map_err(|why| self.unreachable(&why))? {
            200..=299 => Ok(()),
            status => read((status, refusal)).map(|_| ()),
        }
    }

    fn unreachable(&self, why: &dyn fmt::Display) -> ApiError {
        ApiError::Unreachable(format!("{}: {why}", self.server.authority()))
    }

    fn ask(&self, method: Method, path: &str, object: Option<&Value>) -> Result<(u16, Vec<u8>), ApiError> {
        let request = self.request(method, path, object).map_err(|why| self.unreachable(&why))?;
        let mut content = Vec::new();
        let patience = Patience { read: PATIENCE, until: Clock.now() + CALL_PATIENCE };
        let status = self.converse(&request, method, patience, &mut |_, bytes| {
            content.extend_from_slice(bytes);
            if content.len() > ANSWER_LIMIT { Err(wrong("its answer is longer than any")) } else { Ok(true) }
        });
        Ok((status.map_err(|why| self.unreachable(&why))?, content))
    }

    fn request(&self, method: Method, path: &str, object: Option<&Value>) -> Result<Vec<u8>, String> {
        let (word, kind) = match method {
            Method::Get => ("GET", "application/json"),
            Method::Post => ("POST", "application/json"),
            Method::Put => ("PUT", "application/json"),
            Method::Patch => ("PATCH", "application/merge-patch+json"),
            // JSON is YAML.
            Method::Apply => ("PATCH", "application/apply-patch+yaml"),
            Method::Delete => ("DELETE", "application/json"),
        };
        let mut out = Vec::new();
        let target = format!("{}{path}", self.server.prefix);
        let mut head = RequestHead::new(&mut out, word, target.as_bytes(), self.server.authority().as_bytes());
        head = head.field("Accept", b"application/json").field("User-Agent", b"nearside-cluster");
        if let Some(token) = self.token()? {
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err("its token holds what no header may".to_owned());
            }
            head = head.field("Authorization", format!("Bearer {token}").as_bytes());
        }
        let body = object.map(Value::to_string);
        if let Some(body) = &body {
            head = head.field("Content-Type", kind.as_bytes()).content_length(body.len() as u64);
        }
        head.close().end();
        out.extend_from_slice(body.unwrap_or_default().as_bytes());
        Ok(out)
    }

    fn token(&self) -> Result<Option<String>, String> {
        match &self.credentials {
            Credentials::Token(token) => Ok(Some(token.clone())),
            // The kubelet writes another one in time.
            Credentials::TokenFile(file) => {
                let text = fs::read_to_string(file).map_err(|why| format!("{}: {why}", file.display()))?;
                Ok(Some(text.trim().to_owned()))
            }
            Credentials::Program { .. } => Ok(self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            Credentials::None | Credentials::Certificate { .. } => Ok(None),
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for address in (self.server.host.as_str(), self.server.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_write_timeout(Some(PATIENCE))?;
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Sends a request, and hands what its answer holds on, with the status; answers the status.
    fn converse(&self, request: &[u8], method: Method, patience: Patience, take: &mut Take<'_>) -> io::Result<u16> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(patience.read))?;
        let Some((config, name)) = &self.tls else { return talk(&mut stream, request, method, patience.until, take) };
        let mut tls = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        talk(&mut Stream::new(&mut tls, &mut stream), request, method, patience.until, take)
    }
}

/// How long an answer is waited for: each time that bytes are to come, and in all.
#[derive(Clone, Copy)]
struct Patience {
    read: Duration,
    until: Time,
}

/// Whoever takes what an answer of this status holds, and says whether there is to be more.
type Take<'a> = dyn FnMut(u16, &[u8]) -> io::Result<bool> + 'a;

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Sends a request, and reads its answer to the end.
fn talk(
    way: &mut (impl Read + Write),
    request: &[u8],
    method: Method,
    until: Time,
    take: &mut Take<'_>,
) -> io::Result<u16> {
    way.write_all(request)?;
    way.flush()?;
    // Neither of them has an answer without content; for others the method says nothing of it.
    let asked = if method == Method::Get { semantics::Method::Get } else { semantics::Method::Post };
    let limits = ResponseLimits::default();
    let (mut reader, mut held, mut at) = (ResponseReader::new(), Vec::new(), 0);
    let mut status = 0;
    let mut bytes = [0; 1 << 14];
    loop {
        let window: &[u8] = held.get(at..).unwrap_or_default();
        match reader.on_bytes(window, asked, &limits) {
            ResponseEvent::Interim { consumed, .. } | ResponseEvent::LineFeeds { consumed } => at += consumed,
            ResponseEvent::Response { response, consumed } => {
                status = response.status.code();
                at += consumed;
                if response.framing == h1::Framing::None {
                    return Ok(status);
                }
            }
            ResponseEvent::Body { bytes, consumed } => {
                let goes_on = take(status, bytes)?;
                at += consumed;
                if !goes_on {
                    return Ok(status);
                }
            }
            ResponseEvent::EndOfBody { .. } => return Ok(status),
            ResponseEvent::Failed { error } => return Err(wrong(&format!("it speaks no HTTP ({error:?})"))),
            ResponseEvent::NeedMore => {
                held.drain(..at);
                at = 0;
                let read = way.read(&mut bytes)?;
                if Clock.now() >= until {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                if read == 0 {
                    let ended = reader.on_end(held.len()).ok().flatten();
                    return ended.map(|_| status).ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
                }
                held.extend_from_slice(bytes.get(..read).unwrap_or_default());
            }
        }
    }
}

/// An answer's object, or why it is a refusal.
fn read((status, content): (u16, Vec<u8>)) -> Result<Value, ApiError> {
    let object = serde_json::from_slice::<Value>(&content);
    match (status, object) {
        (200..=299, Ok(object)) => Ok(object),
        (200..=299, Err(_)) => Err(ApiError::Unreachable("its answer is no JSON".to_owned())),
        (status, object) => {
            let object = object.unwrap_or_default();
            let part = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let message = Some(part("message")).filter(|words| !words.is_empty());
            let message = message.unwrap_or_else(|| "the API server refuses".to_owned());
            Err(ApiError::Refused { status, reason: part("reason"), message })
        }
    }
}

fn tls(
    server: &Server,
    roots: Option<Vec<u8>>,
    credentials: &Credentials,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
    let pem = roots.or_else(|| MACHINE_ROOTS.iter().find_map(|file| fs::read(PathBuf::from(file)).ok()));
    let pem =
        pem.ok_or("nobody is known who vouches for the API server: the cluster's certificate-authority is missing")?;
    let mut store = RootCertStore::empty();
    // One that makes no sense vouches for nobody, and the others do.
    let (taken, _) = store.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten());
    if taken == 0 {
        return Err("no certificate of who vouches for the API server can be read".to_owned());
    }
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| why.to_string())?.with_root_certificates(store);
    let config = match credentials {
        Credentials::Certificate { chain, key } => {
            let chain: Vec<_> = CertificateDer::pem_slice_iter(chain).flatten().collect();
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "the client's key is none in PEM")?;
            builder.with_client_auth_cert(chain, key).map_err(|why| format!("the client's certificate: {why}"))?
        }
        _ => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from(server.host.clone());
    let name = name.map_err(|_| format!("{} is no name of a server", server.host))?;
    Ok((Arc::new(config), name))
}

/// Runs a program for credentials, and answers the status of what it says (`ExecCredential`).
fn run(words: &[String], variables: &[(String, String)]) -> Result<Value, String> {
    let told = |why: &dyn fmt::Display| format!("{}: {why}", words.join(" "));
    let (program, arguments) = words.split_first().ok_or("there is no program for credentials")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|why| told(&why))?;
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(PROGRAM_LIMIT).read_to_end(&mut said).map_err(|why| told(&why))?;
    }
    let status = child.wait().map_err(|why| told(&why))?;
    if !status.success() {
        return Err(told(&status));
    }
    let mut object: Value = serde_json::from_slice(&said).map_err(|_| told(&"it said no credentials"))?;
    Ok(object.get_mut("status").map(Value::take).unwrap_or_default())
}
