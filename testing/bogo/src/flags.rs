//! What the runner asks of a connection, as words of a command line.

use core::str::FromStr;
use sockets::Engine;

/// Why a test cannot be run.
#[derive(Debug)]
pub enum Unfit {
    /// It asks for what we have not, or cannot look at: this word.
    Unimplemented(String),
    /// The words are none of the runner's.
    Wrong(String),
}

/// What carries the connections.
#[derive(Clone, Copy, Debug)]
pub enum DataPath {
    /// Sockets of the kernel.
    Kernel(Engine),
    /// Our own stack.
    Stack,
}

/// All connections of one test.
#[derive(Debug)]
pub struct Test {
    pub port: u16,
    pub shim_id: u64,
    pub ipv6: bool,
    pub data_path: DataPath,
    /// Connections after the first.
    pub resumes: usize,
    pub first: Asked,
    pub later: Asked,
}

/// What is asked of one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub server: bool,
    /// Certificates with their keys, the default one first.
    pub identities: Vec<Shown>,
    pub trusted: Option<String>,
    pub least: u16,
    pub most: u16,
    pub without: Vec<u16>,
    pub groups: Vec<u16>,
    pub cipher: Option<String>,
    pub host: Option<String>,
    /// ALPN: what a client offers, as the extension has it, and what a server takes.
    pub offers: Option<Vec<u8>>,
    pub selects: Option<Vec<u8>>,
    pub no_ticket: bool,
    pub early_data: bool,
    pub verifies: bool,
    pub requires_certificate: bool,
    pub compresses: bool,
    pub writes_first: bool,
    pub shuts_down: bool,
    pub check_close_notify: bool,
    pub expects: Expects,
}

/// A certificate, in files, and what is said of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    pub certificate: String,
    pub key: String,
    /// An OCSP response.
    pub stapled: Option<Vec<u8>>,
}

/// What is looked at when its handshake is over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expects {
    pub version: Option<u16>,
    pub group: Option<u16>,
    pub protocol: Option<Vec<u8>>,
    pub offered: Option<Vec<u8>>,
    pub server_name: Option<String>,
    pub misses_session: bool,
    pub early_accepted: Option<bool>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            server: false,
            identities: Vec::new(),
            trusted: None,
            least: 0,
            most: u16::MAX,
            without: Vec::new(),
            groups: Vec::new(),
            cipher: None,
            host: None,
            offers: None,
            selects: None,
            no_ticket: false,
            early_data: false,
            verifies: false,
            requires_certificate: false,
            compresses: false,
            writes_first: false,
            shuts_down: false,
            check_close_notify: false,
            expects: Expects::default(),
        }
    }
}

pub const TLS12: u16 = 0x0303;
pub const TLS13: u16 = 0x0304;

impl Asked {
    /// Whether this version may be spoken.
    pub fn speaks(&self, version: u16) -> bool {
        (self.least..=self.most).contains(&version) && !self.without.contains(&version)
    }

    /// Whether what is said in a handshake is the same.
    pub fn is_said_as(&self, other: &Self) -> bool {
        let said = |asked: &Self| Self {
            expects: Expects::default(),
            writes_first: false,
            shuts_down: false,
            check_close_notify: false,
            ..asked.clone()
        };
        said(self) == said(other)
    }

    /// The certificate that words are of.
    fn shown(&mut self) -> &mut Shown {
        if self.identities.is_empty() {
            self.identities.push(Shown::default());
        }
        let last = self.identities.len() - 1;
        &mut self.identities[last]
    }

