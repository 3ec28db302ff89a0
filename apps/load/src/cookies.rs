//! Cookies of one connection, for the one host that it asks (RFC 6265).

/// Cookies of a jar (RFC 6265 section 6.1: at least 50 for each domain).
const COOKIES_LIMIT: usize = 50;

/// Name, value and path of a cookie together, in bytes (the same).
const COOKIE_LIMIT: usize = 4_096;

/// Bytes of all names, values and paths of a jar: some servers take heads of no more.
const JAR_LIMIT: usize = 8_192;

/// What came of a Set-Cookie field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// It is kept, or took another's place.
    Stored,
    /// It ended one that was there, or none.
    Ended,
    /// It is none, for another host, or too large.
    Refused,
    /// It is kept, and others had to go.
    Displaced,
}

/// A cookie, as it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Cookie {
    name: Box<[u8]>,
    value: Box<[u8]>,
    path: Box<[u8]>,
    /// Seconds since 1970; `None`: as long as the connection.
    until: Option<i64>,
    secure: bool,
}

impl Cookie {
    fn len(&self) -> usize {
        self.name.len() + self.value.len() + self.path.len()
    }
}

/// What a server has a client remember.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Jar {
    /// The oldest first.
    cookies: Vec<Cookie>,
}

/// Of whom, and how, a request is made: what decides on cookies.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The host, as the request names it, with its port.
    pub host: &'a str,
    /// The request target.
    pub path: &'a [u8],
    /// Whether it travels over TLS.
    pub secured: bool,
    /// Seconds since 1970.
    pub now: i64,
}

impl Jar {
    /// Takes the value of a Set-Cookie field of an answer (RFC 6265 sections 5.2, 5.3).
    pub fn take(&mut self, line: &[u8], asked: &Asked<'_>) -> Setting {
        let mut attributes = line.split(|byte| *byte == b';');
        let pair = attributes.next().unwrap_or_default();
        let Some((name, value)) = split_once(pair, b'=') else { return Setting::Refused };
        let (name, value) = (name.trim_ascii(), value.trim_ascii());
        // RFC 6265 section 4.1.1 allows none of these; a line break cannot come here.
        if name.is_empty() || line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Setting::Refused;
        }
        let mut cookie = Cookie {
            name: name.into(),
            value: value.into(),
            path: default_path(asked.path).into(),
            until: None,
            secure: false,
        };
        let mut lasts = None;
        for attribute in attributes {
            let (key, value) = split_once(attribute, b'=').unwrap_or((attribute, b""));
            let (key, value) = (key.trim_ascii(), value.trim_ascii());
            let is = |name: &str| key.eq_ignore_ascii_case(name.as_bytes());
            if is("Secure") {
                cookie.secure = true;
            } else if is("Path") && value.first() == Some(&b'/') {
                cookie.path = value.into();
            } else if is("Max-Age") {
                // It stands above Expires (section 5.3, step 3).
                lasts = seconds(value).or(lasts);
            } else if is("Expires") {
                cookie.until = date(value).or(cookie.until);
            } else if is("Domain") && !is_of_host(value, asked.host) {
                return Setting::Refused;
            }
        }
        if let Some(lasts) = lasts {
            cookie.until = Some(if lasts <= 0 { i64::MIN } else { asked.now.saturating_add(lasts) });
        }
        // Who asks in the clear is told no secure ones (RFC 6265bis section 5.6).
        if cookie.len() > COOKIE_LIMIT || cookie.secure && !asked.secured {
            return Setting::Refused;
        }
        self.put(cookie, asked.now)
    }

    fn put(&mut self, cookie: Cookie, now: i64) -> Setting {
        self.cookies.retain(|old| old.until.is_none_or(|until| until > now));
        self.cookies.retain(|old| old.name != cookie.name || old.path != cookie.path);
        if cookie.until.is_some_and(|until| until <= now) {
            return Setting::Ended;
        }
        let size = cookie.len();
        self.cookies.push(cookie);
        let mut all: usize = self.cookies.iter().map(Cookie::len).sum();
        let mut taken = Setting::Stored;
        while (self.cookies.len() > COOKIES_LIMIT || all > JAR_LIMIT) && all > size {
            all -= self.cookies.remove(0).len();
            taken = Setting::Displaced;
        }
        taken
    }

    /// Writes the value of a Cookie field (RFC 6265 section 5.4); nothing, if no cookie is for
    /// this request. Longer paths come first, and among equals the older cookie.
    pub fn write(&self, asked: &Asked<'_>, out: &mut Vec<u8>) {
        let fits = |cookie: &&Cookie| {
            let alive = cookie.until.is_none_or(|until| until > asked.now);
            alive && (asked.secured || !cookie.secure) && is_below(asked.path, &cookie.path)
        };
        let mut chosen: [Option<&Cookie>; COOKIES_LIMIT] = [None; COOKIES_LIMIT];
        let mut count = 0;
        for (place, cookie) in chosen.iter_mut().zip(self.cookies.iter().filter(fits)) {
            *place = Some(cookie);
            count += 1;
        }
        let chosen = &mut chosen[..count];
        // Stable: the order of age stays.
        chosen.sort_by_key(|cookie| core::cmp::Reverse(cookie.map_or(0, |cookie| cookie.path.len())));
        for (n, cookie) in chosen.iter().flatten().enumerate() {
            out.extend_from_slice(if n == 0 { b"" } else { b"; " });
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
        }
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
}

