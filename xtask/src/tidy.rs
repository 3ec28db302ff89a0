//! Taste as a test: what a reviewer would otherwise say again and again.
//!
//! Every rule is one function from the workspace to complaints, and every
//! complaint says what to do.

mod calls;
mod documents;
mod exceptions;
mod files;
mod interface;
mod layers;
mod manifests;
mod modules;
mod nouns;
mod roots;
mod unused;
mod words;

pub use calls::print as print_circles;

use crate::workspace::Workspace;
use std::fmt;
use std::process::ExitCode;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Complaint {
    path: String,
    line: usize,
    text: String,
}

impl Complaint {
    fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }

    fn file(path: &str, text: impl Into<String>) -> Self {
        Self::at(path, 0, text)
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

type Rule = fn(&Workspace) -> Vec<Complaint>;

const RULES: [(&str, Rule); 27] = [
    ("banned names and words", words::banned),
    ("what lies below a root", roots::left),
    ("line length", words::long_lines),
    ("function length", files::long_functions),
    ("file length", files::long_files),
    ("dead files", files::dead),
    ("large files", files::large),
    ("crates without unsafe code", files::forbids_unsafe),
    ("circles between modules", modules::circles),
    ("circles between files by calls", calls::circles),
    ("methods of interfaces", interface::methods),
    ("what is public and not used", unused::unused),
    ("one noun, one type", nouns::twice),
    ("documentation of what is public", manifests::docs_are_asked_for),
    ("comments on workspace members", manifests::members_have_comments),
    ("names of crates", manifests::crates_have_one_name),
    ("callers of crates", manifests::crates_have_callers),
    ("examples in documentation", manifests::examples_are_run),
    ("tests beside the code", manifests::unit_tests_are_run),
    ("direction of dependencies", layers::layers),
    ("reasons for dependencies", manifests::dependencies_have_reasons),
    ("lints of crates", manifests::lints_are_shared),
    ("links in documents", documents::links),
    ("the first document", documents::first),
    ("rows of tables", documents::rows),
    ("promises with commands", documents::promises),
    ("fenced commands", documents::commands),
];

/// Applies all rules and prints the complaints.
#[must_use]
pub fn run(workspace: &Workspace) -> ExitCode {
    let mut complaints: Vec<Complaint> = RULES.iter().flat_map(|(_, rule)| rule(workspace)).collect();
    complaints.sort();
    complaints.dedup();
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    interface::print(workspace);
    let (files, rules) = (workspace.files.len(), RULES.len());
    if complaints.is_empty() {
        println!("tidy: {rules} rules over {files} files, nothing to complain of");
        return ExitCode::SUCCESS;
    }
    eprintln!("tidy: {} complaints", complaints.len());
    ExitCode::FAILURE
}
