//! Bytes that nobody looks at, through the kernel's TCP.

use std::io::{ErrorKind, Read, Result, Write};

/// Takes so many bytes, up to `room` at a time.
///
/// # Errors
/// They could not be read, or the stream ended before.
pub fn take(stream: &mut impl Read, bytes: u64, room: usize) -> Result<()> {
    let mut buffer = vec![0; room];
    let mut left = bytes;
    while left > 0 {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(read as u64);
    }
    Ok(())
}

/// Gives so many bytes.
///
/// # Errors
/// They could not be written.
pub fn give(stream: &mut impl Write, bytes: u64) -> Result<()> {
    let buffer = vec![7; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let some = (left as usize).min(buffer.len());
        stream.write_all(&buffer[..some])?;
        left -= some as u64;
    }
    Ok(())
}
