//! A list of requests as a file.

use crate::checks::Check;
use crate::pattern::expand;
use crate::plan::{Expect, REQUESTS_LIMIT, Request, Weighted};
use core::fmt;
use std::sync::Arc;

mod har;
mod json;
mod log;
mod recorded;

pub use log::is_log;

/// Requests of a file.
#[derive(Clone, Debug)]
pub struct Requests {
    /// Each with its weight.
    pub list: Vec<Weighted<Request>>,
    /// What was taken of a record and what was left out, for the user; none of a list.
    pub told: Option<String>,
}

/// Reads requests of a list, of a server's access log, or of a browser's archive (HAR).
///
/// Of a log, GET, HEAD and OPTIONS are taken, for it has no content of others; of an archive, what
/// was sent to `like.host` or to `named`, with headers and content as they were, but for those of
/// the connection. What is alike is one request, with its number as its weight. `secured`
/// and `read` as for a list ([`parse_list`]).
///
/// # Errors
/// If a list has a line that cannot be read, or nothing can be taken of a record, or a list has more
/// than 65,536 requests.
pub fn parse_requests(
    text: &str,
    (like, named): (&Request, &str),
    secured: bool,
    read: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<Requests, UrlsError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (list, told) = match () {
        () if har::is_har(text) => har::read(text, like, named).map(|(list, told)| (list, Some(told)))?,
        () if log::is_log(text) => log::read(text, like).map(|(list, told)| (list, Some(told)))?,
        () => (parse_list(text, like, secured, read)?, None),
    };
    Ok(Requests { list, told })
}

/// Reads requests of a list. A line is one, as `[WEIGHT] [METHOD] TARGET`, separated by
/// blanks: the weight a whole number (default 1), the target a path or a URL of
/// the same server, in which ranges of numbers stand for as many paths
/// ([`expand`]). What a line leaves out is as in `like`.
///
/// Below it may stand what Vegeta's targets have: fields, as `NAME: VALUE`, and
/// the content, as `@FILE`; a blank line ends it. Or a line is a JSON object, as
/// Vegeta's are (`-format=json`), with members of our own:
///
/// | member | what |
/// | --- | --- |
/// | `method`, `url` | as above |
/// | `header` | an object: each name with its value, or a list of values |
/// | `body` | the content, in Base64 |
/// | `text` | the content, as it is |
/// | `weight` | as above |
/// | `want` | an object of what the answer is to be like, see below |
///
/// `want` has `status`, `length`, `header` (`NAME` or `NAME: VALUE`, or a list of
/// these), `body`, `regex` and `sha256`.
///
/// Empty lines and those that start with `#` are skipped. `secured` is whether
/// the server is asked over HTTPS; `read` reads the file that `@` names.
///
/// # Errors
/// If a line cannot be read, or there are none, or more than 65,536.
pub fn parse_list(
    text: &str,
    like: &Request,
    secured: bool,
    read: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<Weighted<Request>>, UrlsError> {
    let mut all = All { requests: Vec::new(), open: None };
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        let fail = |why: String| UrlsError { line: n + 1, why };
        if line.starts_with('#') {
            continue;
        }
        if line.is_empty() {
            all.open = None;
        } else if line.starts_with('{') {
            all.open = None;
            let wanted = json::request(line, like, secured).map_err(fail)?;
            all.add(wanted).map_err(fail)?;
        } else if let Some(file) = line.strip_prefix('@') {
            let content = if all.open.is_some() { read(file) } else { Err("no request stands above".to_owned()) };
            let content = content.map_err(fail)?;
            all.change(|request| request.body.clone_from(&content)).map_err(fail)?;
        } else if let Some((name, value)) = field(line).filter(|_| all.open.is_some()) {
            all.change(|request| put_field(request, name, value)).map_err(fail)?;
        } else {
            let wanted = request(line, like, secured).map_err(fail)?;
            all.add(wanted).map_err(fail)?;
        }
    }
    if all.requests.is_empty() {
        return Err(UrlsError { line: 1, why: "there is no request".to_owned() });
    }
    Ok(all.requests)
}

