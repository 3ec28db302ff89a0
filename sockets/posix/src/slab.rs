//! Values under small numbers that are given again once they are free.

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// A table of values by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Keeps a value; its number.
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(at) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(at as usize)
        {
            *entry = Some(value);
            return at;
        }
        self.entries.push(Some(value));
        (self.entries.len() - 1) as u32
    }

    /// Takes a value out.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }

    /// The value of this number.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.entries.get(at as usize)?.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.entries.get_mut(at as usize)?.as_mut()
    }

    /// All values with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0u32..).zip(&self.entries);
        numbered.filter_map(|(at, entry)| Some((at, entry.as_ref()?)))
    }

    /// How many values there are.
    pub const fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
