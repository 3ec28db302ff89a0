//! The process that serves gives its rights up, for good: whom it is, what it
//! may open, which system calls it makes.
//!
//! | module | for |
//! | --- | --- |
//! | `user` | whom it becomes |
//! | `landlock` | which files it reaches |
//! | `filter`, `calls` | which system calls each kind of thread makes |
//! | `threads` | all threads do it |

mod calls;
mod filter;
mod landlock;
mod threads;
mod user;

pub use user::{Identity, USUAL};

use core::ffi::c_long;
use landlock::{Allowed, Ruleset};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::path::{Component, Path, PathBuf};
use threads::Sealing;

/// What is given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confinement {
    /// Whom the process becomes; `None`: stays who it is, and gives up what
    /// capabilities it has.
    pub identity: Option<Identity>,
    /// Whether files and system calls are restricted: not where drivers of others
    /// run, of which nobody knows what they do.
    pub restricts: bool,
    /// Whether there are silos over links, and no workers over kernel sockets.
    pub silos: bool,
}

/// What passing requests on to upstreams takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Upstreams<'a> {
    /// There are any: they are connected to.
    pub connects: bool,
    /// Some are at abstract Unix sockets.
    pub abstract_sockets: bool,
    /// Folders in which files are made, written and removed.
    pub written: &'a [PathBuf],
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Confined {
    /// What this kernel does not have.
    pub lacking: Vec<String>,
    /// The folders below which files can be read, if that is restricted.
    pub folders: Option<Vec<PathBuf>>,
}

impl Confinement {
    /// Gives rights up in all threads. `roots` are the folders that are served, and
    /// if it `lists`, told of.
    ///
    /// # Errors
    /// A sentence for the user: the process must not go on then.
    pub fn seal(self, roots: &[PathBuf], lists: bool, upstreams: &Upstreams<'_>) -> Result<Confined, String> {
        let mut confined = Confined::default();
        // What could be had of it is in no file and no log.
        let no_core = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        no_core.map_err(|why| format!("cannot give core dumps up: {why}"))?;
        if self.silos {
            // Queues that come back have memory that is counted. Refused
            // without the right to: what there is has to do.
            let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
        }
        let mut sealing = Sealing { identity: self.identity, ruleset: None, filters: Vec::new(), silos: self.silos };
        if self.restricts {
            let folders = folders(roots);
            let own = PathBuf::from(format!("/proc/{}", std::process::id()));
            let Upstreams { connects, abstract_sockets, .. } = *upstreams;
            let allowed = Allowed { lists, connects, abstract_sockets };
            match landlock::version() {
                Ok(_) => {
                    let read = folders.iter().map(PathBuf::as_path).chain([&*own]);
                    let ruleset = Ruleset::reading(read, allowed)?;
                    ruleset.writing(upstreams.written.iter().map(PathBuf::as_path))?;
                    sealing.ruleset = Some(ruleset);
                    confined.folders = Some(folders);
                    confined.lacking.extend(landlock::open_scopes().map(str::to_owned));
                }
                Err(why) => confined.lacking.push(why),
            }
            match (filter::available(), Sealing::filters(upstreams.connects)) {
                (Ok(()), Some(filters)) => sealing.filters = filters,
                (Err(why), _) => confined.lacking.push(why),
                (Ok(()), None) => {}
            }
        }
        threads::seal_all(sealing)?;
        Ok(confined)
    }
}

/// What of this is not to be had here, for people.
pub fn lacking() -> Vec<String> {
    let scopes = landlock::open_scopes().map(str::to_owned).map_or(Ok(()), Err);
    [landlock::version().map(drop), scopes, filter::available()].into_iter().filter_map(Result::err).collect()
}

/// The folders below which everything can be read that is served: the one that
/// holds each root, which may be a link that leads elsewhere tomorrow, and the
/// one that holds what it leads to.
fn folders(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for root in roots {
        let _asking = helper::waits::on(root);
        let named = std::path::absolute(root).ok();
        let real = std::fs::canonicalize(root).ok();
        for path in [named, real].into_iter().flatten() {
            let holder = path.parent().and_then(|holder| std::fs::canonicalize(holder).ok());
            // Not everything there is.
            let folder = holder.filter(|holder| !is_top(holder)).unwrap_or(path);
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders
}

fn is_top(path: &Path) -> bool {
    path.components().all(|part| part == Component::RootDir)
}

/// Whether `real`, a path without links, lies below one of `folders`.
pub fn reaches(folders: &[PathBuf], real: &Path) -> bool {
    folders.iter().any(|folder| real.starts_with(folder))
}

/// A system call's result; its number if it failed. Async-signal-safe.
fn checked(result: c_long) -> Result<(), i32> {
    // SAFETY: the place is this thread's own.
    if result < 0 { Err(unsafe { *libc::__errno_location() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Folder;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_folder_that_holds_a_release_is_reached_and_not_the_release_alone() {
        let folder = Folder::new("confine-folders");
        let at = |name: &str| folder.0.join(name);
        for name in ["site/1", "site/2", "far/3", "other"] {
            std::fs::create_dir_all(at(name)).expect("made");
        }
        symlink("1", at("site/current")).expect("a link");
        symlink("../far/3", at("site/away")).expect("a link");
        let near = folders(&[at("site/current")]);
        assert_eq!(near, [at("site").canonicalize().expect("there")]);
        let reached = |folders: &[PathBuf], name: &str| reaches(folders, &at(name).canonicalize().expect("there"));
        assert!(reached(&near, "site/2") && !reached(&near, "site/away") && !reached(&near, "other"));
        let away = folders(&[at("site/away")]);
        assert!(reached(&away, "far/3") && reached(&away, "site/1") && !reached(&away, "other"));
        // Never everything.
        assert_eq!(folders(&["/tmp".into()]), [PathBuf::from("/tmp").canonicalize().expect("there")]);
    }
}
