//! Values of a result as cells of tables.

use figures::{digits, grouped, seconds, share, si};
use pages::{PageTable, TableRow, Tone};
use serde_json::Value;

/// How a value is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// As it stands there.
    Text,
    /// A count.
    Count,
    /// Nanoseconds.
    Time,
    /// Per second.
    Rate,
    /// Bytes.
    Bytes,
    /// A share of one.
    Share,
    /// Three digits.
    Plain,
}

/// A column: its head, where its value stands in a row, how it is shown.
pub type Column = (&'static str, &'static str, Shown);

impl Shown {
    pub fn show(self, value: &Value) -> String {
        match (self, value.as_f64()) {
            (_, None) | (Self::Text, _) => plain(value),
            (Self::Count, Some(number)) => grouped(number as u64),
            (Self::Time, Some(number)) => seconds(number),
            (Self::Rate, Some(number)) => si(number, "/s"),
            (Self::Bytes, Some(number)) => si(number, "B"),
            (Self::Share, Some(number)) => share(number),
            (Self::Plain, Some(number)) => digits(number),
        }
    }
}

/// A value in words; nothing of nothing.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(yes) => (if *yes { "yes" } else { "no" }).to_owned(),
        Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), |count| count.to_string()),
        Value::Array(all) => {
            let numbers = all.iter().all(Value::is_number);
            all.iter().map(plain).collect::<Vec<_>>().join(if numbers { ", " } else { "; " })
        }
        Value::Object(all) => {
            let one = |(name, value): (&String, &Value)| format!("{name}: {}", plain(value));
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    }
}

pub fn text(whole: &Value, path: &str) -> String {
    whole.pointer(path).map(plain).unwrap_or_default()
}

pub fn number(whole: &Value, path: &str) -> Option<f64> {
    whole.pointer(path).and_then(Value::as_f64)
}

pub fn list<'a>(whole: &'a Value, path: &str) -> &'a [Value] {
    whole.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn texts(whole: &Value, path: &str) -> Vec<String> {
    list(whole, path).iter().map(plain).collect()
}

/// A table of rows; columns that nothing stands in are left out.
pub fn table<'a>(caption: &str, columns: &[Column], rows: impl IntoIterator<Item = &'a Value>) -> PageTable {
    let rows: Vec<&Value> = rows.into_iter().collect();
    let stands = |path: &str| rows.iter().any(|row| row.pointer(path).is_some_and(|value| !value.is_null()));
    let kept: Vec<&Column> = columns.iter().filter(|(_, path, _)| stands(path)).collect();
    let cell = |row: &Value, (_, path, shown): &Column| match row.pointer(path).map(|value| shown.show(value)) {
        Some(text) if !text.is_empty() => text,
        _ => "-".to_owned(),
    };
    let row = |row: &&Value| TableRow::from(kept.iter().map(|column| cell(row, column)).collect::<Vec<_>>());
    PageTable::new(caption, &kept.iter().map(|(head, ..)| *head).collect::<Vec<_>>()).with(rows.iter().map(row))
}

/// Names and values of an object, those of objects within it behind a name; what is empty is left out.
pub fn object(caption: &str, value: &Value) -> PageTable {
    fn put(pairs: &mut Vec<(String, String)>, before: &str, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let name = format!("{before}{}", name.replace('_', " "));
            match value {
                Value::Object(_) => put(pairs, &format!("{name}, "), value),
                value => pairs.extend(Some((name, plain(value))).filter(|(_, text)| !text.is_empty())),
            }
        }
    }
    let mut pairs = Vec::new();
    put(&mut pairs, "", value);
    PageTable::pairs(caption, ["", "value"], pairs)
}

/// The last cell of a row that something speaks against; of others `good`.
pub fn judged(mut cells: Vec<String>, against: Option<String>, good: &str) -> TableRow {
    let tone = if against.is_some() { Tone::Bad } else { Tone::Good };
    cells.push(against.unwrap_or_else(|| good.to_owned()));
    TableRow { cells, tone }
}
