//! Rules on documents: what they point to must be there.

use super::Complaint;
use crate::markdown::{anchors, prose};
use crate::source::{Source, resolve};
use crate::workspace::Workspace;
use std::collections::BTreeMap;

const SPECIFICATION: &str = "SPECIFICATION.md";

/// What is read first.
const README: &str = "README.md";

/// How long it may be: who has read it knows whether to go on.
const README_LINES: usize = 200;

/// What people search for who want to know whether this is for them; an answer may be no.
const SOUGHT: [&str; 12] = [
    "nginx.conf",
    "reverse proxy",
    "load balancing",
    "WebSocket",
    "rate limit",
    "basic auth",
    "brotli",
    "HTTP/2",
    "TLS",
    "cache",
    "zero downtime",
    "library",
];

/// The first document is short, and has the words that people search for.
pub(super) fn first(workspace: &Workspace) -> Vec<Complaint> {
    let Some(source) = workspace.source(README) else {
        return vec![Complaint::file(README, "is missing")];
    };
    let lines = source.lines.len();
    let long = (lines > README_LINES).then(|| format!("has {lines} lines, more than {README_LINES}: docs/ has room"));
    let has = |word: &str| source.lines.iter().any(|line| line.contains(word));
    let silent = SOUGHT.iter().filter(|word| !has(word)).map(|word| format!("says nothing of {word}"));
    long.into_iter().chain(silent).map(|text| Complaint::file(README, text)).collect()
}

/// Every relative link in Markdown leads to a file, and to a heading in it if it names one.
pub(super) fn links(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    for source in workspace.sources.iter().filter(|source| source.path.ends_with(".md")) {
        for (number, target) in targets(source) {
            found.extend(why_dead(workspace, source, &target).map(|why| Complaint::at(&source.path, number, why)));
        }
    }
    found
}

/// Why a link of a document leads nowhere, if so.
fn why_dead(workspace: &Workspace, from: &Source, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    if path.contains("://") || path.starts_with("mailto:") {
        return None;
    }
    let folder = from.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = if path.is_empty() { from.path.clone() } else { resolve(folder, path) };
    if !workspace.exists(&path) {
        return Some(format!("the link to {target} leads nowhere"));
    }
    let anchor = anchor.filter(|_| path.ends_with(".md"))?;
    let has_heading = workspace.source(&path).is_some_and(|to| anchors(to).iter().any(|known| known == anchor));
    (!has_heading).then(|| format!("the link to {target} leads to no heading of {path}"))
}

/// The targets of `[text](target)` and `[name]: target`, outside of code.
fn targets(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(source) {
        let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let parts = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let named = text.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
        let inline = parts.map(|(target, _)| target);
        found.extend(inline.chain(named).map(|target| {
            // A title may follow.
            let target = target.trim().split(' ').next().unwrap_or_default();
            (number, target.to_owned())
        }));
    }
    found
}

/// No row of a table stands twice: two of one name say two things of it. A row has a name if its first cell
/// is code; where the second cell says what that is a part of (its column is headed `in`), both
/// are its name.
pub(super) fn rows(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    for source in workspace.sources.iter().filter(|source| source.path.ends_with(".md")) {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let (mut last, mut cells_of_name) = (0, 1);
        for (number, line) in prose(source).filter(|(_, line)| line.starts_with('|')) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            if last + 1 != number {
                names.clear();
                cells_of_name = if cells.get(1) == Some(&"in") { 2 } else { 1 };
            }
            last = number;
            if !cells[0].starts_with('`') {
                continue;
            }
            let name = cells[..cells_of_name.min(cells.len())].join(" in ");
            let first = *names.entry(name.clone()).or_insert(number);
            if first != number {
                let text = format!("the row of {name} stands in line {first} already: make them one");
                found.push(Complaint::at(&source.path, number, text));
            }
        }
    }
    found
}

/// Every row of the specification names a command, and each of its commands
/// exists.
pub(super) fn promises(workspace: &Workspace) -> Vec<Complaint> {
    let Some(source) = workspace.source(SPECIFICATION) else {
        return vec![Complaint::file(SPECIFICATION, "is missing")];
    };
    let mut found = Vec::new();
    let mut header = true;
    for (number, line) in source.numbered() {
        if !line.starts_with('|') {
            header = true;
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let rule = cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| "-:".contains(c)));
        if rule {
            header = false;
        }
        if header || rule {
            continue;
        }
        let last = cells.last().copied().unwrap_or_default();
        let commands: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        if commands.is_empty() {
            found.push(Complaint::at(SPECIFICATION, number, "the last cell must name the command that shows it"));
        }
        let wrong = commands.iter().filter_map(|command| why_not(workspace, command));
        found.extend(wrong.map(|why| Complaint::at(SPECIFICATION, number, why)));
    }
    found
}

/// Every command in a fenced block of the documents that is ours exists.
pub(super) fn commands(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    for source in workspace.sources.iter().filter(|source| source.path.ends_with(".md")) {
        let mut fenced = false;
        for (number, line) in source.numbered() {
            if line.starts_with("```") {
                fenced = !fenced;
                continue;
            }
            let command = line.strip_prefix("$ ").unwrap_or(line);
            let ours = ["make ", "cargo test ", "cargo xtask "].iter().any(|start| command.starts_with(start));
            if fenced && ours {
                found.extend(why_not(workspace, command).map(|why| Complaint::at(&source.path, number, why)));
            }
        }
    }
    found
}

