//! Requests that are passed on to upstreams: how far each has come, and what a silo
//! knows of the servers that are asked.

use super::gateway_answer::GatewayAnswer;
use super::tunnel_pace::TunnelPace;
use crate::program::{Program, UpstreamGroup};
use crate::proxying::ProxyRules;
use bodies::BodyContent;
use core::time::Duration;
use exchange::UpstreamId;
use h1::client::ResponseReader;
use handshake::Sought;
use resolver::ResolverRules;
use semantics::Method;
use std::rc::Rc;
use std::sync::Arc;
use upstream::{Attempts, Balancer, IdleId, IdlePool, PeerAddress, PeerId};
use wire::Time;

/// A request that is passed on.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The connection, from when it is asked for until the answer is whole.
    pub link: Option<UpstreamId>,
    pub stage: RelayStage,
    /// The settings of the place that passes it on.
    pub rules: Arc<ProxyRules>,
    pub choice: Choice,
    pub attempts: Attempts,
    /// When the first server was asked.
    pub began: Time,
    pub reader: ResponseReader,
    /// The method that is told there.
    pub asked: Method,
    /// Whether asking twice may do twice what is asked.
    pub unrepeatable: bool,
    /// The request, body apart.
    pub head: Vec<u8>,
    /// What is asked for there, within `head`: for people.
    pub uri: (u32, u32),
    /// Its body, bytes of it that were queued, and whether all are.
    pub body: Option<BodyContent>,
    pub body_at: u64,
    pub body_done: bool,
    /// Or it goes on as it comes.
    pub stream: Option<BodyStream>,
    /// Where in the body the piece is from that is being read back, for whichever server
    /// it was asked.
    pub piece_at: Option<u64>,
    /// Some of the request was sent on this connection.
    pub sent: bool,
    /// The connection carried requests before this one: how many, and since when it is
    /// open, milliseconds.
    pub carried: u32,
    pub opened: u64,
    /// The answer's head: fields as they came, and its status.
    pub answer: Vec<u8>,
    pub fields_at: usize,
    pub status: u16,
    /// Bytes of hints that came before it.
    pub hints: u32,
    /// The answer's body, where all of it came with its head.
    pub whole: Option<Vec<u8>>,
    /// Bytes of the body that come, where that is known; and that are to come, where it is a
    /// slice.
    pub length: Option<u64>,
    pub expects: Option<u64>,
    /// All of the answer has come.
    pub complete: bool,
    /// Another request may follow on the connection.
    pub keeps: bool,
    /// Bytes wait at the data path until the client has taken some.
    pub held: bool,
    /// The rest of the body goes to the client by itself.
    pub passes: bool,
    /// The upstream sends no more than what waits there.
    pub ended: bool,
    /// No more is read than the rate allows, bytes a second, until its timer runs out; 0 is
    /// any number. Since when it is read.
    pub paced: bool,
    pub rate: u64,
    pub answered: Time,
    /// The server that was chosen last.
    pub last_peer: Option<PeerId>,
    /// More is read than the client takes at once.
    pub buffering: bool,
    /// Connections are secured, and lead there.
    pub seeks: Option<Box<Sought>>,
    /// The connection is being secured.
    pub shakes: bool,
    /// How far it is, where it is a tunnel.
    pub tunnel: Option<Box<TunnelPace>>,
    /// A program answers.
    pub gateway: Option<Box<GatewayAnswer>>,
}

/// A body that goes on to an upstream as it comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BodyStream {
    /// Bytes of it; if nobody knows, it goes in chunks.
    pub length: Option<u64>,
    /// It goes in records of FastCGI.
    pub records: bool,
    /// Some of it is left with the client until there is room.
    pub held: bool,
}

/// What pads records.
const ZEROS: &[u8] = &[0; 8];

impl BodyStream {
    /// The most bytes that are framed together.
    pub const fn part_max(&self) -> usize {
        if self.records { cgi::fastcgi::STDIN_PIECE } else { usize::MAX }
    }

    /// Writes what stands before so many bytes of it; returns what stands behind them.
    pub fn frame(&self, bytes: usize, out: &mut Vec<u8>) -> &'static [u8] {
        if self.records {
            let padding = cgi::fastcgi::stdin_head(bytes, out);
            return ZEROS.get(..padding).unwrap_or_default();
        }
        if self.length.is_some() {
            return b"";
        }
        out.extend_from_slice(format!("{bytes:x}\r\n").as_bytes());
        b"\r\n"
    }

    /// Writes what stands behind all of it.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.records {
            cgi::fastcgi::end_stdin(out);
        } else if self.length.is_none() {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// Where a request is that is passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RelayStage {
    /// Addresses are being found out.
    Resolves,
    /// A connection is being made.
    Connects,
    /// The request is sent, and its answer's head comes.
    Head,
    /// The answer's body comes.
    Body,
    /// Both sides send what they like.
    Tunnel,
}

/// Whom a request may be passed on to.
#[derive(Debug)]
pub(crate) enum Choice {
    /// One of the program's groups.
    Group(u16),
    /// Servers that were found out for it alone.
    Own(Box<Balancer>),
    /// Those at a host whose addresses are to be found out.
    Named(Box<NamedUpstream>),
}

/// A host whose addresses are to be found out for a request.
#[derive(Clone, Debug)]
pub(crate) struct NamedUpstream {
    pub host: Box<[u8]>,
    pub port: u16,
    pub resolver: Arc<ResolverRules>,
}

