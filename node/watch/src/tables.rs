//! Interrupts by core: a table that on large machines has half a million counts,
//! nearly all of which are what they were a moment ago.

use crate::text;

/// The sums of a table's columns, kept from one reading to the next. Of rows that
/// are as they were nothing is read but whether they are.
#[derive(Debug, Default)]
pub struct Sums {
    text: Vec<u8>,
    rows: Vec<RowAt>,
    cores: Vec<u16>,
    sums: Vec<u64>,
    /// By how much columns of a row grew.
    grown: Vec<(usize, u64)>,
}

/// A row's place in the text.
#[derive(Clone, Copy, Debug)]
struct RowAt {
    /// Its first byte, its colon, and its newline.
    start: usize,
    colon: usize,
    end: usize,
    /// Whether its counts are a part of the sums.
    counted: bool,
}

/// A count of `/proc/interrupts`: a blank, and ten places.
const CELL: usize = 11;

/// Cells that are compared at once.
const BLOCK: usize = 16 * CELL;

/// Whether a row's interrupts are counted in no other: those that flush the TLB
/// are calls of functions, whose row has them, too, and the kernel's own sum in
/// `/proc/stat` has them once.
fn is_counted(key: &str) -> bool {
    key != "TLB"
}

/// A count that stands right in its cell.
fn cell(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.strip_prefix(b" ")?.trim_ascii_start();
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |sum: u64, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))))
}

impl Sums {
    /// Takes the table as it is now; gives back the text of the last one, whose
    /// memory is used again.
    pub fn update(&mut self, text: &mut Vec<u8>) {
        core::mem::swap(&mut self.text, text);
        let (now, rows) = (core::mem::take(&mut self.text), core::mem::take(&mut self.rows));
        let added = self.changed(text, &now, &rows);
        (self.text, self.rows) = (now, rows);
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
    fn changed(&mut self, before: &[u8], now: &[u8], rows: &[RowAt]) -> Option<()> {
        if now.len() != before.len() {
            return None;
        }
        // What is no row must be as it was.
        let mut after = 0;
        for row in rows {
            if now.get(after..row.start)? != before.get(after..row.start)? {
                return None;
            }
            after = row.end + 1;
            let (old, new) = (before.get(row.start..=row.end)?, now.get(row.start..=row.end)?);
            if old == new {
                continue;
            }
            let counts = row.colon + 1 - row.start;
            if old.get(..counts) != new.get(..counts) {
                return None;
            }
            let (old, new) = (old.get(counts..)?, new.get(counts..)?);
            if !self.cells(old, new, row.counted) {
                self.words(old, new, row.counted)?;
            }
        }
        (!rows.is_empty() && now.get(after..)? == before.get(after..)?).then_some(())
    }

    /// What grew in a row whose counts have the kernel's width: only those that are
    /// others are read. Whether it is such a row; nothing is added else.
    fn cells(&mut self, old: &[u8], new: &[u8], counted: bool) -> bool {
        let length = self.cores.len() * CELL;
        let (Some((old, old_name)), Some((new, name))) = (old.split_at_checked(length), new.split_at_checked(length))
        else {
            return false;
        };
        // A digit there is the last count's, which is wider.
        if old_name != name || !matches!(name.first(), Some(b' ' | b'\n')) {
            return false;
        }
        self.grown.clear();
        for (block, (old, new)) in old.chunks(BLOCK).zip(new.chunks(BLOCK)).enumerate() {
            if old == new {
                continue;
            }
            for (at, (old, new)) in old.chunks_exact(CELL).zip(new.chunks_exact(CELL)).enumerate() {
                if old != new {
                    let (Some(old), Some(new)) = (cell(old), cell(new)) else { return false };
                    self.grown.push((block * (BLOCK / CELL) + at, new.wrapping_sub(old)));
                }
            }
        }
        for (at, grown) in self.grown.iter().filter(|_| counted) {
            if let Some(sum) = self.sums.get_mut(*at) {
                *sum = sum.wrapping_add(*grown);
            }
        }
        true
    }

    /// The same for a row of any width; `None` if it is not one row as before.
    fn words(&mut self, old: &[u8], new: &[u8], counted: bool) -> Option<()> {
        if new.iter().position(|byte| *byte == b'\n')? + 1 != new.len() {
            return None;
        }
        let (mut old, mut new) = (text::counts_of(old, self.cores.len()), text::counts_of(new, self.cores.len()));
        for sum in &mut self.sums {
            match (old.next(), new.next()) {
                // Both of them wrap.
                (Some(old), Some(new)) if counted => *sum = sum.wrapping_add(new).wrapping_sub(old),
                (Some(_), Some(_)) | (None, None) => {}
                _ => return None,
            }
        }
        (old.next().is_none() && new.next().is_none()).then_some(())
    }

    fn all(&mut self) {
        let mut sums: Vec<u64> = Vec::new();
        self.rows.clear();
        let rows = &mut self.rows;
        self.cores = text::by_core(&self.text, |row, counts| {
            let counted = is_counted(row.key);
            let [start, colon, end] = row.place;
            rows.push(RowAt { start, colon, end, counted });
            for (at, count) in counts.enumerate().filter(|_| counted) {
                match sums.get_mut(at) {
                    Some(sum) => *sum = sum.wrapping_add(count),
                    None => sums.push(count),
                }
            }
        });
        self.sums = sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(tables: &[&str]) -> Vec<(u16, u64)> {
        let mut sums = Sums::default();
        for table in tables {
            sums.update(&mut table.as_bytes().to_vec());
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
            // A line that is none.
            "           CPU0       CPU2\nnothing\nLOC:          1         31  times\n",
            "           CPU0       CPU2\n 1:   1\nLOC:          1         31  times\n",
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

    /// As many as fill several blocks, each cell by itself.
    #[test]
    fn one_count_of_many_is_found_wherever_it_is() {
        const CORES: usize = 45;
        let table = |at: usize, count: u64| {
            let heads: String = (0..CORES).map(|core| format!(" {:>10}", format!("CPU{core}"))).collect();
            let counts: String =
                (0..CORES).map(|core| format!(" {:>10}", if core == at { count } else { 7 })).collect();
            format!("    {heads}\n 36:{counts}  PCI-MSIX 1-edge disk\n")
        };
        for at in 0..CORES {
            let found = sums(&[&table(at, 9), &table(at, 1_009)]);
            let wanted = |core: usize| if core == at { 1_009 } else { 7 };
            assert!(found.iter().enumerate().all(|(core, (_, sum))| *sum == wanted(core)), "{at}: {found:?}");
        }
    }

    /// Those that flush the TLB are in the row of calls, too.
    #[test]
    fn calls_that_flush_the_tlb_are_counted_once() {
        let table = |calls: u64, flushes: u64| {
            format!("           CPU0\nCAL: {calls:>10}  calls\nTLB: {flushes:>10}  of them\n")
        };
        assert_eq!(sums(&[&table(10, 9)]), [(0, 10)]);
        assert_eq!(sums(&[&table(10, 9), &table(15, 14)]), [(0, 15)]);
    }
}
