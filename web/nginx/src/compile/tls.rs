//! `ssl_…`: what a server says and does in handshakes.

use super::arguments::{argument, is_on, told};
use super::layer::Layer;
use super::settings::Setter;
use super::tls_files;
use super::tls_settings::TlsSettings;
use super::{Compiler, Step, nowhere};
use crate::message::{Level, Place};
use crate::reader::Directive;
use features::units::{number, size, time};
use gzip::{Coding, Whole};
use handshake::{
    CertificateBrotli, ClientMode, Clients, Groups, GroupsError, Identity, ServerError, ServerRules, ServerTls,
    SessionCache, Suites, SuitesError, TicketKeys,
};
use std::collections::HashSet;
use std::sync::Arc;
use x509::{Certificate, Store};

/// The least that nginx takes for a shared cache: eight pages.
const CACHE_MIN: u64 = 8 * 4_096;

/// Sessions of `builtin`, where no number is told, and bytes for each.
const BUILTIN: u64 = 20_480;
const SESSION: u64 = 256;

/// Sessions that may begin with data, of all servers: some 30,000. No cache of a configuration has
/// this name.
const EARLY: &[u8] = b" early data";
const EARLY_BYTES: usize = 16 << 20;

/// What certificates are compressed with, as texts are: quick enough for a turn.
static BROTLI: CertificateBrotli = CertificateBrotli(|certificate| {
    let mut packed = Vec::new();
    Whole::default().encode(Coding::Brotli, 5, certificate, &mut packed).then_some(packed)
});

/// Options of OpenSSL's that the library has not: handshakes go on without them.
const LACKED_OPTIONS: [&str; 17] = [
    "AllowNoDHEKEX",
    "AntiReplay",
    "Bugs",
    "CANames",
    "ClientRenegotiation",
    "Compression",
    "EmptyFragments",
    "EncryptThenMac",
    "ExtendedMasterSecret",
    "IgnoreUnexpectedEOF",
    "MiddleboxCompat",
    "PreferNoDHEKEX",
    "PrioritizeChaCha",
    "StrictCertCheck",
    "TxCertificateCompression",
    "UnsafeLegacyRenegotiation",
    "UnsafeLegacyServerConnect",
];

/// Commands of OpenSSL's that the library has not, and that no handshake can do without.
const LACKED_COMMANDS: [&str; 12] = [
    "SignatureAlgorithms",
    "ClientSignatureAlgorithms",
    "Certificate",
    "PrivateKey",
    "ChainCAFile",
    "VerifyCAFile",
    "ClientCAFile",
    "DHParameters",
    "RecordPadding",
    "NumTickets",
    "VerifyMode",
    "ECDHParameters",
];

fn set_tls(compiler: &mut Compiler<'_>, layer: &mut Layer, directive: &Directive) -> Step {
    compiler.tls(layer, directive)
}

/// Directives of handshakes: each is a part of one value.
pub(super) const TLS_SETTERS: &[(&str, Setter)] = &[
    ("ssl_certificate", set_tls),
    ("ssl_certificate_key", set_tls),
    ("ssl_certificate_cache", set_tls),
    ("ssl_certificate_compression", set_tls),
    ("ssl_password_file", set_tls),
    ("ssl_protocols", set_tls),
    ("ssl_ciphers", set_tls),
    ("ssl_ecdh_curve", set_tls),
    ("ssl_prefer_server_ciphers", set_tls),
    ("ssl_session_tickets", set_tls),
    ("ssl_session_ticket_key", set_tls),
    ("ssl_session_timeout", set_tls),
    ("ssl_session_cache", set_tls),
    ("ssl_early_data", set_tls),
    ("ssl_verify_client", set_tls),
    ("ssl_verify_depth", set_tls),
    ("ssl_client_certificate", set_tls),
    ("ssl_trusted_certificate", set_tls),
    ("ssl_crl", set_tls),
    ("ssl_stapling", set_tls),
    ("ssl_stapling_file", set_tls),
    ("ssl_stapling_responder", set_tls),
    ("ssl_stapling_verify", set_tls),
    ("ssl_reject_handshake", set_tls),
    ("ssl_conf_command", set_tls),
];

/// What clients may speak behind a handshake (ALPN, RFC 7301), where HTTP/2 is spoken.
const PROTOCOLS: [&[u8]; 4] = [b"h2", b"http/1.1", b"http/1.0", b"http/0.9"];

