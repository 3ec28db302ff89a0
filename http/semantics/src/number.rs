//! Numbers in fields.

/// `1*DIGIT`; `None` also if it does not fit (RFC 9110 section 8.6).
#[inline]
pub fn parse(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}
