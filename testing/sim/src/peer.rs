//! The application of a simulated host: it holds its side of any number of
//! talks, and complains about everything that a data path must not do.

mod tally;

pub use tally::{End, Tally};

use crate::rng::Rng;
use crate::sealer::{Sealer, Sealings};
use crate::stream::Stream;
use crate::talk::{Finish, KEY_LEN, Manner, Read, Side, Talk};
use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened, SEND_LOW_WATER, Wake};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;
use wire::Time;

/// A connection that cannot be opened is tried again so often.
const MOST_TRIES: u32 = 50;

/// And that long after it failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Where the queue stays below the low-water mark, `on_sent` does not come,
/// and the application looks again after this, and in vain after twice as
/// long, up to a limit.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_AGAIN_MOST: Duration = Duration::from_millis(500);

/// A talk to start.
#[derive(Clone, Debug)]
pub struct Job {
    /// Not before this time.
    pub at: Time,
    /// From this address, or any.
    pub from: Option<IpAddr>,
    /// To this listener.
    pub to: SocketAddr,
    /// The talk's key.
    pub key: u64,
    /// Times that it was tried.
    pub tries: u32,
}

/// The application.
pub struct Peer {
    name: String,
    rng: Rng,
    manner: Manner,
    /// By time, the last first.
    jobs: Vec<Job>,
    conns: Vec<Option<Conn>>,
    open: usize,
    /// Connects that are not answered yet.
    opening: usize,
    draining: bool,
    /// Hosts that have vanished: what they leave behind may time out.
    gone: Vec<IpAddr>,
    /// What its connections sealed.
    sealings: Rc<RefCell<Sealings>>,
    /// What happened so far.
    pub tally: Tally,
}

impl Peer {
    /// An application that starts `jobs` and serves whoever connects.
    #[must_use]
    pub fn new(name: String, seed: u64, manner: Manner, mut jobs: Vec<Job>) -> Self {
        jobs.sort_by_key(|job| core::cmp::Reverse(job.at));
        let tally = Tally::default();
        let (rng, conns, gone, sealings) = (Rng::new(seed), Vec::new(), Vec::new(), Rc::default());
        Self { name, rng, manner, jobs, conns, open: 0, opening: 0, draining: false, gone, sealings, tally }
    }

    /// The host with these addresses has vanished.
    pub fn lose(&mut self, addresses: &[IpAddr]) {
        self.gone.extend_from_slice(addresses);
        self.jobs.retain(|job| !addresses.contains(&job.to.ip()));
    }

    /// Whether nothing is under way or waits to be started.
    #[must_use]
    pub fn done(&self) -> bool {
        self.open == 0 && self.jobs.is_empty()
    }

    /// Connections under way, for the report of a stuck run.
    pub fn under_way(&self) -> impl Iterator<Item = String> {
        self.conns.iter().flatten().map(|conn| conn.describe(&self.name))
    }

    fn start<N: Net>(&mut self, net: &mut N, job: Job) {
        match net.connect(job.from, job.to) {
            Ok(id) => {
                let talk = Talk::new(job.key, &self.manner);
                let conn = Conn::new(id, Some(talk), job.to.ip(), Some(job), &self.sealings);
                self.put(conn);
                self.opening += 1;
            }
            Err(ConnectError::Full | ConnectError::NoPort) if job.tries < MOST_TRIES => {
                let at = net.now() + Duration::from_millis(100);
                self.retry(Job { at, ..job });
            }
            Err(error) => self.tally.complain(format!("{}: cannot connect: {error}", self.name)),
        }
    }

    fn retry(&mut self, job: Job) {
        self.tally.retried += 1;
        let job = Job { tries: job.tries + 1, ..job };
        let at = self.jobs.partition_point(|other| other.at > job.at);
        self.jobs.insert(at, job);
    }

    /// A connection is over: what was wrong with what it sealed is told.
    fn settle_sealings(&mut self, conn: Option<&Conn>) {
        let mut sealings = self.sealings.borrow_mut();
        for what in sealings.violations.drain(..) {
            self.tally.complain(format!("{}: {what}", self.name));
        }
        self.tally.updates += core::mem::take(&mut sealings.updates);
        if let Some(talk) = conn.and_then(|conn| conn.talk.as_ref()).filter(|talk| talk.sealed) {
            sealings.forget(talk.key);
        }
    }

