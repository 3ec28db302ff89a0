//! The house's own checks: of what the compiler does not look at, of
//! dependencies, and the run of all tests.
#![forbid(unsafe_code)]

mod audit;
mod busy;
mod code;
mod deny;
mod docs;
mod markdown;
mod rfc;
mod source;
mod suite;
mod tidy;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy    check what the compiler does not: names, lengths, links, layers
       cargo xtask circles [FOLDER]
                           show which files of crates below a folder call each other in circles
       cargo xtask deny    check licences, sources, bans and versions of dependencies
       cargo xtask audit [REPOSITORY]
                           compare dependencies with the advisories of RustSec; needs a network
       cargo xtask docs    make a site of the documents in out/docs
       cargo xtask rfc     list the sections of RFCs cited at code and at tests
       cargo xtask suite [--rounds N] [--busy] [--one-core] [--again M] [--limit MINUTES]
                         [-- ARGUMENTS OF cargo test]
                           run the tests to the end, and say what failed: N times, beside a program
                           that takes half of each core in bursts, on one core; up to M that failed
                           run once more, each alone, and are called unstable if they pass;
                           a program that has not ended after MINUTES (45) is killed
       cargo xtask busy    take half of each core in bursts, until stopped";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => workspace::Workspace::read().map(|workspace| tidy::run(&workspace)),
        ["circles", folder @ ..] if folder.len() < 2 => workspace::Workspace::read().map(|workspace| {
            tidy::print_circles(&workspace, folder.first().copied().unwrap_or_default());
            ExitCode::SUCCESS
        }),
        ["deny"] => deny::run(),
        ["audit"] => audit::run(&root(), None),
        ["audit", from] => audit::run(&root(), Some(*from)),
        ["suite", plan @ ..] => suite::Plan::parse(plan).and_then(|plan| suite::run(&plan)),
        ["busy"] => be_busy(),
        ["docs"] => workspace::Workspace::read().and_then(|workspace| docs::run(&workspace)),
        ["rfc"] => workspace::Workspace::read().map(|workspace| rfc::run(&workspace)),
        _ => Err(USAGE.to_owned()),
    };
    outcome.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::FAILURE
    })
}

/// The folder of the root manifest, which is above this crate's.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn be_busy() -> Result<ExitCode, String> {
    let _busy = busy::Busy::start().map_err(|why| format!("busy: {why}"))?;
    loop {
        std::thread::park();
    }
}
