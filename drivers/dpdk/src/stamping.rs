//! Stamps of frames by a port's own clock: what a port has of them, found out
//! before anybody relies on it.

use crate::facts::StampedFrames;
use crate::ffi::{self, Pool, RawFacts, RawStamping};
use core::ffi::c_int;
use core::ptr::NonNull;
use core::time::Duration;
use std::thread;

/// A counter's frequency is measured over this time.
const COUNTED: Duration = Duration::from_millis(20);

/// Has a started port stamp frames. Which it does, or why none.
pub(crate) fn ask(port: u16, pool: NonNull<Pool>, raw: &RawFacts) -> Result<StampedFrames, String> {
    let mut found = RawStamping::default();
    // SAFETY: the pool was made for this port; the structure is the shim's, and lives during the call.
    unsafe { ffi::near_stamp(port, pool.as_ptr(), &raw mut found) };
    let driver = ffi::text(raw.driver.as_ptr());
    let judged = judge(&driver, &found, raw.stamps_all != 0, |code| ffi::text(ffi::near_reason(code)));
    match judged {
        Err(why) if found.enabled < 0 => Err(why + &counted(port)),
        Err(why) => {
            ffi::near_stamp_no_more(port);
            Err(why)
        }
        Ok(frames) => Ok(frames),
    }
}

fn judge(
    driver: &str,
    found: &RawStamping,
    all: bool,
    reason: impl Fn(c_int) -> String,
) -> Result<StampedFrames, String> {
    let comes = if all { ", though it stamps those that come" } else { "" };
    match found {
        RawStamping { enabled: code @ ..0, .. } => {
            Err(format!("DPDK's {driver} does not stamp frames that leave{comes} (timesync_enable: {})", reason(*code)))
        }
        RawStamping { clock: code @ ..0, .. } => {
            Err(format!("DPDK's {driver} does not tell the time of its clock (timesync_read_time: {})", reason(*code)))
        }
        RawStamping { departures: ..0, .. } => Err(format!(
            "DPDK's {driver} does not tell when a frame left{comes} (it has no timesync_read_tx_timestamp)"
        )),
        RawStamping { taken: code @ ..0, .. } => Err(format!(
            "DPDK's {driver} takes no frame that is to be stamped as it leaves ({}): it is built so unless DPDK is \
             built with RTE_LIBRTE_IEEE1588",
            reason(*code)
        )),
        _ if all => Ok(StampedFrames::All),
        _ => Ok(StampedFrames::OnlyPtp),
    }
}

/// What is known of a counter that a port has in a clock's place.
fn counted(port: u16) -> String {
    let read = || {
        let (mut now, mut beside) = (0, 0);
        // SAFETY: two numbers are written, which live during the call.
        let failed = unsafe { ffi::near_counter(port, &raw mut now, &raw mut beside) };
        (failed == 0).then_some((now, beside))
    };
    let hz = read().and_then(|first| {
        thread::sleep(COUNTED);
        frequency(first, read()?)
    });
    hz.map_or_else(String::new, |hz| format!("; its counter of {:.3} MHz stamps nothing that leaves", hz / 1e6))
}

/// Ticks a second, from two readings of a counter and of nanoseconds beside it, if
/// it went on.
fn frequency((first, at): (u64, u64), (last, then): (u64, u64)) -> Option<f64> {
    let (ticks, nanos) = (last.checked_sub(first)?, then.checked_sub(at)?);
    (ticks > 0 && nanos > 0).then(|| ticks as f64 * 1e9 / nanos as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOTSUP: i32 = -95;

    #[test]
    fn what_a_driver_lacks_is_named() {
        let told = |found: RawStamping, all| judge("net_x", &found, all, |code| format!("code {code}"));
        let has = RawStamping::default();
        assert_eq!((told(has, true), told(has, false)), (Ok(StampedFrames::All), Ok(StampedFrames::OnlyPtp)));
        for (found, words) in [
            (RawStamping { enabled: ENOTSUP, clock: ENOTSUP, ..has }, "timesync_enable: code -95"),
            (RawStamping { clock: ENOTSUP, ..has }, "timesync_read_time"),
            (RawStamping { departures: ENOTSUP, ..has }, "no timesync_read_tx_timestamp"),
            (RawStamping { taken: ENOTSUP, ..has }, "RTE_LIBRTE_IEEE1588"),
        ] {
            let why = told(found, false).expect_err("something lacks");
            assert!(why.contains(words) && why.contains("net_x"), "{why}");
        }
        let why = told(RawStamping { enabled: ENOTSUP, ..has }, true).expect_err("no departures");
        assert!(why.contains("though it stamps those that come"), "{why}");
    }

    #[test]
    fn a_counter_that_stands_or_goes_back_has_no_frequency() {
        let at = |ticks: u64, millis: u64| (ticks, millis * 1_000_000);
        assert_eq!(frequency(at(1_000, 5), at(1_564_000, 15)), Some(156_300_000.0));
        assert_eq!(frequency(at(1_000, 5), at(1_000, 15)), None);
        assert_eq!(frequency(at(1_000, 5), at(999, 15)), None);
        assert_eq!(frequency(at(1_000, 5), at(2_000, 5)), None);
    }
}
