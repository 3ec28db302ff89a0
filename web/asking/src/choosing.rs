//! Servers are asked, one after the other, until one answers.

use crate::answer::{StreamEnd, UnprocessedBy};
use crate::ask::{Ask, AskStage, AskStep, AskTurn};
use crate::clock::{millis, seconds};
use crate::groups::{KeptLink, ServerGroups, peer_text};
use crate::link::AskLink;
use crate::marks::SHARED_WAY;
use crate::rules::{Protocol, Servers};
use crate::shared::{Joined, LinkKey, StreamEvent};
use crate::tries::{AskTry, NoteLevel};
use crate::words::{connect_fault, link_fault};
use app::Closed;
use core::time::Duration;
use exchange::{LINGER, UpstreamAddress, UpstreamEvent, UpstreamId};
use h2::ErrorCode;
use proxy::next::Failure;
use random::SplitMix64;
use std::rc::Rc;
use std::sync::Arc;
use upstream::{Balancer, BalancingKey, Group, KeptConnection, PeerAddress, PeerId, PutBack};
use wire::Time;

/// How long a connection may take to end over which a question went that will not be whole.
const PARTING: Duration = Duration::from_secs(1);

/// How often a question is asked anew that no server has processed.
const REPEATS_MAX: u8 = 4;

impl Ask {
    /// Acts on the servers that it goes to.
    fn balancer<T>(
        &mut self,
        groups: &ServerGroups,
        act: impl FnOnce(&mut Balancer, &mut upstream::Attempts) -> T,
    ) -> Option<T> {
        match &mut self.servers {
            Servers::Group(number) => {
                let mut groups = groups.list.borrow_mut();
                Some(act(&mut groups.get_mut(usize::from(*number))?.balancer, &mut self.attempts))
            }
            Servers::Own(own) => Some(act(own, &mut self.attempts)),
            Servers::Named(_) => None,
        }
    }

    /// Asks servers until one may answer, or none is left.
    pub fn ask(&mut self, turn: &mut AskTurn<'_>) -> AskStep {
        let waits = match &self.servers {
            Servers::Group(number) => {
                turn.groups.list.borrow().get(usize::from(*number)).is_some_and(|group| group.waits_for_names())
            }
            Servers::Own(_) => false,
            Servers::Named(_) => true,
        };
        if waits {
            self.stage = AskStage::Resolves;
            return AskStep::WantsNames;
        }
        self.ask_now(turn)
    }

    /// The same, of those that there are: the others are waited for no longer.
    pub fn ask_now(&mut self, turn: &mut AskTurn<'_>) -> AskStep {
        loop {
            let failure = match self.ask_one(turn) {
                Ok(step) => return step,
                Err(failure) => failure,
            };
            if let Some(step) = self.after(turn, failure) {
                return step;
            }
        }
    }

    /// The names of its group's servers were found out: it begins to choose anew.
    pub fn group_found(&mut self, turn: &mut AskTurn<'_>, key: BalancingKey<'_>) -> AskStep {
        self.attempts = turn.groups.begin(&self.servers, key);
        self.attempts.limit(self.rules.tries);
        self.stage = AskStage::Connects;
        self.ask(turn)
    }

    /// These are the servers that it goes to, now that they were found out.
    pub fn found(&mut self, turn: &mut AskTurn<'_>, group: Group) -> AskStep {
        let balancer = Balancer::new(Arc::new(group));
        self.attempts = balancer.begin(BalancingKey::None);
        self.attempts.limit(self.rules.tries);
        (self.servers, self.stage, self.began) = (Servers::Own(Box::new(balancer)), AskStage::Connects, turn.now);
        self.ask_now(turn)
    }

    /// A server failed: the next is asked, if one may be.
    pub fn failed(&mut self, turn: &mut AskTurn<'_>, failure: Failure) -> AskStep {
        match self.after(turn, failure) {
            Some(step) => step,
            None => self.ask(turn),
        }
    }

