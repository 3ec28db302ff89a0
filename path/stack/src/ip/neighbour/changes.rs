//! How a neighbour's state changes: by time, and by what is heard of it.

use super::state::{
    CLAIM_PAUSE, DELAY_FIRST_PROBE, DISPUTE_SOLICIT, DISPUTE_WAIT, EVICTION_STEPS, FRAME_PAUSE, Heard,
    MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT, PUT_OFF, PUT_OFF_LONGEST, PUT_OFF_STEP, REACHABLE, RETRANSMIT,
    STALE_CHECK, State, TIMERS_PER_POLL,
};
use super::{Entry, Hot, NeighbourId, NeighbourTable, Output};
use core::cell::Cell;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;
use wire::{Mac, Time};

impl NeighbourTable {
    #[cold]
    pub(super) fn poll_due(&mut self, now: Time) -> Option<Output> {
        for _ in 0..TIMERS_PER_POLL {
            // What was waited for goes first: a timer may have ended the wait.
            if let Some(frame) = self.poll_resolved() {
                return Some(Output::Frame(frame));
            }
            let &(due, id) = self.timers.first()?;
            if due > now {
                return None;
            }
            let output = self.on_timer(NeighbourId(id), now);
            if output.is_some() {
                return output;
            }
        }
        None
    }

    /// The next frame whose neighbour is known now.
    pub(super) fn poll_resolved(&mut self) -> Option<Box<[u8]>> {
        while let Some(&id) = self.resolved.front() {
            let at = usize::from(id);
            if self.entries[at].state.is_known()
                && let Some(mut frame) = self.entries[at].held.pop_front()
            {
                self.held_bytes -= frame.len();
                frame[..6].copy_from_slice(&self.hot[at].mac.0);
                return Some(frame);
            }
            self.resolved.pop_front();
        }
        None
    }

    pub(super) fn on_timer(&mut self, id: NeighbourId, now: Time) -> Option<Output> {
        let at = usize::from(id.0);
        let Entry { ip, state, since, .. } = self.entries[at];
        let Hot { confirmed, mac, ref used, .. } = self.hot[at];
        let used = used.get();
        let looked_into = state.is_known() && state != State::Reachable || matches!(state, State::Disputed { .. });
        if looked_into && confirmed > since {
            self.settle(id, now);
            self.enter(id, State::Reachable, now);
            return None;
        }
        match state {
            State::Reachable if confirmed + REACHABLE > now => self.set_timer(id, confirmed + REACHABLE),
            State::Reachable => self.enter(id, State::Stale, now),
            State::Stale if used => self.enter(id, State::Delay, now),
            // Nobody can use it who has not asked for it anew.
            State::Stale if self.entries[at].pins == 0 => self.set_timer(id, Time::MAX),
            State::Stale => self.set_timer(id, now + STALE_CHECK),
            State::Delay => self.enter(id, State::Probe { sent: 0 }, now),
            State::Disputed { sent: DISPUTE_SOLICIT.. } => self.give_in(id, now),
            State::Disputed { sent } if self.may_solicit(id, DISPUTE_WAIT, now) => {
                self.entries[at].state = State::Disputed { sent: sent + 1 };
                return Some(Output::Solicit { target: ip, to: Some(mac) });
            }
            State::Probe { sent: MAX_UNICAST_SOLICIT.. } => {
                // It is not where it was; perhaps it moved.
                self.enter(id, State::Incomplete { sent: 0 }, now);
            }
            State::Probe { sent } if self.may_solicit(id, RETRANSMIT, now) => {
                self.entries[at].state = State::Probe { sent: sent + 1 };
                return Some(Output::Solicit { target: ip, to: Some(mac) });
            }
            State::Incomplete { sent: MAX_MULTICAST_SOLICIT.. } => {
                let held = self.take_held(at);
                self.enter(id, State::Failed, now);
                return Some(Output::Failed { id, ip, held });
            }
            State::Incomplete { sent } if self.may_solicit(id, RETRANSMIT, now) => {
                self.entries[at].state = State::Incomplete { sent: sent + 1 };
                return Some(Output::Solicit { target: ip, to: None });
            }
            State::Probe { .. } | State::Incomplete { .. } | State::Disputed { .. } => {}
            State::Failed => self.set_timer(id, Time::MAX),
        }
        None
    }

    /// Whether a solicitation may be sent now; sets the timer for the next,
    /// after `wait`.
    pub(super) fn may_solicit(&mut self, id: NeighbourId, wait: Duration, now: Time) -> bool {
        let may = self.solicitations.take(now);
        self.counters.solicited += u64::from(may);
        self.counters.put_off += u64::from(!may);
        if may {
            self.set_timer(id, now + wait);
        } else {
            // One after the other, as tokens come: thousands that all tried
            // again soon would cost more than the solicitations.
            let longest = now + PUT_OFF_LONGEST;
            self.put_off_until = (self.put_off_until.max(now + PUT_OFF) + PUT_OFF_STEP).min(longest);
            self.set_timer(id, self.put_off_until);
        }
        may
    }

