//! Directives that stand in no room of a feature yet: their table only shrinks.

use super::Complaint;
use super::exceptions::Exceptions;
use crate::workspace::Workspace;
use std::collections::BTreeMap;

/// The table: `[module]`, and a line for each of its directives.
const TABLE: &str = "web/nginx/src/directives.txt";

/// Lines of `module count`: how many directives of a module may stand there.
const LIST: &str = "xtask/directives.txt";

/// A directive has its row in `web/features`; what has none yet is counted by its module.
pub(super) fn directives(workspace: &Workspace) -> Vec<Complaint> {
    let text = std::fs::read_to_string(workspace.root.join(TABLE)).unwrap_or_default();
    compare(&text, Exceptions::read(workspace, LIST))
}

fn compare(table: &str, mut list: Exceptions) -> Vec<Complaint> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut module = "";
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => module = name,
            None => *counts.entry(module).or_default() += 1,
        }
    }
    let mut found = Vec::new();
    for (module, count) in counts {
        let allowed = list.take(|words| words.len() == 2 && words[0] == module);
        let allowed = allowed.and_then(|words| words[1].parse().ok()).unwrap_or(0);
        let text = match count {
            _ if count == allowed => continue,
            _ if count < allowed => format!("{module}: lower its {allowed} in {LIST} to {count}"),
            _ => format!("{module} has {count} here, and had {allowed}: a new directive has its row in web/features"),
        };
        found.push(Complaint::file(TABLE, text));
    }
    found.extend(list.stale());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn the_table_only_shrinks() {
        let complaints = |table: &str| {
            let sources = vec![Source::new(LIST, "# why\none 2\ntwo 1\n")];
            let workspace = Workspace { root: "nowhere".into(), files: Vec::new(), sources, members: Vec::new() };
            let found = compare(table, Exceptions::read(&workspace, LIST));
            found.into_iter().map(|complaint| complaint.text).collect::<Vec<_>>()
        };
        assert_eq!(complaints("# a\n[one]\na h 1 own\nb h 1 own\n[two]\nc h 1 own\n"), [""; 0]);
        assert_eq!(
            complaints("[one]\na h 1 own\n[two]\nc h 1 own\nd h 1 own\n[three]\ne h 1 own\n"),
            [
                "one: lower its 2 in xtask/directives.txt to 1",
                "three has 1 here, and had 0: a new directive has its row in web/features",
                "two has 2 here, and had 1: a new directive has its row in web/features",
            ]
        );
        let gone = complaints("[one]\na h 1 own\nb h 1 own\n");
        assert!(gone.len() == 1 && gone[0].starts_with("two 1 needs no exception"), "{gone:?}");
    }
}
