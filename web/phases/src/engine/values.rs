//! What variables stand for, of a request under way.

use super::course::{Course, Depends, Loaded};
use super::host::host_of;
use super::text::{Escape, escape, field_value};
use crate::access::basic_credentials;
use crate::maps::Geo;
use crate::program::{Alias, Block, Program};
use crate::secure_link;
use crate::value::{Value, Variables};
use crate::variables::{Core, Variable};
use semantics::date::HttpDate;
use semantics::{Form, Known, Request};
use std::net::{IpAddr, SocketAddr};
use wire::Time;

/// Variables made of others within each other, at most: `map`s may go in
/// circles.
const DEPTH_MAX: u8 = 32;

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub now: Time,
    pub second: u64,
    pub date: HttpDate,
    /// When the second began, as far as is known.
    pub second_began: Time,
    /// The second, as logs have it.
    pub iso: [u8; 25],
    pub local: [u8; 26],
}

impl Clock {
    /// A second that begins.
    pub fn new(second: u64, date: HttpDate, now: Time) -> Self {
        let (iso, local) = (iso_of(&date), local_of(&date));
        Self { now, second, date, second_began: now, iso, local }
    }

    /// Milliseconds after the second.
    pub fn millis(&self) -> u64 {
        u64::try_from(self.now.since(self.second_began).as_millis()).unwrap_or(0).min(999)
    }
}

/// Variables of one request, at one time.
pub(crate) struct Scope<'a> {
    pub loaded: &'a Loaded,
    pub course: &'a mut Course,
    pub request: &'a Request<'a>,
    pub clock: &'a Clock,
    pub depth: u8,
    /// Groups are percent-encoded where the path as sent was: they become parts of
    /// what is a target again.
    pub escapes_captures: bool,
}

