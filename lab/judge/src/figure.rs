//! Figures as printed: all the values that print so.

use core::fmt;

/// The values that a printed figure may stand for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// The line that prints it, from 1; 0 if none does.
    pub line: usize,
}

/// A printed figure stands for half a unit of its last digit to both sides; a
/// little more, since tools compute in binary before they round.
const HALF: f64 = 0.501;

impl Interval {
    /// A count: exactly this.
    #[must_use]
    pub fn exact(value: f64, line: usize) -> Self {
        Self { low: value, high: value, line }
    }

    /// What these digits may stand for, rounded to the last one.
    ///
    /// # Errors
    /// If it is no number, or one of another locale.
    pub fn printed(text: &str, line: usize) -> Result<Self, String> {
        let plain = text.strip_prefix('-').unwrap_or(text);
        let number = !plain.is_empty()
            && plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            && plain.bytes().filter(|byte| *byte == b'.').count() <= 1
            && plain.as_bytes()[0].is_ascii_digit()
            && plain.len() <= 30;
        if !number {
            if plain.contains(',') && plain.bytes().all(|byte| byte.is_ascii_digit() || b",.".contains(&byte)) {
                return Err(format!("{text} is a number of another locale; print it with LC_ALL=C"));
            }
            return Err(format!("{text:?} is no number"));
        }
        let value: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
        let digits = plain.split_once('.').map_or(0, |(_, after)| after.len());
        let half = HALF * 10_f64.powi(-i32::try_from(digits).unwrap_or(0));
        Ok(Self { low: value - half, high: value + half, line })
    }

    /// A count: digits alone, or in groups of three between commas.
    ///
    /// # Errors
    /// If it is no number.
    pub fn count(text: &str, line: usize) -> Result<Self, String> {
        let groups: Vec<&str> = text.split(',').collect();
        let grouped =
            groups.len() > 1 && (1..=3).contains(&groups[0].len()) && groups[1..].iter().all(|group| group.len() == 3);
        let digits = groups.concat();
        if (groups.len() > 1 && !grouped) || digits.len() > 20 || digits.is_empty() {
            return Err(format!("{text:?} is no count"));
        }
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("{text:?} is no count"));
        }
        digits.parse().map(|value| Self::exact(value, line)).map_err(|_| format!("{text:?} is no count"))
    }

    /// Digits and what follows them, as in `1.66ms`.
    #[must_use]
    pub fn split(text: &str) -> (&str, &str) {
        let end = text
            .char_indices()
            .position(|(_, byte)| !(byte.is_ascii_digit() || byte == '.' || byte == ',' || byte == '-'))
            .map_or(text.len(), |chars| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at));
        (&text[..end], text[end..].trim_start())
    }

    /// Seconds, of `1.66ms`, `12s`, `338.00us`, `1m2.5s` and the like.
    ///
    /// # Errors
    /// If number or unit is none.
    pub fn time(text: &str, line: usize) -> Result<Self, String> {
        let mut rest = text;
        let mut sum: Option<Self> = None;
        while !rest.is_empty() {
            let (digits, unit) = Self::split(rest);
            let end = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
            let factor = match unit[..end].trim() {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" | "sec" | "secs" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "" => return Err(format!("{text:?} has no unit of time: it is cut off, or another version's")),
                other => return Err(format!("{other:?} is no unit of time")),
            };
            let mut part = Self::printed(digits, line)?;
            // In 1m2.5s, the minutes are whole.
            if end < unit.len() {
                part = Self::exact((part.low + part.high) / 2.0, line);
            }
            let part = part.times(factor);
            sum = Some(sum.map_or(part, |sum| sum + part));
            rest = &unit[end..];
        }
        sum.ok_or_else(|| "a time is missing".to_owned())
    }

    /// Bytes, of `78.74MB` and the like; `step` is 1000 or 1024 where the tool
    /// means one by `MB`.
    ///
    /// # Errors
    /// If number or unit is none.
    pub fn bytes(text: &str, step: f64, line: usize) -> Result<Self, String> {
        let (digits, unit) = Self::split(text);
        let unit = unit.strip_suffix("ytes").unwrap_or(unit);
        let (prefix, step) = match unit.strip_suffix("iB") {
            Some(prefix) => (prefix, 1024.0),
            None => (unit.strip_suffix('B').ok_or_else(|| format!("{text:?} has no unit of bytes"))?, step),
        };
        let power = prefix_power(prefix).ok_or_else(|| format!("{unit:?} is no unit of bytes"))?;
        let figure = Self::printed(digits, line)?;
        Ok(figure.times(f64::powi(step, power)))
    }

    /// This many times as much.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        self * Self::exact(factor, self.line)
    }

    /// The middle of what it stands for: what was printed.
    #[must_use]
    pub fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    /// Wider by this share of itself.
    #[must_use]
    pub fn loose(self, share: f64) -> Self {
        let slack = self.high.abs().max(self.low.abs()) * share;
        Self { low: self.low - slack, high: self.high + slack, line: self.line }
    }
}

/// The power of a prefix of units: 1 for K, 3 for G.
pub(crate) fn prefix_power(prefix: &str) -> Option<i32> {
    Some(match prefix {
        "" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    })
}

impl core::ops::Add for Interval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high, line: self.line.max(other.line) }
    }
}

impl core::ops::Sub for Interval {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low, line: self.line.max(other.line) }
    }
}

impl core::ops::Mul for Interval {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let all = [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        let low = all.into_iter().fold(f64::INFINITY, f64::min);
        let high = all.into_iter().fold(f64::NEG_INFINITY, f64::max);
        Self { low, high, line: self.line.max(other.line) }
    }
}

impl core::ops::Div for Interval {
    type Output = Self;
    /// What divides by something that may be zero may be anything.
    fn div(self, other: Self) -> Self {
        let line = self.line.max(other.line);
        if other.low <= 0.0 {
            return Self { low: f64::NEG_INFINITY, high: f64::INFINITY, line };
        }
        self * Self { low: 1.0 / other.high, high: 1.0 / other.low, line }
    }
}

/// A number for people: groups of three, few digits after the point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Show(pub f64);

impl fmt::Display for Show {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size >= 1e15 || (size < 1e-4 && size > 0.0) {
            return write!(f, "{:.3e}", self.0);
        }
        let digits = match size {
            _ if self.0.fract() == 0.0 || size >= 100_000.0 => 0,
            100.0.. => 1,
            1.0.. => 2,
            _ => 5,
        };
        let text = format!("{:.digits$}", size);
        let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
        let sign = if self.0 < 0.0 { "-" } else { "" };
        write!(f, "{sign}")?;
        for (at, digit) in whole.char_indices() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                write!(f, ",")?;
            }
            write!(f, "{digit}")?;
        }
        write!(f, "{rest}")
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Show(self.middle()).fmt(f)
    }
}
