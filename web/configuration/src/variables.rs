//! What variables stand for: nginx's own by their names, those whose names begin
//! in a way that says what they are, and those of a configuration.

use crate::script::SetTarget;
use crate::tlv::TlvValue;
use core::fmt;
use features::VariableRow;
use std::borrow::Cow;
use std::collections::HashMap;

/// What a variable stands for. What is read of a request is noted, so that an
/// answer is given again only to requests that are alike in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Variable {
    /// One of nginx's own.
    Core(Core),
    /// A feature's.
    Feature(&'static VariableRow),
    /// `$http_…`: a field of the request, by its name with `_` for `-`, in lower
    /// case.
    Header(Box<[u8]>),
    /// `$sent_http_…`: a field of the response, likewise.
    SentHeader(Box<[u8]>),
    /// `$sent_trailer_…`: a trailer field of the response, likewise.
    SentTrailer(Box<[u8]>),
    /// `$arg_…`: an argument in the query.
    Argument(Box<[u8]>),
    /// `$cookie_…`: a cookie.
    Cookie(Box<[u8]>),
    /// Set by a script, or by a group of an expression with a name.
    Slot(u16),
    /// The same; until it is set, what has its name besides (a `map`, or one of nginx's own
    /// that may be set).
    Set(u16, Box<Self>),
    /// A `map`, by its number.
    Map(u16),
    /// A `geo`, by its number.
    Geo(u16),
    /// A `split_clients`, by its number.
    Split(u16),
    /// `$upstream_…`: of the servers that were asked.
    Upstream(UpstreamValue),
    /// `$ssl_…`: of the connection's handshake.
    Tls(TlsValue),
    /// `$proxy_protocol_tlv_…`: what a proxy says of its client beside addresses.
    Tlv(TlvValue),
    /// One of nginx's own of which there is nothing here.
    Absent,
}

/// What is told of the servers that a request was passed on to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpstreamValue {
    /// `$upstream_addr`
    Address,
    /// `$upstream_status`
    Status,
    /// `$upstream_connect_time`
    ConnectTime,
    /// `$upstream_header_time`
    HeaderTime,
    /// `$upstream_response_time`
    ResponseTime,
    /// `$upstream_response_length`
    ResponseLength,
    /// `$upstream_bytes_received`
    BytesReceived,
    /// `$upstream_bytes_sent`
    BytesSent,
    /// `$upstream_http_…`: a field of the answer, by its name with `_` for `-`, in lower
    /// case.
    Field(Box<[u8]>),
    /// `$upstream_cookie_…`: a cookie that it sets.
    Cookie(Box<[u8]>),
    /// `$upstream_trailer_…`: a field behind the answer, where these go on, likewise.
    Trailer(Box<[u8]>),
}

impl UpstreamValue {
    /// By what follows `upstream_` in its name.
    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"addr" => Self::Address,
            b"status" => Self::Status,
            b"connect_time" => Self::ConnectTime,
            b"header_time" => Self::HeaderTime,
            b"response_time" => Self::ResponseTime,
            b"response_length" => Self::ResponseLength,
            b"bytes_received" => Self::BytesReceived,
            b"bytes_sent" => Self::BytesSent,
            _ => {
                type Make = fn(Box<[u8]>) -> UpstreamValue;
                const KINDS: [(&[u8], Make); 3] = [
                    (b"http_", UpstreamValue::Field),
                    (b"cookie_", UpstreamValue::Cookie),
                    (b"trailer_", UpstreamValue::Trailer),
                ];
                return KINDS.iter().find_map(|(start, make)| name.strip_prefix(*start).map(|rest| make(rest.into())));
            }
        })
    }
}

/// All variables of a configuration, by the numbers that its values have.
#[derive(Clone, Debug, Default)]
pub struct VariableTable {
    /// Nothing stands for a name that was reserved and not defined.
    variables: Vec<Option<Variable>>,
    names: HashMap<Box<[u8]>, u16>,
    /// Groups of expressions with these names, and the slots that a match
    /// writes: by expression.
    groups: HashMap<u32, Vec<(u16, u16)>>,
    slots: u16,
    /// Slots that `set` made, in order: they are empty until something is written.
    empty_at_first: Vec<u16>,
}