    /// Chooses a server, and connects to it.
    fn ask_one(&mut self, turn: &mut AskTurn<'_>) -> Result<AskStep, Failure> {
        let now = turn.now;
        let (groups, seed) = (turn.groups, now.as_nanos() ^ u64::from(self.mark).rotate_right(16));
        // Most ways to choose need no chance.
        let mut numbers = None;
        let mut random = || numbers.get_or_insert_with(|| SplitMix64::new(groups.chance(seed))).bits();
        let chosen = self.balancer(groups, |balancer, attempts| {
            let peer = balancer.choose(attempts, seconds(now), &mut random);
            let group = balancer.group();
            // Its name stands for whom nobody is chosen from.
            peer.map(|peer| (peer, group.address(peer).clone())).ok_or_else(|| Rc::from(&*group.name))
        });
        let Some(chosen) = chosen else { return Err(Failure::Error) };
        let (peer, text) = match chosen {
            Ok((peer, address)) => {
                self.last_peer = Some(peer);
                let text = self.text_of(groups, peer, &address);
                (Some((peer, address)), text)
            }
            Err(name) => (None, name),
        };
        self.tries.push(AskTry { peer: Some(text), began: now, ..AskTry::default() });
        let Some((peer, address)) = peer else {
            self.note(NoteLevel::Error, "no live upstreams", "connecting to upstream");
            return Err(Failure::Error);
        };
        if matches!(self.reading.protocol, Protocol::Http2(_)) {
            return self.connect_shared(turn, (peer, &address));
        }
        if self.take_kept(turn, peer) {
            return Ok(self.send_head(turn));
        }
        self.connect(turn, &address).map(|()| AskStep::Waits)
    }

    /// A peer as logs name it.
    fn text_of(&self, groups: &ServerGroups, peer: PeerId, address: &PeerAddress) -> Rc<[u8]> {
        let Servers::Group(number) = &self.servers else { return peer_text(address) };
        let groups = groups.list.borrow();
        let text = groups.get(usize::from(*number)).and_then(|group| group.texts.get(peer.place()));
        text.map_or_else(|| peer_text(address), Rc::clone)
    }

    fn connect(&mut self, turn: &mut AskTurn<'_>, address: &PeerAddress) -> Result<(), Failure> {
        let to = match address {
            PeerAddress::Inet(to) => UpstreamAddress::Inet(*to),
            PeerAddress::Unix(path) => UpstreamAddress::Unix(path),
        };
        match turn.io.dial(to, self.from, self.mark) {
            Ok(id) => {
                (self.link, self.stage, self.carried) = (Some(AskLink::Own(id)), AskStage::Connects, 0);
                self.opened = millis(turn.now);
                turn.io.set_upstream_timer(id, Some(turn.now + self.rules.connect));
                Ok(())
            }
            Err(why) => {
                let (level, why) = connect_fault(why);
                let text = peer_text(address);
                let told = format!("connect() to {} failed ({why})", String::from_utf8_lossy(&text));
                self.note(level, told, "connecting to upstream");
                Err(Failure::Error)
            }
        }
    }

    /// Gets a stream of a connection to the server that was chosen: of one that there is, or of a further
    /// one.
    pub(crate) fn connect_shared(
        &mut self,
        turn: &mut AskTurn<'_>,
        (peer, address): (PeerId, &PeerAddress),
    ) -> Result<AskStep, Failure> {
        let way = turn.kept.way(self.seeks.as_deref()).map(|way| way | SHARED_WAY);
        let key = way.map(|way| LinkKey { address: address.clone(), way, from: self.from });
        let joined = key.as_ref().and_then(|key| self.join(turn, key, peer));
        if let Some(Joined { stream, is_open, carried, opened }) = joined {
            (self.link, self.carried, self.opened) = (Some(AskLink::Shared(stream)), carried, opened);
            if is_open {
                return Ok(self.send_head(turn));
            }
            self.stage = AskStage::Connects;
            turn.set_timer(AskLink::Shared(stream), Some(turn.now + self.rules.connect));
            return Ok(AskStep::Waits);
        }
        let to = match address {
            PeerAddress::Inet(to) => UpstreamAddress::Inet(*to),
            PeerAddress::Unix(path) => UpstreamAddress::Unix(path),
        };
        let mark = turn.kept.shared.next_mark();
        let id = turn.io.dial(to, self.from, mark).map_err(|why| {
            let (level, why) = connect_fault(why);
            let text = peer_text(address);
            let told = format!("connect() to {} failed ({why})", String::from_utf8_lossy(&text));
            self.note(level, told, "connecting to upstream");
            Failure::Error
        })?;
        let group = match &self.servers {
            Servers::Group(number) if key.is_some() => Some(*number),
            _ => None,
        };
        let key = key.unwrap_or_else(|| LinkKey { address: address.clone(), way: u32::MAX, from: self.from });
        let sought = self.seeks.is_some().then(|| self.sought_now()).flatten();
        let (stream, reference) = turn.kept.shared.begin(id, (key, group, sought), self.mark, turn.now);
        if let Some(number) = group
            && let Some(group) = turn.groups.list.borrow_mut().get_mut(usize::from(number))
        {
            group.shared.push(reference);
        }
        (self.link, self.stage, self.carried) = (Some(AskLink::Shared(stream)), AskStage::Connects, 0);
        self.opened = millis(turn.now);
        turn.set_timer(AskLink::Shared(stream), Some(turn.now + self.rules.connect));
        Ok(AskStep::Waits)
    }

