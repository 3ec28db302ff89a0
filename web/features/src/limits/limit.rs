//! One limit: what follows `limit_req` and `limit_conn`.

use super::zone::text;
use crate::units::positive;

/// A `limit_req`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestLimit {
    /// The zone's place in [`crate::Declared::zones`].
    pub zone: u16,
    /// How many may be too many before one is refused, in thousandths.
    pub burst: u64,
    /// How many may be before one is delayed, in thousandths.
    pub delay: u64,
}

/// A `limit_conn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimit {
    /// The zone's place in [`crate::Declared::zones`].
    pub zone: u16,
    /// How many there may be.
    pub most: u32,
}

impl RequestLimit {
    /// Reads what follows `limit_req`; `zone` finds a zone's place by its name.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn parse(words: &[&[u8]], zone: &mut dyn FnMut(&[u8]) -> Option<u16>) -> Result<Self, String> {
        let (mut place, mut burst, mut delay) = (None, 0, 0);
        for word in words {
            let invalid = |what: &str| format!("invalid {what} \"{}\"", text(word));
            if let Some(name) = word.strip_prefix(b"zone=") {
                // nginx notices when all is read.
                let missing = || format!("zero size shared memory zone \"{}\"", text(name));
                place = Some(zone(name).ok_or_else(missing)?);
            } else if let Some(digits) = word.strip_prefix(b"burst=") {
                burst = positive(digits).ok_or_else(|| invalid("burst value"))?;
            } else if let Some(digits) = word.strip_prefix(b"delay=") {
                delay = positive(digits).ok_or_else(|| invalid("delay value"))?;
            } else if *word == b"nodelay" {
                delay = u64::MAX / 1_000;
            } else {
                return Err(invalid("parameter"));
            }
        }
        let zone = place.ok_or("\"limit_req\" must have \"zone\" parameter")?;
        Ok(Self { zone, burst: burst.saturating_mul(1_000), delay: delay.saturating_mul(1_000) })
    }
}

impl ConnectionLimit {
    /// Reads what follows `limit_conn`; `zone` finds a zone's place by its name.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn parse(words: &[&[u8]], zone: &mut dyn FnMut(&[u8]) -> Option<u16>) -> Result<Self, String> {
        let [name, digits] = words else { return Err("invalid number of arguments".into()) };
        let place = zone(name).ok_or_else(|| format!("zero size shared memory zone \"{}\"", text(name)))?;
        let most = positive(digits).ok_or_else(|| format!("invalid number of connections \"{}\"", text(digits)))?;
        match u16::try_from(most) {
            Ok(most) => Ok(Self { zone: place, most: most.into() }),
            Err(_) => Err("connection limit must be less 65536".into()),
        }
    }
}
