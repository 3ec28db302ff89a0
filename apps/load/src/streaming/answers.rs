//! Answers to streams: what is played of them, and how they are held against what was wanted.

use super::Streaming;
use super::stream::Line;
use crate::checks::{Wrong, WrongAnswer, excerpt, keep_sample};
use crate::figures::Cookies;
use app::Net;
use h1::client::{Response, ResponseEvent};
use semantics::Method;
use wire::Time;

impl Streaming {
    /// Takes of an answer what there is room for. How many bytes were taken.
    pub(super) fn take<N: Net>(&mut self, net: &mut N, number: usize, data: &[u8]) -> usize {
        let now = net.now();
        let mut used = 0;
        loop {
            let (stream, carrier) = (&mut self.streams[number], &self.carriers[number]);
            let mut rest = data.get(used..).unwrap_or_default();
            match carrier.line {
                Line::Asked => {}
                Line::Idle if rest.is_empty() => return used,
                Line::Idle => {
                    self.measure.figures.errors.malformed += 1;
                    self.fail(net, number, "the server sends what was not asked for".to_owned());
                    return data.len();
                }
                Line::Closed | Line::Connecting | Line::Securing | Line::Shared | Line::Ending => return data.len(),
            }
            if stream.paused.is_some_and(|until| now < until) {
                return used;
            }
            stream.paused = None;
            if !rest.is_empty() {
                stream.came = true;
                // Where redirects are followed, the answer is the one that leads nowhere.
                if self.plan.load.follow == 0 {
                    self.measure.on_first_byte(now, &mut stream.flow);
                }
            }
            if stream.reader.is_within_content() && !stream.leads {
                let room = usize::try_from(stream.flow.room(now)).unwrap_or(usize::MAX);
                if room == 0 && !rest.is_empty() {
                    self.pause(net, number);
                    return used;
                }
                rest = rest.get(..room).unwrap_or(rest);
            }
            match stream.reader.on_bytes(rest, Method::Get, &self.limits) {
                ResponseEvent::NeedMore => return used,
                ResponseEvent::Interim { consumed, .. } => used += consumed,
                ResponseEvent::Response { response, consumed } => {
                    used += consumed;
                    if !self.on_head(net, number, &response) {
                        return data.len();
                    }
                    if response.framing == h1::Framing::None {
                        self.on_whole(net, number);
                    }
                }
                ResponseEvent::Body { bytes, consumed } => {
                    used += consumed;
                    if let (Some(dialogue), Some(id)) = (&mut self.dialogue, carrier.id) {
                        dialogue.on_content(id, bytes);
                    }
                    if !stream.leads {
                        self.measure.on_content(now, number, &mut stream.flow, bytes.len() as u64);
                    }
                }
                ResponseEvent::EndOfBody { consumed, .. } => {
                    used += consumed;
                    self.on_whole(net, number);
                }
                ResponseEvent::LineFeeds { .. } | ResponseEvent::Failed { .. } => {
                    self.measure.figures.errors.malformed += 1;
                    self.fail(net, number, "the server does not answer as HTTP/1.1 has it".to_owned());
                    return data.len();
                }
            }
        }
    }

    /// The head of an answer came. Whether the answer is gone on with.
    fn on_head<N: Net>(&mut self, net: &mut N, number: usize, response: &Response<'_>) -> bool {
        let now = net.now();
        let (stream, carrier) = (&mut self.streams[number], &mut self.carriers[number]);
        (carrier.keeps, stream.status) = (response.keep_alive, response.status.code());
        if let (Some(dialogue), Some(id)) = (&mut self.dialogue, carrier.id) {
            let request = &self.plan.load.requests[usize::from(stream.number)].item;
            // None are kept.
            let mut cookies = Cookies::default();
            dialogue.on_head(id, (request, self.plan.load.checks_of(request)), response, now, &mut cookies);
            stream.leads = dialogue.follows(stream.status);
        }
        stream.leads || self.accept(net, number)
    }

    /// Looks at the status of an answer that leads nowhere. Whether it is one to play.
    fn accept<N: Net>(&mut self, net: &mut N, number: usize) -> bool {
        match self.judge_status(net.now(), number) {
            None => true,
            Some(why) => {
                self.fail(net, number, why);
                false
            }
        }
    }

    /// Looks at the status of an answer: why it is none to play, in words, if it is none.
    pub(super) fn judge_status(&mut self, now: Time, number: usize) -> Option<String> {
        let stream = &mut self.streams[number];
        self.measure.on_first_byte(now, &mut stream.flow);
        let code = stream.status;
        let request = &self.plan.load.requests[usize::from(stream.number)].item;
        let wanted = request.expect.unwrap_or(self.plan.load.expect).status;
        if wanted.is_some_and(|wanted| wanted != code) {
            self.measure.figures.wrong_by.wrong_status += 1;
            self.note_wrong(number, Wrong::Status, 0);
            self.count_wrong(number);
        }
        if (200..300).contains(&code) || wanted == Some(code) {
            return None;
        }
        self.measure.figures.errors.statuses += 1;
        Some(format!("the server answers with status {code}"))
    }

