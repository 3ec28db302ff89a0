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

use crate::limit::RateLimit;
use core::cell::Cell;
use core::net::IpAddr;
use core::time::Duration;
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

/// Solicitations per second; more are put off.
const SOLICITATIONS_PER_SECOND: u32 = 1_000;
/// By how much, at least.
const PUT_OFF: Duration = Duration::from_millis(10);
/// Between two that are put off: the time in which a token grows.
const PUT_OFF_STEP: Duration = Duration::from_millis(1_000 / SOLICITATIONS_PER_SECOND as u64);
/// By how much at most: then it is tried again among the others.
const PUT_OFF_LONGEST: Duration = Duration::from_secs(1);

/// Who claims another's address is believed when the one that is known stays
/// silent to so many unicast questions, each of which waits this long: a
/// take-over is heard of within [`DISPUTE_LONGEST`], and a forgery steals
/// nothing from a host that answers.
const DISPUTE_SOLICIT: u8 = 2;
const DISPUTE_WAIT: Duration = Duration::from_millis(3);
/// How long a dispute lasts.
#[cfg(test)]
const DISPUTE_LONGEST: Duration = Duration::from_millis(6);
/// After an answer, the next claim is looked into at the earliest after this,
/// so that a flood of them costs ten questions a second.
const CLAIM_PAUSE: Duration = Duration::from_millis(100);
/// The same for frames that come from another hardware address: some hosts
/// send from one and answer for another all the time.
const FRAME_PAUSE: Duration = Duration::from_secs(1);

/// Protocol constants (RFC 4861 section 10), used for ARP as well.
const RETRANSMIT: Duration = Duration::from_secs(1);
const MAX_MULTICAST_SOLICIT: u8 = 3;
const MAX_UNICAST_SOLICIT: u8 = 3;
const REACHABLE: Duration = Duration::from_secs(30);
const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
/// How often a stale entry is asked whether it was used: this replaces a
/// branch on each use, and so its delay counts from here.
const STALE_CHECK: Duration = Duration::from_secs(5);

/// Timers handled in one call; the rest is still due in the next.
const TIMERS_PER_POLL: usize = 64;
/// Entries looked at in search of one that can give way.
const EVICTION_STEPS: usize = 256;

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

/// How a hardware address was heard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    /// In answer to us: it works both ways.
    Answer,
    /// In an ARP packet or a message of neighbour discovery.
    Claim,
    /// As the source of a frame.
    Frame,
}

/// RFC 4861 section 7.3.2:
///
/// ```text
///             ┌────────── no answer ───────────┐
///             ▼                                │
///  Failed ◄─ Incomplete ── answer ──► Reachable ◄── proof ──┐
///     │        ▲   ▲ └─ learned ─┐       │ 30 s             │
///     └─ use ──┘   │             └──► Stale ── use ──► Delay ── 5 s ──► Probe
///                  └──────────────────── no answer ───────────────────────┘
/// ```
///
/// and beside it Disputed, which a claim to the address of a neighbour that
/// has answered leads to, from any state but the first two; its answer leads
/// to Reachable, its silence to the claimant or to Incomplete.
///
/// The hardware address is known in all states but these three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nobody answered; not asked again before somebody wants it.
    Failed,
    /// Being asked for, `sent` times so far.
    Incomplete { sent: u8 },
    /// Proven to work within the last [`REACHABLE`].
    Reachable,
    /// Worked once, or was heard of.
    Stale,
    /// Used while stale; proof may still come from an upper layer.
    Delay,
    /// Asked whether it is still there, `sent` times so far.
    Probe { sent: u8 },
    /// Asked for under the address that is known, `sent` times so far, while
    /// another one is claimed. What is to be sent waits those milliseconds, so
    /// that nothing goes to the wrong one.
    Disputed { sent: u8 },
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
        hot.used.set(true);
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

