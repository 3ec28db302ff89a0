//! What is public and no program uses.
//!
//! The compiler tells of what nobody uses within a crate, but not of what is public. Here a
//! public function, method, type, trait, method of a public trait, constant or static is used
//! if its name stands in product code, other than where something of that name is declared or
//! handed on by `pub use`: in its own crate, or in one that depends on it. So one that only
//! tests use is found, unless something else of its name is used; one that is used is never
//! complained of.
//!
//! Left out are `testing/`, and what other programs are offered: what the crate `nearside`
//! names, with the methods of types that it names.

use super::Complaint;
use super::exceptions::Exceptions;
use crate::code::Public;
use crate::source::Source;
use crate::workspace::{Member, Workspace};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Lines of `crate name`, or `crate Type::name`.
const UNUSED: &str = "xtask/unused.txt";

/// The crate that offers others to programs of other people.
const LIBRARY: &str = "nearside";

/// By word, the crates in whose product code it stands.
type Uses<'a> = HashMap<&'a str, BTreeSet<usize>>;

/// Nothing is public for tests alone.
pub(super) fn unused(workspace: &Workspace) -> Vec<Complaint> {
    let mut uses = Uses::new();
    let mut public: Vec<(usize, &Source, &Public)> = Vec::new();
    for (index, member) in workspace.members.iter().enumerate() {
        let offers = member.name == LIBRARY;
        for source in product(workspace, member) {
            public.extend(read(source, (index, offers), &mut uses).iter().map(|one| (index, source, one)));
        }
    }
    let users = users(&workspace.members);
    let library = workspace.members.iter().position(|member| member.name == LIBRARY);
    let is_used = |of: usize, name: &str| {
        uses.get(name).is_some_and(|by| by.iter().any(|by| *by == of || users[of].contains(by)))
    };
    let is_offered = |name: &str| library.is_some_and(|library| uses.get(name).is_some_and(|by| by.contains(&library)));
    let mut exceptions = Exceptions::read(workspace, UNUSED);
    let mut found = Vec::new();
    for (index, source, one) in public {
        let offered = is_offered(&one.name) || one.owner.as_deref().is_some_and(is_offered);
        if offered || is_used(index, &one.name) {
            continue;
        }
        let folder = &workspace.members[index].folder;
        let name = one.owner.as_ref().map_or_else(|| one.name.clone(), |owner| format!("{owner}::{}", one.name));
        if exceptions.take(|words| words.len() == 2 && words[0] == *folder && words[1] == name).is_none() {
            let text = format!("{name} is public, and no program uses it: remove it, or have it for tests alone");
            found.push(Complaint::at(&source.path, one.line, text));
        }
    }
    found.extend(exceptions.stale());
    found
}

/// The sources of a crate that are no tests.
fn product<'a>(workspace: &'a Workspace, member: &Member) -> impl Iterator<Item = &'a Source> {
    let folder = format!("{}/src/", member.folder);
    let is_of_tests = member.folder.starts_with("testing/");
    let sources = workspace.sources.iter().filter(move |source| source.is_rust() && source.path.starts_with(&folder));
    sources.filter(move |source| !is_of_tests && source.tests_from > 0)
}

/// Notes the words of a source, all of them if it `offers` what it hands on, and tells what it
/// has that is public.
fn read<'a>(source: &'a Source, (index, offers): (usize, bool), uses: &mut Uses<'a>) -> &'a [Public] {
    let code = source.code();
    let mut words = HashSet::new();
    for (token, declares) in code.tokens().into_iter().zip(&code.items.declaring) {
        let counts = (offers || !declares) && token.is_word();
        if counts && words.insert(token.text) {
            uses.entry(token.text).or_default().insert(index);
        }
    }
    &code.items.public
}

