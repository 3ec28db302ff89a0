//! Which processes' pages are read.

use super::program::Program;
use core::iter::successors;
use cpu::process_stat;
use page::{Reader, living_of_user};
use say::Failure;
use std::path::PathBuf;

/// Whose pages are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Those of all running processes of this user.
    All,
    /// The page of this path.
    Page(PathBuf),
    /// That of a process: of one below it too (a server is a child of the process that was started),
    /// and of the program on our stack that it is a process of.
    Process(u32),
}

impl Whose {
    /// The pages.
    ///
    /// # Errors
    /// If the page named is none, or the process has none.
    pub fn readers(&self) -> Result<Vec<Reader>, Failure> {
        match self {
            Self::All => Ok(living_of_user()?),
            Self::Page(path) => Ok(vec![Reader::open(path)?]),
            Self::Process(process) => {
                let mut readers = living_of_user()?;
                readers.retain(|reader| is_of(reader, *process));
                if readers.is_empty() {
                    let why = own_number(*process).map_or_else(
                        || "no page of this user's processes is of it, or of a process below it".to_owned(),
                        |own| {
                            format!(
                                "it is process {own} in a PID namespace of its own, where it is to be asked by that \
                                 number: nsenter -t {process} -m -p nearside status {own}"
                            )
                        },
                    );
                    return Err(format!("process {process} publishes no statistics: {why}").into());
                }
                Ok(readers)
            }
        }
    }
}

/// Whether a page is a process's.
fn is_of(reader: &Reader, process: u32) -> bool {
    let mut those = vec![reader.pid()];
    if let (Some(program), Ok(snapshot)) = (Program::of(reader), reader.snapshot()) {
        those.extend(snapshot.silos.iter().filter_map(|seat| program.process(seat)));
    }
    those.into_iter().any(|page| successors(Some(page), |one| parent(*one)).any(|one| one == process))
}

/// The parent of a process, if it has one.
fn parent(process: u32) -> Option<u32> {
    process_stat::parent_of(process).filter(|parent| *parent != 0)
}

/// The number that a process has in its own PID namespace, where that is another than this one's: pages tell it.
fn own_number(process: u32) -> Option<u32> {
    innermost(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

/// The last of several numbers of a process, by its status (`NSpid` in proc_pid_status(5)).
fn innermost(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let (_here, inner) = numbers.trim().split_once(char::is_whitespace)?;
    inner.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_followed_up_to_the_first_process() {
        let own = std::process::id();
        let up: Vec<u32> = successors(Some(own), |one| parent(*one)).collect();
        assert_eq!(up.first(), Some(&own));
        assert!(up.len() > 1 && up.contains(&std::os::unix::process::parent_id()));
        assert_eq!(parent(u32::MAX), None);
    }

    #[test]
    fn a_process_without_a_page_is_told_of() {
        let told = Whose::Process(u32::MAX).readers().unwrap_err().to_string();
        assert!(told.contains("publishes no statistics"), "{told}");
    }

    #[test]
    fn a_process_of_another_namespace_has_a_number_there() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t4711\t1\n"), Some(1));
        assert_eq!(innermost("NSpid:\t4711\n"), None, "it has one");
        assert_eq!(own_number(std::process::id()), None);
    }
}
