//! Exchanges reach the engine.

use super::Engine;
use super::body_progress::BodyProgress;
use super::log::CLIENT_LEFT;
use super::passing::Passing;
use super::request_state::{RequestStage, RequestState};
use super::scope::Clock;
use app::Wake;
use asking::SHARED;
use core::hint::cold_path;
use exchange::{
    Asked, Bodies, BodyCut, ConnectionFault, ExchangeId, Gone, Handler, HandlerRules, Intake, Prepared, Ready,
    ReadySent, Refused, Replies, RequestBody, Rests, Stop, Transport, UpstreamEvent, UpstreamHandler, UpstreamId,
};
use features::ErrorLevel;
use features::compression::CompressedBodies;
use formats::host::{has_empty_label, names_a_host};
use formats::written::put;
use passwords::Verifier;
use semantics::date::HttpDate;
use semantics::path::normalise_as;
use semantics::{Form, Method, Request};
use std::rc::Rc;
use wire::Time;

/// How often subrequests and who asked for them go on in a turn.
const ROUNDS_MAX: u32 = 4;

/// Whether a field of a head is longer than a buffer is, its end included: of the first
/// server's until the host is told, of that host's behind it. If so, whether the host is
/// told before it.
fn long_field(head: &[u8], buffers: (u64, u64)) -> Option<bool> {
    let (mut buffer, mut names_host) = (buffers.0, false);
    if head.len() as u64 <= buffers.0.min(buffers.1) {
        return None;
    }
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    // Of HTTP/2 this is one of many fields, each of which was held against a buffer when it came (RFC 9113
    // section 8.2.3).
    let is_joined = lines.next().is_some_and(|line| line.ends_with(b" HTTP/2.0\r\n"));
    for line in lines {
        if line.len() as u64 > buffer && !(is_joined && line.starts_with(b"cookie: ")) {
            return Some(names_host);
        }
        if line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"host:")) {
            (buffer, names_host) = (buffers.1, true);
        }
    }
    None
}

/// Whether a request's method is written as methods are: rules about methods (`limit_except`,
/// `if ($request_method = POST)`, those of what it is passed on to) are written in capitals,
/// and nobody is to pass them by `post`.
fn has_method(request: &Request<'_>) -> bool {
    let is_written_so = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'_' | b'-');
    request.method() != Method::Other || request.method_name().iter().all(is_written_so)
}

impl Engine {
    /// Nobody answers a request: its connection ends.
    #[cold]
    fn hang_up_on(&mut self, replies: &mut dyn Replies, token: u32, state: Box<RequestState>) {
        let id = state.id;
        self.rest.give_back(token, state);
        replies.stop(id, Stop::HangUp);
    }

    /// Answers what is no request by the default server of its listener; logs what there is of a
    /// head of which no more comes, and hangs up.
    pub(super) fn refuse(&mut self, replies: &mut dyn Replies, id: ExchangeId, refused: Refused<'_>) -> bool {
        let loaded = Rc::clone(&self.loaded);
        let listener = Self::listener(&loaded, self.single, || replies.about(id).local);
        let program = &loaded.program;
        let Some(terms) = program.listeners.get(usize::from(listener)) else { return false };
        let request = *refused.request;
        let authority = request.authority();
        let is_named = refused.is_cut && !authority.is_empty() && names_a_host(&request, authority);
        let mut find = |expression: u32, name: &[u8]| loaded.matches(expression, name);
        let place = if is_named { terms.names.find(authority, &mut find) } else { 0 };
        let server = terms.servers.get(usize::from(place)).copied();
        let block = server.and_then(|server| program.server(server)).map(|server| server.block);
        let Some((server, block)) = server.zip(block) else { return false };
        let token = self.rest.requests.reserve();
        let mut state = self.rest.begin(&loaded, id, &request, replies);
        let waited = u64::try_from(refused.waited.as_nanos()).unwrap_or(0);
        state.started = Time::from_nanos(state.started.as_nanos().saturating_sub(waited));
        (state.route.listener, state.route.server, state.route.block, state.route.place) =
            (listener, server, block, block);
        state.about.http10 = request.line().ends_with(b"HTTP/1.0");
        self.rest.clock.now = replies.now();
        let status = refused.status.code();
        if refused.is_cut {
            // Where its line is none, or its host, nothing is believed.
            let is_believed = !request.target().is_empty() && (is_named || authority.is_empty());
            state.refused = (!is_believed).then_some(status);
            state.sent.status = status;
            self.rest.log(&mut state, &request);
            self.hang_up_on(replies, token, state);
            return true;
        }
        state.refused = Some(match status {
            // nginx's number for it.
            431 => 494,
            code => code,
        });
        self.run(replies, token, state, &request);
        true
    }
}

