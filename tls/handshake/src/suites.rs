//! Which suites and groups there are, by the names that OpenSSL has for them.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{cipher_suite as suite, kx_group as group};
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite};

/// A suite, and what OpenSSL's cipher strings say of it.
struct Known {
    suite: SupportedCipherSuite,
    name: &'static str,
    /// Aliases that it belongs to (openssl-ciphers(1)), beside `ALL`.
    aliases: &'static [&'static str],
    /// Bits of its key: what `@STRENGTH` sorts by.
    bits: u16,
}

const ECDSA: &[&str] = &["ECDSA", "aECDSA"];
const RSA: &[&str] = &["RSA", "aRSA"];
const EVERY: &[&str] = &[
    "ALL",
    "DEFAULT",
    "COMPLEMENTOFDEFAULT_",
    "HIGH",
    "ECDHE",
    "EECDH",
    "kECDHE",
    "kEECDH",
    "ECDH",
    "TLSv1.2",
    "FIPS",
];

/// Those of TLS 1.2, in the order in which OpenSSL has them.
const TLS12: [Known; 6] = [
    Known {
        suite: suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        aliases: &["AES", "AES256", "AESGCM", "SHA384", "SUITEB192", "SUITEB128"],
        bits: 256,
    },
    Known {
        suite: suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        aliases: &["AES", "AES256", "AESGCM", "SHA384"],
        bits: 256,
    },
    Known {
        suite: suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        aliases: &["CHACHA20", "SHA256_"],
        bits: 256,
    },
    Known {
        suite: suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        aliases: &["CHACHA20", "SHA256_"],
        bits: 256,
    },
    Known {
        suite: suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        aliases: &["AES", "AES128", "AESGCM", "SHA256", "SUITEB128", "SUITEB128ONLY"],
        bits: 128,
    },
    Known {
        suite: suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        aliases: &["AES", "AES128", "AESGCM", "SHA256"],
        bits: 128,
    },
];

/// Those of TLS 1.3, in the order in which OpenSSL has them.
const TLS13: [(SupportedCipherSuite, &str); 3] = [
    (suite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (suite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
    (suite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
];

/// Suites of OpenSSL's that are none of ours: a cipher string that names one of them means
/// something, and is not answered by it.
const OTHERS: [&str; 9] = ["-SHA", "DHE-", "PSK", "CAMELLIA", "ARIA", "CCM", "AES128-", "AES256-", "DES-"];

/// The suites that a server takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Suites(pub(crate) Vec<SupportedCipherSuite>);

/// Why no suites follow from a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuitesError {
    /// OpenSSL, too, would find none: `no cipher match`.
    NoMatch,
    /// There are some that OpenSSL has, and none that are here.
    NoneOfOurs,
}

impl Suites {
    /// Those of TLS 1.2 that an OpenSSL cipher string means, in its order
    /// (openssl-ciphers(1)): what it names and is not here is left out.
    ///
    /// # Errors
    /// It means none.
    pub fn of_tls12(text: &str) -> Result<Self, SuitesError> {
        let mut list = CipherList::default();
        let mut names_others = false;
        for word in text.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
            match word {
                "@STRENGTH" => list.active.sort_by_key(|at| core::cmp::Reverse(TLS12[*at].bits)),
                _ if word.starts_with('@') => {}
                _ => {
                    let (sign, name) = match word.as_bytes()[0] {
                        sign @ (b'!' | b'-' | b'+') => (sign, &word[1..]),
                        _ => (0, word),
                    };
                    names_others |= sign == 0 && OTHERS.iter().any(|part| name.contains(part));
                    list.apply(sign, name);
                }
            }
        }
        if list.active.is_empty() {
            return Err(if names_others { SuitesError::NoneOfOurs } else { SuitesError::NoMatch });
        }
        Ok(Self(list.active.iter().map(|at| TLS12[*at].suite).collect()))
    }

    /// Those of TLS 1.3 that a list of names means (`Ciphersuites`), in its order.
    ///
    /// # Errors
    /// It names one that there is not.
    pub fn of_tls13(text: &str) -> Result<Self, SuitesError> {
        let find = |name: &str| TLS13.iter().find(|(_, known)| *known == name).map(|(suite, _)| *suite);
        let all: Option<Vec<_>> = text.split(':').filter(|word| !word.is_empty()).map(find).collect();
        all.map(Self).ok_or(SuitesError::NoMatch)
    }

    /// All of TLS 1.3.
    #[must_use]
    pub fn all_tls13() -> Self {
        Self(TLS13.iter().map(|(suite, _)| *suite).collect())
    }

    /// Their names, as OpenSSL has them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|suite| suite_name(suite.suite()))
    }

    /// None.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }
}

/// What a cipher string came to so far.
#[derive(Default)]
struct CipherList {
    /// Places in [`TLS12`].
    active: Vec<usize>,
    /// Those that no word may add any more (`!`).
    killed: Vec<usize>,
}

