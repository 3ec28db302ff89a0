//! Texts of files and of the kernel, as they may be shown.

/// A value on one line, and not longer than a line.
pub(crate) fn shown(value: &str) -> String {
    const MOST: usize = 120;
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    // Nothing that a terminal would obey.
    let clean: String = line.chars().filter(|char| !char.is_control()).collect();
    match clean.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &clean[..at]),
        None => clean,
    }
}

/// A text of somebody's within a sentence.
pub(crate) fn quoted(text: &str) -> String {
    match text.is_empty() {
        true => "nothing".to_owned(),
        false => format!("\"{}\"", shown(text)),
    }
}
