//! Two [`Net`]s as one: a silo's own stack, and kernel sockets beside it.
//!
//! [`Composite`] is an [`App`] for the silo, and gives the application that it
//! holds a [`CompositeNet`]. Neither the silo nor the application knows of it: an
//! application over both is the same as over one, and a silo without it is built
//! as ever.
//!
//! The kernel's connections have the slots from 0 on, as many as they can ever
//! be, and those of the stack follow: an application's table that is indexed by
//! slot is longer by the kernel's part, which is small, and not by the stack's.

use crate::half::KernelHalf;
use crate::net::Sockets;
use crate::routes::{ConnectBy, ConnectRoutes};
use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened, PathFigures, Receiving, SendFileError, Wake};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use wire::Time;

/// An application over a silo's stack and over kernel sockets at once.
///
/// Call order: [`KernelHalf::new`] and this on the silo's thread; the silo does
/// the rest. What wakes the silo has [`Composite::half`]'s descriptor among it.
#[derive(Debug)]
pub struct Composite<A> {
    /// The application.
    pub app: A,
    half: KernelHalf,
    routes: ConnectRoutes,
}

/// Both during a call to the application. `S` is the silo's own, and `K` the
/// kernel's.
#[derive(Debug)]
pub struct CompositeNet<'a, S, K> {
    own: &'a mut S,
    kernel: &'a mut K,
    routes: &'a mut ConnectRoutes,
    /// Slots before those of the silo's own connections.
    before: u32,
}

/// The application as the kernel's connections see it.
struct Bridge<'a, A, S> {
    app: &'a mut A,
    own: &'a mut S,
    routes: &'a mut ConnectRoutes,
    before: u32,
}

impl<A: App> Composite<A> {
    /// Has `app` served by `half`, too; `routes` says what is connected to
    /// by which.
    #[must_use]
    pub const fn new(app: A, half: KernelHalf, routes: ConnectRoutes) -> Self {
        Self { app, half, routes }
    }

    /// The connections on kernel sockets.
    #[must_use]
    pub const fn half(&self) -> &KernelHalf {
        &self.half
    }

    /// The same, to stop listening, or for another limit.
    pub const fn half_mut(&mut self) -> &mut KernelHalf {
        &mut self.half
    }

    /// The application, and what it acts through, outside of a turn; `own` is the
    /// silo's stack.
    pub fn with<S: Net, R>(
        &mut self,
        own: &mut S,
        act: impl FnOnce(&mut A, &mut CompositeNet<'_, S, Sockets>) -> R,
    ) -> R {
        let done = self.call(own, act);
        self.settle(own);
        done
    }

    /// Ends every connection on kernel sockets; the application hears of it.
    pub fn end_all<S: Net>(&mut self, own: &mut S) {
        let (mut bridge, half) = self.parts(own);
        half.end_all(&mut bridge);
    }

    #[inline(always)]
    fn call<S: Net, R>(&mut self, own: &mut S, act: impl FnOnce(&mut A, &mut CompositeNet<'_, S, Sockets>) -> R) -> R {
        let Self { app, half, routes } = self;
        let before = half.slots();
        act(app, &mut CompositeNet { own, kernel: &mut half.net, routes, before })
    }

    fn settle<S: Net>(&mut self, own: &mut S) {
        let (mut bridge, half) = self.parts(own);
        half.settle(&mut bridge);
    }

    fn parts<'a, S: Net>(&'a mut self, own: &'a mut S) -> (Bridge<'a, A, S>, &'a mut KernelHalf) {
        let Self { app, half, routes } = self;
        (Bridge { app, own, routes, before: half.slots() }, half)
    }

    /// An id of the silo's own, as the application has it.
    #[inline]
    const fn upward(&self, id: ConnId) -> ConnId {
        upward(id, self.half.slots())
    }
}

#[inline]
const fn upward(id: ConnId, before: u32) -> ConnId {
    ConnId::new(id.index() as u32 + before, id.generation())
}

/// The silo's own connections.
impl<A: App> App for Composite<A> {
    #[inline]
    fn answers_later(&self, id: ConnId) -> bool {
        self.app.answers_later(self.upward(id))
    }

    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        let id = self.upward(id);
        self.call(net, |app, net| app.on_open(net, id, how));
    }

