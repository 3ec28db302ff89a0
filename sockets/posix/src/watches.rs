//! Sets of descriptors that are watched (epoll(7)).
//!
//! Each watch stands in a chain of those on its socket, so that who changes the
//! socket finds them, and while it may have something to tell in the ready list
//! of its set, so that nobody who waits looks at the others. What Linux does in
//! `ep_poll_callback`, `ep_insert`, `ep_modify` and `ep_send_events`
//! (fs/eventpoll.c) is done here by [`Watches::wake`], [`Watches::enqueue`] and
//! [`Watches::serve`].

use crate::errno::{Errno, Result};
use crate::slab::{NONE, Slab};

/// Bits that say how a watch is told, and not of what (Linux:
/// `EP_PRIVATE_BITS`).
const PRIVATE: u32 = (libc::EPOLLWAKEUP | libc::EPOLLONESHOT | libc::EPOLLET | libc::EPOLLEXCLUSIVE).cast_unsigned();
/// What is told whether it was asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
/// What may be asked for together with `EPOLLEXCLUSIVE` (Linux:
/// `EPOLLEXCLUSIVE_OK_BITS`).
const WITH_EXCLUSIVE: u32 = ALWAYS
    | (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLWAKEUP | libc::EPOLLET | libc::EPOLLEXCLUSIVE).cast_unsigned();

/// One descriptor of a set.
#[derive(Debug)]
pub(crate) struct Watch {
    set: u32,
    socket: u32,
    fd: i32,
    events: u32,
    data: u64,
    /// The next watch on the same socket.
    sibling: u32,
    /// Its neighbours in the ready list, if it is in it.
    previous: u32,
    next: u32,
    queued: bool,
}

/// A set: the ready list, and how often it is referred to.
#[derive(Debug)]
struct Set {
    head: u32,
    tail: u32,
    ready: u32,
    refs: u32,
}

/// All sets and watches.
#[derive(Debug)]
pub(crate) struct Watches {
    watches: Slab<Watch>,
    sets: Slab<Set>,
}

/// What a caller of `epoll_ctl` asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub fd: i32,
    pub events: u32,
    pub data: u64,
}

impl Interest {
    /// `EPOLLEXCLUSIVE` goes with few other bits, and is not changed.
    ///
    /// # Errors
    /// `EINVAL`.
    pub const fn check(self, op: i32) -> Result<()> {
        let exclusive = self.events & libc::EPOLLEXCLUSIVE.cast_unsigned() != 0;
        let wrong = match op {
            libc::EPOLL_CTL_ADD => self.events & !WITH_EXCLUSIVE != 0,
            libc::EPOLL_CTL_MOD => true,
            _ => false,
        };
        if exclusive && wrong { Err(Errno(libc::EINVAL)) } else { Ok(()) }
    }
}

impl Watches {
    /// None yet.
    pub const fn new() -> Self {
        Self { watches: Slab::new(), sets: Slab::new() }
    }

    /// A set, with one descriptor that refers to it.
    pub fn create(&mut self) -> u32 {
        self.sets.insert(Set { head: NONE, tail: NONE, ready: 0, refs: 1 })
    }

    /// A further descriptor refers to a set.
    pub fn share(&mut self, set: u32) {
        if let Some(set) = self.sets.get_mut(set) {
            set.refs += 1;
        }
    }

    /// One descriptor less refers to a set. With the last of them it is gone:
    /// then its watches are to be taken out of their sockets' chains, which
    /// `unchain` is told of (socket, watch).
    pub fn release(&mut self, set: u32) -> Vec<(u32, u32)> {
        let Some(found) = self.sets.get_mut(set) else { return Vec::new() };
        found.refs -= 1;
        if found.refs > 0 {
            return Vec::new();
        }
        self.sets.remove(set);
        self.watches.iter().filter(|(_, watch)| watch.set == set).map(|(at, watch)| (watch.socket, at)).collect()
    }

    /// What a set watches: sockets, and what was asked for.
    pub fn of_set(&self, set: u32) -> impl Iterator<Item = (u32, Interest)> {
        let watches = self.watches.iter().map(|(_, watch)| watch).filter(move |watch| watch.set == set);
        watches.map(|watch| (watch.socket, Interest { fd: watch.fd, events: watch.events, data: watch.data }))
    }

    /// The watch of a descriptor in a set, among those of its socket.
    pub fn find(&self, first: u32, set: u32, fd: i32) -> Option<u32> {
        let mut at = first;
        while let Some(watch) = self.watches.get(at) {
            if watch.set == set && watch.fd == fd {
                return Some(at);
            }
            at = watch.sibling;
        }
        None
    }

    /// Adds a watch to a set and to its socket's chain, which begins with
    /// `first`.
    ///
    /// # Errors
    /// `EEXIST`.
    pub fn add(&mut self, set: u32, socket: u32, first: &mut u32, interest: Interest) -> Result<u32> {
        let Interest { fd, events, data } = interest;
        let events = events | ALWAYS;
        if self.find(*first, set, fd).is_some() {
            return Err(Errno(libc::EEXIST));
        }
        // Those that are exclusive are woken last, in order, the others before them, in the
        // opposite order (Linux: `add_wait_queue` and `add_wait_queue_exclusive`).
        let exclusive = events & libc::EPOLLEXCLUSIVE.cast_unsigned() != 0;
        let sibling = if exclusive { NONE } else { *first };
        let watch = Watch { set, socket, fd, events, data, sibling, previous: NONE, next: NONE, queued: false };
        let at = self.watches.insert(watch);
        match self.last_of(*first).filter(|_| exclusive).and_then(|last| self.watches.get_mut(last)) {
            Some(last) => last.sibling = at,
            None => *first = at,
        }
        Ok(at)
    }

