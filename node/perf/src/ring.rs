//! Events with their time, from a core's ring.

use crate::{Format, Why, explain};
use core::fmt;
use perf_event::events::{Software, Tracepoint};
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use std::io;
use std::os::fd::AsRawFd;

/// A core's events, those of all tracepoints in the order in which they
/// happened; or one thread's, where a core's are not permitted.
pub struct Ring {
    sampler: Sampler,
    /// Their records go to the sampler's ring.
    others: Vec<Counter>,
    buffer: Vec<u8>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring of {} events", self.others.len())
    }
}

/// What a ring held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// A tracepoint came by, or a page fault where there are no tracepoints.
    Sample(TraceEvent<'a>),
    /// The thread got its core, or lost it; only of one thread's ring.
    Switch {
        /// When, by [`crate::clock::raw`].
        at: u64,
        /// Whether it lost it.
        out: bool,
    },
    /// Events were lost, since the ring was full.
    Lost {
        /// When that was told, by [`crate::clock::raw`]; 0 if it is not known.
        at: u64,
        /// How many.
        count: u64,
    },
}

/// A tracepoint's event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEvent<'a> {
    /// When, by [`crate::clock::raw`].
    pub at: u64,
    /// The thread that it happened in.
    pub thread: u32,
    /// The record; empty for what is no tracepoint.
    pub record: &'a [u8],
}

impl TraceEvent<'_> {
    /// The tracepoint's number: each record begins with it.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        let bytes = self.record.get(..2)?;
        Some(u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)))
    }
}

impl Ring {
    /// A core's events of these tracepoints; those that the kernel refuses are
    /// given back with the reason. `bytes` is rounded up to a power of two.
    ///
    /// # Errors
    /// Why there can be no ring.
    pub fn of_core(core: u16, formats: &[&Format], bytes: usize) -> Result<(Self, Vec<(u64, Why)>), Why> {
        let mut first = Builder::new(Software::DUMMY);
        first.any_pid().one_cpu(usize::from(core)).include_kernel();
        let mut ring = Self::with(first, bytes)?;
        let mut refused = Vec::new();
        for format in formats {
            if let Err(why) = ring.add(core, format) {
                refused.push((format.id, explain(&why)));
            }
        }
        Ok((ring, refused))
    }

    /// This thread's page faults, and when it was on a core: what everybody may
    /// ask for.
    ///
    /// # Errors
    /// Why there can be no ring.
    pub fn of_this_thread(bytes: usize) -> Result<Self, Why> {
        let mut first = Builder::new(Software::PAGE_FAULTS);
        first.observe_self().any_cpu().context_switch(true).sample_period(1);
        Self::with(first, bytes)
    }

    fn with(mut first: Builder<'_>, bytes: usize) -> Result<Self, Why> {
        usual(&mut first, bytes);
        let made = first.build().and_then(|counter| {
            let mut sampler = counter.sampled(bytes)?;
            sampler.as_counter_mut().enable()?;
            Ok(sampler)
        });
        let sampler = made.map_err(|why| match why.raw_os_error() {
            Some(libc::EPERM) => format!("{}, or ulimit -l is too low for a ring", explain(&why)),
            _ => explain(&why),
        })?;
        Ok(Self { sampler, others: Vec::new(), buffer: Vec::new() })
    }

    fn add(&mut self, core: u16, format: &Format) -> io::Result<()> {
        let mut builder = Builder::new(Tracepoint::with_id(format.id));
        builder.any_pid().one_cpu(usize::from(core)).include_kernel().sample_period(1).sample(SampleFlag::RAW);
        usual(&mut builder, 0);
        let mut counter = builder.build()?;
        redirect(&counter, self.sampler.as_counter())?;
        counter.enable()?;
        self.others.push(counter);
        Ok(())
    }

    /// The next record, if there is one.
    pub fn poll(&mut self) -> Option<Record<'_>> {
        let (kind, misc) = loop {
            let record = self.sampler.next_record()?;
            // Others are of kinds that nobody asked for.
            if matches!(record.ty(), LOST | SAMPLE | SWITCH) {
                self.buffer.clear();
                for part in record.data() {
                    self.buffer.extend_from_slice(part);
                }
                break (record.ty(), record.misc());
            }
        };
        Some(parse(kind, misc, &self.buffer))
    }
}

/// Kinds of records, and what says that a thread lost its core:
/// perf_event_open(2).
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const SWITCH: u32 = 14;
const SWITCH_OUT: u16 = 1 << 13;

/// What is cut off was not understood, which counts as one that was lost.
fn parse(kind: u32, misc: u16, data: &[u8]) -> Record<'_> {
    let parsed = match kind {
        LOST => number(data, 8).map(|count| Record::Lost { at: number(data, 24).unwrap_or(0), count }),
        SWITCH => number(data, 8).map(|at| Record::Switch { at, out: misc & SWITCH_OUT != 0 }),
        _ => sample(data).map(Record::Sample),
    };
    parsed.unwrap_or(Record::Lost { at: 0, count: 1 })
}

