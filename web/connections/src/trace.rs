//! What is told to who traces requests and connections ([`probes`]).
//!
//! The short way asks nobody: once a second it is looked whether somebody traces, and
//! from then on what is plain takes the way of heads that are parsed as a whole.

use crate::beginnings::Beginnings;
use crate::conn::ServedConnection;
use crate::exchanges::{Exchange, Traced};
use app::{Closed, ConnId, Net};
use semantics::{Request, Status};
use wire::Time;

/// What of no response comes to: its client has left.
const LEFT: u16 = 499;

/// A connection's number, as `$connection` has it.
fn number(beginnings: &Beginnings, id: ConnId) -> u64 {
    beginnings.number(id.index())
}

/// Whether somebody traces requests.
pub fn is_on() -> bool {
    probes::request_begin::is_traced() || probes::request_end::is_traced()
}

/// A client connected; so many are open now.
#[inline]
pub fn accepted<N: Net + ?Sized>(net: &N, id: ConnId, beginnings: &Beginnings, open: u64) {
    if probes::connection_accepted::is_traced() {
        let peer = net.peer(id).map(|peer| peer.to_string()).unwrap_or_default();
        probes::connection_accepted::fire(number(beginnings, id), peer.as_bytes(), open);
    }
}

/// A connection is gone.
#[inline]
pub fn closed(beginnings: &Beginnings, conn: &ServedConnection, id: ConnId, why: Closed) {
    if probes::connection_closed::is_traced() {
        let answered = conn.answered();
        probes::connection_closed::fire(number(beginnings, id), answered.into(), u64::from(why == Closed::Finished));
    }
}

/// What was ready was sent.
#[inline(never)]
pub fn ready(beginnings: &Beginnings, id: ConnId, request: &Request<'_>, bytes: u64) {
    let (host, path) = (request.authority(), request.path());
    if probes::request_begin::is_traced() {
        probes::request_begin::fire(number(beginnings, id), host, path);
    }
    if probes::request_end::is_traced() {
        probes::request_end::fire(number(beginnings, id), host, path, Status::OK.code().into(), bytes, 0);
    }
}

/// What is no request was answered.
#[inline]
pub fn refused(beginnings: &Beginnings, id: ConnId, status: Status, bytes: u64) {
    if probes::request_end::is_traced() {
        probes::request_end::fire(number(beginnings, id), b"", b"", status.code().into(), bytes, 0);
    }
}

/// A request goes to its handler. What it asks for is kept, because its head is not.
#[cold]
pub fn begin(beginnings: &Beginnings, exchange: &mut Exchange, id: ConnId, request: &Request<'_>, now: Time) {
    let (host, path) = (request.authority(), request.path());
    if probes::request_begin::is_traced() {
        probes::request_begin::fire(number(beginnings, id), host, path);
    }
    if probes::request_end::is_traced() {
        let began = exchange.began.unwrap_or(now);
        exchange.traced = Some(Box::new(Traced { host: host.into(), path: path.into(), began }));
    }
}

/// It is over: with this response in one piece, or with as much as was sent of the one
/// that was begun.
#[inline]
pub fn end(
    (beginnings, exchange): (&Beginnings, Option<&mut Exchange>),
    id: ConnId,
    now: Time,
    whole: Option<(Status, u64)>,
) {
    if probes::request_end::is_traced() {
        end_traced((beginnings, exchange), id, now, whole);
    }
}

#[cold]
fn end_traced(
    (beginnings, exchange): (&Beginnings, Option<&mut Exchange>),
    id: ConnId,
    now: Time,
    whole: Option<(Status, u64)>,
) {
    let Some(exchange) = exchange else { return };
    // Nobody traced when it began; or it was told.
    let Some(Traced { host, path, began }) = exchange.traced.take().map(|traced| *traced) else { return };
    let (status, bytes) = whole.map_or_else(|| exchange.outcome(), |(status, bytes)| (status.code(), bytes));
    let status = if status == 0 { LEFT } else { status };
    probes::request_end::fire(
        number(beginnings, id),
        &host,
        &path,
        status.into(),
        bytes,
        now.since(began).as_nanos() as u64,
    );
}