    /// Changes the state, and what goes with it.
    pub(super) fn enter(&mut self, id: NeighbourId, state: State, now: Time) {
        let at = usize::from(id.0);
        let entry = &mut self.entries[at];
        self.incomplete -= usize::from(matches!(entry.state, State::Incomplete { .. }));
        self.incomplete += usize::from(matches!(state, State::Incomplete { .. }));
        entry.state = state;
        entry.since = now;
        let waits = !entry.held.is_empty();
        let hot = &mut self.hot[at];
        hot.known = state.is_known();
        if hot.known && waits {
            self.resolved.push_back(id.0);
        }
        let due = match state {
            State::Reachable => {
                hot.confirmed = hot.confirmed.max(now);
                entry.proven = true;
                now + REACHABLE
            }
            State::Stale if entry.off_link => Time::MAX,
            State::Stale => {
                hot.used.set(false);
                now + STALE_CHECK
            }
            State::Delay => now + DELAY_FIRST_PROBE,
            State::Probe { .. } | State::Incomplete { .. } | State::Disputed { .. } => now,
            State::Failed => {
                (entry.proven, hot.confirmed) = (false, Time::ZERO);
                self.counters.failed += 1;
                Time::MAX
            }
        };
        self.set_timer(id, due);
    }

    /// Moves the entry's timer; [`Time::MAX`] stops it.
    pub(super) fn set_timer(&mut self, id: NeighbourId, due: Time) {
        let entry = &mut self.entries[usize::from(id.0)];
        if entry.due != Time::MAX {
            self.timers.remove(&(entry.due, id.0));
        }
        entry.due = due;
        if due != Time::MAX {
            self.timers.insert((due, id.0));
        }
    }

    /// Whether an upper layer has lately had proof.
    pub(super) fn works(&self, at: usize, now: Time) -> bool {
        let confirmed = self.hot[at].confirmed;
        confirmed > Time::ZERO && now < confirmed + REACHABLE
    }

    /// Whether an answer is proof that the path works both ways.
    pub(super) fn awaits(&self, id: NeighbourId) -> bool {
        let state = self.entries[usize::from(id.0)].state;
        matches!(state, State::Incomplete { .. } | State::Delay | State::Probe { .. } | State::Disputed { .. })
    }

    /// The neighbour's hardware address was heard of.
    pub(super) fn hear(&mut self, id: NeighbourId, mac: Mac, heard: Heard, now: Time) {
        let at = usize::from(id.0);
        let Some(&Entry { state, proven, off_link, .. }) = self.entries.get(at) else { return };
        if off_link {
            // Its router's word is meant, and a router does not speak ARP for it.
            return;
        }
        let disputed = matches!(state, State::Disputed { .. });
        let proven = proven || self.hot[at].confirmed > Time::ZERO;
        if !state.is_known() && !disputed {
            // One that once answered is asked for: it answers, or whoever has
            // the address now. The source of a frame is no answer.
            if heard != Heard::Frame || !proven {
                self.replace(id, mac);
                self.enter(id, if heard == Heard::Answer { State::Reachable } else { State::Stale }, now);
            }
        } else if mac == self.hot[at].mac {
            if heard == Heard::Answer {
                self.settle(id, now);
                self.enter(id, State::Reachable, now);
            }
        } else if heard != Heard::Frame && !proven {
            self.counters.changed += 1;
            self.replace(id, mac);
            // It may be the one that was asked first, and answered late.
            self.enter(id, if heard == Heard::Answer { State::Reachable } else { State::Stale }, now);
        } else {
            // Whoever answers for another's address answers no question to
            // that one.
            self.dispute(id, mac, heard, now);
        }
    }

    /// Another hardware address is claimed than the one that is known.
    pub(super) fn dispute(&mut self, id: NeighbourId, mac: Mac, heard: Heard, now: Time) {
        let entry = &mut self.entries[usize::from(id.0)];
        let rival = (heard != Heard::Frame).then_some(mac);
        if matches!(entry.state, State::Disputed { .. }) {
            entry.rival = rival.or(entry.rival);
            return;
        }
        let pause = if heard == Heard::Frame { FRAME_PAUSE } else { CLAIM_PAUSE };
        if entry.settled > Time::ZERO && now < entry.settled + pause {
            return;
        }
        entry.rival = rival;
        self.counters.disputed += 1;
        self.enter(id, State::Disputed { sent: 0 }, now);
    }