    /// Takes one word, and its value from `rest`. Whether it is known.
    fn take(&mut self, word: &str, rest: &mut Words) -> Result<bool, Unfit> {
        match word {
            "-server" => self.server = true,
            "-new-x509-credential" => self.identities.push(Shown::default()),
            "-cert-file" => self.shown().certificate = rest.text()?,
            "-key-file" => self.shown().key = rest.text()?,
            "-ocsp-response" => self.shown().stapled = Some(of_base64(&rest.text()?)?),
            "-trust-cert" => self.trusted = Some(rest.text()?),
            "-min-version" => self.least = rest.number()?,
            "-max-version" => self.most = rest.number()?,
            "-no-tls1" => self.without.push(0x0301),
            "-no-tls11" => self.without.push(0x0302),
            "-no-tls12" => self.without.push(TLS12),
            "-no-tls13" => self.without.push(TLS13),
            "-curves" => self.groups.push(rest.number()?),
            "-cipher" => self.cipher = Some(rest.text()?),
            "-host-name" => self.host = Some(rest.text()?),
            "-advertise-alpn" => self.offers = Some(rest.text()?.into_bytes()),
            "-select-alpn" => self.selects = Some(rest.text()?.into_bytes()),
            "-no-ticket" => self.no_ticket = true,
            "-enable-early-data" => self.early_data = true,
            "-verify-peer" => self.verifies = true,
            "-require-any-client-certificate" => self.requires_certificate = true,
            "-shim-writes-first" => self.writes_first = true,
            "-shim-shuts-down" => self.shuts_down = true,
            "-check-close-notify" => self.check_close_notify = true,
            "-expect-version" => self.expects.version = Some(rest.number()?),
            "-expect-curve-id" => self.expects.group = Some(rest.number()?),
            "-expect-alpn" => self.expects.protocol = Some(rest.text()?.into_bytes()),
            "-expect-advertised-alpn" => self.expects.offered = Some(rest.text()?.into_bytes()),
            "-expect-server-name" => self.expects.server_name = Some(rest.text()?),
            "-expect-session-miss" => self.expects.misses_session = true,
            "-expect-accept-early-data" => self.expects.early_accepted = Some(true),
            "-expect-reject-early-data" => self.expects.early_accepted = Some(false),
            // How a library is called, which says nothing of what goes over the wire; that responses of
            // OCSP are asked for, which our client always does; that whoever wants to begin anew is let
            // be, and how often that was done: never.
            "-enable-ocsp-stapling" | "-renegotiate-ignore" => {}
            "-async" | "-implicit-handshake" | "-no-op-extra-handshake" | "-handshake-twice" | "-peek-then-read" => {}
            "-read-size" => drop(rest.text()?),
            "-expect-total-renegotiations" if rest.peek() == Some("0") => drop(rest.text()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Bytes from base64 (RFC 4648 section 4).
fn of_base64(text: &str) -> Result<Vec<u8>, Unfit> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let digit = DIGITS.iter().position(|digit| *digit == letter);
        let digit = digit.ok_or_else(|| Unfit::Wrong(format!("{text} is no base64")))?;
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Ok(bytes)
}

/// The words that are left.
struct Words(std::vec::IntoIter<String>);

impl Words {
    fn peek(&self) -> Option<&str> {
        self.0.as_slice().first().map(String::as_str)
    }

    fn text(&mut self) -> Result<String, Unfit> {
        self.0.next().ok_or_else(|| Unfit::Wrong("a value is missing".into()))
    }

    fn number<T: FromStr>(&mut self) -> Result<T, Unfit> {
        let text = self.text()?;
        text.parse().map_err(|_| Unfit::Wrong(format!("{text} is no number here")))
    }
}

impl Test {
    /// Reads a command line.
    pub fn read(words: Vec<String>) -> Result<Self, Unfit> {
        let (first, later) = (Asked::default(), Asked::default());
        let data_path = DataPath::Kernel(Engine::Auto);
        let mut test = Self { port: 0, shim_id: 0, ipv6: false, data_path, resumes: 0, first, later };
        let mut rest = Words(words.into_iter());
        while let Some(word) = rest.0.next() {
            test.take(&word, &mut rest)?;
        }
        Ok(test)
    }

    fn take(&mut self, word: &str, rest: &mut Words) -> Result<(), Unfit> {
        match word {
            "-port" => self.port = rest.number()?,
            "-shim-id" => self.shim_id = rest.number()?,
            "-ipv6" => self.ipv6 = true,
            "-resume-count" => self.resumes = rest.number()?,
            "-engine" => {
                let text = rest.text()?;
                let engine = text.parse().map_err(|_| Unfit::Wrong(format!("{text} is no engine")))?;
                self.data_path = DataPath::Kernel(engine);
            }
            "-stack" => self.data_path = DataPath::Stack,
            _ => return self.take_of_connections(word, rest),
        }
        Ok(())
    }

    /// A word of the first connection, of those after it, or of all.
    fn take_of_connections(&mut self, word: &str, rest: &mut Words) -> Result<(), Unfit> {
        let unknown = || Unfit::Unimplemented(word.to_owned());
        let word_of = |prefix: &str| word.strip_prefix(prefix).map(|name| format!("-{name}"));
        let known = if let Some(word) = word_of("-on-initial-") {
            self.first.take(&word, rest)?
        } else if let Some(word) = word_of("-on-resume-") {
            self.later.take(&word, rest)?
        } else {
            let word = word_of("-on-shim-").unwrap_or_else(|| word.to_owned());
            let mut again = Words(rest.0.clone());
            self.first.take(&word, rest)? && self.later.take(&word, &mut again)?
        };
        if known { Ok(()) } else { Err(unknown()) }
    }
}
