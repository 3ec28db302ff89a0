//! Servers are asked, one after the other, until one answers.

use super::relay::{Choice, IdleLink, Relay, RelayStage, UpstreamTry, peer_text};
use super::run::{Flow, Runner};
use super::waits::On;
use app::{Closed, ConnectError, Unreachable};
use bodies::BodyContent;
use exchange::{Piece, Replies, UpstreamAddress, UpstreamEvent, UpstreamId};
use features::ErrorLevel;
use proxy::next::Failure;
use random::SplitMix64;
use std::net::IpAddr;
use std::rc::Rc;
use upstream::{Balancer, KeptConnection, PeerAddress, PeerId, PutBack};
use wire::Time;

/// Bytes of a body that are one record.
const STDIN_PIECE: u32 = cgi::fastcgi::STDIN_PIECE as u32;

/// Bytes of a body that are read back at a time.
const PIECE: usize = 64 << 10;

/// What an event comes to, and how many bytes of it were taken.
pub(super) struct Came {
    pub flow: Flow,
    pub taken: usize,
}

impl Came {
    pub const fn nothing(flow: Flow) -> Self {
        Self { flow, taken: 0 }
    }
}

impl Runner<'_> {
    pub(super) fn relay(&mut self) -> Option<&mut Relay> {
        self.course.relay.as_deref_mut()
    }

    /// Acts on the group that the request is passed on to.
    fn balancer<T>(&mut self, act: impl FnOnce(&mut Balancer, &mut Relay) -> T) -> Option<T> {
        let loaded = Rc::clone(&self.loaded);
        let relay = self.course.relay.as_deref_mut()?;
        match relay.choice {
            Choice::Group(number) => {
                let mut groups = loaded.groups.borrow_mut();
                Some(act(&mut groups.get_mut(usize::from(number))?.balancer, relay))
            }
            Choice::Own(_) => {
                let Choice::Own(mut own) = core::mem::replace(&mut relay.choice, Choice::Group(0)) else {
                    return None;
                };
                let done = act(&mut own, relay);
                relay.choice = Choice::Own(own);
                Some(done)
            }
            Choice::Named(_) => None,
        }
    }

    /// Asks servers until one may answer, or none is left.
    pub(super) fn ask_next(&mut self) -> Flow {
        if let Some(flow) = self.wait_for_names() {
            return flow;
        }
        loop {
            let Err(failure) = self.ask_one() else { return Flow::Waits(On::Source) };
            if let Some(flow) = self.after(failure) {
                return flow;
            }
        }
    }

    /// A server failed: the next is asked, if one may be.
    pub(super) fn failed(&mut self, failure: Failure) -> Flow {
        match self.after(failure) {
            Some(flow) => flow,
            None => self.ask_next(),
        }
    }

    /// Chooses a server, and connects to it.
    fn ask_one(&mut self) -> Result<(), Failure> {
        let now = self.clock.now;
        let (loaded, token) = (Rc::clone(&self.loaded), self.token);
        // Most ways to choose need no chance.
        let mut numbers = None;
        let mut random = || {
            let seed = || loaded.chance(now.as_nanos() ^ u64::from(token).rotate_right(16));
            numbers.get_or_insert_with(|| SplitMix64::new(seed())).bits()
        };
        let chosen = self.balancer(|balancer, relay| {
            let peer = balancer.choose(&mut relay.attempts, seconds(now), &mut random);
            relay.last_peer = peer.or(relay.last_peer);
            let group = balancer.group();
            // Its name stands for whom nobody is chosen from.
            peer.map(|peer| (peer, group.address(peer).clone())).ok_or_else(|| Rc::from(&*group.name))
        });
        let Some(chosen) = chosen else { return Err(Failure::Error) };
        let (peer, text) = match chosen {
            Ok((peer, address)) => {
                let text = self.text_of(peer, &address);
                (Some((peer, address)), text)
            }
            Err(name) => (None, name),
        };
        self.course.tries.push(UpstreamTry { peer: Some(text), began: now, ..UpstreamTry::default() });
        let Some((peer, address)) = peer else {
            self.tell_of_upstream("no live upstreams", "connecting to upstream");
            return Err(Failure::Error);
        };
        if self.take_kept(peer) {
            self.send_request();
            return Ok(());
        }
        self.connect(&address)
    }

    /// A peer as logs name it.
    fn text_of(&self, peer: PeerId, address: &PeerAddress) -> Rc<[u8]> {
        let Some(Choice::Group(number)) = self.course.relay.as_ref().map(|relay| &relay.choice) else {
            return peer_text(address);
        };
        let groups = self.loaded.groups.borrow();
        let text = groups.get(usize::from(*number)).and_then(|group| group.texts.get(peer.place()));
        text.map_or_else(|| peer_text(address), Rc::clone)
    }

    fn connect(&mut self, address: &PeerAddress) -> Result<(), Failure> {
        let from = self.bound_to()?;
        let to = match address {
            PeerAddress::Inet(to) => UpstreamAddress::Inet(*to),
            PeerAddress::Unix(path) => UpstreamAddress::Unix(path),
        };
        let dialled = self.replies.dial(to, from, self.token);
        let now = self.clock.now;
        let Some(relay) = self.course.relay.as_deref_mut() else { return Err(Failure::Error) };
        match dialled {
            Ok(id) => {
                (relay.link, relay.stage, relay.carried) = (Some(id), RelayStage::Connects, 0);
                relay.opened = millis(now);
                self.replies.set_upstream_timer(id, Some(now + relay.rules.connect));
                Ok(())
            }
            Err(why) => {
                let (level, why) = words_of(why);
                let text = peer_text(address);
                let told = format!("connect() to {} failed ({why})", String::from_utf8_lossy(&text));
                self.tell_at(level, &told, "connecting to upstream");
                Err(Failure::Error)
            }
        }
    }

    /// Our own address towards servers (`proxy_bind`).
    fn bound_to(&mut self) -> Result<Option<IpAddr>, Failure> {
        let Some(rules) = self.course.relay.as_ref().map(|relay| std::sync::Arc::clone(&relay.rules)) else {
            return Err(Failure::Error);
        };
        let Some(bind) = &rules.bind else { return Ok(None) };
        let text = self.scope().get(bind);
        if text.is_empty() || text == b"off" {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let found = text.parse().ok();
        if found.is_none() {
            self.tell(ErrorLevel::ERROR, || format!("invalid local address \"{text}\"").into_bytes());
        }
        Ok(found)
    }

    /// Takes a connection that was kept, if there is one to this peer.
    fn take_kept(&mut self, peer: PeerId) -> bool {
        let loaded = Rc::clone(&self.loaded);
        let Some(relay) = self.course.relay.as_deref_mut() else { return false };
        let Choice::Group(number) = relay.choice else { return false };
        let Some(way) = self.rest.ways.number(relay.seeks.as_deref()) else { return false };
        let mut groups = loaded.groups.borrow_mut();
        let idle = groups.get_mut(usize::from(number)).and_then(|group| group.idle.as_mut());
        let Some(kept) = idle.and_then(|idle| idle.take_where(peer, |link| link.way == way)) else { return false };
        let _ = self.rest.idle.take(kept.conn.mark);
        (relay.link, relay.carried, relay.opened) = (Some(kept.conn.id), kept.requests, kept.opened);
        self.replies.set_upstream_mark(kept.conn.id, self.token);
        true
    }

    /// The connection is there: the request is sent.
    pub(super) fn send_request(&mut self) {
        let now = self.clock.now;
        let Some(relay) = self.course.relay.as_deref_mut() else { return };
        let Some(link) = relay.link else { return };
        (relay.stage, relay.sent) = (RelayStage::Head, true);
        self.replies.send_upstream(link, Piece::Bytes(&relay.head));
        let sent = relay.head.len() as u64;
        if let Some(last) = self.course.tries.last_mut() {
            last.connect.get_or_insert(now.since(last.began));
            last.sent += sent;
        }
        if self.course.body.as_ref().is_some_and(|body| body.ended) {
            self.end_stream();
        }
        self.send_body();
    }

    /// Queues the request's body, or some more of it.
    pub(super) fn send_body(&mut self) {
        let now = self.clock.now;
        let Some(relay) = self.course.relay.as_deref_mut() else { return };
        let Some(link) = relay.link else { return };
        if relay.stream.is_some() {
            self.go_on_streaming();
            return;
        }
        let (before, mut framing) = (relay.body_at, 0);
        match &relay.body {
            _ if relay.body_done => {}
            None => relay.body_done = true,
            Some(BodyContent::Memory(body)) if relay.frames() => {
                framing = send_records(self.replies, link, body);
                (relay.body_at, relay.body_done) = (body.len().into(), true);
            }
            Some(BodyContent::Memory(body)) => {
                self.replies.send_upstream(link, Piece::Body(body, (0, body.len())));
                (relay.body_at, relay.body_done) = (body.len().into(), true);
            }
            Some(BodyContent::File(file)) if file.length == 0 => relay.body_done = true,
            Some(BodyContent::File(file)) => {
                let whole = before == 0 && !relay.frames();
                if whole && self.replies.send_file_upstream(link, &file.file, 0..file.length) {
                    (relay.body_at, relay.body_done) = (file.length, true);
                } else if relay.piece_at.is_none()
                    && self.replies.unsent_upstream(link) <= app::SEND_LOW_WATER
                    && let Some(body) = self.course.body.as_deref_mut()
                    && body.read_back(before, PIECE)
                {
                    relay.piece_at = Some(before);
                }
            }
        }
        let more = relay.body_at - before + framing;
        let busy = self.replies.unsent_upstream(link) > app::SEND_LOW_WATER;
        let span = if busy { relay.rules.send } else { relay.rules.read };
        self.replies.set_upstream_timer(link, Some(now + span));
        if let Some(last) = self.course.tries.last_mut() {
            last.sent += more;
        }
    }

    /// A piece of the body was read back; nothing if it cannot be.
    pub(super) fn on_body_piece(&mut self, piece: Option<&[u8]>) -> Flow {
        let Some(relay) = self.course.relay.as_deref_mut() else { return Flow::Waits(On::Source) };
        let at = relay.piece_at.take();
        let (Some(link), false) = (relay.link, relay.body_done) else { return Flow::Waits(On::Source) };
        let Some(bytes) = piece.filter(|bytes| !bytes.is_empty()) else {
            self.end_relay();
            return Flow::Status(500);
        };
        if !relay.sent {
            return Flow::Waits(On::Source);
        }
        if at != Some(relay.body_at) {
            // It was for another server, which is gone.
            self.send_body();
            return Flow::Waits(On::Source);
        }
        relay.body_at += bytes.len() as u64;
        let length = relay.body.as_ref().map_or(0, BodyContent::length);
        relay.body_done = relay.body_at >= length;
        let mut records = Vec::new();
        let sent = if relay.frames() {
            records.reserve(bytes.len() + 64);
            cgi::fastcgi::stdin(bytes, &mut records);
            if relay.body_done {
                cgi::fastcgi::end_stdin(&mut records);
            }
            &records
        } else {
            bytes
        };
        self.replies.send_upstream(link, Piece::Bytes(sent));
        if let Some(last) = self.course.tries.last_mut() {
            last.sent += sent.len() as u64;
        }
        self.send_body();
        Flow::Waits(On::Source)
    }

    /// What a failure comes to: the end with a status; nothing where another is asked.
    fn after(&mut self, failure: Failure) -> Option<Flow> {
        let now = self.clock.now;
        self.drop_link();
        let kept = self.relay().is_some_and(|relay| relay.carried > 0);
        let blames = failure.blames();
        let released = self.balancer(|balancer, relay| {
            let chosen = relay.peer().is_some();
            let released = balancer.release(&mut relay.attempts, seconds(now), blames);
            if kept && chosen && failure == Failure::Error {
                // That it was closed meanwhile says nothing of its server.
                relay.attempts.again();
            }
            (released, chosen)
        });
        let (disabled, chosen) = released.map_or((false, false), |(released, chosen)| (released.disabled, chosen));
        if disabled {
            self.tell_at(ErrorLevel::WARN, "upstream server temporarily disabled", self.doing());
        }
        let status = failure.status();
        if let Some(last) = self.course.tries.last_mut() {
            last.status = status;
            last.response.get_or_insert(now.since(last.began));
        }
        let relay = self.course.relay.as_deref_mut()?;
        let late = relay.rules.tries_for.is_some_and(|most| now.since(relay.began) >= most);
        let repeats = relay.sent && relay.unrepeatable;
        // What went on as it came cannot be sent again.
        let spent = relay.stream.is_some() && relay.body_at > 0;
        if spent || !chosen || relay.attempts.left() == 0 || late || !relay.rules.next.has(failure, repeats) {
            self.give_up_relay();
            return Some(Flow::Status(status));
        }
        relay.begin_again();
        None
    }

    /// What it is about, for people.
    pub(super) fn doing(&self) -> &'static str {
        if self.course.relay.as_ref().is_some_and(|relay| relay.shakes) {
            return "SSL handshaking to upstream";
        }
        match self.course.relay.as_ref().map(|relay| relay.stage) {
            Some(RelayStage::Resolves | RelayStage::Connects) | None => "connecting to upstream",
            Some(RelayStage::Head) => "reading response header from upstream",
            Some(RelayStage::Body) => "reading upstream",
            Some(RelayStage::Tunnel) => "proxying upgraded connection",
        }
    }

    /// The connection is closed at once.
    fn drop_link(&mut self) {
        if let Some(link) = self.course.relay.as_deref_mut().and_then(|relay| relay.link.take()) {
            self.replies.cut(link);
        }
    }

    /// The request is passed on no more. What was chosen is released, and a connection
    /// that may carry more requests is kept.
    pub(super) fn end_relay(&mut self) {
        let now = self.clock.now;
        self.release_peer(false);
        let Some(mut relay) = self.course.relay.take() else { return };
        self.rest.end_link(self.replies, &self.loaded, &mut relay, now);
        self.rest.spare.give_relay(relay);
    }

    /// The same; something else answers, and what it has to tell is told with the server
    /// that was asked.
    pub(super) fn give_up_relay(&mut self) {
        self.course.passed_to = self.course.upstream_url(false);
        self.end_relay();
    }

    pub(super) fn release_peer(&mut self, failed: bool) {
        let now = self.clock.now;
        let _ = self.balancer(|balancer, relay| balancer.release(&mut relay.attempts, seconds(now), failed));
        if let Some(last) = self.course.tries.last_mut() {
            last.response.get_or_insert(now.since(last.began));
        }
    }

    /// Something happened at the server that is asked, before its answer's body.
    pub(super) fn on_upstream_event(&mut self, event: UpstreamEvent<'_>) -> Came {
        let Some(relay) = self.course.relay.as_deref() else { return Came::nothing(Flow::Waits(On::Source)) };
        match event {
            UpstreamEvent::Opened if relay.seeks.is_some() => {
                self.seek();
                Came::nothing(Flow::Waits(On::Source))
            }
            UpstreamEvent::Opened => {
                self.send_request();
                Came::nothing(Flow::Waits(On::Source))
            }
            UpstreamEvent::Secured(session) => Came::nothing(self.on_secured(session.verdict)),
            UpstreamEvent::Unsecured(why) => {
                let told = match why {
                    handshake::Failure::Certificates(why) => return self.without_certificate(why),
                    handshake::Failure::Closed => why.to_string(),
                    _ => format!("SSL_do_handshake() failed (SSL: {why})"),
                };
                self.tell_of_upstream(&told, self.doing());
                self.let_link_go();
                Came::nothing(self.failed(Failure::Error))
            }
            UpstreamEvent::Data(bytes) => self.on_head_bytes(bytes),
            // Nothing passes by itself before the body.
            UpstreamEvent::Passed(_) => Came { flow: Flow::Waits(On::Source), taken: 0 },
            UpstreamEvent::Room => {
                self.send_body();
                Came::nothing(Flow::Waits(On::Source))
            }
            UpstreamEvent::Timer => {
                self.tell_of_upstream("upstream timed out (110: Connection timed out)", self.doing());
                Came::nothing(self.failed(Failure::Timeout))
            }
            UpstreamEvent::End { .. } => {
                self.tell_of_upstream("upstream prematurely closed connection", self.doing());
                Came::nothing(self.failed(Failure::Error))
            }
            UpstreamEvent::Closed(why) => {
                let connects = relay.stage == RelayStage::Connects;
                let told = match why {
                    Closed::Reset if relay.shakes => {
                        "peer closed connection in SSL handshake (104: Connection reset by peer)".to_owned()
                    }
                    why => told_of(why, connects && !relay.shakes),
                };
                self.tell_of_upstream(&told, self.doing());
                let failure = if connects && why == Closed::TimedOut { Failure::Timeout } else { Failure::Error };
                Came::nothing(self.failed(failure))
            }
        }
    }
}

