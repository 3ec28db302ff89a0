//! Commands as a shell takes them.

use crate::text::is_hidden;

/// A command in one line that a shell (POSIX.1-2017, 2.2) takes apart into the same words. A word with hidden
/// characters is written by escapes of `printf` (2.6.3; XCU, printf): all but line ends at its own end come out.
#[must_use]
pub fn quoted(words: &[String]) -> String {
    words.iter().map(|word| one(word)).collect::<Vec<_>>().join(" ")
}

fn one(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_./:=@%+,-".contains(char);
    let byte = |byte: u8| match byte {
        b' '..=b'~' if !b"'\\%-".contains(&byte) => (byte as char).to_string(),
        _ => format!("\\{byte:03o}"),
    };
    match word {
        // A word with "=" in the first place is no command, but here it is none.
        word if !word.is_empty() && word.chars().all(is_plain) => word.to_owned(),
        word if word.chars().any(is_hidden) => {
            format!("\"$(printf '{}')\"", word.bytes().map(byte).collect::<String>())
        }
        word => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
