//! A table of values that templates take their words from: CSV, with a line of
//! names at its top.

use core::fmt;
use csv_core::{ReadRecordResult, Reader};

/// The longest file, in bytes. It is held once, and shared by all silos.
pub const FEED_LIMIT: usize = 64 << 20;

/// Cells in all: each has four bytes beside its content.
const CELLS_LIMIT: usize = 16 << 20;

/// Columns of a row.
const COLUMNS_LIMIT: usize = 256;

/// The longest row, in bytes.
const ROW_LIMIT: usize = 1 << 20;

/// Which row a request takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FeedOrder {
    /// The next one, over all silos, and the first again behind the last.
    #[default]
    InTurn,
    /// Any, each with the same probability.
    Random,
}

/// The rows of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Feed {
    names: Vec<String>,
    /// The cells of all rows, one behind the other.
    cells: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
    order: FeedOrder,
}

/// It may hold a hundred thousand passwords.
impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("names", &self.names).field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// Why a file cannot be used: the user's to mend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedError {
    /// The line, counted from 1.
    line: u64,
    why: String,
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl core::error::Error for FeedError {}

impl Feed {
    /// Reads a file as RFC 4180 has it; lines may end with LF alone. Each row has
    /// as many cells as the first line has names.
    ///
    /// # Errors
    /// The first line that is not so; if there are no rows, no name, the same one twice;
    /// or if one of the limits is passed.
    pub fn read(bytes: &[u8], order: FeedOrder) -> Result<Self, FeedError> {
        let fail = |line: u64, why: &str| FeedError { line, why: why.to_owned() };
        if bytes.len() > FEED_LIMIT {
            return Err(fail(1, "the file is longer than 64 MiB"));
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut feed = Self { names: Vec::new(), cells: Vec::new(), ends: Vec::new(), order };
        let mut reader = Reader::new();
        let (mut row, mut ends) = (vec![0; ROW_LIMIT], vec![0; COLUMNS_LIMIT]);
        let mut rest = bytes;
        loop {
            let line = reader.line();
            // The library is told of the end by an empty input, and each row fits or is refused.
            let (result, columns) = record(&mut reader, &mut rest, &mut row, &mut ends);
            match result {
                ReadRecordResult::End => break,
                ReadRecordResult::OutputFull => return Err(fail(line, "the row is longer than 1 MiB")),
                ReadRecordResult::OutputEndsFull => return Err(fail(line, "there may be 256 columns")),
                ReadRecordResult::InputEmpty | ReadRecordResult::Record => {}
            }
            feed.take(&row, ends.get(..columns).unwrap_or_default()).map_err(|why| FeedError { line, why })?;
        }
        if feed.rows() == 0 {
            return Err(fail(reader.line(), "there is no row below the line of names"));
        }
        Ok(feed)
    }

    /// Takes a row: the first one has the names.
    fn take(&mut self, row: &[u8], ends: &[usize]) -> Result<(), String> {
        let cells = (0..ends.len()).map(|n| {
            let start = if n == 0 { 0 } else { ends[n - 1] };
            row.get(start..ends[n]).unwrap_or_default()
        });
        if self.names.is_empty() {
            let names: Result<Vec<String>, _> =
                cells.map(|cell| core::str::from_utf8(cell).map(str::to_owned)).collect();
            self.names = names.map_err(|_| "the names are not UTF-8".to_owned())?;
            let twice = self.names.iter().enumerate().find(|(n, name)| self.names[..*n].contains(name));
            return match (self.names.iter().any(String::is_empty), twice) {
                (true, _) => Err("a column has no name".to_owned()),
                (_, Some((_, name))) => Err(format!("two columns are named '{name}'")),
                _ => Ok(()),
            };
        }
        if ends.len() != self.names.len() {
            return Err(format!("the row has {} cells beside {} names", ends.len(), self.names.len()));
        }
        if self.ends.len() + ends.len() > CELLS_LIMIT {
            return Err("there may be 16,777,216 cells".to_owned());
        }
        for cell in cells {
            self.cells.extend_from_slice(cell);
            // The file is bounded, and its cells are no longer.
            self.ends.push(self.cells.len() as u32);
        }
        Ok(())
    }

    /// Rows, without the line of names.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.ends.len() / self.names.len().max(1)
    }

