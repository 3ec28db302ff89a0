//! The thread: sockets, a clock, and what [`Lookups`] decides.

use crate::lookups::{LookupLimits, Lookups, Outgoing, QuestionId, ResolverRules};
use crate::rings::{NameDone, NameJob, ResolverShared};
use core::sync::atomic::Ordering;
use core::time::Duration;
use rtrb::{Consumer, Producer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use wire::Time;

/// The longest answer: what TCP's length of two bytes can say.
const ANSWER_MAX: usize = 65_535;
/// Datagrams that are read of one socket before the others have their turn.
const DATAGRAMS: usize = 16;
/// Datagrams at one socket that are no answer, after which somebody is taken to guess.
const GUESSES_MAX: u32 = 32;
/// Sets of rules whose names are kept apart; configurations before this one are let go of.
const RULES_MAX: usize = 16;

pub(crate) struct Thread {
    jobs: Consumer<NameJob>,
    done: Producer<NameDone>,
    shared: Arc<ResolverShared>,
    started: Instant,
    /// By rules, the latest used last.
    all: Vec<(Arc<ResolverRules>, Lookups)>,
    /// By the place of the rules' number and the question's.
    sockets: HashMap<(usize, QuestionId), Conversation>,
    buffer: Vec<u8>,
}

/// A question on its way over a socket of its own.
struct Conversation {
    socket: OwnedFd,
    /// Over TCP: what is to be sent, and what has come.
    stream: Option<Stream>,
    /// Datagrams that were no answer.
    guesses: u32,
}

#[derive(Default)]
struct Stream {
    unsent: Vec<u8>,
    received: Vec<u8>,
}

/// What came of a look at a socket.
enum Looked {
    /// Nothing that ends it.
    Waiting,
    Answered,
    /// Somebody guesses.
    Guessed,
    Failed,
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // It fails only where the system has none, before its start: then numbers are
    // predictable, ports are not.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}

impl Thread {
    #[expect(clippy::disallowed_methods, reason = "the thread waits, and knows for how long; no silo does")]
    pub fn new(jobs: Consumer<NameJob>, done: Producer<NameDone>, shared: Arc<ResolverShared>) -> Self {
        let (started, buffer) = (Instant::now(), vec![0; ANSWER_MAX]);
        Self { jobs, done, shared, started, all: Vec::new(), sockets: HashMap::new(), buffer }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    pub fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = self.now();
            self.work(now);
            self.wait(now);
        }
    }

    /// Until all is known that was asked for so far, or it is known that it cannot be.
    pub fn run_all(&mut self) {
        loop {
            let now = self.now();
            self.work(now);
            if self.all.iter().all(|(_, lookups)| lookups.next_deadline().is_none()) {
                return;
            }
            self.wait(now);
        }
    }

    /// Does all that need not be waited for.
    fn work(&mut self, now: Time) {
        while let Ok(job) = self.jobs.pop() {
            let place = self.place(&job.rules);
            let lookups = &mut self.all[place].1;
            match &job.service {
                Some(service) => lookups.ask_service(job.ticket, service, &job.name, now),
                None => lookups.ask(job.ticket, &job.name, now),
            }
        }
        for place in 0..self.all.len() {
            if self.all[place].1.next_deadline().is_some_and(|deadline| deadline <= now) {
                self.all[place].1.on_time(now);
            }
        }
        self.carry(now);
    }

    /// Where the names of these rules are.
    fn place(&mut self, rules: &Arc<ResolverRules>) -> usize {
        if let Some(place) = self.all.iter().position(|(known, _)| known == rules) {
            return place;
        }
        let lookups = Lookups::new(Arc::clone(rules), LookupLimits::default(), Box::new(random));
        // One that nothing waits for gives way.
        let idle = (self.all.len() >= RULES_MAX)
            .then(|| self.all.iter().position(|(_, lookups)| lookups.next_deadline().is_none()))
            .flatten();
        match idle {
            Some(place) => self.all[place] = (Arc::clone(rules), lookups),
            None => self.all.push((Arc::clone(rules), lookups)),
        }
        idle.unwrap_or(self.all.len() - 1)
    }

    /// Sends what is to be sent, and tells what is known.
    fn carry(&mut self, now: Time) {
        let mut told = 0_u32;
        for place in 0..self.all.len() {
            while let Some(question) = self.all[place].1.poll_question() {
                let id = question.id;
                match open(&question) {
                    Ok(conversation) => drop(self.sockets.insert((place, id), conversation)),
                    Err(_) => self.all[place].1.on_failure(id, now),
                }
            }
            while let Some(id) = self.all[place].1.poll_over() {
                self.sockets.remove(&(place, id));
            }
            while let Some(done) = self.all[place].1.poll_answer() {
                // Never full: see `Resolver::start`.
                let _ = self.done.push(done);
                told += 1;
            }
        }
        if told > 0 {
            self.shared.posted.fetch_add(told, Ordering::Release);
            if let Some(event) = self.shared.event.get() {
                // A counter that is full is read by whoever is woken by it.
                let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
            }
        }
    }

    /// Waits for whatever is first: an answer, a question, a deadline.
    fn wait(&mut self, now: Time) {
        let deadline = self.all.iter().filter_map(|(_, lookups)| lookups.next_deadline()).min();
        let timeout = deadline.map(|deadline| {
            // Not before it.
            let span = deadline.since(now) + Duration::from_millis(1);
            Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() }
        });
        let keys: Vec<(usize, QuestionId)> = self.sockets.keys().copied().collect();
        let ready: Vec<bool> = {
            let mut polled = Vec::with_capacity(keys.len() + 1);
            polled.push(PollFd::new(&self.shared.wake, PollFlags::IN));
            for key in &keys {
                let conversation = &self.sockets[key];
                let sends = conversation.stream.as_ref().is_some_and(|stream| !stream.unsent.is_empty());
                let what = if sends { PollFlags::OUT } else { PollFlags::IN };
                polled.push(PollFd::new(&conversation.socket, what));
            }
            if poll(&mut polled, timeout.as_ref()).is_err() {
                return;
            }
            polled.iter().map(|one| !one.revents().is_empty()).collect()
        };
        if ready[0] {
            let mut counter = [0; 8];
            let _ = rustix::io::read(&self.shared.wake, &mut counter);
        }
        let now = self.now();
        for (key, _) in keys.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            let (Some(conversation), Some((_, lookups))) = (self.sockets.get_mut(key), self.all.get_mut(key.0)) else {
                continue;
            };
            match conversation.look(lookups, key.1, &mut self.buffer, now) {
                Looked::Waiting | Looked::Answered => {}
                Looked::Guessed => lookups.on_guesses(key.1, now),
                Looked::Failed => {
                    self.sockets.remove(key);
                    self.all[key.0].1.on_failure(key.1, now);
                }
            }
        }
    }
}

