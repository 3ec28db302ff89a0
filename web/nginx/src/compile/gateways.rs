//! `fastcgi_pass`, `uwsgi_pass`, `scgi_pass`, and what belongs to them.

use super::arguments::{argument, count, duration, is_on, told};
use super::layer::Layer;
use super::settings::Setter;
use super::url::{Tail, Url};
use super::{Compiler, Step};
use crate::reader::Directive;
use configuration::gateways::{GatewayParam, GatewayPass, GatewayProtocol, GatewayRules, GatewayTarget};
use configuration::program::ContentRules;
use configuration::proxying::ProxyRules;
use features::units::size;
use proxy::accel::Ignored;
use proxy::next::NextOn;
use std::sync::Arc;

/// Declares the setters of a protocol: those that all have, and its own.
macro_rules! gateway {
    ($table:ident, $prefix:literal, $protocol:ident $(, $own:expr)*) => {
        /// What each directive does to its block.
        pub(super) const $table: &[(&str, Setter)] = &[
            (concat!($prefix, "_pass"), |compiler, layer, directive| {
                compiler.gateway_pass(layer, directive, GatewayProtocol::$protocol)
            }),
            (concat!($prefix, "_param"), |compiler, layer, directive| {
                let first = layer.first(concat!($prefix, "_param"));
                compiler.gateway_param((layer, first), directive, GatewayProtocol::$protocol)
            }),
            (concat!($prefix, "_hide_header"), |_, layer, directive| {
                let first = layer.first(concat!($prefix, "_hide_header"));
                listed(&mut relay(layer, GatewayProtocol::$protocol).hidden, first, directive);
                Ok(())
            }),
            (concat!($prefix, "_pass_header"), |_, layer, directive| {
                let first = layer.first(concat!($prefix, "_pass_header"));
                listed(&mut relay(layer, GatewayProtocol::$protocol).passed, first, directive);
                Ok(())
            }),
            (concat!($prefix, "_bind"), |compiler, layer, directive| {
                if directive.arguments.len() > 1 {
                    return Err(compiler.unsupported(directive.place, "\"transparent\" of a \"_bind\" directive"));
                }
                let value = compiler.value(argument(directive, 0), directive.place)?;
                relay(layer, GatewayProtocol::$protocol).bind = Some(value);
                Ok(())
            }),
            (concat!($prefix, "_limit_rate"), |compiler, layer, directive| {
                let rate = compiler.rate(directive)?;
                relay(layer, GatewayProtocol::$protocol).rate = Some(rate);
                Ok(())
            }),
            gateway!(rule $prefix, $protocol, "_pass_request_headers", |rules, one| rules.passes_fields = is_on(one)),
            gateway!(rule $prefix, $protocol, "_pass_request_body", |rules, one| rules.passes_body = is_on(one)),
            gateway!(rule $prefix, $protocol, "_ignore_headers", |rules, one| rules.ignored = Ignored::of(words(one))),
            gateway!(rule $prefix, $protocol, "_next_upstream", |rules, one| rules.ask.next = NextOn::of(words(one))),
            gateway!(rule $prefix, $protocol, "_next_upstream_tries", |rules, one| rules.ask.tries = count(one)),
            gateway!(rule $prefix, $protocol, "_next_upstream_timeout", |rules, one| {
                rules.ask.tries_for = Some(duration(one)).filter(|span| !span.is_zero());
            }),
            gateway!(rule $prefix, $protocol, "_intercept_errors", |rules, one| rules.intercepts = is_on(one)),
            gateway!(rule $prefix, $protocol, "_request_buffering", |rules, one| {
                rules.request_buffering = is_on(one);
            }),
            gateway!(rule $prefix, $protocol, "_buffering", |rules, one| rules.ask.buffering = is_on(one)),
            gateway!(rule $prefix, $protocol, "_buffer_size", |rules, one| {
                rules.ask.head_max = bytes(argument(one, 0));
            }),
            gateway!(rule $prefix, $protocol, "_buffers", |rules, one| {
                rules.ask.ahead = count(one).saturating_mul(bytes(argument(one, 1)));
            }),
            gateway!(rule $prefix, $protocol, "_ignore_client_abort", |rules, one| {
                rules.ignores_client_end = is_on(one);
            }),
            gateway!(rule $prefix, $protocol, "_connect_timeout", |rules, one| rules.ask.connect = duration(one)),
            gateway!(rule $prefix, $protocol, "_send_timeout", |rules, one| rules.ask.send = duration(one)),
            gateway!(rule $prefix, $protocol, "_read_timeout", |rules, one| rules.ask.read = duration(one)),
            gateway!(rule $prefix, $protocol, "_force_ranges", |rules, one| rules.forces_ranges = is_on(one)),
            $($own,)*
        ];
    };
    (rule $prefix:literal, $protocol:ident, $name:literal, |$rules:ident, $directive:ident| $what:expr) => {
        (concat!($prefix, $name), |_, layer, $directive| {
            let $rules = relay(layer, GatewayProtocol::$protocol);
            $what;
            Ok(())
        })
    };
}

