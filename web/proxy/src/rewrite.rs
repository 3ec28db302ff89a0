//! Redirects and cookies that name the upstream are made to name us
//! (`proxy_redirect`, `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`).

/// What stands in place of some of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// Bytes that it stands for, from the front.
    pub replaced: usize,
    /// It.
    pub with: Vec<u8>,
}

/// Replaces some of `value`, from `at` on.
#[must_use]
pub fn replaced(value: &[u8], at: usize, replacement: &Replacement) -> Vec<u8> {
    let end = (at + replacement.replaced).min(value.len());
    [&value[..at.min(value.len())], &replacement.with, &value[end..]].concat()
}

/// Where in a `Refresh` the address begins.
#[must_use]
pub fn refresh_url(value: &[u8]) -> Option<usize> {
    value.windows(4).position(|four| four.eq_ignore_ascii_case(b"url=")).map(|at| at + 4)
}

/// Whether a cookie's domain is this one: a dot in front of it counts for nothing. How
/// many bytes of it are replaced, and from where.
#[must_use]
pub fn domain_matches(value: &[u8], pattern: &[u8]) -> Option<(usize, usize)> {
    let at = usize::from(value.first() == Some(&b'.'));
    value[at..].eq_ignore_ascii_case(pattern).then_some((at, value.len() - at))
}

/// A cookie and its attributes (RFC 6265 section 5.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cookie {
    parts: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Cookie {
    /// Reads a `Set-Cookie`.
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        let part = |part: &[u8]| {
            let trimmed = |bytes: &[u8]| {
                let start = bytes.iter().position(|byte| *byte != b' ').unwrap_or(bytes.len());
                let end = bytes.iter().rposition(|byte| *byte != b' ').map_or(start, |last| last + 1);
                bytes[start..end].to_vec()
            };
            match part.iter().position(|byte| *byte == b'=') {
                Some(at) => (trimmed(&part[..at]), Some(trimmed(&part[at + 1..]))),
                None => (trimmed(part), None),
            }
        };
        Self { parts: value.split(|byte| *byte == b';').map(part).collect() }
    }

    /// Its name, if it has a value.
    #[must_use]
    pub fn name(&self) -> Option<&[u8]> {
        self.parts.first().filter(|(_, value)| value.is_some()).map(|(name, _)| name.as_slice())
    }

    /// The values of its attributes with this name, to be changed.
    pub fn attributes<'a>(&'a mut self, name: &'a [u8]) -> impl Iterator<Item = &'a mut Vec<u8>> {
        let named = move |(known, _): &&mut (Vec<u8>, Option<Vec<u8>>)| known.eq_ignore_ascii_case(name);
        self.parts.iter_mut().skip(1).filter(named).filter_map(|(_, value)| value.as_mut())
    }

    /// Sets and takes away flags.
    pub fn edit(&mut self, flags: CookieFlags) {
        let mut kept = Vec::with_capacity(self.parts.len() + 3);
        let (mut secure, mut httponly, mut same_site) = (flags.secure, flags.httponly, flags.same_site);
        for (at, (name, value)) in core::mem::take(&mut self.parts).into_iter().enumerate() {
            let is = |known: &[u8]| at > 0 && name.eq_ignore_ascii_case(known);
            let of_flag = |flag: &mut Option<bool>| match flag {
                Some(true) => {
                    *flag = None;
                    true
                }
                Some(false) => false,
                None => true,
            };
            if is(b"secure") {
                if of_flag(&mut secure) {
                    kept.push((name, value));
                }
            } else if is(b"httponly") {
                if of_flag(&mut httponly) {
                    kept.push((name, value));
                }
            } else if is(b"samesite") {
                match same_site {
                    Some(SameSite::Off) => {}
                    Some(SameSite::Is(text)) => {
                        same_site = None;
                        let same = value.as_ref().is_some_and(|value| value.eq_ignore_ascii_case(text));
                        kept.push(if same { (name, value) } else { same_site_part(text) });
                    }
                    None => kept.push((name, value)),
                }
            } else {
                kept.push((name, value));
            }
        }
        if secure == Some(true) {
            kept.push((b"Secure".to_vec(), None));
        }
        if httponly == Some(true) {
            kept.push((b"HttpOnly".to_vec(), None));
        }
        if let Some(SameSite::Is(text)) = same_site {
            kept.push(same_site_part(text));
        }
        self.parts = kept;
    }

    /// Writes it.
    #[must_use]
    pub fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, (name, value)) in self.parts.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(name);
            if let Some(value) = value {
                out.push(b'=');
                out.extend_from_slice(value);
            }
        }
        out
    }
}

