//! Tables are held against the keys.

use crate::Wrong;
use crate::keys;
use features::SiteKey;
use features::key::{KeyPlace, KeyValue};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Everything in the file is a key where it may stand, with a value of its kind.
///
/// # Errors
/// The first that is not.
pub fn site(table: &DeTable<'_>) -> Result<(), Wrong> {
    self::table(table, KeyPlace::Site)
}

fn table(table: &DeTable<'_>, place: KeyPlace) -> Result<(), Wrong> {
    for (name, value) in table {
        let at = name.span().start;
        let Some(key) = keys::of(place).find(|key| key.name == name.get_ref()) else {
            return Err(unknown(at, name.get_ref(), place));
        };
        self::value(key, value)?;
    }
    Ok(())
}

fn value(key: &SiteKey, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
    let at = value.span().start;
    let refused = |what: String| Err(Wrong { at, text: format!("{} is {what}", key.name) });
    match (key.value, value.get_ref()) {
        (KeyValue::Text, DeValue::Integer(_))
        | (KeyValue::Switch | KeyValue::SwitchOr(_), DeValue::Boolean(_))
        | (KeyValue::TableOrOff(_), DeValue::Boolean(false)) => Ok(()),
        (KeyValue::Text | KeyValue::Texts | KeyValue::TableOrText(_), DeValue::String(text)) => {
            has_no_controls(at, key.name, text)
        }
        (KeyValue::Texts, DeValue::Array(all)) => all.iter().try_for_each(|one| text(key.name, one)),
        (KeyValue::Texts, DeValue::Integer(_)) => Ok(()),
        (KeyValue::Number(least, most) | KeyValue::NumberOr(least, most, _), DeValue::Integer(number)) => {
            let within = i64::from_str_radix(number.as_str(), number.radix()).is_ok_and(|it| it >= least && it <= most);
            if within { Ok(()) } else { refused(format!("a number from {least} to {most}")) }
        }
        (
            KeyValue::NumberOr(_, _, words) | KeyValue::SwitchOr(words) | KeyValue::OneOf(words),
            DeValue::String(text),
        ) => {
            if words.contains(&text.as_ref()) {
                Ok(())
            } else {
                refused(wanted(key.value))
            }
        }
        (
            KeyValue::Table(place) | KeyValue::TableOrOff(place) | KeyValue::TableOrText(place),
            DeValue::Table(inner),
        ) => table(inner, place),
        (KeyValue::Tables(place), DeValue::Array(all)) => all.iter().try_for_each(|one| match one.get_ref() {
            DeValue::Table(inner) => table(inner, place),
            _ => Err(Wrong { at: one.span().start, text: format!("{} is {}", key.name, wanted(key.value)) }),
        }),
        (KeyValue::Named(place), DeValue::Table(named)) => named.iter().try_for_each(|(name, one)| {
            has_no_controls(name.span().start, key.name, name.get_ref())?;
            match one.get_ref() {
                DeValue::Table(inner) => table(inner, place),
                _ => Err(Wrong { at: one.span().start, text: format!("{} is {}", key.name, wanted(key.value)) }),
            }
        }),
        (KeyValue::NamedOrText(place), DeValue::Table(named)) => named.iter().try_for_each(|(name, one)| {
            has_no_controls(name.span().start, key.name, name.get_ref())?;
            match one.get_ref() {
                DeValue::Table(inner) => table(inner, place),
                _ => text(key.name, one),
            }
        }),
        (KeyValue::NamedTexts, DeValue::Table(named)) => named.iter().try_for_each(|(name, one)| {
            has_no_controls(name.span().start, key.name, name.get_ref())?;
            match one.get_ref() {
                DeValue::Array(all) => all.iter().try_for_each(|one| text(key.name, one)),
                _ => text(key.name, one),
            }
        }),
        (_, other) => refused(format!("{}; this is of type {}", wanted(key.value), other.type_str())),
    }
}

fn text(name: &str, value: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
    let at = value.span().start;
    match value.get_ref() {
        DeValue::String(text) => has_no_controls(at, name, text),
        DeValue::Integer(_) => Ok(()),
        other => Err(Wrong { at, text: format!("{name} has text; this is of type {}", other.type_str()) }),
    }
}

/// What stands in no field, path or line; ends of lines may stand in a text.
fn has_no_controls(at: usize, name: &str, text: &str) -> Result<(), Wrong> {
    match text.chars().find(|letter| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t')) {
        Some(letter) => Err(Wrong { at, text: format!("{name} has a control character in it: {letter:?}") }),
        None => Ok(()),
    }
}

fn wanted(value: KeyValue) -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    match value {
        KeyValue::Text => "text".to_owned(),
        KeyValue::Texts => "text, or a list of texts".to_owned(),
        KeyValue::Number(least, most) => format!("a number from {least} to {most}"),
        KeyValue::NumberOr(least, most, known) => format!("a number from {least} to {most}, or {}", words(known)),
        KeyValue::Switch => "true or false".to_owned(),
        KeyValue::SwitchOr(known) => format!("true, false, or one of {}", words(known)),
        KeyValue::OneOf(known) => format!("one of {}", words(known)),
        KeyValue::Table(_) => "a table".to_owned(),
        KeyValue::TableOrOff(_) => "a table, or false".to_owned(),
        KeyValue::TableOrText(_) => "text, or a table".to_owned(),
        KeyValue::Tables(_) => "a list of tables".to_owned(),
        KeyValue::Named(_) => "a table of names, each with a table".to_owned(),
        KeyValue::NamedOrText(_) => "a table of names, each with text or a table".to_owned(),
        KeyValue::NamedTexts => "a table of names, each with text or a list of texts".to_owned(),
    }
}

fn unknown(at: usize, name: &str, place: KeyPlace) -> Wrong {
    let near = keys::of(place).map(|key| (distance(name, key.name), key.name)).min();
    let text = match near {
        _ if keys::all().any(|key| key.name == name) => format!("the key {name:?} cannot stand here"),
        Some((steps, other)) if steps == 1 || steps * 3 <= other.len() => {
            format!("there is no key {name:?} here: {other:?} is meant?")
        }
        _ => {
            let known: Vec<&str> = keys::of(place).map(|key| key.name).collect();
            format!("there is no key {name:?} here, but {}", known.join(", "))
        }
    };
    Wrong { at, text }
}

/// How many letters are to be changed, added or left out (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    // No key is as long: what is cut off is far from each of them anyway.
    let one: Vec<char> = one.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (column, wanted) in other.chars().enumerate() {
            let changed = before + usize::from(*letter != wanted);
            before = row[column + 1];
            row[column + 1] = changed.min(before + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
