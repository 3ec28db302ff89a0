//! Which descriptors are ready: `epoll`, `poll` and `select`, of the kernel's and ours together.

use crate::inherited;
use crate::kernel::{self, call, int, result};
use crate::listeners::adopt;
use crate::marks::{MOST, Mark, mark, set_mark};
use crate::memory::{self, Access, check, is_there};
use crate::watches::{is_nested, note};
use crate::worker::{SeatedWorker, is_here, place, refuse, say, with};
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use cpu::Clock;
use libc::{epoll_event, nfds_t, pollfd, sigset_t, timespec};
use posix::{Errno, Result};
use wire::Time;

/// Events that are told at once, however much room there is.
const MOST_EVENTS: usize = 1024;

/// Events that a program may have room for (Linux: `EP_MAX_EVENTS`).
const MOST_ASKED: usize = c_int::MAX as usize / size_of::<epoll_event>();

/// Turns between two looks at the kernel's descriptors while ours keep us busy.
const TURNS_BETWEEN_LOOKS: u64 = 16;

/// `epoll_ctl`.
///
/// # Safety
/// As for epoll_ctl(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(set: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    if let Err(error) = adopt_set(set).and_then(|()| is_no_connection(set)) {
        return int(result(Err(error)));
    }
    // SAFETY: any bytes are an event.
    let told = unsafe { memory::read(event) }.ok();
    let ours = match mark(fd) {
        Mark::Connection | Mark::Listener => Ok(true),
        Mark::Listening if op == libc::EPOLL_CTL_ADD => adopt(fd),
        Mark::Foreign if op == libc::EPOLL_CTL_ADD && place().is_some() => adopt(fd),
        Mark::Set if op == libc::EPOLL_CTL_ADD => refuse_nested(),
        _ => Ok(false),
    };
    match (ours, told) {
        (Err(error), _) => int(result(Err(error))),
        (Ok(true), None) if op != libc::EPOLL_CTL_DEL => int(result(Err(Errno(libc::EFAULT)))),
        (Ok(true), told) => {
            let (events, data) = told.map_or((0, 0), |event| (event.events, event.u64));
            int(result(watch_ours(set, op, fd, events, data).map(|()| 0)))
        }
        (Ok(false), told) => {
            let done = int(call!(SYS_epoll_ctl, set, op, fd, event));
            if done == 0 {
                let (events, data) = told.map_or((0, 0), |event| (event.events, event.u64));
                note(set, op, fd, events, data);
            }
            done
        }
    }
}

/// A connection of ours is no set, which the kernel cannot tell of its number.
fn is_no_connection(set: c_int) -> Result<()> {
    if mark(set) == Mark::Connection { Err(Errno(libc::EINVAL)) } else { Ok(()) }
}

/// A set that watches connections of ours would be watched by another, which the kernel would tell of
/// the kernel's alone.
#[cold]
fn refuse_nested<T>() -> Result<T> {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        say(&format!(
            "process {} has one epoll set watch another that watches connections on our stack, and got EINVAL: those \
             are watched by one set",
            std::process::id()
        ));
    }
    Err(Errno(libc::EINVAL))
}

/// A set that this process has from its parent, with nothing of ours in it but listeners, is its own
/// from now on.
fn adopt_set(set: c_int) -> Result<()> {
    for (fd, events, data) in inherited::take(set).into_iter().flatten() {
        // One that was closed meanwhile is watched no more.
        if adopt(fd)? {
            watch_ours(set, libc::EPOLL_CTL_ADD, fd, events, data)?;
        }
    }
    Ok(())
}

/// Whether the kernel alone knows what is ready in a set. Not where a thread asks that has not what is
/// ours in it, and would wait for ever.
fn is_kernels(set: c_int) -> Result<bool> {
    adopt_set(set)?;
    is_no_connection(set)?;
    match mark(set) {
        _ if is_here() => Ok(false),
        Mark::Set => Err(refuse("epoll_wait")),
        _ => Ok(true),
    }
}

/// A descriptor of ours in a set of the kernel's, beside which there is one of ours.
pub fn watch_ours(set: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    with(|worker| {
        if mark(set) != Mark::Set {
            if is_nested(set) {
                return refuse_nested();
            }
            kernel::is_set(set, place().map_or(-1, |place| place.channel))?;
            worker.calls().create_set(set);
            set_mark(set, Mark::Set);
        }
        worker.calls().control(set, op, fd, events, data)?;
        if mark(fd) == Mark::Listener {
            worker.tell_doors();
        }
        Ok(())
    })
}

/// How long a call waits by milliseconds; below 0: for ever.
fn millis(timeout: c_int) -> Duration {
    u64::try_from(timeout).map_or(Duration::MAX, Duration::from_millis)
}

/// `epoll_wait`.
///
/// # Safety
/// As for epoll_wait(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(set: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
    // SAFETY: the arguments are those of `epoll_pwait`.
    unsafe { epoll_pwait(set, events, most, timeout, ptr::null()) }
}

