//! What is known of names, what is asked, and who waits for it: without I/O.
//!
//! ```text
//!  ask ──► known? ─► poll_answer
//!           └─ no ─► poll_question ─► a server ─► on_message ─► poll_answer
//!                        ▲                │
//!                        └─ the next one ─┴─ on_failure, on_time
//! ```

use crate::message::{AddressKind, FORMAT_ERROR, HostName, NoAnswer, Question, Said, read};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
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

#[derive(Debug)]
struct Known {
    answer: Answer,
    until: Time,
}

/// A name that is asked for.
#[derive(Debug)]
struct Lookup {
    tickets: Vec<u64>,
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

/// Names, known and asked for.
pub struct Lookups {
    rules: Arc<ResolverRules>,
    limits: LookupLimits,
    random: Box<dyn FnMut() -> u64 + Send>,
    known: HashMap<HostName, Known>,
    /// Names in the order in which they became known, and when they end.
    order: VecDeque<(HostName, Time)>,
    lookups: HashMap<HostName, Lookup>,
    /// Whose question it is.
    questions: HashMap<QuestionId, (HostName, AddressKind)>,
    waiting: usize,
    outgoing: VecDeque<Outgoing>,
    over: VecDeque<QuestionId>,
    answers: VecDeque<(u64, Answer)>,
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
        let Some(name) = HostName::parse(name) else {
            return self.answers.push_back((ticket, Err(ResolveError::BadName)));
        };
        if let Some(known) = self.known.get(&name).filter(|known| now < known.until) {
            let answer = self.rotated(&known.answer.clone());
            return self.answers.push_back((ticket, answer));
        }
        if self.waiting >= self.limits.waiting {
            return self.answers.push_back((ticket, Err(ResolveError::Busy)));
        }
        if let Some(lookup) = self.lookups.get_mut(&name) {
            lookup.tickets.push(ticket);
            self.waiting += 1;
            return;
        }
        if self.lookups.len() >= self.limits.asked {
            return self.answers.push_back((ticket, Err(ResolveError::Busy)));
        }
        self.waiting += 1;
        let v4 = if self.rules.v4 { self.begin(&name, &name, AddressKind::V4, (0, u32::MAX), now) } else { done() };
        let v6 = if self.rules.v6 { self.begin(&name, &name, AddressKind::V6, (0, u32::MAX), now) } else { done() };
        let until = now + self.rules.timeout;
        self.lookups.insert(name.clone(), Lookup { tickets: vec![ticket], until, v4, v6 });
        self.settle(&name, now);
    }

    /// A new question about `asked`, for those who wait for `name`.
    fn begin(
        &mut self,
        name: &HostName,
        asked: &HostName,
        kind: AddressKind,
        (aliases, seconds): (u8, u32),
        now: Time,
    ) -> Half {
        self.next += 1;
        let id = QuestionId(self.next);
        self.questions.insert(id, (name.clone(), kind));
        let question = Question { id: 0, name: asked.clone(), kind };
        let server = self.server;
        self.server = (self.server + 1) % self.rules.servers.len().max(1);
        let mut asking = Asking { id, question, server, tcp: false, deadline: now, refusals: 0, aliases, seconds };
        self.send(&mut asking, now);
        Half::Asking(asking)
    }

