//! What applications ask of the kernel data path.
//!
//! Nothing here waits, and little calls the kernel: what an application asks
//! for is noted, and carried out when its call has returned (`dispatch`). So
//! the answers to all requests of one read leave in one call.

use crate::config::StreamOptions;
use crate::counters::Counters;
use crate::endpoint::unix_path;
use crate::farewell::Farewells;
use crate::figures;
use crate::kernel_tls;
use crate::option::set_pacing_rate;
use crate::pipes::Passes;
use crate::secured::{Records, Secured};
use crate::send::BUDGET;
use crate::steer::WorkCounter;
use crate::table::{Flags, Queue, Table};
use crate::timers::Timers;
use app::{Body, Closed, ConnId, ConnectError, Net, PathFigures, Receiving, SendFileError, Sources};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use rope::QueueFull;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rates of one connection that the kernel keeps, bytes a second. It sends two segments at a time, of 64 KiB over
/// loopback, and then nothing for as long as these take at that rate, whatever its rate is by then
/// (tcp_update_skb_after_send in net/ipv4/tcp_output.c): a second at this rate.
const LEAST_RATE: u64 = 2 << 16;
use wire::Time;

/// A worker's connections: its [`Net`].
#[derive(Debug)]
pub struct Sockets {
    pub(crate) now: Time,
    pub(crate) table: Table,
    pub(crate) timers: Timers,
    /// Slots with something to send, or to finish.
    pub(crate) dirty: Vec<u32>,
    /// Slots that are over, and why.
    pub(crate) over: Vec<(u32, Closed)>,
    /// Of these, those that are over for a file that could not be sent to its end.
    pub(crate) file_errors: Vec<(ConnId, SendFileError)>,
    /// Connections to be offered their held bytes again.
    pub(crate) resumed: Vec<ConnId>,
    /// Connections that we opened, and that no engine watches yet.
    pub(crate) fresh: Vec<ConnId>,
    /// Connections to go on with, without waiting for an event: they were
    /// stopped so that others have their turn.
    pub(crate) again: Vec<ConnId>,
    /// Connects to a Unix socket whose queue was full.
    pub(crate) unanswered: Vec<ConnId>,
    /// Where what this worker has is told, for new connections to be dealt
    /// out by.
    pub(crate) seat: Option<WorkCounter>,
    /// Clients with their connections, where these are limited.
    pub(crate) sources: Sources,
    /// Bytes that go from one connection to another.
    pub(crate) passes: Passes,
    /// What records are sealed and opened in.
    pub(crate) records: Records,
    /// Connections that ended with an alert, whose peers may still send.
    pub(crate) farewells: Farewells,
    pub(crate) counters: Counters,
    pub(crate) stream: StreamOptions,
    /// Most bytes that one connection hands over before others have their turn.
    pub(crate) send_budget: usize,
    pub(crate) connect_to: Option<PathBuf>,
    /// The kernel seals records where it can, and where that is worth it.
    pub(crate) kernel_tls: bool,
}

impl Sockets {
    pub(crate) fn new(now: Time, limit: usize, stream: StreamOptions, connect_to: Option<PathBuf>) -> Self {
        Self {
            now,
            table: Table::new(limit),
            timers: Timers::new(now),
            dirty: Vec::new(),
            over: Vec::new(),
            file_errors: Vec::new(),
            resumed: Vec::new(),
            fresh: Vec::new(),
            again: Vec::new(),
            unanswered: Vec::new(),
            seat: None,
            sources: Sources::default(),
            passes: Passes::default(),
            records: Records::default(),
            farewells: Farewells::default(),
            counters: Counters::default(),
            stream,
            send_budget: BUDGET,
            connect_to,
            kernel_tls: kernel_tls::is_there(),
        }
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { connections: self.table.len() as u64, ..self.counters }
    }

