//! Requests that are over are logged.

use super::Rest;
use super::ready::Note;
use super::real_ip::set_real_address_of_ready;
use super::request_state::RequestState;
use super::scope::{Clock, Scope};
use super::subrequest::SubUse;
use configuration::logging::{HeadPart, LogEscape, LogFormat, LogUse, PutPart, QuickLine};
use configuration::variables::{Core, Variable};
use exchange::{ExchangeId, ReadySent, Replies};
use features::Variables;
use formats::host::host_of;
use formats::written::{put_address, put_known};
use semantics::{Form, Known, Request};
use std::net::SocketAddr;
use std::rc::Rc;
use wire::Time;

/// The status of no answer: its client did not wait for one.
pub(super) const CLIENT_LEFT: u16 = 499;

impl Rest {
    /// Logs a request that is over.
    pub(super) fn log(&mut self, state: &mut RequestState, request: &Request<'_>) {
        if state.within.sub.is_some() {
            self.note_sub(state, request);
            if state.within.sub.as_ref().is_some_and(|sub| matches!(&sub.purpose, SubUse::Slice(asked) if !asked.came))
            {
                // Its end is that of the whole.
                return;
            }
            let block = state.loaded.program.block(state.route.block);
            if !block.is_some_and(|block| block.log_subrequest) {
                return;
            }
        }
        write_lines(state, request, &self.clock, &[]);
    }

    /// Logs a request that was answered with what is ready.
    pub(super) fn log_ready(&mut self, replies: &dyn Replies, id: ExchangeId, request: &Request<'_>, sent: &ReadySent) {
        self.clock.now = replies.now();
        let clock = &self.clock;
        let Some((note, ready_head)) = self.ready.noted() else { return };
        let head = sent.head.unwrap_or(ready_head);
        let body = sent.bytes.saturating_sub(head);
        if note.second == clock.second && !note.quick.is_empty() && !request.at().has(Known::Authorization) {
            write_quick(note, request, sent.peer, clock.now);
            return;
        }
        let state = &mut *note.state;
        state.about = replies.about(id);
        state.client.path = state.about.path;
        // It was counted already.
        state.about.requests = state.about.requests.saturating_sub(1);
        (state.id, state.client.peer, state.started) = (id, state.about.peer, clock.now);
        state.client.session = if state.is_secured() { replies.opening(id).session.cloned() } else { None };
        if state.loaded.finds_clients() {
            let loaded = Rc::clone(&state.loaded);
            state.client.proxied = loaded.proxied(replies, id);
            set_real_address_of_ready(&loaded.program, state, request);
        }
        state.route.args.clear();
        state.route.args.extend_from_slice(request.query().unwrap_or_default());
        state.values.cached.clear();
        (state.sent.head, state.sent.body, state.sent.length) = (head, body, Some(body));
        if note.second != clock.second {
            (note.second, note.count) = (clock.second, 0);
            note.lines.clear();
            note.quick.clear();
        }
        note.count += 1;
        if note.count == OFTEN {
            note.lines = fixed_lines(state, request, clock);
            note.quick = quick_lines(state, &note.lines);
            let (authority, mut host) = (request.authority(), Vec::new());
            put_host(state, authority, &mut host);
            note.host = LogEscape::leaves(&host).then(|| (authority.to_vec(), host));
        }
        write_lines(state, request, clock, &note.lines);
    }
}

/// So many lines of a ready answer in a second are worth preparing the next.
const OFTEN: u32 = 4;

/// The lines of a ready answer in this second, with what stands in all of them.
fn fixed_lines(state: &mut RequestState, request: &Request<'_>, clock: &Clock) -> Vec<LogFormat> {
    let loaded = Rc::clone(&state.loaded);
    let Some(block) = loaded.program.block(state.route.block) else { return Vec::new() };
    let mut scope = Scope::new((&loaded, state), request, clock);
    let mut fixed = |number: u16, out: &mut Vec<u8>| {
        let variable = loaded.program.variables.get(number)?;
        is_fixed(variable).then(|| scope.write_variable(number, out))
    };
    let format = |line: &LogUse| Some(loaded.program.formats.get(usize::from(line.format))?.fix(&mut fixed));
    block.logs.iter().map_while(format).collect()
}