/// Queues a body in records, and their end. What of it is shared is not copied. Returns
/// how many bytes are not of the body.
fn send_records(replies: &mut dyn Replies, link: UpstreamId, body: &app::Body) -> u64 {
    let (mut at, length, mut framing) = (0, body.len(), 0);
    while at < length {
        let end = length.min(at + STDIN_PIECE);
        let mut head = Vec::new();
        let padding = cgi::fastcgi::stdin_head((end - at) as usize, &mut head);
        replies.send_upstream(link, Piece::Bytes(&head));
        replies.send_upstream(link, Piece::Body(body, (at, end)));
        replies.send_upstream(link, Piece::Bytes(&[0; 8][..padding]));
        framing += head.len() + padding;
        at = end;
    }
    let mut end = Vec::new();
    cgi::fastcgi::end_stdin(&mut end);
    replies.send_upstream(link, Piece::Bytes(&end));
    (framing + end.len()) as u64
}

/// Why a connection did not begin, in the system's words, and how severe nginx finds that.
const fn words_of(why: ConnectError) -> (ErrorLevel, &'static str) {
    match why {
        ConnectError::NoRoute => (ErrorLevel::ERROR, "101: Network is unreachable"),
        ConnectError::Refused => (ErrorLevel::ERROR, "111: Connection refused"),
        ConnectError::Busy => (ErrorLevel::ERROR, "11: Resource temporarily unavailable"),
        ConnectError::NoPort => (ErrorLevel::CRIT, "99: Cannot assign requested address"),
        ConnectError::Full => (ErrorLevel::CRIT, "24: Too many open files"),
        ConnectError::Path => (ErrorLevel::CRIT, "36: File name too long"),
        ConnectError::Missing => (ErrorLevel::CRIT, "2: No such file or directory"),
        ConnectError::Denied => (ErrorLevel::CRIT, "13: Permission denied"),
    }
}

