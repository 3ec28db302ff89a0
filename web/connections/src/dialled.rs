//! Which connections are to upstreams, and whose they are.

use app::ConnId;
use core::time::Duration;
use std::collections::HashMap;

/// Looks in each span in which something is to be taken.
const LOOKS: u8 = 16;

/// A connection that a handler asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialled {
    generation: u32,
    /// The handler's number for it.
    pub mark: u32,
}

/// Connections to upstreams of a silo, by their index.
#[derive(Debug, Default)]
pub struct DialledTable {
    places: Vec<Option<Dialled>>,
    open: usize,
    /// Those that were let go of, and have not taken all that they are to have.
    leaving: HashMap<ConnId, Leaving>,
}

/// A connection that was let go of while something was queued for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Leaving {
    /// Some of that is to be taken in each such span, and the end be answered in one.
    patience: Duration,
    /// What was left of it at the last look, and how many looks have found no less.
    unsent: usize,
    quiet: u8,
}

impl Leaving {
    /// When to look again, with so much left; nothing where that is in vain.
    fn look(&mut self, unsent: usize) -> Option<Duration> {
        let moved = core::mem::replace(&mut self.unsent, unsent) != unsent;
        self.quiet = if moved { 0 } else { self.quiet + 1 };
        match unsent {
            0 if moved => Some(self.patience),
            0 => None,
            _ => (self.quiet < LOOKS).then(|| self.patience / u32::from(LOOKS)),
        }
    }
}

impl DialledTable {
    /// The one of this name, if it is there.
    #[must_use]
    pub fn get(&self, id: ConnId) -> Option<&Dialled> {
        self.places.get(id.index())?.as_ref().filter(|one| one.generation == id.generation())
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Dialled> {
        self.places.get_mut(id.index())?.as_mut().filter(|one| one.generation == id.generation())
    }

    /// One more, which has this mark.
    pub fn insert(&mut self, id: ConnId, mark: u32) {
        if self.places.len() <= id.index() {
            self.places.resize(id.index() + 1, None);
        }
        let one = Dialled { generation: id.generation(), mark };
        if self.places[id.index()].replace(one).is_none() {
            self.open += 1;
        }
    }

    /// It is none any more; whether it was one.
    pub fn remove(&mut self, id: ConnId) -> Option<Dialled> {
        let found = *self.get(id)?;
        self.places[id.index()] = None;
        self.open -= 1;
        Some(found)
    }

    /// One was let go of while so many bytes are queued for it: when to look at it first.
    pub fn leave(&mut self, id: ConnId, unsent: usize, patience: Duration) -> Duration {
        if unsent == 0 {
            return patience;
        }
        self.leaving.insert(id, Leaving { patience, unsent, quiet: 0 });
        patience / u32::from(LOOKS)
    }

    /// Its timer ran out, with so many bytes left: when to look again; nothing where it is to be
    /// given up.
    pub fn look_at_leaving(&mut self, id: ConnId, unsent: usize) -> Option<Duration> {
        self.leaving.get_mut(&id)?.look(unsent)
    }

    /// One that was let go of is over.
    pub fn left(&mut self, id: ConnId) {
        self.leaving.remove(&id);
    }

    /// Those that were let go of, and have not taken all.
    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// How many there are.
    pub const fn open(&self) -> usize {
        self.open
    }

    /// All of them, to be closed.
    pub fn ids(&self) -> impl Iterator<Item = ConnId> {
        let id = |(index, one): (usize, &Option<Dialled>)| Some(ConnId::new(index as u32, one.as_ref()?.generation));
        self.places.iter().enumerate().filter_map(id)
    }
}
