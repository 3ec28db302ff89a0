//! The seats at the link: who has each, and who waits for one.

use crate::board::Board;
use crate::held_link::Kept;
use crate::stopped;
use core::time::Duration;
use link::Reopened;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use say::Failure;
use seats::Terms;
use sharing::SharedMemory;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::Time;

/// Who waits for a seat, at most: more processes than that are refused one.
const MOST_WAITING: usize = 64;

/// Seats for each worker: when a program changes its workers, those of before are there until their last
/// client has gone, and with long downloads several generations are. A seat that nobody has costs
/// addresses, and no memory.
const SEATS_PER_WORKER: usize = 4;

/// How long a process waits for a seat before clients are reset who would wait for it.
const WAITS: Duration = Duration::from_secs(10);

/// A process that was killed leaves its connections to other workers. One that computes for longer than
/// this is not waited for.
const LEFT_TO_WORKERS: Duration = Duration::from_millis(250);

/// Who has a seat.
struct Holder {
    /// Its other end closes when the process ends, or becomes another program.
    socket: OwnedFd,
    /// The process. A child of its has the socket's other end as well, and may outlive it.
    process: Option<OwnedFd>,
    /// Its number.
    number: Option<Pid>,
    /// It is a child of one that has ended, and sends what peers have not taken.
    is_heir: bool,
    /// Such a child of this one, which has the seat when this one is gone.
    heir: Option<Box<Self>>,
}

impl Holder {
    fn new(socket: OwnedFd, is_heir: bool) -> Self {
        // Who made the pair is who asked.
        let asked = rustix::net::sockopt::socket_peercred(&socket).ok();
        let number = asked.map(|of| of.pid);
        let process = number.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self { socket, process, number, is_heir, heir: None }
    }

    /// What becomes readable when it is gone.
    fn signs(&self) -> impl Iterator<Item = &OwnedFd> {
        [Some(&self.socket), self.process.as_ref()].into_iter().flatten()
    }
}

/// Whose end is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SeatPlace {
    /// Of the process that has a seat.
    Holder(usize),
    /// Of a child that is to have it.
    Heir(usize),
}

/// The seats.
pub(crate) struct Seats {
    kept: Kept,
    memory: SharedMemory,
    board: Board,
    /// What wakes each.
    bells: Vec<OwnedFd>,
    /// Who has each.
    taken: Vec<Option<Holder>>,
    /// Who waits for one, and until when clients wait for that.
    waiting: VecDeque<(OwnedFd, Time)>,
    /// None came free for so long that clients are reset.
    is_late: bool,
    /// Since when connections of a process that was killed wait to be ended.
    lost: Option<Time>,
}

/// How many seats there are for so many workers.
fn seats_for(workers: usize) -> usize {
    workers.saturating_mul(SEATS_PER_WORKER).clamp(SEATS_PER_WORKER, sharing::SEATS_MAX)
}

/// Descriptors that the keeper may need for so many workers: for each seat a bell, and a socket and the process of
/// who has it and of who is to have it; for each that waits one; and those of the link and its own.
pub(crate) fn descriptors(workers: usize) -> u64 {
    const OTHERS: usize = 64;
    u64::try_from(5 * seats_for(workers) + MOST_WAITING + OTHERS).unwrap_or(u64::MAX)
}

impl Seats {
    /// Opens a link with seats for so many workers.
    pub fn open(terms: &Terms, workers: usize, program: &str) -> Result<Self, Failure> {
        let kept = Kept::open(terms)?;
        let seats = seats_for(workers);
        let fail = |why: io::Error| Failure::from(format!("the seats at the link: {why}"));
        let memory = SharedMemory::create(seats, &random().map_err(fail)?).map_err(fail)?;
        let bell = |_| Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let bells = (0..seats).map(bell).collect::<io::Result<_>>().map_err(fail)?;
        let board = Board::new(program, seats)?;
        let taken = (0..seats).map(|_| None).collect();
        Ok(Self { kept, memory, board, bells, taken, waiting: VecDeque::new(), is_late: false, lost: None })
    }

    /// What becomes readable when a process has ended that has a seat, or is to have it.
    pub fn signs(&self) -> impl Iterator<Item = &OwnedFd> {
        self.taken().map(|(_, sign)| sign)
    }

