//! Who may see a place: `allow`, `deny`, `satisfy`.

use crate::subrequests::PermissionRules;
use app::Prefix;
use core::net::IpAddr;

/// The rules of a place.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    /// Addresses, in order: the first that fits decides; whether it allows.
    /// `None` is a Unix socket's.
    pub addresses: Vec<(Option<Prefix>, bool)>,
    /// `auth_request`.
    pub permission: PermissionRules,
    /// One of them is enough (`satisfy any`).
    pub any: bool,
}

/// What rules say of a client before it is asked for a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It may.
    Granted,
    /// It may not: status 403.
    Refused,
    /// It may with a password; without one that is right, status 401.
    Password,
}

impl AccessRules {
    /// Whether nothing is asked of anybody, passwords apart.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.permission.uri.is_empty()
    }

    /// What `allow` and `deny` say of an address (`None`: a Unix socket's client);
    /// `None` if nothing.
    #[must_use]
    pub fn of_address(&self, address: Option<IpAddr>) -> Option<bool> {
        // As nginx: an address of version 4 within one of version 6 is looked for
        // in rules of version 4, where there are any.
        let short = self.addresses.iter().any(|(prefix, _)| prefix.is_some_and(|prefix| prefix.is_ipv4()));
        let address = address.map(|address| if short { address.to_canonical() } else { address });
        let fits = |prefix: &Option<Prefix>| match (prefix, address) {
            (Some(prefix), Some(address)) => prefix.contains(address),
            (None, None) => true,
            _ => false,
        };
        self.addresses.iter().find(|(prefix, _)| fits(prefix)).map(|(_, allow)| *allow)
    }

    /// What both say together of a client; `asks`: whether there is a realm that
    /// is not `off`.
    #[must_use]
    pub fn decide(&self, address: Option<IpAddr>, asks: bool) -> Access {
        match (self.of_address(address), self.any, asks) {
            (Some(true), true, _) => Access::Granted,
            (Some(false), false, _) | (Some(false), true, false) => Access::Refused,
            (_, _, true) => Access::Password,
            (_, _, false) => Access::Granted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> AccessRules {
        let mut rules = AccessRules::default();
        for word in text.split_whitespace() {
            let (allow, word) = (word.starts_with('+'), &word[1..]);
            let prefixes = match word {
                "all" => vec!["0.0.0.0/0".parse().ok(), "::/0".parse().ok(), None],
                "unix:" => vec![None],
                _ => vec![Some(word.parse().expect(word))],
            };
            rules.addresses.extend(prefixes.into_iter().map(|prefix| (prefix, allow)));
        }
        rules
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules_4 = rules("-192.168.1.1 +192.168.1.0/24 +2001:db8::/32 -all");
        for (address, allowed) in [
            ("192.168.1.1", Some(false)),
            ("::ffff:192.168.1.1", Some(false)),
            ("192.168.1.2", Some(true)),
            ("::ffff:192.168.1.2", Some(true)),
            ("2001:db8::1", Some(true)),
            ("10.0.0.1", Some(false)),
            ("::1", Some(false)),
        ] {
            assert_eq!(rules_4.of_address(address.parse().ok()), allowed, "{address}");
        }
        assert_eq!(rules_4.of_address(None), Some(false));
        let rules_6 = rules("+::ffff:0:0/96 -2001:db8::/32");
        assert_eq!(rules_6.of_address("::ffff:10.0.0.1".parse().ok()), Some(true));
        assert_eq!(rules_6.of_address("10.0.0.1".parse().ok()), None);
        assert_eq!(rules("+unix: -all").of_address(None), Some(true));
        assert_eq!(AccessRules::default().of_address(None), None);
    }

    #[test]
    fn addresses_and_passwords_are_asked_as_satisfy_says() {
        use Access::{Granted, Password, Refused};
        for (text, any, with, without) in [
            ("", false, Password, Granted),
            ("", true, Password, Granted),
            ("+10.0.0.1", false, Password, Granted),
            ("+10.0.0.1", true, Granted, Granted),
            ("-10.0.0.1", false, Refused, Refused),
            ("-10.0.0.1", true, Password, Refused),
            ("-10.0.0.2", true, Password, Granted),
        ] {
            let rules = AccessRules { any, ..rules(text) };
            let address = "10.0.0.1".parse().ok();
            assert_eq!((rules.decide(address, true), rules.decide(address, false)), (with, without), "{text} {any}");
        }
    }
}