/// What a connection's end is in the system's words.
pub(super) fn told_of(why: Closed, connects: bool) -> String {
    let errno = match why {
        Closed::Refused => "111: Connection refused",
        Closed::Reset => "104: Connection reset by peer",
        Closed::TimedOut => "110: Connection timed out",
        Closed::Unreachable(Unreachable::Network) => "101: Network is unreachable",
        Closed::Unreachable(Unreachable::Port) => "111: Connection refused",
        Closed::Unreachable(_) => "113: No route to host",
        Closed::Aborted => "103: Software caused connection abort",
        Closed::Finished => return "upstream prematurely closed connection".to_owned(),
    };
    if connects { format!("connect() failed ({errno})") } else { format!("recv() failed ({errno})") }
}

impl super::Rest {
    /// What becomes of a connection whose request is over.
    pub(super) fn end_link(
        &mut self,
        replies: &mut dyn Replies,
        loaded: &Rc<super::course::Loaded>,
        relay: &mut Relay,
        now: Time,
    ) {
        let Some(link) = relay.link.take() else { return };
        // A request of which something is left is the last.
        let sent = relay.body_done && replies.unsent_upstream(link) == 0;
        let keeps = relay.keeps && relay.gateway.as_ref().is_none_or(|answer| answer.may_be_kept() && !answer.ended);
        // Nobody is told a second time that its upstream has ended.
        if !(relay.complete && keeps && sent && !relay.ended) {
            match relay.complete && sent {
                true => replies.let_go(link),
                false => replies.cut(link),
            }
            return;
        }
        if !self.keep_link(replies, loaded, relay, (link, now)) {
            replies.let_go(link);
        }
    }

