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

/// A value with SI prefix, which stands before a unit that is a word by itself: 2.00 Mbit/s, and
/// 2.00 M requests/s.
#[must_use]
pub fn si(value: f64, unit: &str) -> String {
    let (value, prefix) = match value {
        v if v >= 999.5e6 => (v * 1e-9, "G"),
        v if v >= 999.5e3 => (v * 1e-6, "M"),
        v if v >= 999.5 => (v * 1e-3, "k"),
        v => (v, ""),
    };
    let gap = if prefix.is_empty() || unit.len() <= "bit/s".len() { "" } else { " " };
    format!("{} {prefix}{gap}{unit}", digits(value))
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

/// So many of something whose plural ends in s.
#[must_use]
pub fn many(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A ratio, with three digits however small it is.
#[must_use]
pub fn factor(ratio: f64) -> String {
    let zeros = if ratio > 0.0 && ratio < 0.1 { (-ratio.log10()).floor().min(9.0) as usize } else { 0 };
    format!("{ratio:.*}", 3 + zeros)
}

/// The first of many in a line, and how many more there are.
#[must_use]
pub fn first_of(mut names: Vec<String>, most: usize) -> String {
    let more = names.split_off(names.len().min(most)).len();
    names.extend((more > 0).then(|| format!("and {more} more")));
    names.join("; ")
}

/// Names by the words that are said of them: a line for each word, with the first of its names.
#[must_use]
pub fn by_word(all: impl IntoIterator<Item = (String, String)>, most: usize) -> Vec<String> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (word, name) in all {
        match found.iter_mut().find(|(known, _)| *known == word) {
            Some((_, names)) => names.push(name),
            None => found.push((word, vec![name])),
        }
    }
    found.into_iter().map(|(word, names)| format!("{word}: {}", first_of(names, most))).collect()
}

/// Rows as columns, each as wide as its widest cell: those that are names to the left, figures to
/// the right.
#[must_use]
pub fn columns(rows: &[Vec<String>], is_name: impl Fn(usize) -> bool) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let cell = |(column, (cell, &width)): (usize, (&String, &usize))| match is_name(column) {
        true => format!("{cell:<width$}"),
        false => format!("{cell:>width$}"),
    };
    let line = |row: &Vec<String>| row.iter().zip(&widths).enumerate().map(cell).collect::<Vec<_>>().join("  ");
    rows.iter().map(|row| line(row).trim_end().to_owned() + "\n").collect()
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

    #[test]
    fn a_prefix_stands_before_a_word_by_itself() {
        let told = [si(2e6, "requests/s"), si(2e6, "bit/s"), si(2.0, "frames/s")];
        assert_eq!(told, ["2.00 M requests/s", "2.00 Mbit/s", "2.00 frames/s"]);
    }

    #[test]
    fn of_many_names_the_first_stand_there() {
        let names = |count: usize| vec!["a".to_owned(); count];
        let told = [0, 2, 4].map(|count| first_of(names(count), 2));
        assert_eq!(told, ["", "a; a", "a; a; and 2 more"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [vec!["a", "µs", "verdict"], vec!["longer", "1", "-"], vec!["b"]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect());
        assert_eq!(columns(&rows, |at| at != 1), "a       µs  verdict\nlonger   1  -\nb\n");
    }
}
