//! HTTPS: what `nearside load` says in handshakes, and whom it trusts.

use crate::args::target::Target;
use clap::{Args, ValueHint};
use generator::Place;
use handshake::{ClientRules, ClientTls, Groups, Identity, Servers, Sought, Suites};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509::{Certificate, Store, read_certificates, read_key, read_revocations};

/// Whom Debian trusts, where nothing else is said.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The most certificates between a server's and one that is trusted: as OpenSSL has it.
const DEPTH: u32 = 100;

/// Tickets kept for each connection: a server may send several, and each is used once.
const TICKETS_EACH: usize = 2;

/// How connections are secured.
#[derive(Args)]
#[command(next_help_heading = "HTTPS")]
pub(super) struct SecuredArgs {
    /// Take whatever certificate the server has
    #[arg(long)]
    insecure: bool,

    /// Trust the authorities in this file [default: that of SSL_CERT_FILE, or /etc/ssl/certs/ca-certificates.crt]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "insecure")]
    cacert: Option<PathBuf>,

    /// Refuse the certificates that the lists in this file take back
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "insecure")]
    crl: Option<PathBuf>,

    /// Show the certificate in this file to a server that asks for one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key")]
    cert: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    key: Option<PathBuf>,

    /// Tell the server this name, and look for it in its certificate; or none, to tell it no name
    /// [default: the URL's, if it is no address]
    #[arg(long, value_name = "NAME|none")]
    sni: Option<String>,

    /// Speak this version of TLS alone [default: both]
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"])]
    tls: Option<String>,

    /// Offer these suites, by OpenSSL's names: those of TLS 1.3 and those of 1.2, in their order
    #[arg(long, value_name = "LIST")]
    ciphers: Option<String>,

    /// Offer these groups, as in X25519:prime256v1
    #[arg(long, value_name = "LIST")]
    curves: Option<String>,

    /// Offer these protocols above TLS (ALPN): http/1.1, http/1.0 or both, or none
    #[arg(long, value_name = "LIST|none", default_value = "http/1.1", value_parser = protocols)]
    alpn: Protocols,

    /// Go on with earlier sessions [default: each handshake is a full one]
    #[arg(long)]
    resume: bool,

    /// Send the first request of a connection with its first bytes, before the handshake is over, where the
    /// connection goes on with an earlier session of TLS 1.3 whose server takes that (0-RTT): GET and HEAD
    /// without content alone, as whoever saw them may send them again
    #[arg(long, requires = "resume")]
    early_data: bool,
}

impl SecuredArgs {
    /// What connections to `target` are secured by; none over plain HTTP.
    pub(super) fn sought(&self, target: &Target, connections: u32, http2: bool) -> Result<Option<Sought>, String> {
        if !target.secured {
            return if self.is_asked() { Err("flags of HTTPS are for https:// URLs".to_owned()) } else { Ok(None) };
        }
        let host = match &target.place {
            Place::Name(name, _) => name.trim_end_matches('.').to_owned(),
            Place::Address(address) => address.ip().to_string(),
            Place::Unix(_) => String::new(),
        };
        let (name, told) = match self.sni.as_deref() {
            Some("none") => (host, None),
            Some(name) => (name.to_owned(), Some(name.to_owned())),
            // Addresses are no names (RFC 6066 section 3).
            None => (host.clone(), host.parse::<IpAddr>().is_err().then_some(host)),
        };
        if let Some(told) = told.as_deref().filter(|told| !is_name(told)) {
            return Err(format!("--sni: '{told}' is no name of a host"));
        }
        let mut tls = ClientTls::new(self.rules(connections, http2)?).map_err(|why| format!("HTTPS: {why}"))?;
        if self.early_data {
            tls = tls.sending_early();
        }
        let (name, told) = (name.into_bytes().into_boxed_slice(), told.map(String::into_boxed_str));
        Ok(Some(Sought { tls: Arc::new(tls), shows: None, peer: name.clone(), name, told }))
    }

    fn is_asked(&self) -> bool {
        let texts = [&self.sni, &self.tls, &self.ciphers, &self.curves];
        let files = [&self.cacert, &self.crl, &self.cert];
        let alpn = self.alpn.0 != [b"http/1.1".to_vec()];
        self.insecure
            || self.resume
            || alpn
            || texts.iter().any(|one| one.is_some())
            || files.iter().any(|one| one.is_some())
    }

