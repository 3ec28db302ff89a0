//! nginx's own variables.

use super::body_progress::BodyProgress;
use super::scope::Scope;
use bodies::BodyContent;
use configuration::small::StubStatus;
use configuration::variables::Core;
use core::time::Duration;
use features::auth_basic::basic_credentials;
use formats::host::{host_of, port_of};
use formats::written::{put, put_address, put_known, put_number, put_ssi_date};
use formats::zone::local_name;
use semantics::{Form, Known, Request};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;

impl Scope<'_> {
    pub(super) fn core(&mut self, core: Core, out: &mut Vec<u8>) -> bool {
        let found = self.of_request(core, out).or_else(|| self.of_connection(core, out));
        let found = found
            .or_else(|| self.of_body(core, out))
            .or_else(|| self.of_answer(core, out))
            .or_else(|| self.of_time(core, out));
        let found = found.or_else(|| self.of_port_and_counts(core, out));
        let found = found.or_else(|| (core == Core::SliceRange).then(|| self.slice_range(out)));
        found.or_else(|| self.of_links(core, out)).unwrap_or(false)
    }

    /// Where the root lies once its links are followed.
    fn real_root(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(block) = self.block() else { return false };
        let path = self.get(&block.root.path);
        let known = self.loaded.real_roots.borrow();
        // What is refused before it comes to a place has looked for none.
        let Some(real) = known.get(&path).unwrap_or(Some(&path)) else { return false };
        out.extend_from_slice(real);
        true
    }

    /// Where the client connected to: an address, or a Unix socket as it is written.
    fn server_address(&self, out: &mut Vec<u8>) -> bool {
        let listener = self.loaded.program.listeners.get(usize::from(self.state.route.listener));
        match (self.state.about.local.inet(), listener.and_then(|listener| listener.path.as_ref())) {
            (None, Some(path)) => {
                out.extend_from_slice(b"unix:");
                out.extend_from_slice(path.as_os_str().as_bytes());
                true
            }
            (local, _) => put_address(local, out),
        }
    }

    /// What a request's referer is worth.
    fn of_links(&mut self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let block = self.block()?;
        match core {
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
            Core::Uri | Core::DocumentUri => out.extend_from_slice(&self.state.route.uri),
            Core::Args | Core::QueryString => {
                out.extend_from_slice(&self.state.route.args);
                return Some(!self.state.route.args.is_empty());
            }
            Core::IsArgs => out.extend_from_slice(if self.state.route.args.is_empty() { b"" } else { b"?" }),
            Core::Http2 => out.extend_from_slice(spoken(&self.state.about).1),
            Core::Scheme => out.extend_from_slice(self.state.scheme()),
            Core::Https => out.extend_from_slice(if self.state.is_secured() { b"on" } else { b"" }),
            Core::Pipe => out.push(b'.'),
            Core::Host => {
                let start = out.len();
                if !self.state.is_refused() {
                    host_of(request.authority(), out);
                }
                if out.len() == start {
                    out.extend_from_slice(self.server_name());
                }
            }
            Core::ServerName => out.extend_from_slice(self.server_name()),
            Core::RemoteAddr => return Some(put_address(self.state.client.peer, out)),
            Core::DocumentRoot => {
                let Some(block) = self.block() else { return Some(false) };
                block.root.path.write(self, out);
            }
            Core::RealpathRoot => return Some(self.real_root(out)),
            Core::RequestFilename => return Some(self.file_path(out)),
            Core::RemoteUser if self.state.is_refused() => return Some(false),
            Core::RemoteUser => {
                let field = request.fields().find(|field| field.is("authorization")).map(|field| field.value);
                let Some((user, _)) = field.and_then(basic_credentials) else { return Some(false) };
                out.extend_from_slice(&user);
            }
            Core::ContentType => return Some(self.header(b"content_type", out)),
            Core::RequestId => {
                let (high, low) = self.state.request_id();
                return Some(put(out, format_args!("{high:016x}{low:016x}")));
            }
            Core::ProxyAddXForwardedFor => {
                if self.header(b"x_forwarded_for", out) && !out.is_empty() {
                    out.extend_from_slice(b", ");
                }
                return Some(put_address(self.state.client.peer, out));
            }
            Core::FastcgiScriptName => return Some(self.script_name(false, out)),
            Core::FastcgiPathInfo => return Some(self.script_name(true, out)),
            Core::ProxyHost => {
                out.extend_from_slice(&self.state.passed.host);
                return Some(!self.state.passed.host.is_empty());
            }
            Core::ProxyPort => {
                let Some(port) = &self.state.passed.port else { return Some(false) };
                out.extend_from_slice(port);
            }
            _ => return self.of_line(core, out),
        }
        Some(true)
    }

    /// A request's first line, and its parts; `None` if it is something else.
    fn of_line(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let request = self.request;
        match core {
            Core::Request => out.extend_from_slice(request.line()),
            Core::RequestUri | Core::RequestMethod | Core::ServerProtocol if !self.has_line() => {
                // nginx has read as far as the protocol.
                let protocol = request.line().splitn(3, |byte| *byte == b' ').nth(2);
                return Some(core == Core::ServerProtocol && protocol.is_some_and(|told| !told.is_empty()));
            }
            Core::RequestUri => out.extend_from_slice(target_path(request)),
            Core::RequestMethod => out.extend_from_slice(
                match self.state.within.sub.as_ref().map_or(self.state.method, |sub| sub.method) {
                    semantics::Method::Other => request.method_name(),
                    method => method.name().as_bytes(),
                },
            ),
            Core::ServerProtocol => out.extend_from_slice(spoken(&self.state.about).0),
            _ => return None,
        }
        Some(true)
    }

    /// Whether its first line is a request's: of what is refused, it may be none.
    fn has_line(&self) -> bool {
        !self.state.is_refused() || !self.request.target().is_empty()
    }

    /// The port that was asked for, and how many connections there are.
    fn of_port_and_counts(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let port = || port_of(self.request.authority()).filter(|_| !self.state.is_refused()).unwrap_or_default();
        Some(match core {
            Core::RequestPort => {
                out.extend_from_slice(port());
                true
            }
            Core::IsRequestPort => {
                out.extend_from_slice(if port().is_empty() { b"" } else { b":" });
                true
            }
            Core::ConnectionsActive => put_number(out, self.counted().active),
            Core::ConnectionsReading => put_number(out, self.counted().reading),
            Core::ConnectionsWaiting => put_number(out, self.counted().waiting),
            Core::ConnectionsWriting => put_number(out, self.counted().writing),
            _ => return None,
        })
    }

    /// What all silos have counted, as they last told.
    fn counted(&self) -> StubStatus {
        StubStatus::of(&self.loaded.program.silos)
    }

    /// What came with the request.
    fn of_body(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let (request, body) = (self.request, self.state.body.as_deref());
        Some(match core {
            Core::ContentLength => {
                let told = put_known(request, Known::ContentLength, out);
                // Of a body in chunks, once it was read.
                told || body.and_then(BodyProgress::read).is_some_and(|bytes| put_number(out, bytes))
            }
            Core::RequestBody => match body.and_then(BodyProgress::content) {
                Some(BodyContent::Memory(body)) => {
                    out.extend_from_slice(body.as_slice());
                    true
                }
                Some(_) => false,
                None => body.and_then(|body| body.copy.as_ref()).is_some_and(|copy| {
                    out.extend_from_slice(&copy.bytes);
                    !copy.bytes.is_empty()
                }),
            },
            Core::RequestBodyFile => body.and_then(BodyProgress::path).is_some_and(|path| {
                out.extend_from_slice(path);
                true
            }),
            Core::RequestLength if self.state.within.sub.is_some() => put_number(out, 0),
            Core::RequestLength if !self.has_line() => put_number(out, 0),
            Core::RequestLength => put_number(out, request.head().len() as u64 + body.map_or(0, |body| body.wire)),
            _ => return None,
        })
    }

    /// Who asks, and whom.
    fn of_connection(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let (state, about, proxied) = (&*self.state, &self.state.about, self.state.client.proxied.as_ref());
        // Port 0 is none.
        let port_told = |of: SocketAddr, out: &mut Vec<u8>| of.port() == 0 || put_number(out, of.port().into());
        let port = |of: Option<SocketAddr>, out: &mut Vec<u8>| of.is_some_and(|of| put_number(out, of.port().into()));
        Some(match core {
            Core::BinaryRemoteAddr => {
                match state.client.peer.map(|peer| peer.ip().to_canonical()) {
                    Some(IpAddr::V4(address)) => out.extend_from_slice(&address.octets()),
                    Some(IpAddr::V6(address)) => out.extend_from_slice(&address.octets()),
                    None => out.extend_from_slice(b"unix:"),
                }
                true
            }
            Core::RemotePort => port(state.client.peer, out),
            Core::RealipRemoteAddr => put_address(about.peer, out),
            Core::RealipRemotePort => port(about.peer, out),
            Core::ServerAddr => self.server_address(out),
            Core::ServerPort => port(about.local.inet(), out),
            Core::ProxyProtocolAddr => proxied.is_some_and(|told| put_address(Some(told.source), out)),
            Core::ProxyProtocolPort => proxied.is_some_and(|told| port_told(told.source, out)),
            Core::ProxyProtocolServerAddr => proxied.is_some_and(|told| put_address(Some(told.destination), out)),
            Core::ProxyProtocolServerPort => proxied.is_some_and(|told| port_told(told.destination, out)),
            Core::Connection => put_number(out, about.connection),
            Core::ConnectionTime => {
                let begun = self.state.started;
                put_seconds(out, about.age + self.clock.now.since(begun))
            }
            Core::ConnectionRequests => put_number(out, u64::from(about.requests) + 1),
            Core::NginxVersion => put(out, configuration::NGINX_VERSION),
            Core::Hostname => {
                out.extend_from_slice(rustix::system::uname().nodename().to_bytes());
                true
            }
            Core::Pid => put_number(out, std::process::id().into()),
            Core::TcpinfoRtt => state.client.path.is_some_and(|path| put_number(out, path.rtt_us.into())),
            Core::TcpinfoRttvar => state.client.path.is_some_and(|path| put_number(out, path.rttvar_us.into())),
            Core::TcpinfoSndCwnd => state.client.path.is_some_and(|path| put_number(out, path.cwnd.into())),
            Core::TcpinfoRcvSpace => state.client.path.is_some_and(|path| put_number(out, path.receive_space.into())),
            _ => return None,
        })
    }

    /// What was answered.
    fn of_answer(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let (state, sent) = (&*self.state, &self.state.sent);
        Some(match core {
            // None yet: nginx tells 000.
            Core::Status => {
                let status = state.reply.override_status.unwrap_or(sent.status);
                let digit = |value: u16| b'0' + (value % 10) as u8;
                out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status)]);
                true
            }
            Core::BodyBytesSent => put_number(out, sent.body),
            Core::BytesSent => put_number(out, sent.body + sent.head + sent.hints),
            Core::RequestTime => put_seconds(out, self.clock.now.since(state.started)),
            Core::RequestCompletion => put(out, if sent.complete { "OK" } else { "" }),
            _ => return None,
        })
    }

    fn of_time(&self, core: Core, out: &mut Vec<u8>) -> Option<bool> {
        let clock = self.clock;
        match core {
            Core::Msec => _ = put(out, format_args!("{}.{:03}", clock.second, clock.millis())),
            Core::TimeLocal => out.extend_from_slice(&clock.local),
            Core::TimeIso8601 => out.extend_from_slice(&clock.iso),
            Core::DateGmt => put_ssi_date(out, &clock.date, "GMT"),
            Core::DateLocal => put_ssi_date(out, &clock.there.date, &local_name(clock.second)),
            _ => return None,
        }
        Some(true)
    }

    fn server_name(&self) -> &[u8] {
        self.program().server(self.state.route.server).map_or(b"", |server| &server.name)
    }

    /// `$fastcgi_script_name` or, with `info`, `$fastcgi_path_info`.
    fn script_name(&mut self, info: bool, out: &mut Vec<u8>) -> bool {
        let Some(block) = self.block() else { return false };
        let rules = &block.gateways.fastcgi;
        let mut script = 0..self.state.route.uri.len();
        if let Some(split) = rules.split {
            let subject = self.state.route.uri.clone();
            let (mut name, mut path) = (None, None);
            let matched = self.loaded.find(split, &subject, &mut |group, range| match group {
                1 => name = Some(range),
                2 => path = Some(range),
                _ => {}
            });
            let matched = matched == Some(true);
            if info {
                let path = path.filter(|_| matched).and_then(|range| subject.get(range));
                out.extend_from_slice(path.unwrap_or_default());
                return true;
            }
            script = name.filter(|_| matched).unwrap_or(script);
        } else if info {
            return true;
        }
        let script = self.state.route.uri.get(script).unwrap_or_default();
        out.extend_from_slice(script);
        if script.last() == Some(&b'/') {
            out.extend_from_slice(&rules.index);
        }
        true
    }
}

/// The target without scheme and authority (`unparsed_uri` of nginx).
pub(super) fn target_path<'a>(request: &Request<'a>) -> &'a [u8] {
    let target = request.target();
    if request.form() != Form::Absolute {
        return target;
    }
    let authority = target.windows(3).position(|three| three == b"://").map_or(0, |at| at + 3);
    let path = target[authority..].iter().position(|byte| matches!(byte, b'/' | b'?'));
    path.map_or(b"/", |at| &target[authority + at..])
}

/// `12.042`, and that it is told.
fn put_seconds(out: &mut Vec<u8>, time: Duration) -> bool {
    put(out, format_args!("{}.{:03}", time.as_secs(), time.subsec_millis()))
}

/// `$server_protocol` and `$http2`.
fn spoken(about: &exchange::About) -> (&'static [u8], &'static [u8]) {
    match (about.http10, about.http2) {
        (true, _) => (b"HTTP/1.0", b""),
        (false, false) => (b"HTTP/1.1", b""),
        (false, true) if about.transport == exchange::Transport::Plain => (b"HTTP/2.0", b"h2c"),
        (false, true) => (b"HTTP/2.0", b"h2"),
    }
}
