//! Requests on connections that streams share, their windows, and when each is looked after.

use super::connections::Turn;
use crate::streaming::Streaming;
use crate::streaming::stream::Line;
use app::{ConnId, Net};
use wire::Time;

impl Streaming {
    /// A stream is to ask for what is next in turn, behind those that wait for the same.
    pub(super) fn queue_up(&mut self, now: Time, number: usize, stream: usize) {
        let Some(shared) = &mut self.shared else { return };
        shared.set_turn(stream, Turn::Waiting);
        let carrier = &mut self.carriers[number];
        carrier.waiting.push_back(stream);
        if carrier.line == Line::Shared {
            self.streams[stream].flow.ask(now);
        }
    }

    /// Sends the requests of those that wait, as many as the server takes, and what else is to be sent.
    pub(super) fn ask_waiting<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let carrier = &self.carriers[number];
        let Some(id) = carrier.id.filter(|_| carrier.line == Line::Shared) else { return };
        while let Some(stream) = self.carriers[number].waiting.front().copied() {
            let of_turn = self.order.at(self.streams[stream].next);
            if !self.shared.as_mut().is_some_and(|shared| shared.ask(id, stream, of_turn, now)) {
                break;
            }
            self.carriers[number].waiting.pop_front();
            self.streams[stream].begin_asking(of_turn);
            let due = self.open_window(now, stream);
            if let Some(connection) = self.shared.as_mut().and_then(|shared| shared.get(id)) {
                connection.call_at(net, due);
            }
        }
        self.flush(net, id);
    }

    /// Lets the server send what a stream's player has room for, if that is worth a word. When to look again.
    pub(super) fn open_window(&mut self, now: Time, stream: usize) -> Time {
        let patience = self.plan.load.timeout;
        let Some(shared) = &mut self.shared else { return Time::MAX };
        let (held, heard) = (shared.held(), shared.heard(stream));
        let Some(most) = held else { return heard + patience };
        let Some((connection, place)) = shared.asked(stream) else { return Time::MAX };
        let flow = &self.streams[stream].flow;
        let room = flow.room(now).min(most.into());
        let worth = flow.worth().min(u64::from(most) / 2).max(1);
        let open = connection.client.window(place);
        let mut lacks = room.saturating_sub(open.into());
        // Without a word the server sends nothing, and where nothing plays the room does not grow.
        let is_shut = open == 0 && (!self.streams[stream].came || flow.plays_until(now, 0).is_none());
        if lacks >= worth || is_shut && lacks > 0 {
            // No more than `most`.
            connection.client.open_window(place, lacks as u32, &mut connection.out);
            lacks = 0;
            if open == 0 {
                shared.set_heard(stream, now);
            }
        }
        let more = if room < most.into() { flow.plays_until(now, worth - lacks) } else { None };
        let overdue = if shared.is_let_come(stream) { shared.heard(stream) + patience } else { Time::MAX };
        more.unwrap_or(Time::MAX).min(overdue)
    }

    /// Looks at each of a connection's streams: windows are opened, those that have paused ask, and the time is set
    /// at which the next is due.
    pub(super) fn look_after<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(connection) = self.shared.as_mut().and_then(|shared| shared.get(id)) else { return };
        let number = connection.carrier;
        let is_current = self.carriers[number].id == Some(id);
        let mut due = Time::MAX;
        for stream in self.plan.carried(number) {
            let Some(shared) = &mut self.shared else { return };
            due = due.min(match shared.turn(stream) {
                Turn::Asked { id: on, .. } if on == id => self.open_window(now, stream),
                Turn::Resting { until } if is_current && until > now => until,
                Turn::Resting { .. } if is_current => {
                    self.queue_up(now, number, stream);
                    Time::MAX
                }
                Turn::Asked { .. } | Turn::Resting { .. } | Turn::Waiting => Time::MAX,
            });
        }
        if let Some(connection) = self.shared.as_mut().and_then(|shared| shared.get(id)) {
            connection.set_timer(net, due);
        }
        self.ask_waiting(net, number);
        self.flush(net, id);
    }

    /// A stream asks again at a time, and not before.
    pub(super) fn rest<N: Net>(&mut self, net: &mut N, number: usize, stream: usize, until: Time) {
        let Some(shared) = &mut self.shared else { return };
        shared.set_turn(stream, Turn::Resting { until });
        if let Some(connection) = self.carriers[number].id.and_then(|id| shared.get(id)) {
            connection.call_at(net, until);
        }
    }

    /// Sends what was written on a connection.
    pub(super) fn flush<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let streams = &self.streams;
        if let Some(shared) = &mut self.shared {
            shared.flush(net, id, |stream| streams.get(stream).map_or(0, |stream| stream.number));
        }
    }
}
