//! Random bits, as secrets take them.

use rustix::rand::{GetRandomFlags, getrandom};
use say::Failure;

/// Random bits, as a secret takes.
///
/// # Errors
/// If there are none.
pub fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    if filled == bytes.len() { Ok(u128::from_ne_bytes(bytes)) } else { Err("no random bits".into()) }
}
