//! Leaves of a document.

use audit::yaml::{Node, Value};

/// The text of a leaf; empty where it is an empty map or list.
pub(crate) fn leaf(node: &Node) -> &str {
    node.text().unwrap_or_default()
}

/// Each leaf below a node: its path, its line, its text. A map or list that is empty is one.
pub(crate) fn leaves(node: &Node, place: &str) -> Vec<(String, usize, String)> {
    let (mut found, mut open) = (Vec::new(), vec![(place.to_owned(), node)]);
    while let Some((path, node)) = open.pop() {
        match &node.value {
            Value::Map(map) if !map.is_empty() => {
                let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                open.extend(map.iter().rev().map(|(key, node)| (below(key), node)));
            }
            Value::List(list) if !list.is_empty() => {
                open.extend(list.iter().rev().map(|node| (format!("{path}[]"), node)));
            }
            _ => found.push((path, node.line, leaf(node).to_owned())),
        }
    }
    found
}

/// A size of pages in KiB, as `2M`.
pub(crate) fn kib(size: &str) -> Option<u64> {
    let unit = match size.trim_start_matches(|letter: char| letter.is_ascii_digit()) {
        "k" | "K" => 1,
        "M" => 1 << 10,
        "G" => 1 << 20,
        _ => return None,
    };
    size.get(..size.len() - 1)?.parse::<u64>().ok()?.checked_mul(unit)
}
