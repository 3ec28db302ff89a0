//! How much there is to know of an interface: the methods of the traits between its sides.
//!
//! A method counts once. One that takes an enum does as many things as that has variants,
//! and counts for each: `stop(how)` for three ways to stop is three methods in other words.
//! Left out of that are enums whose variants are alike: they say what something *is* (where
//! an address is, who has the bytes, why something ended), and not what is to be *done*, or
//! has happened. Which these are nobody can tell by the text: they stand in a list, each
//! with the reason.

use super::Complaint;
use super::exceptions::Exceptions;
use crate::code::{Items, Place};
use crate::source::Source;
use crate::workspace::Workspace;
use std::collections::BTreeMap;

/// Lines of `crate methods trait trait …`: how many methods these traits of a crate have.
const METHODS: &str = "xtask/methods.txt";

/// Lines of `Enum reason`: why its variants are alike.
const ALIKE: &str = "xtask/alike-variants.txt";

/// An interface, as its line has it, and what its traits come to.
#[derive(Debug)]
struct Interface {
    line: usize,
    folder: String,
    bound: usize,
    /// By trait, in the order of the line; none of one that there is not.
    traits: Vec<(String, Option<usize>)>,
    /// Enums that its methods take, and the variants of each.
    enums: BTreeMap<String, usize>,
}

impl Interface {
    fn sum(&self) -> usize {
        self.traits.iter().filter_map(|(_, count)| *count).sum()
    }

    fn shown(&self) -> String {
        let each = self.traits.iter().map(|(name, count)| format!("{name} {}", count.unwrap_or(0)));
        format!("{} methods ({})", self.sum(), each.collect::<Vec<_>>().join(", "))
    }
}

/// No interface has more methods than the list has it.
pub(super) fn methods(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut alike = Exceptions::read(workspace, ALIKE);
    for interface in read(workspace) {
        let Interface { line, folder, bound, traits, enums } = &interface;
        for (name, _) in traits.iter().filter(|(_, count)| count.is_none()) {
            found.push(Complaint::at(METHODS, *line, format!("{folder} has no trait {name}")));
        }
        if interface.sum() > *bound {
            let text = format!("{}, more than {bound}; an enum counts by its variants: {enums:?}", interface.shown());
            found.push(Complaint::file(folder, text));
        } else if interface.sum() < *bound {
            let text = format!("{folder}: lower its {bound} to {}", interface.shown());
            found.push(Complaint::at(METHODS, *line, text));
        }
        while let Some(words) = alike.take(|words| enums.contains_key(&words[0])) {
            if words.len() < 2 {
                found.push(Complaint::file(ALIKE, format!("say why the variants of {} are alike", words[0])));
            }
        }
    }
    found.extend(alike.stale());
    found
}

/// Says what each interface comes to.
pub(super) fn print(workspace: &Workspace) {
    for interface in read(workspace) {
        println!("tidy: {}: {}", interface.folder, interface.shown());
    }
}

/// The interfaces of the list.
fn read(workspace: &Workspace) -> Vec<Interface> {
    let alike = words_of(workspace, ALIKE);
    let alike: Vec<&str> = alike.iter().filter_map(|(_, words)| words.first().copied()).collect();
    let lines = words_of(workspace, METHODS).into_iter().filter_map(|(line, words)| match words.as_slice() {
        [folder, bound, traits @ ..] => Some(count(workspace, (line, folder, bound), traits, &alike)),
        _ => None,
    });
    lines.collect()
}

/// The lines of a list, with their numbers.
fn words_of<'a>(workspace: &'a Workspace, list: &str) -> Vec<(usize, Vec<&'a str>)> {
    let lines = workspace.source(list).into_iter().flat_map(Source::numbered);
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| (number, line.split_whitespace().collect())).collect()
}

