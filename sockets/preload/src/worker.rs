//! The process that has a seat: link, stack and sockets, in one thread.

use crate::any_link::AnyLink;
use crate::deputy::{self, Rest};
use crate::figures::{Column, Counted, Told, losses};
use crate::given::{Given, OwnPorts, SharedLedger, mac_of, new_stack, seeds};
use crate::kernel::is_listened_on;
use crate::marks::{Mark, set_mark};
use crate::place::leaving;
pub use crate::place::{Place, place, say, set_place};
use crate::signals::{Signals, as_set};
pub use crate::waited::patience;
use crate::waited::{Waited, readable};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use cpu::Clock;
use link::{Link, LinkState, Reopened};
use posix::{Attempt, Calls, Defaults, Errno, MovedConnection, Result, SocketTable};
use seats::Terms;
use sharing::SeatedLink;
use silo::Silo;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::Time;

/// The link is asked whether it is up, and a client's connection is made, this often.
const LOOK_AFTER_LINK: Duration = Duration::from_millis(10);

/// Places that are looked at then for connections of a process that was killed: some 25,000 a second.
const MOST_LOST: usize = 256;

/// Bytes that wait to be sent, at most, before a turn is taken for them: 16 full frames.
const MOST_PENDING: usize = 16 * 1448;

/// The last turn was just now: who asks again within this gets the same answer.
const JUST_NOW: Duration = Duration::from_micros(20);

/// Turns that the deputy takes in a row: the program's thread may come back and wait for it.
const MOST_TURNS: usize = 8;

/// A worker.
pub struct SeatedWorker {
    silo: Silo<SeatedLink<AnyLink>, SocketTable>,
    carrier: LinkState,
    /// When the link was last looked after.
    looked_after: Time,
    /// When the last turn began.
    turned: Time,
    /// The program has done something since that peers are to hear of.
    to_leave: bool,
    /// Signals while a call waits.
    signals: Signals,
    /// The last turn left something to do.
    more: bool,
    deadline: Time,
    counted: Counted,
    /// The program has computed since: the last turn's time, or a sleep's end.
    computes_since: Time,
    column: Column,
    /// Ports whose listeners were closed here, while another process listens there: one that has a
    /// seat, or is to have one.
    left_to_others: Vec<u16>,
    /// A listener was closed since the last turn.
    listener_closed: bool,
    /// Held as long as the seat is this process's.
    held: OwnedFd,
    /// The link's descriptors that the keeper gave, which the link has.
    of_link: Vec<c_int>,
    /// Which of the link's connections those are of.
    epoch: u32,
    /// How many changes of seats and doors it has looked around after.
    changes: u64,
    /// There may be more connections of a process that was killed.
    has_lost: bool,
}

impl SeatedWorker {
    fn open(terms: &Terms, channel: BorrowedFd<'_>) -> io::Result<Self> {
        let seats::Seat { text, descriptors, held } = seats::ask_for_seat(channel)?;
        let Given { number, memory, bells, page, link, of_link, epoch } = Given::read(terms, &text, descriptors)?;
        let (seats, secrets) = (memory.seats(), memory.secrets());
        let mac = link.mac().unwrap_or_else(|| mac_of(terms));
        let receiving = link.held();
        let ledger = SharedLedger { memory: Arc::clone(&memory), seat: number };
        let link = SeatedLink::new(link, receiving, memory, number, bells)?;
        let capabilities = link.capabilities();
        let now = Clock.now();
        let mut stack = new_stack(terms, (mac, &capabilities), &seeds(&secrets), now);
        stack.share_listeners();
        stack.set_return_path(Box::new(OwnPorts { seat: number, seats }));
        stack.on_link_up();
        let mut app = SocketTable::new(Defaults::default());
        app.share_ports();
        app.set_ledger(Box::new(ledger));
        let silo = Silo { link, stack, app };
        Ok(Self {
            silo,
            carrier: LinkState::Up,
            looked_after: now,
            turned: now,
            to_leave: false,
            signals: Signals::default(),
            more: true,
            deadline: now,
            counted: Counted::default(),
            computes_since: now,
            column: Column::new(page),
            left_to_others: Vec::new(),
            listener_closed: false,
            held,
            of_link,
            epoch,
            changes: u64::MAX,
            has_lost: false,
        })
    }

