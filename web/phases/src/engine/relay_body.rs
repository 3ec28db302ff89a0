//! The body of an upstream's answer, as it comes and as its client takes it.

use super::course::{Course, CourseState};
use super::making::Filtering;
use super::relay::{IDLE, RelayStage};
use super::relay_rate::PACE;
use super::relay_run::told_of;
use super::run::Runner;
use super::{Engine, Rest};
use exchange::{ExchangeId, Piece, Replies, Stop, UpstreamEvent, UpstreamId};
use h1::client::ResponseEvent;
use std::rc::Rc;

/// Bytes of a tunnel that wait for one side, at most.
pub(super) const TUNNEL_MAX: usize = app::SEND_LOW_WATER + (16 << 10);

/// What came of some of a body.
enum Ended {
    /// More of it is to come.
    Not,
    /// All of it is there.
    Whole,
    /// It will not be whole, for this reason.
    Cut(String),
}

impl Engine {
    /// Something happened at a connection to an upstream.
    pub(super) fn on_upstream_event(
        &mut self,
        replies: &mut dyn Replies,
        id: UpstreamId,
        mark: u32,
        event: UpstreamEvent<'_>,
    ) -> usize {
        let all = if let UpstreamEvent::Data(bytes) = event { bytes.len() } else { 0 };
        if mark & IDLE != 0 {
            self.rest.on_idle_event(replies, &self.loaded, id, mark);
            return all;
        }
        let course = self.rest.courses.get_mut(mark as usize).and_then(Option::as_mut);
        let stage = course.and_then(|course| course.relay.as_ref()).filter(|relay| relay.link == Some(id));
        match stage.map(|relay| relay.gateway.is_some()) {
            None => {
                replies.cut(id);
                all
            }
            Some(true) => self.on_program_event(replies, (id, mark), event),
            Some(false) => self.on_plain_event(replies, (id, mark), event),
        }
    }

    /// The same, of what is HTTP.
    pub(super) fn on_plain_event(
        &mut self,
        replies: &mut dyn Replies,
        (id, mark): (UpstreamId, u32),
        event: UpstreamEvent<'_>,
    ) -> usize {
        let relay = self.rest.relay_of(mark).filter(|relay| relay.link == Some(id));
        match relay.map(|relay| relay.stage) {
            None | Some(RelayStage::Resolves) => 0,
            Some(RelayStage::Connects | RelayStage::Head) => self.on_early_event(replies, mark, event),
            Some(RelayStage::Body) => self.on_body_event(replies, mark, event),
            Some(RelayStage::Tunnel) => self.on_tunnel_event(replies, mark, event),
        }
    }

    /// Before the answer's body: the request goes on by it.
    fn on_early_event(&mut self, replies: &mut dyn Replies, token: u32, event: UpstreamEvent<'_>) -> usize {
        let mut taken = 0;
        self.run_early(replies, token, |runner| {
            let came = runner.on_upstream_event(event);
            taken = came.taken;
            came.flow
        });
        taken
    }