/// More variables than there is room for, or one that cannot be changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VariableError {
    /// More than 65,535.
    TooMany,
    /// It is nginx's own, and not to be changed: `the duplicate "…" variable`.
    Fixed(Vec<u8>),
}

/// In nginx's words, where it has any.
impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => f.write_str("too many variables: at most 65535"),
            Self::Fixed(name) => write!(f, "the duplicate \"{}\" variable", String::from_utf8_lossy(name)),
        }
    }
}

impl std::error::Error for VariableError {}

impl VariableTable {
    /// The number of a variable by its name, in lower case, without `$`; a new
    /// one where it is one of nginx's own or of a kind. `None`: there is none.
    pub fn number(&mut self, name: &[u8]) -> Option<u16> {
        if let Some(number) = self.names.get(name) {
            return Some(*number);
        }
        let variable = known(name)?;
        self.add(name, Some(variable)).ok()
    }

    /// The number of a variable by its name, which may be defined later.
    ///
    /// # Errors
    /// There is no room.
    pub fn reserve(&mut self, name: &[u8]) -> Result<u16, VariableError> {
        match self.number(name) {
            Some(number) => Ok(number),
            None => self.add(name, None),
        }
    }

    /// The first name that was reserved, and not defined.
    #[must_use]
    pub fn undefined(&self) -> Option<&[u8]> {
        let number = self.variables.iter().position(Option::is_none)?;
        Some(self.name(number as u16))
    }

    /// The slot that scripts write by this name (`set`); made if it is not yet. What has
    /// the name besides is what it stands for until then.
    ///
    /// # Errors
    /// It cannot be changed, or there is no room.
    pub fn slot(&mut self, name: &[u8]) -> Result<u16, VariableError> {
        let slot = self.slots;
        if known(name).is_some() && !is_changeable(name) {
            return Err(VariableError::Fixed(name.to_vec()));
        }
        match self.names.get(name).map(|number| &mut self.variables[usize::from(*number)]) {
            Some(Some(Variable::Slot(slot) | Variable::Set(slot, _))) => return Ok(*slot),
            Some(place) => {
                *place = Some(match place.take() {
                    None => Variable::Slot(slot),
                    Some(other) => Variable::Set(slot, Box::new(other)),
                });
            }
            None => {
                let other = known(name).map(|other| Variable::Set(slot, Box::new(other)));
                self.add(name, Some(other.unwrap_or(Variable::Slot(slot))))?;
            }
        }
        self.slots += 1;
        Ok(slot)
    }

    /// The slot that groups of expressions write by this name: until one matches, nothing
    /// is there, whatever has the name besides.
    ///
    /// # Errors
    /// As [`VariableTable::slot`].
    pub fn captured(&mut self, name: &[u8]) -> Result<u16, VariableError> {
        if matches!(name, b"args" | b"limit_rate") {
            let number = self.reserve(name)?;
            let slot = self.slots;
            return match &mut self.variables[usize::from(number)] {
                Some(Variable::Slot(slot)) => Ok(*slot),
                place => {
                    *place = Some(Variable::Slot(slot));
                    self.slots += 1;
                    Ok(slot)
                }
            };
        }
        let slot = self.slot(name)?;
        if let Some(number) = self.names.get(name) {
            self.variables[usize::from(*number)] = Some(Variable::Slot(slot));
        }
        Ok(slot)
    }

    /// What `set` writes by this name.
    ///
    /// # Errors
    /// As [`VariableTable::slot`].
    pub fn target(&mut self, name: &[u8]) -> Result<SetTarget, VariableError> {
        match name {
            b"args" => Ok(SetTarget::Arguments),
            b"limit_rate" => Ok(SetTarget::LimitRate),
            _ => self.slot(name).map(SetTarget::Slot),
        }
    }

    /// The same of `set` itself: until it has written, the variable is empty.
    ///
    /// # Errors
    /// As [`VariableTable::slot`].
    pub fn assigned(&mut self, name: &[u8]) -> Result<SetTarget, VariableError> {
        let made = usize::from(self.slots);
        let target = self.target(name)?;
        // Whoever names it first says what it is at first, as with nginx.
        if let SetTarget::Slot(slot) = target
            && usize::from(slot) == made
        {
            self.empty_at_first.push(slot);
        }
        Ok(target)
    }

