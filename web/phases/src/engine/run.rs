//! A request runs through its phases.

use super::course::{Course, Depends, Loaded, Phase};
use super::course_parts::Tried;
use super::values::{Clock, Scope};
use super::waits::On;
use super::{Rest, host::host_of};
use crate::program::{Block, Methods, SymlinkKind, Target, VirtualServer};
use exchange::Replies;
use features::ErrorLevel;
use features::Value;
use files::{FileId, Files, Lead, LinkRule, Look, Unread};
use semantics::{Known, Method, Request};
use std::rc::Rc;

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    /// The next phase, or the one that was entered.
    On,
    /// It waits for this: the same again then.
    Waits(On),
    /// Its end, with this status, or its error page.
    Status(u16),
    /// It was answered.
    Done,
    /// Its connection is closed without a word.
    HangUp,
}

/// What is at a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    File(FileAt),
    Directory,
    Missing,
    /// It may not be come to, or not by a link.
    Forbidden,
    /// It is there, and may not be read.
    Unread(Unread),
    Failed,
}

/// A file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileAt {
    pub id: FileId,
    pub size: u64,
    /// Unix seconds.
    pub modified: u64,
    pub executable: bool,
}

/// A request, and all that it takes to run it.
pub(super) struct Runner<'a> {
    pub files: &'a mut Files,
    pub rest: &'a mut Rest,
    pub replies: &'a mut dyn Replies,
    pub course: &'a mut Course,
    pub request: &'a Request<'a>,
    pub loaded: Rc<Loaded>,
    pub clock: Clock,
    /// The number that it waits by.
    pub token: u32,
    /// Where a redirect leads.
    pub location: Option<Vec<u8>>,
}

