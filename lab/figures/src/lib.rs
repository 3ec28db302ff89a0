//! Figures in words: how values are written wherever people read them.

/// Nanoseconds in the unit that suits.
#[must_use]
pub fn seconds(nanos: f64) -> String {
    // What would round to a thousand of a unit is one of the next.
    let (value, unit) = match nanos {
        n if n >= 999.5e6 => (n * 1e-9, "s"),
        n if n >= 999.5e3 => (n * 1e-6, "ms"),
        n if n >= 999.5 => (n * 1e-3, "µs"),
        n => (n, "ns"),
    };
    format!("{} {unit}", digits(value))
}

/// A fraction as percent.
#[must_use]
pub fn share(fraction: f64) -> String {
    let percent = 100.0 * fraction;
    // Of several cores: whole percents are three digits.
    if percent > 101.0 {
        return format!("{percent:.0} %");
    }
    // Near none and near all, what is between counts: one error in a million.
    let unit = if (1.0..99.0).contains(&percent) { 10.0 } else { 10_000.0 };
    format!("{} %", (percent * unit).round() / unit)
}

/// A value with SI prefix.
#[must_use]
pub fn si(value: f64, unit: &str) -> String {
    let (value, prefix) = match value {
        v if v >= 999.5e6 => (v * 1e-9, "G"),
        v if v >= 999.5e3 => (v * 1e-6, "M"),
        v if v >= 999.5 => (v * 1e-3, "k"),
        v => (v, ""),
    };
    format!("{} {prefix}{unit}", digits(value))
}

/// Three significant digits, or all before the point.
#[must_use]
pub fn digits(value: f64) -> String {
    match value {
        // As it is rounded: 99.96 is 100, and not 100.0.
        v if v >= 99.95 || v == 0.0 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A count with its thousands apart.
#[must_use]
pub fn grouped(count: u64) -> String {
    let plain = count.to_string();
    let mut out = String::with_capacity(plain.len() * 4 / 3);
    for (n, digit) in plain.chars().enumerate() {
        if n > 0 && (plain.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A ratio, with three digits however small it is.
#[must_use]
pub fn factor(ratio: f64) -> String {
    let zeros = if ratio > 0.0 && ratio < 0.1 { (-ratio.log10()).floor().min(9.0) as usize } else { 0 };
    format!("{ratio:.*}", 3 + zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_whatever_they_round_to() {
        for (value, wanted) in
            [(9.994, "9.99"), (9.996, "10.0"), (99.94, "99.9"), (99.96, "100"), (999.4, "999"), (0.0, "0")]
        {
            assert_eq!(digits(value), wanted, "{value}");
        }
        assert_eq!(
            (si(999.6, "/s"), si(999_600.0, "/s"), si(999.6e6, "B")),
            ("1.00 k/s".into(), "1.00 M/s".into(), "1.00 GB".into())
        );
        assert_eq!(
            (si(999.4, "/s"), seconds(999.6), seconds(999_600.0)),
            ("999 /s".into(), "1.00 µs".into(), "1.00 ms".into())
        );
    }
}