    #[inline(always)]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let id = self.upward(id);
        self.call(net, |app, net| app.on_data(net, id, data))
    }

    fn on_passed<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: u64) {
        let id = self.upward(id);
        self.call(net, |app, net| app.on_passed(net, id, bytes));
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let id = self.upward(id);
        self.call(net, |app, net| app.on_end(net, id, held));
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let id = self.upward(id);
        self.call(net, |app, net| app.on_sent(net, id));
    }

    fn on_worn<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let id = self.upward(id);
        self.call(net, |app, net| app.on_worn(net, id));
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let id = self.upward(id);
        self.call(net, |app, net| app.on_timer(net, id));
    }

    /// The silo's last call in a turn: what it has the kernel's connections do is
    /// not left to the next, which may be far.
    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let id = self.upward(id);
        self.with(net, |app, net| app.on_close(net, id, why));
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        let (mut bridge, half) = self.parts(net);
        half.pass(&mut bridge, now)
    }

    #[inline]
    fn on_turn_over(&mut self, now: Time) {
        self.app.on_turn_over(now);
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.app.has_work()
    }

    #[inline]
    fn warm(&self, id: ConnId) -> u64 {
        self.app.warm(self.upward(id))
    }

    #[inline]
    fn working(&self) -> u32 {
        self.app.working()
    }

    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        self.app.idle(self.upward(id), now)
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.with(net, |app, net| app.drain(net)) && self.half.connections() == 0
    }
}

impl<A, S> Bridge<'_, A, S> {
    fn call<K, R>(&mut self, kernel: &mut K, act: impl FnOnce(&mut A, &mut CompositeNet<'_, S, K>) -> R) -> R {
        let Self { app, own, routes, before } = self;
        act(app, &mut CompositeNet { own, kernel, routes, before: *before })
    }
}

/// The kernel's connections, whose ids are the application's.
impl<A: App, S: Net> App for Bridge<'_, A, S> {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        self.call(net, |app, net| app.on_open(net, id, how));
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        self.call(net, |app, net| app.on_data(net, id, data))
    }

    fn on_passed<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: u64) {
        self.call(net, |app, net| app.on_passed(net, id, bytes));
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.call(net, |app, net| app.on_end(net, id, held));
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.call(net, |app, net| app.on_sent(net, id));
    }

    fn on_worn<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.call(net, |app, net| app.on_worn(net, id));
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.call(net, |app, net| app.on_timer(net, id));
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.call(net, |app, net| app.on_close(net, id, why));
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        self.call(net, |app, net| app.on_turn(net))
    }

    fn has_work(&self) -> bool {
        self.app.has_work()
    }

    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        self.app.idle(id, now)
    }
}

/// Whose a connection is.
enum Side {
    /// The kernel's, with the same id.
    Kernel,
    /// The silo's own, with its id there.
    Own(ConnId),
}

impl<S: Net, K: Net> CompositeNet<'_, S, K> {
    #[inline(always)]
    const fn side(&self, id: ConnId) -> Side {
        match (id.index() as u32).checked_sub(self.before) {
            Some(slot) => Side::Own(ConnId::new(slot, id.generation())),
            None => Side::Kernel,
        }
    }
}

