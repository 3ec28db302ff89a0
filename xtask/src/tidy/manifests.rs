//! Rules on crates: who may depend on whom, and why.

use super::Complaint;
use crate::source::Source;
use crate::workspace::Workspace;

const ROOT: &str = "Cargo.toml";
const REASONS: &str = "docs/dependencies.md";

/// Every member has a comment: on its own line, or above its group.
pub(super) fn members_have_comments(workspace: &Workspace) -> Vec<Complaint> {
    let Some(root) = workspace.source(ROOT) else { return vec![Complaint::file(ROOT, "is missing")] };
    let mut found = Vec::new();
    let mut inside = false;
    let mut group = false;
    for (number, line) in root.numbered() {
        match line.trim() {
            "members = [" => inside = true,
            "]" => inside = false,
            comment if inside && comment.starts_with('#') => group = true,
            member if inside && !group && !member.contains('#') => {
                found.push(Complaint::at(ROOT, number, "say in a comment what this crate is"));
            }
            _ => {}
        }
    }
    found
}

/// A crate has one name: its folder's in the manifest, where `nearside-` stands before
/// those that are to be published, in code, and wherever it is depended on.
pub(super) fn crates_have_one_name(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    for member in &workspace.members {
        let manifest = format!("{}/Cargo.toml", member.folder);
        let folder = member.folder.rsplit('/').next().unwrap_or_default().replace('-', "_");
        if member.name != folder {
            let text = format!("the folder is called {folder}, the crate {}: give them one name", member.name);
            found.push(Complaint::file(&manifest, text));
        }
        let library = member.targets.iter().find(|(_, kind, _)| kind == "lib");
        if let Some((_, _, name)) = library.filter(|(_, _, name)| *name != member.name) {
            found.push(Complaint::file(&manifest, format!("the library is called {name}, the crate {}", member.name)));
        }
        for dependency in member.dependencies.iter().filter(|dependency| dependency.local && dependency.renamed) {
            found.push(Complaint::file(&manifest, format!("{} has another name here", dependency.name)));
        }
    }
    found
}

/// Every crate is used: by another one, as a program, by its examples, or as a
/// set of tests.
pub(super) fn crates_have_callers(workspace: &Workspace) -> Vec<Complaint> {
    let called = |name: &str| {
        let others = workspace.members.iter().filter(|member| member.name != name);
        others.flat_map(|member| &member.dependencies).any(|dependency| dependency.local && dependency.name == name)
    };
    let idle = workspace.members.iter().filter(|member| {
        let runs =
            member.targets.iter().any(|(_, kind, _)| ["bin", "test", "cdylib", "example"].contains(&kind.as_str()));
        !runs && !called(&member.name) && !member.folder.starts_with("testing/")
    });
    idle.map(|member| Complaint::file(&format!("{}/Cargo.toml", member.folder), "no crate calls this one")).collect()
}

/// The manifests of libraries that are of one of these `kinds`, their folders with the
/// slash behind them, and whether the manifest lacks the line `unless`.
fn libraries(workspace: &Workspace, kinds: &[&str], unless: &str) -> Vec<(String, String, bool)> {
    let libraries = workspace.members.iter().filter_map(|member| {
        let root = member.targets.iter().find(|(_, kind, _)| kinds.contains(&kind.as_str()))?;
        let manifest = format!("{}/Cargo.toml", member.folder);
        let folder = format!("{}/", root.0.rsplit_once('/').map_or("", |(folder, _)| folder));
        let mut lines = workspace.source(&manifest)?.lines.iter().skip_while(|line| *line != "[lib]").skip(1);
        let is_run = !lines.by_ref().take_while(|line| !line.starts_with('[')).any(|line| line == unless);
        Some((manifest, folder, is_run))
    });
    libraries.collect()
}

/// Examples in a library's documentation are run, and where there are none nobody builds
/// it once more to look for them.
pub(super) fn examples_are_run(workspace: &Workspace) -> Vec<Complaint> {
    let libraries = libraries(workspace, &["lib", "cdylib"], "doctest = false");
    let wrong = libraries.into_iter().filter_map(|(manifest, folder, is_run)| {
        let mut sources = workspace.sources.iter().filter(|source| source.path.starts_with(&folder));
        match (sources.find_map(first_example), is_run) {
            (Some((path, line)), false) => {
                Some(Complaint::at(&path, line, format!("{manifest} says `doctest = false`: nobody runs this example")))
            }
            (None, true) => Some(Complaint::file(&manifest, "has no example: say `doctest = false` in [lib]")),
            _ => None,
        }
    });
    wrong.collect()
}