gateway!(
    FASTCGI_SETTERS,
    "fastcgi",
    FastCgi,
    ("fastcgi_index", |_, layer, directive| {
        rules(layer, GatewayProtocol::FastCgi).index = argument(directive, 0).into();
        Ok(())
    }),
    ("fastcgi_keep_conn", |_, layer, directive| {
        rules(layer, GatewayProtocol::FastCgi).keeps = is_on(directive);
        Ok(())
    }),
    ("fastcgi_catch_stderr", |_, layer, directive| {
        let first = layer.first("fastcgi_catch_stderr");
        let catches = &mut rules(layer, GatewayProtocol::FastCgi).catches;
        let before = if first { Vec::new() } else { catches.to_vec() };
        *catches = before.into_iter().chain([argument(directive, 0).into()]).collect();
        Ok(())
    }),
    ("fastcgi_split_path_info", |compiler, layer, directive| compiler.split_path_info(layer, directive))
);
gateway!(
    UWSGI_SETTERS,
    "uwsgi",
    Uwsgi,
    ("uwsgi_modifier1", |compiler, layer, directive| {
        rules(layer, GatewayProtocol::Uwsgi).modifiers.0 = compiler.modifier(directive)?;
        Ok(())
    }),
    ("uwsgi_modifier2", |compiler, layer, directive| {
        rules(layer, GatewayProtocol::Uwsgi).modifiers.1 = compiler.modifier(directive)?;
        Ok(())
    })
);
gateway!(SCGI_SETTERS, "scgi", Scgi);

fn rules(layer: &mut Layer, protocol: GatewayProtocol) -> &mut GatewayRules {
    Arc::make_mut(&mut layer.block.gateways).of_mut(protocol)
}

fn relay(layer: &mut Layer, protocol: GatewayProtocol) -> &mut ProxyRules {
    Arc::make_mut(&mut rules(layer, protocol).relay)
}

/// A name more in a list, which the first of a block begins anew.
fn listed(list: &mut Vec<Box<[u8]>>, first: bool, directive: &Directive) {
    if first {
        list.clear();
    }
    list.push(argument(directive, 0).into());
}

fn words(directive: &Directive) -> impl Iterator<Item = &[u8]> {
    directive.arguments.iter().map(Vec::as_slice)
}

/// A size that the reader has found good.
fn bytes(text: &[u8]) -> u32 {
    u32::try_from(size(text).unwrap_or_default()).unwrap_or(u32::MAX)
}

impl Compiler<'_> {
    fn gateway_pass(&mut self, layer: &mut Layer, directive: &Directive, protocol: GatewayProtocol) -> Step {
        let place = directive.place;
        let text = argument(directive, 0);
        let starts = |with: &[u8]| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
        let location = layer.path().map(<[u8]>::len);
        let passed = |to, secured| ContentRules::Gateway(Arc::new(GatewayPass { protocol, to, secured, location }));
        if text.contains(&b'$') {
            let to = GatewayTarget::Computed(self.value(text, place)?);
            layer.block.content = passed(to, false);
            return Ok(());
        }
        let (address, secured) = match protocol {
            GatewayProtocol::Uwsgi if starts(b"suwsgi://") => (&text[9..], true),
            GatewayProtocol::Uwsgi if starts(b"uwsgi://") => (&text[8..], false),
            _ => (text, false),
        };
        let url = Url::parse(address, Tail::None);
        let url = url.map_err(|what| self.refused(place, format!("{what} in upstream \"{}\"", told(address))))?;
        let to = GatewayTarget::Group(self.upstream_of(&url, 0, place)?);
        layer.block.content = passed(to, secured);
        Ok(())
    }

    fn gateway_param(
        &mut self,
        (layer, first): (&mut Layer, bool),
        directive: &Directive,
        protocol: GatewayProtocol,
    ) -> Step {
        let value = self.value(argument(directive, 1), directive.place)?;
        let if_not_empty = match directive.arguments.get(2).map(Vec::as_slice) {
            None => false,
            Some(b"if_not_empty") => true,
            Some(other) => {
                return Err(self.refused(directive.place, format!("invalid parameter \"{}\"", told(other))));
            }
        };
        // An empty text for a field's name keeps that from its program, and is none itself.
        let hides = argument(directive, 1).is_empty()
            && argument(directive, 0).strip_prefix(b"HTTP_").is_some_and(|name| !name.is_empty());
        let if_not_empty = if_not_empty || hides;
        let params = &mut rules(layer, protocol).params;
        let before = if first { Vec::new() } else { params.to_vec() };
        let param = GatewayParam { name: argument(directive, 0).into(), value, if_not_empty };
        *params = before.into_iter().chain([param]).collect();
        Ok(())
    }

    fn split_path_info(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let pattern = argument(directive, 0);
        let number = self.expression(pattern, false, directive.place)?;
        let groups = self.program.expressions.get(number as usize).map_or(0, pcre::Regex::groups);
        if groups != 2 {
            let what = format!("pattern \"{}\" must have 2 captures", told(pattern));
            return Err(self.refused(directive.place, what));
        }
        rules(layer, GatewayProtocol::FastCgi).split = Some(number);
        Ok(())
    }

    fn modifier(&self, directive: &Directive) -> Step<u8> {
        u8::try_from(count(directive)).map_err(|_| self.invalid(directive, "takes no more than 255"))
    }
}

impl Layer {
    /// What follows of the settings, now that all of the block are known.
    pub(super) fn finish_gateways(&mut self) {
        let unprepared = !self.block.gateways.fastcgi.relay.hides.has(b"status");
        let all = [
            (GatewayProtocol::FastCgi, "fastcgi_hide_header", "fastcgi_pass_header"),
            (GatewayProtocol::Uwsgi, "uwsgi_hide_header", "uwsgi_pass_header"),
            (GatewayProtocol::Scgi, "scgi_hide_header", "scgi_pass_header"),
        ];
        for (protocol, hide, pass) in all {
            if unprepared || self.has(hide) || self.has(pass) {
                rules(self, protocol).prepare(protocol);
            }
        }
    }
}
