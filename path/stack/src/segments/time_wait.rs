//! TIME-WAIT: a connection that is over, kept as a small record so that late
//! segments of it are answered and not taken for a new one's
//! (RFC 9293 section 3.6.1).

use crate::flow::Flow;
use wire::tcp::SeqNum;

/// 2 MSL: 60 s, as in Linux (`TCP_TIMEWAIT_LEN` in include/net/tcp.h).
pub const TIME_WAIT_MS: u32 = 60_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub flow: Flow,
    pub hash: u64,
    /// SND.NXT, for the acknowledgement of a repeated FIN.
    pub snd_nxt: SeqNum,
    pub rcv_nxt: SeqNum,
    /// TS.Recent, if timestamps were agreed on.
    pub ts_recent: Option<u32>,
    expires: u32,
    /// When a segment that is not its FIN was last answered; 0 is never.
    answered: u32,
    used: bool,
    /// Its acknowledgement waits for a transmit slot.
    owed: bool,
}

/// A ring in the order of expiry, since all wait equally long. At its limit
/// the oldest record gives way.
#[derive(Debug)]
pub(crate) struct TimeWait {
    ring: Vec<Waiting>,
    limit: usize,
    /// Position of the oldest record, and how many follow from there, removed
    /// ones included.
    oldest: usize,
    span: usize,
    /// Records in use.
    len: usize,
}

impl TimeWait {
    pub const fn new(limit: usize) -> Self {
        Self { ring: Vec::new(), limit, oldest: 0, span: 0, len: 0 }
    }

    /// Where the records are.
    pub fn memory(&self) -> core::ops::Range<usize> {
        crate::memory::reserved(&self.ring)
    }

    /// Records in use.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Milliseconds until the oldest record's time is over.
    pub fn next(&self, now_ms: u32) -> Option<u32> {
        // The oldest is in use: removed ones are skipped on removal.
        (self.span > 0).then(|| (self.ring[self.oldest].expires.wrapping_sub(now_ms) as i32).max(0) as u32)
    }

    #[inline]
    pub fn get(&self, index: u32) -> &Waiting {
        &self.ring[index as usize]
    }

    /// Notes that the record's acknowledgement waits for a transmit slot. Whether
    /// that is news.
    pub fn set_owed(&mut self, index: u32) -> bool {
        !core::mem::replace(&mut self.ring[index as usize].owed, true)
    }

    /// Whether it does; and that it no longer does.
    pub fn take_owed(&mut self, index: u32) -> bool {
        let record = &mut self.ring[index as usize];
        core::mem::take(&mut record.owed) && record.used
    }

    /// Notes that a segment is answered, unless one was less than `interval`
    /// milliseconds ago. Whether it may be.
    pub fn may_answer(&mut self, index: u32, interval: u32, now_ms: u32) -> bool {
        let record = &mut self.ring[index as usize];
        let may = record.answered == 0 || now_ms.wrapping_sub(record.answered) >= interval;
        if may {
            record.answered = now_ms.max(1);
        }
        may
    }

    /// The record that must give way before another is inserted.
    pub fn overdue(&mut self) -> Option<u32> {
        self.skip_removed();
        (self.span >= self.limit && self.span > 0).then_some(self.oldest as u32)
    }

    /// The oldest record, if its time is over.
    pub fn expired(&mut self, now_ms: u32) -> Option<u32> {
        self.skip_removed();
        if self.span == 0 || (self.ring[self.oldest].expires.wrapping_sub(now_ms) as i32) > 0 {
            return None;
        }
        Some(self.oldest as u32)
    }

    /// Adds a record; the caller has made room. `None` if there is no room by
    /// configuration.
    pub fn insert(
        &mut self,
        flow: Flow,
        hash: u64,
        snd_nxt: SeqNum,
        rcv_nxt: SeqNum,
        ts_recent: Option<u32>,
        now_ms: u32,
    ) -> Option<u32> {
        if self.span >= self.limit {
            return None;
        }
        let expires = now_ms.wrapping_add(TIME_WAIT_MS);
        let record = Waiting { flow, hash, snd_nxt, rcv_nxt, ts_recent, expires, answered: 0, used: true, owed: false };
        let at = self.after(self.oldest, self.span);
        if at < self.ring.len() {
            self.ring[at] = record;
        } else {
            self.ring.push(record);
        }
        self.span += 1;
        self.len += 1;
        Some(at as u32)
    }

