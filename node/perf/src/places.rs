//! Where cores are, looked at now and then: for whose functions time goes to; and
//! who comes by a place in a file.

use crate::counter::uprobe_event;
use crate::{Why, explain};
use core::fmt;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use std::path::Path;

/// Looks at cores so many times a second, or whenever a place in a file is run.
pub struct Places {
    rings: Vec<Sampler>,
    at: usize,
    graphs: bool,
    lost: u64,
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Places of {} rings", self.rings.len())
    }
}

/// Where a core was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// In which process.
    pub process: u32,
    /// At which address.
    pub address: u64,
    /// Whether that is the kernel's.
    pub kernel: bool,
    /// Who called it, the nearest first, as far as frame pointers lead; nothing where that
    /// was not asked for.
    pub callers: Vec<Caller>,
}

/// A caller: the address that it goes on at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Where.
    pub address: u64,
    /// Whether that is the kernel's.
    pub kernel: bool,
}

/// Bytes of a core's ring: thousands of looks.
const RING: usize = 1 << 16;

/// The same where callers stand in it, and where each run of a place does.
const LARGE_RING: usize = 1 << 19;

impl Places {
    /// Begins to look at these cores; with `graphs` also at who called.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn of_cores(cores: &[u16], hertz: u64, graphs: bool) -> Result<Self, Why> {
        let begin = |core: &u16| {
            let mut builder = Builder::new(Software::CPU_CLOCK);
            builder.any_pid().one_cpu(usize::from(*core)).include_kernel().sample_frequency(hertz);
            usual(&mut builder, graphs);
            begun(&builder, if graphs { LARGE_RING } else { RING })
        };
        let rings: std::io::Result<Vec<Sampler>> = cores.iter().map(begin).collect();
        Ok(Self { rings: rings.map_err(|why| explain(&why))?, at: 0, graphs, lost: 0 })
    }

    /// Begins to look at who runs these places of files, by their offsets, on these cores:
    /// each time, whichever process it is.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn of_files<'a>(cores: &[u16], files: impl IntoIterator<Item = (&'a Path, u64)>) -> Result<Self, Why> {
        let mut rings = Vec::new();
        for (file, offset) in files {
            for core in cores {
                let begin = || {
                    let (mut builder, path) = uprobe_event(file, offset)?;
                    builder.any_pid().one_cpu(usize::from(*core)).include_kernel().include_hv().sample_period(1);
                    usual(&mut builder, false);
                    let ring = begun(&builder, LARGE_RING);
                    // The kernel reads the path while the event is made.
                    drop(path);
                    ring
                };
                rings.push(begin().map_err(|why| explain(&why))?);
            }
        }
        Ok(Self { rings, at: 0, graphs: false, lost: 0 })
    }

    /// The next place, of any core; `None` if there are no more yet.
    pub fn poll(&mut self) -> Option<Place> {
        for _ in 0..self.rings.len() {
            let ring = self.rings.get_mut(self.at)?;
            while let Some(record) = ring.next_record() {
                match record.ty() {
                    SAMPLE => {
                        if let Some(place) = parse(record.misc(), &record.to_contiguous(), self.graphs) {
                            return Some(place);
                        }
                    }
                    LOST => self.lost += word(&record.to_contiguous(), 8).unwrap_or(1),
                    _ => {}
                }
            }
            self.at = (self.at + 1) % self.rings.len();
        }
        None
    }

    /// How many were lost so far, because a ring was full.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

/// Nobody is woken: a wake-up would be work of our own making.
fn usual(builder: &mut Builder<'_>, graphs: bool) {
    builder.sample(SampleFlag::IP).sample(SampleFlag::TID).wakeup_watermark(1 << 30);
    if graphs {
        builder.sample(SampleFlag::CALLCHAIN);
    }
}

