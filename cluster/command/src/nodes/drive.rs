//! Between an operator of audits, the API server and the pods: what it asks is asked, what it orders is done.

use super::listen::{Heard, HeardWhat, Listening, NodeWords};
use crate::cluster::{Found, listen, listen_again};
use crate::random::random;
use channel::Keys;
use core::time::Duration;
use cpu::Clock;
use kubernetes::Client;
use messages::Token;
use operator::{AuditOrder, Auditor, Moment};
use reconcile::Meeting;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Answers that wait for the one who decides: each has up to a mebibyte.
const HEARD_LIMIT: usize = 16;

/// How often signals are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An operator of audits, and who works for it.
pub struct DrivenAudits<'a> {
    pub auditor: Auditor,
    client: Client,
    found: Found<'a>,
    own: IpAddr,
    /// By the audits' numbers.
    listening: BTreeMap<String, Listening>,
    heard: SyncSender<Heard>,
    taken: Receiver<Heard>,
}

/// What is to be known of a step.
pub enum Step {
    /// This is for people.
    Say(String),
    /// Another is the one.
    Yield,
    /// A node's pod said this.
    Heard(NodeWords),
}

impl<'a> DrivenAudits<'a> {
    /// This operator, of this client's cluster; pods find this process so.
    ///
    /// # Errors
    /// If the API server cannot be reached.
    pub fn new(auditor: Auditor, client: Client, found: Found<'a>) -> std::io::Result<Self> {
        let own = client.own_address()?;
        let (heard, taken) = sync_channel(HEARD_LIMIT);
        Ok(Self { auditor, client, found, own, listening: BTreeMap::new(), heard, taken })
    }

    /// Does what is to be done now, and waits for a moment where there is nothing; `on` is told what is to be known.
    pub fn step(&mut self, on: &mut dyn FnMut(Step)) {
        while let Some(order) = self.auditor.poll_order() {
            match order {
                AuditOrder::Meet { uid, known } => {
                    let met = self.meet(&uid, known);
                    self.auditor.on_met(&uid, met, moment());
                }
                AuditOrder::Kept { uid, node } => {
                    if let Some(listening) = self.listening.get(&uid) {
                        listening.kept(&node);
                    }
                }
                AuditOrder::Part { uid } => drop(self.listening.remove(&uid)),
                AuditOrder::Say(words) => on(Step::Say(words)),
                AuditOrder::Yield => on(Step::Yield),
            }
        }
        if let Some(call) = self.auditor.poll_call(moment()) {
            let answer = self.client.call(call.method, &call.path, call.object.as_ref());
            self.auditor.on_answer(answer, moment());
        }
        let wait = self.auditor.next_deadline(moment()).since(Clock.now()).min(LOOK_EVERY);
        let mut next = self.taken.recv_timeout(wait).ok();
        // Some of them, and then what they lead to.
        for _ in 0..HEARD_LIMIT {
            let Some(Heard { audit, what }) = next else { return };
            match what {
                HeardWhat::Words(words) => {
                    self.auditor.on_answer_of(&audit, &words.node, words.said.clone(), moment());
                    on(Step::Heard(words));
                }
                HeardWhat::Refused { node, token } => self.auditor.on_refused(&audit, &node, &token, moment()),
            }
            next = self.taken.try_recv().ok();
        }
    }

    /// Listens where pods look for who is to hear them, or is found by those that are to come.
    fn meet(&mut self, uid: &str, known: Option<Meeting>) -> Result<Meeting, String> {
        if known.is_some() && self.listening.get(uid).map(|one| &one.meeting) == known.as_ref() {
            return known.ok_or_else(String::new);
        }
        self.listening.remove(uid);
        let (listener, meeting) = match known {
            Some(known) => (listen_again(&known.controller, self.found, self.own)?.0, known),
            None => {
                let (listener, controller) = listen(self.found, self.own)?;
                let token = Token::new(random().map_err(|why| why.to_string())?);
                let key = Keys::of(&token).map_err(|why| why.to_string())?.controller_key().text();
                (listener, Meeting { token, controller, key: Some(key) })
            }
        };
        let listening = Listening::start(listener, uid, meeting.clone(), self.heard.clone());
        self.listening.insert(uid.to_owned(), listening.map_err(|why| why.to_string())?);
        Ok(meeting)
    }
}

/// Now, by both clocks.
pub fn moment() -> Moment {
    Moment { now: Clock.now(), unix: Clock.unix().as_secs() }
}