impl CipherList {
    fn apply(&mut self, sign: u8, name: &str) {
        let is_meant = |at: &usize| name.split('+').all(|part| TLS12[*at].is(part));
        let meant: Vec<usize> = (0..TLS12.len()).filter(is_meant).collect();
        match sign {
            b'!' => {
                self.active.retain(|at| !meant.contains(at));
                self.killed.extend(meant);
            }
            b'-' => self.active.retain(|at| !meant.contains(at)),
            // To the end, those that are there already.
            b'+' => {
                let (moved, kept) = self.active.iter().partition(|at| meant.contains(at));
                let moved: Vec<usize> = moved;
                self.active = kept;
                self.active.extend(moved);
            }
            _ => {
                for at in meant {
                    if !self.active.contains(&at) && !self.killed.contains(&at) {
                        self.active.push(at);
                    }
                }
            }
        }
    }
}

impl Known {
    fn is(&self, name: &str) -> bool {
        let signs = if self.name.starts_with("ECDHE-ECDSA") { ECDSA } else { RSA };
        self.name == name || [EVERY, signs, self.aliases].iter().any(|list| list.contains(&name)) || self.is_iana(name)
    }

    fn is_iana(&self, name: &str) -> bool {
        self.suite.suite().as_str() == Some(name)
    }
}

/// The name that OpenSSL has for a suite.
#[must_use]
pub(crate) fn suite_name(suite: CipherSuite) -> &'static str {
    let of_12 = TLS12.iter().find(|known| known.suite.suite() == suite).map(|known| known.name);
    let of_13 = || TLS13.iter().find(|(known, _)| known.suite() == suite).map(|(_, name)| *name);
    of_12.or_else(of_13).unwrap_or(UNKNOWN)
}

/// The name that OpenSSL has for a suite by its number: `None` where it is none of ours.
#[must_use]
pub fn suite_name_of(number: u16) -> Option<&'static str> {
    let name = suite_name(CipherSuite::from(number));
    (name != UNKNOWN).then_some(name)
}

const UNKNOWN: &str = "UNKNOWN";

/// A group, and names that OpenSSL takes for it; the first is what it tells.
type Group = (&'static dyn SupportedKxGroup, &'static [&'static str]);

/// Those that there are, in the order in which they are preferred.
static GROUPS: [Group; 5] = [
    (group::X25519MLKEM768, &["X25519MLKEM768"]),
    (group::X25519, &["X25519", "x25519"]),
    (group::SECP256R1, &["prime256v1", "P-256", "secp256r1"]),
    (group::SECP384R1, &["secp384r1", "P-384"]),
    (group::SECP256R1MLKEM768, &["SecP256r1MLKEM768"]),
];

/// Groups of OpenSSL's that are none of ours.
const OTHER_GROUPS: [&str; 9] = [
    "secp521r1",
    "P-521",
    "X448",
    "x448",
    "ffdhe2048",
    "ffdhe3072",
    "ffdhe4096",
    "brainpoolP256r1",
    "SecP384r1MLKEM1024",
];

/// The groups that a server has keys in.
#[derive(Clone, Debug)]
pub struct Groups(pub(crate) Vec<&'static dyn SupportedKxGroup>);

/// Why no groups follow from a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupsError {
    /// No such group is known.
    Unknown(String),
    /// None of them is here.
    NoneOfOurs,
}

impl Groups {
    /// All but the last, as `auto` means.
    #[must_use]
    pub fn auto() -> Self {
        Self(GROUPS[..4].iter().map(|(group, _)| *group).collect())
    }

    /// Those that a list names (`ssl_ecdh_curve`), in its order, and those of it that are not
    /// here.
    ///
    /// # Errors
    /// One is no group, or none is here.
    pub fn of(text: &str) -> Result<(Self, Vec<String>), GroupsError> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in text.split(':').filter(|name| !name.is_empty()) {
            match GROUPS.iter().find(|(_, names)| names.contains(&name)) {
                Some((group, _)) => found.push(*group),
                None if OTHER_GROUPS.contains(&name) => missing.push(name.to_owned()),
                None => return Err(GroupsError::Unknown(name.to_owned())),
            }
        }
        if found.is_empty() { Err(GroupsError::NoneOfOurs) } else { Ok((Self(found), missing)) }
    }
}

/// The name that OpenSSL has for a group.
pub(crate) fn group_name(name: NamedGroup) -> &'static str {
    GROUPS.iter().find(|(group, _)| group.name() == name).map_or("", |(_, names)| names[0])
}

/// The name that OpenSSL has for a group by its number (RFC 8446 section 4.2.7): `None`
/// where it has none for one of ours.
#[must_use]
pub fn group_name_of(number: u16) -> Option<&'static str> {
    const OTHERS: [(u16, &str); 6] =
        [(25, "secp521r1"), (29, "X25519"), (30, "X448"), (256, "ffdhe2048"), (257, "ffdhe3072"), (258, "ffdhe4096")];
    let ours = GROUPS.iter().find(|(group, _)| u16::from(group.name()) == number).map(|(_, names)| names[0]);
    ours.or_else(|| OTHERS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name))
}
