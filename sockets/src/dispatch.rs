//! From what happened to the calls of the application, and from what it asked
//! for to the kernel: the part that engines share.

use crate::connect::reason;
use crate::farewell::{Farewell, Over};
use crate::net::{Sockets, peer_of};
use crate::option;
use crate::sealing;
use crate::secured::{Came, Due};
use crate::send::Sent;
use crate::table::{Flags, Held};
use app::{App, Closed, ConnId, Opened, SEND_LOW_WATER, Wake};
use core::hint::cold_path;
use core::net::IpAddr;
use core::time::Duration;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, socket_error};
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What an engine does for the connections.
pub(crate) trait Driver {
    /// Begins to watch a connection that is new.
    fn watch(&mut self, net: &mut Sockets, id: ConnId) -> io::Result<()>;

    /// Hands what is queued to the kernel, as far as it takes it; whatever
    /// comes of it later is the engine's to go on with.
    fn send(&mut self, net: &mut Sockets, id: ConnId) -> Sent;

    /// Has the kernel tell when a connection has room, of one that passes on what
    /// arrives at another. An engine that cannot pass is not asked.
    fn watch_room(&mut self, net: &mut Sockets, id: ConnId) -> Sent {
        let _ = (net, id);
        Sent::Blocked
    }

    /// Tells no more of a connection's descriptor, which stays open for a while; `flags` is
    /// what the connection had.
    fn leave(&mut self, fd: BorrowedFd<'_>, flags: Flags);

    /// Closes a connection's descriptor; `flags` is what the connection had.
    fn close(&mut self, fd: OwnedFd, flags: Flags);
}

/// How a worker learns of work.
pub(crate) trait Engine {
    /// Its part that acts for the connections.
    type Driver: Driver;

    /// That part.
    fn driver(&mut self) -> &mut Self::Driver;

    /// Goes on with a connection that was stopped, or broke.
    fn go_on<A: App>(&mut self, app: &mut A, net: &mut Sockets, id: ConnId);

