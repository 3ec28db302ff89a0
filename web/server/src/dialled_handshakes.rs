//! Handshakes of TLS with upstreams, before what they are asked.
//!
//! Those under way are as many as connections that are asked for, each of which has a time
//! limit of its handler's.

use crate::Server;
use crate::handshake_helper::Shaking;
use crate::handshake_table::{DialledShake, token};
use app::{ConnId, Net};
use exchange::{Handler, UpstreamEvent};
use handshake::{ConnectOutcome, ConnectStep, Connector, Failure};

impl<H: Handler> Server<H> {
    /// Handshakes begin that were asked for.
    pub(crate) fn begin_dialled(&mut self) {
        for (id, sought) in core::mem::take(&mut self.h1.connections.seeking) {
            if self.h1.connections.upstreams.get(id).is_none() {
                continue;
            }
            let shake = DialledShake {
                generation: id.generation(),
                connector: Some(Box::new(Connector::new(sought))),
                consumed: 0,
                connected: None,
                ended: false,
            };
            self.handshakes.dialled.insert(id.index() as u32, shake);
            self.work_on_dialled(id, Vec::new());
        }
    }

    /// Has one worked on: by the helper, or where that has no place for it, by the silo, which
    /// works on one a turn: nobody else would begin it.
    fn work_on_dialled(&mut self, id: ConnId, mut bytes: Vec<u8>) {
        let Some(connector) = self.handshakes.dialled_mut(id).and_then(|shake| shake.connector.take()) else { return };
        let mut shaking = Shaking::Upstream(connector);
        if let Some(helper) = &mut self.handshakes.helper {
            match helper.submit(token(id), shaking, (bytes, &self.event)) {
                Ok(()) => return,
                Err((refused, kept)) => (shaking, bytes) = (refused, kept),
            }
        }
        self.handshakes.put_off((token(id), shaking, bytes), &self.event);
    }

    /// Takes what an upstream sends before its connection is secured; none if it is not to be, or
    /// is already. How many bytes were taken.
    pub(crate) fn on_dialled_bytes<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> Option<usize> {
        let shake = self.handshakes.dialled_mut(id)?;
        let consumed = core::mem::take(&mut shake.consumed);
        if let Some(connected) = shake.connected.take() {
            self.handshakes.remove_dialled(id);
            let Some((layer, session)) =
                connected.into_layer().filter(|_| self.h1.connections.upstreams.get(id).is_some())
            else {
                net.abort(id);
                return Some(consumed);
            };
            if !net.secure(id, layer) {
                net.abort(id);
                return Some(consumed);
            }
            let _ = self.h1.tell_upstream(net, id, UpstreamEvent::Shaken(Ok(&session)));
            return Some(consumed);
        }
        if shake.connector.is_none() {
            return Some(consumed);
        }
        // What came while the bytes before it were worked on: nothing more may come that would ask
        // for it.
        let rest = bytes.get(consumed..).unwrap_or_default();
        if Connector::has_record(rest) {
            self.work_on_dialled(id, rest.to_vec());
        } else if shake.ended {
            self.fail_dialled(net, id, &Failure::Closed);
        }
        Some(consumed)
    }

    /// An upstream sends no more; whether its connection was to be secured.
    pub(crate) fn on_dialled_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) -> bool {
        let Some(shake) = self.handshakes.dialled_mut(id) else { return false };
        shake.ended = true;
        let waits = shake.connector.is_some() && shake.consumed == 0;
        if waits || held == 0 {
            self.fail_dialled(net, id, &Failure::Closed);
        }
        true
    }

    /// One was worked on.
    pub(crate) fn after_dialled_step<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        (connector, step): (Box<Connector>, ConnectStep),
    ) {
        let is_there = self.h1.connections.upstreams.get(id).is_some();
        let ConnectStep { consumed, out, outcome } = step;
        let Some(shake) = self.handshakes.dialled_mut(id) else { return };
        if !is_there {
            return self.handshakes.remove_dialled(id);
        }
        shake.consumed = consumed;
        let ended = shake.ended && consumed == 0;
        if !out.is_empty() {
            net.send_bytes(id, &out);
        }
        match outcome {
            ConnectOutcome::Waits => shake.connector = Some(connector),
            ConnectOutcome::Done(connected) => shake.connected = Some(connected),
            ConnectOutcome::Failed(why) => return self.fail_dialled(net, id, &why),
        }
        if ended {
            return self.fail_dialled(net, id, &Failure::Closed);
        }
        net.resume(id);
    }

    fn fail_dialled<N: Net>(&mut self, net: &mut N, id: ConnId, why: &Failure) {
        self.handshakes.remove_dialled(id);
        let _ = self.h1.tell_upstream(net, id, UpstreamEvent::Shaken(Err(why)));
    }
}
