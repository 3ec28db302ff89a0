//! What happens at the connection to an upstream, for a request that is kept: above all the
//! body of its answer, as it comes and as its client takes it.

use super::Engine;
use asking::{AskLink, AskStage, BodyEnd, BodyStep, IDLE};
use core::time::Duration;
use exchange::{ExchangeId, Replies, Stop, UpstreamEvent, UpstreamId};

impl Engine {
    /// Something happened at a connection to an upstream.
    pub(super) fn on_upstream_event(
        &mut self,
        replies: &mut dyn Replies,
        id: UpstreamId,
        mark: u32,
        event: UpstreamEvent<'_>,
    ) -> usize {
        let all = if let UpstreamEvent::Data(bytes) = event { bytes.len() } else { 0 };
        if mark & IDLE != 0 {
            let now = replies.now();
            return self.rest.kept.on_event(&self.loaded.groups, (replies, id, mark), (event, now));
        }
        match self.rest.stage_of(mark, AskLink::Own(id)) {
            None => {
                replies.let_go(id, Duration::ZERO);
                all
            }
            Some(AskStage::Resolves) => 0,
            Some(AskStage::Connects | AskStage::Head) => self.on_early_event(replies, (id, mark), event),
            Some(AskStage::Body) => self.on_body_event(replies, mark, event),
            Some(AskStage::Tunnel) => self.on_tunnel_event(replies, mark, event),
        }
    }

    /// Before the answer's body: the request goes on by it.
    fn on_early_event(
        &mut self,
        replies: &mut dyn Replies,
        (id, token): (UpstreamId, u32),
        event: UpstreamEvent<'_>,
    ) -> usize {
        let mut taken = 0;
        self.run_early(replies, token, |runner| match event {
            UpstreamEvent::Data(bytes) => {
                let (all, flow) = runner.on_head_bytes(bytes);
                taken = all;
                flow
            }
            event => runner.ask_step(|ask, turn| ask.on_event(turn, event)),
        });
        if let UpstreamEvent::Data(bytes) = event
            && self.rest.relay_of(token).is_some_and(|relay| relay.ask.has_early_body())
            && self.rest.stage_of(token, AskLink::Own(id)) == Some(AskStage::Body)
        {
            let rest = bytes.get(taken..).unwrap_or_default();
            taken += self.on_body_event(replies, token, UpstreamEvent::Data(rest));
        }
        taken
    }

    /// While the answer's body comes.
    pub(super) fn on_body_event(&mut self, replies: &mut dyn Replies, token: u32, event: UpstreamEvent<'_>) -> usize {
        match event {
            UpstreamEvent::Data(bytes) => return self.on_body_bytes(replies, token, bytes),
            UpstreamEvent::Passed(bytes) => {
                self.rest.take_passed(replies, token, bytes);
                return 0;
            }
            UpstreamEvent::Room => {
                self.with_runner(replies, token, |runner| runner.ask_step(|ask, turn| ask.send_body(turn)));
                return 0;
            }
            _ => {}
        }
        let waits = self.rest.requests.get(token).map(|state| state.id);
        let waits = waits.is_some_and(|id| replies.flow(id).unsent > 0);
        match self.rest.ask_for(replies, token, |ask, turn| ask.on_body_event(turn, event, waits)) {
            Some(BodyStep::Ends) => _ = self.on_body_bytes(replies, token, b""),
            Some(BodyStep::Cut(why)) => self.on_body_over(replies, token, BodyEnd::Cut(why)),
            Some(BodyStep::Waits) | None => {}
        }
        0
    }

    pub(super) fn on_body_bytes(&mut self, replies: &mut dyn Replies, token: u32, bytes: &[u8]) -> usize {
        let mut all = 0;
        let mut is_early = self.rest.relay_of(token).is_some_and(|relay| relay.ask.has_early_body());
        let ended = loop {
            let rest = bytes.get(all..).unwrap_or_default();
            let (taken, ended) = self.rest.take_body(replies, token, rest);
            all += taken;
            if self.rest.relay_of(token).is_some_and(|relay| relay.ask.has_notes()) {
                self.with_runner(replies, token, |runner| runner.tell_notes());
            }
            if taken == 0 && !is_early || ended != BodyEnd::Not {
                break ended;
            }
            is_early = false;
            // The client may take some, and so make room.
            self.make_more(replies, token);
        };
        if ended == BodyEnd::Not {
            self.rest.pass_on(replies, token);
            return all;
        }
        self.on_body_over(replies, token, ended);
        // Nothing else is read of it.
        bytes.len()
    }

    /// What was left behind in this turn goes on: what it waited for, its client would have given.
    pub(super) fn go_on_behind(&mut self, replies: &mut dyn Replies) {
        for (token, id) in self.rest.left_behind.take_fresh() {
            if self.rest.requests.of((token, id)).is_none() {
                continue;
            }
            let _ = self.rest.ask_for(replies, token, |ask, turn| ask.read_more(turn, usize::MAX, false));
            if self.rest.relay_of(token).is_some_and(|relay| relay.ask.has_early_body()) {
                self.on_body_bytes(replies, token, b"");
            }
        }
    }