impl<S: Net, K: Net> Net for CompositeNet<'_, S, K> {
    #[inline]
    fn now(&self) -> Time {
        self.own.now()
    }

    fn connect(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<ConnId, ConnectError> {
        let way = self.routes.way(from, to, self.own.now());
        if way != Some(ConnectBy::Kernel) {
            match self.own.connect(from, to) {
                Err(ConnectError::NoRoute) if way.is_none() => {}
                outcome => return outcome.map(|id| upward(id, self.before)),
            }
        }
        self.kernel.connect(from, to)
    }

    fn connect_unix(&mut self, path: &Path) -> Result<ConnId, ConnectError> {
        self.kernel.connect_unix(path)
    }

    fn path_figures(&self, id: ConnId) -> Option<PathFigures> {
        match self.side(id) {
            Side::Own(id) => self.own.path_figures(id),
            Side::Kernel => self.kernel.path_figures(id),
        }
    }

    #[inline]
    fn send_body(&mut self, id: ConnId, body: &Body, range: Range<u32>) {
        match self.side(id) {
            Side::Own(id) => self.own.send_body(id, body, range),
            Side::Kernel => self.kernel.send_body(id, body, range),
        }
    }

    #[inline]
    fn reply(&mut self, id: ConnId, body: &Body, limit: usize) -> bool {
        match self.side(id) {
            Side::Own(id) => self.own.reply(id, body, limit),
            Side::Kernel => self.kernel.reply(id, body, limit),
        }
    }

    #[inline]
    fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        match self.side(id) {
            Side::Own(id) => self.own.send_bytes(id, bytes),
            Side::Kernel => self.kernel.send_bytes(id, bytes),
        }
    }

    #[inline]
    fn send_file(&mut self, id: ConnId, file: &Arc<OwnedFd>, range: Range<u64>) -> bool {
        match self.side(id) {
            Side::Own(id) => self.own.send_file(id, file, range),
            Side::Kernel => self.kernel.send_file(id, file, range),
        }
    }

    fn pass(&mut self, from: ConnId, to: ConnId, len: u64) -> bool {
        match (self.side(from), self.side(to)) {
            (Side::Kernel, Side::Kernel) => self.kernel.pass(from, to, len),
            (Side::Own(from), Side::Own(to)) => self.own.pass(from, to, len),
            _ => false,
        }
    }

    fn secure(&mut self, id: ConnId, layer: Box<dyn seal::Layer>) -> bool {
        match self.side(id) {
            Side::Own(id) => self.own.secure(id, layer),
            Side::Kernel => self.kernel.secure(id, layer),
        }
    }

    fn send_file_error(&self, id: ConnId) -> Option<SendFileError> {
        match self.side(id) {
            Side::Own(id) => self.own.send_file_error(id),
            Side::Kernel => self.kernel.send_file_error(id),
        }
    }

    fn was_cut(&self, id: ConnId) -> bool {
        match self.side(id) {
            Side::Own(id) => self.own.was_cut(id),
            Side::Kernel => self.kernel.was_cut(id),
        }
    }

    fn answers_soon(&mut self, id: ConnId) {
        match self.side(id) {
            Side::Own(id) => self.own.answers_soon(id),
            Side::Kernel => self.kernel.answers_soon(id),
        }
    }

    fn was_broken(&self, id: ConnId) -> bool {
        match self.side(id) {
            Side::Own(id) => self.own.was_broken(id),
            Side::Kernel => self.kernel.was_broken(id),
        }
    }

    #[inline]
    fn take_back(&mut self, id: ConnId, most: usize) -> usize {
        match self.side(id) {
            Side::Own(id) => self.own.take_back(id, most),
            Side::Kernel => self.kernel.take_back(id, most),
        }
    }

    #[inline]
    fn unsent(&self, id: ConnId) -> usize {
        match self.side(id) {
            Side::Own(id) => self.own.unsent(id),
            Side::Kernel => self.kernel.unsent(id),
        }
    }

    fn undelivered(&self, id: ConnId) -> usize {
        match self.side(id) {
            Side::Own(id) => self.own.undelivered(id),
            Side::Kernel => self.kernel.undelivered(id),
        }
    }

    #[inline]
    fn finish(&mut self, id: ConnId) {
        match self.side(id) {
            Side::Own(id) => self.own.finish(id),
            Side::Kernel => self.kernel.finish(id),
        }
    }

    #[inline]
    fn close(&mut self, id: ConnId) {
        match self.side(id) {
            Side::Own(id) => self.own.close(id),
            Side::Kernel => self.kernel.close(id),
        }
    }

    fn abort(&mut self, id: ConnId) {
        match self.side(id) {
            Side::Own(id) => self.own.abort(id),
            Side::Kernel => self.kernel.abort(id),
        }
    }

    fn resume(&mut self, id: ConnId) {
        match self.side(id) {
            Side::Own(id) => self.own.resume(id),
            Side::Kernel => self.kernel.resume(id),
        }
    }

    fn set_receiving(&mut self, id: ConnId, how: Receiving) {
        match self.side(id) {
            Side::Own(id) => self.own.set_receiving(id, how),
            Side::Kernel => self.kernel.set_receiving(id, how),
        }
    }

    fn pace(&mut self, id: ConnId, rate: Option<u64>) -> bool {
        match self.side(id) {
            Side::Own(id) => self.own.pace(id, rate),
            Side::Kernel => self.kernel.pace(id, rate),
        }
    }

    #[inline]
    fn set_timer(&mut self, id: ConnId, at: Option<Time>) {
        match self.side(id) {
            Side::Own(id) => self.own.set_timer(id, at),
            Side::Kernel => self.kernel.set_timer(id, at),
        }
    }

    #[inline]
    fn shares_frames(&self) -> bool {
        self.own.shares_frames()
    }

    fn peer(&self, id: ConnId) -> Option<SocketAddr> {
        match self.side(id) {
            Side::Own(id) => self.own.peer(id),
            Side::Kernel => self.kernel.peer(id),
        }
    }

    fn local(&self, id: ConnId) -> Option<SocketAddr> {
        match self.side(id) {
            Side::Own(id) => self.own.local(id),
            Side::Kernel => self.kernel.local(id),
        }
    }

    fn local_unix(&self, id: ConnId) -> Option<u64> {
        match self.side(id) {
            Side::Own(id) => self.own.local_unix(id),
            Side::Kernel => self.kernel.local_unix(id),
        }
    }
}
