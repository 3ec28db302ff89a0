//! What becomes of a command whose output nobody reads any more.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// 128 and the number of SIGPIPE, as a shell shows it of other programs.
const READER_GONE: i32 = 141;

#[test]
fn no_command_complains_of_a_reader_that_has_gone() {
    for line in [
        "--help",
        "serve --help",
        "serve --respond 1 --listen 127.0.0.1:65000 --check",
        "serve --respond 1 --link memif:@nobody --addr 10.0.0.2/24 --plan",
        "serve --respond 1 --link memif:@nobody --addr 10.0.0.2/24 --plan --json",
        "nginx --directives",
        "status",
        "status --json",
        "numa",
        "numa --topology",
        "numa --budget 1G",
        "numa --budget 1G --json --published rome",
        "numa --record",
        "links",
        "node record",
        "node explain",
        "lab list",
        "lab schema",
        "lab schema accept-queue",
        "completions bash",
        "man",
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearside"));
        command.args(line.split(' ')).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.is_empty(), "nearside {line}: {said}");
        // Help ends as well as ever: clap does not look.
        let codes: &[i32] = if line.ends_with("--help") { &[0, READER_GONE] } else { &[READER_GONE] };
        assert!(codes.contains(&output.status.code().unwrap_or(-1)), "nearside {line}: {}", output.status);
    }
}

/// A disk that is full is another matter.
#[test]
fn what_cannot_be_written_is_a_failure() {
    for line in ["lab list", "links", "completions bash", "man"] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("every Linux has it");
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearside"));
        let output = command.args(line.split(' ')).stdin(Stdio::null()).stdout(full).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("No space left on device"), "nearside {line}: {said}");
    }
}

/// An nginx.conf in a folder of its own, and the folder.
fn nginx_conf(name: &str, http: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("nginx.conf");
    let text = format!("pid p; error_log e;\nevents {{}}\nhttp {{ access_log off;\n{http}\n}}\n");
    std::fs::write(&path, text).expect("a file");
    (folder, path)
}

/// What `nginx -t --explain` says with these arguments, too; and its status.
fn explained(folder: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearside"));
    command.args(["nginx", "-q", "-t", "--explain", "-c", "nginx.conf", "-p"]).arg(folder).args(arguments);
    let output = command.output().expect("it starts");
    (String::from_utf8(output.stdout).expect("text"), output.status.code())
}

#[test]
fn a_configuration_is_explained_to_people_and_to_programs() {
    let (folder, path) =
        nginx_conf("explained", "server { listen 81; location / { root /r; add_header A $host; } tcp_nodelay on; }");
    let (words, _) = explained(&folder, &[]);
    assert!(words.contains("no answer is given ready: $host is of a field of the request"), "{words}");
    let (json, status) = explained(&folder, &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, &told["good"], &told["error"]), (Some(0), &true.into(), &serde_json::Value::Null));
    let place = &told["servers"][0]["places"][0];
    assert_eq!((place["label"].as_str(), place["ready"].as_bool()), (Some("/"), Some(false)));
    assert_eq!((place["kept_off"][0]["by"].as_str(), place["at"]["line"].as_u64()), (Some("$host"), Some(4)));
    assert_eq!(told["no_effect"][0]["directive"], "tcp_nodelay");

    std::fs::write(&path, "events {}\nhttp { serve; }\n").expect("a file");
    let (json, status) = explained(&folder, &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, told["good"].as_bool(), told["error"]["line"].as_u64()), (Some(1), Some(false), Some(2)));
    assert_eq!(told["error"]["text"], "unknown directive \"serve\"");
    assert_eq!(told["servers"], serde_json::Value::Null);
}

/// Tracers read where probes stand from the program's notes, and operators by which
/// names in docs/tracing.md.
#[test]
fn each_probe_that_is_promised_stands_in_the_program() {
    let program = env!("CARGO_BIN_EXE_nearside");
    let notes = Command::new("readelf").args(["-n", "-W", program]).output().expect("readelf is there");
    let notes = String::from_utf8(notes.stdout).expect("text");
    let promised = include_str!("../../docs/tracing.md").lines().filter_map(|line| line.strip_prefix("| `"));
    let mut names: Vec<_> = promised.filter_map(|line| line.split_once('`')).map(|(name, _)| name).collect();
    for name in &names {
        let mut of =
            notes.split("    Provider: ").filter(|note| note.starts_with(&format!("nearside\n    Name: {name}\n")));
        let note = of.next().unwrap_or_else(|| panic!("no {name} in {notes}"));
        // All that a tracer needs: a place, a semaphore, and each argument in a register.
        assert!(!note.contains("Location: 0x0000000000000000") && !note.contains("Base: 0x0000000000000000"), "{note}");
        assert!(!note.contains("Semaphore: 0x0000000000000000"), "{note}");
        assert!(of.next().is_none(), "{name} stands in one place");
    }
    names.sort_unstable();
    let mut all = probes::NAMES.to_vec();
    all.sort_unstable();
    assert_eq!(names, all, "docs/tracing.md has all of them");
}

/// Both files of F-Stack's nginx become a configuration that `nearside nginx`
/// takes; the file as it was is refused in nginx's words, and the way is told.
#[test]
fn the_configuration_of_f_stacks_nginx_is_imported_and_pointed_to() {
    let folder = std::env::temp_dir().join(format!("nearside-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("f-stack.conf"), "[dpdk]\nlcore_mask=3\nport_list=0\n[port0]\naddr=192.0.2.2\n")
        .expect("a file");
    let text = format!(
        "worker_processes 2;\nfstack_conf f-stack.conf;\npid {0};\nerror_log {0};\nevents {{ worker_connections 99; use \
         kqueue; }}\nhttp {{ access_log off; sendfile off; server {{ listen 80; }} }}\n",
        path("log")
    );
    std::fs::write(path("nginx.conf"), text).expect("a file");
    let run = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_nearside")).args(words).stdin(Stdio::null()).output().expect("it starts")
    };
    let imported = run(&["import", &path("f-stack.conf"), "--nginx", &path("nginx.conf")]);
    let said = String::from_utf8_lossy(&imported.stdout).into_owned();
    assert!(said.contains("\n# nearside nginx -c nginx.conf --link dpdk:") && said.contains("--silos 0-1"), "{said}");
    std::fs::write(path("ours.conf"), &said).expect("a file");
    let tested = run(&["nginx", "-t", "-c", &path("ours.conf")]);
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
    let refused = run(&["nginx", "-t", "-c", &path("nginx.conf")]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("unknown directive \"fstack_conf\""), "{why}");
    assert!(why.contains("nearside import F-STACK.CONF --nginx"), "{why}");
    std::fs::remove_dir_all(&folder).expect("gone");
}
