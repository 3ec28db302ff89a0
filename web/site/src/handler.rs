//! The handlers that a site may have.

use crate::config::{ConfigError, Content, RequestWork, Respond};
use crate::fixed::Fixed;
use crate::program::{Engine, EngineParts, NewProgram};
use crate::work::Worked;
use app::Wake;
use core::ops::Range;
use exchange::{
    Asked, BodyCut, ConnectionFault, ExchangeId, Gone, Handler, HandlerRules, HeadWriter, Prepared, Ready, ReadySent,
    Refused, Replies, RequestBody, UpstreamEvent, UpstreamHandler, UpstreamId,
};
use files::{Files, Reader};
use latency::SeriesBoard;
use semantics::Request;
use semantics::date::HttpDate;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::Time;

/// What the handlers of a silo have in common.
#[derive(Clone, Copy, Debug)]
pub struct Making<'a> {
    /// Writes the heads of what is ready.
    pub heads: &'a HeadWriter,
    /// Wakes the silo.
    pub event: &'a Arc<OwnedFd>,
    /// Bounds on what is held for peers.
    pub limits: files::FileLimits,
    /// What latencies are counted by, if anybody asks.
    pub latency: Option<&'a SeriesBoard>,
    /// What each request costs before it is answered, for experiments. No
    /// configuration's does.
    pub work: Option<RequestWork>,
}

/// What a silo answers by. Each call is one branch, which the compiler sees
/// through: nothing is boxed on the way of a request. Another handler is
/// another variant here and a crate of its own.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each silo")]
// With a tag of its own: to tell it from a field that others use, each call took three
// instructions more.
#[repr(u8)]
pub enum SiteHandler {
    /// Files below a directory.
    Files(Files),
    /// One response for everything.
    Fixed(Fixed),
    /// What a configuration says. Boxed, so that the others lie as near to each other
    /// as they would without it.
    Engine(Box<Engine>),
    /// One of the first two, whose requests cost work. Boxed, as few are.
    Worked(Box<Worked<Self>>),
}

/// Calls the same method of whichever handler it is.
macro_rules! each {
    ($self:ident, $handler:ident => $call:expr) => {
        match $self {
            SiteHandler::Files($handler) => $call,
            SiteHandler::Fixed($handler) => $call,
            SiteHandler::Engine($handler) => $call,
            SiteHandler::Worked($handler) => $call,
        }
    };
}

/// What makes a handler another of its kind, made ready by a thread that may wait.
#[derive(Debug)]
pub enum HandlerChange {
    /// New rules for files, whose content in memory stays.
    Files(files::NewRules),
    /// Another response.
    Fixed(Respond),
    /// Another configuration, for files whose content in memory stays.
    Program(Box<NewProgram>),
}

impl SiteHandler {
    /// The handler for `content`. Opens a directory's root, and starts what
    /// reads it, on `cpus`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(content: &Content, making: &Making<'_>, cpus: &[usize]) -> Result<Self, ConfigError> {
        let handler = match content {
            Content::Directory(directory) => {
                let reader = Reader::open(directory, making.heads.clone(), cpus)?;
                Self::Files(Files::new(directory, reader, making.limits, making.event))
            }
            Content::Respond(respond) => Self::Fixed(Fixed::new(respond, making.heads)),
            Content::Program(program, directory) => {
                let program = NewProgram::prepare(Arc::clone(program), cpus)?;
                let parts = EngineParts::new(program, directory, cpus)?;
                let mut engine = Box::new(Engine::new(parts, making.limits, making.heads, making.event));
                engine.count_latencies(making.latency);
                return Ok(Self::Engine(engine));
            }
        };
        Ok(match making.work {
            Some(work) => Self::Worked(Box::new(Worked::new(handler, work))),
            None => handler,
        })
    }

    /// Looks for what it serves again.
    pub fn reload(&mut self) {
        match self {
            Self::Files(files) => files.reload(),
            Self::Fixed(_) => {}
            Self::Engine(engine) => engine.reload(),
            Self::Worked(worked) => worked.inner_mut().reload(),
        }
    }

    /// Looks every path up again before it is used, whatever is known of it.
    pub fn forget(&mut self) {
        match self {
            Self::Files(files) => files.forget(),
            Self::Fixed(_) => {}
            Self::Engine(engine) => engine.forget(),
            Self::Worked(worked) => worked.inner_mut().forget(),
        }
    }

    /// Its files, if it serves any.
    #[must_use]
    pub const fn files(&self) -> Option<&Files> {
        match self {
            Self::Worked(worked) => worked.inner().files(),
            Self::Files(files) => Some(files),
            Self::Engine(engine) => Some(engine.files()),
            Self::Fixed(_) => None,
        }
    }

    /// Tells `each` the address ranges of what requests go through, but for what is known to be in
    /// another NUMA domain.
    pub fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        match self {
            Self::Files(files) => files.memory(each),
            Self::Fixed(fixed) => fixed.memory(each),
            Self::Engine(engine) => engine.files().memory(each),
            Self::Worked(worked) => worked.inner().memory(each),
        }
    }

    /// Opens the logs that its configuration has again: for log rotation.
    pub fn reopen_logs(&self) {
        if let Self::Engine(engine) = self {
            engine.reopen_logs();
        }
    }

    /// What runs its configuration, if it has one.
    #[must_use]
    pub const fn engine(&self) -> Option<&Engine> {
        if let Self::Engine(engine) = self { Some(engine) } else { None }
    }

    /// Takes `change` up, for what begins from now on: it was prepared for one of this kind.
    pub fn change(&mut self, change: HandlerChange, heads: &HeadWriter) {
        match (self, change) {
            (Self::Worked(worked), change) => worked.inner_mut().change(change, heads),
            (Self::Files(files), HandlerChange::Files(change)) => files.change(change),
            (Self::Fixed(fixed), HandlerChange::Fixed(respond)) => fixed.change(&respond, heads),
            (Self::Engine(engine), HandlerChange::Program(program)) => engine.change(*program),
            (Self::Files(_) | Self::Fixed(_) | Self::Engine(_), _) => {}
        }
    }
}

