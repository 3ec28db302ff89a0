//! What upstreams say before an answer and behind it: early hints (RFC 8297), and trailers.

use super::content::Answer;
use super::course::Course;
use super::relay::Relay;
use super::relay_run::Came;
use super::run::Runner;
use super::text::put_field;
use crate::program::{Block, ContentRules};
use core::ops::Range;
use features::ErrorLevel;
use h1::client::{Error, ResponseLimits};
use proxy::fields::{AnswerField, NameSet, misnamed};
use proxy::next::Failure;
use semantics::{Fields, Status};
use std::rc::Rc;
use std::sync::Arc;

/// Writes those of these fields that are not `hidden`, nor of one connection alone
/// (RFC 9110 section 7.6.1): they would say of ours what is not so.
fn put_passed(lines: &[u8], hidden: &NameSet, out: &mut Vec<u8>) {
    for field in Fields::new(lines) {
        let goes_on = !matches!(AnswerField::of(field.name), AnswerField::OfConnection | AnswerField::Upgrade);
        if goes_on && !hidden.has(field.name) {
            put_field(field.name, field.value, out);
        }
    }
}

impl Runner<'_> {
    /// Interim answers with hints came, at these places of what was read; `held` bytes are
    /// there in all. They go on to a client that knows of them, where it is to have them.
    pub(super) fn on_hints(&mut self, hints: &[Range<usize>], held: usize) -> Result<(), Came> {
        let Some(relay) = self.course.relay.as_deref_mut() else { return Ok(()) };
        if relay.gateway.is_some() {
            return Ok(());
        }
        let rules = Arc::clone(&relay.rules);
        for hint in hints {
            let Some(relay) = self.course.relay.as_deref_mut() else { return Ok(()) };
            let head = relay.answer.get(hint.clone()).unwrap_or_default();
            if head.starts_with(b"HTTP/1.0") {
                let told = "upstream sent HTTP/1.0 response with early hints";
                self.tell_of_upstream(told, "reading response header from upstream");
                return Err(Came { flow: self.failed(Failure::InvalidHeader), taken: held });
            }
            relay.hints = relay.hints.saturating_add(u32::try_from(head.len()).unwrap_or(u32::MAX));
            if relay.hints > rules.head_max {
                let told = "upstream sent too big early hints";
                self.tell_at(ErrorLevel::INFO, told, "reading response header from upstream");
                continue;
            }
            let fields = head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |end| end + 1);
            let mut lines = Vec::new();
            put_passed(head.get(fields..).unwrap_or_default(), &rules.hides, &mut lines);
            if !lines.is_empty() && self.takes_hints() {
                self.course.sent.hints += self.replies.interim(self.course.id, Status::EARLY_HINTS, &lines);
            }
        }
        Ok(())
    }

    /// The fields of an answer that makes its connection another protocol's: what the
    /// upstream says and what the configuration adds, as in any other.
    pub(super) fn put_switching_fields(&mut self, mut answer: Answer, lines: &mut Vec<u8>) {
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return };
        let block = &loaded.program.blocks[at];
        let mut added = core::mem::take(&mut self.course.kept_fields);
        self.tell_beforehand(&answer, block);
        self.add_fields(&mut answer, block, &mut added);
        let mut fields = self.first_fields();
        self.name(&answer, block, &mut fields);
        lines.extend_from_slice(&fields.into_bytes());
        lines.append(&mut added);
        self.course.kept_fields = added;
    }

    /// Whether the client has interim answers, and is to have them here.
    fn takes_hints(&mut self) -> bool {
        if self.is_sub() || self.course.about.http10 {
            return false;
        }
        let loaded = Rc::clone(&self.loaded);
        let Some(at) = Self::block(&loaded, self.course) else { return false };
        loaded.program.blocks[at].early_hints.iter().any(|value| self.scope().is_true(value))
    }
}

impl Relay {
    /// Trailers that go on are no longer than a head may be.
    pub(super) fn body_limits(&self) -> ResponseLimits {
        let usual = ResponseLimits::default();
        match self.rules.passes_trailers {
            true => ResponseLimits { trailers: u16::try_from(self.rules.head_max).unwrap_or(u16::MAX), ..usual },
            false => usual,
        }
    }

    /// What is wrong with a body; `rest` is what could not be read of it.
    pub(super) fn body_fault(&self, error: Error, rest: &[u8]) -> String {
        match (error, misnamed(from_last_chunk(rest)).filter(|_| self.rules.passes_trailers)) {
            (Error::TooLarge, _) if self.rules.passes_trailers => "upstream sent too big trailers".to_owned(),
            (_, Some((name, byte))) => {
                format!("upstream sent invalid trailer: \"{}\\x{byte:02x}...\"", String::from_utf8_lossy(name))
            }
            _ => "upstream sent invalid chunked response".to_owned(),
        }
    }
}

/// What there is of a body from its last chunk's size on: trailers follow that line.
fn from_last_chunk(rest: &[u8]) -> &[u8] {
    let mut at = 0;
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        let size = line.split(|byte| *byte == b';').next().unwrap_or(line).trim_ascii_end();
        if !size.is_empty() && size.iter().all(|byte| *byte == b'0') {
            return rest.get(at..).unwrap_or_default();
        }
        at += line.len();
    }
    b""
}

impl Course {
    /// The upstream's trailers, as they go on.
    pub(super) fn passed_trailers(&self, block: &Block) -> Vec<u8> {
        let mut lines = Vec::new();
        if matches!(block.content, ContentRules::Proxy(_)) && !self.sent.upstream_trailers.is_empty() {
            put_passed(&self.sent.upstream_trailers, &block.proxy.hides, &mut lines);
        }
        lines
    }
}
