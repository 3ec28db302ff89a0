//! What stops a start, of one run of `-t`: grouped and counted, with what could stand
//! in its place.

use nginx::Message;
use serde::Serialize;
use std::path::Path;

/// Places that are told of one kind, at most.
const PLACES_MAX: usize = 8;

/// One kind of reasons: those of one text.
#[derive(Serialize)]
pub struct Kind<'a> {
    /// What is the matter.
    pub text: &'a str,
    /// How often.
    pub count: usize,
    /// Where it stands, where that is known.
    pub at: Vec<At<'a>>,
    /// What could stand in its place, if that is known.
    pub instead: Option<&'static str>,
}

/// Where something stands.
#[derive(Serialize)]
pub struct At<'a> {
    /// The file; none is the command line.
    pub file: Option<&'a Path>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// The kinds, in the order in which the first of each was found.
pub fn kinds(reasons: &[Message]) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for reason in reasons {
        let at = reason.place.as_ref().map(|(file, line)| {
            let file = file.as_deref();
            At { file, line: file.map(|_| *line) }
        });
        match kinds.iter_mut().find(|kind| kind.text == reason.text) {
            Some(kind) => {
                kind.count += 1;
                kind.at.extend(at);
            }
            None => {
                let at = at.into_iter().collect();
                kinds.push(Kind { text: &reason.text, count: 1, at, instead: reason.instead() });
            }
        }
    }
    kinds
}

/// Tells all of them behind the first, which nginx tells, too.
pub fn tell(reasons: &[Message]) {
    let kinds = kinds(reasons);
    if let ([kind], 1) = (kinds.as_slice(), reasons.len()) {
        if let Some(instead) = kind.instead {
            say::eprintln!("nginx:   in its place: {instead}");
        }
        return;
    }
    say::eprintln!("nginx: {} reasons stop a start, {} kinds of them:", reasons.len(), kinds.len());
    for Kind { text, count, at, instead } in &kinds {
        let told: Vec<String> = at.iter().take(PLACES_MAX).map(At::told).collect();
        let more = at.len().saturating_sub(PLACES_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let places = if told.is_empty() { String::new() } else { format!(" in {}{more}", told.join(" ")) };
        say::eprintln!("nginx:   {count} x {text}{places}");
        if let Some(instead) = instead {
            say::eprintln!("nginx:     in its place: {instead}");
        }
    }
}

impl At<'_> {
    fn told(&self) -> String {
        match (self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line}", file.display()),
            _ => "command line".to_owned(),
        }
    }
}