    /// Which row a request takes.
    #[must_use]
    pub const fn order(&self) -> FeedOrder {
        self.order
    }

    /// Names of columns.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The column of a name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// The content of a cell; empty if there is none.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> &[u8] {
        let place = row * self.names.len() + column;
        let end = |place: usize| self.ends.get(place).map_or(0, |end| *end as usize);
        let start = if place == 0 { 0 } else { end(place - 1) };
        self.cells.get(start..end(place)).unwrap_or_default()
    }

    /// The cells of a column, by row.
    pub fn cells_of(&self, column: usize) -> impl Iterator<Item = &[u8]> {
        (0..self.rows()).map(move |row| self.cell(row, column))
    }
}

const _: () = assert!(FEED_LIMIT <= u32::MAX as usize, "ends of cells are held in 32 bits");

/// One row of what is left: what came of it, and its columns.
fn record(reader: &mut Reader, rest: &mut &[u8], row: &mut [u8], ends: &mut [usize]) -> (ReadRecordResult, usize) {
    let (mut written, mut columns) = (0, 0);
    loop {
        let room = (row.get_mut(written..).unwrap_or_default(), ends.get_mut(columns..).unwrap_or_default());
        let (result, read, wrote, ended) = reader.read_record(rest, room.0, room.1);
        *rest = rest.get(read..).unwrap_or_default();
        (written, columns) = (written + wrote, columns + ended);
        if result != ReadRecordResult::InputEmpty {
            return (result, columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(text: &str) -> Result<Feed, String> {
        Feed::read(text.as_bytes(), FeedOrder::InTurn).map_err(|why| why.to_string())
    }

    #[test]
    fn rows_are_read_by_name() {
        let feed = feed("\u{feff}user,\"pass, word\"\r\nada,1\n\"a \"\"b\"\"\n c\",\n\n,x").expect("right");
        assert_eq!(feed.names(), ["user", "pass, word"]);
        assert_eq!((feed.rows(), feed.column("pass, word"), feed.column("none")), (3, Some(1), None));
        let cells: Vec<&[u8]> = feed.cells_of(0).collect();
        assert_eq!(cells, [&b"ada"[..], b"a \"b\"\n c", b""]);
        assert_eq!([feed.cell(0, 1), feed.cell(1, 1), feed.cell(2, 1), feed.cell(3, 1)], [&b"1"[..], b"", b"x", b""]);
        assert!(!format!("{feed:?}").contains("ada"), "what is in it is nobody's business");
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_line() {
        for (text, told) in [
            ("", "line 1: there is no row"),
            ("a,b\n", "there is no row"),
            ("a,b\n1,2\n1\n", "line 3: the row has 1 cells beside 2 names"),
            ("a,b\n1,2,3\n", "line 2: the row has 3"),
            ("a,a\n1,2\n", "line 1: two columns are named 'a'"),
            ("a,\n1,2\n", "line 1: a column has no name"),
            (&format!("a\n{}\n", "x".repeat(ROW_LIMIT + 1)), "line 2: the row is longer than 1 MiB"),
            (&format!("{}\n", "a,".repeat(300)), "line 1: there may be 256 columns"),
            // A quote that is never closed takes all that follows into its cell.
            (&format!("a\n\"{}", "x\n".repeat(ROW_LIMIT)), "longer than 1 MiB"),
        ] {
            let why = feed(text).expect_err(told);
            assert!(why.contains(told), "{why}");
        }
        let long = vec![b'x'; FEED_LIMIT + 1];
        assert!(Feed::read(&long, FeedOrder::Random).is_err_and(|why| why.to_string().contains("64 MiB")));
    }
}