impl State {
    const fn is_known(self) -> bool {
        matches!(self, Self::Reachable | Self::Stale | Self::Delay | Self::Probe { .. })
    }
}

impl NeighbourTable {
    #[cold]
    fn poll_due(&mut self, now: Time) -> Option<Output> {
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
    fn poll_resolved(&mut self) -> Option<Box<[u8]>> {
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

    fn on_timer(&mut self, id: NeighbourId, now: Time) -> Option<Output> {
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
    fn may_solicit(&mut self, id: NeighbourId, wait: Duration, now: Time) -> bool {
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
    fn enter(&mut self, id: NeighbourId, state: State, now: Time) {
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
    fn set_timer(&mut self, id: NeighbourId, due: Time) {
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
    fn works(&self, at: usize, now: Time) -> bool {
        let confirmed = self.hot[at].confirmed;
        confirmed > Time::ZERO && now < confirmed + REACHABLE
    }

    /// Whether an answer is proof that the path works both ways.
    fn awaits(&self, id: NeighbourId) -> bool {
        let state = self.entries[usize::from(id.0)].state;
        matches!(state, State::Incomplete { .. } | State::Delay | State::Probe { .. } | State::Disputed { .. })
    }

    /// The neighbour's hardware address was heard of.
    fn hear(&mut self, id: NeighbourId, mac: Mac, heard: Heard, now: Time) {
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
    fn dispute(&mut self, id: NeighbourId, mac: Mac, heard: Heard, now: Time) {
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
    fn settle(&mut self, id: NeighbourId, now: Time) {
        let entry = &mut self.entries[usize::from(id.0)];
        if matches!(entry.state, State::Disputed { .. }) {
            (entry.rival, entry.settled) = (None, now);
        }
    }

    /// The known address did not answer: the claimant has it, and is to prove
    /// it at once; or, where nobody claimed it, everybody is asked.
    fn give_in(&mut self, id: NeighbourId, now: Time) {
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
    fn replace(&mut self, id: NeighbourId, mac: Mac) {
        let at = usize::from(id.0);
        let (Some(entry), Some(hot)) = (self.entries.get_mut(at), self.hot.get_mut(at)) else { return };
        if hot.mac != mac {
            (hot.mac, hot.confirmed, entry.proven) = (mac, Time::ZERO, false);
        }
    }

    /// The entry of `ip`, if there is one.
    #[inline]
    fn find(&mut self, ip: IpAddr) -> Option<NeighbourId> {
        if self.entries.get(usize::from(self.last.0)).is_some_and(|entry| entry.ip == ip) {
            return Some(self.last);
        }
        let id = *self.index.get(&ip)?;
        self.last = id;
        Some(id)
    }

    /// Asks anew for a neighbour that did not answer.
    #[inline]
    fn retry(&mut self, id: NeighbourId) {
        let at = usize::from(id.0);
        if self.entries.get(at).is_some_and(|entry| entry.state == State::Failed) {
            // The time does not matter: the next poll finds it due.
            self.enter(id, State::Incomplete { sent: 0 }, Time::ZERO);
        }
    }

    /// Somebody will use the entry: its use is looked for again.
    #[inline]
    fn watch(&mut self, id: NeighbourId, now: Time) {
        let entry = &self.entries[usize::from(id.0)];
        if entry.state == State::Stale && entry.due == Time::MAX {
            self.set_timer(id, now + STALE_CHECK);
        }
    }

    /// A new entry, not asked for yet.
    fn create(&mut self, ip: IpAddr, now: Time) -> NeighbourId {
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
    fn evict(&mut self) -> Option<NeighbourId> {
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
    fn take_held(&mut self, at: usize) -> VecDeque<Box<[u8]>> {
        let held = core::mem::take(&mut self.entries[at].held);
        self.held_bytes -= held.iter().map(|frame| frame.len()).sum::<usize>();
        self.counters.held_lost += held.len() as u64;
        held
    }
}

#[cfg(test)]
mod tests;
