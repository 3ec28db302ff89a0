//! Which connections are to upstreams, and whose they are.

use app::ConnId;

/// A connection that a handler asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialled {
    generation: u32,
    /// The handler's, and its number for it.
    pub slot: u16,
    pub mark: u32,
}

/// Connections to upstreams of a silo, by their index.
#[derive(Debug, Default)]
pub struct DialledTable {
    places: Vec<Option<Dialled>>,
    open: usize,
}

impl DialledTable {
    pub fn get(&self, id: ConnId) -> Option<&Dialled> {
        self.places.get(id.index())?.as_ref().filter(|one| one.generation == id.generation())
    }

    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Dialled> {
        self.places.get_mut(id.index())?.as_mut().filter(|one| one.generation == id.generation())
    }

    pub fn insert(&mut self, id: ConnId, slot: u16, mark: u32) {
        if self.places.len() <= id.index() {
            self.places.resize(id.index() + 1, None);
        }
        let one = Dialled { generation: id.generation(), slot, mark };
        if self.places[id.index()].replace(one).is_none() {
            self.open += 1;
        }
    }

    pub fn remove(&mut self, id: ConnId) -> Option<Dialled> {
        let found = *self.get(id)?;
        self.places[id.index()] = None;
        self.open -= 1;
        Some(found)
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