    /// A request goes on by what `act` makes of it.
    pub(super) fn run_early(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        act: impl FnOnce(&mut super::run::Runner<'_>) -> super::run::Flow,
    ) {
        let Some(place) = self.rest.courses.get_mut(token as usize) else { return };
        let Some(mut course) = place.take() else { return };
        let Some(request) = course.request.take() else {
            *place = Some(course);
            return;
        };
        course.state = CourseState::Runs;
        self.run_from(replies, token, course, &request.get(), |runner| Some(act(runner)));
        self.rest.spare.give_bytes(request.into_memory());
        self.go_on_reading(replies, token);
    }

    /// A body will not be whole, for this reason.
    pub(super) fn cut_answer(&mut self, replies: &mut dyn Replies, token: u32, why: String) {
        self.on_body_over(replies, token, Ended::Cut(why));
    }

    /// What of a body came with its head is offered again.
    fn go_on_reading(&mut self, replies: &mut dyn Replies, token: u32) {
        let course = self.rest.courses.get(token as usize).and_then(Option::as_ref);
        let relay = course.and_then(|course| course.relay.as_ref());
        if let Some(link) = relay.filter(|relay| relay.stage == RelayStage::Body).and_then(|relay| relay.link) {
            replies.resume_upstream(link);
        }
    }

    /// While the answer's body comes.
    fn on_body_event(&mut self, replies: &mut dyn Replies, token: u32, event: UpstreamEvent<'_>) -> usize {
        let mut all = 0;
        let ended = match event {
            UpstreamEvent::Data(bytes) => {
                let ended = loop {
                    let rest = bytes.get(all..).unwrap_or_default();
                    let (taken, ended) = self.rest.take_body(replies, token, rest);
                    all += taken;
                    if taken == 0 || !matches!(ended, Ended::Not) {
                        break ended;
                    }
                    // The client may take some, and so make room.
                    self.make_more(replies, token);
                };
                if !matches!(ended, Ended::Not) {
                    ended
                } else {
                    self.rest.pass_on(replies, token);
                    return all;
                }
            }
            UpstreamEvent::Passed(bytes) => {
                self.rest.take_passed(replies, token, bytes);
                return 0;
            }
            // It is the client that is waited for, or no longer.
            UpstreamEvent::Timer if self.rest.passes_slowly(replies, token) => return 0,
            UpstreamEvent::End { held } => match self.rest.end_body(replies, token, held) {
                Some(ended) => ended,
                None => return 0,
            },
            UpstreamEvent::Timer if self.rest.is_its_time(replies, token) => return 0,
            UpstreamEvent::Timer => Ended::Cut("upstream timed out (110: Connection timed out)".to_owned()),
            UpstreamEvent::Closed(why) => Ended::Cut(told_of(why, false)),
            UpstreamEvent::Room => {
                self.with_runner(replies, token, |runner| runner.send_body());
                return 0;
            }
            UpstreamEvent::Opened | UpstreamEvent::Secured(_) | UpstreamEvent::Unsecured(_) => return 0,
        };
        if let (UpstreamEvent::Data(bytes), Ended::Whole) = (event, &ended)
            && all < bytes.len()
        {
            let surplus = bytes.len() - all;
            self.with_runner(replies, token, |runner| {
                runner.on_surplus(surplus);
                if let Some(last) = runner.course.tries.last_mut() {
                    last.received += surplus as u64;
                    last.length += surplus as u64;
                }
            });
        }
        if let UpstreamEvent::Data(bytes) = event {
            // Nothing else is read of it.
            all = bytes.len();
        }
        self.on_body_over(replies, token, ended);
        all
    }

    fn on_body_over(&mut self, replies: &mut dyn Replies, token: u32, ended: Ended) {
        let ended = match self.rest.relay_of(token).and_then(|relay| relay.odd_slice()) {
            Some(why) if matches!(ended, Ended::Whole) => Ended::Cut(why),
            _ => ended,
        };
        let whole = matches!(ended, Ended::Whole);
        if let Ended::Cut(why) = &ended {
            self.with_runner(replies, token, |runner| runner.tell_of_upstream(why, "reading upstream"));
        }
        let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_mut) else { return };
        if let Some(relay) = &mut course.relay {
            relay.complete = whole;
        }
        if let Some(filtering) = &mut course.filtering {
            match whole {
                true => _ = filtering.end(),
                false => filtering.is_cut = true,
            }
        }
        self.with_runner(replies, token, |runner| runner.end_relay());
        self.make_more(replies, token);
    }