    /// Whether the connection is kept for another request.
    fn keep_link(
        &mut self,
        replies: &mut dyn Replies,
        loaded: &Rc<super::course::Loaded>,
        relay: &Relay,
        (link, now): (UpstreamId, Time),
    ) -> bool {
        let (Choice::Group(number), Some(peer)) = (&relay.choice, relay.last_peer) else { return false };
        if loaded.is_replaced.get() {
            return false;
        }
        let mut groups = loaded.groups.borrow_mut();
        // One to a peer of a group that was has no place any more.
        let group = groups.get_mut(usize::from(*number)).filter(|group| group.balancer.is_current(&relay.attempts));
        let idle = group.and_then(|group| group.idle.as_mut());
        let rules = loaded.program.upstreams.get(usize::from(*number)).and_then(|group| group.idle);
        let (Some(idle), Some(rules)) = (idle, rules) else { return false };
        let Some(way) = self.ways.number(relay.seeks.as_deref()) else { return false };
        let mark = self.idle.reserve();
        let conn = IdleLink { id: link, mark, way };
        let kept = KeptConnection { conn, requests: relay.carried + 1, opened: relay.opened };
        match idle.put(peer, kept, millis(now)) {
            PutBack::Kept(id, gone) => {
                self.idle.set(mark, *number, id);
                replies.set_upstream_mark(link, mark);
                replies.set_upstream_timer(link, Some(now + rules.timeout));
                if let Some(gone) = gone {
                    let _ = self.idle.take(gone.mark);
                    replies.let_go(gone.id);
                }
                true
            }
            PutBack::Spent => {
                let _ = self.idle.take(mark);
                false
            }
        }
    }