/// Process, thread, time; of a tracepoint the record's size and the record.
fn sample(data: &[u8]) -> Option<TraceEvent<'_>> {
    let thread = u32::try_from(number(data, 0)? >> 32).ok()?;
    let at = number(data, 8)?;
    let record = match data.get(16..20) {
        None => &[],
        Some(size) => data.get(20..20 + u32::from_ne_bytes(size.try_into().ok()?) as usize)?,
    };
    Some(TraceEvent { at, thread, record })
}

fn number(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..at + 8)?.try_into().ok()?;
    Some(if cfg!(target_endian = "little") {
        u64::from_le_bytes(bytes)
    } else {
        u64::from_be_bytes(bytes).rotate_left(32)
    })
}

/// What all of a ring's events have in common: the clock, and that nobody is
/// woken for them. A wake-up would be an interrupt of our own making on the very
/// core that is looked at.
fn usual(builder: &mut Builder<'_>, bytes: usize) {
    builder
        .sample(SampleFlag::TID)
        .sample(SampleFlag::TIME)
        .sample_id_all(true)
        .clockid(Clock::MONOTONIC_RAW)
        .wakeup_watermark(bytes.max(1 << 30));
}

/// Sends one event's records to another's ring.
fn redirect(from: &Counter, to: &Counter) -> io::Result<()> {
    const SET_OUTPUT: libc::c_ulong = 0x2405;
    // SAFETY: both are descriptors of perf events, which live through the call,
    // and the kernel keeps the ring for as long as either does.
    match unsafe { libc::ioctl(from.as_raw_fd(), SET_OUTPUT as _, to.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tracefs, clock, thread};

    fn bytes(words: &[u64], more: &[u8]) -> Vec<u8> {
        let mut all: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        all.extend_from_slice(more);
        all
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn records_are_read_and_what_is_cut_off_counts_as_lost() {
        let mut raw = 6_u32.to_ne_bytes().to_vec();
        raw.extend_from_slice(&[5, 0, 1, 2, 3, 4]);
        let data = bytes(&[(7 << 32) | 6, 1_000], &raw);
        let Record::Sample(sample) = parse(SAMPLE, 0, &data) else { panic!("a sample") };
        assert_eq!((sample.at, sample.thread, sample.id()), (1_000, 7, Some(5)));
        assert_eq!(parse(SAMPLE, 0, &data[..22]), Record::Lost { at: 0, count: 1 });
        assert_eq!(parse(LOST, 0, &bytes(&[1, 33, 7, 99], &[])), Record::Lost { at: 99, count: 33 });
        assert_eq!(parse(SWITCH, SWITCH_OUT, &bytes(&[1, 99], &[])), Record::Switch { at: 99, out: true });
        assert_eq!(parse(SWITCH, 0, &[1, 2]), Record::Lost { at: 0, count: 1 });
        assert_eq!(sample.record, [5, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn this_threads_sleep_is_a_switch_to_and_fro() {
        let mut ring = match Ring::of_this_thread(1 << 16) {
            Ok(ring) => ring,
            Err(why) => return println!("left out: {why}"),
        };
        let before = clock::raw();
        std::thread::sleep(core::time::Duration::from_millis(2));
        let mut outs = Vec::new();
        while let Some(record) = ring.poll() {
            if let Record::Switch { at, out } = record {
                assert!(at >= before && at <= clock::raw());
                outs.push(out);
            }
        }
        assert!(outs.starts_with(&[true, false]), "{outs:?}");
    }

    #[test]
    fn a_cores_switches_carry_their_fields() {
        let format = Tracefs::open().and_then(|tracefs| tracefs.format("sched/sched_switch"));
        let core = thread::allowed().expect("the kernel tells")[0];
        let ring = format.and_then(|format| Ok((Ring::of_core(core, &[&format], 1 << 20)?.0, format)));
        let (mut ring, format) = match ring {
            Ok(both) => both,
            Err(why) => return println!("left out: {why}"),
        };
        let own = std::thread::spawn(move || {
            thread::pin(&[core]).expect("it is allowed");
            std::thread::sleep(core::time::Duration::from_millis(2));
            thread::own()
        });
        let own = own.join().expect("no panic");
        let next = format.field("next_pid").expect("it has one");
        let mut seen = false;
        while let Some(record) = ring.poll() {
            if let Record::Sample(sample) = record {
                assert_eq!(sample.id(), Some(format.id));
                seen |= next.number(sample.record) == Some(u64::from(own));
            }
        }
        assert!(seen, "the thread got its core");
    }
}