    /// Connections open or opening.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// Tells `each` the cores where the kernel took in the last packets of
    /// connections (SO_INCOMING_CPU, socket(7)), looking at `most` slots of
    /// the table from `from` on. Returns where to go on, round and round. A
    /// system call for each: for beside the data path.
    pub fn incoming(&self, from: usize, most: usize, each: &mut dyn FnMut(u32)) -> usize {
        for fd in self.table.sample(from, most) {
            if let Ok(core) = rustix::net::sockopt::socket_incoming_cpu(fd) {
                each(core);
            }
        }
        let next = from.saturating_add(most);
        if next < self.table.slots() { next } else { 0 }
    }

    /// Ends a connection; the application hears of it when its call, if one
    /// is under way, has returned.
    #[cold]
    pub(crate) fn end(&mut self, id: ConnId, why: Closed) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.flags.set(Flags::OVER);
        self.over.push((id.index() as u32, why));
    }

    /// An accepted connection is closed, which counted as work if `seated`.
    #[inline]
    pub(crate) fn finished(&mut self, seated: bool) {
        if seated && let Some(seat) = &mut self.seat {
            seat.finished();
        }
    }

    /// Ends every connection, for a worker that stops.
    pub(crate) fn end_all(&mut self) {
        let ids: Vec<ConnId> = self.table.ids().collect();
        for id in ids {
            self.end(id, Closed::Aborted);
        }
    }

    /// Has the connection gone on with in the next pass.
    pub(crate) fn go_on(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if !conn.flags.has(Flags::AGAIN) {
            conn.flags.set(Flags::AGAIN);
            self.again.push(id);
        }
    }

    /// Reads on in the next pass, and what then arrives is for whoever it is for.
    pub(crate) fn read_on(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.flags.set(Flags::UNREAD);
        self.go_on(id);
    }

    /// What arrives at `from` is the application's again.
    pub(crate) fn end_pass(&mut self, from: ConnId) {
        let Some(to) = self.passes.end(from) else { return };
        for (id, flag) in [(from, Flags::PASSES), (to, Flags::FED)] {
            if let Some(conn) = self.table.get_mut(id) {
                conn.flags.clear(flag);
            }
        }
    }

    /// A connection is gone: nothing goes from there, or to it.
    #[cold]
    pub(crate) fn leave_passes(&mut self, id: ConnId) {
        self.end_pass(id);
        if let Some((from, _)) = self.passes.to(id) {
            self.end_pass(from);
            self.read_on(from);
        }
    }

    /// Has the connection's queue looked at when the application's call has returned.
    pub(crate) fn mark_dirty(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if !conn.flags.has(Flags::DIRTY) {
            conn.flags.set(Flags::DIRTY);
            self.dirty.push(id.index() as u32);
        }
    }

    /// Whether there is something to do that no event will tell of.
    pub(crate) fn has_more(&self) -> bool {
        let settled = self.dirty.is_empty() && self.over.is_empty() && self.resumed.is_empty();
        !settled || !self.fresh.is_empty() || !self.again.is_empty()
    }

    fn count_connect(&mut self, id: Result<ConnId, ConnectError>) -> Result<ConnId, ConnectError> {
        match id {
            Ok(_) => self.counters.connects += 1,
            Err(_) => self.counters.connects_refused += 1,
        }
        id
    }

    /// What is queued from now on has no rate of its own any more; that of all, if there is one.
    #[cold]
    fn unrate(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.flags.clear(Flags::RATED);
        if let Some(fd) = conn.fd() {
            // The kernel refuses it of no socket that had one.
            let _ = set_pacing_rate(fd, self.stream.pacing_rate.unwrap_or(u64::MAX));
        }
    }

    #[inline]
    fn queue(&mut self, id: ConnId, push: impl FnOnce(&mut Queue) -> Result<(), QueueFull>) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.flags.has(Flags::DIRTY | Flags::FINISHED | Flags::BROKEN | Flags::RATED) {
            if conn.flags.has(Flags::FINISHED | Flags::BROKEN) {
                // Nothing follows a FIN, and nothing arrives after a reset.
                return;
            }
            if conn.flags.has(Flags::RATED) {
                self.unrate(id);
                return self.queue(id, push);
            }
        } else {
            conn.flags.set(Flags::DIRTY);
            self.dirty.push(id.index() as u32);
        }
        if push(&mut conn.queue).is_err() {
            self.counters.send_queue_overflow += 1;
            self.end(id, Closed::Aborted);
        }
    }
}

