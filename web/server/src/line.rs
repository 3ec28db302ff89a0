//! Connections that wait, in the order in which they came.

use app::ConnId;
use std::collections::{BTreeSet, VecDeque};

/// Connections in their order, any of which may leave.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Those that have left may be among them: as many as the others, and a few.
    all: VecDeque<ConnId>,
    /// Who stands in it, by index and generation.
    members: BTreeSet<(u32, u32)>,
}

impl Line {
    const fn key(id: ConnId) -> (u32, u32) {
        (id.index() as u32, id.generation())
    }

    pub fn join(&mut self, id: ConnId) {
        if self.members.insert(Self::key(id)) {
            self.all.push_back(id);
        }
    }

    pub fn leave(&mut self, id: ConnId) {
        if self.members.remove(&Self::key(id)) && self.all.len() > 2 * self.members.len() + 64 {
            let Self { all, members } = self;
            all.retain(|id| members.contains(&Self::key(*id)));
        }
    }

    pub fn first(&mut self) -> Option<ConnId> {
        while let Some(id) = self.all.front().copied() {
            if self.members.contains(&Self::key(id)) {
                return Some(id);
            }
            self.all.pop_front();
        }
        None
    }

    pub fn take_first(&mut self) -> Option<ConnId> {
        let id = self.first()?;
        self.members.remove(&Self::key(id));
        self.all.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_found_whoever_left_before() {
        let mut line = Line::default();
        let (gone, next) = (ConnId::new(7, 1), ConnId::new(7, 2));
        line.join(gone);
        line.leave(gone);
        line.join(next);
        line.join(next);
        assert_eq!(line.take_first(), Some(next));
        assert_eq!(line.take_first(), None);
        for generation in 0..1_000 {
            let id = ConnId::new(1, generation);
            line.join(id);
            line.leave(id);
        }
        assert!(line.all.len() <= 65, "{} of them are gone", line.all.len());
    }
}