/// What became of one server that was asked: for `$upstream_…`.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpstreamTry {
    /// Who; none stands between two passes of one request.
    pub peer: Option<Rc<[u8]>>,
    pub status: u16,
    pub began: Time,
    pub connect: Option<Duration>,
    pub header: Option<Duration>,
    pub response: Option<Duration>,
    /// Bytes of the body, of all that came, and of what was sent.
    pub length: u64,
    pub received: u64,
    pub sent: u64,
}

/// An idle connection: it, and its mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdleLink {
    pub id: UpstreamId,
    pub mark: u32,
    /// How it is secured ([`SecuredWays`]).
    pub way: u32,
}

/// What kept connections were secured for: none serves whom it was not verified for.
#[derive(Debug, Default)]
pub(crate) struct SecuredWays(Vec<Sought>);

/// More than so many are not told apart, and their connections not kept.
const WAYS_MAX: usize = 1_024;

impl SecuredWays {
    /// The number of this one; 0 is that of connections that are not secured.
    pub fn number(&mut self, seeks: Option<&Sought>) -> Option<u32> {
        let Some(seeks) = seeks else { return Some(0) };
        let shows = |sought: &Sought| sought.shows.as_ref().map(|shows| shows.files.clone());
        let shown = shows(seeks);
        let is_same = |one: &Sought| {
            let are_names = one.name == seeks.name && one.told == seeks.told;
            Arc::ptr_eq(&one.tls, &seeks.tls) && are_names && shows(one) == shown
        };
        let at = self.0.iter().position(is_same);
        if at.is_none() && self.0.len() >= WAYS_MAX {
            return None;
        }
        let at = at.unwrap_or_else(|| {
            self.0.push(Sought { peer: Box::default(), ..seeks.clone() });
            self.0.len() - 1
        });
        Some(at as u32 + 1)
    }

    /// Forgets all, once no connection is kept.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// A group as one silo has it.
#[derive(Debug)]
pub(crate) struct SiloGroup {
    pub balancer: Balancer,
    pub idle: Option<IdlePool<IdleLink>>,
    /// Those that are to be closed: their peers are gone.
    pub gone: Vec<IdleLink>,
    /// Peers, as logs name them.
    pub texts: Vec<Rc<[u8]>>,
}

impl SiloGroup {
    /// Those of a program.
    pub fn of(program: &Program) -> Vec<Self> {
        let one = |group: &UpstreamGroup| Self {
            balancer: Balancer::new(Arc::clone(&group.group)),
            idle: group.idle.map(|rules| IdlePool::new(rules, Arc::clone(&group.group))),
            gone: Vec::new(),
            texts: group.group.peers().iter().map(|peer| peer_text(&peer.address)).collect(),
        };
        program.upstreams.iter().map(one).collect()
    }
}

/// A peer as logs name it.
pub(crate) fn peer_text(address: &PeerAddress) -> Rc<[u8]> {
    Rc::from(address.to_string().into_bytes())
}

/// Where idle connections are kept: by the marks that they have.
#[derive(Debug, Default)]
pub(crate) struct IdlePlaces {
    places: Vec<Option<(u16, IdleId)>>,
    free: Vec<u32>,
}

/// Marks of connections that belong to no request have this bit.
pub(crate) const IDLE: u32 = 1 << 31;

impl IdlePlaces {
    /// A mark that nothing has.
    pub fn reserve(&mut self) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        place | IDLE
    }

    /// Marks that are in use.
    pub fn used(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn set(&mut self, mark: u32, group: u16, id: IdleId) {
        if let Some(place) = self.places.get_mut((mark & !IDLE) as usize) {
            *place = Some((group, id));
        }
    }

    /// What has this mark, which is free from now on.
    pub fn take(&mut self, mark: u32) -> Option<(u16, IdleId)> {
        let found = self.places.get_mut((mark & !IDLE) as usize)?.take();
        self.free.push(mark & !IDLE);
        found
    }
}

impl Relay {
    /// Whether the request's body is sent in records.
    pub fn frames(&self) -> bool {
        self.gateway.as_ref().is_some_and(|answer| answer.frames())
    }

    /// Who is asked now.
    pub const fn peer(&self) -> Option<PeerId> {
        self.attempts.current()
    }

    /// Fields of the answer, as lines.
    pub fn fields(&self) -> &[u8] {
        self.answer.get(self.fields_at..).unwrap_or_default()
    }

    /// Lets go of what is held for a request that is over.
    pub fn forget(&mut self) {
        (self.body, self.whole, self.gateway) = (None, None, None);
        self.choice = Choice::Group(0);
    }

    /// Forgets the answer of one server before another is asked.
    pub fn begin_again(&mut self) {
        self.reader = ResponseReader::new();
        self.answer.clear();
        (self.body_at, self.body_done, self.hints) = (0, false, 0);
        if let Some(gateway) = &mut self.gateway {
            gateway.begin_again();
        }
        self.shakes = false;
        (self.sent, self.whole, self.length, self.complete, self.keeps) = (false, None, None, false, false);
        self.expects = None;
        (self.held, self.ended, self.carried, self.status, self.fields_at) = (false, false, 0, 0, 0);
    }

    /// Bytes of a body that may wait for their client.
    pub fn ahead_max(&self) -> usize {
        let bytes = if self.buffering { self.rules.ahead } else { self.rules.head_max };
        bytes as usize
    }
}

#[cfg(test)]
pub(in crate::engine) mod tests;
