//! `valid_referers`: whether a request comes from a page that may link here.

use crate::program::Referers;

/// A host's name, at most.
const HOST_MAX: usize = 256;

impl Referers {
    /// Whether a Referer is valid: `$invalid_referer` is empty then, and `1` if
    /// not. `matches` tells whether an expression matches.
    pub fn is_valid(&self, referer: Option<&[u8]>, matches: &mut dyn FnMut(u32, &[u8]) -> bool) -> bool {
        if self.hosts.is_empty() && self.expressions.is_empty() && self.host_expressions.is_empty() {
            return true;
        }
        let Some(referer) = referer else { return self.none };
        let Some(rest) = behind_scheme(referer) else { return self.blocked };
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b':')).unwrap_or(rest.len());
        if end > HOST_MAX {
            return false;
        }
        let host = rest[..end].to_ascii_lowercase();
        if let Some(path) = self.path_of(&host) {
            let from = rest[end..].iter().position(|byte| *byte == b'/').map_or(rest.len(), |at| end + at);
            return rest[from..].starts_with(path);
        }
        self.host_expressions.iter().any(|number| matches(*number, &host))
            || self.expressions.iter().any(|number| matches(*number, rest))
    }

    /// What the path is to begin with, if the host is known: by its whole name, by
    /// the longest that ends alike, by the longest that begins alike.
    fn path_of(&self, host: &[u8]) -> Option<&[u8]> {
        let hosts = || self.hosts.iter();
        let whole =
            hosts().find(|known| known.name.strip_prefix(b".").unwrap_or(&known.name).eq_ignore_ascii_case(host));
        let ends = |name: &[u8]| {
            let tail = &host[host.len().checked_sub(name.len())?..];
            tail.eq_ignore_ascii_case(name).then_some(name.len())
        };
        let end = || {
            let fits = |name: &[u8]| match name {
                [b'*', rest @ ..] if rest.starts_with(b".") => ends(rest),
                [b'.', ..] => ends(name),
                _ => None,
            };
            hosts()
                .filter_map(|known| Some((fits(&known.name)?, known)))
                .max_by_key(|(len, _)| *len)
                .map(|(_, known)| known)
        };
        let begins = |name: &[u8]| {
            let start = name.strip_suffix(b"*").filter(|start| start.ends_with(b"."))?;
            let head = host.get(..start.len())?;
            head.eq_ignore_ascii_case(start).then_some(start.len())
        };
        let begin = || {
            hosts()
                .filter_map(|known| Some((begins(&known.name)?, known)))
                .max_by_key(|(len, _)| *len)
                .map(|(_, known)| known)
        };
        whole.or_else(end).or_else(begin).map(|known| &*known.path)
    }
}

/// What follows the scheme, where there is one and a host may follow.
fn behind_scheme(referer: &[u8]) -> Option<&[u8]> {
    let strip = |scheme: &[u8]| {
        let (start, rest) = referer.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    if referer.len() < b"http://i.ru".len() { None } else { strip(b"http://").or_else(|| strip(b"https://")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::RefererHost;

    fn rules() -> Referers {
        let host = |name: &str| {
            let (name, path) = name.find('/').map_or((name, ""), |at| name.split_at(at));
            RefererHost { name: name.as_bytes().into(), path: path.as_bytes().into() }
        };
        Referers {
            none: true,
            blocked: true,
            hosts: ["*.example.com", "example.*", "www.example.org/galleries/", ".both.net"].map(host).into(),
            expressions: vec![1],
            host_expressions: vec![2],
            ..Referers::default()
        }
    }

    /// What nginx 1.22 took as valid, for `none blocked *.example.com example.*
    /// www.example.org/galleries/ .both.net ~\.google\./` and a server that is
    /// called `~^own\d$`.
    const ANSWERS: [(&str, bool); 22] = [
        ("http://a.example.com/", true),
        ("https://A.Example.COM:80/x", true),
        ("http://example.com/", true),
        ("http://example.org/", true),
        ("http://example.org.uk/q", true),
        ("http://www.example.org/galleries/1", true),
        ("http://www.example.org/", false),
        ("http://www.example.org", false),
        ("http://www.example.org:8080/galleries/", true),
        ("http://both.net/", true),
        ("http://x.both.net", true),
        ("http://xboth.net/", false),
        ("http://own1/", true),
        ("http://own1/page", true),
        ("http://other/own1", false),
        ("http://www.google./x", true),
        ("http://www.google.com/", false),
        ("ftp://x.example.com/", true),
        ("x", true),
        ("http://x/", true),
        ("HTTP://b.a.example.com", true),
        ("http://.example.com/", true),
    ];

    #[test]
    fn referers_are_valid_as_for_nginx() {
        let mut matches = |number: u32, text: &[u8]| {
            let text = core::str::from_utf8(text).expect("text");
            if number == 1 { text.contains(".google./") } else { ["own1", "own2"].contains(&text) }
        };
        for (referer, valid) in ANSWERS {
            assert_eq!(rules().is_valid(Some(referer.as_bytes()), &mut matches), valid, "{referer}");
        }
        assert!(rules().is_valid(None, &mut matches));
        assert!(!Referers { none: false, ..rules() }.is_valid(None, &mut matches));
        assert!(!Referers { blocked: false, ..rules() }.is_valid(Some(b"x"), &mut matches));
        assert!(Referers::default().is_valid(Some(b"http://anything.example/"), &mut matches));
        let long = format!("http://{}.example.com/", "a".repeat(300));
        assert!(!rules().is_valid(Some(long.as_bytes()), &mut matches));
    }
}
