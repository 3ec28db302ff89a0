//! Lists of numbers as the kernel writes and reads them: `0-3,8`.

use core::fmt;

/// Reads a list, as `0-3,8` or `10-14:2/4`, the first two of each four
/// (lib/bitmap.c); it may be empty. `None` if it is no list, or names a number
/// of `limit` or above.
pub fn parse(text: &str, limit: usize) -> Option<Vec<u16>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (range, group) = part.split_once(':').map_or((part, None), |(range, group)| (range, Some(group)));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        if usize::from(last) >= limit || first > last {
            return None;
        }
        let (used, size): (u16, u16) = match group.map(|group| group.split_once('/')) {
            None => (1, 1),
            Some(parts) => parts.and_then(|(used, size)| Some((used.parse().ok()?, size.parse().ok()?)))?,
        };
        if used == 0 || used > size {
            return None;
        }
        all.extend((first..=last).filter(|core| (core - first) % size < used));
        // However often a range is repeated, the list stays small.
        if all.len() > limit {
            return None;
        }
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Ascending numbers, shown as the kernel writes them.
#[derive(Clone, Copy, Debug)]
pub struct Ranges<'a>(pub &'a [u16]);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.chunk_by(|a, b| a.checked_add(1) == Some(*b)).enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match range {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse("0-3,8\n", 4096).unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(parse("8,0-1", 4096).unwrap(), [0, 1, 8]);
        assert_eq!(parse("\n", 4096).unwrap(), []);
        assert_eq!(parse("0-3,8,10-14:2/4", 4096).unwrap(), [0, 1, 2, 3, 8, 10, 11, 14]);
        for wrong in
            ["0-3:2", "0-3:0/2", "0-3:3/2", "a", "1-", "0-70000", "0-5000", "3-1", "-1", "0-4095,0-4095", "1 2"]
        {
            assert_eq!(parse(wrong, 4096), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read() {
        for list in [&[][..], &[7], &[0, 1, 2, 5, 7, 8], &[65_534, 65_535]] {
            let shown = Ranges(list).to_string();
            assert_eq!(parse(&shown, 65_536).unwrap(), list, "{shown}");
        }
        assert_eq!(Ranges(&[0, 1, 2, 5, 7, 8]).to_string(), "0-2,5,7-8");
    }
}
