//! What directives say of a place's limits.

use super::limit::{ConnectionLimit, RequestLimit};
use super::zone::Zone;
use crate::compiling::Compiling;
use crate::level::ErrorLevel;
use crate::row::{Refusal, Words};
use crate::{Declared, FeatureSettings};
use std::sync::Arc;

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

/// The rules of a block, made its own.
pub(super) fn rules(settings: &mut FeatureSettings) -> &mut LimitRules {
    Arc::make_mut(&mut settings.limits)
}

/// `limit_req_zone` and `limit_conn_zone`.
pub(super) fn declare(
    declared: &mut Declared,
    words: &[&[u8]],
    (directive, of_requests): (&str, bool),
    compiling: &mut dyn Compiling,
) -> Result<(), String> {
    let zone = Zone::parse(words, of_requests, compiling)?;
    zone.has_own_name(&declared.zones, directive)?;
    declared.zones.push(zone);
    Ok(())
}

/// nginx misses a zone when all is read, at no place.
fn refusal(why: String) -> Refusal {
    if why.starts_with("zero size") { Refusal::Nowhere(why) } else { Refusal::Text(why) }
}

pub(super) fn limit_req(settings: &mut FeatureSettings, words: &mut Words<'_>) -> Result<(), Refusal> {
    let limit = RequestLimit::parse(words.words, &mut |name| words.compiling.zone(name, true)).map_err(refusal)?;
    let (first, list) = (words.is_first(), &mut rules(settings).requests);
    if first {
        list.clear();
    }
    if list.iter().any(|known| known.zone == limit.zone) {
        return Err(Refusal::OfDirective("is duplicate"));
    }
    list.push(limit);
    Ok(())
}

pub(super) fn limit_conn(settings: &mut FeatureSettings, words: &mut Words<'_>) -> Result<(), Refusal> {
    let limit = ConnectionLimit::parse(words.words, &mut |name| words.compiling.zone(name, false)).map_err(refusal)?;
    let (first, list) = (words.is_first(), &mut rules(settings).connections);
    if first {
        list.clear();
    }
    if list.iter().any(|known| known.zone == limit.zone) {
        return Err(Refusal::OfDirective("is duplicate"));
    }
    list.push(limit);
    Ok(())
}

/// A status that refuses.
pub(super) fn status(words: &Words<'_>) -> Result<u16, Refusal> {
    match words.number() {
        status @ 400..=599 => Ok(status as u16),
        _ => Err(Refusal::Text("value must be between 400 and 599".to_owned())),
    }
}

/// A level, of a word that the reader has found to be one.
pub(super) fn level(words: &Words<'_>) -> ErrorLevel {
    words.compiling.level(words.word(0)).map_or(ErrorLevel::ERROR, ErrorLevel)
}
