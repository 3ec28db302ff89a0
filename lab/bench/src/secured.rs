//! What secures its connections as they are opened, by keys that both sides have: what
//! sealing and opening cost a request, without handshakes.

use crate::peer::{Answerer, Asker};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::time::Duration;
use load::Load;
use record::{Afterwards, Established, KeyedWay, RecordCipher, RecordKeys, RecordLayer, TlsSide, TlsVersion};
use server::Server;
use wire::Time;

/// Keys of the client and of the server, of AES-128-GCM.
const KEYS: [[u8; 16]; 2] = [[3; 16], [4; 16]];

/// An application on secured connections.
#[derive(Debug)]
pub struct Securing<A> {
    app: A,
    side: TlsSide,
}

impl<A> Securing<A> {
    /// Has the connections of `app` secured, as this side's.
    #[must_use]
    pub const fn new(app: A, side: TlsSide) -> Self {
        Self { app, side }
    }
}

/// `None` if the cipher takes no such key, which none of these is.
fn layer(side: TlsSide) -> Option<RecordLayer> {
    let way = |key: [u8; 16]| {
        Some(KeyedWay { keys: RecordKeys::new(RecordCipher::Aes128Gcm, &key, [key[0]; 12])?, number: 0 })
    };
    let [client, server] = KEYS;
    let (sends, receives) = match side {
        TlsSide::Client => (client, server),
        TlsSide::Server => (server, client),
    };
    Some(RecordLayer::new(Established {
        version: TlsVersion::V13,
        side,
        sends: way(sends)?,
        receives: way(receives)?,
        afterwards: Afterwards::Nothing,
        most: seal::MAX_PLAINTEXT,
    }))
}

impl<A: Asker> Asker for Securing<A> {
    fn load(&self) -> &Load {
        self.app.load()
    }
}

impl<A: Answerer> Answerer for Securing<A> {
    fn server(&self) -> &Server {
        self.app.server()
    }
}

impl<A: App> App for Securing<A> {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        if !layer(self.side).is_some_and(|layer| net.secure(id, Box::new(layer))) {
            // Nothing is sent in the clear, and the other side ends it as a failure.
            return net.abort(id);
        }
        self.app.on_open(net, id, how);
    }

    #[inline]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        self.app.on_data(net, id, data)
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.app.on_end(net, id, held);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.app.on_sent(net, id);
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.app.on_timer(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.app.on_close(net, id, why);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        self.app.on_turn(net)
    }

    fn has_work(&self) -> bool {
        self.app.has_work()
    }

    fn on_turn_over(&mut self, now: Time) {
        self.app.on_turn_over(now);
    }

    fn warm(&self, id: ConnId) -> u64 {
        self.app.warm(id)
    }

    fn working(&self) -> u32 {
        self.app.working()
    }

    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        self.app.idle(id, now)
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.app.drain(net)
    }
}
