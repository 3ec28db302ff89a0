//! Texts of commands: what backslashes mean, what is quoted, and times.

use semantics::date::HttpDate;
use semantics::path::{is_encoded_in_path, percent_encode};

/// Appends text without its variables, in which a backslash before one of `\'"$` goes.
/// How much of it that was: up to a `$`, if `stops` there.
pub(super) fn unquote(text: &[u8], stops: bool, out: &mut Vec<u8>) -> usize {
    let mut quoted = false;
    for (at, byte) in text.iter().enumerate() {
        if !quoted && *byte == b'\\' {
            quoted = true;
            continue;
        }
        if !quoted && stops && *byte == b'$' {
            return at;
        }
        if core::mem::take(&mut quoted) && !matches!(byte, b'\\' | b'\'' | b'"' | b'$') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    text.len()
}

/// Percent-encodes what may not stand in a page (`NGX_ESCAPE_HTML` of nginx).
pub(super) fn escape_url(text: &[u8], out: &mut Vec<u8>) {
    // In place of `?`, an apostrophe.
    percent_encode(text, |byte| byte == b'\'' || byte != b'?' && is_encoded_in_path(byte), out);
}

/// Bytes of a time, at most.
const TIME_MAX: usize = 2047;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A time in its parts, all of UTC.
struct Parts<'a> {
    unix: u64,
    zone: Zone<'a>,
    year: u64,
    /// From 0 on, as the day of the year and of the week.
    month: u64,
    day: u64,
    year_day: u64,
    week_day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// A time zone, at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zone<'a> {
    pub name: &'a str,
    /// Seconds that it is ahead of GMT.
    pub offset: i32,
}

impl<'a> Parts<'a> {
    fn of(unix: u64, zone: Zone<'a>) -> Self {
        let there = unix.saturating_add_signed(zone.offset.into());
        let date = HttpDate::from_unix(there);
        let number = |from: usize, to: usize| {
            date.as_bytes()[from..to].iter().fold(0, |sum, digit| sum * 10 + u64::from(digit.wrapping_sub(b'0')))
        };
        let (year, day) = (number(12, 16), number(5, 7));
        let name = &date.as_bytes()[8..11];
        let month = MONTHS.iter().position(|month| &month.as_bytes()[..3] == name).unwrap_or(0) as u64;
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month as usize];
        let year_day = before + day - 1 + u64::from(leap && month > 1);
        let (hour, minute, second) = (number(17, 19), number(20, 22), number(23, 25));
        Self { unix, zone, year, month, day, year_day, week_day: (there / 86_400 + 4) % 7, hour, minute, second }
    }

    /// The year and the week of ISO 8601.
    fn iso_week(&self) -> (u64, u64) {
        let monday = (self.week_day + 6) % 7;
        let week = (self.year_day + 10 - (monday + 1)) / 7;
        let long = |year: u64| {
            let first = |year: u64| (year + year / 4 - year / 100 + year / 400) % 7;
            if first(year) == 4 || first(year - 1) == 3 { 53 } else { 52 }
        };
        match week {
            0 => (self.year - 1, long(self.year - 1)),
            week if week > long(self.year) => (self.year + 1, 1),
            week => (self.year, week),
        }
    }

    fn field(&self, conversion: u8, out: &mut String) -> bool {
        use core::fmt::Write as _;
        let twelve = if self.hour.is_multiple_of(12) { 12 } else { self.hour % 12 };
        let half = if self.hour < 12 { "AM" } else { "PM" };
        let (day_name, month_name) = (DAYS[self.week_day as usize], MONTHS[self.month as usize]);
        let mut nested = |format: &str| out.push_str(&format_parts(self, format.as_bytes()));
        match conversion {
            b'c' => nested("%a %b %e %H:%M:%S %Y"),
            b'D' | b'x' => nested("%m/%d/%y"),
            b'F' => nested("%Y-%m-%d"),
            b'r' => nested("%I:%M:%S %p"),
            b'R' => nested("%H:%M"),
            b'T' | b'X' => nested("%H:%M:%S"),
            b'a' => out.push_str(&day_name[..3]),
            b'A' => out.push_str(day_name),
            b'b' | b'h' => out.push_str(&month_name[..3]),
            b'B' => out.push_str(month_name),
            b'p' => out.push_str(half),
            b'P' => out.push_str(&half.to_ascii_lowercase()),
            b'Z' => out.push_str(self.zone.name),
            b'z' => {
                let (sign, minutes) =
                    (if self.zone.offset < 0 { '-' } else { '+' }, self.zone.offset.unsigned_abs() / 60);
                _ = write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60);
            }
            b'n' => out.push('\n'),
            b't' => out.push('\t'),
            b'%' => out.push('%'),
            // Writing to a text does not fail.
            b'C' => _ = write!(out, "{:02}", self.year / 100),
            b'd' => _ = write!(out, "{:02}", self.day),
            b'e' => _ = write!(out, "{:2}", self.day),
            b'g' => _ = write!(out, "{:02}", self.iso_week().0 % 100),
            b'G' => _ = write!(out, "{}", self.iso_week().0),
            b'H' => _ = write!(out, "{:02}", self.hour),
            b'I' => _ = write!(out, "{twelve:02}"),
            b'j' => _ = write!(out, "{:03}", self.year_day + 1),
            b'k' => _ = write!(out, "{:2}", self.hour),
            b'l' => _ = write!(out, "{twelve:2}"),
            b'm' => _ = write!(out, "{:02}", self.month + 1),
            b'M' => _ = write!(out, "{:02}", self.minute),
            b's' => _ = write!(out, "{}", self.unix),
            b'S' => _ = write!(out, "{:02}", self.second),
            b'u' => _ = write!(out, "{}", if self.week_day == 0 { 7 } else { self.week_day }),
            b'U' => _ = write!(out, "{:02}", (self.year_day + 7 - self.week_day) / 7),
            b'V' => _ = write!(out, "{:02}", self.iso_week().1),
            b'w' => _ = write!(out, "{}", self.week_day),
            b'W' => _ = write!(out, "{:02}", (self.year_day + 7 - (self.week_day + 6) % 7) / 7),
            b'y' => _ = write!(out, "{:02}", self.year % 100),
            b'Y' => _ = write!(out, "{}", self.year),
            _ => return false,
        }
        true
    }
}

