//! An application that a test moves from outside, and that tells all it sees.

use super::{PATIENCE, beside};
use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened, Wake};
use core::net::{IpAddr, SocketAddr};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use sockets::{Attendant, Composite, Config, Counters, Listener, Worker};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::Time;

/// What a [`Puppet`] sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    Open(ConnId, Opened),
    Data(ConnId, Vec<u8>),
    End(ConnId, usize),
    Sent(ConnId),
    /// The timer ran out: when it was to, and when it did.
    Timer(ConnId, Time, Time),
    Close(ConnId, Closed),
    Connect(Result<ConnId, ConnectError>),
    Unsent(usize),
    /// Whether it begins.
    Passes(bool),
    Passed(ConnId, u64),
    /// Whether it is.
    Secured(bool),
    WasCut(bool),
    Addresses(Option<SocketAddr>, Option<SocketAddr>),
    StoppedListening,
    Counted(Box<Counters>),
}

/// What a [`Puppet`] is told.
#[derive(Debug)]
pub enum Do {
    Connect(Option<IpAddr>, SocketAddr),
    ConnectUnix(PathBuf),
    Send(ConnId, Vec<u8>),
    SendFile(ConnId, Vec<u8>, Arc<OwnedFd>, core::ops::Range<u64>),
    Pass(ConnId, ConnId, u64),
    Secure(ConnId, Securing),
    /// With the next data: so many bytes are taken of it, and the rest are records.
    SecureAfter(usize, Securing),
    WasCut(ConnId),
    Finish(ConnId),
    Abort(ConnId),
    Resume(ConnId),
    /// Consume no more than this of each offer.
    Take(usize),
    Timer(ConnId, Option<Duration>),
    Unsent(ConnId),
    Addresses(ConnId),
    /// All of these, in one turn.
    All(Vec<Do>),
    StopListening,
    Count,
    Stop,
}

/// Makes a layer, on the worker's thread.
pub struct Securing(pub Box<dyn FnOnce() -> Box<dyn seal::Layer> + Send>);

impl core::fmt::Debug for Securing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Securing")
    }
}

struct Puppet {
    seen: Sender<Seen>,
    told: Receiver<Do>,
    bell: Arc<OwnedFd>,
    take: usize,
    secures: Option<(usize, Securing)>,
    timers: Vec<Time>,
    stop_listening: bool,
    count: bool,
    stop: bool,
}

impl Puppet {
    fn tell(&self, seen: Seen) {
        // The test may be over.
        let _ = self.seen.send(seen);
    }

    fn obey<N: Net>(&mut self, net: &mut N, told: Do) {
        match told {
            Do::Connect(from, to) => {
                let outcome = net.connect(from, to);
                self.tell(Seen::Connect(outcome));
            }
            Do::ConnectUnix(path) => {
                let outcome = net.connect_unix(&path);
                self.tell(Seen::Connect(outcome));
            }
            Do::Send(id, bytes) => {
                let body = Body::new(bytes);
                net.send_body(id, &body, 0..body.len());
            }
            Do::SendFile(id, head, file, range) => {
                net.send_bytes(id, &head);
                assert!(net.send_file(id, &file, range));
            }
            Do::Pass(from, to, len) => self.tell(Seen::Passes(net.pass(from, to, len))),
            Do::Secure(id, Securing(make)) => {
                let secured = net.secure(id, make());
                self.tell(Seen::Secured(secured));
            }
            Do::SecureAfter(take, securing) => self.secures = Some((take, securing)),
            Do::WasCut(id) => self.tell(Seen::WasCut(net.was_cut(id))),
            Do::Finish(id) => net.finish(id),
            Do::Abort(id) => net.abort(id),
            Do::Resume(id) => net.resume(id),
            Do::Take(most) => self.take = most,
            Do::Timer(id, after) => {
                let at = after.map(|after| net.now() + after);
                self.timers.resize(self.timers.len().max(id.index() + 1), Time::ZERO);
                self.timers[id.index()] = at.unwrap_or(Time::MAX);
                net.set_timer(id, at);
            }
            Do::Unsent(id) => self.tell(Seen::Unsent(net.unsent(id))),
            Do::Addresses(id) => self.tell(Seen::Addresses(net.local(id), net.peer(id))),
            Do::All(all) => all.into_iter().for_each(|told| self.obey(net, told)),
            Do::StopListening => self.stop_listening = true,
            Do::Count => self.count = true,
            Do::Stop => self.stop = true,
        }
    }
}

