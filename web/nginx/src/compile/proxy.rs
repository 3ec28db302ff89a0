//! `proxy_pass` and what belongs to it.

use super::arguments::{argument, count, duration, is_on, told};
use super::layer::{Layer, Scope};
use super::settings::Setter;
use super::url::{Tail, Url, UrlHost};
use super::{Compiler, Step};
use crate::message::Place;
use crate::reader::Directive;
use configuration::Pattern;
use configuration::program::ContentRules;
use configuration::proxying::{
    CookieFlagRule, FixedPass, ProxyPass, ProxyRules, Rewrite, RewritePattern, UpstreamVersion,
};
use features::Value;
use features::units::size;
use proxy::accel::Ignored;
use proxy::next::NextOn;
use std::sync::Arc;

/// Declares a setter that sees the rules and the directive alone.
macro_rules! rule {
    ($name:literal, |$rules:ident, $directive:ident| $what:expr) => {
        ($name, |_, layer, $directive| {
            let $rules = Arc::make_mut(&mut layer.block.proxy);
            $what;
            Ok(())
        })
    };
}

/// What each directive does to its block.
pub(super) const PROXY_SETTERS: &[(&str, Setter)] = &[
    ("proxy_pass", |compiler, layer, directive| compiler.proxy_pass(layer, directive)),
    ("proxy_redirect", |compiler, layer, directive| compiler.proxy_redirect(layer, directive)),
    ("proxy_cookie_domain", |compiler, layer, directive| {
        compiler.cookie_rule((layer, "proxy_cookie_domain"), directive, |rules| &mut rules.cookie_domains)
    }),
    ("proxy_cookie_path", |compiler, layer, directive| {
        compiler.cookie_rule((layer, "proxy_cookie_path"), directive, |rules| &mut rules.cookie_paths)
    }),
    ("proxy_cookie_flags", |compiler, layer, directive| compiler.cookie_flags(layer, directive)),
    ("proxy_set_header", |compiler, layer, directive| {
        let value = compiler.value(argument(directive, 1), directive.place)?;
        let first = layer.first("proxy_set_header");
        let rules = Arc::make_mut(&mut layer.block.proxy);
        if first {
            rules.set_fields.clear();
        }
        rules.set_fields.push((argument(directive, 0).into(), value));
        Ok(())
    }),
    ("proxy_hide_header", |_, layer, directive| {
        let first = layer.first("proxy_hide_header");
        let rules = Arc::make_mut(&mut layer.block.proxy);
        if first {
            rules.hidden.clear();
        }
        rules.hidden.push(argument(directive, 0).into());
        Ok(())
    }),
    ("proxy_pass_header", |_, layer, directive| {
        let first = layer.first("proxy_pass_header");
        let rules = Arc::make_mut(&mut layer.block.proxy);
        if first {
            rules.passed.clear();
        }
        rules.passed.push(argument(directive, 0).into());
        Ok(())
    }),
    ("proxy_method", |compiler, layer, directive| {
        let value = compiler.value(argument(directive, 0), directive.place)?;
        Arc::make_mut(&mut layer.block.proxy).method = Some(value);
        Ok(())
    }),
    ("proxy_bind", |compiler, layer, directive| {
        if directive.arguments.len() > 1 {
            return Err(compiler.unsupported(directive.place, "\"transparent\" of the \"proxy_bind\" directive"));
        }
        let value = compiler.value(argument(directive, 0), directive.place)?;
        Arc::make_mut(&mut layer.block.proxy).bind = Some(value);
        Ok(())
    }),
    ("proxy_http_version", |_, layer, directive| {
        layer.first("proxy_http_version");
        Arc::make_mut(&mut layer.block.proxy).version = match argument(directive, 0) {
            b"2" => UpstreamVersion::Http2,
            b"1.1" => UpstreamVersion::Http11,
            _ => UpstreamVersion::Http10,
        };
        Ok(())
    }),
    rule!("proxy_pass_request_headers", |rules, directive| rules.passes_fields = is_on(directive)),
    rule!("proxy_pass_request_body", |rules, directive| rules.passes_body = is_on(directive)),
    rule!("proxy_ignore_headers", |rules, directive| rules.ignored = Ignored::of(words(directive))),
    rule!("proxy_next_upstream", |rules, directive| rules.ask.next = NextOn::of(words(directive))),
    rule!("proxy_next_upstream_tries", |rules, directive| rules.ask.tries = count(directive)),
    rule!("proxy_next_upstream_timeout", |rules, directive| {
        rules.ask.tries_for = Some(duration(directive)).filter(|span| !span.is_zero());
    }),
    rule!("proxy_intercept_errors", |rules, directive| rules.intercepts = is_on(directive)),
    rule!("proxy_buffering", |rules, directive| rules.ask.buffering = is_on(directive)),
    ("proxy_set_body", |compiler, layer, directive| {
        let value = compiler.value(argument(directive, 0), directive.place)?;
        Arc::make_mut(&mut layer.block.proxy).body = Some(value);
        Ok(())
    }),
    ("proxy_limit_rate", |compiler, layer, directive| {
        let rate = compiler.rate(directive)?;
        Arc::make_mut(&mut layer.block.proxy).rate = Some(rate);
        Ok(())
    }),
    rule!("proxy_pass_trailers", |rules, directive| rules.ask.passes_trailers = is_on(directive)),
    rule!("proxy_request_buffering", |rules, directive| rules.request_buffering = is_on(directive)),
    rule!("proxy_buffer_size", |rules, directive| {
        rules.ask.head_max = bytes(argument(directive, 0));
    }),
    rule!("proxy_buffers", |rules, directive| {
        rules.ask.ahead = count(directive).saturating_mul(bytes(argument(directive, 1)));
    }),
    rule!("proxy_ignore_client_abort", |rules, directive| rules.ignores_client_end = is_on(directive)),
    rule!("proxy_connect_timeout", |rules, directive| rules.ask.connect = duration(directive)),
    rule!("proxy_send_timeout", |rules, directive| rules.ask.send = duration(directive)),
    rule!("proxy_read_timeout", |rules, directive| rules.ask.read = duration(directive)),
    rule!("proxy_force_ranges", |rules, directive| rules.forces_ranges = is_on(directive)),
];

