//! A browser's archive of requests (HTTP Archive, HAR 1.2) as a list of them.

use super::recorded::Recorded;
use super::{Request, UrlsError, Weighted};
use serde::Deserialize;

/// Headers that belong to the connection on which a request was sent (RFC 9110 §7.6.1), to its
/// length, or to HTTP/2: this one has its own.
const NOT_SENT: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Asked,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Pair>,
    post_data: Option<Content>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Content {
    text: Option<String>,
}

/// Whether a text is one object that has what only an archive has: its `log` with `entries`.
#[must_use]
pub fn is_har(text: &str) -> bool {
    let Some(rest) = text.trim_start().strip_prefix('{') else { return false };
    // An object on one line may be a request of a list.
    rest.trim_start().starts_with("\"log\"") && text.contains("\"entries\"")
}

/// Its requests of the servers `like.host` and `named`, and what is said of them.
///
/// # Errors
/// If it is none, or has no request of them.
pub fn read(text: &str, like: &Request, named: &str) -> Result<(Vec<Weighted<Request>>, String), UrlsError> {
    let archive: Archive = serde_json::from_str(text)
        .map_err(|why| UrlsError { line: why.line().max(1), why: format!("it begins as an HTTP archive: {why}") })?;
    let mut all = Recorded::new(like, ("entry", "entries"));
    for (at, entry) in archive.log.entries.into_iter().enumerate() {
        all.take(at + 1, request(entry.request, like, named));
    }
    all.finish()
}

/// The request of an entry; else why there is none, as the beginning of "…: 3".
fn request(asked: Asked, like: &Request, named: &str) -> Result<Request, String> {
    let (scheme, rest) = asked.url.split_once("://").ok_or("of no server")?;
    let usual = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return Err(format!("of {}", scheme.chars().take(20).collect::<String>())),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let same = |host: &str| {
        let plain = |host: &str| host.strip_suffix(usual).unwrap_or(host).to_ascii_lowercase();
        plain(authority) == plain(host)
    };
    if !same(&like.host) && !same(named) {
        let host: String = authority.chars().take(100).collect();
        return Err(format!("of {host} (--header 'Host: {host}' takes these)"));
    }
    let body = match asked.post_data {
        None => Vec::new(),
        Some(Content { text: Some(text) }) => text.into_bytes(),
        Some(Content { text: None }) => return Err("content that was not recorded".to_owned()),
    };
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut item = Request { method: asked.method, path, body, ..like.clone() };
    for Pair { name, value } in asked.headers {
        let own = |other: &str| other.eq_ignore_ascii_case(&name);
        // What the command line says wins.
        if !name.starts_with(':') && !NOT_SENT.iter().copied().any(own) && !like.headers.iter().any(|(of, _)| own(of)) {
            item.headers.push((name, value));
        }
    }
    Ok(item)
}
