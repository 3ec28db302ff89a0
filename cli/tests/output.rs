//! What becomes of a command whose output nobody reads any more.

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
        "status",
        "status --json",
        "numa",
        "numa --topology",
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
