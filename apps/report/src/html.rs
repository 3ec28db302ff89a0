//! A page of HTML that needs nothing but itself. Its markup is XML as well, so
//! that any parser checks it.

use core::fmt::Write;

/// A page under way.
#[derive(Clone, Debug)]
pub struct Page {
    out: String,
}

const STYLE: &str = "body { font: 15px/1.45 system-ui, sans-serif; margin: 0; color: #222; background: #fff; }\n\
main { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }\n\
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n\
td, th { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #8884; }\n\
td:first-child, th:first-child { text-align: left; }\n\
code { background: #8882; padding: .1rem .3rem; overflow-wrap: anywhere; }\n\
pre { overflow-x: auto; }\n\
.doubt { border-left: 4px solid #d55e00; padding-left: .6rem; }\n\
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; } }\n";

impl Page {
    /// Begins one.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        Self {
            out: format!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
                 <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
            ),
        }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.out, "<h2>{}</h2>", escape(text));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.out, "<p>{}</p>", escape(text));
    }

    /// What a reader should know before the figures.
    pub fn doubt(&mut self, text: &str) {
        let _ = writeln!(self.out, "<p class=\"doubt\">{}</p>", escape(text));
    }

    /// A table: heads, and rows.
    pub fn table(&mut self, heads: &[String], rows: &[Vec<String>]) {
        self.out.push_str("<table>\n");
        self.row("th", heads);
        rows.iter().for_each(|cells| self.row("td", cells));
        self.out.push_str("</table>\n");
    }

    fn row(&mut self, cell: &str, cells: &[String]) {
        let cells = cells.iter().map(|text| format!("<{cell}>{}</{cell}>", escape(text)));
        let _ = writeln!(self.out, "<tr>{}</tr>", cells.collect::<String>());
    }

    /// A drawing.
    pub fn svg(&mut self, svg: &str) {
        self.out.push_str(svg);
    }

    /// How it is done again.
    pub fn again(&mut self, command: &[String]) {
        let _ = writeln!(self.out, "<p>Again: <code>{}</code></p>", escape(&command.join(" ")));
    }

    /// A text that is shown when somebody asks for it.
    pub fn details(&mut self, summary: &str, text: &str) {
        let _ =
            writeln!(self.out, "<details><summary>{}</summary><pre>{}</pre></details>", escape(summary), escape(text));
    }

    /// The whole page.
    #[must_use]
    pub fn finish(self) -> String {
        self.out + "</main>\n</body>\n</html>\n"
    }
}

/// Text in which nothing is markup; what XML forbids is left out.
fn escape(text: &str) -> String {
    let is_text = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let text: String = text.chars().filter(is_text).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
