//! Dates (RFC 9110 section 5.6.7).

/// An IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT`: always 29 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HttpDate([u8; 29]);

const DAY: u64 = 86_400;
const DAY_NAMES: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const LONG_DAY_NAMES: [&[u8]; 7] =
    [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"];
const MONTH_NAMES: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// 9999-12-31 23:59:59, the last second that four digits of a year can name.
const LAST: u64 = 253_402_300_799;

impl HttpDate {
    /// The date of `seconds` after 1970-01-01 00:00:00 UTC. A time after the
    /// year 9999, which the format cannot hold, becomes that year's last
    /// second.
    #[must_use]
    pub fn from_unix(seconds: u64) -> Self {
        let seconds = seconds.min(LAST);
        let days = seconds / DAY;
        let time = seconds % DAY;
        let (year, month, day) = civil(days);
        let mut text = *b"Sun, 00 Jan 0000 00:00:00 GMT";
        // 1970-01-01 was a Thursday.
        text[..3].copy_from_slice(DAY_NAMES[((days + 4) % 7) as usize]);
        two_digits(&mut text, 5, day);
        text[8..11].copy_from_slice(MONTH_NAMES[(month - 1) as usize]);
        two_digits(&mut text, 12, year / 100);
        two_digits(&mut text, 14, year % 100);
        two_digits(&mut text, 17, time / 3600);
        two_digits(&mut text, 20, time / 60 % 60);
        two_digits(&mut text, 23, time % 60);
        Self(text)
    }

    /// The date's text.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 29] {
        &self.0
    }
}

fn two_digits(text: &mut [u8; 29], at: usize, value: u64) {
    text[at] = b'0' + (value / 10) as u8;
    text[at + 1] = b'0' + (value % 10) as u8;
}

/// Seconds after 1970-01-01 00:00:00 UTC of a date in any of the three
/// formats. `None` if it is in none of them, or before 1970. The day's name
/// is not compared with the date.
///
/// `now` (unix seconds) places the two-digit year of the RFC 850 format: a
/// date more than 50 years ahead is in the past.
#[must_use]
pub fn parse(text: &[u8], now: u64) -> Option<u64> {
    let comma = text.iter().position(|&byte| byte == b',');
    match comma {
        Some(3) => imf_fixdate(text),
        Some(comma) => rfc850(text, comma, now),
        None => asctime(text),
    }
}

/// The same of what merely looks like one of these dates, as nginx reads it: the day's
/// name, the time zone and what stands behind the time are not looked at, and the day of an
/// `asctime` date may have one digit. There is no leap second.
#[must_use]
pub fn parse_leniently(text: &[u8], now: u64) -> Option<u64> {
    let stop = text.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let rest = text.get(stop + 1..)?.trim_ascii_start();
    let (year, month, day, clock) = match rest {
        // `Nov  6 08:49:37 1994`
        [m1, m2, m3, b' ', behind @ ..] if text[stop] == b' ' => {
            let behind = behind.strip_prefix(b" ").unwrap_or(behind);
            let (day, behind) = behind.split_at_checked(behind.iter().position(|byte| *byte == b' ')?)?;
            let (clock, year) = (behind.get(1..9)?, behind.get(9..)?.strip_prefix(b" ")?.get(..4)?);
            let day = digits(day).filter(|_| day.len() <= 2)?;
            (digits(year)?, month(&[*m1, *m2, *m3])?, day, clock)
        }
        // `06 Nov 1994 08:49:37`
        [d1, d2, b' ', m1, m2, m3, b' ', behind @ ..] if text[stop] == b',' => {
            let (year, clock) = (behind.get(..4)?, behind.get(4..)?.strip_prefix(b" ")?.get(..8)?);
            (digits(year)?, month(&[*m1, *m2, *m3])?, digits(&[*d1, *d2])?, clock)
        }
        // `06-Nov-94 08:49:37`
        [d1, d2, b'-', m1, m2, m3, b'-', behind @ ..] if text[stop] == b',' => {
            let (year, clock) = (behind.get(..2)?, behind.get(2..)?.strip_prefix(b" ")?.get(..8)?);
            (recent(digits(year)?, now), month(&[*m1, *m2, *m3])?, digits(&[*d1, *d2])?, clock)
        }
        _ => return None,
    };
    unix(year, month, day, time(clock).filter(|_| clock[6..] != *b"60")?)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<u64> {
    let text: &[u8; 29] = text.try_into().ok()?;
    let punctuation = text[3] == b','
        && [4, 7, 11, 16, 25].iter().all(|&at| text[at] == b' ')
        && text[26..] == *b"GMT"
        && DAY_NAMES.iter().any(|name| text.starts_with(*name));
    if !punctuation {
        return None;
    }
    let year = digits(&text[12..16])?;
    unix(year, month(&text[8..11])?, digits(&text[5..7])?, time(&text[17..25])?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &[u8], comma: usize, now: u64) -> Option<u64> {
    let (name, rest) = text.split_at_checked(comma)?;
    let rest: &[u8; 24] = rest.try_into().ok()?;
    let punctuation = rest.starts_with(b", ")
        && rest[4] == b'-'
        && rest[8] == b'-'
        && rest[11] == b' '
        && rest[20..] == *b" GMT"
        && LONG_DAY_NAMES.contains(&name);
    if !punctuation {
        return None;
    }
    let (month, day, time) = (month(&rest[5..8])?, digits(&rest[2..4])?, time(&rest[12..20])?);
    unix(recent(digits(&rest[9..11])?, now), month, day, time)
}

/// The year that two digits mean. RFC 9110 section 5.6.7: one that appears to be more than
/// 50 years in the future is the most recent year in the past with these digits.
fn recent(digits: u64, now: u64) -> u64 {
    let (this_year, ..) = civil(now.min(LAST) / DAY);
    let year = this_year / 100 * 100 + digits;
    match year {
        _ if year > this_year + 50 => year - 100,
        _ if year + 50 <= this_year => year + 100,
        _ => year,
    }
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<u64> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let punctuation =
        [3, 7, 10, 19].iter().all(|&at| text[at] == b' ') && DAY_NAMES.iter().any(|name| text.starts_with(*name));
    if !punctuation {
        return None;
    }
    let day = match &text[8..10] {
        [b' ', digit] => digits(&[*digit]),
        two => digits(two),
    };
    unix(digits(&text[20..24])?, month(&text[4..7])?, day?, time(&text[11..19])?)
}

/// Seconds of `08:49:37`. A leap second counts as the one after it, as in
/// POSIX time.
fn time(text: &[u8]) -> Option<u64> {
    let &[h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let (hour, minute, second) = (digits(&[h1, h2])?, digits(&[m1, m2])?, digits(&[s1, s2])?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |number, &byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}

/// 1 to 12. Names are case-sensitive.
fn month(name: &[u8]) -> Option<u64> {
    let index = MONTH_NAMES.iter().position(|month| *month == name)?;
    Some(index as u64 + 1)
}

/// Unix seconds, if there is such a day, and its year is from 1970 to 9999.
fn unix(year: u64, month: u64, day: u64, time: u64) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day == 0 || day > length || !(1970..=9999).contains(&year) {
        return None;
    }
    Some(days(year, month, day) * DAY + time)
}

/// Days from 1970-01-01 to this day of the Gregorian calendar. Years are
/// counted from March, so that the leap day comes last, and 400 of them have
/// always 146,097 days.
const fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year % 400 * 365 + year % 400 / 4 - year % 400 / 100 + day_of_year;
    year / 400 * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days`]: year, month from 1, day from 1.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = days / 146_097 * 400 + year_of_era;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests;