pub(super) fn words(directive: &Directive) -> impl Iterator<Item = &[u8]> {
    directive.arguments.iter().map(Vec::as_slice)
}

/// A size that the reader has found good.
pub(super) fn bytes(text: &[u8]) -> u32 {
    u32::try_from(size(text).unwrap_or_default()).unwrap_or(u32::MAX)
}

impl Compiler<'_> {
    fn proxy_pass(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let text = argument(directive, 0);
        let location = layer.path().map(<[u8]>::len);
        let starts = |with: &[u8]| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
        if text.contains(&b'$') {
            let url = self.value(text, place)?;
            layer.block.content = ContentRules::Proxy(Arc::new(ProxyPass::Computed { url, location }));
            return Ok(());
        }
        let (rest, secured, usual) = match () {
            () if starts(b"http://") => (&text[7..], false, 80),
            () if starts(b"https://") => (&text[8..], true, 443),
            () => return Err(self.refused(place, "invalid URL prefix".to_owned())),
        };
        let url = Url::parse(rest, Tail::Path);
        let url = url.map_err(|what| self.refused(place, format!("{what} in upstream \"{}\"", told(rest))))?;
        let group = self.upstream_of(&url, usual, place)?;
        if location.is_none() && !url.path.is_empty() {
            let what = "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside \
                        named location, or inside \"if\" statement, or inside \"limit_except\" block";
            return Err(self.refused(place, what.to_owned()));
        }
        let (host, port) = match (&url.host, url.port) {
            (UrlHost::Unix(_), _) => (b"localhost".to_vec(), None),
            (_, Some(port)) if port != usual => {
                let port = port.to_string();
                ([url.name, b":", port.as_bytes()].concat(), Some(port.into_bytes().into()))
            }
            _ => (url.name.to_vec(), Some(usual.to_string().into_bytes().into())),
        };
        let mut uri = url.path.to_vec();
        if uri.first() == Some(&b'?') {
            uri.insert(0, b'/');
        }
        layer.block.content = ContentRules::Proxy(Arc::new(ProxyPass::Fixed(FixedPass {
            group,
            secured,
            url: text.into(),
            uri: uri.into(),
            host: host.into(),
            port,
            location,
        })));
        Ok(())
    }

    fn proxy_redirect(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let first = layer.first("proxy_redirect");
        let list = if first { None } else { layer.block.proxy.redirects.clone() };
        if list.as_ref().is_some_and(|list| list.is_empty()) {
            return Err(self.invalid(directive, "is duplicate"));
        }
        let rewrite = match (directive.arguments.len(), argument(directive, 0)) {
            (1, b"off") if list.is_some() => return Err(self.invalid(directive, "is duplicate")),
            (1, b"off") => {
                Arc::make_mut(&mut layer.block.proxy).redirects = Some(Arc::default());
                return Ok(());
            }
            (1, b"default") => match &layer.block.content {
                ContentRules::Proxy(pass) => match usual_redirect(pass, layer) {
                    Some(rewrite) => rewrite,
                    None => {
                        let what = "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with \
                                    variables";
                        return Err(self.refused(place, what.to_owned()));
                    }
                },
                _ => {
                    let what = "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive";
                    return Err(self.refused(place, what.to_owned()));
                }
            },
            (1, other) => return Err(self.refused(place, format!("invalid parameter \"{}\"", told(other)))),
            (_, pattern) => {
                let pattern = self.rewrite_pattern(pattern, false, place)?;
                Rewrite { pattern, with: self.value(argument(directive, 1), place)? }
            }
        };
        push(&mut Arc::make_mut(&mut layer.block.proxy).redirects, list, rewrite);
        Ok(())
    }

    /// What is looked for: an expression behind `~`, else a value.
    fn rewrite_pattern(&mut self, text: &[u8], caseless: bool, place: Place) -> Step<RewritePattern> {
        match text {
            [b'~', b'*', rest @ ..] => Ok(RewritePattern::Expression(self.expression(rest, true, place)?)),
            [b'~', rest @ ..] => Ok(RewritePattern::Expression(self.expression(rest, caseless, place)?)),
            text => Ok(RewritePattern::Value(self.value(text, place)?)),
        }
    }

    fn cookie_rule(
        &mut self,
        (layer, name): (&mut Layer, &'static str),
        directive: &Directive,
        list: fn(&mut ProxyRules) -> &mut Arc<[Rewrite]>,
    ) -> Step {
        let place = directive.place;
        let first = layer.first(name);
        let rules = list(Arc::make_mut(&mut layer.block.proxy));
        if directive.arguments.len() == 1 {
            if argument(directive, 0) != b"off" {
                return Err(self.refused(place, format!("invalid parameter \"{}\"", told(argument(directive, 0)))));
            }
            *rules = Arc::default();
            return Ok(());
        }
        let before = if first { Vec::new() } else { rules.to_vec() };
        let is_domain = name == "proxy_cookie_domain";
        let pattern = argument(directive, 0);
        let bare = pattern.strip_prefix(b".").filter(|_| is_domain).unwrap_or(pattern);
        let pattern = self.rewrite_pattern(bare, is_domain, place)?;
        let with = argument(directive, 1);
        let with = self.value(with.strip_prefix(b".").filter(|_| is_domain).unwrap_or(with), place)?;
        let all = before.into_iter().chain([Rewrite { pattern, with }]).collect();
        *list(Arc::make_mut(&mut layer.block.proxy)) = all;
        Ok(())
    }

    fn cookie_flags(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let place = directive.place;
        let first = layer.first("proxy_cookie_flags");
        let rules = Arc::make_mut(&mut layer.block.proxy);
        if directive.arguments.len() == 1 {
            if argument(directive, 0) != b"off" {
                return Err(self.refused(place, format!("invalid parameter \"{}\"", told(argument(directive, 0)))));
            }
            rules.cookie_flags = Arc::default();
            return Ok(());
        }
        let before = if first { Vec::new() } else { rules.cookie_flags.to_vec() };
        let cookie = self.rewrite_pattern(argument(directive, 0), true, place)?;
        let flags = directive.arguments[1..].iter().map(|word| self.value(word, place));
        let flags = flags.collect::<Step<Vec<_>>>()?;
        let all = before.into_iter().chain([CookieFlagRule { cookie, flags }]).collect();
        Arc::make_mut(&mut layer.block.proxy).cookie_flags = all;
        Ok(())
    }
}

