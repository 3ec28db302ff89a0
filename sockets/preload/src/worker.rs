//! The process that has a seat: link, stack and sockets, in one thread.

mod errands;
mod heir;
mod in_the_way;
mod leaving;
mod lost;
mod owner;
mod pace;
mod unclaimed;
mod waiting;

pub use crate::place::{Place, place, say, set_place};
pub use errands::{close_from_afar, end_from_afar, have_done, is_anothers, reset_from_afar};
pub use heir::Heir;

use self::in_the_way::InTheWay;
use self::pace::WorkerPace;
use crate::address::bound;
use crate::afar::{self, Afar};
use crate::any_link::AnyLink;
use crate::deputy::{self, Rest};
use crate::figures::{Column, Counted, Told};
use crate::given::{Given, OwnPorts, SharedLedger, mac_of, new_stack, seeds};
use crate::kernel::{self, is_listened_on};
use crate::marks::{Mark, set_mark};
use crate::signals::Signals;
pub use crate::waited::patience;
use crate::waited::readable;
use crate::{place, refusals};
use core::any::type_name;
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use cpu::Clock;
use link::{Link, LinkState, Reopened};
use posix::{Calls, Defaults, Errno, MovedConnection, Result, SocketTable};
use seats::{Seat, Terms};
use sharing::SeatedLink;
use silo::Silo;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::Time;

/// The link is asked whether it is up, and a client's connection is made, this often.
const LOOK_AFTER_LINK: Duration = Duration::from_millis(10);

/// And the kernel is asked whether anybody still listens where this process does not any more.
const LOOK_AFTER_LISTENERS: Duration = Duration::from_secs(1);

/// Places that are looked at then for connections of a process that was killed: some 25,000 a second.
const MOST_LOST: usize = 256;

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
    pace: WorkerPace,
    counted: Counted,
    /// The program has computed since: the last turn's time, or a sleep's end.
    computes_since: Time,
    /// None in a child that ends its parent's connections: the page is not there.
    column: Option<Column>,
    /// Ports whose listeners were closed here, while another process listens there: one that has a
    /// seat, or is to have one.
    left_to_others: Vec<u16>,
    /// A listener was closed since the last turn.
    listener_closed: bool,
    /// When the kernel was last asked who listens there.
    listeners_asked: Time,
    /// A child goes on with it, and this process has it no more.
    is_left: bool,
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
    /// Since when there are connections that nobody accepts here and nobody elsewhere takes.
    unclaimed_since: Option<Time>,
    in_the_way: InTheWay,
}

impl SeatedWorker {
    fn open(terms: &Terms, seat: Seat) -> io::Result<Self> {
        let Seat { text, descriptors, held } = seat;
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
            pace: WorkerPace::new(terms.pace, now),
            counted: Counted::default(),
            computes_since: now,
            column: Some(Column::new(page)),
            left_to_others: Vec::new(),
            listener_closed: false,
            listeners_asked: now,
            is_left: false,
            held,
            of_link,
            epoch,
            changes: u64::MAX,
            has_lost: false,
            unclaimed_since: None,
            in_the_way: InTheWay::default(),
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
        self.silo.link.set_attended(Some(now));
        self.take_turn(now);
    }

    /// The same in whichever thread it is.
    #[inline]
    fn take_turn(&mut self, now: Time) {
        if self.is_left {
            return;
        }
        // While the deputy sleeps on the link's descriptors nothing waits.
        self.counted.on_turn(now.since(self.computes_since.max(deputy::watched_until())));
        self.computes_since = now;
        self.turned = now;
        self.to_leave = false;
        self.close_for_others();
        let is_due = now.since(self.looked_after) >= LOOK_AFTER_LINK || self.listener_closed;
        let looks = is_due || self.epoch != self.silo.link.epoch() || self.changes != self.silo.link.changes();
        if looks {
            self.look_after_link(now);
        }
        let unclaimed = self.silo.app.unclaimed();
        if self.silo.app.take_ends() {
            self.pace.send_said(&mut self.silo, now);
        }
        let turn = self.pace.turn(&mut self.silo, now);
        self.more = turn.more;
        self.deadline = turn.deadline;
        while let Some(message) = self.silo.link.poll_message() {
            // What is not understood is nobody's: the connection's next segment is answered so.
            if let Some(moved) = MovedConnection::from_bytes(&message) {
                self.calls().take_moved(&moved);
            }
            self.more = true;
        }
        if self.silo.app.unclaimed() > if looks { 0 } else { unclaimed } {
            self.give_unclaimed(now);
        }
        self.calls().after_turn();
        if self.column.as_ref().is_some_and(|column| column.is_due(now)) {
            self.publish(now);
        }
    }

