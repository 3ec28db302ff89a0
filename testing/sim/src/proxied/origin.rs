//! Upstreams that fail as their requests' numbers say.

use super::plan::{Ends, Fault, Plan, stamped};
use app::{App, Closed, ConnId, Net, Opened, SEND_LOW_WATER, Wake};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use wire::Time;

/// What is to be done at a connection, in order.
#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Pause(Duration),
    /// Bytes of this stamp without end, from a place in it on.
    Endless(u32, usize),
    Close,
    Reset,
    /// The request is answered: the next may come.
    Done,
    /// Nothing more happens.
    Hang,
}

#[derive(Debug, Default)]
struct Link {
    arrived: Vec<u8>,
    steps: VecDeque<Step>,
    /// A step waits until then.
    until: Option<Time>,
    /// Of the request that comes: its number, and bytes of its body that are still to come;
    /// nobody knows of chunks.
    body: Option<(Plan, Option<usize>, usize)>,
    is_over: bool,
}

/// One server.
pub struct Origin {
    seed: u64,
    /// It is the second of two.
    is_second: bool,
    links: HashMap<ConnId, Link>,
    /// When it is killed, and when it is there again.
    kills: VecDeque<(Time, Time)>,
    /// What was injected, by kind.
    pub injected: BTreeMap<&'static str, u64>,
    /// What must not be.
    pub objections: Vec<String>,
}

/// Bytes of an answer without end that are queued at a time.
const PIECE: usize = 16 << 10;

impl Origin {
    /// The first or second server of a world, and when it is killed.
    #[must_use]
    pub fn new(seed: u64, is_second: bool, kills: VecDeque<(Time, Time)>) -> Self {
        let (injected, objections) = (BTreeMap::new(), Vec::new());
        Self { seed, is_second, links: HashMap::new(), kills, injected, objections }
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.links.len()
    }

    fn is_dead(&self, now: Time) -> bool {
        self.kills.front().is_some_and(|(from, until)| *from <= now && now < *until)
    }

    fn count(&mut self, kind: &'static str) {
        *self.injected.entry(kind).or_default() += 1;
    }