impl Layer {
    /// The path of a location that is one for a path.
    pub(super) fn path(&self) -> Option<&[u8]> {
        match &self.scope {
            Scope::Location(Pattern::Exact(path) | Pattern::Prefix(path) | Pattern::FirmPrefix(path)) => Some(path),
            _ => None,
        }
    }

    /// What follows of the settings, now that all of the block are known.
    pub(super) fn finish_proxy(&mut self) {
        let changed = ["grpc_set_header", "grpc_hide_header", "grpc_pass_header"].iter().any(|name| self.has(name));
        if changed || self.block.grpc.request.fields.is_empty() {
            Arc::make_mut(&mut self.block.grpc).prepare();
        }
        let usual = match &self.block.content {
            ContentRules::Proxy(pass) if self.block.proxy.redirects.is_none() => usual_redirect(pass, self),
            _ => None,
        };
        let told = ["proxy_set_header", "proxy_hide_header", "proxy_pass_header", "proxy_http_version"];
        let changed = told.iter().any(|name| self.has(name));
        let unprepared = self.block.proxy.request.fields.is_empty();
        if usual.is_none() && !changed && !unprepared {
            return;
        }
        let rules = Arc::make_mut(&mut self.block.proxy);
        if let Some(usual) = usual {
            rules.redirects = Some([usual].into());
        }
        rules.prepare();
    }
}

/// `proxy_redirect default`; nothing where the URL has variables.
fn usual_redirect(pass: &ProxyPass, layer: &Layer) -> Option<Rewrite> {
    let ProxyPass::Fixed(pass) = pass else { return None };
    let location = layer.path().unwrap_or_default();
    let (pattern, with) = match &*pass.uri {
        b"" => ([&*pass.url, b"/"].concat(), &b"/"[..]),
        _ => (pass.url.to_vec(), location),
    };
    Some(Rewrite { pattern: RewritePattern::Value(Value::literal(&pattern)), with: Value::literal(with) })
}

fn push(to: &mut Option<Arc<[Rewrite]>>, before: Option<Arc<[Rewrite]>>, one: Rewrite) {
    let before = before.map_or_else(Vec::new, |list| list.to_vec());
    *to = Some(before.into_iter().chain([one]).collect());
}