impl Net for Sockets {
    #[inline]
    fn now(&self) -> Time {
        self.now
    }

    fn connect(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<ConnId, ConnectError> {
        let id = self.open(from, to);
        self.count_connect(id)
    }

    fn connect_unix(&mut self, path: &Path) -> Result<ConnId, ConnectError> {
        let id = self.open_unix(path);
        self.count_connect(id)
    }

    #[inline]
    fn send_body(&mut self, id: ConnId, body: &Body, range: Range<u32>) {
        self.queue(id, |queue| queue.push(body, range.start, range.end.saturating_sub(range.start)));
    }

    #[inline]
    fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        self.queue(id, |queue| queue.push_bytes(bytes));
    }

    fn send_file(&mut self, id: ConnId, file: &Arc<OwnedFd>, range: Range<u64>) -> bool {
        self.queue(id, |queue| {
            queue.push_file(Arc::clone(file), range);
            Ok(())
        });
        true
    }

    fn pass(&mut self, from: ConnId, to: ConnId, len: u64) -> bool {
        // The kernel would pass records on, or have its bytes take the place of records.
        const NEITHER: u32 = Flags::CONNECTING | Flags::BROKEN | Flags::SECURED;
        if !self.passes.can || len == 0 || from == to {
            return false;
        }
        let source = self.table.get(from).is_some_and(|conn| !conn.flags.has(NEITHER | Flags::ENDED | Flags::PASSES));
        let target = self.table.get(to).is_some_and(|conn| !conn.flags.has(NEITHER | Flags::FINISHED | Flags::FED));
        if !source || !target || !self.passes.begin(from, to, len) {
            return false;
        }
        for (id, flag) in [(from, Flags::PASSES), (to, Flags::FED)] {
            if let Some(conn) = self.table.get_mut(id) {
                conn.flags.set(flag);
            }
        }
        self.read_on(from);
        true
    }

    #[inline]
    fn unsent(&self, id: ConnId) -> usize {
        let Some(conn) = self.table.get(id) else { return 0 };
        if conn.flags.has(Flags::SECURED) {
            return self.table.unsent(id);
        }
        let passing = if conn.flags.has(Flags::FED) { self.passes.to(id).map_or(0, |(_, inside)| inside) } else { 0 };
        conn.queue.unsent() + passing
    }

    fn undelivered(&self, id: ConnId) -> usize {
        let inside = self.table.get(id).and_then(|conn| conn.fd()).and_then(kernel_tls::unacknowledged).unwrap_or(0);
        self.unsent(id).saturating_add(usize::try_from(inside).unwrap_or(usize::MAX))
    }

    fn pace(&mut self, id: ConnId, rate: Option<u64>) -> bool {
        // What is slower is for whoever sends by the second.
        if rate.is_some_and(|rate| rate < LEAST_RATE || self.undelivered(id) > 0) {
            return false;
        }
        let all = self.stream.pacing_rate.unwrap_or(u64::MAX);
        let Some(conn) = self.table.get_mut(id).filter(|conn| !conn.flags.has(Flags::UNIX)) else { return false };
        match rate {
            // The kernel has what is on its way, and tells nobody when the last of it leaves.
            None => {
                conn.flags.set(Flags::RATED);
                true
            }
            Some(rate) => {
                conn.flags.clear(Flags::RATED);
                conn.fd().is_some_and(|fd| set_pacing_rate(fd, rate.min(all).max(1)).is_ok())
            }
        }
    }

