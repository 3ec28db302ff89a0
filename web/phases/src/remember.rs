//! Which answers others may have, too, and where they are kept.

use super::Rest;
use super::request_state::Depends;
use super::runner::Runner;
use app::Body;
use configuration::program::ConnectionRules;
use exchange::{Ready, Reply};
use files::{FileHead, FileId};
use semantics::{Form, Method, Status};

impl Runner<'_> {
    /// Whether others may have its answer, too.
    pub(super) fn is_shared(&self) -> bool {
        let (state, request) = (&*self.state, self.request);
        let no_query = state.reuse.depends.has(Depends::QUERY);
        let keeps = self.loaded.program.block(state.route.block);
        // What most that are not depend on is asked first.
        !state.reuse.depends.has(Depends::OTHER)
            && state.method == Method::Get
            && request.method() == Method::Get
            && request.form() == Form::Origin
            && request.is_plain()
            // Those of others may be compressed.
            && !state.about.http10
            && (state.about.goes_on || !state.tells_keep_alive())
            // Logs tell of the query: of one that a rewrite made, that it did.
            && state.route.args == request.query().unwrap_or_default()
            && !state.reuse.is_told.get()
            && !(no_query && request.query().is_some())
            && keeps.is_some_and(|block| self.rest.ends_as_ready(&block.connection))
    }

    /// Keeps an answer that others may have, too: all of a file that is in memory. Where it
    /// depends on the path and on that file alone, the files keep it, with no other copy of
    /// its content.
    pub(super) fn remember_file(&mut self, file: FileId, source: (Body, u32), length: u64) {
        let state = &*self.state;
        let depends = state.reuse.depends.has(Depends::QUERY | Depends::SECOND) || state.reuse.expires_after.is_some();
        let stamp = self.files.stamp(file);
        let is_alone = !depends && !state.tells_keep_alive() && state.reuse.stamps.iter().all(|other| *other == stamp);
        if !self.rest.by_path || !is_alone {
            return self.remember(source, length);
        }
        let mut head = Vec::new();
        let reply = Reply { status: Status::OK, length: Some(length), fields: &state.sent.fields, reason: None };
        self.rest.heads.write_reply(&mut head, &reply, &self.rest.clock.date);
        let head = FileHead {
            bytes: head,
            date_at: self.rest.heads.date_at(),
            series: state.settings.series.unwrap_or(Ready::OF_HOST),
            terms: self.loaded.program.terms.of_block(state.route.block),
        };
        match self.files.answer_path(self.request.path(), file, head) {
            true => self.rest.ready_by_path = true,
            false => self.remember(source, length),
        }
    }

    /// Keeps an answer that others may have, too.
    pub(super) fn remember(&mut self, (body, start): (Body, u32), length: u64) {
        if !self.is_shared() {
            return;
        }
        let (state, request) = (&*self.state, self.request);
        let no_query = state.reuse.depends.has(Depends::QUERY);
        let Rest { ready, heads, clock, .. } = &mut *self.rest;
        let now = (clock.second, &clock.date);
        let class = state.reuse.class;
        ready.insert((request.path(), no_query, class), state, (&body, start, length), heads, now);
    }
}

impl Rest {
    /// Whether connections end by these rules no earlier than with what is ready, which counts
    /// no requests but those of the whole server, and knows no browsers.
    #[inline]
    pub(super) fn ends_as_ready(&self, rules: &ConnectionRules) -> bool {
        !rules.keepalive.is_zero()
            && !rules.disabled.safari
            && rules.requests >= self.requests_max
            && rules.age >= self.age_max
    }
}
