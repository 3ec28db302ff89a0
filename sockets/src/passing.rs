//! Passes bytes of one connection on to another.

use crate::dispatch::{self, Driver};
use crate::net::Sockets;
use crate::send::Sent;
use crate::table::Flags;
use app::{App, ConnId};
use rustix::io::Errno;

/// Where it stopped.
enum Stop {
    /// All were passed on: what follows is the application's.
    Over,
    /// Nothing more arrived.
    Empty,
    /// The other side has no room, and tells when it has.
    Blocked,
    /// Others have their turn.
    Spent,
    /// The peer sends no more.
    Ended,
    /// The connection broke.
    Failed(Errno),
    /// The other side did.
    Refused,
}

/// Passes on what arrived at `id`, and tells the application how many bytes that were.
#[cold]
pub(crate) fn go<A: App>(app: &mut A, net: &mut Sockets, driver: &mut impl Driver, id: ConnId) {
    let mut passed = 0;
    let stop = pass_some(net, driver, id, &mut passed);
    let other = net.passes.of(id).map(|pass| pass.to);
    if matches!(stop, Stop::Over | Stop::Ended) {
        net.end_pass(id);
    }
    if passed > 0 {
        net.counters.passed_bytes += passed;
        app.on_passed(net, id, passed);
    }
    match stop {
        Stop::Over | Stop::Spent => net.read_on(id),
        Stop::Empty => {
            if let Some(conn) = net.table.get_mut(id) {
                conn.flags.clear(Flags::UNREAD);
                if conn.flags.has(Flags::BROKEN) {
                    net.end(id, app::Closed::Reset);
                }
            }
        }
        Stop::Blocked => {}
        Stop::Ended => dispatch::ended(app, net, id),
        Stop::Failed(e) => dispatch::failed(net, id, e),
        Stop::Refused => other.into_iter().for_each(|other| dispatch::fail(net, other)),
    }
}

fn pass_some(net: &mut Sockets, driver: &mut impl Driver, id: ConnId, passed: &mut u64) -> Stop {
    let budget = net.send_budget as u64;
    hand_held_on(net, id, passed);
    loop {
        let Some(pass) = net.passes.of(id) else { return Stop::Over };
        let (Some(from), Some(to)) = (net.table.get(id), net.table.get(pass.to)) else { return Stop::Over };
        if to.flags.has(Flags::BROKEN) {
            // The application hears of that first.
            return Stop::Empty;
        }
        if to.flags.has(Flags::BLOCKED | Flags::CONNECTING) {
            return Stop::Blocked;
        }
        if !to.queue.is_empty() {
            // It is sent before anybody comes here again.
            return Stop::Spent;
        }
        let (Some(from), Some(to_fd)) = (from.fd(), to.fd()) else { return Stop::Over };
        if pass.pipe.inside() > 0 {
            net.counters.sends += 1;
            match pass.pipe.empty(to_fd) {
                Ok(given) => {
                    *passed += given as u64;
                    net.counters.sent_bytes += given as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    net.counters.sends_short += 1;
                    let to = pass.to;
                    return wait_for_room(net, driver, to);
                }
                Err(_) => return Stop::Refused,
            }
            continue;
        }
        if pass.left == 0 {
            return Stop::Over;
        }
        if *passed >= budget {
            return Stop::Spent;
        }
        match pass.pipe.fill(from, pass.left) {
            Ok(0) => return Stop::Ended,
            Ok(taken) => {
                pass.left -= taken as u64;
                net.counters.receives += 1;
                net.counters.received_bytes += taken as u64;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                net.counters.receives_empty += 1;
                return Stop::Empty;
            }
            Err(e) => return Stop::Failed(e),
        }
    }
}

/// What the application left untaken goes first.
fn hand_held_on(net: &mut Sockets, id: ConnId, passed: &mut u64) {
    let Some(held) = net.table.get_mut(id).and_then(crate::table::Socket::take_held) else { return };
    let mut taken = 0;
    if let Some(pass) = net.passes.of(id) {
        taken = usize::try_from(pass.left).unwrap_or(usize::MAX).min(held.bytes().len());
        pass.left -= taken as u64;
        *passed += taken as u64;
        let to = pass.to;
        app::Net::send_bytes(net, to, &held.bytes()[..taken]);
    }
    if let Some(conn) = net.table.get_mut(id) {
        conn.put_held(held, taken);
    }
}

fn wait_for_room(net: &mut Sockets, driver: &mut impl Driver, to: ConnId) -> Stop {
    match driver.watch_room(net, to) {
        Sent::Failed(_) => Stop::Refused,
        _ => {
            if let Some(conn) = net.table.get_mut(to) {
                conn.flags.set(Flags::BLOCKED);
            }
            Stop::Blocked
        }
    }
}
