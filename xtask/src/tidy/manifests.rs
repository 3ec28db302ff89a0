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

/// Every crate is used: by another one, as a program, by its examples, or as a
/// set of tests.
pub(super) fn crates_have_callers(workspace: &Workspace) -> Vec<Complaint> {
    let called = |name: &str| {
        let others = workspace.members.iter().filter(|member| member.name != name);
        others.flat_map(|member| &member.dependencies).any(|dependency| dependency.local && dependency.name == name)
    };
    let idle = workspace.members.iter().filter(|member| {
        let runs = member.targets.iter().any(|(_, kind)| ["bin", "test", "cdylib", "example"].contains(&kind.as_str()));
        !runs && !called(&member.name) && !member.folder.starts_with("testing/")
    });
    idle.map(|member| Complaint::file(&format!("{}/Cargo.toml", member.folder), "no crate calls this one")).collect()
}

/// The manifests of libraries that are of one of these `kinds`, their folders with the
/// slash behind them, and whether the manifest lacks the line `unless`.
fn libraries(workspace: &Workspace, kinds: &[&str], unless: &str) -> Vec<(String, String, bool)> {
    let libraries = workspace.members.iter().filter_map(|member| {
        let root = member.targets.iter().find(|(_, kind)| kinds.contains(&kind.as_str()))?;
        let manifest = format!("{}/Cargo.toml", member.folder);
        let folder = format!("{}/", root.0.rsplit_once('/').map_or("", |(folder, _)| folder));
        let is_run = !workspace.source(&manifest)?.lines.iter().any(|line| line == unless);
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

/// What a driver may depend on that is not in [`LAYERS`]. The crate that has their
/// table may depend on each.
const DRIVER: (&str, &[&str]) = ("drivers/", &["wire", "link", "driver"]);
const TABLE: &str = "host";

/// What each crate may depend on within the workspace, tests apart. What a
/// packet touches knows only what comes before it; `stack` does not know
/// `link`, and protocols and `wire` know `vector` alone.
const LAYERS: &[(&str, &[&str])] = &[
    ("wire", &["vector"]),
    ("vector", &[]),
    ("random", &[]),
    ("semantics", &["vector"]),
    ("h1", &["semantics", "vector"]),
    ("cgi", &["semantics"]),
    ("link", &["wire", "random"]),
    ("seal", &["wire"]),
    ("app", &["wire", "seal"]),
    ("rope", &["wire", "app", "seal"]),
    ("wheel", &[]),
    ("tcp", &["wire", "app", "rope", "seal", "wheel"]),
    ("stack", &["wire", "tcp", "app", "seal", "wheel"]),
    ("bond", &["wire", "link", "random"]),
    ("steer", &["wire", "link", "app", "stack"]),
    ("silo", &["wire", "link", "app", "tcp", "stack"]),
    ("driver", &["wire", "link"]),
    ("af_packet", &["wire", "link", "driver", "stamping"]),
    ("af_xdp", &["wire", "link", "driver", "ebpf", "stamping"]),
    ("dpdk", &["wire", "link", "driver", "sysroot"]),
    ("sysroot", &[]),
    ("topology", &["sysroot"]),
    ("audit", &["sysroot", "topology"]),
    ("ethtool", &[]),
    ("stamping", &[]),
    ("environment", &["ethtool", "sysroot"]),
    ("systemd", &[]),
    ("apply", &["audit", "ethtool", "sysroot", "systemd"]),
    ("profile", &["audit"]),
    ("fstack", &[]),
    ("perf", &["silo", "topology"]),
    ("noise", &["perf", "silo"]),
    ("watch", &["sysroot"]),
    ("x509", &[]),
    ("handshake", &["wire", "seal", "record", "x509", "wiping"]),
    ("wiping", &[]),
    ("gcm", &[]),
    ("record", &["wire", "seal", "gcm"]),
    ("sockets", &["wire", "app", "rope", "seal", "silo", "wheel", "ebpf", "topology"]),
    ("ebpf", &[]),
    ("exchange", &["wire", "app", "handshake", "semantics"]),
    ("latency", &["wire"]),
    ("probes", &[]),
    ("helper", &[]),
    ("gzip", &[]),
    ("bodies", &["app", "helper"]),
    ("passwords", &["wire", "helper"]),
    ("access_log", &["wire", "gzip", "helper", "probes", "semantics"]),
    ("files", &["wire", "app", "exchange", "helper", "probes", "semantics"]),
    (
        "nginx",
        &[
            "access_log",
            "app",
            "handshake",
            "helper",
            "pcre",
            "phases",
            "proxy",
            "resolver",
            "stapling",
            "upstream",
            "x509",
        ],
    ),
    ("site_toml", &["nginx"]),
    ("pcre", &[]),
    ("proxy", &["semantics"]),
    ("upstream", &[]),
    ("resolver", &["helper", "wire"]),
    ("stapling", &["h1", "handshake", "helper", "resolver", "semantics", "x509"]),
    (
        "phases",
        &[
            "wire",
            "app",
            "access_log",
            "bodies",
            "cgi",
            "exchange",
            "files",
            "gzip",
            "h1",
            "handshake",
            "helper",
            "passwords",
            "pcre",
            "probes",
            "proxy",
            "random",
            "resolver",
            "stapling",
            "semantics",
            "upstream",
            "x509",
        ],
    ),
    ("site", &["wire", "app", "access_log", "exchange", "files", "h1", "handshake", "latency", "phases", "semantics"]),
    (
        "server",
        &[
            "wire",
            "app",
            "access_log",
            "exchange",
            "files",
            "h1",
            "handshake",
            "helper",
            "latency",
            "probes",
            "semantics",
            "phases",
            "site",
        ],
    ),
    ("figures", &[]),
    ("programs", &[]),
    ("status", &["figures", "host", "latency", "metrics", "say", "silo", "wire"]),
    ("import", &["fstack", "say"]),
    ("load", &["figures", "wire", "app", "h1", "pcre", "random", "semantics", "handshake"]),
    ("report", &["figures", "wire", "load", "environment"]),
    ("say", &["semantics", "silo"]),
    (
        "host",
        &[
            "app", "bond", "latency", "link", "say", "server", "silo", "sockets", "stack", "steer", "sysroot", "tcp",
            "topology", "wire",
        ],
    ),
    ("links", &["dpdk", "driver", "ethtool", "host", "say", "stamping", "sysroot"]),
    ("metrics", &["host", "latency", "say", "silo", "wire"]),
    (
        "serve",
        &[
            "af_xdp", "app", "driver", "files", "helper", "host", "latency", "link", "links", "metrics", "probes",
            "programs", "say", "server", "silo", "sockets", "steer", "tcp", "topology", "wire",
        ],
    ),
    (
        "nginx_command",
        &["access_log", "host", "nginx", "phases", "programs", "say", "serve", "server", "site_toml", "sockets"],
    ),
    (
        "generator",
        &["app", "environment", "figures", "host", "link", "load", "report", "say", "silo", "sockets", "wire"],
    ),
    (
        "testbed",
        &[
            "demo",
            "figures",
            "driver",
            "ebpf",
            "environment",
            "ethtool",
            "host",
            "link",
            "links",
            "load",
            "packet",
            "ptp",
            "results",
            "say",
            "silo",
            "wire",
        ],
    ),
    (
        "console",
        &[
            "apply",
            "audit",
            "demo",
            "environment",
            "ethtool",
            "systemd",
            "figures",
            "generator",
            "host",
            "judge",
            "experiments",
            "results",
            "links",
            "latency",
            "load",
            "metrics",
            "noise",
            "perf",
            "profile",
            "programs",
            "say",
            "silo",
            "stats",
            "status",
            "topology",
            "watch",
            "wire",
        ],
    ),
    ("ptp", &["silo"]),
    ("stats", &["random"]),
    ("judge", &["results"]),
    ("results", &["environment", "packet", "stats"]),
    ("packet", &["figures", "wire", "link", "load", "report", "stats"]),
    (
        "experiments",
        &[
            "wire",
            "link",
            "stack",
            "bond",
            "steer",
            "memif",
            "app",
            "silo",
            "sockets",
            "server",
            "load",
            "report",
            "results",
            "environment",
            "stats",
            "demo",
            "topology",
            "audit",
            "fstack",
            "perf",
        ],
    ),
    ("demo", &["environment", "silo", "load", "random"]),
    (
        "bench",
        &[
            "wire",
            "latency",
            "link",
            "tcp",
            "stack",
            "app",
            "silo",
            "bond",
            "steer",
            "tap",
            "memif",
            "server",
            "load",
            "demo",
            "nginx",
            "sim",
            "sockets",
            "experiments",
            "stats",
            "perf",
            "noise",
            "watch",
            "random",
            "seal",
            "record",
        ],
    ),
    ("nearside", &["app", "h1", "link", "semantics", "server", "silo", "sockets", "stack", "wire"]),
    ("xtask", &[]),
];

/// Dependencies point one way. Programs and tests at the end of the line may
/// use anything.
pub(super) fn layers(workspace: &Workspace) -> Vec<Complaint> {
    let mut found = Vec::new();
    for member in &workspace.members {
        let manifest = format!("{}/Cargo.toml", member.folder);
        if member.folder == "cli" || member.folder.starts_with("testing/") {
            continue;
        }
        let is_driver = |folder: &str| folder.starts_with(DRIVER.0);
        let listed = LAYERS.iter().find(|(name, _)| *name == member.name).map(|(_, allowed)| *allowed);
        let Some(allowed) = listed.or(is_driver(&member.folder).then_some(DRIVER.1)) else {
            found.push(Complaint::file(&manifest, "say in xtask/src/tidy/manifests.rs what this crate may depend on"));
            continue;
        };
        for dependency in member.dependencies.iter().filter(|dependency| dependency.local && !dependency.dev) {
            let has_row = || {
                let of = workspace.members.iter().find(|other| other.name == dependency.name);
                member.name == TABLE && of.is_some_and(|of| is_driver(&of.folder))
            };
            if !allowed.contains(&dependency.name.as_str()) && !has_row() {
                let text = format!("{} may not depend on {}", member.name, dependency.name);
                found.push(Complaint::file(&manifest, text));
            }
        }
    }
    found
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
        let dependency = |local| move |name: &&str| Dependency { name: (*name).to_owned(), local, dev: false };
        Member {
            name: name.into(),
            package: name.into(),
            folder: folder.into(),
            targets: vec![(format!("{folder}/src/lib.rs"), "lib".into())],
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
    fn dependencies_point_one_way() {
        let good = [member("stack", "path/stack", &["tcp", "wire"], &[]), member("cli", "cli", &["stack"], &[])];
        assert_eq!(layers(&workspace(good.into(), "")), []);
        let bad = [member("stack", "path/stack", &["link"], &[]), member("new", "path/new", &[], &[])];
        assert_eq!(layers(&workspace(bad.into(), "")).len(), 2);
        let drivers = [member("new", "drivers/new", &["link"], &[]), member("host", "run/host", &["new"], &[])];
        assert_eq!(layers(&workspace(drivers.into(), "")), []);
        let bad = [member("new", "drivers/new", &["host"], &[]), member("serve", "run/serve", &["new"], &[])];
        assert_eq!(layers(&workspace(bad.into(), "")).len(), 2);
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