/// Of each crate, those that depend on it, however far.
fn users(members: &[Member]) -> Vec<BTreeSet<usize>> {
    let places: BTreeMap<&str, usize> = members.iter().enumerate().map(|(at, one)| (one.name.as_str(), at)).collect();
    let mut users = vec![BTreeSet::new(); members.len()];
    for user in 0..members.len() {
        let mut open = vec![user];
        while let Some(at) = open.pop() {
            let below = members[at].dependencies.iter().filter(|one| one.local && !one.dev);
            for used in below.filter_map(|one| places.get(one.name.as_str()).copied()) {
                if users[used].insert(user) {
                    open.push(used);
                }
            }
        }
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn member(folder: &str, local: &[&str]) -> Member {
        let dependency = |name: &&str| Dependency { name: (*name).into(), local: true, renamed: false, dev: false };
        Member {
            name: folder.rsplit('/').next().unwrap_or_default().to_owned(),
            package: folder.to_owned(),
            folder: folder.to_owned(),
            targets: Vec::new(),
            dependencies: local.iter().map(dependency).collect(),
        }
    }

    /// What is complained of: where crate `b` uses `a`, `c` does not, and `nearside` offers `c`.
    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let members = vec![
            member("run/a", &[]),
            member("run/b", &["a"]),
            member("run/c", &[]),
            member("nearside", &["c"]),
            member("testing/t", &["a"]),
        ];
        let workspace = Workspace { root: "nowhere".into(), files: Vec::new(), sources, members };
        unused(&workspace).iter().map(ToString::to_string).collect()
    }

    const A: (&str, &str) = ("run/a/src/lib.rs", "pub fn f() {}\n");

    #[test]
    fn what_only_tests_use_is_found() {
        let expected = "run/a/src/lib.rs:1: f is public, and no program uses it: remove it, or have it for tests alone";
        assert_eq!(complaints(&[A]), [expected]);
        for other in [
            ("run/b/tests/t.rs", "fn g() { a::f() }\n"),
            ("run/b/src/lib.rs", "#[cfg(test)]\nmod tests {\n    fn g() { a::f() }\n}\n"),
            ("run/b/src/lib.rs", "pub use a::f;\n"),
            ("run/b/src/lib.rs", "// f()\nfn f() { \"f\" }\n"),
            ("run/b/src/lib.rs", "impl x::f for f {}\n"),
            ("run/c/src/lib.rs", "fn g() { f() }\n"),
            ("testing/t/src/lib.rs", "fn g() { a::f() }\n"),
        ] {
            assert_eq!(complaints(&[A, other]), [expected], "{other:?}");
        }
        for other in [
            ("run/b/src/lib.rs", "fn g() { a::f() }\n"),
            ("run/a/src/x.rs", "fn g() { super::f() }\n"),
            ("run/b/src/lib.rs", "macro_rules! g { () => { a::f() } }\n"),
        ] {
            assert_eq!(complaints(&[A, other]), [""; 0], "{other:?}");
        }
    }

    #[test]
    fn all_that_is_public_is_looked_for() {
        let text = "pub struct S;\nimpl S {\n    pub fn m(&self) {}\n    pub const C: u8 = 1;\n    pub(crate) fn n(&self) {}\n}\n\
                    pub trait T {\n    fn t(&self);\n}\npub static X: u8 = 1;\npub enum E { V }\npub type Y = u8;\nfn p() {}\n";
        let found = complaints(&[("run/a/src/lib.rs", text)]);
        let names: Vec<&str> = found.iter().filter_map(|text| text.split(' ').nth(1)).collect();
        assert_eq!(names, ["S", "S::m", "S::C", "T", "T::t", "X", "E", "Y"]);
    }

    #[test]
    fn what_is_offered_to_other_programs_is_used() {
        let c = ("run/c/src/lib.rs", "pub struct S;\nimpl S {\n    pub fn m(&self) {}\n}\npub struct Z;\n");
        let library = ("nearside/src/lib.rs", "pub mod server {\n    pub use c::S;\n}\n");
        let found = complaints(&[c, library]);
        assert!(found.len() == 1 && found[0].contains(" Z is public"), "{found:?}");
    }

    #[test]
    fn an_exception_may_only_go() {
        assert_eq!(complaints(&[A, (UNUSED, "run/a f\n")]), [""; 0]);
        assert_eq!(complaints(&[A, (UNUSED, "run/a S::f\n")]).len(), 2);
    }
}