    fn rules(&self, connections: u32, http2: bool) -> Result<ClientRules, String> {
        let (mut tls12, mut tls13) = (self.tls.as_deref() != Some("1.3"), self.tls.as_deref() != Some("1.2"));
        let (mut suites12, mut suites13) =
            (Suites::of_tls12("DEFAULT").unwrap_or_else(|_| Suites::none()), Suites::all_tls13());
        if let Some(list) = &self.ciphers {
            let (of13, of12): (Vec<&str>, Vec<&str>) =
                list.split([':', ',']).filter(|word| !word.is_empty()).partition(|word| word.starts_with("TLS_"));
            let none = |what: &str| format!("--ciphers: no suite is there by '{what}'");
            (tls13, tls12) = (tls13 && !of13.is_empty(), tls12 && !of12.is_empty());
            if tls13 {
                let found = Suites::of_tls13(&of13.join(":"));
                // A load that lacks one that was asked for is another load.
                (suites13, _) =
                    found.ok().filter(|(_, missing)| missing.is_empty()).ok_or_else(|| none(&of13.join(":")))?;
            }
            if tls12 {
                suites12 = Suites::of_tls12(&of12.join(":")).map_err(|_| none(&of12.join(":")))?;
            }
            if !tls12 && !tls13 {
                return Err("--ciphers: no suite of the version that --tls asks for is among them".to_owned());
            }
        }
        let groups = match &self.curves {
            None => Groups::auto(),
            Some(list) => match Groups::of(list) {
                Ok((groups, unknown)) if unknown.is_empty() => groups,
                Ok((_, unknown)) => return Err(format!("--curves: there is no {}", unknown.join(", "))),
                Err(_) => return Err(format!("--curves: no group is there by '{list}'")),
            },
        };
        if self.early_data && !tls13 {
            return Err("--early-data: there is none before TLS 1.3".to_owned());
        }
        let tickets = if self.resume { TICKETS_EACH * connections as usize } else { 0 };
        let protocols = if http2 { vec![b"h2".to_vec()] } else { self.alpn.0.clone() };
        let (identity, servers) = (self.identity()?, self.servers()?);
        Ok(ClientRules { identity, tls12, tls13, suites12, suites13, groups, servers, tickets, protocols })
    }

    fn identity(&self) -> Result<Option<Identity>, String> {
        let (Some(certificate), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let chain = certificates(certificate, "--cert")?;
        let key_of = |why: &dyn core::fmt::Display| format!("--key {}: {why}", key.display());
        let key = read_key(&read(key, "--key")?, &[]).map_err(|why| key_of(&why))?;
        chain.first().map_or(Ok(()), |own| own.check_key(&key)).map_err(|why| key_of(&why))?;
        Ok(Some(Identity { chain, key, stapled: None }))
    }

    fn servers(&self) -> Result<Option<Servers>, String> {
        if self.insecure {
            return Ok(None);
        }
        let usual = || std::env::var_os("SSL_CERT_FILE").map_or_else(|| PathBuf::from(AUTHORITIES), PathBuf::from);
        let authorities = match &self.cacert {
            Some(file) => certificates(file, "--cacert")?,
            None => certificates(&usual(), "the authorities that are trusted")
                .map_err(|why| format!("{why}; say --cacert FILE, or --insecure"))?,
        };
        let lists = match &self.crl {
            None => Vec::new(),
            Some(file) => {
                read_revocations(&read(file, "--crl")?).map_err(|why| format!("--crl {}: {why}", file.display()))?
            }
        };
        let store = Store::new(&authorities, &lists).map_err(|why| format!("HTTPS: {why}"))?;
        Ok(Some(Servers { store, depth: DEPTH, by_address: true }))
    }
}

/// What is offered above TLS; clap would take a bare list for several flags.
#[derive(Clone, Debug)]
struct Protocols(Vec<Vec<u8>>);

/// RFC 7301 section 3: those that are spoken here.
fn protocols(text: &str) -> Result<Protocols, String> {
    if text == "none" {
        return Ok(Protocols(Vec::new()));
    }
    let all: Vec<Vec<u8>> = text.split(',').map(|name| name.trim().as_bytes().to_vec()).collect();
    let spoken = all.iter().all(|name| [&b"http/1.1"[..], b"http/1.0"].contains(&&**name));
    let twice = all.iter().enumerate().any(|(n, name)| all[..n].contains(name));
    if spoken && !twice {
        Ok(Protocols(all))
    } else {
        Err("http/1.1 and http/1.0 are spoken, each named once".to_owned())
    }
}

/// RFC 6066 section 3: a name of DNS, without the dot at its end.
fn is_name(text: &str) -> bool {
    let label = |label: &str| !label.is_empty() && label.len() <= 63;
    let letters = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    letters && text.len() <= 253 && text.split('.').all(label) && text.parse::<IpAddr>().is_err()
}

fn read(file: &Path, what: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|why| format!("{what}: cannot read {}: {why}", file.display()))
}

fn certificates(file: &Path, what: &str) -> Result<Vec<Certificate>, String> {
    let read = read_certificates(&read(file, what)?).map_err(|why| format!("{what} {}: {why}", file.display()))?;
    if read.is_empty() { Err(format!("{what} {}: no certificate is there", file.display())) } else { Ok(read) }
}
