//! Files in which each line has its reason.

/// A file that grows line by line.
pub(crate) struct Text {
    text: String,
}

/// Columns of a comment.
const WIDTH: usize = 110;

impl Text {
    pub(crate) fn new() -> Self {
        Self { text: String::new() }
    }

    /// A line, as it is.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> &mut Self {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
        self
    }

    /// A line, below the reason for it.
    pub(crate) fn because(&mut self, line: impl AsRef<str>, why: &str) -> &mut Self {
        let line = line.as_ref();
        let indent = &line[..line.len() - line.trim_start().len()];
        self.comment(indent, why).line(line)
    }

    /// A comment, wrapped.
    pub(crate) fn comment(&mut self, indent: &str, why: &str) -> &mut Self {
        let mut row = String::new();
        for word in why.split_whitespace() {
            if !row.is_empty() && indent.len() + row.len() + word.len() + 3 > WIDTH {
                self.line(format!("{indent}# {row}"));
                row.clear();
            }
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
        if row.is_empty() { self } else { self.line(format!("{indent}# {row}")) }
    }

    pub(crate) fn done(self) -> String {
        self.text
    }
}
