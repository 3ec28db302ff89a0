//! Answers, read.

use super::{Answer, Dialogue, SPARE_LIMIT, SPARE_SIZE};
use crate::checks::{CONTENT_LIMIT, CONTENTS_LIMIT, Check, Pattern, Wrong, WrongAnswer, excerpt, keep_sample};
use crate::conn::State;
use crate::cookies::{Asked, Setting};
use crate::figures::{Cookies, Errors, Redirects};
use crate::load::{Load, Phase};
use crate::location::{Leads, resolve};
use crate::plan::Request;
use app::{ConnId, Net};
use aws_lc_rs::digest;
use h1::Framing;
use h1::client::{Response, ResponseEvent, Summary};
use semantics::Method;
use wire::Time;

/// The content of an answer, as far as checks need it.
#[derive(Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    /// How much came.
    length: u64,
    /// It is longer than is held.
    cut: bool,
    hash: Option<Box<digest::Context>>,
    holds: bool,
}

impl core::fmt::Debug for Content {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Content").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Load {
    /// As `on_data`, where answers are read.
    pub(in crate::load) fn on_dialogue<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        // Only what was asked before these bytes came can be answered in them.
        let mut answers = self.table.get(id).map_or(0, |conn| conn.asked);
        let mut used = 0;
        loop {
            let method = self.method_led(id);
            let Some(conn) = self.table.get_mut(id) else { return data.len() };
            if conn.state != State::Busy || answers == 0 {
                if conn.state == State::Securing {
                    return self.on_handshake_bytes(net, id, data);
                }
                self.on_unasked(net, id);
                return data.len();
            }
            let rest = data.get(used..).unwrap_or_default();
            if let Some(parts) = &mut self.parts
                && let Some(wait) = parts.on_bytes(id, rest, conn.since, net.now())
            {
                self.samples.waiting.record(wait);
            }
            let event = conn.engine.on_bytes(rest, method, &self.limits);
            let (consumed, is_over) = match event {
                ResponseEvent::NeedMore => return used,
                ResponseEvent::Interim { consumed, .. } => (consumed, false),
                ResponseEvent::Response { response, consumed } => {
                    self.on_head(id, &response, net.now());
                    (consumed, response.framing == Framing::None)
                }
                ResponseEvent::Body { bytes, consumed } => {
                    if let Some(dialogue) = &mut self.dialogue {
                        dialogue.on_content(id, bytes);
                    }
                    (consumed, false)
                }
                ResponseEvent::EndOfBody { consumed, .. } => (consumed, true),
                ResponseEvent::LineFeeds { .. } | ResponseEvent::Failed { .. } => {
                    self.on_malformed(net, id);
                    return data.len();
                }
            };
            used += consumed;
            self.counts.traffic.received_bytes += consumed as u64;
            if is_over {
                answers -= 1;
                let body = self.table.get(id).map_or(0, |conn| conn.engine.body_len());
                self.on_answer(net, id, body);
                if used >= data.len() {
                    return used;
                }
            }
        }
    }

    /// The method that the answer at hand answers.
    fn method_led(&self, id: ConnId) -> Method {
        let led = self.dialogue.as_ref().and_then(|dialogue| dialogue.talks.get(id.index())?.method);
        led.unwrap_or_else(|| self.method(id))
    }

    fn on_head(&mut self, id: ConnId, response: &Response<'_>, now: Time) {
        let number = usize::from(self.table.oldest_kind(id));
        let request = &self.plan.requests[number].item;
        let checks = self.plan.checks_of(request);
        if let Some(dialogue) = &mut self.dialogue {
            dialogue.on_head(id, (request, checks), response, now, &mut self.counts.cookies);
        }
    }

    /// An answer is whole: it leads on, or answers its request.
    fn on_answer<N: Net>(&mut self, net: &mut N, id: ConnId, body: u64) {
        let Some(talk) = self.dialogue.as_ref().and_then(|dialogue| dialogue.talks.get(id.index())) else { return };
        let (code, keep_alive) = (talk.answer.status, talk.answer.keep_alive);
        let Some(status) = semantics::Status::from_code(code) else { return };
        if let Some(target) = self.led_on(id) {
            self.counts.redirects.followed += 1;
            if let Some(dialogue) = &mut self.dialogue {
                dialogue.release(id);
            }
            self.send_on(net, id, target, code);
        } else {
            self.judge(id);
            self.on_response(net, id, Summary { status, keep_alive, body });
        }
    }

    /// The connection's end ended an answer: nothing follows on it.
    pub(in crate::load) fn on_last_answer<N: Net>(&mut self, net: &mut N, id: ConnId, summary: Summary) {
        if let Some(dialogue) = &mut self.dialogue
            && let Some(talk) = dialogue.talks.get_mut(id.index())
        {
            talk.answer.keep_alive = false;
        }
        self.on_answer(net, id, summary.body);
    }

    /// Where the answer at hand leads, if it is followed.
    fn led_on(&mut self, id: ConnId) -> Option<Vec<u8>> {
        let number = usize::from(self.table.oldest_kind(id));
        let host = &self.plan.requests[number].item.host;
        let is_over = matches!(self.phase, Phase::Ended);
        self.dialogue.as_mut()?.led_on(id, host, is_over, &mut self.counts.redirects)
    }

    /// Holds the answer at hand against the checks of its request.
    fn judge(&mut self, id: ConnId) {
        let number = usize::from(self.table.oldest_kind(id));
        let method = self.method_led(id);
        let request = &self.plan.requests[number].item;
        let checks = self.plan.checks_of(request);
        if let Some(dialogue) = &mut self.dialogue {
            if !checks.is_empty() {
                let account = (&mut self.counts.errors, &mut self.wrong_answers);
                dialogue.judge(id, request, checks, method == Method::Head, account);
            }
            dialogue.release(id);
        }
    }
}