    /// Acts on a request that is kept.
    pub(super) fn with_runner<T>(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        act: impl FnOnce(&mut super::run::Runner<'_>) -> T,
    ) -> Option<T> {
        self.rest.clock.now = replies.now();
        let clock = self.rest.clock;
        let mut course = self.rest.courses.get_mut(token as usize)?.take()?;
        let request = course.request.take();
        let done = request.as_ref().map(|request| {
            let loaded = Rc::clone(&course.loaded);
            act(&mut super::run::Runner {
                files: &mut self.files,
                rest: &mut self.rest,
                replies,
                course: &mut course,
                request: &request.get(),
                loaded,
                clock,
                token,
                location: None,
            })
        });
        course.request = request;
        if let Some(place) = self.rest.courses.get_mut(token as usize) {
            *place = Some(course);
        }
        done
    }

    /// A piece of a body that is sent to an upstream was read back.
    pub(super) fn on_relay_piece(&mut self, replies: &mut dyn Replies, token: u32, piece: Option<&[u8]>) {
        let Some(relay) = self.rest.relay_of(token) else { return };
        if relay.stage == RelayStage::Body {
            if piece.is_some() {
                self.with_runner(replies, token, |runner| runner.on_body_piece(piece));
            }
            return;
        }
        let Some(place) = self.rest.courses.get_mut(token as usize) else { return };
        let Some(mut course) = place.take() else { return };
        let Some(request) = course.request.take() else {
            *place = Some(course);
            return;
        };
        course.state = CourseState::Runs;
        self.run_from(replies, token, course, &request.get(), |runner| Some(runner.on_body_piece(piece)));
        self.rest.spare.give_bytes(request.into_memory());
    }

    /// Bytes of a body that goes on as it comes. How many were taken.
    pub(super) fn on_streamed_bytes(&mut self, replies: &mut dyn Replies, token: u32, bytes: &[u8]) -> usize {
        let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_deref_mut) else { return 0 };
        // Nobody wants the rest of it.
        let Some(relay) = course.relay.as_deref_mut() else { return bytes.len() };
        let (Some(link), Some(stream), true) = (relay.link, &mut relay.stream, relay.sent) else { return 0 };
        let room = TUNNEL_MAX.saturating_sub(replies.unsent_upstream(link));
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        stream.held = room == bytes.len();
        let (mut framing, mut line) = (0, Vec::new());
        for part in bytes.chunks(stream.part_max()) {
            line.clear();
            let end = stream.frame(part.len(), &mut line);
            for piece in [&line, part, end] {
                replies.send_upstream(link, Piece::Bytes(piece));
            }
            framing += line.len() + end.len();
        }
        relay.body_at += bytes.len() as u64;
        if let Some(last) = course.tries.last_mut() {
            last.sent += (bytes.len() + framing) as u64;
        }
        self.with_runner(replies, token, |runner| runner.watch_streaming());
        bytes.len()
    }

    /// A body that goes on as it comes is over, or will not be whole.
    pub(super) fn on_streamed_end(&mut self, replies: &mut dyn Replies, token: u32, whole: bool) {
        let Some(relay) = self.rest.relay_of(token) else { return };
        if whole {
            self.with_runner(replies, token, |runner| runner.end_stream());
            return;
        }
        let replying = relay.stage == RelayStage::Body;
        self.with_runner(replies, token, |runner| runner.end_relay());
        if !replying {
            // It ends with what the body failed with.
            self.go_on(replies, token);
            return;
        }
        let id = self.rest.courses.get(token as usize).and_then(Option::as_ref).map(|course| course.id);
        self.rest.end(replies, token, false);
        if let Some(id) = id {
            replies.stop(id, Stop::Reset);
        }
    }

    /// The client of a request that is passed on sends no more: as nginx has it, it has
    /// left.
    pub(super) fn on_client_left(&mut self, replies: &mut dyn Replies, id: ExchangeId) {
        let Some(token) = replies.mark(id) else { return };
        let Some(relay) = self.rest.relay_of(token) else { return };
        if relay.rules.ignores_client_end {
            return;
        }
        let begun = relay.stage == RelayStage::Body;
        self.with_runner(replies, token, |runner| {
            let told = "client prematurely closed connection, so upstream connection is closed too";
            runner.tell_at(crate::logging::ErrorLevel::INFO, told, runner.doing());
            runner.end_relay();
            if !begun {
                runner.course.sent.status = 499;
                runner.course.told = None;
            }
        });
        self.rest.end(replies, token, false);
        replies.stop(id, Stop::Reset);
    }
}

