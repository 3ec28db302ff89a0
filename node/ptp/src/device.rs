//! The clocks themselves.

use crate::course::ClockReading;
use cpu::Ticks;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Times that a clock is read for one reading; the one with the narrowest
/// bound counts.
const SAMPLES: usize = 10;

/// The most samples of one call (PTP_MAX_SAMPLES).
const MAX_SAMPLES: usize = 25;

/// A clock that stamps frames.
pub enum ClockSource {
    /// The kernel's clock of the time of day.
    TimeOfDay,
    /// A NIC's, by its device.
    Ptp(OwnedFd),
    /// One that somebody else reads, in nanoseconds.
    Other(Box<dyn Fn() -> io::Result<u64> + Send + Sync>),
}

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PtpTime {
    sec: i64,
    nsec: u32,
    reserved: u32,
}

impl PtpTime {
    fn nanos(self) -> u64 {
        u64::try_from(self.sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(self.nsec.into())
    }
}

/// `struct ptp_sys_offset_extended`: of each sample the kernel's clock before,
/// the NIC's, and the kernel's after.
#[repr(C)]
struct Offsets {
    samples: u32,
    reserved: [u32; 3],
    times: [[PtpTime; 3]; MAX_SAMPLES],
}

/// `_IOWR('=', 9, struct ptp_sys_offset_extended)`.
const PTP_SYS_OFFSET_EXTENDED: libc::Ioctl =
    (3 << 30 | (size_of::<Offsets>() as u64) << 16 | (b'=' as u64) << 8 | 9) as libc::Ioctl;

impl ClockSource {
    /// The clock of this number.
    ///
    /// # Errors
    /// If there is no such device, or we may not open it.
    pub fn ptp(number: u32) -> io::Result<Self> {
        let path = format!("/dev/ptp{number}");
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self::Ptp(fd))
    }

    /// Reads it beside the counter.
    ///
    /// # Errors
    /// If the clock cannot be read, or the kernel's stepped meanwhile.
    pub fn read(&self, ticks: Ticks) -> io::Result<ClockReading> {
        match self {
            Self::TimeOfDay => best(ticks, || Ok(nanos(clock_gettime(ClockId::Realtime)))),
            Self::Other(read) => best(ticks, read),
            Self::Ptp(fd) => match offsets(fd, SAMPLES) {
                Ok(offsets) => against(ticks, &offsets),
                // Its driver has no such reading: the bound is then that of a system call.
                Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
                    let now = || clock_gettime_dynamic(DynamicClockId::Dynamic(fd.as_fd())).map(nanos);
                    best(ticks, || Ok(now()?))
                }
                Err(why) => Err(why.into()),
            },
        }
    }
}

fn nanos(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.cast_unsigned())
}

/// A clock between two readings of the counter: the narrowest.
fn best(ticks: Ticks, clock: impl Fn() -> io::Result<u64>) -> io::Result<ClockReading> {
    let mut best: Option<ClockReading> = None;
    for _ in 0..SAMPLES {
        let before = ticks.now();
        let time = clock()?;
        let after = ticks.now();
        let reading =
            ClockReading { ticks: before + (after - before) / 2, nanos: time, half: (after - before).div_ceil(2) };
        if best.is_none_or(|best| reading.half < best.half) {
            best = Some(reading);
        }
    }
    best.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn offsets(fd: &OwnedFd, samples: usize) -> Result<Offsets, Errno> {
    let mut offsets =
        Offsets { samples: samples as u32, reserved: [0; 3], times: [[PtpTime::default(); 3]; MAX_SAMPLES] };
    // SAFETY: the call reads and writes one structure of this size, which lives on this frame.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), PTP_SYS_OFFSET_EXTENDED, &raw mut offsets) };
    if done < 0 {
        return Err(Errno::from_raw_os_error(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)));
    }
    Ok(offsets)
}

/// The narrowest sample, on the counter: the kernel's clock, which is between
/// the two, is read beside that a moment later.
fn against(ticks: Ticks, offsets: &Offsets) -> io::Result<ClockReading> {
    let samples = offsets.times.iter().take(offsets.samples as usize);
    let narrowest =
        samples.map(|sample| sample.map(PtpTime::nanos)).min_by_key(|[before, _, after]| after.wrapping_sub(*before));
    let Some([before, time, after]) = narrowest.filter(|[before, _, after]| before <= after) else {
        return Err(io::Error::other("the kernel's clock stepped while the NIC's was read"));
    };
    let day = ClockSource::TimeOfDay.read(ticks)?;
    let middle = before + (after - before) / 2;
    let Some(since) = day.nanos.checked_sub(middle) else {
        return Err(io::Error::other("the kernel's clock stepped while the NIC's was read"));
    };
    let to_ticks = |nanos: u64| (u128::from(nanos) * u128::from(ticks.hz()) / 1_000_000_000) as u64;
    let half = day.half + to_ticks((after - before).div_ceil(2));
    Ok(ClockReading { ticks: day.ticks.saturating_sub(to_ticks(since)), nanos: time, half })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn the_structure_is_the_kernels() {
        // linux/ptp_clock.h: PTP_SYS_OFFSET_EXTENDED is 0xc4c03d09 where it has 25 samples.
        assert_eq!(size_of::<Offsets>(), 16 + 25 * 3 * 16);
        assert_eq!(PTP_SYS_OFFSET_EXTENDED as u32, 0xc4c0_3d09);
    }

    #[test]
    fn the_time_of_day_goes_on_with_the_counter() {
        let ticks = Ticks::calibrate(Duration::from_millis(20));
        let first = ClockSource::TimeOfDay.read(ticks).expect("a reading");
        std::thread::sleep(Duration::from_millis(5));
        let second = ClockSource::TimeOfDay.read(ticks).expect("a reading");
        let passed = (second.ticks - first.ticks) as f64 * 1e9 / ticks.hz() as f64;
        let told = (second.nanos - first.nanos) as f64;
        // Bounds of both readings, and what the rates may differ by.
        let bound = (first.half + second.half) as f64 * 1e9 / ticks.hz() as f64 + passed * 0.01;
        assert!((passed - told).abs() <= bound, "{passed} and {told} ns, {bound}");
    }

    #[test]
    fn a_sample_is_put_on_the_counter_by_the_kernels_clock() {
        let ticks = Ticks::calibrate(Duration::from_millis(20));
        let day =
            |at: u64| PtpTime { sec: (at / 1_000_000_000) as i64, nsec: (at % 1_000_000_000) as u32, reserved: 0 };
        let now = ClockSource::TimeOfDay.read(ticks).expect("a reading");
        let mut offsets = Offsets { samples: 2, reserved: [0; 3], times: [[PtpTime::default(); 3]; MAX_SAMPLES] };
        offsets.times[0] = [day(now.nanos - 9_000), day(1_000), day(now.nanos - 1_000)];
        offsets.times[1] = [day(now.nanos - 600), day(77), day(now.nanos - 400)];
        let reading = against(ticks, &offsets).expect("a reading");
        let nanos = |ticks_: u64| ticks_ as f64 * 1e9 / ticks.hz() as f64;
        assert_eq!(reading.nanos, 77);
        let before = nanos(now.ticks) - nanos(reading.ticks);
        assert!((before - 500.0).abs() <= nanos(now.half + reading.half) + 100.0, "{before}");
        offsets.times[1][2] = day(now.nanos - 800);
        // The narrowest is one that runs backwards: neither is believed.
        offsets.samples = 1;
        offsets.times[0] = [day(now.nanos), day(1), day(now.nanos - 1)];
        assert!(against(ticks, &offsets).is_err());
    }
}
