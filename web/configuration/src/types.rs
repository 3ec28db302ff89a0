//! Media types by the ends of names (`types`).

use std::collections::HashMap;

/// Media types by the ends of names, without their dot, in lower case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TypeTable {
    types: HashMap<Box<[u8]>, Box<[u8]>>,
}

impl TypeTable {
    /// Adds one; the later of two counts.
    pub fn add(&mut self, end: &[u8], media_type: &[u8]) {
        self.types.insert(end.to_ascii_lowercase().into(), media_type.into());
    }

    /// The type of a path, if it has one.
    #[must_use]
    pub fn of(&self, path: &[u8]) -> Option<&[u8]> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0)?;
        let end = &name[dot + 1..];
        match self.types.get(end) {
            Some(found) => Some(found),
            None => self.types.get(end.to_ascii_lowercase().as_slice()).map(|found| &**found),
        }
    }
}
