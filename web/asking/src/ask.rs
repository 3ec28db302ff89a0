//! One question under way.

use crate::groups::ServerGroups;
use crate::kept::KeptLinks;
use crate::link::AskLink;
use crate::program::ProgramProtocol;
use crate::question::Sending;
use crate::rules::{AskRules, AskSpec, Protocol, Servers};
use crate::tries::{AskNote, AskTry, NoteLevel};
use crate::tunnel_pace::TunnelPace;
use core::net::IpAddr;
use core::time::Duration;
use exchange::{LINGER, Piece, Upstreams};
use h1::client::{NotedLines, ResponseReader};
use handshake::Sought;
use proxy::next::Failure;
use semantics::Method;
use upstream::{Attempts, PeerId};
use wire::Time;

/// What it takes to go on with a question, for one call.
pub struct AskTurn<'a> {
    /// Connections to servers.
    pub io: &'a mut dyn Upstreams,
    /// Those of the silo that are kept.
    pub kept: &'a mut KeptLinks,
    /// The servers.
    pub groups: &'a ServerGroups,
    /// The time of this turn.
    pub now: Time,
}

impl AskTurn<'_> {
    #[inline(always)]
    pub(crate) fn set_timer(&mut self, link: AskLink, at: Option<Time>) {
        match link {
            AskLink::Own(id) => self.io.set_upstream_timer(id, at),
            AskLink::Shared(id) => self.kept.shared.set_timer(id, at),
        }
    }

    /// More is to be read at this time, and the server is not late before it.
    pub(crate) fn set_pace(&mut self, link: AskLink, at: Option<Time>) {
        match link {
            AskLink::Own(id) => self.io.set_upstream_timer(id, at),
            AskLink::Shared(id) => self.kept.shared.set_pace(id, at),
        }
    }

    #[inline(always)]
    pub(crate) fn resume(&mut self, link: AskLink) {
        match link {
            AskLink::Own(id) => self.io.receive_upstream(id, usize::MAX),
            AskLink::Shared(id) => self.kept.shared.resume(id),
        }
    }

    /// What a stream receives is bounded by its window, which is opened where all is to be received.
    #[inline(always)]
    pub(crate) fn receive(&mut self, link: AskLink, most: usize) {
        match link {
            AskLink::Own(id) => self.io.receive_upstream(id, most),
            AskLink::Shared(id) if most == usize::MAX => self.kept.shared.widen(id),
            AskLink::Shared(_) => {}
        }
    }

    #[inline(always)]
    pub(crate) fn unsent(&self, link: AskLink) -> usize {
        match link {
            AskLink::Own(id) => self.io.unsent_upstream(id),
            AskLink::Shared(id) => self.kept.shared.unsent(id),
        }
    }

    #[inline(always)]
    pub(crate) fn send(&mut self, link: AskLink, piece: Piece<'_>) {
        match link {
            AskLink::Own(id) => _ = self.io.send_upstream(id, piece),
            AskLink::Shared(id) => self.kept.shared.send(self.io, id, piece),
        }
    }

    /// It is closed once what is queued is sent; a stream, at once.
    #[inline(always)]
    pub(crate) fn let_go(&mut self, link: AskLink) {
        match link {
            AskLink::Own(id) => self.io.let_go(id, LINGER),
            AskLink::Shared(id) => self.kept.shared.release(id),
        }
    }

    #[inline(always)]
    pub(crate) fn cut(&mut self, link: AskLink) {
        match link {
            AskLink::Own(id) => self.io.let_go(id, Duration::ZERO),
            AskLink::Shared(id) => self.kept.shared.release(id),
        }
    }
}

/// Where a question is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskStage {
    /// Addresses of its servers are being found out.
    Resolves,
    /// A connection is being made.
    Connects,
    /// It is sent, and its answer's head comes.
    Head,
    /// The answer's body comes.
    Body,
    /// Both sides send what they like.
    Tunnel,
}

/// What a step came to.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskStep {
    /// It goes on as something happens at its connection.
    Waits,
    /// The addresses of its servers are to be found out first: then [`Ask::ask`], or, of
    /// those at a host, [`Ask::found`].
    WantsNames,
    /// The body that is sent is to be read back from this byte on; [`Ask::reads_piece`] if
    /// that begins.
    WantsPiece(u64),
    /// There is room for more of a body that goes on as it comes.
    WantsBody,
    /// Nobody is left to ask: to be [ended](Ask::end).
    Failed(Failure),
    /// What the server is to be shown cannot be had, which is nobody's fault but ours: to be
    /// [ended](Ask::end).
    NoCertificate,
    /// The body that is sent cannot be read back: to be [ended](Ask::end).
    NoBody,
}