/// Tests beside a library's code are run, and where there are none nobody compiles it
/// once more for them.
pub(super) fn unit_tests_are_run(workspace: &Workspace) -> Vec<Complaint> {
    let libraries = libraries(workspace, &["lib"], "test = false");
    let wrong = libraries.into_iter().filter_map(|(manifest, folder, is_run)| {
        let mut sources = workspace.sources.iter().filter(|source| source.path.starts_with(&folder));
        match (sources.find_map(first_test), is_run) {
            (Some((path, line)), false) => {
                Some(Complaint::at(&path, line, format!("{manifest} says `test = false`: nobody runs this test")))
            }
            (None, true) => Some(Complaint::file(&manifest, "has no unit test: say `test = false` in [lib]")),
            _ => None,
        }
    });
    wrong.collect()
}

/// Where the first test of a file stands.
fn first_test(source: &Source) -> Option<(String, usize)> {
    let (number, _) = source.numbered().find(|(_, line)| line.trim_start().starts_with("#[test]"))?;
    Some((source.path.clone(), number))
}

/// Where the first piece of Rust stands in what documents a file.
fn first_example(source: &Source) -> Option<(String, usize)> {
    let mut inside = false;
    for (number, line) in source.numbered() {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
        let Some(language) = text.trim().strip_prefix("```") else { continue };
        if !inside && ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&language.trim()) {
            return Some((source.path.clone(), number));
        }
        inside = !inside;
    }
    None
}

/// Every dependency from outside has a line in [`REASONS`], and every line a
/// dependency.
pub(super) fn dependencies_have_reasons(workspace: &Workspace) -> Vec<Complaint> {
    let Some(reasons) = workspace.source(REASONS) else { return vec![Complaint::file(REASONS, "is missing")] };
    let listed: Vec<(usize, &str)> = reasons
        .numbered()
        .filter_map(|(number, line)| Some((number, line.strip_prefix("| `")?.split('`').next()?)))
        .collect();
    let mut found = Vec::new();
    let mut used = Vec::new();
    for member in &workspace.members {
        for dependency in member.dependencies.iter().filter(|dependency| !dependency.local) {
            used.push(dependency.name.as_str());
            if !listed.iter().any(|(_, name)| *name == dependency.name) {
                let manifest = format!("{}/Cargo.toml", member.folder);
                found.push(Complaint::file(&manifest, format!("give {} a line in {REASONS}", dependency.name)));
            }
        }
    }
    let stale = listed.iter().filter(|(_, name)| !used.contains(name));
    found.extend(stale.map(|(number, name)| Complaint::at(REASONS, *number, format!("no crate depends on {name}"))));
    found
}

/// Lints and version stand in the root manifest only.
pub(super) fn lints_are_shared(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    for member in &workspace.members {
        let path = format!("{}/Cargo.toml", member.folder);
        let text = workspace.source(&path).map(|source| source.lines.join("\n")).unwrap_or_default();
        for (wanted, advice) in [
            ("[lints]\nworkspace = true", "take the workspace's lints"),
            ("version.workspace = true", "take the workspace's version"),
            ("edition.workspace = true", "take the workspace's edition"),
            ("license.workspace = true", "take the workspace's license"),
        ] {
            if !text.contains(wanted) {
                found.push(Complaint::file(&path, advice));
            }
        }
    }
    found
}

