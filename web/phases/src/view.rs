//! A request, as the features of its place see it.

use super::errors;
use super::request_state::Depends;
use super::scope::Scope;
use features::{ErrorLevel, FeatureParts, RequestView, Value, Values, VariableRow};

impl Values for Scope<'_> {
    fn value(&mut self, value: &Value) -> Vec<u8> {
        self.get(value)
    }

    fn write(&mut self, value: &Value, out: &mut Vec<u8>) {
        Scope::write(self, value, out);
    }
}

impl RequestView for Scope<'_> {
    fn parts(&mut self) -> &mut FeatureParts {
        &mut self.state.features
    }

    fn target(&self) -> &[u8] {
        self.request.target()
    }

    fn field(&self, name: &str) -> Option<&[u8]> {
        self.request.fields().find(|field| field.is(name)).map(|field| field.value)
    }

    fn second(&mut self) -> u64 {
        self.state.reuse.depends.on(Depends::SECOND);
        self.clock.second
    }

    fn tell(&mut self, level: ErrorLevel, text: &dyn Fn() -> Vec<u8>) {
        errors::tell((self.loaded, self.state), self.request, self.clock, (level, text));
    }
}

impl Scope<'_> {
    /// A variable that a feature brings, in the place that the request is in.
    pub(super) fn of_feature(&mut self, row: &VariableRow, out: &mut Vec<u8>) -> bool {
        self.block().is_some_and(|block| (row.write)(&block.features, self, out))
    }
}
