//! `resolver` and `resolver_timeout`: who is asked for addresses while it serves.

use super::arguments::{argument, duration, told};
use super::layer::{Layer, RESOLVER_TIMEOUT};
use super::settings::Setter;
use super::url::{Tail, Url};
use super::{Compiler, Step};
use crate::reader::Directive;
use configuration::program::ResolverRules;
use core::time::Duration;
use features::units::time;
use std::sync::Arc;
use upstream::PeerAddress;

/// The port of servers that name none.
const PORT: u16 = 53;

/// How long it is where no end is wanted: what waits is to end some time.
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// What each directive does to its block.
pub(super) const RESOLVER_SETTERS: &[(&str, Setter)] = &[
    ("resolver", |compiler, layer, directive| {
        layer.block.resolver = Some(compiler.resolver(directive)?);
        Ok(())
    }),
    ("resolver_timeout", |_, layer, directive| {
        layer.resolver_timeout = resolver_timeout(directive);
        Ok(())
    }),
];

/// A `resolver_timeout`.
pub(super) fn resolver_timeout(directive: &Directive) -> Duration {
    Some(duration(directive)).filter(|span| !span.is_zero()).unwrap_or(TIMEOUT_MAX)
}

/// The same resolver with this `resolver_timeout`.
pub(super) fn with_timeout(rules: Arc<ResolverRules>, timeout: Duration) -> Arc<ResolverRules> {
    match rules.timeout == timeout {
        true => rules,
        false => Arc::new(ResolverRules { timeout, ..(*rules).clone() }),
    }
}

impl Compiler<'_> {
    /// A `resolver`; how long it is asked is not known by it.
    pub(super) fn resolver(&mut self, directive: &Directive) -> Step<Arc<ResolverRules>> {
        let place = directive.place;
        let mut rules =
            ResolverRules { servers: Vec::new(), valid: None, v4: true, v6: true, timeout: RESOLVER_TIMEOUT };
        for word in &directive.arguments {
            let invalid = || self.refused(place, format!("invalid parameter: {}", told(word)));
            let (name, value) = match word.iter().position(|byte| *byte == b'=') {
                Some(at) => word.split_at(at + 1),
                None => (&b""[..], word.as_slice()),
            };
            let is_on = || match value {
                b"on" => Ok(true),
                b"off" => Ok(false),
                _ => Err(invalid()),
            };
            match name {
                b"valid=" => {
                    let millis = time(value, true).map_err(|_| invalid())?;
                    rules.valid = Some(Duration::from_millis(millis)).filter(|span| !span.is_zero());
                }
                b"ipv4=" => rules.v4 = is_on()?,
                b"ipv6=" => rules.v6 = is_on()?,
                b"status_zone=" => {
                    self.remark("resolver", place, "nothing is counted by \"status_zone\"");
                }
                _ => self.name_servers(word, directive, &mut rules)?,
            }
        }
        if !rules.v4 && !rules.v6 {
            return Err(self.refused(place, "\"ipv4\" and \"ipv6\" cannot both be \"off\"".to_owned()));
        }
        if rules.servers.is_empty() {
            return Err(self.refused(place, "no name servers defined".to_owned()));
        }
        Ok(Arc::new(rules))
    }

    fn name_servers(&self, word: &[u8], directive: &Directive, rules: &mut ResolverRules) -> Step {
        let found = Url::parse(word, Tail::None).and_then(|url| url.addresses(PORT, self.around.resolve));
        let refused = |what| self.refused(directive.place, format!("{what} in resolver \"{}\"", told(word)));
        for address in found.map_err(refused)? {
            match address {
                PeerAddress::Inet(address) => rules.servers.push(address),
                PeerAddress::Unix(_) => return Err(refused("invalid host")),
            }
        }
        Ok(())
    }

    /// What servers outside of all `server`s are resolved by.
    pub(super) fn outer_resolver(&mut self, directives: &[Directive]) -> Step {
        let one = |name: &[u8]| directives.iter().find(|one| one.name == name);
        let timeout = one(b"resolver_timeout").filter(|one| !argument(one, 0).is_empty());
        self.outer_timeout = timeout.map_or(RESOLVER_TIMEOUT, resolver_timeout);
        if let Some(directive) = one(b"resolver") {
            let notes = self.notes.len();
            self.outer_resolver = Some(self.resolver(directive)?);
            // It is told of when it is read in its place.
            self.notes.truncate(notes);
        }
        Ok(())
    }
}

impl Layer {
    /// How long it is asked is known now.
    pub(super) fn finish_resolver(&mut self) {
        if let Some(rules) = self.block.resolver.take() {
            self.block.resolver = Some(with_timeout(rules, self.resolver_timeout));
        }
    }
}
