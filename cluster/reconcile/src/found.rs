//! What objects say that were there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use messages::{CONTROLLER_FILE, KEY_FILE, TOKEN_FILE, Token};
use serde_json::Value;

/// By what a test is known again.
const IDENTITY: &str = "nearside.dev/test";

/// What workers and their controller know of each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// The test's token.
    pub token: Token,
    /// Where workers look for their controller.
    pub controller: String,
    /// The controller's public key as text, where pods have a token of their own each: others make it of the token.
    pub key: Option<String>,
}

impl Meeting {
    /// What a Secret says to workers, if it does.
    #[must_use]
    pub fn read(secret: &Value) -> Option<Self> {
        let token = Token::read(&of_secret(secret, TOKEN_FILE)?)?;
        let (controller, key) = (of_secret(secret, CONTROLLER_FILE)?, of_secret(secret, KEY_FILE));
        Some(Self { token, controller, key })
    }
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The number of an object, which no other of its name has, where it is such a one.
pub(crate) fn uid(object: &Value) -> Option<String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty() && uid.bytes().all(letter)).map(str::to_owned)
}

/// Whether two Jobs are of one test.
pub(crate) fn is_same_test(one: &Value, other: &Value) -> bool {
    one["metadata"]["annotations"][IDENTITY] == other["metadata"]["annotations"][IDENTITY]
}

/// Whether a Job has ended, or is being deleted.
pub(crate) fn is_over(job: &Value) -> bool {
    let ended = |one: &Value| (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True";
    let conditions = job["status"]["conditions"].as_array();
    is_deleted(job) || conditions.is_some_and(|all| all.iter().any(ended))
}

/// Whether an object is being deleted.
pub(crate) fn is_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether an object belongs to the one with this number.
pub(crate) fn is_owned(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|all| all.iter().any(|one| one["uid"] == uid))
}

/// What a Secret holds under a key, as text.
pub(crate) fn of_secret(secret: &Value, key: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(secret["data"][key].as_str()?).ok()?).ok()
}
