//! Dependencies point one way: by the table of docs, which has a row for each crate.

use super::Complaint;
use crate::workspace::Workspace;
use std::collections::BTreeMap;

/// Where the table stands.
const DOCUMENT: &str = "ARCHITECTURE.md";
/// The table's first line.
const HEAD: &str = "| crate | may depend on |";
/// What a driver without a row may depend on. The crate that has their table may
/// depend on each.
const DRIVER: (&str, &[&str]) = ("drivers/", &["driver", "link", "wire"]);
const TABLE: &str = "host";

/// What each crate may depend on within the workspace, tests apart, with the line of
/// its row.
fn allowed(workspace: &Workspace) -> BTreeMap<&str, (usize, Vec<&str>)> {
    let Some(document) = workspace.source(DOCUMENT) else { return BTreeMap::new() };
    let rows = document.numbered().skip_while(|(_, line)| *line != HEAD).skip(2);
    rows.map_while(|(number, line)| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let name = cells.next()?.trim().trim_end_matches('`');
        let others = cells.next()?.split(',').map(|other| other.trim().trim_matches('`'));
        Some((name, (number, others.filter(|other| *other != "none").collect())))
    })
    .collect()
}

/// Dependencies point one way, and each row of the table is of a crate. Programs and
/// tests at the end of the line may use anything.
pub(super) fn layers(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    let allowed = allowed(workspace);
    for member in &workspace.members {
        let manifest = format!("{}/Cargo.toml", member.folder);
        if member.folder == "cli" || member.folder.starts_with("testing/") {
            continue;
        }
        let is_driver = |folder: &str| folder.starts_with(DRIVER.0);
        let listed = allowed.get(member.name.as_str()).map(|(_, others)| others.as_slice());
        let Some(listed) = listed.or(is_driver(&member.folder).then_some(DRIVER.1)) else {
            found.push(Complaint::file(&manifest, format!("say in {DOCUMENT} what this crate may depend on")));
            continue;
        };
        for dependency in member.dependencies.iter().filter(|dependency| dependency.local && !dependency.dev) {
            let has_row = || {
                let of = workspace.members.iter().find(|other| other.name == dependency.name);
                member.name == TABLE && of.is_some_and(|of| is_driver(&of.folder))
            };
            if !listed.contains(&dependency.name.as_str()) && !has_row() {
                let text = format!("{} may not depend on {} ({DOCUMENT})", member.name, dependency.name);
                found.push(Complaint::file(&manifest, text));
            }
        }
    }
    for (name, (line, others)) in &allowed {
        let Some(member) = workspace.members.iter().find(|member| member.name == *name) else {
            found.push(Complaint::at(DOCUMENT, *line, format!("there is no crate {name}")));
            continue;
        };
        let depends = |other: &str| member.dependencies.iter().any(|one| one.local && !one.dev && one.name == other);
        let unused = others.iter().filter(|other| !depends(other));
        found.extend(unused.map(|other| Complaint::at(DOCUMENT, *line, format!("{name} does not depend on {other}"))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::workspace::{Dependency, Member};

    fn member(folder: &str, local: &[&str]) -> Member {
        let name = folder.rsplit('/').next().unwrap_or_default().to_owned();
        let dependency = |name: &&str| Dependency { name: (*name).to_owned(), local: true, renamed: false, dev: false };
        Member {
            package: name.clone(),
            name,
            folder: folder.into(),
            targets: Vec::new(),
            dependencies: local.iter().map(dependency).collect(),
        }
    }

    fn complaints(members: Vec<Member>, rows: &str) -> Vec<String> {
        let text = format!("# Arrows\n\n{HEAD}\n| --- | --- |\n{rows}\nAnd so on\n| `not` | in it |\n");
        let sources = vec![Source::new(DOCUMENT, &text)];
        let workspace = Workspace { root: "nowhere".into(), files: Vec::new(), sources, members };
        layers(&workspace).into_iter().map(|complaint| complaint.text).collect()
    }

    #[test]
    fn dependencies_point_one_way() {
        let rows = "| `stack` | `tcp`, `wire` |\n| `tcp` | none |\n| `wire` | none |\n";
        let below = || [member("path/tcp", &[]), member("path/wire", &[])];
        let with = |member: Member| [member].into_iter().chain(below()).collect();
        let good: Vec<Member> = with(member("path/stack", &["tcp", "wire"]));
        assert_eq!(complaints(good, rows), [""; 0]);
        assert_eq!(
            complaints(with(member("path/stack", &["tcp", "wire", "link"])), rows),
            ["stack may not depend on link (ARCHITECTURE.md)"]
        );
        assert_eq!(complaints(with(member("path/stack", &["tcp"])), rows), ["stack does not depend on wire"]);
        assert_eq!(
            complaints(with(member("path/new", &[])), rows),
            ["say in ARCHITECTURE.md what this crate may depend on", "there is no crate stack"]
        );
        let ends = vec![member("cli", &["anything"]), member("testing/sim", &["anything"])];
        assert_eq!(complaints(ends, ""), [""; 0]);
    }

    #[test]
    fn the_table_of_drivers_may_have_each() {
        let drivers = |driver: &[&str], user: Member| vec![member("drivers/new", driver), user];
        let rows = "| `host` | none |\n";
        assert_eq!(complaints(drivers(&["link"], member("run/host", &["new"])), rows), [""; 0]);
        let bad = complaints(drivers(&["host"], member("run/serve", &["new"])), "| `serve` | none |\n");
        assert_eq!(bad.len(), 2, "{bad:?}");
    }
}