    /// The calls on its sockets.
    #[inline]
    pub fn calls(&mut self) -> Calls<'_> {
        let Silo { stack, app, .. } = &mut self.silo;
        Calls { stack, table: app }
    }

    /// Turns that it took.
    pub const fn turns(&self) -> u64 {
        self.counted.turns
    }

    /// Takes a turn: what came is told, what was written leaves.
    #[inline]
    pub fn turn(&mut self) {
        let now = Clock.now();
        deputy::note_turn(now);
        self.take_turn(now);
    }

    /// The same in whichever thread it is.
    #[inline]
    fn take_turn(&mut self, now: Time) {
        self.counted.on_turn(now.since(self.computes_since));
        self.computes_since = now;
        self.turned = now;
        self.to_leave = false;
        let is_due = now.since(self.looked_after) >= LOOK_AFTER_LINK || self.listener_closed;
        if is_due || self.epoch != self.silo.link.epoch() || self.changes != self.silo.link.changes() {
            self.look_after_link(now);
        }
        let turn = self.silo.turn(now);
        self.more = turn.more;
        self.deadline = turn.deadline;
        while let Some(message) = self.silo.link.poll_message() {
            // What is not understood is nobody's: the connection's next segment is answered so.
            if let Some(moved) = MovedConnection::from_bytes(&message) {
                self.calls().take_moved(&moved);
            }
        }
        if self.silo.app.has_unclaimed() {
            self.give_unclaimed();
        }
        self.calls().after_turn();
        if self.column.is_due(now) {
            self.publish(now);
        }
    }

    #[cold]
    fn publish(&mut self, now: Time) {
        let Silo { link, stack, app } = &self.silo;
        let (is_up, counters) = (self.carrier == LinkState::Up, link.counters());
        let told = Told { counted: &self.counted, link: (is_up, counters), stack, table: app, passing: link.passing() };
        self.column.publish(now, &told);
    }

    /// Connections that nobody accepted before their listener was closed go to a worker whose is
    /// not.
    #[cold]
    fn give_unclaimed(&mut self) {
        let Silo { link, stack, app } = &mut self.silo;
        Calls { stack, table: app }.give_unclaimed(|moved| {
            let (remote, local) = (moved.migrant.remote, moved.migrant.local);
            let to = link.successor(remote, local);
            to.is_some_and(|to| link.leave_to(to, remote, local, &moved.to_bytes()))
        });
    }

    #[cold]
    #[inline(never)]
    fn look_after_link(&mut self, now: Time) {
        self.looked_after = now;
        self.look_after_peer();
        self.changes = self.silo.link.changes();
        let mut looks = MOST_LOST;
        while let Some((remote, local)) = self.silo.link.take_lost(&mut looks) {
            self.calls().end_lost(remote, local);
        }
        self.has_lost = looks == 0;
        let state = self.silo.link.poll_control(now);
        if core::mem::replace(&mut self.carrier, state) == LinkState::Down && state == LinkState::Up {
            self.silo.stack.on_link_up();
        }
        if !self.left_to_others.is_empty() {
            self.listener_closed = false;
            self.left_to_others.retain(|port| is_listened_on(*port));
            self.silo.link.set_awaited(&self.left_to_others);
        }
    }

    /// Goes on with another peer of the link, or tells the keeper what is wrong with this one.
    fn look_after_peer(&mut self) {
        let Some(place) = place() else { return };
        // SAFETY: as in `become_worker`.
        let channel = unsafe { BorrowedFd::borrow_raw(place.channel) };
        if self.silo.link.link_mut().take_fault().is_some() {
            // Without its keeper nobody has the link's control channel.
            let _ = seats::ask(channel, &seats::Ask::Refuse(self.epoch), None);
        }
        let epoch = self.silo.link.epoch();
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        let renewed = seats::ask_for_link(channel).and_then(|(text, descriptors)| {
            let new: Vec<c_int> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
            self.silo.link.link_mut().renew(&place.terms, Reopened { text, descriptors })?;
            // The old ones are closed by now.
            self.of_link.iter().for_each(|fd| set_mark(*fd, Mark::Foreign));
            new.iter().for_each(|fd| set_mark(*fd, Mark::Own));
            self.of_link = new;
            Ok(())
        });
        if let Err(why) = renewed {
            say(&format!("process {} does not go on with the link's new peer: {why}", std::process::id()));
        }
    }

    /// The other workers hear where this one accepts, after that has changed.
    pub fn tell_doors(&mut self) {
        let doors: Vec<(u16, bool)> = self.silo.app.doors().collect();
        self.left_to_others.retain(|port| !doors.iter().any(|(open, _)| open == port));
        self.silo.link.set_doors(&doors);
    }

    /// A listener is closed here: who asks for it before another process accepts is not to hear that
    /// nobody listens, as long as anybody does. The kernel says so once the descriptor is closed,
    /// which it is before the next turn.
    pub fn on_listener_closed(&mut self, port: u16) {
        if !self.left_to_others.contains(&port) {
            self.left_to_others.push(port);
        }
        self.listener_closed = true;
        self.tell_doors();
        if self.silo.app.has_unclaimed() {
            self.give_unclaimed();
        }
    }

    /// Takes a turn where much waits to leave.
    #[inline]
    pub fn turn_if_full(&mut self) {
        if self.silo.app.pending() >= MOST_PENDING {
            self.turn();
        }
    }

    /// The program has written, or finished: at once it leaves where more of the same does not follow
    /// and nobody else waits for the program, for all that it was last told of has its answer. So what
    /// comes of one look for events leaves together, and who then computes keeps nobody waiting. Else
    /// it leaves with the next wait, with so many bytes, or by the deputy.
    #[inline]
    pub fn leave_soon(&mut self, more: bool) {
        self.to_leave = true;
        if self.silo.app.pending() >= MOST_PENDING || (!more && self.silo.app.is_all_answered()) {
            self.turn();
        }
    }

    /// Whether anything that the program did waits to leave.
    #[inline]
    pub const fn has_to_leave(&self) -> bool {
        self.to_leave || self.silo.app.pending() > 0
    }

    /// Takes a turn unless one was taken just now: a program that asks again and again, and never
    /// waits, hears what has come. Whether it took one.
    pub fn turn_if_stale(&mut self) -> bool {
        let stale = Clock.now().since(self.turned) >= JUST_NOW;
        if stale {
            self.turn();
        }
        stale
    }

    /// The same of a call that finds nothing to be done: what was written leaves as well.
    pub fn turn_if_idle(&mut self) -> bool {
        if self.has_to_leave() {
            self.turn();
            return true;
        }
        self.turn_if_stale()
    }

    /// What the deputy does while the program's thread is away: turns, and then the descriptors and
    /// the time that have it take more.
    fn attend(&mut self) -> Rest {
        for _ in 0..MOST_TURNS {
            self.take_turn(Clock.now());
            if !self.more {
                break;
            }
        }
        if self.more {
            return Rest::default();
        }
        let due = self.deadline.min(self.silo.stack_deadline()).since(Clock.now());
        let longest = if self.has_lost { LOOK_AFTER_LINK } else { LONGEST_SLEEP };
        let mut fds = Vec::new();
        let nap = self.silo.link.arm(&mut |fd| fds.push(readable(fd.as_raw_fd())));
        Rest { fds, timeout: due.min(nap).min(longest) }
    }

    /// Sleeps until a frame comes, `also` is ready, a timer of the stack is due or the time is up.
    /// `mask` counts meanwhile, as in ppoll(2). Whether any of `also` is ready.
    ///
    /// # Errors
    /// `EINTR`.
    pub fn wait(&mut self, also: &[libc::pollfd], timeout: Duration, mask: *const libc::sigset_t) -> Result<bool> {
        if self.more {
            return Ok(false);
        }
        let due = self.deadline.min(self.silo.stack_deadline()).since(Clock.now());
        let longest = if self.has_lost { LOOK_AFTER_LINK } else { LONGEST_SLEEP };
        let mut fds = Waited::new(also);
        let nap = self.silo.link.arm(&mut |fd| fds.add(fd.as_raw_fd()));
        let own = self.signals.hold();
        let mask = if mask.is_null() { as_set(&own) } else { mask };
        deputy::begin_sleep();
        let ready = fds.wait(timeout.min(due).min(nap).min(longest), mask);
        deputy::end_sleep();
        self.computes_since = Clock.now();
        ready
    }

    /// The same of a call that goes on, if `goes_on` says so, when a signal has come whose handler was
    /// installed with `SA_RESTART`: whether one has.
    fn wait_in_call(&mut self, timeout: Duration, goes_on: bool) -> Result<bool> {
        let Some((blocked, told_by)) = goes_on.then(|| self.signals.restarting()).flatten() else {
            return self.wait(&[], timeout, ptr::null()).map(|_| false);
        };
        let signalled = self.wait(&[readable(told_by)], timeout, as_set(&blocked))?;
        if signalled {
            self.signals.handle();
        }
        Ok(signalled)
    }

    /// Whether the last turn left something to do at once.
    pub const fn has_more(&self) -> bool {
        self.more
    }

    /// Makes attempts of a call, and takes turns between them, until it comes to something or the
    /// time is up; without time there are two attempts at most, if the first was not just after a turn.
    ///
    /// # Errors
    /// The call's, `EAGAIN` for a time that is up, `EINTR`.
    pub fn block<T>(
        &mut self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Calls<'_>) -> Attempt<T>,
    ) -> Result<T> {
        self.block_unless_signalled(timeout, |calls, _| attempt(calls))
    }

    /// The same of a call that a signal ends when it has come to something, even if it would go on
    /// otherwise: attempts are told that one has come. With a time of its own none goes on (signal(7)).
    pub fn block_unless_signalled<T>(
        &mut self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Calls<'_>, bool) -> Attempt<T>,
    ) -> Result<T> {
        let until = timeout.map_or(Time::MAX, |timeout| Clock.now() + timeout);
        let mut signalled = false;
        loop {
            if let Some(done) = attempt(&mut self.calls(), signalled)? {
                return Ok(done);
            }
            if timeout == Some(Duration::ZERO) {
                let again = if self.turn_if_idle() { attempt(&mut self.calls(), signalled)? } else { None };
                return again.ok_or(Errno(libc::EAGAIN));
            }
            self.turn();
            if let Some(done) = attempt(&mut self.calls(), signalled)? {
                return Ok(done);
            }
            let left = until.since(Clock.now());
            if left.is_zero() {
                return Err(Errno(libc::EAGAIN));
            }
            signalled |= self.wait_in_call(left, timeout.is_none())?;
        }
    }

    /// The process ends: what was written leaves, and is waited for until the peers have it, for
    /// nobody else would send it again. On the kernel's sockets that is the kernel's affair.
    fn leave(&mut self) {
        self.finish();
        self.silo.link.forget_flows();
    }

    fn finish(&mut self) {
        let ours: Vec<i32> = self.silo.app.ours().collect();
        for fd in ours {
            let closed = self.calls().close(fd);
            debug_assert!(closed.is_ok(), "it was told as ours");
        }
        self.tell_doors();
        self.tell_losses();
        let until = Clock.now() + LAST_WORDS;
        loop {
            self.turn();
            let stack = &self.silo.stack;
            let is_due = |info: tcp::Info| info.in_flight > 0 || info.unsent > 0;
            let waits = stack.connection_ids().filter_map(|id| stack.info(id)).any(is_due);
            let left = until.since(Clock.now());
            if left.is_zero() || !(waits || self.more) {
                return;
            }
            // A signal's handler is the program's, which is at its end.
            let _ = self.wait(&[], left, ptr::null());
        }
    }

    /// The operator hears of frames that were lost between workers, if any were.
    fn tell_losses(&self) {
        if let Some(sentence) = losses(self.silo.link.passing()) {
            say(&sentence);
        }
    }

    /// Descriptors that are this library's own.
    fn descriptors(&self) -> impl Iterator<Item = c_int> {
        let held = [self.held.as_raw_fd()];
        self.silo.link.descriptors().map(|fd| fd.as_raw_fd()).chain(held).chain(self.of_link.iter().copied())
    }
}

