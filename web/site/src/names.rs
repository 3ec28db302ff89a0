//! Hosts by name.

use crate::ConfigError;
use std::collections::HashMap;

/// The longest name (RFC 1035 section 2.3.4, as text without the last dot).
const NAME_MAX: usize = 253;

/// Which host has which name. Names are compared without their case, without
/// port, and without a dot at their end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    places: HashMap<Box<[u8]>, u16>,
}

impl Names {
    /// The host at `place` has `name`.
    ///
    /// # Errors
    /// No host can have it, or another has.
    pub fn add(&mut self, name: &str, place: u16) -> Result<(), ConfigError> {
        let mut memory = [0; NAME_MAX];
        let valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(byte);
        // What is more than a name has a port, or stands behind an address.
        let whole = name.strip_suffix('.').unwrap_or(name).len();
        let key = key(name.as_bytes(), &mut memory)
            .filter(|key| !key.is_empty() && key.len() == whole && key.iter().all(valid))
            .map(Box::from)
            .ok_or_else(|| ConfigError::HostName(name.to_owned()))?;
        match self.places.insert(key, place) {
            None => Ok(()),
            Some(_) => Err(ConfigError::HostTwice(name.to_owned())),
        }
    }

    /// The place of the host that `authority` names; 0 if none has the name.
    #[must_use]
    pub fn find(&self, authority: &[u8]) -> u16 {
        let mut memory = [0; NAME_MAX];
        let place = key(authority, &mut memory).and_then(|key| self.places.get(key));
        place.copied().unwrap_or(0)
    }

    /// The place in `other` of the host that here is at `place`: one that has
    /// all of its names.
    #[must_use]
    pub fn same_in(&self, place: u16, other: &Self) -> Option<u16> {
        let mut names = self.places.iter().filter(|(_, at)| **at == place).map(|(name, _)| name);
        let found = *other.places.get(names.next()?)?;
        names.all(|name| other.places.get(name) == Some(&found)).then_some(found)
    }
}

/// The name in an authority, in lower case; `None` if it is longer than names
/// are.
fn key<'a>(authority: &[u8], memory: &'a mut [u8; NAME_MAX]) -> Option<&'a [u8]> {
    let name = match authority {
        [b'[', ..] => authority.iter().position(|&byte| byte == b']').map(|end| &authority[..=end])?,
        _ => authority.split(|&byte| byte == b':').next()?,
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    let key = memory.get_mut(..name.len())?;
    for (to, from) in key.iter_mut().zip(name) {
        *to = from.to_ascii_lowercase();
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_by_their_names() {
        let mut names = Names::default();
        for (name, place) in [("a.example", 1), ("B.example.", 2), ("[2001:db8::1]", 3), ("192.0.2.1", 2)] {
            names.add(name, place).expect("a name");
        }
        for (authority, place) in [
            ("a.example", 1),
            ("A.Example:8080", 1),
            ("a.example.", 1),
            ("a.example.:80", 1),
            ("b.example", 2),
            ("192.0.2.1:80", 2),
            ("[2001:DB8::1]:443", 3),
            ("[2001:db8::2]", 0),
            ("aa.example", 0),
            ("example", 0),
            ("", 0),
            (":80", 0),
        ] {
            assert_eq!(names.find(authority.as_bytes()), place, "{authority}");
        }
        assert_eq!(names.find(&[b'a'; 70_000]), 0);
    }

    #[test]
    fn names_that_no_host_can_have_are_refused() {
        for name in ["", ".", "a b", "a.example:80", "a/b", &"a".repeat(254), "[::1]:80"] {
            assert!(matches!(Names::default().add(name, 1), Err(ConfigError::HostName(_))), "{name}");
        }
        let mut names = Names::default();
        names.add("a.example", 1).expect("a name");
        assert!(matches!(names.add("A.EXAMPLE.", 2), Err(ConfigError::HostTwice(_))));
    }

    #[test]
    fn a_host_is_the_same_by_all_of_its_names() {
        let of = |pairs: &[(&str, u16)]| {
            let mut names = Names::default();
            pairs.iter().for_each(|(name, place)| names.add(name, *place).expect("a name"));
            names
        };
        let now = of(&[("a", 1), ("b", 1), ("c", 2)]);
        assert_eq!(now.same_in(1, &of(&[("c", 1), ("b", 2), ("a", 2)])), Some(2));
        assert_eq!(now.same_in(1, &of(&[("a", 1), ("b", 2)])), None, "one name is another's");
        assert_eq!(now.same_in(2, &of(&[("a", 1)])), None);
    }
}
