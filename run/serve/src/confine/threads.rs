//! Every thread of the process gives its rights up: rights are each thread's own
//! in the kernel, and only the thread itself can give them up. So each is sent a
//! signal, and does it in the handler, by system calls alone, as glibc does for
//! setuid(2) (nptl(7)).

use super::calls::{FATAL, ThreadKind};
use super::filter::{self, Filter};
use super::landlock::{self, Ruleset};
use super::user::Identity;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use core::time::Duration;
use cpu::Clock;
use std::fs;

/// Threads of a process, at most: the rest would be an error.
const THREADS_MAX: usize = 4_096;

/// How long all may take: each is awake, or woken by the signal.
const LIMIT: Duration = Duration::from_secs(10);

/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(1);

/// `_LINUX_CAPABILITY_VERSION_3` of capget(2).
const CAPABILITIES_VERSION: u32 = 0x2008_0522;

/// What each thread does; made before the first does it, and never dropped.
#[derive(Debug)]
pub struct Sealing {
    /// Whom it becomes.
    pub identity: Option<Identity>,
    /// The files that it reaches from then on.
    pub ruleset: Option<Ruleset>,
    /// The filter of each kind of thread.
    pub filters: Vec<(ThreadKind, Filter)>,
    /// Whether `near-w` threads are silos.
    pub silos: bool,
}

impl Sealing {
    /// Filters for all kinds, of a process that `connects` to upstreams or none; `None` where the machine is not known.
    pub fn filters(connects: bool) -> Option<Vec<(ThreadKind, Filter)>> {
        ThreadKind::ALL
            .into_iter()
            .map(|kind| Some((kind, Filter::compile(&kind.calls(connects), FATAL, std::process::id())?)))
            .collect()
    }
}

/// What [`on_signal`] goes by.
static SEALING: AtomicPtr<Sealing> = AtomicPtr::new(core::ptr::null_mut());
/// Those that have done it, by number.
static SEALED: [AtomicI32; THREADS_MAX] = [const { AtomicI32::new(0) }; THREADS_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// What failed first: the step's place among [`STEPS`] from 1, and the system's
/// number.
static FAILED: AtomicI32 = AtomicI32::new(0);

/// What is done, in this order.
const STEPS: [&str; 9] = [
    "no_new_privs",
    "bounding set",
    "ambient set",
    "supplementary groups",
    "group",
    "user",
    "capabilities",
    "core dumps",
    "Landlock",
];
const FILTERED: &str = "filter of system calls";

/// Has every thread of the process do it, this one last.
///
/// # Errors
/// A sentence for the user. Threads may have done it or not: the process must
/// not go on.
pub fn seal_all(sealing: Sealing) -> Result<(), String> {
    let sealing: *mut Sealing = Box::into_raw(Box::new(sealing));
    SEALING.store(sealing, Ordering::Release);
    let signal = libc::SIGRTMIN() + 5;
    handle(signal, on_signal as *const () as usize)?;
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let process = std::process::id().cast_signed();
    let until = Clock.now() + LIMIT;
    let mut told: Vec<i32> = Vec::new();
    loop {
        let threads = threads(process, own)?;
        let threads: Vec<i32> = threads.into_iter().filter(|thread| *thread != own && !is_sealed(*thread)).collect();
        if threads.is_empty() {
            break;
        }
        for thread in threads.iter().filter(|thread| !told.contains(thread)) {
            // SAFETY: takes numbers only; a thread that has ended is none.
            unsafe { libc::syscall(libc::SYS_tgkill, process, *thread, signal) };
        }
        told.clone_from(&threads);
        if Clock.now() >= until {
            return Err(format!("a thread did not give its rights up within {LIMIT:?}"));
        }
        std::thread::sleep(LOOK);
    }
    // SAFETY: stored above, and never dropped.
    note(seal_self(unsafe { &*sealing }));
    // Whoever sends it from now on does nothing by it.
    handle(signal, libc::SIG_IGN)?;
    match FAILED.load(Ordering::Acquire) {
        0 => Ok(()),
        failed => {
            let step = usize::try_from(failed >> 16).unwrap_or(0).wrapping_sub(1);
            let what = STEPS.get(step).copied().unwrap_or(FILTERED);
            let why = std::io::Error::from_raw_os_error(failed & 0xffff);
            Err(format!("cannot give rights up ({what}): {why}"))
        }
    }
}

/// The threads of this process that run its code, `own` among them.
fn threads(process: i32, own: i32) -> Result<Vec<i32>, String> {
    match listed() {
        Ok(listed) if listed.contains(&own) => Ok(listed),
        // Not mounted, or by another PID namespace, whose numbers are others.
        _ => {
            let found = asked_for(process, THREAD_NUMBERS);
            let lacking = "cannot list threads: /proc is not mounted, and they cannot be asked for";
            if found.contains(&own) { Ok(found) } else { Err(lacking.to_owned()) }
        }
    }
}

/// As /proc tells: the kernel's own threads that do io_uring's work are no such.
fn listed() -> std::io::Result<Vec<i32>> {
    let entries = fs::read_dir("/proc/self/task")?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of_ours = |thread: &i32| {
        let name = fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
        !name.starts_with("iou-")
    };
    Ok(numbers.filter(of_ours).collect())
}

/// All numbers of threads that there can be (`PID_MAX_LIMIT` of the kernel).
const THREAD_NUMBERS: core::ops::RangeInclusive<i32> = 1..=1 << 22;

/// Asks each number whether it is a thread of this process, by no signal: about a second
/// for all, once or twice in the life of a process.
fn asked_for(process: i32, numbers: core::ops::RangeInclusive<i32>) -> Vec<i32> {
    // SAFETY: takes numbers only, and does nothing but look.
    let is_ours = |number: &i32| unsafe { libc::syscall(libc::SYS_tgkill, process, *number, 0) } == 0;
    numbers.filter(is_ours).collect()
}

fn is_sealed(thread: i32) -> bool {
    let count = COUNT.load(Ordering::Acquire).min(THREADS_MAX);
    SEALED[..count].iter().any(|sealed| sealed.load(Ordering::Acquire) == thread)
}

fn handle(signal: c_int, handler: usize) -> Result<(), String> {
    // SAFETY: zero is a value of every part; the handler is of the kind that
    // these flags say, or none.
    let done = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, core::ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(format!("cannot handle a signal: {}", std::io::Error::last_os_error())) }
}

