//! Objects as YAML: blocks, and texts in quotes wherever another reader might take them for something else.

use serde_json::Value;

/// Words that are no texts where they stand without quotes, by one version of YAML or the other.
const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Objects as documents of YAML.
#[must_use]
pub fn yaml(objects: &[&Value]) -> String {
    let mut out = String::new();
    for (n, object) in objects.iter().enumerate() {
        if n > 0 {
            out += "---\n";
        }
        write(object, 0, &mut out);
    }
    out
}

/// Writes what stands in a block of its own, at so many blanks.
fn write(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, below) in map {
                indent(depth, out);
                *out += &text(key);
                out.push(':');
                write_below(below, depth + 2, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for below in list {
                indent(depth, out);
                out.push('-');
                if is_block(below) {
                    // Its first line stands beside the hyphen.
                    let mut block = String::new();
                    write(below, depth + 2, &mut block);
                    out.push(' ');
                    *out += block.get(depth + 2..).unwrap_or_default();
                } else {
                    write_below(below, depth + 2, out);
                }
            }
        }
        scalar => {
            indent(depth, out);
            *out += &inline(scalar);
            out.push('\n');
        }
    }
}

/// Writes what belongs to a key or a hyphen: beside it, or below.
fn write_below(value: &Value, depth: usize, out: &mut String) {
    if is_block(value) {
        out.push('\n');
        write(value, depth, out);
    } else {
        out.push(' ');
        *out += &inline(value);
        out.push('\n');
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(core::iter::repeat_n(' ', depth));
}

/// What takes no lines of its own.
fn inline(value: &Value) -> String {
    match value {
        Value::String(words) => text(words),
        other => other.to_string(),
    }
}

/// A text: as it is where nobody takes it for anything else, otherwise in double quotes.
fn text(words: &str) -> String {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let begins = words.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/');
    if begins && words.bytes().all(letter) && !WORDS.contains(&words.to_ascii_lowercase().as_str()) {
        return words.to_owned();
    }
    let mut out = String::from("\"");
    for letter in words.chars() {
        match letter {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            // What is not printable (YAML 1.2.2 section 5.1), or ends a line for some.
            '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                out += &format!("\\u{:04x}", u32::from(letter));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
