//! `listen`: addresses, and the servers that answer there.

use super::arguments::{argument, told};
use super::{Compiler, Resolve, Step, nowhere};
use crate::message::{Level, Message, Place};
use crate::reader::Directive;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use features::units::{number, size, time};

use configuration::program::ListenerRules;
use configuration::{Http2Terms, NameError, Names, ServerId};
use std::collections::HashMap;
use std::path::PathBuf;

/// Options of a listening socket. What is not set is as the system has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SocketRules {
    /// Connections that may wait.
    pub backlog: Option<u32>,
    /// Bytes of its receive buffer.
    pub receive: Option<u64>,
    /// Bytes of its send buffer.
    pub send: Option<u64>,
    /// Handshakes with data that may be under way.
    pub fast_open: Option<u32>,
    /// A connection is handed over when its first data is there.
    pub deferred: bool,
    /// `[::]` takes IPv4, too (`ipv6only=off`).
    pub takes_v4: bool,
    /// Each worker has a socket of its own.
    pub reuse_port: bool,
    /// `so_keepalive`.
    pub keep_alive: Option<KeepAliveRules>,
}

/// `so_keepalive`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeepAliveRules {
    /// It is not asked.
    Off,
    /// It is; what is not set is as the system has it.
    On {
        /// After how long without a word.
        idle: Option<Duration>,
        /// How often then.
        interval: Option<Duration>,
        /// How many times.
        probes: Option<u32>,
    },
}

/// Where it can be listened.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Address {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Addresses, at most: a range of ports has many.
const ADDRESSES_MAX: usize = 16_384;

/// An address, and who answers there.
struct Listened {
    address: Address,
    servers: Vec<ServerId>,
    default: Option<ServerId>,
    options: SocketRules,
    /// Options were given.
    is_set: bool,
    proxy_protocol: bool,
    tls: bool,
    http2: bool,
}

/// All addresses, in their order.
#[derive(Default)]
pub(super) struct Addresses {
    listened: Vec<Listened>,
    places: HashMap<Address, usize>,
}

/// What a `listen` says beside its addresses.
#[derive(Default)]
struct Options {
    socket: SocketRules,
    is_set: bool,
    is_default: bool,
    proxy_protocol: bool,
    tls: bool,
    quic: bool,
    http2: bool,
}