impl Dialogue {
    /// Whether an answer with this status leads on, if it says where to.
    pub(crate) const fn follows(&self, status: u16) -> bool {
        self.follow > 0 && matches!(status, 301..=303 | 307 | 308)
    }

    /// Where the answer at hand leads, if it is followed: nothing is once all `is_over`.
    pub(crate) fn led_on(
        &mut self,
        id: ConnId,
        host: &str,
        is_over: bool,
        redirects: &mut Redirects,
    ) -> Option<Vec<u8>> {
        let status = self.talks.get(id.index())?.answer.status;
        if !self.follows(status) {
            return None;
        }
        let talk = self.talks.get_mut(id.index())?;
        let location = talk.answer.location.take();
        let leads = location.map_or(Leads::Nowhere, |location| resolve(&location, &talk.target, host, self.secured));
        let (closed, many) = (!talk.answer.keep_alive, talk.hops >= self.follow);
        let count = match leads {
            Leads::Here(_) if many => &mut redirects.too_many,
            Leads::Here(_) if closed => &mut redirects.closed,
            Leads::Here(_) if is_over => return None,
            Leads::Here(target) => return Some(target),
            Leads::Elsewhere => &mut redirects.elsewhere,
            Leads::Nowhere => &mut redirects.unusable,
        };
        *count += 1;
        None
    }

    /// The head of an answer came.
    pub(crate) fn on_head(
        &mut self,
        id: ConnId,
        (request, checks): (&Request, &[Check]),
        response: &Response<'_>,
        now: Time,
        counts: &mut Cookies,
    ) {
        let now = self.seconds(now);
        let (cookies, follow, secured) = (self.cookies, self.follow, self.secured);
        self.release(id);
        let talk = self.talk(id);
        let mut answer =
            Answer { status: response.status.code(), keep_alive: response.keep_alive, ..Answer::default() };
        for (place, check) in checks.iter().enumerate() {
            match check {
                Check::Header { name, value } => {
                    let mut fields = response.fields().filter(|field| field.is(name));
                    let found = fields.any(|field| value.as_ref().is_none_or(|value| field.value == &**value));
                    answer.wrong_fields |= u32::from(!found) << place;
                }
                Check::Contains(_) | Check::Matches(_) => answer.content.holds = true,
                Check::Sha256(_) => answer.content.hash = Some(Box::new(digest::Context::new(&digest::SHA256))),
            }
        }
        if follow > 0 {
            let location = response.fields().find(|field| field.is("Location"));
            answer.location = location.map(|field| field.value.to_vec());
        }
        if cookies {
            let asked = Asked { host: &request.host, path: &talk.target, secured, now };
            for field in response.fields().filter(|field| field.is("Set-Cookie")) {
                match talk.jar.take(field.value, &asked) {
                    Setting::Stored => counts.stored += 1,
                    Setting::Ended => counts.ended += 1,
                    Setting::Refused => counts.refused += 1,
                    Setting::Displaced => (counts.stored, counts.displaced) = (counts.stored + 1, counts.displaced + 1),
                }
            }
        }
        talk.answer = answer;
    }

