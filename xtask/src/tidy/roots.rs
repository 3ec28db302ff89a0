//! What lies below a machine's root is opened by the crate `sysroot` alone: a
//! path that is put together from a root and a name follows links of that folder
//! into the machine that reads it.

use super::Complaint;
use crate::source::Source;
use crate::workspace::Workspace;

/// Where a root is a machine's. Elsewhere it is the workspace's, or a test's.
const LAYERS: [&str; 8] = ["apps/", "cli/", "drivers/", "lab/", "node/", "path/", "run/", "sockets/"];

/// What is read and written here lies below a root, all of it.
const ROOTED: [&str; 5] = ["node/apply/", "node/audit/", "node/environment/", "node/topology/", "node/watch/"];

/// Ways to a file by its path.
const BY_PATH: [&str; 11] = [
    "File::open",
    "File::create",
    "OpenOptions",
    "fs::",
    "read_dir(",
    "read_link(",
    "canonicalize(",
    ".exists()",
    ".is_dir()",
    ".is_file()",
    ".metadata()",
];

/// What a file system is asked for that is no path.
const NO_PATHS: [&str; 4] = ["std::fs::File;", "std::fs::TryLockError;", "std::os::unix::fs::", "file.metadata()"];

const ADVICE: &str = "sysroot::Sysroot opens what lies below a root, and follows no link out of it";

/// No path leaves a root.
pub(super) fn left(workspace: &Workspace) -> Vec<Complaint> {
    workspace.sources.iter().filter(|source| source.is_rust()).flat_map(check).collect()
}

fn check(source: &Source) -> Vec<Complaint> {
    let within = |folders: &[&str]| folders.iter().any(|folder| source.path.starts_with(folder));
    let mut found = Vec::new();
    for (number, line) in source.product().enumerate().map(|(at, line)| (at + 1, line)) {
        if within(&LAYERS) && is_joined(line) {
            found.push(Complaint::at(&source.path, number, format!("a root and a name are one path: {ADVICE}")));
        }
        let line = NO_PATHS.iter().fold(line.to_owned(), |line, allowed| line.replace(allowed, ""));
        if within(&ROOTED)
            && let Some(way) = BY_PATH.iter().find(|way| line.contains(**way))
        {
            found.push(Complaint::at(&source.path, number, format!("'{way}' goes by a path: {ADVICE}")));
        }
    }
    found
}

/// What a root is turned into before a name is put behind it.
const TURNED: [&str; 5] = ["as_path()", "as_ref()", "to_path_buf()", "to_owned()", "clone()"];

/// Whether a line puts a name behind something that is called a root:
/// `root.join(`, `self.root().join(`, `root.to_path_buf().push(`.
fn is_joined(line: &str) -> bool {
    let joins = [".join(", ".push("].iter().flat_map(|join| line.match_indices(join));
    joins.into_iter().any(|(at, _)| {
        let parts = line[..at].rsplit('.');
        let owner = parts.into_iter().find(|part| !TURNED.contains(part)).unwrap_or_default();
        let name = owner.trim_end_matches("()").rsplit(|char: char| !char.is_alphanumeric() && char != '_').next();
        name.is_some_and(|name| name == "root" || name.ends_with("_root"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn a_root_and_a_name_are_no_path() {
        for line in [
            "let path = root.join(name);",
            "File::open(self.root.join(path))",
            "self.root().join(path)",
            "    fs::read(&root.as_path().join(name))",
            "root.to_path_buf().push(name)",
            "let x = machine_root.join(name);",
        ] {
            assert_eq!(complaints("run/host/src/a.rs", line), 1, "{line}");
            assert_eq!(complaints("web/site/src/a.rs", line), 0, "{line}");
            assert_eq!(complaints("run/host/src/tests.rs", line), 0, "{line}");
        }
        for line in
            ["roots.join(\",\")", "names.join(\"/\")", "// root.join(name)", "root.named(path)", "folder.join(x)"]
        {
            assert_eq!(complaints("run/host/src/a.rs", line), 0, "{line}");
        }
    }

    #[test]
    fn whole_crates_go_by_no_path() {
        for line in ["File::open(path)", "fs::read_to_string(path)", "Path::new(x).exists()", "use rustix::fs::openat;"]
        {
            assert_eq!(complaints("node/audit/src/a.rs", line), 1, "{line}");
            assert_eq!(complaints("node/perf/src/a.rs", line), 0, "{line}");
        }
        assert_eq!(complaints("node/watch/src/a.rs", "use std::fs::File;"), 0);
        assert_eq!(complaints("node/watch/src/a.rs", "use std::os::unix::fs::FileExt;"), 0);
    }
}
