//! Requests that are passed on to programs: what they are told.

use super::relay_request::Question;
use super::runner::{Flow, Runner};
use asking::{BodyStream, ProgramAnswer, ProgramRules, Protocol, Servers};
use bodies::BodyContent;
use cgi::Params;
use configuration::gateways::{GatewayPass, GatewayProtocol, GatewayRules, GatewayTarget};
use configuration::program::Block;
use features::ErrorLevel;
use proxy::next::is_unrepeatable;
use proxy::url::{ProxyUrl, UpstreamPlace, UrlError};
use semantics::Method;
use std::rc::Rc;
use std::sync::Arc;

impl Runner<'_> {
    /// Passes the request on to a program.
    pub(super) fn pass_to_program(&mut self, block: &Block, pass: &GatewayPass) -> Flow {
        self.state.reuse.depends.on(super::request_state::Depends::OTHER);
        let rules = block.gateways.of(pass.protocol);
        let is_fastcgi = pass.protocol == GatewayProtocol::FastCgi;
        let address = match &pass.to {
            GatewayTarget::Group(_) => None,
            GatewayTarget::Computed(value) => Some(value),
        };
        let begun = self.begin_body(&rules.relay, is_fastcgi, address, |runner, text| {
            runner.place_of(program_address(pass.protocol, text).1).map(drop)
        });
        let (stream, address) = match begun {
            Ok(begun) => begun,
            Err(flow) => return flow,
        };
        let stream = stream.filter(|stream| stream.length != Some(0));
        let stream = stream.map(|stream| BodyStream { records: is_fastcgi, ..stream });
        let (choice, secured, host) = match &pass.to {
            GatewayTarget::Group(group) => (Servers::Group(group.0), pass.secured, self.group_name(group.0)),
            GatewayTarget::Computed(_) => {
                let (secured, text) = program_address(pass.protocol, &address);
                match self.program_at(text) {
                    Ok((choice, host)) => (choice, secured, host),
                    Err(status) => return Flow::Status(status),
                }
            }
        };
        let content = self.body_content().filter(|_| rules.relay.passes_body);
        let length = match stream {
            Some(stream) => stream.length,
            None => Some(content.as_ref().map_or(0, BodyContent::length)),
        };
        self.state.passed.body = content.filter(|_| length > Some(0));
        let params = self.params(rules);
        let program = ProgramRules {
            protocol: pass.protocol,
            head_max: rules.relay.ask.head_max,
            keeps: rules.keeps,
            catches: Arc::clone(&rules.catches),
            modifiers: rules.modifiers,
        };
        let head = match program.head(&params, length) {
            Ok(head) => head,
            Err(why) => {
                self.tell(ErrorLevel::ERROR, || format!("request to a program: {why}").into_bytes());
                return Flow::Status(500);
            }
        };
        let asked = self.state.method;
        let unrepeatable = is_unrepeatable(match asked {
            Method::Other => self.request.method_name(),
            asked => asked.name().as_bytes(),
        });
        let relay = Arc::clone(&rules.relay);
        let seeks = secured.then(|| self.sought(&relay, &host)).flatten();
        let protocol = Protocol::Program(Box::new(ProgramAnswer::new(program, asked == Method::Head)));
        let target = (0, 0);
        let question = Question { servers: choice, seeks, asked, unrepeatable, target, head, stream, protocol };
        self.begin_relay(relay, question)
    }

    /// Who is meant by an address that was found out now.
    fn program_at(&mut self, text: &[u8]) -> Result<(Servers, Vec<u8>), u16> {
        let place = self.place_of(text)?;
        let host = place.name().to_vec();
        Ok((self.choice_of(place, None)?, host))
    }

    /// What such an address says; the status if it is none.
    fn place_of<'t>(&self, text: &'t [u8]) -> Result<UpstreamPlace<'t>, u16> {
        let shown = || String::from_utf8_lossy(text).into_owned();
        let unix = text.get(..5).filter(|start| start.eq_ignore_ascii_case(b"unix:"));
        let parsed = match unix {
            Some(_) if text.len() == 5 => Err(UrlError::Path),
            Some(_) => Ok(UpstreamPlace::Unix { path: &text[5..] }),
            None => ProxyUrl::parse_rest(text).and_then(|url| match url.uri {
                b"" => Ok(url.place),
                _ => Err(UrlError::Host),
            }),
        };
        parsed.map_err(|why| {
            self.tell(ErrorLevel::ERROR, || format!("{why} in upstream \"{}\"", shown()).into_bytes());
            500
        })
    }

    /// What a program is told: parameters, and fields that none of them stands for.
    fn params(&mut self, rules: &GatewayRules) -> Params {
        let mut params = Params::new();
        for param in &*rules.params {
            let value = self.scope().get(&param.value);
            if !(param.if_not_empty && value.is_empty()) {
                params.add(&param.name, &value);
            }
        }
        if !rules.relay.passes_fields {
            return params;
        }
        let loaded = Rc::clone(&self.loaded);
        let server = loaded.program.server(self.state.route.server);
        let ignored = |name: &[u8]| {
            let is_param = |param: &configuration::gateways::GatewayParam| {
                param.name.strip_prefix(b"HTTP_").is_some_and(|written| is_field(written, name))
            };
            server.is_some_and(|server| server.ignores_field(name))
                || rules.params.iter().any(is_param)
                // What programs take for the address of their own proxy (CVE-2016-5385).
                || name.eq_ignore_ascii_case(b"proxy")
        };
        let mut told: Vec<&[u8]> = Vec::new();
        for field in self.request.fields() {
            if ignored(field.name) || told.iter().any(|name| name.eq_ignore_ascii_case(field.name)) {
                continue;
            }
            told.push(field.name);
            // Fields of one name are one value, as they mean the same (RFC 9110 section 5.3).
            let glue: &[u8] = if field.is("cookie") { b"; " } else { b", " };
            let same = self.request.fields().filter(|other| other.name.eq_ignore_ascii_case(field.name));
            let values: Vec<&[u8]> = same.map(|other| other.value).collect();
            params.add_field(field.name, &values.join(glue));
        }
        params
    }
}

/// Whether an address is asked over TLS, and what follows the scheme, which uwsgi's alone have.
fn program_address(protocol: GatewayProtocol, text: &[u8]) -> (bool, &[u8]) {
    if protocol != GatewayProtocol::Uwsgi {
        return (false, text);
    }
    let starts = |with: &[u8]| text.len() > with.len() && text[..with.len()].eq_ignore_ascii_case(with);
    match () {
        () if starts(b"uwsgi://") => (false, &text[8..]),
        () if starts(b"suwsgi://") => (true, &text[9..]),
        () => (false, text),
    }
}

/// Whether a parameter's name, behind `HTTP_`, stands for a field.
fn is_field(written: &[u8], name: &[u8]) -> bool {
    let letter = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    written.len() == name.len() && written.iter().map(u8::to_ascii_uppercase).eq(name.iter().map(letter))
}
