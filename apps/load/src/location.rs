//! Where a redirect leads (RFC 9110 section 10.2.2, RFC 3986 section 5).

/// The longest target that is followed, in bytes.
const TARGET_LIMIT: usize = 8_192;

/// Where it leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Leads {
    /// To this target of the same server.
    Here(Vec<u8>),
    /// To another server, or the same over another protocol or port.
    Elsewhere,
    /// It is no reference to a URL, or too long.
    Nowhere,
}

/// Resolves the Location of an answer by `host`, with its port where it is not the usual one, to the
/// request for `target`.
pub fn resolve(location: &[u8], target: &[u8], host: &str, secured: bool) -> Leads {
    // A fragment is the client's own.
    let location = location.split(|byte| *byte == b'#').next().unwrap_or_default();
    if !location.iter().all(u8::is_ascii_graphic) {
        return Leads::Nowhere;
    }
    let rest = match scheme(location) {
        Some((scheme, rest)) => {
            let ours = scheme.eq_ignore_ascii_case(if secured { b"https" } else { b"http" });
            match (ours, rest.strip_prefix(b"//")) {
                (true, Some(rest)) => Some(rest),
                (true, None) => return Leads::Nowhere,
                (false, _) => return Leads::Elsewhere,
            }
        }
        None => location.strip_prefix(b"//"),
    };
    let reference = match rest {
        None => location,
        Some(rest) => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            if !is_same(authority, host.as_bytes(), secured) {
                return Leads::Elsewhere;
            }
            if path.is_empty() { b"/" } else { path }
        }
    };
    let mut led = Vec::with_capacity(reference.len() + target.len());
    let (asked, _) = split_query(target);
    let (path, query) = split_query(reference);
    match path.first() {
        Some(b'/') => without_dots(path, &mut led),
        // A query after an authority stands at its root; one alone belongs to what was asked for.
        None if rest.is_some() => led.push(b'/'),
        None => led.extend_from_slice(asked),
        Some(_) => {
            let folder = asked.iter().rposition(|byte| *byte == b'/').map_or(0, |last| last + 1);
            let merged = [asked.get(..folder).unwrap_or(b"/"), path].concat();
            without_dots(&merged, &mut led);
        }
    }
    if path.is_empty() && query.is_empty() && rest.is_none() {
        led.extend_from_slice(split_query(target).1);
    }
    led.extend_from_slice(query);
    if led.len() > TARGET_LIMIT { Leads::Nowhere } else { Leads::Here(led) }
}

/// RFC 3986 section 3.1: what stands before the first colon, and behind it.
fn scheme(location: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = location.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(byte)))?;
    let is_one = location.first()?.is_ascii_alphabetic() && location.get(end) == Some(&b':');
    is_one.then(|| Some((location.get(..end)?, location.get(end + 1..)?))).flatten()
}

/// Whether two authorities are one, the usual port said or not.
fn is_same(one: &[u8], other: &[u8], secured: bool) -> bool {
    let usual: &[u8] = if secured { b":443" } else { b":80" };
    let bare = |authority: &[u8]| authority.strip_suffix(usual).unwrap_or(authority).to_ascii_lowercase();
    bare(one) == bare(other)
}

/// Path, and query with its question mark.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    target.split_at(target.iter().position(|byte| *byte == b'?').unwrap_or(target.len()))
}

/// RFC 3986 section 5.2.4, for a path that begins with a slash.
fn without_dots(path: &[u8], out: &mut Vec<u8>) {
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut all = path.get(1..).unwrap_or_default().split(|byte| *byte == b'/').peekable();
    while let Some(segment) = all.next() {
        let last = all.peek().is_none();
        match segment {
            b"." => segments.extend(last.then_some(&b""[..])),
            b".." => {
                segments.pop();
                segments.extend(last.then_some(&b""[..]));
            }
            _ => segments.push(segment),
        }
    }
    if segments.is_empty() {
        out.push(b'/');
    }
    for segment in segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(location: &str) -> Leads {
        resolve(location.as_bytes(), b"/b/c/d;p?q", "a:8080", false)
    }

    #[test]
    fn references_lead_where_the_standard_says() {
        // RFC 3986 section 5.4, as far as targets of one host go.
        for (location, target) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            (";x", "/b/c/;x"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("//A:8080/g", "/g"),
            ("http://a:8080", "/"),
            ("HTTP://a:8080?x", "/?x"),
            ("//a:8080/x//y/", "/x//y/"),
        ] {
            assert_eq!(led(location), Leads::Here(target.into()), "{location}");
        }
        let usual = |location: &str, host: &str, secured| resolve(location.as_bytes(), b"/", host, secured);
        assert_eq!(usual("http://a:80/x", "a", false), Leads::Here(b"/x".into()));
        assert_eq!(usual("https://[fd00::2]/x", "[fd00::2]:443", true), Leads::Here(b"/x".into()));
        assert_eq!(usual("https://a:80/x", "a", true), Leads::Elsewhere);
    }

    #[test]
    fn others_are_not_followed() {
        for location in
            ["//b/", "http://a/", "https://a:8080/", "ftp://a:8080/", "http://a:8080@b/", "javascript:x", "//a:80801/"]
        {
            assert_eq!(led(location), Leads::Elsewhere, "{location}");
        }
        for location in ["http:/x", "/a b", "/\u{e4}", "/x\r\nEvil: y", &format!("/{}", "x".repeat(9_000))] {
            assert_eq!(led(location), Leads::Nowhere, "{location}");
        }
    }
}