impl<'a> Scope<'a> {
    fn program(&self) -> &'a Program {
        // One value for as long as the scope is.
        let loaded: &'a Loaded = self.loaded;
        loaded.program()
    }

    fn block(&self) -> Option<&'a Block> {
        self.program().blocks.get(self.course.block.0 as usize)
    }

    /// Writes a value.
    pub fn write(&mut self, value: &Value, out: &mut Vec<u8>) {
        value.write(self, out);
    }

    /// A value as bytes of its own.
    pub fn get(&mut self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        value.write(self, &mut out);
        out
    }

    /// Whether a value is neither empty nor `0`.
    pub fn is_true(&mut self, value: &Value) -> bool {
        let value = self.get(value);
        !value.is_empty() && value != b"0"
    }

    /// Whether an expression matches `subject`, whose groups are kept, and written
    /// to what is bound to them; `None` if it went astray.
    pub fn matches(&mut self, expression: u32, subject: &[u8]) -> Option<bool> {
        let course = &mut *self.course;
        let (captures, loaded) = (&mut course.captures, self.loaded);
        let mut found = Vec::new();
        let matched = loaded.find(expression, subject, &mut |group, range| found.push((group, range)))?;
        if matched {
            captures.begin(subject);
            found.into_iter().for_each(|(group, range)| captures.set(group, range));
            for (group, slot) in loaded.program.variables.bound(expression) {
                let value = course.captures.get(usize::from(*group)).map(Box::from);
                if let Some(place) = course.slots.get_mut(usize::from(*slot)) {
                    *place = value;
                }
            }
        }
        Some(matched)
    }

    /// A field of the request, by its name in lower case with `_` for `-`; those
    /// of several lines with commas between, as nginx joins them.
    fn header(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        self.course.depends.on(Depends::OTHER);
        let known = match name {
            b"host" => Some(Known::Host),
            b"referer" => Some(Known::Referer),
            b"user_agent" => Some(Known::UserAgent),
            _ => None,
        };
        // Of these nginx has the first.
        if let Some(known) = known {
            return put_known(self.request, known, out);
        }
        if self.course.is_refused() {
            return false;
        }
        let mut found = false;
        let separator: &[u8] = if name == b"cookie" { b"; " } else { b", " };
        let server = self.program().servers.get(usize::from(self.course.server.0));
        let ignored = |name: &[u8]| server.is_some_and(|server| server.ignores_field(name));
        for field in self.request.fields().filter(|field| !ignored(field.name)) {
            let alike = field.name.len() == name.len()
                && field.name.iter().zip(name).all(|(one, other)| {
                    let one = if *one == b'-' { b'_' } else { one.to_ascii_lowercase() };
                    one == *other
                });
            if alike {
                if found {
                    out.extend_from_slice(separator);
                }
                out.extend_from_slice(field.value);
                found = true;
            }
        }
        found
    }

    fn sent_header(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let sent = &self.course.sent;
        match name {
            b"content_length" => return sent.length.is_some_and(|length| put(out, length)),
            b"connection" => {
                out.extend_from_slice(if self.course.about.goes_on { b"keep-alive" } else { b"close" });
                return true;
            }
            _ => {}
        }
        let mut found = false;
        for field in semantics::Fields::new(&sent.fields) {
            let alike = field.name.len() == name.len()
                && field.name.iter().zip(name).all(|(one, other)| {
                    let one = if *one == b'-' { b'_' } else { one.to_ascii_lowercase() };
                    one == *other
                });
            if alike {
                if found {
                    out.extend_from_slice(b", ");
                }
                out.extend_from_slice(field.value);
                found = true;
            }
        }
        found
    }

    /// An argument: the first of its name, whatever its case.
    fn argument(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        self.course.depends.on(Depends::QUERY);
        let arguments = self.course.args.split(|byte| *byte == b'&');
        let value = |argument: &'_ [u8]| {
            let (found, rest) = argument.split_at_checked(name.len())?;
            let value = rest.strip_prefix(b"=")?;
            found.eq_ignore_ascii_case(name).then(|| value.to_vec())
        };
        match arguments.filter_map(|argument| value(argument)).next() {
            Some(value) => {
                out.extend_from_slice(&value);
                true
            }
            None => false,
        }
    }

    /// A cookie: the first of its name, whatever its case.
    fn cookie(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        self.course.depends.on(Depends::OTHER);
        for field in self.request.fields().filter(|field| field.is("cookie") && !self.course.is_refused()) {
            for cookie in field.value.split(|byte| *byte == b';') {
                let cookie = cookie.trim_ascii_start();
                let Some((found, rest)) = cookie.split_at_checked(name.len()) else { continue };
                let rest = rest.trim_ascii_start();
                if found.eq_ignore_ascii_case(name)
                    && let Some(value) = rest.strip_prefix(b"=")
                {
                    out.extend_from_slice(value.trim_ascii());
                    return true;
                }
            }
        }
        false
    }

    /// The path of the file that the request leads to.
    pub fn file_path(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(block) = self.block() else { return false };
        block.root.path.write(self, out);
        let uri = &self.course.uri;
        out.extend_from_slice(match block.root.alias {
            None => uri,
            Some(Alias::Start(length)) => uri.get(length as usize..).unwrap_or_default(),
            Some(Alias::Path) if self.course.whole_path => uri,
            Some(Alias::Path) => b"",
        });
        true
    }

    fn core(&mut self, core: Core, out: &mut Vec<u8>) -> bool {
        self.course.depends.on(depends(core));
        let found = self.of_request(core, out).or_else(|| self.of_connection(core, out));
        let found = found.or_else(|| self.of_answer(core, out)).or_else(|| self.of_time(core, out));
        found.or_else(|| self.of_links(core, out)).unwrap_or(false)
    }

    /// What a request's link and referer are worth.
    fn of_links(&mut self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let block = self.block()?;
        match core {
            // What $secure_link found in the link.
            Core::SecureLinkExpires => {
                let told = self.course.link_expires.as_ref()?;
                out.extend_from_slice(told);
                Some(true)
            }
            Core::SecureLink => {
                let Some(rules) = &block.secure_link else { return Some(false) };
                if let Some(secret) = &rules.secret {
                    let link = secure_link::check_secret(self.request.target(), secret);
                    out.extend_from_slice(link.unwrap_or_default());
                    return Some(link.is_some());
                }
                let (Some(link), Some(md5)) = (&rules.link, &rules.md5) else { return Some(false) };
                let link = self.get(link);
                // What is hashed may name the time.
                self.course.link_expires = secure_link::check(&link, b"", self.clock.second).expires.map(Vec::from);
                let md5 = self.get(md5);
                let checked = secure_link::check(&link, &md5, self.clock.second);
                let told = checked.valid.map(|valid| if valid { &b"1"[..] } else { b"0" });
                out.extend_from_slice(told.unwrap_or_default());
                Some(told.is_some())
            }
            Core::InvalidReferer => {
                let referer = self.request.known(Known::Referer);
                let loaded = self.loaded;
                let matches = &mut |expression, text: &[u8]| loaded.matches(expression, text);
                if block.referers.as_ref().is_some_and(|rules| !rules.is_valid(referer, matches)) {
                    out.push(b'1');
                }
                Some(true)
            }
            _ => None,
        }
    }

    /// What is asked for; `None` if it is something else.
    fn of_request(&mut self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let request = self.request;
        match core {
            Core::Uri | Core::DocumentUri => out.extend_from_slice(&self.course.uri),
            Core::Args | Core::QueryString => {
                out.extend_from_slice(&self.course.args);
                return Some(!self.course.args.is_empty());
            }
            Core::IsArgs => out.extend_from_slice(if self.course.args.is_empty() { b"" } else { b"?" }),
            Core::RequestUri => out.extend_from_slice(target_path(request)),
            Core::Request => out.extend_from_slice(request.line()),
            Core::RequestMethod => out.extend_from_slice(match self.course.method {
                semantics::Method::Other => request.method_name(),
                method => method.name().as_bytes(),
            }),
            Core::ServerProtocol => {
                out.extend_from_slice(if self.course.about.http10 { b"HTTP/1.0" } else { b"HTTP/1.1" });
            }
            Core::Scheme => out.extend_from_slice(b"http"),
            Core::Https => {}
            Core::Pipe => out.push(b'.'),
            Core::Host => {
                let start = out.len();
                if !self.course.is_refused() {
                    host_of(request.authority(), out);
                }
                if out.len() == start {
                    out.extend_from_slice(self.server_name());
                }
            }
            Core::ServerName => out.extend_from_slice(self.server_name()),
            Core::DocumentRoot | Core::RealpathRoot => {
                let Some(block) = self.block() else { return Some(false) };
                block.root.path.write(self, out);
                if core == Core::RealpathRoot && out.len() > 1 && out.ends_with(b"/") {
                    out.pop();
                }
            }
            Core::RequestFilename => return Some(self.file_path(out)),
            Core::RemoteUser if self.course.is_refused() => return Some(false),
            Core::RemoteUser => {
                let field = request.fields().find(|field| field.is("authorization")).map(|field| field.value);
                let Some((user, _)) = field.and_then(basic_credentials) else { return Some(false) };
                out.extend_from_slice(&user);
            }
            Core::ContentLength => return Some(put_known(request, Known::ContentLength, out)),
            Core::ContentType => return Some(self.header(b"content_type", out)),
            Core::RequestLength => return Some(put_number(out, request.head().len() as u64)),
            Core::RequestId => {
                let (high, low) = self.course.request_id();
                return Some(put(out, format_args!("{high:016x}{low:016x}")));
            }
            _ => return None,
        }
        Some(true)
    }

    /// Who asks, and whom.
    fn of_connection(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let (course, about) = (&*self.course, &self.course.about);
        let address = |of: Option<SocketAddr>, out: &mut Vec<u8>| match of.map(|of| of.ip().to_canonical()) {
            Some(IpAddr::V4(address)) => put_octets(out, address.octets()),
            Some(address) => put(out, address),
            None => put(out, "unix:"),
        };
        let port = |of: Option<SocketAddr>, out: &mut Vec<u8>| of.is_some_and(|of| put_number(out, of.port().into()));
        Some(match core {
            Core::RemoteAddr => address(course.peer, out),
            Core::BinaryRemoteAddr => {
                match course.peer.map(|peer| peer.ip().to_canonical()) {
                    Some(IpAddr::V4(address)) => out.extend_from_slice(&address.octets()),
                    Some(IpAddr::V6(address)) => out.extend_from_slice(&address.octets()),
                    None => out.extend_from_slice(b"unix:"),
                }
                true
            }
            Core::RemotePort => port(course.peer, out),
            Core::RealipRemoteAddr => address(about.peer, out),
            Core::RealipRemotePort => port(about.peer, out),
            Core::ServerAddr => address(about.local, out),
            Core::ServerPort => port(about.local, out),
            Core::Connection => put_number(out, about.connection),
            Core::ConnectionRequests => put_number(out, u64::from(about.requests) + 1),
            Core::NginxVersion => put(out, crate::NGINX_VERSION),
            Core::Hostname => {
                out.extend_from_slice(rustix::system::uname().nodename().to_bytes());
                true
            }
            Core::Pid => put_number(out, std::process::id().into()),
            _ => return None,
        })
    }

    /// What was answered.
    fn of_answer(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let (course, sent) = (&*self.course, &self.course.sent);
        Some(match core {
            // None yet: nginx tells 000.
            Core::Status => {
                let status = course.told.unwrap_or(sent.status);
                let digit = |value: u16| b'0' + (value % 10) as u8;
                out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status)]);
                true
            }
            Core::BodyBytesSent => put_number(out, sent.body),
            Core::BytesSent => put_number(out, sent.body + sent.head),
            Core::RequestTime => {
                let millis = self.clock.now.since(course.started).as_millis();
                put(out, format_args!("{}.{:03}", millis / 1000, millis % 1000))
            }
            Core::RequestCompletion => put(out, if sent.complete { "OK" } else { "" }),
            Core::LimitReqStatus => course.requests_status.is_some_and(|status| {
                out.extend_from_slice(status.text());
                true
            }),
            Core::LimitConnStatus => course.connections_status.is_some_and(|status| {
                out.extend_from_slice(status.text());
                true
            }),
            Core::LimitRate => put_number(out, course.limit_rate.unwrap_or(0)),
            _ => return None,
        })
    }

    fn of_time(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let clock = self.clock;
        match core {
            Core::Msec => _ = put(out, format_args!("{}.{:03}", clock.second, clock.millis())),
            Core::TimeLocal => out.extend_from_slice(&clock.local),
            Core::TimeIso8601 => out.extend_from_slice(&clock.iso),
            Core::DateGmt | Core::DateLocal => put_ssi_date(out, &clock.date),
            _ => return None,
        }
        Some(true)
    }

    /// The media type with the charset that is told of it.
    pub fn with_charset(&mut self, mut media_type: Vec<u8>, block: &Block, status: u16) -> Vec<u8> {
        let rules = &block.charset;
        // Not of redirects: old clients took it for that of the next page.
        let Some(charset) = rules.charset.as_ref().filter(|_| !matches!(status, 301 | 302)) else { return media_type };
        let bare = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let counts = rules.types.iter().any(|known| **known == *b"*" || known.eq_ignore_ascii_case(bare));
        if !counts || media_type.windows(8).any(|part| part.eq_ignore_ascii_case(b"charset=")) {
            return media_type;
        }
        let charset = self.get(charset);
        if !charset.is_empty() && charset != b"off" {
            media_type.extend_from_slice(b"; charset=");
            field_value(&charset, &mut media_type);
        }
        media_type
    }

    fn server_name(&self) -> &[u8] {
        self.program().servers.get(usize::from(self.course.server.0)).map_or(b"", |server| &server.name)
    }

    /// Of a variable that is made of others: what it was when it was first asked
    /// for.
    fn remembered(&mut self, number: u16, out: &mut Vec<u8>, make: impl FnOnce(&mut Self) -> Option<Vec<u8>>) -> bool {
        if let Some((_, value)) = self.course.cached.iter().find(|(known, _)| *known == number) {
            let Some(value) = value else { return false };
            out.extend_from_slice(value);
            return true;
        }
        let value = make(self);
        if let Some(value) = &value {
            out.extend_from_slice(value);
        }
        let found = value.is_some();
        self.course.cached.push((number, value.map(Into::into)));
        found
    }
}

