//! The secret of a test.

use core::hash::Hasher;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher24};

/// A secret of 32 hexadecimal digits: that of a test's controller, drawn anew for each test, or that of one worker,
/// which is derived from it ([`Token::derived`]). Whoever does not know it is heard no further.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

/// Where a worker finds its token: a process's environment is for its own user alone.
pub const TOKEN_VARIABLE: &str = "NEARSIDE_TEST_TOKEN";

/// The variable beside it with the controller's public key: 64 hexadecimal digits.
pub const KEY_VARIABLE: &str = "NEARSIDE_CONTROLLER_KEY";

/// Where a worker that is a pod finds its token: a file in the folder of what it may read.
pub const TOKEN_FILE: &str = "token";

/// The file beside it that says where the controller is: an address or a name, and a port.
pub const CONTROLLER_FILE: &str = "controller";

/// The file beside it with the controller's public key: 64 hexadecimal digits.
pub const KEY_FILE: &str = "controller-key";

/// What the derivation of tokens is for, and of no other.
const DERIVATION: &[u8] = b"nearside cluster: the token of one of many\0";

/// The length of a token, in digits.
const DIGITS: usize = 32;

impl Token {
    /// A token of random bits.
    #[must_use]
    pub fn new(random: u128) -> Self {
        Self(format!("{random:032x}"))
    }

    /// Reads one.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let is_one = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_one.then(|| Self(text.to_owned()))
    }

    /// The token of one of many, by its name, with this one as the secret that the others do not know: a keyed hash
    /// (SipHash-2-4 of 128 bits, a pseudorandom function of its 128-bit key), so that whoever has this one knows
    /// all of them, and whoever has one of them knows no other.
    #[must_use]
    pub fn derived(&self, name: &str) -> Self {
        // What is no number is no token that was drawn, and has none below it that anybody else would come to.
        let key = u128::from_str_radix(&self.0, 16).unwrap_or_default();
        let mut hasher = SipHasher24::new_with_key(&key.to_be_bytes());
        hasher.write(DERIVATION);
        hasher.write(name.as_bytes());
        Self::new(hasher.finish128().as_u128())
    }

    /// The token of a worker of the test that has this one, by its number from zero.
    #[must_use]
    pub fn of_worker(&self, worker: u32) -> Self {
        self.derived(&worker.to_string())
    }

    /// As it is handed to a worker.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Token {
    /// Takes as long wherever two differ, so that its time tells a stranger nothing.
    fn eq(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        let differ = mine.iter().zip(theirs).fold(0, |differ, (one, another)| differ | (one ^ another));
        mine.len() == theirs.len() && core::hint::black_box(differ) == 0
    }
}

impl Eq for Token {}

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Token")
    }
}
