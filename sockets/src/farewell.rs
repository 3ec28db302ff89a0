//! Connections that ended with an alert, whose peers may still send.
//!
//! A close while bytes are unread, or before more arrives, is a reset, and a peer that gets
//! one may lose what it has not read: the very record that says why (RFC 9112 section 9.6 on
//! the same of HTTP). So our FIN follows the alert, and what still comes is dropped unread
//! until the peer ends, or says nothing more, or takes too long. For the application such a
//! connection is over; what it costs is a descriptor, of which there are few at a time, and
//! few of one client.

use crate::table::Flags;
use app::{SourceRule, Sources};
use core::net::IpAddr;
use core::time::Duration;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use wire::Time;

/// A peer that has sent nothing for so long has read the alert, or never will: nginx's
/// `lingering_timeout`.
const QUIET: Duration = Duration::from_secs(5);

/// Who sends on for so long does not listen.
const LONGEST: Duration = Duration::from_secs(10);

/// The most of a worker, and the part of its connections that they are at most.
const MOST: usize = 1_024;
const PART: usize = 8;

/// The part of these that one client may have; what is beyond is closed at once.
const PART_OF_ONE: usize = 8;

/// They are looked at this often, and not with every event: nobody waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The same while something comes: a peer that writes before it reads is soon done.
const LOOK_SOON: Duration = Duration::from_millis(1);

/// Of one look: those that are read from, and after how many bytes of all the rest waits for
/// the next. Windows close meanwhile.
const READS: usize = 64;
const BYTES: usize = 256 * 1024;

/// Bytes dropped by one call, without a copy.
const DROPPED: usize = 64 * 1024;

/// A worker's connections of this kind.
#[derive(Debug, Default)]
pub(crate) struct Farewells {
    poll: Option<OwnedFd>,
    /// In the order in which they began, with the times until which each is there: without
    /// another word of its peer, and at the latest.
    open: BTreeMap<u64, (Farewell, Time, Time)>,
    next: u64,
    /// Clients with their share.
    clients: Sources,
    share: u32,
    looks_at: Time,
    /// What `recv` is given; nothing is copied there.
    scratch: Box<[u8]>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Farewell {
    pub(crate) fd: OwnedFd,
    /// What the connection had.
    pub(crate) flags: Flags,
    /// Who its peer is, if that is known.
    pub(crate) client: Option<IpAddr>,
}

/// One that is over.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) one: Farewell,
    /// Its peer had not ended.
    pub(crate) cut: bool,
}

/// What a read found.
enum Found {
    Bytes(usize),
    Nothing,
    End,
}

impl Farewells {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// When to look at them, if there are any.
    pub(crate) fn due(&self) -> Option<Time> {
        (!self.open.is_empty()).then_some(self.looks_at)
    }

    /// Ends a connection whose peer was told why in its last record: our FIN, and what still
    /// comes is dropped. Gives it back where that cannot be. `connections`: the limit on these.
    pub(crate) fn begin(&mut self, one: Farewell, now: Time, connections: usize) -> Result<(), Farewell> {
        let most = most(connections);
        if !self.admits(one.client, most) || shutdown(&one.fd, Shutdown::Write).is_err() || self.watch(&one.fd).is_err()
        {
            return Err(one);
        }
        if self.open.is_empty() {
            self.looks_at = now + LOOK_EVERY;
        }
        if let Some(client) = one.client {
            self.clients.opened(client);
        }
        self.open.insert(self.next, (one, now + QUIET, now + LONGEST));
        self.next += 1;
        Ok(())
    }

    /// The oldest, whose descriptor is wanted for another, where there are more than `room`
    /// or as many as there may be.
    pub(crate) fn give_way(&mut self, room: usize, connections: usize) -> Option<Farewell> {
        if self.len() <= room.min(most(connections)) {
            return None;
        }
        let (_, (one, ..)) = self.open.pop_first()?;
        self.forget(&one);
        Some(one)
    }

    /// Drops what came, and returns those that are over.
    #[cold]
    pub(crate) fn look(&mut self, now: Time) -> Vec<Over> {
        let mut over = Vec::new();
        if self.due().is_none_or(|due| now < due) {
            return over;
        }
        let dropped = self.drop_what_came(now, &mut over);
        self.looks_at = now + if dropped > 0 { LOOK_SOON } else { LOOK_EVERY };
        let late = self.open.extract_if(.., |_, (_, quiet, longest)| now >= *quiet.min(longest));
        over.extend(late.map(|(_, (one, ..))| Over { one, cut: true }));
        over.iter().for_each(|over| self.forget(&over.one));
        over
    }

