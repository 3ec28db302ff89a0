//! Features of a place, each in one room: what a directive is called and where it may stand,
//! how it is merged with that of the block outside, what it does, and which variables and
//! keys of a site in TOML it brings.
//!
//! | room | for |
//! | --- | --- |
//! | `auth_basic` | who asks needs a password |
//! | `compression` | which coding an answer gets, and bodies that are compressed once for all |
//! | `expires` | until when answers are good |
//! | `http2` | whether HTTP/2 is spoken, and how much of it at a time |
//! | `limits` | how many requests and connections a client may have |
//! | `secure_link` | links that only who knows a secret can make |
//! | `seeking` | films from a time on: `mp4`, `flv` |
//! | `sub_filter` | other texts in place of some |
//!
//! A room says what it has as rows ([`DirectiveRow`], [`VariableRow`], [`SiteKey`]): the
//! language of nginx.conf, that of sites, their documents and `-t --explain` are made of
//! these. What it was told is a field of [`FeatureSettings`], which begins in each block as a
//! copy of that of the block outside; what it knows of a request is a field of
//! [`FeatureParts`]. A request sees neither rows nor names.
//!
//! The other modules are what all rooms stand on: values with variables, their units, the
//! form of directives, keys, and a request as rooms see it.
#![forbid(unsafe_code)]

pub mod auth_basic;
mod compiling;
pub mod compression;
pub mod expires;
mod filter;
pub mod http2;
pub mod key;
mod level;
pub mod limits;
mod media_types;
mod reach;
mod row;
mod rule;
pub mod secure_link;
pub mod seeking;
pub mod sub_filter;
pub mod units;
mod value;
mod view;

pub use auth_basic::AuthBasic;
pub use compiling::{BlockCompiling, Compiling};
pub use compression::CompressionRules;
pub use expires::Expires;
pub use filter::{Broken, FilterStep};
pub use http2::Http2Settings;
pub use key::SiteKey;
pub use level::ErrorLevel;
pub use limits::LimitRules;
pub use media_types::MediaTypes;
pub use reach::Reach;
pub use row::{Declaration, DirectiveEffect, DirectiveRow, Refusal, Setter, VariableRow, Words};
pub use rule::{Arguments, Context, ValueForm};
pub use secure_link::SecureLink;
pub use seeking::{SeekFormat, Seeking};
pub use sub_filter::SubstituteRules;
pub use value::{Value, ValueError, ValuePart, Variables};
pub use view::{RequestView, Values};

use auth_basic::KnownUser;
use compression::CompressedAnswer;
use limits::{CountedRequest, Zone};
use secure_link::FoundLink;
use std::sync::Arc;

/// What a block says to each feature.
#[derive(Clone, Debug, Default)]
pub struct FeatureSettings {
    /// `auth_basic` and what belongs to it.
    pub auth_basic: Option<Arc<AuthBasic>>,
    /// `gzip`, `brotli`, `zstd`, `gunzip` and what belongs to them.
    pub compression: Arc<CompressionRules>,
    /// `expires`; none where nothing is said of answers.
    pub expires: Option<Arc<Expires>>,
    /// `http2` and what belongs to it.
    pub http2: Http2Settings,
    /// `limit_req`, `limit_conn` and what belongs to them.
    pub limits: Arc<LimitRules>,
    /// `secure_link` and what belongs to it.
    pub secure_link: Option<Arc<SecureLink>>,
    /// `mp4`, `flv` and what belongs to them.
    pub seeking: Seeking,
    /// `sub_filter` and what belongs to it.
    pub sub_filter: Arc<SubstituteRules>,
}

/// What features know of a request.
#[derive(Debug, Default)]
pub struct FeatureParts {
    /// Of its user.
    pub auth_basic: KnownUser,
    /// Of its compression.
    pub compression: CompressedAnswer,
    /// Of limits.
    pub limits: CountedRequest,
    /// Of its link.
    pub secure_link: FoundLink,
}

/// What directives have declared for all blocks.
#[derive(Debug, Default)]
pub struct Declared {
    /// What is limited together (`limit_req_zone`, `limit_conn_zone`).
    pub zones: Vec<Zone>,
}

