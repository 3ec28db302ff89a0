//! Counts, without a record of each event.

use crate::{Why, explain};
use core::fmt;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Dynamic, Event, Hardware, Software, Tracepoint};
use perf_event::{Builder, Counter};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Something that can be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// A tracepoint, by its number.
    Tracepoint(u64),
    /// An event of a PMU, by their names in sysfs, as in `msr` and `smi`.
    Pmu(&'a str, &'a str),
    /// Cycles of the processor.
    Cycles,
    /// Instructions.
    Instructions,
    /// Reads that missed the last cache.
    CacheMisses,
    /// Branches that were foreseen wrongly.
    BranchMisses,
    /// Reads that missed the data TLB.
    TlbMisses,
    /// Page faults.
    PageFaults,
    /// A place in a file that is run, by its offset.
    Uprobe(&'a Path, u64),
}

/// Whose events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Everybody's on one core.
    Core(u16),
    /// One thread's, wherever it runs, and those that it starts from then on.
    Thread(u32),
    /// One thread's, without those that it starts.
    Alone(u32),
}

/// A running count.
pub struct Count {
    counter: Counter,
    name: &'static str,
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Count {
    /// Begins to count.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn start(what: What<'_>, whose: Whose) -> Result<Self, Why> {
        let misses = |which| Cache { which, operation: CacheOp::READ, result: CacheResult::MISS };
        let (name, built) = match what {
            What::Tracepoint(id) => ("tracepoint", count(Tracepoint::with_id(id), whose)),
            What::Pmu(pmu, event) => ("PMU", named(pmu, event).and_then(|event| count(event, whose))),
            What::Cycles => ("cycles", count(Hardware::CPU_CYCLES, whose)),
            What::Instructions => ("instructions", count(Hardware::INSTRUCTIONS, whose)),
            What::CacheMisses => ("cache misses", count(misses(CacheId::LL), whose)),
            What::BranchMisses => ("branch misses", count(Hardware::BRANCH_MISSES, whose)),
            What::TlbMisses => ("TLB misses", count(misses(CacheId::DTLB), whose)),
            What::PageFaults => ("page faults", count(Software::PAGE_FAULTS, whose)),
            What::Uprobe(file, offset) => ("uprobe", uprobe(file, offset, whose)),
        };
        let mut counter = built.map_err(|why| explain(&why))?;
        counter.enable().map_err(|why| explain(&why))?;
        Ok(Self { counter, name })
    }

    /// How often so far, as far as it was counted: where counters take turns, a
    /// part of the time stands for all.
    ///
    /// # Errors
    /// Why it cannot be told any more.
    pub fn read(&mut self) -> Result<u64, Why> {
        let read = self.counter.read_count_and_time().map_err(|why| explain(&why))?;
        if read.time_running == 0 || read.time_running >= read.time_enabled {
            return Ok(read.count);
        }
        let share = read.time_enabled as f64 / read.time_running as f64;
        Ok((read.count as f64 * share) as u64)
    }
}

fn count(event: impl Event, whose: Whose) -> io::Result<Counter> {
    built(Builder::new(event), whose)
}

fn built(mut builder: Builder<'_>, whose: Whose) -> io::Result<Counter> {
    // PMUs beside the cores refuse to leave anything out.
    builder.include_kernel().include_hv();
    match whose {
        Whose::Core(core) => builder.any_pid().one_cpu(usize::from(core)),
        Whose::Thread(thread) => builder.observe_pid(thread.cast_signed()).any_cpu().inherit(true),
        Whose::Alone(thread) => builder.observe_pid(thread.cast_signed()).any_cpu(),
    };
    builder.build()
}

fn named(pmu: &str, event: &str) -> io::Result<Dynamic> {
    // As the kernel says it of a processor without one.
    let none = |_| io::Error::from_raw_os_error(libc::ENODEV);
    let mut builder = Dynamic::builder(pmu).map_err(none)?;
    builder.event(event).map_err(none)?;
    builder.build().map_err(io::Error::other)
}

fn uprobe(file: &Path, offset: u64, whose: Whose) -> io::Result<Counter> {
    let (builder, path) = uprobe_event(file, offset)?;
    let counter = built(builder, whose);
    // The kernel reads the path while the counter is made.
    drop(path);
    counter
}

/// An event of the PMU "uprobe", Linux 4.17, and the path that must live until it is made.
pub(crate) fn uprobe_event(file: &Path, offset: u64) -> io::Result<(Builder<'static>, CString)> {
    let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let kind = kind.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
    let path = CString::new(file.as_os_str().as_bytes())?;
    // perf-event2 has a type for it, but has left out what makes it an event.
    let mut builder = Builder::new(Software::DUMMY);
    let attributes = builder.attrs_mut();
    attributes.type_ = kind;
    attributes.config = 0;
    attributes.uprobe_path = path.as_ptr() as u64;
    attributes.probe_offset = offset;
    Ok((builder, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_faults_of_this_thread_are_counted_or_refused_with_a_reason() {
        match Count::start(What::PageFaults, Whose::Thread(crate::thread::own())) {
            Ok(mut count) => {
                let memory = vec![1_u8; 8 << 20];
                assert_eq!(memory.iter().map(|byte| usize::from(*byte)).sum::<usize>(), 8 << 20);
                assert!(count.read().expect("it is this thread's") > 0);
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }

    #[test]
    fn what_there_is_not_is_said_to_be_none() {
        let why = Count::start(What::Pmu("no_such_pmu", "x"), Whose::Core(0)).expect_err("there is none");
        assert!(why.contains("none"), "{why}");
    }
}
