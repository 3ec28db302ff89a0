//! What is done where requests are passed on to HTTP servers (`proxy_…`).

use crate::ids::UpstreamGroupId;
use asking::AskRules;
use features::Value;
use handshake::{ClientTls, OwnCertificateSource};
use proxy::accel::Ignored;
use proxy::fields::{HIDDEN, NameSet};
use std::sync::Arc;

/// `proxy_pass`: where requests of a place go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProxyPass {
    /// To this group.
    Fixed(FixedPass),
    /// To where a value says, when it is asked.
    Computed {
        /// A URL, with variables.
        url: Value,
        /// Bytes of the path that the location stands for.
        location: Option<usize>,
    },
}

impl ProxyPass {
    /// Bytes of the path that the location stands for.
    #[must_use]
    pub const fn location(&self) -> Option<usize> {
        match self {
            Self::Fixed(FixedPass { location, .. }) | Self::Computed { location, .. } => *location,
        }
    }

    /// Whether connections to there may be secured.
    #[must_use]
    pub const fn may_be_secured(&self) -> bool {
        match self {
            Self::Fixed(pass) => pass.secured,
            Self::Computed { .. } => true,
        }
    }
}

/// `proxy_pass` without variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FixedPass {
    /// Who is asked.
    pub group: UpstreamGroupId,
    /// Over TLS (`https://`).
    pub secured: bool,
    /// The URL, as it is written.
    pub url: Box<[u8]>,
    /// What is asked for in place of the location's part of the path; empty: the target
    /// goes as it was sent.
    pub uri: Box<[u8]>,
    /// What `$proxy_host` stands for.
    pub host: Box<[u8]>,
    /// What `$proxy_port` stands for.
    pub port: Option<Arc<[u8]>>,
    /// Bytes of the path that the location stands for.
    pub location: Option<usize>,
}

/// What upstreams are asked by (`proxy_http_version`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UpstreamVersion {
    /// HTTP/1.0.
    #[default]
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2, on connections that requests share.
    Http2,
}

impl UpstreamVersion {
    /// What a request line ends with.
    #[must_use]
    pub const fn line_end(self) -> &'static [u8] {
        match self {
            Self::Http10 => b" HTTP/1.0\r\n",
            Self::Http11 => b" HTTP/1.1\r\n",
            Self::Http2 => b" HTTP/2.0\r\n",
        }
    }

    /// Whether a body ends where that is said, whatever its length.
    #[must_use]
    pub const fn has_ends(self) -> bool {
        !matches!(self, Self::Http10)
    }
}

/// The settings of a place.
#[derive(Clone, Debug)]
pub struct ProxyRules {
    /// `proxy_set_header`, in order.
    pub set_fields: Vec<(Box<[u8]>, Value)>,
    /// What requests have, made of these when the block is complete.
    pub request: Arc<RequestFields>,
    /// `proxy_method`
    pub method: Option<Value>,
    /// `proxy_http_version`
    pub version: UpstreamVersion,
    /// These are of `grpc_pass`.
    pub is_grpc: bool,
    /// `proxy_pass_request_headers`
    pub passes_fields: bool,
    /// `proxy_pass_request_body`
    pub passes_body: bool,
    /// `proxy_set_body`
    pub body: Option<Value>,
    /// `proxy_hide_header`
    pub hidden: Vec<Box<[u8]>>,
    /// `proxy_pass_header`
    pub passed: Vec<Box<[u8]>>,
    /// What of answers does not go on, made of both.
    pub hides: Arc<NameSet>,
    /// `proxy_ignore_headers`
    pub ignored: Ignored,
    /// `proxy_redirect`; none where nothing is said, nor is there a `proxy_pass` that
    /// would say it.
    pub redirects: Option<Arc<[Rewrite]>>,
    /// `proxy_cookie_domain`
    pub cookie_domains: Arc<[Rewrite]>,
    /// `proxy_cookie_path`
    pub cookie_paths: Arc<[Rewrite]>,
    /// `proxy_cookie_flags`
    pub cookie_flags: Arc<[CookieFlagRule]>,
    /// `proxy_intercept_errors`
    pub intercepts: bool,
    /// `proxy_request_buffering`
    pub request_buffering: bool,
    /// `proxy_limit_rate`: bytes a second that are read of an answer; none, or 0, is any
    /// number.
    pub rate: Option<Value>,
    /// `proxy_ignore_client_abort`
    pub ignores_client_end: bool,
    /// Times, what is tried again, and how much of an answer is read at once.
    pub ask: AskRules,
    /// `proxy_force_ranges`
    pub forces_ranges: bool,
    /// `proxy_bind`
    pub bind: Option<Value>,
    /// How upstreams are secured; none where none is.
    pub tls: Option<Arc<UpstreamTls>>,
}

/// How connections to upstreams are secured (`proxy_ssl_…`).
#[derive(Clone, Debug)]
pub struct UpstreamTls {
    /// What is said and done in handshakes.
    pub tls: Arc<ClientTls>,
    /// `proxy_ssl_name`: whom to find there; else the host of the URL.
    pub name: Option<Value>,
    /// `proxy_ssl_server_name`: it is told that name.
    pub tells_name: bool,
    /// `proxy_ssl_certificate` and `proxy_ssl_certificate_key` with variables.
    pub shows: Option<OwnCertificateByValue>,
}

/// What upstreams are shown that ask who we are, whose paths are known with a request.
#[derive(Clone, Debug)]
pub struct OwnCertificateByValue {
    /// Where it is found.
    pub source: Arc<dyn OwnCertificateSource>,
    /// The path of the certificate, with its chain; an empty one is none.
    pub certificate: Value,
    /// And of its key.
    pub key: Value,
    /// Where a path begins that does not say.
    pub folder: Box<[u8]>,
}