/// A feature, by what it has.
#[derive(Clone, Copy, Debug)]
struct Feature {
    directives: &'static [DirectiveRow],
    variables: &'static [VariableRow],
    keys: &'static [SiteKey],
    /// Modules that nginx has only where it is built with them, as its `configure` names them.
    built_with: &'static [&'static str],
    /// What of a block's settings decides whether its answers are kept ready.
    explain: Option<fn(&FeatureSettings, &mut dyn Explaining)>,
}

impl Feature {
    const NONE: Self = Self { directives: &[], variables: &[], keys: &[], built_with: &[], explain: None };
}

/// All of them.
static FEATURES: [Feature; 9] = [
    auth_basic::FEATURE,
    compression::GZIP,
    compression::OTHERS,
    expires::FEATURE,
    http2::FEATURE,
    limits::FEATURE,
    secure_link::FEATURE,
    seeking::FEATURE,
    sub_filter::FEATURE,
];

/// Who explains whether answers of a place are kept ready, and what slows them down.
pub trait Explaining {
    /// A value is written, always or for some requests.
    fn value(&mut self, value: &Value, always: bool);
    /// This directive keeps all answers from being ready, for this reason.
    fn keeps_off(&mut self, directive: &'static str, why: &'static str);
    /// Whether files answer here, and nobody who is asked.
    fn serves_files(&self) -> bool;
    /// This directive costs more than it looks.
    fn slows(&mut self, directive: &'static str, why: &'static str);
}

/// The directives of all features.
pub fn directives() -> impl Iterator<Item = &'static DirectiveRow> {
    FEATURES.iter().flat_map(|feature| feature.directives)
}

/// The variable of this name, in lower case, if a feature brings it.
#[must_use]
pub fn variable(name: &[u8]) -> Option<&'static VariableRow> {
    let mut variables = FEATURES.iter().flat_map(|feature| feature.variables);
    variables.find(|variable| variable.name.as_bytes() == name)
}

/// Modules of features that nginx has only where it is built with them, as its `configure`
/// names them.
pub fn built_with() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().flat_map(|feature| feature.built_with).copied()
}

/// The keys of all features.
pub fn keys() -> impl Iterator<Item = &'static SiteKey> {
    FEATURES.iter().flat_map(|feature| feature.keys)
}

impl FeatureSettings {
    /// Tells what decides whether answers are kept ready.
    pub fn explain(&self, explaining: &mut dyn Explaining) {
        FEATURES.iter().filter_map(|feature| feature.explain).for_each(|explain| explain(self, explaining));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_name_stands_once() {
        let mut directives_seen = HashSet::new();
        for row in directives() {
            assert!(directives_seen.insert(row.name), "{} stands twice", row.name);
        }
        let mut variables_seen = HashSet::new();
        for row in FEATURES.iter().flat_map(|feature| feature.variables) {
            assert!(variables_seen.insert(row.name), "${} stands twice", row.name);
            assert_eq!(variable(row.name.as_bytes()), Some(row));
        }
        let mut keys_seen = HashSet::new();
        for key in keys() {
            for place in key.places {
                assert!(keys_seen.insert((key.name, format!("{place:?}"))), "{} stands twice in {place:?}", key.name);
            }
        }
    }

    /// A key is written as directives that there are.
    #[test]
    fn keys_name_directives() {
        for key in keys() {
            if let key::KeyWritten::As(name) = key.written {
                assert!(directives().any(|row| row.name == name), "{}: there is no {name}", key.name);
            }
        }
    }

    /// What shows a directive are a value, a request and what differs; or a reason.
    #[test]
    fn what_shows_a_directive_is_whole() {
        for row in directives().filter(|row| !row.shown.is_empty() && !row.shown.starts_with("- ")) {
            let lines = || row.shown.lines().map(str::trim_start);
            for word in ["is ", "ask ", "seen "] {
                assert!(lines().any(|line| line.starts_with(word)), "{}: nothing of {word}", row.name);
            }
            assert!(lines().all(|line| line.contains(' ')), "{}: {}", row.name, row.shown);
        }
    }
}