    /// The known address has answered, or an upper layer says that it works.
    pub(super) fn settle(&mut self, id: NeighbourId, now: Time) {
        let entry = &mut self.entries[usize::from(id.0)];
        if matches!(entry.state, State::Disputed { .. }) {
            (entry.rival, entry.settled) = (None, now);
        }
    }

    /// The known address did not answer: the claimant has it, and is to prove
    /// it at once; or, where nobody claimed it, everybody is asked.
    pub(super) fn give_in(&mut self, id: NeighbourId, now: Time) {
        match self.entries[usize::from(id.0)].rival.take() {
            Some(mac) => {
                self.counters.changed += 1;
                self.replace(id, mac);
                self.enter(id, State::Probe { sent: 0 }, now);
            }
            None => self.enter(id, State::Incomplete { sent: 0 }, now),
        }
    }

    /// The hardware address is this from now on; another one is yet to be
    /// proven.
    pub(super) fn replace(&mut self, id: NeighbourId, mac: Mac) {
        let at = usize::from(id.0);
        let (Some(entry), Some(hot)) = (self.entries.get_mut(at), self.hot.get_mut(at)) else { return };
        if hot.mac != mac {
            (hot.mac, hot.confirmed, entry.proven) = (mac, Time::ZERO, false);
        }
    }

    /// The entry of `ip`, if there is one.
    #[inline]
    pub(super) fn find(&mut self, ip: IpAddr) -> Option<NeighbourId> {
        if self.entries.get(usize::from(self.last.0)).is_some_and(|entry| entry.ip == ip) {
            return Some(self.last);
        }
        let id = *self.index.get(&ip)?;
        self.last = id;
        Some(id)
    }

    /// Asks anew for a neighbour that did not answer.
    #[inline]
    pub(super) fn retry(&mut self, id: NeighbourId) {
        let at = usize::from(id.0);
        if self.entries.get(at).is_some_and(|entry| entry.state == State::Failed) {
            // The time does not matter: the next poll finds it due.
            self.enter(id, State::Incomplete { sent: 0 }, Time::ZERO);
        }
    }

    /// Somebody will use the entry: its use is looked for again.
    #[inline]
    pub(super) fn watch(&mut self, id: NeighbourId, now: Time) {
        let entry = &self.entries[usize::from(id.0)];
        if entry.state == State::Stale && entry.due == Time::MAX {
            self.set_timer(id, now + STALE_CHECK);
        }
    }

    /// A new entry, not asked for yet.
    pub(super) fn create(&mut self, ip: IpAddr, now: Time) -> NeighbourId {
        let entry = Entry {
            ip,
            state: State::Failed,
            since: now,
            due: Time::MAX,
            pins: 0,
            referenced: true,
            proven: false,
            off_link: false,
            rival: None,
            settled: Time::ZERO,
            held: VecDeque::new(),
        };
        let hot = Hot { confirmed: Time::ZERO, mac: Mac::ZERO, known: false, used: Cell::new(false) };
        let at = self.entries.len();
        let id = if at < self.limit {
            self.entries.push(entry);
            self.hot.push(hot);
            NeighbourId(at as u16)
        } else {
            let Some(id) = self.evict() else {
                self.counters.table_full += 1;
                return NeighbourId::NONE;
            };
            self.entries[usize::from(id.0)] = entry;
            self.hot[usize::from(id.0)] = hot;
            id
        };
        self.counters.created += 1;
        self.index.insert(ip, id);
        id
    }

    /// Makes room: an entry gives way that nobody pinned or lately asked for
    /// or, if there is none, one without proof that it works. Those being
    /// resolved stay, because their number has a limit of its own.
    pub(super) fn evict(&mut self) -> Option<NeighbourId> {
        let mut unproven = None;
        let mut found = None;
        for _ in 0..EVICTION_STEPS.min(2 * self.entries.len()) {
            let at = self.hand;
            self.hand = (at + 1) % self.entries.len();
            let entry = &mut self.entries[at];
            if entry.pins > 0 || matches!(entry.state, State::Incomplete { .. }) {
                continue;
            }
            let recent = core::mem::take(&mut entry.referenced) || self.hot[at].used.get();
            if !recent || entry.state == State::Failed {
                found = Some(at);
                break;
            }
            if entry.state != State::Reachable {
                unproven = unproven.or(Some(at));
            }
        }
        let at = found.or(unproven)?;
        let id = NeighbourId(at as u16);
        self.set_timer(id, Time::MAX);
        self.take_held(at);
        self.index.remove(&self.entries[at].ip);
        self.counters.evicted += 1;
        Some(id)
    }

    /// The frames that waited in vain.
    pub(super) fn take_held(&mut self, at: usize) -> VecDeque<Box<[u8]>> {
        let held = core::mem::take(&mut self.entries[at].held);
        self.held_bytes -= held.iter().map(|frame| frame.len()).sum::<usize>();
        self.counters.held_lost += held.len() as u64;
        held
    }
}
