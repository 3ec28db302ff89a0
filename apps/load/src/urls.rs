//! A list of requests as a file: one in each line.

use crate::plan::{REQUESTS_LIMIT, Request, Weighted};
use core::fmt;

/// Reads requests, one in each line: `[WEIGHT] [METHOD] PATH`, separated by
/// blanks. The weight is a whole number (default 1); the method, in capitals,
/// the path's host, headers and body are those of `like` where the line does
/// not say otherwise. A path starts with `/`; a URL (`http://host/path`) sets
/// the Host field, too, but not the address that is connected to. Empty lines
/// and those that start with `#` are skipped.
///
/// ```text
/// # nine in ten
/// 9 /index.html
/// 1 HEAD /index.html
/// http://www.example.org/a?b=c
/// ```
///
/// # Errors
/// If a line cannot be read, or there are none, or more than 65,536.
pub fn parse_requests(text: &str, like: &Request) -> Result<Vec<Weighted<Request>>, UrlsError> {
    let mut requests = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if requests.len() == REQUESTS_LIMIT {
            return Err(UrlsError { line: n + 1, why: "there may be 65,536 different requests" });
        }
        requests.push(request(line, like).map_err(|why| UrlsError { line: n + 1, why })?);
    }
    if requests.is_empty() { Err(UrlsError { line: 1, why: "there is no request" }) } else { Ok(requests) }
}

const _: () = assert!(REQUESTS_LIMIT == 65_536, "the error above says how much it is");

fn request(line: &str, like: &Request) -> Result<Weighted<Request>, &'static str> {
    let mut words = line.split_ascii_whitespace().peekable();
    let mut item = like.clone();
    let mut weight = 1;
    if let Some(word) = words.next_if(|word| word.bytes().all(|b| b.is_ascii_digit())) {
        weight = word.parse().map_err(|_| "the weight is too large")?;
    }
    if let Some(word) = words.next_if(|word| word.bytes().all(|b| b.is_ascii_uppercase())) {
        item.method = word.to_owned();
    }
    let target = words.next().ok_or("there is no path")?;
    if words.next().is_some() {
        return Err("write a weight, a method and a path at most");
    }
    if let Some(rest) = target.strip_prefix("http://") {
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        item.host = host.to_owned();
        // RFC 9112 §3.2.1: an empty path is asked for as "/".
        item.path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    } else if target.starts_with('/') {
        item.path = target.to_owned();
    } else {
        return Err("a path starts with / or http://");
    }
    // A fragment is the client's own (RFC 9110 §4.2.5).
    item.path.truncate(item.path.find('#').unwrap_or(item.path.len()));
    item.encode(false).map_err(|why| why.reason())?;
    Ok(Weighted { weight, item })
}

/// Why a list of requests cannot be read: the user's to mend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UrlsError {
    /// The line, counted from 1.
    pub line: usize,
    why: &'static str,
}

impl fmt::Display for UrlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl core::error::Error for UrlsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_request() {
        let mut like = Request::get("10.0.0.2:8080", "/");
        like.headers = vec![("Accept".into(), "*/*".into())];
        let text = "# a list\n\n/a\r\n  3 /b?c=d\n0 HEAD /e#part\nPOST http://www.example.org\n7 http://h:81?q\n";
        let all = parse_requests(text, &like).unwrap();
        let seen: Vec<_> = all
            .iter()
            .map(|Weighted { weight, item }| (*weight, item.method.as_str(), item.host.as_str(), item.path.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (1, "GET", "10.0.0.2:8080", "/a"),
                (3, "GET", "10.0.0.2:8080", "/b?c=d"),
                (0, "HEAD", "10.0.0.2:8080", "/e"),
                (1, "POST", "www.example.org", "/"),
                (7, "GET", "h:81", "/?q"),
            ]
        );
        assert!(all.iter().all(|request| request.item.headers == like.headers));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_line() {
        let like = Request::get("h", "/");
        for (text, line) in [
            ("", 1),
            ("# none\n", 1),
            ("/a\nb", 2),
            ("/a\n\n1 2 /c", 3),
            ("5", 1),
            ("GET", 1),
            ("99999999999 /a", 1),
            ("CONNECT /a", 1),
            ("http:///a", 1),
            ("/\u{e4}", 1),
            ("ftp://h/a", 1),
        ] {
            let error = parse_requests(text, &like).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
        }
        assert_eq!(parse_requests(&"/a\n".repeat(65_537), &like).unwrap_err().line, 65_537);
    }
}