    /// Content of it came.
    pub(crate) fn on_content(&mut self, id: ConnId, bytes: &[u8]) {
        let Self { talks, held, spare, .. } = self;
        let Some(content) = talks.get_mut(id.index()).map(|talk| &mut talk.answer.content) else { return };
        content.length += bytes.len() as u64;
        if let Some(hash) = &mut content.hash {
            hash.update(bytes);
        }
        if !content.holds || content.cut {
            return;
        }
        if content.bytes.len() + bytes.len() > CONTENT_LIMIT || *held + bytes.len() > CONTENTS_LIMIT {
            *held -= content.bytes.len();
            content.bytes = Vec::new();
            content.cut = true;
            return;
        }
        if content.bytes.capacity() == 0
            && let Some(spare) = spare.pop()
        {
            content.bytes = spare;
        }
        content.bytes.extend_from_slice(bytes);
        *held += bytes.len();
    }

    /// The content that a connection holds is needed no longer.
    pub(crate) fn release(&mut self, id: ConnId) {
        let Some(talk) = self.talks.get_mut(id.index()) else { return };
        let mut bytes = core::mem::take(&mut talk.answer.content).bytes;
        self.held -= bytes.len();
        if (1..=SPARE_SIZE).contains(&bytes.capacity()) && self.spare.len() < SPARE_LIMIT {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Holds the answer at hand against checks. Whether it is wrong is in [`Dialogue::wrong`] then.
    pub(crate) fn judge(
        &mut self,
        id: ConnId,
        request: &Request,
        checks: &[Check],
        is_head: bool,
        (errors, samples): (&mut Errors, &mut Vec<WrongAnswer>),
    ) {
        let Self { talks, matcher, wrong, .. } = self;
        let Some(talk) = talks.get_mut(id.index()) else { return };
        let Answer { status, wrong_fields, content, .. } = &mut talk.answer;
        let hash = content.hash.take().map(|hash| hash.finish());
        let mut counted: [bool; 5] = [false; 5];
        for (place, check) in checks.iter().enumerate() {
            let found = match check {
                Check::Header { .. } => (*wrong_fields >> place & 1 == 1).then_some(Wrong::Header),
                // An answer to HEAD has none.
                _ if is_head => None,
                Check::Contains(_) | Check::Matches(_) if content.cut => Some(Wrong::NotJudged),
                Check::Contains(text) => memchr::memmem::find(&content.bytes, text).is_none().then_some(Wrong::Text),
                Check::Matches(pattern) => matches(matcher, pattern, &content.bytes),
                Check::Sha256(sum) => hash.as_ref().is_none_or(|hash| hash.as_ref() != sum).then_some(Wrong::Hash),
            };
            let Some(found) = found else { continue };
            *wrong = true;
            let (count, flag) = match found {
                Wrong::Header => (&mut errors.wrong_header, 0),
                Wrong::Text => (&mut errors.wrong_text, 1),
                Wrong::Pattern => (&mut errors.wrong_match, 2),
                Wrong::Hash => (&mut errors.wrong_hash, 3),
                Wrong::NotJudged | Wrong::Status | Wrong::Length | Wrong::Message | Wrong::Encoding | Wrong::Flag => {
                    (&mut errors.not_judged, 4)
                }
            };
            // Once for each answer.
            *count += u64::from(!core::mem::replace(&mut counted[flag], true));
            keep_sample(samples, found, || WrongAnswer {
                request: label(request, &talk.target),
                wrong: found,
                status: *status,
                came: match (found, check) {
                    (Wrong::Header, Check::Header { name, .. }) => format!("no such {name}"),
                    (Wrong::Hash, _) => hash.as_ref().map_or(String::new(), |hash| hex(hash.as_ref())),
                    (Wrong::NotJudged, _) => format!("{} bytes", content.length),
                    _ => excerpt(&content.bytes),
                },
            });
        }
    }
}

/// Whether a content does not match, or nobody knows.
fn matches(matcher: &mut Option<pcre::Matcher>, pattern: &Pattern, content: &[u8]) -> Option<Wrong> {
    let Some(matcher) = matcher else { return Some(Wrong::NotJudged) };
    match matcher.find(&pattern.regex, content) {
        Ok(Some(_)) => None,
        Ok(None) => Some(Wrong::Pattern),
        Err(_) => Some(Wrong::NotJudged),
    }
}

/// What was asked for, as it may be shown.
fn label(request: &Request, target: &[u8]) -> String {
    let target = if target.is_empty() { request.path.as_bytes() } else { target };
    format!("{} {}", request.method, excerpt(target))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
