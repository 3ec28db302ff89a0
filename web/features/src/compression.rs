//! `gzip`, `brotli`, `zstd`, `gunzip`, and what belongs to them: which coding a
//! response gets, and bodies that were compressed for all who take them.
//!
//! What a request takes comes to a number ([`Accepted::class`]), so that what was
//! compressed for one is given to all that are alike.

mod accept;
mod bodies;
mod keys;
mod rows;
mod rules;

pub use accept::{Accepted, RequestFacts, class_of};
pub use bodies::{BodyKey, Compressed, CompressedBodies, DiskFile, FILE_MAX, Uncompressed};
pub use gzip::Coding;
pub use rules::{Chosen, CodingRules, CompressionRules, Precompressed, Proxied, ResponseFacts};

use crate::row::VariableRow;
use crate::{Explaining, Feature, FeatureSettings, Reach};

/// See the module: of what comes with nginx.
pub(crate) const GZIP: Feature = Feature {
    directives: rows::GZIP,
    variables: &[VariableRow {
        name: "gzip_ratio",
        reach: Reach::Request,
        lasts: false,
        write: |_, request, out| {
            let Some((whole, sent)) = request.parts().compression.lengths else { return false };
            out.extend_from_slice(ratio(whole, sent).as_bytes());
            true
        },
    }],
    keys: keys::KEYS,
    built_with: &["gunzip", "gzip_static"],
    explain: Some(explain),
};

/// The same of other codings.
pub(crate) const OTHERS: Feature = Feature { directives: rows::OTHERS, ..Feature::NONE };

/// What is known of a request whose answer is compressed.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompressedAnswer {
    /// How long it was before, and then, in bytes.
    pub lengths: Option<(u64, u64)>,
    /// The ticket with which it waited for its content to be compressed: it does so once.
    pub waited_by: Option<u64>,
}

fn explain(settings: &FeatureSettings, explaining: &mut dyn Explaining) {
    let rules = &settings.compression;
    if (rules.is_on() || rules.has_files()) && rules.looks_at_agents() {
        explaining.keeps_off("gzip_disable", "User-Agent is looked at in each request");
    }
}

/// How many times as long an answer was, as nginx writes it.
fn ratio(whole: u64, sent: u64) -> String {
    let sent = sent.max(1);
    let hundredths = whole * 100 / sent + u64::from(whole * 1_000 / sent % 10 > 4);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests;
