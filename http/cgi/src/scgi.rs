//! The netstring that begins a request by SCGI: names and values with zeros behind
//! them, the length of the body first.

use crate::params::{PARAMS_MAX, ParamError, Params};

/// Writes the netstring; `body` bytes follow as they are.
///
/// # Errors
/// A name or a value has a zero, or they are too long.
pub fn netstring(params: &Params, body: u64, out: &mut Vec<u8>) -> Result<(), ParamError> {
    const FIRST: &[u8] = b"CONTENT_LENGTH";
    if params.bytes() > PARAMS_MAX {
        return Err(ParamError::TooLong(params.bytes()));
    }
    if params.iter().any(|(name, value)| name.contains(&0) || value.contains(&0)) {
        return Err(ParamError::Zero);
    }
    let length = body.to_string();
    let bytes = FIRST.len() + length.len() + 2 + params.bytes() + 2 * params.len();
    out.reserve(bytes + 24);
    out.extend_from_slice(format!("{bytes}:").as_bytes());
    for (name, value) in core::iter::once((FIRST, length.as_bytes())).chain(params.iter()) {
        for text in [name, value] {
            out.extend_from_slice(text);
            out.push(0);
        }
    }
    out.push(b',');
    Ok(())
}
