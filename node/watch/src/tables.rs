//! Interrupts by core: a table that on large machines has half a million counts,
//! nearly all of which are what they were a moment ago.

use crate::text;

/// The sums of a table's columns, kept from one reading to the next. Of rows that
/// are as they were nothing is read but whether they are.
#[derive(Debug, Default)]
pub struct Sums {
    text: String,
    /// Where each line ends in the text, without its newline.
    ends: Vec<usize>,
    cores: Vec<u16>,
    sums: Vec<u64>,
    /// By how much columns of a row grew.
    grown: Vec<(usize, u64)>,
}

/// A count of `/proc/interrupts`: a blank, and ten places.
const CELL: usize = 11;

/// A count that stands right in its cell.
fn cell(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.strip_prefix(b" ")?.trim_ascii_start();
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |sum: u64, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))))
}

impl Sums {
    /// Takes the table as it is now; gives back the text of the last one, whose
    /// memory is used again.
    pub fn update(&mut self, text: &mut String) {
        core::mem::swap(&mut self.text, text);
        let (now, ends) = (core::mem::take(&mut self.text), core::mem::take(&mut self.ends));
        let added = self.changed(text, &now, &ends);
        (self.text, self.ends) = (now, ends);
        if added.is_none() {
            self.all();
        }
    }

    /// Each core's sum.
    pub fn by_core(&self) -> impl Iterator<Item = (u16, u64)> {
        self.cores.iter().copied().zip(self.sums.iter().copied())
    }

    /// Adds what grew since the table before; `None` where its lines are others,
    /// after which the sums are none.
    fn changed(&mut self, before: &str, now: &str, ends: &[usize]) -> Option<()> {
        let (now, before) = (now.as_bytes(), before.as_bytes());
        let first = *ends.first()?;
        if now.len() != before.len() || now.get(..=first) != before.get(..=first) {
            return None;
        }
        let mut start = first + 1;
        for end in ends.iter().skip(1) {
            let (old, new) = (before.get(start..=*end)?, now.get(start..=*end)?);
            if old != new {
                let (key, counts) = row(new)?;
                let (old_key, old_counts) = row(old)?;
                if key != old_key {
                    return None;
                }
                start = end + 1;
                if self.cells(old.get(key.len() + 1..)?, new.get(key.len() + 1..)?) {
                    continue;
                }
                let mut old_counts = text::counts_of(old_counts, self.cores.len());
                for (sum, count) in self.sums.iter_mut().zip(text::counts_of(counts, self.cores.len())) {
                    // Both of them wrap.
                    *sum = sum.wrapping_add(count).wrapping_sub(old_counts.next().unwrap_or(0));
                }
                if old_counts.next().is_some() {
                    return None;
                }
            }
            start = end + 1;
        }
        Some(())
    }

    /// The same for a row whose counts have the kernel's width: only those that are
    /// others are read. Whether it is such a row; nothing is added else.
    fn cells(&mut self, old: &[u8], new: &[u8]) -> bool {
        let length = self.cores.len() * CELL;
        let (Some((old, old_name)), Some((new, name))) = (old.split_at_checked(length), new.split_at_checked(length))
        else {
            return false;
        };
        self.grown.clear();
        for (at, (old, new)) in old.chunks_exact(CELL).zip(new.chunks_exact(CELL)).enumerate() {
            if old != new {
                let (Some(old), Some(new)) = (cell(old), cell(new)) else { return false };
                self.grown.push((at, new.wrapping_sub(old)));
            }
        }
        // A digit there is the last count's, which is wider.
        if old_name != name || !matches!(name.first(), Some(b' ' | b'\n')) {
            return false;
        }
        for (at, grown) in &self.grown {
            if let Some(sum) = self.sums.get_mut(*at) {
                *sum = sum.wrapping_add(*grown);
            }
        }
        true
    }

    fn all(&mut self) {
        let mut sums: Vec<u64> = Vec::new();
        self.cores = text::by_core(&self.text, |_, counts| {
            for (at, count) in counts.enumerate() {
                match sums.get_mut(at) {
                    Some(sum) => *sum = sum.wrapping_add(count),
                    None => sums.push(count),
                }
            }
        });
        self.sums = sums;
        self.ends = self.text.match_indices('\n').map(|(at, _)| at).collect();
    }
}

/// A line's key and what follows it, if it is one line.
fn row(line: &[u8]) -> Option<(&[u8], &str)> {
    let line = line.strip_suffix(b"\n").filter(|line| !line.contains(&b'\n'))?;
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((&line[..colon], core::str::from_utf8(&line[colon + 1..]).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(tables: &[&str]) -> Vec<(u16, u64)> {
        let mut sums = Sums::default();
        for table in tables {
            sums.update(&mut (*table).to_owned());
        }
        sums.by_core().collect()
    }

    /// Whatever came before, the sums are those of the last table alone.
    #[test]
    fn sums_are_those_of_the_last_table() {
        let tables = [
            "     CPU0 CPU2\n 36:  1  20 disk\nLOC: 10  30 timer\nERR:  0\n",
            "     CPU0 CPU2\n 36:  1  20 disk\nLOC: 11  33 timer\nERR:  7\n",
            "     CPU0 CPU2\n 36:  2  21 disk\nLOC: 11  33 timer\nERR:  7\n",
            // Another row of the same length, and counts that began again.
            "     CPU0 CPU2\n 37:  2  29 card\nLOC: 11  33 timer\nERR:  7\n",
            "     CPU0 CPU2\n 37:  0   1 card\nLOC: 11  33 timer\nERR:  7\n",
            // A core went, a row went, a row came, the end is cut off.
            "     CPU0\n 37:  2 card\nLOC: 11 timer\n",
            // As the kernel has it: each count in eleven places.
            "           CPU0       CPU2\n 36:          1         20  disk\nLOC: 4294967295         30  timer\n",
            "           CPU0       CPU2\n 36:          3         20  disk\nLOC:          1         31  timer\n",
            "           CPU0       CPU2\n 36:          3         29  disk\nLOC:          1         31  times\n",
            "     CPU0 CPU2\nLOC: 11  33 timer\nERR:  7\n",
            "     CPU0 CPU2\nLOC: 12  33 timer\nERR:  ",
            "     CPU0 CPU2\nLOC: 12\n 33: 1  2\nERR:  ",
            "",
        ];
        for from in 0..tables.len() {
            for to in 0..tables.len() {
                assert_eq!(sums(&[tables[from], tables[to]]), sums(&[tables[to]]), "{from} then {to}");
            }
        }
        assert_eq!(sums(&tables[..2]), [(0, 19), (2, 53)]);
    }
}
