//! Rules on files and functions.

use super::Complaint;
use super::exceptions::Exceptions;
use super::words::PURE;
use crate::workspace::Workspace;
use std::collections::BTreeSet;

/// The longest function: what can be read without scrolling.
const MAX_FUNCTION: usize = 70;

/// Longer ones that are allowed, with their lengths and reasons. Lengths may
/// only fall.
const EXCEPTIONS: &str = "xtask/long-functions.txt";

/// The longest Rust file, tests included: what one idea takes.
const MAX_LINES: usize = 600;

/// Longer ones, with their lengths, which they may not pass.
const LONG_FILES: &str = "xtask/long-files.txt";

/// The largest file, but for the inputs of fuzz targets and tests.
const MAX_FILE: u64 = 200 * 1024;

/// No function is longer than [`MAX_FUNCTION`] lines, but for exceptions,
/// which may not grow.
pub(super) fn long_functions(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    let list = std::fs::read_to_string(workspace.root.join(EXCEPTIONS)).unwrap_or_default();
    let mut exceptions = read_exceptions(&list, &mut found);
    for source in workspace.sources.iter().filter(|source| source.is_rust()) {
        for function in source.functions().into_iter().filter(|function| function.length > MAX_FUNCTION) {
            let known = exceptions.iter().position(|e| e.path == source.path && e.name == function.name);
            let allowed = known.map(|index| exceptions.swap_remove(index).length);
            let length = function.length;
            let text = match allowed {
                Some(allowed) if allowed == length => continue,
                Some(allowed) if allowed > length => {
                    format!("{} shrank to {length} lines: lower its {allowed} in {EXCEPTIONS}", function.name)
                }
                Some(allowed) => format!("{} grew from {allowed} to {length} lines", function.name),
                None => format!("{} has {length} lines, more than {MAX_FUNCTION}: divide it", function.name),
            };
            found.push(Complaint::at(&source.path, function.line, text));
        }
    }
    let stale = exceptions.iter().map(|e| {
        Complaint::at(EXCEPTIONS, e.line, format!("{} in {} is no longer long: remove the line", e.name, e.path))
    });
    found.extend(stale);
    found
}

/// No Rust file has more than [`MAX_LINES`] lines, but for exceptions, which
/// may not grow.
pub(super) fn long_files(workspace: &Workspace) -> Vec<Complaint> {
    let mut exceptions = Exceptions::read(workspace, LONG_FILES);
    let mut found = Vec::new();
    for source in workspace.sources.iter().filter(|source| source.is_rust() && source.lines.len() > MAX_LINES) {
        let lines = source.lines.len();
        let allowed = exceptions.take(|words| words.first().is_some_and(|path| *path == source.path));
        let allowed = allowed.map(|words| words.get(1).and_then(|lines| lines.parse().ok()).unwrap_or(MAX_LINES));
        match allowed {
            Some(allowed) if lines <= allowed => {}
            Some(allowed) => {
                found.push(Complaint::file(&source.path, format!("grew from {allowed} to {lines} lines")));
            }
            None => found.push(Complaint::file(
                &source.path,
                format!("has {lines} lines, more than {MAX_LINES}: divide it by what it is about"),
            )),
        }
    }
    found.extend(exceptions.stale());
    found
}

struct Exception {
    line: usize,
    path: String,
    name: String,
    length: usize,
}

/// Lines of `path name length reason`; `#` begins a comment.
fn read_exceptions(list: &str, found: &mut Vec<Complaint>) -> Vec<Exception> {
    let mut exceptions = Vec::new();
    for (index, line) in list.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            [path, name, length, reason] if !reason.is_empty() && length.parse::<usize>().is_ok() => {
                let length = length.parse().unwrap_or_default();
                exceptions.push(Exception { line: index + 1, path: (*path).into(), name: (*name).into(), length });
            }
            _ => found.push(Complaint::at(EXCEPTIONS, index + 1, "write: path function lines reason")),
        }
    }
    exceptions
}

