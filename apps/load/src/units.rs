//! Figures in words: how values are written wherever people read them.

/// Nanoseconds in the unit that suits.
#[must_use]
pub fn seconds(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n >= 1e9 => (n * 1e-9, "s"),
        n if n >= 1e6 => (n * 1e-6, "ms"),
        n if n >= 1e3 => (n * 1e-3, "µs"),
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
        v if v >= 1e9 => (v * 1e-9, "G"),
        v if v >= 1e6 => (v * 1e-6, "M"),
        v if v >= 1e3 => (v * 1e-3, "k"),
        v => (v, ""),
    };
    format!("{} {prefix}{unit}", digits(value))
}

/// Three significant digits, or all before the point.
#[must_use]
pub fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 || v == 0.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
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
