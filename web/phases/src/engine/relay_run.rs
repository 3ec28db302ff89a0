//! Requests go on by what comes of what is asked for them.

use super::Rest;
use super::course::Course;
use super::relay::Relay;
use super::run::{Flow, Runner};
use super::waits::On;
use asking::{Ask, AskStep, AskTry, AskTurn, NoteLevel};
use exchange::Replies;
use features::ErrorLevel;

/// Bytes of a body that are read back at a time.
const PIECE: usize = 64 << 10;

/// How severe a note is, by nginx's levels.
const fn level_of(level: NoteLevel) -> ErrorLevel {
    match level {
        NoteLevel::Critical => ErrorLevel::CRIT,
        NoteLevel::Error => ErrorLevel::ERROR,
        NoteLevel::Warning => ErrorLevel::WARN,
        NoteLevel::Info => ErrorLevel::INFO,
    }
}

impl Course {
    /// Servers that were asked so far.
    pub(super) fn tries(&self) -> &[AskTry] {
        self.relay.as_deref().map_or(&self.tries, |relay| relay.ask.tries())
    }
}

impl Runner<'_> {
    pub(super) fn relay(&mut self) -> Option<&mut Relay> {
        self.course.relay.as_deref_mut()
    }

    /// Goes on with what is asked for the request. What there is to say of that is told.
    pub(super) fn ask<T>(&mut self, act: impl FnOnce(&mut Ask, &mut AskTurn<'_>) -> T) -> Option<T> {
        let relay = self.course.relay.as_deref_mut()?;
        let (kept, groups, now) = (&mut self.rest.kept, &self.loaded.groups, self.clock.now);
        let shut = self.course.about.http2 && self.replies.flow(self.course.id).room == 0;
        let mut turn = AskTurn { io: self.replies, kept, groups, now };
        let done = act(&mut relay.ask, &mut turn);
        if shut {
            relay.ask.receive_little(&mut turn);
        }
        if relay.ask.has_notes() {
            self.tell_notes();
        }
        Some(done)
    }

    /// Tells the error log what there is to say of what is asked.
    #[cold]
    pub(super) fn tell_notes(&mut self) {
        let notes = self.relay().map(|relay| relay.ask.take_notes()).unwrap_or_default();
        for note in notes {
            let text = || [note.what.as_bytes(), b" while ", note.doing.as_bytes()].concat();
            let whose = (&*self.loaded, &*self.course);
            super::errors::tell_of_ask(whose, self.request, &self.clock, (level_of(note.level), text, &note));
        }
    }

    /// Goes on with it by a step.
    pub(super) fn ask_step(&mut self, act: impl FnOnce(&mut Ask, &mut AskTurn<'_>) -> AskStep) -> Flow {
        match self.ask(act) {
            Some(step) => self.on_step(step),
            None => Flow::Waits(On::Source),
        }
    }

    /// What the request comes to by what came of a step.
    pub(super) fn on_step(&mut self, step: AskStep) -> Flow {
        match step {
            AskStep::Waits => {}
            AskStep::WantsNames => return self.wait_for_names(),
            AskStep::WantsPiece(at) => {
                let reads = self.course.body.as_deref_mut().is_some_and(|body| body.read_back(at, PIECE));
                if let (true, Some(relay)) = (reads, self.relay()) {
                    relay.ask.reads_piece(at);
                }
            }
            AskStep::WantsBody => self.replies.read(self.course.id, None),
            AskStep::Failed(failure) => {
                self.give_up_relay();
                return Flow::Status(failure.status());
            }
            AskStep::NoCertificate => {
                self.give_up_relay();
                return Flow::Status(500);
            }
            AskStep::NoBody => {
                self.end_relay();
                return Flow::Status(500);
            }
        }
        Flow::Waits(On::Source)
    }

    /// The request is passed on no more.
    pub(super) fn end_relay(&mut self) {
        self.ask(|ask, turn| ask.end(turn));
        self.forget_relay();
    }

    /// What was asked is over.
    pub(super) fn forget_relay(&mut self) {
        let Some(relay) = self.course.relay.take() else { return };
        self.course.tries = self.rest.spare.give_relay(relay);
    }

    /// The same; something else answers, and what it has to tell is told with the server
    /// that was asked.
    pub(super) fn give_up_relay(&mut self) {
        self.course.passed_to = self.course.upstream_url(false);
        self.end_relay();
    }
}

impl Rest {
    pub(super) fn relay_of(&mut self, token: u32) -> Option<&mut Relay> {
        self.courses.get_mut(token as usize)?.as_deref_mut()?.relay.as_deref_mut()
    }

    /// Goes on with what is asked for a request that is kept. What there is to say of that
    /// waits for [`Runner::tell_notes`].
    pub(super) fn ask_for<T>(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        act: impl FnOnce(&mut Ask, &mut AskTurn<'_>) -> T,
    ) -> Option<T> {
        let now = replies.now();
        let course = self.courses.get_mut(token as usize)?.as_deref_mut()?;
        let relay = course.relay.as_deref_mut()?;
        let (kept, groups) = (&mut self.kept, &course.loaded.groups);
        Some(act(&mut relay.ask, &mut AskTurn { io: replies, kept, groups, now }))
    }

    /// A request is over, whatever it was passed on to.
    pub(super) fn abandon(&mut self, course: &mut Course) {
        let Some(mut relay) = course.relay.take() else { return };
        relay.ask.abandon(&mut self.kept, &course.loaded.groups, self.clock.now);
    }
}
