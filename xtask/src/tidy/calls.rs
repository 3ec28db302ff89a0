//! How many files of a crate call each other in a circle.
//!
//! Modules that name each other by no path ([`super::modules`]) may form a circle all the
//! same: methods of one type that stand in many files and call each other through `self` are
//! one room with as many doors. There is an arrow from a file to another where the first
//! calls something of the second as [`crate::code::CallGraph`] says. A set of files of which each
//! reaches each other is a circle. Tests, and the crates of `testing/`, are left out.
//!
//! `cargo xtask circles` shows all that there are.

use super::Complaint;
use super::exceptions::Exceptions;
use super::modules::{Arrows, circles_of};
use crate::code::{CallGraph, File};
use crate::workspace::{Member, Workspace};
use std::collections::{BTreeMap, BTreeSet};

/// Lines of `crate files …`: how many files each of its circles has, the largest first.
const CIRCLES: &str = "xtask/call-circles.txt";

/// A circle: its files, and who of them calls whom by what.
#[derive(Debug)]
struct Circle {
    files: Vec<String>,
    calls: BTreeMap<(String, String), BTreeSet<String>>,
}

/// No circle is larger than the list has it.
pub(super) fn circles(workspace: &Workspace) -> Vec<Complaint> {
    let mut exceptions = Exceptions::read(workspace, CIRCLES);
    let mut found = Vec::new();
    for member in checked(workspace) {
        let circles = circles_in(workspace, member);
        let sizes: Vec<String> = circles.iter().map(|circle| circle.files.len().to_string()).collect();
        let allowed = exceptions.take(|words| words.first() == Some(&member.folder)).unwrap_or_default();
        let allowed = allowed.get(1..).unwrap_or_default();
        let of = |sizes: &[String], at: usize| sizes.get(at).and_then(|size| size.parse().ok()).unwrap_or(1_usize);
        let grown = (0..circles.len()).find(|at| of(&sizes, *at) > of(allowed, *at));
        if let Some(at) = grown {
            let text = format!("{} files call each other in a circle{}", sizes[at], shown(&circles[at]));
            found.push(Complaint::file(&member.folder, text));
        } else if sizes != allowed {
            let left = if sizes.is_empty() { "no line".to_owned() } else { sizes.join(" ") };
            let text = format!("the circles of {} shrank: it has {left} now", member.folder);
            found.push(Complaint::file(CIRCLES, text));
        }
    }
    found.extend(exceptions.stale());
    found
}

/// Prints all circles of the crates whose folders begin with `folder`.
pub fn print(workspace: &Workspace, folder: &str) {
    for member in checked(workspace).filter(|member| member.folder.starts_with(folder)) {
        for circle in circles_in(workspace, member) {
            println!("{}: {} files{}\n", member.folder, circle.files.len(), shown(&circle));
        }
    }
}

fn checked(workspace: &Workspace) -> impl Iterator<Item = &Member> {
    workspace.members.iter().filter(|member| !member.folder.starts_with("testing/"))
}

/// The calls of a circle, a line for each two files.
fn shown(circle: &Circle) -> String {
    let line = |((from, to), names): (&(String, String), &BTreeSet<String>)| {
        format!("\n    {from} -> {to}: {}", names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    circle.calls.iter().map(line).collect()
}

/// The circles of a crate, the largest first.
fn circles_in(workspace: &Workspace, member: &Member) -> Vec<Circle> {
    let folder = format!("{}/src/", member.folder);
    let sources = workspace.sources.iter().filter(|source| source.is_rust() && source.path.starts_with(&folder));
    let files: Vec<_> = sources.map(|source| File::new(&source.path[folder.len()..], source.code())).collect();
    let mut calls: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut arrows = Arrows::new();
    for call in CallGraph::new(&files).calls() {
        let (from, to) = (files[call.from].path.to_owned(), files[call.to].path.to_owned());
        arrows.entry(from.clone()).or_default().insert(to.clone());
        calls.entry((from, to)).or_default().insert(call.name);
    }
    let mut circles: Vec<Circle> = Vec::new();
    for files in circles_of(&arrows) {
        let within = |(from, to): &(String, String)| files.contains(from) && files.contains(to);
        let calls = calls.iter().filter(|(ends, _)| within(ends)).map(|(ends, names)| (ends.clone(), names.clone()));
        circles.push(Circle { calls: calls.collect(), files });
    }
    circles.sort_by_key(|circle| core::cmp::Reverse(circle.files.len()));
    circles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let member = |folder: &str| Member {
            name: "a".into(),
            package: "a".into(),
            folder: folder.into(),
            targets: Vec::new(),
            dependencies: Vec::new(),
        };
        let members = vec![member("run/a"), member("testing/a")];
        let workspace = Workspace { root: "nowhere".into(), files: Vec::new(), sources, members };
        circles(&workspace).iter().map(ToString::to_string).collect()
    }

    const LIB: (&str, &str) = ("run/a/src/lib.rs", "pub struct A;\n");
    const ONE: (&str, &str) = ("run/a/src/one.rs", "impl A { fn one(&mut self) { self.two() } }\n");
    const TWO: (&str, &str) = ("run/a/src/two.rs", "impl A { fn two(&mut self) { self.one() } }\n");
    const LEAF: (&str, &str) = ("run/a/src/two.rs", "impl A { fn two(&mut self) {} }\n");

    #[test]
    fn files_that_call_each_other_through_self_are_a_circle() {
        let expected =
            "run/a: 2 files call each other in a circle\n    one.rs -> two.rs: A::two\n    two.rs -> one.rs: A::one";
        assert_eq!(complaints(&[LIB, ONE, TWO]), [expected]);
        assert_eq!(complaints(&[LIB, ONE, LEAF]), [""; 0]);
        let in_tests = (
            "run/a/src/two.rs",
            "impl A { fn two(&mut self) {} }\n#[cfg(test)]\nmod tests {\n    impl A { fn f(&mut self) { self.one() } }\n}\n",
        );
        assert_eq!(complaints(&[LIB, ONE, in_tests]), [""; 0]);
        let of_tests = [LIB, ONE, TWO].map(|(path, text)| (path.replace("run/", "testing/"), text));
        assert_eq!(complaints(&of_tests.each_ref().map(|(path, text)| (path.as_str(), *text))), [""; 0]);
    }

    #[test]
    fn a_function_in_place_of_a_method_is_no_way_out() {
        let two = ("run/a/src/two.rs", "impl A { fn two(&mut self) { crate::one::f(self) } }\n");
        let one = ("run/a/src/one.rs", "pub(crate) fn f(a: &mut A) { a.two() }\n");
        assert_eq!(complaints(&[LIB, one, two]).len(), 1);
    }

    #[test]
    fn a_circle_may_only_shrink() {
        let with = |list| complaints(&[LIB, ONE, TWO, (CIRCLES, list)]);
        assert_eq!(with("run/a 2\n"), [""; 0]);
        assert_eq!(with("run/a 3\n"), ["xtask/call-circles.txt: the circles of run/a shrank: it has 2 now"]);
        assert_eq!(with("run/a 2 2\n"), ["xtask/call-circles.txt: the circles of run/a shrank: it has 2 now"]);
        assert!(with("run/b 2\n").iter().any(|text| text.contains("remove the line")));
        assert!(complaints(&[LIB, ONE, LEAF, (CIRCLES, "run/a 2\n")])[0].ends_with("it has no line now"));
    }
}
