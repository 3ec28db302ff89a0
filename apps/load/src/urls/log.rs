//! A server's access log as a list of requests: the common and the combined form, with or without a
//! virtual host before them, nginx's `log_format` of any order that has `"$request"`, and logs of
//! JSON objects (nginx's `escape=json`, Caddy's).

use super::Request;
use super::recorded::Recorded;
use super::{UrlsError, Weighted};
use serde_json::Value;

/// A log's form shows within so many lines.
const LOOKED_AT: usize = 20;

/// Methods without content: a log has none.
const WITHOUT_CONTENT: &[&str] = &["GET", "HEAD", "OPTIONS"];

/// Others of RFC 9110 and RFC 5789, which may have it.
const WITH_CONTENT: &[&str] = &["POST", "PUT", "PATCH", "DELETE"];

/// Whether a text is an access log: one of its first lines has what no list of requests has.
#[must_use]
pub fn is_log(text: &str) -> bool {
    lines(text).take(LOOKED_AT).any(|(_, line)| match line.strip_prefix('{') {
        Some(_) => object(line).is_some(),
        None => quoted(line).iter().any(|text| text.rsplit_once(' ').is_some_and(|(_, last)| is_version(last))),
    })
}

/// Lines with their numbers from 1; blank ones and comments are none.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Its requests, and what is said of them.
///
/// # Errors
/// If no line has one.
pub fn read(text: &str, like: &Request) -> Result<(Vec<Weighted<Request>>, String), UrlsError> {
    let mut all = Recorded::new(like, ("line", "lines"));
    for (number, line) in lines(text) {
        all.take(number, request(line, like));
    }
    all.finish()
}

/// The request of a line; else why there is none, as the beginning of "…: 3".
fn request(line: &str, like: &Request) -> Result<Request, String> {
    let (method, target) = if line.starts_with('{') {
        object(line).ok_or("no request in it")?
    } else {
        let texts = quoted(line);
        let of = |text: &&String| text.split(' ').next().is_some_and(is_method) && text.contains(' ');
        let text = texts.iter().find(of).ok_or("no request in it")?;
        let (method, rest) = text.split_once(' ').ok_or("no request in it")?;
        let target = match rest.rsplit_once(' ') {
            Some((target, version)) if is_version(version) => target,
            // As of HTTP/0.9.
            _ => rest,
        };
        (method.to_owned(), target.to_owned())
    };
    if WITH_CONTENT.contains(&method.as_str()) {
        return Err(format!("{method}, whose content no log has"));
    }
    if !WITHOUT_CONTENT.contains(&method.as_str()) {
        return Err("a method other than GET, HEAD and OPTIONS".to_owned());
    }
    if !target.starts_with('/') {
        return Err("a target that is no path".to_owned());
    }
    // A fragment is the client's own (RFC 9110 §4.2.5).
    let path = target.split('#').next().unwrap_or_default().to_owned();
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a path with bytes that none may have".to_owned());
    }
    Ok(Request { method, path, body: Vec::new(), ..like.clone() })
}

/// The texts in double quotes, without nginx's escapes (`\xHH`, ngx_http_log_escape) and Apache's (`\"`).
fn quoted(line: &str) -> Vec<String> {
    let (mut texts, mut open, mut chars) = (Vec::new(), None::<String>, line.chars());
    while let Some(char) = chars.next() {
        match (&mut open, char) {
            (None, '"') => open = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => texts.extend(open.take()),
            (Some(text), '\\') => match chars.next() {
                Some('x') => {
                    let digits: String = chars.by_ref().take(2).collect();
                    let byte = u8::from_str_radix(&digits, 16).unwrap_or_default();
                    text.push(char::from(byte));
                }
                Some(other) => text.push(other),
                None => {}
            },
            (Some(text), char) => text.push(char),
        }
    }
    texts
}

/// Method and target of a line that is a JSON object.
fn object(line: &str) -> Option<(String, String)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    match value.get("request") {
        // nginx's $request.
        Some(Value::String(request)) => {
            let (method, rest) = request.split_once(' ')?;
            let target = rest.rsplit_once(' ').map_or(rest, |(target, _)| target);
            Some((method.to_owned(), target.to_owned()))
        }
        // Caddy's.
        Some(request @ Value::Object(_)) => Some((text(request, "method")?, text(request, "uri")?)),
        _ => {
            let method = text(&value, "request_method").or_else(|| text(&value, "method"))?;
            let target = text(&value, "request_uri").or_else(|| text(&value, "uri"))?;
            let query = text(&value, "args").filter(|args| !args.is_empty() && args != "-" && !target.contains('?'));
            Some((method, query.map_or_else(|| target.clone(), |args| format!("{target}?{args}"))))
        }
    }
}

fn is_method(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-' || byte == b'_')
}

fn is_version(word: &str) -> bool {
    word.strip_prefix("HTTP/").is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
}