    /// A stream of a connection that there is to this server.
    fn join(&self, turn: &mut AskTurn<'_>, key: &LinkKey, peer: PeerId) -> Option<Joined> {
        let Servers::Group(number) = &self.servers else { return None };
        let mut list = turn.groups.list.borrow_mut();
        let group = list.get_mut(usize::from(*number))?;
        // The one that was kept last is asked first, if none is asked already.
        if let Some(joined) = turn.kept.shared.join_busy(&group.shared, key, self.mark, turn.now) {
            return Some(joined);
        }
        let idle = group.idle.as_mut()?;
        let found = idle.take_where(peer, |link| link.way == key.way && turn.kept.shared.is_fit(link.mark, key))?;
        turn.kept.shared.take_idle(found.conn.mark, self.mark, turn.now)
    }

    /// Takes a connection that was kept, if there is one to this peer.
    fn take_kept(&mut self, turn: &mut AskTurn<'_>, peer: PeerId) -> bool {
        let Servers::Group(number) = &self.servers else { return false };
        let Some(way) = turn.kept.way(self.seeks.as_deref()) else { return false };
        let mut groups = turn.groups.list.borrow_mut();
        let idle = groups.get_mut(usize::from(*number)).and_then(|group| group.idle.as_mut());
        let Some(found) = idle.and_then(|idle| idle.take_where(peer, |link| link.way == way)) else { return false };
        let _ = turn.kept.take(found.conn.mark);
        (self.link, self.carried, self.opened) = (Some(AskLink::Own(found.conn.id)), found.requests, found.opened);
        turn.io.set_upstream_mark(found.conn.id, self.mark);
        true
    }

    /// The same, where the server has not processed the question: that says nothing of it, nor is anything
    /// asked twice. Where it refuses that, others are asked before it.
    pub(crate) fn after_unprocessed(&mut self, turn: &mut AskTurn<'_>, is_refused: bool) -> Option<AskStep> {
        if let Some(link) = self.link.take() {
            turn.cut(link);
        }
        let released = self.balancer(turn.groups, |balancer, attempts| match is_refused {
            true => balancer.release_refused(attempts, seconds(turn.now)),
            false => balancer.release_unprocessed(attempts, seconds(turn.now)),
        });
        if let Some(last) = self.tries.last_mut() {
            last.status = Failure::Error.status();
            last.response.get_or_insert(turn.now.since(last.began));
        }
        if released.is_none() || self.is_late(turn.now) {
            return Some(AskStep::Failed(Failure::Error));
        }
        self.begin_again();
        None
    }

    /// What a failure comes to; nothing where another is asked.
    fn after(&mut self, turn: &mut AskTurn<'_>, failure: Failure) -> Option<AskStep> {
        let now = turn.now;
        if let Some(link) = self.link.take() {
            turn.cut(link);
        }
        let chosen = self.attempts.current().is_some();
        // That a kept connection was closed meanwhile says nothing of its server.
        let again = self.carried > 0 && chosen && failure == Failure::Error && self.may_repeat();
        let released = self.balancer(turn.groups, |balancer, attempts| {
            let released = balancer.release(attempts, seconds(now), failure.blames());
            if again {
                attempts.again();
            }
            released
        });
        if released.is_some_and(|released| released.disabled) {
            self.note(NoteLevel::Warning, "upstream server temporarily disabled", self.doing());
        }
        if let Some(last) = self.tries.last_mut() {
            last.status = failure.status();
            last.response.get_or_insert(now.since(last.began));
        }
        let repeats = self.sending.is_begun() && self.unrepeatable;
        let chosen = chosen && released.is_some();
        let may_ask = chosen && self.attempts.left() > 0 && !self.is_late(now) && !self.sending.is_spent();
        if !may_ask || !self.rules.next.has(failure, repeats) {
            return Some(AskStep::Failed(failure));
        }
        self.begin_again();
        None
    }

    /// Whether it is asked for too long for another server.
    pub(crate) fn is_late(&self, now: Time) -> bool {
        self.rules.tries_for.is_some_and(|most| now.since(self.began) >= most)
    }