/// Every Rust file is reached from a target's root.
pub(super) fn dead(workspace: &Workspace) -> Vec<Complaint> {
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let roots = workspace.members.iter().flat_map(|member| member.targets.iter().map(|(path, _, _)| path.clone()));
    let mut open: Vec<String> = roots.collect();
    while let Some(path) = open.pop() {
        let Some(source) = workspace.source(&path) else { continue };
        if !reached.insert(path) {
            continue;
        }
        for module in source.modules() {
            open.extend(module.places.into_iter().find(|place| workspace.source(place).is_some()));
        }
        // A file may be taken in as text, or into a test, without a module.
        for (_, line) in source.numbered() {
            let given = line.split("include!(\"").nth(1).and_then(|rest| rest.split('"').next());
            let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            open.extend(given.map(|given| format!("{folder}/{given}")));
        }
    }
    let files = workspace.sources.iter().filter(|source| source.is_rust() && !reached.contains(&source.path));
    files.map(|source| Complaint::file(&source.path, "no module names this file: remove it")).collect()
}

/// No large blobs: a repository is cloned often.
pub(super) fn large(workspace: &Workspace) -> Vec<Complaint> {
    let files = workspace.files.iter().filter(|(path, size)| *size > MAX_FILE && !path.contains("/corpus/"));
    files.map(|(path, size)| Complaint::file(path, format!("{size} bytes, more than {MAX_FILE}"))).collect()
}

/// The pure crates forbid unsafe code at their root.
pub(super) fn forbids_unsafe(workspace: &Workspace) -> Vec<Complaint> {
    let roots = PURE.map(|folder| format!("{folder}src/lib.rs"));
    let lacking = roots.into_iter().filter(|root| {
        let source = workspace.source(root);
        !source.is_some_and(|source| source.lines.iter().any(|line| line == "#![forbid(unsafe_code)]"))
    });
    lacking.map(|root| Complaint::file(&root, "write #![forbid(unsafe_code)] at the top")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::workspace::Member;

    fn workspace(sources: Vec<Source>) -> Workspace {
        let targets = vec![("a/src/lib.rs".to_owned(), "lib".to_owned(), "a".to_owned())];
        let member =
            Member { name: "a".into(), package: "a".into(), folder: "a".into(), targets, dependencies: Vec::new() };
        let files = sources.iter().map(|source| (source.path.clone(), 1)).collect();
        Workspace { root: "nowhere".into(), files, sources, members: vec![member] }
    }

    #[test]
    fn files_that_no_module_names_are_dead() {
        let found = dead(&workspace(vec![
            Source::new("a/src/lib.rs", "mod b;\n"),
            Source::new("a/src/b.rs", "#[cfg(test)]\nmod tests;\n"),
            Source::new("a/src/b/tests.rs", ""),
            Source::new("a/src/c.rs", ""),
        ]));
        assert_eq!(found.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), ["a/src/c.rs"]);
    }

    #[test]
    fn a_function_may_have_seventy_lines() {
        let text = |lines: usize| format!("fn f() {{\n{}}}\n", "    ();\n".repeat(lines - 2));
        assert_eq!(long_functions(&workspace(vec![Source::new("a/src/lib.rs", &text(70))])), []);
        assert_eq!(long_functions(&workspace(vec![Source::new("a/src/lib.rs", &text(71))])).len(), 1);
    }

    #[test]
    fn a_file_may_have_six_hundred_lines() {
        let lines = |lines: usize| workspace(vec![Source::new("a/src/lib.rs", &"//\n".repeat(lines))]);
        assert_eq!(long_files(&lines(600)), []);
        assert_eq!(long_files(&lines(601)).len(), 1);
        let with = |lines: usize, list: &str| {
            let text = "//\n".repeat(lines);
            long_files(&workspace(vec![Source::new("a/src/lib.rs", &text), Source::new(LONG_FILES, list)]))
        };
        assert_eq!(with(610, "# why\na/src/lib.rs 610\n"), []);
        assert!(with(611, "a/src/lib.rs 610\n")[0].text.contains("grew"));
        assert!(with(600, "a/src/lib.rs 610\n")[0].text.contains("remove the line"));
    }

    #[test]
    fn exceptions_have_a_reason() {
        let mut found = Vec::new();
        let read = read_exceptions("# why\na.rs f 80 a table\na.rs g 80\n", &mut found);
        assert_eq!((read.len(), found.len()), (1, 1));
    }
}