/// Only system calls, atomics and memory that is there.
extern "C" fn on_signal(_: c_int) {
    // SAFETY: the place is this thread's own, and what is there is put back:
    // the interrupted code may be about to look at it.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: either null, or stored before the signal was sent, and never dropped.
    if let Some(sealing) = unsafe { SEALING.load(Ordering::Acquire).as_ref() } {
        note(seal_self(sealing));
        let place = COUNT.fetch_add(1, Ordering::AcqRel);
        if let Some(sealed) = SEALED.get(place) {
            // SAFETY: takes nothing.
            sealed.store(unsafe { libc::syscall(libc::SYS_gettid) } as i32, Ordering::Release);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Keeps the first failure.
fn note(outcome: Result<(), (usize, i32)>) {
    if let Err((step, errno)) = outcome {
        let failed = (step as i32 + 1) << 16 | (errno & 0xffff);
        let _ = FAILED.compare_exchange(0, failed, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Does it for the calling thread. Async-signal-safe.
fn seal_self(sealing: &Sealing) -> Result<(), (usize, i32)> {
    let step = |step: usize| move |errno: i32| (step, errno);
    // SAFETY: takes numbers only.
    let control =
        |operation: c_int, value: u64| unsafe { libc::syscall(libc::SYS_prctl, operation, value, 0_u64, 0_u64, 0_u64) };
    super::checked(control(libc::PR_SET_NO_NEW_PRIVS, 1)).map_err(step(0))?;
    drop_bounding(&control).map_err(step(1))?;
    // Absent before Linux 4.3: then there is nothing in it.
    super::checked(control(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64))
        .or_else(|errno| if errno == libc::EINVAL { Ok(()) } else { Err(errno) })
        .map_err(step(2))?;
    if let Some(identity) = &sealing.identity {
        become_user(identity).map_err(|(at, errno)| (3 + at, errno))?;
    }
    clear_capabilities().map_err(step(6))?;
    // After the user: the kernel sets it anew with each (fs.suid_dumpable).
    super::checked(control(libc::PR_SET_DUMPABLE, 0)).map_err(step(7))?;
    if let Some(ruleset) = &sealing.ruleset {
        landlock::restrict(ruleset.number()).map_err(step(8))?;
    }
    let kind = ThreadKind::of(name(&mut [0; 16]), sealing.silos);
    for (_, filter) in sealing.filters.iter().filter(|(of, _)| *of == kind) {
        // SAFETY: the filter is never dropped.
        unsafe { filter::take(&filter.program()) }.map_err(step(STEPS.len()))?;
    }
    Ok(())
}

/// Nothing can be had again by a program that is started: until the kernel
/// knows no further one, or this thread may not.
fn drop_bounding(control: &impl Fn(c_int, u64) -> libc::c_long) -> Result<(), i32> {
    for capability in 0..64 {
        match super::checked(control(libc::PR_CAPBSET_DROP, capability)) {
            Ok(()) => {}
            Err(libc::EINVAL) => break,
            // Without CAP_SETPCAP: no_new_privs sees to it.
            Err(libc::EPERM) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The calls themselves, for this thread alone: libc's would have all threads do
/// it by signals of its own.
fn become_user(identity: &Identity) -> Result<(), (usize, i32)> {
    let Identity { uid, gid, groups, .. } = identity;
    // SAFETY: the groups are valid for their number, and read only.
    let grouped = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    super::checked(grouped).map_err(|errno| (0, errno))?;
    // SAFETY: takes numbers only.
    super::checked(unsafe { libc::syscall(libc::SYS_setresgid, *gid, *gid, *gid) }).map_err(|errno| (1, errno))?;
    // SAFETY: takes numbers only.
    super::checked(unsafe { libc::syscall(libc::SYS_setresuid, *uid, *uid, *uid) }).map_err(|errno| (2, errno))
}

fn clear_capabilities() -> Result<(), i32> {
    // `struct __user_cap_header_struct` and two of `__user_cap_data_struct`.
    let header = [CAPABILITIES_VERSION, 0];
    let none = [0_u32; 6];
    // SAFETY: both are valid for their sizes, and read only.
    super::checked(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) })
}

/// The calling thread's name.
fn name(buffer: &mut [u8; 16]) -> &[u8] {
    // SAFETY: at most 16 bytes are written, with a NUL among them.
    let told = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_NAME, buffer.as_mut_ptr(), 0_u64, 0_u64, 0_u64) };
    let len = buffer.iter().position(|byte| *byte == 0).filter(|_| told == 0).unwrap_or(0);
    &buffer[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_without_proc() {
        let own = || rustix::thread::gettid().as_raw_nonzero().get();
        let process = std::process::id().cast_signed();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(own()).unwrap();
            let _ = ended.recv();
        });
        let theirs = told.recv().unwrap();
        let (low, high) = (theirs.min(own()), theirs.max(own()));
        let found = asked_for(process, low..=high);
        assert!(found.contains(&own()) && found.contains(&theirs), "{found:?}");
        assert!(listed().unwrap().contains(&theirs));
        drop(end);
        other.join().unwrap();
    }
}