/// A question, from when a server is looked for until its answer is whole, or nobody is
/// left to ask. Whoever asks lets it [end](Ask::end): else a server counts it for good.
#[derive(Debug)]
pub struct Ask {
    pub(crate) mark: u32,
    pub(crate) rules: AskRules,
    pub(crate) stage: AskStage,
    /// The connection, from when it is asked for until the answer is whole.
    pub(crate) link: Option<AskLink>,
    pub(crate) servers: Servers,
    pub(crate) attempts: Attempts,
    /// The server that was chosen last.
    pub(crate) last_peer: Option<PeerId>,
    /// When the first server was asked.
    pub(crate) began: Time,
    pub(crate) from: Option<IpAddr>,
    /// Connections are secured, and lead there; one is being secured.
    pub(crate) seeks: Option<Box<Sought>>,
    pub(crate) shakes: bool,
    /// The connection carried questions before this one: how many, and since when it is
    /// open, milliseconds.
    pub(crate) carried: u32,
    pub(crate) opened: u64,
    pub(crate) asked: Method,
    pub(crate) unrepeatable: bool,
    pub(crate) head_only: bool,
    pub(crate) sending: Sending,
    pub(crate) reading: Reading,
    /// How far it is, where it is a tunnel.
    pub(crate) tunnel: Option<Box<TunnelPace>>,
    pub(crate) tries: Vec<AskTry>,
    pub(crate) notes: Vec<AskNote>,
}

/// How far an answer has come.
#[derive(Debug)]
pub(crate) struct Reading {
    pub protocol: Protocol,
    /// Of HTTP.
    pub reader: ResponseReader,
    /// Its head: fields as they came, and its status.
    pub head: Vec<u8>,
    pub fields_at: usize,
    pub status: u16,
    /// Where their lines end, where that was noted.
    pub noted: NotedLines,
    /// A name among them begins with `x`; of other protocols than HTTP/1.1 that is not looked for.
    pub has_x_field: bool,
    /// A program's words behind its status; perhaps none.
    pub reason: Box<[u8]>,
    /// Bytes of hints that came before it.
    pub hints: u32,
    /// Its body, where all of it came with its head; else memory for that.
    pub whole: Option<Vec<u8>>,
    pub memory: Vec<u8>,
    /// Bytes that came behind that.
    pub behind: usize,
    /// Bytes of the body that come, where that is known.
    pub length: Option<u64>,
    /// All of it has come.
    pub complete: bool,
    /// Another question may follow on the connection.
    pub keeps: bool,
    /// Bytes wait at the data path until who asked has taken some.
    pub held: bool,
    /// The connection of which little is received at a time ([`Ask::receive_little`]).
    pub little: Option<AskLink>,
    /// Who asked takes nothing of a body now ([`Ask::set_waits`]).
    pub waits: bool,
    /// The rest of the body goes to a client by itself.
    pub passes: bool,
    /// The server sends no more than what waits there.
    pub ended: bool,
    /// No more is read than the rate allows, bytes a second, until its timer runs out; 0 is
    /// any number. Since when it is read.
    pub paced: bool,
    pub rate: u64,
    pub since: Time,
    /// When the server is late, or more is read; never while who asked is waited for.
    pub due: Option<Time>,
    /// More is read than is taken at once.
    pub buffering: bool,
}

impl Reading {
    /// That of another question, in the place of one that is over.
    #[inline(always)]
    fn renew(&mut self, protocol: Protocol, memory: [Vec<u8>; 2], (now, buffering): (Time, bool)) {
        let Self {
            protocol: own_protocol,
            reader,
            head,
            fields_at,
            status,
            noted,
            has_x_field,
            reason,
            hints,
            whole,
            memory: own_memory,
            behind,
            length,
            complete,
            keeps,
            held,
            little,
            waits,
            passes,
            ended,
            paced,
            rate,
            since,
            due,
            buffering: own_buffering,
        } = self;
        *own_protocol = protocol;
        *reader = ResponseReader::new();
        [*head, *own_memory] = memory;
        (*fields_at, *status, *hints, *behind) = (0, 0, 0, 0);
        (*whole, *length, *little, *due) = (None, None, None, None);
        (*complete, *keeps, *held, *waits) = (false, false, false, false);
        (*passes, *ended, *paced, *own_buffering) = (false, false, false, buffering);
        (*noted, *has_x_field) = (NotedLines::NONE, false);
        (*rate, *since) = (0, now);
        if !reason.is_empty() {
            *reason = Box::default();
        }
    }

    /// Forgets the answer of one server before another is asked.
    fn begin_again(&mut self) {
        self.reader = ResponseReader::new();
        self.head.clear();
        match &mut self.protocol {
            Protocol::Http => {}
            Protocol::Http2(answer) => answer.begin_again(),
            Protocol::Program(program) => program.begin_again(),
        }
        (self.hints, self.status, self.fields_at) = (0, 0, 0);
        (self.whole, self.length, self.complete, self.keeps) = (None, None, false, false);
        (self.held, self.ended, self.reason) = (false, false, Box::default());
    }