impl App for Puppet {
    fn on_open<N: Net>(&mut self, _net: &mut N, id: ConnId, how: Opened) {
        self.tell(Seen::Open(id, how));
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if let Some((take, Securing(make))) = self.secures.take() {
            self.tell(Seen::Data(id, data[..take].to_vec()));
            let secured = net.secure(id, make());
            self.tell(Seen::Secured(secured));
            return take;
        }
        let taken = data.len().min(self.take);
        self.tell(Seen::Data(id, data[..taken].to_vec()));
        taken
    }

    fn on_passed<N: Net>(&mut self, _net: &mut N, id: ConnId, bytes: u64) {
        self.tell(Seen::Passed(id, bytes));
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, id: ConnId, held: usize) {
        self.tell(Seen::End(id, held));
    }

    fn on_sent<N: Net>(&mut self, _net: &mut N, id: ConnId) {
        self.tell(Seen::Sent(id));
    }

    fn on_timer<N: Net>(&mut self, _net: &mut N, id: ConnId) {
        // The clock itself: what the data path says may be a little older.
        self.tell(Seen::Timer(id, self.timers[id.index()], cpu::Clock.now()));
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        assert_eq!((net.unsent(id), net.peer(id)), (0, None), "its id names nothing any more");
        self.tell(Seen::Close(id, why));
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let _ = rustix::io::read(self.bell.as_fd(), &mut [0; 8]);
        let mut wake = Wake::Idle;
        while let Ok(told) = self.told.try_recv() {
            self.obey(net, told);
            if crate::BESIDE {
                // A silo's strings are looked after once it did something.
                wake = Wake::Now;
            }
        }
        wake
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

struct Strings;

/// The strings beside a silo's own connections, and what wakes it.
struct StringsBeside {
    wakes: OwnedFd,
}

impl StringsBeside {
    fn of(puppet: &Puppet) -> Self {
        let wakes = epoll::create(CreateFlags::CLOEXEC).unwrap();
        epoll::add(&wakes, puppet.bell.as_fd(), EventData::new_u64(0), EventFlags::IN).unwrap();
        Self { wakes }
    }
}

impl beside::Strings<Puppet> for StringsBeside {
    const RINGS: bool = true;

    fn attend(&mut self, silo: &mut silo::Silo<beside::Quiet, Composite<Puppet>>) -> silo::Next {
        let composite = &mut silo.app;
        if core::mem::take(&mut composite.app.stop_listening) {
            composite.half_mut().stop_listening();
            composite.app.tell(Seen::StoppedListening);
        }
        if core::mem::take(&mut composite.app.count) {
            composite.app.tell(Seen::Counted(Box::new(composite.half().counters())));
        }
        if composite.app.stop { silo::Next::Stop } else { silo::Next::Go }
    }

    fn wake<'a>(&'a self, app: &'a Composite<Puppet>) -> Option<BorrowedFd<'a>> {
        // Once only: it is there already the second time.
        let _ = epoll::add(&self.wakes, app.half(), EventData::new_u64(0), EventFlags::IN);
        Some(self.wakes.as_fd())
    }
}

impl Attendant<Puppet> for Strings {
    fn attend(&mut self, worker: &mut Worker<Puppet>, _now: Time, _usage: &silo::Usage) -> silo::Next {
        if core::mem::take(&mut worker.app.stop_listening) {
            worker.stop_listening();
            worker.app.tell(Seen::StoppedListening);
        }
        if core::mem::take(&mut worker.app.count) {
            worker.app.tell(Seen::Counted(Box::new(worker.counters())));
        }
        if worker.app.stop { silo::Next::Stop } else { silo::Next::Go }
    }

    fn wake<'a>(&self, app: &'a Puppet) -> Option<BorrowedFd<'a>> {
        Some(app.bell.as_fd())
    }
}

