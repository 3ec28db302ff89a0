//! `cargo xtask audit`: what is known of the dependencies' holes, by the
//! advisories of RustSec (<https://rustsec.org>). It needs a network, or a copy
//! of their repository.

use semver::{Version, VersionReq};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const REPOSITORY: &str = "https://github.com/rustsec/advisory-db";
const LOCK: &str = "Cargo.lock";

/// Advisories that are none here, and why.
const IGNORED: [(&str, &str); 0] = [];

/// What stands at the head of an advisory.
#[derive(Deserialize, Debug)]
struct Advisory {
    advisory: About,
    #[serde(default)]
    versions: Versions,
}

#[derive(Deserialize, Debug)]
struct About {
    id: String,
    package: String,
    date: String,
    /// It was a mistake.
    withdrawn: Option<String>,
    /// Not a hole: `unmaintained`, `notice`, or `unsound`.
    informational: Option<String>,
    title: Option<String>,
}

#[derive(Deserialize, Debug, Default)]
struct Versions {
    #[serde(default)]
    patched: Vec<VersionReq>,
    #[serde(default)]
    unaffected: Vec<VersionReq>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: Version,
    source: Option<String>,
}

/// Compares the lock file with the advisories at `from`, a repository that git
/// can clone. A hole is a failure, and so is what makes safe code unsound; what
/// is kept no more is said.
///
/// # Errors
/// If there are no advisories to compare with.
pub fn run(root: &Path, from: Option<&str>) -> Result<ExitCode, String> {
    let from = from.unwrap_or(REPOSITORY);
    let folder = root.join("target/advisories");
    let stand = fetch(from, &folder)?;
    let lock = std::fs::read_to_string(root.join(LOCK)).map_err(|why| format!("{LOCK}: {why}"))?;
    let lock: Lock = toml::from_str(&lock).map_err(|why| format!("{LOCK}: {why}"))?;
    let mut packages: BTreeMap<String, Vec<Version>> = BTreeMap::new();
    for package in lock.package.into_iter().filter(|package| package.source.is_some()) {
        packages.entry(package.name).or_default().push(package.version);
    }
    let (mut read, mut bad) = (0, 0);
    for (name, versions) in &packages {
        for advisory in advisories(&folder.join("crates").join(name))? {
            read += 1;
            for version in versions.iter().filter(|version| advisory.is_about(name, version)) {
                bad += usize::from(advisory.is_hole());
                println!("{}", advisory.told(version));
            }
        }
    }
    let count: usize = packages.values().map(Vec::len).sum();
    println!("audit: {count} packages, {read} advisories about any version of them ({stand}); {bad} holes");
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Brings the newest advisories to `folder`; says of when they are.
fn fetch(from: &str, folder: &Path) -> Result<String, String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(folder).args(arguments).output();
        let output = output.map_err(|why| format!("git: {why}"))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    };
    std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let fetched = git(&["init", "--quiet"])
        .and_then(|_| git(&["fetch", "--quiet", "--depth", "1", from, "HEAD"]))
        .and_then(|_| git(&["checkout", "--quiet", "--force", "FETCH_HEAD"]));
    let stand = || git(&["log", "-1", "--format=of %cs"]);
    match (fetched, stand()) {
        (Ok(_), Ok(stand)) => Ok(stand),
        (Err(why), Ok(stand)) => {
            eprintln!("audit: the advisories cannot be fetched from {from}: {why}");
            eprintln!("audit: going on with those that were fetched before, {stand}");
            Ok(stand)
        }
        (fetched, Err(_)) => {
            let why = fetched.err().unwrap_or_default();
            Err(format!("audit: the advisories cannot be fetched from {from}: {why}\naudit: NOTHING WAS COMPARED"))
        }
    }
}

/// The advisories about a crate.
fn advisories(folder: &Path) -> Result<Vec<Advisory>, String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).map_err(|why| why.to_string())?;
        Advisory::parse(&text)
    };
    files.iter().map(|file| read(file).map_err(|why| format!("{}: {why}", file.display()))).collect()
}

impl Advisory {
    /// An advisory is Markdown that begins with a fenced block of TOML.
    fn parse(text: &str) -> Result<Self, String> {
        let (_, rest) = text.split_once("```toml\n").ok_or("no head")?;
        let (head, body) = rest.split_once("\n```").ok_or("the head has no end")?;
        let mut this: Self = toml::from_str(head).map_err(|why| why.to_string())?;
        this.advisory.title = body.lines().find_map(|line| line.strip_prefix("# ")).map(str::to_owned);
        Ok(this)
    }

    fn is_about(&self, name: &str, version: &Version) -> bool {
        let Self { advisory: About { id, package, withdrawn, .. }, versions: Versions { patched, unaffected } } = self;
        package == name
            && withdrawn.is_none()
            && !IGNORED.iter().any(|(ignored, _)| ignored == id)
            && !patched.iter().chain(unaffected).any(|good| good.matches(version))
    }

    fn is_hole(&self) -> bool {
        self.advisory.informational.as_deref().is_none_or(|kind| kind == "unsound")
    }

    fn told(&self, version: &Version) -> String {
        let About { id, package, date, informational, title, .. } = &self.advisory;
        let kind = informational.as_deref().unwrap_or("HOLE");
        let title = title.as_deref().unwrap_or_default();
        format!("{kind}: {package} {version}: {id} of {date}: {title}; https://rustsec.org/advisories/{id}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advisory(more: &str, versions: &str) -> Advisory {
        let head = "id = \"RUSTSEC-2026-0001\"\npackage = \"a\"\ndate = \"2026-01-01\"\ncvss = \"x\"";
        let text = format!("```toml\n[advisory]\n{head}\n{more}\n[versions]\n{versions}\n```\n\n# A hole\n\nText.\n");
        Advisory::parse(&text).unwrap()
    }

    #[test]
    fn versions_decide_who_is_affected() {
        let affected = |advisory: &Advisory, version: &str| advisory.is_about("a", &version.parse().unwrap());
        let one = advisory("", "patched = [\">= 1.2.3, < 2.0.0\", \">= 2.1.0\"]\nunaffected = [\"< 1.0.0\"]");
        for (version, wanted) in
            [("0.9.0", false), ("1.2.2", true), ("1.2.3", false), ("2.0.0", true), ("2.1.0", false)]
        {
            assert_eq!(affected(&one, version), wanted, "{version}");
        }
        assert!(!one.is_about("b", &Version::new(1, 0, 0)));
        assert!(affected(&advisory("", "patched = []"), "9.9.9"));
        assert!(!affected(&advisory("withdrawn = \"2026-02-01\"", "patched = []"), "9.9.9"));
    }

    #[test]
    fn what_is_kept_no_more_is_no_hole() {
        assert!(advisory("", "").is_hole() && advisory("informational = \"unsound\"", "").is_hole());
        assert!(!advisory("informational = \"unmaintained\"", "").is_hole());
        let told = advisory("", "").told(&Version::new(1, 0, 0));
        assert!(told.starts_with("HOLE: a 1.0.0: RUSTSEC-2026-0001 of 2026-01-01: A hole; https://"), "{told}");
    }
}
