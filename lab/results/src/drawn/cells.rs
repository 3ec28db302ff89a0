//! Values of a result as cells of tables and as points of curves.

use figures::{digits, grouped, seconds, share, si};
use pages::{CurvePoint, PageTable, Series};
use serde_json::Value;

/// How a value is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// As it stands there.
    Text,
    /// A count.
    Count,
    /// Numbers of cores.
    Ranges,
    /// Nanoseconds.
    Time,
    /// Per second.
    Rate,
    /// Bytes.
    Bytes,
    /// Bits per second.
    Bits,
    /// A share of one.
    Share,
    /// Three digits.
    Plain,
}

/// A column: its head, where its value stands in a row, how it is shown.
pub type Column = (&'static str, &'static str, Shown);

impl Shown {
    fn show(self, value: &Value) -> String {
        match (self, value.as_f64()) {
            (Self::Ranges, None) => ranges(value.as_array().map_or(&[], Vec::as_slice)),
            (_, None) | (Self::Text | Self::Ranges, _) => plain(value),
            (Self::Count, Some(number)) => grouped(number as u64),
            (Self::Time, Some(number)) => seconds(number),
            (Self::Rate, Some(number)) => si(number, "/s"),
            (Self::Bytes, Some(number)) => si(number, "B"),
            (Self::Bits, Some(number)) => si(number, "bit/s"),
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
        Value::Object(all) if all.len() == 2 && all.contains_key("name") && all.contains_key("value") => {
            format!("{} = {}", plain(&all["name"]), plain(&all["value"]))
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

/// The same value of each row.
pub fn texts_of(rows: &[Value], path: &str) -> Vec<String> {
    rows.iter().map(|row| text(row, path)).collect()
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
    let row = |row: &&Value| kept.iter().map(|column| cell(row, column)).collect::<Vec<_>>();
    PageTable::new(caption, &kept.iter().map(|(head, ..)| *head).collect::<Vec<_>>()).with(rows.iter().map(row))
}

/// The same of one row, column by column below each other.
pub fn values(caption: &str, columns: &[Column], row: &Value) -> PageTable {
    let table = table("", columns, [row]);
    let cells = table.rows.into_iter().flatten();
    PageTable::pairs(caption, ["", "value"], table.heads.into_iter().zip(cells).filter(|(_, cell)| cell != "-"))
}

/// Numbers that follow each other, as `0-3,8-11`.
pub fn ranges(numbers: &[Value]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers.iter().filter_map(Value::as_u64) {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// Names and values of an object, those of objects within it behind a name; what is empty is left out.
pub fn object(caption: &str, whole: &Value, path: &str) -> PageTable {
    fn put(pairs: &mut Vec<(String, String)>, before: &str, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            // Times are told as such.
            let (name, shown) = name.strip_suffix("_ns").map_or((&**name, Shown::Text), |name| (name, Shown::Time));
            // Names in capitals, as those of grpc-status, are such as they stand.
            let is_ours = name.bytes().any(|byte| byte.is_ascii_lowercase());
            let name = if is_ours { name.replace('_', " ") } else { name.to_owned() };
            let name = format!("{before}{name}");
            match value {
                Value::Object(_) => put(pairs, &format!("{name}, "), value),
                value => pairs.extend(Some((name, shown.show(value))).filter(|(_, text)| !text.is_empty())),
            }
        }
    }
    let mut pairs = Vec::new();
    put(&mut pairs, "", whole.pointer(path).unwrap_or(&Value::Null));
    PageTable::pairs(caption, ["", "value"], pairs)
}

/// What was expected, what was measured, and whether it was met; `missed` if not.
pub fn expected(caption: &str, expectations: &[Value], name: &str, missed: &str) -> PageTable {
    let met = |one: &Value| if one["met"] == true { "met" } else { missed }.to_owned();
    let measured = |one: &Value| match (one["told"].as_str(), &one["measured"]) {
        (Some(told), _) => told.to_owned(),
        (None, Value::Null) => "not measured".to_owned(),
        (None, value) => if one["is_time"] == true { Shown::Time } else { Shown::Plain }.show(value),
    };
    let rows = expectations.iter().map(|one| vec![text(one, name), measured(one)]);
    PageTable::new(caption, &["", "measured"]).with(rows).judged(expectations.iter().map(met))
}

/// Whether a row counts, by what speaks against it.
pub fn counted(against: &str) -> String {
    if against.is_empty() { "counts".to_owned() } else { format!("does not count: {against}") }
}

/// A curve through rows that have both of its values; those that do not count are shown as such.
pub fn curve<'a>(
    name: impl Into<String>,
    rows: impl IntoIterator<Item = &'a Value>,
    [x, y]: [&str; 2],
    counts: impl Fn(&Value) -> bool,
) -> Series {
    let point = |row: &Value| {
        let place = (number(row, x)?, number(row, y)?);
        Some(CurvePoint { counts: counts(row), ..CurvePoint::from(place) })
    };
    Series { name: name.into(), points: rows.into_iter().filter_map(point).collect(), largest: None }
}
