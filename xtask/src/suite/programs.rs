//! The programs that cargo builds of the tests, and how each is run.

use serde::Deserialize;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Programs that take longest, by the names of their targets: they start first,
/// so that none of them is left alone at the end.
const LONGEST: [&str; 11] =
    ["nginx", "pages", "seeds", "demo", "testpmd", "--doc", "takeover", "silos", "af_xdp", "bond", "simulations"];

/// The names of arguments that choose targets: with them cargo takes no `--doc`.
const TARGETS: [&str; 9] =
    ["--lib", "--bin", "--bins", "--test", "--tests", "--example", "--examples", "--bench", "--all-targets"];

/// One of what is to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The arguments of cargo that choose it.
    pub target: String,
    /// What it is called in the output.
    pub title: String,
    /// Where it lies; none where cargo runs it, which is so for examples in
    /// documentation.
    path: Option<PathBuf>,
    /// Where cargo would run it: the folder of its package.
    folder: PathBuf,
}

/// Of a line that `cargo --message-format=json` prints.
#[derive(Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
    src_path: PathBuf,
    doctest: bool,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// What was built.
#[derive(Default, Debug)]
pub struct Built {
    /// To be run, in this order.
    pub programs: Vec<Program>,
    /// The program under test, if it was built.
    pub nearside: Option<PathBuf>,
}

/// The packages in whose documentation there are examples. Asked for `--doc`, cargo has
/// rustdoc read the others, too, that say `doctest = false`.
#[derive(Default, Debug)]
struct Documented(Vec<String>);

impl Documented {
    fn take(&mut self, message: &Message) {
        let (Some(id), Some(target)) = (&message.package_id, &message.target) else { return };
        let name = package(id);
        // Others' crates are compiled, too.
        let ours = id.starts_with("path+");
        if ours && target.doctest && !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }

    fn program(self) -> Option<Program> {
        let chosen: String = self.0.iter().map(|name| format!(" -p {name}")).collect();
        (!self.0.is_empty()).then(|| Program {
            target: format!("--doc{chosen}"),
            title: "examples in the documentation".to_owned(),
            path: None,
            folder: PathBuf::from("."),
        })
    }
}

/// The command that cargo is.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds the tests that `arguments` of `cargo test` choose; none where they do
/// not build, which cargo has said.
///
/// # Errors
/// If cargo cannot be run, or prints what is not understood.
pub fn build(arguments: &[String]) -> io::Result<Option<Built>> {
    let (ours, _) = split(arguments);
    let mut command = cargo();
    command.arg("test").args(ours).args(["--no-run", "--message-format=json-render-diagnostics"]);
    let chooses = ours.iter().any(|word| TARGETS.contains(&word.as_str()));
    if !chooses {
        // Neither examples nor programs that no test runs: the lints have compiled them.
        command.arg("--tests");
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().map(BufReader::new);
    let mut built = Built::default();
    let mut documented = Documented::default();
    for line in out.into_iter().flat_map(BufRead::lines) {
        let message: Message = serde_json::from_str(&line?)?;
        if !chooses {
            documented.take(&message);
        }
        built.take(message);
    }
    if !child.wait()?.success() {
        return Ok(None);
    }
    built.programs.extend(documented.program());
    let place = |program: &Program| LONGEST.iter().position(|name| program.is(name)).unwrap_or(LONGEST.len());
    built.programs.sort_by_key(place);
    Ok(Some(built))
}

/// Arguments of cargo, and those behind `--` of the programs.
fn split(arguments: &[String]) -> (&[String], &[String]) {
    let at = arguments.iter().position(|word| word == "--");
    at.map_or((arguments, &[]), |at| (&arguments[..at], &arguments[at + 1..]))
}

/// How many tests of a program run at once (libtest).
const THREADS: &str = "RUST_TEST_THREADS";

/// Names the program under test to tests that start it: without it each of them
/// would ask cargo whether it is built.
const NEARSIDE: &str = "NEARSIDE_BINARY";

impl Built {
    /// How one of the programs is run, with so many of its tests at once.
    pub fn command(&self, program: &Program, arguments: &[String], threads: usize) -> Command {
        let mut command = program.command(arguments);
        if std::env::var_os(THREADS).is_none() {
            command.env(THREADS, threads.to_string());
        }
        if let (Some(nearside), None) = (&self.nearside, std::env::var_os(NEARSIDE)) {
            command.env(NEARSIDE, nearside);
        }
        command
    }

    fn take(&mut self, message: Message) {
        let Message { reason, package_id, manifest_path, target, profile, executable } = message;
        let (true, Some(id), Some(manifest), Some(target), Some(profile), Some(path)) =
            (reason == "compiler-artifact", package_id, manifest_path, target, profile, executable)
        else {
            return;
        };
        let kind = target.kind.first().map_or("", String::as_str);
        let chosen = match kind {
            "test" | "bin" | "example" | "bench" => format!("--{kind} {}", target.name),
            _ => "--lib".to_owned(),
        };
        if !profile.test {
            if kind == "bin" && target.name == "nearside" {
                self.nearside = Some(path);
            }
            return;
        }
        let folder = manifest.parent().map(PathBuf::from).unwrap_or_default();
        let source = target.src_path.strip_prefix(&folder).unwrap_or(&target.src_path);
        let unit = if kind == "test" { "" } else { "unittests " };
        self.programs.push(Program {
            target: format!("-p {} {chosen}", package(&id)),
            title: format!("{unit}{} of {}", source.display(), package(&id)),
            path: Some(path),
            folder,
        });
    }
}

/// A package's name, from its id: `path+file:///folder#name@version`, and where
/// the folder has its name `path+file:///name#version`.
fn package(id: &str) -> &str {
    let (folder, rest) = id.rsplit_once('#').unwrap_or(("", id));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next().unwrap_or(folder),
    }
}

