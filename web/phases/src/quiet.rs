//! Turns in which an engine has nothing to do of itself: what its requests wait for comes by their
//! connections, to upstreams and to clients.

use super::Engine;
use bodies::BodyStore;
use exchange::Handler;
use features::compression::CompressedBodies;
use passwords::Verifier;

impl Engine {
    /// Has a turn in which nothing is to be done, if it is one. Programs that log, of which more is to be written in
    /// most turns, are not asked.
    pub(super) fn has_quiet_turn(&mut self) -> bool {
        let is_quiet = self.is_quiet();
        if is_quiet {
            self.rest.makings.begin_turn();
        }
        is_quiet
    }

    /// Whether a turn of its own would find nothing to do, and nothing that is to be done at a time.
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        // What most programs have first.
        if self.tells || self.resolves || !self.retired.is_empty() {
            return false;
        }
        let (rest, files) = (&self.rest, &self.files);
        let by_upstreams = || rest.kept.hangups() > 0 || rest.kept.shared.has_work() || rest.left_behind.has_work();
        let by_subs = || !rest.subs.is_idle() || !rest.subs.line.is_empty();
        let by_answers = || !rest.makings.is_idle() || !rest.cut.is_empty() || rest.tickets.wake().is_some();
        let by_files = || !files.is_at_rest() || files.has_news();
        let by_helpers = || {
            rest.verifier.as_ref().is_some_and(Verifier::has_posted)
                || rest.compressed.as_ref().is_some_and(CompressedBodies::is_busy)
        };
        let is_waited_for = by_upstreams() || by_subs() || by_answers() || by_files() || by_helpers();
        !(is_waited_for || self.reads && self.keeps_bodies())
    }

    /// Whether a body of a request is written, read back, or waits for memory.
    fn keeps_bodies(&self) -> bool {
        let works = |store: &BodyStore| store.is_busy() || store.has_room();
        self.loaded.bodies.borrow().as_ref().is_some_and(works)
    }
}