fn count(
    workspace: &Workspace,
    (line, folder, bound): (usize, &str, &str),
    traits: &[&str],
    alike: &[&str],
) -> Interface {
    let variants = variants(workspace, folder);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut enums = BTreeMap::new();
    for function in items(workspace, folder).flat_map(|items| &items.functions) {
        let Place::Trait(name) = &function.place else { continue };
        if !traits.contains(&name.as_str()) {
            continue;
        }
        let mut does = 0;
        for (kind, variants) in function.words.iter().filter_map(|word| variants.get_key_value(word)) {
            enums.insert(kind.clone(), *variants);
            does += if alike.contains(&kind.as_str()) { 0 } else { *variants };
        }
        *counts.entry(name.clone()).or_default() += does.max(1);
    }
    let traits = traits.iter().map(|name| ((*name).to_owned(), counts.get(*name).copied())).collect();
    Interface { line, folder: folder.to_owned(), bound: bound.parse().unwrap_or(0), traits, enums }
}

/// The enums that a crate may take, and how many variants each has: its own, and those of crates
/// that it depends on.
fn variants(workspace: &Workspace, folder: &str) -> BTreeMap<String, usize> {
    let member = workspace.members.iter().find(|member| member.folder == folder);
    let below = member.into_iter().flat_map(|member| &member.dependencies).filter(|one| one.local && !one.dev);
    let below = below.filter_map(|one| workspace.members.iter().find(|member| member.name == one.name));
    let mut found = BTreeMap::new();
    for folder in below.map(|member| member.folder.as_str()).chain([folder]) {
        let mut own: BTreeMap<String, usize> = BTreeMap::new();
        for variant in items(workspace, folder).flat_map(|items| &items.variants) {
            *own.entry(variant.owner.clone()).or_default() += 1;
        }
        found.append(&mut own);
    }
    found
}

fn items<'a>(workspace: &'a Workspace, folder: &str) -> impl Iterator<Item = &'a Items> {
    let folder = format!("{folder}/src/");
    let sources = workspace.sources.iter().filter(move |source| source.is_rust() && source.path.starts_with(&folder));
    sources.map(|source| &source.code().items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Member};

    fn complaints(methods: &str, alike: &str) -> Vec<String> {
        let text = "pub enum Stop { Cut, Abort, HangUp }\nenum Address { Inet(u8), Unix }\n\
                    pub trait Replies: Sized {\n    fn stop(&mut self, how: Stop);\n    fn dial(&mut self, to: Address) {}\n\
                    \x20   fn told(&mut self, what: &below::Event<'_>);\n    fn room(&self) -> Stop;\n}\n\
                    pub trait Other {\n    fn more(&self);\n}\nimpl Replies for u8 {\n    fn room(&self) -> Stop {}\n}\n";
        let below = "pub enum Event<'a> {\n    Data(&'a [u8]),\n    End,\n}\n";
        let sources = [("web/a/src/lib.rs", text), ("web/below/src/lib.rs", below), (METHODS, methods), (ALIKE, alike)];
        let member = |name: &str, dependencies: Vec<Dependency>| Member {
            name: name.into(),
            package: name.into(),
            folder: format!("web/{name}"),
            targets: Vec::new(),
            dependencies,
        };
        let below = Dependency { name: "below".into(), local: true, renamed: false, dev: false };
        let workspace = Workspace {
            root: "nowhere".into(),
            files: Vec::new(),
            sources: sources.iter().map(|(path, text)| Source::new(path, text)).collect(),
            members: vec![member("a", vec![below]), member("below", Vec::new())],
        };
        super::methods(&workspace).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_enum_counts_by_its_variants() {
        // Three to stop, two to dial, two events, and one more.
        assert_eq!(complaints("web/a 8 Replies\n", ""), [""; 0]);
        assert_eq!(complaints("web/a 9 Replies Other\n", ""), [""; 0]);
        assert_eq!(complaints("web/a 7 Replies\n", "Address where somebody is\n"), [""; 0]);
        let found = complaints("web/a 7 Replies\n", "");
        assert!(found.len() == 1 && found[0].starts_with("web/a: 8 methods (Replies 8), more than 7"), "{found:?}");
    }

    #[test]
    fn a_bound_may_only_fall() {
        assert_eq!(
            complaints("web/a 9 Replies\n", ""),
            ["xtask/methods.txt:1: web/a: lower its 9 to 8 methods (Replies 8)"]
        );
        assert!(complaints("web/a 8 Replies Gone\n", "")[0].ends_with("web/a has no trait Gone"));
        assert!(complaints("web/a 8 Replies\n", "Shape what it is\n")[0].contains("remove the line"));
        assert!(complaints("web/a 7 Replies\n", "Address\n")[0].contains("say why"));
    }
}