    fn put(&mut self, conn: Conn) {
        let index = conn.id.index();
        if self.conns.len() <= index {
            self.conns.resize_with(index + 1, || None);
        }
        if self.conns[index].is_some() {
            let name = &self.name;
            self.tally.complain(format!("{name}: slot {index} is given out twice"));
        }
        self.conns[index] = Some(conn);
        self.open += 1;
    }

    /// Runs `f` on the connection `id`, or complains of a call for one that
    /// is not open.
    fn with<R>(&mut self, id: ConnId, call: &str, f: impl FnOnce(&mut Conn, &mut Rng, &mut Tally) -> R) -> Option<R> {
        let known = self.conns.get_mut(id.index()).and_then(Option::as_mut).filter(|conn| conn.id == id);
        let Some(conn) = known else {
            self.tally.complain(format!("{}: {call} for {id:?}, which is not open", self.name));
            return None;
        };
        let before = self.tally.violations.len();
        let result = f(conn, &mut self.rng, &mut self.tally);
        for violation in self.tally.violations.iter_mut().skip(before) {
            *violation = format!("{}: {violation}", conn.describe(&self.name));
        }
        Some(result)
    }
}

impl App for Peer {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        if how == Opened::Accepted {
            let Some(peer) = net.peer(id) else {
                self.tally.complain(format!("{}: {id:?} is open and has no peer", self.name));
                return;
            };
            let conn = Conn::new(id, None, peer.ip(), None, &self.sealings);
            self.put(conn);
        } else {
            self.opening = self.opening.saturating_sub(1);
        }
        self.tally.opened += 1;
        self.with(id, "on_open", |conn, rng, tally| {
            if conn.opened.is_some() {
                tally.complain("on_open came twice".into());
            }
            conn.opened = Some(net.now());
            conn.begin(net, rng, tally);
            conn.pump(net, rng);
        });
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let manner = self.manner;
        let consumed = self.with(id, "on_data", |conn, rng, tally| {
            let consumed = conn.receive(net, &manner, data, tally);
            conn.pump(net, rng);
            consumed
        });
        consumed.unwrap_or(data.len())
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.with(id, "on_end", |conn, rng, tally| {
            if conn.secured && net.was_cut(id) {
                tally.complain("it ended without close_notify".into());
            }
            conn.end(held, tally);
            conn.pump(net, rng);
        });
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.with(id, "on_sent", |conn, rng, _| {
            conn.pump(net, rng);
        });
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.with(id, "on_timer", |conn, rng, tally| {
            match conn.timer.take() {
                Some(at) if at <= net.now() => {}
                timer => tally.complain(format!("the timer of {timer:?} ran out at {:?}", net.now())),
            }
            net.resume(id);
            conn.pump(net, rng);
        });
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let gone = core::mem::take(&mut self.gone);
        let retry = self.with(id, "on_close", |conn, _, tally| {
            if gone.contains(&conn.peer) {
                tally.timed_out += 1;
                return None;
            }
            conn.close(net, why, tally)
        });
        self.gone = gone;
        let Some(retry) = retry else { return };
        let conn = self.conns[id.index()].take();
        self.open -= 1;
        self.settle_sealings(conn.as_ref());
        if conn.is_some_and(|conn| conn.opened.is_none()) {
            self.opening = self.opening.saturating_sub(1);
        }
        if let Some(job) = retry {
            self.retry(job);
        }
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        while self.jobs.last().is_some_and(|job| job.at <= net.now()) {
            if let Some(job) = self.jobs.pop() {
                self.start(net, job);
            }
        }
        // A connect that fails after this, in the same turn, is a job again.
        let retry = (self.opening > 0).then(|| net.now() + RETRY_AFTER);
        let next = self.jobs.last().map(|job| job.at);
        [retry, next].into_iter().flatten().min().map_or(Wake::Idle, Wake::At)
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        self.draining = true;
        self.done()
    }
}