    /// An answer is whole, or leads on: the next is asked for, as soon as there is room for it.
    fn on_whole<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let (stream, carrier) = (&mut self.streams[number], &self.carriers[number]);
        let Some(id) = carrier.id else { return };
        if stream.leads {
            let request = &self.plan.load.requests[usize::from(stream.number)].item;
            let redirects = &mut self.measure.figures.redirects;
            let Some(dialogue) = &mut self.dialogue else { return };
            stream.leads = false;
            if let Some(target) = dialogue.led_on(id, &request.host, carrier.is_at_end, redirects) {
                redirects.followed += 1;
                dialogue.release(id);
                dialogue.send_on(net, id, request, (target, stream.status));
                net.set_timer(id, Some(now + self.plan.load.timeout));
                return;
            }
            if !self.accept(net, number) {
                return;
            }
        }
        self.judge(number, self.streams[number].reader.body_len());
        let carrier = &mut self.carriers[number];
        carrier.answers += 1;
        if !carrier.keeps || carrier.is_at_end {
            self.measure.figures.reopened += u64::from(carrier.keeps);
            carrier.line = Line::Ending;
            net.finish(id);
        } else if self.streams[number].flow.room(now) == 0 {
            carrier.line = Line::Idle;
            self.pause(net, number);
        } else {
            self.ask(net, number);
        }
    }

    /// Counts a whole answer of so many bytes of content, and holds it against what was wanted.
    pub(super) fn judge(&mut self, number: usize, content: u64) {
        self.measure.figures.answers += 1;
        let stream = &self.streams[number];
        let request = &self.plan.load.requests[usize::from(stream.number)].item;
        let wanted = request.expect.unwrap_or(self.plan.load.expect).length;
        let mut wrong = wanted.is_some_and(|wanted| wanted != content);
        if wrong {
            self.measure.figures.wrong_by.wrong_length += 1;
            self.note_wrong(number, Wrong::Length, content);
        }
        let stream = &self.streams[number];
        // There is one over HTTP/1.1 alone.
        if let Some(dialogue) = &mut self.dialogue
            && let Some(id) = self.carriers[number].id
        {
            let request = &self.plan.load.requests[usize::from(stream.number)].item;
            let checks = self.plan.load.checks_of(request);
            if !checks.is_empty() {
                let figures = &mut self.measure.figures;
                let account = (&mut figures.wrong_by, &mut figures.wrong_answers);
                dialogue.judge(id, request, checks, false, account);
                wrong |= core::mem::take(&mut dialogue.wrong);
            }
            dialogue.release(id);
        }
        if wrong {
            self.count_wrong(number);
        }
    }

    /// The answer at hand is not as it was to be: it counts once.
    fn count_wrong(&mut self, number: usize) {
        let was = core::mem::replace(&mut self.streams[number].wrong, true);
        self.measure.figures.wrong += u64::from(!was);
    }

    /// Keeps the answer at hand, of which so much content came, as one that is wrong.
    fn note_wrong(&mut self, number: usize, wrong: Wrong, content: u64) {
        let stream = &self.streams[number];
        let request = &self.plan.load.requests[usize::from(stream.number)].item;
        keep_sample(&mut self.measure.figures.wrong_answers, wrong, || WrongAnswer {
            request: format!("{} {}", request.method, excerpt(request.path.as_bytes())),
            wrong,
            status: stream.status,
            came: format!("{content} bytes"),
        });
    }

    /// The server sends no more, and all that it sent was taken.
    pub(super) fn on_all_taken<N: Net>(&mut self, net: &mut N, number: usize) {
        let (stream, carrier) = (&mut self.streams[number], &mut self.carriers[number]);
        let Some(id) = carrier.id else { return };
        if carrier.line == Line::Idle {
            // RFC 9112 section 9.5: as it may.
            self.measure.figures.reopened += 1;
        }
        if carrier.line == Line::Asked {
            // RFC 9112 section 9.8: without close_notify, what has no length may not be whole.
            let cut = self.plan.load.secured.is_some() && net.was_cut(id);
            let ended = stream.reader.on_end(0);
            if !cut && let Ok(Some(_)) = ended {
                carrier.keeps = false;
                return self.on_whole(net, number);
            }
            let why = match (ended, stream.came) {
                (Ok(Some(_)), _) => {
                    "a secured stream was cut off: it ended without close_notify, and its answer has no length"
                }
                (_, true) => "the server closed a stream within an answer",
                (_, false) => "the server closed a connection before it answered",
            };
            if !self.take_back(number) {
                self.measure.figures.errors.lost += 1;
                return self.fail(net, number, why.to_owned());
            }
        }
        self.carriers[number].line = Line::Ending;
        net.finish(id);
    }
}
