//! How values are told that go to the statistics page.

/// Takes each value with its name.
pub type Take<'a> = &'a mut dyn FnMut(&'static str, u64);