/// One connection, from one side.
struct Conn {
    id: ConnId,
    peer: IpAddr,
    /// Known from the start where we connected, else from the key on.
    talk: Option<Talk>,
    job: Option<Job>,
    opened: Option<Time>,
    sent: u64,
    received: u64,
    finished: bool,
    aborted: bool,
    /// What follows is sealed, both ways.
    secured: bool,
    sealings: Rc<RefCell<Sealings>>,
    /// The peer has finished.
    ended: bool,
    /// No sending, and no reading, before these.
    write_at: Time,
    read_at: Time,
    look_again: Duration,
    timer: Option<Time>,
}

impl Conn {
    fn new(id: ConnId, talk: Option<Talk>, peer: IpAddr, job: Option<Job>, sealings: &Rc<RefCell<Sealings>>) -> Self {
        Self {
            id,
            peer,
            talk,
            job,
            opened: None,
            sent: 0,
            received: 0,
            finished: false,
            aborted: false,
            secured: false,
            sealings: Rc::clone(sealings),
            ended: false,
            write_at: Time::ZERO,
            read_at: Time::ZERO,
            look_again: LOOK_AGAIN,
            timer: None,
        }
    }

    fn connected(&self) -> bool {
        self.job.is_some()
    }

    /// Our side, and the peer's.
    fn sides(&self) -> Option<(&Side, &Side)> {
        let talk = self.talk.as_ref()?;
        Some(if self.connected() { (&talk.up, &talk.down) } else { (&talk.down, &talk.up) })
    }

    fn describe(&self, name: &str) -> String {
        let key = self.talk.as_ref().map_or(0, |talk| talk.key);
        let expected = self.sides().map_or((0, 0), |(ours, theirs)| (ours.total, theirs.total));
        let abort = self.talk.as_ref().is_some_and(Talk::aborts);
        format!(
            "{name} {} key {key:016x}: queued {} of {}, received {} of {}{}{}{}",
            if self.connected() { "connecting" } else { "accepting" },
            self.sent,
            expected.0,
            self.received,
            expected.1,
            if self.finished { ", finished" } else { "" },
            if self.ended { ", peer finished" } else { "" },
            if abort { ", to be aborted" } else { "" },
        )
    }

    /// The side that connects sends the key, and seals what follows, if it is sealed.
    fn begin<N: Net>(&mut self, net: &mut N, rng: &mut Rng, tally: &mut Tally) {
        if self.connected() && self.talk.as_ref().is_some_and(|talk| talk.sealed) {
            self.send(net, rng, KEY_LEN as usize);
            self.secure(net, tally);
        }
    }

    fn secure<N: Net>(&mut self, net: &mut N, tally: &mut Tally) {
        let Some(talk) = &self.talk else { return };
        self.secured = true;
        tally.sealed += 1;
        let sealer = Sealer::new(talk.key, self.connected(), Rc::clone(&self.sealings));
        if !net.secure(self.id, Box::new(sealer)) {
            tally.complain("it cannot be sealed".into());
        }
    }

    /// Sends what the side's manner lets it send now, and ends what is due.
    fn pump<N: Net>(&mut self, net: &mut N, rng: &mut Rng) {
        let Some((ours, theirs)) = self.sides() else { return };
        if self.aborted || self.opened.is_none() {
            return;
        }
        let (total, write, finish, abort_at) = (ours.total, ours.write, ours.finish, ours.abort_at);
        let expected = theirs.total;
        while self.sent < total && self.write_at <= net.now() {
            let room = write.queue.saturating_sub(net.unsent(self.id) as u64);
            if room == 0 {
                if write.queue <= SEND_LOW_WATER as u64 {
                    self.write_at = net.now() + self.look_again;
                    self.look_again = (self.look_again * 2).min(LOOK_AGAIN_MOST);
                }
                break;
            }
            self.look_again = LOOK_AGAIN;
            let piece = rng.range(1, write.piece).min(room).min(total - self.sent);
            self.send(net, rng, piece as usize);
            if abort_at.is_some_and(|at| self.sent + self.received >= at) {
                break;
            }
            if write.pauses > 0 && rng.one_in(write.pauses) {
                self.write_at = net.now() + rng.millis(0, write.pause);
            }
        }
        if abort_at.is_some_and(|at| self.sent + self.received >= at) {
            self.aborted = true;
            net.abort(self.id);
            return;
        }
        let may_finish = finish == Finish::Sent || self.received == expected;
        if self.sent == total && may_finish && !self.finished {
            self.finished = true;
            net.finish(self.id);
        }
        self.set_timer(net);
    }