    /// The last watch of a chain.
    fn last_of(&self, first: u32) -> Option<u32> {
        let mut last = None;
        let mut at = first;
        while let Some(watch) = self.watches.get(at) {
            last = Some(at);
            at = watch.sibling;
        }
        last
    }

    /// Changes what a watch is for.
    ///
    /// # Errors
    /// `EINVAL` for one that is exclusive.
    pub fn modify(&mut self, at: u32, interest: Interest) -> Result<()> {
        let Some(watch) = self.watches.get_mut(at) else { return Err(Errno(libc::ENOENT)) };
        if watch.events & libc::EPOLLEXCLUSIVE.cast_unsigned() != 0 {
            return Err(Errno(libc::EINVAL));
        }
        watch.events = interest.events | ALWAYS;
        watch.data = interest.data;
        Ok(())
    }

    /// Takes a watch out of its set and of its socket's chain.
    pub fn remove(&mut self, at: u32, first: &mut u32) {
        self.dequeue(at);
        let Some(watch) = self.watches.remove(at) else { return };
        if *first == at {
            *first = watch.sibling;
            return;
        }
        let mut before = *first;
        while let Some(other) = self.watches.get_mut(before) {
            if other.sibling == at {
                other.sibling = watch.sibling;
                return;
            }
            before = other.sibling;
        }
    }

    /// What a watch asks for.
    pub fn events(&self, at: u32) -> u32 {
        self.watches.get(at).map_or(0, |watch| watch.events & !PRIVATE)
    }

    /// Something happened to a socket: those who watch it for one of these
    /// events have something to look at; 0 is all of them.
    #[inline]
    pub fn wake(&mut self, first: u32, events: u32) {
        let mut at = first;
        while let Some(watch) = self.watches.get(at) {
            let asked = watch.events & !PRIVATE;
            let sibling = watch.sibling;
            if asked != 0 && !watch.queued && (events == 0 || events & asked != 0) {
                self.enqueue(at);
            }
            at = sibling;
        }
    }

    /// Puts a watch at the end of its set's ready list, if it is not in it.
    #[inline]
    pub fn enqueue(&mut self, at: u32) {
        let Some(watch) = self.watches.get_mut(at) else { return };
        let Some(set) = self.sets.get_mut(watch.set) else { return };
        if watch.queued {
            return;
        }
        watch.queued = true;
        watch.previous = set.tail;
        watch.next = NONE;
        let tail = core::mem::replace(&mut set.tail, at);
        set.ready += 1;
        if tail == NONE {
            set.head = at;
        } else if let Some(last) = self.watches.get_mut(tail) {
            last.next = at;
        }
    }

    /// Takes a watch out of its set's ready list, if it is in it.
    pub fn dequeue(&mut self, at: u32) {
        let Some(watch) = self.watches.get_mut(at) else { return };
        if !core::mem::take(&mut watch.queued) {
            return;
        }
        let (set, previous, next) = (watch.set, watch.previous, watch.next);
        if let Some(before) = self.watches.get_mut(previous) {
            before.next = next;
        }
        if let Some(after) = self.watches.get_mut(next) {
            after.previous = previous;
        }
        if let Some(set) = self.sets.get_mut(set) {
            set.ready -= 1;
            if previous == NONE {
                set.head = next;
            }
            if next == NONE {
                set.tail = previous;
            }
        }
    }

    /// The first of a set's ready list, which it stays: its number, its socket and what it asks for.
    pub fn first(&self, set: u32) -> Option<(u32, u32, u32)> {
        let at = self.sets.get(set)?.head;
        let watch = self.watches.get(at)?;
        Some((at, watch.socket, watch.events & !PRIVATE))
    }

    /// Looks at those that stand in a set's ready list now, the first first, until `most` of them had
    /// something to tell; how many those were. `look` is given a socket and what is asked of it, and says
    /// what there is of that; `each` is told this, and by what the watch is known.
    ///
    /// One that is told of a level stands behind the others again, and is looked at in the next call; one
    /// that is told once asks for nothing any more; the others leave the list.
    #[inline(always)]
    pub fn serve(
        &mut self,
        set: u32,
        most: usize,
        mut look: impl FnMut(u32, u32) -> u32,
        mut each: impl FnMut(u32, u64),
    ) -> usize {
        const LEAVES: u32 = (libc::EPOLLET | libc::EPOLLONESHOT).cast_unsigned();
        let Self { watches, sets } = self;
        let Some(set) = sets.get_mut(set) else { return 0 };
        let mut count = 0;
        for _ in 0..set.ready {
            let at = set.head;
            if count == most {
                break;
            }
            let Some(watch) = watches.get_mut(at) else { break };
            let asked = watch.events & !PRIVATE;
            let events = if asked == 0 { 0 } else { look(watch.socket, asked) };
            let stays = events != 0 && watch.events & LEAVES == 0;
            if events != 0 {
                each(events, watch.data);
                count += 1;
                if watch.events & libc::EPOLLONESHOT.cast_unsigned() != 0 {
                    watch.events &= PRIVATE;
                }
            }
            if stays && set.tail == at {
                // It is alone.
                continue;
            }
            set.head = core::mem::replace(&mut watch.next, NONE);
            watch.queued = stays;
            if stays {
                let last = core::mem::replace(&mut set.tail, at);
                watch.previous = last;
                if let Some(before) = watches.get_mut(last) {
                    before.next = at;
                }
            } else {
                set.ready -= 1;
            }
            match watches.get_mut(set.head) {
                Some(first) => first.previous = NONE,
                None => set.tail = NONE,
            }
        }
        count
    }
}