    /// The program that answers, if one does.
    pub fn program(&self) -> Option<&crate::ProgramAnswer> {
        match &self.protocol {
            Protocol::Program(program) => Some(program),
            Protocol::Http | Protocol::Http2(_) => None,
        }
    }
}

impl Ask {
    /// A question that nobody was asked yet: [`Ask::ask`] begins.
    #[must_use]
    pub fn new(spec: AskSpec<'_>, groups: &ServerGroups, now: Time) -> Self {
        let mut attempts = groups.begin(&spec.servers, spec.key);
        let [head, memory] = spec.memory;
        attempts.limit(spec.rules.tries);
        let mut tries = spec.tries;
        if !tries.is_empty() {
            // Those of another question for the same stand apart.
            tries.push(AskTry::default());
        }
        Self {
            mark: spec.mark,
            rules: spec.rules,
            stage: AskStage::Connects,
            link: None,
            servers: spec.servers,
            attempts,
            last_peer: None,
            began: now,
            from: spec.from,
            seeks: spec.seeks,
            shakes: false,
            carried: 0,
            opened: 0,
            asked: spec.asked,
            unrepeatable: spec.unrepeatable,
            head_only: spec.head_only,
            sending: Sending::new(spec.head, spec.target, spec.body, spec.stream),
            reading: Reading {
                protocol: spec.protocol,
                reader: ResponseReader::new(),
                head,
                fields_at: 0,
                status: 0,
                noted: NotedLines::NONE,
                has_x_field: false,
                reason: Box::default(),
                hints: 0,
                whole: None,
                memory,
                behind: 0,
                length: None,
                complete: false,
                keeps: false,
                held: false,
                little: None,
                waits: false,
                passes: false,
                ended: false,
                paced: false,
                rate: 0,
                since: now,
                due: None,
                buffering: spec.rules.buffering,
            },
            tunnel: None,
            tries,
            notes: Vec::new(),
        }
    }

    /// A question as by [`Ask::new`], in the place of one that is over.
    #[inline(always)]
    pub fn renew(&mut self, spec: AskSpec<'_>, groups: &ServerGroups, now: Time) {
        let Self {
            mark,
            rules,
            stage,
            link,
            servers,
            attempts,
            last_peer,
            began,
            from,
            seeks,
            shakes,
            carried,
            opened,
            asked,
            unrepeatable,
            head_only,
            sending,
            reading,
            tunnel,
            tries,
            notes,
        } = self;
        *attempts = groups.begin(&spec.servers, spec.key);
        attempts.limit(spec.rules.tries);
        reading.renew(spec.protocol, spec.memory, (now, spec.rules.buffering));
        sending.renew(spec.head, spec.target, spec.body, spec.stream);
        (*mark, *rules, *servers) = (spec.mark, spec.rules, spec.servers);
        (*stage, *link, *last_peer, *began) = (AskStage::Connects, None, None, now);
        (*from, *seeks, *shakes, *carried, *opened) = (spec.from, spec.seeks, false, 0, 0);
        (*asked, *unrepeatable, *head_only) = (spec.asked, spec.unrepeatable, spec.head_only);
        (*tunnel, *tries) = (None, spec.tries);
        notes.clear();
        if !tries.is_empty() {
            // Those of another question for the same stand apart.
            tries.push(AskTry::default());
        }
    }

    /// Where it is.
    #[must_use]
    pub const fn stage(&self) -> AskStage {
        self.stage
    }

    /// Its connection, as long as it has one.
    #[must_use]
    pub const fn link(&self) -> Option<AskLink> {
        self.link
    }

    /// Its rules.
    #[must_use]
    pub const fn rules(&self) -> &AskRules {
        &self.rules
    }

    /// The method that it asks with.
    #[must_use]
    pub const fn asked(&self) -> Method {
        self.asked
    }

    /// Whom it goes to.
    #[must_use]
    pub const fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Servers that were asked so far, those of questions before it too.
    #[must_use]
    pub fn tries(&self) -> &[AskTry] {
        &self.tries
    }

