//! What is sent to an upstream: the request line, the fields, and where it goes.

use super::bodies::BodyReading;
use super::body_progress::BodyState;
use super::relay::Relay;
use super::runner::{Flow, Runner};
use app::Body;
use asking::{Ask, AskRules, AskSpec, BodyStream, Protocol, Servers, StreamAnswer};
use bodies::BodyContent;
use configuration::proxying::{OwnCertificateByValue, ProxyPass, ProxyRules, RequestField, UpstreamVersion};
use configuration::variables::{Core, Variable};
use core::net::{IpAddr, Ipv4Addr};
use features::{ErrorLevel, Value};
use formats::written::put_number;
use handshake::{CertificateFiles, OwnDemand, Sought};
use proxy::next::is_unrepeatable;
use proxy::target;
use proxy::target::TargetSource;
use proxy::url::ProxyUrl;
use semantics::{Known, Method};
use std::rc::Rc;
use std::sync::Arc;

/// What is asked for a request, and of whom.
pub(super) struct Question {
    pub servers: Servers,
    pub seeks: Option<Box<Sought>>,
    pub asked: Method,
    pub unrepeatable: bool,
    /// Where in the head the target stands.
    pub target: (u32, u32),
    pub head: Vec<u8>,
    pub stream: Option<BodyStream>,
    pub protocol: Protocol,
}

/// Where a request goes, and what it is told of that.
struct Destination {
    choice: Servers,
    /// The URL's own path.
    uri: Vec<u8>,
    /// Whether that is the whole target.
    is_whole: bool,
    location: Option<usize>,
    /// Over TLS.
    secured: bool,
    /// The host that it leads to, which nobody asks for where it is not secured: there it may
    /// be empty.
    host: Vec<u8>,
}