/// The requests so far.
struct All {
    requests: Vec<Weighted<Request>>,
    /// Where those begin that the line above brought, which further lines may change.
    open: Option<usize>,
}

impl All {
    /// Adds a request for each path that its own stands for.
    fn add(&mut self, one: Weighted<Request>) -> Result<(), String> {
        let paths = expand(&one.item.path)?;
        if self.requests.len() + paths.len() > REQUESTS_LIMIT {
            return Err(format!("there may be {REQUESTS_LIMIT} different requests"));
        }
        let first = self.requests.len();
        for path in paths {
            let item = Request { path, ..one.item.clone() };
            item.encode(false).map_err(|why| why.to_string())?;
            self.requests.push(Weighted { weight: one.weight, item });
        }
        self.open = Some(first);
        Ok(())
    }

    /// Changes what the line above brought.
    fn change(&mut self, change: impl Fn(&mut Request)) -> Result<(), String> {
        let first = self.open.unwrap_or(self.requests.len());
        for request in self.requests.get_mut(first..).unwrap_or_default() {
            change(&mut request.item);
            request.item.encode(false).map_err(|why| why.to_string())?;
        }
        Ok(())
    }
}

/// `NAME: VALUE`; the colon of a URL is none.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    (is_name && !value.starts_with("//")).then(|| (name, value.trim()))
}

/// A request's field of this name is set anew; further ones of the file are added.
fn put_field(request: &mut Request, name: &str, value: &str) {
    if name.eq_ignore_ascii_case("Host") {
        value.clone_into(&mut request.host);
    } else {
        request.headers.push((name.to_owned(), value.to_owned()));
    }
}

fn request(line: &str, like: &Request, secured: bool) -> Result<Weighted<Request>, String> {
    let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
    let target = words.pop().unwrap_or_default();
    let weight = match words.first().and_then(|word| word.parse::<u32>().ok()) {
        Some(weight) => {
            words.remove(0);
            positive(weight)?
        }
        None => 1,
    };
    let mut item = like.clone();
    if let Some(method) = words.pop() {
        method.clone_into(&mut item.method);
    }
    if !words.is_empty() {
        return Err("write WEIGHT METHOD PATH, the first two if needed".to_owned());
    }
    item.path = path(target, &like.host, secured)?;
    Ok(Weighted { weight, item })
}

fn positive(weight: u32) -> Result<u32, String> {
    if weight == 0 { Err("a weight is a whole number above 0".to_owned()) } else { Ok(weight) }
}

/// The path of a target: it is one, or a URL of the same server.
fn path(target: &str, host: &str, secured: bool) -> Result<String, String> {
    let path = match target.split_once("://") {
        Some(("http" | "https", _)) if target.starts_with("https") != secured => {
            let (other, ours) = if secured { ("HTTP", "HTTPS") } else { ("HTTPS", "HTTP") };
            return Err(format!("{target} is asked over {other}, and the server over {ours}"));
        }
        Some(("http" | "https", rest)) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            if !authority.eq_ignore_ascii_case(host) {
                return Err(format!("{authority} is another server than {host}"));
            }
            path
        }
        _ if target.starts_with('/') => target,
        _ => return Err(format!("'{target}' is neither a path nor a URL")),
    };
    // A fragment is the client's own (RFC 9110 §4.2.5); an empty path is asked for as "/" (RFC 9112 §3.2.1).
    let path = path.split('#').next().unwrap_or_default();
    Ok(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
}

/// Why a list of requests cannot be read: the user's to mend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UrlsError {
    /// The line, counted from 1.
    pub line: usize,
    why: String,
}

impl fmt::Display for UrlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl core::error::Error for UrlsError {}

#[cfg(test)]
mod tests;