impl Compiler<'_> {
    pub(super) fn listen(&mut self, server: ServerId, directive: &Directive) -> Step {
        let place = directive.place;
        let text = argument(directive, 0);
        let addresses = addresses(text, self.around.resolve)
            .map_err(|what| self.refused(place, format!("{what} in \"{}\" of the \"listen\" directive", told(text))))?;
        let mut options = Options::default();
        for word in &directive.arguments[1..] {
            self.listen_option(&mut options, word, place)?;
        }
        if options.quic {
            let what = format!("nobody listens by \"listen {} quic\": there is no HTTP/3, TCP serves", told(text));
            self.warn(place, what);
            return Ok(());
        }
        if options.http2 {
            let what = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
            self.warn(place, what.to_owned());
        }
        for address in addresses {
            self.add_listen(server, address, &options, place)?;
        }
        Ok(())
    }

    /// As a server without `listen` does.
    pub(super) fn listen_by_default(&mut self, server: ServerId, place: Place) {
        let port = if self.around.root { 80 } else { 8000 };
        let address = Address::Inet(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
        // No options: nothing can be wrong with them.
        let _ = self.add_listen(server, address, &Options::default(), place);
    }

    fn listen_option(&self, options: &mut Options, word: &[u8], place: Place) -> Step {
        let refused = |what: String| Err(self.refused(place, what));
        let (name, value) = match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (&word[..=at], &word[at + 1..]),
            None => (word, &b""[..]),
        };
        let socket = &mut options.socket;
        let is = |what: &str| format!("invalid {what} \"{}\"", told(word));
        match name {
            b"default_server" | b"default" => {
                options.is_default = true;
                return Ok(());
            }
            b"proxy_protocol" => {
                options.proxy_protocol = true;
                return Ok(());
            }
            b"ssl" => {
                options.tls = true;
                return Ok(());
            }
            b"quic" => {
                options.quic = true;
                return Ok(());
            }
            b"http2" => {
                options.http2 = true;
                return Ok(());
            }
            b"multipath" | b"setfib=" | b"accept_filter=" => {
                return Err(self.unsupported(place, &format!("\"{}\" of the \"listen\" directive", told(word))));
            }
            b"bind" => {}
            b"deferred" => socket.deferred = true,
            b"reuseport" => socket.reuse_port = true,
            b"fastopen=" => match number(value) {
                Ok(count) => socket.fast_open = Some(u32::try_from(count).unwrap_or(u32::MAX)),
                Err(_) => return refused(is("fastopen")),
            },
            b"backlog=" => match number(value) {
                Ok(0) | Err(_) => return refused(is("backlog")),
                Ok(count) => socket.backlog = Some(u32::try_from(count).unwrap_or(u32::MAX)),
            },
            b"rcvbuf=" => match size(value) {
                Ok(bytes) => socket.receive = Some(bytes),
                Err(_) => return refused(is("rcvbuf")),
            },
            b"sndbuf=" => match size(value) {
                Ok(bytes) => socket.send = Some(bytes),
                Err(_) => return refused(is("sndbuf")),
            },
            b"ipv6only=" if value == b"on" => socket.takes_v4 = false,
            b"ipv6only=" if value == b"off" => socket.takes_v4 = true,
            b"ipv6only=" if value.starts_with(b"o") => {
                return refused(format!("invalid ipv6only flags \"{}\"", told(value)));
            }
            b"so_keepalive=" => match keep_alive(value) {
                Some(rules) => socket.keep_alive = Some(rules),
                None => return refused(format!("invalid so_keepalive value: \"{}\"", told(value))),
            },
            _ => return refused(is("parameter")),
        }
        options.is_set = true;
        Ok(())
    }

    fn add_listen(&mut self, server: ServerId, address: Address, options: &Options, place: Place) -> Step {
        let Addresses { listened, places } = &mut self.addresses;
        let Some(at) = places.get(&address).copied() else {
            if listened.len() >= ADDRESSES_MAX {
                let what = format!("too many addresses to listen on: at most {ADDRESSES_MAX}");
                return Err(self.refused(place, what));
            }
            places.insert(address.clone(), listened.len());
            listened.push(Listened {
                address,
                servers: vec![server],
                default: options.is_default.then_some(server),
                options: options.socket.clone(),
                is_set: options.is_set,
                proxy_protocol: options.proxy_protocol,
                tls: options.tls,
                http2: options.http2,
            });
            return Ok(());
        };
        let known = &mut listened[at];
        // Servers come one after the other.
        if known.servers.last() == Some(&server) {
            return Err(self.refused(place, format!("a duplicate listen {address}")));
        }
        known.servers.push(server);
        if options.is_set {
            if known.is_set {
                return Err(self.refused(place, format!("duplicate listen options for {address}")));
            }
            known.options = options.socket.clone();
            known.is_set = true;
        }
        if options.is_default {
            if known.default.is_some() {
                return Err(self.refused(place, format!("a duplicate default server for {address}")));
            }
            known.default = Some(server);
        }
        known.proxy_protocol |= options.proxy_protocol;
        known.tls |= options.tls;
        known.http2 |= options.http2;
        Ok(())
    }

    /// The listeners of the program, and options of their sockets.
    pub(super) fn listeners(&mut self) -> Step<Vec<SocketRules>> {
        let listened = core::mem::take(&mut self.addresses.listened);
        let mut options = Vec::new();
        for one in listened {
            let names = self.names_at(&one)?;
            let first = one.default.unwrap_or(one.servers[0]);
            let others = one.servers.iter().copied().filter(|server| *server != first);
            let (address, path) = match one.address {
                Address::Inet(address) => (Some(address), None),
                Address::Unix(path) => (None, Some(path)),
            };
            let servers: Vec<ServerId> = core::iter::once(first).chain(others).collect();
            self.tls_is_whole(&servers, one.tls)?;
            let http2 = self.http2_terms(&servers, one.tls, one.http2);
            self.program.listeners.push(ListenerRules {
                address,
                path,
                names,
                servers,
                proxy_protocol: one.proxy_protocol,
                tls: one.tls,
                http2,
            });
            options.push(one.options);
        }
        Ok(options)
    }

    /// Whether clients of some address of a server's may speak HTTP/2 as that says.
    pub(super) fn listens_for_http2(&self, server: ServerId) -> bool {
        self.addresses.listened.iter().any(|one| one.http2 && one.servers.contains(&server))
    }

    /// How HTTP/2 is spoken at an address, if it is: as its first server has it. Behind TLS, of which
    /// names it is spoken, their servers say.
    fn http2_terms(&self, servers: &[ServerId], tls: bool, told: bool) -> Option<Http2Terms> {
        let of = |server: &ServerId| {
            let server = self.program.servers.get(usize::from(server.0))?;
            Some(self.program.blocks.get(server.block.0 as usize)?.features.http2)
        };
        let first = servers.first().and_then(of).unwrap_or_default();
        let is_on = told || first.on || tls && servers.iter().filter_map(of).any(|settings| settings.on);
        is_on.then_some(Http2Terms { streams: first.streams, window: first.window, chunk: first.chunk })
    }

    /// Which server is asked for by which name there.
    fn names_at(&mut self, listened: &Listened) -> Step<Names> {
        let mut names = Names::default();
        let first = listened.default.unwrap_or(listened.servers[0]);
        // nginx looks at names where there is something to choose.
        let has_captures = |name: &super::hosts::ServerName| {
            name.expression.is_some_and(|number| self.program.expressions[number as usize].groups() > 0)
        };
        let of_first = &self.hosts[usize::from(first.0)];
        let chooses = listened.servers.len() > 1 || of_first.iter().any(has_captures);
        let mut next = 0;
        for server in &listened.servers {
            // The first has the others behind it, in their order.
            let place = if *server == first { 0 } else { next + 1 };
            next += u16::from(*server != first);
            for name in &self.hosts[usize::from(server.0)] {
                if let Some(expression) = name.expression {
                    names.add_expression(expression, place);
                    continue;
                }
                let text = told(&name.name);
                if chooses && !name.can_be_looked_for() {
                    let what = format!("invalid server name or wildcard \"{text}\" on {}", listened.address);
                    return Err(nowhere(what));
                }
                let added = if name.name.is_empty() { names.add_unnamed(place) } else { names.add(&text, place) };
                // Other names no client can ask by, or all have this server.
                if chooses && matches!(added, Err(NameError::Twice(_))) {
                    let text = format!("conflicting server name \"{text}\" on {}, ignored", listened.address);
                    self.warnings.push(Message { level: Level::Warn, ..nowhere(text) });
                }
            }
        }
        Ok(names)
    }
}