    /// Begins with the connections that were accepted in this pass. Returns
    /// whether one could not be watched, for want of memory.
    fn begin<A: App>(&mut self, app: &mut A, net: &mut Sockets) -> bool {
        let _ = (app, net);
        false
    }
}

/// Carries out what the application asked for, tells it what came of it, and
/// goes on so once. What that asks for is left for the next call, so that no
/// connection keeps the others waiting. Returns whether held bytes were
/// offered again.
#[inline]
pub(crate) fn settle<A: App>(app: &mut A, net: &mut Sockets, driver: &mut impl Driver) -> bool {
    if !net.fresh.is_empty() {
        watch_fresh(net, driver);
    }
    let dirty = net.dirty.len();
    for index in 0..dirty {
        let slot = net.dirty[index];
        flush(app, net, driver, slot);
    }
    net.dirty.drain(..dirty);
    let offers = !net.resumed.is_empty();
    if offers {
        offer_resumed(app, net);
    }
    while let Some((slot, why)) = net.over.pop() {
        close(app, net, driver, slot, why);
    }
    offers
}

/// Times that the application is called in one pass, because it went on with a
/// connection since the last call.
const OWN_TURNS: usize = 4;

/// The application's own turn, and what comes of it. Whatever it asks for
/// while it goes on with a connection (a file, say) begins in this pass: its
/// last word on when to wake it comes after that, and after all that it was
/// told of as its connections were seen to ([`App::has_work`]).
#[inline]
pub(crate) fn own_turn<A: App>(app: &mut A, net: &mut Sockets, driver: &mut impl Driver) -> Wake {
    for _ in 0..OWN_TURNS {
        let wake = app.on_turn(net);
        if !settle(app, net, driver) && !app.has_work() {
            return wake;
        }
    }
    Wake::Now
}

/// Sends what a connection has queued.
#[inline]
fn flush<A: App>(app: &mut A, net: &mut Sockets, driver: &mut impl Driver, slot: u32) {
    // The flag belongs to the slot, whose connection may be over.
    let Some(conn) = net.table.slot_mut(slot) else { return };
    conn.flags.clear(Flags::DIRTY);
    let Some(id) = net.table.id(slot) else { return };
    flush_id(app, net, driver, id);
}

/// Sends what `id` has queued, unless it cannot take anything now.
#[inline]
pub(crate) fn flush_id<A: App>(app: &mut A, net: &mut Sockets, driver: &mut impl Driver, id: ConnId) {
    let Some(conn) = net.table.get_mut(id) else { return };
    if conn.flags.has(Flags::BLOCKED | Flags::CONNECTING | Flags::BROKEN) {
        return;
    }
    let secured = conn.flags.has(Flags::SECURED);
    let before = if secured { net.table.unsent(id) } else { conn.queue.unsent() };
    // One that is secured has words of its own: its end, if nothing else.
    let sent = if before == 0 && !secured { Sent::All } else { driver.send(net, id) };
    on_flushed(app, net, id, before, sent);
    if secured {
        tell_worn(app, net, id);
    }
}

/// Tells the application that the connection is to end, where its keys are nearly used up.
fn tell_worn<A: App>(app: &mut A, net: &mut Sockets, id: ConnId) {
    if net.table.secured_mut(id).is_some_and(|(_, secured)| secured.ends_soon()) {
        cold_path();
        app.on_worn(net, id);
    }
}

/// Notes how a queue was left, of which `before` bytes were unsent, and tells
/// the application if there is room again.
#[inline]
pub(crate) fn on_flushed<A: App>(app: &mut A, net: &mut Sockets, id: ConnId, before: usize, sent: Sent) {
    let after = if sent == Sent::All { 0 } else { net.table.unsent(id) };
    let Some(conn) = net.table.get_mut(id) else { return };
    if sent == Sent::All && !conn.flags.has(Flags::FINISHED) && before <= SEND_LOW_WATER && conn.held() == 0 {
        return;
    }
    match sent {
        Sent::All if conn.flags.has(Flags::FINISHED) => finish(net, id),
        Sent::All => {}
        Sent::Blocked => conn.flags.set(Flags::BLOCKED),
        Sent::Spent => net.go_on(id),
        Sent::Truncated(fault) => {
            net.counters.files_truncated += 1;
            net.file_errors.push((id, fault));
            net.end(id, Closed::Aborted);
        }
        Sent::Unsealed => {
            net.counters.records_unsealed += 1;
            net.end(id, Closed::Aborted);
        }
        Sent::Failed(_) => fail(net, id),
    }
    // Told too where bytes are held: what held them back may have been the
    // queue, at a limit of the application's below the mark.
    let held = net.table.get(id).is_some_and(|conn| conn.held() > 0);
    if after < before && after <= SEND_LOW_WATER && (before > SEND_LOW_WATER || held) && net.table.get(id).is_some() {
        app.on_sent(net, id);
    }
}

/// A connection takes nothing any more: nothing is sent, but what arrived
/// before is still delivered, and tells why.
#[cold]
pub(crate) fn fail(net: &mut Sockets, id: ConnId) {
    if let Some(conn) = net.table.get_mut(id) {
        conn.queue.clear();
        conn.flags.set(Flags::BROKEN);
        if let Some((_, secured)) = net.table.secured_mut(id) {
            secured.give_up();
        }
        net.go_on(id);
    }
}

/// Everything is sent, and the application finished: our FIN follows.
fn finish(net: &mut Sockets, id: ConnId) {
    let Some(conn) = net.table.get_mut(id) else { return };
    if conn.flags.has(Flags::SHUT) {
        return;
    }
    conn.flags.set(Flags::SHUT);
    if conn.flags.has(Flags::CLOSES) || conn.flags.has(Flags::ENDED) && conn.held() == 0 {
        // Closing sends it, too.
        net.end(id, Closed::Finished);
    } else if let Some(fd) = conn.fd()
        && shutdown(fd, Shutdown::Write).is_err()
    {
        fail(net, id);
    }
}

fn watch_fresh(net: &mut Sockets, driver: &mut impl Driver) {
    for id in core::mem::take(&mut net.fresh) {
        if net.table.get(id).is_some() && driver.watch(net, id).is_err() {
            net.counters.watch_errors += 1;
            net.end(id, Closed::Aborted);
        }
    }
}

/// Offers held bytes again where the application asked for it, once each.
#[cold]
fn offer_resumed<A: App>(app: &mut A, net: &mut Sockets) {
    for id in core::mem::take(&mut net.resumed) {
        let Some(conn) = net.table.get_mut(id) else { continue };
        conn.flags.clear(Flags::RESUMED);
        // What is passed on is not the application's to take.
        let passes = conn.flags.has(Flags::PASSES);
        if !passes && let Some(held) = conn.take_held() {
            offer(app, net, id, held);
        }
        if net.table.get(id).is_some_and(|conn| conn.flags.has(Flags::SECURED) && !conn.is_full()) {
            deliver_kept(app, net, id);
        }
        let Some(conn) = net.table.get_mut(id) else { continue };
        if conn.flags.has(Flags::UNREAD) && !conn.is_full() {
            net.go_on(id);
        }
        end_if_done(net, id);
    }
}

/// Both sides have said all, and the application has taken it.
#[inline]
fn end_if_done(net: &mut Sockets, id: ConnId) {
    let Some(conn) = net.table.get(id) else { return };
    if conn.flags.has(Flags::SHUT) && conn.flags.has(Flags::ENDED) && conn.held() == 0 {
        net.end(id, Closed::Finished);
    }
}

/// Gives the application what arrived, and keeps what it leaves.
#[inline]
pub(crate) fn deliver<A: App>(app: &mut A, net: &mut Sockets, id: ConnId, data: &[u8]) {
    net.counters.receives += 1;
    net.counters.received_bytes += data.len() as u64;
    let Some(conn) = net.table.get(id) else { return };
    if conn.flags.has(Flags::SECURED) {
        return deliver_records(app, net, id, data);
    }
    deliver_plain(app, net, id, data);
}

/// The same, of bytes that are not counted, or are what was in records.
#[inline]
fn deliver_plain<A: App>(app: &mut A, net: &mut Sockets, id: ConnId, data: &[u8]) {
    let Some(conn) = net.table.get_mut(id) else { return };
    if conn.held() > 0 {
        return deliver_behind(app, net, id, data);
    }
    let first = conn.flags.has(Flags::UNHEARD);
    let secured = conn.flags.has(Flags::SECURED);
    let consumed = app.on_data(net, id, data);
    if consumed < data.len() && keep(net, id, &data[consumed..], secured) {
        // Before what is queued is sent: an answer goes with the last of the handshake.
        deliver_kept(app, net, id);
    }
    if first {
        heard(net, id);
    }
}

/// The first bytes of a connection were offered. Where no answer to them is
/// queued, which would acknowledge them, the kernel is to do it by itself.
fn heard(net: &mut Sockets, id: ConnId) {
    let Some(conn) = net.table.get_mut(id) else { return };
    // Not where one follows soon.
    let was_unheard = conn.flags.has(Flags::UNHEARD);
    conn.flags.clear(Flags::UNHEARD);
    if was_unheard
        && conn.queue.is_empty()
        && !conn.flags.has(Flags::FINISHED)
        && let Some(fd) = conn.fd()
    {
        option::acknowledge_now(fd);
    }
}

/// What arrived goes behind what is held: both are offered in one piece.
#[cold]
fn deliver_behind<A: App>(app: &mut A, net: &mut Sockets, id: ConnId, data: &[u8]) {
    hold(net, id, data);
    let Some(held) = net.table.get_mut(id).and_then(crate::table::Socket::take_held) else { return };
    offer(app, net, id, held);
}

/// Offers held bytes, and keeps what is left of them.
fn offer<A: App>(app: &mut A, net: &mut Sockets, id: ConnId, held: Box<Held>) {
    let secured = net.table.get(id).is_some_and(|conn| conn.flags.has(Flags::SECURED));
    let consumed = app.on_data(net, id, held.bytes()).min(held.bytes().len());
    let Some(conn) = net.table.get_mut(id) else { return };
    if conn.flags.has(Flags::SECURED) == secured {
        conn.put_held(held, consumed);
    } else if keep(net, id, &held.bytes()[consumed..], secured) {
        deliver_kept(app, net, id);
    }
}

/// Keeps what the application left. `secured`: the connection was before the call; one that
/// is since then has records there. Whether there are, which can be opened now.
#[cold]
fn keep(net: &mut Sockets, id: ConnId, bytes: &[u8], secured: bool) -> bool {
    match net.table.secured_mut(id) {
        Some((_, layer)) if !secured => {
            layer.keep_unopened(bytes);
            true
        }
        _ => {
            hold(net, id, bytes);
            false
        }
    }
}

#[cold]
fn hold(net: &mut Sockets, id: ConnId, bytes: &[u8]) {
    if let Some(conn) = net.table.get_mut(id) {
        conn.hold(bytes);
        net.counters.held_bytes += bytes.len() as u64;
    }
}

/// Gives the application what is in the records that arrived.
fn deliver_records<A: App>(app: &mut A, net: &mut Sockets, id: ConnId, data: &[u8]) {
    let mut plain = core::mem::take(&mut net.records.plain);
    plain.clear();
    let (came, asked) = match net.table.secured_mut(id) {
        Some((_, secured)) => {
            let came = secured.open(data, &mut plain);
            (came, secured.due == Due::Update || secured.refuses)
        }
        None => (Came::Plain, false),
    };
    if !plain.is_empty() {
        net.counters.opened_bytes += plain.len() as u64;
        deliver_plain(app, net, id, &plain);
    }
    net.records.plain = plain;
    if asked {
        net.mark_dirty(id);
    }
    match came {
        Came::Plain => {}
        Came::End => ended(app, net, id),
        Came::Failed(alert) => refuse(net, id, alert),
    }
}

/// Opens what arrived before the connection was secured, or was left then.
#[cold]
fn deliver_kept<A: App>(app: &mut A, net: &mut Sockets, id: ConnId) {
    if net.table.secured_mut(id).is_some_and(|(_, secured)| secured.is_amid()) {
        deliver_records(app, net, id, &[]);
    }
}

/// Nothing that follows can be opened: the peer is told why, and the connection is over.
#[cold]
fn refuse(net: &mut Sockets, id: ConnId, alert: Option<u8>) {
    net.counters.records_refused += u64::from(alert.is_some());
    if let Some(alert) = alert
        && let Some((conn, secured)) = net.table.secured_mut(id)
    {
        conn.flags.set(Flags::REFUSED);
        sealing::send_last(conn, secured, &mut net.records, alert);
        conn.queue.clear();
    }
    net.end(id, if alert.is_some() { Closed::Aborted } else { Closed::Reset });
}

/// The peer sends no more.
pub(crate) fn ended<A: App>(app: &mut A, net: &mut Sockets, id: ConnId) {
    let Some(conn) = net.table.get_mut(id) else { return };
    if conn.flags.has(Flags::BROKEN) {
        return net.end(id, Closed::Reset);
    }
    if conn.flags.has(Flags::ENDED) {
        return;
    }
    conn.flags.set(Flags::ENDED);
    let held = conn.held();
    if conn.flags.has(Flags::SECURED)
        && let Some((_, secured)) = net.table.secured_mut(id)
    {
        secured.on_fin();
    }
    app.on_end(net, id, held);
    end_if_done(net, id);
}

/// Receiving failed: the connection is over.
#[cold]
pub(crate) fn failed(net: &mut Sockets, id: ConnId, e: Errno) {
    net.end(id, reason(e));
}

/// The outcome of a connect is there.
pub(crate) fn connected<A: App>(app: &mut A, net: &mut Sockets, id: ConnId) {
    let Some(conn) = net.table.get_mut(id) else { return };
    let outcome = match conn.fd() {
        Some(fd) => socket_error(fd).unwrap_or_else(Err),
        None => return,
    };
    match outcome {
        Ok(()) => {
            conn.flags.clear(Flags::CONNECTING);
            net.counters.connected += 1;
            app.on_open(net, id, Opened::Connected);
        }
        Err(e) => {
            net.counters.connects_failed += 1;
            net.end(id, reason(e));
        }
    }
}

/// Application timers that ran out; of many, those beyond a bound wait for the
/// next pass.
#[inline]
pub(crate) fn run_timers<A: App>(app: &mut A, net: &mut Sockets, driver: &mut impl Driver) {
    let Some(all) = net.timers.come_up(net.now) else { return };
    for &due in &all {
        let Some(conn) = net.table.slot_mut(due.slot) else { continue };
        if net.timers.claim(due, &mut conn.timer)
            && let Some(id) = net.table.id(due.slot)
        {
            net.counters.timers += 1;
            app.on_timer(net, id);
            settle(app, net, driver);
        }
    }
    net.timers.put_back(all);
}

/// Closes what is over, and tells the application, for the last time.
#[cold]
fn close<A: App>(app: &mut A, net: &mut Sockets, driver: &mut impl Driver, slot: u32, why: Closed) {
    let Some(conn) = net.table.slot_mut(slot) else { return };
    let (connecting, unix) = (conn.flags.has(Flags::CONNECTING), conn.flags.has(Flags::UNIX));
    let flags = conn.flags;
    if flags.has(Flags::PASSES | Flags::FED) {
        let id = ConnId::new(slot, conn.generation());
        net.leave_passes(id);
    }
    net.counters.kernel_tls_open -= u64::from(net.table.is_sealed_by_kernel(slot));
    let Some((id, fd)) = net.table.vacate(slot) else { return };
    net.counters.closed += 1;
    let client = net.table.peer_at(slot).map(|peer| peer.ip());
    net.finished(flags.has(Flags::SEATED));
    if flags.has(Flags::REFUSED) {
        // A reset would take the alert back from the peer, and a close may be one.
        bid_farewell(net, driver, fd, flags, client);
        app.on_close(net, id, why);
        return net.table.release(slot);
    }
    count_out(net, flags, client);
    if why == Closed::Reset {
        net.counters.resets_received += u64::from(!connecting);
    }
    // Where our FIN follows all that was queued, nothing is missing: the kernel goes on delivering what its
    // peer has not taken, which a reset would take back (RFC 9112 §9.6).
    let is_whole = flags.has(Flags::SHUT);
    if why == Closed::Aborted && !unix && !connecting && !is_whole {
        // With nothing to linger for, closing resets (RFC 9293 §3.10.5,
        // socket(7)).
        net.counters.resets_sent += 1;
        let _ = set_socket_linger(fd.as_fd(), Some(Duration::ZERO));
    }
    driver.close(fd, flags);
    app.on_close(net, id, why);
    if !net.file_errors.is_empty() {
        net.file_errors.retain(|(whose, _)| *whose != id);
    }
    net.table.release(slot);
}

/// A connection counts no more among its client's.
fn count_out(net: &mut Sockets, flags: Flags, client: Option<IpAddr>) {
    if flags.has(Flags::COUNTED)
        && let Some(client) = client
    {
        net.sources.closed(client);
    }
}

/// Its peer was told why this is its end, and is given time to read that.
#[cold]
fn bid_farewell(net: &mut Sockets, driver: &mut impl Driver, fd: OwnedFd, flags: Flags, client: Option<IpAddr>) {
    let client = client.or_else(|| peer_of(&fd).map(|peer| peer.ip()));
    driver.leave(fd.as_fd(), flags);
    match net.farewells.begin(Farewell { fd, flags, client }, net.now, net.table.limit()) {
        Ok(()) => net.counters.farewells += 1,
        Err(one) => end_farewell(net, driver, one),
    }
    crowd_farewells(net, driver);
}

/// Together with the connections there are no more than descriptors.
#[cold]
pub(crate) fn crowd_farewells(net: &mut Sockets, driver: &mut impl Driver) {
    while let Some(oldest) = net.farewells.give_way(net.table.room(), net.table.limit()) {
        net.counters.farewells_cut += 1;
        end_farewell(net, driver, oldest);
    }
}

/// Ends those that are over.
#[cold]
pub(crate) fn look_at_farewells(net: &mut Sockets, driver: &mut impl Driver) {
    for Over { one, cut } in net.farewells.look(net.now) {
        net.counters.farewells_cut += u64::from(cut);
        end_farewell(net, driver, one);
    }
}

/// Until now it counted among its client's connections.
fn end_farewell(net: &mut Sockets, driver: &mut impl Driver, one: Farewell) {
    count_out(net, one.flags, one.client);
    driver.close(one.fd, one.flags);
}