/// A worker with a [`Puppet`], and the strings.
pub struct Theatre {
    task: libc::pid_t,
    told: Sender<Do>,
    seen: Receiver<Seen>,
    bell: Arc<OwnedFd>,
    thread: JoinHandle<Counters>,
}

impl Theatre {
    pub fn open(config: Config, listeners: Vec<Listener>) -> Self {
        let (told, obeys) = channel();
        let (tells, seen) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap());
        let rings = Arc::clone(&bell);
        let (names, task) = channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: takes nothing and returns a number.
            let _ = names.send(unsafe { libc::gettid() });
            let puppet = Puppet {
                seen: tells,
                told: obeys,
                bell: rings,
                take: usize::MAX,
                secures: None,
                timers: Vec::new(),
                stop_listening: false,
                count: false,
                stop: false,
            };
            if crate::BESIDE {
                let strings = StringsBeside::of(&puppet);
                return beside::run(config, listeners, puppet, strings).1;
            }
            let mut worker = Worker::new(super::on_engine(config), listeners, puppet).unwrap();
            worker.run(&mut Strings).unwrap();
            worker.counters()
        });
        let task = task.recv().expect("the thread begins");
        Self { task, told, seen, bell, thread }
    }

    pub fn tell(&self, told: Do) {
        self.told.send(told).unwrap();
        rustix::io::write(&self.bell, &1u64.to_ne_bytes()).unwrap();
    }

    /// Waits until the worker's thread waits in this system call (proc(5)).
    #[track_caller]
    pub fn wait_until_in(&self, call: core::ffi::c_long) {
        let file = format!("/proc/self/task/{}/syscall", self.task);
        super::wait_for("the worker to wait", || {
            std::fs::read_to_string(&file).unwrap().split(' ').next() == Some(&call.to_string())
        });
    }

    /// What is seen next.
    #[track_caller]
    pub fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).expect("something to see")
    }

    /// What was seen already.
    pub fn try_next(&self) -> Option<Seen> {
        self.seen.try_recv().ok()
    }

    /// Whether nothing was seen so far.
    pub fn is_quiet(&self) -> bool {
        self.try_next().is_none()
    }

    /// The connection that is opened next.
    #[track_caller]
    pub fn opened(&self) -> ConnId {
        match self.next() {
            Seen::Open(id, _) => id,
            other => panic!("a connection, not {other:?}"),
        }
    }

    /// So many bytes that arrive next, in however many pieces.
    #[track_caller]
    pub fn bytes(&self, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            match self.next() {
                Seen::Data(_, data) => all.extend(data),
                Seen::Sent(_) => {}
                other => panic!("{count} bytes, not {other:?} after {}", all.len()),
            }
        }
        all
    }

    /// Why the connection is closed next.
    #[track_caller]
    pub fn closed(&self) -> Closed {
        loop {
            match self.next() {
                Seen::Close(_, why) => return why,
                Seen::Sent(_) => {}
                other => panic!("its end, not {other:?}"),
            }
        }
    }

    /// What the worker counted so far; nothing else is seen meanwhile.
    #[track_caller]
    pub fn counters(&self) -> Counters {
        self.tell(Do::Count);
        match self.next() {
            Seen::Counted(counters) => *counters,
            other => panic!("counters, not {other:?}"),
        }
    }

    /// Stops the worker; what it counted.
    pub fn close(self) -> Counters {
        self.tell(Do::Stop);
        self.thread.join().unwrap()
    }
}
