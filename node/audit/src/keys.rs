//! How keys of sysctl are written.

/// A key with slashes as separators is written with dots, and the other way
/// round: whichever comes first is the separator (man 5 sysctl.d).
pub(crate) fn dotted(key: &str) -> String {
    match key.find(['.', '/']).and_then(|at| key.as_bytes().get(at)) {
        Some(b'/') => key
            .chars()
            .map(|char| match char {
                '/' => '.',
                '.' => '/',
                char => char,
            })
            .collect(),
        _ => key.to_owned(),
    }
}
