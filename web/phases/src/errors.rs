//! What goes wrong with a request is told in the error log, in nginx's words.

use super::Engine;
use super::loaded::Loaded;
use super::request_state::RequestState;
use super::runner::Runner;
use super::scope::{Clock, Scope};
use asking::AskNote;
use configuration::BlockId;
use configuration::logging::ErrorLogUse;
use configuration::program::SymlinkKind;
use exchange::{About, ExchangeId, Replies};
use features::ErrorLevel;
use files::{FileFault, LookError};
use formats::written::{put, put_address};
use semantics::{Known, Request};
use std::io::{self, Write};
use std::rc::Rc;

/// Bytes of a line, at most (`NGX_MAX_ERROR_STR` of nginx).
const LINE_MAX: usize = 2_048;

/// Why a path leads to no file, as the system says it.
pub(super) const MISSING: &str = "2: No such file or directory";
pub(super) const FORBIDDEN: &str = "13: Permission denied";

impl Runner<'_> {
    /// Tells what went wrong; `text` is not asked for where nobody wants to know.
    pub(super) fn tell(&self, level: ErrorLevel, text: impl FnOnce() -> Vec<u8>) {
        tell((&self.loaded, self.state), self.request, &self.rest.clock, (level, text));
    }

    /// Something went wrong at an upstream.
    pub(super) fn tell_of_upstream(&self, what: &str, doing: &str) {
        self.tell_at(ErrorLevel::ERROR, what, doing);
    }

    /// Something happened while something was done.
    pub(super) fn tell_at(&self, level: ErrorLevel, what: &str, doing: &str) {
        self.tell(level, || [what.as_bytes(), b" while ", doing.as_bytes()].concat());
    }

    /// A file cannot be opened.
    pub(super) fn tell_of_file(&self, what: &str, path: &[u8], told: &str, why: &str) {
        let block = self.loaded.program.block(self.state.route.block);
        if why == MISSING && block.is_some_and(|block| !block.log_not_found) {
            return;
        }
        self.tell(ErrorLevel::ERROR, || {
            [what.as_bytes(), b"\"", path, b"\" ", told.as_bytes(), b" (", why.as_bytes(), b")"].concat()
        });
    }

    /// The file system failed at a path, or no more files can be opened.
    pub(super) fn tell_of_look(&self, path: &[u8], error: LookError) {
        self.tell(ErrorLevel::CRIT, || failed(error.call, path, &error.why.into()));
    }

    /// What is only looked at may not be come to. A link that may not be followed is passed
    /// over without a word.
    pub(super) fn tell_of_unreached(&self, path: &[u8]) {
        let block = self.loaded.program.block(self.state.route.block);
        if block.is_some_and(|block| block.symlinks.kind == SymlinkKind::Followed) {
            let line = || [b"stat() \"", path, b"\" failed (", FORBIDDEN.as_bytes(), b")"].concat();
            self.tell(ErrorLevel::CRIT, line);
        }
    }

    /// A request is redirected within the server without end.
    pub(super) fn tell_of_cycle(&self, when: &str, to: &[u8]) {
        let what = &b"rewrite or internal redirection cycle "[..];
        self.tell(ErrorLevel::ERROR, || [what, when.as_bytes(), to, b"\""].concat());
    }
}

impl Scope<'_> {
    /// Tells that an answer goes wrong while it is made.
    pub(super) fn tell(&self, text: impl FnOnce() -> Vec<u8>) {
        // As nginx has it, of what an upstream sends.
        let is_asked = self.state.passed.relay.is_some() || !self.state.passed.tries.is_empty();
        let doing: &[u8] = if is_asked { b" while sending to client" } else { b" while sending response to client" };
        let text = || [&text()[..], doing].concat();
        tell((self.loaded, self.state), self.request, self.clock, (ErrorLevel::ERROR, text));
    }
}

/// Tells what went wrong with a request; `text` is not asked for where nobody wants to
/// know.
pub(super) fn tell(
    whose: (&Loaded, &RequestState),
    request: &Request<'_>,
    clock: &Clock,
    (level, text): (ErrorLevel, impl FnOnce() -> Vec<u8>),
) {
    put_about(whose, request, clock, (level, text, || whose.1.passed.url(true)));
}