impl Runner<'_> {
    /// Passes the request on.
    pub(super) fn pass_on(&mut self, rules: &Arc<ProxyRules>, pass: &ProxyPass) -> Flow {
        self.state.reuse.depends.on(super::request_state::Depends::OTHER);
        let rules = Arc::clone(rules);
        let address = match pass {
            ProxyPass::Fixed(_) => None,
            ProxyPass::Computed { url, .. } => Some(url),
        };
        let begun = self.begin_body(&rules, rules.version.has_ends(), address, |runner, url| {
            runner.parsed(url, rules.is_grpc).map(drop)
        });
        let (stream, address) = match begun {
            Ok(begun) => begun,
            Err(flow) => return flow,
        };
        self.state.passed.body = match &rules.body {
            Some(body) => Some(BodyContent::Memory(Body::new(self.scope().get(body)))),
            None => self.body_content().filter(|_| rules.passes_body),
        };
        let destination = match self.destination(&rules, pass, &address) {
            Ok(destination) => destination,
            Err(status) => return Flow::Status(status),
        };
        let mut head = self.rest.spare.bytes();
        head.reserve(512);
        let Some(begins) = self.write_request(&rules, &destination, stream, &mut head) else {
            return Flow::Status(500);
        };
        let seeks = destination.secured.then(|| self.sought(&rules, &destination.host)).flatten();
        let (asked, unrepeatable, target) = begins;
        let protocol = match rules.version {
            UpstreamVersion::Http2 => Protocol::Http2(Box::new(StreamAnswer::new(rules.is_grpc))),
            UpstreamVersion::Http10 | UpstreamVersion::Http11 => Protocol::Http,
        };
        let servers = destination.choice;
        let question = Question { servers, seeks, asked, unrepeatable, target, head, stream, protocol };
        self.begin_relay(rules, question)
    }

    /// A request begins to be passed on: by these rules, to one of these, with this head.
    pub(super) fn begin_relay(&mut self, rules: Arc<ProxyRules>, question: Question) -> Flow {
        let from = match &rules.bind {
            Some(bind) => self.bound_to(bind),
            None => None,
        };
        let Question { servers, seeks, asked, unrepeatable, target, head, stream, protocol } = question;
        let value = self.balancing_value(&servers);
        let key = self.balancing_key(&servers, value.as_deref());
        let ended = self.state.body.as_ref().is_some_and(|body| body.ended);
        let (groups, now) = (&self.loaded.groups, self.rest.clock.now);
        // It is written where it stays: what it holds are some hundred bytes.
        let mut relay = self.rest.spare.relay().unwrap_or_else(|| {
            Box::new(Relay { ask: Ask::new(AskSpec::none(), groups, now), rules: Arc::clone(&rules), expects: None })
        });
        let spec = AskSpec {
            mark: self.token,
            rules: AskRules { line_feeds: self.loaded.program.line_feeds, ..rules.ask },
            servers,
            key,
            protocol,
            seeks,
            from,
            asked,
            unrepeatable,
            // Of an answer whose head alone counts nginx takes no more.
            head_only: self.state.within.sub.as_ref().is_some_and(|sub| sub.purpose.is_head_only()),
            head,
            target,
            body: self.state.passed.body.take(),
            stream: stream.map(|stream| BodyStream { ended, ..stream }),
            memory: [self.rest.spare.bytes(), self.rest.spare.bytes()],
            tries: core::mem::take(&mut self.state.passed.tries),
        };
        relay.ask.renew(spec, groups, now);
        (relay.rules, relay.expects) = (rules, None);
        self.state.passed.relay = Some(relay);
        self.state.settings.patient = true;
        if self.state.settings.mark.is_some() {
            // It has waited, and what was left with it then was another; else it is when it waits.
            self.replies.set(self.state.id, &self.state.settings);
        }
        self.ask_step(Ask::ask)
    }

    /// Our own address towards servers (`proxy_bind`).
    fn bound_to(&mut self, bind: &Value) -> Option<IpAddr> {
        let text = self.scope().get(bind);
        if text.is_empty() || text == b"off" {
            return None;
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let found = text.parse().ok();
        if found.is_none() {
            self.tell(ErrorLevel::ERROR, || format!("invalid local address \"{text}\"").into_bytes());
        }
        found
    }

    /// Begins to read the body that is passed on: as [`Self::body_stream`] says, or whole.
    /// With it what the value of an `address` says. That is found out before the body is read,
    /// once, as by nginx (`ngx_http_proxy_eval`): of the body it knows nothing, and a body is left
    /// that has nowhere to go, where `check` refuses the address.
    /// What is to be waited for, or answered, where it cannot be passed on yet.
    pub(super) fn begin_body(
        &mut self,
        rules: &ProxyRules,
        has_end: bool,
        address: Option<&Value>,
        check: impl FnOnce(&mut Self, &[u8]) -> Result<(), u16>,
    ) -> Result<(Option<BodyStream>, Vec<u8>), Flow> {
        let known = self.state.passed.address.take();
        let address = match (known, address) {
            (Some(known), _) => known,
            (None, None) => Vec::new(),
            (None, Some(value)) => {
                let text = self.scope().get(value);
                check(self, &text).map_err(Flow::Status)?;
                text
            }
        };
        let stream = self.body_stream(rules, has_end).or_else(|()| self.repeat_body().then_some(None).ok_or(()));
        let Ok(stream) = stream else {
            self.tell(ErrorLevel::ERROR, || b"the body of the request was passed on already".to_vec());
            return Err(Flow::Status(502));
        };
        match self.read_body(if stream.is_some() { BodyReading::Streamed } else { BodyReading::Whole }) {
            Flow::On => Ok((stream, address)),
            flow => {
                self.state.passed.address = matches!(flow, Flow::Waits(_)).then_some(address);
                Err(flow)
            }
        }
    }

    /// Whether the body goes on as it comes, and where it `has_end` also one whose length
    /// nobody knows; an error where some of it is gone already.
    fn body_stream(&self, rules: &ProxyRules, has_end: bool) -> Result<Option<BodyStream>, ()> {
        let passes = rules.passes_body && rules.body.is_none();
        let Some(body) = self.state.body.as_deref().filter(|_| passes) else { return Ok(None) };
        // The length of chunks is known, where all of them are there.
        let block = self.loaded.program.block(self.state.route.block);
        let keeps = block.map_or(0, |block| block.body.buffer);
        let stream = BodyStream { length: body.length.or(body.at_hand), records: false, ended: false, keeps };
        // Without chunks there is no telling where it ends.
        let may = has_end || stream.length.is_some();
        match body.state {
            BodyState::Streamed(0) if may => Ok(Some(stream)),
            BodyState::Streamed(_) => Err(()),
            BodyState::Left if may && !rules.request_buffering => Ok(Some(stream)),
            _ => Ok(None),
        }
    }

    /// Where the request goes, by what the value of its `address` says; the status of one that goes nowhere.
    fn destination(&mut self, rules: &ProxyRules, pass: &ProxyPass, address: &[u8]) -> Result<Destination, u16> {
        match pass {
            ProxyPass::Fixed(fixed) => {
                self.state.passed.host.clear();
                self.state.passed.host.extend_from_slice(&fixed.host);
                self.state.passed.port.clone_from(&fixed.port);
                Ok(Destination {
                    choice: Servers::Group(fixed.group.0),
                    uri: fixed.uri.to_vec(),
                    is_whole: false,
                    location: fixed.location,
                    secured: fixed.secured,
                    host: if fixed.secured { self.group_name(fixed.group.0) } else { Vec::new() },
                })
            }
            ProxyPass::Computed { location, .. } => self.computed(address, *location, rules.is_grpc),
        }
    }

    /// Whom connections are to lead to that are secured; `host` is that of the URL.
    pub(super) fn sought(&mut self, rules: &ProxyRules, host: &[u8]) -> Option<Box<Sought>> {
        let secured = rules.tls.as_deref()?;
        let asks = secured.tells_name || secured.tls.verifies();
        let mut name = match &secured.name {
            _ if !asks => Vec::new(),
            Some(name) => self.scope().get(name),
            None => host.to_vec(),
        };
        // It may have a port, as `$http_host` and `$proxy_host` do.
        let from = if name.first() == Some(&b'[') { name.iter().position(|byte| *byte == b']') } else { None };
        let from = from.unwrap_or(0);
        if let Some(colon) = name[from..].iter().position(|byte| *byte == b':') {
            name.truncate(from + colon);
        }
        let text = core::str::from_utf8(&name).ok().filter(|text| {
            // Addresses are told to nobody (RFC 6066 section 3).
            secured.tells_name && !text.is_empty() && !text.starts_with('[') && text.parse::<Ipv4Addr>().is_err()
        });
        let told = text.map(Box::from);
        let (tls, name) = (Arc::clone(&secured.tls), name.into());
        let shows = secured.shows.as_ref().and_then(|shows| self.shown(shows));
        Some(Box::new(Sought { tls, told, name, shows, peer: Box::default() }))
    }

    /// What an upstream is shown that asks who we are, by what is known of the request; none where that names
    /// no certificate.
    fn shown(&mut self, by_value: &OwnCertificateByValue) -> Option<OwnDemand> {
        let mut scope = self.scope();
        let mut path = |value| {
            let path = scope.get(value);
            let is_whole = path.is_empty() || path.starts_with(b"/");
            if is_whole { path } else { [&by_value.folder, &*path].concat() }
        };
        let certificate = path(&by_value.certificate);
        let key = path(&by_value.key);
        let files = CertificateFiles { certificate, key };
        (!files.certificate.is_empty()).then(|| OwnDemand { source: Arc::clone(&by_value.source), files })
    }

    /// What a URL says that was found out now, for `$proxy_host` and `$proxy_port`, too; the
    /// status if it is none.
    fn parsed<'u>(&mut self, text: &'u [u8], is_grpc: bool) -> Result<(ProxyUrl<'u>, Option<u16>), u16> {
        let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let parsed = match if is_grpc { ProxyUrl::parse_grpc(text) } else { ProxyUrl::parse(text) } {
            Ok(parsed) => parsed,
            Err(why) => {
                self.tell(ErrorLevel::ERROR, || match why {
                    proxy::url::UrlError::Prefix => format!("invalid URL prefix in \"{}\"", shown(text)).into_bytes(),
                    why => format!("{why} in upstream \"{}\"", shown(text)).into_bytes(),
                });
                return Err(500);
            }
        };
        // gRPC has no port that goes without saying.
        let usual = (!is_grpc).then(|| parsed.usual_port());
        self.state.passed.host.clear();
        parsed.place.write_host(usual.unwrap_or(0), &mut self.state.passed.host);
        self.state.passed.port = usual.and_then(|usual| parsed.place.port_text(usual)).map(Arc::from);
        Ok((parsed, usual))
    }

    fn computed(&mut self, text: &[u8], location: Option<usize>, is_grpc: bool) -> Result<Destination, u16> {
        let (parsed, usual) = self.parsed(text, is_grpc)?;
        let mut uri = parsed.uri.to_vec();
        if uri.first() == Some(&b'?') {
            uri.insert(0, b'/');
        }
        let (secured, host) = (parsed.secured, parsed.place.name().to_vec());
        let choice = self.choice_of(parsed.place, usual)?;
        Ok(Destination { choice, is_whole: !uri.is_empty(), uri, location, secured, host })
    }

    /// Writes the head. The method that is asked with, whether asking twice may do twice
    /// what is asked, and where in the head the target stands; nothing if it would be no
    /// request.
    fn write_request(
        &mut self,
        rules: &Arc<ProxyRules>,
        destination: &Destination,
        stream: Option<BodyStream>,
        out: &mut Vec<u8>,
    ) -> Option<(Method, bool, (u32, u32))> {
        match &rules.method {
            Some(method) => self.scope().write(method, out),
            None => out.extend_from_slice(match self.state.method {
                Method::Other => self.request.method_name(),
                method => method.name().as_bytes(),
            }),
        }
        if out.is_empty() || !out.iter().all(|byte| semantics::scan::is_token(*byte)) {
            self.tell(ErrorLevel::ERROR, || b"invalid method to proxy".to_vec());
            return None;
        }
        let (method, unrepeatable) = (Method::from_name(out), is_unrepeatable(out));
        out.push(b' ');
        let start = out.len();
        if destination.is_whole {
            out.extend_from_slice(&destination.uri);
        } else {
            let state = &*self.state;
            let sent = super::facts::target_path(self.request);
            let source = TargetSource {
                sent,
                as_sent: !state.route.rewritten.ever && sent.first() == Some(&b'/'),
                path: &state.route.uri,
                query: &state.route.args,
                quoted: state.route.internal || is_quoted(self.request.path()),
                location: if state.route.rewritten.here { None } else { Some(destination.location.unwrap_or(0)) },
            };
            target::write(&source, &destination.uri, out);
        }
        target::make_safe(out, start);
        let end = out.len();
        if end == start {
            self.tell(ErrorLevel::ERROR, || b"zero length URI to proxy".to_vec());
            return None;
        }
        out.extend_from_slice(rules.version.line_end());
        self.write_fields(rules, stream, out);
        out.extend_from_slice(b"\r\n");
        Some((method, unrepeatable, (start as u32, end as u32)))
    }

    fn write_fields(&mut self, rules: &Arc<ProxyRules>, stream: Option<BodyStream>, out: &mut Vec<u8>) {
        let request = Arc::clone(&rules.request);
        for (name, field) in &request.fields {
            // Most requests have no body, and nothing to say of one.
            match field {
                RequestField::BodyLength if stream.is_none() && !self.has_body_length() => continue,
                RequestField::Chunked if self.is_framed(rules) => continue,
                RequestField::Chunked if stream.is_none_or(|stream| stream.length.is_some()) => continue,
                RequestField::Trailers if !self.takes_trailers() => continue,
                _ => {}
            }
            let line = out.len();
            out.extend_from_slice(name);
            let start = out.len();
            match field {
                RequestField::Lines => continue,
                RequestField::Value(value) => self.write_value(value, out),
                RequestField::Host => out.extend_from_slice(&self.state.passed.host),
                RequestField::HostOr(value) => {
                    self.scope().write(value, out);
                    if out.len() == start {
                        out.extend_from_slice(&self.state.passed.host);
                    }
                }
                RequestField::BodyLength => match stream {
                    Some(stream) => match stream.length {
                        Some(length) => _ = put_number(out, length),
                        // One that is over without a byte, as was told.
                        None if self.request.known(Known::ContentLength) == Some(b"0") => out.push(b'0'),
                        None => {}
                    },
                    None => self.write_body_length(out),
                },
                // What was read has a length.
                RequestField::Trailers => out.extend_from_slice(b"trailers"),
                RequestField::Chunked => out.extend_from_slice(b"chunked"),
            }
            match out.len() > start {
                true => proxy::fields::end_line(start, out),
                false => out.truncate(line),
            }
        }
        if !rules.passes_fields {
            return;
        }
        let loaded = Rc::clone(&self.loaded);
        let server = loaded.program.server(self.state.route.server);
        for field in self.request.fields() {
            let ignored = server.is_some_and(|server| server.ignores_field(field.name));
            if !ignored && !request.replaced.has(field.name) {
                proxy::fields::put(field.name, field.value, out);
            }
        }
    }

    /// Writes the value of a field. That the answer depends on the request is known whatever it is made of, so
    /// that one of nginx's own variables that is all of it is written without another look.
    fn write_value(&mut self, value: &Value, out: &mut Vec<u8>) {
        let sole = value.sole_variable().and_then(|number| self.loaded.program.variables.get(number));
        match sole {
            Some(&Variable::Core(core)) if core != Core::LimitRate => _ = self.scope().core(core, out),
            _ => self.scope().write(value, out),
        }
    }

    /// Whether bodies have frames, whatever is said of them.
    fn is_framed(&self, rules: &ProxyRules) -> bool {
        rules.version == UpstreamVersion::Http2
    }

    /// Whether the client takes trailers.
    fn takes_trailers(&self) -> bool {
        let told = self.request.fields().filter(|field| field.is("te"));
        told.into_iter().any(|field| field.value.windows(8).any(|word| word.eq_ignore_ascii_case(b"trailers")))
    }

    /// Whether a body that is passed on, or the lack of one, has a length to be told.
    fn has_body_length(&self) -> bool {
        self.state.passed.body.is_some() || self.request.at().has(Known::ContentLength)
    }

    /// Writes how long the body is that is passed on; nothing if there is none.
    fn write_body_length(&self, out: &mut Vec<u8>) {
        match self.state.passed.body.as_ref().map(BodyContent::length) {
            Some(length) => _ = put_number(out, length),
            // It said so of a body that has nothing.
            None if self.request.known(Known::ContentLength).is_some() => out.push(b'0'),
            None => {}
        }
    }
}

/// Whether a path was sent with something percent-encoded.
fn is_quoted(path: &[u8]) -> bool {
    path.contains(&b'%')
}