impl Handler for Engine {
    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: RequestBody) {
        let loaded = Rc::clone(&self.loaded);
        let token = self.rest.requests.reserve();
        if self.tells {
            self.rest.share.publish(replies.totals(), self.rest.requests.count() as u64);
        }
        let mut state = self.rest.begin(&loaded, id, request, replies);
        state.body = BodyProgress::of(body);
        state.route.listener = Self::listener(&loaded, self.single, || state.about.local);
        let Some(listener) = loaded.program.listeners.get(usize::from(state.route.listener)) else {
            return self.hang_up_on(replies, token, state);
        };
        state.reuse.class = self.class(|known| request.known(known), state.about.transport);
        state.route.uri.push(b'/');
        let mut rest = self.rest.spare.bytes();
        // The path is read before the host is known.
        let default = listener.servers.first().and_then(|server| loaded.program.server(*server));
        let merges = default.is_none_or(|server| server.merge_slashes);
        let is_path = matches!(request.form(), Form::Origin | Form::Absolute);
        let is_path = is_path && normalise_as(request.path(), &mut rest, merges).is_ok();
        // CONNECT names a host and a port, and is refused by its method.
        let is_target = is_path || request.form() == Form::Authority;
        let authority = request.authority();
        if is_target && has_method(request) && names_a_host(request, authority) {
            state.route.uri.append(&mut rest);
        } else {
            // Nothing of it is believed, its host neither.
            state.refused = Some(400);
        }
        self.rest.spare.give_bytes(rest);
        let mut by_expression = None;
        let mut find = |expression: u32, name: &[u8]| {
            let matches = loaded.matches(expression, name);
            if matches {
                by_expression = Some((expression, name.to_vec()));
            }
            matches
        };
        let is_read = !state.is_refused();
        // One alone has all names; only an expression has more to tell of them.
        let is_chosen = listener.servers.len() > 1 || listener.names.has_expression(0);
        let mut place = if is_read && is_chosen { listener.names.find(authority, &mut find) } else { 0 };
        let server_at = |place: u16| listener.servers.get(usize::from(place)).map(|server| usize::from(server.0));
        let buffer = |place| Some(loaded.program.servers.get(server_at(place)?)?.head.line);
        let buffers = (buffer(0).unwrap_or(u64::MAX), buffer(place).unwrap_or(u64::MAX));
        if is_read && let Some(names_host) = long_field(request.head(), buffers) {
            // nginx's number for it.
            (state.refused, place) = (Some(494), if names_host { place } else { 0 });
        }
        if is_read {
            place = state.secured_place(listener, &loaded, request, place);
        }
        let Some(server) = listener.servers.get(usize::from(place)) else {
            return self.hang_up_on(replies, token, state);
        };
        state.route.server = *server;
        if let Some(block) = loaded.program.server(*server).map(|server| server.block) {
            state.route.settle(block);
        }
        self.rest.clock.now = replies.now();
        let is_at_fault = state.is_at_fault(listener, &loaded, request, &self.rest.clock);
        if is_at_fault || state.refused == Some(494) {
            state.end_connection(replies);
        }
        if let Some(by) = by_expression {
            self.take_groups(&loaded, &mut state, request, by);
        }
        self.run(replies, token, state, request);
    }

    /// What nothing reads is dropped once its request is answered.
    fn rules(&self) -> HandlerRules {
        let may_rest = self.rest.by_path && self.loaded.program.waits_for_files_alone();
        HandlerRules {
            intake: Intake { bodies: Bodies::Asked, ..Intake::default() },
            rests: if may_rest { Rests::Sometimes } else { Rests::Never },
            notes_ready: self.logs_any,
            asks_for_paths: self.retired.iter().chain([&self.loaded]).any(|loaded| loaded.asks_for_paths),
        }
    }

    fn on_body<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, bytes: &[u8]) -> usize {
        if self.is_tunnel(replies, id) {
            return self.on_tunnel_bytes(replies, id, bytes);
        }
        self.add_body(replies, id, bytes)
    }

    fn on_body_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, _: &[u8]) {
        if !self.on_tunnel_end(replies, id) {
            self.end_body(replies, id);
        }
    }

    fn on_body_cut<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, why: BodyCut) -> bool {
        self.cut_body(replies, id, why)
    }

    fn on_client_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, held: usize) {
        if held > 0 && self.asks_for_a_tunnel(replies, id) {
            // What is held may be the tunnel's.
            return;
        }
        self.on_client_left(replies, id);
        if !self.rest.subs.is_idle() {
            self.on_client_left_within(replies, id);
        }
    }

    fn on_room<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) {
        if self.on_tunnel_room(replies, id) {
            return;
        }
        if let Some(token) = replies.mark(id)
            && self.rest.requests.of((token, id)).is_some_and(|state| state.reply.filtering.is_some())
        {
            self.rest.make_ready(token);
            return;
        }
        let mut passing = Passing { replies, rest: &mut self.rest };
        self.files.on_room(&mut passing, id);
    }

    fn on_late<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        let Some(token) = replies.mark(id) else { return false };
        let state = self.rest.requests.of((token, id));
        if let Some(ticket) = state
            .and_then(|state| state.wait.ticket.filter(|_| state.features.compression.waited_by == state.wait.ticket))
        {
            // Nothing is wrong with the file: it is sent as it is.
            return self.go_on_by(replies, ticket, None);
        }
        let inner = state.filter(|state| state.wait.stage == RequestStage::Looks);
        let Some(inner) = inner.map(|state| state.wait.inner) else { return false };
        self.files.on_gone(id, inner, Gone::Cut);
        self.refuse_late(replies, token);
        // An error page may be found by the same file system.
        self.rest.requests.of((token, id)).is_some()
    }

    fn on_gone(&mut self, id: ExchangeId, mark: Option<u32>, why: Gone) {
        let Some(token) = mark.filter(|token| self.rest.requests.of((*token, id)).is_some()) else { return };
        match why {
            Gone::Cut => {}
            Gone::Left { unsent, .. } if self.rest.leave_behind((token, id), unsent) => return,
            Gone::Left { now, unsent } => self.rest.log_left(token, unsent, now, CLIENT_LEFT),
            Gone::FileFailed { now, unsent, fault } => {
                self.tell_of_unsent(token, id, fault);
                self.rest.log_left(token, unsent, now, CLIENT_LEFT);
            }
            Gone::GivenUp { now, unsent } => self.rest.log_left(token, unsent, now, 503),
        }
        let Some(state) = self.rest.requests.take(token) else { return };
        self.files.on_gone(id, state.wait.inner, Gone::Cut);
        let has_children = state.within.children.is_some();
        self.rest.give_back(token, state);
        if has_children {
            self.drop_subs(id);
        }
    }

    fn on_turn<R: Replies>(&mut self, replies: &mut R) -> Wake {
        if !self.loaded.may_write() && self.has_quiet_turn() {
            return Wake::Idle;
        }
        self.rest.kept.cut_all(replies);
        if self.rest.left_behind.has_work() {
            self.go_on_behind(replies);
        }
        if self.rest.kept.shared.has_work() {
            self.run_streams(replies);
        }
        let within = !self.rest.subs.is_idle();
        let mut wake = if within {
            self.on_files_turn(replies)
        } else {
            self.files.on_turn(&mut Passing { replies, rest: &mut self.rest })
        };
        let mut went_on = false;
        while let Some(fault) = self.files.next_fault() {
            self.tell_of_fault(&fault);
        }
        self.rest.cut.clear();
        while let Some(token) = self.files.next_woken() {
            self.go_on_any(replies, token);
            went_on = true;
        }
        if self.rest.verifier.as_mut().is_some_and(Verifier::arrived) {
            // Not readable, if another helper's answer took its signal along.
            let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
            went_on |= self.take_verdicts(replies);
        }
        if self.rest.compressed.as_ref().is_some_and(CompressedBodies::is_busy) && self.take_compressed(replies) {
            let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
            went_on = true;
        }
        went_on |= self.reads && self.take_bodies(replies);
        went_on |= self.resolves && self.take_names(replies);
        went_on |= self.wake_delayed(replies);
        let mut makes = self.make_all(replies);
        if !self.rest.subs.is_idle() {
            // Whoever has some of an answer passes it on.
            let mut rounds = ROUNDS_MAX;
            while rounds > 0 && self.run_subs(replies) {
                went_on = true;
                makes = makes.earlier(self.make_all(replies));
                rounds -= 1;
            }
            makes = makes.earlier(self.subs_wake());
        }
        if went_on {
            // They may have asked for more.
            wake = self.files.end_turn(&mut Passing { replies, rest: &mut self.rest });
        }
        wake = wake.earlier(makes);
        if (went_on || within || self.reads || self.rest.makings.count() > 0) && self.has_work() {
            // What ended meanwhile has made a place, or room, for others.
            wake = Wake::Now;
        }
        if self.resolves {
            wake = wake.earlier(self.loaded.names_wake());
        }
        if let Some(at) = self.rest.tickets.wake() {
            wake = wake.earlier(Wake::At(at));
        }
        if self.tells {
            self.rest.share.publish(replies.totals(), self.rest.requests.count() as u64);
        }
        let writes = self.loaded.may_write() || self.retired.iter().any(|loaded| loaded.may_write());
        if writes { wake.earlier(self.write_logs(replies.now())) } else { wake }
    }

    fn on_second(&mut self, second: u64, date: &HttpDate, now: Time) {
        self.rest.clock = Clock::new(second, *date, now);
        if let Some(logs) = self.loaded.logs.borrow_mut().as_mut() {
            logs.set_time(&self.rest.clock.there.date);
        }
        if !self.retired.is_empty() {
            self.let_go();
        }
        if !self.loaded.program.staples.is_empty() {
            self.tend_staples();
        }
        self.files.on_second(second, date, now);
    }

    #[inline(always)]
    fn is_at_rest(&self) -> bool {
        let (rest, is_written) = (&self.rest, !self.loaded.may_write() && self.retired.is_empty());
        rest.requests.count() == 0
            && rest.kept.hangups() == 0
            && !rest.kept.shared.has_work()
            && is_written
            && self.files.is_at_rest()
    }

    fn has_work(&self) -> bool {
        let rest = &self.rest;
        let woken = rest.left_behind.has_work()
            || !rest.makings.ready.is_empty()
            || !rest.subs.work.is_empty()
            || rest.has_place();
        let by_upstreams = rest.kept.hangups() > 0 || rest.kept.shared.has_work();
        woken || by_upstreams || self.files.has_work() || self.reads && self.has_room_for_bodies()
    }

    fn working(&self) -> u32 {
        self.files.working()
    }

    fn on_refused<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, refused: Refused<'_>) -> bool {
        self.refuse(replies, id, refused)
    }

    fn on_fault<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, fault: ConnectionFault<'_>) {
        match fault {
            ConnectionFault::ProxyHeader(bytes) => self.tell_of_proxy_header(replies, id, bytes),
            ConnectionFault::Handshake(fault) => self.tell_of_handshake(replies, id, fault),
            ConnectionFault::Protocol(name, why) => self.tell_of_connection(replies, id, ErrorLevel::INFO, |line| {
                put(line, format_args!("{why} while processing {name} connection"));
            }),
        }
    }
}

