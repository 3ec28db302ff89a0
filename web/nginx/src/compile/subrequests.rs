//! What makes requests within requests: `auth_request`, `mirror`, `addition`, `slice`.

use super::arguments::{argument, is_on, told};
use super::layer::Layer;
use super::settings::Setter;
use super::{Compiler, Step};
use crate::reader::Directive;
use configuration::subrequests::SubrequestRules;
use features::units::size;
use std::sync::Arc;

/// Directives of this file: what each does.
pub(super) const SUBREQUEST_SETTERS: &[(&str, Setter)] = &[
    ("auth_request", |compiler, layer, directive| compiler.auth_request(layer, directive)),
    ("auth_request_set", |compiler, layer, directive| compiler.auth_request_set(layer, directive)),
    ("mirror", |compiler, layer, directive| compiler.mirror(layer, directive)),
    ("mirror_request_body", |_, layer, directive| {
        rules(layer).mirrors_body = is_on(directive);
        Ok(())
    }),
    ("add_before_body", |_, layer, directive| {
        rules(layer).before = path(directive);
        Ok(())
    }),
    ("add_after_body", |_, layer, directive| {
        rules(layer).after = path(directive);
        Ok(())
    }),
    ("addition_types", |compiler, layer, directive| {
        compiler
            .media_types((layer, "addition_types"), directive, |block| &mut Arc::make_mut(&mut block.subrequests).types)
    }),
    ("subrequest_output_buffer_size", |_, layer, directive| {
        rules(layer).memory_max = size(argument(directive, 0)).unwrap_or_default();
        Ok(())
    }),
    ("slice", |_, layer, directive| {
        rules(layer).slice = size(argument(directive, 0)).unwrap_or_default();
        Ok(())
    }),
    ("log_subrequest", |_, layer, directive| {
        layer.block.log_subrequest = is_on(directive);
        Ok(())
    }),
];

fn rules(layer: &mut Layer) -> &mut SubrequestRules {
    Arc::make_mut(&mut layer.block.subrequests)
}

/// A path; none if it is empty.
fn path(directive: &Directive) -> Option<Box<[u8]>> {
    Some(argument(directive, 0)).filter(|path| !path.is_empty()).map(Box::from)
}

impl Compiler<'_> {
    fn auth_request(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        layer.first("auth_request");
        let uri = match argument(directive, 0) {
            b"off" => Box::default(),
            uri => uri.into(),
        };
        Arc::make_mut(&mut layer.block.access).permission.uri = uri;
        Ok(())
    }

    fn auth_request_set(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let word = argument(directive, 0);
        let Some(name) = word.strip_prefix(b"$").filter(|name| !name.is_empty()) else {
            return Err(self.refused(place, format!("invalid variable name \"{}\"", told(word))));
        };
        let target = self.program.variables.target(&name.to_ascii_lowercase());
        let target = target.map_err(|why| self.variable_error(place, &why))?;
        let value = self.value(argument(directive, 1), place)?;
        let first = layer.first("auth_request_set");
        let set = &mut Arc::make_mut(&mut layer.block.access).permission.set;
        if first {
            set.clear();
        }
        set.push((target, value));
        Ok(())
    }

    fn mirror(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let first = layer.first("mirror");
        let rules = rules(layer);
        match argument(directive, 0) {
            b"off" if first => rules.mirrors.clear(),
            b"off" => return Err(self.refused(directive.place, "\"mirror\" directive is duplicate".to_owned())),
            _ if !first && rules.mirrors.is_empty() => {
                return Err(self.refused(directive.place, "\"mirror\" directive is duplicate".to_owned()));
            }
            uri => {
                if first {
                    rules.mirrors.clear();
                }
                rules.mirrors.push(uri.into());
            }
        }
        Ok(())
    }
}
