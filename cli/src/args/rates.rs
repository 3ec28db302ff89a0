//! Rates of an open loop, and lists of numbers for a sweep.

use host::values::{BadValue, duration};
use load::{Schedule, Spacing, Step};
use std::time::Duration;

/// The most values of one list.
const LIST_LIMIT: usize = 1_000;

/// Reads `10k`, `ramp:1k..50k/30s` or `steps:1k/10s,5k/10s,10k`, evenly
/// spaced; `poisson:` before it spaces requests as a Poisson process.
///
/// # Errors
/// If it is none of these.
pub fn schedule(text: &str) -> Result<Schedule, BadValue> {
    let bad = || {
        BadValue::new(
            "write requests per second as 10k or 1.5M, poisson:10k, ramp:1k..50k/30s or steps:1k/10s,5k/10s,10k \
             (powers of 1,000)",
        )
    };
    let (spacing, shape) = match text.strip_prefix("poisson:") {
        Some(shape) => (Spacing::Poisson, shape),
        None => (Spacing::Even, text),
    };
    let schedule = match shape.split_once(':') {
        None => rate(shape).map(Schedule::constant),
        Some(("ramp", ramp)) => ramp_of(ramp),
        Some(("steps", steps)) => steps_of(steps),
        Some(_) => None,
    };
    Ok(Schedule { spacing, ..schedule.ok_or_else(bad)? })
}

fn ramp_of(text: &str) -> Option<Schedule> {
    let (rates, time) = text.split_once('/')?;
    let (from, to) = rates.split_once("..")?;
    Some(Schedule::ramp(rate(from)?, rate(to)?, duration(time).ok().filter(|time| !time.is_zero())?))
}

/// The last step may go without a time: it holds on anyway.
fn steps_of(text: &str) -> Option<Schedule> {
    let all: Vec<&str> = text.split(',').collect();
    let step = |(n, text): (usize, &&str)| {
        let (value, time) = match text.split_once('/') {
            Some((value, time)) => (value, duration(time).ok().filter(|time| !time.is_zero())?),
            None if n + 1 == all.len() => (*text, Duration::from_secs(1)),
            None => return None,
        };
        Some(Step { rate: rate(value)?, time })
    };
    all.iter().enumerate().map(step).collect::<Option<Vec<Step>>>().map(Schedule::steps)
}

/// Per second, zero included: `10k`, `2.5M`, `0.5`.
fn rate(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..)? {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { digits.parse::<f64>().ok().map(|value| value * factor) } else { None }
}

/// Reads `1,2,4`, ranges as `1-4`, and doublings as `1,2,4..128` or `1..128`:
/// from the value before the dots, doubled until the one after them.
///
/// # Errors
/// If it is no such list of whole numbers above zero, or too long.
pub fn list(text: &str) -> Result<Vec<u32>, BadValue> {
    let bad = || BadValue::new("write whole numbers above 0 as in 1,2,8, a range as in 1-4, or doublings as in 1..128");
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(bad);
    let mut values = Vec::new();
    for part in text.split(',') {
        // The horizontal ellipsis is what some keyboards make of three dots.
        let doubled = part.split_once("..").or_else(|| part.split_once('…'));
        if let Some((first, last)) = doubled {
            let (first, last) = (number(first)?, number(last.trim_start_matches('.'))?);
            let steps = core::iter::successors(Some(first), |n| n.checked_mul(2)).take_while(|n| *n < last);
            values.extend(steps.chain([last]).take(LIST_LIMIT + 1));
        } else if let Some((first, last)) = part.split_once('-') {
            values.extend((number(first)?..=number(last)?).take(LIST_LIMIT + 1));
        } else {
            values.push(number(part)?);
        }
        if values.len() > LIST_LIMIT {
            return Err(BadValue::new(format!("at most {LIST_LIMIT} values are tried")));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    values.retain(|value| seen.insert(*value));
    if values.is_empty() { Err(bad()) } else { Ok(values) }
}

/// Reads the connections of a sweep: `conns=` and a [`list`].
///
/// # Errors
/// If it is none.
pub fn sweep(text: &str) -> Result<Vec<u32>, BadValue> {
    let numbers = text.strip_prefix("conns=").or_else(|| text.strip_prefix("connections="));
    list(numbers.ok_or_else(|| BadValue::new("write what to vary, as in conns=1,2,4..128"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::Shape;

    #[test]
    fn schedules_have_a_shape_and_a_spacing() {
        let even = |text: &str| schedule(text).expect(text);
        assert_eq!(even("10k"), Schedule::constant(10_000.0));
        assert_eq!(even("0.5"), Schedule::constant(0.5));
        assert_eq!(even("poisson:1.5M"), Schedule::poisson(1_500_000.0));
        assert_eq!(even("ramp:1k..50k/30s"), Schedule::ramp(1_000.0, 50_000.0, Duration::from_secs(30)));
        let Shape::Steps(steps) = even("steps:1k/10s,0/1s,10k").shape else { panic!("no steps") };
        let seen: Vec<(f64, u64)> = steps.iter().map(|step| (step.rate, step.time.as_secs())).collect();
        assert_eq!(seen, [(1_000.0, 10), (0.0, 1), (10_000.0, 1)]);
        let both = even("poisson:ramp:1..2/1s");
        assert!(both.spacing == Spacing::Poisson && matches!(both.shape, Shape::Ramp { .. }));
        for text in [
            "",
            "k",
            "-1",
            "1e3",
            "inf",
            "10x",
            "ramp:1..2",
            "ramp:1/1s",
            "steps:1,2",
            "steps:1/0s,2",
            "wave:1",
            "ramp:1..2/0s",
        ] {
            assert!(schedule(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_double_and_count() {
        assert_eq!(list("1,2,4..128"), Ok(vec![1, 2, 4, 8, 16, 32, 64, 128]));
        assert_eq!(list("1,2,4…128"), list("1..128"));
        assert_eq!(list("1..100"), Ok(vec![1, 2, 4, 8, 16, 32, 64, 100]));
        assert_eq!(list("2-4,3"), Ok(vec![2, 3, 4]));
        assert_eq!(sweep("conns=1..4"), Ok(vec![1, 2, 4]));
        for text in ["", "0", "1..", "4-2", "a", "1-5000000"] {
            assert!(list(text).is_err(), "{text}");
        }
        assert!(sweep("1..4").is_err());
    }
}
