//! Tests that failed are run once more, each alone.
//!
//! Tests over real links wait for other processes, and a machine that others use takes the cores
//! from them for longer than any bound that is still one. A test that fails alone, too, has failed.
//! One that does not is called unstable, by name, and is to be mended: it has found a race in
//! the test or in what it tests.

use super::Failed;
use super::programs::Program;
use std::io;

/// What stands where the program itself ended, by a signal for example: that is never chance.
pub(super) const THE_PROGRAM: &str = "(the program itself)";

/// Runs those that `failed` once more by `run`, if they are at most `most`, and takes those out
/// that pass.
///
/// # Returns
/// Those that pass.
///
/// # Errors
/// If they cannot be run.
pub(super) fn those_that_failed(
    most: usize,
    failed: &mut Vec<Failed>,
    programs: &[Program],
    mut run: impl FnMut(&Program, &str) -> io::Result<bool>,
) -> io::Result<Vec<Failed>> {
    if failed.len() > most {
        return Ok(Vec::new());
    }
    let mut unstable = Vec::new();
    let mut stay = Vec::new();
    for failure in failed.drain(..) {
        let (target, name) = &failure;
        let program = programs.iter().find(|program| program.target == *target);
        let passes = match program {
            Some(program) if name != THE_PROGRAM => {
                println!("== once more, alone: cargo test {target}: {name}");
                run(program, name)?
            }
            _ => false,
        };
        if passes { &mut unstable } else { &mut stay }.push(failure);
    }
    *failed = stay;
    Ok(unstable)
}

/// What is said of them.
pub(super) fn told(unstable: &[Failed]) -> String {
    if unstable.is_empty() {
        return String::new();
    }
    let lines: String = unstable.iter().map(|(target, name)| format!("cargo test {target}: {name}\n")).collect();
    format!("== unstable: failed among the others, passed alone; to be mended\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(names: &[&str]) -> Vec<Failed> {
        names.iter().map(|name| ("-p sim --test seeds".to_owned(), (*name).to_owned())).collect()
    }

    #[test]
    fn few_are_run_again_and_who_passes_is_unstable() {
        let programs = [Program::named("-p sim --test seeds")];
        let mut failed = failures(&["chance", "fault", THE_PROGRAM]);
        failed.push(("-p gone --lib".to_owned(), "chance".to_owned()));
        let mut ran = Vec::new();
        let unstable = those_that_failed(4, &mut failed, &programs, |_, name| {
            ran.push(name.to_owned());
            Ok(name == "chance")
        });
        let unstable = unstable.unwrap();
        assert_eq!(ran, ["chance", "fault"]);
        assert_eq!(unstable, failures(&["chance"]));
        assert_eq!(failed[..2], failures(&["fault", THE_PROGRAM]));
        assert_eq!(failed[2].0, "-p gone --lib", "whose program is not known has failed");
        assert!(told(&unstable).ends_with("\ncargo test -p sim --test seeds: chance\n"));
        assert!(told(&[]).is_empty());
    }

    #[test]
    fn where_many_fail_it_is_no_chance() {
        let mut failed = failures(&["a", "b", "c"]);
        let unstable = those_that_failed(2, &mut failed, &[], |_, _| panic!("none is to be run"));
        assert!(unstable.unwrap().is_empty());
        assert_eq!(failed.len(), 3);
    }
}
