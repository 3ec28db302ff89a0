//! Text that is no markup: escaped, measured and wrapped.

/// Text in which nothing is markup. In the place of controls, of marks that turn the direction of
/// what follows (Unicode Standard Annex 9), and of what XML forbids, stands a replacement.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(char),
            char if is_hidden(char) => safe.push('\u{fffd}'),
            char => safe.push(char),
        }
    }
    safe
}

/// Whether a character shows nothing and may change how others show.
pub(crate) fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        || matches!(char, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// How wide a line is in a font of this size, at most: as DejaVu Sans has it, the widest of the
/// usual ones.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let of = |char: char| match char {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '!' => 0.36,
        'f' | 'r' | 't' | '(' | ')' | '/' | '-' | '"' | '[' | ']' => 0.46,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' => 1.02,
        'A'..='Z' | '+' | '<' | '>' | '=' | '~' | '#' | '÷' | '×' | '±' | '_' => 0.86,
        '\0'..='\u{24f}' => 0.66,
        _ => 1.05,
    };
    size * text.chars().map(of).sum::<f64>()
}

/// Lines of a text, none wider than `room`: broken at spaces, and within words that are wider.
pub(crate) fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            if width(&line, size) + width(" ", size) + width(word, size) <= room {
                line.push(' ');
            } else {
                lines.push(core::mem::take(&mut line));
            }
        }
        for char in word.chars() {
            if width(&line, size) + width("m", size) > room.max(2.0 * size) {
                lines.push(core::mem::take(&mut line));
            }
            line.push(char);
        }
    }
    lines.push(line);
    lines
}
