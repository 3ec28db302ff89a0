//! Which filters an answer's content passes, and what becomes of its fields by that,
//! in nginx's order.

use crate::answer::Answer;
use crate::body_filters::is_among;
use crate::filtered_body::Making;
use crate::runner::Runner;
use configuration::program::{Block, FilterSet};
use features::sub_filter::Substitution;
use filters::{Filter, Recoder, Ssi};
use gzip::{Coding, Gunzip};
use std::sync::Arc;

impl Runner<'_> {
    /// Adds the filters that an answer passes, which has these lines of fields, too.
    pub(crate) fn filter(&mut self, answer: &mut Answer, block: &Block, added: &[u8], making: &mut Making) {
        if block.filters.has(FilterSet::GUNZIP) && answer.coding == Some(Coding::Gzip) {
            self.unpack(answer, block, added, making);
        }
        if block.filters.has(FilterSet::ADDITION) && answer.status == 200 && !self.is_sub() {
            self.add_bodies(answer, block, making);
        }
        if block.filters.has(FilterSet::SUBSTITUTE) {
            self.substitute(answer, block, making);
        }
        // By its type as it is before a charset is told.
        let is_ssi =
            block.filters.has(FilterSet::SSI) && !is_empty(answer, making) && is_among(&block.ssi.types, answer);
        self.recode(answer, block, making);
        if is_ssi {
            // Its commands may tell of the time, which a second has.
            making.pipeline.push(Filter::Ssi(Box::new(Ssi::new(Arc::clone(&block.ssi)))));
            answer.changes();
            if !block.ssi.last_modified {
                answer.clear_validators();
            }
            making.is_open = true;
            making.postponed.get_or_insert_default();
        }
    }

    /// `add_before_body` and `add_after_body`.
    fn add_bodies(&mut self, answer: &mut Answer, block: &Block, making: &mut Making) {
        let rules = &block.subrequests;
        if !is_among(&rules.types, answer) {
            return;
        }
        let postponed = making.postponed.get_or_insert_default();
        (postponed.before, postponed.after) = (rules.before.clone(), rules.after.clone());
        making.is_open = true;
        answer.changes();
    }

    /// `charset` and `source_charset`.
    fn recode(&mut self, answer: &mut Answer, block: &Block, making: &mut Making) {
        let Some(media_type) = answer.media_type.take() else { return };
        let coded = answer.coding.is_some() || answer.is_coded;
        let mut scope = self.scope();
        let (_, table) = scope.charset(&media_type, block, (coded, true));
        answer.media_type = Some(scope.with_charset(media_type, block, answer.status));
        let Some(table) = table else { return };
        if !table.keeps_length() {
            making.is_open = true;
            answer.takes_ranges = false;
        }
        making.pipeline.push(Filter::Recode(Recoder::new(table)));
    }

    /// `sub_filter`.
    fn substitute(&mut self, answer: &mut Answer, block: &Block, making: &mut Making) {
        let rules = &block.features.sub_filter;
        if is_empty(answer, making) || !is_among(&rules.types, answer) {
            return;
        }
        let Some(substitution) = Substitution::new(rules, &mut self.scope()) else { return };
        making.pipeline.push(Filter::Substitute(Box::new(substitution)));
        making.is_open = true;
        // nginx leaves what is said of ranges here.
        let is_unranged = answer.is_unranged;
        answer.changes();
        answer.is_unranged = is_unranged;
        if !rules.last_modified {
            answer.clear_validators();
        }
    }

    /// `gunzip`.
    fn unpack(&mut self, answer: &mut Answer, block: &Block, added: &[u8], making: &mut Making) {
        let rules = &block.features.compression;
        answer.vary |= rules.vary;
        let accepted = self.accepted(rules);
        let unpacks = self.with_facts(answer, added, making, |facts| rules.unpacks(accepted, facts));
        if !unpacks {
            return;
        }
        making.pipeline.push(Filter::Gunzip(Box::new(Gunzip::new())));
        making.is_open = true;
        answer.coding = None;
        answer.changes();
    }
}

/// Whether there is nothing to change: what is said of content that is not sent (204, 304)
/// changes with it, as nginx has it.
fn is_empty(answer: &Answer, making: &Making) -> bool {
    let is_untold = answer.of_upstream && matches!(answer.status, 204 | 304);
    !making.is_open && !is_untold && answer.body.length() == 0
}
