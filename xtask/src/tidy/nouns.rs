//! One noun, one type: within a layer, no public type has another's name.
//!
//! A layer is a folder of crates (`path`, `run`, `node`, …): what is read
//! together. Public is what stands behind `pub` without parentheses, also in a
//! module that is not: who reads the layer meets it. Nouns that say what a
//! module is to its caller are apart ([`APART`]): they are read with their
//! module's name before them. Left out are tests, the crates of `testing/`, which
//! nobody calls, and what stands in for another where a feature is missing.

use super::Complaint;
use super::exceptions::Exceptions;
use crate::source::Source;
use crate::workspace::Workspace;
use std::collections::{BTreeMap, BTreeSet};

/// Nouns that are read as `server::Config`.
const APART: [&str; 6] = ["Config", "Settings", "Plan", "Error", "Counters", "Outcome"];

/// Lines of `layer Noun count`.
const NOUNS: &str = "xtask/nouns.txt";

/// No second public noun of one name within a layer.
pub(super) fn twice(workspace: &Workspace) -> Vec<Complaint> {
    let mut places: BTreeMap<(&str, &str), Vec<(&str, usize)>> = BTreeMap::new();
    let rust = || workspace.sources.iter().filter(|source| source.is_rust());
    let instead = rust().flat_map(Source::modules).filter(|declared| declared.instead);
    let instead: BTreeSet<String> = instead.flat_map(|declared| declared.places).collect();
    for source in rust().filter(|source| !instead.contains(&source.path)) {
        let Some((layer, _)) = source.path.split_once('/').filter(|(layer, _)| *layer != "testing") else { continue };
        for (number, noun) in nouns(source).filter(|(_, noun)| !APART.contains(noun)) {
            places.entry((layer, noun)).or_default().push((&source.path, number));
        }
    }
    let mut exceptions = Exceptions::read(workspace, NOUNS);
    let mut found = Vec::new();
    for ((layer, noun), places) in places.into_iter().filter(|(_, places)| places.len() > 1) {
        let allowed = exceptions.take(|words| words.len() == 3 && words[0] == layer && words[1] == noun);
        let allowed = allowed.and_then(|words| words[2].parse().ok()).unwrap_or(1);
        let count = places.len();
        if count < allowed {
            found.push(Complaint::file(NOUNS, format!("{layer} {noun}: lower its {allowed} to {count}")));
        }
        if count > allowed {
            let (first, rest) = places.split_first().expect("there are at least two");
            found.extend(rest.iter().map(|(path, number)| {
                let first = format!("{}:{}", first.0, first.1);
                let text = format!("{noun} is the name of another public type in {layer}/ ({first}): choose one");
                Complaint::at(path, *number, text)
            }));
        }
    }
    found.extend(exceptions.stale());
    found
}

/// The public types that a source declares, with their lines.
fn nouns(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    source.product().enumerate().filter_map(|(index, line)| {
        let public = line.trim_start().strip_prefix("pub ")?;
        let (kind, rest) = public.strip_prefix("unsafe ").unwrap_or(public).split_once(' ')?;
        let noun = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        ["struct", "enum", "union", "trait", "type"].contains(&kind).then_some((index + 1, noun))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let workspace = Workspace { root: "nowhere".into(), files: Vec::new(), sources, members: Vec::new() };
        twice(&workspace).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_layer_has_a_noun_once() {
        let (one, other) =
            (("run/a/src/lib.rs", "pub struct Port;\n"), ("run/b/src/x.rs", "\npub enum Port<T> {\n}\n"));
        let found = complaints(&[one, other]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("run/b/src/x.rs:2: Port is"), "{found:?}");
        // In another layer, in a test, not public, or said with its module.
        assert_eq!(complaints(&[one, ("node/b/src/x.rs", other.1)]), [""; 0]);
        assert_eq!(complaints(&[one, ("run/b/src/tests.rs", other.1)]), [""; 0]);
        assert_eq!(complaints(&[one, ("run/b/src/x.rs", "pub(super) struct Port;\n// pub struct Port\n")]), [""; 0]);
        let config = "pub struct Config;\n";
        assert_eq!(complaints(&[("run/a/src/lib.rs", config), ("run/b/src/lib.rs", config)]), [""; 0]);
        let root = ("run/b/src/lib.rs", "#[cfg(not(feature = \"x\"))]\nmod x;\n");
        assert_eq!(complaints(&[one, root, other]), [""; 0]);
    }

    #[test]
    fn an_exception_counts() {
        let files = |list| {
            let text = "pub struct Port;\n";
            complaints(&[("run/a/src/lib.rs", text), ("run/b/src/lib.rs", text), (NOUNS, list)])
        };
        assert_eq!(files("run Port 2\n"), [""; 0]);
        assert!(files("run Port 3\n")[0].contains("lower its 3 to 2"));
        assert!(files("run Port 2\nrun Silo 2\n")[0].contains("remove the line"));
        assert_eq!(files("").len(), 1);
    }
}
