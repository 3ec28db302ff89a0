//! What comes on connections that streams share.

use super::endings::Loss;
use crate::checks::excerpt;
use crate::streaming::Streaming;
use app::{ConnId, Net};
use h2::{ClientEvent, ErrorCode};

impl Streaming {
    /// Takes what the server sent: whole frames, and of content what is there.
    pub(in crate::streaming) fn on_frames<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let mut used = 0;
        loop {
            let next = self.shared.as_mut().and_then(|shared| shared.next_event(id, data, &mut used));
            // What comes on a connection that is to end is of no interest.
            let Some(next) = next else { return data.len() };
            match next {
                Ok(ClientEvent::NeedMore) => break,
                Ok(ClientEvent::Nothing) => {}
                Ok(ClientEvent::Room) => self.ask_waiting_on(net, id),
                Ok(event) => self.on_event(net, id, event),
                Err(code) => {
                    self.on_no_http2(net, id, data, code);
                    return data.len();
                }
            }
            if self.leave_if_done(net, id) {
                return data.len();
            }
        }
        self.flush(net, id);
        used
    }

    /// Something came about a stream, or the connection's end.
    fn on_event<N: Net>(&mut self, net: &mut N, id: ConnId, event: ClientEvent<'_>) {
        let place = match event {
            ClientEvent::Head { place, .. }
            | ClientEvent::Data { place, .. }
            | ClientEvent::Over { place, .. }
            | ClientEvent::Reset { place, .. }
            | ClientEvent::Malformed { place } => place,
            ClientEvent::GoAway { .. } => return self.on_go_away(net, id),
            ClientEvent::NeedMore | ClientEvent::Nothing | ClientEvent::Room => return,
        };
        let now = net.now();
        let Some(shared) = &mut self.shared else { return };
        let Some(connection) = shared.get(id) else { return };
        let (stream, number) = (connection.at(place), connection.carrier);
        shared.set_heard(stream, now);
        match event {
            ClientEvent::Head { status, .. } => {
                self.on_shared_head(net, stream, status);
            }
            ClientEvent::Data { bytes, .. } => self.on_shared_content(net, stream, bytes.len()),
            ClientEvent::Over { status, content, .. } => {
                let is_head = !self.streams[stream].came;
                if !is_head || self.on_shared_head(net, stream, status) {
                    self.on_shared_whole(net, (id, number, stream), content);
                }
            }
            ClientEvent::Reset { beyond_limit: true, .. } => {
                self.streams[stream].take_back();
                self.queue_up(now, number, stream);
                self.ask_waiting_on(net, id);
            }
            ClientEvent::Reset { code, .. } => {
                self.measure.figures.errors.lost += 1;
                self.fail_stream(net, stream, format!("the server ended a stream ({})", code.name()));
                self.ask_waiting_on(net, id);
            }
            _ => {
                self.measure.figures.errors.malformed += 1;
                self.fail_stream(net, stream, "the server does not answer as HTTP/2 has it".to_owned());
                self.ask_waiting_on(net, id);
            }
        }
    }

    /// The head of an answer came. Whether the answer is one to play.
    fn on_shared_head<N: Net>(&mut self, net: &mut N, stream: usize, status: u16) -> bool {
        (self.streams[stream].came, self.streams[stream].status) = (true, status);
        match self.judge_status(net.now(), stream) {
            None => true,
            Some(why) => {
                self.fail_stream(net, stream, why);
                false
            }
        }
    }

    /// Content came: as much as its player has room for, or all that the server sends.
    fn on_shared_content<N: Net>(&mut self, net: &mut N, stream: usize, bytes: usize) {
        let now = net.now();
        self.measure.on_content(now, stream, &mut self.streams[stream].flow, bytes as u64);
        let due = self.open_window(now, stream);
        if let Some((connection, _)) = self.shared.as_mut().and_then(|shared| shared.asked(stream)) {
            connection.call_at(net, due);
        }
    }

    /// An answer is whole: the next is asked for, as soon as there is room for it.
    fn on_shared_whole<N: Net>(&mut self, net: &mut N, of: (ConnId, usize, usize), content: u64) {
        let (id, number, stream) = of;
        self.judge(stream, content);
        if let Some(connection) = self.shared.as_mut().and_then(|shared| shared.get(id)) {
            connection.answers += 1;
        }
        let now = net.now();
        let flow = &self.streams[stream].flow;
        if flow.room(now) == 0 {
            let until = flow.has_room_at(now);
            self.rest(net, number, stream, until);
        } else {
            self.queue_up(now, number, stream);
        }
        self.ask_waiting(net, number);
    }

    /// The server may take one more, on a connection of which it is not known whose it is.
    fn ask_waiting_on<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let connection = self.shared.as_mut().and_then(|shared| shared.get(id));
        if let Some(number) = connection.map(|connection| connection.carrier) {
            self.ask_waiting(net, number);
        }
    }

    /// What came is no HTTP/2, or not any more. What a server sends first are its settings (RFC 9113 section 3.4): if
    /// none ever did, no other connection will do better.
    fn on_no_http2<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8], code: ErrorCode) {
        let connection = self.shared.as_mut().and_then(|shared| shared.get(id));
        let is_settled = connection.is_some_and(|connection| connection.client.is_settled());
        let told = if is_settled {
            format!("the server does not speak as HTTP/2 has it ({})", code.name())
        } else {
            let line = data.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
            format!("the server does not speak HTTP/2: what came first are not its settings, but \"{}\"", excerpt(line))
        };
        self.end_shared(net, id, Loss::Malformed, &told);
        net.abort(id);
        self.in_vain |= !is_settled && self.measure.figures.first_byte.is_empty();
    }
}