impl HandlerChange {
    /// What makes the handler for `now` one for `next`; `None` if nothing is
    /// to change. What reads is started on `cpus`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn prepare(
        now: &Content,
        next: &Content,
        heads: &HeadWriter,
        cpus: &[usize],
    ) -> Result<Option<Self>, ConfigError> {
        match (now, next) {
            (Content::Respond(now), Content::Respond(next)) if now == next => Ok(None),
            (Content::Respond(_), Content::Respond(next)) => Ok(Some(Self::Fixed(next.clone()))),
            (Content::Directory(now), Content::Directory(next)) => {
                Ok(Some(Self::Files(files::NewRules::prepare(now, next, heads.clone())?)))
            }
            (Content::Program(..), Content::Program(next, _)) => {
                Ok(Some(Self::Program(Box::new(NewProgram::prepare(Arc::clone(next), cpus)?))))
            }
            _ => Err(ConfigError::OtherKind),
        }
    }
}

impl Handler for SiteHandler {
    fn rules(&self) -> HandlerRules {
        each!(self, handler => handler.rules())
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, body: RequestBody) {
        each!(self, handler => handler.on_request(replies, id, request, body));
    }

    fn on_body<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, bytes: &[u8]) -> usize {
        each!(self, handler => handler.on_body(replies, id, bytes))
    }

    fn on_body_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, trailers: &[u8]) {
        each!(self, handler => handler.on_body_end(replies, id, trailers));
    }

    fn on_body_cut<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, why: BodyCut) -> bool {
        each!(self, handler => handler.on_body_cut(replies, id, why))
    }

    fn on_client_end<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, held: usize) {
        each!(self, handler => handler.on_client_end(replies, id, held));
    }

    fn on_room<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) {
        each!(self, handler => handler.on_room(replies, id));
    }

    fn on_late<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        each!(self, handler => handler.on_late(replies, id))
    }

    fn on_gone(&mut self, id: ExchangeId, mark: Option<u32>, why: Gone) {
        each!(self, handler => handler.on_gone(id, mark, why));
    }

    fn on_turn<R: Replies>(&mut self, replies: &mut R) -> Wake {
        each!(self, handler => handler.on_turn(replies))
    }

    fn on_second(&mut self, second: u64, date: &HttpDate, now: Time) {
        each!(self, handler => handler.on_second(second, date, now));
    }

    #[inline(always)]
    fn is_at_rest(&self) -> bool {
        match self {
            SiteHandler::Files(files) => files.is_at_rest(),
            SiteHandler::Engine(engine) => engine.is_at_rest(),
            SiteHandler::Fixed(_) | SiteHandler::Worked(_) => false,
        }
    }

    fn look_ahead(&mut self, request: &Request<'_>, now: Time) -> bool {
        each!(self, handler => handler.look_ahead(request, now))
    }

    #[inline]
    fn has_work(&self) -> bool {
        each!(self, handler => handler.has_work())
    }

    #[inline(always)]
    fn working(&self) -> u32 {
        each!(self, handler => handler.working())
    }

    fn on_refused<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, refused: Refused<'_>) -> bool {
        each!(self, handler => handler.on_refused(replies, id, refused))
    }

    fn on_fault<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, fault: ConnectionFault<'_>) {
        each!(self, handler => handler.on_fault(replies, id, fault));
    }
}

impl UpstreamHandler for SiteHandler {
    fn on_upstream<R: Replies>(
        &mut self,
        replies: &mut R,
        id: UpstreamId,
        mark: u32,
        event: UpstreamEvent<'_>,
    ) -> usize {
        each!(self, handler => handler.on_upstream(replies, id, mark, event))
    }
}

impl Prepared for SiteHandler {
    #[inline(always)]
    fn ready<'a>(&mut self, path: &[u8], host: impl FnOnce() -> &'a [u8], second: u64) -> Option<&mut Ready> {
        match self {
            Self::Files(files) => files.ready(path, host, second),
            Self::Fixed(fixed) => fixed.ready(path, host, second),
            Self::Engine(engine) => engine.ready(path, host, second),
            Self::Worked(_) => None,
        }
    }

    #[inline(always)]
    fn ready_for<A: Asked>(&mut self, asked: &A, second: u64) -> Option<&mut Ready> {
        match self {
            Self::Files(files) => files.ready_for(asked, second),
            Self::Fixed(fixed) => fixed.ready_for(asked, second),
            Self::Engine(engine) => engine.ready_for(asked, second),
            Self::Worked(_) => None,
        }
    }

    fn make_closing<A: Asked>(&mut self, asked: &A) -> bool {
        each!(self, handler => handler.make_closing(asked))
    }

    fn on_ready_sent<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, sent: &ReadySent) {
        each!(self, handler => handler.on_ready_sent(replies, id, request, sent));
    }
}