    /// Takes what there is of requests; whether it did.
    fn take<N: Net>(&mut self, net: &mut N, id: ConnId) -> Option<()> {
        let seed = self.seed;
        let link = self.links.get_mut(&id)?;
        if link.is_over {
            link.arrived.clear();
            return None;
        }
        if link.body.is_none() {
            if !link.steps.is_empty() {
                return None;
            }
            let end = link.arrived.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
            let head = String::from_utf8_lossy(&link.arrived[..end]).to_lowercase();
            let number = head.split(' ').nth(1).and_then(|path| path.rsplit('/').next()?.parse().ok());
            let Some(number) = number else {
                self.objections.push(format!("no request of ours: {head:?}"));
                net.abort(id);
                return None;
            };
            link.arrived.drain(..end);
            let field = |name: &str| Some(head.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
            let length = match (field("content-length:"), field("transfer-encoding:")) {
                (Some(_), Some(_)) => {
                    self.objections.push(format!("two lengths: {head:?}"));
                    return None;
                }
                (Some(length), None) => length.parse().ok(),
                (None, Some(_)) => None,
                (None, None) => Some(0),
            };
            let plan = Plan::of(seed, number);
            let link = self.links.get_mut(&id)?;
            link.body = Some((plan.clone(), length, 0));
            if plan.fault == Fault::Early && self.fault_of(&plan) == Fault::Early {
                self.begin(net, id, &plan);
            }
        }
        self.take_body(net, id)
    }

    fn fault_of(&self, plan: &Plan) -> Fault {
        if self.is_second && plan.second_is_well { Fault::None } else { plan.fault }
    }

    fn take_body<N: Net>(&mut self, net: &mut N, id: ConnId) -> Option<()> {
        let link = self.links.get_mut(&id)?;
        let (plan, left, at) = link.body.as_mut()?;
        let whole = stamped(plan.number, plan.sent);
        let (bytes, is_all) = match left {
            Some(left) => {
                let taken = (*left).min(link.arrived.len());
                *left -= taken;
                (link.arrived.drain(..taken).collect::<Vec<u8>>(), *left == 0)
            }
            None => {
                let (bytes, used, is_all) = unchunk(&link.arrived)?;
                link.arrived.drain(..used);
                (bytes, is_all)
            }
        };
        let expected = whole.get(*at..*at + bytes.len());
        if expected != Some(&bytes) {
            self.objections.push(format!("another's body: {plan:?} has {:?}", String::from_utf8_lossy(&bytes)));
            return None;
        }
        *at += bytes.len();
        if !is_all {
            return None;
        }
        let (plan, _, at) = link.body.take()?;
        if at != plan.sent {
            self.objections.push(format!("not all of a body, and said to be: {at} of {plan:?}"));
        }
        if self.fault_of(&plan) != Fault::Early {
            self.begin(net, id, &plan);
        }
        Some(())
    }

    /// Begins to answer.
    fn begin<N: Net>(&mut self, net: &mut N, id: ConnId, plan: &Plan) {
        let fault = self.fault_of(plan);
        if fault != Fault::None {
            self.count(fault.name());
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.steps.extend(steps(plan, fault));
        }
        self.go_on(net, id);
    }

    fn go_on<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        loop {
            let Some(link) = self.links.get_mut(&id) else { return };
            if link.until.is_some_and(|until| until > now) {
                return net.set_timer(id, link.until);
            }
            link.until = None;
            if net.unsent(id) > SEND_LOW_WATER {
                return;
            }
            if matches!(link.steps.front(), Some(Step::Hang)) {
                return;
            }
            match link.steps.pop_front() {
                None | Some(Step::Hang) => return,
                Some(Step::Send(bytes)) => net.send_bytes(id, &bytes),
                Some(Step::Pause(span)) => link.until = Some(now + span),
                Some(Step::Endless(number, at)) => {
                    let one = format!("<{number}>").len();
                    let bytes = stamped(number, at % one + PIECE);
                    net.send_bytes(id, &bytes[at % one..]);
                    link.steps.push_front(Step::Endless(number, at + PIECE));
                }
                Some(Step::Close) => {
                    link.is_over = true;
                    return net.finish(id);
                }
                Some(Step::Reset) => {
                    link.is_over = true;
                    return net.abort(id);
                }
                Some(Step::Done) => while self.take(net, id).is_some() {},
            }
        }
    }
}

/// What of chunks is there: their bytes, how many that took, and whether it is all.
fn unchunk(arrived: &[u8]) -> Option<(Vec<u8>, usize, bool)> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    loop {
        let rest = &arrived[at..];
        let line = rest.windows(2).position(|two| two == b"\r\n");
        let length = line.and_then(|line| usize::from_str_radix(core::str::from_utf8(&rest[..line]).ok()?, 16).ok());
        let Some((line, length)) = line.zip(length) else { break };
        let end = line + 2 + length + 2;
        if rest.len() < end {
            break;
        }
        at += end;
        if length == 0 {
            return Some((bytes, at, true));
        }
        bytes.extend_from_slice(&rest[line + 2..line + 2 + length]);
    }
    (at > 0).then_some((bytes, at, false))
}

