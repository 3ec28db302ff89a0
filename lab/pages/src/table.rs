//! Tables. One that is wider than its place becomes a list of its rows, so that no column is cut.

use crate::text::{escaped, width};
use crate::tone::Tone;
use core::fmt::Write;

/// Rows beyond this many are shown when somebody asks for them.
const OPEN: usize = 60;

/// No column is reckoned wider: longer text wraps.
const WIDEST: f64 = 260.0;

/// A table with its heads.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PageTable {
    /// What it shows; empty where a heading says it.
    pub caption: String,
    /// The columns.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<TableRow>,
}

/// A row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TableRow {
    /// What it says, column by column; the first names it.
    pub cells: Vec<String>,
    /// How good or bad its last cell is.
    pub tone: Tone,
}

impl From<Vec<String>> for TableRow {
    fn from(cells: Vec<String>) -> Self {
        Self { cells, tone: Tone::Plain }
    }
}

impl PageTable {
    /// Of these columns.
    #[must_use]
    pub fn new(caption: impl Into<String>, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { caption: caption.into(), heads, rows: Vec::new() }
    }

    /// Names and what they are, a row each.
    #[must_use]
    pub fn pairs<T: Into<String>>(caption: &str, heads: [&str; 2], pairs: impl IntoIterator<Item = (T, T)>) -> Self {
        let rows = pairs.into_iter().map(|(name, what)| vec![name.into(), what.into()].into()).collect();
        Self { rows, ..Self::new(caption, &heads) }
    }

    /// With these rows.
    #[must_use]
    pub fn with<T: Into<TableRow>>(mut self, rows: impl IntoIterator<Item = T>) -> Self {
        self.rows.extend(rows.into_iter().map(Into::into));
        self
    }

    pub(crate) fn write(&self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let many = self.rows.len() > OPEN;
        let (caption, count) = (escaped(&self.caption), self.rows.len());
        if many {
            let _ = write!(out, "<details><summary>{caption} {count} rows</summary>");
        }
        let _ = write!(out, "<table class=\"{}\">", self.class());
        if !self.caption.is_empty() {
            let _ = write!(out, "<caption>{caption}</caption>");
        }
        out.push_str("\n<thead><tr>");
        self.heads.iter().for_each(|head| _ = write!(out, "<th scope=\"col\">{}</th>", escaped(head)));
        out.push_str("</tr></thead>\n<tbody>\n");
        let prose: Vec<bool> = (0..self.heads.len()).map(|column| self.is_prose(column)).collect();
        self.rows.iter().for_each(|row| self.row(out, row, &prose));
        out.push_str("</tbody></table>\n");
        if many {
            out.push_str("</details>\n");
        }
    }

    fn row(&self, out: &mut String, row: &TableRow, prose: &[bool]) {
        out.push_str("<tr>");
        for (column, (cell, head)) in row.cells.iter().zip(&self.heads).enumerate() {
            let (text, head) = (escaped(cell), escaped(head));
            let last = column + 1 == row.cells.len();
            let tone = if last { row.tone.class() } else { "" };
            let class = [if prose[column] { "prose" } else { "" }, tone].join(" ");
            let class = if class == " " { String::new() } else { format!(" class=\"{}\"", class.trim()) };
            let _ = match column {
                0 => write!(out, "<th scope=\"row\" data-head=\"{head}\" dir=\"auto\"{class}>{text}</th>"),
                _ => write!(out, "<td data-head=\"{head}\" dir=\"auto\"{class}>{text}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }

    /// Whether a column has text that wraps, and no numbers.
    fn is_prose(&self, column: usize) -> bool {
        self.rows.iter().filter_map(|row| row.cells.get(column)).any(|cell| cell.chars().count() > 28)
    }

    /// By the room that it needs: it is a list where there is less.
    fn class(&self) -> &'static str {
        let of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            cells.chain(self.heads.get(column)).map(|cell| width(cell, 13.0)).fold(0.0, f64::max).min(WIDEST)
        };
        match (0..self.heads.len()).map(|column| of(column) + 18.0).sum::<f64>() {
            ..=330.0 => "narrow",
            ..=640.0 => "middle",
            ..=850.0 => "broad",
            ..=1_090.0 => "wide",
            _ => "list",
        }
    }
}
