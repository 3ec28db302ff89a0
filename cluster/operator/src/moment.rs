//! Times as objects have them (RFC 3339, to the second, in UTC).

use core::time::Duration;
use wire::Time;

const DAY: u64 = 86_400;

/// A moment, by both clocks: the one that only goes forward, and the one that others have, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// For how long something takes.
    pub now: Time,
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub unix: u64,
}

impl Moment {
    /// When the other clock will say this, if nobody sets it.
    pub(crate) fn at_unix(self, seconds: u64) -> Time {
        self.now + Duration::from_secs(seconds.saturating_sub(self.unix))
    }
}

/// As objects have it.
pub(crate) fn written(unix: u64) -> String {
    let (days, time) = (unix / DAY, unix % DAY);
    // Years that begin in March, so that a leap day is the last of one: of 400 years each has 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year + u64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    let (hours, minutes, seconds) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{of_month:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

/// What an object has, if it is such a time.
pub(crate) fn read(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, mark: char| -> Option<[u64; 3]> {
        let parts: Vec<u64> = text.split(mark).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let ([year, month, day], [hours, minutes, seconds]) = (numbers(date, '-')?, numbers(time, ':')?);
    let fits = (1_970..=9_999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !fits || hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468;
    Some(days * DAY + hours * 3_600 + minutes * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_are_read_leap_days_among_them() {
        for (unix, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!((written(unix).as_str(), read(text)), (text, Some(unix)));
        }
        for day in 0..60_000 {
            assert_eq!(read(&written(day * DAY + 7)), Some(day * DAY + 7));
        }
        for nonsense in ["", "Z", "2026-13-01T00:00:00Z", "2026-01-01", "1969-12-31T23:59:59Z", "x-1-1T1:1:1Z"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
