//! The house's own checks: `cargo xtask tidy` and `cargo xtask rfc`.
#![forbid(unsafe_code)]

mod rfc;
mod source;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy    check what the compiler does not: names, lengths, links, layers
       cargo xtask rfc     list the sections of RFCs cited at code and at tests";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => workspace::Workspace::read().map(|workspace| tidy::run(&workspace)),
        ["rfc"] => workspace::Workspace::read().map(|workspace| rfc::run(&workspace)),
        _ => Err(USAGE.to_owned()),
    };
    outcome.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::FAILURE
    })
}
