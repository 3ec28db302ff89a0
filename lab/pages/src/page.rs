//! The model of a page, and its HTML.

use crate::chart::Chart;
use crate::drawing::{COLOURS, Drawing, figure};
use crate::inside::link;
use crate::places::Places;
use crate::shell::quoted;
use crate::table::PageTable;
use crate::text::escaped;
use crate::tone::Tone;
use core::fmt::Write;
use semantics::date::HttpDate;

/// A page. Its head is whole from the beginning; the rest is filled by whoever makes one.
#[derive(Clone, Debug)]
pub struct Page {
    /// What stands first.
    pub head: PageHead,
    /// What was found, in numbers.
    pub figures: Vec<PagePart>,
    /// The same, drawn.
    pub curves: Vec<PagePart>,
    /// How it was measured.
    pub method: Vec<PagePart>,
    /// Results that can be taken out of the page: names of files, and what they hold.
    pub results: Vec<(String, String)>,
    /// Whether two of its kind can be compared.
    pub compares: bool,
}

/// What no page is without.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageHead {
    /// What was measured.
    pub title: String,
    /// Of whom: a server's address, links, a machine.
    pub of: String,
    /// When the result was made, seconds since 1970; zero of those of earlier versions: it is not known.
    pub made: u64,
    /// What the figures are worth.
    pub verdict: PageVerdict,
    /// What was found, in sentences.
    pub answer: Vec<String>,
    /// How it is done again, word by word; none where the result does not tell.
    pub command: Vec<String>,
    /// The machine, by name and value; none where the result does not tell.
    pub machine: Vec<(String, String)>,
}

/// A verdict with its reasons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageVerdict {
    /// In a word that [`Tone::of`] knows: COMPLETE, PARTIAL, INVALID.
    pub word: String,
    /// Why.
    pub reasons: Vec<String>,
}

impl PageVerdict {
    /// Whether figures count by it.
    #[must_use]
    pub fn counts(&self) -> bool {
        Tone::of(&self.word) < Tone::Bad
    }

    /// With a reason for which nothing, or not all, can be told by it.
    pub fn lacks(&mut self, why: String) {
        if self.word == "COMPLETE" {
            "PARTIAL".clone_into(&mut self.word);
        }
        if !self.reasons.contains(&why) {
            self.reasons.push(why);
        }
    }

    /// Of two sides that are not alike in these ways: a difference says nothing. That a side does not count is
    /// no less of a reason, and stands before them.
    pub fn unless_alike(&mut self, unlike: impl Iterator<Item = String>) {
        let unlike: Vec<String> = unlike.collect();
        if unlike.is_empty() {
            return;
        }
        let before = if self.counts() { 0 } else { self.reasons.len().min(2) };
        self.word = if self.counts() { "NOT ALIKE".to_owned() } else { format!("{}, NOT ALIKE", self.word) };
        self.reasons.splice(before..before, unlike);
    }
}

/// A part of a page.
#[derive(Clone, Debug)]
pub enum PagePart {
    /// What the next parts are about.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// Sentences, one below the other.
    List(Vec<String>),
    /// A table.
    Table(PageTable),
    /// Curves.
    Chart(Chart),
    /// What lies where.
    Places(Places),
    /// A text as it is, shown when somebody asks for it.
    Whole(String, String),
}

impl From<PageTable> for PagePart {
    fn from(table: PageTable) -> Self {
        Self::Table(table)
    }
}

impl From<Chart> for PagePart {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

impl From<Places> for PagePart {
    fn from(places: Places) -> Self {
        Self::Places(places)
    }
}

/// Where tables of each class become lists of their rows.
const LISTS: [(&str, &str); 4] = [
    ("list", "all"),
    ("middle", "(max-width: 47rem)"),
    ("broad", "(max-width: 55.9rem), print"),
    ("wide", "(max-width: 72rem), print"),
];

/// Rows of a table that are shown unasked: of what was found, and of how it was measured.
const SHOWN: (usize, usize) = (60, 12);

/// The last second that a date has a form for (RFC 9110 5.6.7: a year of four digits).
const LAST_SECOND: u64 = 253_402_300_799;

/// Letters of a title, which are not to push the verdict out of the first screen of a telephone.
const TITLE: usize = 120;

/// Reasons of a verdict that stand at its head; the others stand with how it was measured.
const REASONS: usize = 6;

impl Page {
    /// A page with nothing but its head.
    #[must_use]
    pub const fn new(head: PageHead) -> Self {
        Self { head, figures: Vec::new(), curves: Vec::new(), method: Vec::new(), results: Vec::new(), compares: true }
    }