fn format_parts(parts: &Parts<'_>, format: &[u8]) -> String {
    let bytes = formatted(parts, format);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn formatted(parts: &Parts<'_>, format: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = format;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let mut field = String::new();
        match after.split_first() {
            Some((&conversion, behind)) if byte == b'%' && parts.field(conversion, &mut field) => {
                out.extend_from_slice(field.as_bytes());
                rest = behind;
            }
            _ => out.push(byte),
        }
        if out.len() > TIME_MAX {
            break;
        }
    }
    out
}

/// A time as strftime(3) writes it in a zone; nothing if it is empty or too long.
pub(super) fn time(unix: u64, zone: Zone<'_>, format: &[u8]) -> Option<Vec<u8>> {
    let out = formatted(&Parts::of(unix, zone), format);
    (!out.is_empty() && out.len() <= TIME_MAX).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_c_library_writes_them() {
        let written = |unix, format: &str| {
            let out = time(unix, Zone { name: "GMT", offset: 0 }, format.as_bytes());
            out.map(|out| String::from_utf8(out).expect("text"))
        };
        let some = |text: &str| Some(text.to_owned());
        // date -u -d @784111777 +…
        for (format, expected) in [
            ("%A, %d-%b-%Y %H:%M:%S %Z", "Sunday, 06-Nov-1994 08:49:37 GMT"),
            ("%a %B %e %I %p %P %j %U %W %V %G %g %u %w", "Sun November  6 08 AM am 310 45 44 44 1994 94 7 0"),
            (
                "%c|%D|%F|%r|%R|%T|%x|%X",
                "Sun Nov  6 08:49:37 1994|11/06/94|1994-11-06|08:49:37 AM|08:49|08:49:37|11/06/94|08:49:37",
            ),
            ("%C%y %k %l %s %z %h%n%t%%", "1994  8  8 784111777 +0000 Nov\n\t%"),
            ("%Q %", "%Q %"),
        ] {
            assert_eq!(written(784_111_777, format), some(expected), "{format}");
        }
        // Weeks at the ends of years: 1 January of 2021 and 2018, 31 December of 2018 and 2020.
        for (unix, expected) in [
            (1_609_459_200, "2020-53 00 00 001"),
            (1_514_764_800, "2018-01 00 01 001"),
            (1_546_214_400, "2019-01 52 53 365"),
            (1_609_372_800, "2020-53 52 52 366"),
        ] {
            assert_eq!(written(unix, "%G-%V %U %W %j"), some(expected), "{unix}");
        }
        assert_eq!((written(0, ""), written(0, &"x".repeat(2_048))), (None, None));
        // TZ=America/St_Johns date -d @784111777 +…
        let there = time(784_111_777, Zone { name: "NST", offset: -12_600 }, b"%F %T %Z %z %s %a");
        assert_eq!(there.as_deref(), Some(&b"1994-11-06 05:19:37 NST -0330 784111777 Sun"[..]));
    }
}
