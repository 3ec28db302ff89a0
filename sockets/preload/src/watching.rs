//! Which descriptors are ready: `epoll`, `poll` and `select`, of the kernel's and ours together.

use crate::inherited;
use crate::kernel::{self, call, int, is_plausible, result};
use crate::listeners::adopt;
use crate::marks::{Mark, mark, set_mark};
use crate::watches::note;
use crate::worker::{SeatedWorker, is_here, place, refuse, with};
use core::ffi::c_int;
use core::ptr;
use core::time::Duration;
use cpu::Clock;
use libc::{epoll_event, nfds_t, pollfd, sigset_t, timespec};
use posix::{Errno, Result};
use wire::Time;

/// Turns between two looks at the kernel's descriptors while ours keep us busy.
const TURNS_BETWEEN_LOOKS: u64 = 16;

/// `epoll_ctl`.
///
/// # Safety
/// As for epoll_ctl(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(set: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    let known = event.is_null() || is_plausible(event.cast());
    if let Err(error) = adopt_set(set) {
        return int(result(Err(error)));
    }
    // SAFETY: the caller gives an event where it gives any; it may be unaligned.
    let told = if known && !event.is_null() { Some(unsafe { event.read_unaligned() }) } else { None };
    let ours = match mark(fd) {
        Mark::Connection | Mark::Listener => Ok(true),
        Mark::Listening if op == libc::EPOLL_CTL_ADD => adopt(fd),
        Mark::Foreign if op == libc::EPOLL_CTL_ADD && place().is_some() => adopt(fd),
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
            // The kernel knows whether it is a set: it refuses a descriptor that nobody has by
            // EBADF, and then by EINVAL what is none.
            let mut nobody = epoll_event { events: 0, u64: 0 };
            let found = call!(
                SYS_epoll_ctl,
                set,
                libc::EPOLL_CTL_DEL,
                place().map_or(-1, |place| place.channel),
                &raw mut nobody
            );
            if found < 0 && kernel::errno() != libc::ENOENT {
                return Err(Errno(kernel::errno()));
            }
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
    // SAFETY: the caller gives a time, or none.
    let timeout = unsafe { timeout.as_ref() }.map_or(Duration::MAX, duration);
    int(result(with(|worker| wait(worker, set, (events, most), timeout, mask))))
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
    let room = usize::try_from(most).ok().filter(|most| *most > 0).ok_or(Errno(libc::EINVAL))?;
    if !is_plausible(events.cast()) {
        return Err(Errno(libc::EFAULT));
    }
    let until = if timeout == Duration::MAX { Time::MAX } else { Clock.now() + timeout };
    let mut first = true;
    loop {
        worker.turn();
        let mut count = take_ours(worker, set, events, room)?;
        // The kernel's have their look when nothing of ours is ready, and every so many turns: then
        // half of the room is theirs.
        if count == 0 || worker.turns().is_multiple_of(TURNS_BETWEEN_LOOKS) {
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
        worker.wait(&also, left, mask)?;
    }
}

/// What of ours is ready.
fn take_ours(worker: &mut SeatedWorker, set: c_int, events: *mut epoll_event, room: usize) -> Result<usize> {
    if mark(set) != Mark::Set {
        return Ok(0);
    }
    let mut count = 0;
    worker.calls().take_ready(set, room, |found, data| {
        // SAFETY: the caller gives room for so many events, and `take_ready` tells no more.
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
    // SAFETY: the caller gives a time, or none.
    let timeout = unsafe { timeout.as_ref() }.map_or(Duration::MAX, duration);
    // SAFETY: the arguments are those of ppoll(2).
    unsafe { poll_all(fds, count, timeout, mask) }
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

/// Polls descriptors of the kernel's and of ours.
///
/// # Safety
/// `count` entries can be read and written at `fds`; the mask is null or one.
pub unsafe fn poll_all(fds: *mut pollfd, count: nfds_t, timeout: Duration, mask: *const sigset_t) -> c_int {
    // SAFETY: as the caller says.
    let entries: &mut [pollfd] = if count == 0 || !is_plausible(fds.cast()) {
        &mut []
    } else {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(fds, count as usize) }
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
    loop {
        worker.turn();
        let mut ready = 0;
        for entry in entries.iter_mut().filter(|entry| is_ours(entry.fd)) {
            let asked = u32::from(entry.events.cast_unsigned());
            let found = worker.calls().events(entry.fd, asked).unwrap_or(libc::POLLNVAL as u32);
            entry.revents = found as i16;
            ready += i64::from(found != 0);
        }
        let mut also: Vec<pollfd> = kernels.iter().map(|at| pollfd { revents: 0, ..entries[*at] }).collect();
        let now = timespec_of(Duration::ZERO);
        let found = call!(SYS_ppoll, also.as_mut_ptr(), also.len(), &raw const now, ptr::null::<sigset_t>(), 8usize);
        if found < 0 && ready == 0 {
            return Err(Errno(kernel::errno()));
        }
        for (at, entry) in kernels.iter().zip(&also) {
            entries[*at].revents = entry.revents;
            ready += i64::from(entry.revents != 0);
        }
        let left = until.since(Clock.now());
        if ready > 0 || left.is_zero() {
            return Ok(ready);
        }
        also.iter_mut().for_each(|entry| entry.revents = 0);
        worker.wait(&also, left, mask)?;
    }
}
