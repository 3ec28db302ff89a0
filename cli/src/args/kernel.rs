//! Values of options of kernel sockets.

use host::values::{BadValue, Size, duration};
use sockets::KeepAlive;
use std::str::FromStr;
use std::time::Duration;

/// Whether silent connections are probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probes {
    /// No.
    Off,
    /// So.
    On(KeepAlive),
}

/// Linux's own (tcp(7)).
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(7_200), interval: Duration::from_secs(75), probes: 9 };

impl FromStr for Probes {
    type Err = BadValue;

    /// Reads `off`, `on`, or `IDLE:INTERVAL:PROBES`, of which each may be
    /// left out, as nginx does.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || BadValue::new("write off, on, or IDLE:INTERVAL:PROBES as in 30m:10s:9, times of at least 1s");
        match text {
            "off" => return Ok(Self::Off),
            "on" => return Ok(Self::On(KEEP_ALIVE)),
            _ => {}
        }
        let parts: Vec<&str> = text.split(':').collect();
        let [idle, interval, probes] = parts[..] else { return Err(bad()) };
        // The kernel's limits: MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL and
        // MAX_TCP_KEEPCNT of include/net/tcp.h.
        let time = |text: &str, usual: Duration| {
            let time = if text.is_empty() { Ok(usual) } else { duration(text) };
            time.ok().filter(|time| (1..=32_767).contains(&time.as_secs())).ok_or_else(bad)
        };
        let probes = if probes.is_empty() { Some(KEEP_ALIVE.probes) } else { probes.parse().ok() };
        Ok(Self::On(KeepAlive {
            idle: time(idle, KEEP_ALIVE.idle)?,
            interval: time(interval, KEEP_ALIVE.interval)?,
            probes: probes.filter(|count| (1..=127).contains(count)).ok_or_else(bad)?,
        }))
    }
}

/// A buffer's size in bytes, as the kernel counts it.
///
/// # Errors
/// If it is no size, or none that the kernel can be told.
pub fn buffer(text: &str) -> Result<u32, BadValue> {
    let Size(bytes) = text.parse()?;
    let fits = u32::try_from(bytes).ok().filter(|bytes| (1..=i32::MAX as u32).contains(bytes));
    fits.ok_or_else(|| BadValue::new("write a size from 1 to 2147483647, as in 64K"))
}

/// Permission bits, as chmod(1) takes them.
///
/// # Errors
/// If they are not three octal digits, or four.
pub fn file_mode(text: &str) -> Result<u32, BadValue> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| text.len() <= 4 && *mode <= 0o777);
    mode.ok_or_else(|| BadValue::new("write permissions in octal, as in 660"))
}
