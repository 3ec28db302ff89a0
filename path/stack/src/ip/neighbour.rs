//! Neighbours: which hardware address an on-link IP address has, by ARP
//! (RFC 826) and neighbour discovery (RFC 4861) alike.
//!
//! An entry keeps its [`NeighbourId`] for as long as it lives, so that a
//! connection looks its next hop up once. [`NeighbourTable::mac`] is the one
//! call on the packet path. Whoever keeps an id beyond the turn pins it
//! ([`NeighbourTable::pin`]): an entry that is not pinned may give way to
//! another address when the table is full.
//!
//! What is to be sent comes out of [`NeighbourTable::poll`], as values: the
//! table knows neither our own addresses nor how to build a packet.

mod changes;
mod state;

use crate::limit::RateLimit;
use core::cell::Cell;
use core::hint::cold_path;
use core::net::IpAddr;
use state::{Heard, SOLICITATIONS_PER_SECOND, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::arp::{ArpPacket, Operation};
use wire::icmpv6::NeighborAdvertisement;
use wire::{Mac, Time};

/// Neighbours; beyond, one that is neither pinned nor of proven use gives way,
/// and if there is none, the new address is not resolved (counted). About 150
/// bytes each.
pub(crate) const MAX_NEIGHBOURS: usize = 16_384;

/// Neighbours being resolved at a time, so that a scan, or a flood from
/// addresses that nobody has, does not displace those that answer.
pub(crate) const MAX_INCOMPLETE: usize = 1_024;

/// Frames that wait for one neighbour. The first ones are kept, because they
/// open connections; what comes later is sent again by TCP. (RFC 1122 section
/// 2.3.2.2 asks for at least one, RFC 4861 section 7.2.2 for a few.)
pub(crate) const MAX_HELD_FRAMES: usize = 512;

/// Bytes of all frames that wait for neighbours.
pub(crate) const MAX_HELD_BYTES: usize = 1 << 20;

// An id is an index below the one that means nobody.
const _: () = assert!(MAX_NEIGHBOURS < u16::MAX as usize);
const _: () = assert!(MAX_INCOMPLETE < MAX_NEIGHBOURS);

/// A neighbour, by its place in the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NeighbourId(pub u16);

impl NeighbourId {
    /// Nobody: the table was full. Never has a hardware address; resolve
    /// again later.
    pub const NONE: Self = Self(u16::MAX);
}

/// What the table wants sent, or has to tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Output {
    /// Ask who has `target`: by an ARP request or a neighbour solicitation,
    /// to everybody, or to `to` if the question is whether it is still there.
    Solicit { target: IpAddr, to: Option<Mac> },
    /// A frame that was held, with the destination filled in.
    Frame(Box<[u8]>),
    /// Nobody answers for `ip`: what becomes of the frames that waited for it
    /// is the caller's matter. It is asked for again at the next use.
    Failed { id: NeighbourId, ip: IpAddr, held: VecDeque<Box<[u8]>> },
}

app::counters! {
    /// What the table counts.
    pub(crate) NeighbourCounters {
        /// Entries made.
        created,
        /// Entries that gave way to another address.
        evicted,
        /// Addresses not resolved because the table was full.
        table_full,
        /// Solicitations sent.
        solicited,
        /// Solicitations put off because of their limit.
        put_off,
        /// Addresses that nobody answered for.
        failed,
        /// Hardware addresses that changed.
        changed,
        /// Times that another hardware address was claimed for one that had
        /// answered: it is asked first.
        disputed,
        /// Frames held for a neighbour.
        held,
        /// Frames dropped because too many were held.
        held_full,
        /// Held frames dropped because nobody answered.
        held_lost,
    }
}

/// The neighbours of one link.
#[derive(Debug)]
pub(crate) struct NeighbourTable {
    /// What the packet path reads, apart from the rest.
    hot: Vec<Hot>,
    entries: Vec<Entry>,
    index: BTreeMap<IpAddr, NeighbourId>,
    /// The entry found last: handshakes come in rows from one address, or
    /// through one gateway.
    last: NeighbourId,
    /// Each entry's deadline, once.
    timers: BTreeSet<(Time, u16)>,
    /// Entries whose held frames can go.
    resolved: VecDeque<u16>,
    incomplete: usize,
    held_bytes: usize,
    /// Where the search for an entry to give way goes on.
    hand: usize,
    limit: usize,
    solicitations: RateLimit,
    /// When the solicitation that was put off last is tried again.
    put_off_until: Time,
    counters: NeighbourCounters,
}

