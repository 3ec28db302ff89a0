//! The blocks that settings stand in, each within another.

use super::arguments::{inside, is_script, told};
use super::hosts::ServerName;
use super::tls_settings::{SecuredBy, TlsSettings, UpstreamTlsSettings};
use super::{Compiler, Step};
use crate::message::Place;
use crate::reader::Directive;
use access_log::OpenFiles;
use configuration::logging::AccessLogLine;
use configuration::program::{ContentRules, FieldRules, FilterSet, HeadRules, Methods};
use configuration::{Block, BlockId, Location, LocationError, Locations, Pattern, ServerId, VirtualServer};
use core::time::Duration;
use features::Value;
use std::sync::Arc;

/// What a block of directives is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    Http,
    Server,
    Location(Pattern),
    /// `if` in a location.
    If,
    LimitExcept,
}

/// Settings of a server that its locations do not have.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerRules {
    pub merge_slashes: bool,
    pub ignore_invalid_headers: bool,
    pub underscores_in_headers: bool,
    pub head: HeadRules,
    /// `client_header_buffer_size`.
    pub first_buffer: u64,
    /// `large_client_header_buffers`.
    pub buffers: (u64, u64),
}

/// A block of directives that is being compiled.
pub(super) struct Layer {
    pub scope: Scope,
    /// The settings, with those that are inherited.
    pub block: Block,
    pub rules: ServerRules,
    /// Names of directives that it has.
    pub seen: Seen,
    pub inherits: Inherits,
    /// Fields of the block outside.
    outer: Arc<FieldRules>,
    /// `access_log`s of the block, numbers of their formats, and what they are
    /// written as.
    pub lines: Vec<(AccessLogLine, u16, Directive)>,
    /// `open_log_file_cache`.
    pub open_logs: Option<OpenFiles>,
    /// `resolver_timeout`.
    pub resolver_timeout: Duration,
    /// `ssl_…`.
    pub tls: Arc<TlsSettings>,
    /// `proxy_ssl_…`, `grpc_ssl_…` and `uwsgi_ssl_…`.
    proxy_tls: Arc<UpstreamTlsSettings>,
    grpc_tls: Arc<UpstreamTlsSettings>,
    uwsgi_tls: Arc<UpstreamTlsSettings>,
}

