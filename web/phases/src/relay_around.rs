//! What upstreams say before an answer and behind it: early hints (RFC 8297), and trailers.

use super::request_state::RequestState;
use super::runner::Runner;
use configuration::program::{Block, ContentRules};
use exchange::{Reply, ReplyEnd};
use formats::text::put_field;
use proxy::fields::{AnswerField, NameSet};
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
    /// An interim answer with hints came, with these fields: they go on to a client that knows
    /// of them, where it is to have them.
    pub(super) fn on_hints(&mut self, lines: &[u8]) {
        let Some(rules) = self.state.passed.relay.as_deref().map(|relay| Arc::clone(&relay.rules)) else { return };
        let mut passed = Vec::new();
        put_passed(lines, &rules.hides, &mut passed);
        if !passed.is_empty() && self.takes_hints() {
            let hints = Reply { status: Status::EARLY_HINTS, length: None, fields: &passed, reason: None };
            self.state.sent.hints += self.replies.begin(self.state.id, self.request, &hints, ReplyEnd::Length);
        }
    }

    /// Whether the client has interim answers, and is to have them here.
    fn takes_hints(&mut self) -> bool {
        if self.is_sub() || self.state.about.http10 {
            return false;
        }
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.state.route.block) else { return false };
        block.early_hints.iter().any(|value| self.scope().is_true(value))
    }
}

impl RequestState {
    /// The upstream's trailers, as they go on.
    pub(super) fn passed_trailers(&self, block: &Block) -> Vec<u8> {
        let mut lines = Vec::new();
        let rules = match block.content {
            ContentRules::Proxy(_) => &block.proxy,
            ContentRules::Grpc(_) => &block.grpc,
            _ => return lines,
        };
        if !self.sent.upstream_trailers.is_empty() {
            put_passed(&self.sent.upstream_trailers, &rules.hides, &mut lines);
        }
        lines
    }
}
