//! The packet that begins a request by the uwsgi protocol: two modifiers, a length,
//! names and values, each with its length, little end first.

use crate::params::{ParamError, Params};

/// Writes the packet; the body follows as it is.
///
/// # Errors
/// It would be longer than 65,535 bytes.
pub fn packet(params: &Params, modifiers: (u8, u8), out: &mut Vec<u8>) -> Result<(), ParamError> {
    let bytes = params.bytes() + 4 * params.len();
    let length = u16::try_from(bytes).map_err(|_| ParamError::TooLong(bytes))?;
    out.reserve(bytes + 4);
    out.push(modifiers.0);
    out.extend(length.to_le_bytes());
    out.push(modifiers.1);
    for (name, value) in params.iter() {
        for text in [name, value] {
            // No longer than all.
            out.extend((text.len() as u16).to_le_bytes());
            out.extend_from_slice(text);
        }
    }
    Ok(())
}