/// Why a command cannot be what shows a promise, if so.
fn why_not(workspace: &Workspace, command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_ascii_whitespace().take_while(|word| *word != "#").collect();
    match words.as_slice() {
        ["make", targets @ ..] => targets
            .iter()
            .filter(|target| !target.contains('='))
            .find(|target| !has_target(workspace, target))
            .map(|target| format!("the Makefile has no target {target}")),
        ["cargo", "xtask", "tidy" | "rfc" | "docs" | "circles", ..] => None,
        ["cargo", "test", rest @ ..] => test_missing(workspace, rest),
        ["nearside" | "cargo", ..] => None,
        _ => Some(format!("'{command}' is no make target, test, xtask or nearside command")),
    }
}

fn has_target(workspace: &Workspace, target: &str) -> bool {
    let start = format!("{target}:");
    workspace.source("Makefile").is_some_and(|makefile| makefile.lines.iter().any(|line| line.starts_with(&start)))
}

/// `-p PACKAGE`, options, and the name of a test or a part of it.
fn test_missing(workspace: &Workspace, words: &[&str]) -> Option<String> {
    let before = words.split(|word| *word == "--").next().unwrap_or_default();
    let mut folder = String::new();
    let mut names = Vec::new();
    let mut rest = before.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-p" | "--package" => {
                let name = rest.next().copied().unwrap_or_default();
                let Some(member) = workspace.members.iter().find(|member| member.package == name) else {
                    return Some(format!("there is no crate {name}"));
                };
                folder = format!("{}/", member.folder);
            }
            "--test" => {
                let name = rest.next().copied().unwrap_or_default();
                let files = [format!("{folder}tests/{name}.rs"), format!("{folder}tests/{name}/main.rs")];
                if !files.iter().any(|file| workspace.exists(file)) {
                    return Some(format!("there is no {folder}tests/{name}.rs"));
                }
            }
            option if option.starts_with('-') => {}
            name => names.push(name),
        }
    }
    let missing = names.into_iter().find(|name| !has_test(workspace, &folder, name));
    missing.map(|name| format!("no test in {folder} is named {name}"))
}

/// Whether a test function, or a module on the way to one, has this name.
fn has_test(workspace: &Workspace, folder: &str, name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let sources = workspace.sources.iter().filter(|source| source.is_rust() && source.path.starts_with(folder));
    sources.flat_map(|source| &source.lines).any(|line| {
        let code = line.trim_start();
        let named = |start: &str| code.strip_prefix(start).is_some_and(|rest| rest.starts_with(last));
        named("fn ") || named("mod ") || named("pub mod ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Member;

    fn workspace(document: &str) -> Workspace {
        let sources = vec![
            Source::new(SPECIFICATION, document),
            Source::new("Makefile", "test: build\n\tcargo test\n"),
            Source::new("a/src/lib.rs", "    fn bytes_arrive_in_order() {\n"),
        ];
        let files = sources.iter().map(|source| (source.path.clone(), 1)).collect();
        let member = Member {
            name: "a".into(),
            package: "a".into(),
            folder: "a".into(),
            targets: Vec::new(),
            dependencies: Vec::new(),
        };
        Workspace { root: "nowhere".into(), files, sources, members: vec![member] }
    }

    #[test]
    fn links_lead_somewhere() {
        let good = "# Here\n[a](a/src/lib.rs#L1) [b](#here) [c](https://x#y) `[d](e)` [f](./a/../Makefile \"t\")\n\
                    ```\n[g](h)\n```\n[h]: Makefile\n[i](SPECIFICATION.md#here)\n";
        assert_eq!(links(&workspace(good)), []);
        for bad in ["[a](b.md)\n", "[a](#there)\n# Here\n", "[a](SPECIFICATION.md#there)\n", "[a]: b.md\n"] {
            assert_eq!(links(&workspace(bad)).len(), 1, "{bad}");
        }
    }

    #[test]
    fn promises_name_commands_that_exist() {
        let table = |cell: &str| format!("| what | how |\n| --- | --- |\n| x | {cell} |\n");
        for good in ["`make test`", "`cargo test -p a bytes_arrive`, `cargo xtask rfc`", "`nearside demo`"] {
            assert_eq!(promises(&workspace(&table(good))), [], "{good}");
        }
        for bad in ["none", "`make nothing`", "`cargo test -p b`", "`cargo test -p a lost`", "`rm`"] {
            assert_eq!(promises(&workspace(&table(bad))).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_row_stands_once() {
        let head = "| crate | used by |\n| --- | --- |\n| `a` | x |\n| b | x |\n| b | y |\n";
        let with = |rest: &str| rows(&workspace(&format!("{head}{rest}")));
        assert_eq!(with("| `c` | x |\n\n| `a` | another table |\n"), []);
        let found = with("| `a` | y |\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("SPECIFICATION.md:6: the row of `a` stands in line 3"), "{found:?}");
        let within = "\n| key | in |\n| --- | --- |\n| `a` | `x` |\n| `a` | `y` |\n";
        assert_eq!(with(within), []);
        assert_eq!(with(&format!("{within}| `a` | `y` |\n")).len(), 1);
    }

    #[test]
    fn the_first_document_is_short_and_has_the_words_that_are_sought() {
        let complaints = |text: &str| {
            let mut workspace = workspace("");
            workspace.sources.push(Source::new(README, text));
            first(&workspace).len()
        };
        let all = SOUGHT.join("\n") + "\n";
        assert_eq!(complaints(&all), 0);
        assert_eq!(complaints(&all.replace("WebSocket", "")), 1);
        assert_eq!(complaints(&(all + &"more\n".repeat(200))), 1);
    }

    #[test]
    fn fenced_commands_exist() {
        assert_eq!(commands(&workspace("```\nmake test\n$ make nothing\n```\nmake more\n")).len(), 1);
    }
}
