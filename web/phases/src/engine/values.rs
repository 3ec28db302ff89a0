//! What variables stand for, of a request under way.

use super::course::{Course, Depends, Loaded};
use super::text::{Escape, bare_type, charset_of, escape, field_value};
use super::written::{put_known, put_number};
use crate::filters::Recoding;
use crate::maps::Geo;
use crate::program::{Alias, Block, Program};
use crate::tlv::TlvValue;
use crate::variables::{Core, Variable};
use crate::zone::LocalTime;
use features::{Value, Variables};
use semantics::date::HttpDate;
use semantics::{Known, Request};
use std::sync::Arc;
use wire::Time;

/// Variables made of others within each other, at most: `map`s may go in
/// circles.
const DEPTH_MAX: u8 = 32;

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub now: Time,
    pub second: u64,
    pub date: HttpDate,
    /// When the second began, as far as is known.
    pub second_began: Time,
    /// The second in the machine's zone, and as logs have it.
    pub there: LocalTime,
    pub iso: [u8; 25],
    pub local: [u8; 26],
}

impl Clock {
    /// A second that begins.
    pub fn new(second: u64, date: HttpDate, now: Time) -> Self {
        let there = LocalTime::of(second);
        let (iso, local) = (there.of_iso8601(), there.of_logs());
        Self { now, second, date, second_began: now, there, iso, local }
    }

    /// Milliseconds after the second.
    pub fn millis(&self) -> u64 {
        u64::try_from(self.now.since(self.second_began).as_millis()).unwrap_or(0).min(999)
    }
}