/// The same of what was asked for it, whose note says of whom.
pub(super) fn tell_of_ask(
    whose: (&Loaded, &RequestState),
    request: &Request<'_>,
    clock: &Clock,
    (level, text, note): (ErrorLevel, impl FnOnce() -> Vec<u8>, &AskNote),
) {
    put_about(whose, request, clock, (level, text, || note.url.clone()));
}

fn put_about(
    (loaded, state): (&Loaded, &RequestState),
    request: &Request<'_>,
    clock: &Clock,
    (level, text, url): (ErrorLevel, impl FnOnce() -> Vec<u8>, impl FnOnce() -> Option<Vec<u8>>),
) {
    let told = put_line(loaded, state.route.block, clock, (level, state.about.connection), |line| {
        line.extend_from_slice(&text());
        about(loaded, state, (request, url()), line);
    });
    if told {
        state.reuse.is_told.set(true);
    }
}

/// Whose answer of a file was cut short: it is over when it is told why.
#[derive(Debug)]
pub(crate) struct CutAnswer {
    id: ExchangeId,
    loaded: Rc<Loaded>,
    block: BlockId,
    connection: u64,
    about: Vec<u8>,
}

/// Answers that are cut short in a turn, of which it is told whose they were.
const CUT_MAX: usize = 16;

impl super::Rest {
    /// An answer of a file is about to be cut short.
    #[cold]
    pub(super) fn note_cut(&mut self, replies: &dyn Replies, id: ExchangeId) {
        if self.cut.len() >= CUT_MAX {
            return;
        }
        let Some(state) = self.requests.of_exchange(replies, id) else { return };
        let Some(request) = &state.request else { return };
        let (loaded, block, connection) = (Rc::clone(&state.loaded), state.route.block, state.about.connection);
        let mut told = Vec::new();
        about(&loaded, state, (&request.get(), state.passed.url(true)), &mut told);
        self.cut.push(CutAnswer { id, loaded, block, connection, about: told });
    }
}

impl Engine {
    /// A file could not be read on: in nginx's words, which it has for each call that fails so.
    #[cold]
    pub(super) fn tell_of_fault(&mut self, fault: &FileFault) {
        // Without its slash below the root of all files.
        let slash: &[u8] = if fault.path.first() == Some(&b'/') { b"" } else { b"/" };
        let mut text = failed("pread()", &[slash, &fault.path].concat(), &fault.why.into());
        let clock = &self.rest.clock;
        if let Some(state) = fault.waiter.and_then(|token| self.rest.requests.get_mut(token)) {
            // Looking for it once more would not help.
            (state.wait.again.sent, state.wait.again.failed) = (true, true);
            if let Some(request) = &state.request {
                text.extend_from_slice(b" while sending response to client");
                return tell((&self.loaded, state), &request.get(), clock, (ErrorLevel::CRIT, || text));
            }
        }
        if let Some(cut) = self.rest.cut.iter().find(|cut| cut.id == fault.exchange) {
            text.extend_from_slice(b" while sending response to client");
            text.extend_from_slice(&cut.about);
            put_line(&cut.loaded, cut.block, clock, (ErrorLevel::CRIT, cut.connection), |line| line.append(&mut text));
            return;
        }
        tell_of_process(&self.loaded, clock, ErrorLevel::CRIT, &text);
    }
}

impl Engine {
    /// A file could not be sent to its end by who sends it without reading it: in nginx's words.
    #[cold]
    pub(super) fn tell_of_unsent(&mut self, token: u32, id: ExchangeId, fault: app::SendFileError) {
        let Some(state) = self.rest.requests.get_mut(token) else { return };
        let Some(request) = &state.request else { return };
        let path = self.files.streamed_path(id, state.wait.inner).unwrap_or_default();
        let path = [&b"/"[..], path.strip_prefix(b"/").unwrap_or(&path)].concat();
        let why = fault.errno.map(io::Error::from_raw_os_error);
        let (level, mut text) = match (fault.call, why) {
            ("sendfile()", Some(why)) => (ErrorLevel::ALERT, [&b"sendfile() "[..], &failure(&why)].concat()),
            (call, Some(why)) => (ErrorLevel::CRIT, failed(call, &path, &why)),
            (call, None) => {
                let at = fault.at.to_string();
                let text = [call.as_bytes(), b" reported that \"", &path, b"\" was truncated at ", at.as_bytes()];
                (ErrorLevel::ALERT, text.concat())
            }
        };
        text.extend_from_slice(b" while sending response to client");
        tell((&self.loaded, state), &request.get(), &self.rest.clock, (level, || text));
    }
}

