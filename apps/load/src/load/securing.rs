//! HTTPS: the handshake of each connection, worked on in the turn that brings its bytes.

use super::requests::{EarlyRequest, FirstRequest};
use super::{Load, Phase};
use crate::conn::State;
use crate::figures::{Agreed, Ended, Figures, count_agreed};
use crate::recorder::Recorder;
use app::{ConnId, Net};
use handshake::{ConnectOutcome, Connected, Connector, Failure, ServerSession, ServerVerdict, Sought, Version};
use std::collections::BTreeMap;
use wire::Time;

/// What the generator speaks above TLS (RFC 7301): what it would not understand is refused.
const SPOKEN: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// Handshakes under way, and what came of those before.
#[derive(Debug)]
pub struct Securing {
    sought: Sought,
    /// By the connection's slot: as many as [`crate::Plan::handshakes`] at most. One that failed has
    /// none any more, and waits for its end.
    under_way: BTreeMap<usize, UnderWay>,
    took: Recorder,
    agreed: Vec<(Agreed, u64)>,
    failure: Option<String>,
}

#[derive(Debug)]
struct UnderWay {
    connector: Connector,
    established: Time,
    /// Its first request, where it is known; with the bytes if they were sent with the first of the handshake.
    early: Option<(u16, Option<Box<[u8]>>)>,
}

/// Why a connection is not secured.
enum Unsecured {
    /// The handshake failed.
    Failed(Failure),
    /// The server is not to be trusted, in words.
    Untrusted(String),
    /// It speaks another protocol than is to be spoken.
    Misspoken(String),
    /// Its end came first.
    Ended,
}

impl Securing {
    pub fn new(sought: Sought) -> Self {
        Self { sought, under_way: BTreeMap::new(), took: Recorder::new(), agreed: Vec::new(), failure: None }
    }

    /// Hands over what was measured.
    pub fn end(&mut self, figures: &mut Figures) {
        figures.handshake = core::mem::take(&mut self.took);
        figures.agreed = core::mem::take(&mut self.agreed);
        figures.connection_failure = self.failure.take();
    }
}

