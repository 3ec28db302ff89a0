//! The stack: its layers, and the turn that joins them.
//!
//! Above IP stands TCP alone today. UDP will stand beside it as its equal: a
//! part of its own, that takes the [`Packet`](crate::ip::Packet)s and errors of
//! its protocol in [`Stack::deliver`], sends through an
//! [`Outgoing`](crate::ip::Outgoing), and is asked in [`Stack::poll_transmit`],
//! [`Stack::on_timers`] and [`Stack::next_deadline`]. Neither knows the other.

use crate::config::{Config, Seeds};
use crate::counters::Counters;
use crate::egress::{Egress, LinkOffload};
use crate::flow::{Envelope, Flow};
use crate::ip::{Conflict, Ip, Resolved, Trouble, Upward, is_martian_v4, original_of};
use crate::segments::{Arrival, Arrived, Glance, LightArrival, ReturnPath, Tcp};
use crate::shadow::Way;
use app::{Closed, ConnId, Unreachable};
use core::hint::cold_path;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use wire::plain::{self, Plain};
use wire::{Mac, Original, Time, protocol};

/// While the transmit ring is full: no link says when its other side takes
/// frames, so it is looked at again after this. A tenth of a millisecond: what
/// waits is late by no more than a wake-up or two, and a peer that has stopped
/// costs a hundredth of a core.
const TRANSMIT_RETRY: Duration = Duration::from_micros(100);

/// Neighbour messages sent in one turn; more wait for the next.
const NEIGHBOUR_BOUND: usize = 32;

/// A whole TCP/IP stack: one silo's.
#[derive(Debug)]
pub struct Stack {
    /// The settings as they are in force. What is needed of them for each
    /// frame, the layers have.
    pub(crate) config: Config,
    pub(crate) ip: Ip,
    pub(crate) tcp: Tcp,
    /// Sending stopped for want of transmit slots.
    blocked: bool,
}

impl Stack {
    /// A stack at `now`, over a link with these capabilities.
    #[must_use]
    pub fn new(config: Config, offload: LinkOffload, seeds: &Seeds, now: Time) -> Self {
        let ip = Ip::new(&config, offload, seeds, now);
        let tcp = Tcp::new(&config, seeds, now);
        Self { config, ip, tcp, blocked: false }
    }

    /// A turn begins. Time never moves back: an earlier `now` is ignored.
    #[inline]
    pub fn begin_turn(&mut self, now: Time) {
        let now = self.tcp.begin_turn(now);
        self.ip.begin_turn(now);
    }

    /// A first look at a frame that will be taken soon, if it is plain TCP over
    /// IPv4: `fetch` is told the address in the table that will be looked at.
    /// Where that is done for a whole burst first, and then
    /// [`Stack::second_glance`], the cache misses of its frames overlap.
    #[inline]
    #[must_use]
    pub fn glance(&self, frame: &[u8], fetch: impl FnOnce(*const u8)) -> Option<Glance> {
        self.tcp.glance(&self.ip, frame, fetch)
    }

    /// A second look: `fetch` is told both cache lines of the connection that
    /// the frame probably belongs to. Returns its place, for
    /// [`Stack::id_at`], if an application will be told.
    #[inline]
    #[must_use]
    pub fn second_glance(&self, glance: Glance, fetch: impl FnMut(*const u8)) -> Option<u32> {
        self.tcp.second_glance(glance, fetch)
    }

    /// The connection at a place that [`Stack::second_glance`] returned.
    #[inline]
    #[must_use]
    pub fn id_at(&self, place: u32) -> ConnId {
        self.tcp.slots().id(place)
    }