impl Runner<'_> {
    /// There is room for more of a body that goes on as it comes.
    pub(super) fn go_on_streaming(&mut self) {
        let id = self.course.id;
        let Some(stream) = self.relay().and_then(|relay| relay.stream.as_mut()) else { return };
        stream.held = false;
        self.replies.read(id, None);
        self.watch_streaming();
    }

    /// The upstream is waited for while it takes none of the body, or has all of it; not
    /// while the client is waited for.
    fn watch_streaming(&mut self) {
        let now = self.clock.now;
        let Some(relay) = self.course.relay.as_deref().filter(|relay| relay.stage == RelayStage::Head) else { return };
        let Some(link) = relay.link else { return };
        let busy = self.replies.unsent_upstream(link) > app::SEND_LOW_WATER;
        let at = match (busy, relay.body_done) {
            (true, _) => Some(now + relay.rules.send),
            (false, true) => Some(now + relay.rules.read),
            (false, false) => None,
        };
        self.replies.set_upstream_timer(link, at);
    }

    /// All of a body that goes on as it comes was sent.
    pub(super) fn end_stream(&mut self) {
        let Some(relay) = self.course.relay.as_deref_mut() else { return };
        let (Some(link), Some(stream), true) = (relay.link, relay.stream, relay.sent) else { return };
        if core::mem::replace(&mut relay.body_done, true) {
            return;
        }
        let mut last = Vec::new();
        stream.end(&mut last);
        if !last.is_empty() {
            self.replies.send_upstream(link, Piece::Bytes(&last));
            if let Some(one) = self.course.tries.last_mut() {
                one.sent += last.len() as u64;
            }
        }
        self.watch_streaming();
    }
}

impl Rest {
    pub(super) fn relay_of(&mut self, token: u32) -> Option<&mut super::relay::Relay> {
        self.courses.get_mut(token as usize)?.as_deref_mut()?.relay.as_deref_mut()
    }

    /// Takes some of a body: as much as may wait for its client. How many bytes were
    /// taken, and whether it is over.
    fn take_body(&mut self, replies: &mut dyn Replies, token: u32, bytes: &[u8]) -> (usize, Ended) {
        let (now, most) = (replies.now(), self.makings.relayed_max());
        let Some(course) = self.courses.get_mut(token as usize).and_then(Option::as_deref_mut) else {
            return (bytes.len(), Ended::Not);
        };
        let so_far = course.tries.last().map_or(0, |last| last.length);
        // What was made of a program's answer was waited for before.
        let plain = course.relay.as_ref().filter(|relay| relay.gateway.is_none());
        let allowed = plain.map_or(Ok(usize::MAX), |relay| relay.allowed(so_far, now));
        let offered = allowed.map_or(0, |allowed| allowed.min(bytes.len()));
        let (taken, ended) = course.take_body(replies, most, (bytes, offered));
        let Some(relay) = course.relay.as_deref_mut() else { return (taken, ended) };
        // Also where what was offered ends within a chunk's line: nothing more may come that
        // would ask for the rest of it.
        relay.paced = offered < bytes.len() && !relay.held && matches!(ended, Ended::Not);
        if let Some(link) = relay.link {
            // While the client is waited for, the upstream is not.
            let at = match allowed {
                _ if relay.paced => Some(now + allowed.err().unwrap_or(PACE)),
                _ if relay.held => None,
                _ => Some(now + relay.rules.read),
            };
            replies.set_upstream_timer(link, at);
        }
        (taken, ended)
    }

    /// The upstream sends no more, and `held` bytes wait; nothing if these come first.
    fn end_body(&mut self, replies: &mut dyn Replies, token: u32, held: usize) -> Option<Ended> {
        let course = self.courses.get_mut(token as usize)?.as_deref_mut()?;
        let relay = course.relay.as_deref_mut()?;
        if held == 0 {
            return Some(relay.at_end(0));
        }
        relay.ended = true;
        if let (Some(link), false) = (relay.link, relay.held) {
            replies.resume_upstream(link);
        }
        None
    }

    /// The client has taken some: what waits at the data path is asked for again.
    pub(super) fn read_more(&mut self, replies: &mut dyn Replies, token: u32) {
        let now = replies.now();
        let Some(course) = self.courses.get_mut(token as usize).and_then(Option::as_deref_mut) else { return };
        let (id, room) = (course.id, course.room_ahead());
        let is_direct = course.filtering.as_deref().is_some_and(Filtering::is_direct);
        let Some(relay) = course.relay.as_deref_mut() else { return };
        if relay.stage == RelayStage::Body
            && relay.held
            && room >= relay.ahead_max().div_ceil(2)
            && (!is_direct || replies.flow(id).unsent <= app::SEND_LOW_WATER)
        {
            relay.held = false;
            if let Some(link) = relay.link {
                replies.set_upstream_timer(link, Some(now + relay.rules.read));
                replies.resume_upstream(link);
            }
        }
    }
}