    /// Whether the variable of a slot is empty until something is written to it.
    #[must_use]
    pub fn is_empty_at_first(&self, slot: u16) -> bool {
        self.empty_at_first.binary_search(&slot).is_ok()
    }

    /// A variable of the configuration (`map`, `geo`, `split_clients`).
    ///
    /// # Errors
    /// As [`VariableTable::slot`].
    pub fn define(&mut self, name: &[u8], variable: Variable) -> Result<u16, VariableError> {
        if known(name).is_some() && !is_changeable(name) && !matches!(name, b"args" | b"limit_rate") {
            return Err(VariableError::Fixed(name.to_vec()));
        }
        let Some(number) = self.names.get(name) else { return self.add(name, Some(variable)) };
        match &mut self.variables[usize::from(*number)] {
            // Until it is set.
            Some(Variable::Set(_, other)) => **other = variable,
            place @ Some(Variable::Slot(_)) => {
                if let Some(Variable::Slot(slot)) = *place {
                    *place = Some(Variable::Set(slot, Box::new(variable)));
                }
            }
            // The later one counts, as nginx has it.
            place => *place = Some(variable),
        }
        Ok(*number)
    }

    /// A match of `expression` writes its group `group` to `slot`.
    pub fn bind(&mut self, expression: u32, group: u16, slot: u16) {
        self.groups.entry(expression).or_default().push((group, slot));
    }

    /// What a match of `expression` writes: groups and slots.
    #[must_use]
    pub fn bound(&self, expression: u32) -> &[(u16, u16)] {
        self.groups.get(&expression).map_or(&[], Vec::as_slice)
    }

    /// Whether a variable stands for a field of the response.
    #[must_use]
    pub fn asks_for_sent(&self) -> bool {
        (0..=u16::MAX)
            .map_while(|number| self.get(number))
            .any(|known| matches!(known.unset(), Variable::SentHeader(_)))
    }

    /// Whether some value asks how many connections there are (`$connections_…`).
    #[must_use]
    pub fn asks_for_counts(&self) -> bool {
        use Core::{ConnectionsActive, ConnectionsReading, ConnectionsWaiting, ConnectionsWriting};
        self.asks_for(&[ConnectionsActive, ConnectionsReading, ConnectionsWaiting, ConnectionsWriting])
    }

    /// Whether some value asks how TCP has found a path (`$tcpinfo_…`).
    #[must_use]
    pub fn asks_for_paths(&self) -> bool {
        self.asks_for(&[Core::TcpinfoRtt, Core::TcpinfoRttvar, Core::TcpinfoSndCwnd, Core::TcpinfoRcvSpace])
    }

    /// Whether some value asks where a root lies (`$realpath_root`).
    #[must_use]
    pub fn asks_for_real_roots(&self) -> bool {
        self.asks_for(&[Core::RealpathRoot])
    }

    fn asks_for(&self, any: &[Core]) -> bool {
        let mut all = (0..=u16::MAX).map_while(|number| self.get(number));
        all.any(|known| matches!(known.unset(), Variable::Core(core) if any.contains(core)))
    }

    /// What a number stands for.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&Variable> {
        self.variables.get(usize::from(number))?.as_ref()
    }

    /// What a name, in lower case, stands for, and its number; none of the configuration
    /// need have named it.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<(u16, Cow<'_, Variable>)> {
        match self.names.get(name) {
            Some(number) => Some((*number, Cow::Borrowed(self.get(*number)?))),
            None => Some((u16::MAX, Cow::Owned(known(name)?))),
        }
    }

    /// A number's name, for people.
    #[must_use]
    pub fn name(&self, number: u16) -> &[u8] {
        self.names.iter().find(|(_, at)| **at == number).map_or(b"", |(name, _)| name)
    }

    /// How many slots there are.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots as usize
    }

    fn add(&mut self, name: &[u8], variable: Option<Variable>) -> Result<u16, VariableError> {
        let number = u16::try_from(self.variables.len()).map_err(|_| VariableError::TooMany)?;
        self.variables.push(variable);
        self.names.insert(name.into(), number);
        Ok(number)
    }
}

