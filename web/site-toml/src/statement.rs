//! Directives as text, one on each line, and where each came from.

/// Directives that were written.
#[derive(Clone, Debug, Default)]
pub struct Statements {
    text: String,
    /// Of each line: the byte in the file, and the key.
    origins: Vec<(usize, String)>,
    /// Blocks that are open.
    depth: usize,
}

impl Statements {
    /// All of them.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the directive on this line, from 1, came from.
    pub fn origin(&self, line: u32) -> Option<(usize, &str)> {
        let (at, key) = self.origins.get((line as usize).checked_sub(1)?)?;
        Some((*at, key))
    }

    /// A directive.
    pub fn put(&mut self, (at, key): (usize, &str), name: &str, words: &[&str]) {
        self.line((at, key), name, words, ";");
    }

    /// The beginning of a block.
    pub fn open(&mut self, (at, key): (usize, &str), name: &str, words: &[&str]) {
        self.line((at, key), name, words, " {");
        self.depth += 1;
    }

    /// The end of a block.
    pub fn close(&mut self, at: usize) {
        self.depth = self.depth.saturating_sub(1);
        self.indent();
        self.text.push_str("}\n");
        self.origins.push((at, String::new()));
    }

    /// A line of words alone, as `types` has them.
    pub fn line_of(&mut self, from: (usize, &str), first: &str, words: &[&str]) {
        let mut name = String::new();
        quote(first, &mut name);
        self.line(from, &name, words, ";");
    }

    fn line(&mut self, (at, key): (usize, &str), name: &str, words: &[&str], end: &str) {
        self.indent();
        self.text.push_str(name);
        for word in words {
            self.text.push(' ');
            quote(word, &mut self.text);
        }
        self.text.push_str(end);
        self.text.push('\n');
        self.origins.push((at, key.to_owned()));
    }

    fn indent(&mut self) {
        self.text.extend(core::iter::repeat_n("    ", self.depth));
    }
}

/// Writes a word so that it is one whatever it has in it: quoted, and on one line.
pub fn quote(word: &str, out: &mut String) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=$*^@~,+%?&".contains(&byte);
    // Words that the language has for itself are in no value's place.
    if !word.is_empty() && word.bytes().all(plain) {
        out.push_str(word);
        return;
    }
    out.push('"');
    for letter in word.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out.push('"');
}
