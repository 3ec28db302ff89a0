//! What is known of names, what is asked, and who waits for it: without I/O.
//!
//! ```text
//!  ask ──► known? ─► poll_answer
//!           └─ no ─► poll_question ─► a server ─► on_message ─► poll_answer
//!                        ▲                │
//!                        └─ the next one ─┴─ on_failure, on_time
//! ```

mod services;

pub use services::{FailedTarget, ServiceAddress, ServiceAddresses};

use crate::message::{FORMAT_ERROR, HostName, NoAnswer, Question, RecordKind, Said, ServiceRecord, read};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use services::Services;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use wire::Time;

/// `resolver` and `resolver_timeout`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ResolverRules {
    /// The servers; each question goes to the next of them.
    pub servers: Vec<SocketAddr>,
    /// `valid=`: for how long answers count, whatever they say.
    pub valid: Option<Duration>,
    /// Addresses of version 4 are asked for.
    pub v4: bool,
    /// Addresses of version 6 are asked for.
    pub v6: bool,
    /// How long a name is asked for.
    pub timeout: Duration,
}

/// The addresses of a name.
pub type Addresses = Arc<[IpAddr]>;

/// What was found out about a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameAnswer {
    /// What is there, or why nothing is.
    pub found: Result<Resolution, ResolveError>,
    /// For how long from now; where it failed, when it is worth while to ask again.
    pub valid: Duration,
    /// Hosts of a service that have no addresses.
    pub failed: Vec<FailedTarget>,
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// These addresses.
    Addresses(Addresses),
    /// These hosts of a service.
    Service(ServiceAddresses),
}

/// Why a name has no addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolveError {
    /// There is no such name, or it has none.
    NotFound,
    /// No server answered.
    Timeout,
    /// The servers could not, or would not: the response code of the last.
    Server(u8),
    /// It cannot be a host's name.
    BadName,
    /// Too many names are asked for already.
    Busy,
}

impl fmt::Display for ResolveError {
    /// In nginx's words: a number, and what it means.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound | Self::BadName => f.write_str("3: Host not found"),
            Self::Timeout => f.write_str("110: Operation timed out"),
            Self::Server(1) => f.write_str("1: Format error"),
            Self::Server(2) => f.write_str("2: Server failure"),
            Self::Server(4) => f.write_str("4: Unimplemented"),
            Self::Server(5) => f.write_str("5: Operation refused"),
            Self::Server(code) => write!(f, "{code}: Unknown error"),
            Self::Busy => f.write_str("11: Resource temporarily unavailable"),
        }
    }
}

impl core::error::Error for ResolveError {}

/// How long a server has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most aliases that are asked for, one after the other.
const ALIASES_MAX: u8 = 8;
/// The longest that an answer counts, whatever it says: a day.
const TTL_MAX: u32 = 86_400;
/// The longest that there is known to be nothing.
const NEGATIVE_MAX: u32 = 30;

/// When it is worth while to ask again for what is not there.
const AGAIN: Duration = Duration::from_secs(10);

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupLimits {
    /// Names that are known.
    pub known: usize,
    /// Names that are asked for.
    pub asked: usize,
    /// Who waits for one.
    pub waiting: usize,
}

impl Default for LookupLimits {
    fn default() -> Self {
        Self { known: 4_096, asked: 256, waiting: 4_096 }
    }
}

/// A question on its way: its number here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct QuestionId(u64);

/// A question that is to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Its number here; a later one of the same number replaces it.
    pub id: QuestionId,
    /// The server.
    pub server: SocketAddr,
    /// Over TCP, because the answer is long.
    pub tcp: bool,
    /// The message.
    pub message: Vec<u8>,
}

type Answer = Result<Addresses, ResolveError>;

/// Who waits for a name.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Waiter {
    /// Whoever has the ticket.
    Caller(u64),
    /// A service, one of whose hosts it is: its place among them.
    Service(HostName, usize),
}

#[derive(Debug)]
struct Known {
    answer: Answer,
    until: Time,
}