/// Names of directives that a block has.
#[derive(Debug, Default)]
pub(super) struct Seen(Vec<&'static str>);

impl Seen {
    /// Notes a name; whether it is the first of it.
    pub(super) fn first(&mut self, name: &'static str) -> bool {
        let first = !self.has(name);
        if first {
            self.0.push(name);
        }
        first
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

/// How long a name is asked for where nothing is said (`resolver_timeout`).
pub(super) const RESOLVER_TIMEOUT: Duration = Duration::from_secs(30);

/// `add_header_inherit` and `add_trailer_inherit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Inherits {
    pub headers: Inherit,
    pub trailers: Inherit,
}

/// What becomes of the fields of the block outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Inherit {
    /// They are taken where the block has none.
    #[default]
    On,
    Off,
    /// They follow those of the block.
    Merge,
}

impl Layer {
    /// That of `http`, before it is read; files are in `root`.
    pub(super) fn outermost(root: Value) -> Self {
        let mut block = Block::default();
        block.root.path = root;
        let rules = ServerRules {
            merge_slashes: true,
            ignore_invalid_headers: true,
            underscores_in_headers: false,
            head: HeadRules::default(),
            first_buffer: 1 << 10,
            buffers: (4, 8 << 10),
        };
        Self {
            scope: Scope::Http,
            block,
            rules,
            seen: Seen::default(),
            inherits: Inherits::default(),
            outer: Arc::default(),
            lines: Vec::new(),
            open_logs: None,
            resolver_timeout: RESOLVER_TIMEOUT,
            tls: Arc::default(),
            proxy_tls: Arc::default(),
            grpc_tls: Arc::default(),
            uwsgi_tls: Arc::default(),
        }
    }

    /// One inside: what is not inherited begins anew.
    fn inner(&self, scope: Scope) -> Self {
        let mut block = self.block.clone();
        block.script = Arc::default();
        block.try_files = None;
        block.limit_except = None;
        // nginx keeps the handler of the location that the `if` stands in.
        let passes = scope == Scope::LimitExcept && block.content.passes_on();
        if scope != Scope::If {
            block.features.seeking.format = None;
            if !passes {
                block.content = ContentRules::Files;
            }
        }
        Self {
            scope,
            block,
            rules: self.rules,
            seen: Seen::default(),
            inherits: self.inherits,
            outer: Arc::clone(&self.block.fields),
            lines: Vec::new(),
            open_logs: self.open_logs.clone(),
            resolver_timeout: self.resolver_timeout,
            tls: Arc::clone(&self.tls),
            proxy_tls: Arc::clone(&self.proxy_tls),
            grpc_tls: Arc::clone(&self.grpc_tls),
            uwsgi_tls: Arc::clone(&self.uwsgi_tls),
        }
    }

    /// What becomes of the fields of the block outside, now that all of the
    /// block's own are known.
    fn inherit_fields(&mut self) {
        for trailer in [false, true] {
            let (name, inherit) = match trailer {
                true => ("add_trailer", self.inherits.trailers),
                false => ("add_header", self.inherits.headers),
            };
            let own = self.has(name);
            let list = |fields: &mut FieldRules| match trailer {
                true => core::mem::take(&mut fields.trailers),
                false => core::mem::take(&mut fields.added),
            };
            let changed = match (own, inherit) {
                (true, Inherit::Merge) => {
                    let mut all = list(Arc::make_mut(&mut self.block.fields));
                    all.extend(if trailer { &self.outer.trailers } else { &self.outer.added }.iter().cloned());
                    all
                }
                (false, Inherit::Off) => Vec::new(),
                _ => continue,
            };
            let fields = Arc::make_mut(&mut self.block.fields);
            *(if trailer { &mut fields.trailers } else { &mut fields.added }) = changed;
        }
    }

    /// Whether it is the first of this name in the block.
    pub(super) fn first(&mut self, name: &'static str) -> bool {
        self.seen.first(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.seen.has(name)
    }

    /// How upstreams are secured.
    pub(super) const fn upstream_tls_mut(&mut self, by: SecuredBy) -> &mut Arc<UpstreamTlsSettings> {
        match by {
            SecuredBy::Proxy => &mut self.proxy_tls,
            SecuredBy::Grpc => &mut self.grpc_tls,
            SecuredBy::Uwsgi => &mut self.uwsgi_tls,
        }
    }
}

impl Compiler<'_> {
    pub(super) fn server(&mut self, http: &Layer, is_right: bool, directive: &Directive) {
        let before = self.errors.len();
        let number = u16::try_from(self.program.servers.len());
        let Ok(number) = number else {
            let message = self.refused(directive.place, "too many servers: at most 65535".to_owned());
            return self.note(Err(message));
        };
        let id = ServerId(number);
        let mut layer = http.inner(Scope::Server);
        layer.block.label = b"server"[..].into();
        let mut names: Vec<ServerName> = Vec::new();
        let mut listens = false;
        for one in inside(directive) {
            let taken = match one.name.as_slice() {
                b"listen" => {
                    listens = true;
                    self.listen(id, one)
                }
                b"server_name" => self.server_names(one, &mut names),
                name if is_script(name) || name == b"location" => Ok(()),
                _ => self.set(&mut layer, one),
            };
            self.note(taken);
        }
        if !listens {
            self.listen_by_default(id, directive.place);
        }
        self.server_names.clone_from(&names);
        let taken = self.finish(&mut layer, directive.place);
        self.note(taken);
        let script = self.script(&layer, inside(directive));
        layer.block.script = self.note(script);
        let block = self.block(layer.block.clone(), directive.place);
        let locations = self.locations(&layer, inside(directive));
        // What is wrong already may be what is missing.
        let (mut security, mut certificates) = (None, None);
        if is_right && self.errors.len() == before {
            let speaks_http2 = layer.block.features.http2.on || self.listens_for_http2(id);
            let made = self.finish_tls(&layer, directive.place, speaks_http2);
            security = self.note(made);
            let made = self.certificates_by_value(&layer, directive.place);
            certificates = self.note(made);
        }
        let rules = &layer.rules;
        self.program.servers.push(VirtualServer {
            name: names.first().map_or_else(Box::default, |name| name.written.as_slice().into()),
            block,
            security,
            certificates,
            verifies: layer.tls.verify,
            locations,
            merge_slashes: rules.merge_slashes,
            ignore_invalid_headers: rules.ignore_invalid_headers,
            underscores_in_headers: rules.underscores_in_headers,
            head: HeadRules {
                line: rules.buffers.1,
                bytes: rules.buffers.0.saturating_mul(rules.buffers.1).saturating_add(rules.first_buffer),
                ..rules.head
            },
        });
        self.hosts.push(names);
    }

    /// The end of a block's directives.
    pub(super) fn finish(&mut self, layer: &mut Layer, place: Place) -> Step {
        layer.inherit_fields();
        self.finish_logs(layer)?;
        self.finish_referers(layer)?;
        layer.finish_proxy();
        layer.block.mirrors = !layer.block.subrequests.mirrors.is_empty();
        layer.finish_gateways();
        self.finish_upstream_tls(layer, place)?;
        layer.finish_resolver();
        layer.block.filters = FilterSet::of(&layer.block);
        Ok(())
    }

    fn locations(&mut self, server: &Layer, directives: &[Directive]) -> Locations {
        let mut locations: Vec<Location> = Vec::new();
        for one in directives.iter().filter(|one| one.name == b"location") {
            let location = match self.location(server, one) {
                Ok(location) => location,
                Err(message) => {
                    self.note::<()>(Err(message));
                    continue;
                }
            };
            // Of two with one name nginx finds the first.
            let known = |other: &Location| other.pattern == location.pattern;
            if !matches!(location.pattern, Pattern::Named(_)) || !locations.iter().any(known) {
                locations.push(location);
            }
        }
        let compiled = Locations::compile(&locations).map_err(|why| match why {
            LocationError::Duplicate(place) => {
                let at = self.places[place as usize].unwrap_or(directives[0].place);
                let name = find(&locations, place).map_or_else(String::new, |found| written(&found.pattern));
                self.refused(at, format!("duplicate location \"{name}\""))
            }
            // These were refused when they were read.
            LocationError::InExact(place)
            | LocationError::InNamed(place)
            | LocationError::NamedWithin(place)
            | LocationError::Outside(place) => {
                let at = self.places[place as usize].unwrap_or(directives[0].place);
                self.refused(at, "location cannot stand here".to_owned())
            }
        });
        self.note(compiled)
    }

    fn location(&mut self, outer: &Layer, directive: &Directive) -> Step<Location> {
        let pattern = self.pattern(directive)?;
        if let Scope::Location(around) = &outer.scope {
            self.may_stand_in(&pattern, around, directive.place)?;
        }
        let mut layer = outer.inner(Scope::Location(pattern.clone()));
        layer.block.label = directive.arguments.join(&b' ').into();
        let inner = |name: &[u8]| name == b"location" || name == b"limit_except";
        for one in inside(directive).iter().filter(|one| !is_script(&one.name) && !inner(&one.name)) {
            let taken = self.set(&mut layer, one);
            self.note(taken);
        }
        let taken = self.finish(&mut layer, directive.place);
        self.note(taken);
        if let Some(one) = inside(directive).iter().find(|one| one.name == b"limit_except") {
            let made = self.limit_except(&layer, one).map(Some);
            layer.block.limit_except = self.note(made);
        }
        let script = self.script(&layer, inside(directive));
        layer.block.script = self.note(script);
        let mut inside = inside(directive).iter().filter(|one| one.name == b"location").peekable();
        let slashless = layer.block.content.location().is_some();
        let mut inner = Vec::new();
        // Of most nobody inherits anything: their blocks are moved, not copied.
        let place = if inside.peek().is_some() {
            let place = self.block(layer.block.clone(), directive.place).0;
            for one in inside {
                let location = self.location(&layer, one).map(Some);
                inner.extend(self.note(location));
            }
            place
        } else {
            self.block(layer.block, directive.place).0
        };
        Ok(Location { pattern, place, slashless, inner })
    }

    /// What a location is for.
    fn pattern(&mut self, directive: &Directive) -> Step<Pattern> {
        let place = directive.place;
        let (modifier, name) = match directive.arguments.as_slice() {
            [modifier, name] => (modifier.as_slice(), name.as_slice()),
            [word, ..] => {
                // Without a blank between them.
                let modifier = [&b"="[..], b"^~", b"~*", b"~"].into_iter().find(|one| word.starts_with(one));
                let modifier = modifier.unwrap_or_default();
                (modifier, &word[modifier.len()..])
            }
            [] => (&[][..], &[][..]),
        };
        Ok(match modifier {
            b"=" => Pattern::Exact(name.to_vec()),
            b"^~" => Pattern::FirmPrefix(name.to_vec()),
            b"~" | b"~*" => {
                let number = self.expression(name, modifier == b"~*", place)?;
                Pattern::Expression(number, name.to_vec())
            }
            b"" if name.first() == Some(&b'@') && directive.arguments.len() == 1 => Pattern::Named(name[1..].to_vec()),
            b"" if directive.arguments.len() == 1 => Pattern::Prefix(name.to_vec()),
            _ => return Err(self.refused(place, format!("invalid location modifier \"{}\"", told(modifier)))),
        })
    }

    fn may_stand_in(&self, pattern: &Pattern, around: &Pattern, place: Place) -> Step {
        let (name, outer) = (written(pattern), written(around));
        let is_outside = match pattern {
            Pattern::Expression(..) | Pattern::Named(_) => false,
            Pattern::Exact(path) | Pattern::Prefix(path) | Pattern::FirmPrefix(path) => {
                !path.starts_with(name_of(around))
            }
        };
        let what = match (around, pattern) {
            (Pattern::Exact(_), _) => format!("location \"{name}\" cannot be inside the exact location \"{outer}\""),
            (Pattern::Named(_), _) => format!("location \"{name}\" cannot be inside the named location \"{outer}\""),
            (_, Pattern::Named(_)) => format!("named location \"{name}\" can be on the server level only"),
            _ if is_outside => format!("location \"{name}\" is outside location \"{outer}\""),
            _ => return Ok(()),
        };
        Err(self.refused(place, what))
    }

    /// The settings of an `if` in a location.
    pub(super) fn if_block(&mut self, location: &Layer, directive: &Directive) -> Step<BlockId> {
        let mut layer = location.inner(Scope::If);
        layer.block.label = label(directive);
        for one in inside(directive).iter().filter(|one| !is_script(&one.name)) {
            self.set(&mut layer, one)?;
        }
        self.finish(&mut layer, directive.place)?;
        Ok(self.block(layer.block, directive.place))
    }

    fn limit_except(&mut self, location: &Layer, directive: &Directive) -> Step<(Methods, BlockId)> {
        const KNOWN: [&[u8]; 15] = [
            b"GET",
            b"HEAD",
            b"POST",
            b"PUT",
            b"DELETE",
            b"MKCOL",
            b"COPY",
            b"MOVE",
            b"OPTIONS",
            b"PROPFIND",
            b"PROPPATCH",
            b"LOCK",
            b"UNLOCK",
            b"PATCH",
            b"CONNECT",
        ];
        let mut methods = Vec::new();
        for method in &directive.arguments {
            let Some(known) = KNOWN.iter().find(|known| method.eq_ignore_ascii_case(known)) else {
                return Err(self.refused(directive.place, format!("invalid method \"{}\"", told(method))));
            };
            methods.push(Box::from(*known));
            if *known == b"GET" {
                methods.push(Box::from(&b"HEAD"[..]));
            }
        }
        let mut layer = location.inner(Scope::LimitExcept);
        layer.block.label = label(directive);
        for one in inside(directive) {
            self.set(&mut layer, one)?;
        }
        self.finish(&mut layer, directive.place)?;
        Ok((Methods(methods), self.block(layer.block, directive.place)))
    }
}

/// The location whose place this is.
fn find(locations: &[Location], place: u32) -> Option<&Location> {
    locations.iter().find_map(|one| if one.place == place { Some(one) } else { find(&one.inner, place) })
}

/// What a block inside a location is, for people.
fn label(directive: &Directive) -> Box<[u8]> {
    let words = core::iter::once(&directive.name).chain(&directive.arguments);
    words.map(Vec::as_slice).collect::<Vec<_>>().join(&b' ').into()
}

/// What a location's name is, without its modifier.
fn name_of(pattern: &Pattern) -> &[u8] {
    match pattern {
        Pattern::Exact(name)
        | Pattern::Prefix(name)
        | Pattern::FirmPrefix(name)
        | Pattern::Expression(_, name)
        | Pattern::Named(name) => name,
    }
}

/// The same for people.
fn written(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Named(name) => format!("@{}", told(name)),
        other => told(name_of(other)),
    }
}
