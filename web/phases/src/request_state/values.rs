//! What variables were set to, and what they were when they were first asked for.

/// What is known of a request's variables: of a main request, all of those within it know it, too.
#[derive(Debug, Default)]
pub(crate) struct VariableMemory {
    pub slots: Vec<Option<Box<[u8]>>>,
    pub cached: Vec<(u16, Option<Box<[u8]>>)>,
}

impl VariableMemory {
    /// Forgets all but the memory.
    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.cached.clear();
    }
}