impl super::relay::Relay {
    fn at_end(&mut self, held: usize) -> Ended {
        match self.reader.on_end(held) {
            Ok(Some(_)) => Ended::Whole,
            Ok(None) | Err(_) => Ended::Cut("upstream prematurely closed connection".to_owned()),
        }
    }
}

impl Course {
    /// Bytes that may be read ahead of the client.
    fn room_ahead(&self) -> usize {
        let waiting = self.filtering.as_ref().map_or(0, |filtering| filtering.waiting_bytes());
        self.relay.as_ref().map_or(0, |relay| relay.ahead_max().saturating_sub(waiting))
    }

    /// The same, with what goes to its client as it is: up to `most` bytes that are unsent.
    pub(super) fn room_for_body(&self, replies: &dyn Replies, most: usize) -> usize {
        match self.filtering.as_deref().is_some_and(Filtering::is_direct) {
            true => most.saturating_sub(replies.flow(self.id).unsent),
            false => self.room_ahead(),
        }
    }

    /// Takes some of a body. What nothing changes or delays goes to the client as it is,
    /// up to `most` bytes that are unsent; all else waits until it is made.
    /// Of what came the first so many bytes are offered.
    fn take_body(&mut self, replies: &mut dyn Replies, most: usize, (all, offered): (&[u8], usize)) -> (usize, Ended) {
        let bytes = all.get(..offered).unwrap_or(all);
        // What was made of a program's answer was measured before.
        let made = self.relay.as_ref().is_some_and(|relay| relay.gateway.is_some());
        let mut room = if made { bytes.len() } else { self.room_for_body(replies, most) };
        let is_direct = self.filtering.as_deref().is_some_and(Filtering::is_direct);
        let mut passed = 0;
        let (Some(relay), Some(filtering)) = (self.relay.as_deref_mut(), self.filtering.as_deref_mut()) else {
            return (0, Ended::Not);
        };
        let limits = relay.body_limits();
        let mut at = 0;
        relay.held = false;
        let ended = loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if room == 0 && !rest.is_empty() {
                // Until the client has taken some. What is left of a line that is not
                // whole waits for its upstream.
                relay.held = true;
                break Ended::Not;
            }
            match relay.reader.on_bytes(
                rest.get(..rest.len().min(room + FRAMING)).unwrap_or(rest),
                relay.asked,
                &limits,
            ) {
                ResponseEvent::Body { bytes, consumed } => {
                    at += consumed;
                    room = room.saturating_sub(bytes.len());
                    if is_direct {
                        replies.body(self.id, Piece::Bytes(bytes));
                        passed += bytes.len() as u64;
                        continue;
                    }
                    let kept = self.slices.as_deref_mut().map_or(bytes, |slices| slices.cut(bytes));
                    filtering.add_copy(kept);
                }
                ResponseEvent::EndOfBody { consumed, trailers } => {
                    if relay.rules.passes_trailers {
                        self.sent.upstream_trailers.extend_from_slice(trailers);
                    }
                    at += consumed;
                    break Ended::Whole;
                }
                ResponseEvent::NeedMore if relay.ended && bytes.len() == all.len() => {
                    break relay.at_end(bytes.len() - at);
                }
                ResponseEvent::NeedMore => break Ended::Not,
                ResponseEvent::Failed { error } => break Ended::Cut(relay.body_fault(error, rest)),
                ResponseEvent::Interim { .. } | ResponseEvent::LineFeeds { .. } | ResponseEvent::Response { .. } => {
                    break Ended::Cut("upstream sent more than was asked for".to_owned());
                }
            }
        };
        filtering.told += passed;
        self.sent.body += passed;
        if let Some(last) = self.tries.last_mut().filter(|_| !made) {
            last.received += at as u64;
            // As nginx counts it, with what is between chunks.
            last.length += at as u64;
        }
        (at, ended)
    }
}

/// Bytes of framing that stand before some of a body: a chunk's line and trailers are
/// read as a whole.
const FRAMING: usize = 20 << 10;
