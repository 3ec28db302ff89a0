//! Values of a result as cells of tables and as points of curves.

use figures::{digits, factor, grouped, seconds, share, si};
use pages::{PageTable, Series, is_sound};
use serde_json::{Value, json};

/// A value by its unit: a `count`, `ranges` of numbers, `ns`, a `share` of one, `digits`, three of them; what else is
/// a unit stands behind it, with a prefix. Without one it is as it stands there.
fn shown(value: &Value, unit: &str) -> String {
    match (unit, value.as_f64()) {
        ("factor", None) if value.is_array() => texts_by(list(value, ""), "factor").join(" to "),
        ("factor", Some(number)) => factor(number),
        ("ranges", _) => ranges(value.as_array().map_or(&[], Vec::as_slice)),
        ("", _) | (_, None) => plain(value),
        ("count", Some(number)) => grouped(number as u64),
        ("ns", Some(number)) => seconds(number),
        ("share", Some(number)) => share(number),
        ("digits", Some(number)) => digits(number),
        (unit, Some(number)) => si(number, unit),
    }
}

/// A value in words; nothing of nothing.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(yes) => (if *yes { "yes" } else { "no" }).to_owned(),
        // A whole number has no point, whichever way it was written.
        Value::Number(number) => match number.as_f64() {
            Some(whole) if number.is_f64() && whole.fract() == 0.0 && whole.abs() < 1e15 => format!("{whole:.0}"),
            _ => number.to_string(),
        },
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

/// Each by this unit.
fn texts_by(values: &[Value], unit: &str) -> Vec<String> {
    values.iter().map(|value| shown(value, unit)).collect()
}

/// The same value of each row.
pub fn texts_of(rows: &[Value], path: &str) -> Vec<String> {
    rows.iter().map(|row| text(row, path)).collect()
}

/// A table of rows. Of each column stands in `columns`, up to a semicolon: its head, a colon, where its value is in a
/// row, and the unit. Those that nothing stands in are left out.
pub fn table<'a>(caption: &str, columns: &str, rows: impl IntoIterator<Item = &'a Value>) -> PageTable {
    let rows: Vec<&Value> = rows.into_iter().collect();
    let columns = pairs(columns).map(|(head, place)| (head, place.split_once(' ').unwrap_or((place, ""))));
    let columns = columns.map(|(head, (place, unit))| (head, format!("/{place}"), unit));
    let stands = |path: &str| rows.iter().any(|row| row.pointer(path).is_some_and(|value| !value.is_null()));
    let kept: Vec<(&str, String, &str)> = columns.filter(|(_, path, _)| stands(path)).collect();
    let cell = |row: &Value, (_, path, unit): &(&str, String, &str)| match row.pointer(path) {
        Some(value) if !shown(value, unit).is_empty() => shown(value, unit),
        _ => "-".to_owned(),
    };
    let row = |row: &&Value| kept.iter().map(|column| cell(row, column)).collect::<Vec<_>>();
    PageTable::new(caption, &kept.iter().map(|(head, ..)| *head).collect::<Vec<_>>()).with(rows.iter().map(row))
}

/// The same of one row, column by column below each other.
pub fn values(caption: &str, columns: &str, row: &Value) -> PageTable {
    let table = table("", columns, [row]);
    let cells = table.rows.into_iter().flatten();
    PageTable::pairs(caption, ["", "value"], table.heads.into_iter().zip(cells).filter(|(_, cell)| cell != "-"))
}

/// A table of distributions by their names, of those that have samples.
pub fn distributions<'a>(caption: &str, columns: &str, all: impl Iterator<Item = (&'a str, &'a Value)>) -> PageTable {
    let some = all.filter(|(_, of)| number(of, "/samples").is_some_and(|samples| samples > 0.0));
    let rows: Vec<Value> = some.map(|(name, of)| json!({ "name": name, "of": sound(of) })).collect();
    table(caption, columns, &rows)
}

/// A distribution without the percentiles (`p999`, `p999_ns`) that say as much of chance as of what was measured.
pub fn sound(of: &Value) -> Value {
    sound_of(of, number(of, "/samples").unwrap_or(0.0))
}

