//! Where a table is.

use core::ops::Range;

/// The address range that a table has reserved, what it does not use yet
/// included.
pub(crate) fn reserved<T>(table: &Vec<T>) -> Range<usize> {
    let start = table.as_ptr().addr();
    start..start + table.capacity() * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use crate::{Config, LinkOffload, Seeds, Stack};
    use wire::{Mac, Time};

    #[test]
    fn every_table_is_told_once() {
        let config = Config { max_connections: 10_000, ..Config::new(Mac([2, 0, 0, 0, 0, 1]), 1500) };
        let seeds = Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] };
        let stack = Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO);
        let mut told = Vec::new();
        stack.memory(&mut |range| told.push(range));
        told.retain(|range| !range.is_empty());
        told.sort_by_key(|range| range.start);
        assert!(told.windows(2).all(|pair| pair[0].end <= pair[1].start), "{told:?}");
        // At least a slot for each connection and two buckets for its flow.
        let bytes: usize = told.iter().map(|range| range.len()).sum();
        assert!(bytes >= 10_000 * (size_of::<crate::Slot>() + 2 * 8), "{bytes}");
    }
}
