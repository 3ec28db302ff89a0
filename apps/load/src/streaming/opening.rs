//! Connections of streams, and what secures them.

use super::{PAUSE, Streaming};
use crate::load::unsuited;
use app::{ConnId, ConnectError, Net};
use handshake::{ConnectOutcome, Connector, Sought};
use wire::Time;

impl Streaming {
    /// Begins a connection. Whether it is on its way.
    pub(super) fn connect<N: Net>(&mut self, net: &mut N, now: Time, number: usize) -> bool {
        let load = &self.plan.load;
        let from = self.connects.checked_rem(load.sources.len()).and_then(|place| load.sources.get(place)).copied();
        let to = load.targets[self.connects % load.targets.len()];
        self.connects += 1;
        let carried = self.plan.carried(number);
        self.streams[carried].iter_mut().for_each(|stream| stream.flow.begin(now));
        let id = match net.connect(from, to) {
            Ok(id) => id,
            Err(why) => {
                if !matches!(why, ConnectError::Full | ConnectError::Busy) {
                    self.measure.figures.errors.connects += 1;
                    self.measure.figures.failure = Some(why.to_string());
                    self.carriers[number].is_unconnected = true;
                }
                self.again.insert((now + PAUSE, number));
                return false;
            }
        };
        if self.places.len() <= id.index() {
            self.places.resize(id.index() + 1, None);
        }
        self.places[id.index()] = Some((id, number));
        self.carriers[number].begin_connecting(id, now);
        self.handshakes += 1;
        self.open += 1;
        net.set_timer(id, Some(now + load.connect_timeout));
        true
    }

    /// Its connection is there, and secured if it is to be.
    pub(super) fn on_ready<N: Net>(&mut self, net: &mut N, number: usize) {
        self.handshakes -= 1;
        self.established += 1;
        let carrier = &mut self.carriers[number];
        carrier.is_unconnected = false;
        self.measure.on_connected(net.now(), carrier.since);
        if self.shared.is_some() { self.begin_shared(net, number) } else { self.ask(net, number) }
    }

    /// Takes what the server sends before the connection is secured. How many bytes were taken.
    pub(super) fn on_handshake<N: Net>(&mut self, net: &mut N, id: ConnId, number: usize, bytes: &[u8]) -> usize {
        let Some(connector) = self.securing.get_mut(&id.index()) else { return bytes.len() };
        if !bytes.is_empty() && !Connector::has_record(bytes) {
            return 0;
        }
        let step = connector.on_bytes(bytes);
        if !step.out.is_empty() {
            net.send_bytes(id, &step.out);
        }
        let why = match step.outcome {
            ConnectOutcome::Waits => return step.consumed,
            ConnectOutcome::Failed(why) => why.to_string(),
            ConnectOutcome::Done(connected) => {
                self.securing.remove(&id.index());
                let sought = self.plan.load.secured.as_ref();
                let why =
                    sought.and_then(|sought: &Sought| unsuited(sought, &connected.session, self.shared.is_some()));
                let secures = why.is_none() && connected.into_layer().is_some_and(|(layer, _)| net.secure(id, layer));
                if secures {
                    self.on_ready(net, number);
                    return step.consumed;
                }
                why.unwrap_or_else(|| "the connection ended within the handshake".to_owned())
            }
        };
        self.unsuited = true;
        self.fail_connect(net, number, why);
        bytes.len()
    }
}
