//! Compression.

use super::layer::Layer;
use super::tables::Lines;
use super::{Compiler, Step};
use crate::reader::Directive;
use std::sync::Arc;

impl Compiler<'_> {
    pub(super) fn compression(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let (Some(rule), place) = (directive.rule, directive.place) else { return Ok(()) };
        let first = layer.first(rule.name);
        let rules = Arc::make_mut(&mut layer.block.compression);
        let said = rules.set(rule.name, &words(directive), first, &mut Lines { compiler: self, place });
        match said {
            // The reader has warned of its words.
            Ok(_) if rule.name == "gzip_proxied" => {}
            Ok(said) => said.into_iter().for_each(|what| self.warn(place, what)),
            Err(why) if why.starts_with("invalid value") && !why.contains('"') => {
                return Err(self.invalid(directive, "invalid value"));
            }
            Err(why) if why == "invalid number" => return Err(self.invalid(directive, "invalid number")),
            Err(why) => return Err(self.refused(place, why)),
        }
        Ok(())
    }
}

fn words(directive: &Directive) -> Vec<&[u8]> {
    directive.arguments.iter().map(Vec::as_slice).collect()
}
