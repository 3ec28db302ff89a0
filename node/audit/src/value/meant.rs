//! What a spoilt line was probably meant to be.

use super::{Shape, Taken, take};
use crate::rules;

/// The value that somebody meant by a text that the kernel refuses: without
/// its comment, quotes, units; `None` where nothing near is taken.
pub(crate) fn meant(shape: Shape, text: &str) -> Option<String> {
    let bare = text.split('#').next().unwrap_or_default();
    let bare = bare.split("//").next().unwrap_or_default();
    let bare = bare.trim_matches(|char: char| {
        char.is_whitespace() || matches!(char, '"' | '\'' | '`' | ';' | ',' | '=' | '“' | '”' | '‘' | '’' | '\u{feff}')
    });
    let plain = |text: &str| -> String {
        let straight = text.chars().map(|char| match char {
            '–' | '—' | '−' => '-',
            char if char.is_whitespace() => ' ',
            char => char,
        });
        straight.collect()
    };
    let word = plain(bare);
    let letters = word.replace(['O', 'o'], "0").replace(['l', 'I'], "1");
    let numbers = matches!(
        shape,
        Shape::Integers { .. }
            | Shape::ZeroOr(_)
            | Shape::Semaphores
            | Shape::Pipe
            | Shape::Table { .. }
            | Shape::Milliseconds
            | Shape::Ports(_)
    );
    let mut candidates = vec![word.clone()];
    if numbers {
        candidates.extend([grouped(&word), units(&word), truth(&word), letters, word.replace(',', " ")]);
        candidates.extend(word.split_once('-').map(|(low, high)| format!("{low} {high}")));
    }
    if matches!(shape, Shape::Bitmap(_) | Shape::Cores | Shape::Mask) {
        candidates.push(word.replace(' ', ""));
        candidates.push(word.split_whitespace().collect::<Vec<_>>().join(","));
    }
    if shape == Shape::Name {
        candidates.extend(word.split_whitespace().next().map(str::to_ascii_lowercase));
    }
    candidates.into_iter().filter(|candidate| !candidate.is_empty()).find_map(|candidate| {
        match take(shape, candidate.trim()) {
            Taken::As(value) => Some(value),
            Taken::Refused(_) => None,
        }
    })
}

/// The number that somebody meant by a text: without quotes, groups, units.
pub(crate) fn number_meant(text: &str) -> Option<String> {
    meant(Shape::Integers { most: 1, low: 0, high: i128::from(u64::MAX) }, text)
}

/// `4,194,304` and `4.194.304` as 4194304: groups of three.
fn grouped(text: &str) -> String {
    let one = |word: &str| {
        let parts: Vec<&str> = word.split([',', '.', '_', '\'']).collect();
        let digits = |part: &&str| part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        match parts.as_slice() {
            [first, rest @ ..] if (1..=3).contains(&first.len()) && !rest.is_empty() && rest.iter().all(digits) => {
                parts.concat()
            }
            _ => word.to_owned(),
        }
    };
    text.split_whitespace().map(one).collect::<Vec<_>>().join(" ")
}

/// `16M` as 16777216, `16 MB` too; a unit of time is left out.
fn units(text: &str) -> String {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "s" | "sec" | "seconds" | "ms" | "us" | "b" | "bytes" | "%" | "pages" => 0,
        _ => return String::new(),
    };
    let value = digits.parse::<u64>().ok().and_then(|value| value.checked_shl(shift));
    value.map_or_else(String::new, |value| value.to_string())
}

fn truth(text: &str) -> String {
    match text.to_ascii_lowercase().as_str() {
        "on" | "yes" | "true" | "enable" | "enabled" => "1".to_owned(),
        "off" | "no" | "false" | "disable" | "disabled" => "0".to_owned(),
        _ => String::new(),
    }
}

/// The key that somebody meant, if a rule's name is near.
pub(crate) fn key_meant(key: &str) -> Option<String> {
    let plain: String = key.chars().filter(|char| char.is_ascii() && !char.is_ascii_control()).collect();
    let mut words = plain.split_whitespace();
    // "sysctl -w KEY" in the place of KEY.
    let words: Vec<&str> = match words.next() {
        Some("sysctl" | "sudo") => words.filter(|word| !word.starts_with('-') && *word != "sysctl").collect(),
        Some(first) => core::iter::once(first).chain(words).collect(),
        None => return None,
    };
    // A blank stands for a line below, or for nothing at all.
    [words.join("_"), words.concat()]
        .into_iter()
        .find_map(|name| crate::find(&name).map(|_| name.clone()).or_else(|| near(&name).map(str::to_owned)))
}

/// The rule whose name is nearest to a key that has none, if one is near.
#[must_use]
pub fn near(key: &str) -> Option<&'static str> {
    let distance = |rule: &'static crate::Rule| (edits(key, rule.key), rule.key);
    let (edits, name) = rules().map(distance).min()?;
    (edits <= 3).then_some(name)
}

/// How many characters must be added, removed or changed (Levenshtein).
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, char) in one.chars().take(200).enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for (index, &wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(char != wanted);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
