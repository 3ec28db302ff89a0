//! What variables stand for, of a request under way.

use super::request_state::Depends;
use super::scope::Scope;
use configuration::maps::Geo;
use configuration::tlv::TlvValue;
use configuration::variables::{Core, Variable};
use features::Variables;
use formats::text::{Escape, escape};
use formats::written::{named_fields, put_joined, put_number};

/// Variables made of others within each other, at most: `map`s may go in
/// circles.
const DEPTH_MAX: u8 = 32;

impl<'a> Scope<'a> {
    fn sent_header(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let sent = &self.state.sent;
        match name {
            b"content_length" => return sent.length.is_some_and(|length| put_number(out, length)),
            b"connection" if sent.status == 101 => {
                out.extend_from_slice(b"upgrade");
                return true;
            }
            b"connection" => {
                out.extend_from_slice(if self.state.about.goes_on { b"keep-alive" } else { b"close" });
                return true;
            }
            // The answer's own, which stand first, and not what the site adds.
            b"content_type" | b"location" => {
                let first = named_fields(&sent.fields, name).next();
                first.inspect(|(_, value)| out.extend_from_slice(value));
                return first.is_some();
            }
            _ => {}
        }
        named_field(&sent.fields, name, out)
    }

    /// An argument: the first of its name, whatever its case.
    fn argument(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let arguments = self.state.route.args.split(|byte| *byte == b'&');
        let value = |argument: &'_ [u8]| {
            let (found, rest) = argument.split_at_checked(name.len())?;
            let value = rest.strip_prefix(b"=")?;
            found.eq_ignore_ascii_case(name).then(|| value.to_vec())
        };
        match arguments.filter_map(value).next() {
            Some(value) => {
                out.extend_from_slice(&value);
                true
            }
            None => false,
        }
    }

    /// A cookie: the first of its name, whatever its case.
    fn cookie(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        for field in self.request.fields().filter(|field| field.is("cookie") && !self.state.is_refused()) {
            for cookie in field.value.split(|byte| *byte == b';') {
                let cookie = cookie.trim_ascii_start();
                let Some((found, rest)) = cookie.split_at_checked(name.len()) else { continue };
                let rest = rest.trim_ascii_start();
                if found.eq_ignore_ascii_case(name)
                    && let Some(value) = rest.strip_prefix(b"=")
                {
                    out.extend_from_slice(value.trim_ascii());
                    return true;
                }
            }
        }
        false
    }

    /// Of a variable that is made of others: what it was when it was first asked
    /// for.
    fn remembered(&mut self, number: u16, out: &mut Vec<u8>, make: impl FnOnce(&mut Self) -> Option<Vec<u8>>) -> bool {
        if let Some((_, value)) = self.state.values.cached.iter().find(|(known, _)| *known == number) {
            let Some(value) = value else { return false };
            out.extend_from_slice(value);
            return true;
        }
        let value = make(self);
        if let Some(value) = &value {
            out.extend_from_slice(value);
        }
        let found = value.is_some();
        self.state.values.cached.push((number, value.map(Into::into)));
        found
    }

    /// As [`Scope::remembered`], of what is written.
    fn first(&mut self, number: u16, out: &mut Vec<u8>, write: impl FnOnce(&mut Self, &mut Vec<u8>) -> bool) -> bool {
        self.remembered(number, out, |scope| {
            let mut value = Vec::new();
            write(scope, &mut value).then_some(value)
        })
    }
}

impl Variables for Scope<'_> {
    fn write_variable(&mut self, variable: u16, out: &mut Vec<u8>) -> bool {
        let loaded = self.loaded;
        let Some(found) = loaded.program.variables.get(variable) else { return false };
        // One may stand in what it is made of.
        if self.depth >= DEPTH_MAX {
            return false;
        }
        self.depth += 1;
        let written = self.write_found(variable, found, out);
        self.depth -= 1;
        written
    }

    fn write_capture(&mut self, group: u8, out: &mut Vec<u8>) {
        let Some(bytes) = self.state.route.captures.get(usize::from(group)) else { return };
        let quoted = self.escapes_captures && self.request.path().iter().any(|byte| matches!(byte, b'%' | b'+'));
        if quoted { escape(bytes, Escape::Arguments, out) } else { out.extend_from_slice(bytes) }
    }
}