    /// Returns how many bytes.
    fn drop_what_came(&mut self, now: Time, over: &mut Vec<Over>) -> usize {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; READS];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = self.poll.as_ref().map_or(0, |poll| {
            // It fails for what is no epoll instance alone.
            epoll::wait(poll, &mut events[..], Some(&at_once)).unwrap_or(0)
        });
        let mut dropped = 0;
        for number in events.iter().take(ready).map(|event| event.data.u64()) {
            let Some((one, quiet, _)) = self.open.get_mut(&number) else { continue };
            match read(&one.fd, &mut self.scratch) {
                Found::Bytes(bytes) => {
                    *quiet = now + QUIET;
                    dropped += bytes;
                }
                Found::Nothing => {}
                Found::End => over.extend(self.open.remove(&number).map(|(one, ..)| Over { one, cut: false })),
            }
            if dropped >= BYTES {
                break;
            }
        }
        dropped
    }

    /// Whether a client may have one more, of `most` in all.
    fn admits(&mut self, client: Option<IpAddr>, most: usize) -> bool {
        let share = (most / PART_OF_ONE).max(1) as u32;
        if self.share != share {
            // The limit on connections is another.
            self.share = share;
            self.clients = Sources::new(Some(SourceRule { limit: share, exempt: Vec::new() }));
            self.open.values().filter_map(|(one, ..)| one.client).for_each(|client| self.clients.opened(client));
        }
        client.is_none_or(|client| self.clients.admits(client))
    }

    /// Watches one from now on. It fails for want of memory or descriptors.
    fn watch(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        if self.scratch.is_empty() {
            self.scratch = vec![0; DROPPED].into();
        }
        let poll = match &self.poll {
            Some(poll) => poll,
            None => self.poll.insert(epoll::create(CreateFlags::CLOEXEC)?),
        };
        epoll::add(poll, fd, EventData::new_u64(self.next), EventFlags::IN | EventFlags::RDHUP)
    }

    fn forget(&mut self, one: &Farewell) {
        if let Some(client) = one.client {
            self.clients.closed(client);
        }
    }
}

/// The most that there may be beside so many connections.
fn most(connections: usize) -> usize {
    (connections / PART).clamp(1, MOST)
}

/// Drops what one has, up to a bound.
fn read(fd: impl AsFd, scratch: &mut [u8]) -> Found {
    // TCP drops without a copy then (tcp(7), MSG_TRUNC).
    match recv(fd, scratch, RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Found::End,
        Ok((_, n)) => Found::Bytes(n),
        Err(Errno::AGAIN | Errno::INTR) => Found::Nothing,
        Err(_) => Found::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn one(client: Option<[u8; 4]>) -> (Farewell, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Farewell { fd: ours.into(), flags: Flags::default(), client: client.map(IpAddr::from) }, theirs)
    }

    /// One that was refused at the beginning of time, and its peer.
    fn refused() -> (Farewells, UnixStream) {
        let mut farewells = Farewells::default();
        let (one, theirs) = one(None);
        farewells.begin(one, Time::ZERO, 64).expect("room for one");
        (farewells, theirs)
    }

    /// At this time: how many there are, and whether those that are over now were cut.
    fn after(farewells: &mut Farewells, millis: u64) -> (usize, Vec<bool>) {
        let over = farewells.look(Time::ZERO + Duration::from_millis(millis));
        (farewells.len(), over.iter().map(|over| over.cut).collect())
    }

    #[test]
    fn a_peer_that_says_nothing_is_waited_for_as_long_as_was_said() {
        let (mut farewells, _theirs) = refused();
        assert_eq!(after(&mut farewells, 4_999), (1, vec![]));
        assert_eq!(after(&mut farewells, 5_010), (0, vec![true]));
    }

    #[test]
    fn one_that_says_more_and_more_is_not_waited_for_without_end() {
        let (mut farewells, mut theirs) = refused();
        for at in [3_000, 6_000, 9_000, 9_990] {
            theirs.write_all(b"more").unwrap();
            assert_eq!(after(&mut farewells, at), (1, vec![]));
        }
        theirs.write_all(b"more").unwrap();
        assert_eq!(after(&mut farewells, 10_010), (0, vec![true]));
    }

    #[test]
    fn one_that_ends_is_over() {
        let (mut farewells, theirs) = refused();
        drop(theirs);
        assert_eq!(after(&mut farewells, 9), (1, vec![]), "not looked at yet");
        assert_eq!(after(&mut farewells, 10), (0, vec![false]));
        assert_eq!(farewells.due(), None);
    }

    /// Of 64 connections these are 8, of which a client may have one; of 1,024, 128 and 16.
    #[test]
    fn a_client_has_a_share_that_is_its_own_again_later() {
        for (connections, share) in [(64, 1), (1_024, 16)] {
            let mut farewells = Farewells::default();
            let mut peers = Vec::new();
            let mut begin = |farewells: &mut Farewells, client| {
                let (one, theirs) = one(Some(client));
                peers.push(theirs);
                farewells.begin(one, Time::ZERO, connections).is_ok()
            };
            for _ in 0..share {
                assert!(begin(&mut farewells, [192, 0, 2, 1]));
            }
            assert!(!begin(&mut farewells, [192, 0, 2, 1]), "{share} are its share");
            assert!(begin(&mut farewells, [192, 0, 2, 2]), "another's is not");
            assert_eq!(after(&mut farewells, 6_000).0, 0);
            assert!(begin(&mut farewells, [192, 0, 2, 1]));
        }
    }

    #[test]
    fn there_are_only_so_many_and_the_oldest_gives_way() {
        let (mut farewells, _first) = refused();
        let (second, _second) = one(None);
        farewells.begin(second, Time::ZERO, 64).expect("room for two");
        assert!(farewells.give_way(2, 64).is_none());
        assert!(farewells.give_way(1, 64).is_some(), "its descriptor is wanted");
        assert_eq!(farewells.open.keys().copied().collect::<Vec<_>>(), [1]);
        let (third, _third) = one(None);
        farewells.begin(third, Time::ZERO, 8).expect("room for one, at the cost of another");
        assert!(farewells.give_way(usize::MAX, 8).is_some());
        assert_eq!(farewells.open.keys().copied().collect::<Vec<_>>(), [2]);
    }
}