    fn send<N: Net>(&mut self, net: &mut N, rng: &mut Rng, len: usize) {
        let Some(talk) = &self.talk else { return };
        let mut bytes = vec![0; len];
        let stream = Stream::new(talk.key, self.connected());
        stream.fill(self.sent, &mut bytes);
        if self.connected() && self.sent < KEY_LEN {
            let key = talk.key.to_le_bytes();
            let rest = &key[self.sent as usize..];
            let shared = rest.len().min(len);
            bytes[..shared].copy_from_slice(&rest[..shared]);
        }
        self.sent += len as u64;
        // Any slice of a shared body, or a copy: what goes out is the same.
        if rng.one_in(2) {
            net.send_bytes(self.id, &bytes);
            return;
        }
        let before = rng.range(0, 20) as usize;
        let mut body = vec![0xee; before];
        body.extend_from_slice(&bytes);
        body.resize(body.len() + rng.range(0, 20) as usize, 0xee);
        let body = Body::new(body);
        let cut = rng.range(0, len as u64) as u32;
        let (start, end) = (before as u32, (before + len) as u32);
        net.send_body(self.id, &body, start..start + cut);
        net.send_body(self.id, &body, start + cut..end);
    }

    /// Takes what the side's manner lets it take now, and checks it.
    fn receive<N: Net>(&mut self, net: &mut N, manner: &Manner, data: &[u8], tally: &mut Tally) -> usize {
        if self.aborted {
            tally.complain("data came after the abort".into());
        }
        if data.is_empty() {
            tally.complain("no data was offered as data".into());
        }
        if self.talk.is_none() {
            let Some(key) = data.first_chunk::<{ KEY_LEN as usize }>() else {
                return 0; // Offered again in one piece with what follows.
            };
            self.talk = Some(Talk::new(u64::from_le_bytes(*key), manner));
            tally.heard.insert(u64::from_le_bytes(*key));
        }
        if !self.secured && self.talk.as_ref().is_some_and(|talk| talk.sealed) {
            // The key; what is left of it are records.
            self.check(&data[..KEY_LEN as usize], tally);
            tally.bytes += KEY_LEN;
            self.secure(net, tally);
            return KEY_LEN as usize;
        }
        let Some((ours, theirs)) = self.sides() else { return 0 };
        let (read, total) = (ours.read, theirs.total);
        let len = data.len() as u64;
        if self.received + len > total {
            tally.complain(format!("{} bytes came, {total} were sent", self.received + len));
            return data.len();
        }
        let take = match read {
            _ if self.read_at > net.now() => 0,
            Read::Eager => len,
            Read::Sips(most, apart) => {
                self.read_at = net.now() + apart;
                len.min(most)
            }
            Read::Lumps(least) if self.received + len < total && len < least => 0,
            Read::Lumps(_) => len,
            Read::Late(after) => {
                let from = self.opened.map_or(Time::ZERO, |opened| opened + after);
                self.read_at = from;
                if from > net.now() { 0 } else { len }
            }
        };
        self.check(&data[..take as usize], tally);
        if take < len && self.read_at <= net.now() && !matches!(read, Read::Lumps(_)) {
            // Nothing else would make the rest be offered again.
            self.read_at = net.now() + LOOK_AGAIN;
        }
        tally.bytes += take;
        take as usize
    }

    fn check(&mut self, data: &[u8], tally: &mut Tally) {
        let Some(talk) = &self.talk else { return };
        let stream = Stream::new(talk.key, !self.connected());
        let skip = if self.connected() { 0 } else { KEY_LEN.saturating_sub(self.received).min(data.len() as u64) };
        let at = self.received + skip;
        if let Some(wrong) = stream.first_wrong(at, &data[skip as usize..]) {
            tally.complain(format!("byte {wrong} is not what was sent"));
        }
        self.received += data.len() as u64;
    }

