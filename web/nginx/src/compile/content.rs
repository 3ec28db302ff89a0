//! What content passes on its way: `charset`, `ssi`.

use super::arguments::{argument, inside, told};
use super::layer::Layer;
use super::{Compiler, Step, nowhere};
use crate::reader::Directive;
use configuration::Block;
use features::{MediaTypes, Value};
use filters::CharsetError;
use std::sync::Arc;

impl Compiler<'_> {
    /// The media types of a directive by this name.
    pub(super) fn media_types(
        &mut self,
        (layer, name): (&mut Layer, &'static str),
        directive: &Directive,
        types: fn(&mut Block) -> &mut MediaTypes,
    ) -> Step {
        let first = layer.first(name);
        let words: Vec<&[u8]> = directive.arguments.iter().map(Vec::as_slice).collect();
        let said = types(&mut layer.block).add(&words, first);
        said.into_iter().for_each(|what| self.warn(directive.place, what));
        Ok(())
    }

    pub(super) fn charset(&mut self, layer: &mut Layer, directive: &Directive, source: bool) -> Step {
        let text = argument(directive, 0);
        let value = match text {
            b"off" if !source => None,
            [b'$', ..] => Some(self.value(text, directive.place)?),
            text => {
                self.program.charsets.add(text);
                Some(Value::literal(text))
            }
        };
        let rules = Arc::make_mut(&mut layer.block.charset);
        *(if source { &mut rules.source } else { &mut rules.charset }) = value;
        Ok(())
    }

    pub(super) fn charset_map(&mut self, directive: &Directive) -> Step {
        let (from, to) = (argument(directive, 0), argument(directive, 1));
        let names = format!("\"{}\" and \"{}\"", told(from), told(to));
        let mut map = self.program.charsets.map(from, to).map_err(|why| match why {
            CharsetError::Same => {
                self.refused(directive.place, format!("\"charset_map\" between the same charsets {names}"))
            }
            CharsetError::Duplicate => {
                self.refused(directive.place, format!("duplicate \"charset_map\" between {names}"))
            }
            CharsetError::FromUtf8 => {
                self.unsupported(directive.place, "\"charset_map\" from utf-8: write it from the other charset")
            }
        })?;
        for line in inside(directive) {
            let [with] = line.arguments.as_slice() else {
                return Err(self.refused(line.place, "invalid parameters number".to_owned()));
            };
            map.line(&line.name, with).map_err(|wrong| {
                let word = if wrong == 0 { &line.name } else { with };
                self.refused(line.place, format!("invalid value \"{}\"", told(word)))
            })?;
        }
        self.program.charsets.take(map);
        Ok(())
    }

    /// Content that becomes one of another charset has a table for that.
    pub(super) fn charsets_are_known(&self) -> Step {
        for block in &self.program.blocks {
            let rules = &block.charset;
            let constant =
                |value: &Option<Value>| value.as_ref().and_then(|value| value.constant().map(<[u8]>::to_vec));
            let (Some(from), Some(to)) = (constant(&rules.source), constant(&rules.charset)) else { continue };
            let charsets = &self.program.charsets;
            let (Some(one), Some(other)) = (charsets.find(&from), charsets.find(&to)) else { continue };
            if one != other && charsets.table(one, other).is_none() {
                let names = format!("\"{}\" and \"{}\"", told(charsets.name(one)), told(charsets.name(other)));
                return Err(nowhere(format!("no \"charset_map\" between the charsets {names}")));
            }
        }
        Ok(())
    }
}