/// Variables of one request, at one time.
pub(crate) struct Scope<'a> {
    pub loaded: &'a Loaded,
    pub course: &'a mut Course,
    pub request: &'a Request<'a>,
    pub clock: &'a Clock,
    pub depth: u8,
    /// Groups are percent-encoded where the path as sent was: they become parts of
    /// what is a target again.
    pub escapes_captures: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn program(&self) -> &'a Program {
        // One value for as long as the scope is.
        let loaded: &'a Loaded = self.loaded;
        loaded.program()
    }

    pub(super) fn block(&self) -> Option<&'a Block> {
        self.program().blocks.get(self.course.block.0 as usize)
    }

    /// Writes a value.
    pub fn write(&mut self, value: &Value, out: &mut Vec<u8>) {
        value.write(self, out);
    }

    /// A value as bytes of its own.
    pub fn get(&mut self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        value.write(self, &mut out);
        out
    }

    /// Whether a value is neither empty nor `0`.
    pub fn is_true(&mut self, value: &Value) -> bool {
        let value = self.get(value);
        !value.is_empty() && value != b"0"
    }

    /// Whether an expression matches `subject`, whose groups are kept, and written
    /// to what is bound to them; `None` if it went astray.
    pub fn matches(&mut self, expression: u32, subject: &[u8]) -> Option<bool> {
        let course = &mut *self.course;
        let (captures, loaded) = (&mut course.captures, self.loaded);
        let mut found = Vec::new();
        let matched = loaded.find(expression, subject, &mut |group, range| found.push((group, range)))?;
        if matched {
            captures.begin(subject);
            found.into_iter().for_each(|(group, range)| captures.set(group, range));
            for (group, slot) in loaded.program.variables.bound(expression) {
                let value = course.captures.get(usize::from(*group)).map(Box::from);
                if let Some(place) = course.slots.get_mut(usize::from(*slot)) {
                    *place = value;
                }
            }
        }
        Some(matched)
    }

    /// A field of the request, by its name in lower case with `_` for `-`; those
    /// of several lines with commas between, as nginx joins them.
    pub(super) fn header(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let known = match name {
            b"host" => Some(Known::Host),
            b"referer" => Some(Known::Referer),
            b"user_agent" => Some(Known::UserAgent),
            _ => None,
        };
        // Of these nginx has the first.
        if let Some(known) = known {
            return put_known(self.request, known, out);
        }
        let fields = self.request.fields();
        if self.course.is_refused() || name.first().is_some_and(|first| *first != b'_' && !fields.may_have(*first)) {
            return false;
        }
        let separator: &[u8] = if name == b"cookie" { b"; " } else { b", " };
        let server = self.program().servers.get(usize::from(self.course.server.0));
        let ignored = |name: &[u8]| server.is_some_and(|server| server.ignores_field(name));
        let fields = fields.filter(|field| field.name.len() == name.len() && !ignored(field.name));
        put_joined(fields.map(|field| (field.name, field.value)), name, separator, out)
    }

    fn sent_header(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let sent = &self.course.sent;
        match name {
            b"content_length" => return sent.length.is_some_and(|length| put_number(out, length)),
            b"connection" if sent.status == 101 => {
                out.extend_from_slice(b"upgrade");
                return true;
            }
            b"connection" => {
                out.extend_from_slice(if self.course.about.goes_on { b"keep-alive" } else { b"close" });
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
        let arguments = self.course.args.split(|byte| *byte == b'&');
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
        for field in self.request.fields().filter(|field| field.is("cookie") && !self.course.is_refused()) {
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

    /// The media type with the charset that is told of it.
    pub fn with_charset(&mut self, mut media_type: Vec<u8>, block: &Block, status: u16) -> Vec<u8> {
        let (told, _) = self.charset(&media_type, block, (false, false));
        // Not of redirects: old clients took it for that of the next page.
        if let Some(charset) = told.filter(|charset| !charset.is_empty() && !matches!(status, 301 | 302)) {
            let bare = bare_type(&media_type).len();
            media_type.truncate(bare);
            media_type.extend_from_slice(b"; charset=");
            field_value(&charset, &mut media_type);
        }
        media_type
    }

    /// The charset that is told of content of this type, and how content becomes one of
    /// it, if it is in another. Nothing is told of what is in another and cannot; what is
    /// `coded` is not looked into.
    pub fn charset(
        &mut self,
        media_type: &[u8],
        block: &Block,
        (coded, hears): (bool, bool),
    ) -> (Option<Vec<u8>>, Option<Arc<Recoding>>) {
        let rules = &block.charset;
        if rules.charset.is_none() && self.course.kept.charset.is_none() {
            return (None, None);
        }
        let own = charset_of(media_type);
        let charset = match (self.course.kept.charset.clone(), &rules.charset) {
            // What the upstream asks for, if the configuration names it anywhere.
            (Some(asked), _) if self.program().charsets.find(&asked).is_some() => asked,
            (Some(asked), _) => {
                if hears {
                    self.tell(|| [&b"unknown charset \""[..], &asked, b"\" to override"].concat());
                }
                return (None, None);
            }
            (None, None) => return (None, None),
            (None, Some(charset)) => {
                let bare = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                // What says itself which it is in is of that one, whatever its type is.
                let counts = match own {
                    Some(_) => rules.overrides,
                    None => rules.types.has(bare),
                };
                if !counts {
                    return (None, None);
                }
                self.get(charset)
            }
        };
        let source = match (own, &rules.source) {
            (Some(own), _) => own.to_vec(),
            (None, Some(source)) => self.get(source),
            (None, None) => return (Some(charset), None),
        };
        if charset.eq_ignore_ascii_case(&source) {
            return (Some(charset), None);
        }
        let charsets = &self.program().charsets;
        let places = charsets.find(&source).zip(charsets.find(&charset));
        match places.and_then(|(from, to)| charsets.table(from, to)) {
            Some(table) if !coded => (Some(charset), Some(Arc::clone(table))),
            Some(_) => (None, None),
            None if coded && places.is_some() || !hears => (None, None),
            None => {
                let what = b"no \"charset_map\" between the charsets \"";
                self.tell(|| [what, &source[..], b"\" and \"", &charset, b"\""].concat());
                (None, None)
            }
        }
    }

    /// The path of the file that the request leads to.
    pub fn file_path(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(block) = self.block() else { return false };
        block.root.path.write(self, out);
        let uri = &self.course.uri;
        out.extend_from_slice(match block.root.alias {
            None => uri,
            Some(Alias::Start(length)) => uri.get(length as usize..).unwrap_or_default(),
            Some(Alias::Path) if self.course.whole_path => uri,
            Some(Alias::Path) => b"",
        });
        true
    }

    /// Of a variable that is made of others: what it was when it was first asked
    /// for.
    fn remembered(&mut self, number: u16, out: &mut Vec<u8>, make: impl FnOnce(&mut Self) -> Option<Vec<u8>>) -> bool {
        if let Some((_, value)) = self.course.cached.iter().find(|(known, _)| *known == number) {
            let Some(value) = value else { return false };
            out.extend_from_slice(value);
            return true;
        }
        let value = make(self);
        if let Some(value) = &value {
            out.extend_from_slice(value);
        }
        let found = value.is_some();
        self.course.cached.push((number, value.map(Into::into)));
        found
    }
}

impl Scope<'_> {
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
        let Some(bytes) = self.course.captures.get(usize::from(group)) else { return };
        let quoted = self.escapes_captures && self.request.path().iter().any(|byte| matches!(byte, b'%' | b'+'));
        if quoted { escape(bytes, Escape::Arguments, out) } else { out.extend_from_slice(bytes) }
    }
}

impl Scope<'_> {
    /// What was set, or what the name stands for otherwise.
    #[cold]
    #[inline(never)]
    fn write_set(&mut self, variable: u16, slot: u16, other: &Variable, out: &mut Vec<u8>) -> bool {
        match self.course.slots.get(usize::from(slot)).and_then(Option::as_ref) {
            Some(value) => {
                out.extend_from_slice(value);
                true
            }
            None => self.write_found(variable, other, out),
        }
    }

    pub(super) fn write_found(&mut self, variable: u16, found: &Variable, out: &mut Vec<u8>) -> bool {
        self.course.depends.on(Depends::of(found.reach()));
        match found {
            // Some are what they were when they were first asked for.
            Variable::Feature(row) if row.lasts => self.first(variable, out, |scope, out| scope.of_feature(row, out)),
            Variable::Feature(row) => self.of_feature(row, out),
            Variable::SentHeader(name) => self.first(variable, out, |scope, out| scope.sent_header(name, out)),
            Variable::Core(Core::LimitRate) => self.limit_rate(out),
            Variable::Core(core) => self.core(*core, out),
            Variable::Header(name) => self.header(name, out),
            Variable::SentTrailer(name) => named_field(&self.course.sent.trailers, name, out),
            Variable::Argument(name) => self.argument(name, out),
            Variable::Cookie(name) => self.cookie(name, out),
            Variable::Slot(slot) => match self.course.slots.get(usize::from(*slot)).and_then(Option::as_ref) {
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
}

impl Scope<'_> {
    /// `$limit_rate`: what was set; else, once there is an answer, what its place says. The
    /// place of a request within another has no say: it is sent as part of that one.
    fn limit_rate(&mut self, out: &mut Vec<u8>) -> bool {
        let is_main = self.course.sub.is_none();
        let rate = match (self.course.limit_rate, self.block()) {
            (None, Some(block)) if is_main && self.course.sent.head > 0 => {
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
        let tlvs = self.course.proxied.as_ref().and_then(|told| told.tlvs.as_deref()).unwrap_or_default();
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
            self.course.cached.retain(|(known, _)| *known != number);
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
                    None => scope.course.peer.map(|peer| peer.ip()),
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

/// These fields, with their values.
fn named_fields<'l>(lines: &'l [u8], name: &[u8]) -> impl Iterator<Item = (&'l [u8], &'l [u8])> {
    lines.split(|byte| *byte == b'\n').filter_map(move |line| {
        let (known, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b": ")?;
        is_named(known, name).then(|| (known, value.strip_suffix(b"\r").unwrap_or(value)))
    })
}

/// Whether a variable's name stands for a field: there are no hyphens and no large letters
/// in it.
fn is_named(field: &[u8], name: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    field.len() == name.len() && field.iter().map(plain).eq(name.iter().copied())
}

/// Writes the values of all fields that a variable of this name stands for; whether
/// there is one.
pub(super) fn put_joined<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    name: &[u8],
    separator: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let mut found = false;
    for (known, value) in fields {
        if is_named(known, name) {
            if found {
                out.extend_from_slice(separator);
            }
            out.extend_from_slice(value);
            found = true;
        }
    }
    found
}
