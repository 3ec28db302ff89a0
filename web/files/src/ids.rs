//! Names of what is kept in tables.

/// An entry of the store, by slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryId {
    pub slot: u32,
    pub generation: u32,
}

/// A request under way, by its place and which of those in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkId {
    pub place: u32,
    pub serial: u32,
}