impl Compiler<'_> {
    /// Takes one of these directives.
    pub(super) fn tls(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let (value, place) = (argument(directive, 0), directive.place);
        let text = || told(value);
        let path = self.conf_path(value);
        let is_first = directive.rule.is_some_and(|rule| layer.first(rule.name));
        let settings = Arc::make_mut(&mut layer.tls);
        match directive.name.as_slice() {
            b"ssl_certificate" | b"ssl_certificate_key" => {
                let list = match directive.name.as_slice() {
                    b"ssl_certificate" => &mut settings.certificates,
                    _ => &mut settings.keys,
                };
                if is_first {
                    list.clear();
                }
                list.push(value.to_vec());
                self.tls_path_is_of_a_file(value, place)?;
            }
            b"ssl_password_file" => {
                self.note_file(&path);
                settings.passwords = tls_files::passwords(&path).map_err(|why| self.refused(place, why))?;
            }
            b"ssl_protocols" => self.tls_protocols(settings, directive),
            b"ssl_certificate_cache" => settings.certificate_cache = self.certificate_cache(directive)?,
            b"ssl_certificate_compression" => settings.compresses = is_on(directive),
            b"ssl_ciphers" => settings.ciphers = text(),
            b"ssl_ecdh_curve" => settings.curves = text(),
            b"ssl_prefer_server_ciphers" => settings.prefers_own = is_on(directive),
            b"ssl_session_tickets" => settings.tickets = is_on(directive),
            b"ssl_session_ticket_key" => {
                if is_first {
                    settings.ticket_keys.clear();
                }
                settings.ticket_keys.push((path, place));
            }
            b"ssl_session_timeout" => settings.lifetime = time(value, true).unwrap_or_default() / 1_000,
            b"ssl_session_cache" => self.tls_cache(settings, directive)?,
            b"ssl_early_data" => settings.early = is_on(directive),
            b"ssl_verify_client" => {
                settings.verify = match value.to_ascii_lowercase().as_slice() {
                    b"on" => Some(ClientMode::Required),
                    b"optional" => Some(ClientMode::Optional),
                    b"optional_no_ca" => Some(ClientMode::OptionalNoAuthority),
                    _ => None,
                };
            }
            b"ssl_verify_depth" => settings.depth = number(value).map_or(u32::MAX, |depth| depth as u32),
            b"ssl_client_certificate" => settings.client_certificate = Some(path).filter(|_| !value.is_empty()),
            b"ssl_trusted_certificate" => settings.trusted_certificate = Some(path).filter(|_| !value.is_empty()),
            b"ssl_crl" => settings.revocations = Some(path).filter(|_| !value.is_empty()),
            b"ssl_stapling" => settings.staples = is_on(directive),
            b"ssl_stapling_file" => settings.stapled = Some(path).filter(|_| !value.is_empty()),
            b"ssl_stapling_responder" => settings.responder = Some(value.to_vec()).filter(|_| !value.is_empty()),
            b"ssl_stapling_verify" => settings.staples_verified = is_on(directive),
            b"ssl_reject_handshake" => settings.rejects = is_on(directive),
            b"ssl_conf_command" => self.tls_command(settings, directive)?,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn tls_path_is_of_a_file(&self, value: &[u8], place: Place) -> Step {
        let refused = |what: &str| Err(self.unsupported(place, &format!("{what} in \"{}\"", told(value))));
        match value {
            _ if value.starts_with(b"engine:") => refused("keys of engines"),
            _ if value.starts_with(b"store:") => refused("keys of stores"),
            _ if value.starts_with(b"data:") => refused("certificates within the configuration"),
            _ => Ok(()),
        }
    }

    /// `…_protocols`
    pub(super) fn tls_protocols(&self, settings: &mut TlsSettings, directive: &Directive) {
        let has = |name: &[u8]| directive.arguments.iter().any(|one| one.eq_ignore_ascii_case(name));
        (settings.tls12, settings.tls13) = (has(b"TLSv1.2"), has(b"TLSv1.3"));
        let old = [&b"SSLv2"[..], b"SSLv3", b"TLSv1", b"TLSv1.1"].into_iter().filter(|old| has(old));
        let old: Vec<String> = old.map(told).collect();
        let (name, old_names) = (told(&directive.name), old.join(" "));
        let text = format!("\"{name}\": {old_names} are not spoken, TLSv1.2 and TLSv1.3 are");
        settings.old = (!old.is_empty()).then(|| self.configuration.message(Level::Warn, text, directive.place));
    }

    fn tls_cache(&mut self, settings: &mut TlsSettings, directive: &Directive) -> Step {
        let mut builtin = None;
        let mut shared = None;
        for word in &directive.arguments {
            let invalid = || self.refused(directive.place, format!("invalid session cache \"{}\"", told(word)));
            match word.as_slice() {
                b"off" | b"none" => builtin = None,
                b"builtin" => builtin = Some(BUILTIN),
                _ => {
                    if let Some(count) = word.strip_prefix(b"builtin:") {
                        builtin = Some(number(count).map_err(|_| invalid())?);
                        continue;
                    }
                    let told = word.strip_prefix(b"shared:").ok_or_else(invalid)?;
                    let at = told.iter().position(|byte| *byte == b':').filter(|at| *at > 0).ok_or_else(invalid)?;
                    let bytes = size(&told[at + 1..]).map_err(|_| invalid())?;
                    if bytes < CACHE_MIN {
                        let what = format!("session cache \"{}\" is too small", super::arguments::told(word));
                        return Err(self.refused(directive.place, what));
                    }
                    shared = Some((told[..at].to_vec(), bytes));
                }
            }
        }
        if let Some((name, bytes)) = &shared {
            self.program.shared_memory.insert(name.clone(), *bytes);
        }
        // One of a process is one of all silos here.
        let own = || builtin.map(|count| (Vec::new(), count.saturating_mul(SESSION).max(CACHE_MIN)));
        settings.cache = shared.or_else(own);
        Ok(())
    }

    /// `…_conf_command`: what OpenSSL's SSL_CONF_cmd(3) has and we have, too.
    pub(super) fn tls_command(&mut self, settings: &mut TlsSettings, directive: &Directive) -> Step {
        let (name, value) = (told(argument(directive, 0)), told(argument(directive, 1)));
        let of = told(&directive.name);
        let version = |least: bool, settings: &mut TlsSettings| match value.as_str() {
            "TLSv1.3" if least => settings.tls12 = false,
            "TLSv1.2" if !least => settings.tls13 = false,
            _ => {}
        };
        match name.as_str() {
            "Ciphersuites" => settings.suites13 = Some(value),
            "CipherString" => settings.ciphers = value,
            "Curves" | "Groups" => settings.curves = value,
            "MinProtocol" => version(true, settings),
            "MaxProtocol" => version(false, settings),
            "Options" => {
                for option in value.split(',') {
                    let on = !option.starts_with('-');
                    match option.trim_start_matches(['-', '+']) {
                        "ServerPreference" => settings.prefers_own = on,
                        "SessionTicket" => settings.tickets = on,
                        // Where it is to be had, unless it is ruled out: nginx has it where it is
                        // asked for.
                        "KTLS" => settings.kernel = on,
                        // They say what is done here anyway, or weigh nothing.
                        "NoRenegotiation" | "NoResumptionOnRenegotiation" | "ECDHSingle" | "DHSingle" => {}
                        name if LACKED_OPTIONS.contains(&name) => {
                            self.warn(directive.place, format!("\"{option}\" of \"{of}\" has no effect here"));
                        }
                        _ => {
                            let what = format!("\"{option}\" of \"{of}\"");
                            return Err(self.unsupported(directive.place, &what));
                        }
                    }
                }
            }
            _ if LACKED_COMMANDS.contains(&name.as_str()) => {
                return Err(self.unsupported(directive.place, &format!("\"{name}\" of \"{of}\"")));
            }
            _ => {
                let why = format!("error:0A000182:SSL routines::unknown cmd name:cmd={name}");
                return Err(nowhere(format!("SSL_CONF_cmd(\"{name}\", \"{value}\") failed (SSL: {why})")));
            }
        }
        Ok(())
    }

    /// A file that is read for TLS: who may not read it later is brought it.
    pub(super) fn note_file(&mut self, path: &[u8]) {
        let path = super::path_of(path);
        if !self.program.tls_files.contains(&path) {
            self.program.tls_files.push(path);
        }
    }

    /// The server of a block, if it can take part in handshakes.
    pub(super) fn finish_tls(&mut self, layer: &Layer, place: Place, http2: bool) -> Step<Option<Arc<ServerTls>>> {
        let settings = &*layer.tls;
        if let Some(last) = settings.certificates.last().filter(|_| settings.keys.len() < settings.certificates.len()) {
            let what = format!("no \"ssl_certificate_key\" is defined for certificate \"{}\"", told(last));
            return Err(nowhere(what));
        }
        if !settings.is_there() {
            return Ok(None);
        }
        self.warn_of_old(settings);
        let identities = self.tls_identities(settings)?;
        let (suites12, suites13) = self.tls_suites(settings, "ssl", place)?;
        let groups = self.tls_groups(settings, "ssl_ecdh_curve", place)?;
        let clients = self.tls_clients(settings)?;
        let staples = self.staple_drafts(layer, &identities)?;
        let rules = ServerRules {
            identities,
            tls12: settings.tls12,
            tls13: settings.tls13,
            suites12,
            suites13,
            groups,
            prefers_own: settings.prefers_own,
            kernel: settings.kernel,
            compresses: settings.compresses.then_some(&BROTLI),
            tickets: self.tls_tickets(settings)?,
            sessions: settings
                .cache
                .as_ref()
                .map(|(name, bytes)| SessionCache::named(name, usize::try_from(*bytes).unwrap_or(usize::MAX))),
            early: settings.early.then(|| SessionCache::named(EARLY, EARLY_BYTES)),
            lifetime: u32::try_from(settings.lifetime).unwrap_or(u32::MAX),
            clients,
            rejects: settings.rejects,
            protocols: PROTOCOLS[usize::from(!http2)..].iter().map(|name| name.to_vec()).collect(),
        };
        let made = ServerTls::new(rules).map_err(|why| match &why {
            ServerError::Key(at) => {
                let path = settings.keys.get(*at).map(|key| told(&self.conf_path(key))).unwrap_or_default();
                nowhere(format!("SSL_CTX_use_PrivateKey(\"{path}\") failed: {why}"))
            }
            _ => self.unsupported(place, &format!("\"ssl_protocols\" and \"ssl_ciphers\" as they are: {why}")),
        })?;
        self.order_staples(settings, staples, &made)?;
        Ok(Some(Arc::new(made)))
    }

    fn tls_identities(&mut self, settings: &TlsSettings) -> Step<Vec<Identity>> {
        let stapled = match &settings.stapled {
            Some(path) if settings.staples => {
                self.note_file(path);
                Some(tls_files::stapled(path).map_err(nowhere)?)
            }
            _ => None,
        };
        let mut identities = Vec::new();
        if settings.by_value() {
            return Ok(identities);
        }
        for (certificate, key) in settings.certificates.iter().zip(&settings.keys) {
            let (certificate, key) = (self.conf_path(certificate), self.conf_path(key));
            self.note_file(&certificate);
            self.note_file(&key);
            let identity = tls_files::identity(&certificate, &key, &settings.passwords).map_err(nowhere)?;
            identities.push(Identity { stapled: stapled.clone(), ..identity });
        }
        Ok(identities)
    }

    /// Older protocols are told of once, where some are named that are spoken nowhere.
    pub(super) fn warn_of_old(&mut self, settings: &TlsSettings) {
        if let Some(old) = settings.old.as_ref().filter(|old| !self.warnings.contains(old)) {
            self.warnings.push(old.clone());
        }
    }

    /// The suites of TLS 1.2, and those of 1.3, by the directives that begin with `prefix`.
    pub(super) fn tls_suites(&mut self, settings: &TlsSettings, prefix: &str, place: Place) -> Step<(Suites, Suites)> {
        let text = &settings.ciphers;
        if ["@SECLEVEL=0", "@SECLEVEL=1"].iter().any(|level| text.contains(level)) {
            let what = format!("\"@SECLEVEL\" of \"{text}\" allows nothing more here: what is weaker is not spoken");
            self.warn(place, what);
        }
        let no_match = "error:0A0000B9:SSL routines::no cipher match";
        let suites12 = match Suites::of_tls12(text) {
            Ok(suites) => suites,
            Err(SuitesError::NoMatch) => {
                return Err(nowhere(format!("SSL_CTX_set_cipher_list(\"{text}\") failed (SSL: {no_match})")));
            }
            Err(SuitesError::NoneOfOurs) if settings.tls13 => {
                self.warn(place, format!("none of \"{prefix}_ciphers\" \"{text}\" is here: TLS 1.2 is not spoken"));
                Suites::none()
            }
            Err(SuitesError::NoneOfOurs) => {
                let what = format!("any of \"{prefix}_ciphers\" \"{text}\": they are ECDHE with AEAD");
                return Err(self.unsupported(place, &what));
            }
        };
        let suites13 = match &settings.suites13 {
            None => Suites::all_tls13(),
            Some(text) => match Suites::of_tls13(text) {
                Ok((suites, missing)) => {
                    for name in missing {
                        self.warn(place, format!("\"{name}\" of \"Ciphersuites\" is not there"));
                    }
                    suites
                }
                Err(SuitesError::NoneOfOurs) => {
                    return Err(self.unsupported(place, &format!("any of \"Ciphersuites\" \"{text}\"")));
                }
                Err(SuitesError::NoMatch) => {
                    let what = format!("SSL_CONF_cmd(\"Ciphersuites\", \"{text}\") failed (SSL: {no_match})");
                    return Err(nowhere(what));
                }
            },
        };
        Ok((suites12, suites13))
    }

    /// The groups that are named by `directive`.
    pub(super) fn tls_groups(&mut self, settings: &TlsSettings, directive: &str, place: Place) -> Step<Groups> {
        let text = &settings.curves;
        if text == "auto" {
            return Ok(Groups::auto());
        }
        match Groups::of(text) {
            Ok((groups, missing)) => {
                for name in missing {
                    self.warn(place, format!("\"{name}\" of \"{directive}\" is not there"));
                }
                Ok(groups)
            }
            Err(GroupsError::Unknown(name)) => {
                let why = format!("error:0A080106:SSL routines::passed invalid argument:group '{name}' cannot be set");
                Err(nowhere(format!("SSL_CTX_set1_curves_list(\"{text}\") failed (SSL: {why})")))
            }
            Err(GroupsError::NoneOfOurs) => Err(self.unsupported(place, &format!("any of \"{directive}\" \"{text}\""))),
        }
    }

    fn tls_tickets(&mut self, settings: &TlsSettings) -> Step<Option<Arc<TicketKeys>>> {
        let mut files = Vec::new();
        for (path, place) in &settings.ticket_keys {
            self.note_file(path);
            let bytes = tls_files::ticket_key(path).map_err(|why| self.refused(*place, why))?;
            files.push(bytes);
        }
        if !settings.tickets {
            return Ok(None);
        }
        if files.is_empty() {
            return Ok(Some(TicketKeys::of_process()));
        }
        // Their lengths were looked at.
        Ok(TicketKeys::of_files(&files).ok().map(Arc::new))
    }

    fn tls_clients(&mut self, settings: &TlsSettings) -> Step<Option<Clients>> {
        let mut read = |path: &Option<Vec<u8>>, call: &str| -> Step<Vec<Certificate>> {
            let Some(path) = path else { return Ok(Vec::new()) };
            self.note_file(path);
            tls_files::authorities(path, call).map_err(nowhere)
        };
        let named = match settings.verify {
            Some(_) => read(&settings.client_certificate, "SSL_CTX_load_verify_locations")?,
            None => Vec::new(),
        };
        let trusted = read(&settings.trusted_certificate, "SSL_CTX_load_verify_locations")?;
        let revocations = match &settings.revocations {
            Some(path) => {
                self.note_file(path);
                tls_files::revocations(path).map_err(nowhere)?
            }
            None => Vec::new(),
        };
        let Some(mode) = settings.verify else { return Ok(None) };
        let is_asked = mode != ClientMode::OptionalNoAuthority;
        if is_asked && settings.client_certificate.is_none() && settings.trusted_certificate.is_none() {
            let what = "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client";
            return Err(nowhere(what.to_owned()));
        }
        let store = Store::new(named.iter().chain(&trusted), &revocations);
        let store = store.map_err(|why| nowhere(format!("X509_STORE_add_cert() failed: {why}")))?;
        // Clients are told one that is there twice once.
        let mut told = HashSet::new();
        let mut authorities: Vec<Vec<u8>> = named.iter().map(Certificate::subject_der).collect();
        authorities.retain(|name| told.insert(name.clone()));
        Ok(Some(Clients { mode, store, authorities, depth: settings.depth }))
    }

    /// Whether each address of TLS has certificates.
    pub(super) fn tls_is_whole(&self, servers: &[configuration::ServerId], address: bool) -> Step {
        let has = |server: &configuration::ServerId| {
            self.program.servers.get(usize::from(server.0)).is_some_and(|server| server.security.is_some())
        };
        let rejects = |server: &configuration::ServerId| {
            let server = self.program.servers.get(usize::from(server.0));
            server.and_then(|server| server.security.as_ref()).is_some_and(|security| security.rejects())
        };
        let Some(first) = servers.first().filter(|_| address) else { return Ok(()) };
        let without = match has(first) {
            true if rejects(first) => servers.iter().find(|server| !has(server)),
            true => None,
            false => Some(first),
        };
        let Some(server) = without else { return Ok(()) };
        let place = self.program.servers.get(usize::from(server.0)).map(|server| server.block.0 as usize);
        let place = place.and_then(|block| self.places.get(block).copied().flatten());
        let what = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
        Err(place.map_or_else(|| nowhere(what.to_owned()), |place| self.refused(place, what.to_owned())))
    }
}
