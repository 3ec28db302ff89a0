//! What `limit_req_zone`, `limit_req`, `limit_conn_zone` and `limit_conn` say.

use super::table::Table;
use crate::logging::ErrorLevel;
use crate::maps::Compiling;
use crate::units::{number, size};
use crate::value::Value;
use std::sync::Arc;

/// What is limited together.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its name.
    pub name: Box<[u8]>,
    /// Whom it tells apart.
    pub key: Value,
    /// What is counted.
    pub kind: ZoneKind,
    /// The key, as it is written.
    text: Box<[u8]>,
    bytes: u64,
    pub(super) table: Arc<Table>,
}

/// What a zone counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneKind {
    /// Requests; this many are as many as may be, in thousandths a second.
    Requests(u64),
    /// Connections.
    Connections,
}

/// The limits of a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitRules {
    /// `limit_req`, in order.
    pub requests: Vec<RequestLimit>,
    /// `limit_req_status`.
    pub requests_status: u16,
    /// `limit_req_dry_run`: what is too much is only told.
    pub requests_dry_run: bool,
    /// `limit_req_log_level`: of those that are refused; of those that are delayed it is
    /// the next one.
    pub requests_level: ErrorLevel,
    /// `limit_conn`, in order.
    pub connections: Vec<ConnectionLimit>,
    /// `limit_conn_status`.
    pub connections_status: u16,
    /// `limit_conn_dry_run`.
    pub connections_dry_run: bool,
    /// `limit_conn_log_level`.
    pub connections_level: ErrorLevel,
}

impl Default for LimitRules {
    fn default() -> Self {
        Self {
            requests: Vec::new(),
            requests_status: 503,
            requests_dry_run: false,
            requests_level: ErrorLevel::ERROR,
            connections: Vec::new(),
            connections_status: 503,
            connections_dry_run: false,
            connections_level: ErrorLevel::ERROR,
        }
    }
}

/// A `limit_req`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestLimit {
    /// The zone's place in [`crate::Program::zones`].
    pub zone: u16,
    /// How many may be too many before one is refused, in thousandths.
    pub burst: u64,
    /// How many may be before one is delayed, in thousandths.
    pub delay: u64,
}

/// A `limit_conn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimit {
    /// The zone's place in [`crate::Program::zones`].
    pub zone: u16,
    /// How many there may be.
    pub most: u32,
}

/// nginx refuses a smaller zone: eight pages.
const ZONE_MIN: u64 = 8 * 4_096;

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A number that is more than nothing.
fn positive(digits: &[u8]) -> Option<u64> {
    number(digits).ok().filter(|number| *number > 0)
}

impl Zone {
    /// A zone from what follows `limit_req_zone`, or `limit_conn_zone` if it does
    /// not count `requests`.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn parse(words: &[&[u8]], requests: bool, compiling: &mut dyn Compiling) -> Result<Self, String> {
        let [key_text, options @ ..] = words else { return Err("invalid number of arguments".into()) };
        let key = compiling.value(key_text)?;
        let (mut name, mut bytes, mut rate, mut scale) = (&b""[..], 0, 1, 1);
        for option in options {
            let invalid = |what: &str| Err(format!("invalid {what} \"{}\"", text(option)));
            if let Some(zone) = option.strip_prefix(b"zone=") {
                let Some(colon) = zone.iter().position(|byte| *byte == b':') else { return invalid("zone size") };
                let Ok(read) = size(&zone[colon + 1..]) else { return invalid("zone size") };
                if read < ZONE_MIN {
                    return Err(format!("zone \"{}\" is too small", text(option)));
                }
                (name, bytes) = (&zone[..colon], read);
            } else if let Some(digits) = option.strip_prefix(b"rate=").filter(|_| requests) {
                let digits = if let Some(digits) = digits.strip_suffix(b"r/s") {
                    scale = 1;
                    digits
                } else if let Some(digits) = digits.strip_suffix(b"r/m") {
                    scale = 60;
                    digits
                } else {
                    digits
                };
                let Some(read) = positive(digits) else { return invalid("rate") };
                rate = read;
            } else {
                return invalid("parameter");
            }
        }
        if name.is_empty() {
            let directive = if requests { "limit_req_zone" } else { "limit_conn_zone" };
            return Err(format!("\"{directive}\" must have \"zone\" parameter"));
        }
        let kind =
            if requests { ZoneKind::Requests(rate.saturating_mul(1_000) / scale) } else { ZoneKind::Connections };
        let table = Table::new(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(Self { name: name.into(), key, kind, text: (*key_text).into(), bytes, table })
    }

    /// Goes on with what a configuration before has counted, if that had a zone of
    /// this name and size.
    ///
    /// # Errors
    /// That one counted something else, in nginx's words.
    pub fn inherit(&mut self, before: &[Self]) -> Result<(), String> {
        let Some(old) =
            before.iter().find(|old| old.name == self.name && old.counts_requests() == self.counts_requests())
        else {
            return Ok(());
        };
        if old.bytes != self.bytes {
            return Ok(());
        }
        if old.text != self.text {
            let kind = if self.counts_requests() { "limit_req" } else { "limit_conn_zone" };
            let (name, new, old) = (text(&self.name), text(&self.text), text(&old.text));
            return Err(format!("{kind} \"{name}\" uses the \"{new}\" key while previously it used the \"{old}\" key"));
        }
        self.table = Arc::clone(&old.table);
        Ok(())
    }

    /// Takes what memory it begins with.
    pub fn make(&self) {
        self.table.make();
    }

    /// How large it is said to be, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The key, as it is written: for messages.
    #[must_use]
    pub const fn key_text(&self) -> &[u8] {
        &self.text
    }

    const fn counts_requests(&self) -> bool {
        matches!(self.kind, ZoneKind::Requests(_))
    }

    /// The zone with its rate, if it counts requests.
    pub(super) const fn rate(&self) -> Option<(&Self, u64)> {
        match self.kind {
            ZoneKind::Requests(rate) => Some((self, rate)),
            ZoneKind::Connections => None,
        }
    }
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