    /// Something happened at an idle connection: it is kept no more.
    pub(super) fn on_idle_event(
        &mut self,
        replies: &mut dyn Replies,
        loaded: &super::course::Loaded,
        id: UpstreamId,
        mark: u32,
    ) {
        if let Some((group, place)) = self.idle.take(mark)
            && let Some(idle) = loaded.groups.borrow_mut().get_mut(usize::from(group)).and_then(|one| one.idle.as_mut())
        {
            let _ = idle.remove(place);
        }
        replies.let_go(id);
    }

    /// All idle connections of a program that is replaced.
    pub(super) fn forget_idle(&mut self, loaded: &super::course::Loaded) {
        loaded.is_replaced.set(true);
        for group in loaded.groups.borrow_mut().iter_mut() {
            while let Some(link) = group.idle.as_mut().and_then(|idle| idle.poll_any()) {
                let _ = self.idle.take(link.mark);
                self.hangups.push(link.id);
            }
        }
        self.ways.clear();
    }
}

/// Whole seconds, of a clock that does not go back.
fn seconds(now: Time) -> i64 {
    i64::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}

fn millis(now: Time) -> u64 {
    now.as_nanos() / 1_000_000
}

impl super::Rest {
    /// A request is over, whatever it was passed on to.
    pub(super) fn abandon(&mut self, course: &mut super::course::Course) {
        let Some(mut relay) = course.relay.take() else { return };
        let now = seconds(self.clock.now);
        if let Some(link) = relay.link.take() {
            self.hangups.push(link);
        }
        match relay.choice {
            Choice::Group(number) => {
                if let Some(group) = course.loaded.groups.borrow_mut().get_mut(usize::from(number)) {
                    let _ = group.balancer.release(&mut relay.attempts, now, false);
                }
            }
            Choice::Own(mut balancer) => _ = balancer.release(&mut relay.attempts, now, false),
            Choice::Named(_) => {}
        }
    }
}