/// The lines of a ready answer, if plain heads have all that is not fixed, and each
/// goes to the same log whatever is asked for.
fn quick_lines(state: &RequestState, fixed: &[LogFormat]) -> Vec<(u16, QuickLine)> {
    let program = state.loaded.program();
    let Some(block) = program.block(state.route.block) else { return Vec::new() };
    let part = |number: u16| match program.variables.get(number)? {
        // Unless its head may tell of another.
        Variable::Core(Core::RemoteAddr) if !state.loaded.finds_clients() => Some(HeadPart::Address),
        Variable::Core(Core::RemoteUser) => Some(HeadPart::User),
        Variable::Core(Core::Request) => Some(HeadPart::Line),
        Variable::Core(Core::Host) => Some(HeadPart::Host),
        Variable::Header(name) => match &**name {
            b"host" => Some(HeadPart::Field(Known::Host)),
            b"referer" => Some(HeadPart::Field(Known::Referer)),
            b"user_agent" => Some(HeadPart::Field(Known::UserAgent)),
            _ => None,
        },
        _ => None,
    };
    let line = |(line, format): (&LogUse, &LogFormat)| {
        let target = program.logs.get(usize::from(line.log))?;
        let plain = line.condition.is_none() && target.path.is_none();
        format.quick(&part).filter(|_| plain).map(|quick| (line.log, quick))
    };
    let lines: Option<Vec<_>> = block.logs.iter().zip(fixed).map(line).collect();
    lines.filter(|lines| lines.len() == block.logs.len()).unwrap_or_default()
}

/// Writes the lines of a request with a plain head and without an Authorization.
fn write_quick(note: &Note, request: &Request<'_>, peer: Option<SocketAddr>, now: Time) {
    let state = &note.state;
    let mut logs = state.loaded.logs.borrow_mut();
    let Some(logs) = logs.as_mut() else { return };
    let put = |part: HeadPart, out: &mut Vec<u8>| match part {
        HeadPart::Address if put_address(peer, out) => PutPart::Clean,
        HeadPart::Address | HeadPart::User => PutPart::Nothing,
        HeadPart::Line => {
            out.extend_from_slice(request.line());
            PutPart::Raw
        }
        HeadPart::Field(known) if put_known(request, known, out) => PutPart::Raw,
        HeadPart::Field(_) => PutPart::Nothing,
        HeadPart::Host => match &note.host {
            Some((authority, host)) if request.form() == Form::Origin && request.is_host(authority) => {
                out.extend_from_slice(host);
                PutPart::Clean
            }
            _ => {
                put_host(state, request.authority(), out);
                PutPart::Raw
            }
        },
    };
    for (log, line) in &note.quick {
        logs.line(*log, now, |out| line.write(out, put));
    }
}

/// `$host` of a request that names this one.
fn put_host(state: &RequestState, authority: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    host_of(authority, out);
    if out.len() == start {
        let server = state.loaded.program().server(state.route.server);
        out.extend_from_slice(server.map_or(&b""[..], |server| &server.name));
    }
}

/// Whether it stands for the same in all requests of a second that have one ready
/// answer.
fn is_fixed(variable: &Variable) -> bool {
    match variable {
        // What its answer was is the same, too.
        Variable::Core(
            Core::Status | Core::BodyBytesSent | Core::RequestCompletion | Core::RequestTime | Core::Pipe,
        ) => true,
        Variable::Core(core) => core.reach().is_shared(),
        Variable::Slot(_) => true,
        Variable::Set(_, other) => is_fixed(other),
        _ => false,
    }
}

/// Writes the lines of a request; of those that were prepared, by `fixed`.
fn write_lines(state: &mut RequestState, request: &Request<'_>, clock: &Clock, fixed: &[LogFormat]) {
    let loaded = Rc::clone(&state.loaded);
    let Some(block) = loaded.program.block(state.route.block) else { return };
    if block.logs.is_empty() {
        return;
    }
    let mut logs = loaded.logs.borrow_mut();
    let Some(logs) = logs.as_mut() else { return };
    let mut scope = Scope::new((&loaded, state), request, clock);
    for (at, line) in block.logs.iter().enumerate() {
        let format = fixed.get(at).or_else(|| loaded.program.formats.get(usize::from(line.format)));
        let (Some(format), Some(target)) = (format, loaded.program.logs.get(usize::from(line.log))) else { continue };
        if line.condition.as_ref().is_some_and(|condition| !scope.is_true(condition)) {
            continue;
        }
        match &target.path {
            None => logs.line(line.log, clock.now, |out| format.write(&mut scope, out)),
            Some(path) => {
                let path = scope.get(path);
                let root = scope.get(&block.root.path);
                logs.named_line(line.log, &path, &root, clock.now, |out| format.write(&mut scope, out));
            }
        }
    }
}
