//! A request under way, as the values of its place see it.

use super::loaded::Loaded;
use super::request_state::RequestState;
use configuration::program::{Alias, Block, Program};
use features::Value;
use formats::written::{put_joined, put_known};
use formats::zone::LocalTime;
use semantics::date::HttpDate;
use semantics::{Known, Request};
use wire::Time;

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

/// Variables of one request, at one time.
pub(crate) struct Scope<'a> {
    pub loaded: &'a Loaded,
    pub state: &'a mut RequestState,
    pub request: &'a Request<'a>,
    pub clock: &'a Clock,
    pub depth: u8,
    /// Groups are percent-encoded where the path as sent was: they become parts of
    /// what is a target again.
    pub escapes_captures: bool,
}

impl<'a> Scope<'a> {
    #[inline]
    pub fn new(
        (loaded, state): (&'a Loaded, &'a mut RequestState),
        request: &'a Request<'a>,
        clock: &'a Clock,
    ) -> Self {
        Self { loaded, state, request, clock, depth: 0, escapes_captures: false }
    }

    pub(super) fn program(&self) -> &'a Program {
        // One value for as long as the scope is.
        let loaded: &'a Loaded = self.loaded;
        loaded.program()
    }

    pub(super) fn block(&self) -> Option<&'a Block> {
        self.program().block(self.state.route.block)
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
        let state = &mut *self.state;
        let (captures, loaded) = (&mut state.route.captures, self.loaded);
        let mut found = Vec::new();
        let matched = loaded.find(expression, subject, &mut |group, range| found.push((group, range)))?;
        if matched {
            captures.begin(subject);
            found.into_iter().for_each(|(group, range)| captures.set(group, range));
            for (group, slot) in loaded.program.variables.bound(expression) {
                let value = state.route.captures.get(usize::from(*group)).map(Box::from);
                if let Some(place) = state.values.slots.get_mut(usize::from(*slot)) {
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
        if self.state.is_refused() || name.first().is_some_and(|first| *first != b'_' && !fields.may_have(*first)) {
            return false;
        }
        let separator: &[u8] = if name == b"cookie" { b"; " } else { b", " };
        let server = self.program().server(self.state.route.server);
        let ignored = |name: &[u8]| server.is_some_and(|server| server.ignores_field(name));
        let fields = fields.filter(|field| field.name.len() == name.len() && !ignored(field.name));
        put_joined(fields.map(|field| (field.name, field.value)), name, separator, out)
    }

    /// The path of the file that the request leads to.
    pub fn file_path(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(block) = self.block() else { return false };
        block.root.path.write(self, out);
        let uri = &self.state.route.uri;
        out.extend_from_slice(match block.root.alias {
            None => uri,
            Some(Alias::Start(length)) => uri.get(length as usize..).unwrap_or_default(),
            Some(Alias::Path) if self.state.route.whole_path => uri,
            Some(Alias::Path) => b"",
        });
        true
    }
}

impl Clock {
    /// Milliseconds after the second.
    pub fn millis(&self) -> u64 {
        u64::try_from(self.now.since(self.second_began).as_millis()).unwrap_or(0).min(999)
    }

    /// A second that begins.
    pub fn new(second: u64, date: HttpDate, now: Time) -> Self {
        let there = LocalTime::of(second);
        let (iso, local) = (there.of_iso8601(), there.of_logs());
        Self { now, second, date, second_began: now, there, iso, local }
    }
}