impl PartialEq for OwnCertificateByValue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source) && self.certificate == other.certificate && self.key == other.key
    }
}

impl PartialEq for UpstreamTls {
    fn eq(&self, other: &Self) -> bool {
        let are_names = self.name == other.name && self.tells_name == other.tells_name;
        Arc::ptr_eq(&self.tls, &other.tls) && are_names && self.shows == other.shows
    }
}

impl Default for ProxyRules {
    fn default() -> Self {
        Self {
            set_fields: Vec::new(),
            request: Arc::default(),
            method: None,
            version: UpstreamVersion::default(),
            is_grpc: false,
            passes_fields: true,
            passes_body: true,
            body: None,
            hidden: Vec::new(),
            passed: Vec::new(),
            hides: Arc::default(),
            ignored: Ignored::default(),
            redirects: None,
            cookie_domains: Arc::default(),
            cookie_paths: Arc::default(),
            cookie_flags: Arc::default(),
            intercepts: false,
            request_buffering: true,
            rate: None,
            ignores_client_end: false,
            ask: AskRules::default(),
            forces_ranges: false,
            bind: None,
            tls: None,
        }
    }
}

/// The fields that requests have of a configuration.
#[derive(Clone, Debug, Default)]
pub struct RequestFields {
    /// Those, in order: what their lines begin with, and what follows there.
    pub fields: Vec<(Box<[u8]>, RequestField)>,
    /// Names of fields that do not go on as their clients sent them.
    pub replaced: NameSet,
}

impl RequestFields {
    /// One more. A line that no value decides of is written here, and none where it is empty.
    fn add(&mut self, name: &[u8], field: RequestField) {
        let constant = if let RequestField::Value(value) = &field { value.constant() } else { None };
        let Some(constant) = constant else {
            self.fields.push(([name, b": "].concat().into(), field));
            return;
        };
        if constant.is_empty() {
            return;
        }
        let mut line = match self.fields.pop_if(|(_, last)| *last == RequestField::Lines) {
            Some((lines, _)) => lines.into_vec(),
            None => Vec::new(),
        };
        proxy::fields::put(name, constant, &mut line);
        self.fields.push((line.into(), RequestField::Lines));
    }
}

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestField {
    /// What the line begins with is all of it, or of several: no value decides of them.
    Lines,
    /// A value; the field is not sent where it is empty.
    Value(Value),
    /// The host that is asked (`$proxy_host`).
    Host,
    /// A value; where it is empty, the host that is asked.
    HostOr(Value),
    /// How long the body is.
    BodyLength,
    /// That the body is chunked, where it is.
    Chunked,
    /// That trailers are taken, where the client takes them.
    Trailers,
}

/// A part of a redirect or a cookie, and what takes its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// What is looked for.
    pub pattern: RewritePattern,
    /// What takes its place.
    pub with: Value,
}

/// What is looked for in a redirect or a cookie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RewritePattern {
    /// This, at its front; of a domain, this as a whole.
    Value(Value),
    /// What matches the expression.
    Expression(u32),
}

/// `proxy_cookie_flags`: flags for cookies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieFlagRule {
    /// Which.
    pub cookie: RewritePattern,
    /// What they get or lose; nothing for `off`.
    pub flags: Vec<Value>,
}

impl ProxyRules {
    /// Those of `grpc_pass`, where nothing is said: bodies and answers go on as they come, and trailers do.
    #[must_use]
    pub fn grpc() -> Self {
        let ask = AskRules { buffering: false, passes_trailers: true, ..AskRules::default() };
        let version = UpstreamVersion::Http2;
        Self {
            version,
            is_grpc: true,
            request_buffering: false,
            redirects: Some(Arc::default()),
            ask,
            ..Self::default()
        }
    }

    /// Makes what follows of the settings, now that all of a block are known. `host` is
    /// the value of `$proxy_host`, for what nothing else is set.
    pub fn prepare(&mut self) {
        let usual = |name: &[u8]| match name {
            b"Host" => RequestField::Host,
            b"Connection" if self.version != UpstreamVersion::Http2 => RequestField::Value(Value::literal(b"close")),
            b"Content-Length" => RequestField::BodyLength,
            b"Transfer-Encoding" => RequestField::Chunked,
            b"TE" if self.is_grpc => RequestField::Trailers,
            _ => RequestField::Value(Value::literal(b"")),
        };
        const USUAL: [&[u8]; 8] = [
            b"Host",
            b"Connection",
            b"Content-Length",
            b"Transfer-Encoding",
            b"TE",
            b"Keep-Alive",
            b"Expect",
            b"Upgrade",
        ];
        let mut request = RequestFields::default();
        for (name, value) in &self.set_fields {
            request.replaced.insert(name);
            if self.version == UpstreamVersion::Http2 && name.eq_ignore_ascii_case(b"host") {
                request.fields.push((b"Host: "[..].into(), RequestField::HostOr(value.clone())));
                continue;
            }
            request.add(name, RequestField::Value(value.clone()));
        }
        for name in USUAL {
            if !request.replaced.has(name) {
                request.replaced.insert(name);
                request.add(name, usual(name));
            }
        }
        self.request = Arc::new(request);
        let mut hides: NameSet = HIDDEN.into_iter().collect();
        self.passed.iter().for_each(|name| hides.remove(name));
        self.hidden.iter().for_each(|name| hides.insert(name));
        self.hides = Arc::new(hides);
    }
}