/// Without query, up to the last slash, which is left out but at the root (section 5.1.4).
fn default_path(target: &[u8]) -> &[u8] {
    let path = path_of(target);
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(last) => path.get(..last).unwrap_or(b"/"),
    }
}

fn path_of(target: &[u8]) -> &[u8] {
    target.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

/// Section 5.1.4: whether the path asked for is the cookie's, or lies below it.
fn is_below(target: &[u8], path: &[u8]) -> bool {
    let asked = path_of(target);
    asked.strip_prefix(path).is_some_and(|rest| rest.is_empty() || path.last() == Some(&b'/') || rest[0] == b'/')
}

/// Section 5.1.3: whether a domain is the host's, or above it. A single label is above nobody: there
/// is no list of public suffixes here.
fn is_of_host(domain: &[u8], host: &str) -> bool {
    let domain = domain.strip_prefix(b".").unwrap_or(domain);
    let host =
        host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(host, |of| of.0);
    let host = host.as_bytes();
    if domain.is_empty() || domain.eq_ignore_ascii_case(host) {
        return true;
    }
    let is_name = host.iter().any(u8::is_ascii_alphabetic) && host.first() != Some(&b'[');
    let above = host.len().checked_sub(domain.len()).and_then(|at| host.split_at_checked(at));
    let above = above.is_some_and(|(before, end)| before.ends_with(b".") && end.eq_ignore_ascii_case(domain));
    is_name && above && domain.contains(&b'.')
}

/// Section 5.2.2; what is beyond counting is for ever, or ended.
fn seconds(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let text = core::str::from_utf8(text).ok()?;
    Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
}

/// A date as servers write them (section 5.1.1), in seconds since 1970.
fn date(text: &[u8]) -> Option<i64> {
    const MONTHS: &[u8] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let is_delimiter = |byte: &u8| matches!(byte, b'\t' | b' '..=b'/' | b';'..=b'@' | b'['..=b'`' | b'{'..=b'~');
    let (mut clock, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(is_delimiter).filter(|token| !token.is_empty()) {
        let number = |most: usize| {
            let digits = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let text = core::str::from_utf8(token.get(..digits)?).ok()?;
            (1..=most).contains(&digits).then(|| text.parse::<i64>().ok()).flatten()
        };
        if clock.is_none()
            && let Some(found) = clock_of(token)
        {
            clock = Some(found);
        } else if day.is_none()
            && let Some(found) = number(2)
        {
            day = Some(found);
        } else if month.is_none()
            && let Some(found) =
                token.get(..3).and_then(|name| MONTHS.chunks(3).position(|month| month.eq_ignore_ascii_case(name)))
        {
            month = Some(found as i64 + 1);
        } else if year.is_none()
            && let Some(found) = number(4)
        {
            year = Some(found);
        }
    }
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    let ((hour, minute, second), day, month) = (clock?, day?, month?);
    let valid = (1..=31).contains(&day) && (1601..=9999).contains(&year) && hour < 24 && minute < 60 && second < 60;
    valid.then(|| ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// `hh:mm:ss`, each of one digit or two.
fn clock_of(token: &[u8]) -> Option<(i64, i64, i64)> {
    let text = core::str::from_utf8(token).ok()?;
    let mut parts = text.splitn(3, ':').map(|part| {
        let digits = part.len() - part.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        (1..=2).contains(&digits).then(|| part.get(..digits)?.parse().ok()).flatten()
    });
    Some((parts.next()??, parts.next()??, parts.next()??))
}

/// Days from 1970 to a date of the Gregorian calendar (Hinnant, "chrono-compatible low-level date
/// algorithms").
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str) -> Asked<'_> {
        Asked { host: "www.example.org:8080", path: path.as_bytes(), secured: false, now: 1_000 }
    }

    fn sent(jar: &Jar, asked: &Asked<'_>) -> String {
        let mut out = Vec::new();
        jar.write(asked, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn cookies_go_back_to_their_paths() {
        let mut jar = Jar::default();
        let set = ["a=1", "b=2; Path=/shop", "c=3;path=/shop/cart ;HttpOnly", "d=\"4 5\"; Path=shop", "e=; Path=/"];
        for line in set {
            assert_eq!(jar.take(line.as_bytes(), &asked("/shop/list?x=/y/")), Setting::Stored, "{line}");
        }
        assert_eq!(sent(&jar, &asked("/")), "e=");
        assert_eq!(sent(&jar, &asked("/shop")), "a=1; b=2; d=\"4 5\"; e=");
        assert_eq!(sent(&jar, &asked("/shop/cart/1?q")), "c=3; a=1; b=2; d=\"4 5\"; e=");
        assert_eq!(sent(&jar, &asked("/shopping")), "e=");
        // A later one takes its place; that of another path does not.
        assert_eq!(jar.take(b"a=9", &asked("/shop/")), Setting::Stored);
        assert_eq!(sent(&jar, &asked("/shop/x")), "b=2; d=\"4 5\"; a=9; e=");
    }

    #[test]
    fn cookies_end() {
        let mut jar = Jar::default();
        for line in [
            "a=1; Max-Age=10",
            "b=2; Expires=Thu, 01-Jan-1970 00:20:00 GMT",
            "c=3; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        ] {
            assert_eq!(jar.take(line.as_bytes(), &asked("/")), Setting::Stored, "{line}");
        }
        assert_eq!(sent(&jar, &asked("/")), "a=1; b=2; c=3");
        assert_eq!(sent(&jar, &Asked { now: 1_011, ..asked("/") }), "b=2");
        assert_eq!(sent(&jar, &Asked { now: 1_201, ..asked("/") }), "");
        assert_eq!(jar.take(b"b=; Max-Age=0", &asked("/")), Setting::Ended);
        assert_eq!(sent(&jar, &asked("/")), "a=1; c=3");
        assert_eq!(jar.take(b"a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", &asked("/")), Setting::Ended);
        assert_eq!(sent(&jar, &asked("/")), "c=3");
    }

    #[test]
    fn dates_of_all_kinds_are_read() {
        for (text, second) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777),
            ("6-nov-1994 8:49:37", 784_111_777),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Fri, 29 Feb 2008 23:59:59 GMT", 1_204_329_599),
            ("01 Jan 69 00:00:00", 3_124_224_000),
        ] {
            assert_eq!(date(text.as_bytes()), Some(second), "{text}");
        }
        for text in [
            "",
            "0",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 24:00:00",
            "32 Nov 1994 08:49:37",
            "1 Nov 1500 08:49:37",
            "99:99:99 \u{ff}",
        ] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_for_this_host_is_refused() {
        let mut jar = Jar::default();
        for line in [
            "",
            "=1",
            "novalue",
            "a=1; Domain=example.com",
            "a=1; Domain=org",
            "a=1; Domain=ple.org",
            "a=1; Domain=a.www.example.org",
            "a=1; Secure",
            "a\x01=1",
            "a=1\0",
        ] {
            assert_eq!(jar.take(line.as_bytes(), &asked("/")), Setting::Refused, "{line}");
        }
        assert_eq!(jar.take(format!("a={}", "x".repeat(5_000)).as_bytes(), &asked("/")), Setting::Refused);
        for line in ["a=1; Domain=.Example.org", "b=2; Domain=www.example.org", "c=3; Domain="] {
            assert_eq!(jar.take(line.as_bytes(), &asked("/")), Setting::Stored, "{line}");
        }
        let secured = Asked { secured: true, ..asked("/") };
        assert_eq!(jar.take(b"s=4; secure", &secured), Setting::Stored);
        assert_eq!(
            (sent(&jar, &secured), sent(&jar, &asked("/"))),
            ("a=1; b=2; c=3; s=4".into(), "a=1; b=2; c=3".into())
        );
        let address = Asked { host: "10.0.0.1", ..asked("/") };
        assert_eq!(jar.take(b"a=1; Domain=0.0.1", &address), Setting::Refused);
    }

    /// A server that sets cookies without end fills no memory.
    #[test]
    fn a_jar_has_an_end() {
        let mut jar = Jar::default();
        for n in 0..10_000 {
            assert_ne!(jar.take(format!("n{n}=1").as_bytes(), &asked("/")), Setting::Refused);
        }
        assert_eq!(jar.cookies.len(), COOKIES_LIMIT);
        assert!(sent(&jar, &asked("/")).starts_with("n9950=1; n9951=1; "));
        for n in 0..100 {
            let line = format!("m{n}={}; Path=/{}", "v".repeat(2_000), "p".repeat(1_000));
            assert_eq!(jar.take(line.as_bytes(), &asked("/")), Setting::Displaced);
            assert!(jar.cookies.iter().map(Cookie::len).sum::<usize>() <= JAR_LIMIT);
        }
        assert_eq!(jar.cookies.len(), 2);
    }
}
