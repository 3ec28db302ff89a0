//! Which place a request is in: the location of its path, and where redirects within the server
//! lead.

use super::request_state::{Depends, Phase};
use super::runner::{Flow, Runner};
use configuration::program::Methods;
use features::{ErrorLevel, Value};
use formats::text::{Escape, escape};
use semantics::{Known, Method};
use std::rc::Rc;

impl Runner<'_> {
    /// Finds the location.
    pub(super) fn find(&mut self) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let Some(server) = loaded.program.server(self.state.route.server) else {
            return Flow::Status(500);
        };
        self.state.route.uri_changed = false;
        let uri = core::mem::take(&mut self.state.route.uri);
        let mut astray = false;
        let mut scope = self.scope();
        let found = server.locations.find(&uri, |expression| {
            scope.matches(expression, &uri).unwrap_or_else(|| {
                astray = true;
                false
            })
        });
        self.state.route.uri = uri;
        if astray {
            return Flow::Status(500);
        }
        let block = found.map_or(server.block, configuration::BlockId);
        self.enter_place(block);
        let Some(settings) = loaded.program.block(block) else { return Flow::Status(500) };
        if settings.internal && !self.state.route.internal {
            return Flow::Status(404);
        }
        if let Some(flow) = self.refuse_long_body(settings.body_max) {
            return flow;
        }
        if settings.content.location().is_some_and(|path| self.state.route.uri.len() < path) {
            return self.redirect_to_slash();
        }
        if found.is_none() {
            // Its script has run.
            self.state.route.enter(Phase::Limit);
        }
        if let Some(limit) = &settings.limit_except {
            self.limit_methods(limit);
        }
        self.end_by_place(self.state.route.block);
        if self.state.route.place == block && settings.answers_at_once() {
            // The phases between would do nothing.
            self.state.route.enter(Phase::Content);
        }
        Flow::On
    }

    /// `client_max_body_size` is held against a length that was told where a path finds its
    /// location, at each path that it is rewritten to; a named location has no say.
    fn refuse_long_body(&mut self, most: u64) -> Option<Flow> {
        let length = self.request.known(Known::ContentLength).and_then(semantics::number::parse)?;
        if self.state.too_long || most == 0 || length <= most {
            return None;
        }
        self.state.too_long = true;
        if !self.is_sub() {
            // Whatever answers has none.
            self.state.body = None;
            self.state.about.goes_on = false;
            self.replies.read(self.state.id, Some(0));
        }
        let text = || format!("client intended to send too large body: {length} bytes").into_bytes();
        self.tell(ErrorLevel::ERROR, text);
        Some(Flow::Status(413))
    }

    /// `limit_except`: for other methods its block is the place.
    #[cold]
    fn limit_methods(&mut self, (methods, other): &(Methods, configuration::BlockId)) {
        self.state.reuse.depends.on(Depends::OTHER);
        if !self.is_among(methods) {
            self.state.route.settle(*other);
        }
    }

    fn enter_place(&mut self, block: configuration::BlockId) {
        self.state.route.settle(block);
        self.state.route.enter(Phase::Rewrite);
        if probes::location_chosen::is_traced() {
            self.trace_place();
        }
    }

    #[cold]
    fn trace_place(&self) {
        let program = &self.loaded.program;
        let server = program.server(self.state.route.server).map_or(&b""[..], |server| &server.name);
        let label = program.block(self.state.route.place).map_or(&b""[..], |block| &block.label);
        probes::location_chosen::fire(self.replies.about(self.state.id).connection, server, label);
    }

    /// The request enters a place. Where that has it so, the connection ends with its answer,
    /// whatever place it goes on to, as with nginx.
    #[inline]
    pub(super) fn end_by_place(&mut self, place: configuration::BlockId) {
        if self.is_sub() {
            return;
        }
        let Some(block) = self.loaded.program.block(place) else { return };
        let (rules, about) = (&block.connection, &self.state.about);
        if !self.rest.ends_as_ready(rules) {
            self.state.reuse.depends.on(Depends::OTHER);
        }
        if rules.keepalive.is_zero() || about.requests.saturating_add(1) >= rules.requests || about.age > rules.age {
            self.set_last_by_terms();
            return;
        }
        let is_post = self.state.method == Method::Post;
        if (is_post || rules.disabled.safari) && !self.state.is_refused() {
            let agent = self.request.known(Known::UserAgent).unwrap_or_default();
            if rules.disabled.ends(agent, is_post) {
                self.set_last();
            }
        }
    }

    /// Goes on in a location by its name.
    pub(super) fn enter_named(&mut self, name: &[u8]) -> Flow {
        if !self.state.route.may_change() {
            self.tell_of_cycle("while redirect to named location \"@", name);
            return Flow::Status(500);
        }
        let found = self.server().and_then(|server| server.locations.named(name));
        let Some(block) = found else {
            self.tell(ErrorLevel::ERROR, || [b"could not find named location \"@", name, b"\""].concat());
            return Flow::Status(500);
        };
        self.state.forget_place();
        self.state.route.enter_internally();
        self.enter_place(configuration::BlockId(block));
        let loaded = Rc::clone(&self.loaded);
        if let Some(limit) =
            loaded.program.block(configuration::BlockId(block)).and_then(|block| block.limit_except.as_ref())
        {
            self.limit_methods(limit);
        }
        self.end_by_place(self.state.route.block);
        Flow::On
    }

    /// Goes on at another path of this server.
    pub(super) fn redirect(&mut self, uri: &[u8], args: &[u8]) -> Flow {
        if !self.state.route.may_change() {
            self.tell_of_cycle("while internally redirecting to \"", uri);
            return Flow::Status(500);
        }
        if let Some(server) = self.server().map(|server| server.block) {
            self.end_by_place(server);
        }
        self.state.redirect(uri, args);
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

    /// What is asked for ends with a slash that is missing.
    pub(super) fn redirect_to_slash(&mut self) -> Flow {
        let mut location = Vec::new();
        escape(&self.state.route.uri, Escape::Path, &mut location);
        location.push(b'/');
        if !self.state.route.args.is_empty() {
            location.push(b'?');
            location.extend_from_slice(&self.state.route.args);
        }
        self.location = Some(location);
        Flow::Status(301)
    }

    /// Whether its method is one of these.
    pub(super) fn is_among(&self, methods: &Methods) -> bool {
        let name = match self.state.method {
            semantics::Method::Other => self.request.method_name(),
            method => method.name().as_bytes(),
        };
        let has = |wanted: &[u8]| methods.0.iter().any(|method| **method == *wanted);
        has(name) || (name == b"HEAD" && has(b"GET"))
    }
}
