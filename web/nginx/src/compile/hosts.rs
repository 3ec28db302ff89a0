//! `server_name`.

use super::arguments::told;
use super::{Compiler, Step};
use crate::reader::Directive;

/// A name of a server.
#[derive(Clone, Debug)]
pub(super) struct ServerName {
    /// As it is told (`$server_name`): without a dot at its start.
    pub written: Vec<u8>,
    /// In lower case, with the wildcard.
    pub name: Vec<u8>,
    /// The expression that it is.
    pub expression: Option<u32>,
}

impl ServerName {
    /// Whether nginx takes it for a name, or one with a wildcard at an end.
    pub(super) fn can_be_looked_for(&self) -> bool {
        let name = self.name.as_slice();
        let stars = name.iter().filter(|byte| **byte == b'*').count();
        let starts = name.len() > 2 && name.starts_with(b"*.");
        let ends = name.len() > 2 && name.ends_with(b".*");
        let dots = name.windows(2).any(|two| two == b"..");
        stars <= 1 && !dots && !name.contains(&0) && (stars == 0 || starts || ends)
    }
}

impl Compiler<'_> {
    pub(super) fn server_names(&mut self, directive: &Directive, names: &mut Vec<ServerName>) -> Step {
        let place = directive.place;
        for text in &directive.arguments {
            let wrong = match text.as_slice() {
                [b'*', rest @ ..] => rest.len() < 2 || rest[0] != b'.',
                [b'.', rest @ ..] => rest.is_empty(),
                _ => false,
            };
            if wrong {
                return Err(self.refused(place, format!("server name \"{}\" is invalid", told(text))));
            }
            if text.contains(&b'/') {
                self.warn(place, format!("server name \"{}\" has suspicious symbols", told(text)));
            }
            if let Some(pattern) = text.strip_prefix(b"~") {
                if pattern.is_empty() {
                    return Err(self.refused(place, "empty regex in server name \"~\"".to_owned()));
                }
                // Names are compared in lower case: an expression with others
                // means them so, too.
                let caseless = pattern.iter().any(u8::is_ascii_uppercase);
                let expression = Some(self.expression(pattern, caseless, place)?);
                names.push(ServerName { written: text.clone(), name: Vec::new(), expression });
                continue;
            }
            let is_hostname = text.eq_ignore_ascii_case(b"$hostname");
            let text = if is_hostname { self.around.hostname.as_bytes() } else { text };
            let name = text.to_ascii_lowercase();
            let written = name.strip_prefix(b".").unwrap_or(&name).to_vec();
            names.push(ServerName { written, name, expression: None });
        }
        Ok(())
    }
}
