//! No circle between the modules of a folder.
//!
//! A crate's modules are a tree, and the modules that one module declares are
//! siblings: the files of a folder. Each can be read by itself if what they name
//! of each other leads one way. There is an arrow from one sibling to another
//! where the code of the first, or of a module below it, names by a path
//! something that stands in the second, or below it. Precisely:
//!
//! - Paths are those that begin with `crate`, `self` or `super`, in `use` and in
//!   code, outside of comments and of what is compiled for tests.
//! - A path is followed as far as it names modules of the crate; both ends are
//!   then cut to where they part.
//! - A path that ends at what both are in (`super::Name`) is no arrow: a parent's
//!   own types, and what it re-exports, are what its children have in common.
//!
//! A set of siblings of which each reaches each other is a circle. The crates of
//! `testing/` are tests, and left out.

use super::Complaint;
use super::exceptions::Exceptions;
use crate::source::Source;
use crate::workspace::Workspace;
use std::collections::{BTreeMap, BTreeSet};

/// Lines of `folder module module …`: modules that may form a circle.
const CIRCLES: &str = "xtask/circles.txt";

/// From each module's path to its source.
type Tree<'a> = BTreeMap<Vec<String>, &'a Source>;

/// From each sibling to those that it names.
pub(super) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// No circle, but for exceptions, which may only get smaller.
pub(super) fn circles(workspace: &Workspace) -> Vec<Complaint> {
    let mut exceptions = Exceptions::read(workspace, CIRCLES);
    let mut found = Vec::new();
    for member in &workspace.members {
        for (root, _, _) in member.targets.iter().filter(|(root, _, _)| root.contains("/src/")) {
            let mut tree = Tree::new();
            grow(workspace, root, Vec::new(), &mut tree);
            for (parent, arrows) in arrows(&tree) {
                let folder = folder(root, &parent);
                for circle in circles_of(&arrows) {
                    let is_meant = |words: &[String]| {
                        words.first() == Some(&folder) && circle.iter().all(|module| words[1..].contains(module))
                    };
                    let text = match exceptions.take(is_meant) {
                        Some(words) if words.len() == circle.len() + 1 => continue,
                        Some(_) => format!("the circle shrank to {}: write that in {CIRCLES}", circle.join(" ")),
                        None => format!("modules name each other in a circle: {}", named(&circle, &arrows)),
                    };
                    found.push(Complaint::file(&folder, text));
                }
            }
        }
    }
    found.extend(exceptions.stale());
    found
}

/// The arrows of a circle.
fn named(circle: &[String], arrows: &Arrows) -> String {
    let within = |from: &String| {
        let to: Vec<&str> = arrows[from].iter().filter(|to| circle.contains(to)).map(String::as_str).collect();
        format!("{from} -> {}", to.join(", "))
    };
    circle.iter().map(within).collect::<Vec<_>>().join("; ")
}

/// Where the modules of a parent lie.
fn folder(root: &str, parent: &[String]) -> String {
    let top = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    [&[top.to_owned()], parent].concat().join("/")
}

/// Reads a module and those below it, as far as they are compiled for use.
fn grow<'a>(workspace: &'a Workspace, file: &str, module: Vec<String>, tree: &mut Tree<'a>) {
    let Some(source) = workspace.source(file) else { return };
    for declared in source.modules().into_iter().filter(|declared| !declared.tests) {
        let place = declared.places.iter().find(|place| workspace.source(place).is_some());
        if let Some(place) = place {
            grow(workspace, place, [module.as_slice(), &[declared.name]].concat(), tree);
        }
    }
    tree.insert(module, source);
}

/// The arrows between the modules of each parent.
fn arrows(tree: &Tree<'_>) -> BTreeMap<Vec<String>, Arrows> {
    let mut found: BTreeMap<Vec<String>, Arrows> = BTreeMap::new();
    for (module, source) in tree {
        for path in paths(source) {
            let Some(target) = resolve(tree, module, &path) else { continue };
            let common = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
            let (Some(from), Some(to)) = (module.get(common), target.get(common)) else { continue };
            let siblings = found.entry(module[..common].to_vec()).or_default();
            siblings.entry(from.clone()).or_default().insert(to.clone());
        }
    }
    found
}

/// The module that a path leads to, or into.
fn resolve(tree: &Tree<'_>, module: &[String], path: &str) -> Option<Vec<String>> {
    let mut at = module.to_vec();
    for (index, part) in path.split("::").map(str::trim).enumerate() {
        match part {
            "crate" if index == 0 => at.clear(),
            "self" => {}
            "super" => drop(at.pop()?),
            name => {
                at.push(name.to_owned());
                if !tree.contains_key(&at) {
                    at.pop();
                    break;
                }
            }
        }
    }
    Some(at)
}

