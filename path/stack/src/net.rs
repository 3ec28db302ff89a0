//! What applications ask of the stack.

use crate::segments::Migrant;
use crate::stack::Stack;
use app::{Body, ConnId, ConnectError, Net, PathFigures, Unreachable};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use tcp::{ReceiveBuffer, SocketOptions};
use wire::Time;

impl Net for Stack {
    #[inline]
    fn now(&self) -> Time {
        self.tcp.now()
    }

    fn connect(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<ConnId, ConnectError> {
        self.open(from, to)
    }

    #[inline(always)]
    fn send_body(&mut self, id: ConnId, body: &Body, range: Range<u32>) {
        self.tcp.send_body(id, body, range);
    }

    #[inline(always)]
    fn reply(&mut self, id: ConnId, body: &Body, limit: usize) -> bool {
        self.tcp.reply(id, body, limit)
    }

    fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        self.tcp.send_bytes(id, bytes);
    }

    fn take_back(&mut self, id: ConnId, most: usize) -> usize {
        self.tcp.take_back(id, most)
    }

    #[inline]
    fn unsent(&self, id: ConnId) -> usize {
        self.tcp.unsent(id)
    }

    #[inline]
    fn shares_frames(&self) -> bool {
        self.config.shared_frames
    }

    fn finish(&mut self, id: ConnId) {
        self.tcp.finish(id);
    }

    fn abort(&mut self, id: ConnId) {
        self.tcp.abort(id);
    }

    fn resume(&mut self, id: ConnId) {
        self.tcp.resume(id);
    }

    #[inline]
    fn set_timer(&mut self, id: ConnId, at: Option<Time>) {
        self.tcp.set_timer(id, at);
    }

    fn pace(&mut self, id: ConnId, rate: Option<u64>) -> bool {
        (rate.is_none() || self.tcp.unsent(id) == 0) && self.tcp.set_rate(id, rate)
    }

    fn path_figures(&self, id: ConnId) -> Option<PathFigures> {
        let info = self.tcp.slots().get(id)?.tcp.info();
        Some(PathFigures {
            rtt_us: info.srtt_us,
            rttvar_us: info.rttvar_us,
            cwnd: info.cwnd / u32::from(info.mss).max(1),
            receive_space: info.rcv_wnd,
        })
    }

    fn secure(&mut self, id: ConnId, layer: Box<dyn seal::Layer>) -> bool {
        self.tcp.secure(id, layer)
    }

    fn was_cut(&self, id: ConnId) -> bool {
        self.tcp.was_cut(id)
    }

    fn was_broken(&self, id: ConnId) -> bool {
        self.tcp.was_broken(id)
    }

    fn peer(&self, id: ConnId) -> Option<SocketAddr> {
        let flow = self.tcp.slots().get(id)?.flow();
        Some(SocketAddr::new(flow.remote(), flow.remote_port))
    }

    fn local(&self, id: ConnId) -> Option<SocketAddr> {
        let flow = self.tcp.slots().get(id)?.flow();
        Some(SocketAddr::new(self.ip.addresses.get(flow.local)?, flow.local_port))
    }
}

impl Stack {
    /// What another stack with the same addresses, secrets and clock must know of a connection to go
    /// on with it. `None` where something is under way on it, so that it has to stay.
    #[must_use]
    pub fn migrant(&self, id: ConnId) -> Option<Migrant> {
        self.tcp.migrant(&self.ip, id)
    }

    /// Forgets a connection that another stack goes on with. The peer hears nothing of it, and the
    /// application is not told.
    pub fn emigrate(&mut self, id: ConnId) {
        self.tcp.emigrate(&mut self.ip, id);
    }

    /// Goes on with another stack's connection, as with one that was accepted: what came there and
    /// was not read is not told here. `None` where it cannot.
    pub fn immigrate(&mut self, migrant: &Migrant) -> Option<ConnId> {
        self.tcp.immigrate(&mut self.ip, migrant)
    }

    /// Queues what `fill` appends to what it is given, `len` bytes or about as many, in one piece,
    /// if nothing is unsent on the connection and that is little. Whether it is queued: else there is
    /// [`Net::send_bytes`], which is asked for each piece, after [`Net::unsent`].
    #[inline(always)]
    pub fn send_first(&mut self, id: ConnId, len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.tcp.send_first(id, len, fill)
    }