/// That a call for a path failed, and why, as nginx tells it.
pub(super) fn failed(call: &str, path: &[u8], why: &io::Error) -> Vec<u8> {
    [call.as_bytes(), b" \"", path, b"\" ", &failure(why)].concat()
}

/// That it failed, and why: `failed (5: Input/output error)`.
fn failure(why: &io::Error) -> Vec<u8> {
    let told = why.to_string();
    let word = told.split(" (os error").next().unwrap_or(&told);
    let number = why.raw_os_error().unwrap_or_default();
    format!("failed ({number}: {word})").into_bytes()
}

/// Tells what is no request's, in the process's own logs.
pub(super) fn tell_of_process(loaded: &Loaded, clock: &Clock, level: ErrorLevel, text: &[u8]) {
    put_in(loaded, &loaded.program.error_logs, clock, (level, None), |line| line.extend_from_slice(text));
}

/// Puts a line about a connection into the error logs of a block that take this level;
/// whether there are any. What it says is not asked for where there are none.
fn put_line(
    loaded: &Loaded,
    block: BlockId,
    clock: &Clock,
    (level, connection): (ErrorLevel, u64),
    say: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let block = loaded.program.block(block);
    block.is_some_and(|block| put_in(loaded, &block.error_logs, clock, (level, Some(connection)), say))
}

fn put_in(
    loaded: &Loaded,
    places: &[ErrorLogUse],
    clock: &Clock,
    (level, connection): (ErrorLevel, Option<u64>),
    say: impl FnOnce(&mut Vec<u8>),
) -> bool {
    if !places.iter().any(|log| level <= log.level) {
        return false;
    }
    let mut line = Vec::with_capacity(256);
    begin(&mut line, level, clock, connection);
    say(&mut line);
    let line = shown(&line);
    let mut logs = loaded.logs.borrow_mut();
    let Some(logs) = logs.as_mut() else { return false };
    for log in places.iter().filter(|log| level <= log.level) {
        logs.severe_line(log.log, level.severity(), clock.now, |out| out.extend_from_slice(&line));
    }
    loaded.tell();
    true
}