/// A name that is asked for.
#[derive(Debug)]
struct Lookup {
    waiters: Vec<Waiter>,
    /// When it is given up.
    until: Time,
    v4: Half,
    v6: Half,
}

/// Addresses of one version.
#[derive(Debug)]
enum Half {
    /// They are not asked for, or all is known.
    Done {
        found: Vec<IpAddr>,
        seconds: u32,
        failed: Option<ResolveError>,
    },
    Asking(Asking),
}

#[derive(Debug)]
struct Asking {
    id: QuestionId,
    question: Question,
    server: usize,
    tcp: bool,
    /// When the next server is asked.
    deadline: Time,
    /// Servers that said that they cannot.
    refusals: usize,
    aliases: u8,
    /// The least of what aliases are good for.
    seconds: u32,
}

/// What came of a question.
#[derive(Debug)]
enum Outcome {
    Addresses(Vec<IpAddr>, u32),
    Services(Vec<ServiceRecord>, u32),
    Nothing(u32),
    Failed(ResolveError),
    /// Another name is asked for.
    Alias(Asking),
}

/// Names, known and asked for.
pub struct Lookups {
    rules: Arc<ResolverRules>,
    limits: LookupLimits,
    random: Box<dyn FnMut() -> u64 + Send>,
    known: HashMap<HostName, Known>,
    /// Names in the order in which they became known, and when they end.
    order: VecDeque<(HostName, Time)>,
    lookups: HashMap<HostName, Lookup>,
    services: Services,
    /// Whose question it is.
    questions: HashMap<QuestionId, (HostName, RecordKind)>,
    waiting: usize,
    outgoing: VecDeque<Outgoing>,
    over: VecDeque<QuestionId>,
    answers: VecDeque<(u64, NameAnswer)>,
    next: u64,
    server: usize,
}

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").field("known", &self.known.len()).field("lookups", &self.lookups).finish()
    }
}

impl Lookups {
    /// Of which nothing is known. `random` is to be unpredictable: answers are known by
    /// numbers from it.
    #[must_use]
    pub fn new(rules: Arc<ResolverRules>, limits: LookupLimits, random: Box<dyn FnMut() -> u64 + Send>) -> Self {
        Self {
            rules,
            limits,
            random,
            known: HashMap::new(),
            order: VecDeque::new(),
            lookups: HashMap::new(),
            services: Services::default(),
            questions: HashMap::new(),
            waiting: 0,
            outgoing: VecDeque::new(),
            over: VecDeque::new(),
            answers: VecDeque::new(),
            next: 0,
            server: 0,
        }
    }

    /// Asks for a name's addresses: [`Lookups::poll_answer`] tells them with the ticket.
    pub fn ask(&mut self, ticket: u64, name: &[u8], now: Time) {
        let waiter = Waiter::Caller(ticket);
        match HostName::parse(name) {
            Some(name) => self.ask_for(waiter, &name, now),
            None => self.answer(waiter, Err(ResolveError::BadName), AGAIN),
        }
    }

    fn ask_for(&mut self, waiter: Waiter, name: &HostName, now: Time) {
        if let Some(known) = self.known.get(name).filter(|known| now < known.until) {
            let (answer, valid) = (known.answer.clone(), known.until.since(now));
            return self.answer(waiter, answer, valid);
        }
        if self.waiting >= self.limits.waiting {
            return self.answer(waiter, Err(ResolveError::Busy), AGAIN);
        }
        if let Some(lookup) = self.lookups.get_mut(name) {
            lookup.waiters.push(waiter);
            self.waiting += 1;
            return;
        }
        if self.lookups.len() >= self.limits.asked {
            return self.answer(waiter, Err(ResolveError::Busy), AGAIN);
        }
        self.waiting += 1;
        let v4 = if self.rules.v4 { self.begin(name, RecordKind::V4, now) } else { done() };
        let v6 = if self.rules.v6 { self.begin(name, RecordKind::V6, now) } else { done() };
        let until = now + self.rules.timeout;
        self.lookups.insert(name.clone(), Lookup { waiters: vec![waiter], until, v4, v6 });
        self.settle(name, now);
    }