/// `epoll_pwait`.
///
/// # Safety
/// As for epoll_pwait(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    match is_kernels(set) {
        Ok(true) => return int(call!(SYS_epoll_pwait, set, events, most, timeout, mask, 8usize)),
        Ok(false) => {}
        Err(error) => return int(result(Err(error))),
    }
    int(result(with(|worker| wait(worker, set, (events, most), millis(timeout), mask))))
}

/// `epoll_pwait2`.
///
/// # Safety
/// As for epoll_pwait2(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    match is_kernels(set) {
        Ok(true) => return int(call!(SYS_epoll_pwait2, set, events, most, timeout, mask, 8usize)),
        Ok(false) => {}
        Err(error) => return int(result(Err(error))),
    }
    int(result(given(timeout).and_then(|timeout| with(|worker| wait(worker, set, (events, most), timeout, mask)))))
}

/// How long a call waits by a time that a program gives; none: for ever.
pub fn given(time: *const timespec) -> Result<Duration> {
    if time.is_null() {
        return Ok(Duration::MAX);
    }
    // SAFETY: any numbers are a time.
    let time = unsafe { memory::read(time) }?;
    if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) {
        return Err(Errno(libc::EINVAL));
    }
    Ok(duration(&time))
}

pub fn duration(time: &timespec) -> Duration {
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    u64::try_from(time.tv_sec).map_or(Duration::MAX, |seconds| Duration::new(seconds, nanos))
}

/// Waits in the worker's thread: its turns are what ours become ready by.
fn wait(
    worker: &mut SeatedWorker,
    set: c_int,
    (events, most): (*mut epoll_event, c_int),
    timeout: Duration,
    mask: *const sigset_t,
) -> Result<i64> {
    let most = usize::try_from(most).ok().filter(|most| (1..=MOST_ASKED).contains(most)).ok_or(Errno(libc::EINVAL))?;
    let room = most.min(MOST_EVENTS);
    let is_told = is_there(Access::Write, events.cast(), room * size_of::<epoll_event>());
    let until = if timeout == Duration::MAX { Time::MAX } else { Clock.now() + timeout };
    let mut first = true;
    // The kernel's may be ready.
    let mut is_due = true;
    loop {
        worker.turn();
        let mut count = match is_told {
            true => take_ours(worker, set, events, room)?,
            // Who is told of nothing does not hear of it; of the kernel's the kernel finds out.
            false if worker.calls().events(set, libc::EPOLLIN as u32).is_ok_and(|ready| ready != 0) => {
                return Err(Errno(libc::EFAULT));
            }
            false => 0,
        };
        // The kernel's have their look when nothing of ours is ready, and every so many turns of those
        // that do something: then half of the room is theirs.
        let is_busy = count > 0 || worker.has_more();
        if (count == 0 && is_due) || (is_busy && worker.turns().is_multiple_of(TURNS_BETWEEN_LOOKS)) {
            count = count.min(room);
            if count < room {
                count += take_kernels(set, events, count, room)?;
            }
        }
        if count > 0 {
            return Ok(count as i64);
        }
        let left = until.since(Clock.now());
        if left.is_zero() && !(first && worker.has_more()) {
            return Ok(0);
        }
        first = false;
        let also = [pollfd { fd: set, events: libc::POLLIN, revents: 0 }];
        is_due = worker.wait(&also, left, mask)?;
    }
}

/// What of ours is ready.
fn take_ours(worker: &mut SeatedWorker, set: c_int, events: *mut epoll_event, room: usize) -> Result<usize> {
    if mark(set) != Mark::Set {
        return Ok(0);
    }
    let mut count = 0;
    worker.calls().take_ready(set, room, |found, data| {
        // SAFETY: there is room for so many events, and `take_ready` tells no more.
        unsafe { events.add(count).write_unaligned(epoll_event { events: found, u64: data }) };
        count += 1;
    })
}

/// What of the kernel's is ready, behind `count` of ours.
fn take_kernels(set: c_int, events: *mut epoll_event, count: usize, room: usize) -> Result<usize> {
    // SAFETY: `count` is less than the room that the caller gives.
    let behind = unsafe { events.add(count) };
    let found = call!(SYS_epoll_pwait, set, behind, (room - count) as c_int, 0, ptr::null::<sigset_t>(), 8usize);
    if found >= 0 {
        return Ok(found as usize);
    }
    match kernel::errno() {
        libc::EINTR if count > 0 => Ok(0),
        errno => Err(Errno(errno)),
    }
}

/// `poll`.
///
/// # Safety
/// As for poll(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the arguments are those of poll(2).
    unsafe { poll_all(fds, count, millis(timeout), ptr::null()) }
}