/// 16 bytes: four entries to a cache line.
#[derive(Debug)]
struct Hot {
    /// When an upper layer last had proof that packets arrive.
    confirmed: Time,
    mac: Mac,
    known: bool,
    /// Asked for since the entry became stale.
    used: Cell<bool>,
}

const _: () = assert!(size_of::<Hot>() == 16);

#[derive(Debug)]
struct Entry {
    ip: IpAddr,
    state: State,
    /// When the state was entered.
    since: Time,
    /// Its place in `timers`; [`Time::MAX`] if it has none.
    due: Time,
    pins: u32,
    /// Asked for since the hand came by.
    referenced: bool,
    /// It once answered under the hardware address that is known.
    proven: bool,
    /// Off the link: where its frames come from is all that is known of it,
    /// and it is never asked for.
    off_link: bool,
    /// Who claims to be it.
    rival: Option<Mac>,
    /// When the last dispute was settled.
    settled: Time,
    held: VecDeque<Box<[u8]>>,
}

impl NeighbourTable {
    /// Where the addresses are.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        each(crate::memory::reserved(&self.hot));
        each(crate::memory::reserved(&self.entries));
    }

    pub fn new(now: Time) -> Self {
        Self::with_limit(MAX_NEIGHBOURS, now)
    }

    /// At most `limit` entries, and no more than [`MAX_NEIGHBOURS`].
    fn with_limit(limit: usize, now: Time) -> Self {
        Self {
            hot: Vec::new(),
            entries: Vec::new(),
            index: BTreeMap::new(),
            last: NeighbourId::NONE,
            timers: BTreeSet::new(),
            resolved: VecDeque::new(),
            incomplete: 0,
            held_bytes: 0,
            hand: 0,
            limit: limit.min(MAX_NEIGHBOURS),
            solicitations: RateLimit::per_second(SOLICITATIONS_PER_SECOND, now),
            put_off_until: now,
            counters: NeighbourCounters::default(),
        }
    }

    /// The hardware address, if it is known. Counts as use.
    #[inline]
    pub fn mac(&self, id: NeighbourId) -> Option<Mac> {
        let hot = self.hot.get(usize::from(id.0))?;
        if !hot.used.get() {
            cold_path();
            // Where it was written each time, the load of the address beside it
            // waited until that, and all stores before it, had left the core.
            hot.used.set(true);
        }
        hot.known.then_some(hot.mac)
    }

    /// An upper layer has proof that packets reach the neighbour: new data
    /// was acknowledged (RFC 4861 section 7.3.1).
    #[inline]
    pub fn confirm(&mut self, id: NeighbourId, now: Time) {
        if let Some(hot) = self.hot.get_mut(usize::from(id.0)) {
            hot.confirmed = now;
        }
    }

    /// When an upper layer last had proof that packets reach the neighbour.
    pub fn confirmed(&self, id: NeighbourId) -> Option<Time> {
        self.hot.get(usize::from(id.0)).map(|hot| hot.confirmed)
    }

    /// The entry of `ip`, made and asked for if there is none.
    /// [`NeighbourId::NONE`] if the table is full.
    pub fn resolve(&mut self, ip: IpAddr, now: Time) -> NeighbourId {
        if let Some(id) = self.find(ip) {
            let entry = &mut self.entries[usize::from(id.0)];
            (entry.referenced, entry.off_link) = (true, false);
            self.retry(id);
            self.watch(id, now);
            return id;
        }
        if self.incomplete >= MAX_INCOMPLETE {
            self.counters.table_full += 1;
            return NeighbourId::NONE;
        }
        let id = self.create(ip, now);
        self.retry(id);
        id
    }

    /// As [`NeighbourTable::resolve`], with the hardware address that a packet
    /// from `ip` came from: an answer to it need not wait. The address is
    /// used only where none is known. Where another one is, that is asked at
    /// once whether it still holds.
    pub fn resolve_from(&mut self, ip: IpAddr, mac: Mac, now: Time) -> NeighbourId {
        self.resolve_by_frame(ip, mac, true, now)
    }

    /// As [`NeighbourTable::resolve_from`], for frames of which nothing
    /// follows where another address is known: those that a router handed on.
    pub fn resolve_through(&mut self, ip: IpAddr, mac: Mac, now: Time) -> NeighbourId {
        self.resolve_by_frame(ip, mac, false, now)
    }

    #[inline]
    fn resolve_by_frame(&mut self, ip: IpAddr, mac: Mac, doubts: bool, now: Time) -> NeighbourId {
        let last = usize::from(self.last.0);
        if let (Some(entry), Some(hot)) = (self.entries.get_mut(last), self.hot.get(last))
            && entry.ip == ip
            && hot.mac == mac
            && hot.known
            && entry.due != Time::MAX
            && !entry.off_link
            && mac.is_unicast()
        {
            // One of many handshakes: it says nothing new, and the entry is
            // looked after.
            entry.referenced = true;
            return self.last;
        }
        self.resolve_news(ip, mac, doubts, now)
    }

    /// The same for a frame that may tell something new.
    #[inline(never)]
    fn resolve_news(&mut self, ip: IpAddr, mac: Mac, doubts: bool, now: Time) -> NeighbourId {
        if !mac.is_unicast() {
            return self.resolve(ip, now);
        }
        let id = match self.find(ip) {
            Some(id) => id,
            None => self.create(ip, now),
        };
        if let Some(entry) = self.entries.get_mut(usize::from(id.0)) {
            entry.referenced = true;
            entry.off_link = false;
            if doubts || !entry.state.is_known() {
                self.hear(id, mac, Heard::Frame, now);
            }
            self.watch(id, now);
        }
        id
    }

    /// The entry of an address that no route leads to: what is for it goes
    /// where its packets come from, and nobody is ever asked for it (RFC 1122
    /// section 2.3.2.1: floods of ARP must be prevented). [`NeighbourId::NONE`]
    /// if the table is full, or `mac` no host's.
    pub fn resolve_off_link(&mut self, ip: IpAddr, mac: Mac, now: Time) -> NeighbourId {
        if !mac.is_unicast() {
            return NeighbourId::NONE;
        }
        let found = self.find(ip);
        let id = match found {
            Some(id) => id,
            None => self.create(ip, now),
        };
        let at = usize::from(id.0);
        let Some(entry) = self.entries.get_mut(at) else { return id };
        entry.referenced = true;
        if found.is_none() || !entry.off_link {
            entry.off_link = true;
            self.replace(id, mac);
            self.enter(id, State::Stale, now);
        } else if self.hot[at].mac != mac && !self.works(at, now) {
            // A router was replaced by another one, or somebody pretends it;
            // what has lately worked stays.
            self.replace(id, mac);
        }
        id
    }

    /// Keeps the entry in its place until it is unpinned as often. Pins are
    /// counted; [`NeighbourId::NONE`] has none.
    #[inline]
    pub fn pin(&mut self, id: NeighbourId) {
        if let Some(entry) = self.entries.get_mut(usize::from(id.0)) {
            entry.pins = entry.pins.saturating_add(1);
        }
    }

    /// Undoes one [`NeighbourTable::pin`].
    #[inline]
    pub fn unpin(&mut self, id: NeighbourId) {
        if let Some(entry) = self.entries.get_mut(usize::from(id.0)) {
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// Whether [`NeighbourTable::hold`] would keep a frame of `len` bytes.
    pub fn can_hold(&self, id: NeighbourId, len: usize) -> bool {
        let room = self.held_bytes + len <= MAX_HELD_BYTES;
        room && self.entries.get(usize::from(id.0)).is_some_and(|entry| entry.held.len() < MAX_HELD_FRAMES)
    }

    /// Holds a frame until the neighbour is resolved; asks for it again if
    /// nobody answered before. The frame starts with the destination, which
    /// is filled in when it is known. When too much is held, the frame is
    /// dropped and counted.
    pub fn hold(&mut self, id: NeighbourId, frame: &[u8]) {
        self.retry(id);
        let Some(entry) = self.entries.get_mut(usize::from(id.0)) else {
            self.counters.held_full += 1;
            return;
        };
        if entry.held.len() >= MAX_HELD_FRAMES || self.held_bytes + frame.len() > MAX_HELD_BYTES || frame.len() < 6 {
            self.counters.held_full += 1;
            return;
        }
        self.held_bytes += frame.len();
        self.counters.held += 1;
        entry.held.push_back(frame.into());
        if entry.state.is_known() {
            self.resolved.push_back(id.0);
        }
    }

    /// The hardware address for a packet that is no sign of use: what answers
    /// a stranger's first packet gives no cause to ask for the stranger.
    #[inline]
    pub fn mac_unused(&self, id: NeighbourId) -> Option<Mac> {
        let hot = self.hot.get(usize::from(id.0))?;
        hot.known.then_some(hot.mac)
    }

    /// An ARP packet from somebody else arrived. `for_us` says that its
    /// target address is ours, and its sender on the link. The answer to a
    /// request is the caller's.
    pub fn on_arp(&mut self, packet: &ArpPacket, for_us: bool, now: Time) {
        let ip = packet.sender_ip;
        // A probe for a duplicate address names no sender (RFC 5227 section
        // 2.1.1), and no host has the other addresses.
        if ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() {
            return;
        }
        match self.index.get(&IpAddr::V4(ip)) {
            // RFC 826, "Packet Reception": the merge flag.
            Some(&id) => {
                let answers = for_us && packet.operation == Operation::Reply && self.awaits(id);
                let heard = if answers { Heard::Answer } else { Heard::Claim };
                self.hear(id, packet.sender_mac, heard, now);
            }
            // Only what concerns us makes an entry: a network's other
            // conversations, and gratuitous announcements, do not.
            None if for_us => {
                let id = self.create(ip.into(), now);
                self.hear(id, packet.sender_mac, Heard::Claim, now);
            }
            None => {}
        }
    }

    /// A solicitation from `ip` arrived that names its hardware address
    /// (RFC 4861 section 7.2.3, and section 6.2.6 for routers).
    pub fn on_sender(&mut self, ip: IpAddr, mac: Mac, now: Time) {
        let id = match self.index.get(&ip) {
            Some(&id) => id,
            None => self.create(ip, now),
        };
        self.hear(id, mac, Heard::Claim, now);
    }

    /// A neighbour advertisement arrived (RFC 4861 section 7.2.5).
    pub fn on_advertisement(&mut self, advertisement: &NeighborAdvertisement, now: Time) {
        let Some(&id) = self.index.get(&IpAddr::V6(advertisement.target)) else { return };
        let at = usize::from(id.0);
        let state = self.entries[at].state;
        let disputed = matches!(state, State::Disputed { .. });
        let Some(mac) = advertisement.link_layer else {
            // Without an address nothing is resolved, only confirmed.
            if (state.is_known() || disputed) && advertisement.solicited {
                self.hear(id, self.hot[at].mac, Heard::Answer, now);
            }
            return;
        };
        if !(state.is_known() || disputed) || mac == self.hot[at].mac || advertisement.replace {
            // More than RFC 4861 asks for: another address is an answer only
            // to a question.
            let answers = advertisement.solicited && (mac == self.hot[at].mac || self.awaits(id));
            self.hear(id, mac, if answers { Heard::Answer } else { Heard::Claim }, now);
        } else if state == State::Reachable {
            // Another address, without leave to replace ours: a doubt.
            self.enter(id, State::Stale, now);
        }
    }

    /// The host whose neighbours these are knows the hardware address of one;
    /// `proven` if it answered lately. One that nobody asked for is no
    /// concern of ours.
    pub fn on_host(&mut self, ip: IpAddr, mac: Mac, proven: bool, now: Time) {
        if let Some(&id) = self.index.get(&ip).filter(|_| mac.is_unicast()) {
            // The host has looked into it.
            let known = self.entries[usize::from(id.0)].state.is_known();
            let changed = known && self.hot[usize::from(id.0)].mac != mac;
            self.counters.changed += u64::from(changed);
            self.replace(id, mac);
            if proven {
                self.enter(id, State::Reachable, now);
            } else if changed || !known {
                self.enter(id, State::Stale, now);
            }
        }
    }

    /// The host knows no hardware address of a neighbour any longer: it is
    /// asked for again, and what is sent there waits. One that is being asked
    /// for goes on as it is.
    pub fn on_host_lost(&mut self, ip: IpAddr, now: Time) {
        if let Some(&id) = self.index.get(&ip)
            && self.entries[usize::from(id.0)].state.is_known()
        {
            self.enter(id, State::Incomplete { sent: 0 }, now);
        }
    }

    /// What is to be sent now; call until `None`, while there is room to send.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Output> {
        if self.is_due(now) { self.poll_due(now) } else { None }
    }

    /// Whether [`NeighbourTable::poll`] may have something.
    #[inline(always)]
    pub fn is_due(&self, now: Time) -> bool {
        !self.resolved.is_empty() || self.timers.first().is_some_and(|(due, _)| *due <= now)
    }

    /// When [`NeighbourTable::poll`] has something next; `None` if never.
    pub fn next_deadline(&self) -> Option<Time> {
        if !self.resolved.is_empty() {
            return Some(Time::ZERO);
        }
        self.timers.first().map(|(due, _)| *due)
    }

    /// What was counted.
    pub fn counters(&self) -> &NeighbourCounters {
        &self.counters
    }
}

#[cfg(test)]
mod tests;