    /// Something happened at its connection before the answer's body, but that bytes came
    /// ([`Ask::read_head`]).
    pub fn on_event(&mut self, turn: &mut AskTurn<'_>, event: UpstreamEvent<'_>) -> AskStep {
        match event {
            UpstreamEvent::Opened if self.seeks.is_some() => {
                self.seek(turn);
                AskStep::Waits
            }
            UpstreamEvent::Opened => self.send_head(turn),
            UpstreamEvent::Shaken(Ok(session)) => self.on_secured(turn, session.verdict),
            UpstreamEvent::Shaken(Err(why)) => self.on_unsecured(turn, why),
            // Nothing passes by itself before the body.
            UpstreamEvent::Data(_) | UpstreamEvent::Passed(_) => AskStep::Waits,
            UpstreamEvent::Room => self.send_body(turn),
            UpstreamEvent::Timer => {
                self.note_fault("upstream timed out (110: Connection timed out)");
                self.failed(turn, Failure::Timeout)
            }
            UpstreamEvent::End { held } => self.on_end_in_head(turn, held),
            UpstreamEvent::Closed(why) => {
                let connects = self.stage == AskStage::Connects;
                let told = match why {
                    Closed::Reset if self.shakes => {
                        "peer closed connection in SSL handshake (104: Connection reset by peer)".to_owned()
                    }
                    why => link_fault(why, connects && !self.shakes),
                };
                self.note_fault(told);
                let failure = if connects && why == Closed::TimedOut { Failure::Timeout } else { Failure::Error };
                self.failed(turn, failure)
            }
        }
    }

    /// Something happened to its stream before the answer's body, but that something came
    /// ([`Ask::read_head`]).
    pub fn on_stream_event(&mut self, turn: &mut AskTurn<'_>, event: StreamEvent) -> AskStep {
        match event {
            StreamEvent::Connected => {
                self.shakes = true;
                AskStep::Waits
            }
            StreamEvent::Ready => self.send_head(turn),
            StreamEvent::Secured(verdict) => self.on_secured(turn, verdict),
            StreamEvent::Unsecured(why) => self.on_unsecured(turn, &why),
            StreamEvent::Came => AskStep::Waits,
            StreamEvent::Room => self.send_body(turn),
            StreamEvent::Timer => self.on_event(turn, UpstreamEvent::Timer),
            StreamEvent::Over => match self.stream_id().and_then(|id| turn.kept.shared.take_end(id)) {
                Some(end) => self.ended_in_head(turn, end),
                None => AskStep::Waits,
            },
        }
    }

    /// No more comes on its stream, and there was no head.
    pub(crate) fn ended_in_head(&mut self, turn: &mut AskTurn<'_>, end: StreamEnd) -> AskStep {
        match end {
            StreamEnd::Unprocessed(code, by) => self.repeat(turn, code, by),
            StreamEnd::Closed(Closed::Finished) => self.on_event(turn, UpstreamEvent::End { held: 0 }),
            StreamEnd::Closed(why) => self.on_event(turn, UpstreamEvent::Closed(why)),
            StreamEnd::Reset(code) => {
                self.note_fault(format!("upstream rejected request with error {}", code.0));
                // The connection goes on: that it was kept is no reason to ask once more.
                self.carried = 0;
                // nginx takes it for a head that is none.
                let is_head = self.rules.next.has(Failure::InvalidHeader, false);
                self.failed(turn, if is_head { Failure::InvalidHeader } else { Failure::Error })
            }
            StreamEnd::Fault(told) => {
                self.note_fault(told);
                self.failed(turn, Failure::InvalidHeader)
            }
            StreamEnd::Whole(_) => {
                self.note_fault("upstream prematurely closed stream");
                self.failed(turn, Failure::InvalidHeader)
            }
        }
    }

    /// Whether it may be asked once more for what says nothing of a server: of connections that are shared,
    /// many questions would be asked on the next that dies.
    fn may_repeat(&mut self) -> bool {
        let Some(answer) = self.answer_on_stream() else { return true };
        answer.repeats = answer.repeats.saturating_add(1);
        answer.repeats <= REPEATS_MAX
    }