/// A socket for a question, which has its port from the system, and takes nothing but
/// from the server.
fn open(question: &Outgoing) -> Result<Conversation, Errno> {
    let family = if question.server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = if question.tcp { SocketType::STREAM } else { SocketType::DGRAM };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    match rustix::net::connect(&socket, &question.server) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) if question.tcp => {}
        Err(why) => return Err(why),
    }
    if question.tcp {
        // At most 300 bytes.
        let length = (question.message.len() as u16).to_be_bytes();
        let unsent = [&length[..], &question.message].concat();
        return Ok(Conversation { socket, stream: Some(Stream { unsent, ..Stream::default() }), guesses: 0 });
    }
    rustix::net::send(&socket, &question.message, SendFlags::NOSIGNAL)?;
    Ok(Conversation { socket, stream: None, guesses: 0 })
}

impl Conversation {
    fn look(&mut self, lookups: &mut Lookups, id: QuestionId, buffer: &mut [u8], now: Time) -> Looked {
        match &mut self.stream {
            Some(stream) => stream.look(self.socket.as_fd(), lookups, id, buffer, now),
            None => {
                for _ in 0..DATAGRAMS {
                    match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                        Ok((length, _)) if lookups.on_message(id, &buffer[..length], now) => return Looked::Answered,
                        Ok(_) => {
                            self.guesses += 1;
                            if self.guesses >= GUESSES_MAX {
                                return Looked::Guessed;
                            }
                        }
                        Err(Errno::AGAIN | Errno::INTR) => return Looked::Waiting,
                        Err(_) => return Looked::Failed,
                    }
                }
                Looked::Waiting
            }
        }
    }
}

impl Stream {
    fn look(
        &mut self,
        socket: rustix::fd::BorrowedFd<'_>,
        lookups: &mut Lookups,
        id: QuestionId,
        buffer: &mut [u8],
        now: Time,
    ) -> Looked {
        if !self.unsent.is_empty() {
            return match rustix::net::send(socket, &self.unsent, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.unsent.drain(..sent);
                    Looked::Waiting
                }
                Err(Errno::AGAIN | Errno::INTR) => Looked::Waiting,
                Err(_) => Looked::Failed,
            };
        }
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => Looked::Failed,
            Ok((length, _)) => {
                self.received.extend_from_slice(&buffer[..length]);
                let Some((length, rest)) = self.received.split_first_chunk::<2>() else { return Looked::Waiting };
                let length = usize::from(u16::from_be_bytes(*length));
                match rest.get(..length) {
                    None => Looked::Waiting,
                    Some(message) if lookups.on_message(id, message, now) => Looked::Answered,
                    Some(_) => Looked::Failed,
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => Looked::Waiting,
            Err(_) => Looked::Failed,
        }
    }
}

#[cfg(test)]
mod tests;