    /// The same with whose end it tells: those that are to have a seat first.
    fn taken(&self) -> impl Iterator<Item = (SeatPlace, &OwnedFd)> {
        let holders = || self.taken.iter().enumerate().filter_map(|(seat, holder)| Some((seat, holder.as_ref()?)));
        let heirs = holders().filter_map(|(seat, holder)| Some((SeatPlace::Heir(seat), &**holder.heir.as_ref()?)));
        let all = heirs.chain(holders().map(|(seat, holder)| (SeatPlace::Holder(seat), holder)));
        all.flat_map(|(place, holder)| holder.signs().map(move |fd| (place, fd)))
    }

    /// What becomes readable when the link has something to do, and the longest time until then.
    pub fn link(&self) -> (Option<BorrowedFd<'_>>, Duration) {
        match &self.kept {
            Kept::Tap(_) | Kept::Xdp(_) => (None, Duration::MAX),
            Kept::Memif(port) => (port.readable(), port.patience()),
        }
    }

    /// Looks after the link.
    pub fn look_after_link(&mut self, now: Time) {
        let Kept::Memif(port) = &mut self.kept else { return };
        if port.poll(now)
            && let Ok(shared) = port.share()
            && let Some(epoch) = shared.text.split(' ').next().and_then(|epoch| epoch.parse().ok())
        {
            self.memory.set_link_epoch(epoch);
            self.wake_all();
        }
    }

