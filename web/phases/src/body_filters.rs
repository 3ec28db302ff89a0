//! What an answer's content passes on its way to its client.
//!
//! | module | for |
//! | --- | --- |
//! | `choose` | which filters it passes, and what becomes of its fields by that |
//! | `compress` | in which coding it is sent |
//! | `charsets` | what is told of its charset |
//! | `send` | it is made, at once or a piece at a time |
//! | `progress` | the pieces, as its client takes them |
//! | `values` | what filters ask of the request |

mod charsets;
mod choose;
mod compress;
mod progress;
mod send;
mod values;

use super::answer::Answer;
use configuration::program::{Block, FilterSet};
use features::MediaTypes;
use gzip::Coding;

impl Answer {
    /// Whether content as an answer has it may pass filters here: it is not compressed
    /// as a whole.
    pub(crate) fn may_pass(&self, block: &Block) -> bool {
        block.filters.has(FilterSet::GUNZIP) && self.coding == Some(Coding::Gzip)
            || block.filters.has(FilterSet::ADDITION) && is_among(&block.subrequests.types, self)
            || block.filters.has(FilterSet::SUBSTITUTE) && is_among(&block.features.sub_filter.types, self)
            || block.filters.has(FilterSet::RECODE) && is_among(&block.charset.types, self)
            || block.filters.has(FilterSet::SSI) && is_among(&block.ssi.types, self)
    }
}

/// Whether an answer's media type is among these.
pub(super) fn is_among(types: &MediaTypes, answer: &Answer) -> bool {
    answer.media_type.as_ref().map_or(*types == MediaTypes::All, |told| types.has(formats::text::bare_type(told)))
}
