//! Who may see a place: `allow`, `deny`, `auth_basic`, `satisfy`.

use crate::value::Value;
use app::Prefix;

/// The rules of a place.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    /// Addresses, in order: the first that fits decides; whether it allows.
    /// `None` is a Unix socket's.
    pub addresses: Vec<(Option<Prefix>, bool)>,
    /// `auth_basic` and `auth_basic_user_file`.
    pub basic: Option<BasicAuth>,
    /// One of both is enough (`satisfy any`).
    pub any: bool,
}

/// `auth_basic`.
#[derive(Clone, Debug)]
pub struct BasicAuth {
    /// The realm.
    pub realm: Value,
    /// The file of users and hashes.
    pub file: Value,
}
