//! What disturbs a core, and says when it did.

use super::DisturbanceKind;
use super::storm::Storm;
use core::time::Duration;
use noise::{Cause, Each};
use perf::clock::raw;
use perf::thread::{own, pin};
use rustix::fs::{Mode, OFlags, open};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A disturbance that was made, by [`raw`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Disturbance {
    pub(super) from: u64,
    pub(super) until: u64,
    /// What it took: of a thread the kernel's own account, which has the time of
    /// waking up and going to sleep.
    pub(super) nanos: u64,
    /// The thread, where one disturbs.
    pub(super) thread: Option<u32>,
    /// Whether it came upon the core, by the kernel's own count where it has one.
    pub(super) came: bool,
}

impl Disturbance {
    /// Whether this is what it is to be called.
    pub(super) fn is_called(&self, kind: DisturbanceKind, cause: &Cause) -> bool {
        match cause {
            Cause::Thread { thread, .. } => kind == DisturbanceKind::Fifo && self.thread == Some(*thread),
            // A disk's interrupt has its softirq after it.
            Cause::Softirq(name) => match kind {
                DisturbanceKind::NetRx => &**name == "NET_RX",
                DisturbanceKind::Disk => &**name == "BLOCK",
                _ => false,
            },
            other => other.kind() == kind.cause(),
        }
    }
}

/// Between two disturbances: not in step with a tick of 1, 4 or 10 ms.
const PERIOD: Duration = Duration::from_micros(10_270);

/// Before the first.
const LEAD: Duration = Duration::from_millis(200);

/// The loop is there at the latest after so long: rights, rings and clocks come
/// first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Set by the loop's first step.
type Began = Arc<AtomicBool>;

/// Waits for the loop.
fn wait(began: &Began) -> Result<(), String> {
    let until = raw() + nanos(PATIENCE);
    while !began.load(Ordering::Relaxed) {
        if raw() > until {
            return Err("the loop did not begin".to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// What the loop touches for the first time at once.
const PAGES: usize = 8;
const PAGE: usize = 4_096;

/// Something that will disturb.
pub(super) struct Injector {
    kind: DisturbanceKind,
    core: u16,
    other: u16,
    times: u32,
}

/// One that does.
pub(super) struct Running {
    thread: thread::JoinHandle<Result<Vec<Disturbance>, String>>,
}

impl Injector {
    pub(super) fn new(kind: DisturbanceKind, core: u16, other: u16, time: Duration) -> Result<Self, String> {
        let times = u32::try_from(time.as_nanos() / PERIOD.as_nanos()).map_err(|_| "that is too long".to_owned())?;
        Ok(Self { kind, core, other, times: times.max(1) })
    }

    /// Begins as soon as the loop has; gives what the loop has to do itself.
    pub(super) fn start(self) -> Result<(Each, Running), String> {
        let Self { kind, core, other, times } = self;
        let began = Began::default();
        let made = Arc::new(Mutex::new(Vec::with_capacity(times as usize)));
        let mut touch = match kind {
            DisturbanceKind::Faults => Some(touch(times, Arc::clone(&made))?),
            _ => None,
        };
        let first = Arc::clone(&began);
        let mut seen = false;
        let each: Each = Box::new(move |ticks| {
            if !seen {
                seen = true;
                first.store(true, Ordering::Relaxed);
            }
            if let Some(touch) = &mut touch {
                touch(ticks);
            }
        });
        let file = if kind == DisturbanceKind::Disk { Some(disk(core, other)?) } else { None };
        let work = move || {
            wait(&began)?;
            disturb(kind, (core, other), times, file, &made)
        };
        let thread = thread::Builder::new().name("inject".to_owned()).spawn(work).map_err(|why| why.to_string())?;
        Ok((each, Running { thread }))
    }
}

/// Makes all of a kind, and says when each was.
fn disturb(
    kind: DisturbanceKind,
    (core, other): (u16, u16),
    times: u32,
    file: Option<File>,
    made: &Mutex<Vec<Disturbance>>,
) -> Result<Vec<Disturbance>, String> {
    let place = if matches!(kind, DisturbanceKind::Fifo | DisturbanceKind::Timer) { core } else { other };
    pin(&[place]).map_err(|why| why.to_string())?;
    match kind {
        DisturbanceKind::Timer => {
            let (timers, due) = arm(times)?;
            thread::sleep(LEAD + PERIOD * times + PERIOD);
            drop(timers);
            Ok(due
                .into_iter()
                .map(|at| Disturbance { from: at, until: at, nanos: 0, thread: None, came: true })
                .collect())
        }
        DisturbanceKind::NetRx => {
            let storm = Storm::new(core)?;
            by_turns(times, None, |_| storm.burst())
        }
        DisturbanceKind::Fifo => {
            cpu::sched::fifo(50).map_err(|why| format!("SCHED_FIFO: {why}"))?;
            by_turns(times, None, |turn| {
                // One stall in the middle.
                let length = if turn == times / 2 { 5_000_000 } else { 200_000 };
                let from = raw();
                while raw() < from + length {}
                Ok(())
            })
        }
        DisturbanceKind::Ipi => {
            membarrier(REGISTER_PRIVATE_EXPEDITED)?;
            // The kernel spares a core that runs another process just then: there
            // the call disturbs nobody.
            let count = || calls(core);
            by_turns(times, Some(&count), |_| membarrier(PRIVATE_EXPEDITED))
        }
        DisturbanceKind::Faults => {
            thread::sleep(LEAD + PERIOD * times + PERIOD);
            made.lock().map(|made| made.clone()).map_err(|_| "the loop panicked".to_owned())
        }
        DisturbanceKind::Disk => {
            let file = file.ok_or("no file to read")?;
            by_turns(times, None, |turn| read(&file, turn))
        }
    }
}

impl Running {
    /// Waits until it has made all that it was to make.
    pub(super) fn finish(self) -> Result<Vec<Disturbance>, String> {
        self.thread.join().map_err(|_| "it panicked".to_owned())?
    }
}

/// Disturbs in each period once, and notes when. What is counted, if anything is,
/// grows with one that comes upon the core.
fn by_turns(
    times: u32,
    count: Option<&dyn Fn() -> u64>,
    mut disturb: impl FnMut(u32) -> Result<(), String>,
) -> Result<Vec<Disturbance>, String> {
    let mut made = Vec::with_capacity(times as usize);
    let thread = Some(own());
    let mut due = now() + LEAD;
    let mut worked = worked_so_far();
    for turn in 0..times {
        due += PERIOD;
        let until = Timespec { tv_sec: due.as_secs().cast_signed(), tv_nsec: due.subsec_nanos().into() };
        // A signal ends it early, which does no harm.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
        let before = count.map(|count| count());
        let from = raw();
        disturb(turn)?;
        let (until, now) = (raw(), worked_so_far());
        let came = before.zip(count).is_none_or(|(before, count)| count() > before);
        made.push(Disturbance { from, until, nanos: now.saturating_sub(worked), thread, came });
        worked = now;
    }
    Ok(made)
}

/// Nanoseconds of this thread.
fn worked_so_far() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Timers that expire on the core that this thread is kept on, and when: they run
/// where they were set.
fn arm(times: u32) -> Result<(Vec<OwnedFd>, Vec<u64>), String> {
    let start = now() + LEAD;
    // Both clocks at once: they drift by far less than a disturbance is long.
    let (monotonic, raw) = (now(), raw());
    let (mut timers, mut due) = (Vec::new(), Vec::new());
    for turn in 1..=times {
        let at = start + PERIOD * turn;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        let Ok(timer) = timer else {
            // As many as there may be open files.
            break;
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: at.as_secs().cast_signed(), tv_nsec: at.subsec_nanos().into() };
        let setting = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &setting).map_err(|why| format!("a timer: {why}"))?;
        timers.push(timer);
        let ahead = u64::try_from((at - monotonic).as_nanos()).unwrap_or(u64::MAX);
        due.push(raw.saturating_add(ahead));
    }
    if timers.is_empty() { Err("no timer can be had".to_owned()) } else { Ok((timers, due)) }
}

/// Memory of the kernel's that nobody has touched, in small pages.
struct Fresh(*mut u8, usize);

// SAFETY: the memory is this one's alone, whatever thread it is in.
unsafe impl Send for Fresh {}

impl Fresh {
    fn new(bytes: usize) -> Result<Self, String> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place of the kernel's choice touches none of
        // ours.
        let memory = unsafe { libc::mmap(core::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(format!("memory: {}", std::io::Error::last_os_error()));
        }
        // SAFETY: it is the mapping just made; where there are no huge pages the
        // call fails, which is as well.
        unsafe { libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Self(memory.cast(), bytes))
    }

    fn touch(&self, at: usize) {
        assert!(at < self.1);
        // SAFETY: it is within the mapping, which lives as long as this.
        unsafe { self.0.add(at).write_volatile(1) };
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: nobody else knows the mapping.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

/// A loop that touches pages that nobody has touched.
fn touch(times: u32, made: Arc<Mutex<Vec<Disturbance>>>) -> Result<Each, String> {
    let memory = Fresh::new(times as usize * PAGES * PAGE)?;
    let mut start = None;
    let mut turn = 0_usize;
    let mut steps = 0_u32;
    Ok(Box::new(move |_| {
        steps = steps.wrapping_add(1);
        if !steps.is_multiple_of(64) || turn >= times as usize {
            return;
        }
        let from = raw();
        if from < *start.get_or_insert(from + nanos(LEAD)) + nanos(PERIOD) * (turn as u64 + 1) {
            return;
        }
        for page in 0..PAGES {
            memory.touch((turn * PAGES + page) * PAGE);
        }
        turn += 1;
        let until = raw();
        if let Ok(mut made) = made.try_lock() {
            made.push(Disturbance { from, until, nanos: until - from, thread: None, came: true });
        }
    }))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// membarrier(2).
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn membarrier(command: libc::c_int) -> Result<(), String> {
    // SAFETY: the call takes three numbers, and touches no memory of ours.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(format!("membarrier: {}", std::io::Error::last_os_error())),
    }
}

/// A file whose disk interrupts this core when it is read from the other.
fn disk(core: u16, other: u16) -> Result<File, String> {
    let path = std::env::current_exe().map_err(|why| why.to_string())?;
    let opened = open(&path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty());
    let file = File::from(opened.map_err(|why| format!("{}: {why}", path.display()))?);
    let before = counted();
    let probing = thread::spawn(move || {
        pin(&[other]).map_err(|why| why.to_string())?;
        (0..64).try_for_each(|turn| read(&file, turn))?;
        Ok::<_, String>(file)
    });
    let file = probing.join().map_err(|_| "it panicked".to_owned())??;
    let grown = counted().into_iter().filter_map(|(key, now)| {
        let then = &before.iter().find(|(other, _)| *other == key)?.1;
        Some(now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect::<Vec<u64>>())
    });
    let most = grown.max_by_key(|row| row.iter().max().copied().unwrap_or(0)).unwrap_or_default();
    match most.get(usize::from(core)) {
        Some(count) if *count >= 32 => Ok(file),
        _ => Err(format!("reads of {} raise no interrupts on core {core}", path.display())),
    }
}

/// Rows of `/proc/interrupts` that are devices'.
fn counted() -> Vec<(String, Vec<u64>)> {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let row = |line: &str| {
        let (key, rest) = line.split_once(':')?;
        key.trim().parse::<u32>().ok()?;
        Some((key.trim().to_owned(), rest.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect()))
    };
    text.lines().filter_map(row).collect()
}

/// Functions that other cores had this one call, so far.
fn calls(core: u16) -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    called(&text, core).unwrap_or(0)
}

/// The same of `/proc/interrupts`; its columns are those of the cores that are on.
fn called(text: &str, core: u16) -> Option<u64> {
    let column = format!("CPU{core}");
    let at = text.lines().next()?.split_ascii_whitespace().position(|word| word == column)?;
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix("CAL:"))?;
    row.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// Reads one block past every cache.
fn read(file: &File, turn: u32) -> Result<(), String> {
    let mut memory = vec![0_u8; 2 * PAGE];
    let offset = memory.as_ptr().align_offset(PAGE);
    let block = memory.get_mut(offset..offset + PAGE).ok_or("no memory at a block's border")?;
    file.read_at(block, u64::from(turn % 64) * PAGE as u64).map_err(|why| format!("read: {why}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_core_are_read_from_its_column() {
        let text = "           CPU0       CPU2\n  24:  7  8  PCI-MSI x\n CAL:         11         12   Function call interrupts\n";
        assert_eq!((called(text, 0), called(text, 2), called(text, 1)), (Some(11), Some(12), None));
        assert_eq!(called("", 0), None);
    }
}
