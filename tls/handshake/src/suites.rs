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
/// `RSA` is none of them: it means that keys are exchanged by RSA, too.
const RSA: &[&str] = &["aRSA"];
const EVERY: &[&str] = &["ALL", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH", "TLSv1.2"];

/// Those of TLS 1.2, in the order in which OpenSSL has them.
const TLS12: [Known; 6] = [
    Known {
        suite: suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        aliases: &["AES", "AES256", "AESGCM", "FIPS"],
        bits: 256,
    },
    Known {
        suite: suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        aliases: &["AES", "AES256", "AESGCM", "FIPS"],
        bits: 256,
    },
    Known {
        suite: suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        aliases: &["CHACHA20"],
        bits: 256,
    },
    Known {
        suite: suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        aliases: &["CHACHA20"],
        bits: 256,
    },
    Known {
        suite: suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        aliases: &["AES", "AES128", "AESGCM", "FIPS"],
        bits: 128,
    },
    Known {
        suite: suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        aliases: &["AES", "AES128", "AESGCM", "FIPS"],
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
const OTHERS: [&str; 16] = [
    "RSA", "SHA1", "SHA256", "SHA384", "SSLv3", "EDH", "kDHE", "-SHA", "DHE-", "PSK", "CAMELLIA", "ARIA", "CCM",
    "AES128-", "AES256-", "DES-",
];

/// Those of TLS 1.3 that OpenSSL has and that are none of ours.
const OTHERS13: [&str; 2] = ["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"];

/// What stands at the front of a string alone, and the words that it means.
const FRONTS: [(&str, &str); 5] = [
    ("DEFAULT", "ALL"),
    ("SUITEB128ONLY", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("SUITEB128C2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("SUITEB128", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("SUITEB192", "ECDHE-ECDSA-AES256-GCM-SHA384"),
];

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
        let mut list = CipherList::new();
        let mut rest = text;
        if let Some((front, means)) = FRONTS.iter().find(|(front, _)| text.starts_with(front)) {
            list.take(means)?;
            // Nothing behind a name of Suite B is looked at.
            rest = if *front == "DEFAULT" { &text[front.len()..] } else { "" };
        }
        list.take(rest)?;
        let found = list.found();
        match found.is_empty() {
            true if list.names_others => Err(SuitesError::NoneOfOurs),
            true => Err(SuitesError::NoMatch),
            false => Ok(Self(found)),
        }
    }

    /// Those of TLS 1.3 that a list of names means (`Ciphersuites`), in its order, and those of it
    /// that are not here.
    ///
    /// # Errors
    /// It names one that there is not, or none that is here.
    pub fn of_tls13(text: &str) -> Result<(Self, Vec<String>), SuitesError> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in text.split(':').filter(|name| !name.is_empty()) {
            match TLS13.iter().find(|(_, known)| *known == name) {
                Some((suite, _)) => found.push(*suite),
                None if OTHERS13.contains(&name) => missing.push(name.to_owned()),
                None => return Err(SuitesError::NoMatch),
            }
        }
        let is_left = !found.is_empty() || missing.is_empty();
        if is_left { Ok((Self(found), missing)) } else { Err(SuitesError::NoneOfOurs) }
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
struct CipherList {
    /// Places in [`TLS12`], and whether the string has added them: those that `!` named are gone.
    entries: Vec<(usize, bool)>,
    /// What keys have at least (`@SECLEVEL`, SSL_CTX_set_security_level(3)).
    least_bits: u16,
    /// Whether a word adds suites that are none of ours.
    names_others: bool,
}

impl CipherList {
    fn new() -> Self {
        let entries = (0..TLS12.len()).map(|at| (at, false)).collect();
        Self { entries, least_bits: 0, names_others: false }
    }

    /// Reads words: one ends where no character of a name follows, so that signs part them, too.
    fn take(&mut self, text: &str) -> Result<(), SuitesError> {
        const BETWEEN: [char; 4] = [':', ',', ' ', ';'];
        let is_of_name = |one: char| one.is_ascii_alphanumeric() || ['-', '.', '=', '_', '+'].contains(&one);
        let mut rest = text.trim_start_matches(BETWEEN);
        while let Some(first) = rest.chars().next() {
            let sign = Some(first).filter(|sign| ['!', '-', '+', '@'].contains(sign));
            let word = if sign.is_some() { &rest[1..] } else { rest };
            let end = word.find(|one| !is_of_name(one)).unwrap_or(word.len());
            let (name, behind) = word.split_at(end);
            if name.is_empty() {
                return Err(SuitesError::NoMatch);
            }
            match sign {
                Some('@') => self.command(name)?,
                sign => {
                    self.names_others |= sign.is_none() && OTHERS.iter().any(|part| name.contains(part));
                    self.apply(sign, name);
                }
            }
            rest = behind.trim_start_matches(BETWEEN);
        }
        Ok(())
    }

    fn command(&mut self, name: &str) -> Result<(), SuitesError> {
        match name {
            "STRENGTH" => {
                // Those that are added, behind those that are not.
                let bits = |at: usize, is_in| if is_in { TLS12[at].bits } else { u16::MAX };
                self.entries.sort_by_key(|(at, is_in)| core::cmp::Reverse(bits(*at, *is_in)));
            }
            "SECLEVEL=0" | "SECLEVEL=1" | "SECLEVEL=2" | "SECLEVEL=3" => self.least_bits = 0,
            "SECLEVEL=4" => self.least_bits = 192,
            "SECLEVEL=5" => self.least_bits = 256,
            _ => return Err(SuitesError::NoMatch),
        }
        Ok(())
    }

    fn apply(&mut self, sign: Option<char>, name: &str) {
        let is_meant = |at: usize| name.split('+').all(|part| TLS12[at].is(part));
        let (meant, mut kept): (Vec<_>, Vec<_>) = self.entries.iter().partition(|(at, is_in)| match sign {
            Some('!') => is_meant(*at),
            Some(_) => is_meant(*at) && *is_in,
            None => is_meant(*at) && !*is_in,
        });
        match sign {
            Some('!') => {}
            // To the front, so that who adds them again has them first.
            Some('-') => {
                kept.splice(0..0, meant.into_iter().map(|(at, _)| (at, false)));
            }
            // To the end: those that are there already, or that are added.
            _ => kept.extend(meant.into_iter().map(|(at, _)| (at, true))),
        }
        self.entries = kept;
    }

    fn found(&self) -> Vec<SupportedCipherSuite> {
        let is_in = |(at, is_in): &&(usize, bool)| *is_in && TLS12[*at].bits >= self.least_bits;
        self.entries.iter().filter(is_in).map(|(at, _)| TLS12[*at].suite).collect()
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

/// Groups that OpenSSL takes and that are none of ours, by all names that it takes.
#[rustfmt::skip]
const OTHER_GROUPS: &[&str] = &[
    "secp521r1", "P-521", "X448", "x448", "SecP384r1MLKEM1024", "MLKEM512", "MLKEM768", "MLKEM1024",
    "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192",
    "secp256k1", "secp160k1", "secp160r1", "secp160r2", "secp192k1", "secp224k1", "secp224r1", "P-224",
    "prime192v1", "secp192r1", "P-192",
    "sect163k1", "K-163", "sect163r1", "sect163r2", "B-163", "sect193r1", "sect193r2", "sect233k1", "K-233",
    "sect233r1", "B-233", "sect239k1", "sect283k1", "K-283", "sect283r1", "B-283", "sect409k1", "K-409",
    "sect409r1", "B-409", "sect571k1", "K-571", "sect571r1", "B-571",
    "brainpoolP256r1", "brainpoolP384r1", "brainpoolP512r1",
    "brainpoolP256r1tls13", "brainpoolP384r1tls13", "brainpoolP512r1tls13",
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
