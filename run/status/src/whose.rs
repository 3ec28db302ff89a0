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
                    let why = "no page of this user's processes is of it, or of a process below it";
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
}