/// The target without scheme and authority (`unparsed_uri` of nginx).
fn target_path<'a>(request: &Request<'a>) -> &'a [u8] {
    let target = request.target();
    if request.form() != Form::Absolute {
        return target;
    }
    let authority = target.windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let path = target[authority..].iter().position(|byte| matches!(byte, b'/' | b'?'));
    path.map_or(b"/", |at| &target[authority + at..])
}

impl Variables for Scope<'_> {
    fn write_variable(&mut self, variable: u16, out: &mut Vec<u8>) -> bool {
        let loaded = self.loaded;
        let Some(found) = loaded.program.variables.get(variable) else { return false };
        // One may stand in what it is made of.
        if self.depth >= DEPTH_MAX {
            return false;
        }
        self.depth += 1;
        let written = self.write_found(variable, found, out);
        self.depth -= 1;
        written
    }

    fn write_capture(&mut self, group: u8, out: &mut Vec<u8>) {
        let Some(bytes) = self.course.captures.get(usize::from(group)) else { return };
        let quoted = self.escapes_captures && self.request.path().iter().any(|byte| matches!(byte, b'%' | b'+'));
        if quoted { escape(bytes, Escape::Arguments, out) } else { out.extend_from_slice(bytes) }
    }
}

impl Scope<'_> {
    fn write_found(&mut self, variable: u16, found: &Variable, out: &mut Vec<u8>) -> bool {
        match found {
            Variable::Core(core) => self.core(*core, out),
            Variable::Header(name) => self.header(name, out),
            Variable::SentHeader(name) => self.sent_header(name, out),
            Variable::SentTrailer(_) => false,
            Variable::Argument(name) => self.argument(name, out),
            Variable::Cookie(name) => self.cookie(name, out),
            Variable::Slot(slot) => match self.course.slots.get(usize::from(*slot)).and_then(Option::as_ref) {
                Some(value) => {
                    out.extend_from_slice(value);
                    true
                }
                None => false,
            },
            Variable::Map(_) | Variable::Geo(_) | Variable::Split(_) => self.made(variable, found, out),
            Variable::Absent => false,
        }
    }
}

