//! What proxies say before a connection's first request (PROXY protocol).

use crate::Server;
use app::{ConnId, Net};
use connections::{PARTIAL, State};
use exchange::{BadProxyHeader, ConnectionFault, ExchangeId, Handler, LocalAddress, PROXY_HEADER_MAX, ProxyHeader};
use http1::H1Replies;

impl<H: Handler> Server<H> {
    /// Reads the header that a connection begins with. Returns the bytes consumed, or
    /// `None` if there is more to come. The time that its client has for the head of
    /// its request has begun when it connected.
    pub(crate) fn on_proxy_header<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> Option<usize> {
        // It may lie where the peer still writes to.
        let mut head = core::mem::take(&mut self.head);
        head.clear();
        head.extend_from_slice(bytes.get(..bytes.len().min(PROXY_HEADER_MAX)).unwrap_or_default());
        let read = ProxyHeader::read(&head);
        if read.is_err() {
            let told = |handler: &mut H, replies: &mut H1Replies<'_, N>, exchange: ExchangeId| {
                handler.on_fault(replies, exchange, ConnectionFault::ProxyHeader(&head));
            };
            self.h1.tell(net, id, Some(id), told);
        }
        self.head = head;
        let conn = &mut self.h1.connections.conns[id.index()];
        match read {
            Ok(ProxyHeader::Partial) => {
                if !bytes.is_empty() {
                    conn.flags |= PARTIAL;
                }
                None
            }
            Ok(ProxyHeader::Whole(length, told)) => {
                conn.flags &= !PARTIAL;
                conn.state = State::Ready;
                if told.is_some() {
                    conn.more().proxied = told;
                }
                let opening = self.listeners.opening(|| LocalAddress::of(net, id));
                if opening.is_some_and(|opening| opening.tls.is_some()) {
                    self.h1.connections.conns[id.index()].state = State::Handshake;
                }
                Some(length)
            }
            Err(BadProxyHeader) => {
                // Nobody is answered who may be no proxy.
                self.h1.connections.counters.parse_errors += 1;
                self.h1.connections.close_after_queue(net, id);
                Some(bytes.len())
            }
        }
    }
}
