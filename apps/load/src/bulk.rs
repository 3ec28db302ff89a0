//! A link measured by streams without end, as iperf3 does it: how many bytes
//! go through in either direction.
//!
//! Any server of HTTP/1.1 is the other side. What it sends is the same answer
//! over and over, of which one more is always asked for than is under way; what
//! it is sent are requests with content, one behind the other, which it is to take
//! and answer.

mod figures;

pub use figures::{BulkInterval, BulkRate, BulkReport, BulkSetup, BulkSpan, BulkWay};

use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened, Wake};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use h1::client::{Counted, RequestHead, ResponseLimits, ResponseReader};
use semantics::Method;
use serde::Serialize;
use wire::Time;

/// Content of one request that sends, in bytes: what servers take where nothing else is said.
const BLOCK: u64 = 1 << 20;

/// The piece that contents are made of, in bytes.
const PIECE: usize = 1 << 20;

/// Bytes that are queued for a stream at most: what a window of 25 Gbit/s over 1 ms
/// takes, and more.
const QUEUED: usize = 4 << 20;

/// Answers asked for at a time.
const ASKED: u8 = 2;

/// Requests with content that may be unanswered: more than windows hold.
const UNANSWERED: u8 = 200;

/// Streams of one silo or thread.
pub const STREAMS_LIMIT: u32 = 1_024;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// To the server.
    Up,
    /// From the server.
    Down,
}

/// What is to be measured, by one silo or thread.
#[derive(Clone, Debug)]
pub struct BulkPlan {
    /// The server.
    pub target: SocketAddr,
    /// Local addresses; empty: the data path chooses.
    pub sources: Vec<IpAddr>,
    /// The Host field.
    pub host: String,
    /// What is asked for.
    pub path: String,
    /// Streams that send.
    pub up: u32,
    /// Streams that receive.
    pub down: u32,
    /// Time before the measured one, which slow start may take.
    pub omit: Duration,
    /// The measured time.
    pub duration: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
}

impl BulkPlan {
    /// The part of silo `index` of `silos`; none if no stream is left for it.
    #[must_use]
    pub fn share(&self, index: u32, silos: u32) -> Option<Self> {
        let part = |all: u32| all / silos.max(1) + u32::from(index < all % silos.max(1));
        let mut mine = self.clone();
        // Those that send from the first silo on, those that receive from the last: so both
        // directions are spread.
        mine.up = part(self.up);
        let back = silos.max(1) - 1 - index;
        mine.down = self.down / silos.max(1) + u32::from(back < self.down % silos.max(1));
        (mine.up + mine.down > 0).then_some(mine)
    }
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BulkStage {
    /// Streams are being opened.
    Opening,
    /// Bytes go; not measured yet.
    Omitting,
    /// In the measured time.
    Measuring,
    /// It is over.
    Over,
}

/// One stream at a moment.
#[derive(Clone, Copy, Debug)]
pub struct StreamState {
    /// Its connection.
    pub id: ConnId,
    /// Which way its bytes go.
    pub way: Way,
    /// Bytes handed to the data path.
    pub queued: u64,
    /// Bytes that came.
    pub received: u64,
    /// Answers that came whole.
    pub answers: u64,
    /// Whether it is there.
    pub open: bool,
}

#[derive(Debug)]
struct Stream {
    state: StreamState,
    reader: ResponseReader,
    asked: u8,
    /// Of the block at hand, what is not queued yet.
    left: u64,
}

/// Streams of one silo or thread.
#[derive(Debug)]
pub struct Bulk {
    plan: BulkPlan,
    piece: Body,
    streams: Vec<Stream>,
    stage: BulkStage,
    /// When the stage ends at the latest.
    until: Time,
    opened: u32,
    limits: ResponseLimits,
    failure: Option<String>,
    /// Marks of the measured time.
    pub began: Option<Time>,
    /// Its end.
    pub ended: Option<Time>,
}

impl Bulk {
    /// Streams as planned.
    #[must_use]
    pub fn new(plan: BulkPlan) -> Self {
        // Not all the same byte: a link that compresses would not be measured.
        let mut random = crate::random::Random::new(0x6275_6c6b);
        let bytes = (0..PIECE / 8).flat_map(|_| random.bits().to_le_bytes()).collect::<Vec<u8>>();
        Self {
            plan,
            piece: Body::new(bytes),
            streams: Vec::new(),
            stage: BulkStage::Opening,
            until: Time::MAX,
            opened: 0,
            limits: ResponseLimits::default(),
            failure: None,
            began: None,
            ended: None,
        }
    }