fn same_site_part(text: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    (b"SameSite".to_vec(), Some(text.to_vec()))
}

/// What becomes of a cookie's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CookieFlags {
    secure: Option<bool>,
    httponly: Option<bool>,
    same_site: Option<SameSite>,
}

/// What becomes of `SameSite`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SameSite {
    /// It is taken away.
    Off,
    /// It is this.
    Is(&'static [u8]),
}

impl CookieFlags {
    /// One more, by its parameter; whether there is such a one. Of `SameSite`, `strict`
    /// goes before `lax`, and that before `none`.
    pub fn add(&mut self, word: &[u8]) -> bool {
        let rank = |same_site: &Option<SameSite>| match same_site {
            Some(SameSite::Is(b"Strict")) => 3,
            Some(SameSite::Is(b"Lax")) => 2,
            Some(SameSite::Is(_)) => 1,
            _ => 0,
        };
        let same_site = match word.to_ascii_lowercase().as_slice() {
            b"secure" => return Self::on(&mut self.secure, true),
            b"nosecure" => return Self::on(&mut self.secure, false),
            b"httponly" => return Self::on(&mut self.httponly, true),
            b"nohttponly" => return Self::on(&mut self.httponly, false),
            b"samesite=strict" => SameSite::Is(b"Strict"),
            b"samesite=lax" => SameSite::Is(b"Lax"),
            b"samesite=none" => SameSite::Is(b"None"),
            b"nosamesite" => SameSite::Off,
            _ => return false,
        };
        if rank(&Some(same_site)) >= rank(&self.same_site) {
            self.same_site = Some(same_site);
        }
        true
    }

    /// What is set is not taken away.
    fn on(flag: &mut Option<bool>, set: bool) -> bool {
        *flag = Some(set || *flag == Some(true));
        true
    }

    /// Whether there is any.
    #[must_use]
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rewritten_in_place() {
        let with = |replaced: usize, with: &str| Replacement { replaced, with: with.into() };
        assert_eq!(replaced(b"http://up/a", 0, &with(10, "/")), b"/a");
        let refresh = b"5; URL=http://up/a";
        let at = refresh_url(refresh).unwrap();
        assert_eq!(replaced(refresh, at, &with(10, "/")), b"5; URL=/a");
        assert_eq!(replaced(b"ab", 5, &with(9, "c")), b"abc");
        assert_eq!(domain_matches(b".Example.org", b"example.org"), Some((1, 11)));
        assert_eq!(domain_matches(b"example.org", b"ample.org"), None);
    }

    fn edited(cookie: &str, words: &[&str]) -> String {
        let mut flags = CookieFlags::default();
        for word in words {
            assert!(flags.add(word.as_bytes()), "{word}");
        }
        let mut cookie = Cookie::parse(cookie.as_bytes());
        cookie.edit(flags);
        String::from_utf8(cookie.written()).unwrap()
    }

    #[test]
    fn flags_are_set_and_taken_away() {
        assert_eq!(edited("a=b", &["secure", "httponly", "samesite=lax"]), "a=b; Secure; HttpOnly; SameSite=Lax");
        assert_eq!(edited("a=b; SECURE; path=/", &["secure"]), "a=b; SECURE; path=/");
        assert_eq!(edited("a=b;Secure;HttpOnly;SameSite=Lax", &["nosecure", "nohttponly", "nosamesite"]), "a=b");
        assert_eq!(edited("a=b; samesite=strict", &["samesite=none"]), "a=b; SameSite=None");
        assert_eq!(edited("a=b; samesite=strict", &["samesite=lax", "samesite=strict"]), "a=b; samesite=strict");
        // A cookie may have the name of a flag.
        assert_eq!(edited("secure=1", &["nosecure"]), "secure=1");
        assert!(!CookieFlags::default().add(b"partitioned"));
    }

    #[test]
    fn attributes_are_found() {
        let mut cookie = Cookie::parse(b"path = x ;  Path = /one/ ; Domain=a; path=/two/; q");
        assert_eq!(cookie.name(), Some(&b"path"[..]));
        for path in cookie.attributes(b"path") {
            path.splice(..1, *b"/new/");
        }
        assert_eq!(cookie.written(), b"path=x; Path=/new/one/; Domain=a; path=/new/two/; q");
        assert_eq!(Cookie::parse(b"no value").name(), None);
    }
}
