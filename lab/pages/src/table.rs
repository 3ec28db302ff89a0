//! Tables. One that is wider than its place becomes a list of its rows, so that no column is cut.

use crate::text::{escaped, width};
use crate::tone::Tone;
use core::fmt::Write;

/// Rows beyond this many are shown when somebody asks for them.
const OPEN: usize = 60;

/// No column is reckoned wider: longer text wraps.
const WIDEST: f64 = 260.0;

/// The head of a column of verdicts, which are shown as good or bad as they are.
const VERDICT: &str = "verdict";

/// A table with its heads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageTable {
    /// What it shows; empty where a heading says it.
    pub caption: String,
    /// The columns; a last one of the name "verdict" is shown as good or bad as it is.
    pub heads: Vec<String>,
    /// The rows, cell by cell; the first cell names its row.
    pub rows: Vec<Vec<String>>,
}

impl PageTable {
    /// Of these columns.
    #[must_use]
    pub fn new(caption: impl Into<String>, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { caption: caption.into(), heads, rows: Vec::new() }
    }

    /// Of rows, the first of which are the heads.
    #[must_use]
    pub fn headed(caption: impl Into<String>, mut rows: Vec<Vec<String>>) -> Self {
        let heads = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
        Self { caption: caption.into(), heads, rows }
    }

    /// Names and what they are, a row each.
    #[must_use]
    pub fn pairs<T: Into<String>>(caption: &str, heads: [&str; 2], pairs: impl IntoIterator<Item = (T, T)>) -> Self {
        Self::new(caption, &heads).with(pairs.into_iter().map(|(name, what)| vec![name.into(), what.into()]))
    }

    /// With these rows.
    #[must_use]
    pub fn with(mut self, rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.rows.extend(rows);
        self
    }

    /// With a last column of verdicts, one for each row.
    #[must_use]
    pub fn judged(mut self, verdicts: impl IntoIterator<Item = String>) -> Self {
        self.heads.push(VERDICT.to_owned());
        self.rows.iter_mut().zip(verdicts).for_each(|(row, verdict)| row.push(verdict));
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
        let _ = write!(out, "<table role=\"table\" class=\"{}\">", self.class());
        if !self.caption.is_empty() {
            let _ = write!(out, "<caption>{caption}</caption>");
        }
        out.push_str("\n<thead><tr role=\"row\">");
        self.heads.iter().for_each(|head| _ = write!(out, "<th role=\"columnheader\">{}</th>", escaped(head)));
        out.push_str("</tr></thead>\n<tbody>\n");
        let prose: Vec<bool> = (0..self.heads.len()).map(|column| self.is_prose(column)).collect();
        for row in &self.rows {
            out.push_str("<tr role=\"row\">");
            for (column, (cell, head)) in row.iter().zip(&self.heads).enumerate() {
                let tone = if head == VERDICT { Tone::of(cell).class() } else { "" };
                let class = [if prose[column] { "prose" } else { "" }, tone].join(" ");
                let class = if class == " " { String::new() } else { format!("class=\"{}\" ", class.trim()) };
                let (element, role) = if column == 0 { ("th", "rowheader") } else { ("td", "cell") };
                let (text, head) = (escaped(cell), escaped(head));
                let _ = write!(
                    out,
                    "<{element} role=\"{role}\" {class}data-head=\"{head}\" dir=\"auto\">{text}</{element}>"
                );
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>\n");
        if many {
            out.push_str("</details>\n");
        }
    }

    /// Whether a column has text that wraps, and no numbers.
    fn is_prose(&self, column: usize) -> bool {
        self.rows.iter().filter_map(|row| row.get(column)).any(|cell| cell.chars().count() > 28)
    }

    /// By the room that it needs: it is a list where there is less.
    fn class(&self) -> &'static str {
        let of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
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