    fn secure(&mut self, id: ConnId, layer: Box<dyn seal::Layer>) -> bool {
        const NOT: u32 =
            Flags::CONNECTING | Flags::BROKEN | Flags::FINISHED | Flags::PASSES | Flags::FED | Flags::SECURED;
        let now = self.now;
        let Some(conn) = self.table.get_mut(id) else { return false };
        if conn.flags.has(NOT) {
            return false;
        }
        let mut secured = Secured::new(layer, conn.queue.unsent() as u64, now);
        let held = conn.take_held();
        if let Some(held) = &held {
            secured.keep_unopened(held.bytes());
        }
        self.records.prepare();
        self.table.set_secured(id, secured);
        if held.is_some() {
            self.resume(id);
        }
        true
    }

    fn answers_soon(&mut self, id: ConnId) {
        if let Some(conn) = self.table.get_mut(id) {
            conn.flags.clear(Flags::UNHEARD);
        }
    }

    fn send_file_error(&self, id: ConnId) -> Option<SendFileError> {
        self.file_errors.iter().find(|(whose, _)| *whose == id).map(|(_, fault)| *fault)
    }

    fn was_cut(&self, id: ConnId) -> bool {
        self.table.secured(id).is_some_and(Secured::was_cut)
    }

    fn finish(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.flags.has(Flags::FINISHED) {
            return;
        }
        conn.flags.set(Flags::FINISHED);
        self.mark_dirty(id);
    }

    fn close(&mut self, id: ConnId) {
        if let Some(conn) = self.table.get_mut(id) {
            conn.flags.set(Flags::CLOSES);
        }
        self.finish(id);
    }

    fn abort(&mut self, id: ConnId) {
        self.end(id, Closed::Aborted);
    }

    fn set_receiving(&mut self, id: ConnId, how: Receiving) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.flags.clear(Flags::LITTLE | Flags::HOLDS);
        match how {
            Receiving::All => {}
            Receiving::Little => conn.flags.set(Flags::LITTLE),
            Receiving::Nothing => conn.flags.set(Flags::HOLDS),
        }
        if conn.flags.has(Flags::UNREAD) && !conn.is_full() {
            self.go_on(id);
        }
    }

    fn resume(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.flags.clear(Flags::LITTLE | Flags::HOLDS);
        if !conn.flags.has(Flags::RESUMED) {
            conn.flags.set(Flags::RESUMED);
            self.resumed.push(id);
        }
    }

    #[inline]
    fn set_timer(&mut self, id: ConnId, at: Option<Time>) {
        let Some(conn) = self.table.get_mut(id) else { return };
        self.timers.set(id.index() as u32, &mut conn.timer, at);
    }

    fn path_figures(&self, id: ConnId) -> Option<PathFigures> {
        figures::of(self.table.get(id)?.fd()?.as_fd())
    }

    fn peer(&self, id: ConnId) -> Option<SocketAddr> {
        let conn = self.table.get(id)?;
        if let Some(peer) = self.table.peer(id) {
            return Some(peer);
        }
        if conn.flags.has(Flags::UNIX) {
            return None;
        }
        peer_of(conn.fd()?)
    }

    fn local(&self, id: ConnId) -> Option<SocketAddr> {
        self.table.local(id, |fd| rustix::net::getsockname(fd).ok()?.try_into().ok().map(unmapped))
    }

    fn local_unix(&self, id: ConnId) -> Option<u64> {
        let path = unix_path(self.table.get(id)?.fd()?)?;
        Some(app::path_number(&path))
    }
}

/// Who is at the other end, asked of the kernel: a ring's accept does not tell.
pub(crate) fn peer_of(fd: impl AsFd) -> Option<SocketAddr> {
    rustix::net::getpeername(fd).ok()??.try_into().ok().map(unmapped)
}

/// An IPv4 address that came over a dual-stack socket, as what it is
/// (RFC 4291 §2.5.5.2).
pub(crate) fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
