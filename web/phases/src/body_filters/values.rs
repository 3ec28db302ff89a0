//! What filters and trailers ask of the request whose content they have.

use crate::request_state::RequestState;
use crate::scope::{Clock, Scope};
use filters::{FilterValues, Include, SsiValues};
use formats::text::put_field;
use std::rc::Rc;

impl RequestState {
    /// What its filters and trailers ask for.
    pub(crate) fn with_scope<T>(&mut self, clock: &Clock, act: impl FnOnce(&mut Scope<'_>) -> T) -> Option<T> {
        let request = self.request.take()?;
        let loaded = Rc::clone(&self.loaded);
        let done = {
            let request = request.get();
            let mut scope = Scope::new((&loaded, self), &request, clock);
            act(&mut scope)
        };
        self.request = Some(request);
        Some(done)
    }

    /// The fields behind the body, as lines.
    pub(crate) fn trailers(&mut self, clock: &Clock) -> Vec<u8> {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.block(self.route.block) else { return Vec::new() };
        let safe = crate::reply::is_added_to(self.sent.status);
        // As nginx has it, those of the upstream come first.
        let mut lines = self.passed_trailers(block);
        self.with_scope(clock, |scope| {
            for field in block.fields.trailers.iter().filter(|field| safe || field.always) {
                // Each may be made of those before it.
                scope.state.sent.trailers.clone_from(&lines);
                let value = scope.get(&field.value);
                if !value.is_empty() {
                    put_field(&field.name, &value, &mut lines);
                }
            }
        });
        self.sent.trailers.clone_from(&lines);
        lines
    }
}

impl FilterValues for Scope<'_> {
    fn named(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let loaded = self.loaded;
        let (number, found) = loaded.program.variables.find(name)?;
        let mut out = Vec::new();
        self.write_found(number, &found, &mut out).then_some(out)
    }

    fn second(&mut self) -> u64 {
        self.clock.second
    }

    fn tell(&mut self, fault: &dyn Fn() -> Vec<u8>) {
        Scope::tell(self, fault);
    }

    fn ssi(&mut self) -> &mut SsiValues {
        self.state.within.ssi.get_or_insert_default()
    }

    fn path(&mut self) -> Vec<u8> {
        self.state.route.uri.clone()
    }

    fn include(&mut self, include: Include) -> bool {
        if let Some(why) = self.state.refuses_sub() {
            let (_, text) = why.told(&include.uri);
            Scope::tell(self, || text);
            return false;
        }
        self.state.within.include = Some(Box::new(include));
        true
    }

    fn waits(&self) -> bool {
        self.state.within.include.is_some()
    }
}
