//! Tables. One that is wider than its place becomes a list of its rows, so that no column is cut.

use crate::text::{escaped, width};
use crate::tone::Tone;
use core::fmt::Write;
use figures::grouped;

/// No column is reckoned wider: longer text wraps.
const WIDEST: f64 = 260.0;

/// A cell of what there is not, which a list leaves out.
const NIL: &str = "-";

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
    /// What is drawn in a last column, above it and in each row: markup, in which nothing stands that a result says.
    pub(crate) drawn: Vec<String>,
}

impl PageTable {
    /// Of these columns.
    #[must_use]
    pub fn new(caption: impl Into<String>, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { caption: caption.into(), heads, rows: Vec::new(), drawn: Vec::new() }
    }

    /// Of rows, the first of which are the heads.
    #[must_use]
    pub fn headed(caption: impl Into<String>, mut rows: Vec<Vec<String>>) -> Self {
        let heads = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
        Self { heads, rows, ..Self::new(caption, &[]) }
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

    /// Its HTML; more rows than these are shown when somebody asks for them.
    pub(crate) fn write(&self, out: &mut String, open: usize) {
        if self.rows.is_empty() {
            return;
        }
        let many = self.rows.len() > open && self.drawn.is_empty();
        let (caption, count) = (escaped(&self.caption), grouped(self.rows.len() as u64));
        if many {
            let of = if caption.is_empty() { String::new() } else { format!("{caption}: ") };
            let _ = write!(out, "<details><summary>{of}{count} rows</summary>");
        }
        let _ = write!(out, "<table role=\"table\" class=\"{}\">", self.class());
        if !self.caption.is_empty() {
            let _ = write!(out, "<caption>{caption}</caption>");
        }
        out.push_str("\n<thead><tr role=\"row\">");
        let kinds: Vec<&str> = (0..self.heads.len()).map(|column| self.kind(column)).collect();
        for (head, kind) in self.heads.iter().zip(&kinds) {
            let _ = write!(out, "<th role=\"columnheader\"{}>{}</th>", class(&[kind]), escaped(head));
        }
        self.write_drawn(out, 0);
        out.push_str("</tr></thead>\n<tbody>\n");
        for (number, row) in self.rows.iter().enumerate() {
            out.push_str("<tr role=\"row\">");
            for (column, (cell, head)) in row.iter().zip(&self.heads).enumerate() {
                let tone = if head == VERDICT { Tone::of(cell).class() } else { "" };
                let class = class(&[kinds[column], tone, if cell == NIL { "nil" } else { "" }]);
                let (element, role) = if column == 0 { ("th", "rowheader") } else { ("td", "cell") };
                let (text, head) = (escaped(cell), escaped(head));
                let _ = write!(
                    out,
                    "<{element} role=\"{role}\"{class} data-head=\"{head}\" dir=\"auto\">{text}</{element}>"
                );
            }
            self.write_drawn(out, number + 1);
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>\n");
        if many {
            out.push_str("</details>\n");
        }
    }

    /// The cell of what is drawn, which who reads the others does not need.
    fn write_drawn(&self, out: &mut String, row: usize) {
        if let Some(drawn) = self.drawn.get(row) {
            let _ = write!(out, "<td class=\"track\" aria-hidden=\"true\">{drawn}</td>");
        }
    }

    /// What a column has: text that wraps, words, or figures.
    fn kind(&self, column: usize) -> &'static str {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).filter(|cell| *cell != NIL);
        let is_figure = |cell: &String| cell.starts_with(|char: char| char.is_ascii_digit() || "+-−<>".contains(char));
        match () {
            () if cells.clone().any(|cell| cell.chars().count() > 28) => "prose",
            () if 2 * cells.clone().filter(|cell| is_figure(cell)).count() < cells.count() => "text",
            () => "",
        }
    }

    /// By the room that it needs: it is a list where there is less.
    fn class(&self) -> &'static str {
        let of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain(self.heads.get(column)).map(|cell| width(cell, 13.0)).fold(0.0, f64::max).min(WIDEST)
        };
        match (0..self.heads.len()).map(|column| of(column) + 18.0).sum::<f64>() {
            _ if !self.drawn.is_empty() => "bars",
            // Names wrap, and what stands beside them.
            _ if self.heads.len() <= 2 => "narrow",
            ..=330.0 => "narrow",
            ..=640.0 => "middle",
            ..=850.0 => "broad",
            ..=1_090.0 => "wide",
            _ => "list",
        }
    }
}

/// The attribute of an element that is of these classes, if of any.
fn class(names: &[&str]) -> String {
    let names: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
    if names.is_empty() { String::new() } else { format!(" class=\"{}\"", names.join(" ")) }
}
