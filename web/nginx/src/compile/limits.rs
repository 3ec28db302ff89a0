//! `limit_req`, `limit_conn` and their zones; passwords; compression.

use super::arguments::{argument, count, is_on, told};
use super::layer::Layer;
use super::tables::Lines;
use super::{Compiler, Step, nowhere};
use crate::reader::Directive;
use phases::limits::{ConnectionLimit, RequestLimit, Zone, ZoneKind};
use phases::logging::ErrorLevel;
use std::sync::Arc;

impl Compiler<'_> {
    /// All zones: places that stand before them may name them.
    pub(super) fn zones(&mut self, directives: &[Directive]) -> Step {
        for directive in directives {
            let requests = match directive.name.as_slice() {
                b"limit_req_zone" => true,
                b"limit_conn_zone" => false,
                _ => continue,
            };
            let place = directive.place;
            let words = words(directive);
            let zone = Zone::parse(&words, requests, &mut Lines { compiler: self, place });
            let zone = zone.map_err(|why| self.refused(place, why))?;
            if let Some(known) = self.program.zones.iter().find(|known| known.name == zone.name) {
                let name = told(&zone.name);
                let same = matches!(known.kind, ZoneKind::Requests(_)) == requests;
                let what = if same {
                    let (directive, key) = (told(&directive.name), told(known.key_text()));
                    format!("{directive} \"{name}\" is already bound to key \"{key}\"")
                } else {
                    format!("the shared memory zone \"{name}\" is already declared for a different use")
                };
                return Err(self.refused(place, what));
            }
            self.program.shared_memory.insert(zone.name.to_vec(), zone.bytes());
            self.program.zones.push(zone);
        }
        Ok(())
    }

    /// The place of the zone with this name that counts so.
    fn zone(&self, name: &[u8], requests: bool) -> Option<u16> {
        let is_it = |zone: &Zone| *zone.name == *name && matches!(zone.kind, ZoneKind::Requests(_)) == requests;
        self.program.zones.iter().position(is_it).and_then(|at| u16::try_from(at).ok())
    }

    /// nginx misses a zone when all is read, at no place.
    fn limit_refused(&self, directive: &Directive, why: String) -> crate::message::Message {
        if why.starts_with("zero size") { nowhere(why) } else { self.refused(directive.place, why) }
    }

    pub(super) fn limit_req(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let limit = RequestLimit::parse(&words(directive), &mut |name| self.zone(name, true));
        let limit = limit.map_err(|why| self.limit_refused(directive, why))?;
        let first = layer.first("limit_req");
        let rules = Arc::make_mut(&mut layer.block.limits);
        if first {
            rules.requests.clear();
        }
        if rules.requests.iter().any(|known| known.zone == limit.zone) {
            return Err(self.invalid(directive, "is duplicate"));
        }
        rules.requests.push(limit);
        Ok(())
    }

    pub(super) fn limit_conn(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let limit = ConnectionLimit::parse(&words(directive), &mut |name| self.zone(name, false));
        let limit = limit.map_err(|why| self.limit_refused(directive, why))?;
        let first = layer.first("limit_conn");
        let rules = Arc::make_mut(&mut layer.block.limits);
        if first {
            rules.connections.clear();
        }
        if rules.connections.iter().any(|known| known.zone == limit.zone) {
            return Err(self.invalid(directive, "is duplicate"));
        }
        rules.connections.push(limit);
        Ok(())
    }

    /// A status that refuses.
    pub(super) fn limit_status(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let status = count(directive);
        if !(400..=599).contains(&status) {
            return Err(self.refused(directive.place, "value must be between 400 and 599".to_owned()));
        }
        let rules = Arc::make_mut(&mut layer.block.limits);
        match directive.name.as_slice() {
            b"limit_req_status" => rules.requests_status = status as u16,
            _ => rules.connections_status = status as u16,
        }
        Ok(())
    }

    pub(super) fn auth_basic(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        layer.realm = Some(self.value(argument(directive, 0), directive.place)?);
        Ok(())
    }

    /// The file lies beside the configuration.
    pub(super) fn auth_basic_user_file(&mut self, layer: &mut Layer, directive: &Directive) -> Step {
        let path = self.conf_path(argument(directive, 0));
        layer.users = Some(self.value(&path, directive.place)?);
        Ok(())
    }

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

/// `limit_req_log_level` and `limit_conn_log_level`.
pub(super) fn log_level(layer: &mut Layer, directive: &Directive) {
    let Some(level) = super::process::level_of(argument(directive, 0)) else { return };
    let rules = Arc::make_mut(&mut layer.block.limits);
    match directive.name.as_slice() {
        b"limit_req_log_level" => rules.requests_level = ErrorLevel(level),
        _ => rules.connections_level = ErrorLevel(level),
    }
}

/// `limit_req_dry_run` and `limit_conn_dry_run`.
pub(super) fn dry_run(layer: &mut Layer, directive: &Directive) {
    let rules = Arc::make_mut(&mut layer.block.limits);
    match directive.name.as_slice() {
        b"limit_req_dry_run" => rules.requests_dry_run = is_on(directive),
        _ => rules.connections_dry_run = is_on(directive),
    }
}

fn words(directive: &Directive) -> Vec<&[u8]> {
    directive.arguments.iter().map(Vec::as_slice).collect()
}