    /// [`Stack::on_frame_first`] for whoever takes a frame now and then.
    #[inline(never)]
    pub fn on_frame<'f>(&mut self, frame: &'f [u8], verified: bool, out: &mut impl Egress) -> Arrived<'f> {
        let mut other = Arrived::Nothing;
        match self.on_frame_first(frame, verified, &mut other, out) {
            Some((id, data)) => Arrived::Data(id, data),
            None => other,
        }
    }

    /// Takes a frame. `verified` says that the link vouches for its transport
    /// checksum. Replies that belong to no connection are written at once.
    ///
    /// Returns what [`Arrived::Data`] would tell; what is anything else is left in `other`.
    /// One value for both would be put together in memory for each frame.
    #[inline(always)]
    pub fn on_frame_first<'f>(
        &mut self,
        frame: &'f [u8],
        verified: bool,
        other: &mut Arrived<'f>,
        out: &mut impl Egress,
    ) -> Option<(ConnId, &'f [u8])> {
        self.ip.count_frame();
        if out.watched().by_anybody() {
            self.compare_parsed(frame, verified, out);
        }
        if let Some(plain) = Plain::parse(frame, self.ip.station(), verified)
            && let Some(local) = self.ip.addresses.index_v4(plain.dst)
        {
            // What reads a plain frame stands here in one piece: a call that was
            // given all of it would have all of it written to memory first.
            let header = &plain.header;
            let flow = Flow::v4(plain.src, header.src_port, local, header.dst_port);
            let (hash, likely) = self.tcp.look_up(&flow);
            if let Some(slot) = likely {
                if out.watched().by_anybody() {
                    let header = plain.tcp_header();
                    match self.tcp.compare_arrival(&mut self.ip, Way::Light, slot, &header, plain.payload, out) {
                        Some(Arrived::Data(id, data)) => return Some((id, data)),
                        Some(arrived) => *other = arrived,
                        None => *other = self.tcp.on_plain_of(&mut self.ip, slot, plain, out),
                    }
                    return None;
                }
                let light = self.tcp.on_light(&mut self.ip, slot, &flow, header, plain.payload);
                if let Some(LightArrival { id, is_unsettled: true }) = light {
                    return Some((id, plain.payload));
                }
                cold_path();
                *other = match light {
                    Some(light) => light.with(plain.payload, false),
                    None => self.tcp.on_plain_of(&mut self.ip, slot, plain, out),
                };
                return None;
            }
            cold_path();
            let arrival = self.tcp.on_plain_unsorted(&mut self.ip, (flow, hash), frame, plain, out);
            *other = self.tcp.or_stray(arrival);
            return None;
        }
        cold_path();
        let arrival = self.on_other_frame(frame, verified, out);
        *other = self.tcp.or_stray(arrival);
        None
    }

    /// A frame that is not plain: nearly, where it opens a connection.
    #[inline(never)]
    fn on_other_frame<'f>(&mut self, frame: &'f [u8], verified: bool, out: &mut impl Egress) -> Option<Arrival<'f>> {
        if let Some((src, dst, header, payload)) = plain::parse_with_options(frame, self.ip.station(), verified)
            && !is_martian_v4(src)
            && let Some(local) = self.ip.addresses.index_v4(dst)
        {
            let mac = Mac::sender_of(frame);
            let envelope = Envelope { src: IpAddr::V4(src), local, mac };
            return self.tcp.on_nearly_plain(&mut self.ip, &envelope, &header, payload, out);
        }
        self.on_frame_by_layers(frame, verified, out)
    }

    /// Everything but a plain segment of a connection. [`Plain::parse`] says
    /// nothing of what is wrong with what it does not take.
    #[inline(never)]
    pub(crate) fn on_frame_by_layers<'f>(
        &mut self,
        frame: &'f [u8],
        verified: bool,
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let upward = self.ip.on_frame(frame, verified, out);
        self.deliver(upward, out)
    }

    /// What IP hands on goes to its transport.
    #[inline]
    fn deliver<'f>(&mut self, upward: Upward<'f>, out: &mut impl Egress) -> Option<Arrival<'f>> {
        match upward {
            Upward::Packet(packet) if packet.protocol == protocol::TCP => {
                self.tcp.on_packet(&mut self.ip, &packet, out)
            }
            Upward::Whole { envelope, protocol: protocol::TCP, bytes, pseudo } => {
                self.tcp.on_whole(&mut self.ip, &envelope, &bytes, pseudo, out)
            }
            Upward::Error(original, trouble) => {
                if !self.on_error(original, trouble) {
                    self.ip.ignore_error();
                }
                None
            }
            Upward::Nothing | Upward::Packet(_) | Upward::Whole { .. } => None,
        }
    }

    /// The network has trouble with a packet of ours. Whether that changed
    /// anything.
    fn on_error(&mut self, original: Original, trouble: Trouble) -> bool {
        original.protocol == protocol::TCP && self.tcp.on_error(&mut self.ip, original, trouble)
    }

    /// A connection that an arrival left unsettled: what the application
    /// answered leaves now, while all that it takes is at hand, or has its turn
    /// with the others. Only plain segments leave a connection unsettled, so
    /// that frames here have no VLAN tag.
    #[inline(always)]
    pub fn settle(&mut self, id: ConnId, out: &mut impl Egress) {
        self.tcp.settle(&mut self.ip, id, out);
    }

    /// The same where the application has not answered: mostly nothing leaves, and the connection
    /// needs no turn to find that out.
    #[inline(always)]
    pub fn settle_unanswered(&mut self, id: ConnId, out: &mut impl Egress) {
        self.tcp.settle_unanswered(&mut self.ip, id, out);
    }

    /// [`Stack::settle`], and where nothing leaves and the application `answers_later`, as
    /// [`Stack::settle_unanswered`].
    #[inline(always)]
    pub fn settle_or_leave(&mut self, id: ConnId, out: &mut impl Egress, answers_later: impl FnOnce() -> bool) {
        self.tcp.settle_or_leave(&mut self.ip, id, out, answers_later);
    }

    /// The same for a secured connection.
    #[inline(always)]
    pub fn settle_sealed(&mut self, id: ConnId, out: &mut impl Egress) {
        self.tcp.settle_sealed(&mut self.ip, id, out);
    }

    /// The last stray is nobody's: it is answered as RFC 9293 section
    /// 3.10.7.1 says.
    #[cold]
    pub fn refuse(&mut self, out: &mut impl Egress) {
        self.tcp.refuse(&mut self.ip, out);
    }

    /// Whether a flow belongs to a connection, a handshake or a TIME-WAIT
    /// record here.
    #[must_use]
    pub fn owns(&self, remote: SocketAddr, local: SocketAddr) -> bool {
        self.tcp.owns(&self.ip, remote, local)
    }

    /// Finds a connection to make room for a new one: of a few of those that
    /// have nothing to send and nothing held, and that `idle` has an answer
    /// for, the one for which that is longest.
    pub fn find_idle(&mut self, idle: impl FnMut(ConnId) -> Option<Duration>) -> Option<ConnId> {
        self.tcp.find_idle(idle)
    }

    /// Ends a connection at once, by a reset, and frees its slot: the frame
    /// that asked for it is to be taken again. The application hears of the
    /// end from the caller, and not by [`Stack::poll_closed`].
    pub fn displace(&mut self, id: ConnId) {
        self.tcp.displace(&mut self.ip, id);
    }

    /// Runs what is due, a bounded amount of it. Returns whether more is due
    /// already.
    #[inline]
    pub fn on_timers(&mut self, out: &mut impl Egress) -> bool {
        self.on_timers_amid(false, out)
    }

    /// The same, less of it where more frames wait than a turn takes.
    #[inline]
    pub fn on_timers_amid(&mut self, crowded: bool, out: &mut impl Egress) -> bool {
        let mut more = false;
        if self.tcp.awaits_pacers() {
            cold_path();
            more = self.tcp.on_paced();
        }
        if !self.tcp.has_timers() && !self.ip.has_late_fragments() {
            return more;
        }
        self.run_timers(crowded, out) | more
    }

    #[inline(never)]
    fn run_timers(&mut self, crowded: bool, out: &mut impl Egress) -> bool {
        if self.ip.has_late_fragments() {
            self.ip.give_up_fragments(out);
        }
        self.tcp.on_timers(&mut self.ip, crowded, out)
    }

    /// The next connection whose application timer ran out.
    #[inline(always)]
    pub fn poll_app_timer(&mut self) -> Option<ConnId> {
        self.tcp.poll_app_timer()
    }

    /// Sends what neighbours, handshakes and connections have to send, as far
    /// as there are slots. Returns whether something is left that there may be
    /// slots for at once; what waits for slots has a deadline.
    #[inline(always)]
    pub fn poll_transmit(&mut self, out: &mut impl Egress) -> bool {
        self.blocked = false;
        // What connections answer to arrivals has left with them: mostly
        // nothing is left to say.
        let silent = self.tcp.is_silent() && !self.ip.is_due();
        !silent && self.transmit_all(out)
    }

    #[inline(never)]
    fn transmit_all(&mut self, out: &mut impl Egress) -> bool {
        let sent = self.tcp.segments_out();
        if self.ip.has_to_speak() {
            cold_path();
            self.blocked |= !self.ip.poll_presence(out);
        }
        self.blocked |= !self.poll_neighbours(out);
        self.blocked |= !self.tcp.poll_replies(&mut self.ip, out);
        if !self.tcp.has_ready() {
            return false;
        }
        self.blocked |= !self.tcp.poll_ready(&mut self.ip, out);
        // Where some went out, more may go with the next flush.
        self.blocked &= self.tcp.segments_out() == sent;
        self.tcp.has_ready() && !self.blocked
    }

    /// Sends what neighbour resolution has to send; whoever waited for a
    /// neighbour goes on. Whether there were slots for it.
    #[inline]
    fn poll_neighbours(&mut self, out: &mut impl Egress) -> bool {
        for _ in 0..NEIGHBOUR_BOUND {
            if out.room() == 0 {
                return false;
            }
            match self.ip.poll_resolution(out) {
                Resolved::Done => return true,
                Resolved::Asked => {}
                Resolved::Answered => self.tcp.retry_unresolved(),
                Resolved::Failed(held) => {
                    self.tcp.retry_unresolved();
                    for original in held.iter().filter_map(|frame| original_of(frame)) {
                        self.on_error(original, Trouble::Unreachable(Unreachable::Host));
                    }
                }
            }
        }
        true
    }

    /// Whether [`Stack::poll_closed`] has something to look at.
    #[inline(always)]
    #[must_use]
    pub fn has_closed(&self) -> bool {
        self.tcp.has_closed()
    }

    /// The next connection that is over, with the reason; its slot is free
    /// from now on. Call after [`Stack::poll_transmit`], so that the last
    /// acknowledgement of a connection leaves before its state goes.
    #[inline(always)]
    pub fn poll_closed(&mut self) -> Option<(ConnId, Closed)> {
        self.tcp.poll_closed(&mut self.ip)
    }

    /// When a turn is due even if nothing arrives; `None` if never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let now = self.tcp.now();
        let to_send = !self.tcp.is_silent();
        if self.tcp.has_events() || (to_send && !self.blocked) {
            return Some(now);
        }
        let retry = now + TRANSMIT_RETRY;
        let milliseconds = self.tcp.next_timer().map(|ms| now + Duration::from_millis(u64::from(ms)));
        let below = self.ip.next_deadline(self.blocked.then_some(retry));
        let paced = self.tcp.next_paced();
        below.into_iter().chain([milliseconds, paced, to_send.then_some(retry)]).flatten().min()
    }

    /// When the next connection is let go by its pacer; later than any time if
    /// none waits. Cheap, unlike [`Stack::next_deadline`].
    #[inline]
    #[must_use]
    pub fn next_paced(&self) -> Time {
        self.tcp.next_paced().unwrap_or(Time::MAX)
    }

    /// The link is there, or there again: our addresses are announced, or
    /// asked for, as [`Config::detection`] says.
    pub fn on_link_up(&mut self) {
        self.ip.on_link_up();
    }

    /// Whether no address is used yet, because it is first asked whether
    /// somebody has it ([`crate::Detection::Wait`], after
    /// [`Stack::on_link_up`]).
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.ip.is_asking()
    }

    /// The next host that has an address of ours: at most one in 10 s for each
    /// address.
    pub fn poll_conflict(&mut self) -> Option<Conflict> {
        self.ip.poll_conflict()
    }

    /// The stack's counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::of(self.ip.counters(), self.tcp.counters())
    }

    /// TCP's counters.
    #[must_use]
    pub const fn tcp_counters(&self) -> &tcp::Counters {
        self.tcp.tcp_counters()
    }

    /// Neighbour resolution's counters, with their names.
    pub fn neighbour_counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.ip.neighbours.counters().iter()
    }

    /// Reassembly's counters, with their names.
    pub fn fragment_counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.ip.fragment_counters()
    }

    /// The settings, as they are in force.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Established connections, closing ones included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.tcp.slots().len()
    }

    /// Half-open handshakes.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.tcp.half_open()
    }

    /// TIME-WAIT records.
    #[must_use]
    pub const fn time_wait(&self) -> usize {
        self.tcp.time_wait()
    }

    /// Bytes held for applications and gaps.
    #[must_use]
    pub const fn receive_memory(&self) -> usize {
        self.tcp.receive_memory()
    }

    /// Bytes under way that count as sent to applications, of what
    /// [`Config::send_memory`] says.
    #[must_use]
    pub const fn send_memory(&self) -> usize {
        self.tcp.send_memory()
    }

    /// A connection's figures.
    #[must_use]
    pub fn info(&self, id: ConnId) -> Option<tcp::Info> {
        self.tcp.slots().get(id).map(|slot| slot.tcp.info())
    }

    /// At most so many connections from now on, and never more than
    /// [`Config::max_connections`] was: the tables are made for that. Those
    /// beyond that are there stay.
    pub fn set_max_connections(&mut self, connections: usize) {
        self.tcp.set_max_connections(connections);
    }

    /// Congestion control of new connections from now on, and of those that
    /// had no use for it yet: they only ever grew their first window.
    pub const fn set_congestion(&mut self, algorithm: tcp::congestion::Algorithm) {
        self.config.tcp.congestion = algorithm;
        self.tcp.set_congestion(algorithm);
    }

    /// Takes local ports only whose answers come back to this silo, from the
    /// next connection on.
    pub fn set_return_path(&mut self, path: Box<dyn ReturnPath>) {
        self.tcp.set_return_path(path);
    }

    /// Stops accepting: further SYNs are answered as on a closed port.
    pub fn stop_listening(&mut self) {
        self.config.listen.clear();
        self.tcp.stop_listening();
    }

    /// Accepts connections on a further port.
    pub fn listen(&mut self, port: u16) {
        if !self.config.listen.contains(&port) {
            self.config.listen.push(port);
        }
        self.tcp.listen(port);
    }

    /// Accepts connections on these ports of every address, and at these
    /// addresses, and nowhere else; an unspecified address stands for all of its
    /// family. What was accepted elsewhere stays.
    pub fn listen_on(&mut self, ports: &[u16], at: &[SocketAddr]) {
        self.config.listen = ports.to_vec();
        self.tcp.listen_on(ports, at);
    }

    /// Where several processes have the same addresses ([`Config::steered`]), and listeners of their
    /// own: a SYN that nobody here listens for is a stray as any segment of an unknown flow
    /// ([`crate::Arrived::Stray`]), and no longer reset at once.
    pub const fn share_listeners(&mut self) {
        self.tcp.share_listeners();
    }

    /// Every value that is counted, with the name of its layer ([`crate::HELP`]) and its own.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let now = [
            ("connections", self.connections() as u64),
            ("half_open", self.half_open() as u64),
            ("receive_memory_bytes", self.receive_memory() as u64),
        ];
        let of = |layer: &'static str| move |(name, value)| (layer, name, value);
        let stack = now.into_iter().chain(self.counters().iter()).map(of("stack"));
        let tcp = self.tcp_counters().iter().map(of("tcp"));
        let neighbour = self.neighbour_counters().map(of("neighbour"));
        stack.chain(tcp).chain(neighbour).chain(self.fragment_counters().map(of("fragments")))
    }

    /// The ids of all connections, for a view of the whole.
    pub fn connection_ids(&self) -> impl Iterator<Item = ConnId> {
        self.tcp.slots().ids()
    }

    /// Places of the table of connections that were ever in use.
    #[must_use]
    pub fn places(&self) -> usize {
        self.tcp.slots().used()
    }

    /// The connection in a place, for who looks at a few of many.
    #[must_use]
    pub fn connection_at(&self, place: usize) -> Option<ConnId> {
        let slots = self.tcp.slots();
        let index = u32::try_from(place).ok().filter(|_| place < slots.used())?;
        slots.is_used(index).then(|| slots.id(index))
    }

    /// Whether a connection's timer ([`app::Net::set_timer`]) is set, for who looks for those that
    /// nothing would end.
    #[must_use]
    pub fn has_timer(&self, id: ConnId) -> bool {
        self.tcp.has_timer(id)
    }

    /// Tells `each` the address ranges of the tables that frames are looked
    /// up in: flows, connections, handshakes, TIME-WAIT, timers, neighbours.
    /// What single connections hold (data out of order, queued chunks) is not
    /// told: it is small and of the moment.
    pub fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        self.tcp.memory(each);
        self.ip.neighbours.memory(each);
    }
}
