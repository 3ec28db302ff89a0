//! The workspace as the checks see it: its files and its crates.

use crate::source::Source;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every file that belongs to the repository, and every crate.
#[derive(Debug)]
pub struct Workspace {
    /// The folder of the root manifest.
    pub root: PathBuf,
    /// Paths relative to the root, with their sizes.
    pub files: Vec<(String, u64)>,
    /// Files whose text is read: Rust, manifests, Markdown, scripts.
    pub sources: Vec<Source>,
    /// The crates.
    pub members: Vec<Member>,
}

/// A crate of the workspace.
#[derive(Debug)]
pub struct Member {
    /// Its name, without what packages are published with.
    pub name: String,
    /// Its package's name.
    pub package: String,
    /// Its folder, relative to the root.
    pub folder: String,
    /// The root files of its targets, relative to the root, with their kinds and names.
    pub targets: Vec<(String, String, String)>,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
}

/// A dependency of a crate.
#[derive(Debug)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// Whether it is a crate of this workspace.
    pub local: bool,
    /// Whether it has another name in this crate.
    pub renamed: bool,
    /// Whether it is for tests only.
    pub dev: bool,
}

impl Workspace {
    /// Reads the workspace around the current folder.
    ///
    /// # Errors
    /// If cargo or git do not answer, or a file cannot be read.
    pub fn read() -> Result<Self, String> {
        let metadata = run("cargo", &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
        let metadata: Value = serde_json::from_str(&metadata).map_err(|why| format!("cargo metadata: {why}"))?;
        let root = PathBuf::from(text(&metadata, "workspace_root"));
        let listed = run(
            "git",
            &["-C", &root.to_string_lossy(), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        )?;
        let mut files = Vec::new();
        let mut sources = Vec::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            // What was deleted but not yet committed is listed still.
            let Ok(data) = std::fs::symlink_metadata(root.join(path)) else { continue };
            files.push((path.to_owned(), data.len()));
            if data.is_file() && Source::is_read(path) {
                sources.push(Source::read(&root, path)?);
            }
        }
        let packages = metadata.get("packages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let members = packages.iter().map(|package| Member::new(package, &root)).collect();
        Ok(Self { root, files, sources, members })
    }

    /// The source at a path, if it is one that is read.
    #[must_use]
    pub fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// Whether there is such a file, or a folder with files in it.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.iter().any(|(file, _)| file == path || file.starts_with(&folder))
    }
}

impl Member {
    fn new(package: &Value, root: &Path) -> Self {
        let relative = |path: &str| {
            let path = Path::new(path);
            path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
        };
        let list = |name: &str| package.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let manifest = relative(&text(package, "manifest_path"));
        Self {
            name: short(&text(package, "name")),
            package: text(package, "name"),
            folder: manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned(),
            targets: list("targets")
                .iter()
                .map(|target| {
                    let kind = target.pointer("/kind/0").and_then(Value::as_str).unwrap_or_default();
                    (relative(&text(target, "src_path")), kind.to_owned(), text(target, "name"))
                })
                .collect(),
            dependencies: list("dependencies")
                .iter()
                .map(|dependency| {
                    let local = dependency.get("path").is_some_and(Value::is_string);
                    let name = text(dependency, "name");
                    (dependency, local, if local { short(&name) } else { name })
                })
                .map(|(dependency, local, name)| Dependency {
                    name,
                    local,
                    renamed: dependency.get("rename").is_some_and(Value::is_string),
                    dev: dependency.get("kind").and_then(Value::as_str) == Some("dev"),
                })
                .collect(),
        }
    }
}

/// `nearside-tcp` as `tcp`: as code names it.
fn short(package: &str) -> String {
    package.strip_prefix("nearside-").unwrap_or(package).replace('-', "_")
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|why| format!("{program}: {why}"))?;
    if !output.status.success() {
        return Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|why| format!("{program}: {why}"))
}
