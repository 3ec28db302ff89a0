//! A text file and what can be told of its lines without parsing: the code is
//! formatted by rustfmt, so indentation is as good as a syntax tree here.

use crate::code::Code;
use std::cell::OnceCell;
use std::path::Path;

/// A file's text, by lines.
#[derive(Debug)]
pub struct Source {
    /// The path relative to the root.
    pub path: String,
    /// Its lines.
    pub lines: Vec<String>,
    /// The first line of test code in it: 0 for a file of tests, the number
    /// of lines for a file without any.
    pub tests_from: usize,
    code: OnceCell<Code>,
}

/// A function found in a source.
#[derive(PartialEq, Eq, Debug)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// The line of its signature, from zero.
    pub line: usize,
    /// Lines from the signature's first to the closing brace.
    pub length: usize,
}

/// A module that a source declares.
#[derive(PartialEq, Eq, Debug)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// The files that it may be, in order.
    pub places: Vec<String>,
    /// Whether it is compiled for tests only.
    pub tests: bool,
    /// Whether it stands in for another where a feature is missing.
    pub instead: bool,
}

impl Source {
    /// Whether files of this name are looked into.
    #[must_use]
    pub fn is_read(path: &str) -> bool {
        [".rs", ".toml", ".md", ".sh", ".lua"].iter().any(|end| path.ends_with(end))
            || path == "Makefile"
            || (path.starts_with("xtask/") && path.ends_with(".txt"))
            || path.starts_with(".ci/")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read as UTF-8.
    pub fn read(root: &Path, path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(root.join(path)).map_err(|why| format!("{path}: {why}"))?;
        Ok(Self::new(path, &text))
    }

    /// A source from its text.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let tests_from = if is_test_file(path) { 0 } else { inline_tests(&lines) };
        Self { path: path.to_owned(), lines, tests_from, code: OnceCell::new() }
    }

    /// Its product code, if it is Rust; read once.
    pub fn code(&self) -> &Code {
        self.code.get_or_init(|| Code::read(&self.lines[..self.tests_from]))
    }

    /// Whether it is Rust.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Lines with their numbers from one.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()))
    }

    /// Its product code, without comments that take the rest of a line.
    pub fn product(&self) -> impl Iterator<Item = &str> {
        self.lines[..self.tests_from].iter().map(|line| line.split_once("//").map_or(line.as_str(), |(code, _)| code))
    }

    /// Its functions, nested ones included.
    #[must_use]
    pub fn functions(&self) -> Vec<Function<'_>> {
        let mut found = Vec::new();
        for (line, text) in self.lines.iter().enumerate() {
            let code = text.trim_start();
            let Some(name) = function_name(code) else { continue };
            let indent = &text[..text.len() - code.len()];
            let closing = |line: &String| line.strip_prefix(indent).is_some_and(|rest| rest == "}" || rest == "};");
            // A body on the signature's own line, or none at all.
            if text.ends_with('}') || text.ends_with(';') {
                continue;
            }
            if let Some(length) = self.lines[line..].iter().position(closing) {
                found.push(Function { name, line: line + 1, length: length + 1 });
            }
        }
        found
    }

    /// The modules that its `mod name;` lines declare.
    #[must_use]
    pub fn modules(&self) -> Vec<Declared> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let own = match file {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            other => format!("{folder}/{}", other.trim_end_matches(".rs")),
        };
        let mut found = Vec::new();
        let mut path = None;
        let (mut tests, mut instead) = (false, false);
        for line in &self.lines {
            let code = line.trim();
            tests |= code == "#[cfg(test)]";
            instead |= code.starts_with("#[cfg(not(feature");
            if let Some(given) = code.strip_prefix("#[path = \"") {
                path = given.split('"').next().map(|given| resolve(folder, given));
                continue;
            }
            if let Some(name) = module_name(code) {
                // A crate's root may be any file: its modules lie beside it.
                let mut places = vec![format!("{own}/{name}.rs"), format!("{own}/{name}/mod.rs")];
                places.extend([format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]);
                let places = path.take().map_or(places, |path| vec![path]);
                found.push(Declared { name: name.to_owned(), places, tests, instead });
            }
            if !code.starts_with('#') && !code.starts_with("//") {
                path = None;
                (tests, instead) = (false, false);
            }
        }
        found
    }
}

/// A relative path from a folder, with its dots resolved.
#[must_use]
pub fn resolve(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn is_test_file(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let folders = ["/tests/", "/benches/", "/examples/"];
    file == "tests.rs" || folders.iter().any(|folder| path.contains(folder)) || path.starts_with("testing/")
}

/// The line of a `#[cfg(test)]` before a module with a body at the file's end.
fn inline_tests(lines: &[String]) -> usize {
    let marked = |index: &usize| {
        let next = lines[index + 1..].iter().map(|line| line.trim()).find(|line| !line.starts_with("#["));
        lines[*index].trim() == "#[cfg(test)]" && next.is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    };
    (0..lines.len()).find(marked).unwrap_or(lines.len())
}

fn function_name(code: &str) -> Option<&str> {
    let mut rest = code;
    loop {
        if let Some(after) = rest.strip_prefix("fn ") {
            return after.split(['(', '<']).next();
        }
        let (word, after) = rest.split_once(' ')?;
        let known = ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(&word) || word.starts_with("pub(");
        if !known {
            return None;
        }
        rest = after;
    }
}

fn module_name(code: &str) -> Option<&str> {
    let rest = code.strip_suffix(';')?;
    let rest = rest.rsplit_once("mod ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"))?.1;
    rest.chars().all(|c| c.is_alphanumeric() || c == '_').then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_signature_to_brace() {
        let text = "impl A {\n    pub(crate) const unsafe fn one<T>(\n        a: T,\n    ) -> T {\n        a\n    }\n\n\
                    \x20   fn short() {}\n}\n\nfn two() {\n    fn three() {\n    }\n}\n";
        let source = Source::new("a.rs", text);
        let found: Vec<_> = source.functions().iter().map(|f| (f.name, f.line, f.length)).collect();
        assert_eq!(found, [("one", 2, 5), ("two", 11, 4), ("three", 12, 2)]);
    }

    #[test]
    fn test_code_is_told_from_the_product() {
        let inline = Source::new("a/src/b.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(inline.tests_from, 1);
        let apart = Source::new("a/src/b.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n");
        assert_eq!(apart.tests_from, 3);
        assert_eq!(Source::new("a/src/tests.rs", "fn a() {}\n").tests_from, 0);
        assert_eq!(Source::new("testing/sim/src/lib.rs", "fn a() {}\n").tests_from, 0);
    }

    #[test]
    fn modules_lead_to_files() {
        let source = Source::new("p/src/a.rs", "pub(crate) mod b;\n#[path = \"../odd.rs\"]\nmod c;\nmod d {\n}\n");
        let found = source.modules();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].places[0].as_str()), ("b", "p/src/a/b.rs"));
        assert_eq!(found[1].places, ["p/odd.rs"]);
        assert_eq!(Source::new("p/src/lib.rs", "mod b;").modules()[0].places[1], "p/src/b/mod.rs");
        let mixed = Source::new("p/src/lib.rs", "#[cfg(test)]\nmod b;\nmod c;").modules();
        assert_eq!(mixed.iter().map(|module| module.tests).collect::<Vec<_>>(), [true, false]);
    }
}