    /// How far it is.
    #[must_use]
    pub const fn stage(&self) -> BulkStage {
        self.stage
    }

    /// Its streams.
    pub fn streams(&self) -> impl Iterator<Item = &StreamState> {
        self.streams.iter().map(|stream| &stream.state)
    }

    /// Why it ended before its time.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Ends it at once.
    pub fn stop(&mut self, now: Time) {
        if self.stage < BulkStage::Over {
            self.ended = Some(now);
            self.stage = BulkStage::Over;
        }
    }

    fn fail(&mut self, now: Time, why: String) {
        self.failure.get_or_insert(why);
        self.stop(now);
    }

    fn connect<N: Net>(&mut self, net: &mut N) {
        let now = net.now();
        let all = self.plan.up + self.plan.down;
        while (self.streams.len() as u32) < all {
            let number = self.streams.len();
            let from = if self.plan.sources.is_empty() {
                None
            } else {
                self.plan.sources.get(number % self.plan.sources.len())
            };
            let id = match net.connect(from.copied(), self.plan.target) {
                Ok(id) => id,
                // Another turn may have room.
                Err(ConnectError::Full | ConnectError::Busy) => return,
                Err(why) => return self.fail(now, why.to_string()),
            };
            let way = if (number as u32) < self.plan.up { Way::Up } else { Way::Down };
            let state = StreamState { id, way, queued: 0, received: 0, answers: 0, open: false };
            self.streams.push(Stream { state, reader: ResponseReader::default(), asked: 0, left: 0 });
        }
    }

    fn place(&self, id: ConnId) -> Option<usize> {
        self.streams.iter().position(|stream| stream.state.id == id)
    }

    /// Sends what the stream is to send.
    fn go_on<N: Net>(&mut self, net: &mut N, place: usize) {
        let Some(stream) = self.streams.get_mut(place).filter(|stream| stream.state.open) else { return };
        let id = stream.state.id;
        match stream.state.way {
            Way::Down => {
                while stream.asked < ASKED {
                    let mut head = Vec::with_capacity(256);
                    RequestHead::new(&mut head, "GET", self.plan.path.as_bytes(), self.plan.host.as_bytes()).end();
                    net.send_bytes(id, &head);
                    stream.state.queued += head.len() as u64;
                    stream.asked += 1;
                }
            }
            Way::Up => {
                while net.unsent(id) < QUEUED && (stream.left > 0 || stream.asked < UNANSWERED) {
                    if stream.left == 0 {
                        let mut head = Vec::with_capacity(256);
                        let line =
                            RequestHead::new(&mut head, "POST", self.plan.path.as_bytes(), self.plan.host.as_bytes());
                        line.content_length(BLOCK).end();
                        net.send_bytes(id, &head);
                        stream.state.queued += head.len() as u64;
                        stream.left = BLOCK;
                        stream.asked += 1;
                    }
                    let part = self.piece.len().min(u32::try_from(stream.left).unwrap_or(u32::MAX));
                    net.send_body(id, &self.piece, 0..part);
                    stream.state.queued += u64::from(part);
                    stream.left -= u64::from(part);
                }
            }
        }
    }