/// The paths into the crate that a source names.
fn paths(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut declaration = String::new();
    for line in source.product() {
        let code = line.trim();
        if !declaration.is_empty() || is_use(code) {
            declaration.push_str(code);
            declaration.push(' ');
            if code.ends_with(';') {
                let (_, tree) = declaration.trim().split_once("use ").unwrap_or_default();
                expand("", tree.trim_end_matches(';'), &mut found);
                declaration.clear();
            }
            continue;
        }
        for start in ["crate::", "self::", "super::"] {
            let begins = |at: &usize| !line[..*at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
            for at in line.match_indices(start).map(|(at, _)| at).filter(begins) {
                let end = line[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
                let path = &line[at..end.map_or(line.len(), |end| at + end)];
                found.push(path.trim_end_matches(':').to_owned());
            }
        }
    }
    found.retain(|path| ["crate::", "self::", "super::"].iter().any(|start| path.starts_with(start)));
    found
}

fn is_use(code: &str) -> bool {
    let visible = code.strip_prefix("pub").map_or(code, |rest| rest.split_once(' ').map_or(rest, |(_, rest)| rest));
    visible.starts_with("use ") || code.starts_with("pub(in ") && code.contains(" use ")
}

/// The paths of a `use`: `a::{b, c::{d}}` as `a::b` and `a::c::d`.
fn expand(before: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        if !path.is_empty() {
            found.push(format!("{before}{path}"));
        }
        return;
    };
    // A group is the last part of its path.
    let (before, group) = (format!("{before}{prefix}"), group.strip_suffix('}').unwrap_or(group));
    let (mut depth, mut start) = (0_i32, 0);
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&before, &group[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&before, &group[start..], found);
}

/// The sets of siblings of which each reaches each other, in order.
pub(super) fn circles_of(arrows: &Arrows) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = arrows.keys().map(|from| (from, reach(arrows, from))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (from, to) in &reached {
        if !to.contains(from) || found.iter().any(|circle| circle.contains(from)) {
            continue;
        }
        let back = to.iter().filter(|other| reached.get(*other).is_some_and(|to| to.contains(from)));
        found.push(back.map(|module| (*module).clone()).collect());
    }
    found
}

/// All that arrows lead to from a module.
fn reach<'a>(arrows: &'a Arrows, from: &'a String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let Some(next) = arrows.get(module) else { continue };
        open.extend(next.iter().filter(|next| reached.insert(*next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Member;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let targets = vec![("run/a/src/lib.rs".to_owned(), "lib".to_owned(), "a".to_owned())];
        let member =
            Member { name: "a".into(), package: "a".into(), folder: "run/a".into(), targets, dependencies: Vec::new() };
        let workspace = Workspace { root: "nowhere".into(), files: Vec::new(), sources, members: vec![member] };
        circles(&workspace).iter().map(ToString::to_string).collect()
    }

    fn of_two<'a>(one: &'a str, two: &'a str) -> [(&'a str, &'a str); 3] {
        [("run/a/src/lib.rs", "mod one;\nmod two;\n"), ("run/a/src/one.rs", one), ("run/a/src/two.rs", two)]
    }

    #[test]
    fn siblings_that_name_each_other_are_a_circle() {
        let found = complaints(&of_two("use crate::two::Two;\n", "fn f(one: super::one::One) {}\n"));
        assert_eq!(found, ["run/a/src: modules name each other in a circle: one -> two; two -> one"]);
        assert_eq!(complaints(&of_two("use crate::two::Two;\n", "fn f() {}\n")), [""; 0]);
    }

    #[test]
    fn groups_and_several_lines_are_read() {
        let two = "use std::{\n    fmt,\n};\nuse super::{\n    Other,\n    one::{A, b::{self, C}},\n};\n";
        assert_eq!(complaints(&of_two("use crate::two::Two;\n", two)).len(), 1);
    }

    #[test]
    fn what_all_have_in_common_is_no_arrow() {
        // The parent's own types; tests; comments; another crate's module of the same name.
        let two = "use crate::Common;\nuse other::one::One;\n// crate::one::One\n\
                   #[cfg(test)]\nmod tests {\n    use crate::one::One;\n}\n";
        assert_eq!(complaints(&of_two("use crate::two::Two;\n", two)), [""; 0]);
    }

    #[test]
    fn what_stands_below_a_module_is_its() {
        let below = [
            ("run/a/src/lib.rs", "mod one;\nmod two;\n"),
            ("run/a/src/one.rs", "mod deep;\npub struct One;\n"),
            ("run/a/src/one/deep.rs", "use super::One;\nuse super::super::two::Two;\n"),
            ("run/a/src/two.rs", "pub use crate::one::One;\n"),
        ];
        let found = complaints(&below);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("run/a/src: "));
    }

    #[test]
    fn an_exception_may_only_shrink() {
        let circle = of_two("use crate::two::Two;\n", "use crate::one::One;\n");
        let with = |list| complaints(&[circle.as_slice(), &[(CIRCLES, list)]].concat());
        assert_eq!(with("run/a/src one two\n"), [""; 0]);
        assert!(with("run/a/src one three two\n")[0].contains("shrank to one two"));
        assert_eq!(with("run/b/src one two\n").len(), 2);
    }
}