    fn end(&mut self, held: usize, tally: &mut Tally) {
        if core::mem::replace(&mut self.ended, true) {
            tally.complain("on_end came twice".into());
        }
        let total = self.sides().map(|(_, theirs)| theirs.total);
        let there = self.received + held as u64;
        if total != Some(there) {
            tally.complain(format!("the peer finished after {there} bytes"));
        }
    }

    /// One timer for both reasons to wait.
    fn set_timer<N: Net>(&mut self, net: &mut N) {
        if self.timer.is_some_and(|at| at <= net.now()) {
            // It is about to run out, and what it is for is still to be done.
            return;
        }
        let Some((ours, _)) = self.sides() else { return };
        if self.timer.is_some_and(|at| at <= net.now()) {
            // It is due, within the clock's millisecond, and then reading goes
            // on: moved, nothing would make it.
            return;
        }
        let writes = (self.sent < ours.total && self.write_at > net.now()).then_some(self.write_at);
        let reads = (self.read_at > net.now()).then_some(self.read_at);
        let at = match (writes, reads) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if at != self.timer {
            self.timer = at;
            net.set_timer(self.id, at);
        }
    }

    /// Judges the end. Returns the job to try again, if it never opened.
    fn close<N: Net>(&mut self, net: &mut N, why: Closed, tally: &mut Tally) -> Option<Job> {
        if self.opened.is_none() {
            return match (why, self.job.take()) {
                // The handshake, or the question for its neighbour, may be lost
                // more often than it is tried.
                (Closed::TimedOut | Closed::Unreachable(_), Some(job)) if job.tries < MOST_TRIES => {
                    Some(Job { at: net.now() + RETRY_AFTER, ..job })
                }
                (why, _) => {
                    tally.complain(format!("never opened: {why:?}"));
                    None
                }
            };
        }
        // Without the key, who accepted cannot know what was to come.
        let peer_aborts = self.sides().is_none_or(|(_, theirs)| theirs.abort_at.is_some());
        match why {
            Closed::Aborted if self.aborted => tally.aborted += 1,
            Closed::Finished => self.close_finished(tally),
            Closed::Reset if peer_aborts => tally.reset += 1,
            Closed::TimedOut if peer_aborts => tally.timed_out += 1,
            // All was sent and received, and the peer is known to have
            // finished: what it did not hear of is our last acknowledgement,
            // or we not of its own, for longer than it waits in TIME-WAIT.
            // Which of the two, this side cannot know (RFC 9293 section
            // 3.6.1 has 2 MSL for it, less than some retransmissions take);
            // the other must have seen it whole.
            Closed::Reset | Closed::TimedOut if self.is_whole() => {
                tally.late += 1;
                tally.to_bear_out.extend(self.name_of_end());
            }
            // Our acknowledgement of the SYN,ACK, and what we sent after it,
            // was lost for longer than the listener keeps the handshake (RFC
            // 9293 section 3.5.1: a half-open connection).
            Closed::Reset if self.connected() && self.received == 0 && !self.ended => {
                tally.late += 1;
                tally.unheard.extend(self.talk.as_ref().map(|talk| talk.key));
            }
            why => tally.complain(format!("closed: {why:?}")),
        }
        None
    }

    fn close_finished(&mut self, tally: &mut Tally) {
        tally.finished += 1;
        tally.whole.extend(self.name_of_end());
        if !self.is_whole() {
            tally.complain("closed as finished before it was".into());
        }
    }

    /// Whether all was sent and received, and both sides have finished.
    fn is_whole(&self) -> bool {
        self.sides().is_some_and(|(ours, theirs)| {
            self.sent == ours.total && self.received == theirs.total && self.ended && self.finished
        })
    }

    fn name_of_end(&self) -> Option<End> {
        self.talk.as_ref().map(|talk| (talk.key, self.connected()))
    }
}

#[cfg(test)]
mod tests;
