//! How a subrequest ended, as whoever asked for it has it.

use super::Rest;
use super::request_state::RequestState;
use super::scope::Scope;
use super::subrequest::{SubResult, SubUse};
use exchange::ExchangeId;
use features::ErrorLevel;
use semantics::{Fields, Request};
use std::rc::Rc;

/// The status of an answer whose fields challenge its client.
const UNAUTHORIZED: u16 = 401;

/// The challenges of an answer.
fn challenges(state: &RequestState) -> Vec<Vec<u8>> {
    if state.sent.status != UNAUTHORIZED {
        return Vec::new();
    }
    let of = |lines: &[u8]| -> Vec<Vec<u8>> {
        let is = |field: &semantics::Field<'_>| field.is("www-authenticate");
        Fields::new(lines).filter(is).map(|field| field.value.to_vec()).collect()
    };
    let sent = of(&state.sent.fields);
    // What an upstream said is told even where an error page is in its place.
    if sent.is_empty() { of(&state.passed.answered) } else { sent }
}

impl Rest {
    /// Notes how a subrequest ended.
    pub(super) fn note_sub(&mut self, state: &mut RequestState, request: &Request<'_>) {
        let Some(sub) = state.within.sub.as_deref() else { return };
        let (id, parent) = (sub.id, sub.parent);
        if let SubUse::Slice(asked) = &sub.purpose {
            let slice = Some(asked.clone());
            self.subs.results.push((id, SubResult { status: state.sent.status, slice, ..SubResult::default() }));
            return;
        }
        if !matches!(sub.purpose, SubUse::Permission | SubUse::Memory(..)) {
            return;
        }
        let asks = matches!(sub.purpose, SubUse::Permission);
        let mut result = SubResult { status: state.sent.status, ..SubResult::default() };
        if asks {
            result.values = self.permission_values(state, parent, request);
            result.challenges = challenges(state);
        }
        if !asks {
            let block = state.loaded.program.block(state.route.block);
            let most = block.map_or(0, |block| block.subrequests.memory_max);
            let told = state.sent.length;
            result.is_too_long = told.unwrap_or(state.sent.body) > most;
            if result.is_too_long {
                let length = told.map_or_else(String::new, |length| format!(": {length}"));
                let text = || format!("too big subrequest response{length}").into_bytes();
                super::errors::tell((&state.loaded, state), request, &self.clock, (ErrorLevel::ERROR, text));
            }
        }
        self.subs.results.push((id, result));
    }

    /// What `auth_request_set` of the request that asked has, as the one that was asked
    /// has it.
    fn permission_values(
        &self,
        state: &mut RequestState,
        parent: (u32, ExchangeId),
        request: &Request<'_>,
    ) -> Vec<Vec<u8>> {
        let loaded = Rc::clone(&state.loaded);
        let block = self.requests.of(parent).and_then(|parent| loaded.program.block(parent.route.block));
        let Some(block) = block else { return Vec::new() };
        let clock = self.clock;
        let mut scope = Scope::new((&loaded, state), request, &clock);
        block.access.permission.set.iter().map(|(_, value)| scope.get(value)).collect()
    }
}
