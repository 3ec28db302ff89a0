//! Names of what is kept in tables.

/// An entry of the store, by slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryId {
    pub slot: u32,
    pub generation: u32,
}

/// What was known of a path at one time: as long as no other is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    pub(crate) entry: EntryId,
    pub(crate) version: u32,
}

/// A message that is kept with its content, by its entry and which of all that there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageId {
    pub slot: u32,
    /// None is 0.
    pub serial: u32,
}

/// A request under way, by its place and which of those in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkId {
    pub place: u32,
    pub serial: u32,
}
