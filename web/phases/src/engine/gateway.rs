//! Requests that are passed on to programs: what they are told, and what they say.

use super::gateway_answer::GatewayAnswer;
use super::relay::{BodyStream, Choice, Relay, RelayStage};
use super::run::{Flow, Runner};
use super::values::Scope;
use super::{Engine, Rest};
use crate::gateways::GatewayTarget;
use crate::gateways::{GatewayPass, GatewayProtocol, GatewayRules};
use crate::program::Block;
use bodies::BodyContent;
use cgi::answer::{AnswerEnd, AnswerError, AnswerRules, CgiProtocol, StderrLine};
use cgi::head::HeadRules;
use cgi::{ParamError, Params, fastcgi, scgi, uwsgi};
use exchange::{Replies, UpstreamEvent, UpstreamId};
use features::ErrorLevel;
use proxy::next::{Failure, is_unrepeatable};
use proxy::url::{ProxyUrl, UpstreamPlace, UrlError};
use semantics::Method;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of an answer that are read at once while its head comes.
const PIECE: usize = 4 << 10;

impl Scope<'_> {
    /// `$fastcgi_script_name` or, with `info`, `$fastcgi_path_info`.
    pub(super) fn script_name(&mut self, info: bool, out: &mut Vec<u8>) -> bool {
        let Some(block) = self.block() else { return false };
        let rules = &block.gateways.fastcgi;
        let mut script = 0..self.course.uri.len();
        if let Some(split) = rules.split {
            let subject = self.course.uri.clone();
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
        let script = self.course.uri.get(script).unwrap_or_default();
        out.extend_from_slice(script);
        if script.last() == Some(&b'/') {
            out.extend_from_slice(&rules.index);
        }
        true
    }
}