    /// No server has processed it: it is asked anew, whatever it asks for (RFC 9113 section 8.7), unless
    /// what was sent of it is gone.
    fn repeat(&mut self, turn: &mut AskTurn<'_>, code: ErrorCode, by: UnprocessedBy) -> AskStep {
        let told = match by {
            UnprocessedBy::GoAway => format!("upstream sent goaway with error {}", code.0),
            UnprocessedBy::Reset => format!("upstream rejected request with error {}", code.0),
            UnprocessedBy::Us => "upstream takes no more requests on its connection".to_owned(),
        };
        if !self.may_repeat() || self.sending.is_spent() {
            self.note_fault(told);
            return self.failed(turn, Failure::Error);
        }
        self.note(crate::NoteLevel::Info, told, self.doing());
        // What a connection does not take, another to the same server may.
        let is_refused = matches!(by, UnprocessedBy::Reset);
        match self.after_unprocessed(turn, is_refused) {
            Some(step) => step,
            None => self.ask(turn),
        }
    }

    /// The server that it is with is so no more; `failed` counts against that.
    pub(crate) fn release(&mut self, groups: &ServerGroups, now: Time, failed: bool) {
        let _ = self.balancer(groups, |balancer, attempts| balancer.release(attempts, seconds(now), failed));
        self.note_end(now);
    }

    /// No more of an answer is waited for, whatever has come of it.
    pub fn note_end(&mut self, now: Time) {
        if let Some(last) = self.tries.last_mut() {
            last.response.get_or_insert(now.since(last.began));
        }
    }

    /// It is over. What was chosen is released, and a connection that may carry more
    /// questions is kept.
    pub fn end(&mut self, turn: &mut AskTurn<'_>) {
        self.release(turn.groups, turn.now, false);
        let Some(link) = self.link.take() else { return };
        // A question of which something is left is the last.
        let link = match link {
            AskLink::Own(id) => id,
            AskLink::Shared(id) => return turn.kept.shared.release(id),
        };
        let sent = self.sending.is_done() && turn.io.unsent_upstream(link) == 0;
        let keeps = self.reading.keeps && self.reading.program().is_none_or(|program| program.may_be_kept());
        let complete = self.reading.complete;
        // Nobody is told a second time that its server has ended.
        if !(complete && keeps && sent && !self.reading.ended) {
            if complete && sent {
                turn.io.let_go(link, LINGER);
            } else if complete || sent || self.stage == AskStage::Connects {
                turn.io.let_go(link, Duration::ZERO);
            } else {
                // Its server sees by the framing that something is missing, and may be saying something.
                turn.io.let_go(link, PARTING);
            }
            return;
        }
        if !self.keep(turn, link) {
            turn.io.let_go(link, LINGER);
        }
    }

    /// It is over, and so is who asked: what was chosen is released. The connection is cut
    /// when others are ([`crate::KeptLinks::cut_all`]).
    pub fn abandon(&mut self, kept: &mut crate::KeptLinks, groups: &ServerGroups, now: Time) {
        if let Some(link) = self.link.take() {
            kept.hang_up(link);
        }
        let _ = self.balancer(groups, |balancer, attempts| balancer.release(attempts, seconds(now), false));
    }

    /// Whether the connection is kept for another question.
    #[inline(always)]
    fn keep(&self, turn: &mut AskTurn<'_>, link: UpstreamId) -> bool {
        let (Servers::Group(number), Some(peer)) = (&self.servers, self.last_peer) else { return false };
        if turn.groups.is_replaced.get() {
            return false;
        }
        let mut groups = turn.groups.list.borrow_mut();
        // One to a peer of a group that was has no place any more.
        let group = groups.get_mut(usize::from(*number)).filter(|group| group.balancer.is_current(&self.attempts));
        let Some(group) = group else { return false };
        let Some(idle) = group.idle.as_mut() else { return false };
        let Some(way) = turn.kept.way(self.seeks.as_deref()) else { return false };
        let mark = turn.kept.reserve();
        let conn = KeptLink { id: link, mark, way };
        let kept = KeptConnection { conn, requests: self.carried + 1, opened: self.opened };
        match idle.put(peer, kept, millis(turn.now)) {
            PutBack::Kept(id, gone) => {
                turn.kept.set(mark, *number, id);
                if self.reading.little == Some(AskLink::Own(link)) {
                    turn.io.receive_upstream(link, usize::MAX);
                }
                turn.io.set_upstream_mark(link, mark);
                turn.io.set_upstream_timer(link, Some(turn.now + group.kept_for));
                if let Some(gone) = gone {
                    turn.kept.close(turn.io, gone);
                }
                true
            }
            PutBack::Spent => {
                let _ = turn.kept.take(mark);
                false
            }
        }
    }
}
