//! The machine's time zone, in which logs and listings tell times.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use semantics::date::HttpDate;
use std::sync::OnceLock;

/// What time it is there, a second of which begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTime {
    /// The date and time there, as if it was that of GMT.
    pub date: HttpDate,
    /// Seconds that it is ahead of GMT.
    pub offset: i32,
}

/// The zone as `TZ` or else `/etc/localtime` said when it was first asked for; GMT where
/// neither says any. A process asks before it gives its rights up: later it cannot.
pub fn local_zone() -> &'static TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    ZONE.get_or_init(|| TimeZone::try_system().unwrap_or(TimeZone::UTC))
}

/// Seconds that the zone is ahead of GMT in this unix second.
#[must_use]
pub fn local_offset(second: u64) -> i32 {
    offset_in(local_zone(), second)
}

/// What the zone is called in this unix second, as `CEST`.
#[must_use]
pub fn local_name(second: u64) -> String {
    let zone = local_zone();
    at(second).map_or_else(|| "GMT".to_owned(), |time| zone.to_offset_info(time).abbreviation().to_owned())
}

fn at(second: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(second).ok()?).ok()
}

fn offset_in(zone: &TimeZone, second: u64) -> i32 {
    at(second).map_or(Offset::UTC, |time| zone.to_offset(time)).seconds()
}

impl LocalTime {
    /// In this unix second.
    #[must_use]
    pub fn of(second: u64) -> Self {
        Self::with(second, local_offset(second))
    }

    fn with(second: u64, offset: i32) -> Self {
        Self { date: HttpDate::from_unix(second.saturating_add_signed(offset.into())), offset }
    }

    /// `10/Oct/2026:15:55:36 +0200`, from `Sun, 06 Nov 1994 08:49:37 GMT`.
    #[must_use]
    pub fn of_logs(&self) -> [u8; 26] {
        let date = self.date.as_bytes();
        let mut local = *b"06/Nov/1994:08:49:37 +0000";
        local[..2].copy_from_slice(&date[5..7]);
        local[3..6].copy_from_slice(&date[8..11]);
        local[7..11].copy_from_slice(&date[12..16]);
        local[12..20].copy_from_slice(&date[17..25]);
        let (sign, hours, minutes) = self.offset();
        local[21] = sign;
        local[22..24].copy_from_slice(&hours);
        local[24..26].copy_from_slice(&minutes);
        local
    }

    /// `2026-10-10T15:55:36+02:00`.
    #[must_use]
    pub fn of_iso8601(&self) -> [u8; 25] {
        let mut iso = *b"1994-11-06T08:49:37+00:00";
        iso[..19].copy_from_slice(&iso_of(&self.date));
        let (sign, hours, minutes) = self.offset();
        iso[19] = sign;
        iso[20..22].copy_from_slice(&hours);
        iso[23..25].copy_from_slice(&minutes);
        iso
    }

    /// Sign, hours and minutes of the offset.
    fn offset(&self) -> (u8, [u8; 2], [u8; 2]) {
        let minutes = self.offset.unsigned_abs() / 60;
        let digits = |number: u32| [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8];
        (if self.offset < 0 { b'-' } else { b'+' }, digits(minutes / 60), digits(minutes % 60))
    }
}

/// `2026-10-10T13:55:36`.
fn iso_of(date: &HttpDate) -> [u8; 19] {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let date = date.as_bytes();
    let month = MONTHS.chunks(3).position(|name| name == &date[8..11]).unwrap_or(0) as u8 + 1;
    let mut iso = *b"1994-11-06T08:49:37";
    iso[..4].copy_from_slice(&date[12..16]);
    iso[5..7].copy_from_slice(&[b'0' + month / 10, b'0' + month % 10]);
    iso[8..10].copy_from_slice(&date[5..7]);
    iso[11..19].copy_from_slice(&date[17..25]);
    iso
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_logs_have_them() {
        for (offset, logs, iso) in [
            (0, &b"06/Nov/1994:08:49:37 +0000"[..], &b"1994-11-06T08:49:37+00:00"[..]),
            (7_200, b"06/Nov/1994:10:49:37 +0200", b"1994-11-06T10:49:37+02:00"),
            (-12_600, b"06/Nov/1994:05:19:37 -0330", b"1994-11-06T05:19:37-03:30"),
            (-36_000, b"05/Nov/1994:22:49:37 -1000", b"1994-11-05T22:49:37-10:00"),
            (49_500, b"06/Nov/1994:22:34:37 +1345", b"1994-11-06T22:34:37+13:45"),
        ] {
            let time = LocalTime::with(784_111_777, offset);
            assert_eq!((&time.of_logs()[..], &time.of_iso8601()[..]), (logs, iso));
        }
    }

    /// A zone's offset is that of the second, on both sides of a change.
    #[test]
    fn offsets_follow_the_season() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        // Sunday, 25 October 2026, 01:00 GMT.
        let change = 1_792_890_000;
        assert_eq!([change - 1, change].map(|second| offset_in(&zone, second)), [7_200, 3_600]);
        assert_eq!(offset_in(&zone, u64::MAX), 0);
    }
}
