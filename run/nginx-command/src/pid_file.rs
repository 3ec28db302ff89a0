//! The file with the process id, where others may have had a hand in it: it may
//! stand in a folder that everybody writes to.

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A number has fewer bytes.
const LONGEST: u64 = 64;

/// What stands in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PidText {
    /// Its text, without what ends it.
    pub text: Vec<u8>,
    /// Whose it is: user and group.
    pub owner: (u32, u32),
}

/// Reads it. Nobody's pipe is waited for, and no more read than a number has.
///
/// # Errors
/// It cannot be opened, or is no file.
pub fn read(path: &Path) -> io::Result<PidText> {
    let _asking = helper::waits::on(path);
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(Errno::INVAL.into());
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    text.truncate(text.trim_ascii_end().len());
    Ok(PidText { text, owner: (data.uid(), data.gid()) })
}

/// Finds out whether the file can be made in its folder, and be written: a process
/// whose file is missing cannot be told anything later.
///
/// # Errors
/// Why it cannot.
pub fn can_be_made(path: &Path) -> io::Result<()> {
    let _asking = helper::waits::on(path);
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.new", std::process::id()));
    let draft = Path::new(&draft);
    let _ = std::fs::remove_file(draft);
    let made = File::options().write(true).create_new(true).mode(0o644).open(draft)?;
    let written = (&made).write_all(b"4194304\n").and_then(|()| made.sync_data());
    std::fs::remove_file(draft)?;
    written
}

/// Why a process was not told.
#[derive(Debug)]
pub enum NotTold {
    /// The operating system's answer.
    Refused(Errno),
    /// It is another program: the file is an old one, or somebody else's.
    Other(String),
}

/// Sends a signal to the process that the file names. Where the file is another
/// user's than root's, no more is told than that user may tell: whoever writes a
/// number there would have root end any process else.
///
/// # Errors
/// It was not told.
pub fn tell(pid: Pid, owner: (u32, u32), signal: Signal) -> Result<(), NotTold> {
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(NotTold::Refused)?;
    // The number is that process's from here on. Without /proc nobody knows.
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok();
    if let Some(name) = name.map(|name| name.trim_end().to_owned())
        && !matches!(name.as_str(), "nginx" | "nearside")
    {
        return Err(NotTold::Other(name));
    }
    let send = || pidfd_send_signal(&process, signal);
    let told = if rustix::process::geteuid().is_root() && owner.0 != 0 { as_owner(owner, send) } else { send() };
    told.map_err(NotTold::Refused)
}

/// With a user's rights, on a thread that has no others.
fn as_owner(owner: (u32, u32), act: impl FnOnce() -> rustix::io::Result<()> + Send) -> rustix::io::Result<()> {
    std::thread::scope(|scope| {
        let acted = scope.spawn(|| {
            let (uid, gid) = (rustix::process::Uid::from_raw(owner.0), rustix::process::Gid::from_raw(owner.1));
            set_thread_groups(&[])?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
            act()
        });
        acted.join().unwrap_or(Err(Errno::PERM))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// A process of the name `nginx` that ends with the test.
    struct Decoy(Child, std::path::PathBuf);

    impl Decoy {
        fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("nearside-pid-{test}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).expect("a folder");
            // By a process of its own: a file that this one had open to write would be
            // open in whatever another test forks just then, and could not be executed.
            let copied = Command::new("cp").arg("/bin/sleep").arg(folder.join("nginx")).status().expect("it starts");
            assert!(copied.success());
            let child = Command::new(folder.join("nginx")).arg("600").spawn().expect("it starts");
            // It has this test's name until it has become the other program.
            let comm = format!("/proc/{}/comm", child.id());
            let is_it = || std::fs::read(&comm).is_ok_and(|name| name == b"nginx\n");
            assert!((0..10_000).any(|_| is_it() || {
                std::thread::sleep(core::time::Duration::from_millis(1));
                false
            }));
            Self(child, folder)
        }

        fn pid(&self) -> Pid {
            Pid::from_child(&self.0)
        }
    }

    impl Drop for Decoy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
            let _ = std::fs::remove_dir_all(&self.1);
        }
    }

    #[test]
    fn a_signal_goes_no_further_than_the_files_owner_could_send_it() {
        let mut decoy = Decoy::new("owner");
        if rustix::process::geteuid().is_root() {
            let refused = tell(decoy.pid(), (4321, 4321), Signal::TERM);
            assert!(matches!(refused, Err(NotTold::Refused(Errno::PERM))), "{refused:?}");
            assert!(decoy.0.try_wait().expect("asked").is_none());
        }
        let us = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        tell(decoy.pid(), us, Signal::TERM).expect("told");
        assert!(!decoy.0.wait().expect("it ends").success());
    }

    #[test]
    fn another_program_is_not_told() {
        let mut other = Command::new("sleep").arg("600").spawn().expect("it starts");
        // Its name is this program's until it has become the other.
        let refused = tell(Pid::from_child(&other), (0, 0), Signal::TERM);
        assert!(matches!(refused, Err(NotTold::Other(_))), "{refused:?}");
        assert!(other.try_wait().expect("asked").is_none());
        other.kill().and_then(|()| other.wait()).expect("it ends");
        let gone = tell(Pid::from_child(&other), (0, 0), Signal::TERM);
        assert!(matches!(gone, Err(NotTold::Refused(Errno::SRCH))), "{gone:?}");
    }

    #[test]
    fn what_is_no_file_is_not_waited_for_and_a_long_one_not_read() {
        let folder = std::env::temp_dir().join(format!("nearside-pid-read-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("pid");
        let made = Command::new("mkfifo").arg(&path).status().expect("it starts");
        assert!(made.success() && read(&path).is_err());
        std::fs::remove_file(&path).expect("it goes");
        assert!(read(Path::new("/dev/zero")).is_err());
        std::fs::write(&path, "7".repeat(1_000)).expect("written");
        assert_eq!(read(&path).expect("read").text.len() as u64, LONGEST);
        std::fs::write(&path, "7\n").expect("written");
        assert_eq!(read(&path).expect("read").text, b"7");
        can_be_made(&path).expect("it can");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1);
        assert!(can_be_made(&folder.join("none/pid")).is_err());
        let _ = std::fs::remove_dir_all(&folder);
    }
}