/// The same of so many samples; in rows of sweeps they are called `lat99_ns`.
pub fn sound_of(of: &Value, samples: f64) -> Value {
    let mut of = of.clone();
    let digits = |key: &str| key.strip_prefix("lat").or_else(|| key.strip_prefix('p')).map(str::to_owned);
    let share = |key: &str| format!("0.{}", digits(key)?.trim_end_matches("_ns")).parse::<f64>().ok();
    let is_sound = |key: &str| share(key).is_none_or(|share| is_sound(share, samples));
    of.as_object_mut().into_iter().for_each(|of| of.retain(|key, _| is_sound(key)));
    of
}

/// Names, and what stands behind them: `name: place`, with semicolons between them.
pub fn pairs(all: &str) -> impl Iterator<Item = (&str, &str)> {
    all.split("; ").filter_map(|one| one.split_once(": "))
}

/// What stands at these places, by name.
pub fn at<'a>(whole: &'a Value, places: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    pairs(places).filter_map(|(name, place)| Some((name, whole.pointer(&format!("/{place}"))?)))
}

/// Numbers that follow each other, as `0-3,8-11`.
pub fn ranges(numbers: &[Value]) -> String {
    let numbers: Vec<u64> = numbers.iter().filter_map(Value::as_u64).collect();
    let run = |run: &[u64]| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u64::to_string).collect(),
    };
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    runs.map(run).collect::<Vec<_>>().join(",")
}

/// Names and values of an object, those of objects within it behind a name; what is empty is left out.
pub fn object(caption: &str, whole: &Value, path: &str) -> PageTable {
    fn put(pairs: &mut Vec<(String, String)>, before: &str, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            // Times are told as such, and counts; a seed is given again as it is.
            let usual = if value.is_u64() && name != "seed" { "count" } else { "" };
            let (name, unit) = name.strip_suffix("_ns").map_or((&**name, usual), |name| (name, "ns"));
            // Names in capitals, as those of grpc-status, are such as they stand.
            let is_ours = name.bytes().any(|byte| byte.is_ascii_lowercase());
            let name = if is_ours { name.replace('_', " ") } else { name.to_owned() };
            let name = format!("{before}{name}");
            match value {
                Value::Object(_) => put(pairs, &format!("{name}, "), value),
                value => pairs.extend(Some((name, shown(value, unit))).filter(|(_, text)| !text.is_empty())),
            }
        }
    }
    let mut pairs = Vec::new();
    put(&mut pairs, "", whole.pointer(path).unwrap_or(&Value::Null));
    PageTable::pairs(caption, ["", "value"], pairs)
}

/// What was expected, what was measured, and whether it was met; `missed` if not, and nothing of what does not count.
pub fn expected(caption: &str, expectations: &[Value], name: &str, missed: &str) -> PageTable {
    let met = |one: &Value| match &one["met"] {
        Value::Bool(true) => "met",
        Value::Null => "does not count",
        _ => missed,
    };
    let measured = |one: &Value| match (one["told"].as_str(), &one["measured"]) {
        (Some(told), _) => told.to_owned(),
        (None, Value::Null) => "not measured".to_owned(),
        (None, value) => shown(value, if one["is_time"] == true { "ns" } else { "digits" }),
    };
    let rows = expectations.iter().map(|one| vec![text(one, name), measured(one)]);
    PageTable::new(caption, &["", "measured"]).with(rows).judged(expectations.iter().map(|one| met(one).to_owned()))
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
    Series::new(name, rows.into_iter().filter_map(|row| Some((number(row, x)?, number(row, y)?, counts(row)))))
}

/// For each group of rows a curve of each of these values, whose names stand before the group's.
pub fn curves(
    rows: &[Value],
    group: impl Fn(&Value) -> String,
    x: &str,
    values: &[(&str, &str)],
    counts: impl Fn(&Value) -> bool,
) -> Vec<Series> {
    let mut groups: Vec<(String, Vec<&Value>)> = Vec::new();
    for row in rows {
        let name = group(row);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    let of = |(group, rows): &(String, Vec<&Value>)| {
        let one = |(name, y): &(&str, &str)| curve(format!("{name}{group}"), rows.iter().copied(), [x, y], &counts);
        values.iter().map(one).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of).collect()
}