impl Load {
    /// A connection is established that is to be secured.
    pub(super) fn begin_securing<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(sought) = self.securing.as_ref().map(|securing| securing.sought.clone()) else { return };
        let Some(conn) = self.table.get_mut(id) else { return };
        // `since` stays: patience is with the connect and the handshake together.
        conn.state = State::Securing;
        let early = if sought.tls.sends_early() { self.draw_early(id) } else { None };
        let mut connector = Connector::new(sought);
        if let Some((_, Some(bytes))) = &early {
            connector = connector.with_early(bytes.clone());
        }
        let Some(securing) = &mut self.securing else { return };
        securing.under_way.insert(id.index(), UnderWay { connector, established: now, early });
        self.on_handshake_bytes(net, id, &[]);
        let under_way = self.securing.as_mut().and_then(|securing| securing.under_way.get_mut(&id.index()));
        if let Some(one) = under_way {
            if one.connector.sent_early() > 0 {
                // It is one of those that may be sent from here on.
                self.allowance -= 1;
                self.progress.sent(now);
            } else if let Some((_, bytes)) = &mut one.early {
                *bytes = None;
            }
        }
    }

    /// Takes what the server sends before the connection is secured: whole records. How many bytes
    /// were taken.
    pub(super) fn on_handshake_bytes<N: Net>(&mut self, net: &mut N, id: ConnId, bytes: &[u8]) -> usize {
        let Some(securing) = &mut self.securing else { return bytes.len() };
        // What comes behind a failure is of no use.
        let Some(one) = securing.under_way.get_mut(&id.index()) else { return bytes.len() };
        if !bytes.is_empty() && !Connector::has_record(bytes) {
            return 0;
        }
        let step = one.connector.on_bytes(bytes);
        if !step.out.is_empty() {
            net.send_bytes(id, &step.out);
        }
        match step.outcome {
            ConnectOutcome::Waits => {}
            ConnectOutcome::Done(connected) => self.on_handshake_done(net, id, *connected),
            ConnectOutcome::Failed(why) => {
                self.fail_securing(net, id, Unsecured::Failed(why));
                return bytes.len();
            }
        }
        step.consumed
    }

    fn on_handshake_done<N: Net>(&mut self, net: &mut N, id: ConnId, connected: Connected) {
        let now = net.now();
        if let Some(why) = self
            .securing
            .as_ref()
            .and_then(|securing| unfit(&securing.sought, &connected.session, self.http2.is_some()))
        {
            return self.fail_securing(net, id, why);
        }
        let Some((layer, session)) = connected.into_layer() else {
            return self.fail_securing(net, id, Unsecured::Failed(Failure::Over));
        };
        if !net.secure(id, layer) {
            return self.fail_securing(net, id, Unsecured::Ended);
        }
        let Some(securing) = &mut self.securing else { return };
        let mut first = None;
        if let Some(one) = securing.under_way.remove(&id.index()) {
            securing.took.record(now.since(one.established).as_nanos() as u64);
            first = one.early.map(|(number, bytes)| match bytes.zip(session.early) {
                None => FirstRequest::Drawn(number),
                Some((bytes, outcome)) => {
                    let taken = if outcome.accepted { outcome.bytes } else { 0 };
                    FirstRequest::Sent(EarlyRequest { number, bytes, sent: one.established, taken })
                }
            });
        }
        count_agreed(&mut securing.agreed, &agreed(&session), 1);
        let connections = &mut self.counts.connections;
        connections.resumed += u64::from(session.resumed);
        if let Some(FirstRequest::Sent(early)) = &first {
            *(if early.taken > 0 { &mut connections.early } else { &mut connections.early_refused }) += 1;
        }
        self.on_ready(net, id, first);
    }

    /// A connection will not be ready: what was sent on it is no request in progress.
    fn forget_early(&mut self, one: &UnderWay) {
        if one.connector.sent_early() > 0 {
            self.progress.ended(one.established.as_nanos());
            if !matches!(self.phase, Phase::Ended) {
                self.allowance = self.allowance.saturating_add(1);
            }
        }
    }

    /// The server finished before the connection was secured.
    pub(super) fn on_handshake_end<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.fail_securing(net, id, Unsecured::Ended);
        net.finish(id);
    }

    /// A connection will not be secured. What there was to say to the server goes out before the
    /// end; its answer is waited for no longer than the handshake would have been.
    fn fail_securing<N: Net>(&mut self, net: &mut N, id: ConnId, why: Unsecured) {
        let under_way = self.securing.as_mut().and_then(|securing| securing.under_way.remove(&id.index()));
        let Some(one) = under_way else { return };
        self.forget_early(&one);
        let Some(securing) = &mut self.securing else { return };
        let now = net.now();
        let errors = &mut self.counts.errors;
        // A server under load may drop handshakes; one that refuses the first refuses all.
        let (count, lasting, words) = match why {
            Unsecured::Ended | Unsecured::Failed(Failure::Closed) => (
                &mut errors.handshake_failed,
                false,
                "the server closed the connection within the handshake".to_owned(),
            ),
            Unsecured::Failed(why) => (&mut errors.handshake_failed, true, why.to_string()),
            Unsecured::Untrusted(words) => (&mut errors.untrusted, true, words),
            Unsecured::Misspoken(words) => (&mut errors.handshake_failed, true, words),
        };
        *count += 1;
        securing.failure.get_or_insert(words);
        self.back_off(now);
        net.finish(id);
        if lasting && self.counts.connections.established == 0 && !matches!(self.phase, Phase::Ended) {
            self.end(now, Ended::Unsecured);
        }
    }

    /// A connection that was not secured is closed.
    pub(super) fn on_unsecured_close(&mut self, now: Time, id: ConnId, overdue: bool) {
        self.handshakes -= 1;
        self.serving -= 1;
        let under_way = self.securing.as_mut().and_then(|securing| securing.under_way.remove(&id.index()));
        if let Some(one) = &under_way {
            self.forget_early(one);
        }
        // The others were counted when they failed; those that we end at the end did not fail.
        if under_way.is_some() && !matches!(self.phase, Phase::Ended) {
            let errors = &mut self.counts.errors;
            *(if overdue { &mut errors.handshake_timeouts } else { &mut errors.handshake_failed }) += 1;
            self.back_off(now);
        }
    }
}

fn agreed(session: &ServerSession) -> Agreed {
    Agreed {
        version: match session.version {
            Version::Tls12 => "TLSv1.2".into(),
            Version::Tls13 => "TLSv1.3".into(),
        },
        suite: session.suite.into(),
        protocol: session.protocol.as_ref().map(|name| String::from_utf8_lossy(name).into_owned()),
    }
}

/// Why nothing is to be asked on a connection that could be secured, over HTTP/2 or HTTP/1.1, in words.
pub fn unsuited(sought: &Sought, session: &ServerSession, http2: bool) -> Option<String> {
    match unfit(sought, session, http2)? {
        Unsecured::Untrusted(words) | Unsecured::Misspoken(words) => Some(words),
        Unsecured::Failed(_) | Unsecured::Ended => None,
    }
}

/// Why nothing is to be asked on a connection that could be secured.
fn unfit(sought: &Sought, session: &ServerSession, http2: bool) -> Option<Unsecured> {
    if http2 {
        // RFC 9113 section 3.2.
        if session.protocol.as_deref() != Some(b"h2") {
            let why = "the server does not speak HTTP/2: it did not choose h2 (ALPN)";
            return Some(Unsecured::Misspoken(why.to_owned()));
        }
    } else if let Some(other) = session.protocol.as_ref().filter(|name| !SPOKEN.contains(&&***name)) {
        let why = format!("the server chose to speak {}, which was not offered", other.escape_ascii());
        return Some(Unsecured::Misspoken(why));
    }
    let untrusted = match session.verdict {
        ServerVerdict::NotAsked | ServerVerdict::Trusted => None,
        ServerVerdict::Refused(why) => Some(format!("the server's certificate is not trusted: {why}")),
        ServerVerdict::Misnamed => Some(format!("the server's certificate is not {}'s", sought.name.escape_ascii())),
    };
    untrusted.map(Unsecured::Untrusted)
}
