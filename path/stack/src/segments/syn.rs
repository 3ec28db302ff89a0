//! The SYN queue: handshakes that peers began and have not completed. Small
//! records, apart from connections, so that a flood of SYNs costs little; when
//! it is full, cookies take over.

use crate::flow::Flow;
use crate::ip::NeighbourId;
use tcp::Agreed;

/// One half-open handshake (SYN-RECEIVED).
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfOpen {
    pub flow: Flow,
    pub hash: u64,
    pub agreed: Agreed,
    pub neighbour: NeighbourId,
    /// Window of the peer's SYN, not scaled.
    pub window: u16,
    /// SYN,ACKs sent again.
    pub retries: u8,
    /// When to send the next, in milliseconds.
    due: u32,
    prev: u32,
    next: u32,
    used: bool,
    /// Its SYN,ACK waits for a transmit slot.
    owed: bool,
}

const NIL: u32 = u32::MAX;
/// Back-off levels: 1 s, 2 s, 4 s … (RFC 6298). One list each, in the order of
/// due times, because all entries of a level wait equally long.
const LEVELS: usize = 8;

#[derive(Debug)]
pub(crate) struct SynQueue {
    entries: Vec<HalfOpen>,
    free: Vec<u32>,
    lists: [(u32, u32); LEVELS],
    limit: usize,
    retries: u8,
}

/// What a due entry needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DueSyn {
    /// Its SYN,ACK again.
    Resend(u32),
    /// Its retries are used up: it is to be removed.
    Expired(u32),
}

impl HalfOpen {
    /// Milliseconds since the SYN,ACK was sent, if it was sent once only
    /// (Karn's algorithm, RFC 6298 section 3).
    pub fn answered_after(&self, now_ms: u32) -> Option<u32> {
        let sent = self.due.wrapping_sub(delay(0));
        (self.retries == 0).then(|| now_ms.wrapping_sub(sent))
    }
}

impl SynQueue {
    /// Where the handshakes are.
    pub fn memory(&self) -> core::ops::Range<usize> {
        crate::memory::reserved(&self.entries)
    }

    pub fn new(limit: usize, retries: u8) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            lists: [(NIL, NIL); LEVELS],
            limit,
            retries: retries.min(LEVELS as u8 - 1),
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    #[cfg(test)]
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    #[inline]
    pub fn get(&self, index: u32) -> &HalfOpen {
        &self.entries[index as usize]
    }

    /// Adds a handshake; the caller has checked that there is room.
    pub fn insert(
        &mut self,
        flow: Flow,
        hash: u64,
        agreed: Agreed,
        neighbour: NeighbourId,
        window: u16,
        now_ms: u32,
    ) -> u32 {
        let due = now_ms.wrapping_add(delay(0));
        let entry = HalfOpen {
            flow,
            hash,
            agreed,
            neighbour,
            window,
            retries: 0,
            due,
            prev: NIL,
            next: NIL,
            used: true,
            owed: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.append(0, index);
        index
    }

    /// Notes that the entry's SYN,ACK waits for a transmit slot. Whether
    /// that is news.
    pub fn set_owed(&mut self, index: u32) -> bool {
        !core::mem::replace(&mut self.entries[index as usize].owed, true)
    }

    /// Whether it does; and that it no longer does.
    pub fn take_owed(&mut self, index: u32) -> bool {
        let entry = &mut self.entries[index as usize];
        core::mem::take(&mut entry.owed) && entry.used
    }

    pub fn remove(&mut self, index: u32) {
        if !self.entries[index as usize].used {
            return;
        }
        self.unlink(index);
        self.entries[index as usize].used = false;
        self.free.push(index);
    }

    /// The next entry that is due, moved on to its next wait.
    pub fn poll(&mut self, now_ms: u32) -> Option<DueSyn> {
        for level in 0..LEVELS {
            let head = self.lists[level].0;
            if head == NIL || (self.entries[head as usize].due.wrapping_sub(now_ms) as i32) > 0 {
                continue;
            }
            if level as u8 >= self.retries {
                return Some(DueSyn::Expired(head));
            }
            self.unlink(head);
            let entry = &mut self.entries[head as usize];
            entry.retries += 1;
            entry.due = now_ms.wrapping_add(delay(level as u8 + 1));
            self.append(level + 1, head);
            return Some(DueSyn::Resend(head));
        }
        None
    }

    /// Milliseconds until an entry is due.
    pub fn next(&self, now_ms: u32) -> Option<u32> {
        self.lists
            .iter()
            .filter(|list| list.0 != NIL)
            .map(|list| (self.entries[list.0 as usize].due.wrapping_sub(now_ms) as i32).max(0) as u32)
            .min()
    }

    fn append(&mut self, level: usize, index: u32) {
        let tail = self.lists[level].1;
        self.entries[index as usize].prev = tail;
        self.entries[index as usize].next = NIL;
        if tail == NIL {
            self.lists[level].0 = index;
        } else {
            self.entries[tail as usize].next = index;
        }
        self.lists[level].1 = index;
    }

    fn unlink(&mut self, index: u32) {
        let HalfOpen { prev, next, retries, .. } = self.entries[index as usize];
        let list = &mut self.lists[usize::from(retries)];
        if prev == NIL {
            list.0 = next;
        } else {
            self.entries[prev as usize].next = next;
        }
        if next == NIL {
            self.lists[usize::from(retries)].1 = prev;
        } else {
            self.entries[next as usize].prev = prev;
        }
    }
}

/// Wait after the SYN,ACK of this many retries, in milliseconds.
const fn delay(retries: u8) -> u32 {
    1_000 << retries
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::tcp::SeqNum;

    fn add(queue: &mut SynQueue, port: u16, now: u32) -> u32 {
        let flow = Flow::v4("10.0.0.1".parse().unwrap(), port, 0, 80);
        let agreed = Agreed::bare(SeqNum(1), SeqNum(2), 1460);
        queue.insert(flow, u64::from(port), agreed, NeighbourId(0), 1000, now)
    }

    /// RFC 6298 section 5.5: waits of 1, 2, 4 s, then the entry expires.
    #[test]
    fn backs_off_and_expires() {
        let mut queue = SynQueue::new(4, 2);
        let a = add(&mut queue, 1, 0);
        let b = add(&mut queue, 2, 500);
        assert_eq!(queue.next(0), Some(1_000));
        assert_eq!(queue.poll(999), None);
        assert_eq!(queue.poll(1_000), Some(DueSyn::Resend(a)));
        assert_eq!(queue.poll(1_000), None);
        assert_eq!(queue.poll(1_500), Some(DueSyn::Resend(b)));
        queue.remove(b);
        assert_eq!(queue.poll(3_000), Some(DueSyn::Resend(a)));
        assert_eq!(queue.poll(6_999), None);
        assert_eq!(queue.poll(7_000), Some(DueSyn::Expired(a)));
        queue.remove(a);
        queue.remove(a);
        assert_eq!((queue.len(), queue.next(0)), (0, None));
    }

    #[test]
    fn slots_are_used_again_and_bounded() {
        let mut queue = SynQueue::new(3, 5);
        let all: Vec<u32> = (0..3).map(|p| add(&mut queue, p, 0)).collect();
        assert!(queue.is_full());
        queue.remove(all[1]);
        assert_eq!(add(&mut queue, 9, 0), all[1]);
        assert_eq!(queue.get(all[1]).flow.remote_port, 9);
        assert_eq!(queue.entries.len(), 3);
    }
}