    /// Tells whoever waits.
    fn answer(&mut self, waiter: Waiter, answer: Answer, valid: Duration) {
        match waiter {
            Waiter::Caller(ticket) => {
                let found = self.rotated(&answer).map(Resolution::Addresses);
                self.answers.push_back((ticket, NameAnswer { found, valid, failed: Vec::new() }));
            }
            Waiter::Service(service, place) => self.on_target(&service, place, answer, valid),
        }
    }

    fn begin(&mut self, name: &HostName, kind: RecordKind, now: Time) -> Half {
        Half::Asking(self.question((name, name), kind, (0, u32::MAX), now))
    }

    /// A new question about `asked`, for those who wait for `name`.
    fn question(
        &mut self,
        (name, asked): (&HostName, &HostName),
        kind: RecordKind,
        (aliases, seconds): (u8, u32),
        now: Time,
    ) -> Asking {
        self.next += 1;
        let id = QuestionId(self.next);
        self.questions.insert(id, (name.clone(), kind));
        let question = Question { id: 0, name: asked.clone(), kind };
        let server = self.server;
        self.server = (self.server + 1) % self.rules.servers.len().max(1);
        let mut asking = Asking { id, question, server, tcp: false, deadline: now, refusals: 0, aliases, seconds };
        let number = (self.random)() as u16;
        self.outgoing.extend(asking.outgoing(&self.rules, number, now));
        asking
    }