/// How long a process that ends waits for its peers to have what it wrote. The kernel tries for
/// longer, and no process waits.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// The longest sleep: a look at the link is due now and then.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

struct Shared<T>(UnsafeCell<Option<T>>);

// SAFETY: WORKER is touched by the thread alone whose HERE is set, as `with` sees to, and by the
// deputy while that is in no call.
unsafe impl<T> Sync for Shared<T> {}

static WORKER: Shared<SeatedWorker> = Shared(UnsafeCell::new(None));

/// Some thread of this process has the worker.
static TAKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread has the worker.
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread has the worker.
#[inline]
pub fn is_here() -> bool {
    HERE.get()
}

/// Does something with the worker of this thread.
///
/// # Errors
/// `EOPNOTSUPP` in another thread than the worker's, `EAGAIN` in a signal's handler that came
/// amid a call.
#[inline]
pub fn with<T>(act: impl FnOnce(&mut SeatedWorker) -> Result<T>) -> Result<T> {
    if !HERE.get() {
        return elsewhere();
    }
    with_uncounted(|worker| {
        worker.counted.calls += 1;
        act(worker)
    })
}

/// The same, which is no call of the program's for a connection.
#[inline]
pub fn with_uncounted<T>(act: impl FnOnce(&mut SeatedWorker) -> Result<T>) -> Result<T> {
    if !deputy::begin_call() {
        return Err(Errno(libc::EAGAIN));
    }
    // SAFETY: this thread alone has HERE set, and a call that has begun is the only one, with the
    // deputy waiting.
    let worker = unsafe { (*WORKER.0.get()).as_mut() };
    let outcome = worker.map_or(Err(Errno(libc::EOPNOTSUPP)), |worker| {
        let outcome = act(worker);
        worker.signals.release();
        outcome
    });
    deputy::end_call();
    outcome
}