    /// Adds to what was found.
    pub fn figure(&mut self, part: impl Into<PagePart>) {
        self.figures.push(part.into());
    }

    /// Adds to what is drawn of it.
    pub fn curve(&mut self, part: impl Into<PagePart>) {
        self.curves.push(part.into());
    }

    /// Adds to how it was measured.
    pub fn tell(&mut self, part: impl Into<PagePart>) {
        self.method.push(part.into());
    }

    /// The page as HTML.
    #[must_use]
    pub fn render(&self) -> String {
        let cut = self.head.title.char_indices().nth(TITLE).map(|(at, _)| format!("{}…", &self.head.title[..at]));
        let title = escaped(cut.as_ref().unwrap_or(&self.head.title));
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <link rel=\"icon\" href=\"data:,\"/>\n<title>{title}: {}</title>\n<style>\n{}</style>\n</head>\n\
             <body>\n<main>\n<header>\n<h1 dir=\"auto\">{title}</h1>\n",
            escaped(&self.head.verdict.word),
            style()
        );
        self.head.write(&mut out);
        out.push_str("</header>\n");
        for (heading, parts) in [("Figures", &self.figures), ("Charts", &self.curves)] {
            let mut inner = String::new();
            parts.iter().for_each(|part| part.write(&mut inner, SHOWN.0));
            if !inner.is_empty() {
                let _ = writeln!(out, "<section>\n<h2>{heading}</h2>\n{inner}</section>");
            }
        }
        out.push_str("<section>\n<h2>How it was measured</h2>\n");
        PagePart::List(cut.iter().map(|_| self.head.title.clone()).collect()).write(&mut out, SHOWN.1);
        let late = self.head.verdict.reasons.get(REASONS..).unwrap_or_default();
        PagePart::List(late.to_vec()).write(&mut out, SHOWN.1);
        self.method.iter().for_each(|part| part.write(&mut out, SHOWN.1));
        match self.head.machine.as_slice() {
            [] => out.push_str("<p>This result does not tell of its machine.</p>\n"),
            machine => {
                out.push_str("<details><summary>The machine</summary>\n");
                PageTable::pairs("", ["", "the machine"], machine.iter().cloned()).write(&mut out, usize::MAX);
                out.push_str("</details>\n");
            }
        }
        if !self.results.is_empty() {
            let links: Vec<String> = self.results.iter().map(|(name, text)| link(name, text)).collect();
            let two = ", and <code>nearside lab compare</code> two that measured the same";
            let two = if self.compares { two } else { "" };
            let _ = writeln!(
                out,
                "<p>In this page, to be taken out: {}. <code>nearside lab report</code> reads the page as it is{two}.\
                 </p>",
                links.join(", ")
            );
        }
        out + "</section>\n</main>\n</body>\n</html>\n"
    }
}

/// The style sheet.
fn style() -> String {
    let list = |(class, place)| format!("@media {place} {{\n{}}}\n", include_str!("list.css").replace("TABLE", class));
    format!("{COLOURS}{}{}", include_str!("page.css"), LISTS.map(list).concat())
}

impl PageHead {
    /// When it was made; nothing where that is not known.
    #[must_use]
    pub fn when(&self) -> String {
        let date = HttpDate::from_unix(self.made);
        let known = (1..=LAST_SECOND).contains(&self.made);
        if known { String::from_utf8_lossy(date.as_bytes()).into_owned() } else { String::new() }
    }

