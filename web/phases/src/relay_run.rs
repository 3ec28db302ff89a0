//! Requests go on by what comes of what is asked for them.

use super::Rest;
use super::loaded::Loaded;
use super::relay::Relay;
use super::request_state::RequestState;
use super::runner::{Flow, Runner};
use super::waits::On;
use asking::{Ask, AskStep, AskTurn, NamedHost, NoteLevel, Servers};
use core::net::SocketAddr;
use exchange::Replies;
use features::ErrorLevel;
use resolver::{Resolution, ResolveError};
use std::rc::Rc;
use upstream::{Balancing, Group, GroupServer, PeerAddress};

/// Requests that wait for a group's first addresses, at most.
const PARKED_MAX: usize = 4_096;

/// What a request waited for.
pub(super) enum NameNews {
    Found(Result<Resolution, ResolveError>),
    /// A group may have peers by now.
    Group(u16),
}

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

impl RequestState {
    /// Whether its client takes nothing of an answer now.
    pub(super) fn is_shut(&self, replies: &dyn Replies) -> bool {
        self.about.http2 && replies.flow(self.id).welcome() == 0
    }
}

impl Runner<'_> {
    pub(super) fn relay(&mut self) -> Option<&mut Relay> {
        self.state.passed.relay.as_deref_mut()
    }

    /// Goes on with what is asked for the request. What there is to say of that is told.
    pub(super) fn ask<T>(&mut self, act: impl FnOnce(&mut Ask, &mut AskTurn<'_>) -> T) -> Option<T> {
        let shut = self.state.is_shut(self.replies);
        let relay = self.state.passed.relay.as_deref_mut()?;
        let (kept, groups, now) = (&mut self.rest.kept, &self.loaded.groups, self.rest.clock.now);
        let mut turn = AskTurn { io: self.replies, kept, groups, now };
        relay.ask.set_waits(shut);
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
            let whose = (&*self.loaded, &*self.state);
            super::errors::tell_of_ask(whose, self.request, &self.rest.clock, (level_of(note.level), text, &note));
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
                let reads = self.state.body.as_deref_mut().is_some_and(|body| body.read_back(at, PIECE));
                if let (true, Some(relay)) = (reads, self.relay()) {
                    relay.ask.reads_piece(at);
                }
            }
            AskStep::WantsBody => self.replies.read(self.state.id, None),
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
        let Some(relay) = self.state.passed.relay.take() else { return };
        self.state.passed.tries = self.rest.spare.give_relay(relay);
    }

    /// The same; something else answers, and what it has to tell is told with the server
    /// that was asked.
    pub(super) fn give_up_relay(&mut self) {
        self.state.passed.url = self.state.passed.url(false);
        self.end_relay();
    }

    /// Waits for addresses of the servers that the request goes to.
    fn wait_for_names(&mut self) -> Flow {
        let Some(relay) = self.state.passed.relay.as_deref() else { return Flow::Waits(On::Source) };
        let loaded = Rc::clone(&self.loaded);
        let group = match relay.ask.servers() {
            Servers::Group(group) => *group,
            Servers::Named(named) => {
                let named = named.clone();
                return self.wait_for_host(&loaded, &named);
            }
            Servers::Own(_) => return self.ask_step(Ask::ask_now),
        };
        let mut names = loaded.names.borrow_mut();
        let Some(names) = names.as_mut().filter(|names| names.parked.len() < PARKED_MAX) else {
            return self.ask_step(Ask::ask_now);
        };
        names.parked.push((group, self.wait_for_name()));
        Flow::Waits(On::Helper)
    }

    fn wait_for_host(&mut self, loaded: &Loaded, named: &NamedHost) -> Flow {
        let ticket = self.wait_for_name();
        let asked = match loaded.names.borrow_mut().as_mut() {
            Some(names) => names.resolver.ask(ticket, &named.resolver, &named.host, None).is_ok(),
            None => false,
        };
        if asked { Flow::Waits(On::Helper) } else { self.on_addresses(Err(ResolveError::Busy)) }
    }

    fn wait_for_name(&mut self) -> u64 {
        let ticket = self.rest.tickets.next(self.token);
        self.state.wait.ticket = Some(ticket);
        ticket
    }

    /// What the request waited for is known.
    pub(super) fn on_names(&mut self, news: NameNews) -> Flow {
        match news {
            NameNews::Found(found) => self.on_addresses(found),
            NameNews::Group(group) => {
                let servers = Servers::Group(group);
                let value = self.balancing_value(&servers);
                let key = self.balancing_key(&servers, value.as_deref());
                self.ask_step(|ask, turn| ask.group_found(turn, key))
            }
        }
    }

    /// The addresses of the host that the request goes to, or why there are none.
    fn on_addresses(&mut self, found: Result<Resolution, ResolveError>) -> Flow {
        let named = match self.state.passed.relay.as_deref().map(|relay| relay.ask.servers()) {
            Some(Servers::Named(named)) => named.clone(),
            _ => return self.ask_step(Ask::ask),
        };
        let addresses = match found {
            Ok(Resolution::Addresses(addresses)) => Ok(addresses),
            Ok(Resolution::Service(_)) => Err(ResolveError::NotFound),
            Err(why) => Err(why),
        };
        let addresses = match addresses {
            Ok(addresses) => addresses,
            Err(why) => {
                let host = String::from_utf8_lossy(&named.host).into_owned();
                self.tell(ErrorLevel::ERROR, || format!("{host} could not be resolved ({why})").into_bytes());
                self.give_up_relay();
                return Flow::Status(502);
            }
        };
        let at = |ip: &core::net::IpAddr| PeerAddress::Inet(SocketAddr::new(*ip, named.port));
        let server = GroupServer::new(&named.host, addresses.iter().map(at).collect());
        let Ok(group) = Group::new(&named.host, Balancing::RoundRobin, &[server]) else {
            self.give_up_relay();
            return Flow::Status(500);
        };
        self.ask_step(|ask, turn| ask.found(turn, group))
    }
}

impl Rest {
    pub(super) fn relay_of(&mut self, token: u32) -> Option<&mut Relay> {
        self.requests.get_mut(token)?.passed.relay.as_deref_mut()
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
        let state = self.requests.get_mut(token)?;
        let relay = state.passed.relay.as_deref_mut()?;
        let (kept, groups) = (&mut self.kept, &state.loaded.groups);
        Some(act(&mut relay.ask, &mut AskTurn { io: replies, kept, groups, now }))
    }

    /// A request is over, whatever it was passed on to.
    pub(super) fn abandon(&mut self, state: &mut RequestState) {
        let Some(mut relay) = state.passed.relay.take() else { return };
        relay.ask.abandon(&mut self.kept, &state.loaded.groups, self.clock.now);
    }
}
