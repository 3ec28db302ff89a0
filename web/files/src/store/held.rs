//! What the store holds, and where.

use super::{Entry, Store};

impl Store {
    /// Tells where the entries and what they hold are.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        let start = self.entries.as_ptr().addr();
        each(start..start + self.entries.capacity() * size_of::<Entry>());
        for prepared in self.entries.iter().filter_map(|entry| entry.prepared.as_ref()) {
            // What is far is known to be, and counted as it is sent.
            let ready = &prepared.ready;
            let content = ready.content.as_ref().filter(|_| !prepared.far);
            for body in [Some(&ready.message), content, ready.closing.as_ref()].into_iter().flatten() {
                let bytes = body.as_slice().as_ptr_range();
                each(bytes.start.addr()..bytes.end.addr());
            }
        }
    }

    /// Whether connections that take their responses slowly hold so much
    /// content that is no longer current that no more is to be loaded.
    pub fn is_clogged(&mut self) -> bool {
        self.retired_bytes > self.bytes_max && {
            self.sweep();
            self.retired_bytes > self.bytes_max
        }
    }

    /// Bytes of content in memory, and paths known.
    pub fn held(&self) -> (u64, u64) {
        ((self.bytes + self.retired_bytes) as u64, self.by_key.len() as u64)
    }

    /// What the silos hold in common, and of that in copies.
    pub fn held_in_common(&self) -> (u64, u64) {
        self.others.as_ref().map_or((0, 0), |others| others.member.held())
    }
}
