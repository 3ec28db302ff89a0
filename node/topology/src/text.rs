//! Text from a machine or a file, for a terminal.

/// The same text with what moves a terminal's cursor or the order of letters written as escapes:
/// control characters, and Unicode's directional ones (UAX #9, section 2).
#[must_use]
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        let moves = letter.is_control()
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if moves { shown.extend(letter.escape_unicode()) } else { shown.push(letter) }
    }
    shown
}