    /// Sends it under a new number.
    fn send(&mut self, asking: &mut Asking, now: Time) {
        let Some(server) = self.rules.servers.get(asking.server) else { return };
        asking.question.id = (self.random)() as u16;
        asking.deadline = now + PATIENCE;
        let message = asking.question.message();
        self.outgoing.push_back(Outgoing { id: asking.id, server: *server, tcp: asking.tcp, message });
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
    pub fn poll_answer(&mut self) -> Option<(u64, Answer)> {
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
        lookups.flat_map(|lookup| [Some(lookup.until), of(&lookup.v4), of(&lookup.v6)]).flatten().min()
    }

    /// Time has passed: the next servers are asked, and names given up.
    pub fn on_time(&mut self, now: Time) {
        let names: Vec<HostName> = self.lookups.keys().cloned().collect();
        for name in names {
            for kind in [AddressKind::V4, AddressKind::V6] {
                let Some(half) = self.half(&name, kind) else { continue };
                let Half::Asking(asking) = half else { continue };
                if asking.deadline <= now {
                    let id = asking.id;
                    self.again(id, now);
                }
            }
            if self.lookups.get(&name).is_some_and(|lookup| lookup.until <= now) {
                self.give_up(&name, now);
            }
        }
    }

    /// A question could not be sent, or its server said that nobody is there.
    pub fn on_failure(&mut self, id: QuestionId, now: Time) {
        self.refused(id, 2, now);
    }

    /// Bytes arrived where the answer to a question is to come; whether they are it.
    pub fn on_message(&mut self, id: QuestionId, message: &[u8], now: Time) -> bool {
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return true };
        let Some(Half::Asking(asking)) = self.half(&name, kind) else { return true };
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
            Said::Addresses(found, seconds) => {
                self.finish(id, Half::Done { found, seconds: seconds.min(known), failed: None }, now);
            }
            Said::Nothing(_, seconds) => {
                let seconds = seconds.min(known).min(NEGATIVE_MAX);
                self.finish(id, Half::Done { found: Vec::new(), seconds, failed: None }, now);
            }
            Said::Alias(_, _) if aliases >= ALIASES_MAX => self.refused(id, FORMAT_ERROR, now),
            Said::Alias(alias, seconds) => {
                let half = self.begin(&name, &alias, kind, (aliases + 1, seconds.min(known)), now);
                self.finish(id, half, now);
            }
        }
        true
    }

    fn half(&mut self, name: &HostName, kind: AddressKind) -> Option<&mut Half> {
        let lookup = self.lookups.get_mut(name)?;
        Some(match kind {
            AddressKind::V4 => &mut lookup.v4,
            AddressKind::V6 => &mut lookup.v6,
        })
    }

    /// Asks the next server.
    fn again(&mut self, id: QuestionId, now: Time) {
        let servers = self.rules.servers.len().max(1);
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return };
        let Some(Half::Asking(asking)) = self.half(&name, kind) else { return };
        asking.server = (asking.server + 1) % servers;
        asking.tcp = false;
        self.resend(id, now);
    }

    fn resend(&mut self, id: QuestionId, now: Time) {
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return };
        let Some(half) = self.half(&name, kind) else { return };
        let taken = core::mem::replace(half, done());
        let Half::Asking(mut asking) = taken else { return };
        self.send(&mut asking, now);
        if let Some(half) = self.half(&name, kind) {
            *half = Half::Asking(asking);
        }
    }

    /// A server could not answer: the next one is asked, once each.
    fn refused(&mut self, id: QuestionId, code: u8, now: Time) {
        let servers = self.rules.servers.len();
        let Some((name, kind)) = self.questions.get(&id).cloned() else { return };
        let Some(Half::Asking(asking)) = self.half(&name, kind) else { return };
        asking.refusals += 1;
        if asking.refusals < servers {
            return self.again(id, now);
        }
        let failed = Some(ResolveError::Server(code));
        self.finish(id, Half::Done { found: Vec::new(), seconds: 0, failed }, now);
    }

    /// A question is answered, perhaps by another one.
    fn finish(&mut self, id: QuestionId, becomes: Half, now: Time) {
        let Some((name, kind)) = self.questions.remove(&id) else { return };
        self.over.push_back(id);
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
        let found: Addresses = v4.iter().chain(v6).copied().collect();
        let answer = match (why.or(*also), found.is_empty()) {
            (_, false) => Ok(found),
            (Some(why), true) => Err(why),
            (None, true) => Err(ResolveError::NotFound),
        };
        let seconds = (*one).min(*other);
        self.tell(name, answer, seconds, now);
    }

    /// Nobody answered in time; what is there of one version has to do.
    fn give_up(&mut self, name: &HostName, now: Time) {
        for kind in [AddressKind::V4, AddressKind::V6] {
            let Some(Half::Asking(asking)) = self.half(name, kind) else { continue };
            let id = asking.id;
            let failed = Some(ResolveError::Timeout);
            self.finish(id, Half::Done { found: Vec::new(), seconds: 0, failed }, now);
        }
    }

    fn tell(&mut self, name: &HostName, answer: Answer, seconds: u32, now: Time) {
        let Some(lookup) = self.lookups.remove(name) else { return };
        self.waiting -= lookup.tickets.len();
        for ticket in lookup.tickets {
            let answer = self.rotated(&answer);
            self.answers.push_back((ticket, answer));
        }
        let span = match (&answer, self.rules.valid) {
            (Ok(_), Some(valid)) => valid,
            (Ok(_), None) => Duration::from_secs(seconds.min(TTL_MAX).into()),
            (Err(ResolveError::NotFound), _) => Duration::from_secs(seconds.min(NEGATIVE_MAX).into()),
            (Err(_), _) => Duration::ZERO,
        };
        if !span.is_zero() && self.limits.known > 0 {
            self.keep(name.clone(), answer, now + span, now);
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

const fn done() -> Half {
    Half::Done { found: Vec::new(), seconds: u32::MAX, failed: None }
}

#[cfg(test)]
mod tests;