impl Scope<'_> {
    /// Variables that the configuration makes of others.
    fn made(&mut self, number: u16, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let program = self.program();
        let volatile = match variable {
            Variable::Map(map) => program.maps.get(usize::from(*map)).is_some_and(|map| map.volatile),
            Variable::Geo(geo) => program.geos.get(usize::from(*geo)).is_some_and(|geo| geo.volatile),
            _ => false,
        };
        if volatile {
            self.course.cached.retain(|(known, _)| *known != number);
        }
        self.remembered(number, out, |scope| match variable {
            Variable::Map(map) => {
                let map = program.maps.get(usize::from(*map))?;
                let key = scope.get(&map.source);
                let value =
                    map.find(&key, &mut |expression, subject| scope.matches(expression, subject).unwrap_or(false));
                Some(scope.get(value))
            }
            Variable::Geo(geo) => {
                let geo = program.geos.get(usize::from(*geo))?;
                scope.course.depends.on(Depends::OTHER);
                let from = match &geo.source {
                    Some(source) => Geo::address(&scope.get(source)),
                    None => scope.course.peer.map(|peer| peer.ip()),
                };
                let fields: Vec<&[u8]> = scope
                    .request
                    .fields()
                    .filter(|field| field.is("x-forwarded-for"))
                    .map(|field| field.value)
                    .collect();
                Some(geo.find(from, fields.into_iter()).to_vec())
            }
            Variable::Split(split) => {
                let split = program.splits.get(usize::from(*split))?;
                let key = scope.get(&split.source);
                Some(split.find(&key).to_vec())
            }
            _ => None,
        })
    }
}

