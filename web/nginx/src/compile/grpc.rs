//! `grpc_pass` and what belongs to it.

use super::arguments::{argument, count, duration, is_on, told};
use super::layer::Layer;
use super::proxy::{bytes, words};
use super::settings::Setter;
use super::url::{Tail, Url, UrlHost};
use super::{Compiler, Step};
use crate::reader::Directive;
use configuration::program::ContentRules;
use configuration::proxying::{FixedPass, ProxyPass, ProxyRules};
use proxy::accel::Ignored;
use proxy::next::NextOn;
use std::sync::Arc;

/// Declares a setter that sees the rules and the directive alone.
macro_rules! rule {
    ($name:literal, |$rules:ident, $directive:ident| $what:expr) => {
        ($name, |_, layer, $directive| {
            let $rules = grpc_rules(layer);
            $what;
            Ok(())
        })
    };
}

/// What each directive does to its block.
pub(super) const GRPC_SETTERS: &[(&str, Setter)] = &[
    ("grpc_pass", |compiler, layer, directive| compiler.grpc_pass(layer, directive)),
    ("grpc_set_header", |compiler, layer, directive| {
        let value = compiler.value(argument(directive, 1), directive.place)?;
        let first = layer.first("grpc_set_header");
        let rules = grpc_rules(layer);
        if first {
            rules.set_fields.clear();
        }
        rules.set_fields.push((argument(directive, 0).into(), value));
        Ok(())
    }),
    ("grpc_hide_header", |_, layer, directive| {
        let first = layer.first("grpc_hide_header");
        listed(&mut grpc_rules(layer).hidden, first, directive);
        Ok(())
    }),
    ("grpc_pass_header", |_, layer, directive| {
        let first = layer.first("grpc_pass_header");
        listed(&mut grpc_rules(layer).passed, first, directive);
        Ok(())
    }),
    ("grpc_bind", |compiler, layer, directive| {
        if directive.arguments.len() > 1 {
            return Err(compiler.unsupported(directive.place, "\"transparent\" of the \"grpc_bind\" directive"));
        }
        let value = compiler.value(argument(directive, 0), directive.place)?;
        grpc_rules(layer).bind = Some(value);
        Ok(())
    }),
    rule!("grpc_ignore_headers", |rules, directive| rules.ignored = Ignored::of(words(directive))),
    rule!("grpc_next_upstream", |rules, directive| rules.ask.next = NextOn::of(words(directive))),
    rule!("grpc_next_upstream_tries", |rules, directive| rules.ask.tries = count(directive)),
    rule!("grpc_next_upstream_timeout", |rules, directive| {
        rules.ask.tries_for = Some(duration(directive)).filter(|span| !span.is_zero());
    }),
    rule!("grpc_intercept_errors", |rules, directive| rules.intercepts = is_on(directive)),
    rule!("grpc_buffer_size", |rules, directive| rules.ask.head_max = bytes(argument(directive, 0))),
    rule!("grpc_connect_timeout", |rules, directive| rules.ask.connect = duration(directive)),
    rule!("grpc_send_timeout", |rules, directive| rules.ask.send = duration(directive)),
    rule!("grpc_read_timeout", |rules, directive| rules.ask.read = duration(directive)),
];

fn grpc_rules(layer: &mut Layer) -> &mut ProxyRules {
    Arc::make_mut(&mut layer.block.grpc)
}

/// A name more in a list, which the first of a block begins anew.
fn listed(list: &mut Vec<Box<[u8]>>, first: bool, directive: &Directive) {
    if first {
        list.clear();
    }
    list.push(argument(directive, 0).into());
}

impl Compiler<'_> {
    fn grpc_pass(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let text = argument(directive, 0);
        let location = layer.path().map(<[u8]>::len);
        if text.contains(&b'$') {
            let url = self.value(text, place)?;
            layer.block.content = ContentRules::Grpc(Arc::new(ProxyPass::Computed { url, location }));
            return Ok(());
        }
        let starts = |with: &[u8]| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
        let (rest, secured) = match () {
            () if starts(b"grpcs://") => (&text[8..], true),
            () if starts(b"grpc://") => (&text[7..], false),
            () => (text, false),
        };
        let url = Url::parse(rest, Tail::None);
        let url = url.map_err(|what| self.refused(place, format!("{what} in upstream \"{}\"", told(rest))))?;
        let group = self.upstream_of(&url, 0, place)?;
        let (host, port) = match (&url.host, url.port) {
            (UrlHost::Unix(_), _) => (b"localhost".to_vec(), None),
            (_, Some(port)) => {
                let port = port.to_string();
                ([url.name, b":", port.as_bytes()].concat(), Some(port.into_bytes().into()))
            }
            _ => (url.name.to_vec(), None),
        };
        layer.block.content = ContentRules::Grpc(Arc::new(ProxyPass::Fixed(FixedPass {
            group,
            secured,
            url: text.into(),
            uri: Box::default(),
            host: host.into(),
            port,
            location,
        })));
        Ok(())
    }
}