/// `on`, `off`, or up to three values with colons between them.
fn keep_alive(value: &[u8]) -> Option<KeepAliveRules> {
    match value {
        b"on" => return Some(KeepAliveRules::On { idle: None, interval: None, probes: None }),
        b"off" => return Some(KeepAliveRules::Off),
        _ => {}
    }
    let mut parts = value.splitn(3, |byte| *byte == b':');
    let mut seconds = || -> Option<Option<Duration>> {
        match parts.next().filter(|part| !part.is_empty()) {
            Some(part) => Some(Some(Duration::from_millis(time(part, true).ok()?)).filter(|time| !time.is_zero())),
            None => Some(None),
        }
    };
    let (idle, interval) = (seconds()?, seconds()?);
    let probes = match parts.next().filter(|part| !part.is_empty()) {
        Some(part) => Some(u32::try_from(number(part).ok()?).ok()?).filter(|count| *count > 0),
        None => None,
    };
    let any = idle.is_some() || interval.is_some() || probes.is_some();
    any.then_some(KeepAliveRules::On { idle, interval, probes })
}

/// The addresses that a `listen` means: several for a range of ports, or a name
/// that has several.
fn addresses(text: &[u8], resolve: Resolve) -> Result<Vec<Address>, &'static str> {
    /// The longest path of a Unix socket (unix(7)), with the zero at its end.
    const PATH_MAX: usize = 108;
    if let Some(path) = text.strip_prefix(b"unix:") {
        return match path.len() {
            0 => Err("no path in the unix domain socket"),
            length if length >= PATH_MAX => Err("too long path in the unix domain socket"),
            _ => Ok(vec![Address::Unix(super::path_of(path))]),
        };
    }
    let text = core::str::from_utf8(text).map_err(|_| "invalid host")?;
    let (hosts, ports) = if text.starts_with('[') { bracketed(text)? } else { plain(text, resolve)? };
    let all = ports.flat_map(|port| hosts.iter().map(move |host| Address::Inet(SocketAddr::new(*host, port))));
    Ok(all.collect())
}

type Ports = core::ops::RangeInclusive<u16>;

/// A port, or two with `-` between them.
fn ports(text: &str) -> Result<Ports, &'static str> {
    let port = |text: &str| match number(text.as_bytes()) {
        Ok(port @ 1..=65_535) => Ok(port as u16),
        _ => Err("invalid port"),
    };
    let Some((from, to)) = text.split_once('-') else { return port(text).map(|port| port..=port) };
    let (to, from) = (port(to)?, port(from)?);
    if from > to { Err("invalid port range") } else { Ok(from..=to) }
}

fn bracketed(text: &str) -> Result<(Vec<IpAddr>, Ports), &'static str> {
    let (address, behind) = text[1..].split_once(']').ok_or("invalid host")?;
    let ports = match behind.strip_prefix(':') {
        Some(text) => ports(text)?,
        None if behind.is_empty() => 80..=80,
        None => return Err("invalid host"),
    };
    match address {
        "" => Err("no host"),
        address => Ok((vec![address.parse::<Ipv6Addr>().map_err(|_| "invalid IPv6 address")?.into()], ports)),
    }
}

fn plain(text: &str, resolve: Resolve) -> Result<(Vec<IpAddr>, Ports), &'static str> {
    if text.contains(['/', '?']) {
        return Err("invalid host");
    }
    let (host, ports) = match text.split_once(':') {
        Some((host, text)) => (host, ports(text)?),
        None => {
            let is_port = |text: &str| text.split('-').all(|part| number(part.as_bytes()).is_ok());
            if is_port(text) {
                return Ok((vec![Ipv4Addr::UNSPECIFIED.into()], ports(text)?));
            }
            (text, 80..=80)
        }
    };
    match host {
        "" => Err("no host"),
        "*" => Ok((vec![Ipv4Addr::UNSPECIFIED.into()], ports)),
        host => match host.parse::<Ipv4Addr>() {
            Ok(address) => Ok((vec![address.into()], ports)),
            Err(_) => {
                let mut hosts: Vec<IpAddr> = Vec::new();
                resolve(host).into_iter().for_each(|one| {
                    if !hosts.contains(&one) {
                        hosts.push(one)
                    }
                });
                if hosts.is_empty() { Err("host not found") } else { Ok((hosts, ports)) }
            }
        },
    }
}