fn steps(plan: &Plan, fault: Fault) -> Vec<Step> {
    let answer = plan.answer();
    let number = plan.number;
    let ends = if plan.ends == Ends::Close { Step::Close } else { Step::Done };
    let surplus = if plan.keeps_surplus() { "" } else { "Connection: close\r\n" };
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\nX-Number: {number}\r\n{fields}\r\n").into_bytes();
    let with_body = |fields: &str| Step::Send([head(fields), plan.body()].concat());
    match fault {
        Fault::None => vec![Step::Send(answer), ends],
        Fault::Hangs => vec![Step::Hang],
        Fault::HangsAt(at) => vec![Step::Send(answer[..at].to_vec()), Step::Hang],
        Fault::ClosesAt(at) => vec![Step::Send(answer[..at].to_vec()), Step::Close],
        Fault::ResetsAt(at) => {
            let pause = Duration::from_millis(u64::from(number % 3) * 20);
            vec![Step::Send(answer[..at].to_vec()), Step::Pause(pause), Step::Reset]
        }
        Fault::Garbage => vec![Step::Send(b"SSH-2.0-x\r\n\0\x01\x02\r\n\r\n".to_vec()), Step::Close],
        Fault::Late(span) => vec![Step::Pause(span), Step::Send(answer), ends],
        Fault::Slow(piece, pause) => {
            let pieces = answer.chunks(piece.max(1)).flat_map(|piece| [Step::Send(piece.to_vec()), Step::Pause(pause)]);
            let mut pieces: Vec<Step> = pieces.collect();
            // The last has none behind it: the next request is not to wait.
            pieces.pop();
            pieces.push(ends);
            pieces
        }
        Fault::Endless if plan.ends == Ends::Length => {
            vec![Step::Send(head("Content-Length: 4000000000\r\n")), Step::Endless(number, 0)]
        }
        Fault::Endless => vec![Step::Send(head("Connection: close\r\n")), Step::Endless(number, 0)],
        Fault::TooShort => vec![with_body(&format!("Content-Length: {}\r\n", plan.length + 7)), Step::Close],
        Fault::TooLong => vec![with_body(&format!("Content-Length: {}\r\n{surplus}", plan.length / 2)), Step::Done],
        Fault::TwoLengths => {
            let fields = format!("Content-Length: {}\r\nContent-Length: {}\r\n", plan.length, plan.length + 3);
            vec![with_body(&fields), Step::Close]
        }
        Fault::LengthAndChunks => {
            let fields = format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", plan.length);
            vec![with_body(&fields), Step::Close]
        }
        Fault::BadChunk => vec![with_body("Transfer-Encoding: chunked\r\n"), Step::Close],
        Fault::LongHead => vec![with_body(&format!("X-Long: {}\r\n", "a".repeat(20_000))), Step::Close],
        Fault::Interim(count) => {
            let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(count.into());
            vec![Step::Send(interim), Step::Send(answer), ends]
        }
        Fault::Early => vec![Step::Send(answer), Step::Close],
        Fault::Twice => vec![Step::Send([&plan.answer_with(surplus)[..], &answer].concat()), ends],
        Fault::Unasked => {
            let more = b"HTTP/1.1 200 OK\r\nX-Number: 0\r\nContent-Length: 3\r\n\r\n<0>".to_vec();
            let answer = plan.answer_with("Connection: close\r\n");
            vec![Step::Send(answer), Step::Pause(Duration::from_millis(5)), Step::Send(more), ends]
        }
    }
}

impl App for Origin {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        if self.is_dead(net.now()) {
            self.count("killed: refuses");
            net.abort(id);
        }
        self.links.insert(id, Link::default());
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if let Some(link) = self.links.get_mut(&id) {
            link.arrived.extend_from_slice(data);
        }
        while self.take(net, id).is_some() {}
        data.len()
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _held: usize) {
        // Who asked has left: nobody waits for the rest.
        if let Some(link) = self.links.get_mut(&id) {
            link.is_over = true;
            link.steps.clear();
        }
        net.finish(id);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.go_on(net, id);
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.go_on(net, id);
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, _why: Closed) {
        self.links.remove(&id);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        while self.kills.front().is_some_and(|(_, until)| *until <= now) {
            self.kills.pop_front();
        }
        if self.is_dead(now) {
            let mut open: Vec<ConnId> =
                self.links.iter().filter(|(_, link)| !link.is_over).map(|(id, _)| *id).collect();
            open.sort_by_key(|id| (id.index(), id.generation()));
            for id in open {
                let link = self.links.get_mut(&id);
                let at_work = link.is_some_and(|link| {
                    link.is_over = true;
                    link.body.is_some() || !link.steps.is_empty()
                });
                if at_work {
                    self.count("killed: at work");
                }
                net.abort(id);
            }
        }
        self.kills.front().map_or(Wake::Idle, |(from, until)| Wake::At(if *from > now { *from } else { *until }))
    }
}
