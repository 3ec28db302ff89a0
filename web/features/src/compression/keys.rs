//! Keys of compression in a site.

use crate::key::{KeyError, KeyPlace, KeyValue, SiteKey, SiteTable, SiteWriter, key, switch};

pub(super) const KEYS: &[SiteKey] = &[
    key("compression", KeyPlace::ALL, KeyValue::Table(KeyPlace::Compression), "Which answers are compressed, and how")
        .by(write),
    within("gzip", KeyValue::Switch, "By gzip"),
    within("brotli", KeyValue::Switch, "By Brotli"),
    within("zstd", KeyValue::Switch, "By Zstandard"),
    within("level", KeyValue::Number(1, 9), "How hard it is tried, of each of them"),
    within("min-length", KeyValue::Text, "What is shorter is sent as it is: bytes"),
    within("types", KeyValue::Texts, "Media types beside text/html; * is all [default: texts]"),
    within(
        "precompressed",
        KeyValue::Switch,
        "Files that were compressed before (.gz, .br, .zst beside them) are sent",
    ),
];

const fn within(name: &'static str, value: KeyValue, about: &'static str) -> SiteKey {
    key(name, &[KeyPlace::Compression], value, about)
}

/// What is compressed where nothing else is said.
const TEXTS: [&str; 14] = [
    "text/css",
    "text/javascript",
    "text/plain",
    "text/markdown",
    "text/csv",
    "text/calendar",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/xml",
    "application/atom+xml",
    "application/rss+xml",
    "application/wasm",
    "image/svg+xml",
];

/// `compression`
fn write(site: &dyn SiteTable, out: &mut dyn SiteWriter) -> Result<(), KeyError> {
    let Some((at, rules)) = site.table("compression") else { return Ok(()) };
    let at = (at, "compression");
    let is_true = |key: &str| rules.switch(key).is_some_and(|(_, on)| on);
    let mut any = is_true("precompressed");
    for coding in ["gzip", "brotli", "zstd"] {
        if let Some((_, on)) = rules.switch(coding) {
            any |= on;
            out.put(at, coding, &[switch(on)]);
        }
        if let Some((_, on)) = rules.switch("precompressed") {
            out.put(at, &format!("{coding}_static"), &[switch(on)]);
        }
        if !is_true(coding) {
            continue;
        }
        if let Some((_, level)) = rules.text("level") {
            out.put(at, &format!("{coding}_comp_level"), &[&level]);
        }
        if let Some((_, length)) = rules.text("min-length") {
            out.put(at, &format!("{coding}_min_length"), &[&length]);
        }
        let types = rules.texts("types");
        let own: Vec<&str> = types.iter().map(|(_, media_type)| media_type.as_str()).collect();
        out.put(at, &format!("{coding}_types"), if own.is_empty() { &TEXTS } else { &own });
    }
    if any {
        // Caches are to know that others might get another coding.
        out.put(at, "gzip_vary", &["on"]);
    }
    Ok(())
}