impl Program {
    #[cfg(test)]
    pub(super) fn named(target: &str) -> Self {
        Self { target: target.to_owned(), title: String::new(), path: None, folder: PathBuf::new() }
    }

    fn is(&self, name: &str) -> bool {
        self.target.split(' ').any(|word| word == name)
    }

    /// How it is run.
    fn command(&self, arguments: &[String]) -> Command {
        let (ours, theirs) = split(arguments);
        match &self.path {
            Some(path) => {
                let mut command = Command::new(path);
                command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).args(theirs);
                command
            }
            None => {
                let mut command = cargo();
                command.arg("test");
                let ours = ours.iter().filter(|word| !["--workspace", "--all"].contains(&word.as_str()));
                // Whose features are named is to be among those that are chosen.
                for (owner, _) in ours.clone().filter_map(|word| word.split_once('/')) {
                    command.args(["-p", owner]);
                }
                command.args(self.target.split(' ')).args(ours).args(["--no-fail-fast", "--"]).args(theirs);
                command
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cargo prints of a library, its tests, a test and a program.
    const SAID: [&str; 5] = [
        r#"{"reason":"compiler-artifact","package_id":"path+file:///x/path/wire#nearside-wire@0.1.0","manifest_path":"/x/path/wire/Cargo.toml","target":{"kind":["lib"],"crate_types":["lib"],"name":"wire","src_path":"/x/path/wire/src/lib.rs","edition":"2024","doc":true,"doctest":true,"test":true},"profile":{"opt_level":"1","debuginfo":1,"test":false},"features":[],"filenames":[],"executable":null,"fresh":true}"#,
        r#"{"reason":"compiler-artifact","package_id":"path+file:///x/path/wire#nearside-wire@0.1.0","manifest_path":"/x/path/wire/Cargo.toml","target":{"kind":["lib"],"name":"wire","src_path":"/x/path/wire/src/lib.rs","doctest":true},"profile":{"test":true},"executable":"/x/target/wire-1"}"#,
        r#"{"reason":"compiler-artifact","package_id":"path+file:///x/testing/sim#0.1.0","manifest_path":"/x/testing/sim/Cargo.toml","target":{"kind":["test"],"name":"seeds","src_path":"/x/testing/sim/tests/seeds.rs","doctest":false},"profile":{"test":true},"executable":"/x/target/seeds-1"}"#,
        r#"{"reason":"compiler-artifact","package_id":"path+file:///x/cli#0.1.0","manifest_path":"/x/cli/Cargo.toml","target":{"kind":["bin"],"name":"nearside","src_path":"/x/cli/src/serving.rs","doctest":false},"profile":{"test":false},"executable":"/x/target/nearside"}"#,
        r#"{"reason":"build-finished","success":true}"#,
    ];

    #[test]
    fn what_was_built_is_found() {
        let mut built = Built::default();
        SAID.iter().for_each(|line| built.take(serde_json::from_str(line).unwrap()));
        let told: Vec<_> =
            built.programs.iter().map(|program| (program.target.as_str(), program.title.as_str())).collect();
        let wanted = [
            ("-p nearside-wire --lib", "unittests src/lib.rs of nearside-wire"),
            ("-p sim --test seeds", "tests/seeds.rs of sim"),
        ];
        assert_eq!(told, wanted);
        assert_eq!(built.nearside, Some("/x/target/nearside".into()));
        assert!(built.programs[1].is("seeds") && !built.programs[0].is("wire"));
    }

    #[test]
    fn examples_are_those_of_our_own_crates() {
        let theirs = SAID[0].replace("path+file:///x/path/wire#", "registry+https://x#");
        let mut documented = Documented::default();
        for said in [SAID[0], &theirs, SAID[2], SAID[0]] {
            documented.take(&serde_json::from_str(said).unwrap());
        }
        assert_eq!(documented.0, ["nearside-wire"]);
        assert_eq!(documented.program().unwrap().target, "--doc -p nearside-wire");
    }

    #[test]
    fn programs_get_what_stands_behind_the_dashes() {
        let words = ["-p", "sim", "--", "--exact"].map(str::to_owned);
        assert_eq!(split(&words), (&words[..2], &words[3..]));
        assert_eq!(split(&words[..2]), (&words[..2], &[][..]));
    }
}