    fn on_body_over(&mut self, replies: &mut dyn Replies, token: u32, ended: BodyEnd) {
        let ended = match self.rest.relay_of(token).and_then(|relay| relay.odd_slice()) {
            Some(why) if matches!(ended, BodyEnd::Whole(_)) => BodyEnd::Cut(why),
            _ => ended,
        };
        if let BodyEnd::Cut(why) = &ended {
            self.with_runner(replies, token, |runner| runner.tell_of_upstream(why, "reading upstream"));
        }
        let Some(state) = self.rest.requests.get_mut(token) else { return };
        let whole = matches!(ended, BodyEnd::Whole(_));
        if let BodyEnd::Whole(trailers) = ended {
            state.sent.upstream_trailers.extend_from_slice(&trailers);
        }
        if let Some(relay) = state.passed.relay.as_deref_mut().filter(|_| !whole) {
            relay.ask.refuse_body();
        }
        if let Some(filtering) = &mut state.reply.filtering {
            match whole {
                true => _ = filtering.end(),
                false => filtering.is_cut = true,
            }
        }
        let is_left = state.passed.left_behind.is_some();
        self.with_runner(replies, token, |runner| runner.end_relay());
        if is_left {
            self.rest.end(replies, token, false);
            return;
        }
        self.make_more(replies, token);
    }

    /// A piece of a body that is sent to an upstream was read back.
    pub(super) fn on_relay_piece(&mut self, replies: &mut dyn Replies, token: u32, piece: Option<&[u8]>) {
        let Some(relay) = self.rest.relay_of(token) else { return };
        if relay.ask.stage() == AskStage::Body {
            if piece.is_some() {
                self.with_runner(replies, token, |runner| runner.ask_step(|ask, turn| ask.on_piece(turn, piece)));
            }
            return;
        }
        self.resume(replies, token, |runner| Some(runner.ask_step(|ask, turn| ask.on_piece(turn, piece))));
    }

    /// Bytes of a body that goes on as it comes. How many were taken.
    pub(super) fn on_streamed_bytes(&mut self, replies: &mut dyn Replies, token: u32, bytes: &[u8]) -> usize {
        if self.rest.requests.get(token).is_none() {
            return 0;
        }
        // Nobody wants the rest of it where nothing is asked.
        self.rest.ask_for(replies, token, |ask, turn| ask.stream(turn, bytes)).unwrap_or(bytes.len())
    }

    /// A body that goes on as it comes is over, or will not be whole.
    pub(super) fn on_streamed_end(&mut self, replies: &mut dyn Replies, token: u32, whole: bool) {
        let Some(relay) = self.rest.relay_of(token) else { return };
        let replying = relay.ask.stage() == AskStage::Body;
        if whole {
            let _ = self.rest.ask_for(replies, token, |ask, turn| ask.end_stream(turn));
            return;
        }
        self.with_runner(replies, token, |runner| {
            runner.end_relay();
            if replying {
                runner.tell_of_broken_body();
            }
        });
        if !replying {
            // It ends with what the body failed with.
            self.go_on(replies, token);
            return;
        }
        let id = self.rest.requests.get(token).map(|state| state.id);
        self.rest.end(replies, token, false);
        if let Some(id) = id {
            replies.stop(id, Stop::Reset);
        }
    }

    /// Whether a request asks for another protocol (RFC 9110 section 7.8), whose bytes may
    /// come behind it.
    #[cold]
    pub(super) fn asks_for_a_tunnel(&mut self, replies: &mut dyn Replies, id: ExchangeId) -> bool {
        let Some(token) = replies.mark(id) else { return false };
        let asks = self.with_runner(replies, token, |runner| runner.request.fields().any(|field| field.is("upgrade")));
        asks == Some(true)
    }

    /// The client of a request that is passed on sends no more: as nginx has it, it has
    /// left, whatever it sent behind its request.
    pub(super) fn on_client_left(&mut self, replies: &mut dyn Replies, id: ExchangeId) {
        let Some(token) = replies.mark(id) else { return };
        let Some(relay) = self.rest.relay_of(token) else { return };
        if relay.rules.ignores_client_end {
            return;
        }
        let (begun, doing) = (relay.ask.stage() == AskStage::Body, relay.ask.doing());
        self.with_runner(replies, token, |runner| {
            let told = "client prematurely closed connection, so upstream connection is closed too";
            runner.tell_at(features::ErrorLevel::INFO, told, doing);
            runner.end_relay();
            if !begun {
                runner.state.sent.status = 499;
                runner.state.reply.override_status = None;
            }
        });
        self.rest.end(replies, token, false);
        // One that sends no more may still read: it has what is there, and an end.
        replies.stop(id, if begun { Stop::Cut } else { Stop::HangUp });
    }
}