fn begun(builder: &Builder<'_>, bytes: usize) -> std::io::Result<Sampler> {
    let mut ring = builder.build()?.sampled(bytes)?;
    ring.as_counter_mut().enable()?;
    Ok(ring)
}

/// perf_event_open(2).
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const MODE: u16 = 7;
const KERNEL: u16 = 1;

/// Above this, an entry of a chain is no address, but says whose those after it are
/// (`PERF_CONTEXT_MAX`).
const CONTEXTS: u64 = (-4_095_i64).cast_unsigned();
const CONTEXT_KERNEL: u64 = (-128_i64).cast_unsigned();

/// Address, process, thread; then how many entries the chain has, and those.
fn parse(misc: u16, data: &[u8], graphs: bool) -> Option<Place> {
    let address = word(data, 0)?;
    let process = u32::from_ne_bytes(data.get(8..12)?.try_into().ok()?);
    data.get(12..16)?;
    let kernel = misc & MODE == KERNEL;
    let callers = if graphs { chain(data, (address, kernel))? } else { Vec::new() };
    Some(Place { process, address, kernel, callers })
}

/// Of a chain all but the place itself, which stands first.
fn chain(data: &[u8], place: (u64, bool)) -> Option<Vec<Caller>> {
    let entries = usize::try_from(word(data, 16)?).ok()?;
    let mut callers = Vec::new();
    let mut kernel = place.1;
    for entry in data.get(24..)?.chunks_exact(8).take(entries) {
        let address = u64::from_ne_bytes(entry.try_into().ok()?);
        match address {
            CONTEXT_KERNEL => kernel = true,
            CONTEXTS.. => kernel = false,
            _ if callers.is_empty() && (address, kernel) == place => {}
            _ => callers.push(Caller { address, kernel }),
        }
    }
    Some(callers)
}

fn word(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(data.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let mut data = 0x1234_u64.to_ne_bytes().to_vec();
        data.extend_from_slice(&7_u32.to_ne_bytes());
        data.extend_from_slice(&9_u32.to_ne_bytes());
        let place = Place { process: 7, address: 0x1234, kernel: true, callers: vec![] };
        assert_eq!(parse(1, &data, false), Some(place));
        assert_eq!(parse(2, &data, false).map(|place| place.kernel), Some(false));
        assert_eq!(parse(2, &data[..11], false), None);
        assert_eq!(parse(2, &data, true), None, "the chain is cut off");
    }

    #[test]
    fn callers_stand_behind_the_place_and_are_the_kernels_or_the_programs() {
        let user = (-512_i64).cast_unsigned();
        let mut data = 0x10_u64.to_ne_bytes().to_vec();
        data.extend_from_slice(&[0; 8]);
        for entry in [6, CONTEXT_KERNEL, 0x10, 0x20, user, 0x30, 0x30] {
            data.extend_from_slice(&entry.to_ne_bytes());
        }
        let caller = |address, kernel| Caller { address, kernel };
        let place = parse(1, &data, true).expect("a place");
        // One that calls itself stands there twice.
        assert_eq!(place.callers, [caller(0x20, true), caller(0x30, false), caller(0x30, false)]);
        // A count beyond the record's end is not believed.
        data[16] = 200;
        assert_eq!(parse(1, &data, true).expect("a place").callers.len(), 3);
    }

    #[test]
    fn a_busy_thread_is_found_where_it_is() {
        let own = std::process::id();
        let mut places = match Places::of_cores(&crate::thread::online(), 1_000, true) {
            Ok(places) => places,
            Err(why) => return println!("left out: {why}"),
        };
        // As long as it takes: a machine may be busy with others.
        loop {
            let until = crate::clock::raw() + 20_000_000;
            while crate::clock::raw() < until {}
            while let Some(place) = places.poll() {
                if place.process == own && !place.kernel {
                    assert!(place.callers.iter().all(|caller| !caller.kernel), "{place:?}");
                    return;
                }
            }
        }
    }
}