    /// The next question to send.
    pub fn poll_question(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// A question that nobody waits for any more: its socket is to be closed.
    pub fn poll_over(&mut self) -> Option<QuestionId> {
        self.over.pop_front()
    }

    /// What was found out, by its ticket.
    pub fn poll_answer(&mut self) -> Option<(u64, NameAnswer)> {
        self.answers.pop_front()
    }

    /// When [`Lookups::on_time`] is to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let of = |half: &Half| match half {
            Half::Asking(asking) => Some(asking.deadline),
            Half::Done { .. } => None,
        };
        let lookups = self.lookups.values();
        let lookups = lookups.flat_map(|lookup| [Some(lookup.until), of(&lookup.v4), of(&lookup.v6)]).flatten();
        lookups.chain(self.services.deadlines()).min()
    }

    /// Time has passed: the next servers are asked, and names given up.
    pub fn on_time(&mut self, now: Time) {
        let late = |asking: &Asking| (asking.deadline <= now).then_some(asking.id);
        let of = |half: &Half| match half {
            Half::Asking(asking) => late(asking),
            Half::Done { .. } => None,
        };
        let halves = self.lookups.values().flat_map(|lookup| [of(&lookup.v4), of(&lookup.v6)]).flatten();
        let questions: Vec<QuestionId> = halves.chain(self.services.asking().filter_map(late)).collect();
        questions.into_iter().for_each(|id| self.again(id, now));
        let over = |(name, lookup): (&HostName, &Lookup)| (lookup.until <= now).then(|| name.clone());
        for name in self.lookups.iter().filter_map(over).collect::<Vec<_>>() {
            self.give_up(&name, now);
        }
        self.give_up_services(now);
    }

    /// Somebody guesses where the answer to a question is to come: it is asked for in a way
    /// in which guesses lead nowhere.
    pub fn on_guesses(&mut self, id: QuestionId, now: Time) {
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return };
        let Some(asking) = self.asking(&name, kind) else { return };
        asking.tcp = true;
        self.resend(id, now);
    }

    /// A question could not be sent, or its server said that nobody is there.
    pub fn on_failure(&mut self, id: QuestionId, now: Time) {
        self.refused(id, 2, now);
    }

    /// Bytes arrived where the answer to a question is to come; whether they are it.
    pub fn on_message(&mut self, id: QuestionId, message: &[u8], now: Time) -> bool {
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return true };
        let Some(asking) = self.asking(&name, kind) else { return true };
        let said = match read(message, &asking.question) {
            Ok(said) => said,
            Err(NoAnswer::Unrelated) => return false,
            Err(NoAnswer::Malformed) => {
                self.refused(id, FORMAT_ERROR, now);
                return true;
            }
        };
        let (aliases, known) = (asking.aliases, asking.seconds);
        match said {
            Said::Truncated if asking.tcp => self.refused(id, FORMAT_ERROR, now),
            Said::Truncated => {
                asking.tcp = true;
                self.resend(id, now);
            }
            Said::Failed(code) => self.refused(id, code, now),
            Said::Addresses(found, seconds) => self.finish(id, Outcome::Addresses(found, seconds.min(known)), now),
            Said::Services(found, seconds) => self.finish(id, Outcome::Services(found, seconds.min(known)), now),
            Said::Nothing(_, seconds) => {
                self.finish(id, Outcome::Nothing(seconds.min(known).min(NEGATIVE_MAX)), now);
            }
            // They may lead in a circle.
            Said::Alias(_, _) if aliases >= ALIASES_MAX => self.finish(id, Outcome::Nothing(0), now),
            Said::Alias(alias, seconds) => {
                let asking = self.question((&name, &alias), kind, (aliases + 1, seconds.min(known)), now);
                self.finish(id, Outcome::Alias(asking), now);
            }
        }
        true
    }

    /// The question of this kind that is under way for a name.
    fn asking(&mut self, name: &HostName, kind: RecordKind) -> Option<&mut Asking> {
        if kind == RecordKind::Service {
            return self.services.asking_mut(name);
        }
        match self.half(name, kind)? {
            Half::Asking(asking) => Some(asking),
            Half::Done { .. } => None,
        }
    }

    fn half(&mut self, name: &HostName, kind: RecordKind) -> Option<&mut Half> {
        match kind {
            RecordKind::V4 => self.lookups.get_mut(name).map(|lookup| &mut lookup.v4),
            RecordKind::V6 => self.lookups.get_mut(name).map(|lookup| &mut lookup.v6),
            RecordKind::Service => None,
        }
    }

    /// Asks the next server.
    fn again(&mut self, id: QuestionId, now: Time) {
        let servers = self.rules.servers.len().max(1);
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return };
        let Some(asking) = self.asking(&name, kind) else { return };
        asking.server = (asking.server + 1) % servers;
        asking.tcp = false;
        self.resend(id, now);
    }

    fn resend(&mut self, id: QuestionId, now: Time) {
        let (number, rules) = ((self.random)() as u16, Arc::clone(&self.rules));
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return };
        let outgoing = self.asking(&name, kind).and_then(|asking| asking.outgoing(&rules, number, now));
        self.outgoing.extend(outgoing);
    }

    /// A server could not answer: the next one is asked, once each.
    fn refused(&mut self, id: QuestionId, code: u8, now: Time) {
        let servers = self.rules.servers.len();
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return };
        let Some(asking) = self.asking(&name, kind) else { return };
        asking.refusals += 1;
        if asking.refusals < servers {
            return self.again(id, now);
        }
        self.finish(id, Outcome::Failed(ResolveError::Server(code)), now);
    }

    /// A question is answered, perhaps by another one.
    fn finish(&mut self, id: QuestionId, outcome: Outcome, now: Time) {
        let Some((name, kind)) = self.questions.remove(&id) else { return };
        self.over.push_back(id);
        if kind == RecordKind::Service {
            return self.finish_service(&name, outcome, now);
        }
        let becomes = match outcome {
            Outcome::Addresses(found, seconds) => Half::Done { found, seconds, failed: None },
            Outcome::Nothing(seconds) | Outcome::Services(_, seconds) => {
                Half::Done { found: Vec::new(), seconds, failed: None }
            }
            Outcome::Failed(why) => Half::Done { found: Vec::new(), seconds: 0, failed: Some(why) },
            Outcome::Alias(asking) => Half::Asking(asking),
        };
        if let Some(half) = self.half(&name, kind) {
            *half = becomes;
        }
        self.settle(&name, now);
    }

    /// Tells those who wait, once all is known.
    fn settle(&mut self, name: &HostName, now: Time) {
        let Some(lookup) = self.lookups.get(name) else { return };
        let (
            Half::Done { found: v4, seconds: one, failed: why },
            Half::Done { found: v6, seconds: other, failed: also },
        ) = (&lookup.v4, &lookup.v6)
        else {
            return;
        };
        // None of one version, for which nobody told how long that counts, says nothing of
        // how long the others do.
        let counted = |found: &[IpAddr], seconds: u32, why: Option<ResolveError>| {
            if found.is_empty() && why.is_none() && seconds == 0 { u32::MAX } else { seconds }
        };
        let (one, other) = match v4.is_empty() && v6.is_empty() {
            true => (*one, *other),
            false => (counted(v4, *one, *why), counted(v6, *other, *also)),
        };
        let found: Addresses = v4.iter().chain(v6).copied().collect();
        let answer = match (why.or(*also), found.is_empty()) {
            (_, false) => Ok(found),
            (Some(why), true) => Err(why),
            (None, true) => Err(ResolveError::NotFound),
        };
        let seconds = one.min(other);
        self.tell(name, answer, seconds, now);
    }

    /// Nobody answered in time; what is there of one version has to do.
    fn give_up(&mut self, name: &HostName, now: Time) {
        for kind in [RecordKind::V4, RecordKind::V6] {
            let Some(Half::Asking(asking)) = self.half(name, kind) else { continue };
            let id = asking.id;
            self.finish(id, Outcome::Failed(ResolveError::Timeout), now);
        }
    }

    fn tell(&mut self, name: &HostName, answer: Answer, seconds: u32, now: Time) {
        let Some(lookup) = self.lookups.remove(name) else { return };
        self.waiting -= lookup.waiters.len();
        let kept = match (&answer, self.rules.valid) {
            (Ok(_), Some(valid)) => valid,
            (Ok(_), None) => Duration::from_secs(seconds.min(TTL_MAX).into()),
            (Err(ResolveError::NotFound), _) => Duration::from_secs(seconds.min(NEGATIVE_MAX).into()),
            (Err(_), _) => Duration::ZERO,
        };
        if !kept.is_zero() && self.limits.known > 0 {
            self.keep(name.clone(), answer.clone(), now + kept, now);
        }
        let valid = if answer.is_ok() { kept } else { self.rules.valid.unwrap_or(AGAIN) };
        for waiter in lookup.waiters {
            self.answer(waiter, answer.clone(), valid);
        }
    }

    fn keep(&mut self, name: HostName, answer: Answer, until: Time, now: Time) {
        while let Some((oldest, ends)) = self.order.front()
            && (*ends <= now || self.order.len() >= self.limits.known)
        {
            // It may have become known again since.
            if self.known.get(oldest).is_some_and(|known| known.until == *ends) {
                self.known.remove(oldest);
            }
            self.order.pop_front();
        }
        self.order.push_back((name.clone(), until));
        self.known.insert(name, Known { answer, until });
    }

    /// The same addresses, from another one on: whoever asks takes the first.
    fn rotated(&mut self, answer: &Answer) -> Answer {
        let addresses = answer.as_ref().map_err(|why| *why)?;
        if addresses.len() < 2 {
            return Ok(Arc::clone(addresses));
        }
        let first = ((self.random)() % addresses.len() as u64) as usize;
        Ok(addresses[first..].iter().chain(&addresses[..first]).copied().collect())
    }
}

impl Asking {
    /// The message to the server that is next, under this number.
    fn outgoing(&mut self, rules: &ResolverRules, number: u16, now: Time) -> Option<Outgoing> {
        let server = *rules.servers.get(self.server)?;
        self.question.id = number;
        self.deadline = now + PATIENCE;
        Some(Outgoing { id: self.id, server, tcp: self.tcp, message: self.question.message() })
    }
}

const fn done() -> Half {
    Half::Done { found: Vec::new(), seconds: u32::MAX, failed: None }
}

#[cfg(test)]
mod tests;