/// Whose request it was, and what it asked for.
fn about(loaded: &Loaded, state: &RequestState, (request, url): (&Request<'_>, Option<Vec<u8>>), out: &mut Vec<u8>) {
    out.extend_from_slice(b", client: ");
    put_address(state.client.peer, out);
    out.extend_from_slice(b", server: ");
    if let Some(server) = loaded.program.server(state.route.server) {
        out.extend_from_slice(&server.name);
    }
    let mut part = |name: &[u8], value: Option<&[u8]>| {
        if let Some(value) = value {
            out.extend_from_slice(&[b", ", name, b": \"", value, b"\""].concat());
        }
    };
    part(b"request", Some(request.line()));
    part(b"subrequest", state.within.sub.as_ref().map(|_| &state.route.uri[..]));
    part(b"upstream", url.as_deref());
    part(b"host", request.known(Known::Host).filter(|_| !state.is_refused()));
    part(b"referrer", request.known(Known::Referer).filter(|_| !state.is_refused()));
}

impl Engine {
    /// What a connection began with is no header of a proxy's.
    pub(super) fn tell_of_proxy_header(&self, replies: &dyn Replies, id: ExchangeId, bytes: &[u8]) {
        self.tell_of_connection(replies, id, ErrorLevel::ERROR, |line| {
            put_proxy_fault(bytes, line);
            line.extend_from_slice(b" while reading PROXY protocol");
        });
    }

    /// Tells the error log of a connection that ends for what its client did.
    pub(super) fn tell_of_connection(
        &self,
        replies: &dyn Replies,
        id: ExchangeId,
        level: ErrorLevel,
        say: impl FnOnce(&mut Vec<u8>),
    ) {
        let (loaded, about) = (&self.loaded, replies.about(id));
        let at = Self::listener(loaded, self.single, || about.local);
        let mut clock = self.rest.clock;
        clock.now = replies.now();
        tell_of_connection((loaded, at), &clock, (level, &about), say);
    }
}

/// Something happened to a connection that has no request yet, at the listener with this
/// number.
fn tell_of_connection(
    (loaded, listener): (&Loaded, u16),
    clock: &Clock,
    (level, about): (ErrorLevel, &About),
    say: impl FnOnce(&mut Vec<u8>),
) {
    let program = &loaded.program;
    let Some(listener) = program.listeners.get(usize::from(listener)) else { return };
    let server = listener.servers.first().and_then(|server| program.server(*server));
    let Some(server) = server else { return };
    put_line(loaded, server.block, clock, (level, about.connection), |line| {
        say(line);
        line.extend_from_slice(b", client: ");
        put_address(about.peer, line);
        line.extend_from_slice(b", server: ");
        match (&listener.address, &listener.path) {
            (Some(address), _) => _ = put(line, address),
            (None, Some(path)) => _ = put(line, format_args!("unix:{}", path.display())),
            (None, None) => {}
        }
    });
}

/// What is wrong with bytes that are no header of the PROXY protocol.
fn put_proxy_fault(bytes: &[u8], out: &mut Vec<u8>) {
    // Of version 2: what follows its signature is its version, and 4 bits more.
    match bytes.strip_prefix(exchange::PROXY_SIGNATURE) {
        Some([version, ..]) if version >> 4 != 2 => {
            put(out, format_args!("unknown PROXY protocol version: {}", version >> 4));
        }
        Some(_) => out.extend_from_slice(b"header is too large"),
        None => {
            let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
            out.extend_from_slice(&[b"broken header: \"", line, b"\""].concat());
        }
    }
}

/// `2026/10/10 15:55:36 [error] 7#7: *9 `, without the last where no connection is meant.
fn begin(out: &mut Vec<u8>, level: ErrorLevel, clock: &Clock, connection: Option<u64>) {
    let pid = std::process::id();
    out.extend(clock.iso[..19].iter().map(|byte| match byte {
        b'-' => b'/',
        b'T' => b' ',
        other => *other,
    }));
    let _ = write!(out, " [{}] {pid}#{pid}: ", level.name());
    if let Some(connection) = connection {
        let _ = write!(out, "*{connection} ");
    }
}

/// A line as it is written: what a client sent makes no lines of its own.
fn shown(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    for byte in line {
        if byte.is_ascii_control() {
            let _ = write!(out, "\\x{byte:02X}");
        } else {
            out.push(*byte);
        }
        if out.len() >= LINE_MAX {
            break;
        }
    }
    out.truncate(LINE_MAX);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_proxy_header_is_told_as_nginx_tells_it() {
        for (bytes, told) in [
            (&b"GET / HTTP/1.1\r\nHost: a\r\n"[..], "broken header: \"GET / HTTP/1.1\""),
            (b"", "broken header: \"\""),
            (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c", "unknown PROXY protocol version: 3"),
            (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", "header is too large"),
        ] {
            let mut out = Vec::new();
            put_proxy_fault(bytes, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), told);
        }
    }

    #[test]
    fn a_line_is_one_and_not_long() {
        assert_eq!(shown(b"a\nb\x7f\xc3\xbc"), b"a\\x0Ab\\x7F\xc3\xbc");
        assert_eq!(shown(&[b'\n'; 5_000]).len(), LINE_MAX);
    }

    #[test]
    fn what_fails_is_told_as_nginx_tells_it() {
        let why = io::Error::from_raw_os_error(2);
        assert_eq!(failed("realpath()", b"/x", &why), b"realpath() \"/x\" failed (2: No such file or directory)");
    }
}