impl Runner<'_> {
    /// Passes the request on to a program.
    pub(super) fn pass_to_program(&mut self, block: &Block, pass: &GatewayPass) -> Flow {
        self.course.depends.on(super::course::Depends::OTHER);
        let rules = block.gateways.of(pass.protocol);
        let is_fastcgi = pass.protocol == GatewayProtocol::FastCgi;
        let stream = match self.begin_body(&rules.relay, is_fastcgi) {
            Ok(stream) => stream,
            Err(flow) => return flow,
        };
        let stream = stream.filter(|stream| stream.length != Some(0));
        let stream = stream.map(|stream| BodyStream { records: is_fastcgi, ..stream });
        let (choice, secured, host) = match &pass.to {
            GatewayTarget::Group(group) => (Choice::Group(group.0), pass.secured, self.group_name(group.0)),
            GatewayTarget::Computed(value) => {
                let text = self.scope().get(value);
                let (secured, text) = match pass.protocol {
                    GatewayProtocol::Uwsgi => without_scheme(&text),
                    _ => (false, text.as_slice()),
                };
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
        self.course.relay_body = content.filter(|_| length > Some(0));
        let params = self.params(rules);
        let head = match write_head(pass.protocol, rules, &params, length) {
            Ok(head) => head,
            Err(why) => {
                self.tell(ErrorLevel::ERROR, || format!("request to a program: {why}").into_bytes());
                return Flow::Status(500);
            }
        };
        let asked = self.course.method;
        let answer_rules = AnswerRules {
            protocol: if is_fastcgi { CgiProtocol::FastCgi } else { CgiProtocol::Plain },
            head: HeadRules { bytes: rules.relay.head_max as usize, status_line: !is_fastcgi },
            bodyless: asked == Method::Head,
            waits_for_end: rules.keeps,
        };
        let answer = GatewayAnswer::new(pass.protocol, answer_rules, rules);
        let unrepeatable = is_unrepeatable(match asked {
            Method::Other => self.request.method_name(),
            asked => asked.name().as_bytes(),
        });
        let relay = Arc::clone(&rules.relay);
        let seeks = secured.then(|| self.sought(&relay, &host)).flatten();
        self.begin_relay(relay, choice, (asked, unrepeatable, (0, 0)), (head, stream), Some(Box::new(answer)));
        if let Some(relay) = self.relay() {
            relay.seeks = seeks;
        }
        self.ask_next()
    }

    /// Who is meant by an address that was found out now.
    fn program_at(&mut self, text: &[u8]) -> Result<(Choice, Vec<u8>), u16> {
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
        let place = parsed.map_err(|why| {
            self.tell(ErrorLevel::ERROR, || format!("{why} in upstream \"{}\"", shown()).into_bytes());
            500_u16
        })?;
        let host = place.name().to_vec();
        Ok((self.choice_of(place, None)?, host))
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
        let server = loaded.program.servers.get(usize::from(self.course.server.0));
        let ignored = |name: &[u8]| {
            let is_param = |param: &crate::gateways::GatewayParam| {
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

/// Whether an address is asked over TLS, and what follows the scheme.
fn without_scheme(text: &[u8]) -> (bool, &[u8]) {
    let starts = |with: &[u8]| text.len() > with.len() && text[..with.len()].eq_ignore_ascii_case(with);
    match () {
        () if starts(b"uwsgi://") => (false, &text[8..]),
        () if starts(b"suwsgi://") => (true, &text[9..]),
        () => (false, text),
    }
}

/// What is sent before a body of this length; one without goes in records.
fn write_head(
    protocol: GatewayProtocol,
    rules: &GatewayRules,
    params: &Params,
    length: Option<u64>,
) -> Result<Vec<u8>, ParamError> {
    let mut head = Vec::with_capacity(params.bytes() + 256);
    match protocol {
        GatewayProtocol::FastCgi => {
            fastcgi::begin(params, rules.keeps, &mut head)?;
            // Behind a body its end follows.
            if length == Some(0) {
                fastcgi::end_stdin(&mut head);
            }
        }
        GatewayProtocol::Uwsgi => uwsgi::packet(params, rules.modifiers, &mut head)?,
        GatewayProtocol::Scgi => scgi::netstring(params, length.unwrap_or(0), &mut head)?,
    }
    Ok(head)
}

/// Whether a parameter's name, behind `HTTP_`, stands for a field.
fn is_field(written: &[u8], name: &[u8]) -> bool {
    let letter = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    written.len() == name.len() && written.iter().map(u8::to_ascii_uppercase).eq(name.iter().map(letter))
}

impl Engine {
    /// Something happened at a connection to a program: what it says is made HTTP's, and
    /// read as that. How many bytes were taken.
    pub(super) fn on_program_event(
        &mut self,
        replies: &mut dyn Replies,
        (id, token): (UpstreamId, u32),
        event: UpstreamEvent<'_>,
    ) -> usize {
        match event {
            UpstreamEvent::Data(bytes) => self.on_program_bytes(replies, (id, token), bytes),
            UpstreamEvent::End { held } => {
                let Some(relay) = self.rest.relay_of(token) else { return 0 };
                if let Some(answer) = relay.gateway.as_deref_mut().filter(|_| held > 0) {
                    // What waits comes first.
                    answer.ended = true;
                    if !relay.held {
                        replies.resume_upstream(id);
                    }
                    return 0;
                }
                self.on_program_end(replies, (id, token));
                0
            }
            event => self.on_plain_event(replies, (id, token), event),
        }
    }

    fn on_program_bytes(&mut self, replies: &mut dyn Replies, (id, token): (UpstreamId, u32), bytes: &[u8]) -> usize {
        let mut all = 0;
        while all < bytes.len() {
            let most = match self.rest.room_for(replies, token, id) {
                Some(most) => most,
                // It is over: nothing more is wanted.
                None => return bytes.len(),
            };
            let Some(relay) = self.rest.relay_of(token) else { return bytes.len() };
            if most == 0 {
                relay.held = true;
                replies.set_upstream_timer(id, None);
                return all;
            }
            let allowed = self.rest.allowed_of_program(replies, token, id);
            if allowed == 0 {
                return all;
            }
            let piece = &bytes[all..bytes.len().min(all + most.min(allowed))];
            let Some(relay) = self.rest.relay_of(token) else { return bytes.len() };
            let Some(answer) = relay.gateway.as_deref_mut() else { return bytes.len() };
            let read = answer.reader.read(piece, &mut answer.made);
            let mut errors = answer.reader.take_errors();
            let counted = answer.counted();
            let surplus = answer.reader.has_surplus() && !answer.surplus_told;
            answer.surplus_told |= surplus;
            // What follows is of no answer.
            let caught = errors.iter().position(|line| answer.catches(line));
            errors.truncate(caught.map_or(errors.len(), |at| at + 1));
            all += piece.len();
            if let Some(last) = self.rest.try_of(token) {
                (last.received, last.length) = counted;
            }
            if !errors.is_empty() || surplus {
                self.with_runner(replies, token, |runner| runner.tell_of_program(&errors, surplus));
            }
            if caught.is_some() {
                self.run_early(replies, token, |runner| runner.failed(Failure::InvalidHeader));
                return bytes.len();
            }
            // What stands before the fault counts.
            self.offer_made(replies, (id, token));
            if let Err(why) = read {
                self.on_program_fault(replies, (id, token), why);
                return bytes.len();
            }
        }
        let ended = |relay: &mut Relay| relay.gateway.as_ref().is_some_and(|answer| answer.ended);
        if self.rest.relay_of(token).is_some_and(ended) {
            self.on_program_end(replies, (id, token));
        }
        all
    }

    /// What was made of an answer is read.
    fn offer_made(&mut self, replies: &mut dyn Replies, (id, token): (UpstreamId, u32)) {
        loop {
            let Some(relay) = self.rest.relay_of(token).filter(|relay| relay.link == Some(id)) else { return };
            let Some(answer) = relay.gateway.as_deref_mut() else { return };
            let mut made = core::mem::take(&mut answer.made);
            if made.is_empty() {
                return;
            }
            let taken = self.on_plain_event(replies, (id, token), UpstreamEvent::Data(&made));
            made.drain(..taken.min(made.len()));
            let Some(relay) = self.rest.relay_of(token).filter(|relay| relay.link == Some(id)) else { return };
            if let Some(answer) = relay.gateway.as_deref_mut() {
                answer.made = made;
            }
            if taken == 0 {
                return;
            }
        }
    }

    /// The program's connection has ended.
    fn on_program_end(&mut self, replies: &mut dyn Replies, (id, token): (UpstreamId, u32)) {
        let Some(answer) = self.rest.relay_of(token).and_then(|relay| relay.gateway.as_deref_mut()) else { return };
        let ended = answer.reader.end(&mut answer.made);
        self.offer_made(replies, (id, token));
        match ended {
            Err(why) => self.on_program_fault(replies, (id, token), why),
            Ok(()) if self.rest.relay_of(token).is_some_and(|relay| relay.link == Some(id)) => {
                _ = self.on_plain_event(replies, (id, token), UpstreamEvent::End { held: 0 });
            }
            Ok(()) => {}
        }
    }

    /// What a program says is no answer.
    fn on_program_fault(&mut self, replies: &mut dyn Replies, (id, token): (UpstreamId, u32), why: AnswerError) {
        let Some(relay) = self.rest.relay_of(token).filter(|relay| relay.link == Some(id)) else { return };
        if relay.stage == RelayStage::Body {
            return self.cut_answer(replies, token, why.to_string());
        }
        let failure = match why {
            AnswerError::EndInHead(AnswerEnd::Connection) | AnswerError::EndInBody(_) => Failure::Error,
            AnswerError::EndInHead(_) | AnswerError::Record(_) | AnswerError::Head(_) => Failure::InvalidHeader,
        };
        let told = why.to_string();
        self.run_early(replies, token, |runner| {
            runner.tell_of_upstream(&told, runner.doing());
            runner.failed(failure)
        });
    }
}

impl Runner<'_> {
    /// A program has something to say of errors, or says more than its answer's length.
    fn tell_of_program(&self, errors: &[StderrLine], surplus: bool) {
        for line in errors {
            let said = String::from_utf8_lossy(trimmed(&line.text));
            let doing = if line.in_head { "reading response header from upstream" } else { "reading upstream" };
            self.tell_of_upstream(&format!("FastCGI sent in stderr: \"{said}\""), doing);
        }
        if surplus {
            let told = "upstream sent more data than specified in \"Content-Length\" header";
            self.tell_at(ErrorLevel::WARN, told, "reading upstream");
        }
    }
}

/// What is said of errors, without the end of its last line, or of its last sentence.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_kept = |byte: &u8| !matches!(byte, b'\n' | b'\r' | b'.' | b' ');
    let end = text.iter().rposition(is_kept).unwrap_or(0);
    text.get(..=end).unwrap_or(text)
}

impl Rest {
    /// How many bytes of an answer are read at once: no more than are taken of what they
    /// come to. None if nothing of it is wanted.
    fn room_for(&mut self, replies: &dyn Replies, token: u32, id: UpstreamId) -> Option<usize> {
        let unsent_max = self.makings.relayed_max();
        let course = self.courses.get_mut(token as usize)?.as_deref_mut()?;
        let relay = course.relay.as_deref().filter(|relay| relay.link == Some(id))?;
        Some(match relay.stage {
            // The end of a chunk has its room, too.
            RelayStage::Body => course.room_for_body(replies, unsent_max).saturating_sub(1),
            _ => PIECE.min(relay.ahead_max().saturating_sub(1)).max(1),
        })
    }

    /// The server that a request was passed on to last.
    fn try_of(&mut self, token: u32) -> Option<&mut super::relay::UpstreamTry> {
        self.courses.get_mut(token as usize)?.as_deref_mut()?.tries.last_mut()
    }
}