/// What the deputy does while the worker's thread is in no call.
fn attend() -> Rest {
    // SAFETY: the deputy calls it while the worker's thread is in no call and waits before the next,
    // and nothing in a worker is bound to a thread.
    unsafe { (*WORKER.0.get()).as_mut() }.map_or_else(Rest::default, SeatedWorker::attend)
}

/// A thread that is not the worker has called for one of its connections, or there is no worker.
#[cold]
fn elsewhere<T>() -> Result<T> {
    static SAID: AtomicBool = AtomicBool::new(false);
    if TAKEN.load(Ordering::Relaxed) && !SAID.swap(true, Ordering::Relaxed) {
        say(&format!(
            "process {}: a thread has called for a connection that another thread of it opened or accepted, and got \
             EOPNOTSUPP: connections on our stack are one thread's",
            std::process::id()
        ));
    }
    Err(Errno(libc::EOPNOTSUPP))
}

/// Makes this thread the worker, unless it is already.
///
/// # Errors
/// `EOPNOTSUPP` where another thread is, `ENETDOWN` where there is no seat: the operator was told
/// why.
pub fn become_worker() -> Result<()> {
    if HERE.get() {
        return Ok(());
    }
    let Some(place) = place() else { return Err(Errno(libc::EOPNOTSUPP)) };
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    // SAFETY: the descriptor is the constructor's, which looked at it; nobody closes it but the
    // program, and then calls on it fail.
    let channel = unsafe { BorrowedFd::borrow_raw(place.channel) };
    // A driver may have threads, too.
    match deputy::without_signals(|| SeatedWorker::open(&place.terms, channel)) {
        Ok(worker) => {
            // SAFETY: TAKEN was ours to take, so no thread has the worker, and none holds a reference.
            unsafe { *WORKER.0.get() = Some(worker) };
            HERE.set(true);
            let owned = with(|worker| {
                worker.descriptors().for_each(|fd| set_mark(fd, Mark::Own));
                Ok(())
            });
            debug_assert!(owned.is_ok(), "this thread has the worker");
            if let Err(why) = deputy::start(attend) {
                say(&format!("process {} answers nobody while it computes: {why}", std::process::id()));
            }
            // SAFETY: the function is one of this library, which is not unloaded.
            unsafe { libc::atexit(on_exit) };
            Ok(())
        }
        Err(why) => {
            TAKEN.store(false, Ordering::Relaxed);
            say(&format!("process {} has no seat at the link: {why}", std::process::id()));
            Err(Errno(libc::ENETDOWN))
        }
    }
}

extern "C" fn on_exit() {
    leaving();
    let left = with(|worker| {
        worker.leave();
        Ok(())
    });
    // Another thread's exit: the peers will ask, and be reset.
    let _ = left;
}

/// This process is a child: the worker is its parent's.
pub fn forget() {
    HERE.set(false);
    deputy::forget();
    TAKEN.store(false, Ordering::Relaxed);
    // SAFETY: of the parent's threads this one alone is left, which is in no call. What the worker
    // holds is not dropped: descriptors and memory are copies, and dropping might say something to
    // the link.
    unsafe { ptr::write(WORKER.0.get(), None) };
}