impl Variable {
    /// What it stands for until something is written to it.
    #[must_use]
    pub fn unset(&self) -> &Self {
        match self {
            Self::Set(_, other) => other,
            other => other,
        }
    }
}

/// Whether one of nginx's own may be set, and be made by a `map` and the like: as nginx's
/// modules mark theirs.
fn is_changeable(name: &[u8]) -> bool {
    /// Of a kind, and nginx's own by their whole names.
    const OWN: [&[u8]; 15] = [
        b"http_host",
        b"http_user_agent",
        b"http_referer",
        b"http_via",
        b"http_x_forwarded_for",
        b"http_cookie",
        b"sent_http_content_type",
        b"sent_http_content_length",
        b"sent_http_location",
        b"sent_http_last_modified",
        b"sent_http_connection",
        b"sent_http_keep_alive",
        b"sent_http_transfer_encoding",
        b"sent_http_cache_control",
        b"sent_http_link",
    ];
    const CHANGEABLE: [&[u8]; 5] =
        [b"proxy_host", b"proxy_port", b"invalid_referer", b"fastcgi_script_name", b"fastcgi_path_info"];
    match known(name) {
        None => true,
        Some(Variable::Tls(_)) => true,
        Some(Variable::Feature(_)) => false,
        Some(Variable::Upstream(value)) => {
            matches!(value, UpstreamValue::Field(_) | UpstreamValue::Cookie(_) | UpstreamValue::Trailer(_))
        }
        Some(Variable::Core(_)) => CHANGEABLE.contains(&name),
        Some(Variable::Absent) => CHANGEABLE.contains(&name) || name.starts_with(b"ssl_"),
        Some(_) => !OWN.contains(&name),
    }
}

/// nginx's own of which there is nothing here, by their names.
const ABSENT: [&[u8]; 16] = [
    b"ancient_browser",
    b"fastcgi_path_info",
    b"modern_browser",
    b"msie",
    b"ssl_client_sigalg",
    b"ssl_ech_outer_server_name",
    b"ssl_ech_status",
    b"ssl_sigalg",
    b"uid_got",
    b"uid_reset",
    b"uid_set",
    b"upstream_cache_etag",
    b"upstream_cache_key",
    b"upstream_cache_last_modified",
    b"upstream_cache_status",
    b"upstream_queue_time",
];

/// What a name that no configuration defines stands for.
fn known(name: &[u8]) -> Option<Variable> {
    type Make = fn(Box<[u8]>) -> Variable;
    const KINDS: [(&[u8], Make); 5] = [
        (b"http_", Variable::Header),
        (b"sent_http_", Variable::SentHeader),
        (b"sent_trailer_", Variable::SentTrailer),
        (b"arg_", Variable::Argument),
        (b"cookie_", Variable::Cookie),
    ];
    if let Some(core) = Core::of(name) {
        return Some(Variable::Core(core));
    }
    if let Some(row) = features::variable(name) {
        return Some(Variable::Feature(row));
    }
    if let Some(value) = name.strip_prefix(b"upstream_").and_then(UpstreamValue::of) {
        return Some(Variable::Upstream(value));
    }
    if let Some(value) = name.strip_prefix(b"ssl_").and_then(TlsValue::of) {
        return Some(Variable::Tls(value));
    }
    if let Some(name) = name.strip_prefix(b"proxy_protocol_tlv_") {
        return Some(TlvValue::of(name).map_or(Variable::Absent, Variable::Tlv));
    }
    match name {
        // Without fastcgi_index, which nothing is passed on to.
        b"fastcgi_script_name" => return Some(Variable::Core(Core::Uri)),
        b"http3" => return Some(Variable::Absent),
        _ if ABSENT.contains(&name) => return Some(Variable::Absent),
        _ => {}
    }
    KINDS.iter().find_map(|(start, make)| name.strip_prefix(*start).map(|rest| make(rest.into())))
}

/// Declares nginx's variables with their names.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident: $($variant:ident $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $kind {
            $(
                /// What nginx's documentation says of its name.
                $variant,
            )*
        }

        impl $kind {
            /// By its name, in lower case, without `$`.
            #[must_use]
            pub fn of(name: &[u8]) -> Option<Self> {
                Some(match name {
                    $($name => Self::$variant,)*
                    _ => return None,
                })
            }
        }
    };
}

