//! Browsers that are known by faults of theirs, as `User-Agent` tells them
//! (ngx_http_process_user_agent in ngx_http_request.c).

/// Of which browsers connections are not kept (`keepalive_disable`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepAliveDisabled {
    /// Of Internet Explorer up to 6, behind a POST.
    pub msie6: bool,
    /// Of Safari and its like on macOS.
    pub safari: bool,
}

impl Default for KeepAliveDisabled {
    fn default() -> Self {
        Self { msie6: true, safari: false }
    }
}

impl KeepAliveDisabled {
    /// No browser's.
    pub const NONE: Self = Self { msie6: false, safari: false };

    /// Whether a connection ends behind this request of a browser that names itself so.
    #[must_use]
    pub fn ends(self, agent: &[u8], is_post: bool) -> bool {
        self.msie6 && is_post && is_msie6(agent) || self.safari && is_safari(agent)
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// What stands behind `MSIE `, if that is a version.
fn msie(agent: &[u8]) -> Option<&[u8]> {
    let at = find(agent, b"MSIE ")?;
    agent.get(at + 5..).filter(|rest| rest.len() > 2)
}

/// Whether it is Internet Explorer 4 to 6, before the second service pack of Windows XP.
fn is_msie6(agent: &[u8]) -> bool {
    if find(agent, b"Opera").is_some() {
        return false;
    }
    match msie(agent) {
        Some([b'4' | b'5', b'.', ..]) => true,
        Some([b'6', b'.', _, rest @ ..]) => find(rest, b"SV1").is_none(),
        _ => false,
    }
}

/// Whether it is Safari on macOS, and no other that names that, too.
fn is_safari(agent: &[u8]) -> bool {
    let has = |what: &[u8]| find(agent, what).is_some();
    msie(agent).is_none()
        && !has(b"Opera")
        && !has(b"Gecko/")
        && !has(b"Chrome/")
        && has(b"Safari/")
        && has(b"Mac OS X")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_known_by_what_they_say() {
        for (agent, msie6, safari) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", true, false),
            ("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", true, false),
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", false, false),
            ("Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 6.0)", false, false),
            ("Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 8.5", false, false),
            ("MSIE 6.", false, false),
            ("MSIE 5.", false, false),
            ("Mozilla/5.0 (Macintosh; Mac OS X) Gecko/2009 Safari/533", false, false),
            ("Opera/9 (Macintosh; Mac OS X) Safari/533", false, false),
            ("Mozilla/4.0 (compatible; MSIE 7.0; Mac OS X) Safari/533", false, false),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_6) AppleWebKit/533 (KHTML, like Gecko) Safari/533",
                false,
                true,
            ),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_6) AppleWebKit/533 Chrome/5 Safari/533", false, false),
            ("Mozilla/5.0 (X11; Linux) AppleWebKit/533 Safari/533", false, false),
            ("Lynx (Macintosh; Mac OS X)", false, false),
            ("", false, false),
        ] {
            let (old, apple) = (KeepAliveDisabled::default(), KeepAliveDisabled { msie6: false, safari: true });
            assert_eq!(
                (old.ends(agent.as_bytes(), true), apple.ends(agent.as_bytes(), false)),
                (msie6, safari),
                "{agent}"
            );
            assert!(!old.ends(agent.as_bytes(), false) && !KeepAliveDisabled::NONE.ends(agent.as_bytes(), true));
        }
    }
}
