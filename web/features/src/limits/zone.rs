//! What is counted together: `limit_req_zone` and `limit_conn_zone`.

use super::table::Table;
use crate::compiling::Compiling;
use crate::units::{positive, size};
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

/// nginx refuses a smaller zone: eight pages.
const ZONE_MIN: u64 = 8 * 4_096;

pub(super) fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
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

    /// Refuses a name that another zone has.
    ///
    /// # Errors
    /// One of `known` has it, in nginx's words.
    pub(super) fn has_own_name(&self, known: &[Self], directive: &str) -> Result<(), String> {
        let Some(known) = known.iter().find(|known| known.name == self.name) else { return Ok(()) };
        let name = text(&self.name);
        Err(if known.counts_requests() == self.counts_requests() {
            format!("{directive} \"{name}\" is already bound to key \"{}\"", text(&known.text))
        } else {
            format!("the shared memory zone \"{name}\" is already declared for a different use")
        })
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

    /// Whether requests are counted, and not connections.
    #[must_use]
    pub const fn counts_requests(&self) -> bool {
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