named! {
    /// What is told of a connection's handshake; names without `ssl_`.
    TlsValue:
    AlpnProtocol b"alpn_protocol",
    Cipher b"cipher",
    Ciphers b"ciphers",
    ClientCert b"client_cert",
    ClientEscapedCert b"client_escaped_cert",
    ClientFingerprint b"client_fingerprint",
    ClientIDn b"client_i_dn",
    ClientIDnLegacy b"client_i_dn_legacy",
    ClientRawCert b"client_raw_cert",
    ClientSDn b"client_s_dn",
    ClientSDnLegacy b"client_s_dn_legacy",
    ClientSerial b"client_serial",
    ClientVEnd b"client_v_end",
    ClientVRemain b"client_v_remain",
    ClientVStart b"client_v_start",
    ClientVerify b"client_verify",
    Curve b"curve",
    Curves b"curves",
    EarlyData b"early_data",
    Protocol b"protocol",
    ServerName b"server_name",
    SessionId b"session_id",
    SessionReused b"session_reused",
}

named! {
    /// nginx's own variables.
    Core:
    Args b"args",
    BinaryRemoteAddr b"binary_remote_addr",
    BodyBytesSent b"body_bytes_sent",
    BytesSent b"bytes_sent",
    Connection b"connection",
    ConnectionRequests b"connection_requests",
    ConnectionTime b"connection_time",
    ConnectionsActive b"connections_active",
    ConnectionsReading b"connections_reading",
    ConnectionsWaiting b"connections_waiting",
    ConnectionsWriting b"connections_writing",
    ContentLength b"content_length",
    ContentType b"content_type",
    DateGmt b"date_gmt",
    DateLocal b"date_local",
    DocumentRoot b"document_root",
    DocumentUri b"document_uri",
    FastcgiPathInfo b"fastcgi_path_info",
    FastcgiScriptName b"fastcgi_script_name",
    Host b"host",
    Hostname b"hostname",
    Https b"https",
    InvalidReferer b"invalid_referer",
    IsArgs b"is_args",
    IsRequestPort b"is_request_port",
    LimitRate b"limit_rate",
    Msec b"msec",
    NginxVersion b"nginx_version",
    Pid b"pid",
    Pipe b"pipe",
    ProxyAddXForwardedFor b"proxy_add_x_forwarded_for",
    ProxyHost b"proxy_host",
    ProxyPort b"proxy_port",
    ProxyProtocolAddr b"proxy_protocol_addr",
    ProxyProtocolPort b"proxy_protocol_port",
    ProxyProtocolServerAddr b"proxy_protocol_server_addr",
    ProxyProtocolServerPort b"proxy_protocol_server_port",
    QueryString b"query_string",
    RealipRemoteAddr b"realip_remote_addr",
    RealipRemotePort b"realip_remote_port",
    RealpathRoot b"realpath_root",
    RemoteAddr b"remote_addr",
    RemotePort b"remote_port",
    RemoteUser b"remote_user",
    Request b"request",
    RequestBody b"request_body",
    RequestBodyFile b"request_body_file",
    RequestCompletion b"request_completion",
    RequestFilename b"request_filename",
    RequestId b"request_id",
    RequestLength b"request_length",
    RequestMethod b"request_method",
    RequestPort b"request_port",
    RequestTime b"request_time",
    RequestUri b"request_uri",
    Scheme b"scheme",
    ServerAddr b"server_addr",
    ServerName b"server_name",
    ServerPort b"server_port",
    Http2 b"http2",
    ServerProtocol b"server_protocol",
    SliceRange b"slice_range",
    Status b"status",
    TcpinfoRcvSpace b"tcpinfo_rcv_space",
    TcpinfoRtt b"tcpinfo_rtt",
    TcpinfoRttvar b"tcpinfo_rttvar",
    TcpinfoSndCwnd b"tcpinfo_snd_cwnd",
    TimeIso8601 b"time_iso8601",
    TimeLocal b"time_local",
    Uri b"uri",
}
