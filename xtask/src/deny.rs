//! `cargo xtask deny`: what may come in with dependencies. Their licences, where
//! they come from, which are not wanted, and which come in two versions.
//!
//! It needs no network: everything that is built was downloaded to be built.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

/// Licences under which code may come in, by their SPDX names: those that ask
/// for no more than to be named. One with a choice needs one of these.
const LICENCES: [&str; 7] = ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Zlib"];

/// Where all of it comes from. Cargo writes this for every mirror of it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What is not wanted, even as a dependency's dependency, and why.
const BANNED: [(&str, &str); 8] = [
    ("async-std", "silos and workers are the runtime"),
    ("smol", "silos and workers are the runtime"),
    ("tokio", "silos and workers are the runtime"),
    ("lazy_static", "std::sync::LazyLock does it"),
    ("native-tls", "no parser of what peers send is to be in C"),
    ("openssl-sys", "no parser of what peers send is to be in C"),
    ("libpcap-sys", "captures are written by link::capture"),
    ("nix", "rustix has what we call, without raw descriptors"),
];

/// Crates that may be there in two versions, and why. The second goes as soon
/// as nobody asks for the older one.
const TWICE: [(&str, &str); 3] = [
    ("getrandom", "ring names 0.2, and is not built: rustls-webpki has it for who asks for it"),
    ("signal-hook", "crossterm 0.29 is on 0.3 still"),
    ("syn", "some derive macros are on 2 still; nothing of it is in the program"),
];

/// A package that is built.
#[derive(Clone, Debug)]
struct Package {
    name: String,
    version: String,
    /// `None` without one.
    licence: Option<String>,
    /// `None` for crates of this workspace.
    source: Option<String>,
}

/// Checks all packages that this machine builds, with every feature.
///
/// # Errors
/// If cargo does not tell.
pub fn run() -> Result<ExitCode, String> {
    let packages = packages()?;
    let complaints = complaints(&packages);
    complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
    if complaints.is_empty() {
        println!("deny: {} packages, nothing to complain of", packages.len());
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("deny: {} complaints; the lists are in xtask/src/deny.rs", complaints.len());
    Ok(ExitCode::FAILURE)
}

fn packages() -> Result<Vec<Package>, String> {
    let rustc = answer(Command::new("rustc").arg("-vV"))?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--locked", "--format-version", "1", "--all-features", "--filter-platform", host]);
    let metadata: Value = serde_json::from_str(&answer(&mut cargo)?).map_err(|why| format!("cargo metadata: {why}"))?;
    let list = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let text = |package: &Value, name: &str| package[name].as_str().map(str::to_owned);
    let package = |package| {
        let (name, version) = (text(package, "name")?, text(package, "version")?);
        Some(Package { name, version, licence: text(package, "license"), source: text(package, "source") })
    };
    list.iter().map(|one| package(one).ok_or_else(|| format!("a package without a name: {one}"))).collect()
}

fn answer(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|why| format!("{command:?}: {why}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|why| format!("{command:?}: {why}"))
}

fn complaints(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Package { name, version, licence, source } in packages {
        versions.entry(name).or_default().push(version);
        match licence.as_deref().map(|text| permits(text, &LICENCES)) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => found.push(format!("{name} {version}: its licence {licence:?} is none of {LICENCES:?}")),
            Some(Err(why)) => found.push(format!("{name} {version}: its licence {licence:?} cannot be read: {why}")),
            None => found.push(format!("{name} {version}: its manifest names no licence")),
        }
        if let Some(source) = source.as_deref().filter(|source| *source != REGISTRY) {
            found.push(format!("{name} {version}: it comes from {source}, and not from crates.io"));
        }
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| banned == name) {
            found.push(format!("{name} {version}: it is not wanted, because {why}"));
        }
    }
    for (name, versions) in &versions {
        if versions.len() > 1 && !TWICE.iter().any(|(twice, _)| twice == name) {
            found.push(format!("{name}: it is there in the versions {}", versions.join(" and ")));
        }
    }
    for (name, _) in TWICE {
        if versions.get(name).is_none_or(|versions| versions.len() < 2) {
            found.push(format!("{name}: it is there in one version, and listed as if in two"));
        }
    }
    found.sort();
    found
}