    /// The status of the answer whose head came.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.reading.status
    }

    /// Its fields, as lines.
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        self.reading.head.get(self.reading.fields_at..).unwrap_or_default()
    }

    /// Where their lines end, where that was noted.
    #[must_use]
    pub const fn noted_lines(&self) -> NotedLines {
        self.reading.noted
    }

    /// Whether the name of one of them may begin with `x`.
    #[must_use]
    pub const fn may_have_x_field(&self) -> bool {
        self.reading.has_x_field || !matches!(self.reading.protocol, Protocol::Http)
    }

    /// Bytes of its body, where that is known.
    #[must_use]
    pub const fn length(&self) -> Option<u64> {
        self.reading.length
    }

    /// Whether all of it has come.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.reading.complete
    }

    /// Whether more of it comes.
    #[must_use]
    pub const fn comes(&self) -> bool {
        self.link.is_some() && !self.reading.complete
    }

    /// Its body, where all of it came with its head: taken by who asks, and counted by that, as
    /// nginx counts it, with what came behind it.
    pub fn take_whole(&mut self) -> Option<Vec<u8>> {
        let whole = self.reading.whole.take()?;
        let counts = !self.head_only && self.reading.program().is_none();
        if let Some(last) = self.tries.last_mut().filter(|_| counts) {
            last.length += (whole.len() + self.reading.behind) as u64;
        }
        Some(whole)
    }

    /// Whether more is read than is taken at once, for this answer.
    pub const fn set_buffering(&mut self, on: bool) {
        self.reading.buffering = on;
    }

    /// Whether it is.
    #[must_use]
    pub const fn is_buffering(&self) -> bool {
        self.reading.buffering
    }

    /// The same of who asked and has gone: so much of its body is read on.
    #[must_use]
    pub const fn left_max(&self) -> usize {
        if self.reading.buffering { self.rules.ahead as usize } else { 0 }
    }

    /// Whether the rest of its body goes to a client by itself.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        self.reading.passes
    }

    /// Bytes of its body that may wait for who takes it.
    #[must_use]
    pub const fn ahead_max(&self) -> usize {
        let bytes = if self.reading.buffering { self.rules.ahead } else { self.rules.head_max };
        bytes as usize
    }

    /// What is asked for at the server that is asked now: for people. Without what stands
    /// between a path and it once the server `is_asked` no more, as nginx has it.
    #[must_use]
    pub fn url(&self, is_asked: bool) -> Option<Vec<u8>> {
        let peer = self.tries.last()?.peer.as_ref()?;
        let is_grpc = matches!(&self.reading.protocol, Protocol::Http2(answer) if answer.is_grpc);
        // As nginx has it, which says no path of gRPC's.
        let target = if is_grpc { &b""[..] } else { self.sending.target()? };
        let apart: &[u8] = if is_asked && !is_grpc && peer.starts_with(b"unix:") { b":" } else { b"" };
        let scheme: &[u8] = match (self.reading.program(), &self.seeks) {
            (None, None) if is_grpc => b"grpc://",
            (None, Some(_)) if is_grpc => b"grpcs://",
            (None, None) => b"http://",
            (None, Some(_)) => b"https://",
            (Some(_), Some(_)) => b"suwsgi://",
            (Some(program), None) => match program.protocol() {
                ProgramProtocol::FastCgi => b"fastcgi://",
                ProgramProtocol::Uwsgi => b"uwsgi://",
                ProgramProtocol::Scgi => b"scgi://",
            },
        };
        Some([scheme, peer, apart, target].concat())
    }

    /// What it is about, for people.
    #[must_use]
    pub const fn doing(&self) -> &'static str {
        if self.shakes {
            return "SSL handshaking to upstream";
        }
        match self.stage {
            AskStage::Resolves | AskStage::Connects => "connecting to upstream",
            AskStage::Head => "reading response header from upstream",
            AskStage::Body => "reading upstream",
            AskStage::Tunnel => "proxying upgraded connection",
        }
    }

    /// Whether there is something to say.
    #[inline]
    #[must_use]
    pub const fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// What there is to say since this was asked last.
    pub fn take_notes(&mut self) -> Vec<AskNote> {
        core::mem::take(&mut self.notes)
    }

    pub(crate) fn note(&mut self, level: NoteLevel, what: impl Into<String>, doing: &'static str) {
        let url = self.url(true);
        self.notes.push(AskNote { level, what: what.into(), doing, url });
    }

    /// Something goes wrong at the server that is asked.
    pub(crate) fn note_fault(&mut self, what: impl Into<String>) {
        self.note(NoteLevel::Error, what, self.doing());
    }

    /// Forgets the answer of one server before another is asked.
    pub(crate) fn begin_again(&mut self) {
        self.reading.begin_again();
        self.sending.begin_again();
        (self.shakes, self.carried) = (false, 0);
    }

    /// The memory of one that is over: its head, its answer's head and body, and what became of
    /// the servers that were asked.
    #[must_use]
    pub fn into_memory(&mut self) -> ([Vec<u8>; 3], Vec<AskTry>) {
        self.servers = Servers::Group(0);
        self.reading.protocol = Protocol::Http;
        let head = self.sending.forget();
        let Reading { head: answer, memory, whole, .. } = &mut self.reading;
        let body = whole.take().unwrap_or_else(|| core::mem::take(memory));
        ([head, core::mem::take(answer), body], core::mem::take(&mut self.tries))
    }
}
