//! Blocks of plain lines: `types`, `map`, `geo`, `split_clients`.

use super::arguments::{argument, inside, told};
use super::{Compiler, Step};
use crate::message::Place;
use crate::reader::Directive;
use configuration::maps::{GeoBuilder, MapBuilder, SplitBuilder};
use configuration::types::TypeTable;
use configuration::variables::Variable;
use features::Compiling;
use features::Value;
use std::sync::Arc;

/// Compiles what lines name, and keeps the place for messages.
pub(super) struct Lines<'c, 'a> {
    pub compiler: &'c mut Compiler<'a>,
    pub place: Place,
}

impl Compiling for Lines<'_, '_> {
    fn value(&mut self, text: &[u8]) -> Result<Value, String> {
        self.compiler.value(text, self.place).map_err(|why| why.text)
    }

    fn expression(&mut self, pattern: &[u8], caseless: bool) -> Result<u32, String> {
        self.compiler.expression(pattern, caseless, self.place).map_err(|why| why.text)
    }
}

/// The words of a line.
fn words(line: &Directive) -> Vec<&[u8]> {
    core::iter::once(line.name.as_slice()).chain(line.arguments.iter().map(Vec::as_slice)).collect()
}

impl Compiler<'_> {
    pub(super) fn types(&mut self, layer: &mut super::layer::Layer, directive: &Directive) -> Step {
        if layer.first("types") {
            layer.block.types = Arc::new(TypeTable::default());
        }
        let mut said = Vec::new();
        let table = Arc::make_mut(&mut layer.block.types);
        for line in inside(directive) {
            for end in &line.arguments {
                let known = table.of(&[b"x.", end.as_slice()].concat()).filter(|_| !end.contains(&b'.'));
                if let Some(known) = known {
                    let what = format!(
                        "duplicate extension \"{}\", content type: \"{}\", previous content type: \"{}\"",
                        told(end),
                        told(&line.name),
                        told(known)
                    );
                    said.push((line.place, what));
                }
                table.add(end, &line.name);
            }
        }
        said.into_iter().for_each(|(place, what)| self.warn(place, what));
        Ok(())
    }

    /// The name of the variable that a block defines.
    fn defined<'d>(&self, directive: &'d Directive, at: usize) -> Step<&'d [u8]> {
        let text = argument(directive, at);
        match text.strip_prefix(b"$") {
            Some(name) if !name.is_empty() => Ok(name),
            _ => Err(self.refused(directive.place, format!("invalid variable name \"{}\"", told(text)))),
        }
    }

    fn define(&mut self, directive: &Directive, name: &[u8], variable: Variable) -> Step {
        let defined = self.program.variables.define(&name.to_ascii_lowercase(), variable);
        defined.map(|_| ()).map_err(|why| self.variable_error(directive.place, &why))
    }

    fn room(&self, directive: &Directive, have: usize) -> Step<u16> {
        u16::try_from(have).map_err(|_| self.invalid(directive, "stands too often: at most 65536 times"))
    }

    pub(super) fn map(&mut self, directive: &Directive) -> Step {
        let source = self.value(argument(directive, 0), directive.place)?;
        let name = self.defined(directive, 1)?;
        let number = self.room(directive, self.program.maps.len())?;
        self.define(directive, name, Variable::Map(number))?;
        let mut builder = MapBuilder::new(source);
        for line in inside(directive) {
            let added = builder.add(&words(line), &mut Lines { compiler: self, place: line.place });
            added.map_err(|why| self.refused(line.place, why))?;
        }
        self.program.maps.push(builder.finish());
        Ok(())
    }

    pub(super) fn geo(&mut self, directive: &Directive) -> Step {
        let has_source = directive.arguments.len() == 2;
        let source = if has_source {
            let name = self.defined(directive, 0)?;
            Some(self.value(&[b"${", name, b"}"].concat(), directive.place)?)
        } else {
            None
        };
        let name = self.defined(directive, usize::from(has_source))?;
        let number = self.room(directive, self.program.geos.len())?;
        self.define(directive, name, Variable::Geo(number))?;
        let mut builder = GeoBuilder::default();
        for line in inside(directive) {
            builder.add(&words(line)).map_err(|why| self.refused(line.place, why))?;
            builder.warnings().into_iter().for_each(|what| self.warn(line.place, what));
        }
        self.program.geos.push(builder.finish(source));
        Ok(())
    }

    pub(super) fn split_clients(&mut self, directive: &Directive) -> Step {
        let source = self.value(argument(directive, 0), directive.place)?;
        let name = self.defined(directive, 1)?;
        let number = self.room(directive, self.program.splits.len())?;
        self.define(directive, name, Variable::Split(number))?;
        let mut builder = SplitBuilder::new(source);
        for line in inside(directive) {
            builder.add(&words(line)).map_err(|why| self.refused(line.place, why))?;
        }
        let split = builder.finish().map_err(|why| self.refused(directive.place, why))?;
        self.program.splits.push(split);
        Ok(())
    }
}