impl UpstreamHandler for Engine {
    fn on_upstream<R: Replies>(
        &mut self,
        replies: &mut R,
        id: UpstreamId,
        mark: u32,
        event: UpstreamEvent<'_>,
    ) -> usize {
        if mark & SHARED != 0 {
            return self.on_shared_event(replies, (id, mark), event);
        }
        self.with_any(replies, mark, |engine, replies| engine.on_upstream_event(replies, id, mark, event))
    }
}

impl Prepared for Engine {
    #[inline(always)]
    fn ready<'a>(&mut self, path: &[u8], host: impl FnOnce() -> &'a [u8], second: u64) -> Option<&mut Ready> {
        if !self.rest.ready_by_path || has_empty_label(host()) {
            return None;
        }
        self.files.ready(path, || &[], second)
    }

    fn ready_for<A: Asked>(&mut self, asked: &A, second: u64) -> Option<&mut Ready> {
        let is_any = self.rest.ready_by_path || !self.rest.ready.is_empty();
        if !is_any || asked.is_http10() {
            // What is ready is for clients of HTTP/1.1.
            return None;
        }
        // First: then the host is known, too.
        let (class, transport) = self.class_asked(asked);
        let server = self.server_for(asked)?;
        if transport != Transport::Plain && (asked.asks_clients() || !self.may_be_ready(transport, server)) {
            return None;
        }
        if self.rest.ready_by_path && self.files.renews_path(asked.path(), asked.now()) {
            return self.files.ready(asked.path(), || asked.authority(), second);
        }
        let at = self.rest.ready.find(asked, (server, class))?;
        if self.rest.ready.is_lasting(at, second) {
            cold_path();
            let (now, files, clock) = (asked.now(), &mut self.files, &self.rest.clock);
            self.rest.ready.date_anew(at, (second, &clock.date), |stamp| files.is_still(stamp, now));
        }
        self.rest.ready.take(at, second)
    }

    fn make_closing<A: Asked>(&mut self, asked: &A) -> bool {
        let Some(server) = self.server_for(asked) else { return false };
        if self.rest.by_path && self.files.make_closing(asked) {
            return true;
        }
        let (class, _) = self.class_asked(asked);
        self.rest.ready.make_closing(asked, (server, class))
    }

    fn on_ready_sent<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, sent: &ReadySent) {
        self.rest.log_ready(replies, id, request, sent);
    }
}

#[cfg(test)]
mod tests {
    use super::long_field;

    #[test]
    fn a_field_fits_into_one_buffer() {
        let head = |first: usize, second: usize| {
            let field = |name: &str, length: usize| format!("{name}: {}\r\n", "x".repeat(length - name.len() - 4));
            [
                &*format!("GET /{} HTTP/1.1\r\n", "y".repeat(200)),
                &field("host", first),
                &field("cookie", second),
                "\r\n",
            ]
            .concat()
        };
        for (first, second, found) in [
            (20, 20, None),
            (100, 100, None),
            (20, 150, None),
            (20, 151, Some(true)),
            (101, 20, Some(false)),
            (101, 101, Some(false)),
        ] {
            assert_eq!(long_field(head(first, second).as_bytes(), (100, 150)), found, "{first} {second}");
            let joined = head(first, second).replace("HTTP/1.1", "HTTP/2.0");
            let found = found.filter(|_| first > 100);
            assert_eq!(long_field(joined.as_bytes(), (100, 150)), found, "{first} {second}, joined");
        }
    }
}