/// `ppoll`.
///
/// # Safety
/// As for ppoll(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    match given(timeout) {
        // SAFETY: the arguments are those of ppoll(2).
        Ok(timeout) => unsafe { poll_all(fds, count, timeout, mask) },
        Err(error) => int(result(Err(error))),
    }
}

/// `__poll_chk`, as programs that were built with checks of buffers call it.
///
/// # Safety
/// As for poll(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, _room: usize) -> c_int {
    // SAFETY: the arguments are those of `poll`.
    unsafe { poll(fds, count, timeout) }
}

/// So many entries of poll(2) are never too many: nobody's limit of descriptors is as low.
const FEW: nfds_t = 64;

/// Polls descriptors of the kernel's and of ours.
///
/// # Safety
/// `count` entries can be read and written at `fds`; the mask is null or one.
pub unsafe fn poll_all(fds: *mut pollfd, count: nfds_t, timeout: Duration, mask: *const sigset_t) -> c_int {
    // Nobody has as many descriptors (Linux: `do_sys_poll` in fs/select.c). Few are no more than any limit.
    if count > MOST as nfds_t || (count > FEW && count > kernel::descriptors_limit()) {
        return int(result(Err(Errno(libc::EINVAL))));
    }
    if let Err(error) = check(Access::Write, fds.cast(), count as usize * size_of::<pollfd>()) {
        return int(result(Err(error)));
    }
    let entries: &mut [pollfd] = match count {
        0 => &mut [],
        // SAFETY: so much was found there, and the caller says that nobody else has it.
        count => unsafe { core::slice::from_raw_parts_mut(fds, count as usize) },
    };
    let mut ours = false;
    for entry in entries.iter() {
        match adopt_listening(entry.fd) {
            Ok(found) => ours |= found,
            Err(error) => return int(result(Err(error))),
        }
    }
    if !ours && !is_here() {
        let time = timespec_of(timeout);
        let time = if timeout == Duration::MAX { ptr::null() } else { &raw const time };
        return int(call!(SYS_ppoll, fds, count, time, mask, 8usize));
    }
    int(result(with(|worker| poll_here(worker, entries, timeout, mask))))
}

/// Whether a descriptor is ours: a listener that somebody looks at becomes it.
fn adopt_listening(fd: c_int) -> Result<bool> {
    match mark(fd) {
        Mark::Connection | Mark::Listener => Ok(true),
        Mark::Listening => adopt(fd),
        Mark::Foreign | Mark::Set | Mark::Own => Ok(false),
    }
}

fn timespec_of(time: Duration) -> timespec {
    timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

/// What of ours is ready, how many descriptors, sets that watch ours among them.
fn poll_ours(worker: &mut SeatedWorker, entries: &mut [pollfd]) -> i64 {
    let mut calls = worker.calls();
    calls.begin_poll();
    let mut ready = 0;
    for entry in entries {
        if !matches!(mark(entry.fd), Mark::Connection | Mark::Listener | Mark::Set) {
            continue;
        }
        let asked = u32::from(entry.events.cast_unsigned());
        let found = calls.events(entry.fd, asked).unwrap_or(libc::POLLNVAL as u32);
        entry.revents = found as i16;
        if found != 0 {
            calls.note_polled(entry.fd);
            ready += 1;
        }
    }
    ready
}

/// Polls in the worker's thread.
fn poll_here(
    worker: &mut SeatedWorker,
    entries: &mut [pollfd],
    timeout: Duration,
    mask: *const sigset_t,
) -> Result<i64> {
    let until = if timeout == Duration::MAX { Time::MAX } else { Clock.now() + timeout };
    let is_ours = |fd: c_int| matches!(mark(fd), Mark::Connection | Mark::Listener);
    let kernels: Vec<usize> = (0..entries.len()).filter(|at| !is_ours(entries[*at].fd)).collect();
    let mut also: Vec<pollfd> = kernels.iter().map(|at| entries[*at]).collect();
    // The kernel's may be ready.
    let mut is_due = true;
    loop {
        worker.turn();
        let mut ready = poll_ours(worker, entries);
        also.iter_mut().for_each(|entry| entry.revents = 0);
        if is_due {
            let (now, none) = (timespec_of(Duration::ZERO), ptr::null::<sigset_t>());
            let found = call!(SYS_ppoll, also.as_mut_ptr(), also.len(), &raw const now, none, 8usize);
            if found < 0 && ready == 0 {
                return Err(Errno(kernel::errno()));
            }
        }
        for (at, entry) in kernels.iter().zip(&also) {
            // Of a set that watches ours as well both may tell.
            let of_ours = if mark(entry.fd) == Mark::Set { entries[*at].revents } else { 0 };
            entries[*at].revents = entry.revents | of_ours;
            ready += i64::from(entry.revents != 0 && of_ours == 0);
        }
        let left = until.since(Clock.now());
        if ready > 0 || left.is_zero() {
            return Ok(ready);
        }
        is_due = worker.wait(&also, left, mask)?;
    }
}
