//! The head of an upstream's answer: whether it is one, and what clients are told of it.

use super::answer::{Answer, AnswerBody};
use super::put::count_lines;
use super::runner::{Flow, Runner};
use super::waits::On;
use asking::HeadEvent;
use configuration::program::FilterSet;
use configuration::proxying::{CookieFlagRule, ProxyRules, Rewrite, RewritePattern};
use exchange::{Reply, ReplyEnd};
use features::ErrorLevel;
use formats::text::put_field;
use gzip::Coding;
use proxy::fields::{Accel, AnswerField, AnswerName};
use proxy::next::Failure;
use proxy::rewrite::{Cookie, CookieFlags, Replacement};
use proxy::{accel, rewrite};
use semantics::{Field, Fields, Method, Status, date};
use std::rc::Rc;
use std::sync::Arc;

/// Where a cookie or a redirect is rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Start(usize),
    Domain,
}

impl Runner<'_> {
    /// Bytes of an answer whose head is not whole. How many were taken, and how the request
    /// goes on.
    #[inline(always)]
    pub(super) fn on_head_bytes(&mut self, bytes: &[u8]) -> (usize, Flow) {
        let mut all = 0;
        loop {
            let rest = bytes.get(all..).unwrap_or_default();
            let Some((taken, event)) = self.ask(|ask, turn| ask.read_head(turn, rest)) else {
                return (all, Flow::Waits(On::Source));
            };
            all += taken;
            let flow = match event {
                HeadEvent::Interim(None) => continue,
                HeadEvent::Interim(Some(lines)) => {
                    self.on_hints(&lines);
                    continue;
                }
                HeadEvent::More => Flow::Waits(On::Source),
                HeadEvent::Head => self.on_answer(),
                HeadEvent::Step(step) => self.on_step(step),
            };
            return (all, flow);
        }
    }

    /// The head of an answer is whole.
    fn on_answer(&mut self) -> Flow {
        let Some(relay) = self.state.passed.relay.as_deref() else { return Flow::Status(500) };
        let (status, rules) = (relay.ask.status(), Arc::clone(&relay.rules));
        if self.state.passed.left_behind.is_some() {
            return self.note_left_answer(status);
        }
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return Flow::Status(500) };
        if status >= 300 && rules.intercepts && block.error_pages.iter().any(|page| page.status == status) {
            self.keep_answer();
            if status == 401 {
                self.keep_fields(|field| field.is("www-authenticate"));
            }
            self.give_up_relay();
            return Flow::Status(status);
        }
        self.keep_answer();
        self.set_rate(&rules);
        // Most answers have nothing that might ask something of us.
        let may_ask = self.relay().is_some_and(|relay| relay.ask.may_have_x_field());
        if may_ask && let Some(flow) = self.accelerated(&rules) {
            return flow;
        }
        let slice = match self.take_slice() {
            Ok(slice) => slice,
            Err(flow) => return flow,
        };
        if status == 101 {
            if self.request.fields().any(|field| field.is("upgrade")) {
                return self.begin_tunnel();
            }
            self.tell_of_upstream("upstream sent unexpected upgrade", "reading response header from upstream");
            return self.ask_step(|ask, turn| ask.failed(turn, Failure::InvalidHeader));
        }
        let answer = self.answer_of(&rules, slice);
        let flow = self.send(answer);
        let comes = self.state.reply.filtering.is_some() && flow == Flow::Done;
        let complete = self.relay().is_some_and(|relay| relay.ask.is_complete());
        // All of it came with its head, whatever that says of a length; but for slices that follow.
        if let (true, None, Some(filtering)) =
            (complete, &self.state.within.slices, self.state.reply.filtering.as_deref_mut())
        {
            filtering.end_whole();
        }
        if !comes || complete {
            self.end_relay();
        }
        flow
    }

    /// The head of an answer came that goes to nobody: it is logged, and no more.
    fn note_left_answer(&mut self, status: u16) -> Flow {
        self.keep_answer();
        self.state.sent.status = status;
        let comes = self.relay().is_some_and(|relay| {
            let _ = relay.ask.take_whole();
            !relay.ask.is_complete() && status != 101
        });
        if !comes {
            self.end_relay();
        }
        Flow::Done
    }

    /// How fast the body is read whose head has come (`proxy_limit_rate`, `fastcgi_limit_rate`
    /// and the like): it may be a value of that.
    fn set_rate(&mut self, rules: &ProxyRules) {
        let Some(value) = &rules.rate else { return };
        let text = self.scope().get(value);
        let rate = features::units::size(&text).unwrap_or_else(|_| {
            self.tell(ErrorLevel::ERROR, || [b"invalid size \"", text.as_slice(), b"\""].concat());
            0
        });
        if let Some(relay) = self.relay() {
            relay.ask.set_rate(rate);
        }
    }

    /// The fields are kept for what is logged of them.
    fn keep_answer(&mut self) {
        if let Some(relay) = self.state.passed.relay.as_deref() {
            self.state.passed.answered.clear();
            self.state.passed.answered.extend_from_slice(relay.ask.fields());
        }
    }

    /// Fields of the answer go to whatever answers in its place.
    fn keep_fields(&mut self, which: impl Fn(&Field<'_>) -> bool) {
        let answered = core::mem::take(&mut self.state.passed.answered);
        for field in Fields::new(&answered).filter(|field| which(field)) {
            put_field(field.name, field.value, &mut self.state.reply.kept_fields);
        }
        self.state.passed.answered = answered;
    }

    /// Fields of an answer that asks for another path of ours go to that path's answer:
    /// cookies as they would have gone to the client.
    fn keep_along(&mut self, rules: &Arc<ProxyRules>) {
        let answered = core::mem::take(&mut self.state.passed.answered);
        for Field { name, value } in Fields::new(&answered).filter(|field| AnswerField::goes_along(field.name)) {
            let cookie = if AnswerField::of(name) == AnswerField::SetCookie { self.cookie(rules, value) } else { None };
            put_field(name, cookie.as_deref().unwrap_or(value), &mut self.state.reply.kept_fields);
        }
        self.state.passed.answered = answered;
    }

    /// What the upstream asks of us; the end where another path of ours answers.
    fn accelerated(&mut self, rules: &Arc<ProxyRules>) -> Option<Flow> {
        if !may_ask(&self.state.passed.answered) {
            return None;
        }
        let (mut to, mut rate, mut buffering, mut media_type, mut charset) = (None, None, None, None, None);
        for Field { name, value } in Fields::new(&self.state.passed.answered) {
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
        self.state.passed.kept.charset = charset.filter(|charset| !charset.is_empty());
        if rate.is_some() {
            self.state.reply.limit_rate = rate;
        }
        if let (Some(on), Some(relay)) = (buffering, self.relay()) {
            relay.ask.set_buffering(on);
        }
        let (to, media_type) = to?;
        // An empty one says nothing: as where there is none, the path's own counts.
        self.state.passed.kept.media_type = media_type.filter(|media_type| !media_type.is_empty());
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
        if self.state.method != Method::Head {
            self.state.method = Method::Get;
        }
        Some(self.redirect(&path, &query))
    }

    /// What clients are told of an answer; it is a `slice` of a whole of so many bytes,
    /// perhaps.
    fn answer_of(&mut self, rules: &Arc<ProxyRules>, slice: Option<u64>) -> Answer {
        let Some(relay) = self.state.passed.relay.as_deref_mut() else { return Answer::new(502, AnswerBody::None) };
        let ask = &mut relay.ask;
        if !ask.is_buffering() {
            // It goes on as it comes, and its upstream says how fast.
            self.state.reply.limit_rate = Some(0);
        }
        let body = match ask.take_whole() {
            Some(whole) => AnswerBody::Bytes(whole),
            None if ask.is_complete() && ask.asked() != Method::Head => AnswerBody::None,
            None => AnswerBody::Upstream(None),
        };
        let answered = core::mem::take(&mut self.state.passed.answered);
        let body = match body {
            // Of HEAD it is told how long its body would be.
            AnswerBody::Upstream(_) if ask.is_complete() => {
                let told = Fields::new(&answered).find(|field| field.is("content-length"));
                AnswerBody::Upstream(told.and_then(|field| semantics::number::parse(field.value)))
            }
            AnswerBody::Upstream(_) => AnswerBody::Upstream(ask.length()),
            body => body,
        };
        let body = match (slice.filter(|_| self.state.within.slices.is_some()), body) {
            (None, body) => body,
            (Some(complete), AnswerBody::Bytes(bytes)) => AnswerBody::Sliced(complete, Some(bytes)),
            (Some(complete), _) => AnswerBody::Sliced(complete, None),
        };
        let status = if slice.is_some() { 200 } else { ask.status() };
        if self.state.reply.override_status.is_none() {
            self.state.sent.reason = ask.reason().map(|reason| (status, reason.into()));
        }
        let mut answer = Answer::new(status, body);
        answer.of_upstream = true;
        answer.takes_ranges = rules.forces_ranges || slice.is_some();
        let noted = ask.noted_lines();
        match noted.fields(&answered) {
            Some(fields) => self.take_fields(&mut answer, fields, rules, slice.is_some()),
            None => self.take_all_fields(&mut answer, &answered, rules, slice.is_some()),
        }
        self.state.passed.answered = answered;
        if answer.media_type.is_none() {
            // That of an answer which was given up for this one stays.
            answer.media_type.clone_from(&self.state.passed.kept.media_type);
        }
        answer
    }

    /// The fields of an answer of which nobody has noted where they end.
    #[cold]
    #[inline(never)]
    fn take_all_fields(&mut self, answer: &mut Answer, lines: &[u8], rules: &Arc<ProxyRules>, is_slice: bool) {
        self.take_fields(answer, Fields::new(lines), rules, is_slice);
    }

    /// The fields of an answer, which is a slice of a whole, perhaps.
    #[inline(always)]
    fn take_fields<'f>(
        &mut self,
        answer: &mut Answer,
        fields: impl Iterator<Item = Field<'f>>,
        rules: &Arc<ProxyRules>,
        is_slice: bool,
    ) {
        let mut lines = core::mem::take(&mut self.state.reply.kept_fields);
        for field in fields {
            let what = AnswerName::of(field.name);
            // Those of a slice are not those of the whole.
            let of_slice = is_slice && (field.is("content-range") || field.is("accept-ranges"));
            if !of_slice && !what.is_among(&rules.hides) {
                self.take_field(answer, (what.field(), field), rules, &mut lines);
            }
        }
        self.state.reply.kept_fields = lines;
    }

    /// Whether `gunzip` is on here.
    fn unpacks(&self) -> bool {
        let block = self.loaded.program.block(self.state.route.block);
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
            AnswerField::ContentType => {
                let mut media_type = self.rest.spare.bytes();
                media_type.extend_from_slice(value);
                if let Some(before) = answer.media_type.replace(media_type) {
                    self.rest.spare.give_bytes(before);
                }
            }
            AnswerField::ETag => match core::str::from_utf8(value) {
                Ok(etag) => answer.etag = Some(etag.to_owned()),
                Err(_) => put_field(name, value, lines),
            },
            AnswerField::LastModified => match date::parse(value, self.rest.clock.second) {
                Some(modified) => answer.modified = Some(modified),
                None => answer.set_modified_text(value),
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
                let front = &mut self.state.sent.front;
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
            AnswerField::Upgrade => {
                // HTTP/2 has none (RFC 9113 section 8.6); and a tunnel's stands first in its answer.
                if answer.status != 101 && !self.state.about.http2 {
                    put_field(name, value, lines);
                }
            }
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
        let id = self.state.id;
        let Some(rules) = self.state.passed.relay.as_deref().map(|relay| Arc::clone(&relay.rules)) else {
            return Flow::Status(502);
        };
        let answer = self.answer_of(&rules, None);
        let mut lines = b"Connection: upgrade\r\n".to_vec();
        let upgrades = |field: &Field<'_>| AnswerField::of(field.name) == AnswerField::Upgrade;
        for field in
            Fields::new(&self.state.passed.answered).filter(upgrades).filter(|field| !rules.hides.has(field.name))
        {
            put_field(field.name, field.value, &mut lines);
        }
        self.state.sent.status = 101;
        self.put_switching_fields(answer, &mut lines);
        self.ask(|ask, turn| ask.begin_tunnel(turn));
        let Some(status) = Status::from_code(101) else { return Flow::HangUp };
        let reason = self.state.sent.reason_of(101);
        let reply = Reply { status, length: None, fields: &lines, reason: reason.as_deref() };
        self.state.sent.head = self.replies.begin(id, self.request, &reply, ReplyEnd::Connection);
        self.state.sent.fields = lines;
        Flow::Done
    }

    /// The fields of an answer that makes its connection another protocol's: what the
    /// upstream says and what the configuration adds, as in any other.
    fn put_switching_fields(&mut self, mut answer: Answer, lines: &mut Vec<u8>) {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return };
        let mut added = core::mem::take(&mut self.state.reply.kept_fields);
        self.tell_beforehand(&answer, block);
        self.add_fields(&mut answer, block, &mut added);
        let mut fields = self.first_fields();
        self.name(&answer, block, &mut fields);
        lines.extend_from_slice(&fields.into_bytes());
        lines.append(&mut added);
        self.state.reply.kept_fields = added;
    }
}

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
