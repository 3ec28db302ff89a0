//! Numbers as people read them.

/// A number for people: as many digits as say something, thousands apart.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        _ if value == 0.0 => "0".to_owned(),
        // Those that would be rounded to it.
        999.5.. => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", demo::measure::thousands(value))
        }
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}
