//! Media types by file extension.

use std::collections::HashMap;

/// The operator's types, then `mime_guess`'s, then the default.
#[derive(Debug)]
pub struct Types {
    own: HashMap<String, String>,
    default: String,
}

impl Types {
    /// Types of the operator's `own`, by extension, and the `default` of all that
    /// nobody knows.
    pub fn new(own: &[(String, String)], default: &str) -> Self {
        let own = own.iter().map(|(extension, value)| (extension.to_ascii_lowercase(), value.clone()));
        Self { own: own.collect(), default: default.into() }
    }

    /// The `Content-Type` of a file with this name.
    pub fn of(&self, path: &[u8]) -> String {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let extension = name.iter().rposition(|&byte| byte == b'.').and_then(|dot| name.get(dot + 1..));
        let Some(extension) = extension.and_then(|bytes| core::str::from_utf8(bytes).ok()) else {
            return self.default.clone();
        };
        if let Some(own) = self.own.get(&extension.to_ascii_lowercase()) {
            return own.clone();
        }
        match mime_guess::from_ext(extension).first_raw() {
            // Text without a charset would be guessed at by clients.
            Some(text) if text.starts_with("text/") => format!("{text}; charset=utf-8"),
            Some(other) => other.into(),
            None => self.default.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Types;

    #[test]
    fn types_by_extension() {
        let types = Types::new(&[("nsd".into(), "application/x-nearside".into())], "application/octet-stream");
        for (path, value) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/B.HTML", "text/html; charset=utf-8"),
            ("style.css", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("data.json", "application/json"),
            ("i.png", "image/png"),
            ("i.svg", "image/svg+xml"),
            ("m.wasm", "application/wasm"),
            ("x.NsD", "application/x-nearside"),
            ("dir.html/file", "application/octet-stream"),
            ("README", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("a.unheard-of", "application/octet-stream"),
        ] {
            assert_eq!(types.of(path.as_bytes()), value, "{path}");
        }
        assert_eq!(types.of(b"\xff.\xff"), "application/octet-stream");
    }
}
