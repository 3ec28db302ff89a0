//! How quiet a core is to be: `max<10us`, `share<0.01%`, `rate<300`.

use core::fmt;
use core::str::FromStr;
use serde::{Serialize, Serializer};

/// A bound on a core's gaps.
///
/// | figure | what | value |
/// | --- | --- | --- |
/// | `max` | the longest gap | a time: `ns`, `us`, `ms`, `s` |
/// | `share` | the part of the time that gaps take | a share, with `%` |
/// | `rate` | gaps per second | a number |
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    figure: Figure,
    or_equal: bool,
    limit: f64,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Figure {
    Max,
    Share,
    Rate,
}

/// Figures of a core that bounds are about.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Figures {
    /// The longest gap, nanoseconds.
    pub max: f64,
    /// What gaps take, of 1.
    pub share: f64,
    /// Gaps per second.
    pub rate: f64,
}

impl Bound {
    /// Reads a list, separated by commas.
    ///
    /// # Errors
    /// What one of them lacks.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, BoundError> {
        text.split(',').map(|one| one.trim().parse()).collect()
    }

    /// Whether a core keeps it.
    #[must_use]
    pub fn is_kept(&self, figures: &Figures) -> bool {
        let value = match self.figure {
            Figure::Max => figures.max,
            Figure::Share => figures.share,
            Figure::Rate => figures.rate,
        };
        value < self.limit || (self.or_equal && value <= self.limit)
    }
}

impl FromStr for Bound {
    type Err = BoundError;

    fn from_str(text: &str) -> Result<Self, BoundError> {
        let bad = |why| BoundError { text: text.to_owned(), why };
        let (name, rest) = text.split_once('<').ok_or_else(|| bad("write it as in max<10us"))?;
        let (or_equal, value) = rest.strip_prefix('=').map_or((false, rest), |value| (true, value));
        let number = |value: &str| value.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        let (figure, limit) = match name.trim() {
            "max" => {
                let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
                let value = value.trim();
                let found = units.iter().find_map(|(unit, nanos)| Some((value.strip_suffix(unit)?, nanos)));
                let (value, nanos) = found.ok_or_else(|| bad("a time needs its unit: ns, us, ms or s"))?;
                (Figure::Max, number(value).map(|value| value * nanos))
            }
            "share" => {
                let value = value.trim().strip_suffix('%').ok_or_else(|| bad("a share needs its %"))?;
                (Figure::Share, number(value).map(|value| value / 100.0))
            }
            "rate" => (Figure::Rate, number(value)),
            _ => return Err(bad("the figures are max, share and rate")),
        };
        let limit = limit.ok_or_else(|| bad("the value is no number"))?;
        Ok(Self { figure, or_equal, limit, text: text.to_owned() })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Why a bound cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundError {
    text: String,
    why: &'static str,
}

impl fmt::Display for BoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no bound: {}", self.text, self.why)
    }
}

impl core::error::Error for BoundError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_and_kept_or_not() {
        let figures = Figures { max: 10_000.0, share: 0.0001, rate: 250.0 };
        let kept = |text: &str| text.parse::<Bound>().expect("a bound").is_kept(&figures);
        assert!(!kept("max<10us") && kept("max<=10us") && kept("max<0.011 ms") && kept("max<1s"));
        assert!(kept("share<0.02%") && !kept("share<0.01%") && kept("rate<251") && !kept("rate<250"));
        assert_eq!(Bound::parse_list("max<10us, rate<=5").expect("two").len(), 2);
    }

    #[test]
    fn what_is_no_bound_is_refused_with_its_reason() {
        for text in ["", "max", "max<", "max<10", "max<-1us", "max<nanus", "p99<1us", "share<1", "rate<x", "max>1us"] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
        assert_eq!(
            Bound::parse_list("max<1us,share<3").expect_err("no unit").to_string(),
            "\"share<3\" is no bound: a share needs its %"
        );
    }
}