impl Scope<'_> {
    /// What was set, or what the name stands for otherwise.
    #[cold]
    #[inline(never)]
    fn write_set(&mut self, variable: u16, slot: u16, other: &Variable, out: &mut Vec<u8>) -> bool {
        match self.state.values.slots.get(usize::from(slot)).and_then(Option::as_ref) {
            Some(value) => {
                out.extend_from_slice(value);
                true
            }
            None => self.write_found(variable, other, out),
        }
    }

    pub(super) fn write_found(&mut self, variable: u16, found: &Variable, out: &mut Vec<u8>) -> bool {
        self.state.reuse.depends.on(Depends::of(found.reach()));
        match found {
            // Some are what they were when they were first asked for.
            Variable::Feature(row) if row.lasts => self.first(variable, out, |scope, out| scope.of_feature(row, out)),
            Variable::Feature(row) => self.of_feature(row, out),
            Variable::SentHeader(name) => self.first(variable, out, |scope, out| scope.sent_header(name, out)),
            Variable::Core(Core::LimitRate) => self.limit_rate(out),
            Variable::Core(core) => self.core(*core, out),
            Variable::Header(name) => self.header(name, out),
            Variable::SentTrailer(name) => named_field(&self.state.sent.trailers, name, out),
            Variable::Argument(name) => self.argument(name, out),
            Variable::Cookie(name) => self.cookie(name, out),
            Variable::Slot(slot) => match self.state.values.slots.get(usize::from(*slot)).and_then(Option::as_ref) {
                Some(value) => {
                    out.extend_from_slice(value);
                    true
                }
                // What `set` has not come to is empty; what nothing was found for is not there.
                None => self.program().variables.is_empty_at_first(*slot),
            },
            Variable::Set(slot, other) => self.write_set(variable, *slot, other, out),
            Variable::Map(_) | Variable::Geo(_) | Variable::Split(_) => self.made(variable, found, out),
            Variable::Upstream(value) => self.of_upstream(value, out),
            Variable::Tls(value) => self.of_handshake(*value, out),
            Variable::Tlv(value) => self.of_proxy(*value, out),
            Variable::Absent => false,
        }
    }

    /// `$limit_rate`: what was set; else, once there is an answer, what its place says. The
    /// place of a request within another has no say: it is sent as part of that one.
    fn limit_rate(&mut self, out: &mut Vec<u8>) -> bool {
        let is_main = self.state.within.sub.is_none();
        let rate = match (self.state.reply.limit_rate, self.block()) {
            (None, Some(block)) if is_main && self.state.sent.head > 0 => {
                let value = block.limit_rate.as_ref().map(|rate| self.get(rate));
                value.and_then(|value| features::units::size(&value).ok())
            }
            (set, _) => set,
        };
        out.extend_from_slice(rate.unwrap_or(0).to_string().as_bytes());
        true
    }

    /// What a proxy said beside addresses.
    fn of_proxy(&self, wanted: TlvValue, out: &mut Vec<u8>) -> bool {
        /// The type of what is said of TLS: a byte for the client, four for whether its
        /// certificate was good, and more such values.
        const OF_TLS: u8 = 0x20;
        let tlvs = self.state.client.proxied.as_ref().and_then(|told| told.tlvs.as_deref()).unwrap_or_default();
        let of_tls = || exchange::tlv(tlvs, OF_TLS)?.split_at_checked(5);
        let value = match wanted {
            TlvValue::Of(kind) => exchange::tlv(tlvs, kind),
            TlvValue::OfTls(kind) => of_tls().and_then(|(_, rest)| exchange::tlv(rest, kind)),
            TlvValue::TlsVerify => {
                let verified = of_tls().and_then(|(head, _)| head.last_chunk::<4>());
                return verified.is_some_and(|verified| {
                    out.extend_from_slice(u32::from_be_bytes(*verified).to_string().as_bytes());
                    true
                });
            }
        };
        value.is_some_and(|value| {
            out.extend_from_slice(value);
            true
        })
    }

    /// Variables that the configuration makes of others.
    fn made(&mut self, number: u16, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let program = self.program();
        let volatile = match variable {
            Variable::Map(map) => program.maps.get(usize::from(*map)).is_some_and(|map| map.volatile),
            Variable::Geo(geo) => program.geos.get(usize::from(*geo)).is_some_and(|geo| geo.volatile),
            _ => false,
        };
        if volatile {
            self.state.values.cached.retain(|(known, _)| *known != number);
        }
        self.remembered(number, out, |scope| match variable {
            Variable::Map(map) => {
                let map = program.maps.get(usize::from(*map))?;
                let key = scope.get(&map.source);
                let value =
                    map.find(&key, &mut |expression, subject| scope.matches(expression, subject).unwrap_or(false));
                Some(scope.get(value))
            }
            Variable::Geo(geo) => {
                let geo = program.geos.get(usize::from(*geo))?;
                let from = match &geo.source {
                    Some(source) => Geo::address(&scope.get(source)),
                    None => scope.state.client.peer.map(|peer| peer.ip()),
                };
                let fields: Vec<&[u8]> = scope
                    .request
                    .fields()
                    .filter(|field| field.is("x-forwarded-for"))
                    .map(|field| field.value)
                    .collect();
                Some(geo.find(from, fields.into_iter()).to_vec())
            }
            Variable::Split(split) => {
                let split = program.splits.get(usize::from(*split))?;
                let key = scope.get(&split.source);
                Some(split.find(&key).to_vec())
            }
            _ => None,
        })
    }
}

/// Writes the fields of these lines, which are ours, that have this name, in lower case
/// with `_` for `-`, with commas between; whether there is one.
fn named_field(lines: &[u8], name: &[u8], out: &mut Vec<u8>) -> bool {
    put_joined(named_fields(lines, name), name, b", ", out)
}
