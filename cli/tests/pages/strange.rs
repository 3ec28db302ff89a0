//! Results as nobody measured them: each text in them a name that means no good, each number beyond
//! what there is.

use pages::Page;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Quotes, markup, letters from right to left, and a mark that would turn what follows.
pub const BAD: &str = "a \"b\" 'c' </td><script>alert(1)</script> & שלום עולם \u{202e}txt";

/// What is set in the place of the value that stands there, if anything.
pub type Change = dyn Fn(&str, &Value) -> Option<Value>;

/// Each text is a bad name.
pub fn renamed(_: &str, value: &Value) -> Option<Value> {
    value.is_string().then(|| json!(BAD))
}

/// Numbers that no machine measures in the place of numbers, and nothing in the place of anything. The machine is as it
/// was: of another form it is refused.
pub fn others() -> [Box<Change>; 3] {
    let is_measured = |place: &str| !place.starts_with("/environment") && !place.starts_with("/machine");
    let number = |other: Value| -> Box<Change> {
        Box::new(move |place, value| (is_measured(place) && value.is_number()).then(|| other.clone()))
    };
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    let nothing: Box<Change> =
        Box::new(move |place, value| (is_measured(place) && is_plain(value)).then_some(Value::Null));
    [number(json!(u64::MAX)), number(json!(-1e300)), nothing]
}

/// The page of a result, by whoever fills it; none where it is read no longer.
pub fn page_of(result: &Value) -> Option<Page> {
    match result["kind"].as_str() {
        Some("demo") => Some(demo::report::page(&serde_json::from_value(result.clone()).ok()?)),
        Some("experiment") => Some(experiments::report::page(&serde_json::from_value(result.clone()).ok()?)),
        _ => results::page_of(result).ok(),
    }
}

/// The result changed in all places where it is still read when it is: what says which result it is
/// stays as it is.
pub fn changed(result: &Value, change: &Change) -> Value {
    let mut places = BTreeSet::new();
    let _ = with(result, "", None, change, &mut places);
    let places: Vec<String> = places.into_iter().collect();
    in_all(result.clone(), &places, change)
}

/// Changed in all of these places; where it is read no longer, in those of each half of them: the few that are
/// refused are found in some tens of readings, where one by one there would be hundreds.
fn in_all(kept: Value, places: &[String], change: &Change) -> Value {
    let all = with(&kept, "", Some(places), change, &mut BTreeSet::new());
    if page_of(&all).is_some() {
        return all;
    }
    match places.split_at(places.len() / 2) {
        ([], _) => kept,
        (first, last) => in_all(in_all(kept, first, change), last, change),
    }
}

/// The same at these places, which are sorted, or at all, of which those that were changed are noted.
fn with(value: &Value, at: &str, only: Option<&[String]>, change: &Change, places: &mut BTreeSet<String>) -> Value {
    let is_chosen = || only.is_none_or(|only| only.binary_search_by(|one| one.as_str().cmp(at)).is_ok());
    match value {
        _ if at == "/kind" || at == "/schema" => value.clone(),
        _ if is_chosen() && change(at, value).is_some() => {
            places.insert(at.to_owned());
            change(at, value).unwrap_or_default()
        }
        Value::Object(all) => {
            let one = |(name, value): (&String, &Value)| {
                (name.clone(), with(value, &format!("{at}/{name}"), only, change, places))
            };
            Value::Object(all.iter().map(one).collect())
        }
        Value::Array(all) => all.iter().map(|value| with(value, at, only, change, places)).collect(),
        value => value.clone(),
    }
}