    #[cold]
    fn publish(&mut self, now: Time) {
        let Silo { link, stack, app } = &self.silo;
        let (is_up, counters) = (self.carrier == LinkState::Up, link.counters());
        let told = Told { counted: &self.counted, link: (is_up, counters), stack, table: app, passing: link.passing() };
        if let Some(column) = &mut self.column {
            column.publish(now, &told);
        }
    }

    /// The longest sleep: a look at the link is due now and then, and soon where others are to take
    /// something.
    pub fn longest_sleep(&self) -> Duration {
        if self.has_lost || self.silo.app.unclaimed() > 0 { LOOK_AFTER_LINK } else { LONGEST_SLEEP }
    }

    #[cold]
    #[inline(never)]
    fn look_after_link(&mut self, now: Time) {
        self.looked_after = now;
        self.look_after_peer();
        self.look_in_the_way();
        self.changes = self.silo.link.changes();
        let mut looks = MOST_LOST;
        while let Some((remote, local)) = self.silo.link.take_lost(&mut looks) {
            self.calls().end_lost(remote, local);
        }
        self.has_lost = looks == 0;
        let state = self.silo.link.poll_control(now);
        let before = core::mem::replace(&mut self.carrier, state);
        if before != state {
            if state == LinkState::Up {
                self.silo.stack.on_link_up();
            }
            place::tell_of_link(state);
        }
        let is_asked = self.listener_closed || now.since(self.listeners_asked) >= LOOK_AFTER_LISTENERS;
        if !self.left_to_others.is_empty() && is_asked {
            self.listener_closed = false;
            self.listeners_asked = now;
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
    }

    /// Ends what other threads have closed, resets whom they would have accepted, and does their errands.
    #[inline]
    pub fn close_for_others(&mut self) {
        if afar::is_asked() {
            self.close_for_others_now();
        }
    }

    #[cold]
    fn close_for_others_now(&mut self) {
        for what in afar::take() {
            match what {
                Afar::Descriptor(fd) => {
                    self.close(fd);
                    kernel::close(fd);
                }
                Afar::Number(fd) => self.close(fd),
                // Whoever waited may have given up.
                Afar::FirstWaiting(fd) => _ = self.calls().reset_first_waiting(fd),
                Afar::Errands => errands::run(self),
            }
        }
    }

    /// A descriptor is closed: where that resets its connection, what the program has written leaves first.
    pub fn leave_before_reset(&mut self, fd: c_int) {
        if !self.is_left && self.calls().resets_unsent(fd) {
            self.pace.send_said(&mut self.silo, Clock.now());
        }
    }

    /// What is under a descriptor's number ends.
    pub fn close(&mut self, fd: c_int) {
        let listened = if self.calls().is_listener(fd) == Ok(true) { bound(fd) } else { None };
        set_mark(fd, Mark::Foreign);
        self.leave_before_reset(fd);
        // One that another call has closed meanwhile is closed.
        let _ = self.calls().close(fd);
        if let Some(address) = listened {
            self.on_listener_closed(address.port());
        }
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
        if self.is_left {
            return Rest { fds: Vec::new(), timeout: LONGEST_SLEEP };
        }
        if self.more {
            return Rest::default();
        }
        let due = self.deadline.min(self.silo.stack_deadline()).since(Clock.now());
        let mut fds = Vec::new();
        let nap = self.silo.link.arm(&mut |fd| fds.push(readable(fd.as_raw_fd())));
        Rest { fds, timeout: due.min(nap).min(self.longest_sleep()) }
    }

    /// Whether the last turn left something to do at once.
    pub const fn has_more(&self) -> bool {
        self.more
    }

    /// Descriptors that are this library's own.
    fn descriptors(&self) -> impl Iterator<Item = c_int> {
        let held = [self.held.as_raw_fd()];
        let shared = self.silo.link.descriptors().chain(self.silo.link.link().control());
        shared.map(|fd| fd.as_raw_fd()).chain(held).chain(self.of_link.iter().copied())
    }
}

/// The longest sleep, where nothing is to be looked after sooner.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

struct Shared<T>(UnsafeCell<Option<T>>);

// SAFETY: WORKER is touched by the thread alone whose HERE is set, as `with` sees to, and by the
// deputy while that is in no call. HERE is set in the thread that makes the worker, and in another
// only once that has ended (`go_on_for_ended`).
unsafe impl<T> Sync for Shared<T> {}

static WORKER: Shared<SeatedWorker> = Shared(UnsafeCell::new(None));

/// Some thread of this process has the worker.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// This process has left its seat, for it ends.
static LEFT: AtomicBool = AtomicBool::new(false);

/// This process was made by fork(2) of one that has the worker.
static OF_WORKER: AtomicBool = AtomicBool::new(false);

/// It goes on with its parent's worker ([`Heir`]).
static IS_HEIR: AtomicBool = AtomicBool::new(false);

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
pub fn with<T, F: FnOnce(&mut SeatedWorker) -> Result<T>>(act: F) -> Result<T> {
    if !HERE.get() && !go_on_for_ended() {
        return Err(refuse(refusals::call_of(type_name::<F>())));
    }
    with_uncounted(|worker| {
        worker.counted.calls += 1;
        act(worker)
    })
}

/// Makes this thread the worker's, where the one that was has ended. Whether it is.
#[cold]
#[inline(never)]
fn go_on_for_ended() -> bool {
    let is_next = TAKEN.load(Ordering::Acquire) && !LEFT.load(Ordering::Relaxed) && !is_heir() && owner::follow_ended();
    if is_next {
        HERE.set(true);
    }
    is_next
}

/// What a call does nearly always, with the worker of this thread. `None`, and nothing has happened, where it is to
/// be done as any other ([`with`]): another thread calls, or a signal's handler amid a call, or `act` says so. It is
/// not to wait, so that no signals are held back when it is over.
#[inline(always)]
pub fn usually<T>(act: impl FnOnce(&mut SeatedWorker) -> Option<T>) -> Option<T> {
    if !HERE.get() || !deputy::begin_call() {
        return None;
    }
    // SAFETY: as in `with_uncounted`.
    let worker = unsafe { (*WORKER.0.get()).as_mut() };
    let outcome = worker.and_then(|worker| {
        let outcome = act(worker)?;
        worker.counted.calls += 1;
        Some(outcome)
    });
    deputy::end_call();
    outcome
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

/// What a call fails with that is about connections of the worker, and comes from another thread, from a
/// child of its process, or after it has left. The operator hears once of each call why.
#[cold]
pub fn refuse(call: &'static str) -> Errno {
    if LEFT.load(Ordering::Relaxed) {
        return Errno(libc::EBADF);
    }
    let why = if TAKEN.load(Ordering::Relaxed) {
        "and got EOPNOTSUPP: connections on our stack are one thread's, the first's that accepted, connected or waited \
         for one, as long as that is there"
    } else if OF_WORKER.load(Ordering::Relaxed) {
        "for a connection that its parent opened or accepted before fork(2), and got EOPNOTSUPP: a child has none of \
         its parent's connections on our stack"
    } else {
        return Errno(libc::EOPNOTSUPP);
    };
    if let Some(thread) = refusals::is_news(call) {
        let of = format!("{call} {}", TAKEN.load(Ordering::Relaxed));
        place::say_once(&of, &format!("process {}: thread {thread} has called {call} {why}", std::process::id()));
    }
    Errno(libc::EOPNOTSUPP)
}

/// Makes this thread the worker, unless it is already.
///
/// # Errors
/// `EOPNOTSUPP` where another thread is, `EUSERS` where too many wait for a seat, `ENETDOWN` where there is
/// none for another reason: the operator was told why.
pub fn become_worker() -> Result<()> {
    if HERE.get() {
        return Ok(());
    }
    let Some(place) = place() else { return Err(Errno(libc::EOPNOTSUPP)) };
    if TAKEN.swap(true, Ordering::AcqRel) {
        return if go_on_for_ended() { Ok(()) } else { Err(refuse("accept, connect or epoll_ctl")) };
    }
    // SAFETY: the descriptor is the constructor's, which looked at it; nobody closes it but the
    // program, and then calls on it fail.
    let channel = unsafe { BorrowedFd::borrow_raw(place.channel) };
    // A driver may have threads, too, which handle no signals. This one does while it waits for a seat.
    let seat = seats::ask_for_seat(channel);
    match seat.and_then(|seat| deputy::without_signals(|| SeatedWorker::open(&place.terms, seat))) {
        Ok(worker) => {
            // SAFETY: TAKEN was ours to take, so no thread has the worker, and none holds a reference.
            unsafe { *WORKER.0.get() = Some(worker) };
            owner::note();
            HERE.set(true);
            let owned = with(|worker| {
                worker.descriptors().for_each(|fd| set_mark(fd, Mark::Own));
                afar::set_bell(worker.silo.link.bell().map_or(-1, |bell| bell.as_raw_fd()));
                Ok(())
            });
            debug_assert!(owned.is_ok(), "this thread has the worker");
            if let Err(why) = deputy::start(attend) {
                say(&format!("process {} answers nobody while it computes: {why}", std::process::id()));
            }
            Ok(())
        }
        Err(why) => {
            static SAID: AtomicBool = AtomicBool::new(false);
            TAKEN.store(false, Ordering::Relaxed);
            let is_full = why.kind() == io::ErrorKind::ResourceBusy;
            // A program may try again and again.
            if !is_full || !SAID.swap(true, Ordering::Relaxed) {
                say(&format!("process {} has no seat at the link: {why}", std::process::id()));
            }
            Err(Errno(if is_full { libc::EUSERS } else { libc::ENETDOWN }))
        }
    }
}

/// This process has left its seat: its connections are another's, or over.
pub fn has_left() {
    deputy::retire();
    // Before what lies there is looked at: who puts something there looks the other way round.
    LEFT.store(true, Ordering::SeqCst);
    HERE.set(false);
    errands::drop_all();
}

/// The next child goes on with this process's worker, or no more.
fn set_heir(on: bool) {
    IS_HEIR.store(on, Ordering::Relaxed);
}

/// Whether this process is a child that goes on with its parent's worker.
pub fn is_heir() -> bool {
    IS_HEIR.load(Ordering::Relaxed)
}

/// Whether this process was made by fork(2) of one that has a worker.
pub fn is_of_worker() -> bool {
    OF_WORKER.load(Ordering::Relaxed)
}

/// The listeners that a set watches, where there is nothing else that it watches of ours.
pub fn watched_listeners(set: c_int) -> Option<Vec<(c_int, u32, u64)>> {
    if !is_here() {
        return None;
    }
    with(|worker| Ok(worker.silo.app.watched_listeners(set))).ok().flatten()
}

/// This process is a child: the worker is its parent's.
pub fn forget() {
    HERE.set(false);
    owner::forget();
    LEFT.store(false, Ordering::Relaxed);
    OF_WORKER.store(TAKEN.swap(false, Ordering::Relaxed) || is_of_worker(), Ordering::Relaxed);
    refusals::forget();
    // SAFETY: of the parent's threads this one alone is left, which is in no call. What the worker
    // holds is not dropped: descriptors and memory are copies, and dropping might say something to
    // the link.
    unsafe { ptr::write(WORKER.0.get(), None) };
}