/// What is public is documented: the compiler is asked to look, and no crate
/// forbids it.
pub(super) fn docs_are_asked_for(workspace: &Workspace) -> Vec<Complaint> {
    let asked = |line: &String| line == "missing_docs = \"deny\"";
    let mut found = Vec::new();
    if !workspace.source(ROOT).is_some_and(|source| source.lines.iter().any(asked)) {
        found.push(Complaint::file(ROOT, "write missing_docs = \"deny\" below [workspace.lints.rust]"));
    }
    for source in workspace.sources.iter().filter(|source| source.is_rust()) {
        let excused = source.product().zip(1..).filter(|(line, _)| {
            let attribute = line.trim_start();
            attribute.starts_with("#[") || attribute.starts_with("#![")
        });
        let excused = excused.filter(|(line, _)| line.contains("(missing_docs"));
        found.extend(
            excused
                .map(|(_, number)| Complaint::at(&source.path, number, "document what is public, or make it private")),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::workspace::{Dependency, Member};

    fn member(name: &str, folder: &str, local: &[&str], outside: &[&str]) -> Member {
        let dependency =
            |local| move |name: &&str| Dependency { name: (*name).to_owned(), local, renamed: false, dev: false };
        Member {
            name: name.into(),
            package: name.into(),
            folder: folder.into(),
            targets: vec![(format!("{folder}/src/lib.rs"), "lib".into(), name.into())],
            dependencies: local.iter().map(dependency(true)).chain(outside.iter().map(dependency(false))).collect(),
        }
    }

    fn workspace(members: Vec<Member>, reasons: &str) -> Workspace {
        let sources = vec![Source::new(REASONS, reasons), Source::new(ROOT, "members = [\n\"a\",\n# b\n\"c\",\n]\n")];
        Workspace { root: "nowhere".into(), files: Vec::new(), sources, members }
    }

    #[test]
    fn an_example_is_run_and_none_is_not_looked_for() {
        let text = "//! ```text\n//! no Rust\n//! ```\nfn one() {}\n/// ```\n/// one();\n/// ```\n";
        assert_eq!(first_example(&Source::new("a/src/b.rs", text)), Some(("a/src/b.rs".to_owned(), 5)));
        let complaints = |text: &str, manifest: &str| {
            let mut workspace = workspace(vec![member("a", "a", &[], &[])], "");
            workspace.sources = vec![Source::new("a/src/lib.rs", text), Source::new("a/Cargo.toml", manifest)];
            examples_are_run(&workspace).len()
        };
        let (with, without) = ("/// ```\n/// one();\n/// ```\n", "//! ```text\n//! ```\n");
        assert_eq!([complaints(with, "[lib]\n"), complaints(without, "[lib]\ndoctest = false\n")], [0, 0]);
        assert_eq!([complaints(without, "[lib]\n"), complaints(with, "[lib]\ndoctest = false\n")], [1, 1]);
    }

    #[test]
    fn a_test_is_run_and_none_is_not_looked_for() {
        let complaints = |text: &str, manifest: &str| {
            let mut workspace = workspace(vec![member("a", "a", &[], &[])], "");
            workspace.sources = vec![Source::new("a/src/lib.rs", text), Source::new("a/Cargo.toml", manifest)];
            unit_tests_are_run(&workspace).len()
        };
        let (with, without) = ("    #[test]\n    fn one() {}\n", "fn one() {}\n");
        assert_eq!([complaints(with, "[lib]\n"), complaints(without, "[lib]\ntest = false\n")], [0, 0]);
        assert_eq!([complaints(without, "[lib]\n"), complaints(with, "[lib]\ntest = false\n")], [1, 1]);
    }

    #[test]
    fn a_crate_has_one_name() {
        let members = || [member("tcp", "path/tcp", &["wire"], &[]), member("wire", "path/wire", &[], &[])];
        assert_eq!(crates_have_one_name(&workspace(members().into(), "")), []);
        let mut members = members();
        members[0].dependencies[0].renamed = true;
        members[1].targets[0].2 = "frames".into();
        members[1].folder = "path/frames".into();
        let found = crates_have_one_name(&workspace(members.into(), ""));
        assert_eq!(
            found.iter().map(|complaint| complaint.path.as_str()).collect::<Vec<_>>(),
            ["path/tcp/Cargo.toml", "path/frames/Cargo.toml", "path/frames/Cargo.toml"]
        );
    }

    #[test]
    fn crates_without_caller_are_found() {
        let members = [member("tcp", "path/tcp", &["wire"], &[]), member("wire", "path/wire", &[], &[])];
        let found = crates_have_callers(&workspace(members.into(), ""));
        assert_eq!(found.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), ["path/tcp/Cargo.toml"]);
    }

    #[test]
    fn reasons_and_dependencies_match() {
        let members = || vec![member("tcp", "path/tcp", &[], &["siphasher"])];
        assert_eq!(dependencies_have_reasons(&workspace(members(), "| `siphasher` | why |")), []);
        assert_eq!(dependencies_have_reasons(&workspace(members(), "| `other` | why |")).len(), 2);
    }

    #[test]
    fn what_is_public_is_documented() {
        let of = |root: &str, code: &str| {
            let sources = vec![Source::new(ROOT, root), Source::new("a/src/lib.rs", code)];
            docs_are_asked_for(&Workspace { sources, ..workspace(Vec::new(), "") }).len()
        };
        let root = "[workspace.lints.rust]\nmissing_docs = \"deny\"\n";
        assert_eq!(of(root, "//! Documented.\n"), 0);
        assert_eq!(of(root, "#![allow(missing_docs, reason = \"later\")]\n"), 1);
        assert_eq!(of("", ""), 1);
    }

    #[test]
    fn members_need_a_comment() {
        assert_eq!(members_have_comments(&workspace(Vec::new(), "")).len(), 1);
    }
}
