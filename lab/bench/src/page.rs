//! What the silos or workers of a server tell on their page.

use crate::BenchError;
use ::page::{Reader, Snapshot};
use std::path::Path;

/// A server's page.
pub(crate) struct Page(Reader);

/// All of its values at one moment.
pub(crate) struct Values<'a> {
    reader: &'a Reader,
    snapshot: Snapshot,
}

impl Page {
    pub(crate) fn open(path: &Path) -> Result<Self, BenchError> {
        Ok(Self(Reader::open(path).map_err(|why| format!("the server's statistics: {why}"))?))
    }

    pub(crate) fn read(&self) -> Result<Values<'_>, BenchError> {
        Ok(Values { reader: &self.0, snapshot: self.0.snapshot()? })
    }
}

impl Values<'_> {
    /// One silo's value.
    pub(crate) fn of(&self, silo: usize, name: &str) -> Result<u64, BenchError> {
        let index = self.reader.metrics().iter().position(|(known, _)| known == name);
        let value = index.and_then(|index| self.snapshot.silos.get(silo)?.values.get(index).copied());
        value.ok_or_else(|| format!("the server tells no {name} of silo {silo}").into())
    }

    /// All silos' values together.
    pub(crate) fn sum(&self, name: &str) -> Result<u64, BenchError> {
        (0..self.silos()).map(|silo| self.of(silo, name)).sum()
    }

    /// Whether every silo has told its own.
    pub(crate) fn are_told(&self) -> bool {
        self.snapshot.silos.iter().all(|silo| silo.time.is_some())
    }

    pub(crate) fn silos(&self) -> usize {
        self.snapshot.silos.len()
    }
}
