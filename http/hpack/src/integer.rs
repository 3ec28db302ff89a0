//! Integers with a prefix (section 5.1).

use crate::error::Error;

/// The bytes of a block that are still to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

impl<'b> Reader<'b> {
    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// The integer whose prefix is the low `bits` of `first`, which was read already.
    #[inline]
    pub(crate) fn integer(&mut self, first: u8, bits: u32) -> Result<u32, Error> {
        let most = (1 << bits) - 1;
        let value = u32::from(first) & most;
        if value < most { Ok(value) } else { self.continued(most) }
    }

    /// The rest of an integer that is `least` or more. Below 2^28 above that, and in at most
    /// four bytes: a number of a longer form is an error (section 5.1, last paragraph).
    fn continued(&mut self, least: u32) -> Result<u32, Error> {
        let mut value = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.byte().ok_or(Error::Truncated)?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(least + value);
            }
        }
        Err(Error::IntegerOverflow)
    }

    #[inline]
    pub(crate) fn take(&mut self, length: u32) -> Result<&'b [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length as usize).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Appends `value` with the `pattern` above its prefix of `bits`.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, pattern: u8, bits: u32, value: u32) {
    let most = (1u32 << bits) - 1;
    if value < most {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