    /// The workers look around.
    fn wake_all(&self) {
        for bell in &self.bells {
            // Fails only when its counter is full, and then it is readable anyway.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// A worker has found the link's peer to break the protocol.
    pub fn on_refused(&mut self, epoch: u32) {
        if let Kept::Memif(port) = &mut self.kept
            && port.refuse(epoch)
        {
            say::warning("the link's peer breaks its protocol, or took its memory away: its connection is ended");
        }
    }

    /// A worker has found another's process amid a turn at a queue, look after look. If that was stopped
    /// (SIGSTOP), it goes on until its turn is over, and is stopped again: where it stands it keeps all
    /// others from the queue, and nobody else can end what it has begun, for it would write when it goes
    /// on.
    pub fn on_in_the_way(&self, seat: usize) {
        let Some(holder) = self.taken.get(seat).and_then(Option::as_ref) else { return };
        let (Some(process), Some(number)) = (holder.process.as_ref(), holder.number) else { return };
        stopped::bring_out(process, number, || self.memory.is_amid_turn(seat));
    }

    /// A worker asks for the link's descriptors as they are now.
    pub fn on_asked_for_link(&self, to: &OwnedFd) {
        let shared = self.kept.share();
        // Who asked may be gone.
        let _ = match &shared {
            Ok(Reopened { text, descriptors }) => {
                let all: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
                seats::give_seat(to.as_fd(), Ok((text, &all)))
            }
            Err(why) => seats::give_seat(to.as_fd(), Err(&why.to_string())),
        };
    }

    /// A process asks for a seat.
    pub fn on_asked(&mut self, to: OwnedFd, now: Time) {
        self.waiting.retain(|(to, _)| !has_gone(to));
        if self.waiting.len() >= MOST_WAITING {
            // Who asked may be gone.
            let _ = seats::refuse_seat(to.as_fd(), "too many processes wait for a seat");
            return;
        }
        self.waiting.push_back((to, now + WAITS));
        self.give();
        if self.waiting.len() == 1 {
            say::warning(format_args!(
                "a process of the program waits for a seat at the link: {}",
                self.all_are_taken()
            ));
        }
    }

    /// By whom, and what to do.
    fn all_are_taken(&self) -> String {
        let (taken, heirs) = (self.taken.len(), self.heirs());
        format!(
            "all {taken} are taken, {heirs} of them by processes that have ended and whose peers have not taken all; \
             each of the program's workers has one until its last connection is over: give it more (--workers), or an \
             end to old ones (nginx: worker_shutdown_timeout)"
        )
    }

    /// Some time has passed.
    pub fn on_time(&mut self, now: Time) {
        if self.due() > now {
            return;
        }
        // Who ended meanwhile is nobody's to wait for.
        self.waiting.retain(|(to, _)| !has_gone(to));
        if self.due() <= now {
            // Nobody is about to accept: clients are to hear that.
            self.set_late(true);
            say::warning(format_args!(
                "no seat came free in {} s, and who connects meanwhile is reset: {}",
                WAITS.as_secs(),
                self.all_are_taken()
            ));
        }
    }

    fn set_late(&mut self, on: bool) {
        self.is_late = on;
        self.memory.set_refuses(on);
    }

    /// When [`Seats::on_time`] is to be called at the latest.
    pub fn due(&self) -> Time {
        let first = self.waiting.front().filter(|_| !self.is_late);
        first.map_or(Time::MAX, |(_, until)| *until)
    }

    /// When [`Seats::has_lost`] is to be asked at the latest.
    pub fn lost_due(&self) -> Time {
        self.lost.map_or(Time::MAX, |since| since + LEFT_TO_WORKERS)
    }

    /// A child of the process that has a seat is to have it when that one is gone.
    pub fn on_heir(&mut self, seat: usize, to: OwnedFd) {
        let holder = self.taken.get_mut(seat).and_then(Option::as_mut);
        let answer = if holder.is_some() { Ok(("", &[][..])) } else { Err("nobody has that seat") };
        if seats::give_seat(to.as_fd(), answer).is_ok()
            && let Some(holder) = holder
        {
            holder.heir = Some(Box::new(Holder::new(to, true)));
        }
    }

    /// Seats of such children.
    pub fn heirs(&self) -> usize {
        self.taken.iter().flatten().filter(|holder| holder.is_heir).count()
    }

    /// Whether processes of the program have seats, beside those.
    pub fn has_workers(&self) -> bool {
        self.taken.iter().flatten().any(|holder| !holder.is_heir)
    }

    /// Sends these children a signal.
    pub fn end_heirs(&self, signal: Signal) {
        let heirs = self.taken.iter().flatten().filter(|holder| holder.is_heir);
        for process in heirs.filter_map(|holder| holder.process.as_ref()) {
            // It may have ended by now.
            let _ = pidfd_send_signal(process, signal);
        }
    }

    /// Processes may have ended that had a seat, or were to have one: those that have one now are
    /// looked at, for who was to have it may have been followed by another.
    pub fn on_ends(&mut self, now: Time) {
        let (places, signs): (Vec<SeatPlace>, Vec<&OwnedFd>) = self.taken().unzip();
        let mut fds: Vec<PollFd<'_>> = signs.into_iter().map(|sign| PollFd::new(sign, PollFlags::IN)).collect();
        if !poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            return;
        }
        let ready = places.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        let mut ended: Vec<SeatPlace> = ready.map(|(place, _)| place).collect();
        // Of each two things may tell.
        ended.dedup();
        ended.into_iter().for_each(|place| self.on_left(place, now));
    }

    /// A process has ended that had a seat, or was to have one.
    fn on_left(&mut self, place: SeatPlace, now: Time) {
        let (SeatPlace::Holder(seat) | SeatPlace::Heir(seat)) = place;
        let Some(held) = self.taken.get_mut(seat) else { return };
        match (place, held) {
            (SeatPlace::Heir(_), Some(holder)) => holder.heir = None,
            (SeatPlace::Heir(_), None) => {}
            (SeatPlace::Holder(_), held) => {
                let heir = held.take().and_then(|holder| holder.heir);
                *held = heir.map(|heir| *heir);
                if held.is_some() {
                    self.board.clear(seat);
                } else {
                    self.on_free(seat, now);
                }
            }
        }
    }

    /// Nobody has a seat any more.
    fn on_free(&mut self, seat: usize, now: Time) {
        self.memory.vacate(seat);
        self.board.clear(seat);
        if self.memory.has_flows(seat) {
            self.lost.get_or_insert(now);
        }
        self.give();
        if self.waiting.is_empty() {
            self.set_late(false);
        }
        // Whoever sleeps may have relied on it.
        self.wake_all();
    }

    /// Whether connections of a process that was killed are there, which no worker has ended in time.
    pub fn has_lost(&mut self, now: Time) -> bool {
        let Some(since) = self.lost else { return false };
        let is_left = |seat: usize| self.taken[seat].is_none() && self.memory.has_flows(seat);
        if !(0..self.taken.len()).any(is_left) {
            self.lost = None;
            return false;
        }
        !self.has_workers() || now.since(since) >= LEFT_TO_WORKERS
    }

    /// Such connections are not looked for any more.
    pub fn forget_lost(&mut self) {
        self.lost = None;
        let free = (0..self.taken.len()).filter(|seat| self.taken[*seat].is_none());
        free.for_each(|seat| self.memory.strike_flows(seat));
    }

    /// Gives seats that are free to those who wait and are still there, the first first.
    fn give(&mut self) {
        // One whose connections others are still ending is given last.
        let free = |this: &Self| {
            let free = (0..this.taken.len()).filter(|seat| this.taken[*seat].is_none());
            free.min_by_key(|seat| this.memory.has_flows(*seat))
        };
        while let Some(seat) = free(self)
            && let Some((next, _)) = self.waiting.pop_front()
        {
            match self.kept.share() {
                Ok(Reopened { text, descriptors }) => {
                    let common = [self.memory.as_fd(), self.board.as_fd()];
                    let all = common.into_iter().chain(self.bells.iter().map(AsFd::as_fd));
                    let all: Vec<BorrowedFd<'_>> = all.chain(descriptors.iter().map(AsFd::as_fd)).collect();
                    if seats::give_seat(next.as_fd(), Ok((&format!("{seat} {text}"), &all))).is_ok() {
                        self.taken[seat] = Some(Holder::new(next, false));
                    }
                }
                Err(why) => {
                    let _ = seats::give_seat(next.as_fd(), Err(&why.to_string()));
                }
            }
        }
    }
}

/// Whether who asked is there no more.
fn has_gone(to: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(to, PollFlags::empty())];
    // The other end's close is told unasked (POLLHUP).
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Random words, from the system.
fn random() -> io::Result<[u64; 14]> {
    let mut file = File::open("/dev/urandom")?;
    let mut words = [0; 14];
    for word in &mut words {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes)?;
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::JoinHandle;

    /// Seats of two workers at a memif interface, which needs no rights, and what waits there at first.
    struct Scene {
        seats: Seats,
        folder: std::path::PathBuf,
        now: Time,
        _starts: std::sync::RwLockReadGuard<'static, ()>,
    }

    impl Scene {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("keeper-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let terms = format!("memif:{} 10.0.0.2/24", folder.join("link").display()).parse().unwrap();
            let starts = crate::STARTS.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (seats, now) = (Seats::open(&terms, 1, name).unwrap(), Time::from_millis(1_000));
            Self { seats, folder, now, _starts: starts }
        }

        /// A process asks for a seat: what it gets.
        fn ask(&mut self) -> JoinHandle<io::Result<seats::Seat>> {
            let (program, keeper) = seats::pair().unwrap();
            let asks = std::thread::spawn(move || seats::ask_for_seat(program.as_fd()));
            let to = seats::receive(keeper.as_fd()).unwrap().unwrap().descriptor.unwrap();
            self.seats.on_asked(to, self.now);
            asks
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    /// Who finds no seat waits for one, however long that takes; clients do not.
    #[test]
    fn who_finds_no_seat_waits_for_one() {
        let mut scene = Scene::new("waits");
        let mut held: Vec<_> = (0..SEATS_PER_WORKER).map(|_| scene.ask().join().unwrap().unwrap()).collect();
        assert_eq!(scene.seats.due(), Time::MAX);
        let waits = scene.ask();
        assert_eq!(scene.seats.due(), scene.now + WAITS);
        assert!(scene.seats.all_are_taken().contains("all 4 are taken, 0 of them"));
        scene.now = scene.now + WAITS;
        scene.seats.on_time(scene.now);
        assert!(scene.seats.is_late && !waits.is_finished());
        assert_eq!(scene.seats.due(), Time::MAX, "it is said once");
        let later = scene.ask();
        assert!(!later.is_finished());
        // The first one ends.
        drop(held.remove(0));
        scene.seats.on_ends(scene.now);
        held.push(waits.join().unwrap().unwrap());
        assert!(scene.seats.is_late, "the other one waits");
        drop(held.remove(0));
        scene.seats.on_ends(scene.now);
        assert!(later.join().unwrap().is_ok() && !scene.seats.is_late);
    }

    /// Who waits and ends has no seat, and keeps nobody from one.
    #[test]
    fn who_ends_while_it_waits_is_forgotten() {
        let mut scene = Scene::new("ends");
        let _held: Vec<_> = (0..SEATS_PER_WORKER).map(|_| scene.ask().join().unwrap().unwrap()).collect();
        for _ in 0..2 * MOST_WAITING {
            let (keeper, program) = seats::pair().unwrap();
            scene.seats.on_asked(keeper, scene.now);
            drop(program);
        }
        scene.seats.on_time(scene.now + WAITS);
        assert!(scene.seats.waiting.is_empty() && !scene.seats.is_late);
    }

    /// Connections of a process that was killed are other workers' to end, for a while; and the keeper's
    /// where there is none. A child that goes on with a seat is no worker.
    #[test]
    fn what_nobody_ends_is_the_keepers() {
        let mut scene = Scene::new("lost");
        let _held: Vec<_> = (0..2).map(|_| scene.ask().join().unwrap().unwrap()).collect();
        let flow = ("10.0.0.1:5000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        scene.seats.memory.note_flow(0, 1, flow.0, flow.1);
        assert!(!scene.seats.has_lost(Time::MAX));
        scene.seats.on_left(SeatPlace::Holder(0), scene.now);
        assert!(!scene.seats.has_lost(scene.now), "the other one does it");
        assert_eq!(scene.seats.lost_due(), scene.now + LEFT_TO_WORKERS);
        assert!(scene.seats.has_lost(scene.now + LEFT_TO_WORKERS), "it did not");

        let (program, keeper) = seats::pair().unwrap();
        let heir = std::thread::spawn(move || seats::take_over_seat(program.as_fd(), 1));
        let to = seats::receive(keeper.as_fd()).unwrap().unwrap().descriptor.unwrap();
        scene.seats.on_heir(1, to);
        let _held_by_heir = heir.join().unwrap().unwrap();
        assert_eq!((scene.seats.heirs(), scene.seats.has_workers()), (0, true), "its parent is there");
        scene.seats.on_left(SeatPlace::Heir(1), scene.now);
        scene.seats.on_left(SeatPlace::Heir(0), scene.now);
        assert!(scene.seats.has_workers(), "it is not needed");
        let (program, keeper) = seats::pair().unwrap();
        let heir = std::thread::spawn(move || seats::take_over_seat(program.as_fd(), 1));
        let to = seats::receive(keeper.as_fd()).unwrap().unwrap().descriptor.unwrap();
        scene.seats.on_heir(1, to);
        let _held_by_heir = heir.join().unwrap().unwrap();
        scene.seats.on_left(SeatPlace::Holder(1), scene.now);
        assert_eq!((scene.seats.heirs(), scene.seats.has_workers()), (1, false));
        assert!(scene.seats.has_lost(scene.now), "nobody else is there");
        scene.seats.forget_lost();
        assert!(!scene.seats.has_lost(Time::MAX));

        // Nobody takes over what nobody has.
        let (program, keeper) = seats::pair().unwrap();
        let heir = std::thread::spawn(move || seats::take_over_seat(program.as_fd(), 0));
        let to = seats::receive(keeper.as_fd()).unwrap().unwrap().descriptor.unwrap();
        scene.seats.on_heir(0, to);
        assert!(heir.join().unwrap().is_err());
    }

    /// A process that could not become another program makes a second child for the next attempt, while the
    /// end of the first is not seen yet: the second has the seat when the process is gone.
    #[test]
    fn a_child_that_follows_another_has_the_seat() {
        let mut scene = Scene::new("follows");
        let held = scene.ask().join().unwrap().unwrap();
        let heir = |scene: &mut Scene| {
            let (program, keeper) = seats::pair().unwrap();
            let asks = std::thread::spawn(move || seats::take_over_seat(program.as_fd(), 0));
            let to = seats::receive(keeper.as_fd()).unwrap().unwrap().descriptor.unwrap();
            scene.seats.on_heir(0, to);
            asks.join().unwrap().unwrap()
        };
        drop(heir(&mut scene));
        let second = heir(&mut scene);
        scene.seats.on_ends(scene.now);
        drop(held);
        scene.seats.on_ends(scene.now);
        assert_eq!((scene.seats.heirs(), scene.seats.has_workers()), (1, false));
        drop(second);
        scene.seats.on_ends(scene.now);
        assert_eq!(scene.seats.heirs(), 0);
    }
}