/// Whether one may have what is under this SPDX expression with no licences but
/// these. Old manifests write `/` for `OR`.
fn permits(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut expression = Expression { words: &words, allowed };
    let permitted = expression.any()?;
    match expression.words {
        [] => Ok(permitted),
        [word, ..] => Err(format!("{word} is not expected there")),
    }
}

/// What is left of an expression: SPDX specification, annex on licence
/// expressions. `AND` binds before `OR`, and `WITH` before both.
struct Expression<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl Expression<'_> {
    fn any(&mut self) -> Result<bool, String> {
        let mut permitted = self.all()?;
        while self.takes("OR") {
            permitted |= self.all()?;
        }
        Ok(permitted)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut permitted = self.one()?;
        while self.takes("AND") {
            permitted &= self.one()?;
        }
        Ok(permitted)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.takes("(") {
            let permitted = self.any()?;
            return if self.takes(")") { Ok(permitted) } else { Err("a bracket stays open".to_owned()) };
        }
        let Some((name, rest)) =
            self.words.split_first().filter(|(word, _)| !["OR", "AND", "WITH", ")"].contains(word))
        else {
            return Err("a licence is missing".to_owned());
        };
        self.words = rest;
        if self.takes("WITH") {
            // An exception only permits more.
            self.words = self.words.split_first().ok_or("an exception is missing")?.1;
        }
        Ok(self.allowed.contains(name))
    }

    fn takes(&mut self, wanted: &str) -> bool {
        match self.words.split_first() {
            Some((word, rest)) if *word == wanted => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_read_as_spdx_says() {
        let allowed = ["MIT", "Apache-2.0"];
        for (text, permitted) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("GPL-2.0-only OR MIT", true),
            ("GPL-2.0-only AND MIT", false),
            ("MIT/GPL-2.0-only", true),
            ("GPL-2.0-only OR MIT AND Apache-2.0", true),
            ("(GPL-2.0-only OR MIT) AND Unicode-3.0", false),
            ("MIT AND (BSL-1.0 OR Apache-2.0)", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0-only", true),
        ] {
            assert_eq!(permits(text, &allowed), Ok(permitted), "{text}");
        }
        for wrong in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "AND MIT", "MIT WITH"] {
            assert!(permits(wrong, &allowed).is_err(), "{wrong}");
        }
    }

    fn package(name: &str, version: &str) -> Package {
        let (licence, source) = (Some("MIT".to_owned()), Some(REGISTRY.to_owned()));
        Package { name: name.to_owned(), version: version.to_owned(), licence, source }
    }

    /// The packages, with those that may be there twice.
    fn with(more: &[Package]) -> Vec<String> {
        let twice = TWICE.iter().flat_map(|(name, _)| ["1.0.0", "2.0.0"].map(|version| package(name, version)));
        complaints(&twice.chain(more.iter().cloned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_may_not_come_in_is_named() {
        assert_eq!(with(&[package("good", "1.0.0")]), Vec::<String>::new());
        let said = |package: Package| with(&[package]).join("\n");
        let licence = Package { licence: Some("AGPL-3.0-only".into()), ..package("a", "1.0.0") };
        assert!(said(licence).contains("AGPL-3.0-only"));
        assert!(said(Package { licence: None, ..package("a", "1.0.0") }).contains("names no licence"));
        let source = Package { source: Some("git+https://example.org/a".into()), ..package("a", "1.0.0") };
        assert!(said(source).contains("not from crates.io"));
        assert!(said(package("tokio", "1.0.0")).contains("not wanted"));
        assert!(with(&["1.0.0", "2.0.0"].map(|version| package("a", version))).join("").contains("1.0.0 and 2.0.0"));
        assert!(complaints(&[package("syn", "2.0.0")]).join("\n").contains("listed as if in two"));
    }
}
