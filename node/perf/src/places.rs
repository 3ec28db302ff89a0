//! Where cores are, looked at now and then: for whose functions time goes to.

use crate::{Why, explain};
use core::fmt;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

/// Looks at cores so many times a second.
pub struct Places {
    rings: Vec<Sampler>,
    at: usize,
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Places of {} cores", self.rings.len())
    }
}

/// Where a core was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// In which process.
    pub process: u32,
    /// At which address.
    pub address: u64,
    /// Whether that is the kernel's.
    pub kernel: bool,
}

/// Bytes of a core's ring: thousands of looks.
const RING: usize = 1 << 16;

impl Places {
    /// Begins to look at these cores.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn of_cores(cores: &[u16], hertz: u64) -> Result<Self, Why> {
        let begin = |core: &u16| {
            let mut builder = Builder::new(Software::CPU_CLOCK);
            builder
                .any_pid()
                .one_cpu(usize::from(*core))
                .include_kernel()
                .sample_frequency(hertz)
                .sample(SampleFlag::IP)
                .sample(SampleFlag::TID)
                .wakeup_watermark(1 << 30);
            let mut ring = builder.build()?.sampled(RING)?;
            ring.as_counter_mut().enable()?;
            Ok(ring)
        };
        let rings: std::io::Result<Vec<Sampler>> = cores.iter().map(begin).collect();
        Ok(Self { rings: rings.map_err(|why| explain(&why))?, at: 0 })
    }

    /// The next place, of any core; `None` if there are no more yet.
    pub fn poll(&mut self) -> Option<Place> {
        for _ in 0..self.rings.len() {
            let ring = self.rings.get_mut(self.at)?;
            while let Some(record) = ring.next_record() {
                if record.ty() == SAMPLE
                    && let Some(place) = parse(record.misc(), &record.to_contiguous())
                {
                    return Some(place);
                }
            }
            self.at = (self.at + 1) % self.rings.len();
        }
        None
    }
}

/// perf_event_open(2).
const SAMPLE: u32 = 9;
const MODE: u16 = 7;
const KERNEL: u16 = 1;

/// Address, process, thread.
fn parse(misc: u16, data: &[u8]) -> Option<Place> {
    let address = u64::from_ne_bytes(data.get(..8)?.try_into().ok()?);
    let process = u32::from_ne_bytes(data.get(8..12)?.try_into().ok()?);
    Some(Place { process, address, kernel: misc & MODE == KERNEL })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let mut data = 0x1234_u64.to_ne_bytes().to_vec();
        data.extend_from_slice(&7_u32.to_ne_bytes());
        assert_eq!(parse(1, &data), Some(Place { process: 7, address: 0x1234, kernel: true }));
        assert_eq!(parse(2, &data).map(|place| place.kernel), Some(false));
        assert_eq!(parse(2, &data[..11]), None);
    }

    #[test]
    fn a_busy_thread_is_found_where_it_is() {
        let own = std::process::id();
        let mut places = match Places::of_cores(&crate::thread::online(), 1_000) {
            Ok(places) => places,
            Err(why) => return println!("left out: {why}"),
        };
        // As long as it takes: a machine may be busy with others.
        loop {
            let until = crate::clock::raw() + 20_000_000;
            while crate::clock::raw() < until {}
            while let Some(place) = places.poll() {
                if place.process == own && !place.kernel {
                    return;
                }
            }
        }
    }
}
