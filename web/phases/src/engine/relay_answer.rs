//! The head of an upstream's answer: whether it is one, and what clients are told of it.

use super::content::{Answer, AnswerBody};
use super::put::count_lines;
use super::relay::{Relay, RelayStage};
use super::relay_run::Came;
use super::run::{Flow, Runner};
use super::text::put_field;
use super::tunnel_pace::TunnelPace;
use super::waits::On;
use crate::program::FilterSet;
use crate::proxying::{CookieFlagRule, ProxyRules, Rewrite, RewritePattern};
use core::mem;
use core::ops::Range;
use exchange::Reply;
use features::ErrorLevel;
use gzip::Coding;
use h1::Framing;
use h1::client::{Error, ResponseEvent, ResponseLimits};
use proxy::accel;
use proxy::fields::{Accel, AnswerField, misframed, misnamed};
use proxy::next::Failure;
use proxy::rewrite::{self, Cookie, CookieFlags, Replacement};
use semantics::{Field, Fields};
use semantics::{Method, Status, date};
use std::rc::Rc;
use std::sync::Arc;
use wire::Time;

/// Where a cookie or a redirect is rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Start(usize),
    Domain,
}

impl Runner<'_> {
    /// Bytes of an answer whose head is not whole.
    pub(super) fn on_head_bytes(&mut self, bytes: &[u8]) -> Came {
        let now = self.clock.now;
        let Some(relay) = self.course.relay.as_deref_mut() else {
            return Came { flow: Flow::Waits(On::Source), taken: 0 };
        };
        if relay.stage == RelayStage::Connects || relay.link.is_none() {
            return Came { flow: Flow::Waits(On::Source), taken: 0 };
        }
        let (at, hints, failed) = relay.read_head(bytes, now, self.loaded.program.line_feeds);
        if !hints.is_empty()
            && let Err(came) = self.on_hints(&hints, bytes.len())
        {
            return came;
        }
        let Some(relay) = self.course.relay.as_deref_mut() else {
            return Came { flow: Flow::Waits(On::Source), taken: 0 };
        };
        if let Some(error) = failed {
            let told = head_fault(error, bytes.get(at..).unwrap_or_default());
            self.tell_of_upstream(&told, "reading response header from upstream");
            return Came { flow: self.failed(Failure::InvalidHeader), taken: bytes.len() };
        }
        if relay.stage != RelayStage::Body {
            // Interim answers are taken; of a head that is not whole nothing is.
            let more = at > 0 && bytes.len() > usize::from(relay.head_limits().head);
            if let (Some(link), true) = (relay.link, at > 0) {
                self.replies.set_upstream_timer(link, Some(now + relay.rules.read));
            }
            if let Some(last) = self.course.tries.last_mut().filter(|_| relay.gateway.is_none()) {
                last.received += at as u64;
            }
            // What is behind them was not looked at: it may be a head.
            let rest = if more {
                self.on_head_bytes(bytes.get(at..).unwrap_or_default())
            } else {
                Came::nothing(Flow::Waits(On::Source))
            };
            return Came { flow: rest.flow, taken: at + rest.taken };
        }
        let taken = at + relay.take_whole(bytes.get(at..).unwrap_or_default());
        // Behind 101 the connection is a tunnel.
        let surplus = if relay.complete && relay.status != 101 { bytes.len() - taken } else { 0 };
        if let Some(last) = self.course.tries.last_mut() {
            last.status = relay.status;
            last.header = Some(now.since(last.began));
            if relay.gateway.is_none() {
                last.received += taken as u64 + surplus as u64;
            }
        }
        self.on_surplus(surplus);
        Came { flow: self.on_answer(surplus), taken: taken + surplus }
    }

    /// The upstream says so many bytes more than was asked for: nothing else is asked of it
    /// on this connection.
    pub(super) fn on_surplus(&mut self, bytes: usize) {
        let Some(relay) = self.course.relay.as_deref_mut().filter(|_| bytes > 0) else { return };
        relay.keeps = false;
        let told = match relay.length {
            // Nothing of a body is looked at.
            Some(0) => return,
            Some(_) => "upstream sent more data than specified in \"Content-Length\" header",
            None => "upstream sent data after final chunk",
        };
        self.tell_at(ErrorLevel::WARN, told, "reading upstream");
    }

    /// The head of an answer is whole; `surplus` bytes came behind all of it.
    fn on_answer(&mut self, surplus: usize) -> Flow {
        let Some(relay) = self.course.relay.as_deref() else { return Flow::Status(500) };
        let (status, rules) = (relay.status, Arc::clone(&relay.rules));
        if status >= 300 {
            let failure = Failure::Status(status);
            let late = rules.tries_for.is_some_and(|most| self.clock.now.since(relay.began) >= most);
            if relay.attempts.left() > 1 && !late && rules.next.has(failure, relay.unrepeatable) {
                return self.failed(failure);
            }
        }
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return Flow::Status(500) };
        let block = &loaded.program.blocks[at];
        if status >= 300 && rules.intercepts && block.error_pages.iter().any(|page| page.status == status) {
            self.keep_answer();
            if status == 401 {
                self.keep_fields(|field| field.is("www-authenticate"));
            }
            self.give_up_relay();
            return Flow::Status(status);
        }
        self.keep_answer();
        self.set_rate();
        if let Some(flow) = self.accelerated(&rules) {
            return flow;
        }
        let slice = match self.take_slice() {
            Ok(slice) => slice,
            Err(flow) => return flow,
        };
        let Some(relay) = self.course.relay.as_deref() else { return Flow::Status(500) };
        if status == 101 {
            if self.request.fields().any(|field| field.is("upgrade")) {
                return self.begin_tunnel();
            }
            self.tell_of_upstream("upstream sent unexpected upgrade", "reading response header from upstream");
            return self.failed(Failure::InvalidHeader);
        }
        // Of an answer whose head alone counts nginx takes no more.
        let is_head_only = self.course.sub.as_ref().is_some_and(|sub| sub.purpose.is_head_only());
        let whole = relay.whole.as_ref().filter(|_| !is_head_only).map_or(0, Vec::len) as u64;
        if let Some(last) = self.course.tries.last_mut().filter(|_| relay.gateway.is_none()) {
            // As nginx counts it, with what nobody asked for.
            last.length += if whole > 0 { whole + surplus as u64 } else { 0 };
        }
        let answer = self.answer_of(&rules, slice);
        let flow = self.send(answer);
        let comes = self.course.filtering.is_some() && flow == Flow::Done;
        let complete = self.relay().is_some_and(|relay| relay.complete);
        // All of it came with its head, whatever that says of a length; but for slices that follow.
        if let (true, None, Some(filtering)) = (complete, &self.course.slices, self.course.filtering.as_deref_mut()) {
            filtering.end_whole();
        }
        if !comes || complete {
            self.end_relay();
        }
        flow
    }

    /// The fields are kept for what is logged of them.
    fn keep_answer(&mut self) {
        if let Some(relay) = self.course.relay.as_deref() {
            self.course.answered.clear();
            self.course.answered.extend_from_slice(relay.fields());
        }
    }

    /// Fields of the answer go to whatever answers in its place.
    fn keep_fields(&mut self, which: impl Fn(&Field<'_>) -> bool) {
        let answered = core::mem::take(&mut self.course.answered);
        for field in Fields::new(&answered).filter(|field| which(field)) {
            put_field(field.name, field.value, &mut self.course.kept_fields);
        }
        self.course.answered = answered;
    }

    /// Fields of an answer that asks for another path of ours go to that path's answer:
    /// cookies as they would have gone to the client.
    fn keep_along(&mut self, rules: &Arc<ProxyRules>) {
        let answered = core::mem::take(&mut self.course.answered);
        for Field { name, value } in Fields::new(&answered).filter(|field| AnswerField::goes_along(field.name)) {
            let cookie = if AnswerField::of(name) == AnswerField::SetCookie { self.cookie(rules, value) } else { None };
            put_field(name, cookie.as_deref().unwrap_or(value), &mut self.course.kept_fields);
        }
        self.course.answered = answered;
    }

    /// What the upstream asks of us; the end where another path of ours answers.
    fn accelerated(&mut self, rules: &Arc<ProxyRules>) -> Option<Flow> {
        if !may_ask(&self.course.answered) {
            return None;
        }
        let (mut to, mut rate, mut buffering, mut media_type, mut charset) = (None, None, None, None, None);
        for Field { name, value } in Fields::new(&self.course.answered) {
            let place = match AnswerField::of(name) {
                AnswerField::ContentType => &mut media_type,
                AnswerField::Accel(what) if rules.ignored.has(what) => continue,
                AnswerField::Accel(Accel::Redirect) => &mut to,
                AnswerField::Accel(Accel::LimitRate) => &mut rate,
                AnswerField::Accel(Accel::Buffering) => &mut buffering,
                AnswerField::Accel(Accel::Charset) => {
                    // Of several the last counts.
                    charset = Some(value.to_vec());
                    continue;
                }
                _ => continue,
            };
            // Of several the first counts.
            place.get_or_insert(value);
        }
        let (rate, buffering) = (rate.and_then(accel::limit_rate), buffering.and_then(accel::buffering));
        let to = to.map(|to| (to.to_vec(), media_type.map(<[u8]>::to_vec)));
        self.course.kept.charset = charset.filter(|charset| !charset.is_empty());
        if rate.is_some() {
            self.course.limit_rate = rate;
        }
        if let (Some(on), Some(relay)) = (buffering, self.relay()) {
            relay.buffering = on;
        }
        let (to, media_type) = to?;
        self.course.kept.media_type = media_type;
        self.keep_along(rules);
        let redirect = accel::redirect(&to);
        self.give_up_relay();
        if let Err(told) = redirect.as_ref().map_err(|told| String::from_utf8_lossy(told))
            && !to.starts_with(b"@")
        {
            let told = format!("unsafe URI \"{told}\" was detected");
            self.tell_of_upstream(&told, "reading response header from upstream");
        }
        if let Some(name) = to.strip_prefix(b"@") {
            return Some(self.enter_named(name));
        }
        let Ok((path, query)) = redirect else { return Some(Flow::Status(404)) };
        if self.course.method != Method::Head {
            self.course.method = Method::Get;
        }
        Some(self.redirect(&path, &query))
    }

    /// What clients are told of an answer; it is a `slice` of a whole of so many bytes,
    /// perhaps.
    fn answer_of(&mut self, rules: &Arc<ProxyRules>, slice: Option<u64>) -> Answer {
        let Some(relay) = self.course.relay.as_deref_mut() else { return Answer::new(502, AnswerBody::None) };
        let body = match relay.whole.take() {
            Some(whole) => AnswerBody::Bytes(whole),
            None if relay.complete && relay.asked != Method::Head => AnswerBody::None,
            None => AnswerBody::Upstream(None),
        };
        let answered = core::mem::take(&mut self.course.answered);
        let body = match body {
            // Of HEAD it is told how long its body would be.
            AnswerBody::Upstream(_) if relay.complete => {
                let told = Fields::new(&answered).find(|field| field.is("content-length"));
                AnswerBody::Upstream(told.and_then(|field| semantics::number::parse(field.value)))
            }
            AnswerBody::Upstream(_) => AnswerBody::Upstream(relay.length),
            body => body,
        };
        let body = match (slice.filter(|_| self.course.slices.is_some()), body) {
            (None, body) => body,
            (Some(complete), AnswerBody::Bytes(bytes)) => AnswerBody::Sliced(complete, Some(bytes)),
            (Some(complete), _) => AnswerBody::Sliced(complete, None),
        };
        let status = if slice.is_some() { 200 } else { relay.status };
        let mut answer = Answer::new(status, body);
        answer.of_upstream = true;
        answer.takes_ranges = rules.forces_ranges || slice.is_some();
        let mut lines = core::mem::take(&mut self.course.kept_fields);
        for field in Fields::new(&answered) {
            let what = AnswerField::of(field.name);
            // Those of a slice are not those of the whole.
            let of_slice = slice.is_some() && (field.is("content-range") || field.is("accept-ranges"));
            if !of_slice && !rules.hides.has(field.name) {
                self.take_field(&mut answer, (what, field), rules, &mut lines);
            }
        }
        (self.course.kept_fields, self.course.answered) = (lines, answered);
        if answer.media_type.is_none() {
            // That of an answer which was given up for this one stays.
            answer.media_type.clone_from(&self.course.kept.media_type);
        }
        answer
    }

    /// Whether `gunzip` is on here.
    fn unpacks(&self) -> bool {
        let block = Self::block(&self.loaded, self.course).map(|at| &self.loaded.program.blocks[at]);
        block.is_some_and(|block| block.filters.has(FilterSet::GUNZIP))
    }

    /// One field of an answer.
    fn take_field(
        &mut self,
        answer: &mut Answer,
        (what, field): (AnswerField, Field<'_>),
        rules: &Arc<ProxyRules>,
        lines: &mut Vec<u8>,
    ) {
        let Field { name, value } = field;
        match what {
            AnswerField::OfConnection => {}
            AnswerField::ContentType => answer.media_type = Some(value.to_vec()),
            AnswerField::ETag => match core::str::from_utf8(value) {
                Ok(etag) => answer.etag = Some(etag.to_owned()),
                Err(_) => put_field(name, value, lines),
            },
            AnswerField::LastModified => match date::parse(value, self.clock.second) {
                Some(modified) => answer.modified = Some(modified),
                None => put_field(name, value, lines),
            },
            AnswerField::ContentEncoding => match coding_of(value) {
                // Its name goes on as it is written, unless content may be taken out of it.
                Some(coding) if value == coding.token() || self.unpacks() => answer.coding = Some(coding),
                _ => {
                    answer.is_coded = !value.is_empty();
                    put_field(name, value, lines);
                }
            },
            AnswerField::OfServer => {
                // These stand first, where they are in place of ours; of several the first counts.
                let front = &mut self.course.sent.front;
                let (name, start) =
                    if field.is("date") { (&b"Date"[..], &b"Date: "[..]) } else { (&b"Server"[..], &b"Server: "[..]) };
                if count_lines(front, start) == 0 {
                    let at = if field.is("date") { 0 } else { front.len() };
                    let mut line = Vec::new();
                    put_field(name, value, &mut line);
                    front.splice(at..at, line);
                }
            }
            AnswerField::Location => match self.rewritten(rules.redirects.as_deref(), value, Within::Start(0)) {
                Some(location) => answer.location = Some(location),
                None => put_field(name, value, lines),
            },
            AnswerField::Refresh => {
                let at = rewrite::refresh_url(value);
                let rewritten = at.and_then(|at| self.rewritten(rules.redirects.as_deref(), value, Within::Start(at)));
                put_field(name, rewritten.as_deref().unwrap_or(value), lines);
            }
            AnswerField::SetCookie => {
                let rewritten = self.cookie(rules, value);
                put_field(name, rewritten.as_deref().unwrap_or(value), lines);
            }
            AnswerField::AcceptRanges if rules.forces_ranges => {}
            AnswerField::Upgrade => {}
            AnswerField::AcceptRanges | AnswerField::Vary | AnswerField::Accel(_) | AnswerField::Other => {
                put_field(name, value, lines);
            }
        }
    }

    /// A value by the first rule that is about it.
    fn rewritten(&mut self, rules: Option<&[Rewrite]>, value: &[u8], within: Within) -> Option<Vec<u8>> {
        for rule in rules? {
            let (at, length) = match within {
                Within::Start(at) => (at, value.len() - at),
                Within::Domain => (0, value.len()),
            };
            let (at, replaced) = match &rule.pattern {
                RewritePattern::Expression(expression) => {
                    let matched = self.scope().matches(*expression, value.get(at..).unwrap_or_default());
                    match matched {
                        Some(true) => (at, length),
                        _ => continue,
                    }
                }
                RewritePattern::Value(pattern) => {
                    let pattern = self.scope().get(pattern);
                    match within {
                        Within::Domain => match rewrite::domain_matches(value, &pattern) {
                            Some(found) => found,
                            None => continue,
                        },
                        Within::Start(_) if value.get(at..).is_some_and(|rest| rest.starts_with(&pattern)) => {
                            (at, pattern.len())
                        }
                        Within::Start(_) => continue,
                    }
                }
            };
            let with = self.scope().get(&rule.with);
            return Some(rewrite::replaced(value, at, &Replacement { replaced, with }));
        }
        None
    }

    /// A cookie, if anything of it changes.
    fn cookie(&mut self, rules: &Arc<ProxyRules>, value: &[u8]) -> Option<Vec<u8>> {
        if rules.cookie_domains.is_empty() && rules.cookie_paths.is_empty() && rules.cookie_flags.is_empty() {
            return None;
        }
        let mut cookie = Cookie::parse(value);
        let name = cookie.name()?.to_vec();
        let mut changed = false;
        for (attribute, list, within) in
            [(&b"domain"[..], &rules.cookie_domains, Within::Domain), (b"path", &rules.cookie_paths, Within::Start(0))]
        {
            for value in cookie.attributes(attribute) {
                if let Some(rewritten) = self.rewritten(Some(list), value, within) {
                    *value = rewritten;
                    changed = true;
                }
            }
        }
        if let Some(flags) = self.cookie_flags(&rules.cookie_flags, &name) {
            cookie.edit(flags);
            changed = true;
        }
        changed.then(|| cookie.written())
    }

    fn cookie_flags(&mut self, rules: &[CookieFlagRule], name: &[u8]) -> Option<CookieFlags> {
        let rule = rules.iter().find(|rule| match &rule.cookie {
            RewritePattern::Expression(expression) => self.scope().matches(*expression, name) == Some(true),
            RewritePattern::Value(value) => self.scope().get(value).eq_ignore_ascii_case(name),
        })?;
        let mut flags = CookieFlags::default();
        for flag in &rule.flags {
            let word = self.scope().get(flag);
            let _ = flags.add(&word);
        }
        flags.any().then_some(flags)
    }

    /// The connection to the client becomes one to the upstream, both ways.
    fn begin_tunnel(&mut self) -> Flow {
        let (id, now) = (self.course.id, self.clock.now);
        let Some(rules) = self.course.relay.as_deref().map(|relay| Arc::clone(&relay.rules)) else {
            return Flow::Status(502);
        };
        let answer = self.answer_of(&rules, None);
        let mut lines = b"Connection: upgrade\r\n".to_vec();
        let upgrades = |field: &Field<'_>| AnswerField::of(field.name) == AnswerField::Upgrade;
        for field in Fields::new(&self.course.answered).filter(upgrades).filter(|field| !rules.hides.has(field.name)) {
            put_field(field.name, field.value, &mut lines);
        }
        self.course.sent.status = 101;
        self.put_switching_fields(answer, &mut lines);
        let Some(relay) = self.course.relay.as_deref_mut() else { return Flow::Status(502) };
        (relay.stage, relay.complete, relay.keeps) = (RelayStage::Tunnel, false, false);
        if let Some(link) = relay.link {
            relay.tunnel = Some(Box::new(TunnelPace::begin(self.replies.unsent_upstream(link), now)));
            // Nothing is late yet.
            let _ = relay.watch_tunnel(self.replies, now);
            self.replies.resume_upstream(link);
        }
        let Some(status) = Status::from_code(101) else { return Flow::HangUp };
        self.replies.begin_tunnel(id, self.request, &Reply { status, length: None, fields: &lines });
        self.course.sent.head = self.replies.head_len();
        self.course.sent.fields = lines;
        Flow::Done
    }
}

const LIMITS: ResponseLimits =
    ResponseLimits { head: u16::MAX, fields: 1000, interim: 8, chunk_line: 1024, trailers: 16384, line_feeds: false };

/// Whether the names of fields, as lines, allow that something is asked of us
/// (`X-Accel-…`): most answers have none that begins so.
fn may_ask(lines: &[u8]) -> bool {
    memchr::memchr2_iter(b'x', b'X', lines).any(|at| {
        let begins = at.checked_sub(1).is_none_or(|before| lines.get(before) == Some(&b'\n'));
        begins && matches!(lines.get(at + 1..at + 3), Some([b'-', b'a' | b'A']))
    })
}

/// A coding that content can be taken out of.
fn coding_of(value: &[u8]) -> Option<Coding> {
    Coding::ALL.into_iter().find(|coding| value.eq_ignore_ascii_case(coding.token()))
}

/// What is wrong with a head, for people; `rest` is what could not be read of it.
fn head_fault(error: Error, rest: &[u8]) -> String {
    match (error, misnamed(rest)) {
        (Error::TooLarge, _) => "upstream sent too big header".to_owned(),
        (_, Some((name, byte))) => {
            format!("upstream sent invalid header: \"{}\\x{byte:02x}...\"", String::from_utf8_lossy(name))
        }
        _ => misframed(rest).unwrap_or_else(|| "upstream sent invalid header".to_owned()),
    }
}

impl Relay {
    /// Reads the head that these bytes begin with, and what stands before it: how many bytes
    /// that is, where in them hints are, and what is wrong.
    fn read_head(&mut self, bytes: &[u8], now: Time, line_feeds: bool) -> (usize, Vec<Range<usize>>, Option<Error>) {
        // A program's lines were made ones of HTTP.
        let limits = ResponseLimits { line_feeds: line_feeds && self.gateway.is_none(), ..self.head_limits() };
        // What is decided by the head is read from memory that nobody else writes to.
        self.answer.clear();
        self.answer.extend_from_slice(bytes.get(..bytes.len().min(usize::from(limits.head))).unwrap_or_default());
        let (mut at, mut hints) = (0, Vec::new());
        // How many bytes longer than what came the heads are that were read, and the one
        // that is read now: that one counts once it is taken.
        let (mut longer, mut lengthened) = (0, 0);
        let failed = loop {
            let offered = self.answer.get(at..).unwrap_or_default();
            match self.reader.on_bytes(offered, self.asked, &limits) {
                ResponseEvent::NeedMore => break None,
                ResponseEvent::Interim { status, consumed } => {
                    if status == Status::EARLY_HINTS {
                        hints.push(at..at + consumed);
                    }
                    at += consumed;
                    longer += mem::take(&mut lengthened);
                }
                ResponseEvent::LineFeeds { consumed } => {
                    let head = h1::canonical(self.answer.get(at..at + consumed).unwrap_or_default());
                    lengthened = head.len() - consumed;
                    self.answer.splice(at..at + consumed, head);
                }
                ResponseEvent::Failed { error } => break Some(error),
                ResponseEvent::Response { response, consumed } => {
                    self.status = response.status.code();
                    self.keeps = response.keep_alive;
                    self.length = match response.framing {
                        Framing::Length(length) => Some(length),
                        Framing::None => Some(0),
                        Framing::Chunked | Framing::UntilClose => None,
                    };
                    self.complete = response.framing == Framing::None;
                    let head = self.answer.get(at..at + consumed).unwrap_or_default();
                    let line = memchr::memchr(b'\n', head).map_or(0, |end| end + 1);
                    self.fields_at = at + line;
                    at += consumed;
                    longer += lengthened;
                    self.answer.truncate(at);
                    (self.stage, self.answered) = (RelayStage::Body, now);
                    break None;
                }
                ResponseEvent::Body { .. } | ResponseEvent::EndOfBody { .. } => break Some(Error::Malformed),
            }
        };
        (at - longer, hints, failed)
    }

    /// A program's head was measured before it was made one of HTTP.
    fn head_limits(&self) -> ResponseLimits {
        let most = if self.gateway.is_some() { u32::MAX } else { self.rules.head_max };
        ResponseLimits { head: u16::try_from(most).unwrap_or(u16::MAX), ..LIMITS }
    }

    /// Takes the body, where it has a length and all of it is there. Returns how many
    /// bytes that is.
    fn take_whole(&mut self, rest: &[u8]) -> usize {
        let Some(length) = self.length.and_then(|length| usize::try_from(length).ok()) else { return 0 };
        if self.complete || length == 0 || rest.len() < length {
            return 0;
        }
        let body = rest.get(..length).unwrap_or_default().to_vec();
        let limits = LIMITS;
        if let ResponseEvent::Body { .. } = self.reader.on_bytes(&body, self.asked, &limits) {
            let _ = self.reader.on_bytes(b"", self.asked, &limits);
        }
        (self.whole, self.complete) = (Some(body), true);
        length
    }
}
