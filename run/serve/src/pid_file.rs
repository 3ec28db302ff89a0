//! The file with the process id.

use rustix::fs::OFlags;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Puts a file with our process id at `path`, whole: a new one, which takes
/// the place of the file or the link there. Nothing that a link leads to is
/// written to: who can make one in that folder would have a file of his choice
/// overwritten, by root perhaps.
///
/// # Errors
/// If there is something else than a file, or a folder cannot be written to.
pub fn write(path: &Path) -> std::io::Result<()> {
    let _asking = helper::waits::on(path);
    match std::fs::symlink_metadata(path) {
        Ok(data) if !data.is_file() && !data.is_symlink() => {
            return Err(Error::new(ErrorKind::AlreadyExists, "it is there, and no file"));
        }
        _ => {}
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    // Of a former process with our id.
    let _ = std::fs::remove_file(&draft);
    // Made anew (O_EXCL), so that no link is followed here either.
    let made = File::options().write(true).create_new(true).mode(0o644).open(&draft);
    let written = made.and_then(|mut file| writeln!(file, "{}", std::process::id()));
    written.and_then(|()| std::fs::rename(&draft, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&draft);
    })
}

/// Removes the file, if it is still ours.
pub fn remove(path: &Path) {
    let _asking = helper::waits::on(path);
    if read(path).is_ok_and(|text| text.trim_end() == std::process::id().to_string()) {
        let _ = std::fs::remove_file(path);
    }
}

/// What is in the file, as far as it can be a number: who may write to the folder may
/// have put a link, a pipe or an endless file there.
fn read(path: &Path) -> std::io::Result<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map(|_| text)
}

/// A number has fewer bytes.
const LONGEST: u64 = 64;

#[cfg(test)]
mod tests {
    use super::super::scratch::Folder;
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn it_holds_our_id_and_goes_while_it_is_ours() {
        let folder = Folder::new("pid-plain");
        let path = folder.0.join("pid");
        // An old one, of a process that was killed.
        std::fs::write(&path, "1234567890 and more\n").expect("written");
        write(&path).expect("written");
        let data = std::fs::metadata(&path).expect("there");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), format!("{}\n", std::process::id()));
        assert_eq!(data.permissions().mode() & 0o777 & !0o644, 0);
        assert_eq!(std::fs::read_dir(&folder.0).expect("a folder").count(), 1, "no draft is left");
        remove(&path);
        assert!(!path.exists());
        // Of our successor.
        std::fs::write(&path, "1\n").expect("written");
        remove(&path);
        assert!(path.exists());
    }

    #[test]
    fn nothing_that_a_link_leads_to_is_touched() {
        let folder = Folder::new("pid-link");
        let (path, victim) = (folder.0.join("pid"), folder.0.join("victim"));
        for text in ["precious".to_owned(), std::process::id().to_string()] {
            std::fs::write(&victim, &text).expect("written");
            let _ = std::fs::remove_file(&path);
            symlink(&victim, &path).expect("a link");
            symlink(&victim, folder.0.join(format!("pid.{}", std::process::id()))).expect("a link");
            remove(&path);
            assert!(path.is_symlink(), "not ours");
            write(&path).expect("written");
            assert!(!path.is_symlink());
            assert_eq!(std::fs::read_to_string(&victim).expect("there"), text);
        }
    }

    /// As somebody may put it there to whom the folder belongs.
    #[test]
    fn what_is_put_in_its_place_holds_nobody_up_and_stays() {
        let folder = Folder::new("pid-held");
        let path = folder.0.join("pid");
        write(&path).expect("written");
        std::fs::rename(&path, folder.0.join("moved")).expect("moved");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .expect("a pipe");
        remove(&path);
        assert!(path.exists(), "nobody writes to the pipe, and nobody waits");
        std::fs::remove_file(&path).expect("removed");
        symlink(folder.0.join("moved"), &path).expect("a link");
        remove(&path);
        assert!(path.is_symlink());
        std::fs::remove_file(&path).expect("removed");
        // It has no end: holes take no room.
        File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("made");
        remove(&path);
        assert!(path.exists());
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let folder = Folder::new("pid-other");
        let path = folder.0.join("pid");
        std::fs::create_dir(&path).expect("a folder");
        assert!(write(&path).is_err() && path.is_dir());
        assert!(write(&folder.0.join("none").join("pid")).is_err());
    }
}