    /// Starts a connection from the local address `from` (the default one of
    /// the family if `None`).
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn open(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<ConnId, ConnectError> {
        self.open_from(from, 0, to)
    }

    /// The same from this local port, unless it is 0; whether answers to it come back to this
    /// silo is not looked at.
    ///
    /// # Errors
    /// See [`ConnectError`]: `NoPort` where a connection to this peer has it.
    pub fn open_from(&mut self, from: Option<IpAddr>, port: u16, to: SocketAddr) -> Result<ConnId, ConnectError> {
        self.tcp.open(&mut self.ip, from, port, to)
    }

    /// Whether a connection's small segments wait for acknowledgements; new
    /// connections do as [`tcp::Config::nagle`] says.
    pub fn set_nagle(&mut self, id: ConnId, on: bool) {
        self.tcp.set_nagle(id, on);
    }

    /// The options of a connection that is there.
    #[must_use]
    pub fn options(&self, id: ConnId) -> Option<SocketOptions> {
        self.tcp.options(id)
    }

    /// What the network last said of a connection's peer, that it cannot be
    /// reached, if the peer has acknowledged nothing since; said once.
    pub fn take_unreachable(&mut self, id: ConnId) -> Option<Unreachable> {
        self.tcp.take_unreachable(id)
    }

    /// Sets a connection's options, in the turn of [`Net::connect`] where they
    /// are to count for its SYN.
    pub fn set_options(&mut self, id: ConnId, options: SocketOptions) {
        self.tcp.set_options(id, options);
    }

    /// Sets the options of the listener on a port, which count for its SYN,ACKs
    /// and for the connections that it accepts from now on.
    pub fn set_listener_options(&mut self, port: u16, options: SocketOptions) {
        self.tcp.set_listener_options(port, options);
    }

    /// Whether a connection's segments that are not full wait until this is
    /// taken back (`TCP_CORK`).
    pub fn set_cork(&mut self, id: ConnId, on: bool) {
        self.tcp.set_cork(id, on);
    }

    /// Whether more follows what is queued next on a connection (`MSG_MORE`).
    pub fn set_more(&mut self, id: ConnId, on: bool) {
        self.tcp.set_more(id, on);
    }

    /// Keeps in-order bytes of an arrival that the application did not
    /// consume.
    pub fn hold(&mut self, id: ConnId, bytes: &[u8]) {
        self.tcp.hold(id, bytes);
    }

    /// Takes a connection's held bytes out, so that the application can be
    /// called with them; give them back by [`Stack::put_held`] before others
    /// are taken.
    pub fn take_held(&mut self, id: ConnId) -> Option<ReceiveBuffer> {
        self.tcp.take_held(id)
    }

    /// Gives a connection's held bytes back: what the application did not take of them.
    /// `took` says whether it took any.
    pub fn put_held(&mut self, id: ConnId, held: ReceiveBuffer, took: bool) {
        self.tcp.put_held(id, held, took);
    }

    /// Whether a connection is secured: then what arrived for it are records.
    #[inline]
    #[must_use]
    pub fn is_sealed(&self, id: ConnId) -> bool {
        self.tcp.is_sealed(id)
    }

    /// Room for the plaintext of what arrived; give it back by [`Stack::put_plain`].
    #[inline]
    #[must_use]
    pub fn take_plain(&mut self) -> Vec<u8> {
        self.tcp.take_plain()
    }

    /// Gives back what [`Stack::take_plain`] gave.
    #[inline]
    pub fn put_plain(&mut self, plain: Vec<u8>) {
        self.tcp.put_plain(plain);
    }

    /// Opens the whole records that stand first in what arrived for a secured connection, and
    /// appends their plaintext. Returns how many bytes were taken; the others are of a record
    /// that is not all there. Then ask [`Stack::take_end`].
    #[inline(always)]
    pub fn open_records(&mut self, id: ConnId, input: &[u8], plain: &mut Vec<u8>) -> usize {
        self.tcp.open_records(id, input, plain)
    }

    /// Keeps plaintext that the application did not consume, and bytes of a record that is not
    /// all there.
    pub fn hold_opened(&mut self, id: ConnId, plain: &[u8], sealed: &[u8]) {
        self.tcp.hold_opened(id, plain, sealed);
    }

    /// A secured connection's peer has sent its FIN.
    pub fn end_sealed(&mut self, id: ConnId) {
        self.tcp.end_sealed(id);
    }

    /// Whether a secured connection's peer has ended, by whatever means, or its keys are nearly
    /// used up.
    #[inline]
    #[must_use]
    pub fn has_news(&self, id: ConnId) -> bool {
        self.tcp.has_news(id)
    }

    /// Whether the application is to be told that what secures the connection is nearly used up,
    /// and cannot be made anew; said once.
    #[must_use]
    pub fn take_worn(&mut self, id: ConnId) -> bool {
        self.tcp.take_worn(id)
    }

    /// Whether the application of a secured connection is to be told that the peer sends no
    /// more; said once.
    #[must_use]
    pub fn take_end(&mut self, id: ConnId) -> bool {
        self.tcp.take_end(id)
    }

    /// Bytes that were sent of a secured connection's records, and bytes that were sealed for
    /// that.
    #[must_use]
    pub fn sealing(&self, id: ConnId) -> (u64, u64) {
        self.tcp.slots().get(id).map_or((0, 0), |slot| slot.tcp.sealing())
    }

    /// In-order bytes that the application left unconsumed.
    #[must_use]
    pub fn held(&self, id: ConnId) -> usize {
        self.tcp.held(id)
    }

    /// Whether what arrived for this connection is still the application's:
    /// it was neither reset nor aborted.
    #[inline]
    #[must_use]
    pub fn is_live(&self, id: ConnId) -> bool {
        self.tcp.is_live(id)
    }

    /// Connections that wait in [`Stack::poll_resumed`].
    #[must_use]
    pub fn resumed_len(&self) -> usize {
        self.tcp.resumed_len()
    }

    /// The next connection whose held bytes the application asked for.
    pub fn poll_resumed(&mut self) -> Option<ConnId> {
        self.tcp.poll_resumed()
    }
}