    fn advance(&mut self, now: Time) {
        if self.stage == BulkStage::Opening && now >= self.until {
            let all = self.plan.up + self.plan.down;
            self.fail(now, format!("{} of {all} streams could be opened in time", self.opened));
        } else if self.stage == BulkStage::Omitting && now >= self.until {
            self.stage = BulkStage::Measuring;
            self.began = Some(now);
            self.until = now + self.plan.duration;
        } else if self.stage == BulkStage::Measuring && now >= self.until {
            self.stop(now);
        }
    }
}

impl App for Bulk {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        let (Some(place), Opened::Connected) = (self.place(id), how) else { return net.abort(id) };
        self.streams[place].state.open = true;
        self.opened += 1;
        if self.opened == self.plan.up + self.plan.down && self.stage == BulkStage::Opening {
            // All begin together.
            self.stage = BulkStage::Omitting;
            self.until = net.now() + self.plan.omit;
            (0..self.streams.len()).for_each(|place| self.go_on(net, place));
        }
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let Some(place) = self.place(id) else { return data.len() };
        let mut used = 0;
        loop {
            let stream = &mut self.streams[place];
            let method = if stream.state.way == Way::Down { Method::Get } else { Method::Post };
            let rest = data.get(used..).unwrap_or_default();
            let before = used;
            match stream.reader.on_bytes_counted(rest, method, &self.limits) {
                Counted::NeedMore { consumed } => {
                    stream.state.received += consumed as u64;
                    return used + consumed;
                }
                Counted::Complete { summary, consumed } if stream.asked > 0 => {
                    used += consumed;
                    stream.state.received += (used - before) as u64;
                    stream.asked -= 1;
                    stream.state.answers += 1;
                    let code = summary.status.code();
                    if !(200..300).contains(&code) || !summary.keep_alive {
                        let what = if method == Method::Get { "a download" } else { "content" };
                        let closes = if summary.keep_alive { "" } else { ", and closes the connection" };
                        self.fail(net.now(), format!("the server answers {what} with status {code}{closes}"));
                        return data.len();
                    }
                    self.go_on(net, place);
                    if used >= data.len() {
                        return used;
                    }
                }
                Counted::Complete { .. } | Counted::Failed { .. } => {
                    self.fail(net.now(), "the server does not answer as HTTP/1.1 has it".to_owned());
                    return data.len();
                }
            }
        }
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _: usize) {
        if self.stage < BulkStage::Over {
            self.fail(net.now(), "the server closed a stream".to_owned());
        }
        net.finish(id);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if matches!(self.stage, BulkStage::Omitting | BulkStage::Measuring)
            && let Some(place) = self.place(id)
        {
            self.go_on(net, place);
        }
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let Some(place) = self.place(id) else { return };
        let was = core::mem::replace(&mut self.streams[place].state.open, false);
        if self.stage < BulkStage::Over {
            let what = if was { "a stream ended" } else { "a stream could not be opened" };
            self.fail(net.now(), format!("{what}: {}", word(why)));
        }
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        if self.stage == BulkStage::Opening {
            if self.until == Time::MAX {
                self.until = now + self.plan.connect_timeout;
            }
            self.connect(net);
        }
        self.advance(now);
        if self.stage == BulkStage::Over { Wake::Idle } else { Wake::At(self.until) }
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.stop(net.now());
        let open: Vec<ConnId> = self.streams().filter(|stream| stream.open).map(|stream| stream.id).collect();
        open.iter().for_each(|id| net.abort(*id));
        open.is_empty()
    }
}

/// Why a connection ended, in a word.
pub(crate) const fn word(why: Closed) -> &'static str {
    match why {
        Closed::Finished => "closed",
        Closed::Reset => "reset",
        Closed::Refused => "refused",
        Closed::TimedOut => "timed out",
        Closed::Unreachable(_) => "unreachable",
        Closed::Aborted => "ended here",
    }
}