    /// The wait begins anew: the record's new place, if there is one to move
    /// to and nothing is owed at the old one.
    pub fn restart(&mut self, index: u32, now_ms: u32) -> Option<u32> {
        let record = self.ring[index as usize];
        if record.owed || self.span >= self.limit {
            return None;
        }
        let new = self.insert(record.flow, record.hash, record.snd_nxt, record.rcv_nxt, record.ts_recent, now_ms)?;
        self.remove(index);
        Some(new)
    }

    pub fn remove(&mut self, index: u32) {
        let record = &mut self.ring[index as usize];
        self.len -= usize::from(record.used);
        record.used = false;
        self.skip_removed();
    }

    /// The position `n` after `at`; `n` is at most once around.
    #[inline]
    const fn after(&self, at: usize, n: usize) -> usize {
        let to = at + n;
        if to >= self.limit { to - self.limit } else { to }
    }

    #[inline]
    fn skip_removed(&mut self) {
        while self.span > 0 && !self.ring[self.oldest].used {
            self.oldest = self.after(self.oldest, 1);
            self.span -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(waits: &mut TimeWait, port: u16, now: u32) -> Option<u32> {
        let flow = Flow::v4("10.0.0.1".parse().unwrap(), port, 0, 80);
        waits.insert(flow, 0, SeqNum(1), SeqNum(2), None, now)
    }

    #[test]
    fn expires_in_order_and_gives_way() {
        let mut waits = TimeWait::new(3);
        assert_eq!((waits.len(), waits.next(0)), (0, None));
        let ids: Vec<u32> = (0..3).map(|i| add(&mut waits, i, u32::from(i) * 10).unwrap()).collect();
        assert_eq!((waits.len(), waits.next(40)), (3, Some(TIME_WAIT_MS - 40)));
        assert_eq!(add(&mut waits, 9, 40), None);
        assert_eq!(waits.overdue(), Some(ids[0]));
        waits.remove(ids[1]);
        waits.remove(ids[1]);
        assert_eq!(waits.len(), 2);
        assert_eq!(waits.expired(TIME_WAIT_MS - 1), None);
        assert_eq!(waits.expired(TIME_WAIT_MS), Some(ids[0]));
        waits.remove(ids[0]);
        assert_eq!(waits.overdue(), None);
        let new = add(&mut waits, 7, 50).unwrap();
        assert_eq!(waits.get(new).flow.remote_port, 7);
        assert_eq!(waits.expired(TIME_WAIT_MS + 20), Some(ids[2]));
        waits.remove(ids[2]);
        assert_eq!(waits.expired(TIME_WAIT_MS + 49), None);
        assert_eq!(waits.expired(TIME_WAIT_MS + 50), Some(new));
        waits.remove(new);
        assert_eq!((waits.len(), waits.next(0)), (0, None));
    }

    /// RFC 9293 section 3.10.7.4: a FIN that comes again restarts the wait.
    #[test]
    fn a_wait_begins_anew() {
        let mut waits = TimeWait::new(3);
        let first = add(&mut waits, 1, 0).unwrap();
        let second = add(&mut waits, 2, 10).unwrap();
        let moved = waits.restart(first, 20).unwrap();
        assert_eq!((waits.len(), waits.get(moved).flow.remote_port), (2, 1));
        assert_eq!(waits.expired(TIME_WAIT_MS + 10), Some(second));
        waits.remove(second);
        assert_eq!(waits.expired(TIME_WAIT_MS + 19), None);
        assert_eq!(waits.expired(TIME_WAIT_MS + 20), Some(moved));
        let mut full = TimeWait::new(1);
        let only = add(&mut full, 1, 0).unwrap();
        assert_eq!((full.restart(only, 5), full.len()), (None, 1));
    }
}