impl Runner<'_> {
    pub(super) fn scope(&mut self) -> Scope<'_> {
        Scope {
            loaded: &self.loaded,
            course: self.course,
            request: self.request,
            clock: &self.clock,
            depth: 0,
            escapes_captures: false,
        }
    }

    /// Runs until it was answered or waits; whether it was answered. `first` is what came of
    /// the step that it waited in, if that is known.
    pub fn run(&mut self, mut first: Option<Flow>) -> bool {
        loop {
            let mut flow = first.take().unwrap_or_else(|| self.step());
            // An error page may have one of its own.
            while let Flow::Status(status) = flow {
                flow = self.fail(status);
            }
            match flow {
                Flow::Waits(on) if self.course.is_awaited(on) => return false,
                // Nobody would ever wake it.
                Flow::Waits(on) => {
                    self.tell(ErrorLevel::CRIT, || format!("a request waits for nothing: {on:?}").into_bytes());
                    first = Some(Flow::Status(500));
                }
                Flow::Done => return true,
                Flow::HangUp => {
                    self.hang_up();
                    return true;
                }
                Flow::On | Flow::Status(_) => {}
            }
        }
    }

    /// One phase.
    #[inline(always)]
    fn step(&mut self) -> Flow {
        if self.loaded.asks_for_real_roots
            && self.course.real_root != Some(self.course.block)
            && !matches!(self.course.phase, Phase::Start | Phase::Find)
            && let Some(flow) = self.find_real_root()
        {
            return flow;
        }
        match self.course.phase {
            Phase::Start => {
                if let Some(status) = self.course.refused.or(self.course.secured.fault) {
                    return Flow::Status(status);
                }
                if matches!(self.course.method, Method::Connect | Method::Trace) {
                    self.set_last();
                    return Flow::Status(405);
                }
                self.real_address();
                self.course.enter(Phase::Server);
                Flow::On
            }
            Phase::Server => {
                let Some(block) = self.server().map(|server| server.block) else { return Flow::Status(500) };
                (self.course.block, self.course.place) = (block, block);
                let flow = self.script(block);
                self.next(flow, Phase::Find)
            }
            Phase::Find => self.find(),
            Phase::Rewrite => {
                let flow = self.script(self.course.place);
                if flow == Flow::On && core::mem::take(&mut self.course.uri_changed) {
                    if !self.course.may_change() {
                        self.tell_of_cycle("while processing \"", &self.course.uri);
                        return Flow::Status(500);
                    }
                    self.course.enter(Phase::Find);
                    return Flow::On;
                }
                self.next(flow, Phase::Limit)
            }
            Phase::Limit => {
                self.real_address();
                let flow = self.limits();
                self.next(flow, Phase::Access)
            }
            Phase::Access => {
                // nginx asks this of main requests alone.
                let flow = if self.is_sub() { Flow::On } else { self.access() };
                self.next(flow, Phase::Try)
            }
            Phase::Try => self.try_files(),
            Phase::Content => self.content(),
        }
    }

    fn next(&mut self, flow: Flow, phase: Phase) -> Flow {
        if flow == Flow::On {
            self.course.enter(phase);
        }
        flow
    }

    pub(super) fn server(&self) -> Option<&VirtualServer> {
        self.loaded.program.servers.get(usize::from(self.course.server.0))
    }

    /// The settings in force.
    pub(super) fn block(loaded: &Loaded, course: &Course) -> Option<usize> {
        let at = course.block.0 as usize;
        (at < loaded.program.blocks.len()).then_some(at)
    }

    /// Finds the location.
    fn find(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(server) = loaded.program.servers.get(usize::from(self.course.server.0)) else {
            return Flow::Status(500);
        };
        self.course.uri_changed = false;
        let uri = core::mem::take(&mut self.course.uri);
        let mut astray = false;
        let mut scope = self.scope();
        let found = server.locations.find(&uri, |expression| {
            scope.matches(expression, &uri).unwrap_or_else(|| {
                astray = true;
                false
            })
        });
        self.course.uri = uri;
        if astray {
            return Flow::Status(500);
        }
        let block = found.map_or(server.block, crate::BlockId);
        self.enter_place(block);
        let Some(settings) = loaded.program.blocks.get(block.0 as usize) else { return Flow::Status(500) };
        if settings.internal && !self.course.internal {
            return Flow::Status(404);
        }
        if let Some(flow) = self.refuse_long_body(settings.body_max) {
            return flow;
        }
        if settings.content.location().is_some_and(|path| self.course.uri.len() < path) {
            return self.redirect_to_slash();
        }
        if found.is_none() {
            // Its script has run.
            self.course.enter(Phase::Limit);
        }
        if let Some(limit) = &settings.limit_except {
            self.limit_methods(limit);
        }
        self.end_by_place(self.course.block);
        Flow::On
    }

    /// `client_max_body_size` is held against a length that was told where a path finds its
    /// location, at each path that it is rewritten to; a named location has no say.
    fn refuse_long_body(&mut self, most: u64) -> Option<Flow> {
        let length = self.request.known(Known::ContentLength).and_then(semantics::number::parse)?;
        if self.course.too_long || most == 0 || length <= most {
            return None;
        }
        self.course.too_long = true;
        if !self.is_sub() {
            // Whatever answers has none.
            self.course.body = None;
            self.course.about.goes_on = false;
            self.replies.refuse_body(self.course.id);
        }
        let text = || format!("client intended to send too large body: {length} bytes").into_bytes();
        self.tell(ErrorLevel::ERROR, text);
        Some(Flow::Status(413))
    }

    /// `limit_except`: for other methods its block is the place.
    #[cold]
    fn limit_methods(&mut self, (methods, other): &(Methods, crate::BlockId)) {
        self.course.depends.on(Depends::OTHER);
        if !self.is_among(methods) {
            (self.course.place, self.course.block) = (*other, *other);
        }
    }

    fn enter_place(&mut self, block: crate::BlockId) {
        (self.course.place, self.course.block) = (block, block);
        self.course.enter(Phase::Rewrite);
        if probes::location_chosen::is_traced() {
            self.trace_place();
        }
    }

    #[cold]
    fn trace_place(&self) {
        let program = &self.loaded.program;
        let server = program.servers.get(usize::from(self.course.server.0)).map_or(&b""[..], |server| &server.name);
        let label = program.blocks.get(self.course.place.0 as usize).map_or(&b""[..], |block| &block.label);
        probes::location_chosen::fire(self.replies.about(self.course.id).connection, server, label);
    }

    /// The request enters a place. Where that has it so, the connection ends with its answer,
    /// whatever place it goes on to, as with nginx.
    #[inline]
    pub(super) fn end_by_place(&mut self, place: crate::BlockId) {
        if self.is_sub() {
            return;
        }
        let Some(block) = self.loaded.program.blocks.get(place.0 as usize) else { return };
        let (rules, about) = (&block.connection, &self.course.about);
        if !self.rest.ends_as_ready(rules) {
            self.course.depends.on(Depends::OTHER);
        }
        if rules.keepalive.is_zero() || about.requests.saturating_add(1) >= rules.requests || about.age > rules.age {
            self.set_last_by_terms();
            return;
        }
        let is_post = self.course.method == Method::Post;
        if (is_post || rules.disabled.safari) && !self.course.is_refused() {
            let agent = self.request.known(Known::UserAgent).unwrap_or_default();
            if rules.disabled.ends(agent, is_post) {
                self.set_last();
            }
        }
    }

    /// Goes on in a location by its name.
    pub(super) fn enter_named(&mut self, name: &[u8]) -> Flow {
        if !self.course.may_change() {
            self.tell_of_cycle("while redirect to named location \"@", name);
            return Flow::Status(500);
        }
        let found = self.server().and_then(|server| server.locations.named(name));
        let Some(block) = found else {
            self.tell(ErrorLevel::ERROR, || [b"could not find named location \"@", name, b"\""].concat());
            return Flow::Status(500);
        };
        self.course.proxy_host.clear();
        (self.course.proxy_port, self.course.slices) = (None, None);
        self.course.forget_place();
        (self.course.internal, self.course.uri_changed, self.course.whole_path) = (true, false, false);
        self.enter_place(crate::BlockId(block));
        let loaded = Rc::clone(&self.loaded);
        if let Some(limit) = loaded.program.blocks.get(block as usize).and_then(|block| block.limit_except.as_ref()) {
            self.limit_methods(limit);
        }
        self.end_by_place(self.course.block);
        Flow::On
    }

    /// Goes on at another path of this server.
    pub(super) fn redirect(&mut self, uri: &[u8], args: &[u8]) -> Flow {
        if !self.course.may_change() {
            self.tell_of_cycle("while internally redirecting to \"", uri);
            return Flow::Status(500);
        }
        if let Some(server) = self.server().map(|server| server.block) {
            self.end_by_place(server);
        }
        self.course.redirect(uri, args);
        Flow::On
    }

    /// Goes on at what a value says: a path, perhaps with a query.
    pub(super) fn redirect_to(&mut self, target: &Value) -> Flow {
        let target = self.scope().get(target);
        if target.first() == Some(&b'@') {
            return self.enter_named(&target[1..]);
        }
        let mut parts = target.splitn(2, |byte| *byte == b'?');
        let (uri, args) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        self.redirect(uri, args)
    }

    /// `try_files`.
    fn try_files(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return Flow::Status(500) };
        let block: &Block = &loaded.program.blocks[at];
        let Some(try_files) = &block.try_files else {
            self.course.enter(Phase::Content);
            return Flow::On;
        };
        while let Some((value, is_directory)) = try_files.tried.get(self.course.at as usize) {
            let name = self.scope().get(value);
            let mut path = Vec::new();
            self.root_of(block, &mut path);
            // nginx leaves it out of names with variables alone.
            let rest = if value.constant().is_some() { &name } else { self.below_alias(block, &name) };
            path.extend_from_slice(rest);
            let found = match self.look(&path) {
                Ok(At::File(_)) => !is_directory,
                Ok(At::Directory) => *is_directory,
                Ok(At::Failed) => return Flow::Status(500),
                // Looked for, and not opened.
                Ok(At::Unread(what)) => *is_directory == (what == Unread::Directory),
                Ok(At::Forbidden) => {
                    self.tell_of_unreached(&path);
                    false
                }
                Ok(At::Missing) => false,
                Err(flow) => return flow,
            };
            if found {
                if self.course.again.tried == Tried::No {
                    self.course.again.tried = Tried::Found;
                }
                self.take_tried(block, name, *is_directory);
                self.course.enter(Phase::Content);
                return Flow::On;
            }
            self.course.at += 1;
        }
        match &try_files.otherwise {
            Target::Status(status) => Flow::Status(*status),
            Target::Named(name) => self.enter_named(name),
            Target::Path(value) => self.redirect_to(value),
        }
    }

    /// The host as it was asked for, or the server's name.
    pub(super) fn host(&mut self, out: &mut Vec<u8>) {
        if !self.course.is_refused() {
            host_of(self.request.authority(), out);
        }
    }

    /// Whether nothing of a path leads up but the root that was written so
    /// (`root ../www`).
    fn root_alone_leads_up(&self, path: &[u8]) -> bool {
        let block = Self::block(&self.loaded, self.course).and_then(|at| self.loaded.program.blocks.get(at));
        let Some(root) = block.and_then(|block| block.root.path.constant()) else { return false };
        let Some(rest) = path.strip_prefix(root) else { return false };
        let apart = root.ends_with(b"/") || matches!(rest, [] | [b'/', ..]);
        apart && !leads_up(rest)
    }

    /// Which links a path may lead over here.
    fn links(&mut self, path: &[u8]) -> LinkRule {
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return LinkRule::Followed };
        let rules = &loaded.program.blocks[at].symlinks;
        if rules.kind == SymlinkKind::Followed {
            return LinkRule::Followed;
        }
        let from = rules.from.as_ref().map_or_else(Vec::new, |from| self.scope().get(from));
        let trusted = match path.strip_prefix(from.as_slice()) {
            Some([]) => return LinkRule::Followed,
            Some([b'/', ..]) => from.len(),
            Some(_) if from.ends_with(b"/") => from.len() - 1,
            _ => 0,
        };
        match rules.kind {
            SymlinkKind::OfOwner => LinkRule::OfOwner(trusted as u32),
            _ => LinkRule::Refused(trusted as u32),
        }
    }

    /// Looks where a path leads.
    pub(super) fn look(&mut self, path: &[u8]) -> Result<At, Flow> {
        if leads_up(path) && !self.root_alone_leads_up(path) || path.contains(&0) {
            // No path that a request makes leaves where it begins.
            return Ok(At::Missing);
        }
        let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(start, |last| last + 1);
        let waited = core::mem::take(&mut self.course.waited);
        let id = self.course.id;
        let marked;
        let key = match self.links(path) {
            LinkRule::Followed => &path[start..end],
            rule => {
                // A link in place of a folder is no folder where one is asked for.
                let within: &[u8] = if path.ends_with(b"/") { b"/." } else { b"" };
                marked = rule.below(start).mark(&[&path[start..end], within].concat());
                &marked
            }
        };
        match self.files.look(id, key, self.clock.now, self.token, waited) {
            Look::Known(id) => {
                let stamp = self.files.stamp(id);
                self.course.looked(stamp);
                Ok(match self.files.lead(id) {
                    // No file is a folder.
                    Lead::File(_) if path.ends_with(b"/") => At::Missing,
                    Lead::File(meta) => {
                        let modified = meta.file.as_ref().map_or(0, |file| file.modified);
                        At::File(FileAt { id, size: meta.size, modified, executable: self.files.is_executable(id) })
                    }
                    Lead::Directory => At::Directory,
                    Lead::Missing => At::Missing,
                    Lead::Forbidden => At::Forbidden,
                    Lead::Unread(Unread::File { .. } | Unread::Other) if path.ends_with(b"/") => At::Missing,
                    Lead::Unread(what) => At::Unread(what),
                    Lead::Failed => At::Failed,
                })
            }
            Look::Waits(mark) => {
                self.course.inner = Some(mark);
                Err(Flow::Waits(On::Helper))
            }
            Look::Full => Err(Flow::Status(503)),
        }
    }
}

/// Whether a segment of a path is `..`.
fn leads_up(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| segment == b"..")
}