/// What a variable of nginx's own depends on that ready answers are not told apart
/// by.
const fn depends(core: Core) -> u8 {
    match core {
        // The path as sent decides these, or the server; each second has its own
        // answers; what is ready was asked for by GET, over HTTP/1.1.
        Core::Uri
        | Core::DocumentUri
        | Core::DocumentRoot
        | Core::RealpathRoot
        | Core::RequestFilename
        | Core::ServerName
        | Core::Scheme
        | Core::Https
        | Core::Hostname
        | Core::NginxVersion
        | Core::Pid
        | Core::DateGmt
        | Core::DateLocal
        | Core::TimeIso8601
        | Core::TimeLocal
        | Core::RequestMethod
        | Core::ServerProtocol => 0,
        Core::Args | Core::QueryString | Core::IsArgs | Core::RequestUri => Depends::QUERY,
        _ => Depends::OTHER,
    }
}

fn put(out: &mut Vec<u8>, number: impl core::fmt::Display) -> bool {
    // Writing to a vector does not fail.
    let _ = std::io::Write::write_fmt(out, format_args!("{number}"));
    true
}

fn put_number(out: &mut Vec<u8>, mut number: u64) -> bool {
    let (mut digits, mut at) = ([0_u8; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    true
}

fn put_octets(out: &mut Vec<u8>, octets: [u8; 4]) -> bool {
    let (mut text, mut at) = ([b'.'; 16], 0);
    for octet in octets {
        for (least, unit) in [(100, 100), (10, 10), (0, 1)] {
            if octet >= least {
                text[at] = b'0' + octet / unit % 10;
                at += 1;
            }
        }
        // The dot is there.
        at += 1;
    }
    out.extend_from_slice(&text[..at - 1]);
    true
}

fn put_known(request: &Request<'_>, known: Known, out: &mut Vec<u8>) -> bool {
    let Some(value) = request.known(known) else { return false };
    out.extend_from_slice(value);
    true
}

/// `10/Oct/2026:13:55:36 +0000`, from `Sun, 06 Nov 1994 08:49:37 GMT`.
fn local_of(date: &HttpDate) -> [u8; 26] {
    let date = date.as_bytes();
    let mut local = *b"06/Nov/1994:08:49:37 +0000";
    local[..2].copy_from_slice(&date[5..7]);
    local[3..6].copy_from_slice(&date[8..11]);
    local[7..11].copy_from_slice(&date[12..16]);
    local[12..20].copy_from_slice(&date[17..25]);
    local
}

/// `2026-10-10T13:55:36+00:00`.
fn iso_of(date: &HttpDate) -> [u8; 25] {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let date = date.as_bytes();
    let month = MONTHS.chunks(3).position(|name| name == &date[8..11]).unwrap_or(0) as u8 + 1;
    let mut iso = *b"1994-11-06T08:49:37+00:00";
    iso[..4].copy_from_slice(&date[12..16]);
    iso[5..7].copy_from_slice(&[b'0' + month / 10, b'0' + month % 10]);
    iso[8..10].copy_from_slice(&date[5..7]);
    iso[11..19].copy_from_slice(&date[17..25]);
    iso
}

/// `Sunday, 06-Nov-1994 08:49:37 GMT`, as SSI's default format has it.
fn put_ssi_date(out: &mut Vec<u8>, date: &HttpDate) {
    const DAYS: [&[u8]; 7] = [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"];
    let date = date.as_bytes();
    let day = DAYS.iter().find(|day| day.starts_with(&date[..3])).copied().unwrap_or_default();
    for part in [day, b", ", &date[5..7], b"-", &date[8..11], b"-", &date[12..16], b" ", &date[17..29]] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_are_written_as_they_are_read() {
        for number in [0, 9, 10, 2_649, u64::MAX] {
            let mut out = b"x".to_vec();
            put_number(&mut out, number);
            assert_eq!(String::from_utf8(out), Ok(format!("x{number}")));
        }
        for octets in [[0, 0, 0, 0], [9, 10, 99, 100], [255, 1, 20, 101]] {
            let mut out = Vec::new();
            put_octets(&mut out, octets);
            assert_eq!(String::from_utf8(out), Ok(std::net::Ipv4Addr::from(octets).to_string()));
        }
    }

    #[test]
    fn seconds_are_written_as_logs_have_them() {
        let date = HttpDate::from_unix(784_111_777);
        assert_eq!(&local_of(&date), b"06/Nov/1994:08:49:37 +0000");
        assert_eq!(&iso_of(&date), b"1994-11-06T08:49:37+00:00");
    }
}
