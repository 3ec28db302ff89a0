//! How far a request has come, and what was found out on the way: a part for each who decides of it.
//!
//! | part | what | whose |
//! | --- | --- | --- |
//! | [`Route`] | its path and its place | `routing`, `script`, `try_files` |
//! | [`Client`] | who asks | `real_ip`, `secured` |
//! | [`VariableMemory`] | what variables were set to | `values`, `script` |
//! | [`Reuse`] | who else may have its answer | whoever reads of it; `remember` |
//! | [`Waiting`] | what it waits for | `waits`, `tickets`, `lookup` |
//! | [`PassedOn`] | its upstream | `relay_…`, `gateway` |
//! | [`ReplyState`], [`Sent`] | its answer | `reply`, `error_pages`, `put`, `body_filters` |
//! | [`Within`] | requests within it, or around it | `subs`, `slices`, `permission` |

mod client;
mod passed;
mod reply;
mod reuse;
mod route;
mod values;
mod wait;
mod within;

use super::body_progress::BodyProgress;
use super::loaded::Loaded;
pub(super) use client::Client;
use exchange::{About, ExchangeId, ExchangeSettings, Replies, Transport};
use features::FeatureParts;
pub(super) use passed::{KeptContent, LeftBehind, PassedOn};
pub(super) use reply::{ReplyState, Sent};
pub(crate) use reuse::{Depends, Reuse};
pub(super) use route::{Phase, Route};
use semantics::{Method, OwnedRequest, Request};
use std::rc::Rc;
pub(super) use values::VariableMemory;
pub(super) use wait::{RequestStage, Tried, Waiting};
use wire::Time;
use within::Within;

/// A request under way.
#[derive(Debug)]
pub(crate) struct RequestState {
    pub id: ExchangeId,
    pub loaded: Rc<Loaded>,
    pub about: About,
    pub started: Time,
    /// Kept where it waits.
    pub request: Option<OwnedRequest>,
    pub method: Method,
    /// What it is refused with, whatever its location says, and by what answers
    /// those who name no host.
    pub refused: Option<u16>,
    /// Its body was too long.
    pub too_long: bool,
    /// The request's body, if it has one.
    pub(super) body: Option<Box<BodyProgress>>,
    /// What features know of it.
    pub features: FeatureParts,
    pub route: Route,
    pub client: Client,
    pub values: VariableMemory,
    pub reuse: Reuse,
    pub wait: Waiting,
    pub passed: PassedOn,
    pub reply: ReplyState,
    pub sent: Sent,
    pub within: Within,
    /// What its carrier is to mind.
    pub settings: ExchangeSettings,
}

impl RequestState {
    pub fn new(loaded: Rc<Loaded>, id: ExchangeId) -> Self {
        Self {
            id,
            loaded,
            about: About::default(),
            started: Time::ZERO,
            request: None,
            method: Method::Get,
            refused: None,
            too_long: false,
            body: None,
            features: FeatureParts::default(),
            route: Route::default(),
            client: Client::default(),
            values: VariableMemory::default(),
            reuse: Reuse::default(),
            wait: Waiting::default(),
            passed: PassedOn::default(),
            reply: ReplyState::default(),
            sent: Sent::default(),
            within: Within::default(),
            settings: ExchangeSettings::default(),
        }
    }

    /// Begins with another request, in the memory of one that is over.
    pub fn begin(&mut self, loaded: &Rc<Loaded>, id: ExchangeId, request: &Request<'_>, replies: &dyn Replies) {
        self.forget();
        self.id = id;
        if !Rc::ptr_eq(&self.loaded, loaded) {
            self.loaded = Rc::clone(loaded);
        }
        self.values.slots.resize(loaded.program.variables.slots(), None);
        (self.about, self.started) = (replies.about(id), replies.now());
        (self.client.peer, self.client.proxied) = (self.about.peer, loaded.proxied(replies, id));
        self.client.path = self.about.path;
        if self.about.transport == Transport::Tls {
            self.client.session = replies.opening(id).session.cloned();
        }
        self.method = request.method();
        self.route.args.extend_from_slice(request.query().unwrap_or_default());
    }

    /// Forgets the request that is over: all but the memory is as [`Self::new`] has it.
    fn forget(&mut self) {
        (self.request, self.refused, self.too_long, self.body) = (None, None, false, None);
        self.wait = Waiting::default();
        self.client.forget();
        self.within.forget();
        (self.features, self.settings) = (FeatureParts::default(), ExchangeSettings::default());
        self.route.forget();
        self.values.forget();
        self.reuse.forget();
        self.passed.forget();
        self.reply.forget();
        self.sent.forget();
    }

    /// What all requests with the same ready answer have in common.
    pub fn noted(&self) -> Self {
        let mut noted = Self::new(Rc::clone(&self.loaded), self.id);
        noted.reuse.class = self.reuse.class;
        noted.route.note(&self.route);
        noted.values.slots.clone_from(&self.values.slots);
        noted.sent.fields.clone_from(&self.sent.fields);
        noted.features.compression = self.features.compression;
        (noted.sent.status, noted.sent.complete) = (200, true);
        noted
    }

    /// A number of this request's own, which nobody can guess; those within it have it, too.
    pub fn request_id(&self) -> (u64, u64) {
        let of = (self.about.connection, self.about.requests);
        (self.loaded.secret_of((0, of)), self.loaded.secret_of((1, of)))
    }

    /// Whether its answer tells how long its connection is kept.
    pub fn tells_keep_alive(&self) -> bool {
        let block = self.loaded.program.block(self.route.block);
        block.is_some_and(|block| block.connection.keepalive_told.is_some())
    }

    /// The connection ends with its answer, where it carries one request at a time: of HTTP/2 what is
    /// wrong with a request concerns its stream alone.
    pub fn end_connection(&mut self, replies: &mut dyn Replies) {
        if !self.about.http2 {
            self.settings.last = true;
            replies.set(self.id, &self.settings);
        }
    }

    /// Whether nothing that it says is believed.
    pub const fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Goes on at another path of this server, from its script on.
    pub fn redirect(&mut self, uri: &[u8], args: &[u8]) {
        self.route.redirect(uri, args);
        self.forget_place();
    }

    /// What was found out for one place, by requests within this one too, is found out again in another.
    pub fn forget_place(&mut self) {
        self.passed.forget_place();
        self.within.forget_place();
    }
}

#[cfg(test)]
mod tests;
