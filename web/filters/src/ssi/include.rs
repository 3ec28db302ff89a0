//! What is included: a path of this server, perhaps with a query.

/// What an `include` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Include {
    /// The path, decoded.
    pub uri: Vec<u8>,
    /// The query.
    pub args: Vec<u8>,
    /// Nothing behind it is looked at before it is whole.
    pub waits: bool,
    /// The variable that is set to it; it is not content then.
    pub set: Option<Vec<u8>>,
    /// What stands in its place if it has no content, or is an error.
    pub stub: Option<Vec<u8>>,
}

/// The path and the query of a target; the path alone if it may lead anywhere else.
pub(super) fn split(target: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Vec<u8>> {
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &[][..]),
    };
    if path.is_empty() || !is_safe(path) {
        return Err(if path.is_empty() { target.to_vec() } else { path.to_vec() });
    }
    if !path.contains(&b'%') {
        return Ok((path.to_vec(), query.to_vec()));
    }
    let path = unescape(path);
    if is_safe(&path) { Ok((path, query.to_vec())) } else { Err(path) }
}

/// Whether no part of a path leads up, and it has no NUL.
fn is_safe(path: &[u8]) -> bool {
    !path.contains(&0) && path.split(|byte| *byte == b'/').all(|part| part != b"..")
}

/// Decodes what is percent-encoded; of what is not well so, as much is left out as nginx
/// leaves out.
fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, behind @ ..]) => match (digit(*high), behind) {
                (Some(high), [low, behind @ ..]) => {
                    out.extend(digit(*low).map(|low| high << 4 | low));
                    rest = behind;
                }
                (Some(_), []) => rest = behind,
                (None, _) => {
                    out.push(*high);
                    rest = behind;
                }
            },
            (b'%', []) => {}
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_elsewhere_is_not_included() {
        let found = |target: &str| split(target.as_bytes()).ok();
        let some = |path: &str, query: &str| Some((path.as_bytes().to_vec(), query.as_bytes().to_vec()));
        for (target, expected) in [
            ("/a", some("/a", "")),
            ("/a?b=%2e%2e/..?c", some("/a", "b=%2e%2e/..?c")),
            ("/a%20b%4", some("/a b", "")),
            ("/%zz%4zc%", some("/zzc", "")),
            ("/a..b/...", some("/a..b/...", "")),
            ("", None),
            ("?a", None),
            ("..", None),
            ("../a", None),
            ("/a/../b", None),
            ("/a/..", None),
            ("/a/..?b", None),
            ("/%2e%2e/b", None),
            ("/a%2f..%2fb", None),
            ("/a%00", None),
            ("/a\0", None),
        ] {
            assert_eq!(found(target), expected, "{target}");
        }
    }
}
