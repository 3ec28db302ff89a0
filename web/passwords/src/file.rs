//! Files of users: a line for each, `name:hash`, perhaps with a comment behind
//! another colon.

/// The hash in the first line of `file` for `user`, as nginx finds it: lines that begin with
/// `#` are comments, what follows the hash does not count.
#[must_use]
pub fn find<'a>(file: &'a [u8], user: &[u8]) -> Option<&'a [u8]> {
    if user.is_empty() || user.contains(&b':') || user.starts_with(b"#") || user.starts_with(b"\r") {
        return None;
    }
    file.split(|byte| *byte == b'\n').find_map(|line| {
        let rest = line.strip_prefix(user)?.strip_prefix(b":")?;
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b':')).unwrap_or(rest.len());
        Some(&rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_user_counts() {
        let file = b"# comment\n#hash:no\n\nuser:one:a comment\r\nuser:two\nuse:three\r\nlast:four";
        let hash = |user: &str| find(file, user.as_bytes()).map(|hash| String::from_utf8_lossy(hash).into_owned());
        assert_eq!(hash("user").as_deref(), Some("one"));
        assert_eq!(hash("use").as_deref(), Some("three"));
        assert_eq!(hash("last").as_deref(), Some("four"));
        for user in ["", "us", "users", "User", "#hash", "user:one", "comment", "\r", "user\n"] {
            assert_eq!(hash(user), None, "{user:?}");
        }
    }
}
