//! Directives of features: what their rows say, done to the block that they stand in.

use super::layer::{Layer, Seen};
use super::tables::Lines;
use super::{Compiler, Step, nowhere, process};
use crate::message::Place;
use crate::reader::Directive;
use configuration::program::ContentRules;
use features::limits::Zone;
use features::{BlockCompiling, Compiling, DirectiveEffect, Refusal, Setter, Value, Words};

/// A block that is being compiled, for a directive at `place`.
struct InBlock<'c, 'a> {
    compiler: &'c mut Compiler<'a>,
    seen: &'c mut Seen,
    place: Place,
}

impl Compiling for InBlock<'_, '_> {
    fn value(&mut self, text: &[u8]) -> Result<Value, String> {
        self.compiler.value(text, self.place).map_err(|why| why.text)
    }

    fn expression(&mut self, pattern: &[u8], caseless: bool) -> Result<u32, String> {
        self.compiler.expression(pattern, caseless, self.place).map_err(|why| why.text)
    }
}

impl BlockCompiling for InBlock<'_, '_> {
    fn is_first(&mut self, name: &'static str) -> bool {
        self.seen.first(name)
    }

    fn has(&self, name: &'static str) -> bool {
        self.seen.has(name)
    }

    fn path(&self, text: &[u8]) -> Vec<u8> {
        self.compiler.conf_path(text)
    }

    fn zone(&self, name: &[u8], of_requests: bool) -> Option<u16> {
        let is_it = |zone: &Zone| *zone.name == *name && zone.counts_requests() == of_requests;
        self.compiler.program.declared.zones.iter().position(is_it).and_then(|at| u16::try_from(at).ok())
    }

    fn level(&self, word: &[u8]) -> Option<u8> {
        process::level_of(word)
    }

    fn warn(&mut self, text: String) {
        self.compiler.warn(self.place, text);
    }
}

impl Compiler<'_> {
    /// Takes directives that declare what places may name, which may stand before them.
    pub(super) fn declarations(&mut self, directives: &[Directive]) -> Step {
        for directive in directives {
            let Some(DirectiveEffect::Declares(declare)) =
                directive.rule.and_then(|rule| rule.row).map(|row| row.effect)
            else {
                continue;
            };
            let place = directive.place;
            let words: Vec<&[u8]> = directive.arguments.iter().map(Vec::as_slice).collect();
            let mut declared = core::mem::take(&mut self.program.declared);
            let done = declare(&mut declared, &words, &mut Lines { compiler: self, place });
            self.program.declared = declared;
            done.map_err(|why| self.refused(place, why))?;
        }
        let zones = self.program.declared.zones.iter().map(|zone| (zone.name.to_vec(), zone.bytes()));
        self.program.shared_memory.extend(zones);
        Ok(())
    }

    /// Takes a directive of a feature.
    pub(super) fn set_feature(
        &mut self,
        layer: &mut Layer,
        directive: &Directive,
        (name, setter): (&'static str, Setter),
    ) -> Step {
        let words: Vec<&[u8]> = directive.arguments.iter().map(Vec::as_slice).collect();
        let Layer { block, seen, .. } = layer;
        let sought = block.features.seeking.format;
        let mut compiling = InBlock { compiler: self, seen, place: directive.place };
        let set = setter(&mut block.features, &mut Words { name, words: &words, compiling: &mut compiling });
        if block.features.seeking.format != sought {
            // What answers is what was said last.
            block.content = ContentRules::Files;
        }
        set.map_err(|why| match why {
            Refusal::Text(text) => self.refused(directive.place, text),
            Refusal::OfDirective(text) => self.invalid(directive, text),
            Refusal::Nowhere(text) => nowhere(text),
        })
    }
}
