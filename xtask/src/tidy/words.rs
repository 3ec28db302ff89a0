//! Rules on lines: what they may say, and how long they may be.

use super::Complaint;
use crate::source::Source;
use crate::workspace::Workspace;

/// The longest line of code.
const MAX_LINE: usize = 120;

/// Where a banned word matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Everywhere, prose included.
    Everywhere,
    /// Rust that is not test code.
    Product,
    /// The same, in the crates that do no I/O.
    Pure,
}

/// Crates that take time, randomness and frames as arguments.
pub(super) const PURE: [&str; 10] = [
    "path/wire/",
    "path/link/",
    "path/tcp/",
    "path/stack/",
    "path/app/",
    "path/seal/",
    "http/semantics/",
    "http/h1/",
    "http/cgi/",
    "web/upstream/",
];

/// What is not written here, where, and what to do in its place.
const BANNED: &[(&str, Place, &str)] = &[
    ("TODO", Place::Everywhere, "do it, or write it down as a limit in docs/differences.md"),
    ("FIXME", Place::Everywhere, "mend it, or write it down as a limit in docs/differences.md"),
    ("XXX", Place::Everywhere, "say what is meant"),
    ("/home/", Place::Everywhere, "this is a path of somebody's machine"),
    ("/root/.", Place::Everywhere, "this is a path of somebody's machine"),
    ("/work/", Place::Everywhere, "this is a path of somebody's machine"),
    ("whitelist", Place::Everywhere, "say allow list"),
    ("blacklist", Place::Everywhere, "say deny list"),
    ("mod utils", Place::Everywhere, "name the module by what is in it"),
    ("mod util;", Place::Everywhere, "name the module by what is in it"),
    ("mod helpers", Place::Everywhere, "name the module by what is in it"),
    ("mod misc", Place::Everywhere, "name the module by what is in it"),
    ("mod common;", Place::Product, "name the module by what is in it"),
    (".unwrap()", Place::Product, "handle it, or say with expect why it cannot fail"),
    ("std::mem::transmute", Place::Product, "use a checked conversion"),
    ("static mut", Place::Product, "pass it as an argument"),
    ("println!", Place::Pure, "the caller prints"),
    ("std::fs", Place::Pure, "files are the caller's"),
    ("std::thread", Place::Pure, "threads are the caller's"),
    ("std::env", Place::Pure, "the environment is the caller's"),
    ("std::process", Place::Pure, "processes are the caller's"),
    ("std::time::Instant", Place::Pure, "time comes in as wire::Time"),
    ("std::sync::Mutex", Place::Pure, "nothing is shared between silos"),
    ("Rc<RefCell", Place::Pure, "one owner, and &mut"),
];

/// No line says what is banned.
pub(super) fn banned(workspace: &Workspace) -> Vec<Complaint> {
    let sources = workspace.sources.iter().filter(|source| source.path != "xtask/src/tidy/words.rs");
    sources.flat_map(check_words).collect()
}

fn check_words(source: &Source) -> Vec<Complaint> {
    let pure = PURE.iter().any(|folder| source.path.starts_with(folder));
    let mut found = Vec::new();
    for (number, line) in source.numbered() {
        let product = source.is_rust() && number <= source.tests_from;
        let comment = line.trim_start().starts_with("//");
        for (word, place, advice) in BANNED {
            let applies = match place {
                Place::Everywhere => true,
                Place::Product => product && !comment,
                Place::Pure => product && pure && !comment,
            };
            if applies && line.contains(word) {
                found.push(Complaint::at(&source.path, number, format!("'{word}' is not written here: {advice}")));
            }
        }
        if line.ends_with([' ', '\t']) {
            found.push(Complaint::at(&source.path, number, "blanks at the end of the line"));
        }
    }
    found
}

/// No line of code is longer than [`MAX_LINE`]. Let through are a word that
/// cannot be broken, and in tests a literal that is better seen whole.
pub(super) fn long_lines(workspace: &Workspace) -> Vec<Complaint> {
    let code = workspace
        .sources
        .iter()
        .filter(|source| ![".md", ".toml", ".txt"].iter().any(|end| source.path.ends_with(end)));
    code.flat_map(|source| {
        let long = source.numbered().filter(|(number, line)| {
            let whole = *number > source.tests_from && line.split('"').any(|part| part.len() > MAX_LINE / 2);
            line.chars().count() > MAX_LINE && line.trim().contains(' ') && !whole
        });
        long.map(|(number, _)| Complaint::at(&source.path, number, format!("longer than {MAX_LINE} characters")))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str, text: &str) -> usize {
        check_words(&Source::new(path, text)).len()
    }

    #[test]
    fn words_count_where_they_matter() {
        assert_eq!(words("cli/src/a.rs", "    x.unwrap();\n"), 1);
        assert_eq!(words("cli/src/a.rs", "// x.unwrap()\n"), 0);
        assert_eq!(words("cli/src/a.rs", "#[cfg(test)]\nmod tests {\nx.unwrap();\n}\n"), 0);
        assert_eq!(words("cli/src/a.rs", "use std::fs;\n"), 0);
        assert_eq!(words("path/tcp/src/a.rs", "use std::fs;\n"), 1);
        assert_eq!(words("README.md", "a TODO\n"), 1);
        assert_eq!(words("README.md", "blank \n"), 1);
    }
}
