//! What `make` runs: installing, and a build with little to read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name)
}

/// A folder of this test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it can be read").path()) {
        if entry.is_dir() { found.extend(files(&entry)) } else { found.push(entry) }
    }
    found
}

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn what_is_installed_is_whole_and_is_removed_again() {
    let to = folder("install");
    let install = |argument: &str| {
        run(Command::new(script("install.sh")).arg(argument).env("DESTDIR", &to).env("PREFIX", "/opt/near"))
    };
    // A second time over the first.
    for _ in 0..2 {
        install(env!("CARGO_BIN_EXE_nearside"));
    }
    let program = to.join("opt/near/bin/nearside");
    // By either of the two.
    for words in [&["nginx", "-v"][..], &["--version"], &["load", "--help"], &["help", "serve"]] {
        let said = run(Command::new(&program).args(words));
        let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        assert!(text.contains("nearside"), "{words:?}: {text}");
    }
    // What serves does so alone.
    fs::remove_file(to.join("opt/near/lib/nearside/nearside-tools")).expect("it is there");
    run(Command::new(&program).args(["serve", "--respond", "10", "--listen", "127.0.0.1:0", "--check"]));
    let alone = Command::new(&program).args(["load", "http://localhost/"]).output().expect("it starts");
    let why = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(!alone.status.success() && why.contains("load is a command of nearside-tools: there is no "), "{why}");
    let help = run(Command::new(&program).arg("--help"));
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("  serve ") && !help.contains("  load "), "{help}");
    install(env!("CARGO_BIN_EXE_nearside"));
    for (file, words) in [
        ("share/man/man1/nearside.1", "nearside"),
        ("share/man/man1/nearside-serve.1", "listen"),
        ("share/bash-completion/completions/nearside", "--cache-size"),
        ("share/zsh/site-functions/_nearside", "#compdef nearside"),
        ("share/fish/vendor_completions.d/nearside.fish", "complete -c nearside"),
        ("lib/systemd/system/nearside.service", "ExecStart=/opt/near/bin/nearside serve"),
        ("lib/systemd/system/nearside-link@.service", "ExecStart=/opt/near/bin/nearside serve"),
        ("lib/systemd/system/nearside.socket", "ListenStream"),
        ("share/nearside/alerts/nearside.rules.yml", "alert:"),
        ("share/nearside/dashboard/nearside.json", "\"panels\""),
        ("share/doc/nearside/examples/alias.conf", "[Install]\nAlias=nginx.service\n"),
        ("share/doc/nearside/examples/metrics.conf", "[Service]\nEnvironment=NEARSIDE_METRICS="),
    ] {
        let text = fs::read_to_string(to.join("opt/near").join(file)).expect(file);
        assert!(text.contains(words), "{file}");
    }
    let schema = run(Command::new(&program).args(["serve", "--site-schema"])).stdout;
    let installed = fs::read(to.join("opt/near/share/nearside/site.schema.json")).expect("the schema");
    assert!(installed == schema, "the schema is not this program's");
    let lost = lost_links(&to.join("opt/near/share/doc/nearside"));
    assert!(lost.is_empty(), "documents name others that are not installed: {lost:?}");
    let foreign = to.join("opt/near/bin/other");
    fs::write(&foreign, "").expect("a file");
    install("--remove");
    assert_eq!(files(&to), [foreign], "what is not ours stays");
}

/// Links from one document to another that is not there. Those into the sources lead
/// nowhere from an installation, and the README of a package says so.
fn lost_links(documents: &Path) -> Vec<String> {
    let of = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a document");
        let folder = path.parent().expect("a folder");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let lost = targets.filter(|target| target.ends_with(".md") && !target.contains("://"));
        lost.filter(|target| !folder.join(target).exists()).map(str::to_owned).collect::<Vec<_>>()
    };
    let all: Vec<PathBuf> =
        files(documents).into_iter().filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    assert!(all.len() > 15, "documents: {all:?}");
    all.iter().flat_map(of).collect()
}

/// A build that draws its bar 300 times, warns, and ends as asked.
const CARGO: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "build --profile release --quiet" ] || exit 9
n=0
while [ $n -lt 300 ]; do n=$((n + 1)); printf '    Building [=====>      ] %d/300: tcp, stack\r' $n >&2; done
printf '\033[Kwarning: unused\n\n --> src/lib.rs:1\n' >&2
exit "$STATUS"
"#;

#[test]
fn a_build_says_little_but_what_is_wrong_whole() {
    let cargo = folder("build").join("cargo");
    fs::write(&cargo, CARGO).expect("a file");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("its mode");
    for status in ["0", "101"] {
        let build = Command::new(script("build.sh")).env("CARGO", &cargo).env("STATUS", status).output();
        let build = build.expect("it starts");
        let said = String::from_utf8_lossy(&build.stderr).into_owned();
        assert_eq!(build.status.code().map(|code| code.to_string()).as_deref(), Some(status), "{said}");
        assert!(said.contains("warning: unused\n\n --> src/lib.rs:1\n"), "{said}");
        assert_eq!(said.contains("== built in"), status == "0", "{said}");
        // The warning's three lines, how long it took, and a line for each
        // twenty seconds, should this machine be that slow.
        assert!(said.lines().filter(|line| !line.contains("300")).count() <= 4, "{said}");
    }
}