    fn write(&self, out: &mut String) {
        let PageVerdict { word, reasons } = &self.verdict;
        let _ = writeln!(
            out,
            "<div class=\"verdict {}\" role=\"status\">\n<strong>{}</strong>",
            Tone::of(word).class(),
            escaped(word)
        );
        let mut shown = reasons[..reasons.len().min(REASONS)].to_vec();
        if reasons.is_empty() && word == "COMPLETE" {
            shown.push("nothing was found that speaks against these figures".to_owned());
        }
        if let Some(more) = reasons.len().checked_sub(REASONS).filter(|more| *more > 0) {
            shown.push(format!("and {more} more, below"));
        }
        PagePart::List(shown).write(out, REASONS);
        out.push_str("</div>\n");
        self.answer.iter().for_each(|line| _ = writeln!(out, "<p class=\"answer\" dir=\"auto\">{}</p>", escaped(line)));
        let short = |name: &str| self.machine.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let machine: Vec<&str> = ["processor", "cores", "system", "kernel"].into_iter().filter_map(short).collect();
        let told = |text: &str| if text.is_empty() { "its result does not tell".to_owned() } else { escaped(text) };
        let again = match self.command.is_empty() {
            true => told(""),
            false => {
                // No line ends within a word that fits into one.
                let word = |word| format!("<span>{}</span>", escaped(&quoted(core::slice::from_ref(word))));
                format!("<code>{}</code>", self.command.iter().map(word).collect::<Vec<_>>().join(" "))
            }
        };
        let _ = writeln!(
            out,
            "<dl>\n<dt>Of</dt><dd dir=\"auto\">{}</dd>\n<dt>When</dt><dd>{}</dd>\n<dt>Again</dt><dd>{again}</dd>\n\
             <dt>Machine</dt><dd dir=\"auto\">{}</dd>\n</dl>",
            told(&self.of),
            told(&self.when()),
            told(&machine.join(", "))
        );
    }
}

impl PagePart {
    /// What is drawn: its title, the same as a table, and how.
    fn drawn(&self) -> Option<(&str, PageTable, Draw<'_>)> {
        match self {
            Self::Chart(it) if !it.series.is_empty() => Some((&it.title, it.table(), Box::new(|on| it.draw(on)))),
            Self::Places(it) if !it.frames.is_empty() => Some((&it.title, it.table(), Box::new(|on| it.draw(on)))),
            _ => None,
        }
    }

    /// Its HTML; of a table so many rows are shown unasked.
    fn write(&self, out: &mut String, rows: usize) {
        let list = |items: &[String]| -> String {
            items.iter().map(|text| format!("<li dir=\"auto\">{}</li>\n", escaped(text))).collect()
        };
        match self {
            Self::Heading(text) => _ = writeln!(out, "<h3 dir=\"auto\">{}</h3>", escaped(text)),
            Self::Text(text) => _ = writeln!(out, "<p dir=\"auto\">{}</p>", escaped(text)),
            Self::List(items) if items.is_empty() => {}
            Self::List(items) => _ = writeln!(out, "<ul>\n{}</ul>", list(items)),
            Self::Whole(title, text) => {
                let (title, text) = (escaped(title), escaped(text));
                let _ = writeln!(out, "<details><summary>{title}</summary><pre tabindex=\"0\">{text}</pre></details>");
            }
            Self::Table(table) => table.write(out, rows),
            Self::Chart(_) | Self::Places(_) => {
                self.drawn().into_iter().for_each(|(title, table, draw)| figure(out, title, &table, &draw));
            }
        }
    }
}

/// Draws below a title.
type Draw<'a> = Box<dyn Fn(&mut Drawing) + 'a>;

/// What of these is drawn, below each other, as one SVG document that stands by itself.
#[must_use]
pub fn svg_page<'a>(parts: impl IntoIterator<Item = &'a PagePart>) -> String {
    let mut drawing = Drawing::alone();
    let mut titles = Vec::new();
    for (title, _, draw) in parts.into_iter().filter_map(PagePart::drawn) {
        drawing.paragraph(0.0, "title", title);
        draw(&mut drawing);
        titles.push(title);
    }
    drawing.finish("page", &titles.join("; "))
}
